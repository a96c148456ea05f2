"""Measure what a second worker gains: wall time, CPU seconds and memory of `trajmill run` with one and two.

    python -m benchmarks.workers --megabytes 100 400

The CPU seconds are those of all processes of a run, and the memory is that of the largest of them. On a machine that
others use only the CPU seconds say something; the speed-up needs two idle cores.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.growth import RECIPE
from benchmarks.logs.mixed import write_mixed

_SET_CHILD_SUBREAPER = 36
Run = tuple[float, float, float]
"""Wall seconds, CPU seconds and the largest process in MB."""


def measure_run(program: list[str], folder: Path, workers: int) -> Run:
    """Run the recipe of a folder over its raw logs, from nothing.

    Raises:
        SystemExit: the run failed.
    """
    out = folder / f"out-{workers}"
    shutil.rmtree(out, ignore_errors=True)
    words = ["run", "growth.yaml", "--raw", "raw", "--out", str(out), "--workers", str(workers), "--quiet"]
    begun = time.monotonic()
    process = subprocess.Popen([*program, *words], cwd=folder, stdout=subprocess.DEVNULL)
    cpu = largest = 0.0
    wall = 0.0
    while True:  # the run, then what it has left to this process, which is a subreaper
        try:
            number, status, usage = os.wait3(0)
        except ChildProcessError:
            return wall, cpu, largest
        cpu += usage.ru_utime + usage.ru_stime
        largest = max(largest, usage.ru_maxrss / 1024)
        if number == process.pid:
            wall = time.monotonic() - begun
            process.returncode = status
            if status:
                raise SystemExit(f"the run with {workers} workers failed: see above")


def rows(program: list[str], megabytes: float, rounds: int, folder: Path) -> list[tuple[str, ...]]:
    """Rows of the table for logs of one size; rounds alternate between one worker and two."""
    size = write_mixed(folder / "raw", int(megabytes * 1e6), 7) / 1e6
    (folder / "growth.yaml").write_text(RECIPE)
    runs: dict[int, list[Run]] = {1: [], 2: []}
    for _ in range(rounds):
        for workers, results in runs.items():
            results.append(measure_run(program, folder, workers))
    medians = {
        workers: [statistics.median(column) for column in zip(*results, strict=True)]
        for workers, results in runs.items()
    }
    (wall, cpu, _), table_rows = medians[1], []
    for workers, means in medians.items():
        ratios = (f"{wall / means[0]:.2f}", f"{means[1] / cpu - 1:+.0%}") if workers > 1 else ("", "")
        table_rows.append(
            (f"{size:.0f}", str(workers), *(f"{value:.1f}" for value in means[:2]), *ratios, f"{means[2]:.0f}")
        )
    return table_rows


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, nargs="*", default=[100, 400])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--program", default=f"{sys.executable} -m trajmill", help="the command that is measured")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
    table = Table("raw MB", "workers", "wall s", "CPU s", "speed-up", "CPU over one worker", "largest process MB")
    with tempfile.TemporaryDirectory(prefix="trajmill-workers-") as temporary:
        for megabytes in sorted(options.megabytes):
            for row in rows(options.program.split(), megabytes, options.rounds, Path(temporary)):
                table.add_row(*row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
