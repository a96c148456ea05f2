"""The bounds of a recipe on how much of what is kept one task, environment, place or command may be, over the corpus.

Hashes of the rows that bear the loss are gathered by domain, where `quality.share` decides; one record of 64 bytes each
(one a trajectory where only tasks and environments are bounded).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.engine.parquet import read_batches
from pipelines.judge.caps import domain_of
from pipelines.judge.measures import LOSER, Judging, Sidecar, Unit, by_unit, identities, variety_name
from quality.chance import chances
from quality.share import BOUNDED, RECORD, beyond
from quality.variety import OF_TRAJECTORIES, VARIETY_SCHEMA

REASONS: Final[Mapping[str, str]] = {kind: f"max_share_{kind}" for kind in BOUNDED}
OF_WHOLES: Final = tuple(REASONS[kind] for kind in BOUNDED if kind in OF_TRAJECTORIES)
OF_ROWS: Final = tuple(REASONS[kind] for kind in BOUNDED if kind not in OF_TRAJECTORIES)
"""Reasons by which trajectories go, and those by which rows lose the loss."""


def bearing(
    unit: Unit, judging: Judging, sidecar: Sidecar, target: npt.NDArray[np.bool_]
) -> Iterator[tuple[str, bytes]]:
    """The unit's domain and the records of its rows that bear the loss, packed.

    Args:
        unit: the unit.
        judging: the rest.
        sidecar: the unit's measurements.
        target: of each row whether it bears the loss in the end if nothing is bounded.
    """
    first = np.repeat(sidecar.starts, sidecar.lengths)
    rows = np.flatnonzero(target)
    if all(kind in OF_TRAJECTORIES for kind in judging.recipe.judge.max_share):
        rows = rows[np.unique(first[rows], return_index=True)[1]]
    if not len(rows):
        return
    found = np.zeros(len(rows), RECORD)
    ids = sidecar.table["trajectory_id"].combine_chunks()
    found["chance"] = chances(ids, sidecar.column("step"), "share")[rows]
    found["tie"] = np.repeat(identities(ids.take(pa.array(sidecar.starts)).to_pylist()), sidecar.lengths)[rows]
    found["origin"] = sidecar.column("place")[rows]
    table = pa.Table.from_batches(read_batches(judging.measures, variety_name(unit.label)), schema=VARIETY_SCHEMA)
    for kind in BOUNDED:
        found[kind] = table[kind].to_numpy()[rows]
    found["unit"], found["first"], found["row"] = unit.number, first[rows], rows
    yield domain_of(unit), found.tobytes()


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
            yield REASONS[kind], unit, rows.tobytes()


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
