"""Object stores as an output folder needs them: few requests, whole objects, none that replaces what it did not see.

Whatever fails is an `OSError`, after the store's own client has tried again: those of `s3://` and `gs://` back off from
429, 5xx and broken connections (see `paths.filesystem_of`). This module does not know whose folder it is.
"""

from __future__ import annotations

import io
import os
import shutil
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from threading import RLock
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias, cast
from urllib.parse import quote

from trajmill.pipelines.storage.scratch import own_scratch

_HELD_BYTES: Final = 512 << 20
_SMALL: Final = 256 << 10
"""Bytes of an object up to which it is never read in pieces, and its copy not given up for those of larger ones."""
_SMALL_BYTES: Final = 64 << 20
_AT_ONCE: Final = 64 << 20
"""Bytes of an object that is put in one request under a condition; a larger one is put in pieces."""

_CLIENTS: Final = frozenset(("aiobotocore", "aiohttp", "botocore", "gcsfs", "google", "requests"))
_REFUSED: Final = ("preconditionfailed", "pre-conditions you specified did not hold", "conflicting")
_LACKING: Final = ("not implemented", "notimplemented")
"""What stores say that speak S3 and know no conditions."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An object as a listing tells it.

    Attributes:
        bytes: its size.
        version: what is another after each write; empty where that is not told.
        written: when that was, by the store's clock; None where that is not told.
    """

    bytes: int
    version: str
    written: datetime | None = None


class ReplacedError(OSError):
    """An object is not, or no longer, the one that a writer has seen."""


