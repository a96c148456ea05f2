"""How commands end: the exit code, one line where somebody can mend it, and a traceback only for a bug."""

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

import trajmill.connectors.registry
from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from tests.pipelines.brittle import logs, register
from tests.pipelines.execution.test_pool import works
from trajmill.app.cli import cli
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.endings import Code, ending_of
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_transitions
from trajmill.schemas import ConfigError, ContractError, ShardError

LOGS = [str(path) for path in sorted((ROOT / "samples/terminal/claude_code").rglob("*.jsonl"))[:4]]
RECIPE = load_recipe("terminal")


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ConfigError("No such thing.", "a thing"), 1, ["No such thing. Did you mean 'a thing'?"]),
        (ImportError("Install s3fs to access S3"), 1, ["trajmill[s3]"]),
        (ShardError("/out/x cannot be written: [Errno 28] No space left on device"), 4, ["/out/x", "Make room"]),
        (OSError(28, "No space left on device", "/out/x"), 4, ["/out/x", "Make room", "same command again"]),
        (
            PermissionError(13, "Permission denied", "/out/x"),
            4,
            ["/out/x: Permission denied", "you may", "same command again"],
        ),
        (MemoryError(), 4, ["memory", "same command again"]),
        (ContractError("5 went in, 4 are accounted for"), 70, ["bug of trajmill", "report"]),
        (ZeroDivisionError("by zero"), 70, ["bug of trajmill", "report"]),
    ],
)
def test_every_error_ends_the_command_with_its_code_and_one_line(monkeypatch, capsys, error, code, words):
    def failing():
        raise error

    monkeypatch.setattr(cli, "_narrow_to_command", lambda *_: failing)
    monkeypatch.setattr("sys.argv", ["trajmill", "run"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    message = capsys.readouterr().err
    assert ended.value.code == code
    assert ("Traceback" in message) == (code == 70)
    assert code == 70 or message.count("\n") == 1
    for word in words:
        assert word in message.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [("inspect", 1, "cannot be read"), ("export", 4, "The run that wrote it makes it again.")],
)
def test_a_command_that_reads_a_damaged_file_names_it_and_does_not_claim_to_go_on(
    finished, tmp_path, monkeypatch, capsys, command, code, words
):
    (file,) = (finished / "transitions" / "terminal").iterdir()
    file.write_bytes(file.read_bytes()[:100])
    more = ["--out", str(tmp_path / "exported")] if command == "export" else []
    monkeypatch.setattr("sys.argv", ["trajmill", command, str(finished), *more])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    message = capsys.readouterr().err
    assert ended.value.code == code
    assert message.count("\n") == 1
    assert str(file) in message
    assert words in message
    assert "go on" not in message


@contextmanager
def nothing_fits(size=600):
    """While it lasts, no file may grow beyond that size: the system refuses, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_told_with_the_file_in_every_stage_and_the_run_goes_on_after_it(tmp_path):
    for stage in ("plan", "normalize", "judge", "mix"):
        with pytest.raises((ShardError, OSError)) as caught, nothing_fits():
            Run(RECIPE, LOGS, str(tmp_path)).run(stage)
        ending = ending_of(caught.value)
        assert ending.code == Code.ENVIRONMENT
        assert str(tmp_path) in ending.line, stage
        assert "Make room" in ending.line, stage
        Run(RECIPE, LOGS, str(tmp_path)).run(stage)
    assert not list(tmp_path.rglob(".unfinished-*"))
    assert list((tmp_path / "shards").rglob("*.parquet"))


def test_a_damaged_file_of_an_earlier_stage_is_told_by_its_name(finished):
    (file,) = (finished / "transitions" / "terminal").iterdir()
    whole = file.read_bytes()
    half = len(whole) // 2
    for damaged in (whole[:half] + b"\0" * (len(whole) - half), whole[:half], None):
        file.unlink() if damaged is None else file.write_bytes(damaged)
        with pytest.raises(ShardError) as caught:
            list(read_transitions(Folder(str(finished / "transitions")), f"terminal/{file.name}"))
        ending = ending_of(caught.value)
        assert ending.code == Code.ENVIRONMENT
        assert str(file) in ending.line
        assert "\n" not in ending.line


@pytest.fixture(scope="module")
def search_path(tmp_path_factory) -> str:
    """Where a process finds the brittle connector, and everything else of ours."""
    folder = register(tmp_path_factory.mktemp("entry"))
    return os.pathsep.join((str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")))


@pytest.fixture
def environment(search_path) -> dict[str, str]:
    """Of a process that knows the brittle connector, and is not strict by itself."""
    return {**os.environ, "PYTHONPATH": search_path, "TRAJMILL_STRICT": "0"}


@pytest.fixture
def brittle(environment, monkeypatch):
    """Makes the brittle connector known to this process and to its workers, and has runs be strict only if asked."""
    for name in ("PYTHONPATH", "TRAJMILL_STRICT"):
        monkeypatch.setenv(name, environment[name])
    monkeypatch.syspath_prepend(environment["PYTHONPATH"].partition(os.pathsep)[0])
    trajmill.connectors.registry.connectors.cache_clear()
    yield
    trajmill.connectors.registry.connectors.cache_clear()


def words(raw: Path, out: Path, *more: str) -> list[str]:
    return ["run", "terminal", "--raw", str(raw), "--out", str(out), "--stop-after", "normalize", *more]


@pytest.mark.usefixtures("brittle")
def test_a_connectors_bug_ends_with_3_and_a_report_is_asked_for(tmp_path):
    raw = logs(tmp_path / "raw", *["good"] * 20, "raises", "rows", "raises", "raises")
    code, output, complained = ran(*words(raw, tmp_path / "out"))
    assert code == Code.CONNECTOR, complained
    assert "Traceback" not in complained
    for part in ("failed on 4 inputs", "brittle: 4 inputs: 020-raises.log", "and 1 more", "brittle:parse:", "report"):
        assert part in complained
    assert "[bold" not in complained
    assert "24 logs" in output


@pytest.mark.usefixtures("brittle")
def test_bugs_of_connectors_are_told_where_they_are_why_too_much_is_rejected(tmp_path):
    raw = logs(tmp_path / "raw", "good", "raises", "raises")
    code, _, complained = ran(*words(raw, tmp_path / "out"))
    assert code == Code.REJECTS, complained
    assert "failed on 2 inputs" in complained
    assert "max_reject_ratio" in complained


def test_a_signal_in_the_middle_of_an_import_is_an_interrupt_whatever_the_import_makes_of_it():
    script = """
import os, signal
from trajmill.pipelines.run_record.endings import Interrupted, ending_of
from trajmill.app.cli.output_options import interruptible, leave
try:
    with interruptible():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except BaseException as error:
            raise AttributeError("partially initialized module") from error
except Interrupted as error:
    leave(ending_of(error))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == Code.TERMINATED, done.stderr
    assert "interrupted" in done.stderr


@pytest.mark.usefixtures("brittle")
def test_a_strict_run_ends_with_3_at_the_first_bug_of_a_connector_and_shows_it(tmp_path):
    raw = logs(tmp_path / "raw", "good", "raises")
    code, _, complained = ran(*words(raw, tmp_path / "out", "--strict"))
    assert code == Code.CONNECTOR, complained
    assert "while connector 'brittle' was reading 001-raises.log" in complained
    assert "Traceback" in complained


def test_an_interrupted_run_says_so_in_one_line_and_leaves_no_process(tmp_path, environment):
    raw, mark = logs(tmp_path / "raw", "good", "slow"), tmp_path / "slow"
    command = [sys.executable, "-m", "trajmill", *words(raw, tmp_path / "out", "--workers", "2")]
    settings = {**environment, "TRAJMILL_SLOW": str(mark)}
    with subprocess.Popen(command, env=settings, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        while not (mark.exists() and mark.read_text()):
            assert running.poll() is None, running.communicate()[1]
            time.sleep(0.1)
        working = int(mark.read_text())
        assert working != running.pid
        running.send_signal(signal.SIGTERM)
        _, output = running.communicate()
    assert running.returncode == Code.TERMINATED
    assert "Traceback" not in output
    assert output.splitlines()[-1] == "trajmill: interrupted; run the same command again to go on"
    while works(working):
        time.sleep(0.1)


def test_a_worker_that_is_killed_from_outside_costs_nothing(tmp_path, environment):
    raw, mark = logs(tmp_path / "raw", "good", "slow"), tmp_path / "slow"
    command = [sys.executable, "-m", "trajmill", *words(raw, tmp_path / "out", "--workers", "2")]
    slow = {**environment, "TRAJMILL_SLOW": str(mark)}
    with subprocess.Popen(command, cwd=ROOT, env=slow, stderr=subprocess.PIPE, text=True) as run:
        while run.poll() is None and not (mark.exists() and mark.read_text()):
            time.sleep(0.1)
        worker = int(mark.read_text())
        assert worker != run.pid
        os.kill(worker, signal.SIGKILL)
        _, complained = run.communicate()
    assert run.returncode == Code.DONE, complained
    assert "Traceback" not in complained
    assert pl.read_parquet(tmp_path / "out/rejects/normalize/*.parquet").is_empty()
    table = pl.read_parquet(tmp_path / "out/transitions/terminal/*.parquet")
    assert set(table["native_id"]) == {"name0", "name1"}
