"""Raw files by the names that connectors go by: without the ending of a compression."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import takewhile

from trajmill.connectors.connector import Connector, Log
from trajmill.pipelines.plan.raw_files import RawFile
from trajmill.pipelines.storage.compression import COMPRESSIONS


class RawNames:
    """Raw files by name, and by the name without the ending of a compression.

    Attributes:
        files: by name.
        stored: name without the ending → name.
        sorted: names without the ending, ascending.
    """

    def __init__(self, files: Sequence[RawFile]) -> None:
        self.files = {file.name: file for file in files}
        self.stored = {plain_name(name): name for name in self.files}
        self.sorted = sorted(self.stored)
        self._companions: dict[tuple[str, str], tuple[str, ...]] = {}

    def members(self, log: Log) -> dict[str, RawFile]:
        """The files of a log's members."""
        return {member: self.files[self.stored[plain]] for member, plain in log.members.items()}

    def companions(self, connector: Connector, folder: str) -> tuple[str, ...]:
        """The names of the files below a folder (empty, or with `/` at its end) that belong to a log there."""
        pattern, key = connector.companions, (connector.name, folder)
        if pattern is None:
            return ()
        if key not in self._companions:
            begin = bisect_left(self.sorted, folder)
            below = takewhile(
                lambda name: name.startswith(folder), map(self.sorted.__getitem__, range(begin, len(self.sorted)))
            )
            found = (self.stored[name] for name in below if pattern.fullmatch(name, len(folder)))
            self._companions[key] = tuple(found)
        return self._companions[key]


def plain_name(name: str) -> str:
    """The name without the ending of a compression."""
    return next((name.removesuffix(ending) for ending in COMPRESSIONS if name.endswith(ending)), name)
