"""Pairing of results with calls: the parts of a conversation, in the order of its log, as turns with their answers.

What the agent says and calls with nothing of others in between is one turn, whether a log writes it as one message or
several: the model saw no result in between. A result that it saw and the log does not hold ends a turn too.

A result belongs to an open call of the turn before it with its id, else to an earlier call of that id, if there is one
such call. Where one of the two has no id, it belongs to the first open call of that turn with its name, or to the only
open one. A result without such a call is never given to another call. What comes once a later turn has begun stood
before none of that turn's calls.

Reminders that a harness hung on to a result or put into a user's message (`<system-reminder>`) are the harness's words.
This knows no shape of message (see `shapes`) and no outcome. Of a long conversation the turns stand in a file; what is
remembered of each answered call is its id and a hash of its answer.
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
    System,
    Text,
    Thought,
    Turn,
    seconds_between,
)
from trajmill.connectors.conversation.wrapped_output import Output
from trajmill.schemas import Step, Steps
from trajmill.schemas.record import record

_PART_BYTES: Final = 512
"""Memory that a part takes besides its texts, roughly, in bytes."""

_SEVERAL: Final = "several"
"""Stands for the call of an id that several calls have."""

_PYDANTIC: Final = Source(PYDANTIC_AI, None, "")
"""Speakers in the place of a tool or a user when the agent is to try again."""


@record
class Unmatched:
    """A result that was given to no call; reason `result_without_call` or `result_repeated`."""

    result: Result
    reason: str


@record
class Conversation:
    """Steps, instruction and unmatched results of the parts of a conversation.

    Attributes:
        steps: in the order of the log; empty if the agent neither called nor said anything.
        calls: number of steps that are calls.
        domain: as its tools tell it; see `tools`.
        instruction: the user's first text before the agent's first turn, unless the task is told elsewhere.
        system: the system prompts before the first turn, joined by an empty line.
        unmatched: results without a call, in the order of the log.
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
        parts: in the order of the log. What is made of a list is held in memory, as the list is. Calls among them are
            filled in, so parts are made anew for each conversation.
        instructed: the task is told elsewhere, so the user's first text is not the instruction but interleaved.
        member: the file of the log that holds the conversation.
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
    """A conversation while it is read, part by part.

    Attributes:
        items: its turns and words.
        system: system prompts before the first turn.
        calls: how many there were.
        names: of the tools that were called.
        unmatched: results that were given to no call.

    Args:
        items: gets the turns and words.
        member: the file of the log that holds the conversation.
    """

    def __init__(self, items: list[Item] | Items, member: str = "") -> None:
        self.items = items
        self.system: list[str] = []
        self.calls = 0
        self.names: set[str] = set()
        self.unmatched: list[Unmatched] = []
        self._member = member
        self._turn: Turn | None = None
        self._speaks = False
        self._by_id: dict[str, tuple[Turn, Call] | int | str] = {}

    def take(self, part: Part) -> None:
        """Takes in the next part of the log."""
        if isinstance(part, Text | Thought | Call):
            self._act(part)
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
            self._speaks = True
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
        self._grow(len(part.text or "") if isinstance(part, Text | Thought) else 2 * len(part.arguments or ""))

    def _grow(self, size: int) -> None:
        if isinstance(self.items, Items):
            self.items.grow(size + _PART_BYTES)

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
        failed = result.is_error is True
        own = asks_again(result.content or "")
        output = Output(result.content) if own else read_output(result.content, Source(None, None, call.name, failed))
        by_harness = output.cut or (python is not None and python.cut)
        cut = "harness" if by_harness else "recorder" if result.lost else "none"
        seen = observation(output.text, result.is_error, result.attachments, cut)
        if result.envelope is not None and output.text == text:  # else it holds what the harness added
            seen = replace(seen, envelope=result.envelope)
        if own:
            seen = replace(seen, origin="harness")
        else:
            client = CLAUDE_CODE if call.name in CLAUDE_CODE_TOOLS else ANY
            source = Source(client, None, call.name, failed)
            seen = replace(seen, origin=speaker(output.text or "", source) or seen.origin)
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
        """The turn and the call that a result answers; a hash of the answer before it if that call has one."""
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


def _voices(message: Said) -> list[Said]:
    """Split a message into the words of the user and those that the harness put into it."""
    messages = [Said(role, text, at=message.at) for role, text in voices(message.text, own=False)]
    if message.attachments:
        position = next((index for index, part in enumerate(messages) if part.role == "user"), len(messages))
        text = messages[position].text if position < len(messages) else ""
        messages[position : position + 1] = [Said("user", text, message.attachments, at=message.at)]
    return messages


def asks_again(text: str) -> bool:
    """Check if the text as a whole is the framework's."""
    return speaker(text, _PYDANTIC) is not None
