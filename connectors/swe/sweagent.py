r"""SWE-agent trajectories (`<instance>.traj`), one JSON document, of versions 0.2 to 1.1.

>>> show(SweAgent(), r'''
... {"environment": "swe_main", "trajectory": [
...     {"action": "ls\n", "observation": "engine.py\n", "response": "Let us look.\n```\nls\n```",
...      "thought": "Let us look.\n", "state": "{\"open_file\": \"n/a\", \"working_dir\": \"/rocket\"}\n"}],
...  "history": [
...     {"role": "user", "content": "The engine is weak.", "agent": "primary"},
...     {"role": "assistant", "content": "Let us look.\n```\nls\n```", "thought": "Let us look.\n", "action": "ls\n"}]}
... ''')
action  | {"name": "bash", "arguments": {"command": "ls\n"}}
after   | engine.py

`trajectory[i]` holds an action and the observation after it, `history` the messages that the agent received. Steps come
from `trajectory`; a file with only `history` (a demonstration) is read from that. With function calling, the call is
taken from the history's message of the same action. A run with several attempts is several trajectories, and the chosen
one, which the file holds twice, counts once. Demonstrations are context, not steps. A trajectory in a run folder has
the outcome stated by SWE-bench's report of its instance, or by the summary of the run.

Observations are kept whole, as in `trajectory`, with their line ends. The agent saw them cut and within a template, as
in `history`: the template's words are taken from there as harness texts (`interleaved`). The working folder of `state`
is the observation's `uri`; in 0.x the state was read before the action, from 1.0 on (which has `execution_time`) after
it. The output of `submit`, the patch, is the environment's answer.

The arrays `trajectory` and `history` of a large file are not held in memory, but read from the file as needed.

Entries with which the harness gives up (`exit_cost` and similar) are no actions and are left out. Attempts that the
harness refused are in `trajectory` from 1.0 on; if the next step's `query` holds the harness's reply, it is their next
observation. Without reports it is unknown whether the issue was solved.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.conversation.harness_text import Source, read_output, split_by_twin
from trajmill.connectors.conversation.told import Told, answered
from trajmill.connectors.conversation.turns import Call
from trajmill.connectors.conversation.wrapped_output import Output, limit_of
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import object_of, objects_of, plain_text, text_in
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.large.outline import ARRAY, Chosen, Shape
from trajmill.connectors.reading.places import places_by_lines
from trajmill.connectors.reading.values import value_or_none
from trajmill.connectors.swe.actions import call, shell, spoken
from trajmill.connectors.swe.answer import content_of, observe
from trajmill.connectors.swe.evaluation import EVALUATION_FILES, read_run, runs
from trajmill.connectors.swe.instance import environment, instance_of
from trajmill.connectors.swe.text_action import last_fence
from trajmill.schemas import Agent, Context, Observation, Outcome, ParseError, Reject, Task, Trajectory, json_text

_STEP: Final = re.compile(
    rb'"trajectory":\s*\[\s*\{\s*"(?:action|observation|response|thought|state|execution_time|messages|query)"\s*:'
)
_HISTORY: Final = re.compile(rb'"history":\s*\[\s*\{\s*"(?:role|agent|content|message_type|is_demo)"\s*:')
_ATTEMPTS: Final = re.compile(rb'\{\s*"attempts":\s*\[')

_RUN: Final[dict[str, Shape]] = {"trajectory": [], "history": []}
_SHAPES: Final[list[Shape]] = [{**_RUN, "attempts": [_RUN]}]

_CLIENT: Final = Source("swe-agent")
_ENDING: Final = ".traj"
_GIVEN_UP: Final = frozenset({"exit_context", "exit_cost", "exit_error", "exit_format", "exit_api", "early_exit"})
_PERSONS: Final = frozenset({"human", "human_thought", "replay", "instant_empty_submit"})


class SweAgent(Connector):
    """Trajectories of SWE-agent."""

    name: ClassVar[str] = "sweagent"
    version: ClassVar[str] = "11"
    domains: ClassVar[tuple[str, ...]] = ("swe",)
    title: ClassVar[str] = "SWE-agent trajectory (.traj)"
    companions = re.compile(
        r"[^/]*\.(?:config\.yaml|(?:debug|info|trace|warning)\.log|pred|patch)|args\.yaml|run_batch[^/]*"
        r"|patches/[^/]*\.patch|" + EVALUATION_FILES.pattern
    )

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        named = uri.endswith(".traj")
        if head.lstrip()[:1] != b"{":
            return None
        if _STEP.search(head):
            return Sniff(0.95, "an array `trajectory` of steps with action, observation and thought")
        if _HISTORY.search(head) and (b'"agent":' in head or named):
            return Sniff(0.9 if named else 0.6, "an array `history` of an agent's messages")
        if named and (_ATTEMPTS.match(head.lstrip()) or b'"trajectory":' in head):
            return Sniff(0.8, "named .traj, with attempts or a trajectory")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each trajectory that a report of SWE-bench, or the summary of its run, judges."""
        yield from runs(paths, _ENDING)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        yield from read_run(blob, self.name, _ENDING, _attempts)


