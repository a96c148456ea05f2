"""An input that ends the process which reads it costs itself, and nothing else."""

import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import ROOT
from tests.pipelines.brittle import HEAD, logs, register
from trajmill.pipelines.execution import dying_inputs
from trajmill.pipelines.execution.dying_inputs import Deaths, InputAtHand, at_hand_folder, take_dead
from trajmill.pipelines.execution.pool import WorkerDiedError
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.plan import planned_before
from trajmill.pipelines.storage.folders import Folder

RECIPE = "extends: terminal\nname: t\nsource: t\nnormalize:\n  max_reject_ratio: 0.9\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of the command, which knows the connector that crashes, over the logs of a folder."""
    folder = tmp_path_factory.mktemp("brittle")
    register(folder / "entry")
    (folder / "recipe.yaml").write_text(RECIPE)
    path = os.pathsep.join((str(folder / "entry"), str(ROOT)))
    environment = {**os.environ, "PYTHONPATH": path, "TRAJMILL_STRICT": "0"}

    def run(raw: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
        words = ["run", "recipe.yaml", "--raw", str(raw), "--out", str(out), *more]
        command = [sys.executable, "-m", "trajmill", *words, "--part-size", "50"]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    return run


def read(out: Path) -> list[str]:
    """The names of the logs that were read, each as often as it has transitions."""
    return sorted(pl.read_parquet(out / "transitions/*/*.parquet", columns=["native_id"])["native_id"])


@pytest.mark.parametrize("more", [("--stop-after", "normalize"), ("--workers", "2")], ids=["alone", "workers"])
def test_an_input_that_ends_its_process_is_rejected_and_all_others_come_out(run, tmp_path, more):
    raw, out = logs(tmp_path / "raw", "good", "crashes", "good", "good", "crashes"), tmp_path / "out"
    if "--workers" not in more:  # the command itself dies, and the next one knows over what
        assert run(raw, out, *more).returncode == -signal.SIGSEGV
        assert verify(str(out)).foreign == ()
    done = run(raw, out, *more)
    assert done.returncode == 0, done.stderr
    rejects = pl.read_parquet(out / "rejects/normalize/*.parquet").sort("uri")
    assert rejects.select("uri", "unit", "reason").rows() == [
        ("001-crashes.log", "input", "worker_died"),
        ("004-crashes.log", "input", "worker_died"),
    ]
    assert all("SIGSEGV" in detail for detail in rejects["detail"])
    assert read(out) == sorted(["name0", "name2", "name3"] * 3)
    assert not verify(str(out)).faults
    assert not list(out.rglob(".unfinished-*"))


def test_a_file_that_ends_the_process_that_asks_for_its_format_is_rejected_and_all_others_come_out(run, tmp_path):
    raw, out = logs(tmp_path / "raw", "good", "unsniffed", "good"), tmp_path / "out"
    with zipfile.ZipFile(raw / "packed.zip", "w") as archive:
        for name, way in (("a.log", "good"), ("b.log", "unsniffed"), ("c.log", "good")):
            archive.writestr(name, f"{HEAD}{way} {name}")
    assert run(raw, out, "--stop-after", "plan").returncode == -signal.SIGSEGV
    time.sleep(planned_before._TICK)  # what changed just before it was listed is looked into again
    done = run(raw, out, "--stop-after", "normalize")
    assert done.returncode == 0, done.stderr
    rejects = pl.read_parquet(out / "rejects/plan/*.parquet").sort("uri")
    deadly = ["001-unsniffed.log", "packed.zip/b.log"]
    assert rejects.select("uri", "unit", "reason").rows() == [(name, "input", "worker_died") for name in deadly]
    assert all("SIGSEGV" in detail for detail in rejects["detail"])
    assert len(set(read(out))) == 4
    assert not verify(str(out)).faults
    assert run(raw, out, "--stop-after", "plan").returncode == 0, "the file was looked into again"


def test_an_input_that_is_read_alone_and_is_at_hand_at_a_second_death_is_rejected(tmp_path, monkeypatch):
    runs = []

    def work(deadly, isolated):
        runs.append((dict(deadly), isolated))
        if "b" not in deadly:
            raise WorkerDiedError("SIGKILL")

    monkeypatch.setattr(dying_inputs, "died_alone", lambda *_: "")
    monkeypatch.setattr(dying_inputs, "take_dead", lambda _: [("b",)])
    Deaths(tmp_path).survive(work, lambda uri: lambda: None)
    assert [(list(deadly), isolated) for deadly, isolated in runs] == [([], False), ([], True), (["b"], True)]
    assert "SIGKILL" in runs[-1][0]["b"]


@pytest.mark.parametrize("at_hand", [[], [("a", "b")]])
def test_deaths_that_no_single_input_explains_end_the_run(tmp_path, monkeypatch, at_hand):
    def work(*_):
        raise WorkerDiedError("SIGKILL")

    monkeypatch.setattr(dying_inputs, "died_alone", lambda *_: "")
    monkeypatch.setattr(dying_inputs, "take_dead", lambda _: at_hand)
    with pytest.raises(WorkerDiedError, match="--workers"):
        Deaths(tmp_path).survive(work, lambda uri: lambda: None)


def test_inputs_at_hand_are_those_of_dead_processes(tmp_path):
    dies = (
        "import os, sys; from pathlib import Path; from trajmill.pipelines.execution.dying_inputs import InputAtHand\n"
        "at_hand = InputAtHand(Path(sys.argv[1])); at_hand.__enter__()\n"
        "at_hand.note('a longer name', 'b'); at_hand.note('ü'); os.kill(os.getpid(), 9)"
    )
    with InputAtHand(tmp_path) as mine:
        mine.note("mine")
        subprocess.run([sys.executable, "-c", dies, str(tmp_path)], cwd=ROOT, check=False)
        assert take_dead(tmp_path) == [("ü",)]
        assert take_dead(tmp_path) == []
        assert len(list(tmp_path.iterdir())) == 1
    assert not list(tmp_path.iterdir())


def test_inputs_of_a_store_are_noted_on_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first, second = at_hand_folder(Folder("memory://bucket/a")), at_hand_folder(Folder("memory://bucket/b"))
    assert first.is_relative_to(tmp_path)
    assert first != second
    assert at_hand_folder(Folder(str(tmp_path / "out"))) == tmp_path / "out"
