"""Every input of a plan has a uri, and no other input has it, since keys of rows hang on it."""

import shutil
from pathlib import Path
from threading import Barrier

import fsspec
import polars as pl
import pytest

from tests.pipelines.hostile import FIXTURES, GOOD, zipped
from trajmill.pipelines.plan.plan import Plan, make_plan, make_uris_distinct
from trajmill.pipelines.plan.raw_files import gather
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run import Run

RECIPE = Recipe(name="t", source="t")


def uris(plan: Plan) -> list[str]:
    return [log.uri for log in plan.inputs]


@pytest.fixture
def colliding(tmp_path: Path) -> list[str]:
    """Two roots: an archive that holds an archive and files as if below it, and files as if below the archive."""
    first, two = tmp_path / "one", tmp_path / "two" / "a.zip"
    first.mkdir()
    two.mkdir(parents=True)
    inner = zipped({"x.jsonl": GOOD})
    (first / "a.zip").write_bytes(zipped({"b.zip": inner, "b.zip/x.jsonl": GOOD, "x.jsonl": GOOD}))
    (two / "x.jsonl").write_bytes(GOOD)
    return [str(first), str(tmp_path / "two")]


def test_members_of_archives_and_files_that_would_share_a_uri_have_their_own(colliding: list[str]):
    plan = make_plan(RECIPE, colliding)
    assert uris(plan) == ["2/a.zip/b.zip/x.jsonl", "2/a.zip/x.jsonl", "a.zip/b.zip/x.jsonl", "a.zip/x.jsonl"]
    (file,) = (log for log in plan.inputs if log.uri == "a.zip/x.jsonl")
    assert file.members[""].within == ()
    assert make_plan(RECIPE, colliding[::-1]) == plan


def test_copies_under_uris_that_would_collide_have_keys_of_their_own(colliding: list[str], tmp_path: Path):
    summary = Run(RECIPE, colliding, str(tmp_path / "out")).run("normalize")
    files = (tmp_path / "out" / "transitions").glob("*/part-*.parquet")
    keys = pl.concat([pl.read_parquet(name, columns=["row_id", "trajectory_id", "step"]) for name in files])
    assert summary.line("inputs").kept == 4
    assert keys["row_id"].n_unique() == keys.height == 4 * keys.select("trajectory_id", "step").n_unique()


def test_two_logs_that_are_joined_of_one_folder_have_uris_of_their_own(tmp_path: Path):
    folder = tmp_path / "raw" / "run"
    for fixture in ("har/input/attached", "atif/input/terminus"):
        shutil.copytree(FIXTURES / fixture, folder, dirs_exist_ok=True)
    inputs = make_plan(RECIPE, [str(tmp_path / "raw")]).inputs
    assert [(log.uri, log.connector) for log in inputs] == [("2/run", "har"), ("run", "atif")]


def test_a_number_is_not_one_that_another_input_has(tmp_path: Path):
    for name in ("run", "2/run"):
        shutil.copytree(FIXTURES / "atif/input/terminus", tmp_path / "raw" / name)
    shutil.copytree(FIXTURES / "har/input/attached", tmp_path / "raw" / "run", dirs_exist_ok=True)
    plan = make_plan(RECIPE, [str(tmp_path / "raw")])
    assert uris(plan) == ["2/run", "3/run", "run"]
    assert make_uris_distinct(plan.inputs[::-1]) == plan.inputs


@pytest.mark.parametrize(
    ("fixture", "connector"), [("har/input/attached", "har"), ("swebench_eval/input/acme__lamp-1", "swebench_eval")]
)
def test_a_log_whose_folder_is_named_itself_bears_its_name(fixture: str, connector: str):
    (log,) = make_plan(RECIPE, [str(FIXTURES / fixture)]).inputs
    assert log.uri == Path(fixture).name
    assert log.connector == connector


def test_a_log_that_lies_in_a_home_is_named_by_its_first_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path / "somebody"
    shutil.copytree(FIXTURES / "har/input/attached", home)
    monkeypatch.setenv("HOME", str(home))
    assert uris(make_plan(RECIPE, [str(home)])) == ["tides.har"]


def test_folders_of_a_store_that_a_pattern_names_are_listed_at_once(monkeypatch):
    store = fsspec.filesystem("memory")
    names = [f"/listed-at-once/day-{day}/{name}.jsonl" for day in "cab" for name in "yx"]
    for name in names:
        store.pipe(name, b"{}")
    find, all_ask = type(store).find, Barrier(3)

    def found(self, path, *words, **more):
        if "day-" in path:
            all_ask.wait(10)
        return find(self, path, *words, **more)

    monkeypatch.setattr(type(store), "find", found)
    try:
        listed = gather(["memory://listed-at-once/day-*"])
    finally:
        store.rm("/listed-at-once", recursive=True)
    assert [file.place.path for file in listed] == [f"memory://{name}" for name in sorted(names)]
