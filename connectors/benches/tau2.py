r"""Results of tau2-bench: one JSON document of tasks and simulations, or one file per simulation beside it.

>>> show(Tau2(), r'''
... {"info": {"environment_info": {"domain_name": "telecom"}}, "tasks": [{"id": "8"}], "simulations": [
...     {"id": "sim-2", "task_id": "8", "termination_reason": "user_stop", "messages": [
...         {"role": "user", "content": "Which tariff have I?"},
...         {"role": "assistant", "content": null, "tool_calls": [
...             {"id": "y", "name": "get_tariff", "arguments": {"line": 4}, "requestor": "assistant"}]},
...         {"role": "tool", "id": "y", "content": "{\"tariff\": \"S\"}", "requestor": "assistant", "error": false},
...         {"role": "assistant", "content": "Tariff S."},
...         {"role": "user", "content": "Thanks ###STOP###"}]}]}
... ''')
action  | {"name": "get_tariff", "arguments": {"line": 4}}
after   | {"tariff": "S"}
action  | {"name": "message", "arguments": {"content": "Tariff S."}}
after   | Thanks ###STOP###

A document has `info`, `tasks` and `simulations`. The folder form has `results.json` without simulations beside
`simulations/<id>.json`, one per file: each of them is a log of its own, and all share the document. A file without it
is read alone; task and policy are then unknown. The fields are those of `data_model/message.py` and
`data_model/simulation.py` of the benchmark.

A tool's message names its call by `id`, arguments are objects, and one message may hold several results
(`tool_messages`). `requestor` states whose tool it was: calls of the simulated user and their results are no actions of
the agent, so they are interleaved before the agent's next turn, with the roles `user_call` and `tool`. The user's
message after them is the next observation of the agent's message. The greeting with which the harness opens a
conversation in the agent's name is a message like the others.

The agent's system prompt is the policy, without the frame that the agent puts around it; the task's instruction is the
text given to the simulated user. Tools are programs over an invented database: the environment's kind is `code`. Task
ids count from 0 in each domain, so the domain is put before them. Times have no time zone: durations are known, points
in time are not.

Voice runs in full duplex (`ticks` of a fifth of a second in place of messages) are refused as `full_duplex`, because
the log does not state who answered whom. Runs that broke off without a message are refused as `run_error`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Final

from trajmill.connectors.benches.tau_bench import outcome_of
from trajmill.connectors.connector import Blob, Connector, Log, MemoryBlob, Sniff
from trajmill.connectors.conversation.calls import MessageError, action_space, call, json_of
from trajmill.connectors.conversation.pairing import Conversation, conversation
from trajmill.connectors.conversation.refusals import reject_conversation, reject_unmatched
from trajmill.connectors.conversation.turns import Part, Result, Said, System, Text, Thought
from trajmill.connectors.reading.documents import json_document, opening
from trajmill.connectors.reading.fields import brief, key_of, object_of, objects_of, plain_text, text_of
from trajmill.connectors.reading.large.outline import ARRAY, Shape
from trajmill.connectors.reading.places import places_by_beginning
from trajmill.connectors.reading.times import moment
from trajmill.schemas import Agent, Context, Environment, ParseError, Reject, Task, Trajectory

_SHAPES: Final[list[Shape]] = [{"simulations": [{"messages": []}], "messages": []}]
_RESULTS: Final = "results.json"
_SIMULATION: Final = re.compile(r"simulations/[^/]+\.json")
_ENDED: Final = ("user_stop", "agent_stop")
_STOPPED: Final = ("max_steps", "too_many_errors", "timeout")


class Tau2(Connector):
    """Text runs of tau2-bench."""

    name: ClassVar[str] = "tau2"
    version: ClassVar[str] = "5"
    domains: ClassVar[tuple[str, ...]] = ("mcp",)
    title: ClassVar[str] = "tau2-bench results (tool agents and a simulated user)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        beginning = opening(head)
        value = beginning.values[0] if beginning is not None and not beginning.lines else None
        if not isinstance(value, dict):
            return None
        info = value.get("info")
        if isinstance(info, dict) and "environment_info" in info and "user_info" in info:
            return Sniff(0.95, "results with environment_info and user_info")
        if {"id", "task_id", "termination_reason"} <= value.keys() and {"messages", "ticks"} & value.keys():
            return Sniff(0.9, "a simulation with task_id, termination_reason and messages or ticks")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each simulation of a folder, with the document of its run, which is shared with the others."""
        known = set(paths)
        for path in paths:
            parent, _, name = path.rpartition("/")
            folder, _, last = parent.rpartition("/")
            results = f"{folder}/{_RESULTS}" if folder else _RESULTS
            if last == "simulations" and name.endswith(".json") and results in known:
                own = f"{last}/{name}"
                yield Log(path, {_RESULTS: results, own: path}, own, frozenset({_RESULTS}))

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        empty = True
        for record in self._found(blob):
            empty = empty and not isinstance(record, Trajectory)
            yield record
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no simulation of the log holds a call of the agent")

    def _found(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        files = [member for member in blob.members if _SIMULATION.fullmatch(member)]
        if files:
            yield from self._files(blob, files)
            return
        member = blob.members[0]
        value, data = json_document(blob, member, _SHAPES)
        if not isinstance(value, dict):
            raise ParseError(blob.uri, 0, "bad_document", "wanted an object of info, tasks and simulations", member)
        if "simulations" not in value and "task_id" in value:
            yield from self._simulation(blob, value, _Run(), _Location(member, 0))
            return
        run = _run(value)
        listed = value.get("simulations")
        if isinstance(listed, ARRAY):
            for simulation, offset in zip(listed, places_by_beginning(data, listed), strict=True):
                yield from self._simulation(blob, simulation, run, _Location(member, offset))

    def _files(self, blob: Blob, files: Sequence[str]) -> Iterator[Trajectory | Reject]:
        run, more = _Run(), 0
        if _RESULTS in blob.members:
            try:
                run, more = _document(blob.read(_RESULTS))
            except ParseError as error:
                yield replace(Reject.of(error, "record", self.name), uri=blob.uri, member=_RESULTS)
        if more:
            detail = f"the document of the run holds {more} simulations itself, and others stand beside it"
            yield reject_conversation(blob, self.name, 0, "simulations_twice", detail, member=_RESULTS, rows=more)
        for file in files:
            yield from self._file(blob, file, run)

    def _file(self, blob: Blob, member: str, run: _Run) -> Iterator[Trajectory | Reject]:
        try:
            value, _ = json_document(blob, member, _SHAPES)
        except ParseError as error:
            yield Reject.of(error, "record", self.name)
            return
        yield from self._simulation(blob, value, run, _Location(member, 0))

    def _simulation(self, blob: Blob, value: Any, run: _Run, location: _Location) -> Iterator[Trajectory | Reject]:
        if not isinstance(value, dict):
            detail = "wanted a simulation with messages"
            yield reject_conversation(blob, self.name, location.offset, "bad_record", detail, member=location.member)
            return
        try:
            dialog = _course(value, location, has_instruction=run.instruction(value) is not None)
            trajectory = _trajectory(value, run, dialog) if dialog.calls else None
        except MessageError as error:
            yield reject_conversation(
                blob, self.name, location.offset, error.reason, error.detail, member=location.member
            )
            return
        for result in dialog.unmatched:
            yield reject_unmatched(blob.uri, self.name, result, location.member)
        if trajectory is None:
            detail, rows = "a simulation without a tool call of the agent", len(dialog.steps)
            yield reject_conversation(
                blob, self.name, location.offset, "no_calls", detail, member=location.member, rows=rows
            )
        else:
            yield trajectory


@dataclass(frozen=True, slots=True)
class _Location:
    """Location of a simulation: member and offset."""

    member: str
    offset: int


@dataclass(frozen=True, slots=True)
class _Run:
    """Facts in a document that apply to all its simulations."""

    domain: str | None = None
    version: str | None = None
    policy: str | None = None
    tools: str | None = None
    agent: Agent = field(default_factory=Agent)
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def task(self, simulation: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the task of a simulation; empty if unknown."""
        return self.tasks.get(plain_text(simulation.get("task_id")), {})

    def instruction(self, simulation: Mapping[str, Any]) -> str | None:
        """Return the instructions of the simulated user: a text, or the scenario's instructions as JSON text."""
        scenario = object_of(self.task(simulation).get("user_scenario"))
        instructions = scenario.get("instructions")
        if isinstance(instructions, dict):
            return json_of({key: value for key, value in instructions.items() if value is not None})
        return instructions if isinstance(instructions, str) and instructions else None


@lru_cache(maxsize=4)
def _document(data: bytes) -> tuple[_Run, int]:
    """Read the document of a run and count its simulations; cached, since each simulation of the run needs it."""
    value, _ = json_document(MemoryBlob("", data))
    if not isinstance(value, dict):
        raise ParseError("", 0, "bad_document", "wanted an object of info and tasks")
    listed = value.get("simulations")
    return _run(value), len(listed) if isinstance(listed, list) else 0


def _run(value: Mapping[str, Any]) -> _Run:
    info = object_of(value.get("info"))
    environment, agent = object_of(info.get("environment_info")), object_of(info.get("agent_info"))
    tasks = value.get("tasks")
    try:
        tools = action_space(environment.get("tool_defs"))
    except MessageError:
        tools = None
    return _Run(
        domain=text_of(environment.get("domain_name")),
        version=text_of(info.get("git_commit")),
        policy=text_of(environment.get("policy")),
        tools=tools,
        agent=Agent(text_of(agent.get("implementation")), None, text_of(agent.get("llm"))),
        tasks={plain_text(task.get("id")): task for task in objects_of(tasks)},
    )


def _course(value: Mapping[str, Any], location: _Location, *, has_instruction: bool) -> Conversation:
    messages = value.get("messages")
    if not messages and value.get("ticks"):
        raise MessageError("full_duplex", "a voice run in full duplex has ticks, which do not tell who answered whom")
    if not messages:
        detail = f"the simulation has no messages; it ended by {brief(value.get('termination_reason'))}"
        raise MessageError("run_error", detail)
    if not isinstance(messages, ARRAY):
        raise MessageError("bad_record", "wanted a list of messages")

    message_parts = (part for message in messages for part in _parts(message, location.offset))
    return conversation(
        list(message_parts) if isinstance(messages, list) else message_parts,
        instructed=has_instruction,
        member=location.member,
    )


def _parts(message: Any, offset: int) -> Iterator[Part]:
    if not isinstance(message, dict):
        raise MessageError("bad_message", "wanted an object as a message")
    role, at = message.get("role"), moment(message.get("timestamp"))
    several = message.get("tool_messages")
    if role == "tool" and isinstance(several, list):
        for tool_message in several:
            yield from _parts(tool_message, offset)
    elif role == "tool":
        content, error = _content(message) or "", message.get("error")
        if message.get("requestor") == "user":
            yield Said("tool", content, at=at)
        else:
            failed = error if isinstance(error, bool) else None
            yield Result(key_of(message.get("id")), None, content, offset, failed, at=at)
    elif role == "system":
        yield System(_content(message) or "")
    elif role in ("assistant", "user"):
        yield from _participant(message, role == "assistant", offset)
    else:
        raise MessageError("unknown_role", f"wanted a role of tau2-bench, met {brief(role)}")


def _participant(message: Mapping[str, Any], agent: bool, offset: int) -> Iterator[Part]:
    at = moment(message.get("timestamp"))
    content = _content(message)
    thought = _thought(message.get("raw_data")) if agent else None
    if thought:
        yield Thought(thought, offset, at)
    if content and content.strip():
        yield Text(content, offset, at) if agent else Said("user", content, at=at)
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise MessageError("bad_message", "wanted a list as tool_calls")
    for item in calls or ():
        block = object_of(item)
        new_call = call(block.get("name"), block.get("arguments"), block.get("id"), offset, at)
        yield new_call if agent else Said("user_call", new_call.written, at=at)


def _content(message: Mapping[str, Any]) -> str | None:
    """Return the text of a message; for a spoken one, its script."""
    if message.get("is_audio") is True:
        script = message.get("audio_script_gold")
        if not isinstance(script, str):
            raise MessageError("audio_only", "a spoken message without its text")
        return script
    content = message.get("content")
    if content is not None and not isinstance(content, str):
        raise MessageError("bad_message", "wanted a text as content")
    return content


def _thought(raw: object) -> str | None:
    """Return the model's reasoning, if the log keeps the provider's answer and that states it."""
    answer = object_of(raw)
    choices = objects_of(answer.get("choices"))
    message = object_of((choices[0] if choices else answer).get("message"))
    return text_of(message.get("reasoning_content"))


def _trajectory(value: Mapping[str, Any], run: _Run, dialog: Conversation) -> Trajectory:
    task, name = run.task(value), value.get("task_id")
    initial = task.get("initial_state")
    reason = value.get("termination_reason")
    if reason in _ENDED or reason in _STOPPED:
        dialog.steps[-1] = replace(dialog.steps[-1], terminated=reason in _ENDED, truncated=reason in _STOPPED)
    known = isinstance(name, str | int)
    return Trajectory(
        native_id=text_of(value.get("id")) or "simulation",
        domain="mcp",
        steps=dialog.steps,
        environment=Environment(id=run.domain, kind="code", version=run.version),
        agent=run.agent,
        task=Task(
            (f"{run.domain}/{name}" if run.domain else str(name)) if known else None,
            run.instruction(value) or dialog.instruction,
        ),
        context=Context(
            action_space=run.tools,
            initial_state=json_of(initial) if initial else None,
            agent_system=text_of(value.get("policy")) or run.policy or dialog.system,
        ),
        outcome=outcome_of(object_of(value.get("reward_info")).get("reward"), "tau2-bench"),
    )
