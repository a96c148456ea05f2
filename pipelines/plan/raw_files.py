"""Raw files: the files that the arguments of a run name, on any file system and on the Hub.

Only names, sizes and links are read here, and the card of a published data set; `plan` looks at the content of files.
"""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import takewhile
from math import inf
from typing import Any, Final

from fsspec.utils import glob_translate

from trajmill.connectors.connector import Connector, Log
from trajmill.pipelines.plan import hub_layout as hub
from trajmill.pipelines.recipe.columns import WHOLE, Dataset
from trajmill.pipelines.storage.compression import COMPRESSIONS
from trajmill.pipelines.storage.folders import why
from trajmill.pipelines.storage.paths import JUNK, Place, filesystem_of, local_path, opened, text_of, url_of
from trajmill.schemas import ConfigError, ShardError

_HOMES: Final = ("/home", "/Users")

_LISTED_AT_ONCE: Final = 16
"""Number of folders of an object store, or blocks of files, that are listed at once.

Each may take a network request.
"""

_BLOCK: Final = 100
"""Number of files in a block."""

NOT_OPENED: Final = {
    "outside_root": "links lead out of the folder that was named; only what lies in it is read",
    "not_a_file": "it is a pipe, a device, or a link to a folder or to nothing",
    "unreadable": "whoever runs this may not read it, or it is gone",
}
"""Descriptions of the reasons for which a file is not opened."""


@dataclass(frozen=True, slots=True)
class RawFile:
    """A raw file.

    Attributes:
        name: name relative to its root, as text (see `paths.text_of`).
        changed: its time of change; 0 if unknown.
        licence: licence on the card of its data set.
        fault: why it must not be opened, a key of `NOT_OPENED`; empty if it may be.
        root: path of the folder, or of the archive, below which it was found.
        touched: time of the last change of its bytes or its name, in seconds of its file system's clock; 0 if `changed`
            differs after every change, infinite if unknown.
    """

    name: str
    place: Place
    bytes: int
    changed: str
    licence: str | None = None
    fault: str = ""
    root: str = ""
    touched: float = inf


def _literal_root(pattern: str) -> str:
    """Return the folder above the first wildcard of a glob pattern."""
    names = pattern.split("/")
    wild = next((i for i, name in enumerate(names) if _is_wild(name)), len(names) - 1)
    return "/".join(names[:wild])


def _is_wild(name: str) -> bool:
    return any(c in name for c in "*?[")


def _relative(path: str, root: str) -> str:
    return text_of(path[len(root) :].lstrip("/"))


def _local(raw: str) -> tuple[str, list[RawFile]] | None:
    """Return the root and the files of a local path or pattern; None if there is nothing."""
    path = local_path(raw)
    if os.path.isdir(path):
        return path, _below(path, path)
    if os.path.exists(path):
        folder = os.path.dirname(path)
        return folder, [_local_file(path, folder, named=True)]
    if not _is_wild(path):
        return None
    root = _literal_root(path) or "/"
    return root, _below(root, root, path)


def _below(folder: str, root: str, pattern: str | None = None) -> list[RawFile]:
    """List the files below a folder. Links to folders are listed but not followed.

    Args:
        pattern: pattern that the whole path of a file, or of a folder above it, has to match.
    """
    waiting = [(folder, pattern)]
    files: list[str] = []
    closed: list[RawFile] = []
    while waiting:
        folder, wanted = waiting.pop()
        try:
            with os.scandir(folder) as listing:
                entries = [
                    (entry.path, entry.is_dir(follow_symlinks=False)) for entry in listing if entry.name not in JUNK
                ]
        except OSError:
            name = _relative(folder, root) or "."
            closed.append(RawFile(name, Place(folder), 0, "0", fault="unreadable", root=root))
            continue
        for path, is_folder in entries:
            matches = wanted is None or _pattern(wanted).match(path) is not None
            if is_folder and (matches or _may_hold_matches(path, wanted)):
                waiting.append((path, None if matches else wanted))
            elif matches and not is_folder:
                files.append(path)
    return closed + _local_files(files, root)


