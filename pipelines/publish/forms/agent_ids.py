"""Form `agent_ids`: token ids of agents' conversations, with those that a model sampled where the log holds them.

The chat template is rendered up to each message of the agent, and with it: what it adds in between is what the agent
said. Those tokens bear the loss, up to the one that ends the turn. The template has to leave what it showed before as
it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from trajmill.pipelines.publish.forms import ids
from trajmill.pipelines.publish.forms.tokenizing import IGNORED, Tokenizing
from trajmill.pipelines.render.agent_view import Conversation, Refused
from trajmill.schemas import ConfigError, json_text

SCHEMA: Final = pa.schema(
    [
        *ids.SCHEMA,
        ("logprobs", pa.list_(pa.float32())),
        ("turns", pa.list_(pa.struct([("begin", pa.int32()), ("end", pa.int32()), ("ids", pa.string())]))),
    ]
)
"""Columns of a row: those of the form `ids`, the log-probability of each token, and where each turn of the agent is."""

Message = Mapping[str, Any]


@dataclass
class _Encoded:
    """Tokens of a conversation so far, with the loss and the log-probability of each."""

    ids: list[int] = field(default_factory=list)
    loss: list[int] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)

    def add(self, ids: Sequence[int], loss: int, logprobs: Sequence[float] | None = None) -> None:
        self.ids += ids
        self.loss += [loss] * len(ids)
        self.logprobs += [None] * len(ids) if logprobs is None else logprobs


def encode(conversation: Conversation, tokenizing: Tokenizing) -> dict[str, Any] | Refused:
    """Encode a conversation as values of `SCHEMA`, of all columns that do not identify it.

    Raises:
        ConfigError: there is no chat template.
    """
    tokenizing.require_template()
    if any(map(tokenizing.control_strings, _texts(conversation))):
        return Refused("control_strings", "a text holds a control string of the tokenizer")
    try:
        return _encode(conversation, tokenizing)
    except ConfigError as error:
        return Refused("template", str(error))


def _encode(conversation: Conversation, tokenizing: Tokenizing) -> dict[str, Any]:
    tools = None if conversation.tools is None else json.loads(conversation.tools)
    messages = list(map(_for_template, conversation.messages))
    encoded, turns, before = _Encoded(), list[dict[str, Any]](), ""
    for turn in conversation.turns:
        asked = tokenizing.shown(messages[: turn.message], ask=True, tools=tools)
        answered = tokenizing.shown(messages[: turn.message + 1], tools=tools)
        if not asked.startswith(before) or not answered.startswith(asked):
            raise ConfigError("The chat template shows a message otherwise when others follow it.")
        text, sampled = answered[len(asked) :], turn.token_ids
        if not all(_is_in(text, piece) for piece in _pieces(conversation.messages[turn.message])):
            raise ConfigError("The chat template does not show all that a message says.")
        encoded.add(tokenizing.with_control(asked[len(before) :]).tolist(), 0)
        body, closing, rest = tokenizing.split_turn(text)
        begin, loss = len(encoded.ids), int(bool(conversation.messages[turn.message]["loss"]))
        if sampled is not None and tokenizing.knows(sampled) and _is_same(tokenizing, sampled, text):
            source = "sampled"
            encoded.add(sampled, loss, turn.logprobs)
            rest = rest if set(closing) <= set(sampled) else closing + rest  # the answer was cut
        else:
            source = "retokenized" if sampled is None else "mismatched"
            encoded.add(body + closing, loss)
        turns.append({"begin": begin, "end": len(encoded.ids), "ids": source})
        encoded.add(rest, 0)
        before = answered
    return {
        "input_ids": encoded.ids,
        "labels": [token if bears else IGNORED for token, bears in zip(encoded.ids, encoded.loss, strict=True)],
        "attention_mask": [1] * len(encoded.ids),
        "loss_mask": encoded.loss,
        "logprobs": encoded.logprobs,
        "turns": turns,
    }


def _texts(conversation: Conversation) -> Iterator[str]:
    yield conversation.tools or ""
    for message in conversation.messages:
        for name in ("content", "reasoning_content", "tool_calls"):
            yield message[name] or ""


def _for_template(message: Message) -> dict[str, Any]:
    """Return the message as chat templates take it: calls with objects as arguments, nothing that is null."""
    shown = {name: value for name, value in message.items() if value is not None and name != "loss"}
    shown.setdefault("content", "")
    if "tool_calls" in shown:
        shown["tool_calls"] = json.loads(shown["tool_calls"])
        for call in shown["tool_calls"]:
            call["function"]["arguments"] = _arguments(call)
    return shown


def _arguments(call: Mapping[str, Any]) -> Any:
    written: str = call["function"]["arguments"]
    try:
        return json.loads(written)
    except ValueError:
        return written


def _is_same(tokenizing: Tokenizing, sampled: Sequence[int], text: str) -> bool:
    """Check if ids decode to the text, but for white space, control tokens and how letters are escaped."""
    first, second = (
        re.sub(r"\\u([0-9a-fA-F]{4})", lambda escape: chr(int(escape[1], 16)), tokenizing.without_control(whole))
        for whole in (tokenizing.decoded(sampled), text)
    )
    return "".join(first.split()) == "".join(second.split())


def _pieces(message: Message) -> Iterator[str]:
    """Yield what a model has to write for a message, whatever the form of its calls: lines, names and values."""
    texts = [message["content"], message["reasoning_content"]]
    for call in json.loads(message["tool_calls"] or "[]"):
        texts += [call["function"]["name"], *_leaves(_arguments(call))]
    for text in texts:
        yield from (text or "").splitlines()


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


def _is_in(text: str, piece: str) -> bool:
    wanted = piece.strip()
    return wanted in text or json.dumps(wanted)[1:-1] in text or json_text(wanted)[1:-1] in text
