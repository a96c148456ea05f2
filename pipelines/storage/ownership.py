"""Ownership of the files in an output folder.

A run lists its files by name before it writes them; all others are foreign.

The list is in the owner's marker, `trajmill.json`. Only listed files are ever replaced or removed, so a folder with any
other file, or of another run, is refused before a byte is written. See docs/decisions/output-folder.md.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from fsspec.utils import glob_translate

from trajmill.pipelines.storage.folders import MARKER, Folder, OvertakenError, is_unfinished
from trajmill.pipelines.storage.object_store import forget
from trajmill.pipelines.storage.paths import JUNK, local_path, url_of
from trajmill.pipelines.storage.scratch import scratch_folder
from trajmill.pipelines.storage.units import MANIFEST
from trajmill.schemas import ConfigError, ShardError
from trajmill.schemas.manifest import PROGRAM_VERSION

if TYPE_CHECKING:
    from trajmill.pipelines.recipe.recipe import Recipe

LOCK: Final = ".lock"
SPILL: Final = "spill"
LAYOUT: Final = 2
"""Version of the layout of an output folder."""

PLAN: Final = "plan.json"
RUN: Final = "run.json"
REPORT: Final = "report.html"
RECIPE: Final = "recipe.yaml"
"""Recipe of a run that was given only logs. It belongs to the user from then on, and is never replaced."""

CHECKSUMS: Final = "checksums.json"
"""File with the sha256 of each file that no manifest names, in an idle local folder."""

_ALWAYS: Final = frozenset({MARKER, LOCK, PLAN, RUN, REPORT, CHECKSUMS})
_SPILLED: Final = re.compile(SPILL + r"/(?:[a-z_]+/)?spill-\d+\.blocks")
BLOBS: Final = "blobs"
_BLOB: Final = re.compile(BLOBS + r"/[0-9a-f]{64}")
"""Pattern of a file named by the digest of its own bytes, which is unknown before it is written.

It is ours if the marker lists the manifest of its folder, as it does before the first such file is written.
"""

_OF_GENERATIONS: Final = re.compile(r"generations/(?:[a-z]+\.json|(?:\d{4}|[0-9a-f]{16})/.*)", re.DOTALL)
"""Pattern of files that were appended to the folder later; `generations` and the runs that made them handle them."""

_LEDGER: Final = re.compile(r"ledgers/[a-z]+(?:-\d{4})?\.parquet")
_GENERATION: Final = re.compile(r".*/generations/[0-9a-f]{16}/?", re.DOTALL)
"""Patterns of a ledger and of the folder of a generation. Ledgers are written there when its run is over."""

_TOLERATED: Final = re.compile(rf"(?:.*/)?\.cache/huggingface/.*|{re.escape(RECIPE)}")
"""Pattern of files that loaders leave in a folder they read from, and of the user's recipe. They are never touched."""

_HOLDER: Final = re.compile(rb"(?:process \d+)?")
"""Content of a lock. A file of that name with any other content belongs to somebody else."""

_CHECKED: Final = (".json", ".log")
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Identity:
    """Values that identify a run. A second run with the same values continues the first.

    Attributes:
        raw: digest of the paths of the raw logs.
        normalize: digest of the section `normalize`, without the bounds that only end a run.
    """

    recipe: str
    raw: str
    normalize: str

    @classmethod
    def of(cls, recipe: Recipe, raws: Sequence[str]) -> Identity:
        """Build the identity of a recipe over raw arguments in any order."""
        roots = sorted({_whole(raw) for raw in raws})
        return cls(recipe.name, hashlib.sha256(json.dumps(roots).encode()).hexdigest(), recipe.reading_digest())

    def difference(self, existing: Identity) -> str:
        """Describe to a person the difference from another run."""
        if existing.recipe != self.recipe:
            return f"the recipe '{existing.recipe}'"
        return "other raw logs" if existing.raw != self.raw else "another normalize section of the recipe"


