"""Recordings of people on MiniWoB++ (`miniwob-plusplus-demos`): the events of a page, each with its DOM.

>>> show(MiniWob(), '''
... {"utterance": "Press Open.", "rawReward": 1, "reward": 0.9, "states": [
...     {"time": 80, "action": {"type": "mousedown", "timing": 1, "x": 20, "y": 60}, "dom":
...         {"tag": "BODY", "left": 0, "top": 0, "width": 160, "height": 210, "children": [
...             {"tag": "BUTTON", "text": "Open", "left": 10, "top": 50, "width": 60, "height": 20, "children": []}]}},
...     {"time": 95, "action": {"type": "click", "timing": 3, "x": 20, "y": 60}, "dom":
...         {"tag": "BODY", "left": 0, "top": 0, "width": 160, "height": 210, "children": [
...             {"tag": "DIV", "text": "Opened", "left": 10, "top": 50, "width": 60, "height": 20, "children": []}]}}]}
... ''')
before  | #1 document
        |   #2 button "Open" [10,50][70,70]
action  | {"name": "click", "arguments": {"element": "#2"}}
after   | #1 document
        |   #3 text "Opened" [10,50][70,70]

The browser records each event twice, on arrival (`timing` 1) and after the page's handlers (3). One action of a person
is several events: mousedown, mouseup and click; keydown, keypress and keyup. The events are combined into actions:

- A click, or a drag if the mouse went up elsewhere and nothing was clicked. The target is the node that the recorder
  marked (`recordingTarget`), else the node at the point.
- Typing: the characters of consecutive keypress events. Keys without a character (Tab, Backspace, arrows) are presses.
  A key that is held, which goes down repeatedly before it goes up, is one press with the number of `times`.
- Scrolling; the recorder states only that it happened. Scrolling before any action is the page loading. A mouse button
  that goes down on a scrollbar, whose release the page does not see, is no click: the action is the scrolling.

The observation of an action is the page at its first event. The next observation is the page at the beginning of the
next action. For the last action it is the last page recorded, or null if that page was recorded before the page's
handlers ran, since it does not show the effect. Pages are compact trees (`connectors.screens.page`) with boxes in
pixels of the task's window.

`rawReward` is 1 if the task was solved; `reward` is the same, discounted by the time it took.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any, ClassVar, Final, TypeAlias

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import number_of, object_of, str_of, whole_number_of
from trajmill.connectors.reading.times import seconds_of_span
from trajmill.connectors.screens.dom import MAX_LEVELS, NO_ATTRIBUTES, NO_CHILDREN, DomNode
from trajmill.connectors.screens.moves import Moves
from trajmill.connectors.screens.page import Page, page_of
from trajmill.connectors.screens.tree import Box
from trajmill.connectors.web import action as act
from trajmill.schemas import Action, Environment, Observation, Outcome, ParseError, Reject, Task, Trajectory, json_text

_SIGNS: Final = (b'"utterance"', b'"states"', b'"rawReward"', b'"bgColor"', b'"recordingTarget"', b'"fgColor"')
_NO_STATES: Final = re.compile(rb'"states"\s*:\s*\[\s*\]')
_NAME: Final = re.compile(r"(?:.*/)?([a-z0-9-]+)_([A-Za-z0-9]+)_d\d+\.json(?:\.gz)?")
_BEFORE, _AFTER = 1, 3
_SIDES: Final = ("left", "top", "width", "height")
_OUTSIDE: Final = 10**6
"""Largest coordinate or side in pixels; a box beyond it is invalid."""
_FAR: Final = 4
"""Largest distance in pixels between mouse down and mouse up of a click; a larger one makes a drag."""
_SCROLLBAR: Final = 17
"""Largest width in pixels of a browser's scrollbar."""
_KEYS: Final = {
    8: "Backspace",
    9: "Tab",
    13: "Enter",
    27: "Escape",
    33: "PageUp",
    34: "PageDown",
    35: "End",
    36: "Home",
    37: "ArrowLeft",
    38: "ArrowUp",
    39: "ArrowRight",
    40: "ArrowDown",
    46: "Delete",
}
"""Keys without a character by `KeyboardEvent.keyCode` (UI Events, legacy key codes)."""


