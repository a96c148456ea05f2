"""Noise ceilings through whole runs: a column of verdicts that rules, mixtures and the turns of RL go by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.pipelines.judge.test_near_duplicates import atif
from tests.pipelines.test_append_near_copies import Logs
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.forgetting.forgetting import Forgetting
from trajmill.pipelines.forgetting.selection import Selection
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import ConfigError

START = "total 2\nnotes.txt\nrun.sh"
TASKS = 11


def listening(number: int) -> str:
    """Ten words, of which two are told by no history."""
    return f"server is up\npid {4000 + number} and port {50000 + number} for you"


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rollouts of each of some tasks, which differ in one answer, one task's as copies too; another task."""
    folder = tmp_path_factory.mktemp("raw")
    for task in range(TASKS):
        for number in range(2):
            session = f"t{task}r{number}"
            answers = [f"{START} {task}", listening(10 * task + number), f"after {session}"]
            (folder / f"{session}.json").write_text(json.dumps(atif(session, f"task {task}", answers)))
            if not task:
                (folder / f"copy-{session}.json").write_text(json.dumps(atif(session, f"task {task}", answers)))
    (folder / "other.json").write_text(json.dumps(atif("other", "another task", [START, listening(999), "end"])))
    return folder


def recipe(mix: dict[str, Any] | None = None, **judge: object) -> Recipe:
    judged = {"near_duplicates": None, "spans": True, "measure": ["noise_ceiling"], **judge}
    values = {"name": "r", "source": "tests", "domains": ["terminal"], "judge": judged, "mix": mix or {}}
    return parse_recipe(json.dumps(values), "r")


def rows(out: Path) -> pl.DataFrame:
    names = pl.read_parquet(out / "transitions" / "*" / "*.parquet", columns=["row_id", "native_id"])
    table = pl.read_parquet(out / "verdicts" / "*" / "*.parquet").join(names, on="row_id")
    return table.sort("row_id").rename({"signal.noise_ceiling": "ceiling", "why.noise_ceiling": "source"})


def test_rows_are_measured_pooled_or_extrapolated_and_say_so_whatever_the_parts(raw: Path, tmp_path: Path):
    found = []
    for number, execution in enumerate((Execution(), Execution(part_bytes=30_000, partitions=128))):
        out = tmp_path / str(number)
        summary = Run(recipe(), [str(raw)], str(out), execution).run("judge")
        found.append(rows(out))
    assert found[0].equals(found[1])
    table = found[0]
    assert (tmp_path / "0/measures/ceilings.json").read_bytes() == (tmp_path / "1/measures/ceilings.json").read_bytes()
    rollouts = table.filter(pl.col("native_id") != "other")
    assert set(rollouts.filter(pl.col("step") == 0)["ceiling"]) == {1.0}
    assert set(rollouts.filter(pl.col("step") == 1)["ceiling"].cast(pl.Float64).round(3)) == {0.8}
    assert set(rollouts.filter(pl.col("step") < 2)["source"]) == {"measured"}
    assert len(rollouts.filter(pl.col("step") == 1)) == 2 * TASKS + 2, "copies are told too"
    other = table.filter(pl.col("native_id") == "other").sort("step")
    assert other["source"].to_list() == ["pooled"] * 3
    assert other["ceiling"].to_list() == pytest.approx([1.0, 0.8, 0.9])
    told = summary.ceilings["terminal"]
    assert told["rows"] == {"measured": 4 * TASKS + 4, "pooled": 2 * TASKS + 5, "extrapolated": 0}
    assert (told["errors"]["histories"], told["errors"]["pooled"]) == (2 * TASKS, 0.0)


def test_a_rule_goes_by_what_the_corpus_tells(raw: Path, tmp_path: Path):
    noisy = {"noisy": {"signal": "noise_ceiling", "min": 0.85, "use": "context"}}
    Run(recipe(rules=noisy, measure=[], mask_duplicate_transitions=False), [str(raw)], str(tmp_path)).run("judge")
    kept = rows(tmp_path).filter("kept")
    assert set(kept.filter(pl.col("step") == 1)["reason"]) == {"noisy"}
    assert set(kept.filter(pl.col("step") != 1)["use"]) == {"target"}
    details = pl.read_parquet(tmp_path / "rejects" / "judge" / "*.parquet").filter(pl.col("reason") == "noisy")
    assert {detail.partition(",")[0] for detail in details["detail"]} == {"measured", "pooled"}