class ObjectStore:
    """A file system that fsspec knows, which is not this machine's own.

    What it has read or written is kept on this machine's disk, so that it is not asked for twice: see `forget`.

    Args:
        filesystem: of fsspec.
    """

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem
        protocol = filesystem.protocol
        self._kind = protocol if isinstance(protocol, str) else protocol[0]

    @property
    def has_conditions(self) -> bool:
        """Whether the store can refuse a write."""
        return self._kind in ("s3", "gs", "gcs")

    def listed(self, root: str) -> dict[str, Listed]:
        """The objects below a path, by what follows it; copies of those that have changed are forgotten."""
        with _told():
            self._filesystem.invalidate_cache()
            # below a bucket and by a prefix: where nothing is, other forms ask whether the folder is a file
            bucket, _, key = root.partition("/")
            where = {"path": bucket, "prefix": f"{key}/"} if key and self.has_conditions else {"path": root}
            try:
                found = self._filesystem.find(**where, detail=True)
            except FileNotFoundError:
                found = {}
        told = {str(path): _told_of(info) for path, info in found.items() if info["type"] != "directory"}
        _COPIES.compare(self._filesystem, root, told)
        return {path[len(root) + 1 :]: one for path, one in told.items() if path.startswith(f"{root}/")}

    def version(self, path: str) -> Listed | None:
        """An object as it is now; None if there is none."""
        with _told():
            self._filesystem.invalidate_cache(path)
            self._filesystem.invalidate_cache(path.rpartition("/")[0])
            try:
                return _told_of(self._filesystem.info(path))
            except FileNotFoundError:
                return None

    def exists(self, path: str) -> bool:
        """Whether there is an object of that name, or something below it."""
        with _told():
            self._filesystem.invalidate_cache()
            return bool(self._filesystem.exists(path))

    def opened(self, path: str, *, again: bool = False) -> BinaryIO:
        """The object, from a copy on this machine's disk; `again` makes the copy anew.

        Raises:
            FileNotFoundError: there is none.
        """
        held = None if again else _COPIES.opened(self._filesystem, path)
        if held is not None:
            return held
        local = _fresh()
        try:
            with _told():
                # one request: by itself gcsfs first asks for the size, to read large ones in pieces
                more = {"concurrency": 1} if self._kind in ("gs", "gcs") else {}
                self._filesystem.get_file(path, local, **more)
        except BaseException:
            Path(local).unlink(missing_ok=True)
            raise
        return _COPIES.keep(self._filesystem, path, local)

    def in_pieces(self, path: str, size: int) -> BinaryIO:
        """As `opened`, where little is read of an object of so many bytes: of a large one each read is a request."""
        if size <= _SMALL:
            return self.opened(path)
        held = _COPIES.opened(self._filesystem, path)
        return held or cast("BinaryIO", io.BufferedReader(_Pieces(self._filesystem, path, size)))

    def put(self, local: str, path: str) -> None:
        """Writes a whole object, whatever was there."""
        with _told():
            self._filesystem.put_file(local, path)
        _COPIES.drop(self._filesystem, path)

    def put_over(self, local: str, path: str, seen: str) -> str:
        """Writes a whole object in place of the one that was seen, and returns the version of the new one.

        Args:
            local: file with its bytes.
            path: of the object.
            seen: version of what it replaces; empty for none.

        Raises:
            ReplacedError: there is another.
        """
        try:
            with _told():
                made = self._put_over(local, path, seen)
        except OSError as error:
            said = str(error).lower()
            gone = bool(seen) and isinstance(error, FileNotFoundError)
            if gone or isinstance(error, FileExistsError) or any(word in said for word in _REFUSED):
                _COPIES.drop(self._filesystem, path)
                raise ReplacedError(f"{path} is another than it was") from error
            if not any(word in said for word in _LACKING):
                raise
            self.put(local, path)
            return ""
        self._filesystem.invalidate_cache(path)
        _COPIES.keep(self._filesystem, path, shutil.copyfile(local, _fresh()), made).close()
        return made

    def _put_over(self, local: str, path: str, seen: str) -> str:
        if not self.has_conditions:
            self._filesystem.put_file(local, path)
            return ""
        if os.path.getsize(local) > _AT_ONCE:
            if seen:
                self._filesystem.rm_file(path)
            self._filesystem.put_file(local, path, mode="create")
            return ""
        bucket, key, _ = self._filesystem.split_path(path)
        data = Path(local).read_bytes()
        if self._kind == "s3":
            condition = {"IfMatch": seen} if seen else {"IfNoneMatch": "*"}
            told = self._filesystem.call_s3("put_object", Bucket=bucket, Key=key, Body=data, **condition)
            return str(told["ETag"])
        told = self._filesystem.call(
            "POST",
            f"{self._filesystem._location}/upload/storage/v1/b/{quote(bucket)}/o",
            uploadType="media",
            name=key,
            ifGenerationMatch=seen or "0",
            headers={"Content-Type": "application/octet-stream"},
            data=data,
            json_out=True,
        )
        return str(told["generation"])

    def older(self, root: str) -> int | None:
        """Of how many objects below a path the bucket keeps versions that were replaced or removed; None: not told."""
        bucket, _, key = root.partition("/")
        found = {"s3": self._older_of_s3, "gs": self._older_of_google, "gcs": self._older_of_google}.get(self._kind)
        with suppress(OSError), _told():
            return None if found is None else len(found(bucket, f"{key}/"))
        return None

    def _older_of_s3(self, bucket: str, lead: str) -> set[str]:
        names: set[str] = set()
        place: dict[str, str] = {}
        while True:
            page = self._filesystem.call_s3("list_object_versions", Bucket=bucket, Prefix=lead, **place)
            names |= {one["Key"] for one in page.get("Versions", ()) if not one["IsLatest"]}
            if not page.get("IsTruncated"):
                return names
            place = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}

    def _older_of_google(self, bucket: str, lead: str) -> set[str]:
        """Those of versioning, and those that are held for some days after they were removed, as by default."""
        names: set[str] = set()
        kept = self._filesystem.call("GET", "b/{}", bucket, json_out=True).get("softDeletePolicy", {})
        held = int(kept.get("retentionDurationSeconds", 0)) > 0
        for which in ({"versions": "true"}, *([{"softDeleted": "true"}] if held else [])):
            place: dict[str, str] = {}
            while True:
                page = self._filesystem.call("GET", "b/{}/o", bucket, prefix=lead, json_out=True, **which, **place)
                gone = [one for one in page.get("items", ()) if "timeDeleted" in one or "softDeleteTime" in one]
                names |= {one["name"] for one in gone}
                if not page.get("nextPageToken"):
                    break
                place = {"pageToken": page["nextPageToken"]}
        return names

    def remove(self, path: str) -> None:
        """Removes an object; nothing happens if there is none."""
        _COPIES.drop(self._filesystem, path)
        with _told(), suppress(FileNotFoundError):
            self._filesystem.rm_file(path)


