"""Push of a finished dataset folder, unchanged, in one commit of a dataset repository on the Hub.

Before anything is sent, the push checks that the files match the manifest, that the recipe allows their licences to be
published, that neither scrubbing nor another scanner finds a secret in them, and what the repository holds. Files that
are there already are not sent. Files of an earlier push that this dataset lacks are removed. Files that somebody else
put there stay, or the push is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from trajmill.pipelines.mix.sample_columns import images_in
from trajmill.pipelines.publish.card import DESCRIBED_IN
from trajmill.pipelines.publish.dataset import samples_in
from trajmill.pipelines.publish.hub.repository import NOTHING, Head, Repository, Stored
from trajmill.pipelines.publish.hub.secret_scan import Found, find_secrets
from trajmill.pipelines.publish.licences import COUNTED
from trajmill.pipelines.recipe.recipe import POOLS
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.units import MANIFEST, check_file, read_manifest
from trajmill.schemas import ConfigError, ShardError
from trajmill.schemas.manifest import PROGRAM_VERSION, Manifest

_EXAMPLES: Final = 3
_TOLD: Final = 50
"""Number of scanned files between two reports of progress."""

_MOST: Final = 10_000
"""Number of findings after which the scan stops."""

_BLOB: Final = 10 << 20
"""Largest size in bytes of a file that the Hub stores as a plain blob."""


@dataclass(frozen=True, slots=True)
class Request:
    """Options of a push.

    Attributes:
        allowed_licences: licences under which rows may be published, as the rows state them.
        allowed: digests of findings that a person has reviewed.
        images: whether samples may show screenshots.
        private: whether a new repository is private; None is the owner's default.
        tag: tag of the commit; none if empty.
        replace: whether to replace files that others put in the place of ours.
        dry_run: whether to change nothing.
    """

    allowed_licences: frozenset[str]
    allowed: frozenset[str] = frozenset()
    images: bool = False
    private: bool | None = None
    tag: str = ""
    replace: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Pushed:
    """Result of a push, or of a dry run.

    Attributes:
        commit: commit that holds the dataset; empty if nothing was done.
        sent: bytes of each sent file, by name.
        standing: number of files that were there already.
        made: whether the repository is new.
        tag: the tag that was set.
        allowed: number of findings that were allowed.
    """

    url: str
    commit: str
    sent: Mapping[str, int]
    standing: int
    removed: tuple[str, ...]
    made: bool
    tag: str
    allowed: int


class FindingsError(ConfigError):
    """Error for files with texts that look like secrets and that nobody has allowed."""

    def __init__(self, findings: tuple[Found, ...]) -> None:
        super().__init__(
            f"Nothing was sent: {len(findings):,} texts in what is to be published look like secrets. Look "
            "at each; what is no secret can be allowed by its digest: --allow-finding, or a file of --allow-findings."
        )
        self.found = findings


@dataclass(frozen=True, slots=True)
class _Difference:
    """Difference between a repository and the dataset."""

    sent: dict[str, str] = field(default_factory=dict)
    """Sha256 by name."""
    standing: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    """Files of others in the place of ours, or where they would be loaded with ours."""


def push(shards: Folder, repository: Repository, request: Request, tell: Callable[[str], None]) -> Pushed:
    """Push a dataset folder.

    Args:
        tell: function that is called with a line on the progress.

    Raises:
        ConfigError: the dataset may not be published, or the Hub refuses it; nothing was changed there.
        FindingsError: a text looks like a secret.
        ShardError: a file differs from the manifest, or the Hub does not answer; repeating the push resumes it.
    """
    manifest = manifest_of(shards)
    check_licences(manifest, request.allowed_licences)
    shown = images_in(manifest.counts)
    if shown and not request.images:
        raise ConfigError(
            f"Nothing was sent: the samples show {shown:,} screenshots, and no picture is scrubbed. Look at what they "
            "show; `card: {images: true}` in the recipe lets them be published."
        )
    head = _head(repository, request, tell)
    difference = _compare(shards, manifest, repository, head)
    if difference.foreign and not request.replace:
        raise ConfigError(_foreign(difference.foreign, repository))
    is_same = not (difference.sent or difference.removed)
    if request.tag in head.tags and not (is_same and head.tags[request.tag] == head.commit):
        raise ConfigError(f"{repository.name} has a tag '{request.tag}' already, of another state. Choose another.")
    if difference.sent:
        tell(f"looking through {len(difference.sent):,} files to send; {len(difference.standing):,} are there already")
    allowed = _check_secrets(shards, difference.sent, request.allowed, tell)
    sizes = {name: shards.size(name) for name in sorted(difference.sent)}
    removed = tuple(sorted(difference.removed))
    commit, is_new = head.commit, not head.exists
    if not request.dry_run:
        if not is_same:
            repository.make(head, private=request.private)
            commit = _send(shards, repository, head, difference, manifest, tell)
        if request.tag and request.tag not in head.tags:
            repository.tag(request.tag, commit)
    return Pushed(
        repository.url,
        "" if request.dry_run else commit,
        sizes,
        len(difference.standing),
        removed,
        is_new,
        request.tag,
        allowed,
    )


def _head(repository: Repository, request: Request, tell: Callable[[str], None]) -> Head:
    """Return the head of the repository. A dry run without access to the Hub assumes an empty repository."""
    try:
        return repository.head()
    except ShardError as error:
        if not request.dry_run:
            raise
        tell(f"{error} Told is what would be done if nothing were there.")
        return NOTHING


def manifest_of(shards: Folder) -> Manifest:
    """Return the manifest of a dataset folder.

    Raises:
        ConfigError: it is not a finished dataset on this machine.
    """
    if not shards.is_local:
        raise ConfigError("Only a folder on this machine can be pushed. Copy the shards here.")
    manifest = read_manifest(shards, MANIFEST)
    if manifest is None or manifest.stage != "mix" or manifest.unit:
        raise ConfigError(f"{shards.path()} holds no finished dataset: wanted the shards folder of a run.")
    for file in manifest.files:
        if file.name.startswith("/") or ".." in file.name.split("/"):
            raise ConfigError(f"The manifest in {shards.path()} lists a file outside of it: {file.name}.")
    return manifest


def check_licences(manifest: Manifest, allowed: frozenset[str]) -> None:
    """Check that every licence of the dataset's samples is allowed.

    Raises:
        ConfigError: a licence is not allowed, or the manifest does not state licences.
    """
    counts = {key.removeprefix(COUNTED): count for key, count in manifest.counts.items() if key.startswith(COUNTED)}
    if not counts and samples_in(manifest.counts):
        raise ConfigError(
            "The manifest does not tell the licences of the samples: an earlier version wrote it. Run again."
        )
    refused = {name: count for name, count in counts.items() if name not in allowed}
    if refused:
        described = ", ".join(f"'{name}' ({count:,} samples)" for name, count in sorted(refused.items()))
        by = ", ".join(f"'{licence}'" for licence in sorted(allowed)) or "none"
        raise ConfigError(
            f"Nothing was sent: the recipe does not let rows of these licences be published: {described}; "
            f"it names {by}. Name what may be in `licence` or in `card.licences`, or take the rows out with "
            "`trajmill forget`."
        )


def _compare(shards: Folder, manifest: Manifest, repository: Repository, head: Head) -> _Difference:
    """Compare the dataset with the repository: files to send and to remove, and files in the way."""
    data = shards.read(MANIFEST)
    ours = {file.name: file.sha256 for file in manifest.files} | {MANIFEST: hashlib.sha256(data).hexdigest()}
    earlier = _earlier(repository, head)
    difference = _Difference()
    for name, sha256 in ours.items():
        there = head.files.get(name)
        if there is not None and _is(there, shards, name, sha256):
            difference.standing.append(name)
            continue
        difference.sent[name] = sha256
        if there is not None and name != MANIFEST and not _as_left(there, earlier.get(name), name, repository, head):
            difference.foreign.append(name)
    for name in sorted(head.files.keys() - ours.keys()):
        if name in earlier and (name in DESCRIBED_IN or name.partition("/")[0] in POOLS):
            is_ours = _as_left(head.files[name], earlier[name], name, repository, head)
            difference.removed.append(name)
            difference.foreign.extend([] if is_ours else [name])
        elif name.partition("/")[0] in POOLS:
            difference.removed.append(name)
            difference.foreign.append(name)
    return difference


def _earlier(repository: Repository, head: Head) -> dict[str, str]:
    """Return the sha256 by name of the files that the previous push left, from its manifest."""
    if MANIFEST not in head.files:
        return {}
    try:
        return {file.name: file.sha256 for file in Manifest.from_json(repository.read(MANIFEST, head.commit)).files}
    except (ValueError, KeyError, TypeError):
        return {}


def _is(there: Stored, shards: Folder, name: str, sha256: str) -> bool:
    """Return True if the Hub holds the exact bytes that the manifest lists for a file."""
    if there.sha256:
        return there.sha256 == sha256
    if there.bytes != shards.size(name):
        return False
    data = shards.read(name)
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return hashlib.sha256(data).hexdigest() == sha256 and blob == there.blob


def _as_left(there: Stored, sha256: str | None, name: str, repository: Repository, head: Head) -> bool:
    """Return True if a file is as an earlier push left it."""
    if sha256 is None or there.sha256:
        return there.sha256 == sha256
    return there.bytes <= _BLOB and hashlib.sha256(repository.read(name, head.commit)).hexdigest() == sha256


def _foreign(names: Iterable[str], repository: Repository) -> str:
    some = sorted(names)
    listed = ", ".join(some[:_EXAMPLES]) + (f" and {len(some) - _EXAMPLES:,} more" if len(some) > _EXAMPLES else "")
    return (
        f"Nothing was sent: in {repository.name} stand files that no push of this dataset left there, or that were "
        f"changed since: {listed}. Take another name or branch, or replace them with --replace."
    )


def _check_secrets(
    shards: Folder, sent: Mapping[str, str], allowed: frozenset[str], tell: Callable[[str], None]
) -> int:
    """Scan the files to send for secrets; return the number of allowed findings.

    Raises:
        FindingsError: some findings are not allowed.
        ShardError: a file differs from the manifest.
    """
    for name, sha256 in sent.items():
        check_file(shards, name, sha256)
    count, refused = 0, list[Found]()
    order = sorted(sent, key=lambda name: ("/" not in name, name))  # rows first: there they can be looked at
    for number, name in enumerate(order):
        if number and number % _TOLD == 0:
            tell(f"looked through {number:,} of {len(order):,} files")
        for finding in find_secrets(shards, name):
            count += 1
            refused += [] if finding.digest in allowed else [finding]
            if len(refused) == _MOST:
                raise FindingsError(tuple(refused))
    if refused:
        raise FindingsError(tuple(refused))
    return count


def _send(
    shards: Folder,
    repository: Repository,
    head: Head,
    difference: _Difference,
    manifest: Manifest,
    tell: Callable[[str], None],
) -> str:
    """Send the difference; return the commit that holds the dataset.

    Raises:
        ShardError: the Hub then holds something else than the dataset.
    """
    total = len(difference.sent)
    files = {name: (str(Path(shards.path(name))), sha256) for name, sha256 in difference.sent.items()}
    message = f"trajmill {PROGRAM_VERSION}: {manifest.digest[:16]}"
    parent = head.commit or repository.head().commit  # of one that was just made
    commit = repository.commit(
        parent, files, difference.removed, message, lambda done: tell(f"uploaded {done:,} of {total:,} files")
    )
    there = repository.head().files
    wrong = [
        name
        for name, digest in difference.sent.items()
        if name not in there or not _is(there[name], shards, name, digest)
    ]
    if wrong:
        raise ShardError(f"The Hub holds other bytes than were sent, of {wrong[0]} and {len(wrong) - 1:,} more files.")
    return commit
