"""The agent view: the conversation of an agent as chat messages with its tools.

The world-model view predicts the answers of the environment; this view predicts the agent's actions, and the loss is on
the assistant's messages. Texts of the log are restored exactly, and nothing is invented. `Fidelity` states what the log
or its rows lack. Where the agent saw something that the rows lack, the conversation ends before that point, since the
agent's next action answers a text that is unknown. The remaining conversation is faithful.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise, takewhile
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from trajmill.connectors.conversation.harness_text import asks_to_retry
from trajmill.connectors.reading.values import value_or_none
from trajmill.pipelines.render.turns import Rows
from trajmill.schemas import MESSAGE, json_text

Row: TypeAlias = Mapping[str, Any]

Reasoning = Literal["keep", "strip", "last"]
"""The reasoning that is kept: all, none, or that of the messages after the user's last message."""

_NO_CONVERSATIONS: Final = frozenset({"aider", "swebench_eval", "swebench_predictions", "webvoyager"})
"""Connectors whose answers were shown to a person or to nobody, or whose agent was shown pictures throughout."""

_SCENARIOS: Final = frozenset({"tau2", "tau_bench"})
"""Connectors whose instruction was given to the simulated user. The agent never saw it."""

_UNSEEN: Final = frozenset({"tool", "user_call", "system"})
"""Roles of what stands in no message between turns: the user's own calls and their answers, and system prompts."""

_HARNESS: Final = "harness"
_COMPACTION: Final = "compaction"
_SYSTEM: Final = "system"

_HOSTED: Final = ("srvtoolu_", "mcptoolu_", "mcp_", "ci_", "ws_", "fs_", "ig_", "tsc_")
"""Prefixes of ids of calls that a model's provider answered within the model's answer (Anthropic, OpenAI)."""


class Fidelity(NamedTuple):
    """Differences between a conversation and its log.

    Attributes:
        system: `logged`, or `not_logged`: the log holds no system prompt.
        task: `logged`, or `not_logged`: the log does not hold the agent's task.
        tools: `logged`; `derived`: the declarations are the connector's; or `not_logged`.
        calls: `logged`; `hosted`: the model's provider answered some calls within one message of the agent, which is
            several messages here; or `parsed`: the agent wrote some calls as text, in its own form.
        words: `logged`, or `joined`: the agent's words and reasoning between the calls of a message are placed before
            the calls.
        answers: `logged`, or `unwrapped`: the exit status of a command was taken out of its answer.
        harness: `logged`, or `as_user`: texts of the harness are user messages with the name `harness` before the
            agent's next message. They may have been part of another message or of a system prompt.
        begin: `logged`, or `compacted`: the conversation continues from a summary of the earlier part, which is a
            message of the harness. Other texts that the harness may have kept are unknown.
        end: `logged`, or the reason of a `Refused`: the conversation ends before its log does.
    """

    system: str
    task: str
    tools: str
    calls: str
    words: str
    answers: str
    harness: str
    begin: str
    end: str


class TurnIds(NamedTuple):
    """Token ids of a message of the agent.

    Attributes:
        message: its position among the messages.
        ids: `sampled`: the log holds what the model sampled for it; `retokenized`: a tokenizer makes them of its text.
        token_ids: the sampled ones.
        logprobs: a number for each of them, where the log holds any.
    """

    message: int
    ids: str
    token_ids: list[int] | None
    logprobs: list[float] | None


class Conversation(NamedTuple):
    """Messages to, from and about an agent: what it was told, did and was answered.

    Attributes:
        messages: each with `role`, `content`, `reasoning_content`, `tool_calls` (JSON text of OpenAI's list),
            `tool_call_id`, `name` and `loss`; null where a message has none of it. `loss` is null but on the
            assistant's, and there where another system prompt held.
        tools: JSON text of the list of tools; None where there is none.
        fidelity: how far it is that of the log.
    """

    messages: list[dict[str, Any]]
    tools: str | None
    turns: list[TurnIds]
    fidelity: Fidelity


class Refused(NamedTuple):
    """Refusal to restore a conversation: the reason, and a description of the obstacle."""

    reason: str
    detail: str


class _RefusedError(Exception):
    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.refused = Refused(reason, detail)


