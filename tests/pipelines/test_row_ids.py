"""Keys of rows through a whole run: exact copies, in one input and in several, are told apart in every table."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from pipelines.recipe import Recipe
from pipelines.run import Run
from pipelines.runner import Execution
from schemas import scan_transitions
from tests.conftest import ROOT
from tests.test_docs import blocks

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
    other = tmp_path / "other"
    Run(RECIPE, names, str(other)).run("normalize")
    assert len(keys(other)) == len(set(keys(other)))
