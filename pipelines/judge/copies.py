"""Equal trajectories, of which one is kept, and equal transitions, of which one keeps its loss."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.judge.corpus_rule import Answers, Key, Keys, Round
from trajmill.pipelines.judge.packed_rows import LOSER, apart, identities, partition_records
from trajmill.pipelines.judge.part_state import Standing
from trajmill.pipelines.judge.reasons import DUPLICATE_TRAJECTORY, DUPLICATE_TRANSITION
from trajmill.quality.duplicate import KEY, losers
from trajmill.quality.fingerprint import as_lanes


@dataclass(frozen=True, slots=True)
class Copies:
    """Of equal ones the first: of trajectories that by rank, of transitions the earliest step.

    Attributes:
        whole: whether trajectories are compared; transitions otherwise.
    """

    whole: bool
    reported: tuple[str, ...] = ()

    @property
    def losing(self) -> str:
        return DUPLICATE_TRAJECTORY if self.whole else DUPLICATE_TRANSITION

    @property
    def reasons(self) -> tuple[str, ...]:
        return (self.losing,)

    @property
    def rounds(self) -> tuple[Round, ...]:
        return (Round(self.losing, self.keys, self.losers, takes_decided=True),)

    def keys(self, standing: Standing) -> Keys:
        """Packed keys of the trajectories, or targets, that are left, by partition."""
        starts = standing.measures.starts
        rows = starts[standing.kept()[starts]] if self.whole else np.flatnonzero(standing.targets())
        yield from partition_records(self._keys(standing, rows), "high", standing.judging.partitions)

    def _keys(self, standing: Standing, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """Keys of the given rows; for trajectories, of their first rows."""
        measures = standing.measures
        taken = measures.table.take(pa.array(rows))
        lanes = as_lanes(taken["trajectory_hash" if self.whole else "transition_hash"].combine_chunks())
        keys = np.zeros(len(rows), KEY)
        keys["high"], keys["low"] = lanes[:, 0], lanes[:, 1]
        keys["rank"] = standing.rank_values(measures.column("rank" if self.whole else "step")[rows])
        keys["tie"], keys["origin"] = identities(taken["trajectory_id"].to_pylist()), measures.column("origin")[rows]
        keys["unit"], keys["row"] = standing.unit.number, rows
        return keys

    def losers(self, key: Key, packed: Iterable[bytes]) -> Answers:
        """Yield the rows of each unit that lose against an equal one, with the survivor's id."""
        lost, survivors = losers(np.concatenate([np.frombuffer(data, KEY) for data in packed]))
        rows = np.zeros(len(lost), LOSER)
        rows["row"], rows["kept"] = lost["row"], survivors["tie"]
        yield from ((self.losing, *loss) for loss in apart(rows, lost["unit"]))

    def words(self, reason: str, survivor: int) -> str:
        return f"equal to one of trajectory {survivor:016x}…"
