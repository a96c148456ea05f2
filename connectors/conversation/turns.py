"""Model of a conversation: the contents of a log in order, the turns that they form, and their packed form.

A format's reader yields, in the order of its log, the agent's words (`Text`), thoughts (`Thought`) and calls (`Call`),
the answers (`Result`), and the words of others (`Said`, `System`). From these parts `pairing` builds turns. If the log
itself assigns answers to calls, its reader builds the turns: a `Turn` holds the agent's actions between two answers,
and a `Call` is filled in with its answer later. `steps` builds steps from turns.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final

from trajmill.connectors.conversation.wrapped_output import Output
from trajmill.connectors.reading.fields import join_paragraphs
from trajmill.connectors.reading.times import microseconds
from trajmill.connectors.reading.values import json_value
from trajmill.schemas import MESSAGE, Attachment, Observation, call_text_of
from trajmill.schemas.record import record

Time = int | datetime | None
"""Time of an event: in µs since 1970 UTC, or by the log's own clock, possibly without a time zone."""


@record
class Said:
    """A text of the `user` or the `harness`; or `user_call` and `tool`, a call that the user made and its result.

    A `compaction` is the harness's summary, which takes the place of all that stood before; `system` is a system prompt
    that takes the place of the earlier one, as where one agent hands over to another.

    Attributes:
        role: one of the six.
        text: empty where a user sent only images.
        attachments: the images.
        uri: the page that the user showed.
        at: when.
        answers: whether it answers what the agent said; by default what a user says does, and nothing else.
    """

    role: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    uri: str | None = None
    at: Time = None
    answers: bool | None = None


@record
class Text:
    """Text that the agent said."""

    text: str
    offset: int
    at: Time = None


@record
class Thought:
    """Text of the agent's reasoning."""

    text: str
    offset: int
    at: Time = None


@dataclass(slots=True)
class Call:
    """Call and its outcome, which is filled in later in the log.

    Attributes:
        name: Tool.
        arguments: JSON text of an object; None without arguments.
        at: Time of its start.
        text: Form that a model reads, if it is not that of a call; see `written`.
        message: Words of the agent before it.
        reasoning: Reasoning of the agent before it.
        shown: Answer; None while there is none.
        seen: Observation before it, alone in a tuple, if the log states it.
        seconds: Seconds from call to answer.
        limit: Time limit in seconds, if it was known before the call.
        killed: True if the harness killed it, or stopped waiting, when the time ran out.
        named: Time limit in seconds that the harness named when the time ran out.
        notes: Texts of the harness with the answer.
        ending: Reward, terminated and truncated, if the log has them.
        late: True if the answer came after a later turn had begun, so that it precedes none of that turn's calls; it is
            then among the items, at its place in the log.
        server: Server that a language model's provider called for it.
        hosted: True if the provider answered it itself, within the agent's answer.
    """

    name: str
    arguments: str | None
    call_id: str | None
    offset: int
    member: str = ""
    at: Time = None
    text: str | None = None
    message: str | None = None
    reasoning: str | None = None
    shown: Observation | None = None
    seen: tuple[Observation | None] | None = None
    exit_code: int | None = None
    seconds: float | None = None
    notes: tuple[str, ...] = ()
    ending: tuple[float | None, bool | None, bool | None] = (None, None, None)
    late: bool = False
    limit: float | None = None
    killed: bool | None = None
    named: float | None = None
    server: str | None = None
    hosted: bool = False

    @property
    def written(self) -> str:
        """Form that a model reads."""
        return call_text_of(self.name, self.arguments) if self.text is None else self.text

    def ends(self, output: Output) -> None:
        """Record the outcome of the call from the harness's words around its output."""
        self.exit_code = output.exit_code if self.exit_code is None else self.exit_code
        self.killed, self.named = output.killed or self.killed, output.limit or self.named
        self.seconds = output.seconds if self.seconds is None else self.seconds
        self.notes += output.notes


@record
class Result:
    """Answer to a call; `call_id` and `name` are null where the log lacks them.

    `exit_code` is that of the call's code or command, if the log separates it from the content. `hosted` is True if the
    provider of the language model gave the answer, within the agent's answer. `envelope` is the MCP object whose text
    is the content. `lost` is True if a part of the answer is not in the log.
    """

    call_id: str | None
    name: str | None
    content: str | None
    offset: int
    is_error: bool | None = None
    attachments: tuple[Attachment, ...] = ()
    at: Time = None
    exit_code: int | None = None
    hosted: bool = False
    envelope: str | None = None
    lost: bool = False


