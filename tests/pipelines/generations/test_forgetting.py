"""Forgetting: nothing is left of what is named, everything else stays, and it does not come in again."""

import json
import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path

import polars as pl
import pytest

from tests.app.cli.test_cli import ran
from tests.conftest import FUZZ, ROOT
from tests.pipelines.generations.test_append_near_copies import Logs, changed
from tests.pipelines.publish.hub.pushing import files_of, pushed, reached, there
from trajmill.app.report.report import report
from trajmill.pipelines.generations.append import Append
from trajmill.pipelines.generations.forgetting import Forgetting
from trajmill.pipelines.generations.generations import chain
from trajmill.pipelines.generations.traces import Selection, rewritten
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.normalize.forgotten_keys import NAME
from trajmill.pipelines.publish.loading import verify_loading
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import REPORT
from trajmill.schemas import ConfigError, scan_transitions

MIX = '{"pools": {"cpt": 1, "sft": 1, "rl": 1, "eval": 1}}'
RECIPE = parse_recipe(f'{{"name": "n", "source": "tests", "domains": ["terminal"], "mix": {MIX}}}', "n")


@pytest.fixture(scope="module")
def grown(tmp_path_factory) -> Path:
    """Two generations of eight logs each; `second0` is a near copy of `first0`."""
    logs = Logs(tmp_path_factory.mktemp("grown"), RECIPE)
    first = {number: logs.said(3) for number in range(8)}
    for number, answers in first.items():
        logs.put(f"first{number}", f"task {number}", answers)
    logs.add()
    logs.put("second0", "task 0", changed(first[0]))
    for number in range(1, 8):
        logs.put(f"second{number}", f"task {number}", logs.said(3))
    logs.add()
    return logs.folder


def copied(grown: Path, tmp_path: Path) -> Path:
    shutil.copytree(grown / "out", tmp_path / "out")
    return tmp_path / "out"


def rows(out: Path) -> pl.DataFrame:
    stages = [out / generation.folder for generation in chain(Folder(str(out)))] or [out]
    files = [file for stage in stages for file in sorted((stage / "transitions").rglob("*.parquet"))]
    column = pl.col("provenance").struct.field("uri").str.extract(r"([^/]+)\.json$").alias("name")
    return pl.concat([pl.read_parquet(file).select("trajectory_id", "step", column) for file in files])


def text_of(out: Path) -> bytes:
    """All that the folder holds, as text; of Parquet all values."""
    contents = []
    for file in sorted(out.rglob("*")):
        if file.suffix == ".parquet":
            contents.append(json.dumps(pl.read_parquet(file).to_dicts(), default=str).encode())
        elif file.is_file() and file.name != "tombstones.json":
            contents.append(file.read_bytes())
    return b"\n".join(contents)


@pytest.mark.parametrize("name", ["first0", "second5"])
def test_nothing_is_left_of_a_forgotten_log_and_all_else_stays(grown, tmp_path, name):
    out = copied(grown, tmp_path)
    before = rows(out)
    gone = before.filter(pl.col("name") == name)["trajectory_id"][0]
    document = json.loads((grown / ("logs1" if name.startswith("first") else "logs2") / f"{name}.json").read_text())
    words = document["steps"][1]["observation"]["results"][0]["content"][:200]
    assert words.encode() in text_of(out)
    result = Forgetting(RECIPE, str(out)).forget(Selection(trajectories=(gone,)))
    assert (result.trajectories, len(result.logs)) == (1, 1)
    assert result.raw == (str(grown / ("logs1" if name.startswith("first") else "logs2") / f"{name}.json"),)
    left = text_of(out)
    assert gone.encode() not in left
    assert words.encode() not in left
    assert rows(out).equals(before.filter(pl.col("name") != name))
    whole = verify_loading(verify(str(out)))
    assert whole.is_whole, whole.faults


