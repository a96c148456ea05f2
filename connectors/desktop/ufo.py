"""Logs of UFO (github.com/microsoft/UFO), an agent on Windows: its steps, and the trees of its windows.

>>> show(Ufo(), {"response.log": '''
... {"step": 1, "request": "Save it.", "agent_type": "AppAgent", "application": "NOTES.EXE", "status": "FINISH", '''
... '''"thought": "I save.", "action": {"function": "click_input", "args": {"button": "left"}, "control_text": "Save"}}
... ''', "ui_tree/step_1.json": '''
... {"id": "node_0", "name": "Notes *", "control_type": "Window", "level": 0, "children": [
...  {"id": "node_1", "name": "Save", "control_type": "Button", "level": 1, "children": [],
...   "adjusted_rectangle": {"left": 10, "top": 40, "right": 60, "bottom": 80}}]}
... ''', "ui_tree/ui_tree_final.json": '''
... {"id": "node_0", "name": "Notes", "control_type": "Window", "level": 0, "children": []}
... '''})
before  | #1 window "Notes *"
        |   #2 button "Save" [10,40][60,80]
action  | {"name": "click", "arguments": {"element": "#2"}}
after   | #3 window "Notes"

`logs/<task>/response.log` has one JSON object per step, with or without blank lines in between: the model's answer
(`thought`, `control_text`, `function`, `args`, `status`) and UFO's additions (`step`, `request`, `agent_type` or
`Agent`, `application`). Versions spell keys in different ways (`ControlText`, `control_text`), which are read alike.
`action` is an object, or a list of those of one answer.

`ui_tree/step_<n>.json` (`ui_trees/ui_tree_step<n>.json` in other versions) is the window before step n: UFO records it
before it asks the model. The observation of a step is the tree of its number, and the next observation is the tree of
the step logged after it (if lines are missing, of the next number). After the last step with an action it is
`ui_tree_final.json`. If a tree was not saved, the observation is null. A HostAgent chooses the window in which an
AppAgent then works (`select_application`, or a function of its own in later versions), and sees no tree. The model's
words about the screen (`observation`) are reasoning.

A line without an action is rejected. `evaluation.log`, a model's verdict, states whether the task was completed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.desktop import action as act
from trajmill.connectors.desktop.control_tree import Window, box_of, read_window
from trajmill.connectors.reading.attached import attachment_of_member
from trajmill.connectors.reading.fields import object_of, plain_text
from trajmill.connectors.reading.lines import json_lines
from trajmill.connectors.reading.values import value_or_none
from trajmill.connectors.screens.moves import Moves
from trajmill.schemas import (
    COMPLETE,
    WAIT,
    Action,
    Agent,
    Attachment,
    Environment,
    Observation,
    Outcome,
    ParseError,
    Reject,
    Task,
    Trajectory,
)

_LOG: Final = "response.log"
_TREE: Final = re.compile(r"(?:.*/)?(?:ui_tree_)?step_?(\d{1,6})\.json")
_TREE_PATH: Final = re.compile(r"((?:.*/)?)ui_trees?/(?:(?:ui_tree_)?step_?\d{1,6}|ui_tree_final)\.json")
_FINAL: Final = 1 << 32
"""Number given to the final window, after every step."""
_OTHERS: Final = re.compile(r"((?:.*/)?)(?:evaluation\.log|action_step\d{1,6}\.png)")
_AGENTS: Final = (b'"HostAgent"', b'"AppAgent"', b'"FollowerAgent"')
_WORDS: Final = (b'"ControlText"', b'"control_text"', b'"Function"', b'"function"', b'"Subtask"', b'"subtask"')
_SELECT: Final = "select_application"
_TYPED: Final = ("set_edit_text", "type_keys")
_THOUGHTS: Final = ("observation", "thought")
_DONE: Final = ("FINISH", "ALLFINISH")


class Ufo(Connector):
    """Logs of UFO."""

    name: ClassVar[str] = "ufo"
    version: ClassVar[str] = "5"
    domains: ClassVar[tuple[str, ...]] = ("os",)
    title: ClassVar[str] = "UFO logs (response.log, trees of Windows controls)"
    companions = re.compile(
        r"(?:request|evaluation|process|error|debug)\.log|output\.md|(?:ui_trees?/)?[^/]*\.(?:png|jpe?g|mp4)|ui_trees?/[^/]*\.json"
    )

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            return None
        if any(agent in head for agent in _AGENTS) and sum(word in head for word in _WORDS) > 0 and b"hought" in head:
            return Sniff(0.9, "steps of UFO's agents with their functions")
        if _is_tree(head):
            return Sniff(0.85, "a tree of controls as UFO saves it")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each folder with a `response.log` and trees or screenshots of UFO beside it."""
        beside: dict[str, list[str]] = {}
        for path in paths:
            if match := _TREE_PATH.fullmatch(path) or _OTHERS.fullmatch(path):
                beside.setdefault(match[1], []).append(path)
        for folder, files in beside.items():
            log = f"{folder}{_LOG}"
            if log in paths:
                members = {path[len(folder) :]: path for path in sorted([log, *files])}
                yield Log(folder.rstrip("/"), members, _LOG)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        log = _LOG if _LOG in blob.members else ""
        if log not in blob.members:
            raise ParseError(blob.uri, -1, "no_actions", "wanted a response.log, met none")
        with blob.open(log) as stream:
            if _is_tree(stream.read(4096)):
                raise ParseError(blob.uri, 0, "no_actions", "a tree of controls; wanted a response.log beside it", log)
        rows: list[tuple[int, dict[str, Any]]] = []
        rejected: list[ParseError] = []
        for offset, value in json_lines(blob, log):
            if isinstance(value, ParseError):
                rejected.append(value)
                rows.append((offset, {}))
            elif isinstance(value, dict):
                rows.append((offset, {_plain(key): value_there for key, value_there in value.items()}))
        folder = _Folder(blob)
        moves = _moves(rows, folder, log, rejected)
        outcome = folder.outcome()
        for refused in [*rejected, *folder.errors]:
            yield Reject.of(refused, connector=self.name)
        if not moves.steps:
            raise ParseError(blob.uri, -1, "no_transitions", "no step holds an action", log)
        fields_by_row = [row for _, row in rows]
        yield Trajectory(
            native_id=blob.uri.rstrip("/").removesuffix(f"/{_LOG}").rpartition("/")[2],
            domain="os",
            steps=moves.steps,
            environment=Environment(
                id=next((name for row in fields_by_row if (name := _text(row.get("application")))), None)
            ),
            agent=Agent(name="ufo"),
            task=Task(instruction=next((text for row in fields_by_row if (text := _text(row.get("request")))), None)),
            outcome=outcome,
        )


