"""One log that outweighs all others: a session of very many turns, or a recording of days, among a thousand small ones.

Everything goes into CPT, which shows all of it: the long log is cut into windows and no text of it is left out. The
limit is that of `growth`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.growth import RECIPE, STAGES, measure_run
from benchmarks.logs.long_logs import write
from benchmarks.logs.mixed import write_mixed

LOGS: Final = ("claude_code", "asciicast")
_AMONG: Final = 125_000_000
"""Bytes of logs of which there are a thousand."""

_CPT: Final = RECIPE + "mix:\n  pools: {cpt: 1}\n"

HEADS: Final = (
    "long log",
    "GB",
    "inputs",
    *(f"{name}: CPU s" for name in STAGES),
    *(f"{name}: peak MB" for name in STAGES),
)


def rows(
    logs: Sequence[str], sizes: Sequence[float], base: Path, seed: int, among: int = _AMONG
) -> Iterator[tuple[str, ...]]:
    """A row of the table for each long log of each size in GB.

    Args:
        logs: names of `long_logs.MADE`.
        sizes: GB of the long log.
        base: where logs and output are made.
        seed: of the small logs.
        among: bytes of all small logs.
    """
    write_mixed(base / "raw", among, seed)
    for name in logs:
        for size in sizes:
            long = base / "raw" / "long"
            long.mkdir()
            write(name, int(size * 1e9), long)
            stages, totals = measure_run(base, recipe=_CPT)
            shutil.rmtree(long)
            yield (
                name,
                f"{size:g}",
                f"{totals['inputs']:,}",
                *(f"{stages[stage]['cpu']:.1f}" for stage in STAGES),
                *(f"{stages[stage]['peak']:.0f}" for stage in STAGES),
            )
