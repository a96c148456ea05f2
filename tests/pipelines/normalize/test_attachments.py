"""What logs attach: its number in the balance, or, where a recipe asks for it, its bytes in `blobs/` by digest."""

import hashlib
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest

from tests.conftest import ROOT
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.normalize.attachments import KEPT, LOST, NOT_IN_LOG, Attachments
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.summary import Summary
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ConfigError, scan_transitions

FIXTURES = ROOT / "tests" / "fixtures"
SMALL = Execution(part_bytes=2_000)


def recipe(attachments: Literal["drop", "keep"] = "keep", **normalize: Any) -> Recipe:
    return Recipe.model_validate(
        {"name": "tea", "source": "tea", "normalize": {"attachments": attachments, **normalize}, "judge": {"rules": {}}}
    )


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures beside a log, twice the same, in an archive with its log, and as base64 within a log."""
    folder = tmp_path_factory.mktemp("raw")
    for name in ("taskTides--0", "taskTides--1"):
        shutil.copytree(FIXTURES / "webvoyager" / "input" / "taskTides--0", folder / name)
    shutil.copy(FIXTURES / "claude_code" / "input" / "session.jsonl", folder)
    with zipfile.ZipFile(folder / "results.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted((FIXTURES / "osworld" / "input" / "logged").iterdir()):
            packed.write(path, f"task/{path.name}")
    return folder


def run(raw: Path, out: Path, chosen: Recipe, execution: Execution = SMALL) -> Summary:
    return Run(chosen, [str(raw)], str(out), execution).run("normalize")


@pytest.fixture(scope="module")
def made(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of a run that keeps attachments, of more than one part; not to be changed."""
    out = tmp_path_factory.mktemp("made") / "out"
    run(raw, out, recipe())
    return out


@pytest.fixture
def finished(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "out")


def blobs(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "blobs").iterdir() if path.name != "manifest.json"}


def told(out: Path) -> set[str]:
    """The digests that rows tell of."""
    rows = scan_transitions(out).select("observation", "next_observation").collect()
    sides = pl.concat([rows["observation"], rows["next_observation"]]).struct.field("attachments")
    return {attachment["sha256"] for row in sides.to_list() for attachment in row or []}


def test_what_logs_attach_is_copied_once_under_its_digest(raw, made):
    contents = blobs(made)
    assert {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()} == {
        name: name for name in contents
    }
    assert contents.keys() == told(made)
    beside = {path.read_bytes() for path in (raw / "taskTides--0").glob("*.png")}
    with zipfile.ZipFile(raw / "results.zip") as packed:
        archived = {packed.read(name) for name in packed.namelist() if "080004" in name}
    assert len(archived) == 1
    assert len(contents) == len(beside) + len(archived) + 1
    assert beside | archived < set(contents.values())


def test_the_balance_tells_what_is_kept_and_what_is_left_out(raw, made, tmp_path):
    copied, dropped = run(raw, made, recipe()), run(raw, tmp_path / "out", recipe("drop"))
    line = copied.line("attachments")
    assert (line.entered, line.kept, line.lost) == (8, 8, {})
    line = dropped.line("attachments")
    assert (line.entered, line.kept, line.lost) == (8, 0, {"left_out": 8})
    assert not (tmp_path / "out" / "blobs").exists()
    assert told(tmp_path / "out") == told(made)


def test_other_parts_and_another_order_give_the_same_blobs_and_the_same_balance(raw, made, tmp_path):
    out = tmp_path / "out"
    summary = Run(recipe(), [str(path) for path in sorted(raw.iterdir(), reverse=True)], str(out)).run("normalize")
    counts = [len(list((folder / "_units" / "blobs").iterdir())) for folder in (out, made)]
    assert counts[0] == 1 < counts[1]
    assert blobs(out) == blobs(made)
    assert summary.line("attachments").kept == 8
    assert verify(str(out)).is_whole


