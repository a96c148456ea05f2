"""Trajectories and rejects of a log that lies within a row of a table or a line of a file, placed at that row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trajmill.schemas import ParseError, Reject, Trajectory

Made = Iterator[Trajectory | Reject]


def placed(found: Made, name: str, place: int) -> Made:
    """The trajectories and rejects of a log within a row, at the row's place; a `ParseError` becomes a reject.

    Args:
        found: what the parser of the log gave.
        name: of the connector that reads the row, for rejects.
        place: of the row.
    """
    try:
        for one in found:
            if isinstance(one, Reject):
                yield replace(one, offset=place, member="", connector=name)
            else:
                yield replace(one, steps=[replace(step, offset=place, member="") for step in one.steps])
    except ParseError as error:
        yield replace(Reject.of(error, "record", name), offset=place, member="")
