"""Where in the code a connector failed, for the one who mends it: of an exception that it raised, in whatever way."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Final

import connectors
import quality
import schemas
from connectors.connector import Connector

OURS: Final = (connectors, quality, schemas)
"""Packages whose code makes rows of logs."""

_ASKING: Final = "connectors.registry"


def raised_at(error: BaseException, connector: Connector) -> str:
    """`module:function:line` of the connector's innermost frame, or else of one of our packages; empty without one."""
    own = {connectors.__name__, type(connector).__module__.partition(".")[0]}
    frames = [frame for frame in _frames(error.__traceback__) if frame[0] != _ASKING]
    for packages in (own, {package.__name__ for package in OURS}):
        inside = [frame for frame in frames if frame[0].partition(".")[0] in packages]
        if inside:
            return ":".join(map(str, inside[-1]))
    return ""


def _frames(trace: TracebackType | None) -> Iterator[tuple[str, str, int]]:
    while trace is not None:
        yield trace.tb_frame.f_globals.get("__name__", ""), trace.tb_frame.f_code.co_name, trace.tb_lineno
        trace = trace.tb_next
