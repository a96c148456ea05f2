r"""Mind2Web tasks (arXiv 2306.06070): a person's actions on a website for a task, with the page before each action.

>>> show(Mind2Web(), r'''
... [{"annotation_id": "b-1", "website": "shop", "confirmed_task": "Open", "action_reprs": ["[button]  Open -> CLICK"],
...   "actions": [
...    {"action_uid": "v0", "operation": {"op": "CLICK", "original_op": "CLICK", "value": ""},
...     "cleaned_html": "<html><button backend_node_id=\"3\" aria_label=\"Open\"/></html>",
...     "pos_candidates": [{"tag": "button", "backend_node_id": "3", "is_original_target": true}]},
...    {"action_uid": "v1", "operation": {"op": "TYPE", "original_op": "TYPE", "value": "Ada"},
...     "cleaned_html": "<html><input backend_node_id=\"5\" name=\"who\"/></html>",
...     "pos_candidates": [{"tag": "input", "backend_node_id": "5", "is_original_target": true}]}]}]
... ''')
before  | #1 document
        |   #2 button "Open"
action  | {"name": "click", "arguments": {"element": "#2"}}
after   | #1 document
        |   #3 textbox id=who
action  | {"name": "type", "arguments": {"element": "#3", "text": "Ada"}}
after   | (not in the log)

A task is an object `{annotation_id, website, domain, subdomain, confirmed_task, action_reprs, actions}`. An action
holds `raw_html` and `cleaned_html` of the page before it, `operation{op, original_op, value}` and the candidates for
its target by `backend_node_id`. Files hold one task, an array of tasks, or one task per line; Multimodal-Mind2Web and
tables hold a row for each action (`rows`). Some writers stored candidates as the text of a Python list, and attributes
are always the text of a JSON object.

The observation is the compact tree of `raw_html`, which has boxes and therefore shows which elements were not laid out;
without it, that of `cleaned_html`. The next observation is the page before the next action. After the last action the
log shows nothing, so it is null. The recorder's mark on the target (`data_pw_testid_buckeye`) never becomes part of an
observation. A task whose pages were removed (only `action_reprs`) is refused.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.documents import array_values, json_document
from trajmill.connectors.reading.fields import text_of
from trajmill.connectors.reading.lines import json_lines
from trajmill.connectors.reading.values import BOM, json_value
from trajmill.connectors.screens.dom import DomNode, collapse_space, walk
from trajmill.connectors.screens.dom import text_of as shown_text
from trajmill.connectors.screens.moves import Moves
from trajmill.connectors.screens.page import Page, page_of
from trajmill.connectors.web import action as act
from trajmill.connectors.web.mind2web.page_snapshot import snapshot
from trajmill.connectors.web.mind2web.rows import ABSENT, OFFSETS, tasks_of
from trajmill.schemas import Action, Environment, Observation, ParseError, Reject, Task, Trajectory

_ID: Final = b'"annotation_id"'
_NAMES: Final = (b'"confirmed_task"', b'"action_reprs"', b'"website"', b'"subdomain"')
_ARRAY: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_MARK: Final = re.compile(r""" data_pw_testid_buckeye(?:_candidate)?="[^"]*\"""")
_NOT_WORD: Final = re.compile(r"[^0-9a-z]+")
_LITERAL_BYTES: Final = 1 << 20


class Mind2Web(Connector):
    """Mind2Web tasks."""

    name: ClassVar[str] = "mind2web"
    version: ClassVar[str] = "5"
    domains: ClassVar[tuple[str, ...]] = ("web",)
    title: ClassVar[str] = "Mind2Web tasks (JSON with the page before each action)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        count = sum(name in head for name in _NAMES)
        if count >= 3 or (count and _ID in head) or (_ID in head and b'"action_uid"' in head):
            return Sniff(0.9, "tasks with the names that Mind2Web gives")
        if b'"action_uid"' in head and b'"raw_html"' in head:
            return Sniff(0.9, "actions with the names that Mind2Web gives")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        is_any = False
        for result in read_tasks(_tasks(blob), blob, self.name):
            is_any = True
            yield result
        if not is_any:
            raise ParseError(blob.uri, 0, "no_transitions", "the file holds no task")


def read_tasks(values: Iterable[tuple[int, Any]], blob: Blob, name: str) -> Iterator[Trajectory | Reject]:
    """Yield the trajectories of tasks, or of rows of actions, and a reject for each one that is invalid.

    Args:
        values: (offset, task, row or `ParseError`), in the order of the log.
        blob: the log that holds them.
    """
    for offset, value in tasks_of(values):
        if isinstance(value, ParseError):
            yield Reject.of(value, connector=name)
            continue
        try:
            task = _Task(value, offset, blob.uri, blob.choices.screen == "raw")
            moves = task.moves()
        except ParseError as error:
            yield Reject.of(error, connector=name)
            continue
        for problem in task.problems:
            yield Reject.of(problem, connector=name)
        if moves.steps:
            yield task.trajectory(moves)


def _tasks(blob: Blob) -> Iterator[tuple[int, Any]]:
    """Yield (offset, task) of a file in any of its layouts.

    Raises:
        ParseError: reading cannot continue.
    """
    with blob.open() as stream:
        head = stream.read(4096)
    with blob.open() as stream:
        first = stream.readline(1 << 28).removeprefix(BOM)
        more = bool(stream.read(1))
    if not head.strip():
        raise ParseError(blob.uri, 0, "empty", "wanted tasks, met nothing")
    if _ARRAY.match(head):
        with blob.open() as stream:
            for offset, value, _ in array_values(stream, blob.uri, ()):
                yield offset, value
        return
    if first.rstrip().endswith(b"}") and more:
        yield from json_lines(blob)
        return
    yield 0, json_document(blob)[0]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One candidate for a target: the number of its node, a short description, and the middle of its box."""

    number: str
    described: str
    point: tuple[float, float] | None


