"""Messages of a Gemini CLI session as turns and texts, after replaying the log as the client wrote it.

A session is one JSON document with `messages`. Newer versions write a line for each change: a message (in full, and
again whenever one of its calls advances), `$set` of metadata and sometimes of `messages`, and `$rewindTo` a message,
which drops it and all messages after it. The facts come from the client's public source (chatRecordingService). The
first result of a call is kept, since later ones may be masked to save context. Messages that `$set` leaves out were
compressed, not undone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from trajmill.connectors.conversation.content import media_type
from trajmill.connectors.conversation.harness_text import (
    GEMINI_CLI,
    Source,
    is_clients,
    read_output,
    speaker,
    tools_of_others,
    truncation,
)
from trajmill.connectors.conversation.opaque import attachment_in, text_in
from trajmill.connectors.conversation.tools import domain_of
from trajmill.connectors.conversation.turns import Call, Item, Said, Turn
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.times import microseconds
from trajmill.schemas import Attachment, Observation, ParseError

SEARCHES: Final = frozenset({"google_web_search", "web_fetch"})

_MADE_AT: Final = re.compile(r"-(\d{13})-[0-9a-f]+$")
_ONE_BATCH: Final = 250_000
"""Longest time in µs between the records of calls made together in one message; a model takes longer to answer."""

_BY_MODEL: Final = ("model", "tokens", "thoughts", "toolCalls")


@dataclass(slots=True)
class Message:
    """The latest version of one message; `calls` holds the records of its calls by id, each with its first result."""

    record: dict[str, Any]
    offset: int
    calls: dict[str, dict[str, Any]] = field(default_factory=dict)

    def update(self, record: dict[str, Any], offset: int) -> None:
        """Replace the record by a later version."""
        self.record, self.offset = record, offset
        self.add_calls(record)

    def add_calls(self, record: dict[str, Any]) -> None:
        """Add the calls of a later version."""
        calls = record.get("toolCalls")
        if not isinstance(calls, list):
            return
        met: set[str] = set()
        for index, call in enumerate(calls):
            if not isinstance(call, dict):
                continue
            key = call.get("id")
            if not isinstance(key, str) or key in met:  # an id that two calls of one message share
                key = f"#{index}"
            met.add(key)
            known = self.calls.get(key)
            if known is None or known.get("result") is None:
                self.calls[key] = call


class Replay:
    """Messages of a session while its log is replayed.

    Attributes:
        meta: metadata, the first value of each key.
        messages: the messages by id, in order.
        paths: message lists as they were before a rewind that removed an answered call.
        errors: parse errors of lines that are rejected.
    """

    def __init__(self, uri: str, member: str = "") -> None:
        self.meta: dict[str, Any] = {}
        self.messages: dict[str, Message] = {}
        self.paths: list[list[Message]] = []
        self.errors: list[ParseError] = []
        self._uri, self._member = uri, member

    def line(self, offset: int, line: Any) -> None:
        """Process one line of the newer form, or the whole document of the older form."""
        if not isinstance(line, dict):
            self._report(offset, "not_an_object", f"wanted a JSON object, met {type(line).__name__}")
        elif isinstance(line.get("$rewindTo"), str):
            self._rewind(line["$rewindTo"])
        elif isinstance(line.get("$set"), dict):
            self._set(offset, line["$set"], False)
        elif "sessionId" in line or "projectHash" in line:
            self._set(offset, line, True)
        elif isinstance(line.get("id"), str) or "type" in line:
            self.message(offset, line)
        else:
            self._report(offset, "unknown_type", "wanted a message, metadata, $set or $rewindTo")

    def _report(self, offset: int, reason: str, detail: str) -> None:
        self.errors.append(ParseError(self._uri, offset, reason, detail, self._member))

    def message(self, offset: int, record: Any) -> None:
        """Process a message, or a later version of a known message."""
        if not isinstance(record, dict) or not isinstance(record.get("type"), str):
            self._report(offset, "bad_message", "wanted a message with a type")
            return
        key = record.get("id")
        if not isinstance(key, str):
            key = f"#{len(self.messages)}"
        known = self.messages.get(key)
        if known is None:
            known = self.messages[key] = Message(record, offset, {})
            if "toolCalls" in record:
                known.add_calls(record)
        else:
            known.update(record, offset)

    def _set(self, offset: int, values: dict[str, Any], first: bool) -> None:
        for key, value in values.items():
            if key != "messages":
                self.meta.setdefault(key, value)
        messages = values.get("messages")
        for record in messages if isinstance(messages, list) else ():
            name = record.get("id") if isinstance(record, dict) else None
            known = self.messages.get(name) if isinstance(name, str) else None
            if known is not None:
                known.add_calls(record)
            elif first or not _is_answer(record):
                self.message(offset, record if first else _own(record))

    def _rewind(self, key: str) -> None:
        keys = list(self.messages)
        dropped = keys[keys.index(key) :] if key in self.messages else keys
        if any(call.get("result") for dropped_key in dropped for call in self.messages[dropped_key].calls.values()):
            self.paths.append(list(self.messages.values()))
        for dropped_key in dropped:
            del self.messages[dropped_key]


def _is_answer(record: Any) -> bool:
    """Return True if a message of the model's history only carries results, which the calls already hold."""
    content = record.get("content") if isinstance(record, dict) else None
    return isinstance(content, list) and any(isinstance(part, dict) and "functionResponse" in part for part in content)


