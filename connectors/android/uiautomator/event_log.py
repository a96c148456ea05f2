r"""Event logs in JSON Lines beside uiautomator dumps. No tool defines their form; this docstring lists the keys read.

There is one object per line. The action is under `action`, `event_type`, `action_type`, `type`, `event`, `kind`, `name`
or `command`: a word (`tap`), an object of its own (`{"type": "tap", "x": 1}`), or an adb command. Known words:

- click: tap, click, touch, single_tap · long_press: long_tap, long_click, long_touch · swipe: drag, fling
- scroll · input_text: text, type, type_text, set_text, input, enter_text · wait: sleep, idle, delay
- press: key, keyevent, press_key, button, and the keys themselves: back, home, enter, menu, recents, navigate_back, …
- open_app: launch, launch_app, start_app, open, start_activity · close_app: stop_app, kill_app, force_stop
- task_complete: finish, finished, done, complete · any other word is kept as it is
- dump, screen, capture, snapshot, hierarchy, observe: not an action; a screen was captured here

Location: `x` and `y`; `coordinate`, `coordinates`, `point` or `position` (a pair); `start`/`end`, `from`/`to`, `x1` …
`y2` or `start_x` … `end_y` for swipes; `bounds`; `text`; `element` or `target` (an object with these, an id or a text).
Fractions of the screen are kept. Screens: `before`, `screen_before`, `dump_before`, `screen`, `dump`, `xml`,
`hierarchy`, `file`, and `after`, `screen_after`, `dump_after`, `next_screen`, `next_dump`: a file name with or without
its ending or folder, or a number. Time: `time`, `timestamp`, `ts`. An object without an action states facts about the
whole log: `task`, `goal` or `instruction`, `task_id`, `device` or `serial`, `agent`, `model`, `package`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from trajmill.connectors.android import action as act
from trajmill.connectors.android.adb import command_entries
from trajmill.connectors.android.entry import About, Captured, Entry, Moment, Performed, moment_of, word_set
from trajmill.connectors.connector import Blob
from trajmill.connectors.reading.fields import whole_number_of
from trajmill.connectors.reading.lines import json_lines
from trajmill.schemas import COMPLETE, WAIT, ParseError

KIND_KEYS: Final = ("action", "event_type", "action_type", "type", "event", "kind", "name", "command", "cmd")
_BEFORE: Final = ("before", "screen_before", "dump_before", "screen", "dump", "xml", "hierarchy", "file")
_AFTER: Final = ("after", "screen_after", "dump_after", "next_screen", "next_dump")
_TIMES: Final = ("time", "timestamp", "ts", "datetime")
_THOUGHTS: Final = ("reasoning", "thought", "rationale", "thinking")
_PAIRS: Final = ("coordinate", "coordinates", "point", "position")
_STARTS: Final = ("start", "from", "start_coordinate")
_ENDS: Final = ("end", "to", "end_coordinate", "coordinate2")
_ELEMENTS: Final = ("element", "target", "node", "view")
_META: Final = frozenset(
    (*KIND_KEYS, *_BEFORE, *_AFTER, *_TIMES, *_THOUGHTS, "step", "step_id", "index", "seq", "id", "screenshot", "image")
)
_FACTS: Final = ("task", "goal", "instruction", "task_id", "device", "serial", "agent", "model", "package")
_SCALAR: Final = (str, int, float)
_CAPTURES: Final = word_set("dump screen capture snapshot hierarchy observe screen_dump uiautomator_dump")
_KEY_WORDS: Final = {
    "back": "back",
    "press_back": "back",
    "navigate_back": "back",
    "home": "home",
    "press_home": "home",
    "navigate_home": "home",
    "enter": "enter",
    "press_enter": "enter",
    "keyboard_enter": "enter",
    "menu": "menu",
    "recents": "app_switch",
    "app_switch": "app_switch",
}
_WORDS: Final = {
    **dict.fromkeys(word_set("tap click touch single_tap"), act.CLICK),
    **dict.fromkeys(word_set("long_press long_tap long_click long_touch"), act.LONG_PRESS),
    **dict.fromkeys(word_set("swipe drag fling"), act.SWIPE),
    "scroll": act.SCROLL,
    **dict.fromkeys(word_set("input_text text type type_text set_text input enter_text"), act.INPUT_TEXT),
    **dict.fromkeys(word_set("press key keyevent key_event press_key button"), act.PRESS),
    **dict.fromkeys(word_set("open_app launch launch_app start_app open start_activity"), act.OPEN_APP),
    **dict.fromkeys(word_set("close_app stop_app kill_app force_stop"), act.CLOSE_APP),
    **dict.fromkeys(word_set("wait sleep idle delay"), WAIT),
    **dict.fromkeys(word_set("finish finished done complete task_complete"), COMPLETE),
    "intent": act.INTENT,
    "shell": act.SHELL,
}
_COMMAND: Final = re.compile(r"(?:adb(?:\.exe)?|input|am|monkey|uiautomator)\s+\S")


def json_entries(blob: Blob, member: str) -> Iterator[Entry | ParseError]:
    """Yield the entries of the log in order, and a `ParseError` for each unknown line."""
    for offset, value in json_lines(blob, member):
        if isinstance(value, ParseError):
            yield value
            continue
        detail = "wanted an object with an action, or with facts of the whole"
        try:
            entries = list(_entries(value, offset)) if isinstance(value, dict) else []
        except ValueError as error:
            entries, detail = [], str(error)
        yield from entries
        if not entries:
            yield ParseError(blob.uri, offset, "bad_record", detail, member)


def _entries(record: dict[str, Any], offset: int) -> Iterator[Entry]:
    record = _flatten(record)
    word = kind_of(record)
    time = next((moment for key in _TIMES if (moment := moment_of(record.get(key)))), None)
    if word is None:
        facts = {key: str(record[key]) for key in _FACTS if isinstance(record.get(key), str | int) and record[key]}
        if facts:
            yield About(offset, facts)
        return
    if _COMMAND.match(word):
        yield from _beside(list(command_entries(word, offset, time)), record)
        return
    name = re.sub(r"[\s-]+", "_", word.strip().lower())
    before = _reference(record, _BEFORE)
    if name in _CAPTURES:
        yield Captured(offset, before or _reference(record, ("path", "filename")), time)
    else:
        yield _parse_performed(name, word, record, offset, time)


def _beside(entries: list[Entry], record: Mapping[str, Any]) -> list[Entry]:
    """Complete the entries of a record's commands: the first action gets its `before`, the last its `after`."""
    acting = [index for index, entry in enumerate(entries) if isinstance(entry, Performed)]
    thought = next((record[key] for key in _THOUGHTS if isinstance(record.get(key), str)), None)
    for index in acting:
        entry = entries[index]
        assert isinstance(entry, Performed)
        entries[index] = replace(
            entry,
            before=_reference(record, _BEFORE) if index == acting[0] else None,
            after=_reference(record, _AFTER) if index == acting[-1] else None,
            reasoning=thought if index == acting[0] else None,
        )
    return entries


