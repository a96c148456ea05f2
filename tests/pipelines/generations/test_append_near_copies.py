"""Near copies over generations: earlier ones win, rollouts of a task that grew are told apart, likeness keeps pools."""

import json
import random
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import FUZZ
from tests.pipelines.judge.test_near_duplicates import VOCABULARY, atif
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.generations.append import Append
from trajmill.pipelines.generations.generations import chain
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder

RECIPE = parse_recipe('{"name": "near", "source": "tests", "domains": ["terminal"]}', "near")


class Logs:
    """Logs of sessions, a folder a generation."""

    def __init__(self, folder: Path, recipe: Recipe = RECIPE) -> None:
        self.folder, self.recipe, self.random = folder, recipe, random.Random(5)
        self.out = str(folder / "out")
        self.generations = 0

    def said(self, count: int) -> list[str]:
        return [" ".join(self.random.choices(VOCABULARY, k=80)) for _ in range(count)]

    def put(self, name: str, task: str, answers: list[str]) -> None:
        folder = self.folder / f"logs{self.generations + 1}"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(atif(name, task, answers)))

    def add(self, execution: Execution | None = None) -> pl.DataFrame:
        """Makes a generation of what was put since; the verdict on each of its trajectories, by name."""
        self.generations += 1
        raws = [str(self.folder / f"logs{number + 1}") for number in range(self.generations)]
        if self.generations == 1:
            Run(self.recipe, raws, self.out, execution).run()
            return verdicts(Path(self.out))
        result = Append(self.recipe, raws, self.out, execution).run()
        return verdicts(Path(self.out) / result.generation.folder)

    def stages(self) -> list[Path]:
        return [Path(self.out) / generation.folder for generation in chain(Folder(self.out))]


def verdicts(stages: Path) -> pl.DataFrame:
    names = pl.scan_parquet(stages / "transitions" / "*" / "*.parquet").select(
        "trajectory_id", "step", pl.col("provenance").struct.field("uri").str.extract(r"([^/]+)\.json$").alias("name")
    )
    rows = pl.scan_parquet(stages / "verdicts" / "*" / "*.parquet")
    draws = pl.scan_parquet(stages / "draws" / "*-part-*.parquet").select(
        "trajectory_id", "pool", pl.col("group").alias("place")
    )
    first = rows.join(names, on=["trajectory_id", "step"]).filter(pl.col("step") == 0)
    return first.join(draws, on="trajectory_id", how="left").sort("name").collect()


def of(table: pl.DataFrame, name: str) -> dict[str, object]:
    (row,) = table.filter(pl.col("name") == name).to_dicts()
    return row


def reject(stages: Path, trajectory: object) -> str:
    rejects = pl.read_parquet(stages / "rejects" / "judge" / "*.parquet")
    (detail,) = rejects.filter((pl.col("trajectory_id") == trajectory) & (pl.col("unit") == "trajectory"))["detail"]
    return str(detail)


def changed(answers: list[str]) -> list[str]:
    return [" ".join(["changed", *text.split()[1:]]) for text in answers]


def test_a_near_copy_of_an_earlier_generation_goes_whatever_task_it_names(tmp_path):
    logs = Logs(tmp_path)
    first = {number: logs.said(8) for number in range(6)}
    for number, answers in first.items():
        logs.put(f"first{number}", f"task {number}", answers)
    before = logs.add()
    logs.put("copy", "another task", changed(first[3]))
    logs.put("fresh", "a third task", logs.said(8))
    after = logs.add()
    assert of(after, "fresh")["kept"]
    assert of(after, "copy")["reason"] == "near_duplicate"
    survivor = str(of(before, "first3")["trajectory_id"])[:16]
    assert survivor in reject(logs.stages()[1], of(after, "copy")["trajectory_id"])


def test_a_near_copy_of_a_later_generation_is_found_by_the_next(tmp_path):
    logs, part_bytes = Logs(tmp_path), 12_000
    for number in range(3):
        logs.put(f"first{number}", f"task {number}", logs.said(8))
    logs.add(Execution(part_bytes=part_bytes))
    second = logs.said(8)
    logs.put("second", "task 1", second)
    logs.add(Execution(part_bytes=part_bytes))
    logs.put("third", "task 1", changed(second))
    logs.put("fourth", "task 9", changed(second[:4]) + second[4:])
    after = logs.add(Execution(part_bytes=part_bytes))
    assert after["reason"].to_list() == ["near_duplicate"] * 2


