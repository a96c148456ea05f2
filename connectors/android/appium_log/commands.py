"""Commands of a WebDriver client to Appium as actions of the vocabulary of all Android logs.

A command is an HTTP request: `POST /session/<id>/element/<id>/click`. Most look (`GET …`, `POST …/element`) or set how
the driver works; only those that touch, type, press or start something are actions. Elements are named in a log by ids
that the server makes up anew in each session: what each was found by (`id`, `xpath`, …) is remembered, and names it
instead. Paths and bodies are those of the W3C WebDriver recommendation, the JSON Wire Protocol before it, and Appium's
own commands. Screens are not looked at here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trajmill.connectors.android import action as act
from trajmill.connectors.android.entry import Moment, Performed
from trajmill.connectors.reading.fields import plain_text

ELEMENT_KEYS: Final = ("element-6066-11e4-a52e-4f735466cecf", "ELEMENT")
"""Under which an answer names an element: in the W3C's protocol, and in the one before it."""

LONG_PRESS_MS: Final = 500

_LOCATOR: Final = re.compile(r"""@(resource-id|text|content-desc)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_SELECTOR: Final = re.compile(r'\b(resourceId|text|description)\(\s*"((?:[^"\\]|\\.)*)"\s*\)')
_OF_ELEMENT: Final = re.compile(r"(?:appium/)?element/([^/]+)/(click|value|replace_value|clear|submit)")
_QUIET: Final = re.compile(
    r"(?:element(?:/[^/]+)?/)?elements?|element/active|timeouts(?:/.*)?|(?:se/)?log(?:/.*)?|context|window(?:/.*)?|frame(?:/.*)?"
    r"|appium/settings|appium/device/(?:get_|is_|system_|app_|current_|display_|pull_).*|appium/app/strings"
    r"|appium/(?:log_event|events|start_recording_screen|stop_recording_screen|getPerformanceData.*|performanceData.*)"
    r"|appium/compare_images|ime/.*|execute_driver|appium/element/[^/]+/name"
)
"""Paths of a POST that changes nothing on the screen."""
_LOOKS: Final = re.compile(
    r"(?i)(?:get|is|list|query|device ?info|battery|source|screenshot|viewport|performance|log|start.*record).*"
    r"|stop.*record.*"
)
"""`mobile:` scripts that change nothing on the screen."""
_OWN_WORDS: Final = {"doubleclickgesture": "double_tap"}
"""Names of `mobile:` scripts for which other logs have one word, though the vocabulary has none."""


@dataclass(frozen=True, slots=True)
class Found:
    """What an element was found by: `using` and `value` of the command, and its place if several were found."""

    using: str
    value: str
    place: int | None = None

    @property
    def told(self) -> str:
        """It as text: `id=org.example:id/ok`, with its number from 1 behind where several were found."""
        return f"{self.using}={self.value}" + (f" [{self.place}]" if self.place is not None else "")

    @property
    def target(self) -> dict[str, str]:
        """How the element is found on a screen: by `resource_id` or by `name`; nothing where that does not name one."""
        if self.place is not None:
            return {}
        if self.using in ("id", "accessibility id", "name"):
            return {"resource_id" if self.using == "id" else "name": self.value}
        pattern = _LOCATOR if self.using == "xpath" else _SELECTOR if "uiautomator" in self.using else None
        said = pattern.findall(self.value) if pattern is not None else []
        if len(said) != 1:
            return {}
        kind, text = said[0][0], "".join(said[0][1:])
        return {"resource_id" if kind in ("resource-id", "resourceId") else "name": text}


@dataclass(slots=True)
class Elements:
    """The elements of one session by the ids that the server gave them."""

    _known: dict[str, Found] = field(default_factory=dict)

    def learn(self, body: Any, answer: Any) -> None:
        """Remembers what was found by a command."""
        if (
            not isinstance(body, dict)
            or not isinstance(body.get("using"), str)
            or not isinstance(body.get("value"), str)
        ):
            return
        several = answer if isinstance(answer, list) else [answer]
        for place, one in enumerate(several, 1):
            if ident := element_id(one):
                self._known[ident] = Found(body["using"], body["value"], place if len(several) > 1 else None)

    def get(self, ident: Any) -> Found | None:
        """What the element of that id was found by; None if the log does not say."""
        return self._known.get(ident) if isinstance(ident, str) else None


def element_id(value: Any) -> str | None:
    """The id of an element that an answer or an argument names; None if it names none."""
    if not isinstance(value, dict):
        return None
    return next((value[key] for key in ELEMENT_KEYS if isinstance(value.get(key), str)), None)


def performed(path: str, body: Any, known: Elements, offset: int, time: Moment | None) -> Performed | None:
    """The action that a POST stands for; None if it only looks, or sets how the driver works.

    Args:
        path: behind `/session/<id>/`.
        body: of the request, parsed; None if it has none.
        known: the session's elements.
        offset: where its record begins.
        time: when it came.
    """
    told = body if isinstance(body, dict) else {}
    if found := _OF_ELEMENT.fullmatch(path):
        return _on_element(found[2], known.get(found[1]), told, offset, time)
    if path in ("execute", "execute/sync", "execute_async", "execute/async"):
        return _script(told, known, offset, time)
    if path in ("actions", "touch/perform"):
        gesture = _pointer(told.get("actions")) if path == "actions" else _touch(told.get("actions"))
        if gesture is None:
            return Performed(offset, "gesture", told, {"actions": told.get("actions")}, time=time)
        name, start, end, ident = gesture
        return _made(name, {}, told, known.get(ident), offset, time, start, end)
    return None if _QUIET.fullmatch(path) else _device(path, told, offset, time)


def _made(
    name: str,
    told: Mapping[str, Any],
    original: Mapping[str, Any],
    found: Found | None,
    offset: int,
    time: Moment | None,
    point: act.Point | None = None,
    end: act.Point | None = None,
) -> Performed:
    named = {"target": found.told} if found is not None else {}
    target = {**(found.target if found is not None else {}), **named}
    return Performed(offset, name, {**named, **original}, told, point, end, target, time=time)


def _on_element(word: str, found: Found | None, body: dict[str, Any], offset: int, time: Moment | None) -> Performed:
    if word == "value":
        return _made(act.INPUT_TEXT, {"text": _typed(body)}, body, found, offset, time)
    if word == "replace_value":
        return _made(act.INPUT_TEXT, {"text": _typed(body), "clear": True}, body, found, offset, time)
    if word == "clear":
        return _made(act.INPUT_TEXT, {"text": "", "clear": True}, body, found, offset, time)
    return _made(act.CLICK if word == "click" else word, {}, body, found, offset, time)


def _typed(body: Mapping[str, Any]) -> str:
    """The text of a command that types: `text`, or the characters of `value`."""
    if isinstance(body.get("text"), str):
        return str(body["text"])
    value = body.get("value")
    return "".join(part for part in value if isinstance(part, str)) if isinstance(value, list) else str(value or "")


def _device(path: str, body: dict[str, Any], offset: int, time: Moment | None) -> Performed:
    """A command to the device or the app; one without a word of the vocabulary keeps the end of its path."""
    word = path.rpartition("/")[2]
    package = next((body[key] for key in ("appPackage", "appId", "bundleId") if isinstance(body.get(key), str)), None)
    activity = body.get("appActivity") if isinstance(body.get("appActivity"), str) else None
    told: dict[str, Any] = {key: value for key, value in body.items() if isinstance(value, str | int | float)}
    if path == "back":
        return Performed(offset, act.PRESS, body, {"keys": ["back"]}, time=time)
    if word in ("press_keycode", "long_press_keycode", "keyevent") and isinstance(body.get("keycode"), int | str):
        return Performed(offset, act.PRESS, body, {"keys": [str(body["keycode"])]}, time=time)
    if path == "keys":
        return Performed(offset, act.INPUT_TEXT, body, {"text": _typed(body)}, time=time)
    if word in ("start_activity", "activate_app", "launch"):
        return Performed(offset, act.OPEN_APP, body, {"package": package, "activity": activity}, time=time)
    if word in ("terminate_app", "close"):
        return Performed(offset, act.CLOSE_APP, body, {"package": package}, time=time)
    return Performed(offset, word, body, told, time=time)


def _script(body: dict[str, Any], known: Elements, offset: int, time: Moment | None) -> Performed | None:
    """A script: one of Appium's own gestures (`mobile: clickGesture`), or code run in a web view."""
    script, arguments = body.get("script"), body.get("args")
    if not isinstance(script, str):
        return None
    if not script.startswith("mobile:"):
        return Performed(offset, "evaluate", body, {"script": script}, time=time)
    word = script.removeprefix("mobile:").strip()
    first = arguments[0] if isinstance(arguments, list) and arguments else arguments
    told = first if isinstance(first, dict) else {}
    if _LOOKS.fullmatch(word):
        return None
    found = known.get(told.get("elementId")) or known.get(element_id(told.get("element")))
    x, y = act.number(told.get("x")), act.number(told.get("y"))
    point = (x, y) if x is not None and y is not None and found is None else None
    direction = told.get("direction") if isinstance(told.get("direction"), str) else None
    names = {
        "clickgesture": act.CLICK,
        "longclickgesture": act.LONG_PRESS,
        "swipegesture": act.SWIPE,
        "swipe": act.SWIPE,
    }
    names |= {"scrollgesture": act.SCROLL, "scroll": act.SCROLL, "flinggesture": act.SCROLL}
    if (name := names.get(word.lower())) is not None:
        return _made(name, {"direction": direction} if direction else {}, body, found, offset, time, point)
    start, end = (_point({axis: told.get(f"{side}{axis.upper()}") for axis in "xy"}) for side in ("start", "end"))
    if word.lower() == "draggesture" and start is not None and end is not None:
        return _made(act.SWIPE, {}, body, None, offset, time, start, end)
    if word == "pressKey" and isinstance(told.get("keycode"), int | str):
        return Performed(offset, act.PRESS, body, {"keys": [str(told["keycode"])]}, time=time)
    if word == "shell":
        parts = told.get("args")
        words = [told.get("command", ""), *(parts if isinstance(parts, list) else [parts or ""])]
        command = " ".join(map(plain_text, words))
        return Performed(offset, act.SHELL, body, {"command": command.strip()}, time=time)
    package = next((told[key] for key in ("appId", "package") if isinstance(told.get(key), str)), None)
    if word in ("activateApp", "startActivity", "terminateApp"):
        name = act.CLOSE_APP if word == "terminateApp" else act.OPEN_APP
        return Performed(offset, name, body, {"package": package}, time=time)
    scalars = {key: value for key, value in told.items() if isinstance(value, str | int | float)}
    scalars.pop("elementId", None)
    return _made(_OWN_WORDS.get(word.lower(), word), scalars, body, found, offset, time, point)


_Gesture = tuple[str, act.Point | None, act.Point | None, str | None]
"""The name of a gesture of one finger, where it began and ended, and the id of the element it began on."""


def _named(points: Sequence[act.Point | None], ident: str | None, held_ms: float) -> _Gesture | None:
    """The gesture of a finger that went through these points; None stands for the middle of the element."""
    if not points:
        return None
    first, last = points[0], points[-1]
    if first == last:
        return (act.LONG_PRESS if held_ms >= LONG_PRESS_MS else act.CLICK), first, None, ident
    return (act.SWIPE, first, last, None) if first is not None and last is not None else None


def _point(value: Mapping[str, Any]) -> act.Point | None:
    x, y = act.number(value.get("x")), act.number(value.get("y"))
    return (x, y) if x is not None and y is not None else None


def _pointer(sources: Any) -> _Gesture | None:
    """The gesture of the W3C's `actions`, if it is that of one finger that comes down once."""
    fingers = (
        [one for one in sources if isinstance(one, dict) and one.get("type") == "pointer"]
        if isinstance(sources, list)
        else []
    )
    steps = fingers[0].get("actions") if len(fingers) == 1 else None
    at: act.Point | None = None
    ident: str | None = None
    points: list[act.Point | None] = []
    held = 0.0
    is_down = False
    for one in steps if isinstance(steps, list) else []:
        kind = one.get("type") if isinstance(one, dict) else None
        if kind == "pointerMove":
            on = element_id(one.get("origin"))
            if one.get("origin") == "pointer" or (on is not None and (points or _point(one) not in ((0, 0), None))):
                return None
            at, ident = (None if on is not None else _point(one)), (on if not points else ident)
            points += [at] if is_down else []
        elif kind == "pointerDown":
            if points:
                return None
            points, is_down = [at], True
        elif kind == "pointerUp":
            is_down = False
        elif kind == "pause" and is_down and len(points) == 1:
            held += act.number(one.get("duration")) or 0
    return _named(points, ident, held)


def _touch(steps: Any) -> _Gesture | None:
    """The gesture of Appium's own `touch/perform`."""
    points: list[act.Point | None] = []
    ident: str | None = None
    held = 0.0
    for one in steps if isinstance(steps, list) else []:
        kind, options = (one.get("action"), one.get("options")) if isinstance(one, dict) else (None, None)
        options = options if isinstance(options, dict) else {}
        if kind in ("tap", "press", "longPress", "moveTo"):
            on = options.get("element") if isinstance(options.get("element"), str) else None
            if on is not None and points:
                return None
            ident = on if on is not None else ident
            points.append(None if on is not None else _point(options))
            held = max(held, LONG_PRESS_MS if kind == "longPress" else 0)
        elif kind == "wait" and len(points) == 1:
            held += act.number(options.get("ms")) or 0
        elif kind not in ("release", "wait"):
            return None
    return _named(points, ident, held)
