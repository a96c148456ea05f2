"""OpenCode sessions: an export (`opencode export`) as one document, or the storage folder with one file per message.

>>> show(OpenCode(), '''
... {"info": {"id": "ses_1", "version": "1.0.0"}, "messages": [{"info": {"id": "msg_1", "role": "assistant"}, "parts": [
...     {"type": "tool", "callID": "c1", "tool": "bash", "state": {"status": "completed", "input": {"command": "ls"},
...         "output": "notes.txt", "metadata": {"exit": 0}}}]}]}
... ''')
action  | {"name": "bash", "arguments": {"command": "ls"}}
after   | notes.txt

A message of the agent is one or more steps. The calls of a step were made before the agent saw any of their answers. A
storage folder (`session/`, `message/`, `part/`) is one log of all its sessions, since only the content of a session
states which other session started it. The offset of a step is its message. A session with a parent has the relation
`subagent`, and its parent step is the call of `task` that names it. Texts that the client made up, and summaries of
compacted messages, are harness texts. Newer versions keep sessions in a database, which must be exported to be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.conversation.calls import MessageError, call
from trajmill.connectors.conversation.content import shown
from trajmill.connectors.conversation.failures import exit_code
from trajmill.connectors.conversation.harness_text import strip_forms, tools_of_others
from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.refusals import reject_conversation
from trajmill.connectors.conversation.steps import mark_dangling
from trajmill.connectors.conversation.tools import checkout, domain_of
from trajmill.connectors.conversation.turns import Part, Result, Said, Text, Thought
from trajmill.connectors.reading.documents import json_document, opening
from trajmill.connectors.reading.fields import INT32, key_of, object_of, objects_of, str_of, text_in, whole_number_of
from trajmill.connectors.reading.places import places_by_beginning
from trajmill.connectors.reading.times import microseconds
from trajmill.schemas import Agent, Environment, ParseError, Reject, Task, Trajectory

_FILE: Final = re.compile(r"(?:(.*)/)?(?:session/[^/]+/[^/]+|message/[^/]+/[^/]+|part/[^/]+/[^/]+)\.json")
_TOOLS: Final = frozenset(
    {
        *("bash", "edit", "multiedit", "write", "read", "grep", "glob", "list", "ls", "patch", "apply_patch"),
        *("codesearch", "lsp", "lsp_diagnostics", "batch"),
    }
)
_CLIENT: Final = "opencode"


class OpenCode(Connector):
    """Sessions of the OpenCode client."""

    name: ClassVar[str] = "opencode"
    version: ClassVar[str] = "3"
    domains: ClassVar[tuple[str, ...]] = ("terminal", "mcp", "search")
    title: ClassVar[str] = "OpenCode session: export (JSON), storage folder"
    companions = re.compile(r"(?:session_diff|project|todo|snapshot|session_share)/.*|migration")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        beginning = opening(head)
        value = object_of(beginning.values[0]) if beginning is not None else {}
        info = object_of(value.get("info"))
        if isinstance(value.get("messages"), list) and "id" in info and "time" in info:
            return Sniff(0.95, "an object of info and messages, as OpenCode exports a session")
        if "projectID" in value and "directory" in value and isinstance(value.get("time"), dict):
            return Sniff(0.95, "a session of OpenCode, with project and directory")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        folders: dict[str, dict[str, str]] = {}
        for path in paths:
            if (match := _FILE.fullmatch(path)) is not None:
                folder = match[1] or ""
                folders.setdefault(folder, {})[path[len(folder) + 1 if folder else 0 :]] = path
        for folder, members in folders.items():
            anchor = next((name for name in members if name.startswith("session/")), None)
            if anchor is not None and any(name.startswith("part/") for name in members):
                yield Log(folder or "storage", members, anchor)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        sessions = _read_export(blob) if tuple(blob.members) == ("",) else _read_storage(blob)
        started: dict[str, tuple[str, int]] = {}
        names: set[str] = set()
        empty = True
        for session in sessions:
            if isinstance(session, ParseError):
                yield Reject.of(session, "record", self.name)
                continue
            member, info, messages = session
            children: dict[str, str] = {}
            try:
                dialog = conversation(list(_parts(messages, children)))
            except MessageError as error:
                yield reject_conversation(blob, self.name, 0, error.reason, error.detail, member=member)
                continue
            if not dialog.calls:
                continue
            empty = False
            mark_dangling(dialog.steps)
            places = [message["place"] for message in messages]
            steps = [
                replace(draft, member=places[draft.offset][0], offset=places[draft.offset][1]) for draft in dialog.steps
            ]
            native, parent = str_of(info.get("id")) or "session", text_in(info, "parentID")
            step = started.get(native, (None, None))[1]
            models = (object_of(message.get("info")) for message in messages)
            model = next((name for message_info in models if (name := text_in(message_info, "modelID"))), None)
            trajectory = Trajectory(
                native_id=native,
                domain=domain_of(
                    (own_step.action.name for own_step in steps), "terminal", tools_of_others(_CLIENT), _is_mcp
                ),
                steps=steps,
                environment=Environment(instance_id=checkout(text_in(info, "directory"))),
                agent=Agent(_CLIENT, text_in(info, "version"), model),
                task=Task(instruction=dialog.instruction),
                parent=parent if parent in names else None,
                parent_step=step if parent in names else None,
                relation="subagent" if parent is not None else None,
            )
            yield strip_forms(trajectory)
            names.add(native)
            for number, own_step in enumerate(steps):
                if (child := children.get(own_step.action.call_id or "")) is not None:
                    started[child] = native, number
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no message of the log holds a call")


def _is_mcp(name: str) -> bool:
    return name not in _TOOLS and "_" in name


_Session = tuple[str, dict[str, Any], list[dict[str, Any]]]


def _read_export(blob: Blob) -> Iterator[_Session | ParseError]:
    value, data = json_document(blob)
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list):
        raise ParseError(blob.uri, 0, "bad_session", "wanted an object with a list of messages")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("parts"), list):
            yield ParseError(blob.uri, 0, "bad_message", "wanted an object with a list of parts as a message")
    listed = [message for message in objects_of(messages) if isinstance(message.get("parts"), list)]
    for message, offset in zip(
        listed, places_by_beginning(data, [message.get("info") for message in listed]), strict=True
    ):
        message["place"] = "", offset
    yield "", object_of(value.get("info")), listed


def _read_storage(blob: Blob) -> Iterator[_Session | ParseError]:
    """Yield the sessions of a storage folder, sub-sessions after their parents, and an error per invalid object."""
    below: dict[str, list[str]] = {}
    for member in sorted(blob.members):
        below.setdefault(member.rpartition("/")[0], []).append(member)
    sessions: list[tuple[str, dict[str, Any]]] = []
    for member in blob.members:
        if member.startswith("session/"):
            sessions += [entry for entry in _objects(blob, [member]) if isinstance(entry[1], dict)]
    parents = {str_of(info.get("id")): str_of(info.get("parentID")) for _, info in sessions}
    for member, info in sorted(sessions, key=lambda entry: (_depth(str_of(entry[1].get("id")), parents), entry[0])):
        messages: list[dict[str, Any]] = []
        for message_member, message in _objects(blob, below.get(f"message/{str_of(info.get('id'))}", ())):
            if isinstance(message, ParseError):
                yield message
                continue
            parts: list[dict[str, Any]] = []
            for _, part in _objects(blob, below.get(f"part/{str_of(message.get('id'))}", ())):
                if isinstance(part, ParseError):
                    yield part
                else:
                    parts.append(part)
            messages.append({"info": message, "parts": parts, "place": (message_member, 0)})
        yield member, info, messages


def _objects(blob: Blob, members: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield (member, object) of each member, with an error in place of an invalid object."""
    for member in members:
        try:
            value = json_document(blob, member)[0]
        except ParseError as error:
            value = error
        is_read = isinstance(value, dict | ParseError)
        yield member, value if is_read else ParseError(blob.uri, 0, "not_an_object", "wanted a JSON object", member)


