"""Lines of a Codex rollout as turns and messages; `codex` describes what becomes of them.

A line is `{timestamp, type, payload}`; before version 0.3 it was the bare item. Every text occurs twice, as a
`response_item` and as an `event_msg`, and the content is taken from the former. The latter states where a response
ended and what a command printed, which reveals the client's own words around the output.

Ends of turns: an action after an answer begins a new turn. As an exception, versions up to 0.40 write the call and
answer of each parallel call in pairs, all at one moment, with neither a token count nor a turn context between them.
Later versions rewrite a whole session at one moment when it is resumed or forked, and leave out its token counts.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace
from typing import Any, Final

from trajmill.connectors.agents.codex_texts import CLIENT, is_killed_by_code, limit, origin
from trajmill.connectors.conversation.content import media_type
from trajmill.connectors.conversation.harness_text import CODEX, Source, read_output, split_by_twin, truncation, voices
from trajmill.connectors.conversation.items import Items
from trajmill.connectors.conversation.opaque import attachment_of_url
from trajmill.connectors.conversation.turns import Call, Said, Turn, seconds_between
from trajmill.connectors.conversation.wrapped_output import Output
from trajmill.connectors.reading.fields import brief, text_in
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.own_arguments import arguments_in
from trajmill.connectors.reading.times import microseconds
from trajmill.schemas import Attachment, Observation, ParseError, json_text

ITEMS: Final = frozenset(
    {
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
        "web_search_call",
        "tool_search_call",
        "tool_search_output",
    }
)
"""Types of items that are kept."""

_SERVED: Final = "web_search_call"
"""A call that the model's API runs itself. The model continues with the answer, which no log holds."""

_SILENT: Final = frozenset({"ghost_snapshot", "compaction", "compaction_summary", "context_compaction", "other"})
"""Items without text: snapshots of the repository and encrypted summaries."""

_AT_ONCE: Final = 20_000
"""Largest distance in µs of two lines that were written together; a model takes longer to answer."""

_PAIRED: Final = re.compile(r"0\.(?:[0-9]|[1-3][0-9]|40)(?![0-9])")
"""Versions that write call and answer in pairs. A log without a version is older than any log with one."""