def _attempts(blob: Blob, member: str, known: Mapping[str, Outcome]) -> Iterator[Trajectory | Reject]:
    """Yield the trajectories of one file.

    Raises:
        ParseError: the file is no trajectory of SWE-agent, or holds no action.
    """
    value, data = json_document(blob, member, _SHAPES)
    if not isinstance(value, dict) or not any(key in value for key in ("trajectory", "history", "attempts")):
        wanted = "wanted an object with `trajectory`, `history` or `attempts`"
        raise ParseError(blob.uri, 0, "bad_document", wanted, member)
    tried = value.get("attempts")
    attempts = tried if isinstance(tried, ARRAY) and tried else [value]
    single = attempts is not tried
    begins = [0] if single else places_by_lines(data, "attempts", attempts)
    empty = True
    for number, (record, begin) in enumerate(zip(attempts, begins, strict=True)):
        attempt = _Attempt(
            blob.uri, member, record if isinstance(record, dict) else {}, data if single else None, begin
        )
        trajectory = attempt.trajectory("" if single else f"/{number}", known)
        yield from attempt.rejects
        if trajectory is not None:
            empty = False
            yield trajectory
        elif not single:
            detail = f"attempt {number} holds no action"
            yield Reject("trajectory", "no_transitions", detail, blob.uri, member, begin, SweAgent.name)
    if empty:
        raise ParseError(blob.uri, -1, "no_transitions", "the trajectory holds no action", member)


@dataclass(frozen=True, slots=True)
class _Prompt:
    """Messages before the agent's first action."""

    system: str | None
    instruction: str | None
    tail: str | None
    demonstrations: str | None