def _flatten(record: dict[str, Any]) -> dict[str, Any]:
    """Merge the fields of the record's nested action or arguments, if it has one, into the record."""
    for key in ("action", "event", "arguments", "args", "params", "parameters"):
        inner = record.get(key)
        if isinstance(inner, dict):
            record = {**{name: value for name, value in record.items() if name != key}, **inner}
    return record


def kind_of(record: Mapping[str, Any]) -> str | None:
    """Return the word for the action in a record; None if there is none."""
    for key in KIND_KEYS:
        value = record.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None


def knows(word: str) -> bool:
    """Return True if the word is one by which event logs are recognized."""
    name = re.sub(r"[\s-]+", "_", word.strip().lower())
    return name in _WORDS or name in _KEY_WORDS or name in _CAPTURES or bool(_COMMAND.match(word))


def _parse_performed(name: str, word: str, record: dict[str, Any], offset: int, time: Moment | None) -> Performed:
    action = act.PRESS if name in _KEY_WORDS else _WORDS.get(name, word)
    element = next((record[key] for key in _ELEMENTS if record.get(key)), None)
    target = _target(element if isinstance(element, dict) else record)
    label = element if isinstance(element, str) else _label(element if isinstance(element, dict) else record, action)
    if label is not None:
        target = {**target, "name": label}
    source = {**element, **record} if isinstance(element, dict) else record
    point = _point(source, _PAIRS) or _pair(source, "x", "y") or _point(source, _STARTS) or _pair(source, "x1", "y1")
    point = point or _pair(source, "start_x", "start_y")
    end = _point(source, _ENDS) or _pair(source, "x2", "y2") or _pair(source, "end_x", "end_y")
    if action == act.PRESS and point and name not in _KEY_WORDS and "key" not in record:
        action = act.CLICK
    fractions = point is not None and any(0 < value < 1 for value in point)
    arguments = _text_arguments(action, name, record)
    if fractions and point is not None:
        arguments = {"x": point[0], "y": point[1], **arguments}
    return Performed(
        offset=offset,
        name=action,
        original={key: value for key, value in record.items() if key not in _META and value is not None},
        told=arguments,
        point=None if fractions else point,
        end=None if fractions else end,
        target=target,
        before=_reference(record, _BEFORE),
        after=_reference(record, _AFTER),
        time=time,
        reasoning=next((record[key] for key in _THOUGHTS if isinstance(record.get(key), str)), None),
    )


