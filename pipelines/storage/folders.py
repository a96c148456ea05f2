"""Output files on any file system, written whole or not at all.

A `Folder` is an output folder on any file system that fsspec knows. A file appears under its name only when it is
complete: locally by renaming, elsewhere as one object. If a run holds the folder, a late writer of another run replaces
nothing. The content of files does not matter here.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Any, BinaryIO, Final, cast

from fsspec.implementations.local import LocalFileSystem

from trajmill.pipelines.storage.object_store import Listed, ObjectStore, ReplacedError
from trajmill.pipelines.storage.paths import filesystem_of, local_path, url_of
from trajmill.pipelines.storage.scratch import own_scratch
from trajmill.schemas import ShardError

MADE_AGAIN: Final = "The run that wrote it makes it again"
"""Remedy for a damaged or missing file of a stage."""

_TEMPORARY: Final = ".unfinished-"
_UNFINISHED: Final = re.compile(re.escape(_TEMPORARY) + r"[0-9a-f]{16}-.*", re.DOTALL)
_BASE: Final = 200
"""Number of characters of a file's name at the end of its temporary name."""


MARKER: Final = "trajmill.json"
"""Name of the marker file of an output folder, which states among other things which run holds it."""

_TRIES: Final = 4


class OvertakenError(ShardError):
    """Error for a file that another run has written since this one read it."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Claim of a run on an output folder in an object store. No other run replaces its objects there.

    Attributes:
        replaces: whether most of the objects that it writes already exist, to be replaced.
    """

    out: str
    token: str
    replaces: bool = False

    def put(self, store: ObjectStore, local: str, path: str) -> None:
        """Write a whole object. It replaces one that an earlier run left, and leaves one with equal content.

        Raises:
            OSError: another run has taken the folder.
        """
        for _ in range(_TRIES):
            there = store.version(path) if self.replaces else None
            if there is None:
                with suppress(ReplacedError):
                    store.put_over(local, path, "")
                    return
                there = store.version(path)
            if there is None:
                continue
            if not self.replaces:
                with store.opened(path, again=True) as stream, open(local, "rb") as mine:
                    if _digest(stream) == _digest(mine):
                        return
            self._check(store)
            with suppress(ReplacedError):
                store.put_over(local, path, there.version)
                return
        raise OSError("others write it at the same time")

    def _check(self, store: ObjectStore) -> None:
        marker = Folder(self.out).path(MARKER)
        try:
            with store.opened(marker, again=True) as stream:
                token = json.load(stream).get("token")
        except (FileNotFoundError, ValueError):
            token = None
        if token != self.token:
            raise OSError("it is another run's, which has taken the folder since this one began")


