"""Pairing of results with calls: the parts of a conversation, in the order of its log, as turns with their answers.

Adjacent words and calls of the agent form one turn, whether the log writes them as one message or several: the model
saw no result in between. A result that the model saw but the log lacks ends a turn too.

A result belongs to the open call of the preceding turn with its id, otherwise to an earlier call of that id, if there
is exactly one. If the result or the call has no id, the result belongs to the first open call of that turn with its
name, or to the only open call; a result without a name belongs to the first open call. A result without such a call is
never given to another call. A result that comes after a later turn has begun precedes none of that turn's calls.

Reminders that a harness appended to a result or put into a user's message (`<system-reminder>`) are the harness's
words. What a harness says back of the agent's last words is no answer. Shapes of messages (see `shapes`) and outcomes
are not known here. The turns of a long conversation are kept in a file; of each answered call, only its id and a hash
of its answer stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from trajmill.connectors.conversation.content import observation
from trajmill.connectors.conversation.harness_text import (
    ANY,
    CLAUDE_CODE,
    CLAUDE_CODE_TOOLS,
    PYDANTIC_AI,
    Source,
    read_output,
    speaker,
    truncation,
)
from trajmill.connectors.conversation.items import Items
from trajmill.connectors.conversation.mcp_printed import parse_printed
from trajmill.connectors.conversation.reminders import CLOSING, apart, voices
from trajmill.connectors.conversation.steps import course
from trajmill.connectors.conversation.tools import domain_of
from trajmill.connectors.conversation.turns import (
    Call,
    Item,
    Part,
    Result,
    Said,
    Sampled,
    System,
    Text,
    Thought,
    Turn,
    seconds_between,
)
from trajmill.connectors.conversation.wrapped_output import Output
from trajmill.connectors.reading.fields import object_of
from trajmill.connectors.reading.json_text import parse_if_json
from trajmill.schemas import Step, Steps
from trajmill.schemas.record import record

_PART_BYTES: Final = 512
"""Approximate memory of a part besides its texts, in bytes."""

_SEVERAL: Final = "several"
"""Marker for an id that several calls have."""

_ACTS: Final = (Text, Thought, Call)
_ENDINGS: Final = frozenset({"finish", "final_answer"})
"""Tools by which an agent ends its run; OpenHands and smolagents answer them with the agent's own words."""

_ANY: Final = Source(ANY)
_PYDANTIC: Final = Source(PYDANTIC_AI, None, "")
"""Source whose forms show that the framework, not a tool or a user, asks the agent to try again."""


@record
class Unmatched:
    """Result without a call; the reason is `result_without_call` or `result_repeated`."""

    result: Result
    reason: str


@record
class Conversation:
    """Steps, instruction and unmatched results of a conversation's parts.

    Attributes:
        steps: Steps in the order of the log; empty if the agent neither called nor said anything.
        domain: Domain according to its tools; see `tools`.
        instruction: The user's first text before the agent's first turn, unless the task is given elsewhere.
        system: System prompts before the first turn, joined by an empty line.
        unmatched: Results without a call, in the order of the log.
    """

    steps: list[Step] | Steps
    calls: int
    domain: str
    instruction: str | None
    system: str | None
    unmatched: list[Unmatched]


def conversation(parts: Iterable[Part], *, instructed: bool = False, member: str = "") -> Conversation:
    """Build the conversation of the parts.

    Args:
        parts: Parts in the order of the log. The results of a list are held in memory, like the list. The calls among
            them are filled in, so every conversation needs new parts.
        instructed: True if the task is given elsewhere, so that the user's first text is interleaved instead of the
            instruction.
        member: File of the log that contains the conversation.
    """
    pairing = Pairing([] if isinstance(parts, list) else Items(), member)
    for part in parts:
        pairing.take(part)
    built = course(pairing.items, instructed)
    system = "\n\n".join(pairing.system) or None
    return Conversation(
        built.steps, pairing.calls, domain_of(pairing.names), built.instruction, system, pairing.unmatched
    )


