"""Trajectories of a later generation that would join two pools, which are for ever apart: they go before all others.

Which ones these are is found where groups are given pools; judging is then done again without them, so that nothing is
dropped for the sake of one that goes itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trajmill.pipelines.judge.corpus_rule import Answers, Key, Keys, Round
from trajmill.pipelines.judge.earlier import Earlier
from trajmill.pipelines.judge.packed_rows import LOSER
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.judge.reasons import BRIDGES_POOLS


@dataclass(frozen=True, slots=True)
class Bridges:
    """The trajectories that were found to join two pools."""

    earlier: Earlier
    name: str = BRIDGES_POOLS
    reasons: tuple[str, ...] = (BRIDGES_POOLS,)
    before: tuple[Round, ...] = ()
    hears: tuple[str, ...] = ()
    common: str = ""

    def keys(self, standing: Standing) -> Keys:
        """The unit's number and the first rows of its bridges, packed."""
        found = self.earlier.bridges(standing.unit.label)
        rows = np.zeros(len(found), LOSER)
        rows["row"] = found
        yield standing.unit.number, rows.tobytes()

    def losers(self, key: Key, packed: Iterable[bytes]) -> Answers:
        """The same, told to the unit."""
        yield BRIDGES_POOLS, int(key), b"".join(packed)

    def words(self, reason: str, survivor: int) -> str:
        """See `Decision`."""
        return "belongs to groups of two pools, which earlier generations keep apart"
