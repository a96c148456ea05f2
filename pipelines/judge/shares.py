"""The caps and shares of a recipe over the whole corpus.

Caps gather counts of targets by domain. Shares (how much of what is kept one task, environment, place or command may
be) gather hashes of the rows that bear the loss by domain, where `quality.share_caps` decides; one record of 64 bytes
each (one a trajectory where only tasks and environments are bounded).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trajmill.pipelines.judge.corpus_rule import Answers, Key, Keys, Round
from trajmill.pipelines.judge.judging import measure_file
from trajmill.pipelines.judge.packed_rows import LOSER, by_unit, identities
from trajmill.pipelines.judge.part_state import LIMITS, Standing, cap_bins
from trajmill.pipelines.judge.reasons import SHARE_REASONS
from trajmill.pipelines.storage.parquet import read_batches
from trajmill.quality.cap import count_by_bin, limits
from trajmill.quality.hash_sampling import chances
from trajmill.quality.share_caps import BOUNDED, RECORD, beyond
from trajmill.quality.variety import OF_TRAJECTORIES, VARIETY_SCHEMA

_NUMBER = 8
"""Bytes of the unit's number before its counts."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Rule on capped rules: counts targets that break each by bin, and tells the domain's units the first bin over each
    cap.

    Rows over a cap are told by their rule's name, so that there is no reason of its own.
    """

    shares: tuple[float | None, ...]
    """Of each rule by position, None where it is not capped."""
    reasons: tuple[str, ...] = ()
    losing: str = "caps"
    reported: tuple[str, ...] = ()

    @property
    def rounds(self) -> tuple[Round, ...]:
        return (Round(self.losing, self.keys, self.losers),)

    def keys(self, standing: Standing) -> Keys:
        """The unit's domain; its number, and how many of its targets break which capped rule, by bin, packed."""
        target, measures = standing.targets(), standing.measures
        counts = count_by_bin(measures.decision.capped[target], cap_bins(measures)[target])
        yield standing.unit.domain, standing.unit.number.to_bytes(_NUMBER, "little") + counts.tobytes()

    def losers(self, key: Key, packed: Iterable[bytes]) -> Answers:
        """Tell each unit of a domain the limits of the domain."""
        blocks = list(packed)
        answer = limits((data[_NUMBER:] for data in blocks), self.shares).astype("<i8").tobytes()
        for data in blocks:
            yield LIMITS, int.from_bytes(data[:_NUMBER], "little"), answer

    def words(self, reason: str, survivor: int) -> str:
        return "by the recipe's rule"


@dataclass(frozen=True, slots=True)
class Shares:
    """Records of the rows that bear the loss, by domain → rows, and first rows of trajectories, beyond the bounds.

    Attributes:
        bounds: the recipe's shares by kind, as pairs.
    """

    bounds: tuple[tuple[str, float], ...]
    reasons: tuple[str, ...] = tuple(SHARE_REASONS.values())
    losing: str = "shares"
    reported: tuple[str, ...] = ()

    @property
    def rounds(self) -> tuple[Round, ...]:
        return (Round(self.losing, self.keys, self.losers),)

    def keys(self, standing: Standing) -> Keys:
        """Yield the unit's domain and the packed records of its rows that bear the loss."""
        measures, judging, unit = standing.measures, standing.judging, standing.unit
        first = np.repeat(measures.starts, measures.lengths)
        rows = np.flatnonzero(standing.targets())
        if all(kind in OF_TRAJECTORIES for kind, _ in self.bounds):
            rows = rows[np.unique(first[rows], return_index=True)[1]]
        if not len(rows):
            return
        records = np.zeros(len(rows), RECORD)
        ids = measures.table["trajectory_id"].combine_chunks()
        records["chance"] = chances(ids, measures.column("step"), "share")[rows]
        records["tie"] = np.repeat(identities(ids.take(pa.array(measures.starts)).to_pylist()), measures.lengths)[rows]
        records["origin"] = measures.column("origin")[rows]
        table = pa.Table.from_batches(
            read_batches(judging.measures, measure_file(unit.label, "variety")), schema=VARIETY_SCHEMA
        )
        for kind in BOUNDED:
            records[kind] = table[kind].to_numpy()[rows]
        records["unit"], records["first"], records["row"] = unit.number, first[rows], rows
        yield unit.domain, records.tobytes()

    def losers(self, key: Key, packed: Iterable[bytes]) -> Answers:
        """Packed rows, or first rows of trajectories, of what goes so that a domain's bounds hold.

        Raises:
            ConfigError: a bound cannot hold, for want of different values.
        """
        records = np.concatenate([np.frombuffer(data, RECORD) for data in packed])
        for kind, some in beyond(records, dict(self.bounds), str(key)).items():
            for unit, data in by_unit(some):
                rows = np.zeros(len(data) // RECORD.itemsize, LOSER)
                rows["row"] = np.frombuffer(data, RECORD)["row"]
                yield SHARE_REASONS[kind], unit, rows.tobytes()

    def words(self, reason: str, survivor: int) -> str:
        kind = reason.removeprefix("max_share_").replace("_", " ")
        return f"as much of its {kind} is kept as the recipe's share allows"
