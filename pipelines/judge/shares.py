"""Caps and shares of a recipe over the whole corpus.

Caps gather counts of targets by domain. Shares bound how much of the kept rows one task, environment, place or command
may have. They gather hashes of the rows that bear the loss by domain, as records of 64 bytes, one per row or, if only
tasks and environments are bounded, one per trajectory; `quality.share_caps` decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trajmill.pipelines.judge.corpus_rule import Answers, Key, Keys, Round
from trajmill.pipelines.judge.judging import measure_file
from trajmill.pipelines.judge.packed_rows import LOSER, by_unit, identities, unpack
from trajmill.pipelines.judge.part_state import LIMITS, Standing, cap_bins
from trajmill.pipelines.judge.reasons import SHARE_REASONS
from trajmill.pipelines.storage.parquet import read_table
from trajmill.quality.cap import count_by_bin, limits
from trajmill.quality.hash_sampling import chances
from trajmill.quality.share_caps import BOUNDED, RECORD, beyond
from trajmill.quality.variety import OF_TRAJECTORIES

_NUMBER = 8
"""Bytes of the unit's number before its counts."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Rule that takes the loss from rows over the caps of a recipe's rules.

    It counts by bin the targets that break each capped rule, and sends the domain's units the first bin over each cap.
    Rows over a cap are reported under their rule's name, so there is no separate reason.
    """

    shares: tuple[float | None, ...]
    """Cap of each rule by position; None if it has none."""
    reasons: tuple[str, ...] = ()
    losing: str = "caps"
    reported: tuple[str, ...] = ()

    @property
    def rounds(self) -> tuple[Round, ...]:
        return (Round(self.losing, self.keys, self.losers),)

    def keys(self, standing: Standing) -> Keys:
        """Yield the unit's domain with its number and packed counts by bin of targets that break each capped rule."""
        target, measures = standing.targets(), standing.measures
        counts = count_by_bin(measures.decision.capped[target], cap_bins(measures)[target])
        yield standing.unit.domain, standing.unit.number.to_bytes(_NUMBER, "little") + counts.tobytes()

    def losers(self, key: Key, packed: Iterable[bytes]) -> Answers:
        """Send each unit of a domain the limits of the domain."""
        blocks = list(packed)
        answer = limits((data[_NUMBER:] for data in blocks), self.shares).astype("<i8").tobytes()
        for data in blocks:
            yield LIMITS, int.from_bytes(data[:_NUMBER], "little"), answer

    def words(self, reason: str, survivor: int) -> str:
        return "by the recipe's rule"


@dataclass(frozen=True, slots=True)
class Shares:
    """Rule that drops rows, or trajectories, that exceed the bounds on shares.

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
        table = read_table(judging.measures, measure_file(unit.label, "variety"), BOUNDED)
        for kind in BOUNDED:
            records[kind] = table[kind].to_numpy()[rows]
        records["unit"], records["first"], records["row"] = unit.number, first[rows], rows
        yield unit.domain, records.tobytes()

    def losers(self, key: Key, packed: Iterable[bytes]) -> Answers:
        """Yield the packed rows, or first rows of trajectories, that have to be dropped so that a domain's bounds hold.

        Raises:
            ConfigError: a bound cannot hold, since there are too few different values.
        """
        records = unpack(packed, RECORD)
        for kind, some in beyond(records, dict(self.bounds), str(key)).items():
            for unit, data in by_unit(some):
                rows = np.zeros(len(data) // RECORD.itemsize, LOSER)
                rows["row"] = np.frombuffer(data, RECORD)["row"]
                yield SHARE_REASONS[kind], unit, rows.tobytes()

    def words(self, reason: str, survivor: int) -> str:
        kind = reason.removeprefix("max_share_").replace("_", " ")
        return f"as much of its {kind} is kept as the recipe's share allows"