def test_one_that_is_like_an_earlier_one_of_another_task_joins_its_group_and_pool(tmp_path):
    logs = Logs(tmp_path)
    first = {number: logs.said(12) for number in range(12)}
    for number, answers in first.items():
        logs.put(f"first{number}", f"task {number}", answers)
    before = logs.add()
    assert before["pool"].n_unique() > 1
    for number, answers in first.items():  # a quarter is other: no copy, but of one group, where buckets show it
        logs.put(f"like{number}", f"other {number}", answers[:9] + logs.said(3))
    after = logs.add()
    assert after["kept"].all()
    pairs = [(of(after, f"like{number}"), of(before, f"first{number}")) for number in first]
    joined = [(mine, theirs) for mine, theirs in pairs if mine["place"] == theirs["place"]]
    assert len(joined) > len(pairs) / 2
    assert all(mine["pool"] == theirs["pool"] for mine, theirs in joined)


def test_one_that_is_like_earlier_ones_of_two_pools_is_rejected(tmp_path):
    near = {"rows": 2, "similar": 0.7}
    wide = {"name": "near", "source": "tests", "domains": ["terminal"], "judge": {"near_duplicates": near}}
    logs = Logs(tmp_path, parse_recipe(json.dumps(wide), "near"))
    first = {number: logs.said(10) for number in range(12)}
    for number, answers in first.items():
        logs.put(f"first{number}", f"task {number}", answers)
    before = logs.add()
    pools = {number: of(before, f"first{number}")["pool"] for number in first}
    second = next(number for number in first if pools[number] != pools[0])
    logs.put("bridge", "another", first[0][:6] + logs.said(1) + first[second][:6])
    logs.put("beside", "another", logs.said(8))
    after = logs.add()
    assert (of(after, "bridge")["kept"], of(after, "bridge")["reason"]) == (False, "bridges_pools")
    assert of(after, "beside")["kept"]


def test_budgets_samples_and_bounds_are_of_all_generations(tmp_path):
    stages = {
        "sft": {"budget": 15_000, "components": {"all": {}}},
        "rl": {"samples": 5, "max_per_group": 3},
        "cpt": {"bounds": [{"by": "task", "max_tokens": 5_000}]},
    }
    mix = {"pools": {"sft": 1, "rl": 1, "cpt": 1}, "stages": stages}
    recipe = parse_recipe(json.dumps({"name": "n", "source": "tests", "domains": ["terminal"], "mix": mix}), "n")
    logs = Logs(tmp_path, recipe)
    for generation in range(3):
        for number in range(12):
            logs.put(f"{generation}-{number}", f"task {number % 6}", logs.said(3))
        logs.add()
    drawn_stages = [generation.mixture["stages"] for generation in chain(Folder(logs.out))]
    drawn = [{pool: sum(row["tokens"] for row in by_pool[pool]) for pool in by_pool} for by_pool in drawn_stages]
    samples = [sum(row["samples"] for row in by_pool["rl"]) for by_pool in drawn_stages]
    assert drawn[0]["sft"] < 12_000 < sum(by_pool["sft"] for by_pool in drawn) <= 15_000
    assert sum(samples) == 5
    assert samples[0] < 5
    draws = pl.concat([pl.read_parquet(stage / "draws" / "*-part-*.parquet") for stage in logs.stages()])
    shown = draws.filter(pl.col("copies") > 0)
    assert shown.filter(pl.col("pool") == "rl").group_by("group").len().select(pl.max("len")).item() <= 3
    cpt = pl.concat([pl.read_parquet(path) for path in (Path(logs.out) / "shards" / "cpt").rglob("*.parquet")])
    by_task = cpt.join(shown.select("trajectory_id", "task_hash"), on="trajectory_id").group_by("task_hash")
    assert by_task.agg(pl.col("num_tokens").sum()).select(pl.max("num_tokens")).item() <= 5_000


def test_what_a_grown_log_adds_joins_its_group_and_what_was_there_bears_no_loss_again(tmp_path):
    logs = Logs(tmp_path)
    first = {number: logs.said(3) for number in range(8)}
    for number, answers in first.items():
        logs.put(f"log{number}", f"task {number}", answers)
    before = logs.add()
    for number, answers in first.items():
        if number % 2:
            log = atif(f"log{number}", f"told otherwise {number}", answers + logs.said(2))
            (tmp_path / "logs1" / f"log{number}.json").write_text(json.dumps(log))
    logs.put("fresh", "a task", logs.said(3))
    after = logs.add()
    grown = [f"log{number}" for number in first if number % 2]
    assert after["name"].to_list() == ["fresh", *grown]
    assert after["kept"].all()
    for name in grown:
        mine, theirs = of(after, name), of(before, name)
        assert (mine["pool"], mine["place"]) == (theirs["pool"], theirs["place"])
    rows = pl.read_parquet(logs.stages()[1] / "verdicts" / "*" / "*.parquet").sort("trajectory_id", "step")
    uses = rows.group_by("trajectory_id", maintain_order=True).agg("use")["use"].to_list()
    assert sorted(map(tuple, uses)) == [("context",) * 3 + ("target",) * 2] * len(grown) + [("target",) * 3]


