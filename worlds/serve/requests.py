"""Requests to a served world: parsing of client input, and error messages for invalid requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final

from trajmill.schemas import COMPLETE, KEYSTROKES, WAIT, Action, call_text, json_text, keystrokes_text
from trajmill.worlds.serve.history import Move
from trajmill.worlds.serve.scenarios import Scenario
from trajmill.worlds.serve.serve_client import ServeError

_PLAIN: Final = "text"
"""Name of an action in free text."""

_LONGEST_LIMIT: Final = 1e9


def _bad(detail: str) -> ServeError:
    return ServeError(400, "bad_request", detail)


def seed_in(body: Mapping[str, Any], default: int) -> int:
    """Return the seed of a request.

    Raises:
        ServeError: The seed is not a whole number from 0 within 63 bits.
    """
    seed = body.get("seed")
    if seed is None:
        return default
    if type(seed) is not int or not 0 <= seed < 1 << 63:
        raise _bad("seed is a whole number from 0")
    return seed


def move_of(body: Mapping[str, Any], scenario: Scenario) -> Move:
    """Parse the step of a request, with its action in the form on which the world was trained.

    Raises:
        ServeError: The request has no valid step, or its action has no such form.
    """
    state, together, limit = body.get("state"), body.get("together", False), body.get("time_limit_s")
    if not isinstance(state, str | None):
        raise _bad("state is a text")
    if not isinstance(together, bool):
        raise _bad("together is true or false")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float)):
        raise _bad("time_limit_s is a number")
    if limit is not None and not (isfinite(limit) and 0 < limit < _LONGEST_LIMIT):
        raise _bad("time_limit_s is a number of seconds above 0")
    value = body.get("action")
    action = action_of(value)
    if not isinstance(value, dict) or value.get("name") is None or value.get("text") is None:
        action = in_form(action, scenario)
    return Move(action, together, state, _parse_messages(body.get("said")), None if limit is None else float(limit))


def _parse_messages(value: object) -> tuple[tuple[str, str], ...]:
    messages = []
    for entry in value if isinstance(value, list) else () if value is None else (None,):
        role, content = (entry.get("role"), entry.get("content")) if isinstance(entry, dict) else (None, None)
        if role not in ("harness", "user") or not isinstance(content, str):
            raise _bad('said is a list of {"role": "user" or "harness", "content": text}')
        messages.append((role, content))
    return tuple(messages)


def action_of(value: object) -> Action:
    """Parse the action of a request, or of an agent.

    A call is an object of `name` and `arguments`; an object with `text` gives the written form, and optionally the
    call. A text is a call or keystrokes if it is JSON of these forms, otherwise an action in free text.

    Raises:
        ServeError: The value is none of these, or empty.
    """
    if isinstance(value, str):
        return _of_text(value)
    if not isinstance(value, dict):
        raise _bad("action is a text, or an object of name and arguments, or of text")
    name, arguments, text = value.get("name"), value.get("arguments"), value.get("text")
    if not isinstance(text, str | None) or not isinstance(name, str | None) or not isinstance(arguments, dict | None):
        raise _bad("of an action, name and text are texts, and arguments an object")
    if text is None and not name:
        raise _bad("an action needs a name or a text")
    if text is not None and name is None and arguments is None:
        return _of_text(text)
    encoded = _json(arguments)
    return Action(name or _PLAIN, call_text(name or "", arguments) if text is None else text, encoded)


def _json(arguments: Mapping[str, Any] | None) -> str | None:
    return None if arguments is None else json_text(arguments)


def _of_text(text: str) -> Action:
    if not text.strip():
        raise _bad("the action is empty")
    try:
        value = json.loads(text) if text.lstrip()[:1] in "{[" else None
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value):
        if len(value) > 1:
            raise _bad("a step takes one call; the others are steps of their own, with together: true")
        (value,), text = value, json_text(value[0])
    if isinstance(value, dict) and isinstance(value.get("name"), str) and value["name"]:
        arguments = value.get("arguments")
        if isinstance(arguments, dict | None):
            return Action(value["name"], text, _json(arguments))
    if isinstance(value, list) and all(isinstance(item, dict) and "keystrokes" in item for item in value):
        return Action(_input_name(value), text)
    return Action(_PLAIN, text)


def in_form(action: Action, scenario: Scenario) -> Action:
    """Convert an action to the form on which a scenario's world was trained: the same keys, line or call.

    A scenario without a form accepts any.

    Raises:
        ServeError: The action cannot be converted.
    """
    wanted = scenario.actions
    if action.name == COMPLETE and wanted:
        return Action(COMPLETE, keystrokes_text([]) if wanted == "keystrokes" else call_text(COMPLETE, {}))
    form = "text" if action.name == _PLAIN else "keystrokes" if action.text.lstrip()[:1] == "[" else "call"
    if not wanted or form == wanted:
        return action
    line = _line(action, form)
    if line is None:
        raise _bad(f"this world knows actions as {_FORMS[wanted]}, and this one cannot be said so")
    if wanted == "keystrokes":
        return Action(KEYSTROKES, keystrokes_text([(f"{line}\n", None)]))
    if not scenario.shell:
        raise _bad(f"this world knows actions as {_FORMS[wanted]}, and no tool of its takes lines of a shell")
    arguments = {"command": line}
    return Action(scenario.shell, call_text(scenario.shell, arguments), json_text(arguments))


_FORMS: Final = {
    "call": 'calls, {"name": …, "arguments": {…}}',
    "keystrokes": 'keystrokes, [{"keystrokes": "ls\\n"}]',
}


def _line(action: Action, form: str) -> str | None:
    """Return the shell command line of an action; None if it is not one."""
    if form == "text":
        return action.text.strip()
    if form == "call":
        arguments = json.loads(action.arguments or "{}")
        command = arguments.get("command")
        return command if isinstance(command, str) and set(arguments) <= {"command", "description", "timeout"} else None
    strokes = [stroke["keystrokes"] for stroke in json.loads(action.text)]
    typed = "".join(strokes) if all(isinstance(keystroke, str) for keystroke in strokes) else ""
    line = typed.rstrip("\r\n")
    return line if line and line != typed and line.isprintable() else None


def _input_name(strokes: Sequence[Mapping[str, Any]]) -> str:
    """Return the name of terminal input as connectors give it; empty input means that the task is complete."""
    if not strokes:
        return COMPLETE
    return KEYSTROKES if any(stroke["keystrokes"] for stroke in strokes) else WAIT
