r"""Result files of tau-bench: a JSON list of `{task_id, reward, info, traj, trial}`, one episode each.

>>> show(TauBench(), r'''
... [{"task_id": 4, "reward": 1.0, "info": {}, "trial": 0, "traj": [
...     {"role": "system", "content": "# Retail agent policy"},
...     {"role": "user", "content": "Where is F17?"},
...     {"role": "assistant", "content": null, "tool_calls": [
...         {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": "{\"order\": \"F17\"}"}}]},
...     {"role": "tool", "tool_call_id": "c1", "name": "get_order", "content": "{\"state\": \"sent\"}"},
...     {"role": "assistant", "content": "It was sent."},
...     {"role": "user", "content": "Thanks ###STOP###"}]}]
... ''')
action  | {"name": "get_order", "arguments": {"order": "F17"}}
after   | {"state": "sent"}
action  | {"name": "message", "arguments": {"content": "It was sent."}}
after   | Thanks ###STOP###

`traj` holds the input and output of the agent's model, in OpenAI's form: a system prompt (the policy), the simulated
user's words, tool calls and results. If ids of calls repeat within an episode, results are matched to calls by
position. A reply to the user is an action `message` whose next observation is the user's answer. The tools are programs
over an invented database, so the environment's kind is `code`; the simulated user is a model all the same, and its
words have the origin `user`. Only the heading of the policy states the domain (airline, retail); task ids count from 0
in each, so the domain is put before them.

The task's instruction is the text given to the simulated user (`info.task.instruction`); the user's first words are
interleaved. Agents that write their calls into the text (strategies `act` and `react`) have no tool calls in `traj`:
the call is the JSON after the last `Action:`, and the environment's answer begins with `API output: `; `respond` is a
message.

An episode that failed has `info.error` and mostly an empty `traj`: it is refused as `run_error`. Few-shot files
(`messages_display`) are rendered text and refused as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation.calls import MessageError, call
from trajmill.connectors.conversation.pairing import Conversation, conversation
from trajmill.connectors.conversation.refusals import reject_conversation, reject_unmatched
from trajmill.connectors.conversation.shapes import parts, parts_in
from trajmill.connectors.conversation.turns import Part, Result, Said, Text, Thought
from trajmill.connectors.reading.documents import json_document, opening
from trajmill.connectors.reading.fields import plain_text
from trajmill.connectors.reading.large.outline import ARRAY, Shape
from trajmill.connectors.reading.places import places_by_beginning
from trajmill.connectors.reading.values import object_or_none
from trajmill.schemas import Context, Environment, Outcome, ParseError, Reject, Task, Trajectory

_POLICY: Final = re.compile(r"\s*#\s*(\w{1,40}) agent policy", re.IGNORECASE)
_SHAPES: Final[list[Shape]] = [[{"traj": []}]]
_ACTION: Final = "Action:"
_ANSWER: Final = "API output: "
_DISPLAY: Final = "messages_display"
_ERROR: Final = "Error: "
_RESPOND: Final = "respond"


class TauBench(Connector):
    """Result files of tau-bench."""

    name: ClassVar[str] = "tau_bench"
    version: ClassVar[str] = "6"
    domains: ClassVar[tuple[str, ...]] = ("mcp",)
    title: ClassVar[str] = "tau-bench results (tool agents and a simulated user)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        beginning = opening(head)
        value = beginning.values[0] if beginning is not None and not beginning.lines else None
        if beginning is not None and isinstance(beginning.values[0], dict) and beginning.values[0].keys() == {_DISPLAY}:
            return Sniff(0.9, "the first line is a rendered example of tau-bench")
        first = value[0] if isinstance(value, list) and value else None
        if isinstance(first, dict) and "task_id" in first and "reward" in first and "info" in first:
            if isinstance(first.get("traj"), list):
                return Sniff(0.95, "a list whose first item has task_id, reward, info and traj")
            return Sniff(0.6, "a list whose first item has task_id, reward and info")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        if _first_bytes(blob).startswith(f'{{"{_DISPLAY}"'.encode()):
            detail = "examples of tau-bench are rendered text, in which call and answer cannot be told apart for sure"
            raise ParseError(blob.uri, 0, "rendered_text", detail)
        value, data = json_document(blob, "", _SHAPES)
        if not isinstance(value, ARRAY):
            raise ParseError(blob.uri, 0, "bad_document", "wanted a list of episodes")
        empty = True
        for record, offset in zip(value, places_by_beginning(data, value), strict=True):
            for output in self._episode(blob, record, offset):
                empty = empty and not isinstance(output, Trajectory)
                yield output
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no episode of the log holds a call of a tool")

    def _episode(self, blob: Blob, record: Any, offset: int) -> Iterator[Trajectory | Reject]:
        if not isinstance(record, dict) or not isinstance(record.get("traj"), ARRAY):
            yield reject_conversation(blob, self.name, offset, "bad_record", "wanted an object with traj")
            return
        stated = record.get("info")
        info: Mapping[str, Any] = stated if isinstance(stated, dict) else {}
        if not record["traj"]:
            error = info.get("error")
            reason = "no_calls" if error is None else "run_error"
            detail = f"the episode has no messages: {plain_text(error):.200}"
            yield reject_conversation(blob, self.name, offset, reason, detail)
            return
        instruction = _instruction(info)
        try:
            dialog = _course(record["traj"], offset, has_instruction=instruction is not None)
        except MessageError as error:
            yield reject_conversation(blob, self.name, offset, error.reason, error.detail)
            return
        for result in dialog.unmatched:
            yield reject_unmatched(blob.uri, self.name, result)
        if not dialog.calls:
            detail = "an episode without a tool call"
            yield reject_conversation(blob, self.name, offset, "no_calls", detail, rows=len(dialog.steps))
            return
        yield _trajectory(record, dialog, instruction or dialog.instruction)


def _first_bytes(blob: Blob) -> bytes:
    with blob.open() as stream:
        return stream.read(64).lstrip()


def _trajectory(record: Mapping[str, Any], dialog: Conversation, instruction: str | None) -> Trajectory:
    policy = _POLICY.match(dialog.system) if dialog.system else None
    domain = policy[1].lower() if policy is not None else None
    task, trial = record.get("task_id"), record.get("trial")
    known = isinstance(task, int | str)
    return Trajectory(
        native_id=f"{task}/{plain_text(trial)}" if known else "episode",
        domain="mcp",
        steps=dialog.steps,
        environment=Environment(id=domain, kind="code"),
        task=Task((f"{domain}/{task}" if domain else str(task)) if known else None, instruction),
        context=Context(agent_system=dialog.system),
        outcome=outcome_of(record.get("reward"), "tau-bench"),
    )


def _instruction(info: Mapping[str, Any]) -> str | None:
    task = info.get("task")
    text = task.get("instruction") if isinstance(task, dict) else None
    return text if isinstance(text, str) and text else None


def outcome_of(reward: object, verifier: str) -> Outcome | None:
    """Return the outcome from the product of the checks of tau-bench or tau2-bench, 0 to 1; 1 is a solved task."""
    if not isinstance(reward, int | float) or isinstance(reward, bool) or not 0 <= reward <= 1:
        return None
    return Outcome(abs(reward - 1) < 1e-6, float(reward), verifier)


def _course(messages: Sequence[Any], offset: int, *, has_instruction: bool) -> Conversation:
    if not any(map(_has_calls, messages)) and any(map(_is_answer, messages)):
        message_parts = _parse_written(messages, offset)
    else:
        message_parts = (part for message in messages for part in parts_in((message,), offset))
    marked = map(_mark_error, message_parts)
    return conversation(list(marked) if isinstance(messages, list) else marked, instructed=has_instruction)


def _mark_error(part: Part) -> Part:
    """Mark a result as an error if it begins like all errors of the benchmark's tools."""
    if isinstance(part, Result) and (part.content or "").startswith(_ERROR):
        return replace(part, is_error=True)
    return part


