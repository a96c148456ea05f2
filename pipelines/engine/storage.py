"""Output files wherever they are, written whole or not at all.

A `Folder` is an output folder on any file system that fsspec knows. A file appears under its name only when it is
complete: locally by renaming, elsewhere as one object. This module does not know what the files hold.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Any, BinaryIO, Final, cast

from fsspec.implementations.local import LocalFileSystem

from pipelines.engine.paths import filesystem_of, local_path, url_of
from schemas import ShardError

MADE_AGAIN: Final = "The run that wrote it makes it again"
"""The remedy where a file of a stage is damaged or missing."""

_TEMPORARY: Final = ".unfinished-"
_UNFINISHED: Final = re.compile(re.escape(_TEMPORARY) + r"[0-9a-f]{16}-.*", re.DOTALL)
_BASE: Final = 200
"""Characters of a file's name that its temporary name ends with."""


@dataclass(frozen=True)
class Folder:
    """An output folder, by URL or path; picklable, so that workers reach the same files."""

    url: str

    @cached_property
    def _place(self) -> tuple[Any, str]:
        url = url_of(self.url)
        return filesystem_of(url) if url is not None else (LocalFileSystem(), local_path(self.url))

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

    def exists(self, name: str = "") -> bool:
        """Whether there is a complete file of that name, or the folder itself."""
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
            raise ShardError(f"{self.path(name)} cannot be read: {why(error)}") from error

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """The file, open for reading at any place."""
        with self._place[0].open(self.path(name), "rb") as stream:
            yield stream

    def sha256(self, name: str) -> str:
        """The digest of a file, 64 hex digits; empty if there is none.

        Raises:
            ShardError: it cannot be read.
        """
        try:
            with self.open(name) as stream:
                return hashlib.file_digest(cast("Any", stream), "sha256").hexdigest()
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise ShardError(f"{self.path(name)} cannot be read: {why(error)}") from error

    def names(self, suffix: str = "", *, unfinished: bool = False) -> list[str]:
        """Every complete file below the folder, relative to it and sorted, that ends with `suffix`.

        Links are listed as files and never followed.

        Args:
            suffix: of the names.
            unfinished: whether to list what killed writers left too.
        """
        filesystem, root = self._place
        if self.is_local:
            found = [f"{at}/{name}" for at, folders, files in os.walk(root) for name in (*files, *_links(at, folders))]
        else:
            found = filesystem.find(root) if filesystem.exists(root) else []
        names = [str(path)[len(root) + 1 :] for path in found]
        return sorted(name for name in names if name.endswith(suffix) and (unfinished or not is_unfinished(name)))

    def write(self, name: str, data: bytes, *, private: bool = False) -> None:
        """Writes a whole file, replacing what was there, in one step; arguments as of `writing`.

        Raises:
            ShardError: it cannot be written.
        """
        with self.writing(name, private=private) as path:
            Path(path).write_bytes(data)

    def create(self, name: str, data: bytes) -> bool:
        """Writes a whole file in one step if there is none of that name; returns whether it did.

        Raises:
            ShardError: it cannot be written.
        """
        if not self.is_local:
            try:
                self._place[0].pipe_file(self.path(name), data, mode="create")
            except FileExistsError:
                return False
            except OSError as error:
                raise ShardError(f"{self.path(name)} cannot be written: {why(error)}") from error
            return True
        directory, base = os.path.split(self.path(name))
        temporary = f"{directory}/{unfinished_name(base)}"
        try:
            Path(directory).mkdir(parents=True, exist_ok=True)
            Path(temporary).write_bytes(data)
            os.link(temporary, self.path(name))
        except FileExistsError:
            return False
        except OSError as error:
            raise ShardError(f"{self.path(name)} cannot be written: {why(error)}") from error
        finally:
            with suppress(OSError):
                Path(temporary).unlink(missing_ok=True)
        return True

    @contextmanager
    def writing(self, name: str, *, private: bool = False) -> Iterator[str]:
        """A local path to write to; the file appears under `name`, complete, when the block ends without error.

        Args:
            name: of the file in the folder.
            private: whether only the user may read it, where the file system knows users; else the umask decides.

        Raises:
            ShardError: the file cannot be written, or not be put in its place.
        """
        filesystem, target = self._place[0], self.path(name)
        directory, base = os.path.split(target) if self.is_local else (tempfile.gettempdir(), name.replace("/", "_"))
        temporary = f"{directory}/{unfinished_name(base)}"
        mode = 0o600 if private or not self.is_local else 0o666
        try:
            Path(directory).mkdir(parents=True, exist_ok=True)
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
            yield temporary
            if self.is_local:
                os.replace(temporary, target)
            else:
                filesystem.put_file(temporary, target)
        except OSError as error:
            raise ShardError(f"{target} cannot be written: {why(error)}") from error
        finally:
            with suppress(OSError):
                Path(temporary).unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """Removes a file, and the folders below this one that are empty without it; nothing happens if there is none.

        Raises:
            ShardError: it cannot be removed.
        """
        try:
            if self.is_local:
                Path(self.path(name)).unlink(missing_ok=True)
            elif self.exists(name):
                self._place[0].rm_file(self.path(name))
        except OSError as error:
            raise ShardError(f"{self.path(name)} cannot be removed: {why(error)}") from error
        if self.is_local:
            with suppress(OSError):  # one that is not empty ends it
                for parent in list(PurePosixPath(name).parents)[:-1]:
                    os.rmdir(self.path(str(parent)))


def unfinished_name(name: str) -> str:
    """A fresh name for a file of that name while it is being written."""
    return f"{_TEMPORARY}{token_hex(8)}-{name[-_BASE:]}"


def is_unfinished(name: str) -> bool:
    """Whether a file of that name was being written by us when its writer ended."""
    return _UNFINISHED.fullmatch(name.rpartition("/")[2]) is not None


def _links(at: str, folders: Sequence[str]) -> list[str]:
    """Those of the folders that are links to folders: names that a listing must not lose."""
    return [name for name in folders if os.path.islink(f"{at}/{name}")]


def why(error: OSError) -> str:
    """What the system says, without the path that the message names already."""
    return error.strerror or str(error)


def sha256_of(path: str) -> str:
    """The digest of a local file, 64 hex digits."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