def agent_conversations(rows: Rows, reasoning: Reasoning = "keep") -> list[Conversation | Refused]:
    """The conversations of a trajectory, as far as the rows hold what the agent saw: one, one more for each compaction,
    and one more for each system prompt that takes the place of another.

    Args:
        rows: all rows of one trajectory in order, as Python values of the transition schema, those that a
            world-model view omits too: what an agent said last is answered by nothing.
    """
    try:
        _require_conversation(rows)
    except _RefusedError as error:
        return [error.refused]
    return [_conversation(*part, reasoning) for part in _parts(_with_retry_notes(rows))]


def _with_retry_notes(rows: Rows) -> Rows:
    """The rows with each request of Pydantic AI to try again behind the answer that it was part of, if that is known:
    one answer alone, or as many failed ones as there are requests.
    """
    restored = [dict(row) for row in rows]
    for number, row in enumerate(rows):
        entries = json.loads(row["interleaved"]) if row["interleaved"] else []
        notes = [entry for entry in entries if entry["role"] == _HARNESS and asks_to_retry(entry["content"])]
        if not notes or not number:
            continue
        answered = [one for one in restored[number - rows[number - 1]["num_calls"] : number] if one["next_observation"]]
        failed = answered if len(answered) == 1 else [one for one in answered if one["next_observation"]["is_error"]]
        if len(failed) != len(notes):
            continue
        for one, note in zip(failed, notes, strict=True):
            answer = one["next_observation"]
            content = "\n\n".join(filter(None, (answer["content"], note["content"])))
            one["next_observation"] = {**answer, "content": content}
        restored[number]["interleaved"] = json_text([entry for entry in entries if entry not in notes])
        for one in restored[number : number + row["num_calls"]]:
            if one["observation"] == rows[answered[-1]["step"]]["next_observation"]:
                one["observation"] = answered[-1]["next_observation"]
    return restored


def _parts(rows: Rows) -> Iterator[tuple[Rows, int, str | None]]:
    """Yield the rows of each conversation, the number of those that another holds too, and its system prompt.

    Of what stood before a compaction the agent saw no more than a summary.
    """
    begins = [number for number, row in enumerate(rows) if number == 0 or _is_resumed(row)]
    prompt: str | None = rows[0]["context"]["agent_system"]
    for begin, end in pairwise([*begins, len(rows)]):
        prompts = {begin: prompt}
        prompts |= {number: text for number in range(begin, end) if (text := _new_prompt(rows[number]))}
        for first, last in pairwise([*prompts, end]):
            prompt = prompts[first]
            yield rows[begin:last], first - begin, prompt


def _new_prompt(row: Row) -> str | None:
    """The system prompt that takes the place of the earlier one before the row; None if none does."""
    entries = json.loads(row["interleaved"]) if row["interleaved"] else ()
    return next((entry["content"] for entry in reversed(entries) if entry["role"] == _SYSTEM), None)


def _conversation(rows: Rows, known: int, prompt: str | None, reasoning: Reasoning) -> Conversation | Refused:
    messages = [] if prompt is None else [_message("system", prompt)]
    messages += _opening(rows[0])
    restored: list[Row] = []
    end: Refused | None = None
    try:
        for calls, added in _turns(rows):
            is_known = len(restored) < known
            messages += ({**message, "loss": None} for message in added) if is_known else added
            restored += calls
    except _RefusedError as error:
        end = error.refused
        if len(restored) <= known:
            return end
        while messages[-1]["role"] != "assistant":
            messages.pop()  # the agent answered to more than that
    tools = _tools(rows[0])
    fidelity = _fidelity(messages, restored, tools, prompt is not None, "logged" if end is None else end.reason)
    messages = _with_reasoning(messages, reasoning)
    samples = [message.pop("sampled") for message in messages]
    turns = [
        _turn(number, samples[number]) for number, message in enumerate(messages) if message["role"] == "assistant"
    ]
    return Conversation(messages, tools, turns, fidelity)


def _turn(number: int, sampled: str | None) -> TurnIds:
    if sampled is None:
        return TurnIds(number, "retokenized", None, None)
    return TurnIds(number, "sampled", **json.loads(sampled))


def _require_conversation(rows: Rows) -> None:
    """Refuse rows that are not a conversation, or that lack its beginning."""
    first = rows[0]
    if first["provenance"]["connector"] in _NO_CONVERSATIONS or not any(map(_has_words, rows)):
        raise _RefusedError("no_conversation", "the log holds what was done, not what a model was told and said")
    if first["relation"] == "continuation":
        raise _RefusedError("continuation", "what stood before it is another trajectory")
    if [row["step"] for row in rows] != list(range(first["num_steps"])):
        raise _RefusedError("incomplete", f"wanted all {first['num_steps']} rows, met {len(rows)}")