@dataclass(frozen=True)
class Folder:
    """An output folder, by URL or path; picklable, so that workers reach the same files.

    Its methods raise a `ShardError` where a file cannot be read, written, listed or removed; so does all that reads and
    writes through it, and all that finds a file damaged or changed.

    Attributes:
        hold: claim of the run that writes there; None writes over existing files.
    """

    url: str
    hold: Hold | None = field(default=None, compare=False)

    @classmethod
    def named(cls, raw: str) -> Folder:
        """Return the folder of an argument, independent of the working folder."""
        return cls(raw if url_of(raw) is not None else local_path(raw))

    @cached_property
    def _place(self) -> tuple[Any, str]:
        url = url_of(self.url)
        return filesystem_of(url, listings=False) if url is not None else (LocalFileSystem(), local_path(self.url))

    @cached_property
    def _store(self) -> ObjectStore:
        return ObjectStore(self._place[0])

    @property
    def is_local(self) -> bool:
        """True if the folder is on the local file system."""
        return isinstance(self._place[0], LocalFileSystem)

    def path(self, name: str = "") -> str:
        """Return the full path of a file in the folder, as its file system names it."""
        return f"{self._place[1]}/{name}" if name else self._place[1]

    def __truediv__(self, name: str) -> Folder:
        return Folder(f"{self.url.rstrip('/')}/{name}", self.hold)

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url, "hold": self.hold}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def held(self, token: str, *, replaces: bool = False) -> Folder:
        """Return the same output folder for writing by the run of that token. Arguments are those of `Hold`."""
        return Folder(self.url, Hold(self.url, token, replaces))

    def exists(self, name: str = "") -> bool:
        """Return True if there is a complete file of that name, or the folder itself."""
        return self._place[0].exists(self.path(name)) if self.is_local else self._store.exists(self.path(name))

    def size(self, name: str) -> int:
        """Return the number of bytes of a file; -1 if there is none."""
        if not self.is_local:
            listed = self._store.version(self.path(name))
            return listed.bytes if listed is not None else -1
        try:
            return int(self._place[0].size(self.path(name)))
        except FileNotFoundError:
            return -1

    def sizes(self) -> dict[str, int]:
        """Return the bytes of every complete file below the folder by name. An object store is listed once."""
        if self.is_local:
            return {name: self.size(name) for name in self.names()}
        return {name: listed.bytes for name, listed in self.listed().items() if not is_unfinished(name)}

    def version(self, name: str) -> str:
        """Return the version of a file in an object store; empty if there is no file, or it is local.

        The version changes with each write.
        """
        listed = self.told(name)
        return listed.version if listed is not None else ""

    def told(self, name: str) -> Listed | None:
        """Return an object store's listing of a file; None if there is no file, or it is local."""
        return None if self.is_local else self._store.version(self.path(name))

    def latest(self, name: str) -> tuple[bytes | None, str]:
        """Return a file in an object store with its version, for use with `write_over`."""
        version = self.version(name)
        try:
            with self._store.opened(self.path(name), again=True) as stream:
                return stream.read(), version
        except FileNotFoundError:
            return None, version
        except OSError as error:
            raise ShardError(f"{self.path(name)} cannot be read: {why(error)}") from error

    def older(self) -> int | None:
        """Count the files below the folder of which a store keeps replaced or removed versions.

        The count is 0 for a local folder, which keeps none; None if the store does not report that.
        """
        return 0 if self.is_local else self._store.older(self.path())

    def listed(self) -> dict[str, Listed]:
        """List every file below the folder with the facts of an object store's listing, in one listing."""
        try:
            return self._store.listed(self.path())
        except OSError as error:
            raise ShardError(f"{self.path()} cannot be listed: {why(error)}") from error

    def read(self, name: str) -> bytes:
        """Read the whole file."""
        data = self.found(name)
        if data is None:
            raise ShardError(f"{self.path(name)} cannot be read: {os.strerror(errno.ENOENT)}")
        return data

    def found(self, name: str) -> bytes | None:
        """Read the whole file; return None if there is none."""
        try:
            with self.open(name) as stream:
                return stream.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ShardError(f"{self.path(name)} cannot be read: {why(error)}") from error

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """Open the file for reading with random access."""
        with open(self.path(name), "rb") if self.is_local else self._store.opened(self.path(name)) as stream:
            yield stream

    @contextmanager
    def open_pieces(self, name: str, size: int) -> Iterator[BinaryIO]:
        """Open the file like `open`, given its size, for reading a small part.

        An object store transfers only that part.
        """
        if self.is_local:
            with self.open(name) as stream:
                yield stream
            return
        with self._store.in_pieces(self.path(name), size) as stream:
            yield stream

    def sha256(self, name: str) -> str:
        """Return the sha256 of a file, 64 hex digits; empty if there is none."""
        try:
            with self.open(name) as stream:
                return _digest(stream)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise ShardError(f"{self.path(name)} cannot be read: {why(error)}") from error

    def names(self, suffix: str = "", *, unfinished: bool = False) -> list[str]:
        """List every complete file below the folder that ends with `suffix`, relative to it and sorted.

        Links are listed as files and never followed.

        Args:
            unfinished: whether to list files that killed writers left, too.
        """
        if self.is_local:
            root = self.path()
            paths = [f"{at}/{name}" for at, folders, files in os.walk(root) for name in (*files, *_links(at, folders))]
            names = [path[len(root) + 1 :] for path in paths]
        else:
            names = list(self.listed())
        return sorted(name for name in names if name.endswith(suffix) and (unfinished or not is_unfinished(name)))

    def write(self, name: str, data: bytes, *, private: bool = False) -> None:
        """Write a whole file in one step, replacing an existing one. Arguments are those of `writing`."""
        with self.writing(name, private=private) as path:
            Path(path).write_bytes(data)

    def create(self, name: str, data: bytes) -> bool:
        """Write a whole file in one step unless one of that name exists; return True if it was written."""
        if not self.is_local:
            with suppress(ReplacedError):
                self._put_over(name, data, "")
                return True
            return False
        directory, base = os.path.split(self.path(name))
        temporary = f"{directory}/{make_unfinished_name(base)}"
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
        """Yield a local path to write to. The complete file appears under `name` when the block ends without error.

        Args:
            private: whether only the user may read it, on file systems with users; otherwise the umask decides.
        """
        target = self.path(name)
        directory, base = os.path.split(target) if self.is_local else (own_scratch(), name.replace("/", "_"))
        temporary = f"{directory}/{make_unfinished_name(base)}"
        mode = 0o600 if private or not self.is_local else 0o666
        try:
            Path(directory).mkdir(parents=True, exist_ok=True)
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
            yield temporary
            if self.is_local:
                os.replace(temporary, target)
            elif self.hold is None or not self._store.has_conditions:
                self._store.put(temporary, target)
            else:
                self.hold.put(self._store, temporary, target)
        except OSError as error:
            raise ShardError(f"{target} cannot be written: {why(error)}") from error
        finally:
            with suppress(OSError):
                Path(temporary).unlink(missing_ok=True)

    def write_over(self, name: str, data: bytes, seen: str) -> str:
        """Write a whole file in place of the version that was seen, and return the new version.

        Locally any file is replaced.

        Args:
            seen: version as returned by `version`.

        Raises:
            OvertakenError: another version exists.
        """
        if self.is_local:
            self.write(name, data)
            return ""
        try:
            return self._put_over(name, data, seen)
        except ReplacedError as error:
            if self.found(name) == data:  # it was ours, and the store's answer did not come
                return self.version(name)
            raise OvertakenError(f"{self.path(name)} was written by another run since this one began") from error

    def _put_over(self, name: str, data: bytes, seen: str) -> str:
        with tempfile.NamedTemporaryFile() as local:
            local.write(data)
            local.flush()
            try:
                return self._store.put_over(local.name, self.path(name), seen)
            except ReplacedError:
                raise
            except OSError as error:
                raise ShardError(f"{self.path(name)} cannot be written: {why(error)}") from error

    def remove(self, name: str) -> None:
        """Remove a file, if it exists, and the folders below this one that become empty."""
        try:
            if self.is_local:
                Path(self.path(name)).unlink(missing_ok=True)
            else:
                self._store.remove(self.path(name))
        except OSError as error:
            raise ShardError(f"{self.path(name)} cannot be removed: {why(error)}") from error
        if self.is_local:
            with suppress(OSError):  # one that is not empty ends it
                for parent in list(PurePosixPath(name).parents)[:-1]:
                    os.rmdir(self.path(str(parent)))


def make_unfinished_name(name: str) -> str:
    """Make a fresh temporary name for a file that is being written."""
    return f"{_TEMPORARY}{token_hex(8)}-{name[-_BASE:]}"


def is_unfinished(name: str) -> bool:
    """Return True if the name is that of a temporary file, which its writer left unfinished."""
    return _UNFINISHED.fullmatch(name.rpartition("/")[2]) is not None


def _links(at: str, folders: Sequence[str]) -> list[str]:
    """Return the folders that are links to folders, which a listing must include."""
    return [name for name in folders if os.path.islink(f"{at}/{name}")]


def why(error: OSError) -> str:
    """Return the system's message, without the path, which our message names already."""
    return error.strerror or str(error)


def _digest(stream: BinaryIO) -> str:
    return hashlib.file_digest(cast("Any", stream), "sha256").hexdigest()


def sha256_of(path: str) -> str:
    """Return the sha256 of a local file, 64 hex digits."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
