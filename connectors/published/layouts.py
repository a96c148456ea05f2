"""Trajectories from the rows of a table, by the layout that a recipe states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trajmill.connectors.apis.chat_tools import find_written_calls
from trajmill.connectors.column_mapping import OF_STEP, WHOLE, Rows
from trajmill.connectors.connector import Blob, MemoryBlob
from trajmill.connectors.conversation.calls import MessageError, action_space
from trajmill.connectors.conversation.pairing import Unmatched
from trajmill.connectors.conversation.refusals import reject_conversation, reject_unmatched
from trajmill.connectors.conversation.shapes import conversation_in
from trajmill.connectors.conversation.tools import domain_of as domain_of_tools
from trajmill.connectors.published.cells import at, complete_trajectory, domain_of, role, text
from trajmill.connectors.published.inside_row import Made, place_at_row
from trajmill.connectors.published.steps import Record, steps_of
from trajmill.connectors.published.tables import Row, Table
from trajmill.connectors.reading.values import json_value
from trajmill.connectors.recordings.terminus import chat as terminus_chat
from trajmill.connectors.swe.swe_rows import read_row
from trajmill.schemas import Context, ParseError, Reject, Task, Trajectory, json_text

OPEN_BYTES: Final = 1 << 30
"""Largest amount of text of rows that wait for the rest of their trajectories, if trajectories are mixed."""

_NAMELESS: Final = "row"
"""Native id of a trajectory whose row has none. It is the same for all, so that equal trajectories get equal ids."""


def map_rows(blob: Blob, name: str, table: Table, rows: Rows, inner: Callable[[Blob], Made] | None) -> Made:
    """Yield the trajectories of a table by the recipe's mapping, and a reject for each row that does not fit.

    Args:
        blob: the table's log.
        rows: the mapping, with a layout.
        inner: parser of the logs in the rows of layout `log`.

    Raises:
        ParseError: reading cannot continue.
    """
    columns = columns_of(rows)
    if rows.layout == "transitions":
        yield from _transitions(blob, name, table, rows, columns)
        return
    for position, row in table.rows(columns):
        if isinstance(row, ParseError):
            yield Reject.of(row, "record", name)
            continue
        try:
            if rows.layout == "messages":
                yield from _messages(blob, name, position, row, rows)
            elif rows.layout == "steps":
                yield from _steps(blob, name, position, row, rows)
            else:
                assert inner is not None
                yield from _log(blob, name, position, row, rows, inner)
        except MessageError as error:
            yield reject_conversation(blob, name, position, error.reason, error.detail)


def _read_list(value: Any, noun: str, column: str | None) -> list[Any]:
    """Return the list in a cell, as it is or from JSON text.

    Raises:
        MessageError: the cell holds no list.
    """
    if isinstance(value, str):
        try:
            value = json_value(value)
        except ValueError as error:
            raise MessageError("bad_json", f"column {column} is no JSON text: {error}") from error
    if not isinstance(value, list):
        raise MessageError(f"no_{noun}", f"wanted a list of {noun} in column {column}, met {type(value).__name__}")
    return value


def _messages(blob: Blob, name: str, position: int, row: Row, rows: Rows) -> Made:
    column = rows.column("messages")
    messages = _read_list(at(row, column), "messages", column)
    domain = domain_of(row, rows, "mcp")
    if domain == "swe":
        result = read_row(blob, position, {"messages": messages})
        yield complete_trajectory(result, row, rows) if isinstance(result, Trajectory) else result
        return
    turns = terminus_chat.turns_of(messages) if domain == "terminal" else None
    if turns is not None:
        for result_of_chat in terminus_chat.trajectories(blob, name, position, turns, row):
            yield (
                complete_trajectory(result_of_chat, row, rows)
                if isinstance(result_of_chat, Trajectory)
                else result_of_chat
            )
        return
    written = find_written_calls(row, messages)
    chat = messages if written is None else list(written.structured(messages))
    dialogue = conversation_in(chat, position, instructed=role(row, rows, "instruction") is not None)
    yield from (reject_unmatched(blob.uri, name, Unmatched(lost.result, lost.reason)) for lost in dialogue.unmatched)
    if not dialogue.calls:
        yield reject_conversation(
            blob, name, position, "no_calls", "a conversation without a tool call", rows=len(dialogue.steps)
        )
        return
    trajectory = Trajectory(
        native_id=_NAMELESS,
        domain=dialogue.domain,
        steps=dialogue.steps,
        task=Task(None, dialogue.instruction),
        context=Context(action_space=action_space(written and written.tools), agent_system=dialogue.system),
    )
    yield complete_trajectory(trajectory, row, rows)


def _steps(blob: Blob, name: str, position: int, row: Row, rows: Rows) -> Made:
    column = rows.column("steps")
    values = _read_list(at(row, column), "steps", column)
    if not all(isinstance(value, dict) for value in values):
        raise MessageError("bad_step", f"wanted structs in column {column}")
    yield from _of_records(blob, name, [Record(position, value) for value in values], row, rows)


def _of_records(blob: Blob, name: str, records: Sequence[Record], row: Mapping[str, Any], rows: Rows) -> Made:
    """Yield the trajectory of records; `row` has the columns about the whole trajectory."""
    domain = domain_of(row, rows, "mcp")
    steps, skipped = steps_of(records, rows, domain)
    if not steps:
        raise MessageError("no_transitions", "no step holds an action")
    for skipped_record in skipped:
        detail = "a step between others that holds no action"
        yield Reject("record", "no_action", detail, blob.uri, offset=skipped_record.place, connector=name)
    yield complete_trajectory(
        Trajectory(_NAMELESS, domain_of_tools(step.action.name for step in steps), steps), row, rows
    )


def _log(blob: Blob, name: str, position: int, row: Row, rows: Rows, inner: Callable[[Blob], Made]) -> Made:
    """Yield the trajectories of the log in a cell, all with the position of its row."""
    column = rows.column("content")
    content = at(row, column)
    if isinstance(content, dict | list):
        content = json_text(content)
    if not isinstance(content, str | bytes) or not content:
        raise MessageError("no_content", f"wanted the text of a log in column {column}")
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    results = place_at_row(inner(MemoryBlob(blob.uri, data, blob.choices)), name, position)
    for result in results:
        yield complete_trajectory(result, row, rows) if isinstance(result, Trajectory) else result


def _transitions(blob: Blob, name: str, table: Table, rows: Rows, columns: Sequence[str]) -> Made:
    """Yield the trajectories whose transitions are rows with one id, in row order, each after its last row.

    The ids are read first, so rows of several trajectories may be mixed. An unreadable row leaves a gap, and the row
    after a gap does not show the effect of the action before it. The unreadable row may belong to any trajectory that
    is open or begins next (if rows are not mixed, to the one before or after it), so these are refused.

    Raises:
        ParseError: more than `OPEN_BYTES` of text waits for the rest of its trajectories (`rows_too_mixed`).
    """
    key = rows.column("id")
    assert key is not None
    left, mixed = _count_ids(table, key)
    waiting: dict[str, _Waiting] = {}
    size, hole = 0, False
    for position, row in table.rows(columns):
        if isinstance(row, ParseError):
            yield Reject.of(row, "record", name)
            hole = True
            for waiting_rows in waiting.values():
                waiting_rows.whole = False
            continue
        native = text(at(row, key))
        if native is None:
            yield Reject("record", "no_id", f"column {key} is null", blob.uri, offset=position, connector=name)
            continue
        if native in waiting:
            hole = hole and mixed
        else:
            waiting[native] = _Waiting(not hole)
            hole = False
        own = waiting[native]
        own.records.append(Record(position, row))
        grown = _size(row)
        own.size, size = own.size + grown, size + grown
        left[native] -= 1
        if left[native] == 0:
            size -= waiting.pop(native).size
            yield from _build_trajectory(blob, name, own, rows)
        elif size > OPEN_BYTES:
            detail = f"the rows of {len(waiting)} trajectories that are not at their end hold over {OPEN_BYTES} bytes"
            raise ParseError(blob.uri, position, "rows_too_mixed", detail)


def _count_ids(table: Table, key: str) -> tuple[Counter[str | None], bool]:
    """Return the number of rows of each id, and whether the rows of different ids are mixed."""
    left: Counter[str | None] = Counter()
    runs, last = 0, None
    for _, row in table.rows([key, key.partition(".")[0]]):
        if not isinstance(row, ParseError):
            native = text(at(row, key))
            runs += not left or native != last
            left[native] += 1
            last = native
    return left, runs > len(left)


@dataclass(slots=True)
class _Waiting:
    """The rows of a trajectory so far; `whole` is True if certainly none of them is missing."""

    whole: bool
    records: list[Record] = field(default_factory=list)
    size: int = 0


def _build_trajectory(blob: Blob, name: str, own: _Waiting, rows: Rows) -> Made:
    first = own.records[0].place
    if not own.whole:
        detail = "a row that cannot be read may be one of this trajectory"
        yield reject_conversation(blob, name, first, "row_missing", detail, rows=len(own.records))
        return
    try:
        values = [record.values for record in own.records]
        cells = {column: [at(row, column) for row in values] for role_, column in rows.columns if role_ in WHOLE}
        row = {
            column: next((cell for cell in column_cells if cell is not None), None)
            for column, column_cells in cells.items()
        }
        yield from _of_records(blob, name, own.records, row, rows)
    except MessageError as error:
        yield reject_conversation(blob, name, first, error.reason, error.detail, rows=len(own.records))


def _size(row: Mapping[str, Any]) -> int:
    """Return the approximate memory of a row's texts, in bytes."""
    return 64 + sum(len(cell) if isinstance(cell, str) else len(repr(cell)) for cell in row.values())


def columns_of(rows: Rows) -> list[str]:
    """Return the columns of the table that a mapping reads: each by its name, for `column.field` also the column."""
    own = [column for name, column in rows.columns if rows.layout != "steps" or name not in OF_STEP]
    return [*own, *(column.split(".")[0] for column in own)]
