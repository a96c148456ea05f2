"""Lines of OSWorld's `traj.jsonl`, and their actions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trajmill.connectors.desktop import action as act
from trajmill.connectors.desktop.action import Call
from trajmill.connectors.desktop.atspi import Screen
from trajmill.connectors.desktop.osworld.computer_13 import call_of
from trajmill.connectors.desktop.pyautogui import calls_of
from trajmill.connectors.reading.fields import brief, plain_text, text_of, whole_number_of
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.own_arguments import own_arguments
from trajmill.schemas import COMPLETE, WAIT, Action, ParseError

_WORDS: Final = {"WAIT": WAIT, "DONE": COMPLETE, "FAIL": act.FAIL}
START: Final = "__init__"
"""Action that forks of OSWorld write for a step 0 without an action."""

_TREE_FILES: Final = ("accessibility_tree_file", "a11y_tree_file")
_TREES: Final = ("accessibility_tree", "a11y_tree")
_ANSWERS: Final = ("raw_response", "response", "reasoning", "thought", "content", "text")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log; `action` is None for a line with only the task, or the screen before the first action.

    Attributes:
        number: number of the step, from 1; several lines may share it.
        tree: an accessibility tree in the line itself.
        tree_file: the file with the tree, if the line names one.
        picture: file of its screenshot.
        settled: False if the recorder states that the screen was still changing.
        start: for the first line of a run, the line with the screen before it, if any.
        follows: whether the line before it in the log was read too, so that its screen is the observation of this line.
    """

    offset: int
    member: str
    number: int
    action: str | Mapping[str, Any] | None
    response: str | None
    reward: float | None
    done: bool | None
    instruction: str | None
    tree: str | None
    tree_file: str | None
    picture: str | None
    settled: bool
    start: Line | None = None
    follows: bool = True


def read_line(value: Any, uri: str, offset: int, member: str) -> Line:
    """Read the line of a parsed record.

    Raises:
        ParseError: the record's own error; `harness_error` (the line reports that the run broke down), `bad_record`.
    """
    if isinstance(value, ParseError):
        raise value
    if not isinstance(value, dict):
        raise ParseError(uri, offset, "bad_record", "wanted an object of step_num and action", member)
    if "action" not in value and ("Error" in value or "error" in value):
        error_text = value.get("Error", value.get("error"))
        error_text = error_text[:300] if isinstance(error_text, str) else brief(error_text, 300)
        raise ParseError(uri, offset, "harness_error", f"the harness broke down: {error_text}", member)
    action, number = value.get("action"), value.get("step_num")
    alone = action is None and text_of(value.get("instruction")) is not None
    if not alone and not isinstance(action, str | dict):
        raise ParseError(uri, offset, "bad_record", "wanted an action, as text or as an object", member)
    if not alone and whole_number_of(number, range(1 << 31)) is None:
        raise ParseError(uri, offset, "bad_record", "wanted a whole number as step_num", member)
    if action == START:
        action = None
    info = value.get("info")
    reward = act.number(value.get("reward"))
    return Line(
        offset=offset,
        member=member,
        number=number if isinstance(number, int) else 0,
        action=action if isinstance(action, str | dict) else None,
        response=_response(value.get("response")),
        reward=reward if reward is not None and math.isfinite(reward) else None,
        done=value["done"] if isinstance(value.get("done"), bool) else None,
        instruction=text_of(value.get("instruction")),
        tree=next((value[key] for key in _TREES if text_of(value.get(key))), None),
        tree_file=next((value[key] for key in _TREE_FILES if text_of(value.get(key))), None),
        picture=text_of(value.get("screenshot_file")),
        settled=not (isinstance(info, dict) and info.get("settled") is False),
    )


def _response(value: Any) -> str | None:
    """Return the agent's words: the response if it is text, else the text in it."""
    if isinstance(value, dict):
        text = next((value[key] for key in _ANSWERS if text_of(value.get(key))), None)
        return text if text is not None else own_arguments(value)
    if isinstance(value, list):
        parts = [part for part in value if isinstance(part, str)]
        return "\n".join(parts) or None
    return text_of(value)


def action_of(line: Line, screen: Screen | None, reasoning: str | None) -> Action:
    """Return the action of a line, with its target named on the screen before it.

    Args:
        screen: the screen that the observation shows as a tree; None if it shows none.
    """
    action = line.action if line.action is not None else ""
    if isinstance(action, str):
        word = _WORDS.get(action.strip().strip("`").strip().upper())
        if word is not None:
            return act.build_action(word, {}, {}, reasoning)
        return _code_action(action, screen, {"code": action}, reasoning)
    call = call_of(action)
    if call is not None:
        return act.action_of([call], screen, action, reasoning)
    code = next((action[key] for key in ("command", "action", "code") if text_of(action.get(key))), None)
    if code is not None:
        return _code_action(code, screen, action, reasoning)
    name = next((action[key] for key in ("action_type", "name", "type") if text_of(action.get(key))), act.CODE)
    arguments = shallow_json(action, 100) or plain_text(action)
    return act.build_action(str(name).lower(), {"arguments": arguments[:4096]}, action, reasoning)


def _code_action(code: str, screen: Screen | None, original: Mapping[str, Any], reasoning: str | None) -> Action:
    calls: list[Call] | None = calls_of(code)
    if not calls:
        return act.build_action(act.CODE, {"code": code}, original, reasoning)
    return act.action_of(calls, screen, original, reasoning)