class MiniWob(Connector):
    """Recordings of people on MiniWoB++."""

    name: ClassVar[str] = "miniwob"
    version: ClassVar[str] = "7"
    domains: ClassVar[tuple[str, ...]] = ("web",)
    title: ClassVar[str] = "MiniWoB++ demonstrations (JSON of DOM states and events)"
    companions = re.compile(r"(?:screenshots/)?[^/]*\.(?:png|jpe?g|webm|mp4)")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if not head.lstrip().startswith(b"{") or not (b'"dom"' in head or _NO_STATES.search(head)):
            return None
        count = sum(sign in head for sign in _SIGNS)
        if count >= 2:
            return Sniff(0.9, "states with the DOM and events of a MiniWoB++ demonstration")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        document, data = json_document(blob)
        states = object_of(document).get("states")
        if not isinstance(states, list):
            raise ParseError(blob.uri, 0, "no_states", "wanted an object with a list `states`")
        demo = _Demo(states, data, blob.choices.screen == "raw")
        moves = demo.moves()
        if not moves.steps:
            raise ParseError(blob.uri, -1, "no_transitions", f"none of the {len(states)} states holds an act")
        moves.end(reward=_number(object_of(document).get("reward")), terminated=True)
        named = _NAME.fullmatch(blob.uri)
        task = str_of(object_of(document).get("taskName")) or (named[1] if named else "")
        raw = _number(object_of(document).get("rawReward"))
        yield Trajectory(
            native_id=blob.uri.rpartition("/")[2].partition(".")[0],
            domain="web",
            steps=moves.steps,
            environment=Environment(id=f"miniwob/{task}" if task else "miniwob"),
            task=Task(task or None, str_of(object_of(document).get("utterance")) or None),
            outcome=None if raw is None else Outcome(raw >= 1, raw, "the task's own program"),
        )


@dataclass(slots=True)
class _Act:
    """The events of one action of a person; `first` and `last` are indices of states."""

    kind: str
    first: int
    last: int
    events: list[dict[str, Any]] = field(default_factory=list)
    text: str = ""
    times: int = 1

    def has(self, *types: str) -> bool:
        """Check if one of the events has one of these types."""
        return any(event.get("type") in types for event in self.events)


class _Demo:
    """The states of a demonstration, and the actions built from their events."""

    def __init__(self, states: Sequence[Any], data: bytes, raw: bool) -> None:
        self._states = [object_of(state) for state in states]
        self._raw = raw
        hits = [hit.start() for hit in re.finditer(rb'\{\s*"time"\s*:', data)]
        self._places = hits if len(hits) == len(states) else [0] * len(states)
        self._views: dict[int, _View | None] = {}
        self._targets = _targets(self._states)

    def moves(self) -> Moves:
        """Return the actions in order, with the pages around them."""
        moves = Moves()
        for person_act, following in pairwise(chain(self._acts_of_a_person(), (None,))):
            assert person_act is not None
            later = following.first if following is not None else self._end(person_act)
            before, after = self._view(person_act.first), self._view(later) if later is not None else None
            began, ended = self._time(person_act.first), self._time(later) if later is not None else None
            moves.add(
                _action(person_act, before),
                before.observation if before else None,
                after.observation if after else None,
                self._places[person_act.first],
                seconds=seconds_of_span(began, ended),
            )
        return moves

    def _end(self, last_act: _Act) -> int | None:
        """Return the index of the last state if it shows the effect of the last action; None if recorded before."""
        last = len(self._states) - 1
        action = object_of(self._states[last].get("action"))
        opens = last_act.kind == "click" and action.get("type") in ("mousedown", "mouseup")
        done = last > last_act.first and action.get("timing") != _BEFORE and not opens
        return last if done else None

    def _time(self, number: int) -> float | None:
        return _number(self._states[number].get("time"))

    def _view(self, number: int) -> _View | None:
        if number not in self._views:
            if len(self._views) > 1:
                # A page is requested at most twice: as the result of one action, and as the beginning of the next.
                del self._views[next(iter(self._views))]
            self._views[number] = _view_of(self._states[number].get("dom"), self._raw, self._targets)
        return self._views[number]

    def _acts_of_a_person(self) -> Iterator[_Act]:
        """Yield the actions, without the scrolling of a loading page and without presses on a scrollbar."""
        met = False
        pressed: int | None = None
        for person_act, following in pairwise(chain(self._acts(), (None,))):
            assert person_act is not None
            if person_act.kind == "click" and following is not None and self._is_on_scrollbar(person_act, following):
                met, pressed = True, person_act.first
                continue
            if person_act.kind == "scroll" and pressed is not None:
                person_act.first = pressed
            pressed = None
            if person_act.kind != "scroll" or met:
                met = True
                yield person_act

    def _is_on_scrollbar(self, press_act: _Act, following: _Act) -> bool:
        """Check if a mouse button went down on a scrollbar. The page does not see what the button does there."""
        view, down = self._view(press_act.first), _point(press_act.events, "mousedown")
        if press_act.has("mouseup", "click") or view is None or down is None:
            return False
        target = view.target or view.at(*down)
        if target is not None and target.tag in ("select", "option"):
            # The browser draws the list of a select and does not report the rest of the click.
            return False
        box = target.box if target is not None else None
        is_at_edge = box is not None and (
            box[2] - _SCROLLBAR <= down[0] < box[2] or box[3] - _SCROLLBAR <= down[1] < box[3]
        )
        return following.kind == "scroll" or is_at_edge

    def _acts(self) -> Iterator[_Act]:
        """Yield the actions in order; each has at least one event."""
        current: _Act | None = None
        keys = _Keys()
        for number, state in enumerate(self._states):
            event = object_of(state.get("action"))
            kind, before = str_of(event.get("type")), event.get("timing") != _AFTER
            opened: _Act | None = None
            if kind == "mousedown" and before:
                opened = _Act("click", number, number)
            elif kind == "scroll" and (current is None or current.kind != "scroll"):
                opened = _Act("scroll", number, number)
            elif kind.startswith("key") and before:
                opened = keys.opened(kind, event, number, current)
            if opened is not None:
                if current is not None:
                    yield current
                current = opened
            if current is not None and kind:
                current.events.append(event)
                current.last = number
        if current is not None:
            yield current


