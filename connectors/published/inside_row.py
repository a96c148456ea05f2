"""Trajectories and rejects of a log that lies within a row of a table or a line of a file, placed at that row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trajmill.schemas import ParseError, Reject, Trajectory

Made = Iterator[Trajectory | Reject]


def place_at_row(results: Made, name: str, position: int) -> Made:
    """The trajectories and rejects of a log within a row, at the row's place; a `ParseError` becomes a reject.

    Args:
        results: what the parser of the log gave.
        name: of the connector that reads the row, for rejects.
        position: of the row.
    """
    try:
        for result in results:
            if isinstance(result, Reject):
                yield replace(result, offset=position, member="", connector=name)
            else:
                yield replace(result, steps=[replace(step, offset=position, member="") for step in result.steps])
    except ParseError as error:
        yield replace(Reject.of(error, "record", name), offset=position, member="")
