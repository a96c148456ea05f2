"""Object stores for output folders: few requests, whole objects, and conditional writes.

A conditional write replaces only the version that was seen. Every failure is an `OSError`, after retries by the store's
own client: those of `s3://` and `gs://` back off from 429, 5xx and broken connections (see `paths.filesystem_of`). The
owner of a folder does not matter here.
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
"""Largest size in bytes of an object that is never read in pieces, and whose copy is not displaced by larger ones."""
_SMALL_BYTES: Final = 64 << 20
_AT_ONCE: Final = 64 << 20
"""Largest size in bytes of an object that is put in one conditional request. A larger one is put in pieces."""

_CLIENTS: Final = frozenset(("aiobotocore", "aiohttp", "botocore", "gcsfs", "google", "requests"))
_REFUSED: Final = ("preconditionfailed", "pre-conditions you specified did not hold", "conflicting")
_LACKING: Final = ("not implemented", "notimplemented")
"""Messages of S3-compatible stores without conditional writes."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An object in a listing.

    Attributes:
        version: its version, which changes with each write; empty if unknown.
        written: time of the write, by the store's clock; None if unknown.
    """

    bytes: int
    version: str
    written: datetime | None = None


class ReplacedError(OSError):
    """Error for an object that is not, or no longer, the version that a writer has seen."""


class ObjectStore:
    """A file system of fsspec other than the local one.

    Objects that it has read or written are kept on the local disk, so that they are not requested twice; see `forget`.
    """

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem
        protocol = filesystem.protocol
        self._kind = protocol if isinstance(protocol, str) else protocol[0]

    @property
    def has_conditions(self) -> bool:
        """True if the store supports conditional writes."""
        return self._kind in ("s3", "gs", "gcs")

    def listed(self, root: str) -> dict[str, Listed]:
        """List the objects below a path, by relative name. Copies of objects that have changed are dropped."""
        with _told():
            self._filesystem.invalidate_cache()
            # list the bucket by prefix: for a missing folder, other forms make a request whether it is a file
            bucket, _, key = root.partition("/")
            where = {"path": bucket, "prefix": f"{key}/"} if key and self.has_conditions else {"path": root}
            try:
                infos = self._filesystem.find(**where, detail=True)
            except FileNotFoundError:
                infos = {}
        objects = {str(path): _listed_of(info) for path, info in infos.items() if info["type"] != "directory"}
        _COPIES.compare(self._filesystem, root, objects)
        return {path[len(root) + 1 :]: listed for path, listed in objects.items() if path.startswith(f"{root}/")}

    def version(self, path: str) -> Listed | None:
        """Return the current listing of an object; None if there is none."""
        with _told():
            self._filesystem.invalidate_cache(path)
            self._filesystem.invalidate_cache(path.rpartition("/")[0])
            try:
                return _listed_of(self._filesystem.info(path))
            except FileNotFoundError:
                return None

    def exists(self, path: str) -> bool:
        """Return True if there is an object of that name, or any object below it."""
        with _told():
            self._filesystem.invalidate_cache()
            return bool(self._filesystem.exists(path))

    def opened(self, path: str, *, again: bool = False) -> BinaryIO:
        """Open the object from a copy on the local disk; `again` makes the copy anew.

        Raises:
            FileNotFoundError: there is none.
        """
        copy = None if again else _COPIES.opened(self._filesystem, path)
        if copy is not None:
            return copy
        local = _fresh()
        try:
            with _told():
                # one request: by default gcsfs first requests the size, to read large objects in pieces
                more = {"concurrency": 1} if self._kind in ("gs", "gcs") else {}
                self._filesystem.get_file(path, local, **more)
        except BaseException:
            Path(local).unlink(missing_ok=True)
            raise
        return _COPIES.keep(self._filesystem, path, local)

    def in_pieces(self, path: str, size: int) -> BinaryIO:
        """Open the object for reading a small part. Each read of a large object is a request."""
        if size <= _SMALL:
            return self.opened(path)
        copy = _COPIES.opened(self._filesystem, path)
        return copy or cast("BinaryIO", io.BufferedReader(_Pieces(self._filesystem, path, size)))

    def put(self, local: str, path: str) -> None:
        """Write a whole object, replacing any existing one."""
        with _told():
            self._filesystem.put_file(local, path)
        _COPIES.drop(self._filesystem, path)

    def put_over(self, local: str, path: str, seen: str) -> str:
        """Write a whole object in place of the version that was seen, and return the new version.

        Args:
            seen: version that it replaces; empty for none.

        Raises:
            ReplacedError: another version exists.
        """
        try:
            with _told():
                version = self._put_over(local, path, seen)
        except OSError as error:
            message = str(error).lower()
            gone = bool(seen) and isinstance(error, FileNotFoundError)
            if gone or isinstance(error, FileExistsError) or any(word in message for word in _REFUSED):
                _COPIES.drop(self._filesystem, path)
                raise ReplacedError(f"{path} is another than it was") from error
            if not any(word in message for word in _LACKING):
                raise
            self.put(local, path)
            return ""
        self._filesystem.invalidate_cache(path)
        _COPIES.keep(self._filesystem, path, shutil.copyfile(local, _fresh()), version).close()
        return version

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
            response = self._filesystem.call_s3("put_object", Bucket=bucket, Key=key, Body=data, **condition)
            return str(response["ETag"])
        response = self._filesystem.call(
            "POST",
            f"{self._filesystem._location}/upload/storage/v1/b/{quote(bucket)}/o",
            uploadType="media",
            name=key,
            ifGenerationMatch=seen or "0",
            headers={"Content-Type": "application/octet-stream"},
            data=data,
            json_out=True,
        )
        return str(response["generation"])

    def older(self, root: str) -> int | None:
        """Count the objects below a path of which the bucket keeps replaced or removed versions; None if unknown."""
        bucket, _, key = root.partition("/")
        lister = {"s3": self._older_of_s3, "gs": self._older_of_google, "gcs": self._older_of_google}.get(self._kind)
        with suppress(OSError), _told():
            return None if lister is None else len(lister(bucket, f"{key}/"))
        return None

    def _older_of_s3(self, bucket: str, lead: str) -> set[str]:
        names: set[str] = set()
        position: dict[str, str] = {}
        while True:
            page = self._filesystem.call_s3("list_object_versions", Bucket=bucket, Prefix=lead, **position)
            names |= {entry["Key"] for entry in page.get("Versions", ()) if not entry["IsLatest"]}
            if not page.get("IsTruncated"):
                return names
            position = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}

    def _older_of_google(self, bucket: str, lead: str) -> set[str]:
        """Return names with older versions, and names that are retained for some days after removal (the default)."""
        names: set[str] = set()
        policy = self._filesystem.call("GET", "b/{}", bucket, json_out=True).get("softDeletePolicy", {})
        keeps_removed = int(policy.get("retentionDurationSeconds", 0)) > 0
        for selection in ({"versions": "true"}, *([{"softDeleted": "true"}] if keeps_removed else [])):
            position: dict[str, str] = {}
            while True:
                page = self._filesystem.call(
                    "GET", "b/{}/o", bucket, prefix=lead, json_out=True, **selection, **position
                )
                gone = [entry for entry in page.get("items", ()) if "timeDeleted" in entry or "softDeleteTime" in entry]
                names |= {entry["name"] for entry in gone}
                if not page.get("nextPageToken"):
                    break
                position = {"pageToken": page["nextPageToken"]}
        return names

    def remove(self, path: str) -> None:
        """Remove an object, if it exists."""
        _COPIES.drop(self._filesystem, path)
        with _told(), suppress(FileNotFoundError):
            self._filesystem.rm_file(path)


def forget() -> None:
    """Drop all copies of this process, for use when another process may have written since."""
    _COPIES.clear()


def _listed_of(info: Mapping[str, Any]) -> Listed:
    version = str(info.get("generation") or info.get("ETag") or "")
    return Listed(int(info["size"] or 0), version, _time_of(info.get("LastModified") or info.get("updated")))


def _time_of(value: Any) -> datetime | None:
    """Parse a store's time, in ISO form or as parsed by its client."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


