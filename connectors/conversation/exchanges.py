"""Exchanges with language model APIs to conversations: each request repeats what was said before, and adds to it.

An exchange goes on with a conversation if its request begins with all that the conversation holds (see `history`); the
answer to the one before then stands in the history of the next, where its calls have their results. Else it begins a
conversation of its own, with the history that its request holds; what that shares with an earlier one, part by part, is
taken from there, since a response tells more than a history. A request that names an earlier response
(`previous_response_id`) or the conversation that the API keeps goes on with that, and one that begins with the answer
to an open call goes on with the conversation of this call. Another system prompt than the conversation had, as where
one agent hands over to another, takes its place from there on. What two responses say is never one turn, even where
nothing stands between them, as where an API paused. It decides nothing about what is carried on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Final, NamedTuple

from trajmill.connectors.conversation.declared_tools import declare, iterate_declared
from trajmill.connectors.conversation.history import Mark, Shared, marks, remove_blanks, shared
from trajmill.connectors.conversation.pairing import Conversation, Unmatched, conversation
from trajmill.connectors.conversation.sampled import sampled_in
from trajmill.connectors.conversation.shapes import parts_in
from trajmill.connectors.conversation.turns import Call, Part, Result, Said, Sampled, System, Text, Thought, Unlogged
from trajmill.connectors.conversation.written_calls import detect_written
from trajmill.connectors.reading.fields import objects_of, plain_text, str_of
from trajmill.schemas import Step

_FILE: Final = re.compile(r"This is file ([0-9a-zA-Z_-]{1,64}):")
"""Text that Pydantic AI writes before a tool's image, sent as the user's where tools may send none."""

_AWAITED: Final = {"role": "tool", "content": None}
"""Placeholder of the answer to a response's call; the next request contains the real answer."""


@dataclass(slots=True)
class Chain:
    """Conversation: its parts in order, and the setting that the requests describe.

    `marks` must be repeated by a later request; see `history`. `parent` is the conversation whose first `shared` parts
    it reuses.
    """

    parts: list[Part] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    tools: list[Any] = field(default_factory=list)
    model: str | None = None
    offset: int = 0
    parent: Chain | None = None
    shared: int = 0


class Chains:
    """Conversations of one log; exchanges are added in the order of the log."""

    def __init__(self) -> None:
        self.chains: list[Chain] = []
        self._responses: dict[str, tuple[Chain, int]] = {}
        self._outputs: dict[str, dict[str, Any]] = {}

    def take(self, offset: int, url: str, request: dict[str, Any], response: dict[str, Any]) -> bool:
        """Add an exchange; return False if the request belongs to no known API. The response may be empty.

        Raises:
            MessageError: A message has an unknown shape.
        """
        responds = "/responses" in url or response.get("object") == "response"
        request, response = _structure_calls(request, response)
        history = self._history(offset, request, responds)
        if history is None:
            return False
        chain = self.add(offset, history, _response_parts(response, offset))
        _settle(chain, request, response)
        for key in (response.get("id"), _conversation_id(request)):
            if isinstance(key, str) and key:
                self._responses[key] = chain, len(chain.parts)
        output = response.get("output")
        for item in output if isinstance(output, list) else ():
            if isinstance(item, dict) and isinstance(item.get("id"), str):
                self._outputs[item["id"]] = item
        return True

    def add(self, offset: int, history: list[Part], spoken: list[Part]) -> Chain:
        """Return the conversation that continues a history with new parts, or begins with it."""
        history_marks, prompt = marks(history), _prompt(history)
        alike = [(chain_before, shared(chain_before.marks, history_marks)) for chain_before in self.chains]
        chain, most = _find_continued(alike, history)
        if chain is None and (awaiting := self._find_awaiting(history)) is not None:
            chain, history = awaiting
            history_marks, most = marks(history), Shared(0, 0)
        if chain is None:
            chain = Chain(offset=offset)
            self.chains.append(chain)
            history = _reuse_parent(chain, alike, history, history_marks)
        else:
            history = _with_ids_of(chain, history, most.calls, _end(history_marks, most.told))
        if chain.parts and history and _is_thought_again(chain.parts[-1], history[0]):
            history = history[1:]
        if prompt and remove_blanks(prompt) != remove_blanks(_prompt([*chain.parts, *history])):
            history = [*history, System(prompt, replaces=True)]
        new = [*history, *spoken]
        if chain.parts and new and _acts(chain.parts[-1]) and _acts(new[0]):
            chain.parts.append(Unlogged(offset))  # the agent was asked again, so it is another turn
        chain.marks += marks(new, len(chain.parts))
        chain.parts += new
        return chain

    def _find_awaiting(self, history: list[Part]) -> tuple[Chain, list[Part]] | None:
        """Find the conversation whose open call a history answers, and return what the history adds to it.

        The API keeps what was said before, or made a summary of it, so that the history begins with the answer, or with
        the call.
        """
        parts: list[Part] = [part for part in history if not (isinstance(part, System) or _summarizes(part))]
        repeated = list(takewhile(_acts, parts))
        rest = parts[len(repeated) :]
        answered = rest[0].call_id if rest and isinstance(rest[0], Result) else None
        calls = {part.call_id for part in repeated if isinstance(part, Call)}
        for chain in reversed(self.chains if answered is not None else ()):
            last = next((part for part in reversed(chain.parts) if _has_id(part, answered)), None)
            if isinstance(last, Call) and calls <= {part.call_id for part in chain.parts if isinstance(part, Call)}:
                return chain, rest
        return None

    def _history(self, offset: int, request: dict[str, Any], responds: bool) -> list[Part] | None:
        """Return the conversation in the request; None if it belongs to no known API."""
        before: list[Part] = []
        messages: Any = None
        for key, member in (("messages", "role"), ("contents", "parts")):
            listed = request.get(key)
            if isinstance(listed, list) and all(isinstance(entry, dict) and member in entry for entry in listed):
                messages = listed
        if messages is None and responds:
            messages = request.get("input")
            known = self._responses.get(str_of(request.get("previous_response_id")) or _conversation_id(request))
            before = known[0].parts[: known[1]] if known else []
            messages = [self._referred(item) for item in messages] if isinstance(messages, list) else messages
        if not isinstance(messages, list | str):
            return None
        system = [request.get(key) for key in ("instructions", "system", "systemInstruction", "system_instruction")]
        parts: list[Part] = [part for prompt in system if prompt is not None for part in _system(prompt)]
        parts += [Said("user", messages)] if isinstance(messages, str) else parts_in(messages, offset)
        prompts = [part for part in parts if isinstance(part, System)] if before else []
        if prompts:
            before = [part for part in before if not isinstance(part, System)]
        return [*prompts, *before, *(part for part in parts if part not in prompts)]

    def _referred(self, item: Any) -> Any:
        """Return the output item that an input item refers to by its id; otherwise the input item."""
        if isinstance(item, dict) and item.get("type") == "item_reference":
            return self._outputs.get(plain_text(item.get("id")), item)
        return item