def test_what_one_domain_lacks_is_extrapolated(tmp_path: Path):
    folder = tmp_path / "raw"
    folder.mkdir()
    for number in range(3):
        log = atif(f"r{number}", f"task {number}", [START, f"nothing like it {number}"])
        (folder / f"{number}.json").write_text(json.dumps(log))
    summary = Run(recipe(), [str(folder)], str(tmp_path / "out")).run("judge")
    assert set(rows(tmp_path / "out")["source"]) == {"extrapolated"}
    assert summary.ceilings["terminal"]["errors"]["extrapolated"] is None


def test_a_mixture_chooses_and_weighs_by_it_and_rl_asks_for_what_can_be_known(raw: Path, tmp_path: Path):
    stages = {
        "sft": {"components": {"some": {"where": {"noise_ceiling": {"min": 0.5}}, "weigh": {"noise_ceiling": 2}}}},
        "rl": {"weigh_turns": {"noise_ceiling": 8}},
    }
    mix = {"pools": {"cpt": 0, "sft": 0, "rl": 1, "eval": 0}, "stages": stages}
    drawn = {}
    for name, chosen in {"plain": {**mix, "stages": {}}, "weighed": mix}.items():
        out = tmp_path / name
        Run(recipe(chosen, mask_duplicate_transitions=False), [str(raw)], str(out)).run()
        shards = pl.read_parquet(out / "shards" / "rl" / "*" / "*.parquet")
        drawn[name] = [one["turn_idx"] for one in shards["extra_info"]].count(2)
    assert drawn["weighed"] < drawn["plain"]
    assert "## Noise ceilings" in (tmp_path / "weighed/shards/README.md").read_text("utf-8")
    told = json.loads((tmp_path / "weighed/shards/manifest.json").read_bytes())
    assert told["mixture"]["noise_ceilings"]["terminal"]["errors"]["pooled"] == 0.0


@pytest.mark.parametrize("lacking", [{"spans": False}, {"replicates": None}])
def test_it_is_refused_where_nothing_tells_it(lacking: dict[str, Any]):
    with pytest.raises(ConfigError, match=r"noise_ceiling.*needs judge\.spans"):
        recipe(**lacking)


def test_a_later_generation_counts_what_earlier_ones_measured_and_changes_none_of_it(tmp_path: Path):
    logs = Logs(tmp_path, recipe())
    for task in range(TASKS):
        for number in range(2):
            logs.put(f"t{task}r{number}", f"task {task}", [f"{START} {task}", listening(10 * task + number)])
    logs.add()
    before = {path: path.read_bytes() for path in Path(logs.out).glob("verdicts/*/*.parquet")}
    assert before
    logs.put("new", "a task that nobody knows", [f"{START} new", listening(777)])
    logs.add()
    later = rows(logs.stages()[1])
    assert later.sort("step")["source"].to_list() == ["pooled"] * 2
    assert later.sort("step")["ceiling"].to_list() == pytest.approx([1.0, 0.8])
    assert {path: path.read_bytes() for path in before} == before
    assert json.loads((logs.stages()[1] / "measures/ceilings.json").read_bytes())["cells"] == {"terminal": []}


def test_what_is_forgotten_is_forgotten_in_what_ceilings_are_estimated_by(tmp_path: Path):
    logs = Logs(tmp_path, recipe())
    for number in range(2):
        logs.put(f"r{number}", "one task", [START, listening(number)])
    logs.add()
    Forgetting(logs.recipe, logs.out).forget(Selection(sources=("r0.json",)))
    for kind in ("verdicts/terminal/*.parquet", "measures/*.ceilings.parquet"):
        assert sum(len(pl.read_parquet(path)) for path in Path(logs.out).glob(kind)) == 2


def test_nobody_pays_who_does_not_ask(raw: Path, tmp_path: Path):
    Run(recipe(measure=[]), [str(raw)], str(tmp_path)).run("judge")
    assert not list((tmp_path / "measures").glob("*ceilings*"))
    assert "signal.noise_ceiling" not in pl.read_parquet(tmp_path / "verdicts" / "*" / "*.parquet").columns
