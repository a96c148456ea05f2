"""Export: transitions in the form of another tool, one document a trajectory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, Final

import orjson

from pipelines.engine.parquet import read_transitions
from pipelines.engine.storage import Folder
from pipelines.face.atif_documents import atif_document
from schemas import ConfigError
from schemas.scan import transition_files

Row = Mapping[str, Any]

FORMATS: Final[Mapping[str, Callable[[Sequence[Row]], dict[str, Any]]]] = {"atif": atif_document}
"""Name → the document of a trajectory's rows."""


def stored_trajectories(path: str) -> Iterator[list[Row]]:
    """The rows of each trajectory stored at a path, as Python values, in the order of the files.

    Raises:
        ConfigError: there are no transitions there.
    """
    for file in transition_files(path):
        folder = Folder(str(Path(file).parent))
        rows = (row for batch in read_transitions(folder, Path(file).name) for row in batch.to_pylist())
        first: tuple[int, Row] = (0, {})
        for number, numbered in groupby(accumulate(rows, _numbered, initial=first), key=lambda pair: pair[0]):
            if number:
                yield [row for _, row in numbered]


def _numbered(before: tuple[int, Row], row: Row) -> tuple[int, Row]:
    """The row with the number of its trajectory in the file, which may go on from one row group to the next."""
    return before[0] + (row["step"] == 0), row


def export(path: str, form: str, out: str, also: Sequence[str] = ()) -> int:
    """Writes every trajectory stored at a path as `<trajectory id>/trajectory.json` below `out`; returns how many.

    A trajectory that stands twice is written once. `also` are names of forms that are written elsewhere, to be told of.

    Raises:
        ConfigError: the format is not known, there are no transitions, or the folder holds files.
    """
    if Folder(out).names():
        raise ConfigError(f"{out} holds files, which are not replaced. Choose another --out, or empty it.")
    if form not in FORMATS:
        raise ConfigError(f"There is no export format '{form}'; there are: {', '.join([*FORMATS, *also])}.")
    folder, done = Folder(out), set[str]()
    for rows in stored_trajectories(path):
        key = rows[0]["trajectory_id"]
        if key not in done:
            done.add(key)
            folder.write(
                f"{key}/trajectory.json", orjson.dumps(FORMATS[form](rows), option=orjson.OPT_INDENT_2) + b"\n"
            )
    return len(done)