@contextmanager
def _told() -> Iterator[None]:
    """Turn exceptions of a store's client into OSErrors."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _CLIENTS:
            raise
        raise OSError(f"{type(error).__name__}: {error}") from error


def _fresh() -> str:
    """Return the path of a new file that is removed with this process."""
    return f"{own_scratch()}/{token_hex(8)}"


class _Copy(NamedTuple):
    """A file with an object's bytes."""

    path: str
    bytes: int
    version: str


_Key: TypeAlias = tuple[int, str]


class _Copies:
    """Objects that this process has read or written last, within a size limit, small ones apart from large ones."""

    def __init__(self) -> None:
        self._small: OrderedDict[_Key, _Copy] = OrderedDict()
        self._large: OrderedDict[_Key, _Copy] = OrderedDict()
        self._listed: dict[_Key, str] = {}
        self._lock = RLock()

    def opened(self, filesystem: Any, path: str) -> BinaryIO | None:
        key = id(filesystem), path
        with self._lock:
            for copies in (self._small, self._large):
                if key in copies:
                    copies.move_to_end(key)
                    return open(copies[key].path, "rb")
        return None

    def keep(self, filesystem: Any, path: str, local: str, version: str = "") -> BinaryIO:
        """Take over a file as the copy of an object, and return it open."""
        size, opened = os.path.getsize(local), open(local, "rb")  # noqa: SIM115 - closed by who reads it
        with self._lock:
            # a file read between two listings with the same version is of that version
            version = version or self._listed.get((id(filesystem), path), "")
            self.drop(filesystem, path)
            copies, most = (self._small, _SMALL_BYTES) if size <= _SMALL else (self._large, _HELD_BYTES)
            copies[id(filesystem), path] = _Copy(local, size, version)
            while copies and sum(copy.bytes for copy in copies.values()) > most:
                self._let_go(copies, next(iter(copies)))
        return opened

    def compare(self, filesystem: Any, root: str, listed: Mapping[str, Listed]) -> None:
        """Drop the copies below a path whose version is not known to be the listed one."""
        with self._lock:
            self._listed.update({(id(filesystem), path): object_.version for path, object_ in listed.items()})
            for copies in (self._small, self._large):
                for key in [
                    copy_key
                    for copy_key in copies
                    if copy_key[0] == id(filesystem) and copy_key[1].startswith(f"{root}/")
                ]:
                    now = listed.get(key[1])
                    if now is None or not copies[key].version or copies[key].version != now.version:
                        self._let_go(copies, key)

    def drop(self, filesystem: Any, path: str) -> None:
        with self._lock:
            for copies in (self._small, self._large):
                if (id(filesystem), path) in copies:
                    self._let_go(copies, (id(filesystem), path))

    def clear(self) -> None:
        with self._lock:
            self._listed.clear()
            for copies in (self._small, self._large):
                for key in list(copies):
                    self._let_go(copies, key)

    def _let_go(self, copies: OrderedDict[_Key, _Copy], key: _Key) -> None:
        Path(copies.pop(key).path).unlink(missing_ok=True)


class _Pieces(io.RawIOBase):
    """An object of known size whose parts are requested as they are read."""

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