def _text_arguments(action: str, name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """Collect the arguments of the action's text, except its location."""

    def word(*keys: str) -> str | None:
        entry = next((record[key] for key in keys if isinstance(record.get(key), str | int | float)), None)
        return None if entry is None else str(entry)

    arguments: dict[str, Any] = {}
    if action == act.INPUT_TEXT:
        arguments["text"] = word("text", "value", "content") or ""
    elif action == act.PRESS:
        arguments["keys"] = [
            _KEY_WORDS.get(name) or word("key", "keycode", "key_code", "button", "code", "value") or ""
        ]
    elif action in (act.SWIPE, act.SCROLL):
        direction = word("direction")
        arguments = {"direction": direction.lower() if direction else None, "distance": word("distance", "dist")}
    elif action == act.OPEN_APP:
        package = word("package", "app", "app_name", "app_id")
        target = act.component(package) if package else None
        arguments = {
            "package": target[0] if target else package,
            "activity": (target and target[1]) or word("activity"),
        }
    elif action == act.CLOSE_APP:
        arguments["package"] = word("package", "app", "app_name")
    elif action == WAIT:
        milliseconds = act.number(record.get("ms", record.get("duration_ms")))
        seconds = act.number(next((record[key] for key in ("seconds", "duration", "time_s") if key in record), None))
        arguments["seconds"] = milliseconds / 1000 if milliseconds is not None else seconds
    elif action in (act.INTENT, act.SHELL):
        arguments["command"] = word("intent", "cmd", "command")
    elif action not in act.VOCABULARY:
        arguments = {key: value for key, value in record.items() if key not in _META and isinstance(value, _SCALAR)}
        arguments = {key: value for key, value in arguments.items() if key not in ("x", "y")}
    return arguments


def _target(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that a record states for its element, under one spelling."""
    names = {
        "bounds": ("bounds", "bbox"),
        "resource_id": ("resource_id", "resource-id", "resourceId"),
    }
    entries = {
        key: next((record[name] for name in spellings if record.get(name)), None) for key, spellings in names.items()
    }
    return {key: value for key, value in entries.items() if value is not None}


def _label(record: Mapping[str, Any], action: str) -> str | None:
    """Return the label that a record states for its element; None if there is none, or if the text is typed text."""
    if action not in (act.CLICK, act.LONG_PRESS, act.SCROLL, act.SWIPE):
        return None
    labels = (record.get(key) for key in ("text", "content_desc", "content-desc", "content_description"))
    return next((text for text in labels if isinstance(text, str) and text), None)


def _point(record: Mapping[str, Any], keys: tuple[str, ...]) -> act.Point | None:
    for key in keys:
        value = record.get(key)
        if isinstance(value, dict):
            return _pair(value, "x", "y")
        if isinstance(value, list) and len(value) == 2:
            x, y = act.number(value[0]), act.number(value[1])
            return (x, y) if x is not None and y is not None else None
    return None


def _pair(record: Mapping[str, Any], across: str, down: str) -> act.Point | None:
    x, y = act.number(record.get(across)), act.number(record.get(down))
    return (x, y) if x is not None and y is not None else None


def _reference(record: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    for key in keys:
        value = record.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if whole_number_of(value) is not None:
            return str(value)
    return None
