r"""Runs of AndroidWorld (arXiv 2405.14573) as JSON: episodes with the element lists that a text agent received.

>>> show(AndroidWorld(), r'''
... {"goal": "Write a note.", "task_template": "NotesWrite", "is_successful": 1.0, "agent_name": "t3a",
...  "episode_data": [
...  {"before_element_list": [{"text": "New note", "class_name": "android.widget.Button", "is_clickable": true,
...    "bbox_pixels": {"x_min": 0, "x_max": 540, "y_min": 0, "y_max": 200}, "package_name": "org.example.notes"}],
...   "action_output": "Reason: A note is wanted. Action: {\"action_type\": \"click\", \"index\": 0}",
...   "after_element_list": [{"text": "Title", "class_name": "android.widget.EditText", "is_editable": true,
...    "bbox_pixels": {"x_min": 0, "x_max": 540, "y_min": 0, "y_max": 200}, "package_name": "org.example.notes"}]}]}
... ''')
before  | #1 window "org.example.notes"
        |   #2 button "New note" clickable [0,0][540,200]
action  | {"name": "click", "arguments": {"element": "#2"}}
after   | #1 window "org.example.notes"
        |   #3 textbox value="Title" [0,0][540,200]

AndroidWorld itself writes pickles (`<task>.pkl.gz`), which are never loaded, because loading a pickle runs arbitrary
code. They are recognized and refused as `pickle`. The same episodes are read as JSON, a single one, a list, or one per
line: `{goal, task_template, is_successful, agent_name, episode_data, …}`. `episode_data` is an object of lists by
field, as AndroidWorld keeps it, or a list of steps. The fields read of a step are `before_element_list` and
`after_element_list` (of the agent T3A; M3A has `before_ui_elements`) and `action_output` (`Reason: … Action: {…}`, or
`action_output_json`). Python writes a missing result as NaN, which is no JSON and is read as null.

An element list is a list of `UIElement`s as objects, which become the nodes of one window, without nesting; or it is
the text that the agent received (`UI element 0: UIElement(…)`), which is kept. The agent names an element by its index,
which becomes the node's id, or stays an index if the list is text. AndroidWorld waits before a step until the screen is
still, but after it only two seconds. The next observation is therefore the screen at the beginning of the next step,
and only for the last step the screen right after the action. Reason and summary are the agent's own words and never an
observation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from trajmill.connectors.android import action as act
from trajmill.connectors.android.view import (
    FLAGS,
    Screen,
    Source,
    environment_of,
    flags_of,
    sound,
    states_of,
    view_node,
    window_node,
)
from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.fields import text_of
from trajmill.connectors.reading.lines import json_lines
from trajmill.connectors.reading.values import JsonError, first_value, json_value
from trajmill.connectors.screens.moves import Moves
from trajmill.connectors.screens.tree import Box, Node, Tree
from trajmill.schemas import (
    COMPLETE,
    WAIT,
    Action,
    Agent,
    Environment,
    Observation,
    Outcome,
    ParseError,
    Reject,
    Task,
    Trajectory,
    json_text,
)

_FIELDS: Final = (b'"before_element_list"', b'"before_ui_elements"', b'"action_output"', b'"action_output_json"')
_BEFORE: Final = ("before_element_list", "before_ui_elements")
_AFTER: Final = ("after_element_list", "after_ui_elements")
_ACTION: Final = re.compile(r"Action:\s*(\{.*)", re.DOTALL)
_REASON: Final = re.compile(r"Reason:\s*(.*?)\s*(?=Action:|\Z)", re.DOTALL)
_KEYS: Final = {"navigate_back": "back", "navigate_home": "home", "keyboard_enter": "enter"}
_FLAG_NAMES: Final = tuple("is_" + flag.removesuffix("-to-user").replace("-", "_") for flag in FLAGS)


class AndroidWorld(Connector):
    """Episodes of AndroidWorld."""

    name: ClassVar[str] = "android_world"
    version: ClassVar[str] = "6"
    domains: ClassVar[tuple[str, ...]] = ("android",)
    title: ClassVar[str] = "AndroidWorld episodes (JSON or JSONL; pickles are refused)"
    companions = re.compile(r"(?:screenshots/)?[^/]*\.(?:png|jpe?g|mp4)")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if _is_pickle(head):
            if b"episode_data" in head or b"android_world" in head:
                return Sniff(0.9, "a pickle of AndroidWorld episodes")
            return Sniff(0.5, "named as a pickle, and begins like one") if uri.endswith((".pkl", ".pickle")) else None
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if start in (b"{", b"[") and b'"episode_data"' in head and any(field in head for field in _FIELDS):
            return Sniff(0.95, "an object with episode_data of element lists and action outputs")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        is_read, met = False, False
        for offset, value in _episodes(blob):
            met = True
            errors: list[ParseError] = []
            trajectory = None
            try:
                if isinstance(value, ParseError):
                    raise value
                trajectory = _trajectory(value, blob, offset, errors)
            except ParseError as error:
                errors.append(error)
            for refused in errors:
                yield Reject.of(refused, connector=self.name)
            if trajectory is not None:
                is_read = True
                yield sound(trajectory)
        if not is_read:
            detail = "no episode holds a step with an action" if met else "wanted an episode, met nothing"
            raise ParseError(blob.uri, -1, "no_transitions", detail)


def _is_pickle(head: bytes) -> bool:
    return len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5


def _episodes(blob: Blob) -> Iterator[tuple[int, Any]]:
    """Yield (offset, episode) of each episode in the file; in a file of one JSON document every offset is 0.

    Raises:
        ParseError: `pickle`.
    """
    with blob.open("") as stream:
        if _is_pickle(stream.read(4)):
            detail = "a pickle is a program and is not loaded; wanted its episodes as JSON"
            raise ParseError(blob.uri, 0, "pickle", detail)
    try:
        document = json_value(blob.read(""))
    except JsonError:
        yield from json_lines(blob)
        return
    for episode in document if isinstance(document, list) else [document]:
        yield 0, episode


def _trajectory(value: Any, blob: Blob, offset: int, errors: list[ParseError]) -> Trajectory:
    """Build the trajectory of an episode; steps without an action are added to `errors`.

    Raises:
        ParseError: `bad_record`: the value is no episode; `no_transitions`: no step has an action.
    """
    data = value.get("episode_data") if isinstance(value, dict) else None
    steps = _transpose(data) if isinstance(data, dict) else data
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise ParseError(blob.uri, offset, "bad_record", "wanted an episode with episode_data of steps")
    is_raw = blob.choices.screen == "raw"
    befores = [_Shown(_first(step, _BEFORE), is_raw) for step in steps]
    moves = Moves()
    for index, step in enumerate(steps):
        action = _action(step, befores[index])
        if action is None:
            detail = f"step {index}: {text_of(step.get('summary')) or 'the output calls nothing'}"[:300]
            errors.append(ParseError(blob.uri, offset, "no_action", detail))
            continue
        after = befores[index + 1].observation if index + 1 < len(steps) else None
        if after is None and action.name != COMPLETE:
            after = _Shown(_first(step, _AFTER), is_raw).observation
        moves.add(action, befores[index].observation, after, offset)
    if not moves.steps:
        raise ParseError(blob.uri, offset, "no_transitions", "no step of the episode did anything")
    packages = [shown.screen.package for shown in befores if shown.screen is not None]
    template, instance = value.get("task_template"), value.get("instance_id")
    return Trajectory(
        native_id="/".join(
            str(name_part) for name_part in (template, instance, value.get("seed")) if isinstance(name_part, str | int)
        ),
        domain="android",
        steps=moves.steps,
        environment=Environment(id=environment_of(packages)),
        agent=Agent(name=text_of(value.get("agent_name"))),
        task=Task(id=text_of(template), instruction=text_of(value.get("goal"))),
        outcome=_outcome(value.get("is_successful")),
    )


def _first(step: dict[str, Any], keys: tuple[str, ...]) -> Any:
    """Return the step's value of the first of these keys that has one; None if none has."""
    return next((step[key] for key in keys if step.get(key)), None)


