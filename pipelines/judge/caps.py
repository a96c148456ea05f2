"""The caps of a recipe, over the whole corpus: counts of targets are gathered by domain, nothing else is shuffled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from pipelines.judge.measures import Judging, Sidecar, Unit
from quality.cap import BINS, bins, counted, limits

Limits = Mapping[str, npt.NDArray[np.int64]]
"""Of each domain the first bin that loses its loss, by position of the rule."""


def capped(judging: Judging) -> bool:
    """Whether the recipe caps anything."""
    return any(rule.cap is not None for rule in judging.recipe.judge.ordered_rules())


def domain_of(unit: Unit) -> str:
    """The domain of all rows of a unit."""
    return unit.name.split("/", 1)[0]


def _bins(sidecar: Sidecar) -> npt.NDArray[np.int64]:
    return bins(sidecar.table["trajectory_id"].combine_chunks(), sidecar.column("step"))


def target_counts(unit: Unit, sidecar: Sidecar, target: npt.NDArray[np.bool_]) -> tuple[str, bytes]:
    """The unit's domain, and how many of its targets break which capped rule, by bin, packed.

    Args:
        unit: the unit.
        sidecar: its measurements.
        target: of each row whether it would bear loss if nothing were capped.
    """
    return domain_of(unit), counted(sidecar.decision.capped[target], _bins(sidecar)[target]).tobytes()


def over_cap(unit: Unit, sidecar: Sidecar, found: Limits) -> npt.NDArray[np.int16]:
    """For each row the position of the capped rule that it breaks if it is over the cap, else -1."""
    if domain_of(unit) not in found or not sidecar.table.num_rows:
        return np.full(sidecar.table.num_rows, -1, np.int16)
    first = np.append(found[domain_of(unit)], BINS)[sidecar.decision.capped]
    return np.where(_bins(sidecar) >= first, sidecar.decision.capped, np.int16(-1))


class CountsToLimits(beam.PTransform):
    """(domain, packed counts) → (domain, the first bin over each rule's cap)."""

    def __init__(self, judging: Judging) -> None:
        super().__init__()
        self._caps = [rule.cap for rule in judging.recipe.judge.ordered_rules()]

    def expand(
        self, counts: beam.PCollection[tuple[str, bytes]]
    ) -> beam.PCollection[tuple[str, npt.NDArray[np.int64]]]:
        caps = self._caps

        def limited(domain: str, packed: Iterable[bytes]) -> tuple[str, npt.NDArray[np.int64]]:
            return domain, limits(packed, caps)

        return counts | "GatherCounts" >> beam.GroupByKey() | "Limits" >> beam.MapTuple(limited)
