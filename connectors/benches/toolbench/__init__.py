r"""Answer files of ToolBench: a tree of attempts at one question, with the calls of real web APIs.

>>> show(ToolBench(), r'''
... {"win": false, "answer_generation": {"query": "Is there water?", "function": [], "final_answer": ""},
...  "tree": {"tree": {"node_type": "Action Input", "description": "", "children": [
...     {"node_type": "Action", "description": "gauge_for_river", "children": [
...         {"node_type": "Action Input", "description": "{\"river\": \"Orv\"}", "children": [],
...          "observation": "{\"error\": \"\", \"response\": \"dry\"}", "observation_code": 0}]}]}}}
... ''')
action  | {"name": "gauge_for_river", "arguments": {"river": "Orv"}}
after   | {"error": "", "response": "dry"}

ToolEval converts answers for its judges; each question of such a file is read (see `tool_eval`).

>>> show(ToolBench(), r'''
... {"17": {"query": "Is there water?", "available_tools": [], "answer": {"method": "DFS", "total_steps": 3,
...  "final_answer": "", "answer_details": [{"role": "system", "message": "", "next": [
...    {"role": "user", "message": "", "next": [{"role": "tool", "message":
...      {"name": "gauge_for_river", "arguments": "{\"river\": \"Orv\"}", "response": "dry"}, "next": []}]}]}]}}}
... ''')
action  | {"name": "gauge_for_river", "arguments": {"river": "Orv"}}
after   | dry

`{win, tree: {tree: node}, answer_generation: {query, function, train_messages, final_answer, …}}`. A node is a
`Thought`, an `Action` (the name of a function) or an `Action Input` (its arguments and result), each the child of the
node before it: a call is two nested nodes, a message of the model up to three. At a node with several children the
search went back and tried again. Each attempt really called its functions, and its context is its own path.

The main trajectory is the path to the final answer; for a question without one, to the point where the model gave up,
else the first path of the tree. Every other path to a leaf is a trajectory of relation `branch`, complete from the
root, in the order of the tree, if it holds a call of its own; the shared beginning is repeated.

`observation_code` (Downstream_tasks/rapidapi.py of ToolBench): 0 is a normal answer, 3 the final answer, 4 giving up.
The answer of `Finish`, and code 1, an unknown function name, come from the harness; the other codes are errors. Code 11
is given if a word such as "error" occurs anywhere in an answer; if the answer begins like a normal one, with a key
outside of `_TOLD`, it is unknown whether it is an error.

An answer over 1,024 characters was cut by the harness and ends with three dots. The prompt before another attempt at
the same node ("This is not the first time you try this task …") is a harness note, known only on the main path. `win`
means that the model gave an answer, not that it was right: the outcome is the agent's own claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple

from trajmill.connectors.benches.toolbench import tool_eval
from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation.calls import MessageError, action_space, call
from trajmill.connectors.conversation.refusals import reject_conversation
from trajmill.connectors.conversation.told import Told
from trajmill.connectors.conversation.turns import Call
from trajmill.connectors.reading.documents import json_document, opening
from trajmill.connectors.reading.fields import brief, whole_number_of
from trajmill.connectors.reading.json_text import is_json
from trajmill.schemas import Context, Observation, Outcome, ParseError, Reject, Step, Task, Trajectory, json_text
from trajmill.schemas.record import record

BRANCHES: Final = 256
"""Largest number of paths of a tree that are kept. It is bounded because each path repeats its way from the root."""

_KINDS: Final = ("Thought", "Action", "Action Input")
_ANSWERED: Final = 3
_GAVE_UP: Final = 4
_FINISH: Final = "Finish"
_WORD: Final = 11
_BEGIN: Final = re.compile(r"""\{"error": "[^"]{0,80}", "response": "[\[{\s]*(?:'|\\")([\w -]{1,40})""")
_TOLD: Final = frozenset(
    {"error", "errors", "message", "messages", "msg", "status", "code", "detail", "success", "info"}
)
"""First keys of answers that state themselves whether they are errors."""

_RETRY: Final = "This is not the first time you try this task"


class ToolBench(Connector):
    """Answer files of ToolBench (DFSDT, and chains kept as trees)."""

    name: ClassVar[str] = "toolbench"
    version: ClassVar[str] = "5"
    domains: ClassVar[tuple[str, ...]] = ("mcp",)
    title: ClassVar[str] = "ToolBench answer trees, ToolEval's converted answers"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        beginning = opening(head)
        value = beginning.values[0] if beginning is not None and not beginning.lines else None
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
            yield from self._read_tool_eval(blob, value, data)
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

    def _read_tool_eval(self, blob: Blob, value: dict[str, Any], data: bytes) -> Iterator[Trajectory | Reject]:
        """Yield the trajectories of the questions in a file of ToolEval, each with the offset of its question."""
        empty, position = True, 0
        for name, question in tool_eval.questions(value):
            position = max(position, data.find(f"{json_text(name)}:".encode("utf-8", "surrogatepass"), position))
            try:
                paths = _paths(tool_eval.root_of(question))
                writing = _Writing(name or _name(blob.uri), _Answer(tool_eval.answer_of(question)), paths)
            except MessageError as error:
                yield reject_conversation(blob, self.name, position, error.reason, error.detail)
                continue
            if all(path.last is None for path in paths):
                yield reject_conversation(
                    blob, self.name, position, "no_calls", f"no node of question {name:.80} is a call"
                )
                continue
            empty = False
            yield from (_set_offset(output, position) for output in self._written(blob, writing))
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no node of the answers is a call")

    def _written(self, blob: Blob, writing: _Writing) -> Iterator[Trajectory | Reject]:
        for number, path in enumerate(writing.paths):
            if number > BRANCHES:
                left_out = len(writing.paths) - number
                detail = f"{left_out} more paths than the {BRANCHES} branches that are carried on"
                yield reject_conversation(blob, self.name, 0, "too_many_branches", detail)
                return
            if not writing.is_new(path):
                yield reject_conversation(blob, self.name, 0, "branch_without_call", "a path without a call of its own")
                continue
            yield writing.trajectory(path.calls())


def _set_offset(output: Trajectory | Reject, offset: int) -> Trajectory | Reject:
    """Set the offset of a trajectory's steps or of a reject."""
    if isinstance(output, Reject):
        return replace(output, offset=offset)
    return replace(output, steps=[replace(step, offset=offset) for step in output.steps])


def _name(uri: str) -> str:
    """Return the name of the answer file without folders and endings: the number of the question and the method."""
    return uri.rpartition("/")[2].partition(".json")[0] or "answer"


class _NodeCall(NamedTuple):
    """A call of the tree: its node, the thought before it, and its number in the order of the tree."""

    call: Call
    thought: str | None
    observation: Observation | None
    code: int | None
    number: int


def _paths(root: Mapping[str, Any]) -> list[_Path]:
    """List the path to each leaf, in the order of the tree; calls that two paths share are one object.

    Raises:
        MessageError: a node does not match the format.
    """
    paths: list[_Path] = []
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
            paths.append(path)
    return paths


@record
class _Path:
    """The path to a node: its last call, the path to that call, and the nodes after it without a call yet."""

    last: _NodeCall | None = None
    before: _Path | None = None
    thoughts: tuple[str, ...] = ()
    action: str | None = None

    def with_node(self, node: Mapping[str, Any], number: int) -> _Path:
        """Extend the path by one node."""
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
        new_call = call(self.action, text, None, 0)
        return _Path(_NodeCall(new_call, thought, _observation(self.action, node), _code(node), number), self)

    def calls(self) -> list[_NodeCall]:
        """List the calls on the path, in order."""
        calls: list[_NodeCall] = []
        node: _Path | None = self
        while node is not None and node.last is not None:
            calls.append(node.last)
            node = node.before
            while node is not None and node.last is calls[-1]:
                node = node.before
        return calls[::-1]


def _code(node: Mapping[str, Any]) -> int | None:
    return whole_number_of(node.get("observation_code"))


def _observation(name: str, node: Mapping[str, Any]) -> Observation | None:
    content, code = node.get("observation"), _code(node)
    if not isinstance(content, str):
        return None
    is_whole = is_json(content)
    return Observation(
        content=content,
        media_type="application/json" if is_whole else "text/plain",
        origin="harness" if name == _FINISH or code == 1 else "environment",
        is_error=None if code is None or _is_guess(code, content) else code not in (0, _ANSWERED, _GAVE_UP),
        truncation="harness" if content.endswith("...") and not is_whole else "none",
    )


def _is_guess(code: int, content: str) -> bool:
    """Return True if the code refers to a word in the answer, but the answer begins like a normal one."""
    begin = _BEGIN.match(content)
    return code == _WORD and begin is not None and begin[1].lower() not in _TOLD


@dataclass(slots=True)
class _Answer:
    """Facts that the file states beside the tree."""

    value: Mapping[str, Any]
    query: str | None = field(init=False)
    system: str | None = field(init=False)
    tools: str | None = field(init=False)
    final: object = field(init=False)
    dialogues: list[list[dict[str, Any]]] = field(init=False)

    def __post_init__(self) -> None:
        generation = self.value.get("answer_generation")
        answer: Mapping[str, Any] = generation if isinstance(generation, dict) else {}
        query, listed = answer.get("query"), answer.get("train_messages")
        self.query = query if isinstance(query, str) and query else None
        self.final = answer.get("final_answer")
        self.tools = action_space(answer.get("function"))
        dialogues = ([message for message in dialogue if isinstance(message, dict)] for dialogue in _lists(listed))
        self.dialogues = [dialogue for dialogue in dialogues if dialogue]
        first = self.dialogues[0][0] if self.dialogues else {}
        content = first.get("content")
        self.system = content if first.get("role") == "system" and isinstance(content, str) else None

    def notes(self) -> list[tuple[Mapping[str, Any], str]]:
        """List the agent's messages that follow a prompt for another attempt, each with that prompt."""
        notes: list[tuple[Mapping[str, Any], str]] = []
        for dialogue in self.dialogues:
            prompt = dialogue[-2].get("content") if len(dialogue) > 2 and dialogue[-2].get("role") == "user" else None
            if isinstance(prompt, str) and prompt.startswith(_RETRY):
                notes.append((dialogue[-1], prompt))
        return notes


def _lists(value: object) -> list[list[Any]]:
    return [item for item in value if isinstance(item, list)] if isinstance(value, list) else []


class _Writing:
    """Builder of the trajectories of one tree, in order, with the calls that earlier ones hold."""

    def __init__(self, name: str, answer: _Answer, paths: list[_Path]) -> None:
        main = _find_main(paths, answer.final)
        self.paths = [paths[main], *paths[:main], *paths[main + 1 :]] if paths else []
        self._name = name
        self._answer = answer
        self._notes = answer.notes()
        self._holders: dict[int, tuple[str, int]] = {}

    def is_new(self, path: _Path) -> bool:
        """Return True if the path ends with a call that no earlier trajectory holds."""
        return path.last is not None and path.last.number not in self._holders

    def trajectory(self, path: Sequence[_NodeCall]) -> Trajectory:
        """Build the trajectory of a new path."""
        first = not self._holders
        native_id = self._name if first else f"{self._name}/{path[-1].number}"
        fork = next((self._holders[called.number] for called in reversed(path) if called.number in self._holders), None)
        steps = _steps(path, self._notes if first else [])
        for step, called in enumerate(path):
            self._holders.setdefault(called.number, (native_id, step))
        end = path[-1].code
        parent, fork_step = (None, None) if first else fork or (self._name, None)
        return Trajectory(
            native_id=native_id,
            domain="mcp",
            steps=steps,
            task=Task(instruction=self._answer.query),
            context=Context(action_space=self._answer.tools, agent_system=self._answer.system),
            outcome=Outcome(end == _ANSWERED, None, "agent") if end in (_ANSWERED, _GAVE_UP) else None,
            parent=parent,
            parent_step=fork_step,
            relation=None if first else "branch",
        )


def _find_main(paths: Sequence[_Path], final: object) -> int:
    """Return the index of the main path."""
    lasts = [(number, path.last) for number, path in enumerate(paths) if path.last is not None]
    for code in (_ANSWERED, _GAVE_UP):
        ends = [(number, last) for number, last in lasts if last.code == code]
        written = [number for number, last in ends if _ends_with(last, final)]
        if ends:
            return written[0] if written else ends[0][0]
    return lasts[0][0] if lasts else 0


def _ends_with(called: _NodeCall, final: object) -> bool:
    """Return True if the call's arguments equal the final answer in the file."""
    return isinstance(final, str) and call(called.call.name, final, None, 0).arguments == called.call.arguments


def _steps(path: Sequence[_NodeCall], notes: Sequence[tuple[Mapping[str, Any], str]]) -> list[Step]:
    builder = Told(in_memory=True)
    waiting = list(notes)
    for called in path:
        if waiting and _is_said_in(waiting[0][0], called):
            builder.say("harness", waiting.pop(0)[1])
        step_call = replace(called.call, call_id=None, reasoning=called.thought, shown=called.observation)
        step_call.ending = (None, True if called.code == _ANSWERED else None, None)
        builder.turn([step_call])
    return list(builder.steps())


def _is_said_in(message: Mapping[str, Any], called: _NodeCall) -> bool:
    """Return True if the model's message is the call, or the thought before it."""
    function_call = message.get("function_call")
    if isinstance(function_call, dict):
        try:
            same = call(function_call.get("name"), function_call.get("arguments"), None, 0)
        except MessageError:
            return False
        return (same.name, same.arguments) == (called.call.name, called.call.arguments)
    content = message.get("content")
    return isinstance(content, str) and called.thought is not None and content in called.thought
