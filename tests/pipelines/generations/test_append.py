"""Adding to a finished run: earlier files keep their bytes, no copy comes in, no group changes its pool."""

import hashlib
import shutil
from pathlib import Path

import polars as pl
import pytest

from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from tests.pipelines.publish.hub.pushing import NAME, files_of, pushed, reached, there
from trajmill.pipelines.generations.append import Append
from trajmill.pipelines.generations.generations import Generation, chain, commit
from trajmill.pipelines.generations.known import KnownGenerations
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.judge.judging import Withdrawn
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import Ownership
from trajmill.schemas import ConfigError

RAW = ROOT / "samples" / "terminal"
RECIPE = load_recipe("terminal")
LOGS = sorted((RAW / "claude_code").rglob("*.jsonl"))[8:17] + sorted((RAW / "asciicast").rglob("*.cast"))[:8]


def put(folder: Path, logs: list[Path]) -> Path:
    folder.mkdir(exist_ok=True)
    for log in logs:
        shutil.copy(log, folder)
    return folder


def bytes_of(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def samples(out: Path) -> pl.DataFrame:
    """Pool, group and trajectory of every sample that the dataset holds."""
    tables = []
    for pool in ("cpt", "sft"):
        for file in sorted((out / "shards" / pool).rglob("*.parquet")):
            table = pl.read_parquet(file)
            tables.append(table.select(pl.lit(pool).alias("pool"), "group", "trajectory_id"))
    for file in sorted((out / "shards" / "rl").rglob("*.parquet")):
        info = pl.read_parquet(file)["extra_info"].struct
        tables.append(
            pl.DataFrame({"pool": "rl", "group": info.field("group"), "trajectory_id": info.field("trajectory_id")})
        )
    return pl.concat(tables)


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> Path:
    """A folder with logs, and the run over them."""
    folder = tmp_path_factory.mktemp("first")
    put(folder / "logs", LOGS[:11])
    Run(RECIPE, [str(folder / "logs")], str(folder / "out")).run()
    return folder


@pytest.fixture(scope="module")
def grown(first, tmp_path_factory) -> Path:
    """The same with a generation added, of new logs and a copy of an old one under another name."""
    folder = tmp_path_factory.mktemp("grown") / "all"
    shutil.copytree(first, folder)
    put(folder / "logs", LOGS[11:])
    shutil.copy(LOGS[0], folder / "logs" / "0-again.jsonl")
    appended = Append(RECIPE, [str(folder / "logs")], str(folder / "out")).run()
    assert appended.generation.number == 2
    assert appended.known == 12
    return folder


def test_what_earlier_generations_wrote_keeps_name_and_bytes(first, grown):
    derived = {
        "shards/README.md",
        "shards/croissant.json",
        "shards/manifest.json",
        "_units/shards/card.json",
        "trajmill.json",
        "checksums.json",
        ".lock",
    }
    before, after = bytes_of(first / "out"), bytes_of(grown / "out")
    assert {name: after.get(name) for name in before if name not in derived} == {
        name: digest for name, digest in before.items() if name not in derived
    }
    fresh = {name for name in after.keys() - before.keys() if name.startswith("shards/")}
    assert fresh
    assert all("g0002" in name for name in fresh)


def test_a_push_of_a_grown_folder_sends_what_was_added_alone(first, grown, tmp_path, monkeypatch):
    before, after = (shutil.copytree(folder / "out", tmp_path / folder.name) for folder in (first, grown))
    with reached(monkeypatch) as hub:
        pushed(before)
        sent = len(hub.uploads)
        pushed(after)
        assert there(hub) == files_of(after)
        assert len(hub.repos[NAME].messages) == 3
        assert sorted(hub.uploads[sent:]) == sorted(
            hashlib.sha256(data).hexdigest()
            for name, data in files_of(after).items()
            if "g0002" in name and "parq" in name
        )


def test_changed_files_of_a_generation_are_told(grown, tmp_path):
    out = shutil.copytree(grown / "out", tmp_path / "out")
    second = chain(Folder(str(out)))[1]
    patterns = ("transitions/*/*.parquet", "ledgers/places.parquet", "shards/*/*/*.parquet")
    files = [sorted((out / second.folder).glob(pattern))[0] for pattern in patterns]
    for file in (*files, out / "shards" / second.shards[0].name):
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    changed = {str(file.relative_to(out)) for file in files} | {f"shards/{second.shards[0].name}"}
    assert {fault.name for fault in verify(str(out)).faults} == changed


def require_apart(out: Path) -> None:
    """Fails where a group is in two pools, or what is kept is there twice."""
    pooled = samples(out)
    assert pooled.group_by("group").agg(pl.col("pool").n_unique())["pool"].max() == 1
    files = [
        file for stage in out.rglob("verdicts") if stage.parent.name != "_units" for file in stage.rglob("*.parquet")
    ]
    table = pl.concat([pl.read_parquet(file).filter("kept").select("trajectory_hash", "step") for file in files])
    whole = table.filter(pl.col("step") == 0)["trajectory_hash"]
    assert len(files) > 1
    assert whole.n_unique() == len(whole)


def test_a_plain_run_into_a_folder_with_generations_is_refused(grown):
    with pytest.raises(ConfigError):
        Run(RECIPE, [str(grown / "logs")], str(grown / "out"), overwrite=True).run()


def test_the_loser_of_two_appends_computes_again_as_a_child_of_the_other(first, tmp_path, monkeypatch):
    folder = tmp_path / "all"
    shutil.copytree(first, folder)
    out = str(folder / "out")
    ours, theirs = put(tmp_path / "ours", LOGS[11:14]), put(tmp_path / "theirs", LOGS[14:])
    won: list[Generation] = []

    def beaten(folder: Folder, generation: Generation) -> bool:
        if generation.number == 2 and not won:
            won.append(generation)
            monkeypatch.setattr(Ownership, "_lock", lambda *_: None)
            Append(RECIPE, [str(theirs)], out).run()
        return commit(folder, generation)

    monkeypatch.setattr("trajmill.pipelines.generations.append.commit", beaten)
    result = Append(RECIPE, [str(ours)], out).run()
    assert result.generation.number == 3
    (second,) = (generation for generation in chain(Folder(out)) if generation.number == 2)
    assert result.generation.parent == second.digest
    assert verify(out).is_whole


def test_an_append_that_was_killed_before_its_commit_goes_on_with_what_it_made(first, grown, tmp_path, monkeypatch):
    shutil.copytree(first / "out", tmp_path / "out")
    logs = put(tmp_path / "logs", LOGS[11:])
    shutil.copy(LOGS[0], logs / "0-again.jsonl")

    def killed(folder: Folder, generation: Generation) -> bool:
        if generation.number == 2:
            raise KeyboardInterrupt
        return commit(folder, generation)

    monkeypatch.setattr("trajmill.pipelines.generations.append.commit", killed)
    with pytest.raises(KeyboardInterrupt):
        Append(RECIPE, [str(logs)], str(tmp_path / "out")).run()
    monkeypatch.setattr("trajmill.pipelines.generations.append.commit", commit)
    stages: list[tuple[str, int]] = []
    Append(
        RECIPE,
        [str(logs)],
        str(tmp_path / "out"),
        tell=lambda progress: stages.append((progress.stage, progress.units - progress.done)),
    ).run()
    assert next(entry for entry in stages if entry[0] != "plan") == ("normalize", 0)
    assert bytes_of(tmp_path / "out" / "shards") == bytes_of(grown / "out" / "shards")


def test_what_would_join_two_pools_goes_and_judging_is_done_again_without_it(first, tmp_path, monkeypatch):
    shutil.copytree(first / "out", tmp_path / "out")
    judged: list[Withdrawn] = []
    found_of = KnownGenerations.bridges

    def bridges(self, recipe, units, told):
        bridging = ((units[0].label, (0,)),) if not judged else found_of(self, recipe, units, told)
        judged.append(bridging)
        return bridging

    monkeypatch.setattr(KnownGenerations, "bridges", bridges)
    result = Append(RECIPE, [str(put(tmp_path / "logs", LOGS[14:]))], str(tmp_path / "out")).run()
    assert len(judged) == 2
    assert judged[1] == ()
    assert result.summary is not None
    assert result.summary.line("trajectories").lost["bridges_pools"] == 1
    (file,) = (tmp_path / "out" / result.generation.folder / "verdicts" / "terminal").glob("*.parquet")
    assert pl.read_parquet(file)["reason"][0] == "bridges_pools"
    require_apart(tmp_path / "out")


def test_the_command_adds_what_is_new_and_tells_what_it_left(tmp_path):
    out, logs = tmp_path / "out", put(tmp_path / "logs", LOGS[:4])
    assert ran("run", "terminal", "--raw", logs, "--out", out)[0] == 0
    put(logs, LOGS[14:])
    with (logs / LOGS[1].name).open("ab") as stream:
        stream.write(b"\n")
    code, output, _ = ran("run", "terminal", "--raw", logs, "--out", out, "--append")
    assert code == 0
    assert "generation 2: 4 logs added\nread before, under this name or another: 3" in output
    assert f"(normalize.grown: extend): 1 ({LOGS[1].name})" in output
    assert f"written: {out}\n" in output
    code, output, _ = ran("run", "terminal", "--raw", logs, "--out", out, "--append")
    assert (code, output.splitlines()[0]) == (0, "nothing is new: generation 2 is the last one")


def test_what_cannot_be_added_to_is_told_before_anything_is_written(tmp_path):
    logs = put(tmp_path / "logs", LOGS[:1])
    code, _, complained = ran("run", "terminal", "--raw", logs, "--out", tmp_path / "out", "--append")
    assert code == 1
    assert "holds no run that could be added to. Run without --append first." in complained
    code, _, complained = ran("run", "terminal", "--raw", logs, "--out", tmp_path / "out", "--append", "--overwrite")
    assert code == 1
    assert "it takes no --overwrite" in complained
    assert not (tmp_path / "out").exists()
