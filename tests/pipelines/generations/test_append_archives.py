"""Archives, and files that no connector recognizes, are opened once: what they hold is known by what was found."""

import json
import zipfile
from pathlib import Path

import polars as pl
import pytest

from tests.pipelines.generations.test_append_near_copies import RECIPE
from tests.pipelines.judge.test_near_duplicates import atif
from trajmill.pipelines.generations.append import Append, Appended
from trajmill.pipelines.plan import recognition
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.paths import Place
from trajmill.pipelines.storage.stored_blob import opened_archive


def packed(path: Path, *names: str, grown: str = "") -> None:
    """An archive of logs by these names, one of which has answered more."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            answers = [f"{name} answered {number} " * 20 for number in range(9 if name == grown else 3)]
            archive.writestr(f"{name}.json", json.dumps(atif(name, f"task {name}", answers)))


@pytest.fixture
def raw(tmp_path) -> Path:
    """An archive of two logs, a file that is none, and the run over them."""
    folder = tmp_path / "logs"
    folder.mkdir()
    packed(folder / "first.zip", "a", "b")
    (folder / "notes.txt").write_text("nothing that is a log\n")
    Run(RECIPE, [str(folder)], str(tmp_path / "out")).run()
    return folder


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """Names of files as their beginnings are read, or archives listed."""
    names: list[str] = []
    head, listed = recognition._head, opened_archive

    def heads(file, *sizes):
        names.append(file.name)
        return head(file, *sizes)

    def archives(archive: Place, limit: int):
        names.append(archive.name)
        listed.cache_clear()  # as in a process of its own
        return listed(archive, limit)

    monkeypatch.setattr(recognition, "_head", heads)
    monkeypatch.setattr(recognition, "opened_archive", archives)
    return names


def append(raw: Path, recipe: Recipe = RECIPE) -> Appended:
    return Append(recipe, [str(raw)], str(raw.parent / "out")).run()


def test_what_did_not_change_is_not_opened_again_and_what_is_new_is(raw, opened):
    packed(raw / "second.zip", "c")
    result = append(raw)
    assert result.summary is not None
    assert [log.uri for log in result.summary.plan.inputs] == ["second.zip/c.json"]
    assert set(opened) == {"second.zip", "second.zip/c.json"}
    assert result.known == 2
    opened.clear()
    assert (append(raw).summary, append(raw).known, opened) == (None, 3, [])


def test_of_an_archive_that_changed_the_members_that_grew_alone_are_read_again(raw, tmp_path):
    packed(raw / "first.zip", "a", "b", "c", grown="b")
    result = append(raw)
    assert result.summary is not None
    assert [log.uri for log in result.summary.plan.inputs] == ["first.zip/b.json", "first.zip/c.json"]
    assert (result.known, result.changed) == (1, ("first.zip/b.json",))
    assert result.summary.line("transitions").kept > 3  # of b only what is new bears the loss, and of c all
    both = pl.concat([pl.read_parquet(path) for path in (tmp_path / "out").rglob("draws/*-part-*.parquet")])
    of_b = pl.concat([pl.read_parquet(path) for path in (tmp_path / "out").rglob("transitions/*/*.parquet")]).filter(
        pl.col("provenance").struct.field("uri") == "first.zip/b.json"
    )
    pools = both.filter(pl.col("trajectory_id").is_in(of_b["trajectory_id"].unique().to_list()))
    assert (len(pools), pools["group"].n_unique()) == (2, 1)


def test_a_member_is_known_in_an_archive_of_another_name_and_as_a_file(raw):
    packed(raw / "second.zip", "b", "c")
    with zipfile.ZipFile(raw / "first.zip") as archive:
        archive.extract("a.json", raw)
    result = append(raw)
    assert result.summary is not None
    assert [log.uri for log in result.summary.plan.inputs] == ["second.zip/c.json"]


def test_where_other_connectors_are_asked_what_was_not_recognized_is_looked_at_again(raw, opened):
    asked = parse_recipe(
        json.dumps({"name": "near", "source": "tests", "domains": ["terminal"], "normalize": {"connectors": ["atif"]}}),
        "near",
    )
    append(raw, asked)
    assert {"notes.txt", "first.zip"} <= set(opened)
