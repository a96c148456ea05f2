"""Inputs that earlier generations read: known by their bytes, whatever their names, and by where they lie.

A log whose bytes are known is not read again. One that lies where a known one lay, with other bytes, has grown or was
changed: it is left as it was read first. One that is gone stays read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pipelines.engine.ledgers import INPUTS
from pipelines.engine.paths import filesystem_of, url_of
from pipelines.engine.storage import sha256_of
from pipelines.plan.recognition import Input


@dataclass(slots=True)
class Contents:
    """The digests of raw files, each read once."""

    _of: dict[str, str] = field(default_factory=dict)

    def of(self, one: Input) -> str:
        """Of the bytes of an input's files, and who reads them; empty if a file is not there any more."""
        try:
            found = [
                [name if len(one.members) > 1 else "", self._file(place.path), place.within]
                for name, place in sorted(one.members.items())
            ]
        except OSError:
            return ""
        return hashlib.sha256(json.dumps([one.connector, found]).encode()).hexdigest()

    def _file(self, path: str) -> str:
        if path not in self._of:
            url = url_of(path)
            if url is None:
                self._of[path] = sha256_of(path)
            else:
                filesystem, name = filesystem_of(url)
                with filesystem.open(name, "rb") as stream:
                    self._of[path] = hashlib.file_digest(stream, "sha256").hexdigest()
        return self._of[path]


def place_of(one: Input) -> str:
    """The digest of where an input's files lie, and who reads them."""
    places = [place.to_json() for _, place in sorted(one.members.items())]
    return hashlib.sha256(json.dumps([one.connector, places]).encode()).hexdigest()


@dataclass(slots=True)
class KnownInputs:
    """What earlier generations read, and what of it was met again.

    Attributes:
        rows: of the ledgers of inputs.
        contents: digests of raw files.
        again: how many inputs were known by their bytes.
        changed: where those lie that have other bytes than were read there.
    """

    rows: npt.NDArray[np.void]
    contents: Contents = field(default_factory=Contents)
    again: int = 0
    changed: list[str] = field(default_factory=list)
    _known: set[tuple[int, int]] = field(init=False)
    _places: set[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self._known = set(self.rows[["content", "content_low"]].tolist()) - {(0, 0)}
        self._places = set(self.rows[["place", "place_low"]].tolist())

    def knows(self, one: Input) -> bool:
        """Whether the input is not to be read; what was met is noted."""
        content, place = self.contents.of(one), place_of(one)
        if content and _numbers(content) in self._known:
            self.again += 1
            return True
        if _numbers(place) in self._places:
            self.changed.append(one.uri)
            return True
        return False


def input_rows(inputs: Iterable[Input], contents: Contents) -> npt.NDArray[np.void]:
    """The rows of a ledger for inputs that were read; one whose files are gone has no content, but its place."""
    rows = [(*_numbers(contents.of(one)), *_numbers(place_of(one))) for one in inputs]
    return np.array(rows, INPUTS)


def _numbers(digest: str) -> tuple[int, int]:
    return (int(digest[:16], 16), int(digest[16:32], 16)) if digest else (0, 0)
