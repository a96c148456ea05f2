r"""Rows of published data sets of software engineering trajectories (JSON Lines or a JSON array), one trajectory each.

>>> show(SweRows(), r'''
... [{"instance_id": "acme__lamp-6", "model_name": "parrot-70b", "target": false, "exit_status": "submitted",
...   "trajectory": [
...     {"role": "system", "system_prompt": "SETTING: You are an autonomous programmer.", "text": null},
...     {"role": "user", "text": "ISSUE:\nThe lamp is dark.\n\n(Open file: n/a)\n(Current directory: /lamp)\nbash-$"},
...     {"role": "ai", "text": "DISCUSSION\nLet us see.\n```\nls\n```"},
...     {"role": "user", "text": "lamp.py\n\n(Open file: n/a)\n(Current directory: /lamp)\nbash-$"}]}]
... ''')
action  | {"name": "bash", "arguments": {"command": "ls\n"}}
after   | lamp.py

The columns read are those of SWE-smith (`messages` as JSON text, `instance_id`, `resolved`, `model`, `traj_id`), of
Nebius's SWE-agent-trajectories (`trajectory` of `{role, text}`, `target`, `exit_status`) and SWE-rebench-openhands
(`trajectory`, `tools`, `resolved`), of CoderForge (`messages`, `tools`, `reward`, `image`) and of Open-SWE-Traces
(`resolved` of -1, 0 or 1; -1 means unknown).

Actions are the tool calls of a row if it has any, else `<function=…>` in the agent's text, or its last fenced block.
The answer is the tool's message with the call's id, or the user's next message. It is kept as the agent saw it, except
the harness's words at its ends (`harness_text`), which are `interleaved` before the next step. No person took part in
these runs, so the answer to a message without an action is the harness's. The final patch and the log of its tests are
columns of their own, no step of the agent, and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation.harness_text import ANYONE, Source, read_output, speaker, truncation
from trajmill.connectors.conversation.told import Told, answered
from trajmill.connectors.conversation.turns import Call
from trajmill.connectors.conversation.wrapped_output import Output
from trajmill.connectors.reading.documents import head_rows, holds_rows, json_document
from trajmill.connectors.reading.fields import number_of, text_in
from trajmill.connectors.reading.json_text import parse_if_json, shallow_json
from trajmill.connectors.reading.lines import is_by_line, json_lines
from trajmill.connectors.reading.places import places_by_lines
from trajmill.connectors.swe.actions import call, shell, spoken
from trajmill.connectors.swe.evaluation import VERIFIER
from trajmill.connectors.swe.instance import environment
from trajmill.connectors.swe.messages import Exchange, Message, answer_of, calls_of, each_turn, message_of
from trajmill.connectors.swe.text_action import function, last_fence
from trajmill.schemas import Agent, Context, Observation, Outcome, ParseError, Reject, Task, Trajectory, json_text

_COLUMNS: Final = ("messages", "trajectory", "full")
_IDS: Final = ("instance_id", "trajectory_id", "traj_id")
_OTHERS: Final = frozenset({"mini_version", "replay_config", "info"})
_TASKS: Final = (
    b"solving the following issue within our repository",
    b"<pr_description>",
    b"<uploaded_files>",
    b"<issue_description>",
)
_AGENT: Final = Source("swe-agent", None, "")
_DEMONSTRATION: Final = "Here is a demonstration of how to"
_THOUGHTS: Final = frozenset({"think", "task_tracker"})


class SweRows(Connector):
    """Rows of published trajectories."""

    name: ClassVar[str] = "swe_rows"
    version: ClassVar[str] = "13"
    domains: ClassVar[tuple[str, ...]] = ("swe",)
    title: ClassVar[str] = "rows of SWE trajectory data sets (SWE-smith, Nebius, CoderForge)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        row = next(iter(head_rows(head)), {})
        messages = _messages(row)
        if not isinstance(messages, list) or not messages or message_of(messages[0]) is None or row.keys() & _OTHERS:
            return None
        if any(row.get(key) for key in _IDS):
            return Sniff(0.8, "rows with messages and the id of an instance or a trajectory")
        if any(task in head for task in _TASKS):
            return Sniff(0.6, "rows with messages about an issue in a repository")
        return None

    def is_sliceable(self, blob: Blob) -> bool:
        return holds_rows(blob)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        empty = True
        for offset, row in _rows(blob):
            bad = isinstance(row, ParseError)
            result = Reject.of(row, "record", self.name) if bad else read_row(blob, offset, row)
            empty = empty and isinstance(result, Reject)
            yield result
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no row holds an action of an agent")


def _rows(blob: Blob) -> Iterator[tuple[int, Any]]:
    """Yield (offset, row) of each row; a row is a `ParseError` if its line is not JSON."""
    if is_by_line(blob):
        yield from json_lines(blob)
        return
    value, data = json_document(blob)
    rows = value if isinstance(value, list) else [value]
    yield from zip(places_by_lines(data, None, rows) if isinstance(value, list) else [0], rows, strict=True)


def read_row(blob: Blob, offset: int, row: Any) -> Trajectory | Reject:
    """Return the trajectory of a row, or its reject; `offset` is the row's offset in the blob."""

    def reject_row(reason: str, detail: str) -> Reject:
        return Reject("record", reason, detail[:200], blob.uri, offset=offset, connector=SweRows.name)

    fields = row if isinstance(row, dict) else {}
    raw = _messages(fields)
    if not isinstance(raw, list):
        return reject_row("no_messages", "wanted an object with a list `messages` or `trajectory`, or JSON text of one")
    messages: list[Message] = []
    for entry in raw:
        message = message_of(entry)
        if message is None:
            return reject_row("bad_message", f"message {len(messages)} is no object with a role")
        messages.append(message)
    demonstrations, own_messages = _shown(raw, messages)
    before: list[Message] = []
    course = Told(in_memory=True)
    reading = _reading(messages)
    for turn in each_turn(zip(own_messages, repeat(offset)), before):
        if not _add(course, turn, reading):
            return reject_row("nested_too_deeply", "the arguments of a call")
    if not course.acted:
        return reject_row("no_transitions", "no message is the agent's")
    _end(course, fields)
    return _whole(fields, course, before, demonstrations)


