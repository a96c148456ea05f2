"""How two workers share a run: CPU seconds of each process, stage by stage, beside one worker and beside a plain pool.

Wall time of a machine that others use says little, so the speed-up is reckoned from CPU seconds, as it is where every
process has a core: what one process takes, by what the busiest worker takes and what the driver does alone.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from benchmarks.growth import RECIPE, STAGES
from benchmarks.growth import measured as measured_alone
from benchmarks.processes import ended, load_ours

_PERIOD_S: Final = 0.1
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Children:
    """CPU seconds of each worker, by the stage in which it began, as far as seen.

    Workers are what this process started, or what such a one forked: then that one is no worker but loads their code.
    What this process itself takes is told without the watching, which is several seconds of a run.
    """

    def __init__(self) -> None:
        self.stage = "plan"
        self.seconds: dict[str, dict[int, float]] = {}
        self.loading: dict[str, float] = {}
        self.watching = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def own(self) -> float:
        """CPU seconds of this process so far."""
        return time.process_time() - self.watching

    def _watch(self) -> None:
        stages: dict[int, str] = {}
        servers: set[int] = set()
        me = os.getpid()
        while True:
            seen = dict(_processes())
            ours = {number for number, (parent, _) in seen.items() if parent == me}
            servers |= {parent for parent, _ in seen.values() if parent in ours}
            for number, (parent, spent) in seen.items():
                if parent == me or parent in servers:
                    stage = stages.setdefault(number, self.stage)
                    self.seconds.setdefault(stage, {})[number] = spent
            for server in servers & seen.keys():
                stage = stages[server]
                self.loading[stage] = self.seconds[stage].pop(server)
            self.watching = time.thread_time()
            time.sleep(_PERIOD_S)


def _processes() -> Iterator[tuple[int, tuple[int, float]]]:
    """(number, (its parent, CPU seconds)) of each process of the machine."""
    for one in Path("/proc").iterdir():
        try:
            told = (one / "stat").read_text().rpartition(")")[2].split() if one.name.isdigit() else []
        except OSError:
            continue
        if told:
            yield int(one.name), (int(told[1]), (int(told[11]) + int(told[12])) / _TICKS)


def run(place: Path) -> None:
    """Runs the recipe on two workers, and prints what the driver and each of them took by stage."""
    load_ours()
    from trajmill.pipelines.execution.execution import Execution
    from trajmill.pipelines.recipe.recipe_file import load_recipe
    from trajmill.pipelines.run import Run

    children = Children()
    own: list[tuple[str, float]] = [("plan", children.own())]

    def tell(start: Any) -> None:
        children.stage = start.stage
        own.append((start.stage, children.own()))

    Run(load_recipe(str(place / "growth.yaml")), [str(place / "raw")], str(place / "two"), Execution(2), tell).run()
    time.sleep(2 * _PERIOD_S)
    own.append(("", children.own()))
    for (stage, begin), (_, end) in pairwise(own):
        workers = sorted(children.seconds.get(stage, {}).values())
        driver = end - begin + children.loading.get(stage, 0.0)
        print(json.dumps({"stage": stage, "driver": driver, "workers": workers}))


def _normalize(given: tuple[Any, Any]) -> float:
    from trajmill.pipelines.normalize.normalizer import normalize_part

    begun = time.process_time()
    normalize_part(*given)
    return time.process_time() - begun


def pool(place: Path) -> None:
    """Normalizes the parts in a pool of two processes that take one after the other, and prints what each took."""
    load_ours()
    from trajmill.pipelines.normalize.normalizer import Normalizer
    from trajmill.pipelines.plan.plan import make_plan
    from trajmill.pipelines.recipe.recipe_file import load_recipe
    from trajmill.pipelines.storage.folders import Folder

    recipe, out = load_recipe(str(place / "growth.yaml")), Folder(str(place / "pool"))
    normalizer = Normalizer(recipe, out / "transitions", out / "rejects" / "normalize")
    work = [(part, normalizer) for part in make_plan(recipe, [str(place / "raw")]).parts]
    with multiprocessing.get_context("fork").Pool(2) as both:
        told = both.map(_timed, work, chunksize=1)
    by: dict[int, float] = {}
    for process, seconds in told:
        by[process] = by.get(process, 0.0) + seconds
    print(json.dumps({"stage": "pool", "driver": 0.0, "workers": sorted(by.values())}))


def _timed(given: tuple[Any, Any]) -> tuple[int, float]:
    return os.getpid(), _normalize(given)


TASKS: Final = {"balance": run, "pool": pool}


def rows(place: Path) -> Iterator[tuple[str, ...]]:
    """A row of the table for each stage, then the whole, then the pool; the logs lie in `raw` of the place."""
    (place / "growth.yaml").write_text(RECIPE)
    alone, _ = measured_alone(place)
    told: dict[str, dict[str, Any]] = {}
    for task in TASKS:
        for name in ("two", "pool"):
            shutil.rmtree(place / name, ignore_errors=True)
        said, _ = ended([sys.executable, "-m", "benchmarks.endurance", "--task", task, "--place", str(place)])
        told |= {one["stage"]: one for one in map(json.loads, said.splitlines())}
    for name in (*STAGES, "pool"):
        one = alone["normalize" if name == "pool" else name]["cpu"]
        yield _row(name, one, told[name]["driver"], told[name]["workers"])
    driver = sum(told[name]["driver"] for name in STAGES)
    busiest = [sum(max(told[name]["workers"], default=0.0) for name in STAGES)]
    others = [sum(sum(told[name]["workers"]) for name in STAGES) - busiest[0]]
    yield _row("whole", sum(alone[name]["cpu"] for name in STAGES), driver, others + busiest)


def _row(name: str, one: float, driver: float, workers: list[float]) -> tuple[str, ...]:
    both = sum(workers) + driver
    balance = f"{min(workers) / max(workers):.2f}" if len(workers) > 1 else ""
    speed = one / (driver + max(workers, default=0.0))
    shares = " + ".join(f"{seconds:.1f}" for seconds in workers)
    return name, f"{one:.1f}", f"{driver:.1f}", shares, balance, f"{both / one - 1:+.0%}", f"{speed:.2f}"


HEADS: Final = ("stage", "one worker: CPU s", "two: driver", "workers", "balance", "CPU over one worker", "speed-up")
