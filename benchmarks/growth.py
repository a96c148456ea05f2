"""How memory and time of a run grow with its logs, stage by stage, under a limit that the system holds.

The whole run goes through one process without Beam, as `trajmill run` does it by default. Of each stage the peak of
resident memory is read from the system and set back, and the limit is on the memory that the process asks for for its
data (`RLIMIT_DATA`): address space alone would count what allocators reserve and never touch.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any, Final

from benchmarks.bench import spent
from benchmarks.fixed_cost import cpu_seconds
from benchmarks.logs.mixed import write_mixed
from benchmarks.processes import ended, load_ours
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


def _peak() -> float:
    """The peak of resident memory since it was asked last, in MB."""
    told = Path("/proc/self/status").read_text().splitlines()
    peak = int(next(line for line in told if line.startswith("VmHWM")).split()[1]) * 1024 / 1e6
    Path("/proc/self/clear_refs").write_text("5")
    return peak


def run(place: Path, workers: int) -> None:
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
    recipe = load_recipe(str(place / "growth.yaml"))
    asked = Run(recipe, [str(place / "raw")], str(place / "out"), Execution(workers), lambda one: mark(one.stage))
    done = asked.run()
    mark("end")
    for begin, end in pairwise(marks):
        told = {name: end[name] - begin[name] for name in ("cpu", "wall")}
        print(json.dumps({"stage": begin["stage"], **told, "peak": end["peak"]}))
    print(json.dumps({"tokens": done.tokens, "inputs": len(done.plan.inputs)}))


def measured(place: Path, workers: int = 1, recipe: str = RECIPE) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    """({stage: CPU seconds, wall time, peak MB}, what there was) of a run from nothing."""
    shutil.rmtree(place / "out", ignore_errors=True)
    (place / "growth.yaml").write_text(recipe)
    command = [sys.executable, "-m", MODULE, "--task", "run", "--place", str(place), "--workers", str(workers)]
    said, _ = ended(command)
    *stages, whole = (json.loads(line) for line in said.splitlines() if line.startswith(b"{"))
    return {one["stage"]: one for one in stages}, whole


def rows(sizes: list[float], place: Path, seed: int) -> Iterator[tuple[str, ...]]:
    """A row of the table for each size in GB, the smallest first; logs of the larger one are added to those there."""
    before: tuple[float, float] | None = None
    for size in sorted(sizes):
        total = write_mixed(place / "raw", int(size * 1e9), seed) / 1e9
        stages, told = measured(place)
        cpu = sum(one["cpu"] for one in stages.values())
        grown = "" if before is None else f"{log(cpu / before[1]) / log(total / before[0]):.3f}"
        before = total, cpu
        yield (
            f"{total:.2f}",
            f"{told['inputs']:,}",
            *(f"{stages[name]['cpu']:.1f}" for name in STAGES),
            f"{cpu:.1f}",
            grown,
            *(f"{stages[name]['peak']:.0f}" for name in STAGES),
        )


def appended(place: Path, size: float, share: float, seed: int) -> Iterator[tuple[str, ...]]:
    """A row for each append to the run of `rows` over so many GB: new logs twice, the first of which makes the tables.

    At last one of nothing new.
    """
    raws = [place / "raw"]
    for number, what in enumerate(("new logs, and the tables of all", "new logs", "nothing"), 1):
        new = 0
        if what != "nothing":
            raws.append(place / f"raw{number}")
            new = write_mixed(raws[-1], int(size * share * 1e9), seed + number)
        words = [str(place / "growth.yaml"), "--out", str(place / "out"), "--append"]
        for raw in raws:
            words += ["--raw", str(raw)]
        cost = cpu_seconds("run", *words)
        if len(chain(Folder(str(place / "out")))) != len(raws):
            raise RuntimeError(f"an append made no generation, or one of nothing: {what}")
        yield what, f"{new / 1e9:.3f}", f"{cost:.1f}"


APPENDED: Final = ("appended", "GB", "CPU s")
HEADS: Final = (
    "GB",
    "inputs",
    *(f"{name}: CPU s" for name in STAGES),
    "CPU s",
    "exponent",
    *(f"{name}: peak MB" for name in STAGES),
)