@pytest.mark.parametrize("damage", ["flipped", "longer", "gone"])
def test_a_damaged_blob_is_told_and_made_again(raw, made, finished, damage):
    name = sorted(blobs(made))[0]
    path = finished / "blobs" / name
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:] if damage == "flipped" else data + b"?")
    (fault,) = verify(str(finished)).faults
    assert fault.name == f"blobs/{name}"
    run(raw, finished, recipe())
    assert blobs(finished) == blobs(made)
    assert verify(str(finished)).is_whole


def test_the_manifest_of_the_folder_names_each_blob_once(made):
    manifest = json.loads((made / "blobs" / "manifest.json").read_bytes())
    names = [file["name"] for file in manifest["files"]]
    assert names == sorted(blobs(made))
    of_units = [
        file["name"]
        for path in (made / "_units" / "blobs").iterdir()
        for file in json.loads(path.read_bytes())["files"]
    ]
    assert len(of_units) > len(names)


def test_blobs_are_for_the_user_alone(made):
    assert {path.stat().st_mode & 0o777 for path in (made / "blobs").iterdir() if path.name != "manifest.json"} == {
        0o600
    }


def test_blobs_of_a_run_that_was_killed_are_ours_and_go_where_no_row_tells_of_them(raw, finished, made):
    left = finished / "blobs" / ("0" * 64)
    left.write_bytes(b"of a part that a kill ended")
    shutil.rmtree(finished / "_units" / "blobs")
    (finished / "blobs" / "manifest.json").unlink()
    run(raw, finished, recipe())
    assert blobs(finished) == blobs(made)
    assert verify(str(finished)).is_whole


def test_what_is_no_blob_is_foreign_and_stays(raw, finished, tmp_path):
    for path in (finished / "blobs" / "holiday.png", tmp_path / "other" / "blobs" / ("0" * 64)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"mine")
        with pytest.raises(ConfigError):
            run(raw, path.parent.parent, recipe())
        assert path.read_bytes() == b"mine"


def test_a_run_that_keeps_none_replaces_one_that_kept_them_only_on_request(raw, finished):
    with pytest.raises(ConfigError, match="normalize"):
        run(raw, finished, recipe("drop"))
    Run(recipe("drop"), [str(raw)], str(finished), SMALL, overwrite=True).run("normalize")
    assert not (finished / "blobs").exists()
    assert verify(str(finished)).is_whole


def test_a_picture_above_the_limit_of_a_member_is_left_out_and_counted(raw, tmp_path):
    shutil.copytree(raw / "taskTides--0", tmp_path / "raw" / "task")
    (tmp_path / "raw" / "task" / "screenshot1.png").write_bytes(b"\x89PNG" + bytes(10_000))
    summary = run(tmp_path / "raw", tmp_path / "out", recipe(max_member_bytes=9_000))
    line = summary.line("attachments")
    assert (line.entered, line.kept, line.lost) == (3, 2, {"too_large": 1})
    assert len(blobs(tmp_path / "out")) == 2


def test_pictures_of_a_trajectory_that_is_not_taken_in_are_not_kept(raw, tmp_path):
    chosen = recipe(max_reject_ratio=0.5).model_copy(update={"domains": ("web",)})
    summary = run(raw, tmp_path / "out", chosen)
    assert summary.line("attachments").kept == 6
    assert set(blobs(tmp_path / "out").values()) == {path.read_bytes() for path in (raw / "taskTides--0").glob("*.png")}


def test_what_a_log_only_names_is_counted_as_not_in_it_whatever_other_logs_hold(tmp_path):
    data, names = b"\x89PNG", hashlib.sha256(b"\x89PNG").hexdigest()
    attachments = Attachments(Folder(str(tmp_path)))
    attachments.take(names, data)
    attachments.settle([names])
    attachments.forget()
    attachments.settle([names])
    attachments.take(names, data)
    attachments.settle([names])
    assert attachments.counts == {KEPT: 2, f"{LOST}{NOT_IN_LOG}": 1}
    assert [(file.name, file.bytes) for file in attachments.files] == [(names, 4)]