def forget() -> None:
    """Forgets all copies of this process: for when somebody else may have written since."""
    _COPIES.clear()


def _told_of(info: Mapping[str, Any]) -> Listed:
    version = str(info.get("generation") or info.get("ETag") or "")
    return Listed(int(info["size"] or 0), version, _time_of(info.get("LastModified") or info.get("updated")))


def _time_of(told: Any) -> datetime | None:
    """A time as a store tells it: in ISO's form, or as its client has read that."""
    if isinstance(told, str):
        try:
            told = datetime.fromisoformat(told)
        except ValueError:
            return None
    if not isinstance(told, datetime):
        return None
    return told if told.tzinfo else told.replace(tzinfo=UTC)


@contextmanager
def _told() -> Iterator[None]:
    """What a store's client raises of its own kind is an OSError too."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _CLIENTS:
            raise
        raise OSError(f"{type(error).__name__}: {error}") from error


def _fresh() -> str:
    """The name of a file that goes with this process."""
    return f"{own_scratch()}/{token_hex(8)}"


class _Copy(NamedTuple):
    """A file with an object's bytes."""

    path: str
    bytes: int
    version: str


_Key: TypeAlias = tuple[int, str]


class _Copies:
    """The objects that this process has read or written last, as far as they fit; small ones apart from large ones."""

    def __init__(self) -> None:
        self._small: OrderedDict[_Key, _Copy] = OrderedDict()
        self._large: OrderedDict[_Key, _Copy] = OrderedDict()
        self._listed: dict[_Key, str] = {}
        self._lock = RLock()

    def opened(self, filesystem: Any, path: str) -> BinaryIO | None:
        key = id(filesystem), path
        with self._lock:
            for held in (self._small, self._large):
                if key in held:
                    held.move_to_end(key)
                    return open(held[key].path, "rb")
        return None

    def keep(self, filesystem: Any, path: str, local: str, version: str = "") -> BinaryIO:
        """Keeps a file, which is this object's from now on, as the copy of an object, and returns it open."""
        size, opened = os.path.getsize(local), open(local, "rb")  # noqa: SIM115 - closed by who reads it
        with self._lock:
            # what was read between two listings that tell the same version is of that
            version = version or self._listed.get((id(filesystem), path), "")
            self.drop(filesystem, path)
            held, most = (self._small, _SMALL_BYTES) if size <= _SMALL else (self._large, _HELD_BYTES)
            held[id(filesystem), path] = _Copy(local, size, version)
            while held and sum(one.bytes for one in held.values()) > most:
                self._let_go(held, next(iter(held)))
        return opened

    def compare(self, filesystem: Any, root: str, listed: Mapping[str, Listed]) -> None:
        """Drops the copies below a path that are not known to be what was listed."""
        with self._lock:
            self._listed.update({(id(filesystem), path): one.version for path, one in listed.items()})
            for held in (self._small, self._large):
                for key in [one for one in held if one[0] == id(filesystem) and one[1].startswith(f"{root}/")]:
                    now = listed.get(key[1])
                    if now is None or not held[key].version or held[key].version != now.version:
                        self._let_go(held, key)

    def drop(self, filesystem: Any, path: str) -> None:
        with self._lock:
            for held in (self._small, self._large):
                if (id(filesystem), path) in held:
                    self._let_go(held, (id(filesystem), path))

    def clear(self) -> None:
        with self._lock:
            self._listed.clear()
            for held in (self._small, self._large):
                for key in list(held):
                    self._let_go(held, key)

    def _let_go(self, held: OrderedDict[_Key, _Copy], key: _Key) -> None:
        Path(held.pop(key).path).unlink(missing_ok=True)


class _Pieces(io.RawIOBase):
    """An object of so many bytes, of which only what is read is asked for."""

    def __init__(self, filesystem: Any, path: str, size: int) -> None:
        self._filesystem, self._path, self._size, self._place = filesystem, path, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._place = (0, self._place, self._size)[whence] + offset
        return self._place

    def readinto(self, buffer: Any) -> int:
        end = min(self._place + len(buffer), self._size)
        if end <= self._place:
            return 0
        with _told():
            data = bytes(self._filesystem.cat_file(self._path, start=self._place, end=end))
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)


_COPIES: Final = _Copies()
