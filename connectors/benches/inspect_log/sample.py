"""One sample of an Inspect log: the facts in its fields and events, except the order of its messages.

A sample whose messages were left out is rebuilt from its last model event, whose input may be in the sample's message
pool (`input_refs`, since 0.3.150). Any string `attachment://<hash>` (before 0.3.58 `tc://`) refers to the text of that
hash in the sample itself, and nothing else is ever opened. `target` and the texts of scorers are left out. `course`
makes the steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from trajmill.connectors.conversation import search_tools as vocabulary
from trajmill.connectors.conversation.content import media_type
from trajmill.connectors.conversation.declared_tools import declare
from trajmill.connectors.conversation.harness_text import Source, read_output
from trajmill.connectors.conversation.harness_text import truncation as cut_by
from trajmill.connectors.conversation.opaque import attachment_of_url
from trajmill.connectors.conversation.wrapped_output import Output, find_kill_limit
from trajmill.connectors.reading.fields import objects_of, text_of
from trajmill.connectors.reading.json_text import is_shallow
from trajmill.connectors.reading.large.outline import ARRAY, OBJECT, Array, Chosen
from trajmill.connectors.reading.times import microseconds
from trajmill.schemas import Attachment, Context, Observation, Outcome, json_text

_PROTOCOLS: Final = ("attachment://", "tc://")
_BY_HARNESS: Final = frozenset({"parsing", "approval"})
"""Kinds of tool errors with which a call never reached its tool."""

_OUT_OF_TIME: Final = "timeout"
_CLIENT: Final = Source("inspect_ai")
_BROWSER: Final = "web_browser_"
_EDITORS: Final = frozenset({"text_editor", "str_replace_editor", "str_replace_based_edit_tool", "apply_patch"})
SHELLS: Final = frozenset({"bash", "bash_session", "python", "shell", "exec", "terminal", "execute_bash"})
_GRADES: Final[Mapping[Any, float]] = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def domain(names: set[str]) -> str:
    """Return the domain of a sample from the names of the tools it called.

    Search has precedence, since agents that search often run code as well; then a browser's tree (web), a screen (os),
    editing (swe), a shell or interpreter (terminal). Other tools belong to a program of their own (mcp).
    """
    if any(vocabulary.common_word(name) in (vocabulary.SEARCH, vocabulary.VISIT) for name in names):
        return "search"
    if any(name.startswith(_BROWSER) for name in names):
        return "web"
    if "computer" in names:
        return "os"
    if names & _EDITORS:
        return "swe"
    return "terminal" if names & SHELLS else "mcp"


def objects(value: Any) -> Sequence[dict[str, Any]]:
    """Return the objects of an array; empty for other values."""
    if isinstance(value, Array):
        return Chosen(value, (index for index, item in enumerate(value) if isinstance(item, dict)))
    return objects_of(value)


def each_object(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of an array."""
    return (item for item in value if isinstance(item, dict)) if isinstance(value, ARRAY) else iter(())


class Attachments:
    """The texts that a sample stores under their hashes.

    Args:
        sample: the sample; the oldest logs store them in its `transcript`.
    """

    def __init__(self, sample: Mapping[str, Any]) -> None:
        transcript = sample.get("transcript")
        texts = sample.get("attachments") or (transcript.get("content") if isinstance(transcript, dict) else None)
        self._held = texts if isinstance(texts, OBJECT) else {}

    def text(self, value: str) -> str | None:
        """Return the text itself, or the attached text that it refers to; None if the sample does not hold it."""
        protocol = next((prefix for prefix in _PROTOCOLS if value.startswith(prefix)), None)
        if protocol is None or any(mark in value for mark in "\n ") or len(value) > 200:
            return value
        return text_of(self._held.get(value.removeprefix(protocol)))

    def value(self, value: Any) -> Any:
        """Return a JSON value of at most `CARRIED_DEPTH` levels with all references resolved, as far as possible."""
        if isinstance(value, str):
            text = self.text(value)
            return value if text is None else text
        if isinstance(value, list):
            return [self.value(inner) for inner in value]
        return {key: self.value(inner) for key, inner in value.items()} if isinstance(value, dict) else value


@dataclass(slots=True)
class Content:
    """Content of a message; `lost` if one of its texts is not in the log."""

    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    images: list[Attachment] = field(default_factory=list)
    uses: list[dict[str, Any]] = field(default_factory=list)
    lost: bool = False

    @property
    def text(self) -> str | None:
        """The texts joined to one; None if there are none."""
        return "\n".join(self.texts) if self.texts else None


def content(message: Mapping[str, Any], attachments: Attachments) -> Content:
    """Read the content of a message, which is a text or a list of parts."""
    parsed = Content()
    raw = message.get("content")
    parts: Any = [{"type": "text", "text": raw}] if isinstance(raw, str) and raw else raw
    if (thought := text_of(message.get("reasoning"))) is not None:
        parsed.reasoning.append(thought)
    for part in objects(parts):
        kind = part.get("type")
        if kind == "text" and isinstance(part.get("text"), str):
            text = attachments.text(part["text"])
            parsed.lost |= text is None
            parsed.texts += [text] if text else []
        elif kind == "reasoning" and not part.get("redacted"):
            thought = text_of(part.get("reasoning"))
            parsed.reasoning += [attachments.text(thought) or ""] if thought else []
        elif kind == "image" and isinstance(part.get("image"), str):
            image = attachment_of_url(attachments.text(part["image"]), "image")
            parsed.images += [] if image is None else [image]
        elif kind == "tool_use":
            parsed.uses.append(part)
    return parsed


