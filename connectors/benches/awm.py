r"""Run folders of Snowflake's Agent World Model: `trajectory.json` with the verdicts of its verifiers beside it.

>>> show(Awm(), r'''
... {"scenario": "boat_rental_3", "task_id": 4, "task": "Rent a boat in Kiel.", "model": "made-agent", "trajectory": [
...     {"iteration": 1, "role": "assistant", "content": "I look for boats.", "tool_calls": [
...         {"id": "call_0", "name": "call_tool", "arguments":
...             {"tool_name": "mcp_tool_find_boats", "arguments": "{\"harbour\": \"Kiel\"}"}}],
...      "tool_response": {"tool_call_id": "call_0", "content": "[{\"id\": 1, \"price\": 40}]"}}]}
... ''')
action  | {"name": "find_boats", "arguments": {"harbour": "Kiel"}}
after   | [{"id": 1, "price": 40}]

`trajectory` holds one item per turn: the model's text, the calls parsed from it, and the answer to the first call; the
others were never run and stay in the text. The model knows two tools, `list_tools` and `call_tool`; the `tool_name`
(without its prefix `mcp_tool_`) and `arguments` (mostly JSON text) of the latter are the action. The last item of a
finished run has `is_final`: a message to the user. The environment is a generated program over SQLite, so its kind is
`code`. The digest of `initial.db` identifies the environment's instance; no database is opened and no code of the
folder is run. The list of tools is text in this format, and is kept as text.

The outcome is the verdict of `verify.code.json`, else that of the model which judged `verify.sql.json`: `complete`
means solved; if the server or the judge failed, there is no outcome. An answer that begins with `Error:` is an error,
because the client marks every failure in this way.

A trajectory that is not joined with its folder is read alone, and then has no outcome.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.conversation.calls import MessageError, call
from trajmill.connectors.conversation.content import observation, shown
from trajmill.connectors.conversation.refusals import reject_conversation
from trajmill.connectors.conversation.shapes import spoken
from trajmill.connectors.conversation.told import Told
from trajmill.connectors.conversation.turns import Call, Text, Thought
from trajmill.connectors.reading.documents import json_document, opening
from trajmill.connectors.reading.fields import join_paragraphs, text_of
from trajmill.connectors.reading.values import json_value
from trajmill.schemas import (
    MESSAGE,
    Agent,
    Context,
    Environment,
    Observation,
    Outcome,
    ParseError,
    Reject,
    Step,
    Task,
    Trajectory,
    json_text,
)

_LOG: Final = "trajectory.json"
_VERDICTS: Final = ("verify.code.json", "verify.sql.json")
_DATABASE: Final = "initial.db"
_TELLING: Final = frozenset({*_VERDICTS, _DATABASE, "final.db"})
_MEMBERS: Final = frozenset({_LOG, *_TELLING, "server_code.py", "server.log"})

_PREFIX: Final = "mcp_tool_"
_LISTED: Final = re.compile(r"^(\s*\d+\.\s+)mcp_tool_", re.MULTILINE)
_BEGIN, _END = "<tool_call>", "</tool_call>"
_CALL_ID: Final = re.compile(r"call_(\d{13})_\d+")
_ENDS: Final = {"complete": True, "incomplete": False, "agent_error": False, "others": False}


class Awm(Connector):
    """Runs of agents in generated environments."""

    name: ClassVar[str] = "awm"
    version: ClassVar[str] = "4"
    domains: ClassVar[tuple[str, ...]] = ("mcp",)
    title: ClassVar[str] = "Agent World Model run folders (trajectory and verdicts)"
    companions = re.compile(r"[^/]*\.db|server(?:_code\.py|\.log)|agent\.log")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        beginning = opening(head)
        value = beginning.values[0] if beginning is not None and not beginning.lines else None
        if not isinstance(value, dict) or not {"scenario", "task_id", "task"} <= value.keys():
            return None
        if "max_iterations" in value:
            return Sniff(0.95, "an object of scenario, task and max_iterations")
        items = value.get("trajectory")
        first = items[0] if isinstance(items, list) and items else None
        if isinstance(first, dict) and "iteration" in first and not {"tool_calls", "tool_response"}.isdisjoint(first):
            return Sniff(0.95, "an object of scenario, task and a trajectory of iterations")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each folder of a `trajectory.json` with a verdict or a database beside it, without other files."""
        folders: dict[str, list[str]] = {}
        for path in paths:
            folder, _, file = path.rpartition("/")
            if file in _MEMBERS:
                folders.setdefault(folder, []).append(file)
        for folder, files in folders.items():
            prefix = f"{folder}/" if folder else ""
            if _LOG in files and not _TELLING.isdisjoint(files):
                yield Log(folder, {name: prefix + name for name in sorted(files)}, _LOG)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        member = _LOG if _LOG in blob.members else blob.members[0]
        value, _ = json_document(blob, member)
        if not isinstance(value, dict) or not isinstance(value.get("trajectory"), list):
            raise ParseError(blob.uri, 0, "bad_document", "wanted an object with trajectory", member)
        try:
            steps = _steps(value["trajectory"], member)
        except MessageError as error:
            yield reject_conversation(blob, self.name, 0, error.reason, error.detail, member=member)
            steps = []
        if not any(step.action.name != MESSAGE for step in steps):
            raise ParseError(blob.uri, -1, "no_transitions", "no item of the run holds a call that was run", member)
        outcome = None
        for verdict in _VERDICTS:
            if verdict in blob.members and outcome is None:
                try:
                    outcome = _outcome(json_document(blob, verdict)[0], verdict)
                except ParseError as error:
                    yield Reject.of(error, "record", self.name)
        instance = f"sha256:{blob.digest(_DATABASE)}" if _DATABASE in blob.members else None
        yield _trajectory(value, steps, outcome, instance)


