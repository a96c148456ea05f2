"""The planted world and its two simulators as runs, small enough for a test."""

import json
from pathlib import Path

from benchmarks import planted_world, simulators
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run

TASKS = 9
ROUNDS = 3
"""Of each rollout; each has six steps, and one comes after all."""


def recipe(**more: object):
    return parse_recipe(json.dumps({"name": "n", "source": "tests", "domains": ["terminal"], **more}), "n")


def normalized(raw: Path, out: Path) -> Path:
    Run(recipe(), [str(raw)], str(out), Execution()).run("normalize")
    return out


def worlds(folder: Path) -> dict[str, Path]:
    """The runs of the world and of both simulators, normalized: `real`, `faithful` and `flattering`."""
    raw = folder / "raw"
    planted_world.write(raw / "real", TASKS, ROUNDS)
    runs = {"real": normalized(raw / "real", folder / "real")}
    simulators.write(str(runs["real"]), raw)
    return runs | {name: normalized(raw / name, folder / name) for name in simulators.SIMULATORS}