class Reader:
    """Reader of one rollout, line by line, into `items`; `errors` collects what could not be read.

    Attributes:
        meta: payload of the first line, empty if there is none.
        model: the first model that is named.
        cwd: the working folder that was stated last.
        interrupted: whether the turn was aborted and no action followed.
    """

    def __init__(self, uri: str, member: str = "") -> None:
        self.uri, self.member = uri, member
        self.items = Items()
        self.errors: list[ParseError] = []
        self.meta: dict[str, Any] = {}
        self.model: str | None = None
        self.cwd: str | None = None
        self.interrupted = False
        self._turn: Turn | None = None
        self._answered_at: int | None = None
        self._answered = False
        self._ended = False
        self._waiting: dict[str, deque[Call]] = {}
        self._last: dict[str, int] = {}
        self._put_out: dict[str, str] = {}
        self._unknown: set[str] = set()
        self._told_meta = False
        self._paired = True

    def line(self, offset: int, line: Any) -> None:
        """Process one line."""
        if not isinstance(line, dict):
            self._report(offset, "not_an_object", f"wanted a JSON object, met {type(line).__name__}")
            return
        kind, payload = line.get("type"), line.get("payload")
        if not isinstance(payload, dict):
            self._bare(offset, line, kind)
        elif kind == "response_item":
            self.item(offset, payload, line.get("timestamp"))
        elif kind == "event_msg":
            call_id, put_out = payload.get("call_id"), payload.get("aggregated_output")
            if payload.get("type") == "exec_command_end" and isinstance(call_id, str) and isinstance(put_out, str):
                self._put_out[call_id] = put_out
            self._ended = self._ended or payload.get("type") in ("token_count", "turn_aborted")
            self.interrupted = self.interrupted or payload.get("type") == "turn_aborted"
        elif kind == "turn_context":
            self._ended = True
            self._context(payload)
        elif kind == "session_meta":
            self._met(payload)
        elif kind == "compacted":
            message = payload.get("message")
            self._say([("compaction", message)] if isinstance(message, str) and message else [], ())
        else:
            self._unknown_type(offset, kind, "a line")

    def _bare(self, offset: int, line: dict[str, Any], kind: Any) -> None:
        """Process a line of the old form, without a payload."""
        if isinstance(kind, str) and (kind in ITEMS or kind in _SILENT):
            self.item(offset, line, line.get("timestamp"))
        elif "record_type" not in line:
            if kind is None and isinstance(line.get("id"), str):
                self._met(line)
            else:
                self._unknown_type(offset, kind, "a line")

    def _met(self, payload: dict[str, Any]) -> None:
        if not self._told_meta:
            self._told_meta = True
            self.meta = payload
            version = payload.get("cli_version")
            self._paired = not isinstance(version, str) or _PAIRED.match(version) is not None
            self._context(payload)

    def _context(self, payload: dict[str, Any]) -> None:
        cwd, model = payload.get("cwd"), payload.get("model")
        if isinstance(cwd, str) and cwd:
            self.cwd = cwd
        if self.model is None and isinstance(model, str) and model:
            self.model = model

    def _report(self, offset: int, reason: str, detail: str) -> None:
        self.errors.append(ParseError(self.uri, offset, reason, detail, self.member))

    def _unknown_type(self, offset: int, kind: Any, subject: str) -> None:
        name = f"{subject} of type {brief(kind)}"
        if name not in self._unknown:
            self._unknown.add(name)
            self._report(offset, "unknown_type", f"{name}; further ones in this log are not told")

    def item(self, offset: int, item: dict[str, Any], timestamp: Any) -> None:
        """Process one item of the conversation."""
        kind = item.get("type")
        kind = kind if isinstance(kind, str) else brief(kind)
        if kind == "reasoning":
            self._acts(offset, timestamp).thoughts.extend(_thoughts(item))
        elif kind == "message":
            self._message(offset, item, timestamp)
        elif kind in ("function_call_output", "custom_tool_call_output", "tool_search_output"):
            self._result(offset, item, timestamp)
        elif kind in ITEMS:
            self._call(offset, kind, item, timestamp)
        elif kind not in _SILENT:
            self._unknown_type(offset, kind, "an item")

    def _acts(self, offset: int, timestamp: Any) -> Turn:
        """Return the turn to which an action of the agent belongs; begin a new turn where needed."""
        self.interrupted = False
        turn = self._turn
        if turn is not None and (self._answered or self._ended):
            at = microseconds(timestamp) if isinstance(timestamp, str) else None
            together = (
                not self._ended
                and self._paired
                and at is not None
                and self._answered_at is not None
                and 0 <= at - self._answered_at <= _AT_ONCE
            )
            turn = turn if together else None
        if turn is None:
            turn = Turn(offset, self.member, at=microseconds(timestamp) if isinstance(timestamp, str) else None)
            self.items.append(turn)
            self._turn, self._answered, self._ended = turn, False, False
        return turn

    def _say(self, pieces: list[tuple[str, str]], attachments: tuple[Attachment, ...]) -> None:
        """Add the messages between turns; texts of one role in one message are joined."""
        messages: list[Said] = []
        for role, text in pieces:
            if role == "user" and messages and messages[-1].role == "user":
                messages[-1] = Said(role, f"{messages[-1].text}\n{text}", (), self.cwd)
            else:
                messages.append(Said(role, text, (), self.cwd))
        if attachments:
            first_user = next(
                (index for index, message in enumerate(messages) if message.role == "user"), len(messages)
            )
            text = messages[first_user].text if first_user < len(messages) else ""
            messages[first_user : first_user + 1] = [Said("user", text, attachments, self.cwd)]
        if messages:
            for message in messages:
                self.items.append(message)
            self._turn = None

    def _message(self, offset: int, item: dict[str, Any], timestamp: Any) -> None:
        role, content = item.get("role"), item.get("content")
        parts: list[Any] = [content] if isinstance(content, str) else content if isinstance(content, list) else []
        texts = [text for part in parts if (text := _text(part))]
        if role == "assistant":
            self._acts(offset, timestamp).texts.extend(text for text in texts if not text.isspace())
        elif role == "user":
            pieces = [piece for text in texts for piece in voices(text, CODEX)]
            self._say(pieces, tuple(image for part in parts for image in self._images(offset, part)))
        else:
            self._say([("harness", text) for text in texts if not text.isspace()], ())

    def _images(self, offset: int, part: Any) -> list[Attachment]:
        """Return the image of a part in a list; report an error and return an empty list if the log lacks its bytes."""
        if not isinstance(part, dict) or part.get("type") != "input_image":
            return []
        image = attachment_of_url(part.get("image_url"), "image")
        if image is None:
            self._report(offset, "no_attached_bytes", "wanted a data URL in an image of a message")
        return [] if image is None else [image]

    def _call(self, offset: int, kind: str, item: dict[str, Any], timestamp: Any) -> None:
        name, arguments = _name_and_arguments(kind, item)
        if not name or arguments is None:
            self._report(offset, "bad_call", f"wanted a name and shallow arguments in an item of type {kind}")
            return
        call_id = item.get("call_id") or item.get("id")
        call_id = call_id if isinstance(call_id, str) else None
        at = microseconds(timestamp) if isinstance(timestamp, str) else None
        call = Call(name, arguments, call_id, offset, self.member, at=at, limit=limit(arguments))
        self._acts(offset, timestamp).add(call)
        if kind == _SERVED:
            self._ended = True
        elif call_id is not None:
            self._waiting.setdefault(call_id, deque()).append(call)

    def _result(self, offset: int, item: dict[str, Any], timestamp: Any) -> None:
        call_id = item.get("call_id")
        call_id = call_id if isinstance(call_id, str) else self._searching() if "tools" in item else ""
        raw_output = item.get("output", item.get("tools"))
        output, error, attachments = self._given(offset, raw_output)
        inner, around = split_by_twin(output.text or "", self._put_out.pop(call_id, None))
        output = replace(output, text=inner, notes=(*output.notes, *around)) if around else output
        waiting = self._waiting.get(call_id)
        if not waiting:
            before = self._last.get(call_id)
            if before is None:
                self._report(offset, "result_without_call", f"no call has the id {call_id:.80}")
            elif before != hash(output):
                self._report(offset, "result_repeated", f"call {call_id:.80} was answered otherwise before")
            return
        # An id may repeat while a call of an earlier turn is still open, such as an aborted call.
        now = self._turn.calls if self._turn is not None else []
        index = next((index for index, call in enumerate(waiting) if any(call is current for current in now)), 0)
        call = waiting[index]
        del waiting[index]
        self._last[call_id] = hash(output)
        if not waiting:
            del self._waiting[call_id]
        at = microseconds(timestamp) if isinstance(timestamp, str) else None
        self._answered, self._answered_at = True, at
        took = seconds_between(call.at, at) or 0.0
        if call.at is not None and at is not None and output.seconds is not None and took < output.seconds - 0.1:
            call.at = None  # a line that was written only after its command had run does not tell when it began
        call.ends(output)
        if is_killed_by_code(call.arguments, output.exit_code):
            call.exit_code, call.killed = None, True
        text = output.text
        put_out = output.exit_code is not None or output.seconds is not None or output.killed
        call.shown = Observation(
            content=None if attachments and not text else text,
            media_type=media_type(text),
            origin=origin(call.name, "" if put_out else text or ""),
            is_error=error,
            truncation=truncation(text or "", CLIENT),
            uri=self.cwd,
            attachments=attachments,
        )
        if self._turn is not None and all(call is not current for current in self._turn.calls):
            call.late = True
            self.items.append(call.shown)

    def _client(self) -> Source:
        return Source(CODEX, text_in(self.meta, "cli_version"))

    def _searching(self) -> str:
        """Return the id of the open tool search; results of the API's own search name none."""
        return next((key for key, calls in self._waiting.items() if calls[0].name == "tool_search"), "")

    def _given(self, offset: int, raw_output: Any) -> tuple[Output, bool | None, tuple[Attachment, ...]]:
        """Return the output, its error flag (None if it has none), and its images."""
        error = None
        if isinstance(raw_output, dict) and "content" in raw_output:
            success = raw_output.get("success")
            error = not success if isinstance(success, bool) else None
            raw_output = raw_output.get("content_items") or raw_output["content"]
        if isinstance(raw_output, str):
            return read_output(raw_output, self._client()), error, ()
        if isinstance(raw_output, list) and any(_text(part) is not None or _is_image(part) for part in raw_output):
            images = tuple(image for part in raw_output for image in self._images(offset, part))
            texts = [_text(part) or shallow_json(part) or "" for part in raw_output if not _is_image(part)]
            text = "\n".join(texts)
            if not texts:
                return Output(None), error, images
            return read_output(text, self._client()), error, images
        return Output(shallow_json(raw_output) or "" if raw_output is not None else ""), error, ()


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "input_image"


