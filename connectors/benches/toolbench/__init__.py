r"""Answer files of ToolBench: a tree of tries at one question, with the calls of real web APIs.

>>> show(ToolBench(), r'''
... {"win": false, "answer_generation": {"query": "Is there water?", "function": [], "final_answer": ""},
...  "tree": {"tree": {"node_type": "Action Input", "description": "", "children": [
...     {"node_type": "Action", "description": "gauge_for_river", "children": [
...         {"node_type": "Action Input", "description": "{\"river\": \"Orv\"}", "children": [],
...          "observation": "{\"error\": \"\", \"response\": \"dry\"}", "observation_code": 0}]}]}}}
... ''')
action  | {"name": "gauge_for_river", "arguments": {"river": "Orv"}}
after   | {"error": "", "response": "dry"}

ToolEval converts answers for its judges; of such a file each question is read (see `tool_eval`).

>>> show(ToolBench(), r'''
... {"17": {"query": "Is there water?", "available_tools": [], "answer": {"method": "DFS", "total_steps": 3,
...  "final_answer": "", "answer_details": [{"role": "system", "message": "", "next": [
...    {"role": "user", "message": "", "next": [{"role": "tool", "message":
...      {"name": "gauge_for_river", "arguments": "{\"river\": \"Orv\"}", "response": "dry"}, "next": []}]}]}]}}}
... ''')
action  | {"name": "gauge_for_river", "arguments": {"river": "Orv"}}
after   | dry

`{win, tree: {tree: node}, answer_generation: {query, function, train_messages, final_answer, …}}`. A node is a
`Thought`, an `Action` (the name of a function) or an `Action Input` (its arguments and what it gave), each the child of
what stands before it: a call is two nested nodes, a message of the model up to three. At a node with several children
the search went back and tried again. Each try really called its functions, and knew what stands on its path.

The main trajectory is the path to the final answer; of a question without one, to where the model gave up, else the
first path of the tree. Every other path to a leaf is a trajectory of relation `branch`, whole from the root, in the
order of the tree, if it holds a call of its own; the shared beginning is repeated.

`observation_code` (Downstream_tasks/rapidapi.py of ToolBench): 0 is a normal answer, 3 the final answer, 4 giving up;
what `Finish` answers, and code 1, a name that no function has, is said by the harness; the others are errors. Code 11
is given where a word such as "error" stands anywhere in an answer; if the answer begins like a normal one, with a key
that is none of `_TOLD`, it is not known whether it is an error.

An answer over 1,024 characters was cut by the harness and ends with three dots. The prompt before another try at the
same place ("This is not the first time you try this task …") is a harness note, known on the main path only. `win` says
that the model gave an answer, not that it was right: the outcome is the agent's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple

from trajmill.connectors.benches.toolbench import tool_eval
from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation.calls import MessageError, action_space, call
from trajmill.connectors.conversation.refusals import refused
from trajmill.connectors.conversation.told import Told
from trajmill.connectors.conversation.turns import Call
from trajmill.connectors.reading.documents import json_document, opening
from trajmill.connectors.reading.fields import brief, whole_number_of
from trajmill.connectors.reading.json_text import is_json
from trajmill.schemas import Context, Observation, Outcome, ParseError, Reject, Step, Task, Trajectory, json_text
from trajmill.schemas.record import record

BRANCHES: Final = 256
"""Paths of one tree that are carried on; each repeats its path from the root, so their number is bounded."""

_KINDS: Final = ("Thought", "Action", "Action Input")
_ANSWERED: Final = 3
_GAVE_UP: Final = 4
_FINISH: Final = "Finish"
_WORD: Final = 11
_BEGIN: Final = re.compile(r"""\{"error": "[^"]{0,80}", "response": "[\[{\s]*(?:'|\\")([\w -]{1,40})""")
_TOLD: Final = frozenset(
    {"error", "errors", "message", "messages", "msg", "status", "code", "detail", "success", "info"}
)
"""First keys of answers that tell of themselves whether they are errors."""

_RETRY: Final = "This is not the first time you try this task"


class ToolBench(Connector):
    """Answer files of ToolBench (DFSDT and chains kept as trees)."""

    name: ClassVar[str] = "toolbench"
    version: ClassVar[str] = "5"
    domains: ClassVar[tuple[str, ...]] = ("mcp",)
    title: ClassVar[str] = "ToolBench answer trees, ToolEval's converted answers"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        found = opening(head)
        value = found.values[0] if found is not None and not found.lines else None
        if tool_eval.is_tool_eval(value):
            return Sniff(0.95, "questions with available_tools and the answer_details of ToolEval")
        if not isinstance(value, dict) or "win" not in value:
            return None
        tree = value.get("tree")
        root = tree.get("tree") if isinstance(tree, dict) else None
        if isinstance(root, dict) and root.get("node_type") in _KINDS:
            return Sniff(0.95, "win and a tree of Action and Action Input")
        if isinstance(value.get("trys"), list) and "forward_args" in value:
            return Sniff(0.8, "win and the tries of a chain")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        value, data = json_document(blob)
        if not isinstance(value, dict):
            raise ParseError(blob.uri, 0, "bad_document", "wanted an object with win and tree")
        if tool_eval.is_tool_eval(value):
            yield from self._converted(blob, value, data)
            return
        tree = value.get("tree")
        root = tree.get("tree") if isinstance(tree, dict) else None
        if not isinstance(root, dict):
            raise ParseError(blob.uri, 0, "no_tree", "wanted a tree under tree.tree")
        try:
            paths = _paths(root)
            writing = _Writing(_name(blob.uri), _Answer(value), paths)
        except MessageError as error:
            raise ParseError(blob.uri, 0, error.reason, error.detail) from None
        if all(path.last is None for path in paths):
            raise ParseError(blob.uri, -1, "no_transitions", "no node of the tree is a call")
        yield from self._written(blob, writing)

    def _converted(self, blob: Blob, value: dict[str, Any], data: bytes) -> Iterator[Trajectory | Reject]:
        """The trajectories of the questions of a file of ToolEval, each at the place of its question."""
        empty, place = True, 0
        for name, question in tool_eval.questions(value):
            place = max(place, data.find(f"{json_text(name)}:".encode("utf-8", "surrogatepass"), place))
            try:
                paths = _paths(tool_eval.root_of(question))
                writing = _Writing(name or _name(blob.uri), _Answer(tool_eval.answer_of(question)), paths)
            except MessageError as error:
                yield refused(blob, self.name, place, error.reason, error.detail)
                continue
            if all(path.last is None for path in paths):
                yield refused(blob, self.name, place, "no_calls", f"no node of question {name:.80} is a call")
                continue
            empty = False
            yield from (_placed(found, place) for found in self._written(blob, writing))
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no node of the answers is a call")

    def _written(self, blob: Blob, writing: _Writing) -> Iterator[Trajectory | Reject]:
        for number, path in enumerate(writing.paths):
            if number > BRANCHES:
                rest = len(writing.paths) - number
                detail = f"{rest} more paths than the {BRANCHES} branches that are carried on"
                yield refused(blob, self.name, 0, "too_many_branches", detail)
                return
            if not writing.is_new(path):
                yield refused(blob, self.name, 0, "branch_without_call", "a path without a call of its own")
                continue
            yield writing.trajectory(path.calls())


def _placed(found: Trajectory | Reject, place: int) -> Trajectory | Reject:
    """What was found, at a place of the file."""
    if isinstance(found, Reject):
        return replace(found, offset=place)
    return replace(found, steps=[replace(step, offset=place) for step in found.steps])


def _name(uri: str) -> str:
    """The name of the answer file without folders and endings: the number of the question and the method."""
    return uri.rpartition("/")[2].partition(".json")[0] or "answer"


class _Called(NamedTuple):
    """A call of the tree: its node, the thought before it, and its place in the order of the tree."""

    call: Call
    thought: str | None
    observation: Observation | None
    code: int | None
    number: int


def _paths(root: Mapping[str, Any]) -> list[_Path]:
    """The way to each leaf, in the order of the tree; calls that two ways share are one object.

    Raises:
        MessageError: a node is not what the format says.
    """
    found: list[_Path] = []
    waiting: list[tuple[Mapping[str, Any], _Path]] = [(root, _Path())]
    count = 0
    while waiting:
        node, path = waiting.pop()
        path, count = path.with_node(node, count), count + 1
        children = node.get("children")
        if children is not None and not isinstance(children, list):
            raise MessageError("bad_node", "wanted a list as children")
        listed: list[Any] = children or []
        for child in reversed(listed):
            if not isinstance(child, dict):
                raise MessageError("bad_node", "wanted an object as a node")
            waiting.append((child, path))
        if not listed:
            found.append(path)
    return found


@record
class _Path:
    """The way to a node: its last call, the way to that, and what stands after it without being called yet."""

    last: _Called | None = None
    before: _Path | None = None
    thoughts: tuple[str, ...] = ()
    action: str | None = None

    def with_node(self, node: Mapping[str, Any], number: int) -> _Path:
        """The way one node further."""
        kind, text = node.get("node_type"), node.get("description")
        if kind not in _KINDS or not isinstance(text, str):
            raise MessageError("bad_node", f"wanted a Thought, an Action or an Action Input, met {brief(kind)}")
        if kind == "Thought":
            return _Path(self.last, self.before, (*self.thoughts, text) if text.strip() else self.thoughts, None)
        if kind == "Action":
            return _Path(self.last, self.before, self.thoughts, text)
        if self.action is None:
            if self.last is None and not text and not self.thoughts:
                return self
            raise MessageError("bad_node", "wanted an Action before its Action Input")
        thought = "\n\n".join(self.thoughts) or None
        made = call(self.action, text, None, 0)
        return _Path(_Called(made, thought, _observation(self.action, node), _code(node), number), self)

    def calls(self) -> list[_Called]:
        """The calls on the way, in order."""
        found: list[_Called] = []
        here: _Path | None = self
        while here is not None and here.last is not None:
            found.append(here.last)
            here = here.before
            while here is not None and here.last is found[-1]:
                here = here.before
        return found[::-1]


def _code(node: Mapping[str, Any]) -> int | None:
    return whole_number_of(node.get("observation_code"))


def _observation(name: str, node: Mapping[str, Any]) -> Observation | None:
    content, code = node.get("observation"), _code(node)
    if not isinstance(content, str):
        return None
    whole = is_json(content)
    return Observation(
        content=content,
        media_type="application/json" if whole else "text/plain",
        origin="harness" if name == _FINISH or code == 1 else "environment",
        is_error=None if code is None or _is_guess(code, content) else code not in (0, _ANSWERED, _GAVE_UP),
        truncation="harness" if content.endswith("...") and not whole else "none",
    )


def _is_guess(code: int, content: str) -> bool:
    """Whether the code speaks of a word in the answer, and the answer begins as if it were a normal one."""
    begin = _BEGIN.match(content)
    return code == _WORD and begin is not None and begin[1].lower() not in _TOLD


@dataclass(slots=True)
class _Answer:
    """What the file tells beside the tree."""

    value: Mapping[str, Any]
    query: str | None = field(init=False)
    system: str | None = field(init=False)
    tools: str | None = field(init=False)
    final: object = field(init=False)
    dialogues: list[list[dict[str, Any]]] = field(init=False)

    def __post_init__(self) -> None:
        told = self.value.get("answer_generation")
        answer: Mapping[str, Any] = told if isinstance(told, dict) else {}
        query, listed = answer.get("query"), answer.get("train_messages")
        self.query = query if isinstance(query, str) and query else None
        self.final = answer.get("final_answer")
        self.tools = action_space(answer.get("function"))
        dialogues = ([message for message in one if isinstance(message, dict)] for one in _lists(listed))
        self.dialogues = [one for one in dialogues if one]
        first = self.dialogues[0][0] if self.dialogues else {}
        content = first.get("content")
        self.system = content if first.get("role") == "system" and isinstance(content, str) else None

    def notes(self) -> list[tuple[Mapping[str, Any], str]]:
        """Each message of the agent that a prompt for another try stood before, with that prompt."""
        found: list[tuple[Mapping[str, Any], str]] = []
        for one in self.dialogues:
            prompt = one[-2].get("content") if len(one) > 2 and one[-2].get("role") == "user" else None
            if isinstance(prompt, str) and prompt.startswith(_RETRY):
                found.append((one[-1], prompt))
        return found


def _lists(value: object) -> list[list[Any]]:
    return [one for one in value if isinstance(one, list)] if isinstance(value, list) else []


class _Writing:
    """The trajectories of one tree, one after the other, and which calls the earlier ones hold."""

    def __init__(self, name: str, answer: _Answer, paths: list[_Path]) -> None:
        main = _main(paths, answer.final)
        self.paths = [paths[main], *paths[:main], *paths[main + 1 :]] if paths else []
        self._name = name
        self._answer = answer
        self._notes = answer.notes()
        self._holders: dict[int, tuple[str, int]] = {}

    def is_new(self, path: _Path) -> bool:
        """Whether the path ends with a call that no earlier trajectory holds."""
        return path.last is not None and path.last.number not in self._holders

    def trajectory(self, path: Sequence[_Called]) -> Trajectory:
        """The trajectory of a path that is new."""
        first = not self._holders
        native_id = self._name if first else f"{self._name}/{path[-1].number}"
        fork = next((self._holders[one.number] for one in reversed(path) if one.number in self._holders), None)
        steps = _steps(path, self._notes if first else [])
        for step, one in enumerate(path):
            self._holders.setdefault(one.number, (native_id, step))
        end = path[-1].code
        parent, at = (None, None) if first else fork or (self._name, None)
        return Trajectory(
            native_id=native_id,
            domain="mcp",
            steps=steps,
            task=Task(instruction=self._answer.query),
            context=Context(action_space=self._answer.tools, agent_system=self._answer.system),
            outcome=Outcome(end == _ANSWERED, None, "agent") if end in (_ANSWERED, _GAVE_UP) else None,
            parent=parent,
            parent_step=at,
            relation=None if first else "branch",
        )


def _main(paths: Sequence[_Path], final: object) -> int:
    """Which path is the main one."""
    lasts = [(number, path.last) for number, path in enumerate(paths) if path.last is not None]
    for code in (_ANSWERED, _GAVE_UP):
        ends = [(number, last) for number, last in lasts if last.code == code]
        written = [number for number, last in ends if _ends_with(last, final)]
        if ends:
            return written[0] if written else ends[0][0]
    return lasts[0][0] if lasts else 0


def _ends_with(one: _Called, final: object) -> bool:
    """Whether the call's arguments are the final answer that the file states."""
    return isinstance(final, str) and call(one.call.name, final, None, 0).arguments == one.call.arguments


def _steps(path: Sequence[_Called], notes: Sequence[tuple[Mapping[str, Any], str]]) -> list[Step]:
    told = Told(held=True)
    waiting = list(notes)
    for one in path:
        if waiting and _is_said_in(waiting[0][0], one):
            told.say("harness", waiting.pop(0)[1])
        made = replace(one.call, call_id=None, reasoning=one.thought, shown=one.observation)
        made.ending = (None, True if one.code == _ANSWERED else None, None)
        told.turn([made])
    return list(told.steps())


def _is_said_in(message: Mapping[str, Any], one: _Called) -> bool:
    """Whether the model's message is the call, or the thought before it."""
    told = message.get("function_call")
    if isinstance(told, dict):
        try:
            same = call(told.get("name"), told.get("arguments"), None, 0)
        except MessageError:
            return False
        return (same.name, same.arguments) == (one.call.name, one.call.arguments)
    content = message.get("content")
    return isinstance(content, str) and one.thought is not None and content in one.thought
