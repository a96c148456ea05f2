"""Model of a conversation: the contents of a log in its order, the turns that they make up, and how both are packed.

A format's reader says, in the order of its log, what the agent said (`Text`), thought (`Thought`) and called (`Call`),
what answered (`Result`), and what others said (`Said`, `System`). These are the parts, of which `pairing` makes turns.
A reader whose log tells by itself which answer is whose makes the turns: a `Turn` holds what the agent did between two
answers, and a `Call` is filled in with its answer as the log goes on. `steps` makes steps of turns. Nothing here reads
a log.
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
"""Time of an event: in µs since 1970 UTC, or by the log's own clock, which may name no zone."""


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
    """Text that the agent said aloud."""

    text: str
    offset: int
    at: Time = None


@record
class Thought:
    """Text that the agent thought to itself."""

    text: str
    offset: int
    at: Time = None


@dataclass(slots=True)
class Call:
    """A call and what came of it; it is filled in as the log goes on.

    Attributes:
        name: the tool.
        arguments: JSON text of an object, None if it takes none.
        call_id: the log's id.
        offset: where its record begins.
        member: the file it stands in.
        at: when it began.
        text: the form a model reads, where it is not that of a call; see `written`.
        message: what the agent said before it.
        reasoning: what the agent thought before it.
        shown: the answer, None as long as there is none.
        seen: what stood before it, alone in a tuple, where the log says so itself.
        exit_code: of the command.
        seconds: from call to answer.
        limit: seconds that it was given, where they were known before it.
        killed: whether the harness killed it, or waited no longer, when they were up.
        named: seconds that it had been given, as the harness said when they were up.
        notes: texts of the harness that came with the answer.
        ending: reward, terminated and truncated, where the log has them.
        late: whether the answer came after a later turn had begun, so that it stood before none of that turn's calls;
            the answer then stands among the items, where it came.
        server: the server that a language model's provider called for it.
        hosted: whether the provider answered it itself, within the agent's answer.
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
        """The form a model reads."""
        return call_text_of(self.name, self.arguments) if self.text is None else self.text

    def ends(self, output: Output) -> None:
        """Takes in how what it started ended, as the harness's words around its output tell."""
        self.exit_code = output.exit_code if self.exit_code is None else self.exit_code
        self.killed, self.named = output.killed or self.killed, output.limit or self.named
        self.seconds = output.seconds if self.seconds is None else self.seconds
        self.notes += output.notes


@record
class Result:
    """Answer to a call; `call_id` and `name` are null where the log does not hold them.

    `exit_code` is that of the code or the command that the call ran, where the log tells it apart from the content;
    `hosted` says that the provider of the language model gave it, within the agent's answer; `envelope` is the object
    of MCP whose text the content is; `lost` says that a part of it is not in the log.
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
        text: the prompt.
        replaces: whether it takes the place of the earlier one.
    """

    text: str
    replaces: bool = False


@record
class Unlogged:
    """Point at which the agent was given the answer to its call before, which the log does not hold."""

    offset: int


Part = Text | Thought | Call | Result | Said | System | Unlogged


@dataclass(slots=True)
class Turn:
    """Actions of the agent before anything answered it.

    Attributes:
        offset: where its record begins.
        member: the file it stands in.
        at: when it began.
        calls: in their order.
        texts: what was said since the last call.
        thoughts: what was thought since the last call.
        mark: a number of the reader's own, under which it asks how many steps there were up to the turn's end.
    """

    offset: int
    member: str = ""
    at: Time = None
    calls: list[Call] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    mark: int | None = None

    def add(self, call: Call) -> None:
        """Takes in a call, with what was said and thought before it."""
        if self.texts:
            call.message, self.texts = join_paragraphs([*self.texts, *([call.message] if call.message else [])]), []
        if self.thoughts:
            before = [call.reasoning] if call.reasoning else []
            call.reasoning, self.thoughts = join_paragraphs([*self.thoughts, *before]), []
        self.calls.append(call)

    def close(self) -> None:
        """Gives the last call what was said and thought after it."""
        if self.calls and (self.texts or self.thoughts):
            last = self.calls[-1]
            last.message = join_paragraphs([*([last.message] if last.message else []), *self.texts])
            last.reasoning = join_paragraphs([*([last.reasoning] if last.reasoning else []), *self.thoughts])
            self.texts, self.thoughts = [], []


@record
class Gap:
    """Missing part of a log: what stood before the next turn is not known."""


Item = Turn | Said | Observation | Gap
"""A turn, a word said between turns, what the environment showed without being asked, or what is not there."""


def text_of_message(call: Call) -> str | None:
    """Return the agent's words, where the call is that of saying them and of nothing else."""
    if call.name != MESSAGE or call.call_id is not None or call.message is not None:
        return None
    value = json_value(call.arguments or "null")
    return value["content"] if isinstance(value, dict) and value.keys() == {"content"} else None


def began(at: Time) -> int | None:
    """The time in µs since 1970 UTC, None where it names no zone."""
    return microseconds(at) if isinstance(at, datetime) else at


def seconds_between(begin: Time, end: Time) -> float | None:
    """Seconds from one time to the other, None if they cannot be compared or stand in the wrong order."""
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
)
_NAMES: Final = {kind: tuple(one.name for one in fields(kind)) for kind in _KINDS}
_LISTS: Final = frozenset({"calls", "texts", "thoughts"})
_TIME: Final = -1


def pack(value: Any) -> Any:
    """A part, an item, or what they hold, as plain values that `schemas.Spool` can write; see `unpack`."""
    if isinstance(value, tuple | list):
        return tuple(map(pack, value))
    if isinstance(value, datetime):
        return [_TIME, value.isoformat()]
    kind = type(value)
    if kind not in _NAMES:
        return value
    return [_KINDS.index(kind), *(pack(getattr(value, name)) for name in _NAMES[kind])]


def unpack(value: Any) -> Any:
    """The inverse of `pack`."""
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
