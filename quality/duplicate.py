"""Exact duplicates by hash: which of equal things survive, whatever order they come in.

Works on packed keys alone, never on payload. Near duplicates are not found here.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

KEY: Final = np.dtype(
    [
        ("high", "<u8"),
        ("low", "<u8"),
        ("rank", "<u8"),
        ("tie", "<u8"),
        ("origin", "<u8"),
        ("unit", "<u4"),
        ("row", "<u4"),
    ]
)
"""Key of a thing that may have duplicates: its hash (high, low); rank, tie and origin, of which the smallest survives;
and its position (unit of work, row in it), which breaks the remaining ties.
"""


def losers(keys: npt.NDArray[np.void], most: int = 1) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
    """The keys that smaller ones of the same hash make superfluous, and for each the smallest, which survives.

    The same pairs for any order of `keys`.

    Args:
        keys: of dtype `KEY`; all keys of one hash must be among them.
        most: how many of one hash survive.
    """
    order = np.lexsort([keys[name] for name in ("row", "unit", "origin", "tie", "rank", "low", "high")])
    ranked = keys[order]
    again = np.zeros(len(ranked), np.bool_)
    again[1:] = (ranked["high"][1:] == ranked["high"][:-1]) & (ranked["low"][1:] == ranked["low"][:-1])
    place = np.arange(len(ranked))
    survivors = np.maximum.accumulate(np.where(again, 0, place))
    lost = place - survivors >= most
    return ranked[lost], ranked[survivors[lost]]