def _transpose(data: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Turn an object of lists by field into steps; None if the lists differ in length."""
    lists = {key: value for key, value in data.items() if isinstance(value, list)}
    if not lists or len({len(value) for value in lists.values()}) != 1:
        return None
    return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]


def _outcome(value: Any) -> Outcome | None:
    """Return the score of the task's own check, from 0 to 1; None if it was not judged (NaN or null)."""
    score = act.number(float(value) if isinstance(value, bool) else value)
    return Outcome(resolved=score >= 1, score=float(score), verifier="android_world") if score is not None else None


class _Shown:
    """Observation of an element list, and the nodes of its indices if the elements are objects."""

    def __init__(self, elements: Any, is_raw: bool) -> None:
        self.screen: Screen | None = None
        self.observation: Observation | None = None
        self.boxes: dict[int, Box | None] = {}
        self._nodes: dict[int, int] = {}
        if isinstance(elements, str) and elements:
            self.observation = Observation(elements, form="screen", dialect="android_world_elements")
        elif isinstance(elements, list) and elements and all(isinstance(element, dict) for element in elements):
            self._read(elements, is_raw)

    def _read(self, elements: list[dict[str, Any]], is_raw: bool) -> None:
        package = next((name for element in elements if (name := text_of(element.get("package_name")))), "")
        nodes: list[Node] = [window_node(package, "", None)]
        for index, element in enumerate(elements):
            self.boxes[index] = _box(element.get("bbox_pixels"))
            node = _node(element, self.boxes[index])
            if node is not None:
                nodes.append(node)
                self._nodes[index] = len(nodes)
        tree = Tree(nodes, [0] + [1] * (len(nodes) - 1))
        source = Source(json_text(elements), "application/json", "android_world_elements") if is_raw else None
        self.screen = Screen(tree, tree.text, package, source=source)
        self.observation = self.screen.observation()

    def element(self, index: int) -> Any:
        """Return the element of an index as actions name it; None if it has no line, or if the list is text."""
        return self.screen.element(self._nodes.get(index)) if self.screen is not None else None


def _node(element: dict[str, Any], box: Box | None) -> Node | None:
    flags = flags_of(element, _FLAG_NAMES)
    if not flags[11]:
        return None
    keys = ("class_name", "text", "content_description", "hint_text")
    kind, text, description, hint = (text_of(element.get(key)) or "" for key in keys)
    resource = text_of(element.get("resource_id")) or text_of(element.get("resource_name")) or ""
    return view_node(kind, text, description, hint, resource, box, states_of(flags[:11]))


def _box(value: Any) -> Box | None:
    sides = (
        [act.number(value.get(key)) for key in ("x_min", "y_min", "x_max", "y_max")] if isinstance(value, dict) else []
    )
    numbers = [act.whole(side) for side in sides if side is not None and abs(side) < 1e6]
    return (numbers[0], numbers[1], numbers[2], numbers[3]) if len(numbers) == 4 else None


def _parse_call(step: dict[str, Any]) -> dict[str, Any] | None:
    """Parse the action that a step's output calls; None if there is none."""
    parsed = step.get("action_output_json")
    if not isinstance(parsed, dict):
        output = parsed if isinstance(parsed, str) else step.get("action_output")
        match = _ACTION.search(output) if isinstance(output, str) else None
        text = match[1] if match else (parsed if isinstance(parsed, str) else "")
        try:
            parsed, _ = first_value(text)
        except JsonError:
            return None
    return parsed if isinstance(parsed, dict) and isinstance(parsed.get("action_type"), str) else None


def _action(step: dict[str, Any], shown: _Shown) -> Action | None:
    """Convert a step to the Android vocabulary; None if its output calls nothing."""
    called = _parse_call(step)
    if called is None or not called["action_type"]:
        return None
    word = called["action_type"].replace("-", "_")
    output = step.get("action_output")
    reason = _REASON.search(output) if isinstance(output, str) else None
    reasoning = (reason[1] or None) if reason else text_of(step.get("action_reason"))
    original = {key: value for key, value in called.items() if key != "action_type" and value is not None}
    coordinates, element = _place(called, shown)
    text = called.get("text") if isinstance(called.get("text"), str) else None
    if word in (act.CLICK, act.LONG_PRESS, "double_tap"):
        return act.call(word, coordinates, original, element, reasoning)
    if word == act.INPUT_TEXT:
        more = {"text": text or "", "clear": called.get("clear_text") is True or None}
        return act.call(word, {**coordinates, **more}, original, element, reasoning)
    if word in (act.SCROLL, act.SWIPE):
        return act.call(
            word, {**coordinates, "direction": text_of(called.get("direction"))}, original, element, reasoning
        )
    if word in _KEYS:
        return act.call(act.PRESS, {"key": _KEYS[word]}, original, reasoning=reasoning)
    if word == act.OPEN_APP:
        return act.call(word, {"app": text_of(called.get("app_name"))}, original, reasoning=reasoning)
    if word == "status":
        return act.call(COMPLETE, {"status": text_of(called.get("goal_status"))}, original, reasoning=reasoning)
    if word == WAIT:
        return act.call(WAIT, {}, original, reasoning=reasoning)
    scalars = {key: value for key, value in original.items() if isinstance(value, str | int | float)}
    return act.call(word, scalars, original, reasoning=reasoning)


def _place(called: dict[str, Any], shown: _Shown) -> tuple[dict[str, Any], Any]:
    """Locate an action: return the arguments of its text, and the element if its index names one."""
    x, y, index = act.number(called.get("x")), act.number(called.get("y")), act.number(called.get("index"))
    if x is not None and y is not None:
        return {"x": act.whole(x), "y": act.whole(y)}, None
    if index is None:
        return {}, None
    element = shown.element(int(index))
    if element is not None:
        return {}, element
    box = shown.boxes.get(int(index))
    if box is not None:
        return {"x": (box[0] + box[2]) // 2, "y": (box[1] + box[3]) // 2}, None
    return {"index": int(index)}, None
