"""Sessions in files of their own that belong together: a session and the sub-agents that it started."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from trajmill.connectors.connector import Blob, Log
from trajmill.schemas import ParseError, Reject, Trajectory


class Session(NamedTuple):
    """A file with a session.

    Attributes:
        id: id of the session, empty if it has none.
        parent: id of the session that started it, empty if none did.
    """

    path: str
    id: str
    parent: str


def _ancestors(session: Session, by_id: Mapping[str, Session]) -> list[Session]:
    """Return the ancestors of a session, the nearest first."""
    ancestors: list[Session] = []
    parent = by_id.get(session.parent)
    while parent is not None and parent.id and parent not in ancestors:
        ancestors.append(parent)
        parent = by_id.get(parent.parent)
    return ancestors


def _by_id(sessions: Iterable[Session]) -> dict[str, Session]:
    """Map ids to sessions, using the first of several files of one session."""
    return {session.id: session for session in sorted(sessions, reverse=True)}


def session_logs(sessions: Sequence[Session]) -> Iterator[Log]:
    """Yield the sessions that started others, each with all its descendants as one log."""
    by_id = _by_id(sessions)
    files: dict[str, list[str]] = {}
    for session in sessions:
        first = (_ancestors(session, by_id) or [session])[-1]
        files.setdefault(first.path, []).append(session.path)
    for path, paths in files.items():
        if len(paths) > 1 and path in paths:
            folder = path[: path.rfind("/") + 1]
            yield Log(path, {member.removeprefix(folder): member for member in paths}, path.removeprefix(folder))


def read_sessions(
    blob: Blob,
    name: str,
    session_of: Callable[[str, Blob, str], Session],
    read: Callable[[Blob, str, dict[str, int]], Iterator[Trajectory | Reject]],
) -> Iterator[Trajectory | Reject]:
    """Yield the trajectories of a log of one or several sessions; sub-agents follow their parents and refer to them.

    Args:
        session_of: returns the session that a member of a blob holds; the path is the member's name.
        read: reads the session of a member, and fills in the step that started each sub-agent, by the sub-agent's id.

    Raises:
        ParseError: the only session cannot be read; of several sessions, each unreadable one is a reject.
    """
    members = tuple(blob.members)
    if len(members) == 1:
        yield from read(blob, members[0], {})
        return
    sessions = [session_of(member, blob, member) for member in members]
    by_id = _by_id(sessions)
    started: dict[str, tuple[str, int]] = {}
    for session in sorted(sessions, key=lambda item: (len(_ancestors(item, by_id)), item.path)):
        steps: dict[str, int] = {}
        try:
            for record in read(blob, session.path, steps):
                if isinstance(record, Trajectory) and record.relation == "subagent":
                    parent, step = started.get(session.id, (session.parent or None, None))
                    yield replace(record, parent=parent, parent_step=step)
                else:
                    yield record
        except ParseError as error:
            yield Reject.of(error, "record", name)
        started |= {agent: (session.id, step) for agent, step in steps.items()}
