"""Rows of one trajectory, read at the position that the index gives: its outline, one step, or all of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from trajmill.app.pages.run_files import Judged
from trajmill.schemas import scan_transitions
from trajmill.schemas.verdict import KEY_FIELDS

_TEXT_CHARACTERS: Final = 240
_ELEMENT: Final = r'"(?:element|ref|target)": "(#[0-9]{1,9})"'
_NAME: Final = r'(?m)^ *{} [a-z0-9_.-]+ ("(?:[^"\\]|\\.)*")'
"""Pattern of the line of a tree element, a template for its number."""

_KEYS: Final = tuple(field.name for field in KEY_FIELDS)


class Rows:
    """Rows of files of transitions. Only the required pages of a file are read.

    Args:
        files: Files in the order in which the index counts them.
    """

    def __init__(self, files: Sequence[Judged]) -> None:
        self._files = files

    def outline(self, file: int, first: int, steps: int) -> list[dict[str, Any]]:
        """Read `step`, `turn`, `action`, `text`, `exit_code`, `is_error`, `use` and `reason` of some rows, in order.

        `action` and `text` are the action's name and the beginning of its text, in which the name of the target element
        replaces its number; `use` and `reason` are None if nothing was decided.
        """
        scan = scan_transitions(self._files[file].transitions).slice(first, steps)
        entries = scan.select(outline_columns()).collect()
        verdicts = self._files[file].verdicts
        if verdicts is None:
            return [{**row, "use": None, "reason": None} for row in entries.to_dicts()]
        decided = _verdicts(verdicts).select("use", "reason").slice(first, steps).collect()
        return pl.concat([entries, decided], how="horizontal").to_dicts()

    def whole(self, file: int, first: int, steps: int) -> list[dict[str, Any]]:
        """Return some rows as Python values, columns as in `TRANSITION_SCHEMA`."""
        return scan_transitions(self._files[file].transitions).slice(first, steps).collect().to_dicts()

    def verdict(self, file: int, row: int) -> dict[str, Any] | None:
        """Return the measures and the decision of one row, columns as in `schemas.verdict`; None before the judge
        stage.
        """
        verdicts = self._files[file].verdicts
        if verdicts is None:
            return None
        verdict_rows = _verdicts(verdicts).slice(row, 1).collect().to_dicts()
        return {name: value for name, value in verdict_rows[0].items() if name not in _KEYS} if verdict_rows else None


def outline_columns() -> list[pl.Expr]:
    """Return the columns of transitions that the outline reads."""
    action, after = pl.col("action").struct, pl.col("next_observation").struct
    text = action.field("text").str.slice(0, _TEXT_CHARACTERS)
    seen = pl.col("observation").struct.field("content")
    element = seen.str.extract(pl.format(_NAME, text.str.extract(_ELEMENT)))
    return [
        pl.col("step"),
        pl.col("turn"),
        action.field("name").alias("action"),
        pl.coalesce(text.str.replace(_ELEMENT, element.str.replace_all("$", "$$", literal=True)), text).alias("text"),
        pl.col("exit_code"),
        after.field("is_error").alias("is_error"),
    ]


def _verdicts(file: Path) -> pl.LazyFrame:
    return pl.scan_parquet(file, glob=False)
