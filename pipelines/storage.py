"""Output files wherever they are, written whole or not at all.

A `Folder` is an output folder on any file system that fsspec knows. A file appears under its name only when it is
complete: locally by renaming, elsewhere as one object. This module does not know what the files hold.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Final

import fsspec
from fsspec.implementations.local import LocalFileSystem

from schemas import ShardError

_TEMPORARY: Final = ".unfinished-"


@dataclass(frozen=True)
class Folder:
    """An output folder, by URL or path; picklable, so that workers reach the same files."""

    url: str

    @cached_property
    def _place(self) -> tuple[Any, str]:
        filesystem, path = fsspec.core.url_to_fs(self.url)
        return filesystem, str(path).rstrip("/")

    @property
    def is_local(self) -> bool:
        """Whether the folder is on this machine's own file system."""
        return isinstance(self._place[0], LocalFileSystem)

    def path(self, name: str = "") -> str:
        """The full path of a file in the folder, as its file system names it."""
        return f"{self._place[1]}/{name}" if name else self._place[1]

    def __truediv__(self, name: str) -> Folder:
        return Folder(f"{self.url.rstrip('/')}/{name}")

    def __getstate__(self) -> dict[str, str]:
        return {"url": self.url}

    def __setstate__(self, state: dict[str, str]) -> None:
        object.__setattr__(self, "url", state["url"])

    def exists(self, name: str) -> bool:
        """Whether there is a complete file of that name."""
        return bool(self._place[0].exists(self.path(name)))

    def size(self, name: str) -> int:
        """Bytes of a file; -1 if there is none."""
        try:
            return int(self._place[0].size(self.path(name)))
        except FileNotFoundError:
            return -1

    def read(self, name: str) -> bytes:
        """The whole file.

        Raises:
            ShardError: it cannot be read.
        """
        try:
            return bytes(self._place[0].cat_file(self.path(name)))
        except OSError as error:
            raise ShardError(f"{self.path(name)} cannot be read: {error}") from error

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """The file, open for reading at any place."""
        with self._place[0].open(self.path(name), "rb") as stream:
            yield stream

    def names(self, suffix: str = "") -> list[str]:
        """Every complete file below the folder, relative to it and sorted, that ends with `suffix`."""
        filesystem, root = self._place
        found = filesystem.find(root) if filesystem.exists(root) else []
        names = [str(path)[len(root) + 1 :] for path in found]
        return sorted(name for name in names if name.endswith(suffix) and _TEMPORARY not in name)

    def write(self, name: str, data: bytes) -> None:
        """Writes a whole file, replacing what was there, in one step."""
        with self.writing(name) as path:
            Path(path).write_bytes(data)

    @contextmanager
    def writing(self, name: str) -> Iterator[str]:
        """A local path to write to; the file appears under `name`, complete, when the block ends without error.

        Raises:
            ShardError: the finished file cannot be put in its place.
        """
        filesystem, target = self._place[0], self.path(name)
        if self.is_local:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            directory, base = os.path.split(target)
        else:
            directory, base = tempfile.gettempdir(), name.replace("/", "_")
        handle, temporary = tempfile.mkstemp(prefix=_TEMPORARY, suffix=f"-{base}", dir=directory)
        os.close(handle)
        try:
            yield temporary
            if self.is_local:
                Path(temporary).chmod(0o644)
                os.replace(temporary, target)
            else:
                filesystem.put_file(temporary, target)
        except OSError as error:
            raise ShardError(f"{target} cannot be written: {error}") from error
        finally:
            Path(temporary).unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """Removes a file; nothing happens if there is none."""
        if self.exists(name):
            self._place[0].rm_file(self.path(name))

    def remove_all(self) -> None:
        """Removes the folder and everything in it."""
        filesystem, root = self._place
        if filesystem.exists(root):
            filesystem.rm(root, recursive=True)

    def clear_unfinished(self) -> None:
        """Removes what killed writers left behind."""
        filesystem, root = self._place
        if self.is_local and filesystem.exists(root):
            for path in Path(root).rglob(f"{_TEMPORARY}*"):
                path.unlink(missing_ok=True)


def sha256_of(path: str) -> str:
    """The digest of a local file, 64 hex digits."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