class _Keys:
    """State of the keyboard: the keys that are down, and the state at which the last one went down."""

    def __init__(self) -> None:
        self._pressed: int | None = None
        self._held: set[str | None] = set()

    def opened(self, kind: str, event: dict[str, Any], number: int, current: _Act | None) -> _Act | None:
        """Return the action that a key event begins; None if it begins none, or extends the current action."""
        code = event.get("keyCode")
        name = _KEYS.get(code) if isinstance(code, int) else None
        if kind == "keyup":
            self._held.discard(name)
        elif kind == "keydown":
            self._pressed = number
            if name is None:
                return None
            if current is not None and name in self._held and (current.kind, current.text) == ("press", name):
                current.times += 1
                return None
            self._held.add(name)
            return _Act("press", number, number, text=name)
        elif kind == "keypress" and (char := _character(event)):
            if current is not None and current.kind == "type":
                current.text += char
                return None
            return _Act("type", number if self._pressed is None else self._pressed, number, text=char)
        return None


def _character(event: dict[str, Any]) -> str:
    """Return the character of a keypress; empty if it has no character."""
    code = whole_number_of(event.get("charCode"), range(32, 0x110000))
    return "" if code is None or 0xD800 <= code < 0xE000 else chr(code)


@dataclass(slots=True)
class _View:
    """A page, its observation, and the nodes that events point at."""

    page: Page
    observation: Observation
    boxes: list[tuple[Box, DomNode]]
    target: DomNode | None
    focused: DomNode | None

    def at(self, x: float, y: float) -> DomNode | None:
        """Return the innermost node at the point."""
        nodes = [node for box, node in self.boxes if box[0] <= x < box[2] and box[1] <= y < box[3]]
        return nodes[-1] if nodes else None


_Mark: TypeAlias = tuple[str, str]
"""The recorder's number of a node (`ref`), which nodes of later pages may reuse, and its tag."""


def _targets(states: Sequence[dict[str, Any]]) -> frozenset[_Mark]:
    """Return the marks of all nodes acted on: such nodes have a line on every page, not only at their action."""
    marks: set[_Mark] = set()
    for state in states:
        stack = [state.get("dom")]
        while stack:
            source = stack.pop()
            if not isinstance(source, dict):
                continue
            if source.get("recordingTarget"):
                marks.add(_mark(source))
            children = source.get("children")
            stack += children if isinstance(children, list) else ()
    return frozenset(marks)


def _mark(source: dict[str, Any]) -> _Mark:
    return str(source.get("ref")), str(source.get("tag"))