def _local_files(paths: Sequence[str], root: str) -> list[RawFile]:
    """Return the files of these paths, in their order."""
    blocks = [paths[begin : begin + _BLOCK] for begin in range(0, len(paths), _BLOCK)]
    with ThreadPoolExecutor(_LISTED_AT_ONCE) as threads:
        file_blocks = threads.map(lambda block: [_local_file(path, root, walked=True) for path in block], blocks)
        return [file for block in file_blocks for file in block]


@lru_cache(maxsize=16)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(glob_translate(pattern))


def _may_hold_matches(folder: str, pattern: str | None) -> bool:
    """Return True if a path below the folder may match the pattern."""
    return pattern is None or "**" in pattern or folder.count("/") < pattern.count("/")


def _local_file(path: str, root: str, *, named: bool = False, walked: bool = False) -> RawFile:
    """Return the file at a path.

    Args:
        root: root of its name, below which it has to be.
        named: whether the user named it, so that it may be anywhere.
        walked: whether no folder between root and file is a link, so that a file that is no link is below the root.
    """
    size, changed, touched, is_plain = 0, "0", inf, False
    with suppress(OSError):
        status = os.lstat(path)
        is_plain = stat.S_ISREG(status.st_mode)
        status = os.stat(path) if stat.S_ISLNK(status.st_mode) else status
        size, changed, touched = status.st_size, str(status.st_mtime), max(status.st_mtime, status.st_ctime)
    fault = "" if walked and is_plain else _fault(path, root, named=named, is_plain=is_plain)
    if not fault and not os.access(path, os.R_OK):
        fault = "unreadable"
    return RawFile(_relative(path, root), Place(path), size, changed, fault=fault, root=root, touched=touched)


def raw_file(path: str) -> RawFile:
    """Return the current state of the file at an absolute path or a URL.

    Raises:
        OSError: there is no such file.
    """
    url = url_of(path)
    if url is None:
        os.stat(path)
        return _local_file(path, os.path.dirname(path), named=True)
    filesystem, name = filesystem_of(url)
    return _remote_file(filesystem, name, filesystem.info(name), name.rpartition("/")[0])


def _fault(path: str, root: str, *, named: bool, is_plain: bool) -> str:
    """Return the reason for which a local path is not to be opened; empty if it is a file that lies below its root,
    links followed.

    A file that the user `named` may lie anywhere; of one that `is_plain` only the folders above it may be links. Pipes
    and devices would hang the run, and a link in a folder of logs may lead to what was never meant to be read.
    """
    folder, _, name = path.rpartition("/")
    real = f"{_real(folder)}/{name}" if is_plain else os.path.realpath(path)
    if not named and not f"{real}/".startswith(f"{_real(root).rstrip('/')}/"):
        return "outside_root"
    return "" if is_plain or os.path.isfile(real) else "not_a_file"


@lru_cache(maxsize=4096)
def _real(folder: str) -> str:
    return os.path.realpath(folder or "/")


def _remote(url: str) -> tuple[str, list[RawFile]] | None:
    """Return the root and the files of a URL or a pattern; None if there is nothing.

    Raises:
        ConfigError: the package that reads such URLs is not installed.
    """
    filesystem, path = filesystem_of(url)
    filesystem.invalidate_cache()  # what this process listed before, others may have added to since
    if _is_wild(path) and not filesystem.exists(path):
        root = _literal_root(path)
        hits = filesystem.glob(path, detail=True)
        infos = {hit: info for hit, info in hits.items() if info["type"] != "directory"}
        folders = [hit for hit, info in hits.items() if info["type"] == "directory"]
        with ThreadPoolExecutor(_LISTED_AT_ONCE) as threads:
            for below in threads.map(lambda folder: filesystem.find(folder, detail=True), folders):
                infos.update(below)
    elif filesystem.isdir(path):
        root, infos = path, filesystem.find(path, detail=True)
    elif filesystem.exists(path):
        root, infos = path.rsplit("/", 1)[0], {path: filesystem.info(path)}
    else:
        return None
    files = [(str(hit), info) for hit, info in infos.items() if info["type"] != "directory"]
    return root, [_remote_file(filesystem, hit, info, root) for hit, info in files]


