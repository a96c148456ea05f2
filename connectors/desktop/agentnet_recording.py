"""Recordings of AgentNet Tool (github.com/xlang-ai/AgentNetTool): a person's desktop task with trees of its windows.

>>> show(AgentNetRecording(), {"reduced_events_complete.jsonl": '''
... {"id": 0, "action": "click", "button": "left", "coordinate": {"x": 40, "y": 30}, "start_time": 5.5, "target": '''
... '''{"control_type": "ButtonControl", "title": "Send"}, "axtree": {"Name": "Mail", "ControlType": '''
... '''"WindowControl", "time_stamp": 5.0, "complete": true, "Children": [{"Name": "Send", "ControlType": '''
... '''"ButtonControl", "BoundingRectangle": {"left": 20, "top": 20, "right": 60, "bottom": 40}, "Children": []}]}}
... {"id": 1, "action": "type", "key_names": ["h", "i", "enter"], "start_time": 7.5, '''
... '''"axtree": {"Name": "Sent", "ControlType": "WindowControl", "time_stamp": 6.0, "complete": true, "Children": []}}
... '''})
before  | #1 window "Mail"
        |   #2 button "Send" [20,20][60,40]
action  | {"name": "click", "arguments": {"element": "#2", "x": 40, "y": 30}}
after   | #3 window "Sent"
action  | {"name": "sequence", "arguments": {"calls": [{"name": "type", "arguments": {"text": "hi"}}, \
{"name": "press", "arguments": {"key": "enter"}}]}}
after   | (not in the log)

A recording is a folder. Its `reduced_events_complete.jsonl` is read, whose lines are the actions that the tool derived
from mouse and keys, with the UI Automation tree that it took last before each (`axtree`, of the topmost window), and
the task in `task_name.json`. The tree of an action is the next observation of the action before it if the tree was
taken after that action began, and if their ids show that no action between them is missing; else the next observation
is not in the log. A tree that could not be read completely, because its window was closed or covered by another, is
marked as cut by the recorder. Trees of macOS are spelled differently and are not read: their screens are null.

The target of an action as stated by the tool (`target`) is named by its node, or by role and name if the tree holds
none or several of that name. If the tool states no target, the innermost node at the point is the target. Moves of the
pointer are no actions. Keys that are held with others are a `hotkey`, or the halves of the key press with the actions
in between. The video, the raw events and trees between actions are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.desktop import action as act
from trajmill.connectors.desktop.action import Call, Point
from trajmill.connectors.desktop.control_tree import AGENTNET, Window, role_of_control, window_of
from trajmill.connectors.reading.fields import object_of, objects_of, str_of, text_of
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.lines import json_lines
from trajmill.connectors.reading.values import value_or_none
from trajmill.connectors.screens.moves import Moves
from trajmill.schemas import Action, Agent, Environment, Observation, ParseError, Reject, Task, Trajectory

_LOG: Final = "reduced_events_complete.jsonl"
_PATH: Final = re.compile(rf"((?:.*/)?)(?:{re.escape(_LOG)}|task_name\.json|metadata\.json)")
_CLICKS: Final = {2: act.DOUBLE_CLICK, 3: act.TRIPLE_CLICK}
_BUTTONS: Final = {"right": act.RIGHT_CLICK, "middle": act.MIDDLE_CLICK}
_DEEPEST: Final = 8
"""Largest number of keys held at the same time."""


class AgentNetRecording(Connector):
    """Folders recorded by AgentNet Tool."""

    name: ClassVar[str] = "agentnet_recording"
    version: ClassVar[str] = "2"
    domains: ClassVar[tuple[str, ...]] = ("os",)
    title: ClassVar[str] = "AgentNet Tool recordings (reduced_events_complete.jsonl, trees of Windows controls)"
    companions = re.compile(
        r"(?:events|event_buffer|element|html|html_element|a11y|top_window|reduced_events_vis)\.jsonl"
        r"|(?:hub_task_id|annotator_info)\.(?:txt|json)|(?:video_clips/)?[^/]*\.mp4"
    )

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        line = head.lstrip().partition(b"\n")[0]
        if line.startswith(b"{") and b'"event_start_idx"' in line and b'"axtree"' in line:
            return Sniff(0.95, "an act with its place among events and a tree, as AgentNet Tool has it")
        if line.startswith(b"{") and b'"action"' in line and b'"axtree"' in line and b'"ControlType"' in line:
            return Sniff(0.9, "an act with a tree of controls, as AgentNet Tool has it")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each folder with the actions of a recording, and its files about the task and the machine."""
        folders: dict[str, dict[str, str]] = {}
        for path in paths:
            if match := _PATH.fullmatch(path):
                folders.setdefault(match[1], {})[path[len(match[1]) :]] = path
        for folder, members in folders.items():
            if _LOG in members:
                yield Log(folder.rstrip("/"), members, _LOG)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        log = _LOG if _LOG in blob.members else ""
        acts: list[_Act] = []
        for offset, value in json_lines(blob, log):
            try:
                if isinstance(value, ParseError):
                    raise value
                if (new_act := _act(value, blob, log, offset)) is not None:
                    acts.append(new_act)
            except ParseError as error:
                acts.append(_Act(offset, None, (), {}, None, None))
                yield Reject.of(error, connector=self.name)
        moves = _moves(acts, log, blob.choices.screen == "raw")
        if not moves.steps:
            raise ParseError(blob.uri, -1, "no_transitions", "no line holds an act", log)
        task, machine = _beside(blob, "task_name.json"), _beside(blob, "metadata.json")
        words = [text for key in ("task_name", "description") if (text := text_of(task.get(key)))]
        system = " ".join(text for key in ("system", "release") if (text := text_of(machine.get(key))))
        yield Trajectory(
            native_id=blob.uri.rstrip("/").removesuffix(f"/{_LOG}").rpartition("/")[2],
            domain="os",
            steps=moves.steps,
            environment=Environment(id=system or None),
            agent=Agent(name="person"),
            task=Task(instruction="\n\n".join(words) or None),
        )