class _Task:
    """One task; `problems` lists the actions that could not be read."""

    def __init__(self, value: Any, offset: int, uri: str, raw: bool) -> None:
        self.problems: list[ParseError] = []
        self._uri, self._offset, self._raw = uri, offset, raw
        self._targets: set[str] = set()
        if not isinstance(value, dict):
            raise ParseError(uri, offset, "bad_record", "wanted the object of a task")
        self._value: dict[str, Any] = value
        actions = value.get("actions")
        self._actions: list[Any] = actions if isinstance(actions, list) else []
        own = value.get(OFFSETS)
        # Only `rows` puts a tuple there; JSON has no tuples.
        self._offsets: Sequence[int] = own if isinstance(own, tuple) else [offset] * len(self._actions)
        reprs = value.get("action_reprs")
        self._reprs: list[Any] = reprs if isinstance(reprs, list) else []
        if not self._actions:
            if not self._reprs:
                raise ParseError(uri, offset, "bad_record", "wanted a task with actions")
            detail = f"{len(self._reprs)} actions are described, and no page is there"
            raise ParseError(uri, offset, "no_pages", detail)

    def moves(self) -> Moves:
        """Build the moves with the pages around them. An unreadable page is null, an unreadable action is left out."""
        seen = [self._seen(record, number) for number, record in enumerate(self._actions)]
        moves = Moves()
        for number, record in enumerate(self._actions):
            if record is ABSENT:
                continue
            try:
                action = self._action(record, number, seen[number][1])
            except ParseError as error:
                self.problems.append(error)
                continue
            after = seen[number + 1][0] if number + 1 < len(seen) else None
            moves.add(action, seen[number][0], after, self._offsets[number])
        return moves

    def trajectory(self, moves: Moves) -> Trajectory:
        """Return the task as a trajectory."""
        value = self._value
        ident = text_of(value.get("annotation_id")) or text_of(value.get("id"))
        instruction = text_of(value.get("confirmed_task"))
        website = text_of(value.get("website"))
        return Trajectory(ident or "", "web", moves.steps, Environment(id=website), task=Task(ident, instruction))

    def _seen(self, record: Any, index: int) -> tuple[Observation | None, _Page | None]:
        """Return the page before an action as an observation, and in a form that targets can be found in."""
        raw, cleaned = (
            text_of(record.get(name)) if isinstance(record, dict) else None for name in ("raw_html", "cleaned_html")
        )
        html = raw or cleaned
        if html is None:
            if isinstance(record, dict):
                self.problems.append(self._problem("no_page", index, "has no page"))
            return None, None
        try:
            taken = snapshot(html)
            candidates = _candidates(record.get("pos_candidates")) if isinstance(record, dict) else []
            self._targets.update([each.number for each in candidates if each.number in taken.nodes][:1])
            # Node numbers are valid for a document's lifetime, so nodes that were acted on keep their lines.
            targets = {taken.nodes[number] for number in self._targets if number in taken.nodes}
            page = page_of(taken.document, text_of(record.get("url")) or "", targets=targets)
        except ValueError as error:
            self.problems.append(self._problem("nested_too_deeply", index, f"has no page that can be shown: {error}"))
            return None, None
        if self._raw:
            text = cleaned or _MARK.sub("", html)
            return Observation(text, "text/html", form="screen"), _Page(None, taken.nodes)
        return page.observation(), _Page(page, taken.nodes)

    def _problem(self, reason: str, number: int, detail: str) -> ParseError:
        return ParseError(self._uri, self._offsets[number], reason, f"action {number} of the task {detail}")

    def _action(self, record: Any, number: int, page: _Page | None) -> Action:
        operation = record.get("operation") if isinstance(record, dict) else None
        operation = _object(operation)
        if operation is None or not text_of(operation.get("op")):
            raise self._problem("bad_record", number, "has no operation")
        op = (text_of(operation.get("original_op")) or operation["op"]).upper()
        value = text_of(operation.get("value")) or ""
        representation = (
            self._reprs[number] if number < len(self._reprs) and isinstance(self._reprs[number], str) else ""
        )
        candidates = _candidates(record.get("pos_candidates"))
        element, node, chosen = _target(candidates, page)
        target = collapse_space(representation.partition("->")[0]) or (chosen.described if chosen is not None else None)
        original: dict[str, Any] = {"action_uid": record.get("action_uid"), "operation": operation}
        if representation:
            original["action_repr"] = representation
        if chosen is not None:
            original["backend_node_id"] = chosen.number
        return _build_action(op, value, original, element, target, node, chosen)


