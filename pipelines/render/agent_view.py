"""The agent view: the conversation that an agent had, as chat messages with its tools, or why it is not to be had.

Where the world-model view predicts what the world answers, this one predicts what the agent did: the loss stands on
the assistant's messages. What a log says is restored letter by letter, arguments of calls as JSON values; a trajectory
of which a part was lost, moved or written anew by its reader is refused, never filled in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias

from trajmill.connectors.reading.values import value_or_none
from trajmill.pipelines.render.turns import Rows
from trajmill.schemas import MESSAGE, json_text

Row: TypeAlias = Mapping[str, Any]

RESTORED: Final = frozenset({"atif", "chat_tools", "otel_genai", "tau_bench", "vcr_cassette"})
"""Connectors whose rows hold a conversation as its messages were; tests compare each with messages of its logs.

Others keep an answer without the words around it, the issue instead of the prompt that held it, or no conversation.
"""

_SCENARIOS: Final = frozenset({"tau_bench"})
"""Of those, the ones whose instruction is what the simulated user was told, where the first words are interleaved."""

_HOSTED: Final = ("srvtoolu_", "mcptoolu_", "mcp_", "ci_", "ws_", "fs_", "ig_", "tsc_")
"""How ids begin of calls that a model's provider answered itself, within the model's answer (Anthropic, OpenAI)."""


class Conversation(NamedTuple):
    """What an agent was told, did and was answered.

    Attributes:
        messages: each with `role`, `content`, `reasoning_content`, `tool_calls` (JSON text of OpenAI's list),
            `tool_call_id`, `name` and `loss`; null where a message has none of it. `loss` is null but on the
            assistant's.
        tools: JSON text of the list of declared tools; None if the log declares none and none were required.
    """

    messages: list[dict[str, Any]]
    tools: str | None


class Refused(NamedTuple):
    """Why a conversation cannot be restored: the reason, and in words what was met."""

    reason: str
    detail: str


class _RefusedError(Exception):
    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.refused = Refused(reason, detail)


def agent_conversation(rows: Rows, requires_tools: bool = True) -> Conversation | Refused:
    """The conversation of a trajectory.

    Args:
        rows: all rows of one trajectory in order, as Python values of the transition schema, those that a
            world-model view omits too: what an agent said last is answered by nothing.
        requires_tools: whether a conversation is refused whose log declares no tools.
    """
    try:
        _require_whole(rows)
        return Conversation(list(_messages(rows)), _tools(rows[0], requires_tools))
    except _RefusedError as error:
        return error.refused


def _require_whole(rows: Rows) -> None:
    """Refuses what is no logged conversation, or only a part of one."""
    first = rows[0]
    if first["provenance"]["connector"] not in RESTORED:
        raise _RefusedError("format", "the format does not keep a conversation's messages as they were")
    if first["relation"] == "continuation":
        raise _RefusedError("continuation", "what stood before it is another trajectory")
    if [row["step"] for row in rows] != list(range(first["num_steps"])):
        raise _RefusedError("incomplete", f"wanted all {first['num_steps']} rows, met {len(rows)}")
    if first["task"]["instruction"] is None:
        raise _RefusedError("no_instruction", "the log does not hold what the agent was asked")


def _tools(first: Row, required: bool) -> str | None:
    space: str | None = first["context"]["action_space"]
    if space is None:
        if required:
            raise _RefusedError("no_tools", "the log does not declare the agent's tools")
        return None
    tools = value_or_none(space)
    if not isinstance(tools, list) or not all(isinstance(one, dict) for one in tools):
        raise _RefusedError("no_tools", "the tools are not a list of objects")
    return space


def _messages(rows: Rows) -> Iterator[dict[str, Any]]:
    first = rows[0]
    if first["context"]["agent_system"] is not None:
        yield _message("system", first["context"]["agent_system"])
    is_scenario = first["provenance"]["connector"] in _SCENARIOS and first["interleaved"] is not None
    if not is_scenario:
        yield _message("user", first["task"]["instruction"])
    last = rows[-1]["turn"]
    shown: str | None = None
    for turn, group in groupby(rows, key=lambda row: row["turn"]):
        calls = list(group)
        before = calls[0]["observation"]
        if before is not None and before["content"] != shown:
            raise _RefusedError("unasked", "the environment showed something without being asked")
        said = list(_said(calls[0]["interleaved"]))
        if turn and not said and shown is None:
            raise _RefusedError("unanswered", "something stood between two turns that the log does not hold")
        yield from said
        yield from _spoken(calls[0]) if _is_message(calls[0]) else _called(calls, turn == last)
        shown = next((one["content"] for one in (row["next_observation"] for row in reversed(calls)) if one), shown)


def _message(role: str, content: str | None, **more: Any) -> dict[str, Any]:
    return {
        "role": role,
        "content": content,
        "reasoning_content": None,
        "tool_calls": None,
        "tool_call_id": None,
        "name": None,
        "loss": None,
        **more,
    }


def _said(interleaved: str | None) -> Iterator[dict[str, Any]]:
    """What the user said between turns; of the words of a harness it is not known in which role they stood."""
    for one in json.loads(interleaved) if interleaved else ():
        if one["role"] != "user":
            raise _RefusedError("harness_words", f"words of role '{one['role']}' stand between two turns")
        yield _message("user", one["content"])


def _is_message(row: Row) -> bool:
    """Whether the row is what the agent said to the user, and no call."""
    return bool(row["action"]["name"] == MESSAGE and row["action"]["call_id"] is None)


def _spoken(row: Row) -> Iterator[dict[str, Any]]:
    value = value_or_none(row["action"]["arguments"] or "")
    if not isinstance(value, dict) or value.keys() != {"content"}:
        raise _RefusedError("words", "what the agent said is not a text alone")
    yield _message("assistant", value["content"], reasoning_content=row["action"]["reasoning"], loss=True)
    reply = row["next_observation"]
    if reply is None:
        return
    if reply["origin"] != "user":
        raise _RefusedError("harness_words", f"what the agent said was answered by the {reply['origin']}")
    yield _message("user", _content(reply))


def _called(calls: Sequence[Row], is_last: bool) -> Iterator[dict[str, Any]]:
    """The assistant's message with all calls of a turn, and the answer to each, in the order of the calls."""
    first = calls[0]["action"]
    if len(calls) != calls[0]["num_calls"]:
        raise _RefusedError("incomplete", "calls of a turn are not there")
    if any(row["action"]["message"] is not None or row["action"]["reasoning"] is not None for row in calls[1:]):
        raise _RefusedError("words_between_calls", "the agent said or thought something between two calls of a turn")
    ids = [row["action"]["call_id"] for row in calls]
    if not all(ids) or len(set(ids)) != len(ids):
        raise _RefusedError("call_ids", "calls of a turn have no ids of their own")
    if any(key.startswith(_HOSTED) for key in ids):
        raise _RefusedError("hosted", "the model's provider answered a call within the model's answer")
    yield _message(
        "assistant",
        first["message"],
        reasoning_content=first["reasoning"],
        tool_calls=json_text([_call(row["action"]) for row in calls]),
        loss=True,
    )
    for row in calls:
        answer = row["next_observation"]
        if answer is None and not is_last:
            raise _RefusedError("unanswered", "a call is not answered, and the conversation goes on")
        if row["exit_code"] is not None or row["timed_out"]:
            raise _RefusedError("unwrapped", "how a command ended was taken out of its answer")
        if answer is not None:
            told = row["action"]
            yield _message("tool", _content(answer), tool_call_id=told["call_id"], name=told["name"])


def _call(action: Row) -> dict[str, Any]:
    written = action["arguments"] if action["arguments"] is not None else "{}"
    call = value_or_none(action["text"])
    if not isinstance(call, dict) or call.keys() != {"name", "arguments"}:
        raise _RefusedError("call", "the text of an action is not that of a call")
    if isinstance(call["arguments"], str):  # no JSON object: the connector keeps what the agent wrote
        written = call["arguments"]
    return {
        "id": action["call_id"],
        "type": "function",
        "function": {"name": action["name"], "arguments": written},
    }


def _content(observation: Row) -> str:
    """The text of an answer, if that is all that was shown, and as it was shown."""
    if observation["attachments"]:
        raise _RefusedError("attachments", "a message held a picture or a file")
    if observation["truncation"] == "recorder":
        raise _RefusedError("truncated", "the log lost a part of an answer")
    if observation["dialect"] is not None:
        raise _RefusedError("rewritten", "a screen stands in trajmill's own form")
    return observation["content"] or ""
