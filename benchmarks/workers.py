"""What a second worker gives: wall time, CPU seconds and memory of `trajmill run` with one worker and with two.

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


def measured(program: list[str], place: Path, workers: int) -> Run:
    """Run the recipe of a folder over its raw logs, from nothing.

    Raises:
        SystemExit: the run failed.
    """
    out = place / f"out-{workers}"
    shutil.rmtree(out, ignore_errors=True)
    words = ["run", "growth.yaml", "--raw", "raw", "--out", str(out), "--workers", str(workers), "--quiet"]
    begun = time.monotonic()
    process = subprocess.Popen([*program, *words], cwd=place, stdout=subprocess.DEVNULL)
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


def rows(program: list[str], megabytes: float, rounds: int, place: Path) -> list[tuple[str, ...]]:
    """Rows of the table for logs of one size; rounds alternate between one worker and two."""
    size = write_mixed(place / "raw", int(megabytes * 1e6), 7) / 1e6
    (place / "growth.yaml").write_text(RECIPE)
    runs: dict[int, list[Run]] = {1: [], 2: []}
    for _ in range(rounds):
        for workers, found in runs.items():
            found.append(measured(program, place, workers))
    medians = {
        workers: [statistics.median(column) for column in zip(*found, strict=True)] for workers, found in runs.items()
    }
    (wall, cpu, _), made = medians[1], []
    for workers, one in medians.items():
        ratios = (f"{wall / one[0]:.2f}", f"{one[1] / cpu - 1:+.0%}") if workers > 1 else ("", "")
        made.append((f"{size:.0f}", str(workers), *(f"{value:.1f}" for value in one[:2]), *ratios, f"{one[2]:.0f}"))
    return made


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, nargs="*", default=[100, 400])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--program", default=f"{sys.executable} -m trajmill", help="the command that is measured")
    given = parser.parse_args()
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
    table = Table("raw MB", "workers", "wall s", "CPU s", "speed-up", "CPU over one worker", "largest process MB")
    with tempfile.TemporaryDirectory(prefix="trajmill-workers-") as place:
        for megabytes in sorted(given.megabytes):
            for row in rows(given.program.split(), megabytes, given.rounds, Path(place)):
                table.add_row(*row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
