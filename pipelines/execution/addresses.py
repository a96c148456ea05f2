"""Whether what a run is told to reach can be reached: file systems by their packages, runners by their address."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from trajmill.pipelines.storage.paths import filesystem_class
from trajmill.schemas import ConfigError, ShardError

_PATIENCE_S: Final = 5.0


def require_openable(urls: Iterable[str]) -> None:
    """Returns if there is a file system for each path or URL.

    Raises:
        ConfigError: a package is missing for one, or nobody knows its kind.
    """
    for url in urls:
        protocol, mark, _ = url.partition("://")
        if mark and protocol.replace("+", "").isalnum():
            filesystem_class(url)


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
        url = urlsplit(address if "://" in address else f"//{address}")
        host, port = url.hostname, url.port
    except ValueError:
        host = port = None
    if host is None or port is None:
        raise ConfigError(f"--{option}={address}: wanted host:port.")
    try:
        socket.create_connection((host, port), timeout=_PATIENCE_S).close()
    except OSError as error:
        raise ShardError(f"No runner answers at {address} (--{option}): {error}. Start it, or name another") from error
