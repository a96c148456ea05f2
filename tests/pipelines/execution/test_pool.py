"""Workers of a run: processes that do as this one would, and end with it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.pipelines.execution.pool_work import fail, kill_or_write, ports, process_of, slow_square, value_of
from trajmill.pipelines.execution.pool import WorkerDiedError, WorkerPool, died_alone, worker_pool
from trajmill.schemas import ConfigError, ShardError


@pytest.fixture(scope="module")
def pool():
    pool = WorkerPool(2)
    yield pool
    pool.close()


def works(process: int) -> bool:
    """Whether there is such a process, other than one that waits for nobody to ask how it ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.05)


def test_results_come_in_the_order_of_items_whoever_is_done_first(pool):
    places: list[int] = []
    assert pool.map(slow_square, [1, 2, 30, 4, 5], places.append) == [1, 4, 900, 16, 25]
    assert sorted(places) == [0, 1, 2, 3, 4]
    assert pool.map(slow_square, []) == []


def test_workers_say_nothing_are_forked_from_one_process_and_end_with_the_pool(capfd):
    with worker_pool(2) as pool, worker_pool(2) as same:
        first, second = (set(pool.map(process_of, range(6))) for _ in range(2))
        assert same is pool
        assert first == second, "the same processes work for the whole run"
    workers, servers = {worker for worker, _ in first}, {server for _, server in first}
    assert len(workers) == 2
    assert len(servers) == 1
    assert servers.isdisjoint({os.getpid()})
    wait_until(lambda: not any(map(works, workers)))
    assert capfd.readouterr().err == ""


def test_workers_come_from_a_fork_server_that_was_started_before(tmp_path):
    script = (
        "import os; from pathlib import Path\n"
        "from trajmill.pipelines.execution.pool import WorkerPool, start_fork_server\n"
        "start_fork_server(); print(*Path(f'/proc/self/task/{os.getpid()}/children').read_text().split())\n"
        "pool = WorkerPool(2); print(*map(int, pool.map(eval, ['__import__(\"os\").getppid()'] * 2))); pool.close()"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    started, servers = (set(line.split()) for line in run.stdout.splitlines())
    assert len(servers) == 1
    assert servers <= started
    assert run.stderr == ""


def test_no_worker_listens_on_a_port(pool):
    assert pool.map(ports, range(4)) == [set()] * 4


@pytest.mark.parametrize(
    "error",
    [ConfigError("bad", "good"), ShardError("x cannot be read"), OSError(28, "full", "/x"), MemoryError(), KeyError(5)],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_as_it_was_with_its_notes_and_its_traceback(pool, error):
    error.add_note("while it rained")
    with pytest.raises(type(error)) as caught:
        pool.map(fail, [error])
    assert caught.value.args == error.args
    assert str(caught.value) == str(error)
    assert caught.value.__notes__[0] == "while it rained"
    assert "in fail" in caught.value.__notes__[1]


def test_an_error_that_cannot_be_pickled_comes_with_its_name_and_words(pool):
    with pytest.raises(RuntimeError, match="OddError"):
        pool.map(fail, ["odd"])


def test_a_worker_that_dies_costs_no_work_of_others_and_the_next_work_is_done(pool, tmp_path):
    with pytest.raises(WorkerDiedError, match="SIGKILL"):
        pool.map(kill_or_write, [(0, str(tmp_path)), (1, str(tmp_path))])
    assert [path.name for path in tmp_path.iterdir()] == ["0"]
    assert pool.map(slow_square, [3, 4, 5]) == [9, 16, 25]


def test_how_a_process_ends_over_an_item_alone_is_told(tmp_path):
    assert died_alone(kill_or_write, (1, str(tmp_path))) == "SIGKILL"
    assert died_alone(os._exit, 3) == "exit code 3"
    assert died_alone(kill_or_write, (2, str(tmp_path))) == ""


def test_workers_have_the_variables_of_the_moment_in_which_they_start(monkeypatch):
    for value in ("one", "other"):
        monkeypatch.setenv("TRAJMILL_TOLD", value)
        with worker_pool(2) as pool:
            assert pool.map(value_of, ["TRAJMILL_TOLD"]) == [value]


STARTS = """
import sys, time
from pathlib import Path
from tests.pipelines.execution.pool_work import sleep_for_ever
from trajmill.pipelines.execution.pool import WorkerPool
WorkerPool(2).map(sleep_for_ever, [sys.argv[1]] * 2)
"""


def test_workers_and_their_server_end_with_a_process_that_is_killed(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", STARTS, str(tmp_path)], env=environment) as command:
        wait_until(lambda: len(list(tmp_path.iterdir())) == 3)
        command.kill()
    started = [int(path.name) for path in tmp_path.iterdir()]
    wait_until(lambda: not any(map(works, started)))


HOSTILE = "open(__file__ + '.imported', 'w').close(); raise SystemExit('a file of the working folder was imported')"
ONCE = """
from trajmill.pipelines.execution.pool import WorkerPool
print("once")
print(WorkerPool(2).map(abs, [-1, 4]))
"""


def test_a_script_without_a_guard_runs_once_and_nothing_of_the_working_folder_is_imported(tmp_path):
    for name in ("schemas", "types", "queue", "selectors", "socket", "pickle", "quality/__init__", "trajmill_x"):
        file = tmp_path / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(HOSTILE)
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "once.py"
    script.write_text(ONCE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "once\n[1, 4]\n"), done.stderr
    assert not list(tmp_path.rglob("*.imported"))