def _beside(blob: Blob, member: str) -> dict[str, Any]:
    """Return the object in a member that describes the recording; empty if there is none."""
    return object_of(value_or_none(blob.read(member))) if member in blob.members else {}


@dataclass(frozen=True, slots=True)
class _Act:
    """A line.

    Attributes:
        number: its id; None if the actions around it are unknown.
        calls: its calls; empty if the line cannot be read.
        window: the last tree taken before it.
        taken: time of that tree.
    """

    offset: int
    number: int | None
    calls: tuple[Call, ...]
    line: Mapping[str, Any]
    window: Window | None
    taken: float | None


def _act(value: Any, blob: Blob, log: str, offset: int) -> _Act | None:
    """Return the action of a line; None if it is none, such as a move of the pointer or the release of a button.

    Raises:
        ParseError: `bad_record` (no object with an action), `bad_action` (an unknown word or value), or the errors of a
            tree.
    """
    if not isinstance(value, dict) or not isinstance(value.get("action"), str):
        raise ParseError(blob.uri, offset, "bad_record", "wanted an object with an action", log)
    calls = _calls(value, _DEEPEST)
    if calls is None:
        detail = f"an act {value['action'][:80]!r} without what it did"
        raise ParseError(blob.uri, offset, "bad_action", detail, log)
    if not calls:
        return None
    tree = object_of(value.get("axtree"))
    window = None
    if isinstance(tree.get("ControlType"), str):
        window = window_of(tree, shallow_json(tree) or "", AGENTNET, blob.uri, log, offset)
    number = value.get("id")
    return _Act(
        offset, number if type(number) is int else None, tuple(calls), value, window, _time(tree.get("time_stamp"))
    )


def _moves(acts: Sequence[_Act], log: str, raw: bool) -> Moves:
    moves = Moves()
    screens = [_screen(recorded, raw) for recorded in acts]
    for index, recorded in enumerate(acts):
        if not recorded.calls:
            continue
        later = acts[index + 1] if index + 1 < len(acts) else None
        after = screens[index + 1] if later is not None and _follows(later, recorded) else None
        start, end = _time(recorded.line.get("start_time")), _time(recorded.line.get("end_time"))
        seconds = round(end - start, 6) if start is not None and end is not None and end >= start else None
        moves.add(_action(recorded, raw), screens[index], after, recorded.offset, log, seconds=seconds)
    return moves


def _screen(recorded: _Act, raw: bool) -> Observation | None:
    if recorded.window is None:
        return None
    return recorded.window.observation(
        raw, is_whole=object_of(recorded.line.get("axtree")).get("complete") is not False
    )


def _follows(later: _Act, earlier: _Act) -> bool:
    """Return True if the later tree was taken after the action began, with no other action in between."""
    start = _time(earlier.line.get("start_time"))
    is_next = later.number is not None and earlier.number is not None and later.number == earlier.number + 1
    return is_next and start is not None and later.taken is not None and later.taken >= start


def _time(value: Any) -> float | None:
    """Return seconds on the recorder's own clock; None if the value is invalid."""
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e12 else None


def _action(recorded: _Act, raw: bool) -> Action:
    """Build the `Action`, with the control that it pointed at."""
    target = object_of(recorded.line.get("target"))
    name, point = str_of(target.get("title")), recorded.calls[0].point
    original = {key: recorded.line[key] for key in _ORIGINAL if recorded.line.get(key) is not None}
    if point is None or len(recorded.calls) > 1:
        return act.action_of(recorded.calls, None, original)
    node = recorded.window.node_at(point, name) if recorded.window is not None and not raw else None
    arguments: dict[str, Any] = {}
    if node is not None:
        arguments["element"] = f"#{node}"
    elif name:
        arguments["target"] = {"role": role_of_control(str_of(target.get("control_type"))), "name": name}
    return act.build_action(recorded.calls[0].name, {**arguments, **recorded.calls[0].arguments(None)}, original)