def _conversation_id(request: dict[str, Any]) -> str:
    """Return the id under which the API keeps the conversation; empty if the request names none."""
    named = request.get("conversation")
    return str_of(named.get("id") if isinstance(named, dict) else named)


def _structure_calls(request: dict[str, Any], response: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Convert calls written in the texts of an exchange without declared tools to structured calls."""
    asked, choices = objects_of(request.get("messages")), objects_of(response.get("choices"))
    if not asked or request.get("tools") or request.get("functions"):
        return request, response
    choice = choices[0] if choices else {}
    reply = choice.get("message") if choices else response
    replies = [{**reply, "role": "assistant"}] if isinstance(reply, dict) and "content" in reply else []
    written = detect_written([*asked, *replies, _AWAITED], str_of(request.get("system")), [])
    if written is None:
        return request, response
    reply_choices = (
        {"choices": [{**choice, "message": message} for message in written.structured(replies)][:1]} if replies else {}
    )
    return {**request, "messages": list(written.structured(asked))}, {**response, **reply_choices}


def _find_continued(alike: list[tuple[Chain, Shared]], history: list[Part]) -> tuple[Chain | None, Shared]:
    """Find the longest conversation that the history begins with; of several the one with its ids, else the last."""
    best, most, known = None, Shared(0, 0), 0
    for chain, now in reversed(alike):
        if now.known < max(len(chain.marks), most.known, 1):
            continue
        ids = sum(
            _id(chain.parts[position]) == _id(history[history_position]) for position, history_position in now.calls
        )
        if (now.known, ids) > (most.known, known):
            best, most, known = chain, now, ids
    return best, most


def _reuse_parent(
    chain: Chain, alike: list[tuple[Chain, Shared]], history: list[Part], history_marks: list[Mark]
) -> list[Part]:
    """Return the history with its beginning taken from the parent, the conversation that shares most with it."""
    best, most = max(alike, key=lambda pair: pair[1].known, default=(None, Shared(0, 0)))
    if best is None or not most.known:
        return history
    chain.parent, chain.shared = best, _end(best.marks, most.known)
    chain.shared += any(isinstance(part, Sampled) for part in best.parts[chain.shared : chain.shared + 1])
    after = _with_ids_of(best, history, most.calls, _end(history_marks, most.told))
    return [*best.parts[: chain.shared], *after]


def _is_thought_again(last: Part, first: Part) -> bool:
    """Check if a history tells again what a response that broke off ended with, since no thought is compared."""
    return isinstance(last, Thought) and isinstance(first, Thought) and last.text.strip() == first.text.strip()


def _prompt(parts: Sequence[Part]) -> str:
    """The system prompt in effect behind the parts; empty if they have none."""
    later = [part.text for part in parts if isinstance(part, System) and part.replaces]
    if later:
        return later[-1]
    first = next((position for position, part in enumerate(parts) if not isinstance(part, System)), len(parts))
    return "\n\n".join(part.text for part in parts[:first] if isinstance(part, System) and part.text)


def _end(known: list[Mark], count: int) -> int:
    """Return the position at which the parts of the first `count` marks end."""
    return known[count - 1].place + 1 if count else 0


def _id(part: Part) -> str | None:
    return part.call_id if isinstance(part, Call) else None


def _summarizes(part: Part) -> bool:
    return isinstance(part, Said) and part.role == "compaction"


def _has_id(part: Part, call_id: str | None) -> bool:
    return isinstance(part, Call | Result) and part.call_id == call_id


def _acts(part: Part) -> bool:
    return isinstance(part, Text | Thought | Call | Sampled)


def _with_ids_of(chain: Chain, history: list[Part], calls: Sequence[tuple[int, int]], after: int) -> list[Part]:
    """Return the history from a part on, with its results under the conversation's ids of their calls.

    A call without an id gets its id in the history, since results refer to that.
    """
    renamed: dict[str | None, str] = {}
    for position, history_position in calls:
        ours, theirs = chain.parts[position], history[history_position]
        if not (isinstance(ours, Call) and isinstance(theirs, Call)) or theirs.call_id in (None, ours.call_id):
            continue
        if ours.call_id is None:
            ours.call_id = theirs.call_id
        else:
            renamed[theirs.call_id] = ours.call_id
    return [
        replace(part, call_id=renamed.get(part.call_id, part.call_id)) if isinstance(part, Result) else part
        for part in history[after:]
    ]


def _system(value: Any) -> list[Part]:
    """Return the parts of a system prompt outside the messages."""
    if isinstance(value, str):
        return [System(value)] if value else []
    parts = value.get("parts") if isinstance(value, dict) else value
    listed = parts if isinstance(parts, list) else []
    texts = [part["text"] for part in listed if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return [System("\n".join(texts))] if texts else []


def _response_parts(response: dict[str, Any], offset: int) -> list[Part]:
    """Return the parts of a response of any API; only the first of several choices counts."""
    for key, inner in (("choices", "message"), ("candidates", "content")):
        listed = response.get(key)
        if isinstance(listed, list) and listed and isinstance(listed[0], dict):
            parts = _agent_parts(listed[0].get(inner), offset)
            sampled = sampled_in(listed[0])
            return parts if sampled is None else [*parts, Sampled(sampled, len(parts), offset)]
    output = response.get("output")
    if isinstance(output, list):
        return parts_in([item for item in output if isinstance(item, dict)], offset)
    if isinstance(response.get("content"), list) and response.get("role") == "assistant":
        return _agent_parts({"content": response["content"]}, offset)
    if isinstance(output, dict) and isinstance(output.get("message"), dict):  # of Bedrock
        return _agent_parts(output["message"], offset)
    return _agent_parts(response.get("message"), offset)


def _agent_parts(message: Any, offset: int) -> list[Part]:
    return parts_in([{**message, "role": "assistant"}], offset) if isinstance(message, dict) else []


class Settled(NamedTuple):
    """Conversation of some parts, with the position of each step's first part."""

    conversation: Conversation
    steps: list[Step]
    places: list[int]
    lost: list[Unmatched]


def settle_parts(parts: Sequence[Part]) -> Settled:
    """Build the conversation of the parts, which are not changed.

    Images that a client sent as the user's, since an API accepts none from tools, move to the results that refer to
    them.
    """
    filled = _with_files(parts)
    # the position of each part replaces its offset, so that the steps show which part they begin with
    numbered = [
        replace(part, offset=position) if isinstance(part, Text | Thought | Call | Result | Unlogged) else part
        for position, part in enumerate(filled)
    ]
    result = conversation(numbered)
    positions = [step.offset for step in result.steps]
    offsets = [part.offset if not isinstance(part, Said | System) else 0 for part in parts]
    steps = [replace(step, offset=offsets[position]) for step, position in zip(result.steps, positions, strict=True)]
    lost = [
        replace(entry, result=replace(entry.result, offset=offsets[entry.result.offset])) for entry in result.unmatched
    ]
    return Settled(result, steps, positions, lost)


def _with_files(parts: Sequence[Part]) -> list[Part]:
    filled = list(parts)
    for position, part in enumerate(filled):
        named = _FILE.fullmatch(part.text) if isinstance(part, Said) and part.attachments else None
        if named is None or not isinstance(part, Said):
            continue
        for before in range(position - 1, -1, -1):
            result = filled[before]
            if isinstance(result, Result) and f"See file {named[1]}" in (result.content or ""):
                filled[before] = replace(result, attachments=(*result.attachments, *part.attachments))
                filled[position] = Said("harness", part.text)
                break
    return filled


def _settle(chain: Chain, request: dict[str, Any], response: dict[str, Any]) -> None:
    """Record the tools and the model of the exchange."""
    declare(chain.tools, iterate_declared(request, response))
    models = (response.get("model"), response.get("modelVersion"), request.get("model"))
    chain.model = chain.model or next((name for name in models if isinstance(name, str) and name), None)
