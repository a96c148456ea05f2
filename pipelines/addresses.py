"""Whether what a run is told to reach can be reached: file systems by their packages, runners by their address."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

import fsspec
from fsspec.registry import known_implementations

from schemas import ConfigError, ShardError

_PATIENCE_S: Final = 5.0


def missing_package(error: BaseException) -> str:
    """What to do where fsspec lacks the package of a file system, or knows no file system of that name; else empty."""
    if isinstance(error, ImportError) and str(error):
        lacking = [name for name, known in known_implementations.items() if known.get("err") == str(error)]
        if lacking:
            names = " or ".join(f"{name}://" for name in lacking)
            module = known_implementations[lacking[0]]["class"].partition(".")[0]
            package = "aiohttp requests" if module == "fsspec" and "aiohttp" in str(error) else module
            words = f"pip install {package}" if package != "fsspec" else str(error)
            return f"{names} cannot be opened, since a package is missing: {words}"
    if isinstance(error, ValueError) and str(error).startswith("Protocol not known"):
        return f"{error}. Wanted a path, or a URL such as s3://, gs://, https:// or hf://."
    return ""


def require_openable(urls: Iterable[str]) -> None:
    """Returns if there is a file system for each path or URL.

    Raises:
        ConfigError: a package is missing for one, or nobody knows its kind.
    """
    for url in urls:
        protocol, mark, _ = url.partition("://")
        if mark and protocol.replace("+", "").isalnum():
            try:
                fsspec.get_filesystem_class(protocol)
            except (ImportError, ValueError) as error:
                raise ConfigError(missing_package(error) or f"{url} cannot be opened: {error}") from error


def require_answer(address: str, option: str) -> None:
    """Returns if somebody listens at an address within a few seconds.

    Args:
        address: `host:port`, or a URL that begins with it.
        option: that names it, for the message.

    Raises:
        ConfigError: it is no address.
        ShardError: nobody answers.
    """
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        place = parts.hostname, parts.port
    except ValueError:
        place = None, None
    if place[0] is None or place[1] is None:
        raise ConfigError(f"--{option}={address}: wanted host:port.")
    try:
        socket.create_connection((place[0], place[1]), timeout=_PATIENCE_S).close()
    except OSError as error:
        raise ShardError(f"No runner answers at {address} (--{option}): {error}. Start it, or name another") from error