def messages(sample: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the messages of a sample, or those of its last model event and its answer if it left its own out."""
    own = objects(sample.get("messages"))
    if own:
        return own
    event: dict[str, Any] = {}
    for sample_event in each_object(sample.get("events")):
        event = sample_event if sample_event.get("event") == "model" else event
    if not event:
        return []
    inputs = objects(event.get("input"))
    if not inputs and isinstance(event.get("input_refs"), list):
        data = sample.get("events_data")
        pool = sample.get("message_pool") or (data.get("messages") if isinstance(data, dict) else None)
        inputs = _resolve_references(event["input_refs"], objects(pool))
    output = event.get("output")
    choices = objects(output.get("choices")) if isinstance(output, dict) else []
    return [*inputs, *objects([choice.get("message") for choice in choices[:1]])]


def _resolve_references(refs: list[Any], pool: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages of a pool that ranges `[start, end)` refer to, at most as many as the pool has."""
    referred: list[dict[str, Any]] = []
    for ref in refs:
        if isinstance(ref, list) and len(ref) == 2 and all(isinstance(bound, int) and bound >= 0 for bound in ref):
            referred += pool[ref[0] : ref[1]]
        if len(referred) > len(pool):
            return referred[: len(pool)]
    return referred


def list_called_tools(conversation: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the names of the tools that a conversation calls."""
    names = set()
    for message in conversation:
        if message.get("role") == "assistant":
            names |= {text_of(block.get("function")) for block in objects(message.get("tool_calls"))}
            uses = (block for block in objects(message.get("content")) if block.get("type") == "tool_use")
            names |= {text_of(block.get("name")) or text_of(block.get("tool_type")) for block in uses}
    return {name for name in names if name}


def outcome(sample: Mapping[str, Any]) -> Outcome | None:
    """Return the outcome of the first scorer whose value is one grade or number."""
    scores = sample.get("scores")
    graded = scores if isinstance(scores, dict) else {"": sample.get("score")}
    for name, score in graded.items():
        value = score.get("value") if isinstance(score, dict) else None
        number = _GRADES.get(value) if isinstance(value, str) else None
        if isinstance(value, int | float):
            number = float(value)
        if number is not None and abs(number) < 3e38:
            return Outcome(True if number == 1 else False if number == 0 else None, number, name or None)
    return None


def context(sample: Mapping[str, Any], system: str, attachments: Attachments, renamed: bool) -> Context:
    """Return the system prompt, and the tools of all model events, since one agent may hand over to another."""
    declared: list[dict[str, Any]] = []
    for event in each_object(sample.get("events")):
        if event.get("event") == "model":
            declare(declared, objects(event.get("tools")))
    tools = [
        {
            key: attachments.value(tool[key])
            for key in ("name", "description", "parameters")
            if tool.get(key) is not None
        }
        for tool in declared
        if is_shallow(tool)
    ]
    if renamed:
        return vocabulary.context(tools, system)
    return Context(action_space=json_text(tools) if tools else None, agent_system=system or None)


@dataclass(frozen=True, slots=True)
class Times:
    """Times of calls with a unique id: begin in microseconds since 1970 UTC, and duration in seconds."""

    by_id: Mapping[str, tuple[int | None, float | None]]

    @classmethod
    def of(cls, sample: Mapping[str, Any]) -> Times:
        """Read the times in a sample's tool events."""
        times: dict[str, tuple[int | None, float | None]] = {}
        for event in each_object(sample.get("events")):
            key = text_of(event.get("id"))
            if event.get("event") == "tool" and key:
                begin, end = microseconds(event.get("timestamp")), microseconds(event.get("completed"))
                took = (end - begin) / 1e6 if begin is not None and end is not None and end >= begin else None
                times[key] = (None, None) if key in times else (begin, took)
        return cls(times)


def observation(message: Mapping[str, Any], name: str, attachments: Attachments) -> tuple[Observation, Output]:
    """Return the observation of a tool message, and its call's end: a timeout and the harness's words."""
    parsed = content(message, attachments)
    error = message.get("error")
    kind = error.get("type") if isinstance(error, dict) else None
    text, ended = parsed.text, Output(None)
    if isinstance(error, dict) and kind == _OUT_OF_TIME:
        text = text or ""
        error_text = attachments.text(error["message"]) if isinstance(error.get("message"), str) else None
        ended = Output(None, None, True, find_kill_limit(error_text), notes=(error_text,) if error_text else ())
    elif text is None and isinstance(error, dict) and isinstance(error.get("message"), str):
        text = attachments.text(error["message"])
    truncation = "recorder" if parsed.lost else "none"
    if kind == "output_limit" or cut_by(text or "", _CLIENT) == "harness":
        truncation = "harness"
    output = read_output(text, _CLIENT)
    text, ended = output.text, replace(ended, notes=(*output.notes, *ended.notes))
    tree = name.startswith(_BROWSER) and kind is None
    seen = Observation(
        content=text,
        media_type=media_type(text),
        form="screen" if tree else "response",
        dialect="inspect-axtree" if tree else None,
        origin="harness" if isinstance(kind, str) and kind in _BY_HARNESS else "environment",
        is_error=isinstance(error, dict),
        truncation=truncation,
        attachments=tuple(parsed.images),
    )
    return seen, ended