class _Attempt:
    """One run of the agent: the object of a file with the bytes `data`, or one of its attempts at offset `begin`."""

    def __init__(self, uri: str, member: str, record: Mapping[str, Any], data: bytes | None, begin: int) -> None:
        self.rejects: list[Reject] = []
        self._uri = uri
        self._member = member
        self._told = record
        self._data = data
        self._begin = begin
        self._config = _object(record.get("replay_config"))
        tools = object_of(object_of(self._config.get("agent")).get("tools"))
        self._limit = limit_of(tools.get("execution_timeout"))
        self._history = _list_or_empty(record.get("history"))

    def trajectory(self, suffix: str, known: Mapping[str, Outcome]) -> Trajectory | None:
        """Return the trajectory of the run; None if it holds no action."""
        steps = _list_or_empty(self._told.get("trajectory"))
        own = self._own()
        course = Told()
        if steps:
            self._follow(steps, own, course)
        else:
            self._replay(own, course)
        if not course.acted:
            return None
        instance = text_in(self._config, "problem_statement", "id") or instance_of(self._member or self._uri)
        prompt = self._prompt(own or _query(steps[0] if steps else None))
        info = self._told.get("info")
        return Trajectory(
            native_id=(instance or "") + suffix,
            domain="swe",
            steps=course.steps(),
            environment=environment(instance, self._image(), *self._repository()),
            agent=Agent("swe-agent", text_in(info, "swe_agent_version"), self._model()),
            task=Task(instance, prompt.instruction),
            context=Context(
                initial_state=prompt.tail or self._first_state(steps),
                demonstrations=prompt.demonstrations,
                agent_system=prompt.system,
            ),
            outcome=known.get(instance or ""),
        )

    def _own(self) -> Chosen:
        """Return the agent's own entries of the history, without those of demonstrations and sub-agents."""
        entries = (entry for entry in self._history if isinstance(entry, dict))
        name = next((entry["agent"] for entry in entries if isinstance(entry.get("agent"), str)), None)
        places_of = (
            position
            for position, entry in enumerate(self._history)
            if isinstance(entry, dict) and entry.get("agent", name) == name and not entry.get("is_demo")
        )
        return Chosen(self._history, places_of)

    def _follow(self, steps: Sequence[Any], own: Sequence[Mapping[str, Any]], course: Told) -> None:
        """Add the steps of `trajectory`."""
        offsets = self._places("trajectory", steps)
        later = any(isinstance(step, dict) and "execution_time" in step for step in steps)
        messages = _Messages(own)
        gave_up = False
        for number, (step, offset) in enumerate(zip(steps, offsets, strict=True)):
            if not isinstance(step, dict) or not isinstance(step.get("action"), str):
                self._refuse("bad_step", "wanted an object with a text `action`", offset)
                continue
            following = steps[number + 1] if number + 1 < len(steps) else None
            if _is_closing(step):
                gave_up = True
                continue
            folder = _folder(step if later else following)
            seen = _refusal(step, following)
            done = seen is None
            if done and not (step["action"] == "" and step.get("observation") == ""):
                seen = observe(step.get("observation"), uri=folder)
            message, shown = messages.of(step["action"]) if done else ({}, None)
            action = self._action(step, _function_call(message), offset)
            if action is not None:
                ended = Output(None)
                if done and seen is not None and seen.content is not None:
                    ended = read_output(seen.content, _CLIENT)
                    around = split_by_twin(shown, seen.content)[1] if shown is not None else ()
                    seen = replace(seen, content=ended.text)
                    ended = replace(ended, notes=(*ended.notes, *around))
                took = _seconds(step) if done else None
                answered(action, seen, offset, seconds=took, member=self._member).ends(ended)
                if done and step["action"]:
                    action.limit = self._limit
                course.turn([action])
        self._end(course, gave_up)

    def _action(self, step: Mapping[str, Any], called: Mapping[str, Any] | None, offset: int) -> Call | None:
        thought = _strip_text(step.get("thought"))
        reasoning = _strip_text(step.get("reasoning_content"))
        thinking = "\n\n".join(part for part in (reasoning, thought) if part) or None
        if called is not None:
            action = _tool(called, thinking)
            if action is None:
                self._refuse("nested_too_deeply", "the arguments of a call", offset)
            return action
        if not step["action"]:
            return spoken(_strip_text(step.get("response")) or "", reasoning)
        return shell(step["action"], reasoning=thinking)

    def _replay(self, own: Chosen, course: Told) -> None:
        """Add the steps of `history`, in which each message after the agent's is its observation."""
        begun = False
        offsets = self._places("history", self._history)
        for number, entry in enumerate(own):
            role = entry.get("role")
            if role != "assistant":
                answers = number > 0 and own[number - 1].get("role") == "assistant"
                if begun and not answers:
                    course.say("harness", content_of(entry.get("content")).text)
                continue
            begun = True
            follows = own[number + 1] if number + 1 < len(own) else {}
            seen, output = None, Output(None)
            if follows.get("role") in ("user", "tool"):
                seen = observe(follows.get("content"))
                if seen is not None and seen.content is not None:
                    output = read_output(seen.content, _CLIENT)
                    seen = replace(seen, content=output.text, uri=output.folder)
            offset = offsets[own.places[number]]
            action = self._said(entry, offset)
            if action is not None:
                answered(action, seen, offset, member=self._member).ends(output)
                course.turn([action])
        self._end(course, False)

    def _said(self, entry: Mapping[str, Any], offset: int) -> Call | None:
        """Return the action of an agent's message in `history`."""
        thought = _strip_text(entry.get("thought"))
        called = _function_call(entry)
        if called is not None:
            action = _tool(called, thought)
            if action is None:
                self._refuse("nested_too_deeply", "the arguments of a call", offset)
            return action
        if isinstance(entry.get("action"), str) and entry["action"]:
            return shell(entry["action"], reasoning=thought)
        text = content_of(entry.get("content")).text or ""
        written = last_fence(text)
        return (
            spoken(text) if written is None else shell(written.arguments["command"], reasoning=written.around or None)
        )

    def _end(self, course: Told, gave_up: bool) -> None:
        """Mark the last step by the exit status: `submitted`, `submitted (exit_cost)`, `exit_context`, …"""
        status = text_in(self._told, "info", "exit_status")
        if gave_up or (status is not None and "exit_" in status and status != "exit_forfeit"):
            course.end(False, True)
        elif status in ("submitted", "exit_command", "exit_forfeit"):
            course.end(True, False)
        elif status == "early_exit":
            course.end(False, True)

    def _prompt(self, own: Sequence[Mapping[str, Any]]) -> _Prompt:
        system = next((content_of(e.get("content")).text for e in own if e.get("role") == "system"), None)
        first = next((e for e in own if e.get("role") != "system"), {})
        instruction = content_of(first.get("content")).text if first.get("role") == "user" else None
        output = read_output(instruction or "", _CLIENT)
        return _Prompt(system, output.text or None, output.notes[-1] if output.notes else None, self._demonstrations())

    def _demonstrations(self) -> str | None:
        """Return the demonstrations: one message as it is, several as JSON messages."""
        shown = [
            {"role": plain_text(entry.get("role")), "content": content_of(entry.get("content")).text or ""}
            for entry in self._history
            if isinstance(entry, dict) and entry.get("is_demo")
        ]
        return None if not shown else shown[0]["content"] if len(shown) == 1 else json_text(shown)

    def _places(self, key: str, records: Sequence[Any]) -> Sequence[int]:
        """Return the offsets of the records of an array; all records of an attempt have the attempt's offset."""
        return [self._begin] * len(records) if self._data is None else places_by_lines(self._data, key, records)

    def _first_state(self, steps: Sequence[Any]) -> str | None:
        """Return the state before the first action, which only versions 0.x log."""
        first = steps[0] if steps and isinstance(steps[0], dict) else {}
        state = _object(first.get("state"))
        return shallow_json(state) if state and "execution_time" not in first else None

    def _image(self) -> str | None:
        return text_in(self._config, "env", "deployment", "image") or text_in(self._config, "environment", "image_name")

    def _repository(self) -> tuple[str | None, str | None]:
        """Return the name and base commit of the repository, as far as the configuration states them."""
        url = text_in(self._config, "env", "repo", "github_url")
        name = "/".join(url.removesuffix(".git").rstrip("/").split("/")[-2:]) if url is not None else None
        commit = text_in(self._config, "env", "repo", "base_commit")
        return name, commit or text_in(self._config, "environment", "base_commit")

    def _model(self) -> str | None:
        name = text_in(self._config, "agent", "model", "name") or text_in(self._config, "agent", "model", "model_name")
        return None if name in _PERSONS else name

    def _refuse(self, reason: str, detail: str, offset: int) -> None:
        self.rejects.append(Reject("record", reason, detail, self._uri, self._member, offset, SweAgent.name))


