"""Trajectories and rejects of a log inside a row of a table or a line of a file, located at that row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trajmill.schemas import ParseError, Reject, Trajectory

Made = Iterator[Trajectory | Reject]


def place_at_row(results: Made, name: str, position: int) -> Made:
    """Yield the trajectories and rejects of a log inside a row, with the row's position; an error is a reject.

    Args:
        results: results of the log's parser.
        name: name of the connector that reads the row, for rejects.
    """
    try:
        for result in results:
            if isinstance(result, Reject):
                yield replace(result, offset=position, member="", connector=name)
            else:
                yield replace(result, steps=[replace(step, offset=position, member="") for step in result.steps])
    except ParseError as error:
        yield replace(Reject.of(error, "record", name), offset=position, member="")
