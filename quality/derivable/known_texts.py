"""Texts of files and records that a trajectory has written or shown, until something may have changed them."""

from __future__ import annotations

import posixpath
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

REMEMBERED_BYTES: Final = 3 << 18
"""Of all files of a trajectory; what was used longest ago is forgotten first."""

_ENTRY_BYTES: Final = 64
"""That a name costs, however short the text."""


@dataclass(slots=True)
class KnownTexts:
    """Texts by path or name.

    Attributes:
        most: bytes that are remembered.
    """

    most: int = REMEMBERED_BYTES
    _texts: OrderedDict[str, str] = field(default_factory=OrderedDict)
    _named: dict[str, set[str]] = field(default_factory=dict)
    _size: int = 0

    def get(self, path: str) -> str | None:
        """The text, if it is known."""
        found = self._texts.get(path)
        if found is not None:
            self._texts.move_to_end(path)
        return found

    def put(self, path: str, text: str) -> None:
        """Remember a text."""
        self.change(path)
        size = _size(path, text)
        if size > self.most:
            return
        self._texts[path] = text
        self._named.setdefault(posixpath.basename(path), set()).add(path)
        self._size += size
        while self._size > self.most:
            self._drop(next(iter(self._texts)))

    def change(self, path: str) -> None:
        """Forget the text at a path, and those of the same last name, which may be it under another one."""
        for other in list(self._named.get(posixpath.basename(path), ())):
            self._drop(other)

    def forget(self) -> None:
        """Forget everything: anything may have been changed."""
        self._texts.clear()
        self._named.clear()
        self._size = 0

    def _drop(self, path: str) -> None:
        self._size -= _size(path, self._texts.pop(path))
        last = posixpath.basename(path)
        self._named[last].discard(path)
        if not self._named[last]:
            del self._named[last]


def _size(path: str, text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass")) + len(path) + _ENTRY_BYTES