def _messages(row: Mapping[str, Any]) -> Any:
    raw = parse_if_json(next((row[key] for key in _COLUMNS if row.get(key) is not None), None))
    return [parse_if_json(entry) for entry in raw] if isinstance(raw, list) else raw


def _whole(row: Mapping[str, Any], course: Told, before: Sequence[Message], demonstrations: str | None) -> Trajectory:
    instance = text_in(row, "instance_id")
    tools = parse_if_json(row.get("tools"))
    asked = next((message.text for message in before if message.role == "user"), None)
    prompt = read_output(asked or "", _AGENT)
    model = next((name for key in ("model", "model_name") if (name := text_in(row, key)) is not None), None)
    return Trajectory(
        native_id=text_in(row, "trajectory_id") or text_in(row, "traj_id") or instance or "",
        domain="swe",
        steps=course.steps(),
        environment=environment(
            instance,
            text_in(row, "image") or text_in(row, "docker_images"),
            text_in(row, "repo"),
            text_in(row, "base_commit"),
        ),
        agent=Agent(model=model or text_in(row, "metadata", "teacher_model")),
        task=Task(instance, prompt.text or None),
        context=Context(
            initial_state=prompt.notes[-1] if prompt.notes else None,
            action_space=shallow_json(tools) if isinstance(tools, list) and tools else None,
            demonstrations=demonstrations,
            agent_system=next((message.text for message in before if message.role in ("system", "developer")), None),
        ),
        outcome=_outcome(row),
        licence=text_in(row, "license"),
    )


