"""Steps of a trajectory from records of observation, action and next observation, in columns or fields.

A record is a mapping; a recipe states the content of its fields (see `column_mapping`). An action may be

- a call: a struct (or JSON text of one) with a name and arguments, in any of the usual shapes;
- a list of calls, the parallel calls of one turn; a next observation that is a list of the same length is split among
  them, any other belongs to the last call;
- a list of `{keystrokes, duration}`, typed into a terminal;
- plain text: the argument of the tool that the recipe names, or, without a tool, the action as a model reads it;
- the name of a tool, if the recipe names a column of arguments.

If no next observation is given, it is the observation of the next record; that of the last record is then unknown. A
record without an action is no step: its observation is the next observation of the step before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from trajmill.connectors.column_mapping import Rows
from trajmill.connectors.conversation.calls import MessageError, call
from trajmill.connectors.conversation.content import media_type, seen_text, shown
from trajmill.connectors.conversation.references import with_references
from trajmill.connectors.conversation.turns import Call
from trajmill.connectors.published.cells import FORMS, cell_text, number, role, text, truth
from trajmill.connectors.reading.fields import whole_number_of
from trajmill.connectors.reading.json_text import is_json
from trajmill.connectors.reading.times import microseconds, moment
from trajmill.connectors.reading.values import json_value
from trajmill.schemas import KEYSTROKES, Action, Observation, Step, call_text, json_text, keystrokes_text

_WORD: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.-]{0,63})(?:\(|\s*$)")
_NAMES: Final = ("name", "function", "tool", "tool_name", "action_type", "action", "type")
_ARGUMENTS: Final = ("arguments", "args", "kwargs", "parameters", "params", "input", "tool_input", "action_input")
_CALL_IDS: Final = ("tool_call_id", "call_id", "id")
_PLAIN: Final = "act"
"""Name of an action of plain text that does not begin with a name."""


class Record(NamedTuple):
    """A record of a trajectory and its position in the log."""

    place: int
    values: Mapping[str, Any]


class Skipped(NamedTuple):
    """The position of a record without an action between records with actions."""

    place: int


def steps_of(records: Sequence[Record], rows: Rows, domain: str) -> tuple[list[Step], list[Skipped]]:
    """Return the steps of a trajectory, and the records between them without an action.

    Raises:
        MessageError: an action cannot be read, or a value nests too deeply.
    """
    acts = [actions_of(record.values, rows) for record in records]
    form = rows.form or FORMS.get(domain, "response")
    before = [
        observation_of(role(record.values, rows, "observation"), record.values, rows, form, False) for record in records
    ]
    steps: list[Step] = []
    skipped: list[Skipped] = []
    turn = 0
    seen: Observation | None = None
    last = max((position for position, record_actions in enumerate(acts) if record_actions), default=-1)
    for position, (record, record_actions) in enumerate(zip(records, acts, strict=True)):
        seen = before[position] or seen
        if not record_actions:
            skipped += [Skipped(record.place)] if position < last else []
            continue
        following = before[position + 1] if position + 1 < len(before) else None
        after = list(_after(record.values, rows, form, len(record_actions), following))
        steps += _turn(record, record_actions, seen, after, turn, rows)
        turn += 1
        seen = next((shown_last for shown_last in reversed(after) if shown_last is not None), seen)
    return steps, skipped


def _after(
    values: Mapping[str, Any], rows: Rows, form: str, calls: int, following: Observation | None
) -> Iterator[Observation | None]:
    """Yield the next observation of each call of a record, in call order; null if unknown."""
    if rows.column("next_observation") is None:
        yield from [None] * (calls - 1)
        yield following
        return
    value = role(values, rows, "next_observation")
    if calls > 1 and isinstance(value, list) and len(value) == calls:
        for result in value:
            yield observation_of(result, values, rows, form, True)
        return
    yield from [None] * (calls - 1)
    yield observation_of(value, values, rows, form, True)


def _turn(
    record: Record,
    actions: Sequence[Action],
    before: Observation | None,
    after: Sequence[Observation | None],
    turn: int,
    rows: Rows,
) -> Iterator[Step]:
    values = record.values
    code = role(values, rows, "exit_code")
    start = role(values, rows, "started_at")
    begun = moment(start) if isinstance(start, str) else None
    for index, (action, shown_after) in enumerate(zip(actions, after, strict=True)):
        last = index + 1 == len(actions)
        yield Step(
            action=action,
            observation=before,
            next_observation=shown_after,
            turn=turn,
            offset=record.place,
            call_index=index,
            num_calls=len(actions),
            reward=number(role(values, rows, "reward")) if last else None,
            terminated=truth(role(values, rows, "terminated")) if last else None,
            truncated=truth(role(values, rows, "truncated")) if last else None,
            exit_code=code if last and _is_code(code) else None,
            started_at=microseconds(begun),
        )


def _is_code(value: Any) -> bool:
    return whole_number_of(value) is not None and abs(value) < 2**31


def observation_of(value: Any, values: Mapping[str, Any], rows: Rows, form: str, after: bool) -> Observation | None:
    """Return the observation of a value, None for null. A struct becomes JSON text, message blocks become their text.

    With `after`, it is the record's next observation and has the record's error flag; otherwise it has the record's
    address.

    Raises:
        MessageError: the value nests too deeply.
    """
    if value is None:
        return None
    seen = shown(value)
    content = seen_text(seen)
    built = Observation(
        content=content,
        media_type=media_type(content),
        form=form,
        is_error=truth(role(values, rows, "is_error")) if after else None,
        uri=None if after else text(role(values, rows, "url")),
        truncation="recorder" if seen.lost else "none",
        attachments=seen.attachments,
    )
    return with_references(built)


def actions_of(values: Mapping[str, Any], rows: Rows) -> list[Action]:
    """Return the actions of a record, in call order; empty if it has none.

    Raises:
        MessageError: the action cannot be read.
    """
    value = _parse_structs(role(values, rows, "action"))
    if value is None or value == "":
        return []
    if isinstance(value, list) and not value:
        return []
    if isinstance(value, list) and all(isinstance(entry, dict) and "keystrokes" in entry for entry in value):
        actions = [_keystrokes(value)]
    elif isinstance(value, list):
        actions = [_build_action(entry, values, rows) for entry in value]
    else:
        actions = [_build_action(value, values, rows)]
    message = text(cell_text(role(values, rows, "message")))
    reasoning = text(cell_text(role(values, rows, "reasoning")))
    if message is None and reasoning is None:
        return actions
    return [replace(actions[0], message=message, reasoning=reasoning), *actions[1:]]


def _parse_structs(value: Any) -> Any:
    """Return the value; JSON text of a struct or a list of structs is parsed."""
    if not isinstance(value, str) or not is_json(value.strip()):
        return value
    parsed = json_value(value.strip())
    listed = parsed if isinstance(parsed, list) else [parsed]
    return parsed if listed and all(isinstance(entry, dict) for entry in listed) else value


def _keystrokes(strokes: Sequence[Mapping[str, Any]]) -> Action:
    pressed = []
    for stroke in strokes:
        keys, seconds = stroke["keystrokes"], number(stroke.get("duration"))
        if not isinstance(keys, str):
            raise MessageError("bad_action", "wanted text as keystrokes")
        pressed.append((keys, seconds))
    return Action(KEYSTROKES, keystrokes_text(pressed))


def _build_action(value: Any, values: Mapping[str, Any], rows: Rows) -> Action:
    if isinstance(value, dict):
        return _action_of_call(_shape(value, rows.tool))
    if not isinstance(value, str) or not value.strip():
        raise MessageError("bad_action", f"wanted a text or a call as the action, met {type(value).__name__}")
    if rows.column("arguments") is not None:
        return _action_of_call(call(value, role(values, rows, "arguments"), None, 0))
    if rows.tool is not None:
        arguments = {rows.argument: value}
        return Action(rows.tool, call_text(rows.tool, arguments), json_text(arguments))
    word = _WORD.match(value)
    return Action(word[1] if word is not None else _PLAIN, value)


def _action_of_call(parsed_call: Call) -> Action:
    return Action(parsed_call.name, parsed_call.written, parsed_call.arguments, parsed_call.call_id)


def _shape(value: Mapping[str, Any], tool: str | None) -> Call:
    """Build the call of a struct. Arguments have a usual name; without one, they are all remaining fields.

    Raises:
        MessageError: the struct names no action, and the recipe names no tool.
    """
    function = value.get("function")
    if isinstance(function, dict):
        return call(function.get("name"), function.get("arguments"), value.get("id"), 0)
    key = next((name for name in _NAMES if isinstance(value.get(name), str) and value[name]), None)
    if key is None:
        if tool is None:
            raise MessageError("bad_action", f"wanted a name in an action, met {', '.join(map(str, value))!r:.120}")
        return call(tool, dict(value), None, 0)
    call_id = next((value[name] for name in _CALL_IDS if isinstance(value.get(name), str)), None)
    key_of_arguments = next((name for name in _ARGUMENTS if name != key and _is_object(value.get(name))), None)
    left = {name: member for name, member in value.items() if name != key and name not in _CALL_IDS}
    return call(value[key], value[key_of_arguments] if key_of_arguments is not None else left or None, call_id, 0)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, str) and value[:1] == "{" and is_json(value))