@dataclass(slots=True)
class Survey:
    """Files of an output folder, by their owner.

    Attributes:
        identity: identity of its run; None if it belongs to none.
        listed: names in the marker, whether the files exist or not.
        ours: names of our files that exist.
        foreign: names of all other files.
        generations: whether later generations were appended or begun; their files are in no list here.
    """

    identity: Identity | None = None
    listed: set[str] = field(default_factory=set)
    ours: set[str] = field(default_factory=set)
    foreign: list[str] = field(default_factory=list)
    generations: bool = False


def _whole(raw: str) -> str:
    """Resolve a raw argument or folder, so that it is independent of the working folder."""
    return raw.rstrip("/") if url_of(raw) is not None else local_path(raw)


def survey(out: Folder) -> Survey:
    """Survey the files of the folder without writing.

    Raises:
        ConfigError: it is no folder, or cannot be listed, or a later trajmill made it.
    """
    result = Survey()
    if out.is_local and not Path(out.path()).is_dir():
        if os.path.lexists(out.path()):
            raise ConfigError(f"{out.path()} cannot be an output folder: it is a file.")
        return result
    if out.is_local and not os.access(out.path(), os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError(f"{out.path()} cannot be an output folder: it may not be read and written.")
    names = out.names(unfinished=True)
    result.generations = any(map(_OF_GENERATIONS.fullmatch, names))
    names = [name for name in names if not _OF_GENERATIONS.fullmatch(name)]
    values = _marker(out)
    if values is not None:
        if values["layout"] > LAYOUT:
            raise ConfigError(
                f"{out.path()} was made by trajmill {values['program']}, whose layout this one ({PROGRAM_VERSION}) "
                "does not know. Choose another --out, or use that version."
            )
        result.identity, result.listed = Identity(**values["identity"]), {*_ALWAYS, *values["names"]}
    elif LOCK in names and _HOLDER.fullmatch(out.read(LOCK)):  # a run that was killed before it wrote its marker
        result.listed = {LOCK}
    result.listed |= set(filter(_BLOB.fullmatch, names)) if f"{BLOBS}/{MANIFEST}" in result.listed else set()
    if _GENERATION.fullmatch(out.url):
        result.listed |= set(filter(_LEDGER.fullmatch, names))
    for name in names:
        if name in result.listed or is_unfinished(name) or _SPILLED.fullmatch(name):
            result.ours.add(name)
        elif not _TOLERATED.fullmatch(name) and JUNK.isdisjoint(PurePosixPath(name).parts):
            result.foreign.append(name)
    return result


def unlike_checksums(out: Folder) -> list[str]:
    """List files that have changed since the last run in a folder ended; empty while a run is at work."""
    data = out.found(CHECKSUMS)
    if data is None:
        return []
    try:
        checksums = dict(json.loads(data))
    except (ValueError, TypeError):
        return [CHECKSUMS]
    return [name for name, sha256 in checksums.items() if out.sha256(name) != sha256]


def identity_of(out: Folder) -> Identity | None:
    """Return the identity in a folder's marker; None if there is no readable marker."""
    if out.is_local:
        return survey(out).identity
    values = _marker(out)
    return None if values is None else Identity(**values["identity"])


def _marker(out: Folder) -> dict[str, Any] | None:
    """Read the marker; None if there is none that is readable."""
    return _read_marker(out.found(MARKER))


def _read_marker(data: bytes | None) -> dict[str, Any] | None:
    if data is None:
        return None
    try:
        values = json.loads(data)
        Identity(**values["identity"])
        return values if isinstance(values["layout"], int) and isinstance(values["names"], list) else None
    except (ValueError, KeyError, TypeError):
        return None


class Ownership:
    """Ownership of a run's output folder, from before its first write to its end.

    Args:
        overwrite: whether an existing run of trajmill in it is replaced.
        adding: whether a generation is appended to the existing run, of which nothing is replaced.
        alone: for an append, whether no other may append at the same time, which an object store otherwise allows.
    """

    def __init__(
        self, out: Folder, identity: Identity, *, overwrite: bool = False, adding: bool = False, alone: bool = False
    ) -> None:
        self.out, self.identity, self.overwrite, self.adding = out, identity, overwrite, adding
        self._joining = adding and not alone
        self.token = token_hex(16)
        self._names: set[str] = set()
        self._made: list[str] = []
        self._version = ""
        self._stale = False
        self._scratch = ""
        self._ends = ExitStack()

    def check(self, raws: Sequence[str]) -> Survey:
        """Survey the folder if this run may have it, without writing.

        Raises:
            ConfigError: it may not: the folder is inside the raw logs, holds files of no run, holds another run, or is
                in use.
        """
        self._check_apart(raws)
        forget()  # what an earlier run of this process read
        content = survey(self.out)
        where = self.out.path()
        if content.foreign:
            shown = ", ".join(repr(name) for name in content.foreign[:_SHOWN])
            more = f" and {len(content.foreign) - _SHOWN} more" if len(content.foreign) > _SHOWN else ""
            raise ConfigError(
                f"{where} holds files that no run wrote: {shown}{more}. Choose another --out, or move them away; they "
                "are never touched, with --overwrite either."
            )
        if content.generations and not self.adding:
            raise ConfigError(
                f"{where} holds generations that were added to a run, which stay as they are. Add to it with --append, "
                "or choose another --out."
            )
        if content.identity not in (None, self.identity) and not self.overwrite:
            raise ConfigError(
                f"{where} holds another run: of {self.identity.difference(content.identity)}. Choose another --out, or "
                "replace it with --overwrite."
            )
        self._check_free()
        return content

    def _check_apart(self, raws: Sequence[str]) -> None:
        """Refuse a folder that is, is inside, or contains raw logs.

        A pattern counts for every path that it can match.
        """
        out = PurePosixPath(_real(self.out.url))
        around = [str(out), *map(str, out.parents)]
        for raw in raws:
            root = _real(raw.rstrip("/") or "/")
            pattern = re.compile("$^" if Folder(raw).exists() else glob_translate(root))
            if any(folder == root or pattern.match(folder) or pattern.match(f"{folder}/") for folder in around):
                raise ConfigError(
                    f"The output folder {self.out.path()} lies in the raw logs '{raw}': the next run would read what "
                    "this one writes. Choose an --out beside them."
                )
            if root.startswith(f"{out}/"):
                raise ConfigError(
                    f"The raw logs '{raw}' lie in the output folder {self.out.path()}, which is for what a run writes. "
                    "Choose another --out."
                )

    def _check_free(self) -> None:
        """Refuse a folder that a running process holds."""
        if self.out.is_local:
            with suppress(FileNotFoundError), open(self.out.path(LOCK), "rb") as stream:
                self._lock(stream, fcntl.LOCK_SH)

    def _lock(self, stream: Any, how: int) -> None:
        try:
            fcntl.flock(stream, how | fcntl.LOCK_NB)
        except BlockingIOError as error:
            stream.seek(0)
            holder = stream.read()
            holder = holder.decode("utf-8", "replace") if isinstance(holder, bytes) else holder
            raise ConfigError(
                f"{self.out.path()} is in use by a run of {holder.strip() or 'another process'}. Wait for it, or "
                "choose another --out."
            ) from error

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder for this run: create it, lock it, mark it, and remove the leftovers of a killed run.

        Only local folders are locked, since object stores have no lock that ends with a process. A folder that this run
        created is removed again if it ends before `keep` is called.

        Raises:
            ConfigError: the folder cannot be created, or is in use.
        """
        self._make()
        try:
            with self._locked():
                self._version = self.out.version(MARKER)  # who writes it from now on is met by our own first write
                content = survey(self.out)
                if content.foreign:  # since it was checked
                    raise ConfigError(f"{self.out.path()} holds a file that no run wrote: {content.foreign[0]!r}.")
                try:
                    self._take(content)
                    yield
                    if self._stale:
                        self._write_marker()
                    self._write_checksums()
                except BaseException:
                    if self._made:
                        self._remove({*self._names, *_ALWAYS})
                    else:
                        with suppress(OSError, ShardError):  # what ended the run may keep it from writing
                            self._write_checksums()
                    raise
        finally:
            for folder in reversed(self._made):
                with suppress(OSError):
                    os.rmdir(folder)

    def _make(self) -> None:
        if not self.out.is_local:
            return
        folder = Path(self.out.path())
        missing = [ancestor for ancestor in (folder, *folder.parents) if not ancestor.exists()]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{folder} cannot be an output folder: {error.strerror}.") from error
        self._made = [str(ancestor) for ancestor in reversed(missing)]

    @contextmanager
    def shared(self, names: Iterable[str]) -> Iterator[None]:
        """Hold the folder for a share of this run's work, beside processes that do other shares.

        A run that holds the folder excludes shares, and shares exclude a run. Each share lists the names of all shares,
        which are the same, so that the last writer of the marker loses no name of another. Where the file system locks
        folders, they write one after the other. Nothing is removed, since apparent leftovers may belong to another
        share.

        Args:
            names: names that all shares may write, relative to the folder.

        Raises:
            ConfigError: the folder cannot be created, is in use by a run, or belongs to another run by now.
        """
        self._make()
        self.keep()
        with self._locked(fcntl.LOCK_SH):
            with self._marking():
                values = _marker(self.out)
                if values is not None:
                    marked = Identity(**values["identity"])
                    if marked != self.identity:
                        difference = self.identity.difference(marked)
                        raise ConfigError(
                            f"{self.out.path()} holds another run: of {difference}. Choose another --out."
                        )
                    self.token, self._names = values.get("token", self.token), set(values["names"])
                if values is None or set(names) - self._names:
                    self._names |= set(names)
                    self._write_marker()
            yield

    @contextmanager
    def _marking(self) -> Iterator[None]:
        """Keep other shares of this run from writing the marker within the block."""
        if not self.out.is_local:
            yield
            return
        lock = os.open(self.out.path(), os.O_RDONLY)
        try:
            with suppress(OSError):  # file systems of a network may lock no folders
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    @contextmanager
    def _locked(self, how: int = fcntl.LOCK_EX) -> Iterator[None]:
        if not self.out.is_local:
            yield
            return
        try:
            stream = open(self.out.path(LOCK), "a+")  # noqa: SIM115 - closed below
        except OSError as error:
            raise ConfigError(f"{self.out.path()} cannot be an output folder: {error.strerror}.") from error
        with stream:
            self._lock(stream, how)
            stream.truncate(0)
            if how == fcntl.LOCK_EX:
                stream.write(f"process {os.getpid()}")
                stream.flush()
            yield

    def _take(self, content: Survey) -> None:
        """Mark the folder as this run's, and remove files that it does not continue."""
        blobs = {name for name in content.ours if _BLOB.fullmatch(name)}
        self._names = {name for name in content.ours if not is_unfinished(name) and not _SPILLED.fullmatch(name)}
        self._names = self._names - blobs - _ALWAYS | ({f"{BLOBS}/{MANIFEST}"} if blobs else set())
        self._write_marker()
        self.out.remove(CHECKSUMS)
        leftovers = {name for name in content.ours if is_unfinished(name) or _SPILLED.fullmatch(name)}
        replaced = content.identity not in (None, self.identity)
        self._remove({*leftovers, *(self._names | blobs | {PLAN, RUN, REPORT} if replaced else ())})
        if replaced:
            self._names = set()
            self._write_marker()

    def _write_marker(self) -> None:
        while True:
            try:
                self._version = self.out.write_over(MARKER, self._marker_of_this(), self._version)
                break
            except OvertakenError:
                if not self._joining or not self._joins():
                    raise
        self._stale = False

    def _write_checksums(self) -> None:
        """Write the checksums of the files that no manifest names.

        Those of a generation are stored with those of its run.
        """
        if self.out.is_local and not _GENERATION.fullmatch(self.out.url):
            names = [name for name in self.out.names() if name.endswith(_CHECKED) and not _TOLERATED.fullmatch(name)]
            checksums = {name: self.out.sha256(name) for name in names if name != CHECKSUMS}
            self.out.write(CHECKSUMS, json.dumps(checksums, indent=0).encode() + b"\n")

    def _joins(self) -> bool:
        """Take over the names in the current marker if another append wrote it; return True if so.

        In an object store two processes may append at once. Their generations have their own folders, and their writes
        into this one are derived from committed data.
        """
        data, self._version = self.out.latest(MARKER)
        values = _read_marker(data)
        if values is None or not values.get("adding") or Identity(**values["identity"]) != self.identity:
            return False
        self._names |= set(values["names"])
        return True

    def let_join(self) -> None:
        """Allow other appends at the same time from now on, in a store where this run had the folder alone."""
        self._joining = self.adding
        self._stale = True

    def renew(self) -> None:
        """Prove that no other run has taken a folder in a store, and show that this one is at work there.

        Raises:
            OvertakenError: another run has taken it.
        """
        if not self.out.is_local:
            self.token = token_hex(16)  # else a store may take the same bytes for no other version
            self._write_marker()

    def _marker_of_this(self) -> bytes:
        values = {
            "layout": LAYOUT,
            "program": PROGRAM_VERSION,
            "identity": asdict(self.identity),
            "token": self.token,
            "names": sorted(self._names),
            **({"adding": True} if self._joining else {}),
        }
        return json.dumps(values, indent=0).encode() + b"\n"

    def _remove(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            self.out.remove(name)

    def keep(self) -> None:
        """Record that the folder holds work, which stays however the run ends."""
        self._made = []

    def intend(self, names: Iterable[str]) -> None:
        """List files that are about to be written, by name relative to the folder."""
        fresh = set(names) - self._names - _ALWAYS
        if fresh:
            self._names |= fresh
            self._write_marker()

    def prune(self, folders: Sequence[str], wanted: Iterable[str]) -> None:
        """Remove our files in these folders that are not wanted.

        Args:
            folders: folders relative to the output folder, without a slash at the end.
            wanted: names relative to the output folder.
        """
        lead = tuple(f"{folder}/" for folder in folders)
        mine = {name for name in self._names if name.startswith(lead)}
        if BLOBS in folders:
            mine |= {
                name for name in (f"{BLOBS}/{blob}" for blob in (self.out / BLOBS).names()) if _BLOB.fullmatch(name)
            }
        gone = mine - set(wanted)
        if gone:
            self._remove(gone if self.out.is_local else gone & self._there(folders, gone))
            self._names -= gone
            self._stale = True

    def _there(self, folders: Sequence[str], names: Iterable[str]) -> set[str]:
        """Return the names of all existing files in those folders that contain any of the names."""
        some = [folder for folder in folders if any(name.startswith(f"{folder}/") for name in names)]
        return {f"{folder}/{name}" for folder in some for name in (self.out / folder).names()}

    @property
    def spill(self) -> Folder:
        """Folder in which workers of this machine spill blocks.

        It is in the output folder, or on the local disk if the output folder is in a store.
        """
        if self.out.is_local:
            return self.out / SPILL
        if not self._scratch:
            self._scratch = self._ends.enter_context(scratch_folder())
        return Folder(self._scratch)

    def make_spill(self) -> None:
        """Create the folder of spill files, which only the user may enter. It is removed at the end if it is empty."""
        Path(self.spill.path()).mkdir(mode=0o700, exist_ok=True)

    def clear_spill(self) -> None:
        """Remove the spill files and their folder."""
        if not self.out.is_local:
            self._ends.close()
            self._scratch = ""
            return
        names = (f"{SPILL}/{name}" for name in (self.out / SPILL).names())
        self._remove(name for name in names if _SPILLED.fullmatch(name))
        with suppress(OSError):
            os.rmdir(self.out.path(SPILL))


def _real(raw: str) -> str:
    """Resolve a raw argument or folder; a local one with its links resolved."""
    return _whole(raw) if url_of(raw) is not None else os.path.realpath(local_path(raw))


def is_held(out: Folder, token: str) -> bool:
    """Return True if a worker sees the folder that the run with this token holds."""
    values = _marker(out)
    return values is not None and values.get("token") == token