def _shown(raw: Sequence[Any], messages: Sequence[Message]) -> tuple[str | None, list[Message]]:
    """Return the demonstrations among the messages, as text, and the other messages."""
    shown: list[dict[str, str]] = []
    own_messages: list[Message] = []
    acted = False
    for value, message in zip(raw, messages, strict=True):
        role = message.role
        marked = value.get("is_demo") is True or value.get("message_type") == "demonstration"
        if marked or (not acted and role == "user" and (message.text or "").startswith(_DEMONSTRATION)):
            shown.append({"role": role, "content": message.text or ""})
        else:
            acted = acted or role == "assistant"
            own_messages.append(message)
    return (None if not shown else shown[0]["content"] if len(shown) == 1 else json_text(shown)), own_messages


def _reading(messages: Sequence[Message]) -> str:
    """Return the notation of the row's actions: calls, xml or fences."""
    if any(message.calls for message in messages):
        return "calls"
    replies = [message.text or "" for message in messages if message.role == "assistant"]
    return "xml" if any("<function=" in text for text in replies) else "fences"


def _add(course: Told, turn: Exchange, reading: str) -> bool:
    """Add a turn; return False if one of its calls cannot be kept."""
    actions, acted = _actions(turn.message, reading)
    after, offset = turn.after, turn.offset
    acts: list[Call] = []
    used: set[int] = set()
    for index, action in enumerate(actions):
        if action is None:
            return False
        position = answer_of(turn, index, used)
        if position is None or position in used:
            acts.append(answered(action, None, offset))
        else:
            used.add(position)
            seen, output = _seen(after[position], action, acted)
            acts.append(answered(action, seen, offset))
            action.ends(output)
    course.turn(acts, turn.message.sampled)
    if len(used) < len(after):
        for position, message in enumerate(after):
            if position not in used:
                course.say("harness", message.text)
    return True


def _actions(message: Message, reading: str) -> tuple[list[Call | None], bool]:
    """Return the actions of a message, and whether they can be executed."""
    text = message.text or ""
    if message.calls:
        return calls_of(message), True
    written = None if reading == "calls" else function(text) if reading == "xml" else last_fence(text)
    if written is None:
        return [spoken(text, message.reasoning)], False
    thought, around = message.reasoning, written.around
    reasoning = f"{thought}\n\n{around}" if thought and around else thought or around or None
    if written.name is None:
        return [shell(written.arguments["command"], None, reasoning)], True
    return [call(written.name, written.arguments, reasoning=reasoning)], True


def _seen(message: Message, action: Call, acted: bool) -> tuple[Observation | None, Output]:
    """Return the observation in a message, and the action's end by the harness's words around it."""
    text, own = message.text, not acted or action.name in _THOUGHTS
    output = Output(text, message.exit_code)
    if text is None and not message.attachments:
        return None, output
    if text is not None:
        own = own or speaker(text, _AGENT) is not None
        output = output if own else read_output(text, Source(tool=action.name))
    seen = Observation(
        content=output.text,
        origin="harness" if own else "environment",
        truncation="harness" if output.cut else truncation(output.text or "", ANYONE),
        attachments=message.attachments,
    )
    return (seen if output.text is not None or message.attachments else None), output


def _outcome(row: Mapping[str, Any]) -> Outcome | None:
    """Return the verdict of the tests: `resolved` or `target`, or a `reward`, which resolves the task if 0 or 1."""
    for key in ("resolved", "target"):
        if row.get(key) in (True, False):
            return Outcome(bool(row[key]), None, VERIFIER)
    reward = next((row[key] for key in ("reward", "rewards") if row.get(key) is not None), None)
    score = number_of(reward, 1e30)
    return None if score is None else Outcome(bool(score) if score in (0, 1) else None, score, "tests")


def _end(course: Told, row: Mapping[str, Any]) -> None:
    status = (text_in(row, "exit_status") or "").lower()
    if "exit_" in status or status == "early_exit":
        course.end(False, True)
    elif status in ("submitted", "submit"):
        course.end(True, False)
    elif course.last is not None and course.last.name in ("submit", "finish"):
        course.end(True, None)
