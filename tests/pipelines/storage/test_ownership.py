"""A user's files are theirs: what no run wrote is never replaced or removed, whatever lies in an output folder."""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.pipelines.test_run import shards_of
from trajmill.app.cli.cli import app
from trajmill.app.cli.export import export
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import MARKER, Folder
from trajmill.pipelines.storage.ownership import CHECKSUMS, LOCK, Identity, Ownership, survey
from trajmill.schemas import ConfigError

RECIPE = load_recipe("terminal")
OTHER = load_recipe("swe")


def changed(**judge):
    values = RECIPE.model_dump(mode="json")
    values["judge"].update(judge)
    return type(RECIPE).model_validate(values)


def contents(folder: Path) -> dict[str, bytes]:
    """Everything below a folder but the lock, which every look at it may touch."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != LOCK
    }


FOREIGN = (
    "notes.txt",
    "shards/mine.parquet",
    "shards/sft/terminal/deeper/mine.jsonl",
    "transitions/terminal/mine.csv",
    "transitions/terminal/part-00007-abcdef01.parquet",
    "measures/weights.bin", "verdicts/a/b/c", "rejects/normalize/.hidden", "spill/notes",
    "spill/spill-00000.blocks.txt", ".unfinished-mine", "_units/transitions/mine.json", "_units/shards/notes",
)  # fmt: skip


def test_a_file_that_no_run_wrote_is_foreign_wherever_it_lies(finished):
    for name in FOREIGN:
        path = finished / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"somebody's")
    assert sorted(survey(Folder(str(finished))).foreign) == sorted(FOREIGN)


def test_what_loaders_leave_beside_the_shards_is_tolerated_and_stays(finished, raw):
    cached = finished / "shards" / ".cache" / "huggingface" / "download" / "x.lock"
    cached.parent.mkdir(parents=True)
    cached.write_text("kept")
    Run(changed(spans=True), [str(raw)], str(finished)).run()
    Run(OTHER, [str(raw)], str(finished), overwrite=True).run("plan")
    assert cached.read_text() == "kept"


def test_links_in_an_output_folder_are_foreign_and_never_followed(finished, raw, tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "precious").write_text("x")
    shutil.rmtree(finished / "shards" / "eval")
    (finished / "shards" / "eval").symlink_to(folder)
    with pytest.raises(ConfigError):
        Run(RECIPE, [str(raw)], str(finished), overwrite=True).run()
    assert (folder / "precious").read_text() == "x"


@pytest.mark.parametrize("kind", ["recipe", "raw", "normalize"])
def test_another_run_is_refused_and_replaced_only_on_request(finished, raw, tmp_path, kind):
    values = RECIPE.model_dump(mode="json")
    raws = [str(raw)]
    if kind == "recipe":
        values["name"] = "another"
    elif kind == "normalize":
        values["normalize"]["screen"] = "raw"
    else:
        raws = [str(sorted(raw.iterdir())[0])]
    recipe = type(RECIPE).model_validate(values)
    before = contents(finished)
    with pytest.raises(ConfigError, match="--overwrite"):
        Run(recipe, raws, str(finished)).run()
    assert contents(finished) == before
    Run(recipe, raws, str(finished), overwrite=True).run("normalize")
    Run(recipe, raws, str(tmp_path / "fresh")).run("normalize")
    assert contents(finished).keys() == contents(tmp_path / "fresh").keys()


def test_a_changed_bound_on_rejects_is_the_same_run(finished, raw):
    values = RECIPE.model_dump(mode="json")
    values["normalize"]["max_reject_ratio"] = 0.77
    before = (finished / "transitions" / "manifest.json").stat().st_mtime_ns
    parts = {path: path.stat().st_mtime_ns for path in (finished / "transitions").rglob("*.parquet")}
    Run(type(RECIPE).model_validate(values), [str(raw)], str(finished)).run("normalize")
    assert {path: path.stat().st_mtime_ns for path in parts} == parts
    assert (finished / "transitions" / "manifest.json").stat().st_mtime_ns >= before


def test_a_changed_judge_redoes_its_stages_and_leaves_nothing_behind(finished, raw, tmp_path):
    with_spans = changed(spans=True, near_duplicates=None)
    Run(with_spans, [str(raw)], str(finished)).run()
    Run(with_spans, [str(raw)], str(tmp_path / "fresh")).run()
    assert shards_of(finished) == shards_of(tmp_path / "fresh")
    assert contents(finished).keys() == contents(tmp_path / "fresh").keys()
    Run(RECIPE, [str(raw)], str(finished)).run()
    assert not (finished / "spans").exists()
    assert not (finished / "_units" / "spans").exists()


@pytest.mark.parametrize("where", ["", "/", "/out", "/a/../a/b"])
def test_an_output_folder_among_the_raw_logs_is_refused_and_nothing_is_left_there(raw, tmp_path, where):
    logs = shutil.copytree(raw, tmp_path / "logs")
    before = contents(tmp_path)
    for named in (str(logs), f"{logs}/", os.path.relpath(logs), f"{tmp_path}/l*", f"{logs}/**"):
        with pytest.raises(ConfigError):
            Run(RECIPE, [named], f"{logs}{where}").run()
    assert contents(tmp_path) == before
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_dir()) == ["logs"]


def test_raw_logs_in_the_output_folder_are_refused_and_stay(finished, raw):
    before = contents(finished)
    for name in ("transitions", "shards/README.md", "rejects/*"):
        with pytest.raises(ConfigError):
            Run(OTHER, [str(raw), str(finished / name)], str(finished), overwrite=True).run()
    assert contents(finished) == before


@pytest.mark.parametrize("fault", ["no input", "no benchmark", "no raw"])
def test_a_start_that_fails_leaves_no_folder(raw, tmp_path, fault):
    out = tmp_path / "a" / "b" / "out"
    recipe, raws = RECIPE, [str(raw)]
    if fault == "no input":
        (tmp_path / "empty").mkdir()
        raws = [str(tmp_path / "empty")]
    elif fault == "no raw":
        raws = [str(tmp_path / "nothing")]
    else:
        items = tmp_path / "items.jsonl"
        items.write_text('{"question": "a"}\n')
        recipe = changed(benchmarks=[{"name": "b", "path": str(items), "texts": "answer"}])
    with pytest.raises(ConfigError):
        Run(recipe, raws, str(out)).run()
    assert not (tmp_path / "a").exists()


def test_a_start_that_fails_leaves_an_earlier_run_as_it_was(finished, raw):
    before = contents(finished)
    recipe = changed(benchmarks=[{"name": "b", "path": str(raw / "nothing"), "texts": "answer"}])
    with pytest.raises(ConfigError):
        Run(recipe, [str(raw)], str(finished)).run()
    after = contents(finished)
    for name in (MARKER, CHECKSUMS):  # whose token is another
        del before[name], after[name]
    assert after == before


def test_a_marker_that_names_files_elsewhere_removes_none_of_them(finished, raw, tmp_path):
    (tmp_path / "precious").write_text("x")
    values = json.loads((finished / MARKER).read_text())
    values["names"] += ["../precious", str(tmp_path / "precious")]
    (finished / MARKER).write_text(json.dumps(values))
    Run(OTHER, [str(raw)], str(finished), overwrite=True).run("plan")
    assert (tmp_path / "precious").read_text() == "x"


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"layout": 2}', b"\xff"])
def test_a_damaged_marker_makes_nothing_of_ours_replaceable_without_being_asked(finished, raw, damage):
    (finished / MARKER).write_bytes(damage)
    with pytest.raises(ConfigError):
        Run(RECIPE, [str(raw)], str(finished)).run()


def test_a_run_of_a_later_layout_is_refused(finished, raw):
    values = json.loads((finished / MARKER).read_text())
    (finished / MARKER).write_text(json.dumps({**values, "layout": 99, "program": "9.0"}))
    with pytest.raises(ConfigError, match=r"9\.0"):
        Run(RECIPE, [str(raw)], str(finished), overwrite=True).run()


@pytest.mark.parametrize("stage", ["normalize", "judge", "mix"])
def test_files_of_a_run_that_was_killed_in_a_stage_are_known_to_be_ours(raw, tmp_path, monkeypatch, stage):
    class Killed(BaseException):
        pass

    def killed(*_, **__):
        raise Killed

    monkeypatch.setattr("trajmill.pipelines.run.finish_stage", killed) if stage == "normalize" else None
    if stage == "judge":
        Run(RECIPE, [str(raw)], str(tmp_path / "out")).run("normalize")
        monkeypatch.setattr("trajmill.pipelines.run.finish_stage", killed)
    if stage == "mix":
        Run(RECIPE, [str(raw)], str(tmp_path / "out")).run("judge")
        monkeypatch.setattr("trajmill.pipelines.run.finish_stage", killed)
    with pytest.raises(Killed):
        Run(RECIPE, [str(raw)], str(tmp_path / "out")).run()
    monkeypatch.undo()
    assert survey(Folder(str(tmp_path / "out"))).foreign == []
    Run(RECIPE, [str(raw)], str(tmp_path / "out")).run()
    assert survey(Folder(str(tmp_path / "out"))).foreign == []


def test_a_lock_that_holds_anything_else_is_somebodys(raw, tmp_path):
    (tmp_path / LOCK).write_text("mine")
    with pytest.raises(ConfigError):
        Run(RECIPE, [str(raw)], str(tmp_path)).run("plan")
    assert (tmp_path / LOCK).read_text() == "mine"


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_files_are_made_with_the_users_umask_and_the_plan_for_the_user_alone(raw, tmp_path, umask):
    before = os.umask(umask)
    try:
        Run(RECIPE, [str(raw)], str(tmp_path / "out")).run("normalize")
    finally:
        os.umask(before)
    private = {"plan.json", "run.json"}
    for path in (tmp_path / "out").rglob("*"):
        if path.is_file():
            wanted = 0o600 if path.name in private else 0o666 & ~umask
            assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_nothing_that_a_run_left_in_its_spill_folder_stays(finished, raw):
    left = finished / "spill" / "trajectories" / "spill-00003.blocks"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"left by a killed run")
    Run(RECIPE, [str(raw)], str(finished)).run()
    assert not (finished / "spill").exists()


def test_spilled_blocks_are_for_the_user_alone_and_gone_where_a_stage_fails(raw, tmp_path, monkeypatch):
    modes: list[int] = []

    def failing(*_):
        modes.extend(
            stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out" / "spill").rglob("*") if path.is_file()
        )
        modes.append(stat.S_IMODE((tmp_path / "out" / "spill").stat().st_mode))
        raise ValueError("stopped here")

    monkeypatch.setattr("trajmill.pipelines.execution.exchange.HELD_BYTES", 0)
    monkeypatch.setattr("trajmill.pipelines.mix.shard_writing._row_groups", failing)
    with pytest.raises(ValueError):
        Run(RECIPE, [str(raw)], str(tmp_path / "out")).run()
    assert set(modes) == {0o600, 0o700}
    assert not (tmp_path / "out" / "spill").exists()


def test_a_run_holds_its_folder_alone(raw, tmp_path):
    out = Folder(str(tmp_path / "out"))
    first = Ownership(out, Identity.of(RECIPE, [str(raw)]))
    with first.held():
        first.keep()
        with pytest.raises(ConfigError):
            Ownership(out, first.identity).check([str(raw)])
    Ownership(out, first.identity).check([str(raw)])


def test_no_other_command_replaces_a_file_that_it_did_not_write(finished, tmp_path):
    path = tmp_path / "kept" / "mine.json"
    path.parent.mkdir()
    path.write_text("mine")
    with pytest.raises(ConfigError):
        export(str(finished), "atif", str(path.parent))
    assert CliRunner().invoke(app, ["init", str(finished), "--out", str(path)]).exit_code == 1
    assert path.read_text() == "mine"
    assert os.listdir(path.parent) == ["mine.json"]