def _text(part: Any) -> str | None:
    """Return the text of a part of a message or output; None if it has none."""
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else None


def _thoughts(item: dict[str, Any]) -> list[str]:
    """Return the reasoning if the log holds it, else its summary."""
    for key in ("content", "summary"):
        parts = item.get(key)
        if isinstance(parts, list):
            texts = [text for part in parts if (text := _text(part)) and not text.isspace()]
            if texts:
                return texts
    return []


def _name_and_arguments(kind: str, item: dict[str, Any]) -> tuple[str, str | None]:
    """Return the name and the arguments (JSON text) of a call; the arguments are None if they cannot be read."""
    if kind == "function_call":
        name, namespace = item.get("name"), item.get("namespace")
        name = name if isinstance(name, str) else ""
        if isinstance(namespace, str) and not name.startswith(namespace):
            name = namespace + name
        return name, _arguments(item.get("arguments"))
    if kind == "custom_tool_call":
        name, tool_input = item.get("name"), item.get("input")
        return name if isinstance(name, str) else "", json_text({"input": tool_input}) if isinstance(
            tool_input, str
        ) else None
    if kind == "tool_search_call":
        return "tool_search", _arguments(item.get("arguments"))
    action = item.get("action")
    if not isinstance(action, dict):
        return "", None
    tool_input = {key: value for key, value in action.items() if value is not None}
    if kind == "local_shell_call":
        tool_input.pop("type", None)
    return ("local_shell" if kind == "local_shell_call" else "web_search"), shallow_json(tool_input)


def _arguments(arguments: Any) -> str | None:
    """Return the arguments as JSON text of an object; malformed arguments are put under `input`."""
    arguments = arguments_in(arguments) if isinstance(arguments, str) else arguments
    return shallow_json(arguments) if isinstance(arguments, dict) else None
