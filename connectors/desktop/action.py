"""Desktop actions in one vocabulary for all logs; targets are nodes of the screen.

| name | what it does | arguments of its text |
|---|---|---|
| click, double_click, triple_click, right_click, middle_click | presses a button of the mouse | element, x, y |
| move | moves the pointer | element, x, y; or dx, dy |
| drag | moves it with a button held | element, from, to; or to alone; or dx, dy |
| mouse_down, mouse_up | one half of a click | element, x, y, button |
| scroll | turns the wheel, up if positive | clicks, element, x, y; dx for a turn sideways |
| type | types text | text |
| press | a key, or several one after another | key or keys, times |
| hotkey | keys together | keys |
| key_down, key_up | one half of a key press | key |
| set_clipboard | puts text there, not by keys | text |
| wait | lets time pass | seconds |
| sequence | several of these, in one step of the log | calls |
| code | code that is none of these | code |
| task_complete | the agent says it is done | |
| fail | the agent says it cannot be done | |

`element` is the id of the innermost control at the point, if the observation shows one; for a scroll it is the id of
the list, table or page around it. The point is kept as well, since in a text, a slider or a canvas the position
determines the effect. Points are as logged: pixels, or fractions of the screen if the log has these (at most 1). An
action outside the vocabulary keeps the log's own word as its name. `arguments` holds the log's own arguments; for code,
the code itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from trajmill.connectors.desktop.atspi import Screen
from trajmill.connectors.reading.own_arguments import own_arguments
from trajmill.schemas import COMPLETE, WAIT, Action, call_text
from trajmill.schemas.record import record

Point: TypeAlias = tuple[float, float]

CLICK: Final = "click"
DOUBLE_CLICK: Final = "double_click"
TRIPLE_CLICK: Final = "triple_click"
RIGHT_CLICK: Final = "right_click"
MIDDLE_CLICK: Final = "middle_click"
MOVE: Final = "move"
DRAG: Final = "drag"
MOUSE_DOWN: Final = "mouse_down"
MOUSE_UP: Final = "mouse_up"
SCROLL: Final = "scroll"
TYPE: Final = "type"
PRESS: Final = "press"
HOTKEY: Final = "hotkey"
KEY_DOWN: Final = "key_down"
KEY_UP: Final = "key_up"
SET_CLIPBOARD: Final = "set_clipboard"
SEQUENCE: Final = "sequence"
CODE: Final = "code"
FAIL: Final = "fail"

POINTING: Final = frozenset(
    {CLICK, DOUBLE_CLICK, TRIPLE_CLICK, RIGHT_CLICK, MIDDLE_CLICK, MOUSE_DOWN, MOUSE_UP, SCROLL}
)
"""Actions that happen at the pointer if they name no point."""

VOCABULARY: Final = POINTING | {
    *(MOVE, DRAG, TYPE, PRESS, HOTKEY, KEY_DOWN, KEY_UP),
    *(SET_CLIPBOARD, WAIT, SEQUENCE, CODE, COMPLETE, FAIL),
}

_FEW_PIXELS: Final = 1.0


@record
class Call:
    """One physical action: its word, its point (if the log states it), and the other arguments of its text."""

    name: str
    point: Point | None = None
    told: tuple[tuple[str, Any], ...] = ()

    def arguments(self, screen: Screen | None) -> dict[str, Any]:
        """Return the arguments of its text; the element is looked up on the screen, if one is given."""
        values: dict[str, Any] = {}
        start = self.point
        if start is not None:
            node = None
            if screen is not None:
                node = screen.wheel_target_at(*start) if self.name == SCROLL else screen.at(*start)
            if node is not None:
                values["element"] = f"#{node}"
            if self.name == DRAG:
                values["from"] = list(start)
            else:
                values["x"], values["y"] = start
        if self.told:
            values.update(self.told)
        return values


def call(name: str, point: Point | None = None, **arguments: Any) -> Call:
    """Build a call; arguments that are None are left out."""
    return Call(
        name, point, tuple([(key, value) for key, value in arguments.items() if value is not None]) if arguments else ()
    )


def number(value: Any) -> float | None:
    """Convert a coordinate or duration to an int if it is whole, else to a float; None if it is no finite number."""
    if type(value) is int:
        return value if -1e9 < value < 1e9 else None
    # NaN fails every comparison.
    if type(value) is not float or not -1e9 < value < 1e9:
        return None
    return int(value) if value.is_integer() and abs(value) > _FEW_PIXELS else value


def point_of(x: Any, y: Any) -> Point | None:
    """Return the point; None unless both values are numbers."""
    across, down = number(x), number(y)
    return (across, down) if across is not None and down is not None else None


def merge_movements(calls: Sequence[Call]) -> list[Call]:
    """Merge the calls of one step that are one movement of the hand.

    A move and then a drag from there become a drag with both ends; a move and then a click at the pointer become a
    click.
    """
    merged: list[Call] = []
    for next_call in calls:
        last = merged[-1] if merged else None
        follows = next_call.point is None and (next_call.name == DRAG or next_call.name in POINTING)
        if follows and last is not None and last.name == MOVE and last.point is not None:
            merged[-1] = replace(next_call, point=last.point)
        else:
            merged.append(next_call)
    return merged


def action_of(
    calls: Sequence[Call], screen: Screen | None, original: Mapping[str, Any], reasoning: str | None = None
) -> Action:
    """Build the action of a step that makes these calls.

    A single call, with or without pauses after it, is an action of its name; several calls are one `sequence`. Only the
    first call's element is looked up on the screen, since the first call may have changed the screen for the others.

    Args:
        calls: the calls, at least one.
        screen: the screen that the action was taken on, if its elements are to be named.
        original: the log's own arguments.
    """
    if len(calls) == 1:
        return build_action(calls[0].name, calls[0].arguments(screen), original, reasoning)
    steps = merge_movements(calls)
    acting = [part for part in steps if part.name != WAIT]
    if len(steps) == 1 or (len(acting) == 1 and steps[0] is acting[0]):
        only = steps[0].arguments(screen)
        pause = sum(float(dict(part.told).get("seconds", 0)) for part in steps[1:])
        if pause:
            only["seconds_after"] = round(pause, 3)
        return build_action(steps[0].name, only, original, reasoning)
    values = [part.arguments(None if index else screen) for index, part in enumerate(steps)]
    rows = [{"name": part.name, "arguments": arguments} for part, arguments in zip(steps, values, strict=True)]
    extra = {"element": values[0]["element"]} if "element" in values[0] else {}
    text = call_text(SEQUENCE, {"calls": rows})
    return Action(SEQUENCE, text, own_arguments({**original, **extra}), reasoning=reasoning)


def build_action(
    name: str, arguments: Mapping[str, Any], original: Mapping[str, Any], reasoning: str | None = None
) -> Action:
    """Build the action of that name; its element, if any, is also added to the log's own arguments."""
    if "element" in arguments:
        original = {**original, "element": arguments["element"]}
    return Action(name, call_text(name, arguments), own_arguments(original), None, None, reasoning)


def key_names(keys: Any) -> list[str]:
    """Return the names of a key or a list of keys, in lower case unless they are characters; empty for other values."""
    listed = list(keys) if isinstance(keys, list | tuple) else [keys]
    if not listed or not all(isinstance(key, str) and key for key in listed):
        return []
    return [key if len(key) == 1 else key.lower() for key in listed]
