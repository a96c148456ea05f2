"""Tasks of Mind2Web from rows of one action each, as in Multimodal-Mind2Web.

A row is an action with the columns of its task: `annotation_id`, `website`, `confirmed_task`, `action_reprs`, and
`target_action_index`, its position among the actions. Adjacent rows with the same `annotation_id` are one task, with
its actions in order of their positions. If the row of a position is missing, the next observation of the action before
it is null. Screenshots are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from trajmill.connectors.reading.fields import whole_number_of

ABSENT: Final = object()
"""Value in place of an action whose row is missing."""

OFFSETS: Final = "offsets of actions"
"""Key of a task that was built from rows: the offset of each row, as a tuple."""

_COLUMNS: Final = (
    "action_uid",
    "raw_html",
    "cleaned_html",
    "operation",
    "pos_candidates",
    "website",
    "domain",
    "subdomain",
    "annotation_id",
    "confirmed_task",
    "action_reprs",
    "target_action_index",
)
"""The columns that are read."""

_NEEDED: Final = frozenset({"annotation_id", "operation"})
_PAGES: Final = frozenset({"raw_html", "cleaned_html"})
_OWN: Final = frozenset(_COLUMNS[:5])
MAX_PLACE: Final = 4096
"""Largest valid position; a row with a larger one counts as the next row."""


def is_row(columns: Iterable[str]) -> bool:
    """Check if columns, or the keys of an object, are those of an action with its task."""
    names = set(columns)
    return names >= _NEEDED and bool(names & _PAGES) and "actions" not in names


def columns_read(columns: Collection[str]) -> list[str] | None:
    """Return the columns to read from a table of actions with their tasks; None for any other table."""
    return [column for column in _COLUMNS if column in columns] if is_row(columns) else None


@dataclass(slots=True)
class _Open:
    """Rows of one task so far."""

    offset: int
    ident: Any
    task: dict[str, Any]
    actions: dict[int, tuple[int, dict[str, Any]]] = field(default_factory=dict)

    def whole(self) -> dict[str, Any]:
        """Return the task as in a file of tasks, with the offsets of its actions."""
        none = self.offset, ABSENT
        rows = [self.actions.get(number, none) for number in range(max(self.actions) + 1)]
        return {**self.task, "actions": [action for _, action in rows], OFFSETS: tuple(offset for offset, _ in rows)}


def tasks_of(values: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Yield (offset, task) of values that are tasks or rows of actions; other values are passed through.

    Args:
        values: (offset, value), in the order of the log. A task built from rows is yielded when the next one begins.
    """
    opened: _Open | None = None
    for offset, value in values:
        row = value if isinstance(value, dict) and is_row(value) else None
        number = _place(row, opened) if row is not None else 0
        if opened is not None and (row is None or row["annotation_id"] != opened.ident or number in opened.actions):
            yield opened.offset, opened.whole()
            opened = None
            number = _place(row, None) if row is not None else 0
        if row is None:
            yield offset, value
            continue
        if opened is None:
            task = {key: member for key, member in row.items() if key not in _OWN}
            opened = _Open(offset, row["annotation_id"], task)
        opened.actions[number] = offset, {key: row[key] for key in _OWN if key in row}
    if opened is not None:
        yield opened.offset, opened.whole()


def _place(row: dict[str, Any], opened: _Open | None) -> int:
    """Return the number of a row among the actions of its task: the stated one, or that after the largest yet."""
    stated = row.get("target_action_index")
    if isinstance(stated, str) and stated.isascii() and stated.isdigit() and len(stated) < 6:
        stated = int(stated)
    number = whole_number_of(stated, range(MAX_PLACE + 1))
    if number is not None:
        return number
    return max(opened.actions, default=-1) + 1 if opened is not None else 0
