"""`python -m benchmarks.rollouts`: one JSON Lines file with a hundred rollouts of each task, from plan to shards.

    python -m benchmarks.rollouts --share 0.001 0.01 --workers 1 2    # shares of the largest public corpus; 4.4 GB

The last row over several shares is computed: the whole corpus, by the growth between the two largest, and at least in
proportion. The largest share is run with each number of workers, which have to give the same bytes. Tables are printed
as Markdown.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any, Final

from benchmarks.growth import STAGES, measure_run
from benchmarks.logs.shell_rollouts import EACH, TASKS, write_rows

RECIPE: Final = """extends: swe
name: rollouts
source: made
judge:
  max_per_task: 10
"""
"""Every rule of the built-in recipe, and a tenth of the rollouts of a task."""

FOLDERS: Final = ("transitions", "verdicts", "shards")


@dataclass(frozen=True, slots=True)
class Measured:
    """A run over a share of the corpus.

    Attributes:
        share: share of the corpus.
        size: bytes of the file.
        parts: number of parts.
        workers: number of workers.
        stages: {stage: CPU seconds, wall time, peak MB}.
        counts: counts of the verdicts.
        sizes: bytes of each of `FOLDERS`.
    """

    share: float
    size: int
    parts: int
    workers: int
    stages: dict[str, dict[str, float]]
    counts: dict[str, int]
    sizes: dict[str, int]

    @property
    def cpu(self) -> float:
        """CPU seconds of all stages."""
        return sum(stage["cpu"] for stage in self.stages.values())

    @property
    def wall(self) -> float:
        """Wall time of all stages in seconds."""
        return sum(stage["wall"] for stage in self.stages.values())


def measure_share(share: float, workers: Sequence[int], base: Path, seed: int) -> Iterator[Measured]:
    """Write the file once, and run the recipe over it with each number of workers.

    Raises:
        SystemExit: a run failed, or gave other bytes than the first.
    """
    size = write_rows(base / "raw" / "rollouts.jsonl", share, seed)
    first = ""
    for count in workers:
        stages, _ = measure_run(base, count, RECIPE)
        manifests: dict[str, Any] = {
            name: json.loads((base / "out" / name / "manifest.json").read_text()) for name in FOLDERS
        }
        files = json.dumps([manifests[name]["files"] for name in FOLDERS])
        first = first or files
        if files != first:
            raise SystemExit(f"The files of {count} workers are not those of {workers[0]}.")
        yield Measured(
            share,
            size,
            len(json.loads((base / "out" / "plan.json").read_text())["parts"]),
            count,
            stages,
            manifests["verdicts"]["counts"],
            {name: sum(file["bytes"] for file in manifests[name]["files"]) for name in FOLDERS},
        )


def measure_shares(shares: Sequence[float], workers: Sequence[int], base: Path, seed: int) -> list[Measured]:
    """Measure each share, the smallest first, with the first number of workers, and the largest with each."""
    *smaller, largest = sorted(shares)
    runs = [run for share in smaller for run in measure_share(share, workers[:1], base, seed)]
    return [*runs, *measure_share(largest, workers, base, seed)]


def _grown(before: Measured, after: Measured, small: float, large: float) -> tuple[float, float]:
    """(Exponent by which a figure of two runs grows with the bytes, the figure of the whole corpus by that growth.)

    A figure that grew less than the bytes is taken to grow with them from there on.
    """
    exponent = log(large / small) / log(after.size / before.size)
    return exponent, large * (1 / after.share) ** max(exponent, 1.0)


COST_HEADS: Final = (
    *("share", "GB", "rollouts", "parts", *(f"{name}: CPU s" for name in STAGES), "peak MB", "exponent", "CPU s"),
)


def cost_rows(runs: Sequence[Measured]) -> Iterator[tuple[str, ...]]:
    """Yield the costs of the run over each share, and the computed ones of the whole corpus."""
    before, exponent, total_seconds = None, "", 0.0
    for run in runs:
        if before is not None:
            grown, total_seconds = _grown(before, run, before.cpu, run.cpu)
            exponent = f"{grown:.3f}"
        before = run
        yield (
            *(f"{run.share:g}", f"{run.size / 1e9:.2f}", f"{run.counts['trajectories']:,}", f"{run.parts}"),
            *(f"{run.stages[name]['cpu']:.1f}" for name in STAGES),
            *(f"{max(stage['peak'] for stage in run.stages.values()):.0f}", exponent, f"{run.cpu:.1f}"),
        )
    if total_seconds:
        size = runs[-1].size / runs[-1].share / 1e9
        empty = ("",) * (len(STAGES) + 2)
        yield "1, computed", f"{size:,.0f}", f"{TASKS * EACH:,}", *empty, exponent, f"{total_seconds / 3600:,.0f} hours"


FATE_HEADS: Final = ("share", "rollouts", "kept", "dropped by reason", *(f"{name}: GB" for name in FOLDERS))
_DROPPED: Final = "trajectories.dropped."


def fate_rows(runs: Sequence[Measured]) -> Iterator[tuple[str, ...]]:
    """Yield the fates of the rollouts of each share, and the bytes of the folders; the last row is computed."""
    for run in runs:
        dropped = {
            name.removeprefix(_DROPPED): number for name, number in run.counts.items() if name.startswith(_DROPPED)
        }
        yield (
            *(f"{run.share:g}", f"{run.counts['trajectories']:,}", f"{run.counts['trajectories.kept']:,}"),
            ", ".join(f"{name} {number:,}" for name, number in dropped.items()),
            *(f"{run.sizes[name] / 1e9:.4f}" for name in FOLDERS),
        )
    if len(runs) > 1:
        before, after = runs[-2:]
        sizes = [_grown(before, after, before.sizes[name], after.sizes[name])[1] for name in FOLDERS]
        yield "1, computed", f"{TASKS * EACH:,}", "", "", *(f"{size / 1e9:,.0f}" for size in sizes)


WORKER_HEADS: Final = (
    *("", "GB", "parts", *(f"{name}: wall s" for name in STAGES), "peak MB", "CPU s", "wall s", "times"),
)

_FLOOR: Final = """
import orjson
row = orjson.dumps({"messages": [{"role": "user", "content": f"a line of text, number {n}" * 100} for n in range(20)]})
for _ in range(60_000):
    orjson.loads(row)