def _trajectory(
    value: Mapping[str, Any], steps: list[Step], outcome: Outcome | None, instance: str | None
) -> Trajectory:
    scenario, task = text_of(value.get("scenario")), value.get("task_id")
    known = isinstance(task, int | str) and not isinstance(task, bool)
    name = "/".join(
        str(name_part)
        for name_part in (scenario, task if known else None, text_of(value.get("timestamp")))
        if name_part is not None
    )
    listed = next((step.next_observation for step in steps if step.action.name == "list_tools"), None)
    limit, turns = value.get("max_iterations"), value.get("total_iterations")
    if not _is_final(value["trajectory"]) and isinstance(limit, int) and isinstance(turns, int) and turns >= limit:
        steps[-1] = replace(steps[-1], truncated=True)
    catalogue = listed.content if listed is not None and not listed.is_error else None
    return Trajectory(
        native_id=name or "run",
        domain="mcp",
        steps=steps,
        environment=Environment(id=scenario, instance_id=instance, kind="code"),
        agent=Agent("awm", None, text_of(value.get("model"))),
        task=Task((f"{scenario}/{task}" if scenario else str(task)) if known else None, text_of(value.get("task"))),
        context=Context(
            action_space=json_text(_LISTED.sub(r"\1", catalogue)) if catalogue else None,
            agent_system=_system(value.get("messages")),
        ),
        outcome=outcome,
    )


def _is_final(items: list[Any]) -> bool:
    return any(isinstance(item, dict) and item.get("is_final") is True for item in items)


def _system(messages: object) -> str | None:
    first = messages[0] if isinstance(messages, list) and messages else None
    return text_of(first.get("content")) if isinstance(first, dict) and first.get("role") == "system" else None


def _outcome(value: Any, verdict: str) -> Outcome | None:
    """Read the outcome in a verifier's file; None if it states none."""
    if not isinstance(value, dict):
        return None
    judged = value.get("llm_judge")
    if verdict == "verify.sql.json":
        label = judged.get("classification") if isinstance(judged, dict) else None
        return Outcome(_ENDS.get(label), None, "sql and model judge") if isinstance(label, str) else None
    label = value.get("reward_type")
    return Outcome(_ENDS.get(label), None, "code") if isinstance(label, str) else None


def _steps(items: list[Any], member: str) -> list[Step]:
    """Return the steps of a run, in the order of the log.

    Raises:
        MessageError: an item does not match the format.
    """
    builder = Told(in_memory=True)
    for item in items:
        if not isinstance(item, dict):
            raise MessageError("bad_message", "wanted an object as an item of trajectory")
        step_call = _read_item(item)
        if step_call is not None:
            step_call.member = member
            builder.turn([step_call])
    return list(builder.steps())


def _read_item(item: Mapping[str, Any]) -> Call | None:
    """Return the call or the message of an item, with its answer; None if it holds neither."""
    content = item.get("content")
    calls = item.get("tool_calls")
    if (content is not None and not isinstance(content, str)) or (calls is not None and not isinstance(calls, list)):
        raise MessageError("bad_message", "wanted a text as content and a list as tool_calls")
    parts = list(spoken(_without_call(content or "") if calls else content or "", 0, None))
    text = join_paragraphs([part.text for part in parts if isinstance(part, Text)])
    thought = join_paragraphs([part.text for part in parts if isinstance(part, Thought)])
    if not calls:
        return None if text is None else Call(MESSAGE, json_text({"content": text}), None, 0, reasoning=thought)
    first = calls[0]
    if not isinstance(first, dict):
        raise MessageError("bad_message", "wanted an object in tool_calls")
    new_call = call(*_name_and_arguments(first), first.get("id"), 0)
    new_call.message, new_call.reasoning = text, thought
    at = _CALL_ID.fullmatch(new_call.call_id or "")
    new_call.at = int(at[1]) * 1000 if at is not None else None
    new_call.shown = _answer(item.get("tool_response"))
    return new_call


def _without_call(text: str) -> str:
    """Return the text without the first call written in it; if that is not closed, without all from its start."""
    begin = text.find(_BEGIN)
    if begin < 0:
        return text.strip()
    end = text.find(_END, begin)
    after = "" if end < 0 else text[end + len(_END) :]
    return f"{text[:begin].rstrip()}\n{after.lstrip()}".strip()


def _name_and_arguments(item_call: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the name and arguments of the tool behind a call."""
    name, arguments = item_call.get("name"), item_call.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json_value(arguments)
        except ValueError:
            return name, arguments
    if isinstance(name, str) and name.startswith(_PREFIX):
        return name.removeprefix(_PREFIX), arguments
    if name == "call_tool" and isinstance(arguments, dict) and isinstance(arguments.get("tool_name"), str):
        return arguments["tool_name"].removeprefix(_PREFIX), arguments.get("arguments")
    return name, arguments


def _answer(response: object) -> Observation | None:
    if not isinstance(response, dict):
        return None
    content = shown(response.get("content")).text or ""
    return observation(content, content.startswith("Error:"))
