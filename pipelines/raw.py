"""Raw files: what the arguments of a run name, on any file system and on the Hub.

Only names, sizes and links are looked at, and the card of a published data set; what a file holds is the matter of
`plan`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import fsspec
from fsspec.implementations.local import LocalFileSystem

from pipelines import hub
from pipelines.columns import WHOLE, Dataset
from schemas import ConfigError

JUNK: Final = frozenset(
    (".DS_Store", "__MACOSX", "Thumbs.db", ".git", ".gitignore", ".gitattributes", ".gitkeep", ".ipynb_checkpoints")
)
"""Names of files and folders that are no input."""


@dataclass(frozen=True, slots=True)
class RawFile:
    """A raw file: name relative to its root, full path, bytes, time of change (0 where not told), and its licence.

    `fault` is why it is not to be opened, empty if it is: `outside_root` or `not_a_file`.
    """

    name: str
    path: str
    bytes: int
    changed: str
    licence: str | None = None
    fault: str = ""


def _literal_root(pattern: str) -> str:
    """The folder above the first wildcard of a glob pattern."""
    parts = pattern.split("/")
    wild = next((i for i, part in enumerate(parts) if any(c in part for c in "*?[")), len(parts) - 1)
    return "/".join(parts[:wild])


def _info(filesystem: Any, path: str, info: Mapping[str, Any], root: str, *, named: bool) -> RawFile:
    local = isinstance(filesystem, LocalFileSystem)
    full = path if local else filesystem.unstrip_protocol(path)
    changed = info.get("mtime") or info.get("ETag") or info.get("etag") or info.get("md5Hash") or 0
    plain = info["type"] == "file" and not info.get("islink")
    fault = _fault(path, root, named=named, plain=plain) if local else ""
    return RawFile(path[len(root) :].lstrip("/"), full, int(info["size"] or 0), str(changed), fault=fault)


def _fault(path: str, root: str, *, named: bool, plain: bool) -> str:
    """Why a local path is not to be opened; empty if it is a file that lies below its root, links followed.

    A file that the user `named` may lie anywhere; of one that is `plain` only the folders above it may be links. Pipes
    and devices would hang the run, and a link in a folder of logs may lead to what was never meant to be read.
    """
    folder, _, name = path.rpartition("/")
    real = f"{_real(folder)}/{name}" if plain else os.path.realpath(path)
    if not named and not f"{real}/".startswith(f"{_real(root).rstrip('/')}/"):
        return "outside_root"
    return "" if plain or Path(real).is_file() else "not_a_file"


@lru_cache(maxsize=4096)
def _real(folder: str) -> str:
    return os.path.realpath(folder or "/")


def list_raw(raw: str, dataset: Dataset = WHOLE) -> list[RawFile]:
    """The files that one raw argument names: a file, a folder (everything below it) or a glob, on any file system.

    Names are relative to the folder named, to the folder of the file, or to the folder above the first wildcard; those
    of the Hub begin with owner and name of the data set. What systems and tools leave beside logs (`JUNK`) is left out;
    other hidden folders are read, since agents keep their logs in them. Of a folder that is a data set (see `hub`), the
    files of one configuration are taken, and the card's licence is theirs.

    Args:
        raw: path, URL, or `hf://owner/name`.
        dataset: which configuration and splits of a data set are wanted.

    Raises:
        ConfigError: there is nothing there, or no such configuration or split.
    """
    filesystem, path = _place(raw)
    if any(c in path for c in "*?[") and not filesystem.exists(path):
        root = _literal_root(path)
        found: dict[str, Any] = {}
        for hit, info in filesystem.glob(path, detail=True).items():
            below = filesystem.find(hit, detail=True) if info["type"] == "directory" else {hit: info}
            found.update(below)
    elif filesystem.isdir(path):
        root, found = path, filesystem.find(path, detail=True)
    elif filesystem.exists(path):
        root, found = path.rsplit("/", 1)[0], {path: filesystem.info(path)}
    else:
        raise ConfigError(
            f"There is no raw input at '{raw}': wanted a file, a folder or a glob that matches something."
        )
    named = list(found) == [path]
    files = [
        _info(filesystem, str(hit), info, root, named=named)
        for hit, info in found.items()
        if info["type"] != "directory"
    ]
    shown = [file for file in files if JUNK.isdisjoint(file.name.split("/"))]
    if not shown:
        raise ConfigError(f"There is no file to read at '{raw}'.")
    on_hub = raw.startswith(hub.HUB)
    shown = _of_dataset(shown, filesystem, hub.repository(path) if on_hub else root, root, dataset, raw)
    return [replace(file, name=_hub_name(root, file.name)) for file in shown] if on_hub else shown


def _place(raw: str) -> tuple[Any, str]:
    """The file system and the path on it that a raw argument names.

    Raises:
        ConfigError: the Hub cannot be reached, or has no such data set for whoever asks.
    """
    url = hub.address(raw)
    if url.startswith(hub.HUB):
        hub.require_reachable(url)
    filesystem, path = fsspec.core.url_to_fs(url)
    return filesystem, str(path).rstrip("/")


def _hub_name(root: str, name: str) -> str:
    """The name of a file of the Hub: `owner/name/…`, without the kind of the repository."""
    return f"{root}/{name}".partition("/")[2]


def _of_dataset(
    files: Sequence[RawFile], filesystem: Any, home: str, root: str, dataset: Dataset, raw: str
) -> list[RawFile]:
    """The files, or, where they lie in a data set, those of them that are wanted, under its licence.

    Raises:
        ConfigError: the data set has no such configuration or split.
    """
    card, licence = _card(filesystem, home)
    lead = f"{root[len(home) :].lstrip('/')}/" if root != home else ""
    names = [lead + file.name for file in files]
    if not hub.is_dataset(names, card):
        return list(files)
    taken = set(hub.chosen(names, card, dataset.config, dataset.splits, raw))
    kept = [replace(file, licence=licence) for file, name in zip(files, names, strict=True) if name in taken]
    if not kept:
        raise ConfigError(f"There is no file with rows at '{raw}'.")
    return kept


def _card(filesystem: Any, home: str) -> tuple[hub.Card | None, str | None]:
    """The card of the data set in a folder, and the licence that it or what `save_to_disk` left states."""
    card = licence = None
    if filesystem.isfile(f"{home}/{hub.CARD}"):
        card = hub.read_card(filesystem.cat_file(f"{home}/{hub.CARD}", start=0, end=hub.CARD_BYTES))
    if filesystem.isfile(f"{home}/{hub.SAVED_INFO}"):
        licence = hub.saved_licence(filesystem.cat_file(f"{home}/{hub.SAVED_INFO}", start=0, end=hub.CARD_BYTES))
    return card, (card.licence if card is not None else None) or licence


def gather(raws: Sequence[str], dataset: Dataset = WHOLE) -> list[RawFile]:
    """The files of all raw arguments, each path once, sorted by name.

    Where files of different roots would share a name, all files of those roots are given as much of their full path as
    tells them apart, so that the files of one log stay together.

    Raises:
        ConfigError: a raw argument names nothing, or a data set without what `dataset` asks for.
    """
    by_path = {file.path: file for raw in sorted(raws) for file in list_raw(raw, dataset)}
    found = [(file.path.removesuffix(file.name), file) for file in by_path.values()]
    while True:
        by_name: dict[str, list[str]] = {}
        for root, file in found:
            by_name.setdefault(file.name, []).append(root)
        if len(by_name) == len(found):
            return sorted((file for _, file in found), key=lambda file: file.name)
        unclear = {root for sharing in by_name.values() if len(sharing) > 1 for root in sharing}
        found = [(root, _longer(file) if root in unclear else file) for root, file in found]


def _longer(file: RawFile) -> RawFile:
    """The file under a name that holds one more folder of its path."""
    depth = file.name.count("/") + 2
    return replace(file, name="/".join(file.path.split("/")[-depth:]))
