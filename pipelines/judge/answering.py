"""Answers of each tool, a few by hash: what checks of RL are tried by, whatever part of the corpus a turn lies in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.render.answered import Distractors, turn_of
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import answer_texts

_PLAIN: Final = ("row_id", "domain", "scrubbed")


class Answering:
    """The answers of a file's rows that are held against others: one batch, when all rows are known.

    Args:
        view: how samples show what happened.
    """

    def __init__(self, view: View) -> None:
        self._view, self._held = view, Distractors()

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Nothing yet: which answers are held is told by all of them."""
        after = batch["next_observation"]
        content = pc.struct_field(after, "content")
        rows = batch.filter(content.is_valid())
        answers = answer_texts(rows, self._view, marker="").to_pylist()
        columns: dict[str, list[Any]] = {name: rows[name].to_pylist() for name in _PLAIN}
        columns["action"] = _structs(rows, "action", ("name", "arguments"))
        columns["next_observation"] = _structs(rows, "next_observation", ("form",))
        for answer, *values in zip(answers, *columns.values(), strict=True):
            row = dict(zip(columns, values, strict=True))
            row["action"]["text"] = ""
            self._held.add(turn_of(row, answer, None))
        return iter(())

    def rest(self) -> Iterator[pa.RecordBatch]:
        """All that is held."""
        yield self._held.batch()


def _structs(rows: pa.RecordBatch, struct: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
    fields = [pc.struct_field(rows[struct], name).to_pylist() for name in names]
    return [dict(zip(names, values, strict=True)) for values in zip(*fields, strict=True)]
