"""What replicates of a transition agree on, which the whole corpus tells."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from trajmill.quality.signal import Measured, Numbers, Signal


class NoiseCeiling(Signal):
    """The share of words of the next observation that replicates agree on; see `quality.ceiling`.

    The trajectory alone does not tell it: until judging has seen all, 1 stands for every row.
    """

    name: ClassVar[str] = "noise_ceiling"
    scope: ClassVar[str] = "transition"
    of_corpus: ClassVar[bool] = True
    measures: ClassVar[str] = (
        "share of the next observation's words that replicates agree on: measured, replayed, pooled or "
        "extrapolated, as `why.noise_ceiling` says"
    )

    def measure(self, measured: Measured) -> Numbers:
        return np.ones(measured.batch.num_rows, np.float32)

    def reasons(self, measured: Measured) -> pa.StringArray | None:
        return None
