"""The bounds of a recipe on how much of what is kept one task, environment, place or command may be, over the corpus.

Hashes of the rows that bear the loss are gathered by domain, where `quality.share` decides; one record of 64 bytes each
(one a trajectory where only tasks and environments are bounded).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.engine.parquet import read_batches
from pipelines.judge.judging import Judging, Unit
from pipelines.judge.measure_files import variety_name
from pipelines.judge.measures import Measures
from pipelines.judge.packed_rows import LOSER, by_unit, identities
from pipelines.judge.reasons import OF_ROWS, OF_WHOLES, SHARE_REASONS
from quality.chance import chances
from quality.share import BOUNDED, RECORD, beyond
from quality.variety import OF_TRAJECTORIES, VARIETY_SCHEMA


def bearing(
    unit: Unit, judging: Judging, measures: Measures, target: npt.NDArray[np.bool_]
) -> Iterator[tuple[str, bytes]]:
    """The unit's domain and the records of its rows that bear the loss, packed.

    Args:
        unit: the unit.
        judging: the rest.
        measures: the unit's measurements.
        target: of each row whether it bears the loss in the end if nothing is bounded.
    """
    first = np.repeat(measures.starts, measures.lengths)
    rows = np.flatnonzero(target)
    if all(kind in OF_TRAJECTORIES for kind in judging.recipe.judge.max_share):
        rows = rows[np.unique(first[rows], return_index=True)[1]]
    if not len(rows):
        return
    found = np.zeros(len(rows), RECORD)
    ids = measures.table["trajectory_id"].combine_chunks()
    found["chance"] = chances(ids, measures.column("step"), "share")[rows]
    found["tie"] = np.repeat(identities(ids.take(pa.array(measures.starts)).to_pylist()), measures.lengths)[rows]
    found["origin"] = measures.column("place")[rows]
    table = pa.Table.from_batches(read_batches(judging.measures, variety_name(unit.label)), schema=VARIETY_SCHEMA)
    for kind in BOUNDED:
        found[kind] = table[kind].to_numpy()[rows]
    found["unit"], found["first"], found["row"] = unit.number, first[rows], rows
    yield unit.domain, found.tobytes()


def lost_by_share(domain: str, packed: Iterable[bytes], judging: Judging) -> Iterator[tuple[str, int, bytes]]:
    """(reason, unit, packed rows or first rows of trajectories) of what goes so that a domain's bounds hold.

    Raises:
        ConfigError: a bound cannot hold, for want of different values.
    """
    records = np.concatenate([np.frombuffer(data, RECORD) for data in packed])
    shares = {str(kind): share for kind, share in judging.recipe.judge.max_share.items()}
    for kind, some in beyond(records, shares, domain).items():
        for unit, data in by_unit(some):
            rows = np.zeros(len(data) // RECORD.itemsize, LOSER)
            rows["row"] = np.frombuffer(data, RECORD)["row"]
            yield SHARE_REASONS[kind], unit, rows.tobytes()


class RecordsToLost(beam.PTransform):
    """(domain, packed records) → by reason, the packed rows of each unit that go."""

    def __init__(self, judging: Judging) -> None:
        super().__init__()
        self._judging = judging

    def expand(self, records: beam.PCollection[tuple[str, bytes]]) -> dict[str, Any]:
        judging = self._judging

        def split(domain: str, packed: Iterable[bytes]) -> Iterator[Any]:
            for reason, unit, rows in lost_by_share(domain, judging.fetched(packed), judging):
                yield beam.pvalue.TaggedOutput(reason, (unit, rows))

        reasons = (*OF_WHOLES, *OF_ROWS)
        found = (
            records | "GatherShares" >> beam.GroupByKey() | "Bound" >> beam.FlatMapTuple(split).with_outputs(*reasons)
        )
        return {reason: found[reason] for reason in reasons}