def test_what_was_forgotten_does_not_come_in_again_and_appending_goes_on(grown, tmp_path):
    out = copied(grown, tmp_path)
    Forgetting(RECIPE, str(out)).forget(Selection(sources=("first3.json", "second4.json")))
    again = tmp_path / "again"
    again.mkdir()
    shutil.copy(grown / "logs1" / "first3.json", again / "renamed.json")
    document = json.loads((grown / "logs2" / "second4.json").read_text())
    (again / "indented.json").write_text(json.dumps(document, indent=1))  # other bytes, the same trajectory
    logs = Logs(tmp_path / "more", RECIPE)
    logs.folder.mkdir()
    logs.put("third", "task 1", ["another answer " * 40] * 3)
    appended = Append(RECIPE, [str(again), str(grown / "logs1"), str(logs.folder / "logs1")], str(out)).run()
    names = rows(out)["name"].unique().to_list()
    assert "third" in names
    assert not {"first3", "second4", "renamed", "indented"} & set(names)
    assert appended.summary is not None
    assert appended.summary.line("trajectories").lost["forgotten"] == 1
    assert verify(str(out)).is_whole
    (again / "compact.json").write_text(json.dumps(document, separators=(",", ":")))  # and the next night too
    appended = Append(RECIPE, [str(again)], str(out)).run()
    assert appended.summary is not None
    assert appended.summary.line("trajectories").lost["forgotten"] == 1


def test_a_push_afterwards_takes_it_from_what_the_hub_shows(grown, tmp_path, monkeypatch):
    out = copied(grown, tmp_path)
    with reached(monkeypatch) as hub:
        pushed(out)
        before = there(hub)
        Forgetting(RECIPE, str(out)).forget(Selection(sources=("first3.json", "second5.json")))
        pushed(out)
        assert there(hub) == files_of(out) != before
        (repo,) = hub.repos.values()
        assert len(repo.messages) == 3


def test_what_is_not_there_is_told(grown, tmp_path):
    out = copied(grown, tmp_path)
    with pytest.raises(ConfigError):
        Forgetting(RECIPE, str(out)).forget(Selection(licences=("GPL-3.0",)))
    with pytest.raises(ConfigError):
        Selection()


