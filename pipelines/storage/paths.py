"""Places of raw bytes: a local file by its literal path, a URL, or a member of an archive; and names as text.

A local path is never parsed. Even if its name holds `::`, `!/`, `*` or bytes that are not text, it is opened literally.
A URL begins with a known scheme.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, cast

import fsspec
from fsspec.registry import known_implementations

from trajmill.schemas import ConfigError

JUNK: Final = frozenset(
    (".DS_Store", "__MACOSX", "Thumbs.db", ".git", ".gitignore", ".gitattributes", ".gitkeep", ".ipynb_checkpoints")
)
"""Names of files and folders that systems and tools leave beside others, and that are never input."""

_URL: Final = re.compile(r"([a-z0-9]+)://")
_LOCAL: Final = ("file", "local")
_NOT_TEXT: Final = re.compile(r"[\ud800-\udfff]|\\(?=x[0-9a-f]{2})")
_ESCAPE: Final = re.compile(r"(?:\\x[0-9a-f]{2})+")
_BYTES: Final = range(0xDC80, 0xDD00)
"""Code points by which Python represents the bytes of a name that are not UTF-8."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Place of the bytes of a raw file.

    Attributes:
        path: an absolute local path, or a URL.
        within: names of members from the outermost archive inwards; empty for the file at `path` itself.
    """

    path: str
    within: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """True if the file, or the archive that contains it, is on the local file system."""
        return self.path.startswith("/")

    @property
    def name(self) -> str:
        """The last name of the place."""
        return (self.within[-1] if self.within else self.path).rpartition("/")[2]

    @property
    def archive(self) -> Place:
        """The archive that contains the member."""
        return Place(self.path, self.within[:-1])

    def member(self, name: str) -> Place:
        """Return a member of the archive at this place."""
        return Place(self.path, (*self.within, name))

    def to_json(self) -> list[str]:
        """Convert path and members to a list of texts, from which `from_json` restores the place."""
        return [text_of(name) for name in (self.path, *self.within)]

    @classmethod
    def from_json(cls, names: list[str]) -> Place:
        """Restore the place from the output of `to_json`."""
        path, *within = (name_of(text) for text in names)
        return cls(path, tuple(within))


def text_of(name: str) -> str:
    r"""The name as text without lone surrogates; no two names have the same text.

    A byte that is no UTF-8 becomes `\xNN`; so that no other name can be taken for it, a backslash that would begin such
    a sign becomes `\x5c`. Any other name is its own text.
    """
    return _NOT_TEXT.sub(_escape, name)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    data = bytes([code - 0xDC00]) if code in _BYTES else match[0].encode("utf-8", "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in data)


def name_of(text: str) -> str:
    """Return the name from the output of `text_of`."""
    return _ESCAPE.sub(_unescape, text)


def _unescape(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("\\x", "")).decode("utf-8", "surrogateescape")


def url_of(raw: str) -> str | None:
    """Return the argument if it is a URL, which begins with a scheme known to fsspec; None if it is a local path."""
    match = _URL.match(raw)
    return raw if match and match[1] not in _LOCAL and match[1] in fsspec.available_protocols() else None


def local_path(raw: str) -> str:
    """Return the absolute path of an argument. Only a leading `~` or `file://` is not taken literally."""
    match = _URL.match(raw)
    if match and match[1] in _LOCAL:
        raw = raw[match.end() :]
    return os.path.abspath(raw if os.path.lexists(raw) else os.path.expanduser(raw))


def missing_package(error: BaseException) -> str:
    """Say what to install for a file system that fsspec cannot open, or that there is none of that name; else empty."""
    if isinstance(error, ImportError) and str(error):
        lacking = [name for name, known in known_implementations.items() if known.get("err") == str(error)]
        if lacking:
            names = " or ".join(f"{name}://" for name in lacking)
            module = known_implementations[lacking[0]]["class"].partition(".")[0]
            package = "aiohttp requests" if module == "fsspec" and "aiohttp" in str(error) else module
            extra = {"s3fs": "s3", "gcsfs": "gcs"}.get(package)
            wanted = f"trajmill[{extra}]" if extra else package
            advice = str(error) if package == "fsspec" else f"Install {wanted}."
            return f"{names} cannot be opened, since a package is missing. {advice}"
    if isinstance(error, ValueError) and str(error).startswith("Protocol not known"):
        return f"{error}. Wanted a path, or a URL such as s3://, gs://, https:// or hf://."
    return ""


def filesystem_class(url: str) -> Any:
    """Return the file system class of a URL.

    Raises:
        ConfigError: its package is missing, or its scheme is unknown.
    """
    try:
        return fsspec.get_filesystem_class(url.partition("://")[0])
    except (ImportError, ValueError) as error:
        raise ConfigError(missing_package(error) or f"{url} cannot be opened: {error}") from error


_PATIENT: Final[Mapping[str, dict[str, Any]]] = {
    "s3": {"config_kwargs": {"retries": {"mode": "legacy", "total_max_attempts": 8}}}
}
"""Retry settings of the clients of stores after 429, 5xx and broken connections.

Gcsfs tries 6 times by default, up to 32 seconds apart. Botocore's later modes take a 429 as an answer, which
S3-compatible stores send.
"""


def filesystem_of(url: str, *, listings: bool = True) -> tuple[Any, str]:
    """Return the file system of a URL and the path on it, which is everything after the scheme without chaining.

    Args:
        listings: whether to cache listings, for files that nobody writes.
    """
    kind = filesystem_class(url)
    more = {} if listings else {"use_listings_cache": False}
    patience = _PATIENT.get(url.partition("://")[0], {})
    return kind(**kind._get_kwargs_from_urls(url), **patience, **more), str(kind._strip_protocol(url)).rstrip("/")


def opened(path: str) -> BinaryIO:
    """Open a local path or URL for reading its raw bytes.

    Raises:
        OSError: it cannot be opened.
    """
    if path.startswith("/"):
        return open(path, "rb")
    filesystem, inner = filesystem_of(path)
    return cast("BinaryIO", filesystem.open(inner, "rb"))
