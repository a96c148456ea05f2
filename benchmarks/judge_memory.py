"""`python -m benchmarks.judge_memory`: memory and speed of the judge stage by the size of the corpus.

    python -m benchmarks.judge_memory --gigabytes 1 2.2 5 10

Rollouts of five domains (`benchmarks.logs.rollouts`) are written as transitions by the payload's own writer, in units
of a quarter of a gigabyte of text each, as `normalize` writes them. The units of each size, those of the smaller ones
among them, are then judged from nothing in a process of its own, with every signal that needs no settings but
predictability, near duplicates, replicates, caps and shares. GB are 10^9 bytes of actions and next observations.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.logs.rollouts import DOMAINS, task
from benchmarks.processes import Task, load_ours, measure_task, print_table, work
from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import ROW_GROUP_BYTES, ParquetSink
from trajmill.quality.registry import signals
from trajmill.schemas import Assembler, Origin
from trajmill.schemas.invariants import check
from trajmill.schemas.transition import encode_schema

MODULE: Final = "benchmarks.judge_memory"
UNITS: Final = "units.json"
UNIT_BYTES: Final = 250_000_000
"""Text of a unit."""

APART: Final = "predictability"
"""Signals whose names hold this are left out, as they are in the figure that speed is held to."""


def recipe() -> Recipe:
    """The recipe: rules on all signals, of which few drop something, and all that judging can do besides."""
    rules: dict[str, Any] = {name: {"signal": name, "min": -1.0} for name in signals() if APART not in name}
    rules["turns"] = {"signal": "turns", "min": 2}
    rules["turn_mask"] = {"signal": "turn_mask", "min": 1, "use": "context"}
    rules["error_observation"] = {"signal": "error_observation", "max": 0, "cap": 0.3}
    shares = {"task": 0.1, "environment": 0.5, "place": 0.9, "command_head": 0.9}
    judge = {"rules": rules, "replicates": {"max": 4}, "max_share": shares}
    return parse_recipe(json.dumps({"name": "judge-memory", "source": "made", "judge": judge}), "judge-memory")


def write_unit(
    folder: Folder, number: int, first: int, seed: int, most: int = UNIT_BYTES
) -> tuple[Unit, int, int, int]:
    """Writes the tasks of one domain from `first` on until the unit is full.

    Returns:
        The unit, bytes of its text, its trajectories, and the next task.
    """
    domain = list(DOMAINS)[number % len(DOMAINS)]
    name = f"{domain}/part-{number:05d}-{seed:08x}.parquet"
    digest = hashlib.sha256(name.encode()).hexdigest()
    sink, assembler = ParquetSink(folder, name, encode_schema()), Assembler()
    size = count = 0
    task_number = first
    while size < most:
        origin = Origin(f"{domain}/{task_number}.log", "made", "made", "1", lambda _: digest)
        for trajectory in task(domain, task_number, seed):
            assembler.add(trajectory, origin, {})
            size += sum(
                len(step.action.text.encode()) + len((step.next_observation.content or "").encode())
                for step in trajectory.steps
                if step.next_observation
            )
            count += 1
        task_number += 1
        if assembler.nbytes >= ROW_GROUP_BYTES:
            sink.write(check(assembler.take()))
    sink.write(check(assembler.take()))
    entry = sink.close()
    return Unit(number, name, entry.sha256), size, count, task_number


def save_units(base: Path, units: Sequence[Unit]) -> None:
    """Write the units that a task in a process of its own reads by `saved_units`."""
    (base / UNITS).write_text(json.dumps([[unit.number, unit.name, unit.sha256] for unit in units]))


def saved_units(base: Path) -> list[Unit]:
    """Units that `UNITS` names."""
    return [Unit(*values) for values in json.loads((base / UNITS).read_text())]


def judge_units(base: Path) -> Iterator[str]:
    """Judges the units."""
    Run(recipe(), [], str(base)).judge(saved_units(base))
    yield "judge"


TASKS: Final[dict[str, Task]] = {"judge": (load_ours, judge_units)}


def clear_output(base: Path) -> None:
    """Removes what judging has written, so that all of it is done again."""
    for name in ("measures", "verdicts", "rejects", "_units", "spill"):
        shutil.rmtree(base / name, ignore_errors=True)


def rows(base: Path, sizes: list[float], seed: int) -> Iterator[tuple[str, ...]]:
    """A row of the table for each size, the smallest first."""
    folder = Folder(str(base / "transitions"))
    units: list[Unit] = []
    total = trajectories = 0
    next_task = dict.fromkeys(DOMAINS, 0)
    for size in sorted(sizes):
        while total < size * 1e9:
            domain = list(DOMAINS)[len(units) % len(DOMAINS)]
            unit, text, count, next_task[domain] = write_unit(folder, len(units), next_task[domain], seed)
            units.append(unit)
            total, trajectories = total + text, trajectories + count
        clear_output(base)
        save_units(base, units)
        seconds, peak, _ = measure_task(MODULE, "judge", base)
        counts = json.loads((base / "verdicts" / "manifest.json").read_text())["counts"]
        survived = counts["trajectories.kept"] / counts["trajectories"]
        yield (
            f"{total / 1e9:.2f}",
            f"{len(units)}",
            f"{trajectories:,}",
            f"{counts['transitions']:,}",
            f"{survived:.1%}",
            f"{peak:,.0f}",
            f"{seconds:,.0f}",
            f"{total / 1e6 / seconds:.1f}",
        )


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.5, 1.0])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="where the transitions are made; removed when done")
    for name in ("task", "place"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        work(TASKS, options.task, Path(options.place))
        return
    names = ("GB of text", "units", "trajectories", "transitions", "kept", "peak MB", "CPU s", "MB per CPU-s")
    with tempfile.TemporaryDirectory(prefix="trajmill-judge-", dir=options.folder) as temporary:
        print_table(names, rows(Path(temporary), options.gigabytes, options.seed))


if __name__ == "__main__":
    main()