def _remote_file(filesystem: Any, path: str, info: Mapping[str, Any], root: str) -> RawFile:
    changed = info.get("mtime") or info.get("ETag") or info.get("etag") or info.get("md5Hash") or 0
    fault = "" if info["type"] == "file" else "not_a_file"
    location, below = Place(filesystem.unstrip_protocol(path)), filesystem.unstrip_protocol(root)
    more = {"fault": fault, "root": below, "touched": _change_time(changed)}
    return RawFile(_relative(path, root), location, int(info["size"] or 0), str(changed), **more)


def _change_time(changed: Any) -> float:
    """Return the time of change (see `RawFile`) from a store's time, tag of an object's content, or nothing."""
    if isinstance(changed, datetime):
        return changed.timestamp()
    return 0.0 if changed and isinstance(changed, str) else inf


def list_raw(raw: str, dataset: Dataset = WHOLE) -> list[RawFile]:
    """List the files of one raw argument: a file, a folder (everything below it) or a glob, on any file system.

    Names are relative to the named folder, to the folder of the file, or to the folder above the first wildcard; those
    of the Hub begin with owner and name of the data set. Files that systems and tools leave beside logs (`JUNK`) are
    left out. Other hidden folders are read, since agents keep their logs there. In a folder that is a data set (see
    `hub_layout`), the files of one configuration are taken, with the card's licence. An existing local file is read
    even if its name looks like a pattern.

    Args:
        raw: path, URL, or `hf://owner/name`.
        dataset: configuration and splits of a data set to read.

    Raises:
        ConfigError: there is nothing, or no such configuration or split.
        ShardError: the store refuses or fails.
    """
    url = url_of(hub.address(raw))
    if url is not None and url.startswith(hub.HUB):
        hub.require_reachable(url)
    try:
        listed = _local(raw) if url is None else _remote(url)
    except OSError as error:
        raise ShardError(f"The raw logs at {text_of(raw)} cannot be listed: {why(error)}") from error
    if listed is None:
        raise ConfigError(
            f"There is no raw input at '{text_of(raw)}': wanted a file, a folder or a glob that matches something."
        )
    root, files = listed
    shown = [file for file in files if JUNK.isdisjoint(file.name.split("/"))]
    if not shown:
        raise ConfigError(f"There is no file to read at '{text_of(raw)}'.")
    on_hub = raw.startswith(hub.HUB)
    shown = _of_dataset(shown, hub.repository(root) if on_hub else root, root, url, dataset, raw)
    return [replace(file, name=f"{root}/{file.name}".partition("/")[2]) for file in shown] if on_hub else shown


def _of_dataset(
    files: Sequence[RawFile], home: str, root: str, url: str | None, dataset: Dataset, raw: str
) -> list[RawFile]:
    """Return all files, or, in a data set, the selected ones with its licence.

    Raises:
        ConfigError: the data set has no such configuration or split.
    """
    card, licence = _card(home, url)
    lead = f"{root[len(home) :].lstrip('/')}/" if root != home else ""
    names = [lead + file.name for file in files]
    if not hub.is_dataset(names, card):
        return list(files)
    taken = set(hub.choose_files(names, card, dataset.config, dataset.splits, raw))
    selected = [replace(file, licence=licence) for file, name in zip(files, names, strict=True) if name in taken]
    if not selected:
        raise ConfigError(f"There is no file with rows at '{raw}'.")
    return selected


def _card(home: str, url: str | None) -> tuple[hub.Card | None, str | None]:
    """Return the card of the data set in a folder, and the licence from it or from the files of `save_to_disk`."""
    card = licence = None
    if (data := _beginning(f"{home}/{hub.CARD}", url)) is not None:
        card = hub.read_card(data)
    if (data := _beginning(f"{home}/{hub.SAVED_INFO}", url)) is not None:
        licence = hub.read_licence(data)
    return card, (card.licence if card is not None else None) or licence


