"""Where a transition holds strings that chat tokenizers take for control tokens (`quality.control_strings`).

Judge measures it once, of what is shown before any of it is escaped; a number of bits stands in the costs of each row.
Besides it tells of which rows escaping changes a text, so that others need not be looked through again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

USER, SAID, STATE, ANSWER, CONTEXT = (1 << number for number in range(5))
"""In the action, in what others said before it, in the state before it, in the answer, in the context of its prompt."""

ESCAPABLE: Final = 1 << 5
"""Somewhere in the action, the state or the answer stands what escaping changes: such a string, or one escaped."""

ALWAYS: Final = USER | ANSWER
"""What a turn shows whatever stands before it."""


def may_escape(row: Mapping[str, Any]) -> bool:
    """Whether escaping could change what a row shows; of one whose costs are not known it could."""
    return bool(row.get("control", ESCAPABLE) & ESCAPABLE)


def turn_holds(row: Mapping[str, Any], calls: Sequence[Mapping[str, Any]], shows_state: bool) -> bool:
    """Whether a turn shows such a string; rows whose costs are not known count as without.

    Args:
        row: of the turn.
        calls: the rows of what was called at once, where the turn shows what others said before them; else none.
        shows_state: whether it shows the state before the action.
    """
    if row.get("control", 0) & (ALWAYS | STATE if shows_state else ALWAYS):
        return True
    return bool(calls) and any(one.get("control", 0) & SAID for one in calls)
