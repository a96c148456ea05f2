"""Files of a Claude Code session: its log, the logs of sub-agents beside it, and answers too long for the log.

The sub-agents of a session `<folder>/<session>.jsonl` are in `<folder>/<session>/subagents/agent-<id>.jsonl`. Before
version 2.1 they were in `<folder>/agent-<id>.jsonl`, and only their lines name the session. An answer that the client
moved to `<folder>/<session>/tool-results/<id>.txt` is complete there. The log holds its beginning and a path on the
original machine, of which only the file name is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from trajmill.connectors.connector import HEAD_BYTES, Blob, Log
from trajmill.connectors.reading.documents import head_object
from trajmill.connectors.reading.fields import plain_text

_AGENT: Final = re.compile(r"(?P<session>.+)/subagents/(?:[^/]+/)*agent-[^/]*\.jsonl")
_AGENT_BESIDE: Final = re.compile(r"(?P<folder>(?:.*/)?)agent-[^/]*\.jsonl")
_RESULT: Final = re.compile(r"(?P<session>.+)/tool-results/[^/]+\.txt")
_MOVED: Final = re.compile(r"<persisted-output>\s*Output too large[^\n]*saved to: (?:[^\n]*[\\/])?([^\\/\n]+)\n")


def session_logs(paths: Iterable[str], logs: Iterable[tuple[str, Blob]]) -> Iterator[Log]:
    """Yield the sessions that have files besides their log, each as one log with these files.

    Args:
        logs: the files that hold lines of Claude Code, with their bytes.
    """
    sessions: list[str] = []
    beside: dict[str, list[str]] = {}
    for path, blob in logs:
        if agent := _AGENT.fullmatch(path):
            beside.setdefault(f"{agent['session']}.jsonl", []).append(path)
        elif agent := _AGENT_BESIDE.fullmatch(path):
            session = plain_text(_first_line(blob, "").get("sessionId"))
            beside.setdefault(f"{agent['folder']}{session}.jsonl", []).append(path)
        else:
            sessions.append(path)
    for path in paths:
        if result := _RESULT.fullmatch(path):
            beside.setdefault(f"{result['session']}.jsonl", []).append(path)
    for session in sessions:
        if session in beside:
            folder = session[: session.rfind("/") + 1]
            files = {path.removeprefix(folder): path for path in (session, *beside[session])}
            yield Log(session, files, session.removeprefix(folder))


def _first_line(blob: Blob, member: str) -> dict[str, object]:
    with blob.open(member) as stream:
        head: bytes = stream.read(HEAD_BYTES)
    return head_object(head.split(b"\n", 1)[0]) or {}


def log_members(blob: Blob) -> Sequence[str]:
    """Return the members that hold lines: the session's log, then those of its sub-agents by start time."""
    names = [name for name in blob.members if not _RESULT.fullmatch(name)]
    if len(names) < 2:
        return names

    def begin(name: str) -> tuple[bool, str, str]:
        is_agent = bool(_AGENT.fullmatch(name) or _AGENT_BESIDE.fullmatch(name))
        return is_agent, plain_text(_first_line(blob, name).get("timestamp")) if is_agent else "", name

    return sorted(names, key=begin)


def read_moved_answer(blob: Blob, content: str) -> str | None:
    """Read an answer that the client moved to a file of its own; None if it did not, or if the file is missing."""
    match = _MOVED.match(content)
    if match is None:
        return None
    name = next((member for member in blob.members if member.endswith(f"/tool-results/{match[1]}")), None)
    return None if name is None else blob.read(name).decode("utf-8", "replace")
