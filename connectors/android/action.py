"""Android actions in one vocabulary for all logs; targets are nodes of the screen.

| name | what it does | arguments of its text |
|---|---|---|
| click, long_press | touches a point | element, or x and y |
| swipe | moves a finger | element, direction and distance; or from and to, with the element under the start |
| scroll | moves the view, not the finger | element, direction |
| input_text | types, or fills a field | text, element |
| press | a key: back, home, enter, … | key |
| open_app, close_app | starts or stops an app | package, activity; or app, its label |
| intent | any other intent | command |
| shell | any other command of the device | command |
| wait | lets time pass | seconds |
| task_complete | the agent says it is done | |

`element` is the id of a node in the observation's text. If the target is no node of that text, there are coordinates
instead, or `target` with the log's own word for the element. If a recipe keeps the log's own text of screens, that text
has no ids, and `element` is an object of `resource_id` and `bounds` as they occur there. An action outside the
vocabulary keeps the log's own word as its name. The original arguments stay in `arguments`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, TypeAlias

from trajmill.connectors.android.view import Element, Screen, short_id
from trajmill.connectors.reading.own_arguments import own_arguments
from trajmill.connectors.screens.tree import Box
from trajmill.schemas import COMPLETE, WAIT, Action, call_text

Point: TypeAlias = tuple[float, float]

CLICK: Final = "click"
LONG_PRESS: Final = "long_press"
SWIPE: Final = "swipe"
SCROLL: Final = "scroll"
INPUT_TEXT: Final = "input_text"
PRESS: Final = "press"
OPEN_APP: Final = "open_app"
CLOSE_APP: Final = "close_app"
INTENT: Final = "intent"
SHELL: Final = "shell"

VOCABULARY: Final = frozenset(
    {CLICK, LONG_PRESS, SWIPE, SCROLL, INPUT_TEXT, PRESS, OPEN_APP, CLOSE_APP, INTENT, SHELL, WAIT, COMPLETE}
)

_TARGET_STATES: Final = {
    CLICK: ("clickable",),
    LONG_PRESS: ("long_clickable", "clickable"),
    SWIPE: ("scrollable",),
    SCROLL: ("scrollable",),
    INPUT_TEXT: ("clickable", "focusable"),
}
_KEYS: Final = {
    "3": "home",
    "4": "back",
    "19": "dpad_up",
    "20": "dpad_down",
    "21": "dpad_left",
    "22": "dpad_right",
    "23": "dpad_center",
    "24": "volume_up",
    "25": "volume_down",
    "26": "power",
    "61": "tab",
    "62": "space",
    "66": "enter",
    "67": "del",
    "82": "menu",
    "84": "search",
    "111": "escape",
    "112": "forward_del",
    "122": "move_home",
    "123": "move_end",
    "187": "app_switch",
}
"""The codes of android.view.KeyEvent that scripts send, with their names there."""
_COMPONENT: Final = re.compile(r"([A-Za-z][\w]*(?:\.\w+)+)/(\.?[\w.$]+)")
_PACKAGE: Final = re.compile(r"[A-Za-z][\w]*(?:\.\w+)+")
_SHELL: Final = re.compile(r"""["'\\;&|<>]""")
_SHELL_WORD: Final = re.compile(r"""&&|\|\||>>|[;&|<>]|(?:[^\s'"\\;&|<>]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""", re.DOTALL)
_SHELL_QUOTE: Final = re.compile(r"""\\(.)|'([^']*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)


_FAR: Final = 10**9
"""Bound on the size of coordinates and durations."""

_SIDES: Final = 4
"""Number of sides of a box."""


def number(value: Any) -> float | None:
    """Convert a coordinate or duration to an int if it is whole, else to a float; None if it is no finite number."""
    if type(value) is int:
        return value if -_FAR < value < _FAR else None
    if type(value) is float:
        # NaN fails every comparison.
        return (int(value) if value.is_integer() else value) if -_FAR < value < _FAR else None
    if isinstance(value, str):
        try:
            return number(float(value))
        except ValueError:
            return None
    return None


def target_at(screen: Screen | None, point: Point | None, name: str) -> int | None:
    """Return the node that the action of that name reaches at the point; None if no node there takes it."""
    if screen is None or point is None:
        return None
    for state in _TARGET_STATES.get(name, ()):
        node = screen.tree.at(*point, state)
        if node is not None and (screen.reach is None or node <= screen.reach):
            return node
    return None


def touched_within(screen: Screen, node: int, name: str) -> int:
    """Find the node that takes a touch in the center of a chosen node, where agents touch it.

    It is the innermost node within the chosen node that the action of that name reaches there. A tap on a list goes to
    the row in its middle. If no node within it takes the action, or if the chosen node has no box, the result is the
    chosen node.

    Args:
        screen: the screen that the action was taken on.
        node: number of the chosen node in its tree, from 1.
    """
    tree = screen.tree
    box = tree.nodes[node - 1].bounds
    if box is None:
        return node
    x, y = (box[0] + box[2]) // 2, (box[1] + box[3]) // 2
    end = next(
        (node_index for node_index in range(node, len(tree.nodes)) if tree.depths[node_index] <= tree.depths[node - 1]),
        len(tree.nodes),
    )
    within = [node_index for node_index in range(node, end) if tree.nodes[node_index].holds(x, y)]
    for state in _TARGET_STATES.get(name, ()):
        if takers := [node_index for node_index in within if state in tree.nodes[node_index].states]:
            return takers[-1] + 1
    return node


def call(
    name: str,
    arguments: Mapping[str, Any],
    original: Mapping[str, Any],
    element: Element | None = None,
    reasoning: str | None = None,
    message: str | None = None,
) -> Action:
    """Build the action of that name.

    Args:
        name: a word of `VOCABULARY`, or the log's own word.
        arguments: arguments for the text, except the element; None values are left out.
        original: the log's own arguments.
        element: result of `Screen.element`, if a node is known. It is part of the text and is added to the original
            arguments in `arguments`; an original argument `element` is then called `target`.
    """
    if None in arguments.values():
        arguments = {key: value for key, value in arguments.items() if value is not None}
    if element is None:
        return Action(name, call_text(name, arguments), own_arguments(original), None, message, reasoning)
    if "element" in original:
        original = {"target": original["element"], **original}
    text = call_text(name, {"element": element, **arguments})
    return Action(name, text, own_arguments({**original, "element": element}), None, message, reasoning)


def touch(
    name: str,
    screen: Screen | None,
    point: Point | None,
    original: Mapping[str, Any],
    arguments: Mapping[str, Any] | None = None,
    reasoning: str | None = None,
    message: str | None = None,
) -> Action:
    """Build a click, long press, scroll or input at a point, named by the node that takes it, else by coordinates."""
    element = screen.element(target_at(screen, point, name)) if screen is not None else None
    coordinates = {"x": whole(point[0]), "y": whole(point[1])} if element is None and point is not None else {}
    return call(name, {**coordinates, **(arguments or {})}, original, element, reasoning, message)


def path(
    screen: Screen | None, start: Point, end: Point, original: Mapping[str, Any], reasoning: str | None = None
) -> Action:
    """Build a swipe from one point to another; its element is the scrollable node under the start."""
    arguments = {"from": [whole(value) for value in start], "to": [whole(value) for value in end]}
    element = screen.element(target_at(screen, start, SWIPE)) if screen is not None else None
    return call(SWIPE, arguments, original, element, reasoning)


def find_named_node(
    screen: Screen | None, target: Mapping[str, Any], box: Box | None, point: Point | None
) -> int | None:
    """Find the node that a log names by box, resource id or text; None unless exactly one node of the screen fits.

    Args:
        screen: the screen that the action was taken on.
        target: `resource_id`, or `name` that may be a resource id or a text.
        box: the element's box; of several nodes with this box, the innermost that can be touched is used.
        point: a point that the element must contain, if known.
    """
    if screen is None:
        return None
    nodes = list(enumerate(screen.tree.nodes, 1))
    if box is not None:
        matches = [node_number for node_number, node in nodes if node.bounds == box and node.role != "window"]
        able = [node_number for node_number in matches if screen.tree.nodes[node_number - 1].states]
        return max(able or matches, default=None)
    ident = target.get("resource_id")
    name = target.get("name")
    if isinstance(ident, str):
        matches = [node_number for node_number, node in nodes if node.ident == short_id(ident)]
    elif isinstance(name, str):
        matches = [node_number for node_number, node in nodes if short_id(name) == node.ident]
        matches = matches or [
            node_number for node_number, node in nodes if name in (node.name, node.value, node.description)
        ]
    else:
        return None
    if point is not None:
        matches = [node_number for node_number in matches if screen.tree.nodes[node_number - 1].holds(*point)]
    return matches[0] if len(matches) == 1 else None


def box_of(bounds: Any) -> Box | None:
    """Parse a box from text `[l,t][r,b]`, a list of four numbers or a list of two pairs; None for anything else."""
    if type(bounds) is list and len(bounds) == _SIDES:
        left, top, right, bottom = bounds
        if type(left) is type(top) is type(right) is type(bottom) is int and (
            -_FAR < left < _FAR and -_FAR < top < _FAR and -_FAR < right < _FAR and -_FAR < bottom < _FAR
        ):
            return left, top, right, bottom
    if isinstance(bounds, str):
        values: list[Any] = re.findall(r"-?[0-9]{1,7}", bounds)
    elif isinstance(bounds, list):
        values = [value for item in bounds for value in (item if isinstance(item, list) else [item])]
    else:
        return None
    numbers = [number(value) for value in values[:5]]
    if len(numbers) != _SIDES or any(value is None for value in numbers):
        return None
    left, top, right, bottom = [whole(value) for value in numbers if value is not None]
    return left, top, right, bottom


@lru_cache(maxsize=1 << 12)
def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts numbers within names by value: `_2` before `_10`."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", text)
    return tuple((0, int(part), "") if "0" <= part[0] <= "9" else (1, 0, part) for part in parts)


def whole(value: float) -> int:
    """Round a coordinate to the nearest whole pixel."""
    return value if type(value) is int else math.floor(value + 0.5)


def key_name(key: str) -> str:
    """Return a key's short name: `back` for `KEYCODE_BACK`, `BACK` or `4`; an unknown code stays a number."""
    short = key.strip().upper().removeprefix("KEYCODE_").lower()
    return _KEYS.get(short, short)


def press(keys: list[str], original: Mapping[str, Any], reasoning: str | None = None) -> Action:
    """Build the press of a key, or of several keys in a row."""
    names = [key_name(key) for key in keys]
    arguments = {"key": names[0]} if len(names) == 1 else {"keys": names}
    return call(PRESS, arguments, original, reasoning=reasoning)


def component(text: str) -> tuple[str, str | None] | None:
    """Parse (package, activity) from a text such as `com.app/.Main` or `com.app`; None if it names none."""
    match = _COMPONENT.fullmatch(text)
    if match:
        return match[1], match[2]
    return (text, None) if _PACKAGE.fullmatch(text) else None


def words(command: str) -> list[str]:
    """Split a shell command into words without quotes; `&&`, `||`, `>>`, `;`, `&`, `|`, `<` and `>` are words.

    If quotes do not match, the text is split at white space. (`shlex` reads 0.2 MB a second.)
    """
    if not _SHELL.search(command) or _SHELL_WORD.sub("", command).strip():
        return command.split()
    return [_SHELL_QUOTE.sub(_unquote, word) for word in _SHELL_WORD.findall(command)]


def _unquote(match: re.Match[str]) -> str:
    escaped, single, double = match.groups()
    if double is not None:
        return re.sub(r'\\(["\\$`])', r"\1", double)
    return single if single is not None else escaped


def intent(command: str, original: Mapping[str, Any], reasoning: str | None = None) -> Action:
    """Build the action of an `am` command: `open_app` if it starts a named activity, `close_app` if it stops an app.

    Older logs name the component without an option (`am start com.app/.Main`), newer ones after `-n`.
    """
    parts = words(command)
    verb = parts[1] if len(parts) > 1 and parts[0] == "am" else ""
    if verb in ("start", "start-activity", "startactivity"):
        named = [after for flag, after in pairwise(parts) if flag in ("-n", "--component")]
        data = [flag for flag in parts if flag in ("-a", "-d", "-t", "--es", "-e", "--ez", "--ei")]
        last = parts[-1] if not named and "/" in parts[-1] else ""
        target = component(named[0] if named else last)
        if target and (not data or "android.intent.action.MAIN" in parts):
            return call(OPEN_APP, {"package": target[0], "activity": target[1]}, original, reasoning=reasoning)
    if verb in ("force-stop", "kill", "stop-app") and (target := component(parts[-1])):
        return call(CLOSE_APP, {"package": target[0]}, original, reasoning=reasoning)
    return call(INTENT, {"command": command}, original, reasoning=reasoning)


def monkey(command: str, original: Mapping[str, Any], reasoning: str | None = None) -> Action:
    """Build the action of a `monkey` command: `open_app` if it sends one event to one package, as app launchers do."""
    parts = words(command)
    package = next((after for flag, after in pairwise(parts) if flag == "-p"), None)
    if package is not None and (target := component(package)) and parts[-1] == "1":
        return call(OPEN_APP, {"package": target[0]}, original, reasoning=reasoning)
    return call(SHELL, {"command": command}, original, reasoning=reasoning)
