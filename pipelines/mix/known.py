"""Decisions that a run starts from: none, or those of earlier runs.

Plan, judge and mix use this one object, so that the same code runs for the first logs and for all later ones.
`generations.known` provides the decisions of earlier runs.
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
class Placement:
    """Group and pool of each candidate. The pool is empty if it is still to be chosen for the whole group."""

    group: npt.NDArray[np.uint64]
    pool: Coded


class EarlierDraws:
    """Draws of earlier runs: none.

    Attributes:
        mixtures: summary of each run's draws, as returned by `Mixture.told`.
    """

    mixtures: Sequence[Mapping[str, Any]] = ()

    def environments(self) -> npt.NDArray[np.uint64]:
        """Return the environments that training samples show, ascending."""
        return np.zeros(0, np.uint64)

    def count(self, pool: str) -> int:
        """Return the number of samples that a pool drew. The running index continues from it."""
        del pool
        return 0

    def given(self) -> dict[str, Counter[str]]:
        """Return the number of trajectories of each pool, by domain."""
        return {pool: Counter() for pool in POOLS}

    def carried(self, pool: str, stage: Stage) -> PriorDraws:
        """Return the earlier draws that count when a stage of a pool is drawn again."""
        del pool, stage
        return NOTHING


class Known:
    """Decisions of earlier runs, which stay: none.

    Attributes:
        stages: folders of the stages of earlier runs, in order.
        tombstones: keys of forgotten records, which are not read again.
    """

    digest: str = ""
    stages: tuple[Folder, ...] = ()
    tombstones: Tombstones = Tombstones("")

    @property
    def generation(self) -> int:
        """Number of the current run among those of its folder."""
        return len(self.stages) + 1

    def units(self) -> list[Unit]:
        """Return the decided units of earlier runs, numbered from `DECIDED` on."""
        return []

    def asks_likeness(self, recipe: Recipe) -> bool:
        """Return True if pools are chosen by similar trajectories, so that judging has to store the similarities."""
        del recipe
        return False

    def bridges(self, recipe: Recipe, units: Sequence[Unit], stages: Folder) -> Withdrawn:
        """Return the first rows of kept trajectories that would join two pools, by their unit's label."""
        del recipe, units, stages
        return ()

    def placed(self, recipe: Recipe, units: Sequence[Unit], candidates: Candidates, stages: Folder) -> Placement:
        """Return the group and pool of each candidate."""
        del units, stages
        return Placement(widen_groups(candidates, recipe.mix), Coded.alike("", len(candidates)))

    def place_passages(self, passed: Candidates) -> Placement:
        """Return the group and pool of each passage."""
        return Placement(passed.group, Coded.alike("", len(passed)))

    def draws(self, recipe: Recipe) -> EarlierDraws:
        """Return the draws of earlier runs."""
        del recipe
        return EarlierDraws()
