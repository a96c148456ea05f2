"""Measure the cost of adding new logs: CPU time of one append against that of the run over everything before it.

python -m benchmarks.appending [--megabytes 300] [--share 0.01]

Sessions of an agent in ATIF, of tasks with several rollouts that begin alike, and recordings of terminals beside them.
Appended, one after the other, each of them so large a share: logs of new tasks, which writes down the places and the
logs of what was there, once; logs of new tasks; nothing; rollouts of tasks that there were.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.fixed_cost import cpu_seconds
from benchmarks.generate import files
from benchmarks.logs.rollouts import task
from trajmill.schemas import Trajectory

DOMAINS: Final = ("terminal", "swe", "mcp", "search")
HELD_BACK: Final = 4
"""Of one task in so many the last rollout comes later."""

RECORDED: Final = 0.3
"""Of the bytes, what are recordings of terminals."""

RECIPE: Final = """name: appending
source: made
extends: terminal
"""
"""The built-in recipe."""


def document(trajectory: Trajectory) -> bytes:
    """A trajectory as a session in ATIF, whose agent runs one command a step."""
    steps: list[dict[str, object]] = [{"step_id": 1, "source": "user", "message": trajectory.task.instruction}]
    for number, step in enumerate(trajectory.steps, 2):
        arguments = json.loads(step.action.arguments or "{}")
        command = " ".join([step.action.name or "", *(f"{name}={value}" for name, value in arguments.items())])
        call = {"tool_call_id": f"c{number}", "function_name": "bash", "arguments": {"command": command}}
        shown = step.next_observation.content if step.next_observation else ""
        base = {"step_id": number, "source": "agent", "message": "", "tool_calls": [call]}
        steps.append({**base, "observation": {"results": [{"source_call_id": f"c{number}", "content": shown}]}})
    agent = {"name": "a", "version": "1"}
    return json.dumps(
        {"schema_version": "ATIF-v1.4", "session_id": trajectory.native_id, "agent": agent, "steps": steps}
    ).encode()


class Corpus:
    """Logs, written a portion at a time; none is written twice."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._portions = folder, 0
        self._places = count()
        self._later: list[Trajectory] = []

    def put(self, size: int, later: bool = False) -> Path:
        """The folder of the next portion, of about so many bytes; of rollouts that were held back where `later`."""
        self._portions += 1
        folder = self._folder / f"portion{self._portions}"
        folder.mkdir(parents=True)
        written = 0
        for trajectory in iter(self._later) if later else self._new():
            data = document(trajectory)
            (folder / f"{trajectory.native_id}.json").write_bytes(data)
            written += len(data)
            if written > size * (1 if later else 1 - RECORDED):
                break
        if not later:
            for name, data in files("asciicast", int(size * RECORDED), self._portions):
                (folder / name.replace("/", "-")).write_bytes(data)
        return folder

    def _new(self) -> Iterator[Trajectory]:
        for number in self._places:
            rollouts = list(task(DOMAINS[number % len(DOMAINS)], number, 1))
            if len(rollouts) > 1 and number % HELD_BACK == 0:
                self._later.append(rollouts.pop())
            yield from rollouts


def main() -> None:
    """Prints a row for the run and for each append: CPU-seconds, and their share of the run's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--keep", type=Path, help="a folder where logs and output stay")
    options = parser.parse_args()
    size = options.megabytes * 1_000_000
    table = Table("", "CPU-seconds", "of the run")
    with tempfile.TemporaryDirectory(prefix="trajmill-appending-") as temporary:
        folder = options.keep or Path(temporary)
        corpus = Corpus(folder / "logs")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "recipe.yaml").write_text(RECIPE)
        words = ["run", str(folder / "recipe.yaml"), "--out", str(folder / "out")]
        raws = ["--raw", str(corpus.put(size))]
        whole = cpu_seconds(*words, *raws)
        table.add_row(f"the run, {options.megabytes} MB", f"{whole:.1f}", "")
        part = int(size * options.share)
        portions: tuple[tuple[str, bool | None], ...] = (
            ("new tasks, and the tables of all", False),
            ("new tasks", False),
            ("nothing", None),
            ("rollouts of tasks there were", True),
        )
        for name, later in portions:
            raws += ["--raw", str(corpus.put(part, later))] if later is not None else []
            seconds = cpu_seconds(*words, *raws, "--append")
            table.add_row(name, f"{seconds:.1f}", f"{seconds / whole:.1%}")
    Console().print(table)


if __name__ == "__main__":
    main()
