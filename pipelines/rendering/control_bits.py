"""Where a transition holds strings that chat tokenizers take for control tokens (`quality.control_strings`).

Judge measures it once, of what is shown before any of it is escaped; a number of bits stands in the costs of each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

USER, SAID, STATE, ANSWER, CONTEXT = (1 << number for number in range(5))
"""In the action, in what others said before it, in the state before it, in the answer, in the context of its prompt."""

ALWAYS: Final = USER | ANSWER
"""What a turn shows whatever stands before it."""


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