class Pairing:
    """Conversation that is read part by part.

    Attributes:
        system: System prompts before the first turn.
        names: Names of the called tools.
        unmatched: Results without a call.

    Args:
        items: Receives the turns and words.
        member: File of the log that contains the conversation.
    """

    def __init__(self, items: list[Item] | Items, member: str = "") -> None:
        self.items = items
        self._kept = items if isinstance(items, Items) else None
        self.system: list[str] = []
        self.calls = 0
        self.names: set[str] = set()
        self.unmatched: list[Unmatched] = []
        self._member = member
        self._turn: Turn | None = None
        self._speaks = False
        self._acted = 0
        self._by_id: dict[str, tuple[Turn, Call] | int | str] = {}

    def take(self, part: Part) -> None:
        """Add the next part of the log."""
        if isinstance(part, _ACTS):
            self._act(part)
            return
        if isinstance(part, Sampled):
            if self._turn is not None and self._speaks and self._acted == part.parts:
                self._turn.sampled = part.text
            return
        self._speaks = False
        if isinstance(part, Result):
            self._answer(part)
        elif isinstance(part, Said):
            if part.role == "user" and asks_again(part.text):
                part = replace(part, role="harness", answers=True)
            self._hear(*(_voices(part) if part.role == "user" and CLOSING.search(part.text) else (part,)))
        elif isinstance(part, System) and self._turn is not None:
            self._hear(Said("system" if part.replaces else "harness", part.text))
        elif isinstance(part, System) and part.text:
            self.system = [part.text] if part.replaces else [*self.system, part.text]

    def _act(self, part: Text | Thought | Call) -> None:
        turn = self._turn
        if turn is None or not self._speaks:
            turn = self._turn = Turn(part.offset, self._member, part.at)
            self.items.append(turn)
            self._speaks, self._acted = True, 0
        turn.sampled = None  # what was sampled before is not all of the turn
        self._acted += 1
        if isinstance(part, Text):
            turn.texts.append(part.text)
        elif isinstance(part, Thought):
            turn.thoughts.append(part.text)
        else:
            part.member = self._member
            turn.add(part)
            self.calls += 1
            self.names.add(part.name)
            if part.call_id is not None:
                self._by_id[part.call_id] = _SEVERAL if part.call_id in self._by_id else (turn, part)
        if self._kept is not None:
            self._grow(2 * len(part.arguments or "") if isinstance(part, Call) else len(part.text or ""))

    def _grow(self, size: int) -> None:
        if self._kept is not None:
            self._kept.grow(size + _PART_BYTES)

    def _hear(self, *messages: Said) -> None:
        for message in messages:
            self.items.append(message)
            self._grow(len(message.text))

    def _answer(self, result: Result) -> None:
        python = parse_printed(result.content) if result.content else None
        if python is not None:
            failed = result.is_error if python.failed is None else python.failed
            result = replace(result, content=python.text, is_error=failed)
        text = result.content
        content, notes = apart(text) if text else (text, ())
        if notes:
            result = replace(result, content=content)
            self._hear(*(Said("harness", note) for note in notes))
        asked = self._asked(result)
        if not isinstance(asked, tuple):
            repeated = isinstance(asked, int)
            if not repeated or asked != hash(result.content):
                self.unmatched.append(Unmatched(result, "result_repeated" if repeated else "result_without_call"))
            return
        turn, call = asked
        if _is_said_back(call, result.content):
            return
        failed = result.is_error is True
        own = asks_again(result.content or "")
        output = Output(result.content) if own else read_output(result.content, Source(None, None, call.name, failed))
        by_harness = output.cut or (python is not None and python.cut)
        texts = output.text or "", call.arguments or ""  # what the log lost of a call is missing from its answer too
        is_lost = result.lost or any(truncation(text, _ANY) == "recorder" for text in texts)
        cut = "harness" if by_harness else "recorder" if is_lost else "none"
        seen = observation(output.text, result.is_error, result.attachments, cut)
        if result.envelope is not None and output.text == text:  # else it holds what the harness added
            seen = replace(seen, envelope=result.envelope)
        client = CLAUDE_CODE if call.name in CLAUDE_CODE_TOOLS else ANY
        who = "harness" if own else speaker(output.text or "", Source(client, None, call.name, failed))
        if who is not None:
            seen = replace(seen, origin=who)
        call.shown = seen
        call.seconds = seconds_between(call.at, result.at)
        call.exit_code = result.exit_code
        call.ends(output)
        if call.call_id is not None and self._by_id.get(call.call_id) != _SEVERAL:
            self._by_id[call.call_id] = hash(result.content)
        if turn is not self._turn:
            call.late = True
            self.items.append(call.shown)
        self._grow(len(result.content or "") + len(result.envelope or ""))

    def _asked(self, result: Result) -> tuple[Turn, Call] | int | str | None:
        """Return the turn and the call that a result answers; a hash of the earlier answer if the call has one."""
        key, turn = result.call_id, self._turn
        if turn is None:
            return None
        waiting = [call for call in turn.calls if call.shown is None]
        if key is not None:
            for call in waiting:
                if call.call_id == key:
                    return turn, call
            known = self._by_id.get(key)
            if known is not None and known != _SEVERAL:
                return known
            waiting = [call for call in waiting if call.call_id is None]
        for call in waiting:
            if call.name == result.name:
                return turn, call
        return (turn, waiting[0]) if len(waiting) == 1 or (waiting and result.name is None) else None


def _is_said_back(call: Call, content: str | None) -> bool:
    """Check whether the answer to a call that ends the run is what the agent said with it."""
    if call.name not in _ENDINGS or not content:
        return False
    arguments = object_of(parse_if_json(call.arguments))
    return any(isinstance(value, str) and value.strip() == content.strip() for value in arguments.values())


def _voices(message: Said) -> list[Said]:
    """Split a message into the user's words and those that the harness put into it."""
    messages = [Said(role, text, at=message.at) for role, text in voices(message.text, own=False)]
    if message.attachments:
        position = next((index for index, part in enumerate(messages) if part.role == "user"), len(messages))
        text = messages[position].text if position < len(messages) else ""
        messages[position : position + 1] = [Said("user", text, message.attachments, at=message.at)]
    return messages


def asks_again(text: str) -> bool:
    """Check whether the whole text is the framework's request to try again."""
    return speaker(text, _PYDANTIC) is not None
