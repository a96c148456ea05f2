"""State of a part during judging: its measures and the answers it received, or the verdicts of an earlier run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.execution.exchange import Span
from trajmill.pipelines.judge.judging import Judging, Measures, Unit, read_measures
from trajmill.pipelines.judge.packed_rows import LOSER, unpack
from trajmill.pipelines.judge.reasons import AFTER_NEAR, BRIDGES_POOLS, EXCLUDED, NEAR_DUPLICATE, REASONS, SIMULATED
from trajmill.pipelines.judge.selected_ids import excluded_trajectories
from trajmill.pipelines.judge.world_models import refused_trajectories
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table
from trajmill.quality.cap import BINS, beyond_own, bins
from trajmill.quality.hash_sampling import chances
from trajmill.quality.rule import apply_rules

LIMITS = "limits"
"""Name of the answer on the recipe's caps: for each rule the first bin that loses its loss, as 64-bit numbers."""


def cap_bins(measures: Measures) -> npt.NDArray[np.int64]:
    """Return the bin of each row under caps of a domain."""
    return bins(cap_chances(measures))


def cap_chances(measures: Measures) -> npt.NDArray[np.uint64]:
    """Return the hash of each row under caps."""
    return chances(measures.table["trajectory_id"].combine_chunks(), measures.column("step"), "cap")


@dataclass(frozen=True)
class Standing:
    """A unit and the answers that it received. Everything else is read or computed on first use."""

    unit: Unit
    judging: Judging
    heard: Mapping[str, Sequence[bytes | Span]] = field(default_factory=dict)
    common: Mapping[tuple[str, int], Any] = field(default_factory=dict)
    own: dict[str, npt.NDArray[np.void]] = field(default_factory=dict)

    @property
    def measured(self) -> Folder:
        """The folder of the unit's measures."""
        return self.unit.measures_folder(self.judging)

    def told(self, name: str) -> Iterator[bytes]:
        """Yield the packed records of the answers of that name."""
        return self.judging.fetch_blocks(self.heard.get(name, ()))

    @cached_property
    def measures(self) -> Measures:
        """Measures of the unit."""
        return read_measures(self.unit, self.judging)

    @cached_property
    def losers(self) -> dict[str, npt.NDArray[np.void]]:
        """Losers so far of each reason besides the recipe's rules.

        Which trajectories a world model answered, and which were withdrawn or excluded, every unit knows by itself.
        """
        losers = {reason.name: np.sort(unpack(self.told(reason.name), LOSER)) for reason in REASONS} | self.own
        withdrawn = np.array(dict(self.judging.withdrawn).get(self.unit.label, ()), np.int64)
        bridges = np.zeros(len(withdrawn), LOSER)
        bridges["row"] = withdrawn
        return losers | {
            SIMULATED: refused_trajectories(self.unit, self.judging),
            BRIDGES_POOLS: bridges,
            EXCLUDED: excluded_trajectories(self.judging.recipe.judge, self.measures),
        }

    @cached_property
    def over(self) -> npt.NDArray[np.int16]:
        """For each row the position of the capped rule whose cap it exceeds, else -1."""
        measures = self.measures
        rows, capped = measures.table.num_rows, measures.decision.capped
        rule_of_row = np.full(rows, -1, np.int16)
        limits = list(self.told(LIMITS))
        if limits and rows:
            first = np.append(np.frombuffer(limits[0], "<i8"), BINS)[capped]
            rule_of_row = np.where(cap_bins(measures) >= first, capped, rule_of_row)
        for position, rule in enumerate(self.judging.recipe.judge.ordered_rules()):
            if rule.cap is not None and rule.of == "trajectory":
                targets, chance = self._targets_without_caps() & (rule_of_row < 0), cap_chances(measures)
                rule_of_row[beyond_own(capped == position, targets, measures.starts, chance, rule.cap)] = position
        return rule_of_row

    def kept(self) -> npt.NDArray[np.bool_]:
        """Flag the rows whose trajectory has not been dropped so far by a rule or a decision."""
        measures = self.measures
        first = measures.decision.trajectory[measures.starts] < 0
        for reason in REASONS:
            if reason.whole:
                first &= ~np.isin(measures.starts, self.losers[reason.name]["row"])
        return np.repeat(first, measures.lengths)

    def counts(self) -> npt.NDArray[np.bool_]:
        """Flag the rows whose trajectory counts as a rollout when background steps are found."""
        return self.kept()

    def rank_values(self, values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
        """Return values whose smallest is the best, after those of all decided units."""
        return values.astype(np.uint64) + np.uint64(1)

    def _targets_without_caps(self) -> npt.NDArray[np.bool_]:
        """Flag the rows that would bear the loss if no rule had a cap."""
        flags = self.kept() & (self.measures.decision.transition < 0) & self.measures.column("has_text")
        for reason in REASONS:
            if not reason.whole:
                flags[self.losers[reason.name]["row"]] = False
        return flags

    def targets(self) -> npt.NDArray[np.bool_]:
        """Flag the rows that bear the loss after the decisions so far."""
        return self._targets_without_caps() & (self.over < 0)


_MEASURED: Final = (
    *("trajectory_id", "step", "rank", "origin", "trajectory_hash", "transition_hash"),
    *("task_node", "instance_node", "own_node", "parent_node"),
)


@dataclass(frozen=True)
class DecidedStanding(Standing):
    """State of a part whose verdicts are final."""

    @cached_property
    def measures(self) -> Measures:
        """Measures that rounds need of a decided unit, without rules."""
        table = read_table(self.measured, f"{self.unit.label}.parquet", _MEASURED).combine_chunks()
        starts = np.flatnonzero(table["step"].to_numpy() == 0)
        return Measures(table, apply_rules((), {}, table.num_rows, None), starts)

    @cached_property
    def _verdicts(self) -> pa.Table:
        assert self.unit.folder is not None
        return read_table(self.unit.folder / "verdicts", self.unit.name, ["kept", "use", "reason"])

    def _told(self, column: str, values: Sequence[str]) -> npt.NDArray[np.bool_]:
        matches = pc.is_in(self._verdicts[column].cast(pa.string()), value_set=pa.array(values, pa.string()))
        return matches.to_numpy(zero_copy_only=False)

    def kept(self) -> npt.NDArray[np.bool_]:
        return self._verdicts["kept"].to_numpy()

    def counts(self) -> npt.NDArray[np.bool_]:
        """Flag rows as `Standing` does. A trajectory that was compared in its own run counts as it did there."""
        return self.kept() | self._told("reason", (NEAR_DUPLICATE, *AFTER_NEAR))

    def targets(self) -> npt.NDArray[np.bool_]:
        return self._told("use", ("target",))

    def rank_values(self, values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
        return np.zeros(len(values), np.uint64)
