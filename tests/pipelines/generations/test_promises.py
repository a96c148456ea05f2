"""Whatever comes after a first run, the promises hold: appends, forgetting, kills, and runs anew that keep pools."""

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import FUZZ
from tests.pipelines.generations.test_append import bytes_of
from tests.pipelines.generations.test_append_near_copies import Logs, changed, verdicts
from trajmill.pipelines.generations.append import Append, run_with_pools_of
from trajmill.pipelines.generations.forgetting import Forgetting
from trajmill.pipelines.generations.generations import stage_folders
from trajmill.pipelines.generations.traces import Selection
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder

MIX = '{"pools": {"cpt": 2, "sft": 1, "eval": 1}}'
RECIPE = parse_recipe(f'{{"name": "n", "source": "tests", "domains": ["terminal"], "mix": {MIX}}}', "n")


@dataclass
class History:
    """Logs, the folder that grows of them, and what was promised of it so far."""

    logs: Logs
    dice: random.Random
    out: str
    answers: dict[str, list[str]] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)
    pools: dict[str, str] = field(default_factory=dict)
    shards: dict[str, str] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)

    def arrive(self) -> None:
        """Logs of new tasks, rollouts of old ones, and exact and near copies of what was there, forgotten or not."""
        number = self.logs.generations + 1
        for index in range(self.dice.randint(1, 5)):
            name, task = f"log{number}-{index}", f"task {self.dice.randint(0, 9)}"
            before = sorted(self.answers)
            kind = self.dice.choice(["new", "new", "copy", "near"]) if before else "new"
            source = self.dice.choice(before) if kind != "new" else ""
            answers = self.answers.get(source) or self.logs.said(3)
            self.tasks[name] = self.tasks[source] if kind == "copy" else task
            self.answers[name] = changed(answers) if kind == "near" else answers
            self.logs.put(name, self.tasks[name], self.answers[name])
        raws = [str(path) for path in sorted(self.logs.folder.glob("logs*"))]
        (Append(RECIPE, raws, self.out) if Path(self.out).exists() else Run(RECIPE, raws, self.out)).run()
        self.logs.generations += 1

    def forget(self) -> None:
        """Forgetting one of the logs, killed at some file or not."""
        names = sorted(set(kept_in(self.out)["name"]))
        name = self.dice.choice(names)
        selection, rest = Selection(sources=(f"{name}.json",)), self.dice.randint(0, 40)

        written = Folder.write

        def killed(folder: Folder, name: str, data: bytes, *, private: bool = False) -> None:
            nonlocal rest
            rest -= 1
            if rest < 0:
                raise KeyboardInterrupt
            written(folder, name, data, private=private)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Folder, "write", killed)
            try:
                Forgetting(RECIPE, self.out).forget(selection)
                done = True
            except KeyboardInterrupt:
                done = False
        if not done:
            Forgetting(RECIPE, self.out).forget(selection)
        self.forgotten.add(name)
        self.shards = {}

    def anew(self) -> None:
        """A run over all logs into another folder, which then takes the place of the old one."""
        raws = [str(path) for path in sorted(self.logs.folder.glob("logs*"))]
        rebuilt = f"{self.out}-anew"
        run_with_pools_of(self.out, RECIPE, raws, rebuilt)
        shutil.rmtree(self.out)
        Path(rebuilt).rename(self.out)
        self.shards = {}

    def check(self) -> None:
        """Fail where a promise is broken."""
        report = verify(self.out)
        assert report.is_whole, report.faults
        survivors = kept_in(self.out)
        assert survivors.group_by("place").agg(pl.col("pool").n_unique())["pool"].max() == 1
        of_task: dict[str, set[str]] = {}
        for name, pool in zip(survivors["name"], survivors["pool"], strict=True):
            of_task.setdefault(self.tasks[name], set()).add(pool)
        assert all(len(members) == 1 for members in of_task.values())
        pools = {task: pool for task, (pool,) in of_task.items()}
        assert all(self.pools.get(task, pool) == pool for task, pool in pools.items())
        self.pools |= pools
        shards = {name: digest for name, digest in bytes_of(Path(self.out) / "shards").items() if "/" in name}
        assert self.shards.items() <= shards.items()
        self.shards = shards
        assert self.forgotten.isdisjoint(read_in(self.out))


def kept_in(out: str) -> pl.DataFrame:
    """What is kept of all generations, with pool and group."""
    return pl.concat(
        [verdicts(Path(folder.path())).filter("kept") for folder in stage_folders(Folder(out))], how="diagonal"
    )


def read_in(out: str) -> set[str]:
    return {name for folder in stage_folders(Folder(out)) for name in verdicts(Path(folder.path()))["name"]}


@pytest.mark.parametrize("seed", range(FUZZ))
def test_whatever_comes_what_was_promised_holds(tmp_path, seed):
    dice = random.Random(seed)
    history = History(Logs(tmp_path, RECIPE), dice, str(tmp_path / "out"))
    history.arrive()
    history.check()
    for step in [dice.choice([history.arrive, history.arrive, history.forget, history.anew]) for _ in range(3)]:
        step()
        history.check()
