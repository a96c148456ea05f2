"""Recordings of terminator's workflow recorder (github.com/mediar-ai/terminator): a person's actions on Windows.

>>> show(Workflow(), '''
... {"name": "Write", "start_time": 1700000000000, "end_time": 1700000000400, "events": [
...  {"timestamp": 1700000000100, "event": {"Mouse": {"event_type": "Down", "button": "Left",
...   "position": {"x": 300, "y": 85}}}},
...  {"timestamp": 1700000000180, "event": {"Click": {"element_text": "Recipient", "element_role": "edit",
...   "interaction_type": "Click", "click_position": {"x": 300, "y": 85}}}},
...  {"timestamp": 1700000000180, "event": {"Mouse": {"event_type": "Up", "button": "Left",
...   "position": {"x": 300, "y": 85}}}},
...  {"timestamp": 1700000000310, "event": {"Keyboard": {"key_code": 73, "is_key_down": true, "character": "I",
...   "ctrl_pressed": false, "alt_pressed": false, "shift_pressed": true, "win_pressed": false}}}]}
... ''')
action  | {"name": "click", "arguments": {"x": 300, "y": 85, "target": {"role": "edit", "name": "Recipient"}}}
after   | (not in the log)
action  | {"name": "type", "arguments": {"text": "I"}}
after   | (not in the log)

`{name, start_time, end_time, events: [{timestamp, event: {<kind>: {…}}}]}`: mouse, keys, and UI Automation's
interpretation of them (a `Click` on an element, `TextInputCompleted` of a field, `Hotkey`, `ApplicationSwitch`,
`BrowserTabNavigation`, …). No screen and no tree is recorded: every observation is null. An event's facts about its
element (`ui_element`, and text and role) stay in the action's arguments. They name no node of a screen, since there is
none.

The recorder writes one action as several events, which are combined:

- A `Click` sums up a mouse button going down and up, and may come before or after the latter: the three events are one
  click. A button that is released at another point than it was pressed is a drag; released at the same point without a
  `Click`, it is a click. Two clicks that the recorder then calls a `DoubleClick` are one double click.
- The pointer's hundreds of `Move`s are no actions, since every action states its own point.
- Characters of consecutive `Keyboard` events are one `type`. `TextInputCompleted` states the final content of a field
  and the number of keys counted. It becomes a `type` only if keys were counted and no `Keyboard` event had them,
  whether it comes at once or only after the click that left the field, and not if the combination before it pasted the
  text.
- The recorder writes the number of a key as its `character` (`A` for the key A with or without shift, `%` for the left
  arrow), so the key determines the typed text. The sign of a digit with shift depends on the keyboard layout, so shift
  with a digit stays a combination. A `Hotkey` and the `Keyboard` event of its last key are one combination.
- `ApplicationSwitch`, `BrowserTabNavigation`, `FileOpened`, `Clipboard`, `TextSelection` and `BrowserClick` state the
  effect of an action, or repeat it. They are no actions, and too little for a screen, so they are left out.

Times are milliseconds since 1970 UTC. An element that could not be captured (`[Element capture failed]`) is not named.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.desktop import action as act
from trajmill.connectors.desktop.action import Call, Point
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import plain_text
from trajmill.connectors.screens.moves import Moves
from trajmill.schemas import Agent, ParseError, Reject, Trajectory

_KINDS: Final = (b'"ApplicationSwitch"', b'"TextInputCompleted"', b'"Mouse"', b'"Click"', b'"Keyboard"', b'"Hotkey"')
_BUTTONS: Final = {"right": act.RIGHT_CLICK, "middle": act.MIDDLE_CLICK}
_FAILED: Final = "[Element capture failed]"
_STILL: Final = 10
"""Largest movement of the hand during a click, in pixels."""
_TWICE_MS: Final = 1000
_NO_TIME: Final = 253_402_300_800_000
"""Milliseconds of 9999-12-31; later times are not representable and count as absent."""
_MOUSE: Final = ("Down", "Up", "DoubleClick", "Wheel")
"""Events of the mouse that are actions or parts of actions; most others are moves."""
_KEYS: Final = {8: "backspace", 9: "tab", 13: "enter", 27: "esc", 32: "space", 33: "pageup", 34: "pagedown", 35: "end"}
_MORE_KEYS: Final = {36: "home", 37: "left", 38: "up", 39: "right", 40: "down", 45: "insert", 46: "delete"}
_SIGNS: Final = dict(zip((*range(106, 112), *range(186, 193), *range(219, 223)), "*+,-./;=,-./`[\\]'", strict=True))
"""Keys of the number pad and of signs on a US keyboard, as the recorder names them."""
_EDITING: Final = frozenset({8, 13, 46})
_OTHER_NAMES: Final = {"control": "ctrl", "windows": "win", "meta": "win", "escape": "esc", "return": "enter"}
_PASTING: Final = frozenset({frozenset({"ctrl", "v"}), frozenset({"shift", "insert"})})
_MODIFIERS: Final = ("ctrl", "alt", "shift", "win")
_MODIFIER_CODES: Final = frozenset({16, 17, 18, 20, 91, 92, *range(160, 166)})


class Workflow(Connector):
    """Recordings of terminator."""

    name: ClassVar[str] = "terminator"
    version: ClassVar[str] = "6"
    domains: ClassVar[tuple[str, ...]] = ("os",)
    title: ClassVar[str] = "terminator workflow recordings (Windows UI Automation, JSON)"
    companions = re.compile(r"(?:screenshots/)?[^/]*\.(?:png|jpe?g)")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if not start.startswith(b"{") or b'"events"' not in head or b'"event"' not in head:
            return None
        if b'"start_time"' in head and any(kind in head for kind in _KINDS):
            return Sniff(0.92, "events of terminator's recorder, named by their kind")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        value, data = json_document(blob, blob.members[0])
        events = value.get("events") if isinstance(value, dict) else None
        if not isinstance(events, list):
            raise ParseError(blob.uri, 0, "bad_record", "wanted an object with a list of events", "", data[:512])
        deeds = _Deeds()
        take = deeds.take
        for index, event in enumerate(events):
            kind, fields = _event(event)
            if kind is None:
                detail = f"event {index} is none: wanted one kind with its fields"
                yield Reject.of(ParseError(blob.uri, 0, "bad_event", detail), connector=self.name)
                continue
            if kind != "Mouse" or fields.get("event_type") in _MOUSE:
                take(kind, fields, _time(event, fields))
        moves = deeds.moves()
        if not moves.steps:
            raise ParseError(
                blob.uri, 0, "no_transitions", "no event is an act of the mouse or the keys", "", data[:512]
            )
        yield Trajectory(
            native_id=blob.uri.rstrip("/").rpartition("/")[2],
            domain="os",
            steps=moves.steps,
            agent=Agent(name="person"),
        )


def _event(event: Any) -> tuple[str | None, Mapping[str, Any]]:
    """Return (kind, fields) of an event; the kind is None if it is malformed."""
    inner = event.get("event") if isinstance(event, dict) else None
    if isinstance(inner, dict) and len(inner) == 1:
        for kind, fields in inner.items():
            if isinstance(fields, dict):
                return kind, fields
    return None, {}


def _time(event: Any, fields: Mapping[str, Any]) -> int | None:
    """Return the time in milliseconds since 1970; None if there is none."""
    time = event.get("timestamp")
    if type(time) is int and 0 < time < _NO_TIME:
        return time
    metadata = fields.get("metadata")
    time = metadata.get("timestamp") if isinstance(metadata, dict) else None
    return time if type(time) is int and 0 < time < _NO_TIME else None


def _point(position: Any) -> Point | None:
    return act.point_of(position.get("x"), position.get("y")) if isinstance(position, dict) else None


class _Deeds:
    """Actions of a recording, combined from its events in order."""

    def __init__(self) -> None:
        self._done: list[tuple[Call, Mapping[str, Any], int | None]] = []
        self._down: tuple[Point, Mapping[str, Any]] | None = None
        self._keyed = False
        self._unfinished = False
        self._twin: tuple[str, frozenset[str], int | None] | None = None
        self._lifted: tuple[Point, int | None, Mapping[str, Any]] | None = None

    def take(self, kind: str, fields: Mapping[str, Any], time: int | None) -> None:
        """Process an event; one that is no action adds nothing."""
        if kind == "Mouse":
            self._mouse(fields, time)
        elif kind == "Click":
            self._click(fields, time)
        elif kind == "Keyboard":
            self._key(fields, time)
        elif kind == "Hotkey":
            keys = [part.strip().lower() for part in plain_text(fields.get("combination", "")).split("+")]
            if all(keys):
                self._combination(kind, keys, fields, time)
        elif kind == "DragDrop":
            start, end = _point(fields.get("start_position")), _point(fields.get("end_position"))
            if start is not None and end is not None and not self._was_drag(start):
                self._add(act.call(act.DRAG, start, to=list(end)), fields, time)
        elif kind in ("TextInputCompleted", "BrowserTextInput"):
            count, text = fields.get("keystroke_count"), fields.get("text_value", fields.get("text"))
            counted = not isinstance(count, int) or count > 0
            if counted and not self._unfinished and not self._has_pasted(fields) and isinstance(text, str) and text:
                self._add(act.call(act.TYPE, text=text, target=_target(fields)), fields, time)
            self._keyed = self._unfinished = False

    def _has_pasted(self, fields: Mapping[str, Any]) -> bool:
        """Return True if the last action is a combination of keys that pasted the text."""
        last = self._done[-1][0] if self._done else None
        if last is None or last.name != act.HOTKEY or fields.get("input_method") != "Pasted":
            return False
        return frozenset(dict(last.told)["keys"]) in _PASTING

    def _click(self, fields: Mapping[str, Any], time: int | None) -> None:
        point, pressed = _point(fields.get("click_position")), self._down[1] if self._down is not None else {}
        lifted, self._lifted, self._down = self._lifted, None, None
        if lifted is not None and point is not None and self._is_same(lifted, point, time):
            # The click was already added when the button went up.
            if self._done[-1][0].name == act.DOUBLE_CLICK:
                return
            pressed = lifted[2]
            self._done.pop()
        button = plain_text(pressed.get("button", "")).lower()
        self._add(act.call(_BUTTONS.get(button, act.CLICK), point, target=_target(fields)), fields, time)

    def _is_same(self, lifted: tuple[Point, int | None, Mapping[str, Any]], point: Point, time: int | None) -> bool:
        earlier, before, _ = lifted
        soon = time is None or before is None or abs(time - before) <= _TWICE_MS
        return soon and math.dist(earlier, point) <= _STILL

    def _add(self, call: Call, fields: Mapping[str, Any], time: int | None) -> None:
        self._done.append((call, fields, time))
        self._lifted = self._twin = None
        self._keyed = call.name == act.TYPE

    def _combination(self, kind: str, keys: list[str], fields: Mapping[str, Any], time: int | None) -> None:
        """Add a combination of keys, unless an event of the other kind has just added it."""
        pressed = frozenset(_OTHER_NAMES.get(key, key) for key in keys)
        twin, self._twin = self._twin, None
        if twin is not None and twin[0] != kind and twin[1] == pressed:
            before = twin[2]
            if time is None or before is None or abs(time - before) <= _TWICE_MS:
                return
        self._add(act.call(act.HOTKEY, keys=keys), fields, time)
        self._twin = kind, pressed, time

    def _mouse(self, fields: Mapping[str, Any], time: int | None) -> None:
        kind, point = fields.get("event_type"), _point(fields.get("position"))
        if kind == "Down" and point is not None:
            self._down, self._lifted = (point, fields), None
        elif kind == "Up":
            if self._down is not None and point is not None:
                start, pressed = self._down
                button = plain_text(pressed.get("button", "")).lower()
                if math.dist(start, point) > _STILL:
                    other_button = button if button in _BUTTONS else None
                    self._add(act.call(act.DRAG, start, to=list(point), button=other_button), pressed, time)
                else:
                    self._add(act.call(_BUTTONS.get(button, act.CLICK), start, target=_target(pressed)), pressed, time)
                    self._lifted = start, time, pressed
            self._down = None
        elif kind == "DoubleClick" and point is not None:
            target = _target(fields)
            while self._done and self._is_click_there(point, time):
                earlier = self._done.pop()[0]
                target = target or dict(earlier.told).get("target")
            self._add(act.call(act.DOUBLE_CLICK, point, target=target), fields, time)
            self._down, self._lifted = None, (point, time, fields)
        elif kind == "Wheel":
            delta = fields.get("scroll_delta")
            dx, dy = (
                (act.number(part) for part in delta) if isinstance(delta, list) and len(delta) == 2 else (None, None)
            )
            if dx or dy:
                self._add(act.call(act.SCROLL, point, clicks=dy or None, dx=dx or None), fields, time)

    def _is_click_there(self, point: Point, time: int | None) -> bool:
        """Return True if the last action is the first click of a double click that ends at this point."""
        call, _, before = self._done[-1]
        near = call.name == act.CLICK and call.point is not None and math.dist(call.point, point) <= _STILL
        return near and (time is None or before is None or time - before <= _TWICE_MS)

    def _was_drag(self, start: Point) -> bool:
        last = self._done[-1][0] if self._done else None
        return last is not None and last.name == act.DRAG and last.point == start

    def _key(self, fields: Mapping[str, Any], time: int | None) -> None:
        code = fields.get("key_code")
        code = code if isinstance(code, int) else None
        if fields.get("is_key_down") is not True or code in _MODIFIER_CODES:
            return
        modifiers = [name for name in _MODIFIERS if fields.get(f"{name}_pressed") is True]
        self._unfinished = self._unfinished or code in _EDITING
        character = None if {"ctrl", "alt", "win"} & set(modifiers) else _character(fields, code, "shift" in modifiers)
        if character is not None:
            self._unfinished = True
            last = self._done[-1] if self._done else None
            if last is not None and last[0].name == act.TYPE and self._keyed:
                text = dict(last[0].told)["text"] + character
                self._done[-1] = (act.call(act.TYPE, text=text), last[1], last[2])
            else:
                self._add(act.call(act.TYPE, text=character), fields, time)
            return
        key = _key_name(code)
        if key is None:
            return
        # Shift with a key that has no character (an arrow, tab) is a combination; with another key it is the character.
        if modifiers:
            self._combination("Keyboard", [*modifiers, key], fields, time)
        else:
            self._add(act.call(act.PRESS, key=key), fields, time)

    def moves(self) -> Moves:
        """Return the actions as moves between screens that nobody recorded."""
        moves = Moves()
        for call, fields, time in self._done:
            action = act.build_action(call.name, call.arguments(None), fields)
            moves.add(action, None, None, 0, at=time * 1000 if time is not None else None)
        return moves


def _character(fields: Mapping[str, Any], code: int | None, shifted: bool) -> str | None:
    """Return the character that a key typed; None if there is none, or if it depends on the keyboard's layout."""
    character = fields.get("character")
    character = character if isinstance(character, str) and len(character) == 1 and character.isprintable() else None
    if code is None or (character is not None and ord(character) != code):
        return character
    if 65 <= code <= 90 and character is not None:
        return character if shifted else character.lower()
    if 96 <= code <= 105:
        return chr(code - 48)
    if code == 32 or (48 <= code <= 57 and character is not None and not shifted):
        return chr(code)
    return _SIGNS.get(code) if code < 112 or not shifted else None


def _key_name(code: Any) -> str | None:
    """Return the key for a virtual key code of Windows."""
    if type(code) is not int:
        return None
    if code in _SIGNS:
        return _SIGNS[code]
    if 48 <= code <= 57 or 65 <= code <= 90:
        return chr(code).lower()
    if 112 <= code <= 123:
        return f"f{code - 111}"
    return (_KEYS | _MORE_KEYS).get(code)


def _target(fields: Mapping[str, Any]) -> dict[str, str] | None:
    """Return role and name of the event's widget; None if they were not captured."""
    metadata = fields.get("metadata")
    element = metadata.get("ui_element") if isinstance(metadata, dict) else None
    element = element if isinstance(element, dict) else {}
    name = fields.get("element_text") or fields.get("field_name") or element.get("name")
    role = fields.get("element_role") or fields.get("field_type") or element.get("role")
    raw = {"role": role, "name": name}
    captured = {
        key: value
        for key, value in raw.items()
        if isinstance(value, str) and value and value not in (_FAILED, "unknown")
    }
    return captured or None