def _has_words(row: Row) -> bool:
    action = row["action"]
    texts = (row["task"]["instruction"], row["context"]["agent_system"], action["message"], action["reasoning"])
    return action["name"] == MESSAGE or any(text is not None for text in texts)


def _opening(first: Row) -> Iterator[dict[str, Any]]:
    """Yield the messages before the agent's first but the system prompt; words of the harness come before the task, as
    most harnesses have it.
    """
    words = _words_before(first)
    if _is_resumed(first):
        yield from (_heard(role, content) for role, content in words[_last_compaction(words) :])
        words = []
    yield from (_heard(role, content) for role, content in words if role != "user")
    if first["step"] == 0 and _task(first) is not None:
        yield _message("user", _task(first))
    yield from (_heard(role, content) for role, content in words if role == "user")


def _is_resumed(row: Row) -> bool:
    return any(role == _COMPACTION for role, _ in _words_before(row))


def _last_compaction(words: Sequence[tuple[str, str]]) -> int:
    return max(number for number, (role, _) in enumerate(words) if role == _COMPACTION)


def _task(first: Row) -> str | None:
    instruction: str | None = first["task"]["instruction"]
    return None if first["provenance"]["connector"] in _SCENARIOS else instruction


def _turns(rows: Rows) -> Iterator[tuple[Sequence[Row], list[dict[str, Any]]]]:
    """Yield the messages of each turn, and the rows that they restore; as in the opening, words of the harness come
    before those of the user.
    """
    last = rows[-1]["turn"]
    is_first = True
    replies: list[dict[str, Any]] = []
    shown = (rows[0]["observation"] or {}).get("content") if _is_resumed(rows[0]) else None
    for turn, group in groupby(rows, key=lambda row: row["turn"]):
        calls = list(group)
        before = calls[0]["observation"]
        if before is not None and before["content"] != shown:
            raise _RefusedError("unasked", "the environment showed something without being asked")
        if not is_first:
            words = [_heard(role, content) for role, content in _words_before(calls[0])]
            if not words and shown is None:
                raise _RefusedError("unanswered", "something stood between two turns that the log does not hold")
            harness = list(takewhile(lambda message: message["name"] == _HARNESS, words))
            yield [], [*harness, *replies, *words[len(harness) :]]
        is_first, replies = False, []
        if len(calls) != calls[0]["num_calls"]:
            raise _RefusedError("incomplete", "calls of a turn are not there")
        yield calls, [_spoken(calls[0]) if _is_message(calls[0]) else _call_message(calls)]
        for row in calls:
            answer = row["next_observation"]
            if answer is not None and _is_message(row):
                replies.append(_answer(row))
            elif answer is not None:
                yield [], [_answer(row)]
            elif turn != last and not _is_message(row):
                raise _RefusedError("unanswered", "a call is not answered, and the conversation goes on")
        shown = next(
            (
                observation["content"]
                for observation in (row["next_observation"] for row in reversed(calls))
                if observation
            ),
            shown,
        )
    yield [], replies


def _message(role: str, content: str | None, **more: Any) -> dict[str, Any]:
    return {
        "role": role,
        "content": content,
        "reasoning_content": None,
        "tool_calls": None,
        "tool_call_id": None,
        "name": None,
        "loss": None,
        "sampled": None,
        **more,
    }


def _heard(role: str, content: str) -> dict[str, Any]:
    return _message("user", content, name=None if role == "user" else _HARNESS)


def _words_before(row: Row) -> list[tuple[str, str]]:
    """Return (role, text) of the texts that the agent was shown before the row, in the order of the log."""
    entries = json.loads(row["interleaved"]) if row["interleaved"] else ()
    return [(entry["role"], entry["content"]) for entry in entries if entry["role"] not in _UNSEEN]


def _is_message(row: Row) -> bool:
    """Return True if the row is a message of the agent to the user rather than a call."""
    return bool(row["action"]["name"] == MESSAGE and row["action"]["call_id"] is None)


def _spoken(row: Row) -> dict[str, Any]:
    value = value_or_none(row["action"]["arguments"] or "")
    if not isinstance(value, dict) or value.keys() != {"content"}:
        raise _RefusedError("words", "what the agent said is not a text alone")
    action = row["action"]
    return _message(
        "assistant", value["content"], reasoning_content=action["reasoning"], loss=True, sampled=action["sampled"]
    )