_ORIGINAL: Final = ("action", "description", "button", "click_type", "coordinate", "key_name", "key_names", "target")


def _calls(line: Mapping[str, Any], deepest: int) -> list[Call] | None:
    """Return the calls of an action; empty if it is none, None if its word or a value is unknown."""
    word = line.get("action")
    if word == "move" or (word in ("click", "press") and line.get("pressed") is False):
        return []
    if word in ("click", "drag", "mouse_press"):
        return _pointer_calls(line, deepest)
    if word == "scroll":
        return _scroll_calls(line)
    if word == "type":
        return _type_calls(line.get("key_names"))
    return _hold_calls(line, deepest) if word in ("press", "long_press") else None


def _pointer_calls(line: Mapping[str, Any], deepest: int) -> list[Call] | None:
    coordinate = object_of(line.get("coordinate"))
    point, button = act.point_of(coordinate.get("x"), coordinate.get("y")), str_of(line.get("button")) or "left"
    if point is None:
        return None
    other_button = None if button == "left" else button
    if line["action"] == "drag":
        end = _last(line)
        return None if end is None else [act.call(act.DRAG, point, to=list(end), button=other_button)]
    if line["action"] == "mouse_press":
        inner = _inner(line, deepest)
        down, up = act.call(act.MOUSE_DOWN, point, button=other_button), act.call(act.MOUSE_UP, button=other_button)
        return None if inner is None else [down, *inner, up]
    return [act.call(_CLICKS.get(line.get("click_type", 1), _BUTTONS.get(button, act.CLICK)), point)]


def _last(line: Mapping[str, Any]) -> Point | None:
    """Return the end point of a drag: the last point of its trace, or of the move within it."""
    children = objects_of(line.get("children"))
    for trace in (line.get("drag_trace"), children[-1].get("trace") if children else None):
        if isinstance(trace, list) and trace and isinstance(trace[-1], list) and len(trace[-1]) == 2:
            return act.point_of(*trace[-1])
    return None


def _scroll_calls(line: Mapping[str, Any]) -> list[Call] | None:
    turns = objects_of(line.get("trace"))
    if not turns:
        return None
    down, across = [sum(act.number(turn.get(key)) or 0 for turn in turns) for key in ("dy", "dx")]
    point = act.point_of(turns[0].get("x"), turns[0].get("y"))
    return [act.call(act.SCROLL, point, clicks=down, dx=across or None)]


def _type_calls(names: Any) -> list[Call] | None:
    """Return consecutive characters as one text, and other keys by their names."""
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        return None
    calls: list[Call] = []
    for name in names:
        text = " " if name == "space" else name
        if len(text) > 1:
            calls.append(act.call(act.PRESS, key=name))
        elif calls and calls[-1].name == act.TYPE:
            calls[-1] = act.call(act.TYPE, text=dict(calls[-1].told)["text"] + text)
        else:
            calls.append(act.call(act.TYPE, text=text))
    return calls


def _hold_calls(line: Mapping[str, Any], deepest: int) -> list[Call] | None:
    """Return the calls of a key that was pressed alone, together with others, or held during other actions."""
    key, inner = text_of(line.get("key_name")), _inner(line, deepest)
    if key is None or inner is None:
        return None
    if not inner:
        return [act.call(act.PRESS, key=key)]
    keys = _keys(inner)
    if keys is not None and line["action"] == "press":
        return [act.call(act.HOTKEY, keys=[key, *keys])]
    return [act.call(act.KEY_DOWN, key=key), *inner, act.call(act.KEY_UP, key=key)]


def _keys(calls: Sequence[Call]) -> list[str] | None:
    """Return the keys of a single call that only presses keys; None for other calls."""
    arguments = dict(calls[0].told) if len(calls) == 1 else {}
    if len(calls) == 1 and calls[0].name == act.HOTKEY:
        return list(arguments["keys"])
    if len(calls) == 1 and calls[0].name == act.TYPE:
        return list(arguments["text"])
    return [arguments["key"]] if len(calls) == 1 and calls[0].name == act.PRESS else None


def _inner(line: Mapping[str, Any], deepest: int) -> list[Call] | None:
    """Return the calls that were made while a key or a button was held."""
    calls: list[Call] = []
    for child in objects_of(line.get("children")):
        child_calls = _calls(child, deepest - 1) if deepest else None
        if child_calls is None:
            return None
        calls += child_calls
    return calls
