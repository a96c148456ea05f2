"""A run that goes on opens no file that is as it was for the plan in its folder, and makes the same plan."""

import gzip
import json
import os
import time
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.pipelines.hostile import GOOD
from tests.pipelines.plan.test_plan import CAST
from trajmill.connectors.registry import connectors
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.plan import planned_before, recognition
from trajmill.pipelines.plan.plan import recognition_digest
from trajmill.pipelines.plan.raw_files import RawFile, list_raw
from trajmill.pipelines.recipe.columns import Dataset
from trajmill.pipelines.recipe.recipe import Normalize, Recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.paths import Place

RECIPE = Recipe(name="t", source="t")
SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
LATER = 3600.0


@pytest.fixture
def raw(tmp_path):
    folder = tmp_path / "raw"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "one.cast").write_bytes(CAST)
    (folder / "a" / "packed.cast.gz").write_bytes(gzip.compress(CAST))
    (folder / "notes.txt").write_text(f"no log, token={SECRET}")
    (folder / "nothing.cast").touch()
    with ZipFile(folder / "many.zip", "w") as archive:
        archive.writestr("two.cast", CAST + b'[0.4, "o", "b"]\n')
        archive.writestr("log.jsonl", GOOD)
        archive.writestr("read.me", "no log either")
    return folder


@pytest.fixture
def opened(monkeypatch):
    """The names of the files that are opened to tell what they are."""
    names: list[str] = []
    head = recognition._head

    def noted(file, *more):
        names.append(file.name)
        return head(file, *more)

    monkeypatch.setattr(recognition, "_head", noted)
    return names


def planned(raw: Path, out: Path, **execution) -> bytes:
    Run(RECIPE, [str(raw)], str(out), Execution(**execution)).run("plan")
    return (out / "plan.json").read_bytes()


def settled(out: Path, by: float = LATER) -> None:
    """Has the plan made so much later than its files were written."""
    record = json.loads((out / "run.json").read_bytes())
    record["listed"] += by
    (out / "run.json").write_text(json.dumps(record))


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_as_it_was_is_not_opened_and_the_plan_has_the_same_bytes(raw, tmp_path, opened, workers):
    first = planned(raw, tmp_path / "out")
    assert SECRET.encode() not in first
    assert len(opened) == 8
    settled(tmp_path / "out")
    opened.clear()
    assert planned(raw, tmp_path / "out", workers=workers) == first
    assert opened == ["many.zip", "many.zip/read.me"]  # an archive is looked into, and what is no log there


def test_what_was_written_while_the_plan_was_made_is_opened_again(raw, tmp_path, opened):
    first = planned(raw, tmp_path / "out")
    opened.clear()
    assert planned(raw, tmp_path / "out") == first
    assert len(opened) == 8


def test_a_file_that_changed_is_seen_though_its_size_and_time_are_as_they_were(raw, tmp_path, opened):
    planned(raw, tmp_path / "out")
    settled(tmp_path / "out", by=time.time() - json.loads((tmp_path / "out/run.json").read_bytes())["listed"])
    log = raw / "a" / "one.cast"
    before = log.stat()
    time.sleep(0.02)
    log.write_bytes(b"x" * before.st_size)
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    opened.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planned_before, "_TICK", 0.0)
        plan = json.loads(planned(raw, tmp_path / "out"))
    assert "a/one.cast" in opened
    assert "a/packed.cast.gz" not in opened
    (reason,) = [entry["why"] for part in plan["parts"] for entry in part["inputs"] if entry["uri"] == "a/one.cast"]
    assert reason == "named as an asciicast, though its header is none"


def test_a_file_of_another_size_and_one_more_are_opened_and_no_others(raw, tmp_path, opened):
    planned(raw, tmp_path / "out")
    settled(tmp_path / "out")
    with (raw / "a" / "one.cast").open("ab") as stream:
        stream.write(b'[0.9, "o", "more"]\n')
    (raw / "a" / "third.cast").write_bytes(CAST)
    opened.clear()
    plan = planned(raw, tmp_path / "out")
    assert opened == ["a/one.cast", "a/third.cast", "many.zip", "many.zip/read.me"]
    assert plan == planned(raw, tmp_path / "other")


