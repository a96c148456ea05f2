"""The lines of a Claude Code session log as entries: what each line says, calls or answers, in compact form.

A line is one JSON object with a `type`; an export of the web client has them as the elements of `loglines`. `user` and
`assistant` lines carry an API message; all other types keep the client's books and matter only as links of the chain
that `parentUuid` makes. The copy of a result under `toolUseResult` is read for three flags and a shell's output. This
module does not follow the chain (see `branches`) and makes no steps (see `steps`). Facts on the format: logs of
versions 1.0 to 2.1; there is no published schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from trajmill.connectors.agents.claude_code.entry import AGENT_TOOLS, Call, Entry, Part, Result, Said, Setting
from trajmill.connectors.agents.claude_code.files import moved_answer
from trajmill.connectors.connector import HEAD_BYTES, Blob
from trajmill.connectors.conversation.calls import MessageError
from trajmill.connectors.conversation.content import Shown, shown_by
from trajmill.connectors.conversation.harness_text import CLAUDE_CODE, Source, put_out, split_by_twin
from trajmill.connectors.conversation.reminders import apart, voices
from trajmill.connectors.reading.arrays import with_places
from trajmill.connectors.reading.documents import json_document
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
        "speculation-accept",
        "summary",
        "system",
        "tag",
        "task-summary",
        "worktree-state",
    }
)
"""Types of lines that are no records of the trajectory; they are read for their place in the chain alone."""

_EXPORT: Final = re.compile(
    rb'\s*\{\s*(?:"[^"\\]*"\s*:\s*(?:"(?:[^"\\]|\\.)*+"|[^\s",\[\]{}]+)\s*,\s*)*"loglines"\s*:\s*\[', re.DOTALL
)
_EXPORT_IDS: Final = ("session_id", "sessionId", "id", "uuid")
_NAMELESS: Final = "session"
"""Id of a session whose export names none; the same for all, so that equal ones stay equal."""

_SHAPES: Final[list[Shape]] = [{"loglines": []}]


def is_export(head: bytes) -> bool:
    """Whether a log begins as the web client exports a session: an object whose `loglines` are the lines."""
    return _EXPORT.match(head) is not None


def _lines(blob: Blob, member: str) -> Iterator[tuple[int, Any | ParseError]]:
    """(offset, line) of each line of a log, or of an export.

    Raises:
        ParseError: an export is no JSON document.
    """
    with blob.open(member) as stream:
        head = stream.read(HEAD_BYTES)
    if not is_export(head.removeprefix(BOM)):
        yield from json_lines(blob, member)
        return
    value, data = json_document(blob, member, _SHAPES)
    held = value if isinstance(value, dict) else {}
    session = next((name for key in _EXPORT_IDS if (name := str_in(held, key))), _NAMELESS)
    found = held.get("loglines")
    for offset, line in with_places(data, found, ("loglines",)) if isinstance(found, ARRAY) else ():
        yield offset, {"sessionId": session, **line} if isinstance(line, dict) else line


def entries(blob: Blob, member: str, seen: dict[str, int], place: int) -> Iterator[Entry | ParseError]:
    """The entries of a file of the log in the order of its lines, and an error for each line or block not carried on.

    A line whose `uuid` was met before is a replica, as a resumed session writes them, and is left out. Of an unknown
    type of line or block the first is reported.

    Args:
        blob: the log.
        member: the file.
        seen: gets the place of each entry that has a `uuid`, by its digest; holds those of the files before.
        place: of the first entry.

    Raises:
        ParseError: an export is no JSON document.
    """
    reader = _Reader(blob, member, seen, place)
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
    """What reading one log has to remember: ids and unknown types met, and what to report of the current line."""

    def __init__(self, blob: Blob, member: str, seen: dict[str, int], place: int) -> None:
        self._blob, self._member = blob, member
        self.offset = 0
        self.errors: list[ParseError] = []
        self._seen = seen
        self._place = place
        self._unknown: set[str] = set()
        self._told: tuple[Any, ...] = ()
        self._last = Setting("", None, None, None)

    def entry(self, line: Any) -> Entry | None:
        """The entry of a line; None if it is no record, a replica, or reported."""
        if not isinstance(line, dict):
            self._report("not_an_object", f"wanted a JSON object, met {type(line).__name__}")
            return None
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

    def _report(self, reason: str, detail: str) -> None:
        self.errors.append(ParseError(self._blob.uri, self.offset, reason, detail, self._member))

    def _report_type(self, reason: str, kind: Any, what: str) -> None:
        name = f"{reason} {brief(kind)}"
        if name not in self._unknown:
            self._unknown.add(name)
            self._report(reason, f"{what} of type {brief(kind)}; further ones in this log are not told")

    def _setting(self, line: dict[str, Any]) -> Setting:
        """The line's setting; lines that tell the same one after the other share the object."""
        get = line.get
        told = (get("sessionId"), get("isSidechain"), get("agentId"), get("cwd"), get("version"))
        if told != self._told:
            self._told = told
            agent = (str_in(line, "agentId") or "") if told[1] is True else None
            self._last = Setting(str_in(line, "sessionId") or "", agent, str_in(line, "cwd"), str_in(line, "version"))
        return self._last

    def _link(self, line: dict[str, Any], kind: Any, uuid: str | None) -> Entry | None:
        """The entry of a line that is not spoken: a link of the chain, or a prompt queued while the agent worked."""
        parent, kept = str_in(line, "parentUuid"), None
        setting = self._setting(line)
        said: tuple[Said, ...] = ()
        at = None
        if kind == "system" and line.get("subtype") == "compact_boundary":
            parent, kept = parent or str_in(line, "logicalParentUuid"), _kept(line)
        elif kind == "attachment":
            queued = line.get("attachment")
            if isinstance(queued, dict) and queued.get("type") == "queued_command":
                own = line.get("isMeta") is True or queued.get("isMeta") is True or not _human(queued)
                at = microseconds(line.get("timestamp"))
                said, _ = self._heard(queued.get("prompt"), own, at, setting.cwd, None)
        if uuid is None and not said:
            return None
        return Entry(self.offset, uuid, parent, kept is None, setting, at, said=said, kept=kept)

    def _content(self, line: dict[str, Any]) -> Any:
        """Content of the line's message, a string or a list; None, and reported, if there is none."""
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
            said, _ = self._heard(content, True, at, setting.cwd, None)
            return Entry(self.offset, uuid, parent, False, setting, at, said=said)
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
        name, given = block.get("name"), block.get("input")
        if not isinstance(name, str) or not name or not (given is None or isinstance(given, dict)):
            self._report("bad_call", "wanted a name and an object of arguments in a tool_use block")
            return
        arguments = None
        if given is not None and (arguments := shallow_json(given)) is None:
            self._report("nested_too_deeply", f"the arguments of a call of {name[:80]}")
            return
        prompt = str_in(given, "prompt") if given is not None and name in AGENT_TOOLS else None
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
        own = get("isMeta") is True or is_summary or not _human(line)
        said, results = self._heard(content, own, at, setting.cwd, line)
        if is_summary:
            said = tuple(one._replace(role="compaction") for one in said)
        return Entry(
            offset=self.offset,
            uuid=uuid,
            parent=parent,
            begins=not results,
            setting=setting,
            at=at,
            said=said,
            results=results,
        )

    def _heard(
        self, content: Any, own: bool, at: int | None, cwd: str | None, line: dict[str, Any] | None
    ) -> tuple[tuple[Said, ...], tuple[Result, ...]]:
        """The texts and results of a message to the agent; the texts are the harness's `own` or the user's.

        Results are looked for where their `line` is given.
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
        said = [Said(role, "\n".join(texts), at, cwd) for role, texts in pieces]
        if attachments and not own:
            place = next((index for index, one in enumerate(said) if one.role == "user"), len(said))
            text = said[place].text if place < len(said) else ""
            said[place : place + 1] = [Said("user", text, at, cwd, tuple(attachments))]
        return tuple(said), tuple(results)

    def _result(self, block: dict[str, Any], line: dict[str, Any], at: int | None, cwd: str | None) -> Result:
        given = block.get("content")
        content, attachments = (given, ()) if isinstance(given, str) else self._shown(given)
        notes: tuple[str, ...] = ()
        if content:
            content = self._whole(content)
            content, notes = apart(content, Source(CLAUDE_CODE, str_in(line, "version")))
        told = line.get("toolUseResult")
        stopped, code, agent_id = False, None, None
        if isinstance(told, dict):
            stopped, agent_id = told.get("interrupted") is True, str_in(told, "agentId")
            if content and block.get("is_error") is not True:
                content, around = split_by_twin(content, put_out(told))
                notes = (*notes, *around)
            code = whole_number_of(told.get("exitCode"))
        call_id = str_in(block, "tool_use_id") or ""
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
        """The content, or where the client moved it to another file, what stands there."""
        try:
            return moved_answer(self._blob, content) or content
        except ParseError as error:
            self.errors.append(error)
            return content

    def _shown(self, content: Any) -> tuple[str | None, tuple[Attachment, ...]]:
        """Text and attachments of a result's content; text is None where attachments hold it, or the log does not."""
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
        """What an image or document block shows; reported if it holds neither bytes nor text."""
        try:
            seen = shown_by(block)
        except MessageError as error:
            self._report(error.reason, f"a block of type {block['type']}")
            return Shown(None, (), True)
        if seen.lost:
            self._report("no_attached_bytes", f"wanted base64 bytes or text in a block of type {block['type']}")
        return seen


def _add_text(parts: list[Part], kind: str, text: Any) -> None:
    """Adds a text or a thought that is not blank; `(no content)` is how the client writes a blank one."""
    if isinstance(text, str) and text and not text.isspace() and text != "(no content)":
        parts.append((kind, text))


def _human(line: dict[str, Any]) -> bool:
    """Whether a message came from a person, as far as the line tells: later versions name its origin and mode."""
    origin = line.get("origin")
    kind = origin.get("kind") if isinstance(origin, dict) else None
    return kind in (None, "human") and line.get("commandMode") in (None, "prompt", "bash")


def _kept(line: dict[str, Any]) -> tuple[str, ...]:
    """Ids of the messages that a compaction says it kept, last first."""
    metadata = line.get("compactMetadata")
    kept = metadata.get("preservedMessages") if isinstance(metadata, dict) else None
    uuids = kept.get("uuids") if isinstance(kept, dict) else None
    return tuple(one for one in reversed(uuids) if isinstance(one, str)) if isinstance(uuids, list) else ()