def _is_tree(head: bytes) -> bool:
    return b'"control_type"' in head and b'"adjusted_rectangle"' in head


def _plain(key: str) -> str:
    """Return a key in a spelling common to all versions: `controltext` for `ControlText` and for `control_text`."""
    return key.replace("_", "").replace("-", "").replace(" ", "").lower()


def _text(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


class _Folder:
    """The windows of a folder by step; `errors` collects what could not be read."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self.uri = blob.uri
        self.raw = blob.choices.screen == "raw"
        self.errors: list[ParseError] = []
        self._files = {int(match[1]): name for name in blob.members if (match := _TREE.fullmatch(name))}
        final = next((name for name in blob.members if name.endswith("ui_tree_final.json")), None)
        if final is not None:
            self._files[_FINAL] = final
        self._read: dict[int, Window | None] = {}

    def window(self, step: int | None) -> Window | None:
        """Return the window before that step; None if it was not saved, or cannot be read."""
        if step is None or step not in self._files:
            return None
        if step not in self._read:
            name = self._files[step]
            self._read[step] = None
            try:
                self._read[step] = read_window(self._blob.read(name), self._blob.uri, name)
            except ParseError as error:
                self.errors.append(error)
        return self._read[step]

    def observation(self, step: int | None) -> Observation | None:
        """Return the window before that step with its screenshot; None if there is neither."""
        window, picture = self.window(step), f"action_step{step}.png"
        pictures: tuple[Attachment, ...] = ()
        if picture in self._blob.members:
            pictures = (attachment_of_member(self._blob, picture, "screenshot", "image/png"),)
        if window is not None:
            return window.observation(self.raw, pictures)
        return Observation(None, form="screen", attachments=pictures) if pictures else None

    def outcome(self) -> Outcome | None:
        """Return the verdict of the model that judged the run; None without such a file, or a yes or no in it."""
        if "evaluation.log" not in self._blob.members:
            return None
        for line in self._blob.read("evaluation.log").splitlines():
            complete = object_of(value_or_none(line)).get("complete")
            if complete in ("yes", "no"):
                return Outcome(resolved=complete == "yes", verifier="EvaluationAgent")
        return None


def _moves(rows: Sequence[tuple[int, dict[str, Any]]], folder: _Folder, log: str, rejected: list[ParseError]) -> Moves:
    """Convert the lines into moves; lines without an action are added to `rejected`."""
    numbers = [_number(row) for _, row in rows]
    acting = [position for position, (_, row) in enumerate(rows) if not row or _acts(row)]
    moves = Moves()
    for position, (offset, row) in enumerate(rows):
        if not row:
            continue
        window = folder.window(numbers[position])
        actions = list(_actions(row, None if folder.raw else window))
        if not actions:
            detail = f"step {numbers[position]} of {_agent(row)} does nothing: its status is {_text(row.get('status'))}"
            rejected.append(ParseError(folder.uri, offset, "no_action", detail[:300], log))
            continue
        before = folder.observation(numbers[position])
        number, following = numbers[position], numbers[position + 1] if position + 1 < len(rows) else None
        # Where lines are missing, the tree of the next logged step is the result of a missing step.
        following = min(following, number + 1) if number is not None and following is not None else following
        after = folder.observation(following) if following != number else None
        if after is None and acting[-1:] == [position]:
            after = folder.observation(_FINAL)
        for index, action in enumerate(actions):
            last = index == len(actions) - 1
            done = action.name == COMPLETE
            moves.add(
                action,
                before,
                after if last and not done else None,
                offset,
                log,
                calls=len(actions),
                terminated=True if done else None,
            )
    return moves


def _acts(row: Mapping[str, Any]) -> bool:
    """Return True if a line acts on the screen."""
    return any(action.name != COMPLETE for action in _actions(row, None))


def _number(row: Mapping[str, Any]) -> int | None:
    step = row.get("step")
    return step if type(step) is int and 0 <= step < 1 << 31 else None


def _agent(row: Mapping[str, Any]) -> str:
    return _text(row.get("agenttype")) or _text(row.get("agent")) or ""


def _actions(row: Mapping[str, Any], window: Window | None) -> Iterator[Action]:
    """Yield the actions of a line, in order; the first has the agent's words."""
    words = [_text(row.get(key)) for key in _THOUGHTS]
    reasoning = "\n\n".join(word for word in words if word) or None
    status = (_text(row.get("status")) or "").upper()
    if _agent(row) == "HostAgent":
        name, command = _text(row.get("controltext")), _text(row.get("bash"))
        if command is not None:
            yield act.build_action("run_command", {"command": command}, {"bash": command}, reasoning)
        elif name is not None and status not in _DONE:
            yield act.build_action(_SELECT, {"application": name}, {"control_text": name}, reasoning)
        elif status in _DONE:
            yield act.build_action(COMPLETE, {}, {"status": status}, reasoning)
        elif _function(row) is not None:
            yield _action(row, None, None, reasoning)
        return
    listed = row.get("action")
    listed = listed if isinstance(listed, list) else [listed]
    calls = [{_plain(key): value for key, value in call.items()} for call in listed if isinstance(call, dict)]
    logs = row.get("controllog")
    places = logs if isinstance(logs, list) and len(logs) == len(calls) else [logs] if isinstance(logs, dict) else []
    done = [(call, position) for position, call in enumerate(calls or [dict(row)]) if _function(call)]
    for index, (call, position) in enumerate(done):
        control = places[position] if position < len(places) else call.get("controllog")
        yield _action(call, control, window if index == 0 else None, reasoning if index == 0 else None)
    if not done and status in _DONE:
        yield act.build_action(COMPLETE, {}, {"status": status}, reasoning)


def _function(call: Mapping[str, Any]) -> str | None:
    return next(
        (word for key in ("function", "toolname") if (word := _text(call.get(key))) and word != "no_action"), None
    )


def _action(call: Mapping[str, Any], control: Any, window: Window | None, reasoning: str | None) -> Action:
    """Build one call of UFO's functions; its control is looked up in the window in which it was chosen."""
    word = _function(call) or ""
    arguments: dict[str, Any] = next(
        (call[key] for key in ("args", "arguments", "params") if isinstance(call.get(key), dict)), {}
    )
    name = _text(call.get("controltext")) or ""
    box = box_of(control.get("control_coordinates")) if isinstance(control, dict) else None
    original = {"function": word, "args": arguments, "control_text": name, "control_label": call.get("controllabel")}
    original = {key: value for key, value in original.items() if value not in (None, "")}
    node = window.node(name, box) if window is not None and (name or box is not None) else None
    target: dict[str, Any] = {"element": f"#{node}"} if node is not None else {"target": name} if name else {}
    return act.build_action(*_name_action(word, arguments, target), original, reasoning)


def _name_action(word: str, arguments: Mapping[str, Any], target: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return (name, arguments of its text) of a function in the desktop vocabulary; a word outside of it is kept."""
    if word in ("click_input", "click", "click_on_coordinates"):
        button = plain_text(arguments.get("button") or "left").lower()
        names = {"right": act.RIGHT_CLICK, "middle": act.MIDDLE_CLICK}
        name = act.DOUBLE_CLICK if arguments.get("double") is True else names.get(button, act.CLICK)
        point = act.point_of(arguments.get("x"), arguments.get("y"))
        return name, {**target, **({"x": point[0], "y": point[1]} if point is not None else {})}
    if word in _TYPED and isinstance(arguments.get("text"), str):
        return act.TYPE, {**target, "text": arguments["text"]}
    if word == "wheel_mouse_input" and act.number(arguments.get("wheel_dist")) is not None:
        return act.SCROLL, {**target, "clicks": act.number(arguments["wheel_dist"])}
    if word == "wait":
        return WAIT, {"seconds": act.number(arguments.get("seconds"))}
    plain = {key: value for key, value in arguments.items() if isinstance(value, str | int | float | bool)}
    return word, {**target, **plain}