def _own(record: Any) -> Any:
    """Return the message, marked as the client's own if it is attributed to the model, which did not write it."""
    if isinstance(record, dict) and record.get("type") == "gemini" and not any(record.get(key) for key in _BY_MODEL):
        return {**record, "type": "info"}
    return record


class Rendering:
    """Converter of messages to items; `mcp` holds the known tools of MCP servers, `model` the first model named."""

    def __init__(self, uri: str, member: str = "") -> None:
        self.mcp: set[str] = set()
        self.model: str | None = None
        self.errors: list[ParseError] = []
        self._uri, self._member = uri, member
        self._told: set[tuple[int, str]] = set()

    def items(self, message: Message) -> list[Item]:
        """Return the turns and texts of a message, in order. They are created anew at each call."""
        return self._turns(message) if message.record.get("type") == "gemini" else self._said(message)

    def domain(self, names: Iterable[str]) -> str:
        """Return the domain of a trajectory from the names of its actions."""
        own = tools_of_others(GEMINI_CLI)
        return domain_of(names, "terminal", own, lambda name: name in self.mcp or name.startswith("mcp_"))

    def _said(self, message: Message) -> list[Item]:
        texts, attachments = self._parts(message.record.get("content"), message.offset)
        text = "".join(texts)  # as the client joins parts, which bring their own line ends
        if message.record.get("type") != "user":
            return [Said("harness", text)] if text and not text.isspace() else []
        if not attachments and not text.strip():
            return []
        command = text.lstrip().startswith(("/", "?")) and "\n" not in text.strip() and len(text.split()[0]) < 32
        role = "harness" if command or is_clients(text, GEMINI_CLI) else "user"
        return [Said(role, text, tuple(attachments))]

    def _turns(self, message: Message) -> list[Item]:
        record, offset = message.record, message.offset
        get = record.get
        model, content = get("model"), get("content")
        if self.model is None and isinstance(model, str) and model:
            self.model = model
        text = content if isinstance(content, str) else "".join(self._parts(content, offset)[0])
        texts = [text] if text and not text.isspace() else []
        thoughts = _thoughts(record["thoughts"]) if "thoughts" in record else []
        turn = Turn(offset, self._member, None, [], texts, thoughts)
        turns: list[Item] = [turn]
        before = None
        for call_record in message.calls.values():
            call = self._call(call_record, offset)
            if call is None:
                continue
            recorded = microseconds(call_record.get("timestamp")) if len(message.calls) > 1 else None
            if turn.calls and recorded is not None and before is not None and recorded - before > _ONE_BATCH:
                turn = Turn(offset, self._member)
                turns.append(turn)
            before = recorded
            turn.add(call)
        if not turn.calls:
            turn.at = microseconds(get("timestamp"))
        return turns

    def _report(self, offset: int, reason: str, detail: str) -> None:
        """Report an error once, even if its message is on several paths."""
        if (offset, detail) not in self._told:
            self._told.add((offset, detail))
            self.errors.append(ParseError(self._uri, offset, reason, detail, self._member))

    def _call(self, call_record: dict[str, Any], offset: int) -> Call | None:
        """Return the call of a record; report an error and return None if it is invalid."""
        get = call_record.get
        name, call_id, result, args = get("name"), get("id"), get("result"), get("args") or {}
        arguments = shallow_json(args) if isinstance(args, dict) else None
        if not isinstance(name, str) or not name or arguments is None:
            self._report(offset, "bad_call", "wanted a name and shallow arguments in a tool call")
            return None
        if not isinstance(call_id, str):
            call_id = None
        created = _MADE_AT.search(call_id) if call_id is not None and "-" in call_id else None
        at = int(created[1]) * 1000 if created else None
        call = Call(name, arguments, call_id, offset, self._member, at)
        display = get("displayName")
        if isinstance(display, str) and display.endswith(" MCP Server)"):
            self.mcp.add(name)
        if result is None or result == []:
            return call
        texts, attachments = self._parts(result, offset)
        text = "\n".join(texts)
        if at is not None and (recorded := microseconds(get("timestamp"))) is not None and recorded >= at:
            call.seconds = (recorded - at) / 1e6
        status = get("status")
        output = read_output(text, Source(GEMINI_CLI, None, name))
        call.ends(output)
        text = output.text or ""
        call.shown = Observation(
            content=None if attachments and not text else text,
            media_type=media_type(text),
            origin=_origin(name, text, call_record),
            is_error=None if status not in ("success", "error", "cancelled") else status != "success",
            truncation="harness" if output.cut else truncation(text, Source(GEMINI_CLI)),
            attachments=tuple(attachments),
        )
        return call

    def _parts(self, content: Any, offset: int) -> tuple[list[str], list[Attachment]]:
        """Return the texts and attachments of a content: a string, a part or a list of parts."""
        if isinstance(content, str):
            return [content], []
        texts: list[str] = []
        attachments: list[Attachment] = []
        for part in content if isinstance(content, list) else (content,):
            if isinstance(part, str):
                texts.append(part)
            elif isinstance(part, dict):
                if isinstance(part.get("text"), str):
                    if part.get("thought") is not True:
                        texts.append(part["text"])
                elif isinstance(part.get("functionResponse"), dict):
                    response = part["functionResponse"]
                    if (text := _response(response.get("response"))) is not None:
                        texts.append(text)
                    nested = response.get("parts")
                    if isinstance(nested, list) and nested:
                        more = self._parts(nested, offset)
                        texts += more[0]
                        attachments += more[1]
                elif isinstance(part.get("inlineData"), dict):
                    self._inline(part, offset, texts, attachments)
                elif "functionCall" not in part and (text := shallow_json(part)) is not None:
                    texts.append(text)
        return texts, attachments

    def _inline(self, part: dict[str, Any], offset: int, texts: list[str], attachments: list[Attachment]) -> None:
        """Add inline data as a text or an attachment; report them if they are no base64."""
        text, attachment = text_in(part), attachment_in(part)
        if text is not None:
            texts.append(text)
        elif attachment is not None:
            attachments.append(attachment)
        else:
            self._report(offset, "no_attached_bytes", "wanted base64 bytes in inline data")


def _response(response: Any) -> str | None:
    """Return the text of a function response: its output or error, else all of it as JSON; None if it has none."""
    if isinstance(response, dict) and len(response) == 1:
        output = response.get("output", response.get("error"))
        if isinstance(output, str):
            return output
    return response if response is None or isinstance(response, str) else shallow_json(response)


def _thoughts(thoughts: Any) -> list[str]:
    """Return each thought as the client shows it: its subject in bold, then its description."""
    texts = []
    for thought in thoughts if isinstance(thoughts, list) else ():
        if isinstance(thought, dict):
            subject, description = thought.get("subject"), thought.get("description")
            text = description if isinstance(description, str) else ""
            if isinstance(subject, str) and subject:
                texts.append(f"**{subject}**\n{text}" if text else f"**{subject}**")
            elif text:
                texts.append(text)
    return texts


def _origin(name: str, text: str, call_record: dict[str, Any]) -> str:
    who = speaker(text, Source(GEMINI_CLI, None, name, call_record.get("status") in ("error", "cancelled")))
    if who is not None:
        return who
    return "agent" if isinstance(call_record.get("agentId"), str) else "environment"
