"""The caps of a recipe, over the whole corpus: counts of targets are gathered by domain, nothing else is shuffled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from pipelines.judge.judging import Judging, Unit
from pipelines.judge.measures import Measures
from quality.cap import BINS, bins, counted, limits

Limits = Mapping[str, npt.NDArray[np.int64]]
"""Of each domain the first bin that loses its loss, by position of the rule."""


def capped(judging: Judging) -> bool:
    """Whether the recipe caps anything."""
    return any(rule.cap is not None for rule in judging.recipe.judge.ordered_rules())


def _bins(measures: Measures) -> npt.NDArray[np.int64]:
    return bins(measures.table["trajectory_id"].combine_chunks(), measures.column("step"))


def target_counts(unit: Unit, measures: Measures, target: npt.NDArray[np.bool_]) -> tuple[str, bytes]:
    """The unit's domain, and how many of its targets break which capped rule, by bin, packed.

    Args:
        unit: the unit.
        measures: its measurements.
        target: of each row whether it would bear loss if nothing were capped.
    """
    return unit.domain, counted(measures.decision.capped[target], _bins(measures)[target]).tobytes()


def over_cap(unit: Unit, measures: Measures, found: Limits) -> npt.NDArray[np.int16]:
    """For each row the position of the capped rule that it breaks if it is over the cap, else -1."""
    if unit.domain not in found or not measures.table.num_rows:
        return np.full(measures.table.num_rows, -1, np.int16)
    first = np.append(found[unit.domain], BINS)[measures.decision.capped]
    return np.where(_bins(measures) >= first, measures.decision.capped, np.int16(-1))


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
