"""Actions on a desktop in one vocabulary, whoever logged them, with their targets named as nodes of the screen.

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

`element` is the id of the innermost control at the point, where the observation shows one; of a scroll that of the
list, table or page around it. The point stays beside it, since in a text, a slider or a canvas the place decides what
happens. Points are as logged: pixels, or shares of the screen where the log has these (at most 1). An action that is
none of these keeps the log's own word as its name. `arguments` holds what the log has: of code, the code itself.
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
"""Actions that happen where the pointer is, if they name no point."""

VOCABULARY: Final = POINTING | {
    *(MOVE, DRAG, TYPE, PRESS, HOTKEY, KEY_DOWN, KEY_UP),
    *(SET_CLIPBOARD, WAIT, SEQUENCE, CODE, COMPLETE, FAIL),
}

_FEW_PIXELS: Final = 1.0


@record
class Call:
    """One physical action: its word, where it happens (if the log says so), and the other arguments of its text."""

    name: str
    point: Point | None = None
    told: tuple[tuple[str, Any], ...] = ()

    def arguments(self, screen: Screen | None) -> dict[str, Any]:
        """The arguments of its text; the element is looked for on the screen, if one is given."""
        found: dict[str, Any] = {}
        start = self.point
        if start is not None:
            node = None
            if screen is not None:
                node = screen.scrolled_at(*start) if self.name == SCROLL else screen.at(*start)
            if node is not None:
                found["element"] = f"#{node}"
            if self.name == DRAG:
                found["from"] = list(start)
            else:
                found["x"], found["y"] = start
        if self.told:
            found.update(self.told)
        return found


def call(name: str, point: Point | None = None, **told: Any) -> Call:
    """The call; arguments that are None are left out."""
    return Call(name, point, tuple([(key, value) for key, value in told.items() if value is not None]) if told else ())


def number(value: Any) -> float | None:
    """A coordinate or duration as an int where it is whole, else as a float; None if it is no finite number."""
    if type(value) is int:
        return value if -1e9 < value < 1e9 else None
    # NaN fails every comparison.
    if type(value) is not float or not -1e9 < value < 1e9:
        return None
    return int(value) if value.is_integer() and abs(value) > _FEW_PIXELS else value


def point_of(x: Any, y: Any) -> Point | None:
    """The point; None unless both are numbers."""
    across, down = number(x), number(y)
    return (across, down) if across is not None and down is not None else None


def joined(calls: Sequence[Call]) -> list[Call]:
    """The calls of one step, in which two calls that are one movement of the hand become one.

    A move and then a drag from there is a drag with both ends; a move and then a click where the pointer is, a click.
    """
    found: list[Call] = []
    for one in calls:
        last = found[-1] if found else None
        follows = one.point is None and (one.name == DRAG or one.name in POINTING)
        if follows and last is not None and last.name == MOVE and last.point is not None:
            found[-1] = replace(one, point=last.point)
        else:
            found.append(one)
    return found


def action_of(
    calls: Sequence[Call], screen: Screen | None, original: Mapping[str, Any], reasoning: str | None = None
) -> Action:
    """The action of a step that makes these calls.

    One call, with pauses after it or without, is an action of its name; several are one `sequence`. Only the first
    call's element is looked for on the screen, since the first call may have changed the screen for the others.

    Args:
        calls: at least one.
        screen: what the action was taken on, if its elements are to be named.
        original: the log's own arguments.
        reasoning: the agent's own.
    """
    if len(calls) == 1:
        return told_action(calls[0].name, calls[0].arguments(screen), original, reasoning)
    steps = joined(calls)
    acting = [one for one in steps if one.name != WAIT]
    if len(steps) == 1 or (len(acting) == 1 and steps[0] is acting[0]):
        only = steps[0].arguments(screen)
        pause = sum(float(dict(one.told).get("seconds", 0)) for one in steps[1:])
        if pause:
            only["seconds_after"] = round(pause, 3)
        return told_action(steps[0].name, only, original, reasoning)
    told = [one.arguments(None if place else screen) for place, one in enumerate(steps)]
    rows = [{"name": one.name, "arguments": arguments} for one, arguments in zip(steps, told, strict=True)]
    extra = {"element": told[0]["element"]} if "element" in told[0] else {}
    text = call_text(SEQUENCE, {"calls": rows})
    return Action(SEQUENCE, text, own_arguments({**original, **extra}), reasoning=reasoning)


def told_action(
    name: str, told: Mapping[str, Any], original: Mapping[str, Any], reasoning: str | None = None
) -> Action:
    """The action of that name; its element, if it has one, stands beside the log's own arguments too."""
    if "element" in told:
        original = {**original, "element": told["element"]}
    return Action(name, call_text(name, told), own_arguments(original), None, None, reasoning)


def key_names(keys: Any) -> list[str]:
    """The keys of a key or a list of keys, each in lower case unless it is a character; empty if it is neither."""
    listed = list(keys) if isinstance(keys, list | tuple) else [keys]
    if not listed or not all(isinstance(one, str) and one for one in listed):
        return []
    return [one if len(one) == 1 else one.lower() for one in listed]
