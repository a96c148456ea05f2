"""What cannot be reached is refused at once, with what to do."""

import socket
import sys
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT
from trajmill.pipelines.execution.execution import Execution, require_answer, require_openable
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import ConfigError, ShardError

LOGS = str(ROOT / "samples/terminal/claude_code")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("s3://a/b", r"trajmill\[s3\]"),
        ("gs://a/b", r"trajmill\[gcs\]"),
        ("https://a/b", "aiohttp"),
        ("gopher://a", "gopher"),
    ],
)
@pytest.mark.parametrize("side", ["raw", "out"])
def test_a_store_without_its_package_is_refused_before_anything_is_written(tmp_path, monkeypatch, url, words, side):
    for package in ("s3fs", "gcsfs", "aiohttp"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.http", raising=False)
    raw, out = (url, str(tmp_path / "out")) if side == "raw" else (LOGS, url)
    with pytest.raises(ConfigError, match=words):
        Run(load_recipe("terminal"), [raw], out).run("plan")
    assert not list(tmp_path.iterdir())


def test_paths_and_known_stores_are_openable():
    require_openable(["/a/b", "a::b", "a b://", "memory://x", "file:///x"])


@pytest.fixture
def closed() -> Iterator[str]:
    """An address at which nobody listens, nor can while the test runs."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("option", ["--runner=PortableRunner --job_endpoint", "--runner=FlinkRunner --flink_master"])
def test_a_runner_that_does_not_answer_is_refused_soon_and_before_anything_is_written(tmp_path, closed, option):
    flags = tuple(f"{option}={closed}".split())
    with pytest.raises(ShardError, match=closed):
        Run(load_recipe("terminal"), [LOGS], str(tmp_path / "out"), Execution(beam=flags)).run("plan")
    assert not list(tmp_path.iterdir())


def test_a_runner_that_listens_answers():
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_answer(f"http://127.0.0.1:{server.getsockname()[1]}", "flink_master")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--direct_num_workers=many",), "many"),
        (("--runner=PortableRunner",), "job_endpoint"),
        (("--runner=DataflowRunner",), "project"),
        (("--runner=PortableRunner", "--job_endpoint=nowhere"), "nowhere"),
    ],
)
def test_options_that_the_runner_cannot_work_with_are_refused_before_anything_is_written(tmp_path, flags, words, capfd):
    with pytest.raises(ConfigError, match=words):
        Run(load_recipe("terminal"), [LOGS], str(tmp_path / "out"), Execution(beam=flags)).run("plan")
    assert not list(tmp_path.iterdir())
    assert "usage:" not in capfd.readouterr().err
