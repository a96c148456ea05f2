"""Parts that an earlier run decided, as they take part in judging: as their verdicts left them, before all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.execution.exchange import Span
from trajmill.pipelines.judge.judging import Judging, Unit
from trajmill.pipelines.judge.measures import Measures
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.judge.reasons import AFTER_NEAR, NEAR_DUPLICATE
from trajmill.pipelines.storage.parquet import read_table
from trajmill.quality.rule import decided

_MEASURED: Final = (
    *("trajectory_id", "step", "rank", "origin", "trajectory_hash", "transition_hash"),
    *("task_node", "instance_node"),
)


@dataclass(frozen=True)
class DecidedStanding(Standing):
    """A part whose verdicts stay, whatever it is told."""

    @cached_property
    def measures(self) -> Measures:
        """What rounds ask of it, without rules."""
        table = read_table(self.measured, f"{self.unit.label}.parquet", _MEASURED).combine_chunks()
        starts = np.flatnonzero(table["step"].to_numpy() == 0)
        return Measures(table, decided((), {}, table.num_rows, None), starts)

    @cached_property
    def _verdicts(self) -> pa.Table:
        assert self.unit.folder is not None
        return read_table(self.unit.folder / "verdicts", self.unit.name, ["kept", "use", "reason"])

    def _told(self, column: str, values: Sequence[str]) -> npt.NDArray[np.bool_]:
        told = pc.is_in(self._verdicts[column].cast(pa.string()), value_set=pa.array(values, pa.string()))
        return told.to_numpy(zero_copy_only=False)

    def kept(self) -> npt.NDArray[np.bool_]:
        """See `Standing`."""
        return self._verdicts["kept"].to_numpy()

    def counts(self) -> npt.NDArray[np.bool_]:
        """See `Standing`: what was compared with others in its own run counts as it did there."""
        return self.kept() | self._told("reason", (NEAR_DUPLICATE, *AFTER_NEAR))

    def targets(self) -> npt.NDArray[np.bool_]:
        """See `Standing`."""
        return self._told("use", ("target",))

    def ranked(self, values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
        """See `Standing`."""
        return np.zeros(len(values), np.uint64)


def standing_of(
    unit: Unit,
    judging: Judging,
    heard: Mapping[str, Sequence[bytes | Span]],
    common: Mapping[tuple[str, int], Any],
) -> Standing:
    """How a unit stands, which was told this."""
    return (DecidedStanding if unit.is_decided else Standing)(unit, judging, heard, common)