@pytest.mark.parametrize("damage", ["version", "listed", "plan", "connectors"])
def test_a_plan_of_other_code_or_one_that_is_damaged_is_not_believed(raw, tmp_path, opened, monkeypatch, damage):
    first = planned(raw, tmp_path / "out")
    settled(tmp_path / "out")
    if damage in ("version", "listed"):
        record = json.loads((tmp_path / "out/run.json").read_bytes())
        (tmp_path / "out/run.json").write_text(json.dumps(record | {damage: None}))
    elif damage == "plan":
        (tmp_path / "out/plan.json").write_bytes(first[: len(first) // 2])
    else:
        monkeypatch.setattr(type(connectors()["asciicast"]), "version", "next")
    opened.clear()
    planned(raw, tmp_path / "out")
    assert len(opened) == 8


def test_a_plan_is_believed_whatever_the_order_of_a_mapping_in_the_recipe():
    columns = {"id": "episode", "observation": "before", "action": "command"}
    mapping: dict[str, Any] = {
        "layout": "transitions",
        "domain": "os",
        "columns": columns,
        "kind": "model",
        "world_model": "m@1",
    }
    digests = [
        recognition_digest(
            Recipe(name="t", source="t", normalize=Normalize(dataset=Dataset(**mapping, sampling=sampling)))
        )
        for sampling in ({"top_k": 1, "seed": 2}, {"seed": 2, "top_k": 1}, {"seed": 1, "top_k": 2})
    ]
    assert digests[0] == digests[1] != digests[2]


def test_where_a_connector_failed_it_is_asked_again(raw, tmp_path, opened, monkeypatch):
    def fails(*_):
        raise TypeError

    connector = type(connectors()["refused"])
    with monkeypatch.context() as patch:
        patch.setattr(connector, "sniff", fails)
        assert json.loads(planned(raw, tmp_path / "out", strict=False))["withdrawn"]
    settled(tmp_path / "out")
    opened.clear()
    plan = json.loads(planned(raw, tmp_path / "out"))
    assert opened == ["many.zip", "many.zip/read.me", "notes.txt"]
    assert plan["withdrawn"] == []


def test_another_run_that_replaces_one_believes_nothing_of_it(raw, tmp_path, opened):
    planned(raw, tmp_path / "out")
    settled(tmp_path / "out")
    opened.clear()
    recipe = Recipe(name="t", source="t", normalize=Normalize(scrub_salt="s" * 32))
    Run(recipe, [str(raw)], str(tmp_path / "out"), overwrite=True).run("plan")
    assert len(opened) == 8


def test_a_file_of_which_no_time_of_change_is_told_is_never_known():
    location = Place("https://example.com/one.cast")
    plan = planned_before.PlannedBefore(0.0, "", {}, {}, {}, frozenset())
    assert plan.among("")(RawFile("one.cast", location, 7, "0")) is None


@pytest.mark.parametrize(
    ("told", "touched"),
    [({"ETag": '"9f"'}, 0.0), ({"mtime": datetime.fromtimestamp(7, UTC)}, 7.0), ({}, inf)],
    ids=["a tag", "a time", "nothing"],
)
def test_a_store_tells_every_change_by_a_tag_and_those_that_are_long_ago_by_a_time(monkeypatch, told, touched):
    name = f"memory://told-{touched}/one.cast"
    with fsspec.open(name, "wb") as stream:
        stream.write(CAST)
    original = MemoryFileSystem.find

    def find(self, *args, **more):
        return {path: info | told for path, info in original(self, *args, **more).items()}

    monkeypatch.setattr(MemoryFileSystem, "find", find)
    assert [file.touched for file in list_raw(name.removesuffix("/one.cast"))] == [touched]