def _beginning(path: str, url: str | None) -> bytes | None:
    """Return the first bytes of a file of `url`'s file system, or of the local one; None if there is no file."""
    if url is not None:
        filesystem, _ = filesystem_of(url)
        return bytes(filesystem.cat_file(path, start=0, end=hub.CARD_BYTES)) if filesystem.isfile(path) else None
    if not os.path.isfile(path) or not os.access(path, os.R_OK):
        return None
    with opened(path) as stream:
        return stream.read(hub.CARD_BYTES)


def gather(raws: Sequence[str], dataset: Dataset = WHOLE) -> list[RawFile]:
    """List the files of all raw arguments, each once, sorted by name.

    If files of different roots would share a name, the files of those roots get the root's own name before theirs, so
    that the files of one log stay together. If that does not make them distinct either, or is the name of a person's
    home, the files of every root get its number, in the order of the roots' paths. No more of a path is published.

    Raises:
        ConfigError: a raw argument names nothing, or a data set without the configuration or split of `dataset`.
    """
    by_place = {file.place: file for raw in sorted(raws) for file in list_raw(raw, dataset)}
    files = list(by_place.values())
    if _have_distinct_names(files):
        return _sort_by_name(files)
    by_name: dict[str, set[str]] = {}
    for file in files:
        by_name.setdefault(file.name, set()).add(file.root)
    unclear = {root for sharing in by_name.values() if len(sharing) > 1 for root in sharing}
    labels = {root: root_name(root) for root in unclear}
    named = [_below_label(file, labels.get(file.root)) for file in files]
    telling = all(labels.values()) and len(set(labels.values())) == len(labels)
    if telling and _have_distinct_names(named):
        return _sort_by_name(named)
    numbers = {root: str(number) for number, root in enumerate(sorted({file.root for file in files}), 1)}
    return _sort_by_name([_below_label(file, numbers[file.root]) for file in files])


def _below_label(file: RawFile, label: str | None) -> RawFile:
    return file if label is None else replace(file, name=f"{label}/{file.name}")


def _have_distinct_names(files: Sequence[RawFile]) -> bool:
    return len({file.name for file in files}) == len(files)


def _sort_by_name(files: Sequence[RawFile]) -> list[RawFile]:
    return sorted(files, key=lambda file: file.name)


def root_name(root: str) -> str:
    """Return a root's own name, as text; empty if there is none or it is the name of a person."""
    is_home = root == os.path.expanduser("~") or os.path.dirname(root) in _HOMES
    return "" if is_home else text_of(root.rstrip("/").rpartition("/")[2])


class RawNames:
    """Raw files by name, and by the name without the ending of a compression.

    Attributes:
        sorted: names without the ending, ascending.
    """

    def __init__(self, files: Sequence[RawFile]) -> None:
        self.files = {file.name: file for file in files}
        self.stored = {plain_name(name): name for name in self.files}
        self.sorted = sorted(self.stored)
        self._companions: dict[tuple[str, str], tuple[str, ...]] = {}

    def members(self, log: Log) -> dict[str, RawFile]:
        """Return the files of a log's members."""
        return {member: self.files[self.stored[plain]] for member, plain in log.members.items()}

    def companions(self, connector: Connector, folder: str) -> tuple[str, ...]:
        """Return the names of the files below a folder (empty, or with `/` at its end) that belong to a log there."""
        pattern, key = connector.companions, (connector.name, folder)
        if pattern is None:
            return ()
        if key not in self._companions:
            begin = bisect_left(self.sorted, folder)
            below = takewhile(
                lambda name: name.startswith(folder), map(self.sorted.__getitem__, range(begin, len(self.sorted)))
            )
            matches = (self.stored[name] for name in below if pattern.fullmatch(name, len(folder)))
            self._companions[key] = tuple(matches)
        return self._companions[key]


def plain_name(name: str) -> str:
    """Return the name without the ending of a compression."""
    return next((name.removesuffix(ending) for ending in COMPRESSIONS if name.endswith(ending)), name)
