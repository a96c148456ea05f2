"""Files whose whole content a trajectory has written or shown, as long as nothing since could have changed them."""

from __future__ import annotations

import posixpath
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

REMEMBERED_BYTES: Final = 3 << 18
"""Of all files of a trajectory; what was used longest ago is forgotten first."""

_ENTRY_BYTES: Final = 64
"""That a name costs, however short the text."""

_FOLDERS: Final = 256
_NAMES: Final = 256
"""In a folder that is known as a whole."""


class KnownFile(NamedTuple):
    """A file's text; `exact` says that line feeds at its end are known too."""

    text: str
    exact: bool


@dataclass(slots=True)
class KnownFiles:
    """Files by path, and folders of which every file is known.

    Attributes:
        most: bytes that are remembered.
    """

    most: int = REMEMBERED_BYTES
    _files: OrderedDict[str, KnownFile] = field(default_factory=OrderedDict)
    _named: dict[str, set[str]] = field(default_factory=dict)
    _folders: dict[str, set[str]] = field(default_factory=dict)
    _size: int = 0

    def get(self, path: str) -> KnownFile | None:
        """The file's text, if it is known."""
        found = self._files.get(path)
        if found is not None:
            self._files.move_to_end(path)
        return found

    def put(self, path: str, text: str, *, exact: bool = True) -> None:
        """Remembers the text of a file."""
        self.change(path)
        size = _size(path, text)
        if size > self.most:
            return
        self._files[path] = KnownFile(text, exact)
        self._named.setdefault(posixpath.basename(path), set()).add(path)
        self._size += size
        while self._size > self.most:
            self._drop(next(iter(self._files)))

    def change(self, path: str) -> None:
        """The file stands there with a text that is not known; so do those that may be it under another name."""
        last = posixpath.basename(path)
        for other in list(self._named.get(last, ())):
            self._drop(other)
        parent = posixpath.dirname(path)
        if parent in self._folders:
            self._folders[parent].add(last)
            if len(self._folders[parent]) > _NAMES:
                del self._folders[parent]

    def remove(self, path: str) -> None:
        """The file or empty folder stands there no more."""
        self.change(path)
        self._folders.pop(path, None)
        folder = self._folders.get(posixpath.dirname(path))
        if folder is not None:
            folder.discard(posixpath.basename(path))

    def make_folder(self, path: str) -> None:
        """A folder is made; nothing stands in it."""
        self.change(path)
        if len(self._folders) < _FOLDERS:
            self._folders[path] = set()

    def names(self, path: str) -> set[str] | None:
        """The names in a folder that is known as a whole."""
        return self._folders.get(path)

    def forget(self) -> None:
        """Forgets everything: anything may have been changed."""
        self._files.clear()
        self._named.clear()
        self._folders.clear()
        self._size = 0

    def _drop(self, path: str) -> None:
        self._size -= _size(path, self._files.pop(path).text)
        last = posixpath.basename(path)
        self._named[last].discard(path)
        if not self._named[last]:
            del self._named[last]


def _size(path: str, text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass")) + len(path) + _ENTRY_BYTES


def joined_path(folder: str | None, path: str) -> str | None:
    """The path as seen from a folder; None if the folder is not known and the path hangs on it."""
    if path.startswith("/"):
        return posixpath.normpath(path).replace("//", "/", 1)
    if folder is None or not path:
        return None
    return posixpath.normpath(posixpath.join(folder, path))
