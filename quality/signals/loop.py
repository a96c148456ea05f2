"""Signal of trajectories in a loop: the same action with the same answer, repeatedly."""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np

from trajmill.quality.fingerprint import combine_hashes, text_hashes
from trajmill.quality.lookback import earliest_rows
from trajmill.quality.screens import as_compared
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.texts import Flags

REPEATS: Final = 3
"""Occurrences of an action with its answer that make a loop."""

WINDOW: Final = 12
"""Rows within which they must occur, first and last included."""


def flag_loops(measured: Measured) -> Flags:
    """Flag the rows whose action and next observation occur at least `REPEATS` times within `WINDOW` rows."""
    batch = measured.batch
    columns = [("action", "name"), ("action", "text"), ("next_observation", "content")]
    known = measured.texts("next_observation", "content").index >= 0
    comparable = measured.once(as_compared)
    texts = [comparable.texts(*path) for path in columns]
    lanes = combine_hashes([text.spread(text_hashes(text.texts)[:, 0])[:, None].repeat(2, 1) for text in texts])
    rows = np.flatnonzero(known)
    order = rows[np.lexsort((rows, lanes[rows, 0], measured.trajectory[rows]))]
    first, last = order[: 1 - REPEATS], order[REPEATS - 1 :]
    same = (lanes[first, 0] == lanes[last, 0]) & (first >= measured.once(earliest_rows)[last])
    begins = np.flatnonzero(same & (last - first < WINDOW))
    marked = np.zeros(batch.num_rows, np.bool_)
    for repeat in range(REPEATS):
        marked[order[begins + repeat]] = True
    return marked


class Loop(Signal):
    """Share of a trajectory's rows whose action and next observation occur 3 times or more within 12 rows."""

    name: ClassVar[str] = "loop"
    scope: ClassVar[str] = "trajectory"
    measures: ClassVar[str] = "share of rows whose action with its answer occurs 3 times or more within 12 rows"

    def measure(self, measured: Measured) -> Numbers:
        return measured.share(measured.around(flag_loops))