@record
class System:
    """A system prompt, or a note of the harness if it comes after the agent's first turn.

    Attributes:
        replaces: whether it takes the place of the earlier one.
    """

    text: str
    replaces: bool = False


@record
class Unlogged:
    """Point at which the agent received the answer to its previous call, which the log lacks."""

    offset: int


@record
class Sampled:
    """Tokens that a model sampled for the agent's last parts, all of one answer.

    Attributes:
        text: token ids and log-probabilities, see `schemas.sampled_text`.
        parts: how many parts they are.
        offset: where the answer's record begins.
    """

    text: str
    parts: int
    offset: int


Part = Text | Thought | Call | Result | Said | System | Unlogged | Sampled


@dataclass(slots=True)
class Turn:
    """Actions of the agent before anything answered it.

    Attributes:
        at: when it began.
        calls: in their order.
        texts: what was said since the last call.
        thoughts: what was thought since the last call.
        mark: a number of the reader's own, under which it asks how many steps there were up to the turn's end.
        sampled: what the model sampled for all of it, see `Sampled`.
    """

    offset: int
    member: str = ""
    at: Time = None
    calls: list[Call] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    mark: int | None = None
    sampled: str | None = None

    def add(self, call: Call) -> None:
        """Add a call, with the words and reasoning before it."""
        if self.texts:
            call.message, self.texts = join_paragraphs([*self.texts, *([call.message] if call.message else [])]), []
        if self.thoughts:
            before = [call.reasoning] if call.reasoning else []
            call.reasoning, self.thoughts = join_paragraphs([*self.thoughts, *before]), []
        self.calls.append(call)

    def close(self) -> None:
        """Move the words and reasoning after the last call to that call."""
        if self.calls and (self.texts or self.thoughts):
            last = self.calls[-1]
            last.message = join_paragraphs([*([last.message] if last.message else []), *self.texts])
            last.reasoning = join_paragraphs([*([last.reasoning] if last.reasoning else []), *self.thoughts])
            self.texts, self.thoughts = [], []


@record
class Gap:
    """Missing part of a log: the state before the next turn is unknown."""


Item = Turn | Said | Observation | Gap
"""Turn, text between turns, unrequested observation of the environment, or a gap."""


def text_of_message(call: Call) -> str | None:
    """Return the agent's words if the call only says them; otherwise None."""
    if call.name != MESSAGE or call.call_id is not None or call.message is not None:
        return None
    value = json_value(call.arguments or "null")
    return value["content"] if isinstance(value, dict) and value.keys() == {"content"} else None


def began(at: Time) -> int | None:
    """Return the time in µs since 1970 UTC; None without a time zone."""
    return microseconds(at) if isinstance(at, datetime) else at


def seconds_between(begin: Time, end: Time) -> float | None:
    """Return the seconds between two times; None if they are not comparable or in the wrong order."""
    if isinstance(begin, int) and isinstance(end, int):
        return (end - begin) / 1e6 if end >= begin else None
    if not (isinstance(begin, datetime) and isinstance(end, datetime)):
        return None
    if (begin.tzinfo is None) != (end.tzinfo is None) or end < begin:
        return None
    return (end - begin).total_seconds()


_KINDS: Final[tuple[type[Any], ...]] = (
    Text,
    Thought,
    Call,
    Result,
    Said,
    System,
    Unlogged,
    Turn,
    Gap,
    Observation,
    Attachment,
    Sampled,
)
_NAMES: Final = {kind: tuple(one.name for one in fields(kind)) for kind in _KINDS}
_LISTS: Final = frozenset({"calls", "texts", "thoughts"})
_TIME: Final = -1


def pack(value: Any) -> Any:
    """Convert a part, an item, or their contents to plain values that `schemas.Spool` can write; see `unpack`."""
    if isinstance(value, tuple | list):
        return tuple(map(pack, value))
    if isinstance(value, datetime):
        return [_TIME, value.isoformat()]
    kind = type(value)
    if kind not in _NAMES:
        return value
    return [_KINDS.index(kind), *(pack(getattr(value, name)) for name in _NAMES[kind])]


def unpack(value: Any) -> Any:
    """Invert `pack`."""
    if isinstance(value, tuple):
        return tuple(map(unpack, value))
    if not isinstance(value, list):
        return value
    if value[0] == _TIME:
        return datetime.fromisoformat(value[1])
    kind = _KINDS[value[0]]
    fields = dict(zip(_NAMES[kind], map(unpack, value[1:]), strict=True))
    for name in _LISTS & fields.keys():
        fields[name] = list(fields[name])
    return kind(**fields)
