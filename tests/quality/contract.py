"""What every signal must do, on any batch."""

import re
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from tests.make import batch_of, trajectory
from tests.quality.whole import measured
from trajmill.quality.measure import Measuring
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import Context, Outcome, Trajectory

TOOLS = Context(action_space='["another"]')


def some() -> list[Trajectory]:
    """Trajectories with what signals look at: answers that lack, repeat or are empty or long, outcomes, tools."""
    return [
        trajectory("a", None, "b 1\nb 1", "b 1\nb 1", context=TOOLS),
        trajectory("c", native_id="u", domain="web", outcome=Outcome(True)),
        trajectory("", "long " * 99, None, native_id="v", domain="android", context=TOOLS),
    ]


def keeps_the_contract(signal: Signal) -> None:
    """Fails where the signal breaks what is wanted of all of them.

    It says what it is; gives a finite float32 for each row of any batch, and one number to all rows of a trajectory if
    it is of trajectories; and the trajectories beside one do not change what is measured. That cuts between its turns
    do not either is `cuts_change_nothing`, of several at once.
    """
    assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", signal.name)
    assert signal.scope in ("trajectory", "transition")
    assert signal.measures
    assert "\n" not in signal.measures
    batch = batch_of(*some())
    numbers = _numbers(signal, batch)
    assert numbers.dtype == np.float32
    assert numbers.shape == (batch.num_rows,)
    assert np.isfinite(numbers).all()
    assert _numbers(signal, batch.slice(0, 0)).shape == (0,)
    alone = np.concatenate([_numbers(signal, batch_of(each)) for each in some()])
    assert alone.tolist() == pytest.approx(numbers.tolist(), rel=1e-6), "trajectories of one batch are measured apart"
    if signal.scope == "trajectory":
        ids = batch["trajectory_id"].to_pylist()
        assert len(set(zip(ids, numbers.tolist(), strict=True))) == len(set(ids)), "a trajectory has one number"


def cuts_change_nothing(signals: Mapping[str, Signal], *batches: pa.RecordBatch) -> None:
    """Fails where one of these measures a trajectory that stands in several batches otherwise than one in one batch.

    The trajectories are those of the batches, and others that every signal is tried with.
    """
    long = trajectory(*("never", *["now", "and", "then", None] * 8, "never"), context=TOOLS)
    for batch in (batch_of(*some()), batch_of(long), *batches):
        whole = measured(batch, signals)
        measuring = Measuring(signals, TokenCounter())
        borders = [*range(min(4, batch.num_rows)), *range(4, batch.num_rows, 7), batch.num_rows]
        pieces = (batch.slice(begin, end - begin) for begin, end in pairwise(borders))
        cut = pa.Table.from_batches([*(done for piece in pieces for done in measuring.add(piece)), *measuring.rest()])
        for name in (f"signal.{name}" for name in signals):
            assert cut[name].to_pylist() == pytest.approx(whole[name].to_pylist(), rel=1e-6), (
                f"{name}: see Signal.joined and Measured.around"
            )


def _numbers(signal: Signal, batch: pa.RecordBatch) -> Numbers:
    return signal.measure(Measured.of(batch, TokenCounter()))