def _call_message(calls: Sequence[Row]) -> dict[str, Any]:
    """Build the agent's message with all calls of a turn, in the order of the calls."""
    return _message(
        "assistant",
        _join_texts(calls, "message"),
        reasoning_content=_join_texts(calls, "reasoning"),
        tool_calls=json_text([_call(row["action"]) for row in calls]),
        loss=True,
        sampled=calls[0]["action"]["sampled"],
    )


def _join_texts(calls: Sequence[Row], member: str) -> str | None:
    return "\n\n".join(row["action"][member] for row in calls if row["action"][member] is not None) or None


def _call(action: Row) -> dict[str, Any]:
    written = action["arguments"] if action["arguments"] is not None else "{}"
    call = value_or_none(action["text"])
    if not isinstance(call, dict) or call.keys() != {"name", "arguments"}:
        raise _RefusedError("call", "the text of an action is not that of a call")
    if isinstance(call["arguments"], str):  # no JSON object: the connector keeps what the agent wrote
        written = call["arguments"]
    return {"id": action["call_id"], "type": "function", "function": {"name": call["name"], "arguments": written}}


def _answer(row: Row) -> dict[str, Any]:
    """Return the answer to a call or to the agent's message.

    Refuse an answer that the rows do not hold in full and unchanged.
    """
    answer = row["next_observation"]
    if answer["attachments"]:
        raise _RefusedError("attachments", "a message held a picture or a file")
    if answer["truncation"] == "recorder":
        raise _RefusedError("truncated", "the log lost a part of an answer")
    if answer["dialect"] is not None:
        raise _RefusedError("rewritten", "a screen stands in trajmill's own form")
    content = answer["content"] or ""
    if _is_message(row):
        return _heard(answer["origin"], content)
    action = row["action"]
    return _message("tool", content, tool_call_id=action["call_id"], name=_call(action)["function"]["name"])


def _tools(first: Row) -> str | None:
    space: str | None = first["context"]["action_space"]
    tools = value_or_none(space or "")
    return space if isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools) else None


def _fidelity(messages: Sequence[Row], rows: Sequence[Row], tools: str | None, has_prompt: bool, end: str) -> Fidelity:
    """Describe the differences between the messages, which restore these rows, and the log."""
    first = rows[0]
    is_derived = first["context"]["origin"] != "logged"
    known = set() if tools is None or is_derived else {_name(tool) for tool in json.loads(tools)}
    calls = [row["action"] for row in rows if not _is_message(row)]
    is_parsed = any(call["call_id"] is None and call["name"] not in known for call in calls)
    is_hosted = any((call["call_id"] or "").startswith(_HOSTED) for call in calls)
    is_joined = any(
        row["call_index"] and (row["action"]["message"] is not None or row["action"]["reasoning"] is not None)
        for row in rows
    )
    is_unwrapped = any(row["exit_code"] is not None or row["timed_out"] for row in rows)
    return Fidelity(
        system="logged" if has_prompt else "not_logged",
        task="logged" if first["task"]["instruction"] is not None else "not_logged",
        tools="not_logged" if tools is None else "derived" if is_derived else "logged",
        calls="parsed" if is_parsed else "hosted" if is_hosted else "logged",
        words="joined" if is_joined else "logged",
        answers="unwrapped" if is_unwrapped else "logged",
        harness="as_user"
        if any(message["name"] == _HARNESS and message["role"] == "user" for message in messages)
        else "logged",
        begin="compacted" if _is_resumed(first) else "logged",
        end=end,
    )


def _name(tool: Row) -> Any:
    function = tool.get("function")
    return function.get("name") if isinstance(function, dict) else tool.get("name")


def _with_reasoning(messages: list[dict[str, Any]], reasoning: Reasoning) -> list[dict[str, Any]]:
    if reasoning == "keep":
        return messages
    users = [
        number
        for number, message_of in enumerate(messages)
        if message_of["role"] == "user" and message_of["name"] is None
    ]
    begin = len(messages) if reasoning == "strip" else max(users, default=-1) + 1
    return [_without_reasoning(message) for message in messages[:begin]] + messages[begin:]


def _without_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message without its reasoning, and without what was sampled for both."""
    return message if message["reasoning_content"] is None else message | {"reasoning_content": None, "sampled": None}
