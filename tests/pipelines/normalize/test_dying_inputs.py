"""An input that ends the process which reads it costs itself, and nothing else."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import ROOT
from tests.pipelines.brittle import logs, register
from trajmill.pipelines.execution.pool import WorkerDiedError
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.normalize import dying_inputs
from trajmill.pipelines.normalize.dying_inputs import normalize_parts
from trajmill.pipelines.normalize.input_at_hand import InputAtHand, at_hand_folder, take_dead
from trajmill.pipelines.normalize.normalizer import Normalizer
from trajmill.pipelines.plan.plan import Part
from trajmill.pipelines.plan.recognition import Input
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.folders import Folder

RECIPE = "extends: terminal\nname: t\nsource: t\nnormalize:\n  max_reject_ratio: 0.9\n"


@pytest.fixture
def run(tmp_path):
    """A run of the command, which knows the connector that crashes, over the logs of a folder."""
    register(tmp_path / "entry")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    path = os.pathsep.join((str(tmp_path / "entry"), str(ROOT)))
    environment = {**os.environ, "PYTHONPATH": path, "TRAJMILL_STRICT": "0"}

    def run(raw: Path, out: Path, workers: int) -> subprocess.CompletedProcess[str]:
        words = ["run", "recipe.yaml", "--raw", str(raw), "--out", str(out), "--workers", str(workers)]
        command = [sys.executable, "-m", "trajmill", *words, "--part-size", "50"]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


def shards(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "shards").rglob("*.parquet")}


@pytest.mark.parametrize("workers", [1, 2])
def test_an_input_that_ends_its_process_is_rejected_and_all_others_come_out_as_without_it(run, tmp_path, workers):
    raw, out = logs(tmp_path / "raw", "good", "crashes", "good", "good", "crashes"), tmp_path / "out"
    if workers == 1:  # the command itself dies, and the next one knows over what
        assert run(raw, out, 1).returncode == -signal.SIGSEGV
        assert verify(str(out)).foreign == ()
    done = run(raw, out, workers)
    assert done.returncode == 0, done.stderr
    found = pl.read_parquet(out / "rejects/normalize/*.parquet").sort("uri")
    assert found.select("uri", "unit", "reason").rows() == [
        ("001-crashes.log", "input", "worker_died"),
        ("004-crashes.log", "input", "worker_died"),
    ]
    assert all("SIGSEGV" in detail for detail in found["detail"])
    for name in ("001-crashes.log", "004-crashes.log"):
        (raw / name).unlink()
    run(raw, tmp_path / "without", 1)
    assert shards(out) == shards(tmp_path / "without") != {}
    assert verify(str(out)).is_whole
    assert not list(out.rglob(".unfinished-*"))


def an_input(uri: str) -> Input:
    return Input(uri, "asciicast", "1", "its first line", {}, 1, "0" * 64)


PART = Part(0, "0" * 64, tuple(map(an_input, ("a", "b", "c"))))


def test_an_input_that_is_read_alone_and_is_at_hand_at_a_second_death_is_rejected(tmp_path, monkeypatch):
    folder = Folder(str(tmp_path))
    runs = []

    def over(parts, transform, isolated):
        normalizer = transform._normalizer
        runs.append((dict(normalizer.deadly), isolated))
        if "b" not in normalizer.deadly:
            raise WorkerDiedError("SIGKILL")

    monkeypatch.setattr(dying_inputs, "died_alone", lambda *_: "")
    monkeypatch.setattr(dying_inputs, "take_dead", lambda _: [("b",)])
    normalizer = Normalizer(Recipe(name="t", source="t"), folder, folder, at_hand=tmp_path)
    normalize_parts(lambda _: [PART], normalizer, over)
    assert [(list(deadly), isolated) for deadly, isolated in runs] == [([], False), ([], True), (["b"], True)]
    assert "SIGKILL" in runs[-1][0]["b"]


@pytest.mark.parametrize("at_hand", [[], [("a", "b")]])
def test_deaths_that_no_single_input_explains_end_the_run(tmp_path, monkeypatch, at_hand):
    folder = Folder(str(tmp_path))

    def over(*_):
        raise WorkerDiedError("SIGKILL")

    monkeypatch.setattr(dying_inputs, "died_alone", lambda *_: "")
    monkeypatch.setattr(dying_inputs, "take_dead", lambda _: at_hand)
    normalizer = Normalizer(Recipe(name="t", source="t"), folder, folder, at_hand=tmp_path)
    with pytest.raises(WorkerDiedError, match="--workers"):
        normalize_parts(lambda _: [PART], normalizer, over)


def test_inputs_at_hand_are_those_of_dead_processes(tmp_path):
    dies = (
        "import os, sys; from pathlib import Path; from trajmill.pipelines.normalize.input_at_hand import InputAtHand\n"
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
    here, there = at_hand_folder(Folder("memory://bucket/a")), at_hand_folder(Folder("memory://bucket/b"))
    assert here.is_relative_to(tmp_path)
    assert here != there
    assert at_hand_folder(Folder(str(tmp_path / "out"))) == tmp_path / "out"
