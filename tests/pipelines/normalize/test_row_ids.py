"""Keys of rows through a whole run: exact copies, in one input and in several, are told apart in every table."""

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from tests.pipelines.judge.test_near_duplicates import atif
from tests.test_docs import blocks
from trajmill.app.cli.inspection import inspect
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import scan_transitions
from trajmill.schemas.row_ids import RowIds

FIXTURES = ROOT / "tests" / "fixtures"
RECIPE = Recipe(name="copies", source="tests")


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of several trajectories, each of which stands twice in its file, and the files again under other names."""
    folder = tmp_path_factory.mktemp("raw")
    for name in ("swe_rows/input/smith.jsonl", "chat_tools/input/rows.jsonl", "terminus_rows/input/rows.jsonl"):
        for copy in ("one", "two"):
            (folder / copy).mkdir(exist_ok=True)
            (folder / copy / name.replace("/", "-")).write_bytes((FIXTURES / name).read_bytes() * 2)
    return folder


@pytest.fixture(scope="module")
def out(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out")
    Run(recipe_with_spans(), [str(raw)], str(folder / "out" / "mine")).run()
    return folder


def recipe_with_spans() -> Recipe:
    return Recipe.model_validate({**RECIPE.model_dump(mode="json"), "judge": {"spans": True}})


def keys(out: Path, tables: str = "transitions/*/part-*.parquet") -> list[str]:
    return [key for name in sorted(out.glob(tables)) for key in pl.read_parquet(name, columns=["row_id"])["row_id"]]


def test_a_join_on_row_id_has_as_many_rows_as_each_table(out: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(out)
    (code,) = blocks(ROOT / "docs" / "schema.md", "python")
    names: dict[str, pl.LazyFrame] = {}
    exec(code, names)
    judged = names["judged"].collect()
    rows = scan_transitions("out/mine").collect()
    pairs = rows.select("trajectory_id", "step")
    assert pairs.n_unique() * 4 == rows.height > 50
    assert rows["row_id"].n_unique() == rows.height == judged.height == names["verdicts"].collect().height
    assert set(judged["kept"]) == {True, False}


@pytest.mark.parametrize(
    "tables", ["verdicts/*/part-*.parquet", "spans/*/part-*.parquet", "measures/*[0-9a-f].parquet"]
)
def test_what_lies_beside_the_transitions_bears_their_keys_in_their_order(out: Path, tables: str):
    run = out / "out" / "mine"
    assert len(keys(run)) > 50
    assert keys(run, tables) == keys(run)


def test_keys_do_not_hang_on_parts_nor_on_the_order_of_inputs(raw: Path, out: Path, tmp_path: Path):
    again = tmp_path / "again"
    names = [str(path) for path in sorted(raw.iterdir(), reverse=True)]
    shutil.copytree(raw, tmp_path / "raw")
    Run(RECIPE, [str(tmp_path / "raw")], str(again), Execution(part_bytes=2_000)).run("normalize")
    assert len(list(again.glob("transitions/swe/*.parquet"))) > 1
    assert sorted(keys(again)) == sorted(keys(out / "out" / "mine"))
    reordered = tmp_path / "other"
    Run(RECIPE, names, str(reordered)).run("normalize")
    assert len(keys(reordered)) == len(set(keys(reordered)))


def test_keys_hang_on_the_names_of_inputs_as_they_are_stored_and_tell_nothing_of_what_was_scrubbed(tmp_path: Path):
    log = tmp_path / "raw" / "-Users-janedoe-website" / "rows.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes((FIXTURES / "swe_rows/input/smith.jsonl").read_bytes() * 2)
    Run(RECIPE, [str(tmp_path / "raw")], str(tmp_path / "out")).run("normalize")
    (file,) = (tmp_path / "out").glob("transitions/*/part-*.parquet")
    rows = pq.read_table(file)
    assert "janedoe" not in str(rows["provenance"].to_pylist())
    assert rows["row_id"].to_pylist() == RowIds().of(rows).to_pylist()


@pytest.mark.parametrize("what", ["raw", "out"])
def test_a_copy_is_looked_at_by_itself_and_each_is_counted(raw: Path, out: Path, tmp_path: Path, what: str):
    for log in raw.rglob("swe_rows*"):  # each look reads all logs
        (tmp_path / log.parent.name).mkdir()
        shutil.copy(log, tmp_path / log.parent.name)
    path = str(tmp_path if what == "raw" else out / "out" / "mine")
    first = inspect(path)
    key = first.rows[0]["trajectory_id"]
    copies = [inspect(path, str(number)).rows for number in range(first.counts["trajectories"])]
    assert len(copies) == 4 * len({rows[0]["trajectory_id"] for rows in copies}) > 4
    assert all([row["step"] for row in rows] == list(range(rows[0]["num_steps"])) for rows in copies)
    assert inspect(path, key).rows == first.rows == inspect(path, first.title.split()[1]).rows
    assert sum(rows[0]["trajectory_id"] == key for rows in copies) == 4


def keeping_copies(pool: str) -> Recipe:
    judge = {"drop_duplicate_trajectories": False, "mask_duplicate_transitions": False, "near_duplicates": None}
    return Recipe.model_validate({"name": "r", "source": "s", "judge": judge, "mix": {"pools": {pool: 1}}})


def same_logs(folder: Path) -> Path:
    """Logs with one id and one content, but each with tools of its own, which do not count for the id."""
    folder.mkdir()
    for number in range(6):
        tools = [{"type": "function", "function": {"name": "bash", "description": f"shell {number}"}}]
        log = atif("same", "look around", ["total 2\nnotes.txt", "hello world, how are you"])
        log["agent"] = {"name": "a", "version": "1", "tool_definitions": tools}
        (folder / f"{number}.json").write_text(json.dumps(log))
    return folder


@pytest.mark.parametrize("pool", ["cpt", "sft", "rl", "eval"])
def test_copies_that_stay_are_samples_with_ids_of_their_own(tmp_path: Path, pool: str):
    Run(keeping_copies(pool), [str(same_logs(tmp_path / "raw"))], str(tmp_path / "out")).run()
    suffix = ".jsonl" if pool == "eval" else ".parquet"
    (file,) = (path for path in (tmp_path / "out" / "shards" / pool).rglob("*") if path.suffix == suffix)
    rows = pl.read_parquet(file).to_dicts() if file.suffix == ".parquet" else pl.read_ndjson(file).to_dicts()
    infos = [row["extra_info"] for row in rows] if pool == "rl" else rows
    name = "sample_id" if pool == "eval" else "id"
    (key,) = {re.split(r"[.:]", row[name])[0] for row in infos}
    step = f":{infos[0][name].rpartition(':')[2]}" if pool in ("rl", "eval") else ""
    before, after = (step, "") if pool == "eval" else ("", step)
    assert [row[name] for row in infos] == [f"{key}{step}", *(f"{key}{before}.{copy}{after}" for copy in range(2, 7))]
    assert len({row.get("index", row["id"]) for row in infos}) == 6