class _Messages:
    """The agent's messages in `history`, found in order by the shell line that SWE-agent made of each."""

    def __init__(self, own: Sequence[Mapping[str, Any]]) -> None:
        self._own = own
        self._by_action: dict[int, array[int]] = {}
        self._next = 0
        for position, entry in enumerate(own):
            if entry.get("role") == "assistant" and isinstance(entry.get("action"), str):
                self._by_action.setdefault(hash(entry["action"]), array("q")).append(position)
        for places_of in self._by_action.values():
            places_of.reverse()

    def of(self, action: str) -> tuple[Mapping[str, Any], str | None]:
        """Return the next message for this line, empty if there is none, and the text that the agent saw after it."""
        waiting = self._by_action.get(hash(action))
        while waiting:
            position = waiting.pop()
            if position >= self._next and self._own[position]["action"] == action:
                self._next = position + 1
                follows = self._own[position + 1] if position + 1 < len(self._own) else {}
                answers = follows.get("role") in ("user", "tool")
                return self._own[position], content_of(follows.get("content")).text if answers else None
        return {}, None


def _function_call(entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the function call of an agent's message; SWE-agent allows only one."""
    calls = entry.get("tool_calls")
    first = calls[0] if isinstance(calls, list) and calls else None
    return first if isinstance(first, dict) and text_in(first, "function", "name") is not None else None


def _tool(called: Mapping[str, Any], reasoning: str | None) -> Call | None:
    function = called["function"]
    arguments = function.get("arguments")
    call_arguments = arguments if isinstance(arguments, dict | str) else None
    return call(function["name"], call_arguments, text_in(called, "id"), reasoning=reasoning)


def _is_closing(step: Mapping[str, Any]) -> bool:
    """Check if the harness wrote the entry to close a run that it gave up."""
    response, thought = step.get("response"), step.get("thought")
    if step["action"] in _GIVEN_UP:
        return True
    notice = isinstance(thought, str) and thought.startswith(("Exit due to ", "Exiting due to "))
    return step["action"] == "" and notice and response in (thought, "", None)


def _refusal(step: Mapping[str, Any], following: Any) -> Observation | None:
    """Return the harness's reply to an action that it did not execute, if the next step's query holds it."""
    query = _query(following)
    if len(query) < 2 or query[-1].get("message_type") != "user" or query[-2].get("message_type") != "assistant":
        return None
    same = query[-2].get("content") == step.get("response")
    return observe(query[-1].get("content"), "harness") if same else None


def _query(step: Any) -> Sequence[Mapping[str, Any]]:
    """Return the model's prompt before the step; the first versions of 1.x call it `messages`."""
    return objects_of(step.get("query") or step.get("messages")) if isinstance(step, dict) else []


def _list_or_empty(value: Any) -> Sequence[Any]:
    return value if isinstance(value, ARRAY) else []


def _object(value: Any) -> Mapping[str, Any]:
    """Return an object, or the object in a JSON text; empty if there is neither."""
    return object_of(value_or_none(value) if isinstance(value, str) else value)


def _folder(step: Any) -> str | None:
    return text_in(_object(step.get("state")), "working_dir") if isinstance(step, dict) else None


def _strip_text(text: Any) -> str | None:
    return text.strip() or None if isinstance(text, str) else None


def _seconds(step: Mapping[str, Any]) -> float | None:
    took = step.get("execution_time")
    if isinstance(took, bool) or not isinstance(took, int | float) or not math.isfinite(took) or took <= 0:
        return None
    return float(took)