def test_a_forgetting_that_was_killed_goes_on(grown, tmp_path, monkeypatch):
    out = copied(grown, tmp_path)
    gone = rows(out).filter(pl.col("name") == "first5")["trajectory_id"][0]
    with monkeypatch.context() as patch:
        patch.setattr(Forgetting, "_rewrite_chain", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Forgetting(RECIPE, str(out)).forget(Selection(trajectories=(gone,)))
    with pytest.raises(ConfigError):
        Append(RECIPE, [str(grown / "logs1")], str(out)).run()
    Forgetting(RECIPE, str(out)).forget(Selection(trajectories=(gone,)))
    assert gone.encode() not in text_of(out)
    assert verify(str(out)).is_whole


def test_what_a_killed_append_left_uncommitted_is_forgotten_whole(grown, tmp_path, monkeypatch):
    out = copied(grown, tmp_path)
    again = tmp_path / "again"
    again.mkdir()
    document = json.loads((grown / "logs1" / "first3.json").read_text())
    (again / "indented.json").write_text(json.dumps(document, indent=1))  # the same trajectory, read from other bytes
    with monkeypatch.context() as patch:
        patch.setattr(
            "trajmill.pipelines.generations.append.commit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            Append(RECIPE, [str(again)], str(out)).run()
    gone = rows(out).filter(pl.col("name") == "first3")["trajectory_id"][0]
    Forgetting(RECIPE, str(out)).forget(Selection(trajectories=(gone,)))
    assert gone.encode() not in text_of(out)
    assert verify(str(out)).is_whole


def test_killed_after_whatever_file_it_forgets_to_the_same_bytes(grown, tmp_path, monkeypatch):
    source = next(iter(rows(grown / "out").filter(pl.col("name") == "first0")["trajectory_id"]))
    outs = []
    for kill in (None, *range(0, 40, 9 if FUZZ == 1 else 1)):
        out = tmp_path / str(kill)
        shutil.copytree(grown / "out", out)
        outs.append(out)
        done = count()

        def killed(*words, kill=kill, done=done, **named):
            entry = rewritten(*words, **named)
            if next(done) == kill:
                raise KeyboardInterrupt
            return entry

        with monkeypatch.context() as patch:
            patch.setattr("trajmill.pipelines.generations.forgetting.rewritten", killed)
            try:
                Forgetting(RECIPE, str(out)).forget(Selection(trajectories=(source,)))
            except KeyboardInterrupt:
                Forgetting(RECIPE, str(out)).forget(Selection(trajectories=(source,)))
            else:
                if kill is not None:
                    break
        assert kept(out) == kept(outs[0])
    assert len(outs) > 3


def test_killed_at_whatever_of_its_last_steps_the_same_command_finishes_it(grown, tmp_path, monkeypatch):
    whole = copied(grown, tmp_path)
    words = ("--source", "first5.json")
    steps = dying(monkeypatch, None, lambda: ran("forget", whole, *words))
    over = 0
    for last in range(steps - 13, steps, 4 if FUZZ == 1 else 1):
        out = tmp_path / str(last)
        shutil.copytree(grown / "out", out)
        (out / REPORT).write_text("of the run")
        dying(monkeypatch, last, lambda out=out: ran("forget", out, *words))
        code, _, complained = ran("forget", out, *words)
        if code:  # only the marker and the checksums were left to write
            assert "Nothing of that is in the folder" in complained
            over += 1
        assert (out / REPORT).read_bytes() == report(str(out))
        assert kept(out) == kept(whole)
    assert over <= 2


def dying(monkeypatch, last, work):
    """How many files were written or removed by some work, after which it is as if killed at the one of that number."""
    done = count()

    def stepped(method):
        def step(*words, **named):
            if last is not None and next(done) >= last:
                raise KeyboardInterrupt
            if last is None:
                next(done)
            return method(*words, **named)

        return step

    with monkeypatch.context() as patch:
        for name in ("writing", "remove"):
            patch.setattr(Folder, name, stepped(getattr(Folder, name)))
        with suppress(KeyboardInterrupt):
            work()
    return next(done)


def kept(out: Path) -> dict[str, bytes]:
    """All that a run and its generations hold, but what says who wrote it, and the salt of tombstones."""
    files = (path for path in out.rglob("*") if path.is_file() and path.parent != out and path != out / NAME)
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def test_the_command_tells_what_it_forgot_and_where_it_stands_still(grown, tmp_path):
    out = copied(grown, tmp_path)
    words = json.loads((grown / "logs1" / "first6.json").read_text())["steps"][1]["observation"]["results"][0][
        "content"
    ]
    (out / REPORT).write_text(words)
    code, output, _ = ran("forget", out, "--source", "first6.json")
    assert words.split()[0].encode() not in text_of(out)
    assert f"written: {out / REPORT}" in output
    assert (out / REPORT).read_bytes() == report(str(out))
    assert code == 0
    assert "forgotten: 1 trajectory, all that 1 log held" in output
    assert f"raw log, which is not touched: {grown / 'logs1' / 'first6.json'}" in output
    code, _, complained = ran("forget", out, "--before", "1999-12-31")
    assert (code, complained.strip()) == (1, "trajmill: Nothing of that is in the folder.")
    assert ran("forget", tmp_path, "--before", "1999-12-31")[0] == 1


def test_attachments_go_that_only_a_forgotten_log_has(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    fixtures = ROOT / "tests" / "fixtures"
    shutil.copytree(fixtures / "webvoyager" / "input" / "taskTides--0", logs / "taskTides--0")
    shutil.copy(fixtures / "claude_code" / "input" / "session.jsonl", logs)
    text = '{"name": "tea", "source": "tea", "normalize": {"attachments": "keep"}, "judge": {"rules": {}}}'
    recipe, out = parse_recipe(text, "tea"), tmp_path / "out"
    Run(recipe, [str(logs)], str(out)).run()
    before = {file.name for file in (out / "blobs").iterdir()}
    result = Forgetting(recipe, str(out)).forget(Selection(sources=("taskTides--0",)))
    assert result.trajectories == 1
    left = {file.name for file in (out / "blobs").iterdir()}
    rows = scan_transitions(str(out)).select("observation", "next_observation").collect().to_dicts()
    sides = [side for row in rows for side in row.values() if side]
    digests = {attachment["sha256"] for side in sides for attachment in side["attachments"] or ()}
    assert left < before
    assert left - {"manifest.json"} == digests
    assert verify(str(out)).is_whole
