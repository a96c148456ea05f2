"""Text search in the actions and observations of every step of a run, limited to a short time."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from trajmill.app.pages.run_files import Judged
from trajmill.schemas import scan_transitions

_ROWS: Final = 5000
"""Rows of a file that are searched at once."""

_AROUND: Final = 60


@dataclass(frozen=True, slots=True)
class Hit:
    """Step that contains the text.

    Attributes:
        key: Key of the trajectory in the index.
        where: `action` or `after`.
        before: Text before the match on its line.
        text: Matched text as written there.
        after: Text after the match.
    """

    key: str
    step: int
    where: str
    before: str
    text: str
    after: str


@dataclass(frozen=True, slots=True)
class Searched:
    """Result of a search.

    Attributes:
        hits: Hits in the order of the files.
        next: (file, row) at which to continue; None if all files were searched.
        share: Share of the files that was searched, from 0 to 1.
    """

    hits: Sequence[Hit]
    next: tuple[int, int] | None
    share: float


def search_text(
    files: Sequence[Judged], text: str, begin: tuple[int, int] = (0, 0), most: int = 100, seconds: float = 2.0
) -> Searched:
    """Search the steps for a text, ignoring case, from a position on.

    Args:
        begin: File and row of the first step.
        most: Hits after which the search pauses.
        seconds: Seconds after which it pauses.
    """
    hits: list[Hit] = []
    until = time.monotonic() + seconds
    for number, row, block in _blocks(files, begin):
        if len(hits) >= most or time.monotonic() > until:
            return Searched(hits, (number, row), number / max(len(files), 1))
        hits += _hits(block, text)
    return Searched(hits, None, 1.0)


def _blocks(files: Sequence[Judged], begin: tuple[int, int]) -> Iterator[tuple[int, int, pl.LazyFrame]]:
    for number in range(begin[0], len(files)):
        scan = scan_transitions(files[number].transitions)
        rows = scan.select(pl.len()).collect().item()
        for row in range(begin[1] if number == begin[0] else 0, rows, _ROWS):
            yield number, row, scan.slice(row, _ROWS)


def _hits(block: pl.LazyFrame, text: str) -> list[Hit]:
    columns = {
        "action": pl.col("action").struct.field("text"),
        "after": pl.col("next_observation").struct.field("content"),
    }
    matches = (
        block.select("row_id", "step", **columns)
        .filter(pl.any_horizontal(_holds(name, text) for name in columns))
        .collect()
    )
    return [_hit(row, text) for row in matches.iter_rows(named=True)]


def _holds(name: str, text: str) -> pl.Expr:
    return pl.col(name).str.contains_any([text], ascii_case_insensitive=True).fill_null(value=False)


def _hit(row: dict[str, Any], text: str) -> Hit:
    pattern = re.compile(re.escape(text), re.IGNORECASE | re.ASCII)
    where = "action" if pattern.search(row["action"] or "") else "after"
    content: str = row[where] or ""
    met = pattern.search(content)
    begin, end = met.span() if met else (0, 0)
    line = content.rfind("\n", 0, begin) + 1
    last = content.find("\n", end)
    after = content[end : min(len(content) if last < 0 else last, end + _AROUND)]
    key = row["row_id"].rpartition("-")[0]
    return Hit(key, row["step"], where, content[max(line, begin - _AROUND) : begin], content[begin:end], after)
