"""AndroidControl as JSON Lines without its screens, one episode per line, as training code of UI agents keeps it.

>>> show(AndroidControlJsonl(), '''
... {"goal": "Open the clock", "is_successful": true, "steps": [{"action_content": {"action": "click", "coordinate": '''
... '''[540.0, 389.8], "bbox": [360, 327, 695, 466]}, "screenshot": "/images/0_0.png"}]}
... ''')
action  | {"name": "click", "arguments": {"x": 540, "y": 390}}
after   | (not in the log)

A line is `{goal, is_successful, steps: [{action_content, screenshot, step_instruction?}]}` (X-PLUG/MobileAgent,
UI-S1/datasets). `action_content` is a call of the tool `mobile_use` of Qwen-VL: click, long_press, swipe, type,
system_button, open, wait, answer, terminate. `screenshot` is the path of a picture that the data do not contain, so
that even its digest is unknown, and each observation is null. The actions are kept all the same, one row each: the task
is named, so the episode can be grouped with others of that task.

Coordinates are pixels of the screenshot and stay numbers, because there is no tree whose elements could be named.
`bbox` and `check_options`, which are used to judge answers of models, are no arguments of the action and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from trajmill.connectors.android import action as act
from trajmill.connectors.android.view import sound
from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.documents import json_rows, row_texts
from trajmill.connectors.reading.fields import plain_text
from trajmill.connectors.screens.moves import Moves
from trajmill.schemas import COMPLETE, WAIT, Action, Outcome, ParseError, Reject, Task, Trajectory

_KEYS: Final = (b'"goal"', b'"steps"', b'"action_content"')
_NOT_ARGUMENTS: Final = frozenset(("action", "bbox"))


class AndroidControlJsonl(Connector):
    """AndroidControl episodes as JSON Lines."""

    name: ClassVar[str] = "android_control_jsonl"
    version: ClassVar[str] = "4"
    domains: ClassVar[tuple[str, ...]] = ("android",)
    title: ClassVar[str] = "AndroidControl episodes without screens (JSONL, JSON)"
    companions = re.compile(r"(?:(?:images|screenshots)/(?:.*/)?)?[^/]*\.(?:png|jpe?g)")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        line = next(iter(row_texts(head, 1)), b"")
        if line.startswith(b"{") and all(key in line for key in _KEYS):
            return Sniff(0.9, "first line has a goal and steps with an action_content")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        is_read = False
        for number, (offset, value) in enumerate(json_rows(blob)):
            try:
                if isinstance(value, ParseError):
                    raise value
                trajectory = _trajectory(value, number, blob.uri, offset)
            except ParseError as error:
                yield Reject.of(error, connector=self.name)
            else:
                is_read = True
                yield sound(trajectory)
        if not is_read:
            raise ParseError(blob.uri, -1, "no_transitions", "no line holds an episode with an action")


def _trajectory(value: Any, number: int, uri: str, offset: int) -> Trajectory:
    """Build the episode of a line.

    Raises:
        ParseError: `bad_record`: the line is no episode, or a step has no action.
    """
    steps = value.get("steps") if isinstance(value, dict) else None
    if not isinstance(steps, list) or not steps:
        raise ParseError(uri, offset, "bad_record", "wanted an object with a goal and a list of steps")
    moves = Moves()
    for turn, step in enumerate(steps):
        content = step.get("action_content") if type(step) is dict else None
        if type(content) is not dict or not (word := content.get("action")) or type(word) is not str:
            raise ParseError(uri, offset, "bad_record", f"step {turn} has no action_content with an action")
        instruction = step.get("step_instruction")
        message = instruction if type(instruction) is str and instruction else None
        moves.add(_action(word, content, message), None, None, offset)
    goal, judged, name = value.get("goal"), value.get("is_successful"), value.get("episode_id", number)
    return Trajectory(
        native_id=str(name) if isinstance(name, str | int) else str(number),
        domain="android",
        steps=moves.steps,
        task=Task(instruction=goal if isinstance(goal, str) and goal else None),
        outcome=Outcome(resolved=judged, verifier="is_successful") if isinstance(judged, bool) else None,
    )


def _action(word: str, content: dict[str, Any], message: str | None) -> Action:
    """Convert a call of `mobile_use` to the Android vocabulary."""
    original = {key: item for key, item in content.items() if key not in _NOT_ARGUMENTS and item is not None}
    point, end = _point(content.get("coordinate")), _point(content.get("coordinate2"))
    coordinates = {"x": act.whole(point[0]), "y": act.whole(point[1])} if point else {}
    text = content.get("text") if isinstance(content.get("text"), str) else None
    arguments: dict[str, Any]
    if word in (act.CLICK, act.LONG_PRESS):
        arguments = {**coordinates, "seconds": act.number(content.get("time"))}
    elif word == act.SWIPE and point and end:
        arguments = {"from": [act.whole(value) for value in point], "to": [act.whole(value) for value in end]}
    elif word == "type":
        word, arguments = act.INPUT_TEXT, {**coordinates, "text": text or ""}
    elif word == "system_button":
        word, arguments = act.PRESS, {"key": act.key_name(plain_text(content.get("button") or ""))}
    elif word == "key":
        word, arguments = act.PRESS, {"key": act.key_name(text or "")}
    elif word == "open":
        word, arguments = act.OPEN_APP, {"app": text}
    elif word == WAIT:
        arguments = {"seconds": act.number(content.get("time"))}
    elif word == "terminate":
        word, arguments = (
            COMPLETE,
            {"status": content.get("status") if isinstance(content.get("status"), str) else None},
        )
    else:
        arguments = {key: item for key, item in original.items() if isinstance(item, str | int | float)}
    return act.call(word, arguments, original, message=message)


def _point(value: Any) -> act.Point | None:
    """Return the point given by a pair of numbers; None for any other value."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    x, y = act.number(value[0]), act.number(value[1])
    return (x, y) if x is not None and y is not None else None
