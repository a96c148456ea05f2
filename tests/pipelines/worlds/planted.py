"""A planted world: tasks of a shell whose every answer is known, each done several times, and its two simulators."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import simulators
from pipelines.engine.execution import Execution
from pipelines.recipe.recipe_file import parse_recipe
from pipelines.run import Run
from tests.pipelines.judge.test_near_duplicates import atif

TASKS = 9
ROLLOUTS = 3
ROUNDS = 3
"""Of each rollout; each has six steps."""


def session(task: int, rollout: int) -> dict[str, object]:
    """What a shell says to the commands of a task."""
    steps: list[tuple[str, str]] = []
    for number in range(ROUNDS):
        name, line = f"notes{number}.txt", f"entry {task * 31 + number} of shelf {task + 100}"
        steps += [
            (f"echo '{line}' > {name}", ""),
            (f"cat {name}", f"{line}\n"),
            (f"cat missing{number}.txt", f"cat: missing{number}.txt: No such file or directory\n"),
            (f"expr {task} + {number + 12}", f"{task + number + 12}\n"),
            (f"grep -c shelf {name}", "1\n"),
            (f"stat-inode --of {name}", f"the inode of {name} on shelf {task + 100} is number {task * 7 + number}\n"),
        ]
    told = 10_000 + 977 * task + 131 * rollout
    steps.append(("uptime", f"up since {told} seconds, process {told * 3 % 32768} of this machine\n"))
    log = atif(f"{task}-{rollout}", f"Keep the shelf {task + 100} in order.", [answer for _, answer in steps])
    for step, (command, _) in zip(log["steps"][1:], steps, strict=True):  # type: ignore[index]
        step["tool_calls"][0]["arguments"] = {"command": command}
    return log


def recipe(**more: object):
    return parse_recipe(json.dumps({"name": "n", "source": "tests", "domains": ["terminal"], **more}), "n")


def normalized(raw: Path, out: Path) -> Path:
    Run(recipe(), [str(raw)], str(out), Execution()).run("normalize")
    return out


def worlds(folder: Path) -> dict[str, Path]:
    """The runs of the world and of both simulators, normalized: `real`, `faithful` and `flattering`."""
    raw = folder / "raw"
    (raw / "real").mkdir(parents=True)
    for task in range(TASKS):
        for rollout in range(ROLLOUTS):
            (raw / "real" / f"{task:02d}-{rollout}.json").write_text(json.dumps(session(task, rollout)))
    found = {"real": normalized(raw / "real", folder / "real")}
    simulators.write(str(found["real"]), raw)
    return found | {name: normalized(raw / name, folder / name) for name in simulators.SIMULATORS}
