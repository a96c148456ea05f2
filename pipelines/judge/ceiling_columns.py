"""The columns of noise ceilings of a unit, once the corpus has told what its replicates agree on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.judge.judging import Judging, Unit
from trajmill.pipelines.judge.measure_files import ceilings_name
from trajmill.pipelines.storage.parquet import read_table
from trajmill.quality.ceiling import ROWS_SCHEMA, Estimates
from trajmill.schemas.replay import CERTIFIED
from trajmill.schemas.row_ids import KEY
from trajmill.schemas.verdict import REASON_PREFIX, SIGNAL_PREFIX

CEILINGS_NAME: Final = "ceilings.json"
"""The file of what was measured, by cell, and of how far estimates are from it."""

CEILINGS_REPORT: Final = "ceilings_report"
"""What the reporting unit is told: that file."""

ESTIMATES: Final = "ceiling_estimates"
"""What each unit is told of rows without replicates: `Estimates` of its domain, as JSON."""

MEASURED_ROWS: Final = "ceilings_measured"
"""What it is told of rows with replicates: packed records of `ROW`."""

ROW: Final = np.dtype([("row", "<u4"), ("thousandths", "<u2")])


class Heard(Protocol):
    """A unit and what it was told."""

    @property
    def unit(self) -> Unit:
        """The unit."""

    @property
    def judging(self) -> Judging:
        """The rest."""

    def told(self, name: str) -> Iterator[bytes]:
        """The packed records that it was told by that name."""


def told_ceilings(heard: Heard) -> dict[str, pa.Array] | None:
    """The columns of noise ceilings, by name; None as long as nothing was told, or where nobody asks."""
    names = heard.judging.of_corpus
    told = list(heard.told(ESTIMATES)) if names else []
    if not told:
        return None
    label = ceilings_name(heard.unit.label)
    rows = read_table(heard.judging.measures, label, ROWS_SCHEMA.names).combine_chunks()
    measured = np.full(rows.num_rows, np.nan)
    for data in heard.told(MEASURED_ROWS):
        some = np.frombuffer(data, ROW)
        measured[some["row"]] = some["thousandths"] / 1000
    numbers, sources = Estimates.of(json.loads(told[0])).ceilings(rows, measured, replayed(heard.unit, heard.judging))
    column, words = pa.array(numbers, pa.float32()), pa.array(sources.tolist(), pa.string())
    return {SIGNAL_PREFIX + name: column for name in names} | {REASON_PREFIX + name: words for name in names}


def replayed(unit: Unit, judging: Judging) -> npt.NDArray[np.float64]:
    """Of each row of a unit the agreement with what came of its action again, where that is certified; else NaN.

    What differs may be the fault of the machine that it was run on, and says nothing of the world. So do replays of
    rows that are no more.
    """
    ids = read_table(judging.measures, f"{unit.label}.parquet", [KEY])[KEY]
    nothing = np.full(len(ids), np.nan)
    if judging.replays is None or not judging.replays.exists(unit.name):
        return nothing
    told = read_table(judging.replays, unit.name, [KEY, "replayed", "agreement"])
    if not told[KEY].equals(ids):
        return nothing
    holds = pc.is_in(told["replayed"], value_set=pa.array(CERTIFIED)).to_numpy()
    return np.where(holds, told["agreement"].to_numpy(), np.nan)
