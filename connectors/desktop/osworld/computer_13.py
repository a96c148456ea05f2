"""Structured actions as calls: OSWorld's `computer_13` and the computer tools of model providers.

`{"action_type": "CLICK", "parameters": {"x": …, "y": …}}` is OSWorld's own action space. Its logs also hold objects of
Anthropic's computer tool (`{"name": "computer", "input": {"action": "left_click", "coordinate": [x, y]}}`) and of
OpenAI's (`{"type": "click", "x": …, "y": …}`), mostly beside the pyautogui code made from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.desktop import action as act
from trajmill.connectors.desktop.action import Call
from trajmill.schemas import COMPLETE, WAIT

_CLICKS: Final = {
    "click": act.CLICK,
    "left_click": act.CLICK,
    "right_click": act.RIGHT_CLICK,
    "middle_click": act.MIDDLE_CLICK,
    "double_click": act.DOUBLE_CLICK,
    "triple_click": act.TRIPLE_CLICK,
    "mouse_down": act.MOUSE_DOWN,
    "left_mouse_down": act.MOUSE_DOWN,
    "mouse_up": act.MOUSE_UP,
    "left_mouse_up": act.MOUSE_UP,
}
_MOVES: Final = frozenset({"move_to", "mouse_move", "move"})
_DRAGS: Final = frozenset({"drag_to", "drag", "left_click_drag"})
_TYPING: Final = frozenset({"typing", "type"})
_WORDS: Final = {"wait": WAIT, "done": COMPLETE, "terminate": COMPLETE, "fail": act.FAIL}
_JOINT: Final = re.compile(r"[+\s]+")


def call_of(action: Mapping[str, Any]) -> Call | None:
    """Return the call of a structured action; None if its form is unknown."""
    fields = action
    for inner in ("input", "arguments", "action"):
        nested = fields.get(inner)
        if isinstance(nested, Mapping):
            fields = nested
            break
    words = (fields.get(key) for key in ("action_type", "action", "type", "name"))
    word = next((word for word in words if isinstance(word, str)), None)
    parameters = fields.get("parameters")
    values = parameters if isinstance(parameters, Mapping) else fields
    return _call(word.lower(), values) if word is not None else None


def _call(word: str, values: Mapping[str, Any]) -> Call | None:
    if word in _WORDS:
        return act.call(_WORDS[word], seconds=_seconds(values) if _WORDS[word] == WAIT else None)
    point = _point(values, "coordinate") or act.point_of(values.get("x"), values.get("y"))
    if word in _CLICKS:
        return _click_call(_CLICKS[word], point, values)
    if word in _MOVES:
        return act.call(act.MOVE, point) if point is not None else None
    if word in _DRAGS:
        return _drag_call(point, values)
    if word == "scroll":
        return _scroll_call(point, values)
    if word in _TYPING:
        text = values.get("text")
        return act.call(act.TYPE, text=text) if isinstance(text, str) else None
    return _key_call(word, values)


def _point(values: Mapping[str, Any], name: str) -> act.Point | None:
    pair = values.get(name)
    return act.point_of(*pair) if isinstance(pair, list) and len(pair) == 2 else None


def _seconds(values: Mapping[str, Any]) -> float | None:
    return next((act.number(values[key]) for key in ("seconds", "duration", "time") if key in values), None)


def _click_call(name: str, point: act.Point | None, values: Mapping[str, Any]) -> Call:
    button, times = values.get("button"), values.get("num_clicks")
    if name == act.CLICK and button in ("right", "middle", "wheel"):
        name = act.RIGHT_CLICK if button == "right" else act.MIDDLE_CLICK
    elif name == act.CLICK and times in (2, 3):
        name = act.DOUBLE_CLICK if times == 2 else act.TRIPLE_CLICK
    half = button if name in (act.MOUSE_DOWN, act.MOUSE_UP) and button in ("right", "middle") else None
    return act.call(name, point, button=half)


def _drag_call(point: act.Point | None, values: Mapping[str, Any]) -> Call | None:
    path = values.get("path")
    if isinstance(path, list) and len(path) > 1:
        ends = [
            act.point_of(corner.get("x"), corner.get("y"))
            for corner in (path[0], path[-1])
            if isinstance(corner, Mapping)
        ]
        if len(ends) == 2 and ends[0] is not None and ends[1] is not None:
            return act.call(act.DRAG, ends[0], to=list(ends[1]))
        return None
    return act.call(act.DRAG, _point(values, "start_coordinate"), to=list(point)) if point is not None else None


def _scroll_call(point: act.Point | None, values: Mapping[str, Any]) -> Call | None:
    amount = act.number(values.get("scroll_amount"))
    direction = values.get("scroll_direction")
    if amount is not None and direction in ("up", "down"):
        return act.call(act.SCROLL, point, clicks=amount if direction == "up" else -amount)
    if amount is not None and direction in ("left", "right"):
        return act.call(act.SCROLL, point, dx=amount if direction == "right" else -amount)
    if "scroll_x" in values or "scroll_y" in values:
        # OpenAI's tool counts pixels, downwards.
        pixels = {"dx": act.number(values.get("scroll_x")) or None, "dy": act.number(values.get("scroll_y")) or None}
        return act.call(act.SCROLL, point, **pixels, unit="pixels")
    dx, dy = act.number(values.get("dx")), act.number(values.get("dy"))
    return act.call(act.SCROLL, point, clicks=dy, dx=dx or None) if dx is not None or dy is not None else None


def _key_call(word: str, values: Mapping[str, Any]) -> Call | None:
    keys = act.key_names(values.get("keys", values.get("key", values.get("text"))))
    if not keys:
        return None
    if word in ("key", "keypress") and len(keys) == 1 and len(keys[0]) > 1:
        keys = act.key_names([part for part in _JOINT.split(keys[0]) if part])
    if word in ("hotkey", "key", "keypress", "press") and keys:
        if len(keys) > 1:
            return act.call(act.HOTKEY, keys=keys)
        return act.call(act.PRESS, key=keys[0]) if word != "hotkey" else act.call(act.HOTKEY, keys=keys)
    if word in ("key_down", "key_up") and len(keys) == 1:
        return act.call(act.KEY_DOWN if word == "key_down" else act.KEY_UP, key=keys[0])
    return None
