"""Acts at a terminal, however they were recovered, and the trajectory steps made from them.

An act is the input from the first key until the typist waits for the terminal to answer. The observation before it is
the screen at the first key, and the observation after it is the screen at the beginning of the next act. This module
does not recover acts; `bursts` does so for recorded input, `echo` for recordings of output alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any, Final

from trajmill.connectors.recordings.screen import screen_observation
from trajmill.connectors.screens.moves import Moves
from trajmill.schemas import Action, Observation, Shelf, Step, Steps, json_text, keystrokes, keystrokes_text
from trajmill.schemas.record import record

NAME: Final = "keystrokes"

CONTROL_D: Final = "\x04"
LEAVES: Final = frozenset({"exit", "logout", CONTROL_D})


@dataclass(slots=True)
class Act:
    """Keys typed in a row.

    Attributes:
        offset: offset of its first record in the recording, in bytes.
        start: time of its first key, in seconds since the recording began.
        end: time of its last key; not before `start`.
        before: the screen at its beginning; None if nothing was ever shown.
        strokes: (keys as typed, time of the first, time of the last); one entry for each line that was sent.
        facts: additional arguments, by name.
        statuses: exit statuses that the shell reported between this act and the next.
        timed: whether the recording states when it was typed. If not, `start`, `end` and the times of `strokes` only
            give the order.
    """

    offset: int
    start: float
    end: float
    before: str | None
    strokes: list[tuple[str, float, float]]
    facts: dict[str, Any]
    statuses: list[int] = field(default_factory=list)
    timed: bool = True

    @property
    def keys(self) -> str:
        """All keys, as typed."""
        return "".join(keys for keys, _, _ in self.strokes)


_ACT: Final = attrgetter(*(one.name for one in fields(Act)))


def act_bytes(act: Act) -> int:
    """Return the approximate memory of an act in bytes."""
    return 1024 + len(act.before or "") + sum(len(keys) + 128 for keys, _, _ in act.strokes)


def shelf_of_acts() -> Shelf[Act]:
    """Return an empty sequence of acts that keeps only the last ones in memory."""
    return Shelf(lambda acts: list(map(_ACT, acts)), lambda rows: [Act(*row) for row in rows], act_bytes)


@record
class Ending:
    """The end of a run of acts.

    Attributes:
        at: time of the last screen, in seconds since the recording began.
        after: that screen; None if the recording does not hold the result of the last act.
        cut: whether the recording lost the input that followed.
        lost: whether the recording lost a part of the last act's result.
        left: whether the last act ended the session.
        status: exit status of the session, if recorded.
    """

    at: float
    after: str | None
    cut: bool = False
    lost: bool = False
    left: bool = False
    status: int | None = None


def leaves(keys: str) -> bool:
    """Check if the keys end a shell: exit, logout or control-D."""
    words = keys.split(None, 1)
    return bool(words) and words[0] in LEAVES


def keys_text(keys: str) -> str:
    r"""Return the keys as a model reads them: Enter, which terminals send as `\r`, is `\n`, as in Terminus-2."""
    return keys.replace("\r\n", "\n").replace("\r", "\n")


def action_of(act: Act, until: float) -> Action:
    """Return the action of an act that was answered until `until`, in seconds since the recording began.

    The duration of an entry is the time from its last key to the next key. `arguments` holds the keys unchanged.
    """
    nexts = [*(begin for _, begin, _ in act.strokes[1:]), until]
    strokes = [
        (keys, max(0.0, after - end) if act.timed else None)
        for (keys, _, end), after in zip(act.strokes, nexts, strict=True)
    ]
    text = keystrokes_text([(keys_text(keys), wait) for keys, wait in strokes])
    return Action(NAME, text, json_text({"keystrokes": keystrokes(strokes), **act.facts}))


def steps_of(
    acts: Iterable[Act], ending: Ending, began: float | None, member: str = "", *, timed: bool = True
) -> list[Step] | Steps:
    """Return one step per act, in order; `timed` is False if all input is inferred, which the arguments note.

    `began` is the time of the recording's beginning in seconds since 1970 UTC, None if unknown. A step's duration is
    the time from the act's last key to the next act. Its exit code is the status that the shell reported (OSC 133), if
    it reported exactly one before the next act. For the last act it is the session's status if that act ended the
    session.
    """
    moves = Moves(in_memory=False)
    shown: Observation | None = None
    for act, after in pairwise(chain(acts, (None,))):
        assert act is not None
        act.timed = act.timed and timed
        act.facts |= {} if timed else {"source": "inferred"}
        before = shown if moves.steps else _seen(act.before)
        until = after.start if after is not None else ending.at
        shown = _seen(after.before if after is not None else ending.after)
        if after is None and ending.lost and shown is not None and shown.content is not None:
            shown = screen_observation(shown.content, "recorder")
        moves.add(
            action_of(act, until),
            before,
            shown,
            act.offset,
            member,
            exit_code=_exit_code(act, ending if after is None else None),
            at=None if began is None else round((began + act.start) * 1e6),
            seconds=round(max(0.0, until - act.end), 6) if act.timed else None,
        )
    moves.end(terminated=True if ending.left else None, truncated=True if ending.cut else None)
    return moves.steps


def _seen(text: str | None) -> Observation | None:
    return None if text is None else screen_observation(text)


def _exit_code(act: Act, ending: Ending | None) -> int | None:
    if ending is not None and ending.status is not None and leaves(act.keys):
        return ending.status
    return act.statuses[0] if len(act.statuses) == 1 else None
