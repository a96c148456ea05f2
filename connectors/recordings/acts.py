"""Acts at a terminal, however they were recovered, and the steps of a trajectory that are made of them.

An act is what was typed from the moment somebody began to type until the terminal was left to answer; the observation
before it is the screen at that moment, the one after it is the screen when the next act begins. This module does not
recover acts: see `bursts` for recorded input, `echo` for recordings of output alone.
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
    """Something typed.

    Attributes:
        offset: bytes into the recording where its first record begins.
        start: seconds since the recording began when its first key was typed.
        end: when its last key was typed; not before `start`.
        before: the screen when it began; None if nothing was ever shown.
        strokes: (keys as typed, when the first was typed, when the last was); one entry for each line that was sent.
        facts: what else goes into the arguments, by name.
        statuses: exit statuses that the shell reported between it and the next act.
        timed: whether the recording says when it was typed; if not, `start`, `end` and the times of `strokes` mean
            nothing but order.
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
    """Roughly what an act takes in memory."""
    return 1024 + len(act.before or "") + sum(len(keys) + 128 for keys, _, _ in act.strokes)


def shelf_of_acts() -> Shelf[Act]:
    """An empty sequence of acts, of which only the last will stand in memory."""
    return Shelf(lambda acts: list(map(_ACT, acts)), lambda rows: [Act(*row) for row in rows], act_bytes)


@record
class Ending:
    """Ending of a run of acts.

    Attributes:
        at: when the last screen was seen, in seconds since the recording began.
        after: that screen; None if the recording does not hold what the last act led to.
        cut: whether the recording lost what was done next.
        lost: whether it lost a part of what the last act led to.
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
    """Check if the keys are what one types to end a shell: exit, logout or control-D."""
    words = keys.split(None, 1)
    return bool(words) and words[0] in LEAVES


def keys_text(keys: str) -> str:
    r"""The keys as a model reads them: Enter, which terminals send as `\r`, is `\n`, as in Terminus-2."""
    return keys.replace("\r\n", "\n").replace("\r", "\n")


def action_of(act: Act, until: float) -> Action:
    """The action of an act that was answered until `until`, in seconds since the recording began.

    Each entry's duration is the time from its last key to the next key. `arguments` holds the keys unchanged.
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
    """One step an act, in order; `timed` as of `Act`, for all of them: what was typed is else inferred, and says so.

    `began` is the time of the recording's beginning in seconds since 1970 UTC, None if it does not say. A step's
    duration is the time from the act's last key to the next act. Its exit code is what the shell reported (OSC 133), if
    it reported exactly one before the next act; of the last act, the session's status if that act ended the session.
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