@dataclass(frozen=True, slots=True)
class _Page:
    """A page to find targets in: its shown form, and its nodes by number."""

    shown: Page | None
    nodes: Mapping[str, DomNode]


def _build_action(
    op: str,
    value: str,
    original: Mapping[str, Any],
    element: int | None,
    target: str | None,
    node: DomNode | None,
    chosen: _Candidate | None,
) -> Action:
    """Build the action of an operation."""
    point = chosen.point if chosen is not None and element is None else None
    coordinates = {"x": act.whole(point[0]), "y": act.whole(point[1])} if point is not None else {}
    if op == "SELECT":
        return act.call(act.SELECT_OPTION, {"options": [_option(node, value)]}, original, element, target)
    if op == "TYPE":
        return act.call(act.TYPE, {**coordinates, "text": value}, original, element, target)
    if op == "ENTER":
        return act.call(act.PRESS, {"key": "Enter"}, original, element, target)
    names = {"CLICK": act.CLICK, "HOVER": act.HOVER}
    return act.call(names.get(op, op.lower()), coordinates, original, element, target)


def _target(
    candidates: Sequence[_Candidate], page: _Page | None
) -> tuple[int | None, DomNode | None, _Candidate | None]:
    """Return the line of the first candidate that is shown, its node, and the candidate itself."""
    if page is not None:
        for candidate in candidates:
            node = page.nodes.get(candidate.number)
            element = act.line_of(page.shown, node)
            # Line 1 is the whole page. It represents nodes without a line of their own, and names no target.
            if node is not None and element is not None and element > 1:
                return element, node, candidate
        for candidate in candidates:
            if candidate.number in page.nodes:
                return None, page.nodes[candidate.number], candidate
    return None, None, candidates[0] if candidates else None


def _candidates(value: Any) -> list[_Candidate]:
    """Return the candidates for a target: the original target first, then the top-level target, then the others."""
    rows = _literal(value) if isinstance(value, str) else value
    ranked = []
    for row in rows if isinstance(rows, list) else []:
        fields = _object(row)
        if fields is None or not text_of(fields.get("backend_node_id")):
            continue
        attributes = _object(fields.get("attributes")) or {}
        box = text_of(attributes.get("bounding_box_rect"))
        rank = 0 if fields.get("is_original_target") is True else 1 if fields.get("is_top_level_target") is True else 2
        ranked.append(
            (rank, _Candidate(fields["backend_node_id"], text_of(fields.get("tag")) or "element", _middle(box)))
        )
    return [candidate for _, candidate in sorted(ranked, key=lambda pair: pair[0])]


def _middle(box: str | None) -> tuple[float, float] | None:
    """Return the middle of the box `left,top,width,height`; None if it is invalid."""
    try:
        left, top, width, height = (float(part) for part in (box or "").split(","))
    except ValueError:
        return None
    if width < 0 or height < 0 or not all(abs(value) < 1e9 for value in (left, top, width, height)):
        return None
    return left + width / 2, top + height / 2


def _object(value: Any) -> dict[str, Any] | None:
    """Return the object itself, or the object in a JSON or Python text; None if there is none."""
    if isinstance(value, str):
        try:
            value = json_value(value)
        except ValueError:
            value = _literal(value)
    return value if isinstance(value, dict) else None


def _literal(text: str) -> Any:
    """Return the value of a JSON text, or of a Python text of plain values; None if it is neither."""
    if len(text) > _LITERAL_BYTES:
        return None
    try:
        return json_value(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _option(select: DomNode | None, value: str) -> str:
    """Return the text of the chosen option; the recorder wrote some texts without their punctuation (`5 00 PM`)."""
    if select is None:
        return value
    texts = [collapse_space(shown_text(node)) for node in walk(select) if node.tag == "option"]
    alike = [text for text in texts if _letters(text) == _letters(value)]
    return alike[0] if alike and value not in texts else value


def _letters(text: str) -> str:
    return _NOT_WORD.sub(" ", text.lower()).strip()