def _view_of(dom: Any, raw: bool, targets: frozenset[_Mark]) -> _View | None:
    """Return the page of a state; None if there is none, or if it nests too deeply.

    Args:
        dom: the logged DOM.
        raw: whether the observation is the logged DOM itself.
        targets: marks of the nodes acted on in the recording.
    """
    if not isinstance(dom, dict):
        return None
    marks: dict[str, DomNode] = {}
    boxes: list[tuple[Box, DomNode]] = []
    acted_on: set[DomNode] = set()
    document = DomNode("#document")
    stack: list[tuple[dict[str, Any], DomNode, int]] = [(dom, document, 0)]
    while stack:
        source, parent, level = stack.pop()
        if level > MAX_LEVELS:
            return None
        node = _node(source)
        parent.children.append(node)
        if node.box is not None and node.tag != "#text":
            boxes.append((node.box, node))
        for mark in ("recordingTarget", "focused"):
            if source.get(mark):
                marks[mark] = node
        if _mark(source) in targets:
            acted_on.add(node)
        children = source.get("children")
        if children and isinstance(children, list):
            level += 1
            stack += [(child, node, level) for child in children[::-1] if isinstance(child, dict)]
    try:
        page = page_of(document, focus=marks.get("focused"), targets=acted_on)
    except ValueError:
        return None
    shown = page.observation()
    if raw:
        shown = Observation(json_text(dom), media_type="application/json", form="screen")
    return _View(page, shown, boxes, marks.get("recordingTarget"), marks.get("focused"))


def _node(source: dict[str, Any]) -> DomNode:
    """Return a node of the recorder's DOM. Text nodes have the tag `t`; an element may hold its only text itself."""
    get = source.get
    tag, text = str_of(get("tag")).lower(), str_of(get("text"))
    box = _box(source)
    if tag == "t":
        return DomNode("#text", {}, text, [], None, None, box)
    attributes: dict[str, str] = {}
    ident, classes, value = get("id"), get("classes"), get("value")
    if ident and isinstance(ident, str):
        attributes["id"] = ident
    if classes and isinstance(classes, str):
        attributes["class"] = classes
    if value and isinstance(value, str):
        attributes["value"] = value
    if tag == "a":
        # The recorder does not keep addresses.
        attributes["href"] = ""
    elif tag.startswith("input_"):
        tag, _, attributes["type"] = tag.partition("_")
    if value is True:
        attributes["checked"] = ""
    inside = [DomNode("#text", NO_ATTRIBUTES, text, NO_CHILDREN)] if text and not get("children") else []
    return DomNode(tag or "div", attributes, "", inside, None, None, box)


def _box(source: dict[str, Any]) -> Box | None:
    """Return the box of a node; None if one of its sides is not stated."""
    sides: list[Any] = list(map(source.get, _SIDES))
    if {*map(type, sides)} != {int}:
        numbers = [number_of(side, _OUTSIDE) for side in sides]
        sides = [act.whole(number) for number in numbers if number is not None]
    elif min(sides) <= -_OUTSIDE or max(sides) >= _OUTSIDE:
        return None
    if len(sides) < len(_SIDES):
        return None
    left, top, width, height = sides
    return left, top, left + width, top + height


def _number(value: Any) -> float | None:
    return number_of(value, 1e12)


def _point(events: Sequence[dict[str, Any]], kind: str) -> tuple[float, float] | None:
    """Return the point of the first event of that type."""
    for event in events:
        x, y = _number(event.get("x")), _number(event.get("y"))
        if event.get("type") == kind and x is not None and y is not None:
            return x, y
    return None


def _action(person_act: _Act, view: _View | None) -> Action:
    """Build the action, with its target named by its line in the page before."""
    page = view.page if view else None
    if person_act.kind in ("press", "type"):
        line = act.line_of(page, view.focused if view else None)
        typed: dict[str, Any] = {"key": person_act.text} if person_act.kind == "press" else {"text": person_act.text}
        if person_act.times > 1:
            typed["times"] = person_act.times
        return act.call(act.PRESS if person_act.kind == "press" else act.TYPE, typed, typed, line)
    if person_act.kind == "scroll":
        return act.call(act.SCROLL, {}, {})
    down, up = _point(person_act.events, "mousedown"), _point(person_act.events, "mouseup")
    target = view.target or (view.at(*down) if down else None) if view else None
    line = act.line_of(page, target)
    clicked = person_act.has("click")
    original = {"x": down[0], "y": down[1]} if down else {}
    if down and up and not clicked and max(abs(down[0] - up[0]), abs(down[1] - up[1])) > _FAR:
        ends = {"from": [act.whole(value) for value in down], "to": [act.whole(value) for value in up]}
        ends_told = {"to": ends["to"]} if line is not None else ends
        return act.call(act.DRAG, ends_told, ends, line)
    point_arguments = {"x": act.whole(down[0]), "y": act.whole(down[1])} if down and line is None else {}
    return act.call(act.CLICK, point_arguments, original, line)