def _depth(name: str, parents: dict[str, str]) -> int:
    """Return the number of ancestors of a session, at most the number of sessions."""
    depth = 0
    while (name := parents.get(name, "")) in parents and depth < len(parents):
        depth += 1
    return depth


def _parts(messages: Iterable[dict[str, Any]], children: dict[str, str]) -> Iterator[Part]:
    """Yield the parts of a session, with the number of their message as offset.

    Args:
        children: receives the session that each call started, by the call's id.
    """
    for number, message in enumerate(messages):
        info = object_of(message.get("info"))
        by_agent, at = info.get("role") == "assistant", microseconds(object_of(info.get("time")).get("created"))
        by_client = info.get("summary") is True or info.get("mode") == "compaction"
        answers: list[Result] = []
        for part in objects_of(message["parts"]):
            kind, text = part.get("type"), text_in(part, "text")
            if kind in ("step-start", "step-finish"):
                yield from answers
                answers = []
            elif kind == "tool" and by_agent:
                state = object_of(part.get("state"))
                began, finished = (microseconds(object_of(state.get("time")).get(key)) for key in ("start", "end"))
                yield call(part.get("tool"), state.get("input"), part.get("callID"), number, began or at)
                if (answer := _answer(part, state, finished)) is not None:
                    answers.append(answer)
                if child := text_in(state.get("metadata"), "sessionId") or text_in(state.get("metadata"), "sessionID"):
                    children[str_of(part.get("callID"))] = child
            elif text and (not by_agent or by_client or part.get("synthetic") is True):
                is_asked = not by_agent and part.get("synthetic") is not True
                yield Said("user" if is_asked else "harness", text, at=at)
            elif text and text.strip() and kind in ("text", "reasoning"):
                yield Text(text, number, at) if kind == "text" else Thought(text, number, at)
        yield from answers


def _answer(part: dict[str, Any], state: dict[str, Any], at: int | None) -> Result | None:
    status, metadata = state.get("status"), object_of(state.get("metadata"))
    if status not in ("completed", "error"):
        return None
    seen = shown(state.get("output") if status == "completed" else state.get("error"))
    code = whole_number_of(metadata.get("exit"), INT32)
    code = exit_code(metadata) if code is None else code
    key = key_of(part.get("callID"))
    return Result(key, None, seen.text, 0, status == "error", seen.attachments, at, code)