def _has_calls(message: object) -> bool:
    return isinstance(message, dict) and bool(message.get("tool_calls"))


def _is_answer(message: object) -> bool:
    content = message.get("content") if isinstance(message, dict) and message.get("role") == "user" else None
    return isinstance(content, str) and content.startswith(_ANSWER)


def _parse_written(messages: Sequence[Any], offset: int) -> Iterator[Part]:
    """Yield the parts of an episode whose calls are written in the agent's texts.

    Raises:
        MessageError: a text of the agent holds no call.
    """
    for message in messages:
        message_parts = parts(message, offset)
        if _is_answer(message):
            yield Result(None, None, message["content"].removeprefix(_ANSWER), offset)
        elif message_parts and isinstance(message_parts[0], Text):
            yield from _parse_written_call(message_parts[0].text, offset)
        else:
            yield from (part for part in message_parts if not isinstance(part, Said) or part.text)


def _parse_written_call(text: str, offset: int) -> Iterator[Part]:
    """Parse a text of the strategies `act` and `react` into thought and call; `respond` is a message to the user."""
    thought, mark, written = text.rpartition(_ACTION)
    value = object_or_none(written.strip()) if mark else None
    if value is None or not isinstance(value.get("name"), str):
        raise MessageError("calls_in_text", "wanted a call as JSON after the last 'Action:' of the agent's text")
    thought = thought.strip().removeprefix("Thought:").strip()
    if thought:
        yield Thought(thought, offset)
    arguments = value.get("arguments")
    if value["name"] == _RESPOND and isinstance(arguments, dict) and isinstance(arguments.get("content"), str):
        yield Text(arguments["content"], offset)
    else:
        yield call(value["name"], arguments, None, offset)
