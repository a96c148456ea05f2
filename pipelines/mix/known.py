"""Decisions that a run begins with: none, unless it is given those of earlier runs.

Plan, judge and mix ask this one object, so that the same code runs for the first logs and for all that come later.
`generations.known` knows what earlier runs decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.judge.judging import Unit, Withdrawn
from trajmill.pipelines.mix.candidates import Candidates, widen_groups
from trajmill.pipelines.mix.coded_names import Coded
from trajmill.pipelines.mix.draw import NOTHING, PriorDraws
from trajmill.pipelines.normalize.forgotten_keys import Tombstones
from trajmill.pipelines.recipe.mixture import Stage
from trajmill.pipelines.recipe.recipe import POOLS, Recipe
from trajmill.pipelines.storage.folders import Folder


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Folders of what was judged of units.

    Attributes:
        transitions: the rows.
        verdicts: their verdicts.
        measures: what was measured of them.
        likeness: whom they are like; None where that is not asked.
    """

    transitions: Folder
    verdicts: Folder
    measures: Folder
    likeness: Folder | None = None

    @property
    def folders(self) -> tuple[Folder, Folder, Folder]:
        """Of transitions, verdicts and measures."""
        return self.transitions, self.verdicts, self.measures


@dataclass(frozen=True, slots=True)
class Placement:
    """Group and pool of each candidate; the pool is empty where it is still to be chosen, for the group as a whole.

    Attributes:
        group: names.
        pool: names.
    """

    group: npt.NDArray[np.uint64]
    pool: Coded

    def append_placement(self, later: Placement) -> Placement:
        """Return the same, and after them those of others."""
        return Placement(np.concatenate([self.group, later.group]), Coded.joined([self.pool, later.pool]))


class EarlierDraws:
    """Draws of earlier runs: none.

    Attributes:
        mixtures: what the stages of each run drew, as `Mixture.told` says it.
    """

    mixtures: Sequence[Mapping[str, Any]] = ()

    def environments(self) -> npt.NDArray[np.uint64]:
        """The environments of which training shows something, ascending."""
        return np.zeros(0, np.uint64)

    def count(self, pool: str) -> int:
        """Number of samples that a pool drew, on which the running index goes on."""
        del pool
        return 0

    def given(self) -> dict[str, Counter[str]]:
        """Number of trajectories that each pool was given, by domain."""
        return {pool: Counter() for pool in POOLS}

    def carried(self, pool: str, stage: Stage) -> PriorDraws:
        """Earlier draws that count where a stage of a pool is drawn once more."""
        del pool, stage
        return NOTHING


class Known:
    """Decisions of earlier runs, which stay: none.

    Attributes:
        digest: of all of it.
        stages: where the stages of earlier runs lie, in their order.
        tombstones: of what was forgotten, and is not read again.
    """

    digest: str = ""
    stages: tuple[Folder, ...] = ()
    tombstones: Tombstones = Tombstones("")

    @property
    def generation(self) -> int:
        """The number of the run that begins, among those of its folder."""
        return len(self.stages) + 1

    def units(self) -> list[Unit]:
        """The decided units of earlier runs, numbered from `DECIDED` on."""
        return []

    def asks_likeness(self, recipe: Recipe) -> bool:
        """Return True if pools are given by similar trajectories, so that judging has to write the likeness down."""
        del recipe
        return False

    def bridges(self, recipe: Recipe, units: Sequence[Unit], judged: Verdicts) -> Withdrawn:
        """The first rows of kept trajectories that would join two pools, by their unit's label."""
        del recipe, units, judged
        return ()

    def placed(self, recipe: Recipe, units: Sequence[Unit], candidates: Candidates, judged: Verdicts) -> Placement:
        """Give each candidate its group and pool."""
        del units, judged
        return Placement(widen_groups(candidates, recipe.mix), Coded.alike("", len(candidates)))

    def place_passages(self, passed: Candidates) -> Placement:
        """Give each passage its group and pool."""
        return Placement(passed.group, Coded.alike("", len(passed)))

    def draws(self, recipe: Recipe) -> EarlierDraws:
        """Return what earlier runs drew."""
        del recipe
        return EarlierDraws()
