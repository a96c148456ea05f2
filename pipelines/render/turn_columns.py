"""Turns by columns: the messages that `turns` writes of a row, for many rows at once.

What user and harness said between turns is not shown here: whoever keeps that renders such trajectories row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.render.text_columns import (
    capped_texts,
    endings,
    observed,
    plain_texts,
    shown_actions,
    time_limits,
)
from trajmill.pipelines.render.turns import ACTION, MARKER, STATE, View, heading

Flags: TypeAlias = "npt.NDArray[np.bool_]"

USER_COLUMNS: Final = ("domain", "action", "time_limit_s")
"""Of transitions, what the user message of a turn is made of, besides the state before its action."""

TURN_COLUMNS: Final = (*USER_COLUMNS, "next_observation", "timed_out", "exit_code")
"""The same of both messages of a turn."""


def user_texts(
    shown: pa.RecordBatch, numbers: npt.NDArray[np.int64], states: pa.StringArray, view: View, escapable: Flags
) -> pa.StringArray:
    """The user message of each turn, as of `turns.user_text`.

    Args:
        shown: the rows of the turns, with `USER_COLUMNS`.
        numbers: of the turns, from 1.
        states: what stood before each action, where the message shows it; else null.
        view: how they are shown.
        escapable: of which rows escaping could change a text.
    """
    actions, limits = shown_actions(shown, view), time_limits(shown)
    heads = pa.array([heading(number) for number in range(1, int(numbers.max(initial=0)) + 1)], pa.string())
    pieces = [
        heads.take(pa.array(numbers - 1)),
        _headed(states, view),
        _spread([limit + ACTION for limit in limits[0]], limits[1]),
        _spread(*actions),
    ]
    return plain_texts(_joined(*pieces), view, escapable)


def answer_texts(shown: pa.RecordBatch, view: View, escapable: Flags, marker: str = MARKER) -> pa.StringArray:
    """The assistant message of each turn, or what it predicts.

    Args:
        shown: the rows of the turns, with `TURN_COLUMNS`.
        view: as of `user_texts`.
        escapable: as there.
        marker: what leads a message; "" leaves what `turns.answer` gives.
    """
    content, _ = observed(shown, "next_observation", view)
    seen = plain_texts(capped_texts(pc.fill_null(content.cast(pa.string()), ""), view), view, escapable)
    ends, which = endings(shown)
    if not any(ends):
        return _joined(marker, seen) if marker else seen
    below = _spread([f"\n{end}" if end else "" for end in ends], which)
    return _joined(marker, seen, pc.if_else(pc.greater(pc.binary_length(seen), 0), below, _spread(ends, which)))


def _headed(states: pa.StringArray, view: View) -> pa.StringArray:
    """States as messages show them, each under its heading; null where they show none."""
    known = np.flatnonzero(states.is_valid().to_numpy(zero_copy_only=False))
    told = _joined(STATE, capped_texts(states.take(pa.array(known)), view), "\n\n")
    places = np.full(len(states), -1)
    places[known] = np.arange(len(known))
    return told.take(pa.array(places, mask=places < 0))


def _spread(texts: Sequence[str], which: npt.NDArray[np.int64]) -> pa.StringArray:
    return pa.array(texts, pa.string()).take(pa.array(which))


def _joined(*pieces: pa.StringArray | str) -> pa.StringArray:
    """The pieces of each row one after the other; null is nothing."""
    return pc.binary_join_element_wise(*pieces, "", null_handling="replace", null_replacement="")
