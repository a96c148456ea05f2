"""Trajectories of a recorded session in any format: one for each run of acts.

This module names and links the runs: if input was lost between two runs, the later continues the earlier. Formats that
know an outcome, a task or an agent add it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from trajmill.connectors.connector import Blob
from trajmill.connectors.recordings.acts import steps_of
from trajmill.connectors.recordings.session import Run, Session
from trajmill.schemas import Context, Environment, ParseError, Reject, Trajectory

UNDATED: Final = "undated"
"""Native id of a recording without a date. It is not empty, since an empty id would mean no parent."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Description of a recording in itself; None for unstated values.

    Attributes:
        native_id: its id; see `UNDATED`.
        columns: columns of the terminal at the beginning.
        rows: rows of the terminal at the beginning.
        began: beginning, in seconds since 1970 UTC.
        command: the command that was run in the terminal.
        member: the file that the offsets of acts refer to.
        timed: whether the recording states the time of output; if not, no step has a duration.
    """

    native_id: str
    columns: int
    rows: int
    began: float | None = None
    term: str | None = None
    shell: str | None = None
    command: str | None = None
    member: str = ""
    timed: bool = True


def trajectories_of(
    session: Session, recording: Recording, blob: Blob, connector: str
) -> Iterator[Trajectory | Reject]:
    """Yield the trajectories of a session that was read, then a reject for each gap, and one for a reading error.

    Raises:
        ParseError: the session has no act. The error is the reading error; if it was read whole, `no_transitions` or
            `no_input`.
    """
    number = before = 0
    for run in session.runs():
        yield _trajectory(recording, run, number, before)
        number, before = number + 1, len(run.acts)
    if not number:
        raise session.error or without_action(blob, session, recording.member)
    for gap in session.gaps:
        yield Reject("record", gap.reason, gap.detail, blob.uri, recording.member, gap.offset, connector)
    if session.error is not None:
        yield Reject.of(session.error, connector=connector)


def without_action(blob: Blob, session: Session, member: str = "") -> ParseError:
    """Build the error that explains why a completely read session has no act."""
    if not session.has_output and not session.has_input:
        return ParseError(blob.uri, -1, "no_transitions", "a recording without output or input", member)
    if session.has_input:
        return ParseError(blob.uri, -1, "no_input", "input was recorded, but no key was typed", member)
    return ParseError(
        blob.uri, -1, "no_input", "a recording of output alone, in which no typed line can be told", member
    )


def _trajectory(recording: Recording, run: Run, number: int, before: int) -> Trajectory:
    """Build the trajectory of the run of the given number, from 0; the run before it has `before` acts."""
    native_id = recording.native_id
    began = recording.began if recording.timed else None
    steps = steps_of(run.acts, run.ending, began, recording.member, timed=recording.timed)
    return Trajectory(
        f"{native_id}/{number}" if number else native_id,
        "terminal",
        steps,
        Environment(id=recording.command or recording.shell),
        context=Context(initial_state=terminal_words(recording)),
        parent=None if not number else f"{native_id}/{number - 1}" if number > 1 else native_id,
        parent_step=before - 1 if number else None,
        relation="continuation" if number else None,
    )


def terminal_words(recording: Recording) -> str:
    """Describe the terminal in a few words, such as `terminal of 80x24, TERM=xterm-256color, SHELL=/bin/bash`."""
    words = [f"terminal of {recording.columns}x{recording.rows}"]
    for name, value in (("TERM", recording.term), ("SHELL", recording.shell)):
        if value is not None:
            words.append(f"{name}={value}")
    if recording.command is not None:
        words.append(f"running {recording.command}")
    return ", ".join(words)