"""


def _floor(processes: int) -> float:
    """Speed of so many processes that decode JSON and share nothing, as a multiple of the speed of one."""

    def wall(count: int) -> float:
        begun = time.monotonic()
        running = [subprocess.Popen([sys.executable, "-c", _FLOOR]) for _ in range(count)]
        for process in running:
            process.wait()
        return time.monotonic() - begun

    return processes * wall(1) / wall(processes)


def worker_rows(runs: Sequence[Measured]) -> Iterator[tuple[str, ...]]:
    """The speed of runs over one file, as multiples of the first, and below each what the machine gives processes."""
    for run in runs:
        yield (
            *(f"{run.workers} worker{'s' * (run.workers > 1)}", f"{run.size / 1e9:.2f}", f"{run.parts}"),
            *(f"{run.stages[name]['wall']:.1f}" for name in STAGES),
            *(f"{max(stage['peak'] for stage in run.stages.values()):.0f}", f"{run.cpu:.1f}"),
            *(f"{run.wall:.1f}", f"{runs[0].wall / run.wall:.2f}"),
        )
        if run.workers > 1:
            empty = ("",) * (len(WORKER_HEADS) - 2)
            yield f"{run.workers} processes that decode JSON", *empty, f"{_floor(run.workers):.2f}"


def _markdown(heads: Sequence[str], rows: Iterator[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (heads, ("---",) * len(heads), *rows)]


def make_tables(runs: Sequence[Measured]) -> list[str]:
    """The lines of the tables of runs of `measure_shares`."""
    alike = [run for run in runs if run.workers == runs[0].workers]
    tables = [_markdown(COST_HEADS, cost_rows(alike)), _markdown(FATE_HEADS, fate_rows(alike))]
    of_largest = [run for run in runs if run.share == runs[-1].share]
    tables += [_markdown(WORKER_HEADS, worker_rows(of_largest))] if len(of_largest) > 1 else []
    return [line for table in tables for line in ("", *table)][1:]


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, nargs="+", default=[0.001, 0.01])
    parser.add_argument("--workers", type=int, nargs="+", default=[1])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="where logs and output are made; removed when done")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rollouts-", dir=options.folder) as temporary:
        print("\n".join(make_tables(measure_shares(options.share, options.workers, Path(temporary), options.seed))))


if __name__ == "__main__":
    main()
