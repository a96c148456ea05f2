"""Location of a connector's innermost frame in a traceback, for the developer who fixes it."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Final

from trajmill.connectors.connector import Connector

OURS: Final = ("trajmill.connectors", "trajmill.quality", "trajmill.schemas")
"""Packages whose code turns logs into rows."""

_ASKING: Final = "trajmill.connectors.registry"


def frame_of(error: BaseException, connector: Connector) -> str:
    """Return `module:function:line` of the connector's innermost frame; empty if there is none.

    If the connector has no frame, the innermost frame of our packages is returned.
    """
    own = {OURS[0], package_of(type(connector))}
    frames = [frame for frame in _frames(error.__traceback__) if frame[0] != _ASKING]
    for packages in (own, set(OURS)):
        inside = [frame for frame in frames if _package(frame[0]) in packages]
        if inside:
            return ":".join(map(str, inside[-1]))
    return ""


def package_of(kind: type) -> str:
    """Return the top-level package that defines a class; for trajmill's own classes, the package below `trajmill`."""
    return _package(kind.__module__)


def _package(module: str) -> str:
    top, _, rest = module.partition(".")
    return f"{top}.{rest.partition('.')[0]}" if top == "trajmill" else top


def _frames(trace: TracebackType | None) -> Iterator[tuple[str, str, int]]:
    while trace is not None:
        yield trace.tb_frame.f_globals.get("__name__", ""), trace.tb_frame.f_code.co_name, trace.tb_lineno
        trace = trace.tb_next
