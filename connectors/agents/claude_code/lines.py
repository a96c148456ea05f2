"""Lines of a Claude Code session log as compact entries of texts, calls and answers.

A line is one JSON object with a `type`; an export of the web client holds the lines as elements of `loglines`. `user`
and `assistant` lines carry an API message. All other types are the client's bookkeeping and matter only as links of the
chain that `parentUuid` forms. Events of `claude -p --output-format stream-json` (one a line) or `json` (in an array)
hold the same messages without a chain, and name a sub-agent by the call that started it. The copy of a result under
`toolUseResult` is read for three flags and a shell's output. This module does not follow the chain (see `branches`) and
makes no steps (see `steps`). It covers logs of versions 1.0 to 2.1; there is no published schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from trajmill.connectors.agents.claude_code.entry import AGENT_TOOLS, Call, Entry, Part, Result, Said, Setting
from trajmill.connectors.agents.claude_code.files import read_moved_answer
from trajmill.connectors.connector import HEAD_BYTES, Blob
from trajmill.connectors.conversation.calls import MessageError
from trajmill.connectors.conversation.content import Shown, shown_by
from trajmill.connectors.conversation.harness_text import CLAUDE_CODE, Source, put_out, split_by_twin
from trajmill.connectors.conversation.reminders import apart, voices
from trajmill.connectors.reading.arrays import with_places
from trajmill.connectors.reading.documents import array_values, json_document
from trajmill.connectors.reading.fields import brief, str_in, whole_number_of
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.large.outline import ARRAY, Shape
from trajmill.connectors.reading.lines import json_lines
from trajmill.connectors.reading.times import microseconds
from trajmill.connectors.reading.values import BOM
from trajmill.schemas import Attachment, ParseError

BOOKKEEPING: Final = frozenset(
    {
        "agent-color",
        "agent-name",
        "agent-setting",
        "ai-title",
        "attachment",
        "attribution-snapshot",
        "auth_status",
        "bridge-session",
        "content-replacement",
        "continued-in",
        "custom-title",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "pr-link",
        "progress",
        "queue-operation",
        "rate_limit_event",
        "result",
        "speculation-accept",
        "stream_event",
        "summary",
        "system",
        "tag",
        "task-summary",
        "tool_progress",
        "tool_use_summary",
        "worktree-state",
    }
)
"""Types of lines that are no records of the trajectory. They are read only for their position in the chain."""

_EXPORT: Final = re.compile(
    rb'\s*\{\s*(?:"[^"\\]*"\s*:\s*(?:"(?:[^"\\]|\\.)*+"|[^\s",\[\]{}]+)\s*,\s*)*"loglines"\s*:\s*\[', re.DOTALL
)
_EVENTS: Final = re.compile(rb'\s*\[\s*\{\s*"type"\s*:\s*"system"\s*,\s*"subtype"\s*:\s*"init"')
_EXPORT_IDS: Final = ("session_id", "sessionId", "id", "uuid")
_NAMELESS: Final = "session"
"""Id of a session whose export names none. It is the same for all, so that equal sessions stay equal."""

_SHAPES: Final[list[Shape]] = [{"loglines": []}]


def is_export(head: bytes) -> bool:
    """Return True if a log begins like an export of the web client: an object whose `loglines` are the lines."""
    return b'"loglines"' in head and _EXPORT.match(head) is not None


def is_event_array(head: bytes) -> bool:
    """Return True if a log begins like an array of the events of `claude -p --output-format json --verbose`."""
    return _EVENTS.match(head) is not None


def _lines(blob: Blob, member: str) -> Iterator[tuple[int, Any | ParseError]]:
    """Yield (offset, line) of each line of a log or of an export.

    Raises:
        ParseError: an export is no JSON document.
    """
    with blob.open(member) as stream:
        head = stream.read(HEAD_BYTES)
    head = head.removeprefix(BOM)
    if is_event_array(head):
        with blob.open(member) as stream:
            yield from ((offset, event) for offset, event, _ in array_values(stream, blob.uri, (), member))
        return
    if not is_export(head):
        yield from json_lines(blob, member)
        return
    value, data = json_document(blob, member, _SHAPES)
    export = value if isinstance(value, dict) else {}
    session = next((name for key in _EXPORT_IDS if (name := str_in(export, key))), _NAMELESS)
    loglines = export.get("loglines")
    for offset, line in with_places(data, loglines, ("loglines",)) if isinstance(loglines, ARRAY) else ():
        yield offset, {"sessionId": session, **line} if isinstance(line, dict) else line


def entries(blob: Blob, member: str, seen: dict[str, int], position: int) -> Iterator[Entry | ParseError]:
    """Yield the entries of a file in the order of its lines, and an error for each line or block that is rejected.

    A line whose `uuid` is already known is a replica, as resumed sessions write them, and is left out. Only the first
    line or block of an unknown type is reported.

    Args:
        seen: receives the position of each entry that has a `uuid`; it holds those of the files before.
        position: position of the first entry.

    Raises:
        ParseError: an export is no JSON document.
    """
    reader = _Reader(blob, member, seen, position)
    errors = reader.errors
    for offset, line in _lines(blob, member):
        if isinstance(line, ParseError):
            yield line
            continue
        reader.offset = offset
        entry = reader.entry(line)
        if entry is not None:
            yield entry
        if errors:
            yield from errors
            errors.clear()


class _Reader:
    """State while one log is read: known ids and unknown types, and the errors of the current line."""

    def __init__(self, blob: Blob, member: str, seen: dict[str, int], position: int) -> None:
        self._blob, self._member = blob, member
        self.offset = 0
        self.errors: list[ParseError] = []
        self._seen = seen
        self._place = position
        self._unknown: set[str] = set()
        self._told: tuple[Any, ...] = ()
        self._last = Setting("", None, None, None)
        self._start: dict[str, Any] = {}

    def entry(self, line: Any) -> Entry | None:
        """Return the entry of a line; None if it is no record, a replica, or reported as an error."""
        if not isinstance(line, dict):
            self._report("not_an_object", f"wanted a JSON object, met {type(line).__name__}")
            return None
        if "session_id" in line and "sessionId" not in line:
            line = self._named(line)
        get = line.get
        uuid = get("uuid")
        if not isinstance(uuid, str):
            uuid = None
        elif uuid in self._seen:
            return None
        kind = get("type")
        if kind == "assistant":
            entry = self._assistant(line, uuid)
        elif kind == "user":
            entry = self._user(line, uuid)
        else:
            if not isinstance(kind, str) or kind not in BOOKKEEPING:
                self._report_type("unknown_line_type", kind, "a line")
            entry = self._link(line, kind, uuid)
        if entry is not None:
            if uuid is not None:
                self._seen[uuid] = self._place
            self._place += 1
        return entry

    def _named(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return an event of a stream under the names of a session log, with the folder and version of its start."""
        if event.get("subtype") == "init":
            self._start = {"cwd": event.get("cwd"), "version": event.get("claude_code_version")}
        started = str_in(event, "parent_tool_use_id")
        names = {"sessionId": event["session_id"], "isSidechain": started is not None, "agentId": started}
        return {**self._start, **names, "toolUseResult": event.get("tool_use_result"), **event}

    def _report(self, reason: str, detail: str) -> None:
        self.errors.append(ParseError(self._blob.uri, self.offset, reason, detail, self._member))

    def _report_type(self, reason: str, kind: Any, subject: str) -> None:
        name = f"{reason} {brief(kind)}"
        if name not in self._unknown:
            self._unknown.add(name)
            self._report(reason, f"{subject} of type {brief(kind)}; further ones in this log are not told")

    def _setting(self, line: dict[str, Any]) -> Setting:
        """Return the line's setting. Successive lines with equal settings share the object."""
        get = line.get
        cells = (get("sessionId"), get("isSidechain"), get("agentId"), get("cwd"), get("version"))
        if cells != self._told:
            self._told = cells
            agent = (str_in(line, "agentId") or "") if cells[1] is True else None
            self._last = Setting(str_in(line, "sessionId") or "", agent, str_in(line, "cwd"), str_in(line, "version"))
        return self._last

    def _link(self, line: dict[str, Any], kind: Any, uuid: str | None) -> Entry | None:
        """Build the entry of a line without a speaker: a link of the chain, or a prompt queued while the agent ran."""
        parent, kept_ids = str_in(line, "parentUuid"), None
        setting = self._setting(line)
        texts: tuple[Said, ...] = ()
        at = None
        if kind == "system" and line.get("subtype") == "compact_boundary":
            parent, kept_ids = parent or str_in(line, "logicalParentUuid"), _uuids_preserved(line)
        elif kind == "attachment":
            queued = line.get("attachment")
            if isinstance(queued, dict) and queued.get("type") == "queued_command":
                own = line.get("isMeta") is True or queued.get("isMeta") is True or not _is_human(queued)
                at = microseconds(line.get("timestamp"))
                texts, _ = self._heard(queued.get("prompt"), own, at, setting.cwd, None)
        if uuid is None and not texts:
            return None
        beside = kind == "progress"
        return Entry(self.offset, uuid, parent, kept_ids is None, setting, at, said=texts, kept=kept_ids, beside=beside)

    def _content(self, line: dict[str, Any]) -> Any:
        """Return the content of the line's message, a string or a list; None, and an error, if there is none."""
        message = line.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str | list):
            return content
        self._report("bad_message", f"a line of type {line['type']} without a message that has content")
        return None

    def _assistant(self, line: dict[str, Any], uuid: str | None) -> Entry | None:
        content = self._content(line)
        if content is None:
            return None
        get, message = line.get, line["message"]
        setting = self._setting(line)
        at, parent, model = microseconds(get("timestamp")), str_in(line, "parentUuid"), str_in(message, "model")
        if model == "<synthetic>" or get("isApiErrorMessage") is True:
            texts, _ = self._heard(content, True, at, setting.cwd, None)
            return Entry(self.offset, uuid, parent, False, setting, at, said=texts)
        parts: list[Part] = []
        results: list[Result] = []
        for block in [content] if isinstance(content, str) else content:
            if isinstance(block, dict):
                kind = block.get("type")
                if kind in ("text", "thinking"):
                    _add_text(parts, kind, block.get(kind))
                elif isinstance(kind, str) and kind.endswith("tool_use"):
                    self._add_call(parts, block, at)
                elif isinstance(kind, str) and kind.endswith("tool_result"):
                    results.append(self._result(block, line, at, setting.cwd))
                elif kind != "redacted_thinking":
                    self._report_type("unknown_block_type", kind, "a block of an assistant message")
            else:
                _add_text(parts, "text", block)
        message_id, request_id = str_in(message, "id"), str_in(line, "requestId")
        return Entry(
            offset=self.offset,
            uuid=uuid,
            parent=parent,
            begins=False,
            setting=setting,
            at=at,
            parts=tuple(parts),
            results=tuple(results),
            message_id=message_id,
            request_id=request_id,
            model=model,
        )

    def _add_call(self, parts: list[Part], block: dict[str, Any], at: int | None) -> None:
        name, tool_input = block.get("name"), block.get("input")
        if not isinstance(name, str) or not name or not (tool_input is None or isinstance(tool_input, dict)):
            self._report("bad_call", "wanted a name and an object of arguments in a tool_use block")
            return
        arguments = None
        if tool_input is not None and (arguments := shallow_json(tool_input)) is None:
            self._report("nested_too_deeply", f"the arguments of a call of {name[:80]}")
            return
        prompt = str_in(tool_input, "prompt") if tool_input is not None and name in AGENT_TOOLS else None
        parts.append(Call(name, str_in(block, "id"), arguments, prompt, self.offset, at))

    def _user(self, line: dict[str, Any], uuid: str | None) -> Entry | None:
        content = self._content(line)
        if content is None:
            return None
        get, setting = line.get, self._setting(line)
        at, parent = microseconds(get("timestamp")), str_in(line, "parentUuid")
        block = content[0] if len(content) == 1 else None
        if isinstance(block, dict) and block.get("type") == "tool_result":
            answer = self._result(block, line, at, setting.cwd)
            return Entry(
                offset=self.offset, uuid=uuid, parent=parent, begins=False, setting=setting, at=at, results=(answer,)
            )
        is_summary = get("isCompactSummary") is True
        own = get("isMeta") is True or is_summary or not _is_human(line)
        texts, results = self._heard(content, own, at, setting.cwd, line)
        if is_summary:
            texts = tuple(text._replace(role="compaction") for text in texts)
        return Entry(
            offset=self.offset,
            uuid=uuid,
            parent=parent,
            begins=not results,
            setting=setting,
            at=at,
            said=texts,
            results=results,
        )

    def _heard(
        self, content: Any, own: bool, at: int | None, cwd: str | None, line: dict[str, Any] | None
    ) -> tuple[tuple[Said, ...], tuple[Result, ...]]:
        """Split a message to the agent into texts (the harness's if `own`, else the user's) and results.

        Results are read only if their `line` is given.
        """
        if isinstance(content, str):
            return tuple(Said(role, text, at, cwd) for role, text in voices(content, own)), ()
        pieces: list[tuple[str, list[str]]] = []
        attachments: list[Attachment] = []
        results: list[Result] = []
        for block in content if isinstance(content, list) else ():
            kind = block.get("type") if isinstance(block, dict) else "text"
            if kind == "tool_result" and line is not None:
                results.append(self._result(block, line, at, cwd))
            elif kind == "text":
                text = block.get("text") if isinstance(block, dict) else block
                for role, piece in voices(text, own) if isinstance(text, str) else ():
                    if role == "user" and pieces and pieces[-1][0] == "user":
                        pieces[-1][1].append(piece)
                    else:
                        pieces.append((role, [piece]))
            elif kind in ("image", "document"):
                seen = self._block(block)
                attachments += seen.attachments
                pieces += [] if seen.text is None else [("harness" if own else "user", [seen.text])]
            else:
                self._report_type("unknown_block_type", kind, "a block of a user message")
        texts_said = [Said(role, "\n".join(texts), at, cwd) for role, texts in pieces]
        if attachments and not own:
            first_user = next(
                (index for index, message in enumerate(texts_said) if message.role == "user"), len(texts_said)
            )
            text = texts_said[first_user].text if first_user < len(texts_said) else ""
            texts_said[first_user : first_user + 1] = [Said("user", text, at, cwd, tuple(attachments))]
        return tuple(texts_said), tuple(results)

    def _result(self, block: dict[str, Any], line: dict[str, Any], at: int | None, cwd: str | None) -> Result:
        block_content = block.get("content")
        content, attachments = (block_content, ()) if isinstance(block_content, str) else self._shown(block_content)
        notes: tuple[str, ...] = ()
        if content:
            content = self._whole(content)
            content, notes = apart(content, Source(CLAUDE_CODE, str_in(line, "version")))
        tool_result = line.get("toolUseResult")
        stopped, code, agent_id = False, None, None
        if isinstance(tool_result, dict):
            stopped, agent_id = tool_result.get("interrupted") is True, str_in(tool_result, "agentId")
            if content and block.get("is_error") is not True:
                content, around = split_by_twin(content, put_out(tool_result))
                notes = (*notes, *around)
            code = whole_number_of(tool_result.get("exitCode"))
        call_id = str_in(block, "tool_use_id") or ""
        if agent_id is not None and "tool_use_result" in line:
            agent_id = call_id
        error = block.get("is_error") is True
        return Result(
            call_id=call_id,
            content=content,
            is_error=error,
            stopped=stopped,
            notes=notes,
            attachments=attachments,
            exit_code=code,
            agent_id=agent_id,
            offset=self.offset,
            at=at,
            cwd=cwd,
        )

    def _whole(self, content: str) -> str:
        """Return the content, or the text of the file to which the client moved it."""
        try:
            return read_moved_answer(self._blob, content) or content
        except ParseError as error:
            self.errors.append(error)
            return content

    def _shown(self, content: Any) -> tuple[str | None, tuple[Attachment, ...]]:
        """Return the text and attachments of a result's content; the text is None if attached or not in the log."""
        texts: list[str] = []
        attachments: list[Attachment] = []
        lost = False
        for item in content if isinstance(content, list) else () if content is None else (content,):
            kind = item.get("type") if isinstance(item, dict) else None
            if isinstance(item, str):
                texts.append(item)
            elif kind == "text" and isinstance(item.get("text"), str):
                texts.append(item["text"])
            elif kind in ("image", "document"):
                seen = self._block(item)
                attachments += seen.attachments
                texts += [] if seen.text is None else [seen.text]
                lost = lost or seen.lost
            else:
                text = shallow_json(item)
                if text is None:
                    self._report("nested_too_deeply", "an item of a result")
                else:
                    texts.append(text)
        return (None if (attachments or lost) and not texts else "\n".join(texts)), tuple(attachments)

    def _block(self, block: dict[str, Any]) -> Shown:
        """Return the content of an image or document block; report an error if it holds neither bytes nor text."""
        try:
            seen = shown_by(block)
        except MessageError as error:
            self._report(error.reason, f"a block of type {block['type']}")
            return Shown(None, (), True)
        if seen.lost:
            self._report("no_attached_bytes", f"wanted base64 bytes or text in a block of type {block['type']}")
        return seen


def _add_text(parts: list[Part], kind: str, text: Any) -> None:
    """Append a text or thought unless it is blank; the client writes a blank one as `(no content)`."""
    if isinstance(text, str) and text and not text.isspace() and text != "(no content)":
        parts.append((kind, text))


def _is_human(line: dict[str, Any]) -> bool:
    """Return True if a message came from a person as far as the line states; later versions state origin and mode."""
    origin = line.get("origin")
    kind = origin.get("kind") if isinstance(origin, dict) else None
    return kind in (None, "human") and line.get("commandMode") in (None, "prompt", "bash")


def _uuids_preserved(line: dict[str, Any]) -> tuple[str, ...]:
    """Return the ids of the messages that a compaction kept, last first."""
    metadata = line.get("compactMetadata")
    preserved = metadata.get("preservedMessages") if isinstance(metadata, dict) else None
    uuids = preserved.get("uuids") if isinstance(preserved, dict) else None
    return tuple(uuid for uuid in reversed(uuids) if isinstance(uuid, str)) if isinstance(uuids, list) else ()