def require_keepers(stages: list[Path]) -> None:
    """Fails where what went for the sake of another one has no kept keeper."""
    survivors = pl.concat([pl.read_parquet(stage / "verdicts" / "*" / "*.parquet").filter("kept") for stage in stages])
    ids = {key[:16] for key in survivors["trajectory_id"]}
    for stage in stages:
        gone = pl.read_parquet(stage / "rejects" / "judge" / "*.parquet").filter(
            (pl.col("unit") == "trajectory") & pl.col("reason").is_in(["near_duplicate", "duplicate_trajectory"])
        )
        assert all(detail.split()[-1].rstrip("…") in ids for detail in gone["detail"])


@pytest.mark.parametrize("seed", range(FUZZ))
def test_any_arrivals_of_rollouts_and_copies_keep_the_invariants(tmp_path, seed):
    chance = random.Random(seed)
    logs = Logs(tmp_path)
    arrivals: list[tuple[str, str, list[str]]] = []
    for task in range(4):
        prefix = logs.said(6)
        for rollout in range(chance.randint(1, 4)):
            answers = prefix + logs.said(2)
            arrivals.append((f"r{task}-{rollout}", f"task {task}", answers))
            if chance.random() < 0.5:
                of_task = f"task {chance.randrange(8)}"
                arrivals.append((f"c{task}-{rollout}", of_task, chance.choice([answers, changed(answers)])))
    chance.shuffle(arrivals)
    pools: dict[str, set[str]] = {}
    tables = []
    for number in range(3):
        for arrival in arrivals[number::3]:
            logs.put(*arrival)
        tables.append(logs.add(Execution(part_bytes=chance.choice([1 << 28, 15_000]))))
        for group, pool in tables[-1].filter("kept").select("place", "pool").iter_rows():
            pools.setdefault(group, set()).add(pool)
    assert all(len(members) == 1 for members in pools.values())
    require_keepers(logs.stages())
    survivors = pl.concat([table.filter("kept").select("name", "trajectory_hash", "group") for table in tables])
    assert survivors["trajectory_hash"].n_unique() == len(survivors)
    texts = {name: "".join(answers) for name, _, answers in arrivals}
    assert len({texts[name] for name in survivors["name"]}) == len(survivors)


def test_a_site_that_was_too_large_to_tie_ties_no_later_log_and_one_that_tied_does(tmp_path):
    mix = {"group_by": {"site": 0.3}}
    logs = Logs(tmp_path, parse_recipe(json.dumps({"name": "n", "source": "t", "domains": ["web"], "mix": mix}), "n"))

    def put(name: str, site: str) -> None:
        logs.put(name, "", [])
        pages = [f"<html><body><p>{words}</p></body></html>" for words in logs.said(6)]
        entries = [
            {
                "startedDateTime": f"2026-01-01T00:00:0{number}.000Z",
                "time": 5,
                "request": {"method": "GET", "url": f"https://{site}.example/{number}", "headers": []},
                "response": {"status": 200, "headers": [], "content": {"mimeType": "text/html", "text": page}},
            }
            for number, page in enumerate(pages)
        ]
        log = {"log": {"version": "1.2", "creator": {"name": "c", "version": "1"}, "entries": entries}}
        (logs.folder / f"logs{logs.generations + 1}" / f"{name}.json").write_text(json.dumps(log), "utf-8")

    for name in ("large0", "large1", "large2", "large3", "small0", "small1", "other0", "third0"):
        put(name, name[:-1])
    before = logs.add()
    assert before.filter(pl.col("name").str.starts_with("large"))["place"].n_unique() == 4
    assert of(before, "small0")["place"] == of(before, "small1")["place"]
    put("large4", "large")
    put("small2", "small")
    after = logs.add()
    assert after["kept"].all()
    assert of(after, "small2")["place"] == of(before, "small0")["place"]
    assert of(after, "large4")["place"] not in set(before["place"])
