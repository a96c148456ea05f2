"""Measure how memory and time of a run grow with its logs, stage by stage, under a limit that the system enforces.

The whole run goes through one process without Beam, as `trajmill run` does it by default. Of each stage the peak of
resident memory is read from the system and set back, and the limit is on the memory that the process asks for for its
data (`RLIMIT_DATA`): address space alone would count what allocators reserve and never touch. With more workers there
is no limit; CPU seconds are those of all processes, and the peak is that of the largest.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any, Final

from benchmarks.fixed_cost import cpu_seconds
from benchmarks.logs.mixed import write_mixed
from benchmarks.processes import load_ours, run_to_end
from trajmill.pipelines.generations.generations import chain
from trajmill.pipelines.storage.folders import Folder

MODULE: Final = "benchmarks.endurance"
LIMIT: Final = 2_000_000_000
RECIPE: Final = """extends: all
name: growth
source: made
"""
"""Every rule of the built-in recipes."""

STAGES: Final = ("plan", "normalize", "judge", "mix")


def _processes() -> list[Path]:
    """The folders below /proc of this process and of all that descend from it."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    ours = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return [Path(f"/proc/{process}") for process in ours]


def spent() -> float:
    """CPU seconds of this process and of all that descend from it, ended ones among them."""
    ticks = 0
    for folder in _processes():
        with suppress(OSError):
            ticks += sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _peak() -> float:
    """The peak of resident memory of the largest process since it was asked last, in MB."""
    peaks = [0]
    for folder in _processes():
        with suppress(OSError, StopIteration):
            status = (folder / "status").read_text().splitlines()
            peaks.append(int(next(line for line in status if line.startswith("VmHWM")).split()[1]))
            (folder / "clear_refs").write_text("5")
    return max(peaks) * 1024 / 1e6


def run(base: Path, workers: int) -> None:
    """Runs the recipe over the logs of a folder, and prints CPU seconds, wall time and peak memory of each stage."""
    load_ours()
    if workers == 1:
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    from trajmill.pipelines.execution.execution import Execution
    from trajmill.pipelines.recipe.recipe_file import load_recipe
    from trajmill.pipelines.run import Run

    marks: list[dict[str, Any]] = []

    def mark(stage: str) -> None:
        marks.append({"stage": stage, "cpu": spent(), "wall": time.monotonic(), "peak": _peak()})

    _peak()
    mark("plan")
    recipe = load_recipe(str(base / "growth.yaml"))
    asked = Run(recipe, [str(base / "raw")], str(base / "out"), Execution(workers), lambda start: mark(start.stage))
    done = asked.run()
    mark("end")
    for begin, end in pairwise(marks):
        costs = {name: end[name] - begin[name] for name in ("cpu", "wall")}
        print(json.dumps({"stage": begin["stage"], **costs, "peak": end["peak"]}))
    print(json.dumps({"tokens": done.tokens, "inputs": len(done.plan.inputs), "stored": _stored(base / "out")}))


def _stored(out: Path) -> dict[str, tuple[int, int]]:
    """The bytes and the number of files of each folder of OUT."""
    files = [path for path in out.rglob("*") if path.is_file()]
    names = sorted({path.relative_to(out).parts[0] for path in files if path.parent != out})
    sizes = {name: [path.stat().st_size for path in files if path.is_relative_to(out / name)] for name in names}
    return {name: (sum(some), len(some)) for name, some in sizes.items()}


def measure_run(
    base: Path, workers: int = 1, recipe: str = RECIPE
) -> tuple[dict[str, dict[str, float]], dict[str, Any]]:
    """({stage: CPU seconds, wall time, peak MB}, what there was) of a run from nothing."""
    shutil.rmtree(base / "out", ignore_errors=True)
    (base / "growth.yaml").write_text(recipe)
    command = [sys.executable, "-m", MODULE, "--task", "run", "--place", str(base), "--workers", str(workers)]
    output, _ = run_to_end(command)
    *stages, whole = (json.loads(line) for line in output.splitlines() if line.startswith(b"{"))
    return {stage["stage"]: stage for stage in stages}, whole


def rows(sizes: list[float], base: Path, seed: int) -> Iterator[tuple[str, ...]]:
    """A row of the table for each size in GB, the smallest first; logs of the larger one are added to those there."""
    before: tuple[float, float] | None = None
    for size in sorted(sizes):
        total = write_mixed(base / "raw", int(size * 1e9), seed) / 1e9
        stages, totals = measure_run(base)
        cpu = sum(stage["cpu"] for stage in stages.values())
        grown = "" if before is None else f"{log(cpu / before[1]) / log(total / before[0]):.3f}"
        before = total, cpu
        yield (
            f"{total:.2f}",
            f"{totals['inputs']:,}",
            *(f"{stages[name]['cpu']:.1f}" for name in STAGES),
            f"{cpu:.1f}",
            grown,
            *(f"{stages[name]['peak']:.0f}" for name in STAGES),
        )


def append_rows(base: Path, size: float, share: float, seed: int) -> Iterator[tuple[str, ...]]:
    """A row for each append to the run of `rows` over so many GB: new logs twice, the first of which makes the tables.

    At last one of nothing new.
    """
    raws = [base / "raw"]
    for number, title in enumerate(("new logs, and the tables of all", "new logs", "nothing"), 1):
        new = 0
        if title != "nothing":
            raws.append(base / f"raw{number}")
            new = write_mixed(raws[-1], int(size * share * 1e9), seed + number)
        words = [str(base / "growth.yaml"), "--out", str(base / "out"), "--append"]
        for raw in raws:
            words += ["--raw", str(raw)]
        cost = cpu_seconds("run", *words)
        if len(chain(Folder(str(base / "out")))) != len(raws):
            raise RuntimeError(f"an append made no generation, or one of nothing: {title}")
        yield title, f"{new / 1e9:.3f}", f"{cost:.1f}"


APPENDED: Final = ("appended", "GB", "CPU s")
HEADS: Final = (
    "GB",
    "inputs",
    *(f"{name}: CPU s" for name in STAGES),
    "CPU s",
    "exponent",
    *(f"{name}: peak MB" for name in STAGES),
)
