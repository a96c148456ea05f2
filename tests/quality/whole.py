"""What is measured of a batch of whole trajectories, at once: what runs over files do a batch at a time."""

from collections.abc import Mapping, Sequence
from itertools import chain

import pyarrow as pa

from trajmill.quality.measure import Measuring
from trajmill.quality.replicate import Following
from trajmill.quality.signal import Signal
from trajmill.quality.tokens import TokenCounter


def measured(batch: pa.RecordBatch, signals: Sequence[str] | Mapping[str, Signal] = ()) -> pa.RecordBatch:
    """The measures of each row, of `schemas.verdict.measure_schema`."""
    measuring = Measuring(signals, TokenCounter())
    return next(chain(measuring.add(batch), measuring.rest()))


def histories(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The hashes of each row's history and answer, of `REPLICATE_SCHEMA`."""
    return next(Following().add(batch))
