import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import DebugOptions, DirectOptions, GoogleCloudOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer

from trajmill.pipelines.execution.execution import LOCAL, Execution
from trajmill.pipelines.execution.fork_server import ForkServer, end_fork_server
from trajmill.pipelines.execution.runner import bound_to_loopback, run_over
from trajmill.pipelines.execution.server_process import RUNNER_PROCESS
from trajmill.pipelines.storage.scratch import is_running
from trajmill.schemas import ConfigError, ShardError


def test_the_local_runner_is_pinned():
    assert Execution().options().view_as(StandardOptions).runner == LOCAL
    assert Execution().is_local


def test_flags_go_to_beam_and_win():
    execution = Execution(beam=("--runner=FlinkRunner", "--flink_master=localhost:8081"))
    assert execution.options().view_as(StandardOptions).runner == "FlinkRunner"
    assert not execution.is_local


@pytest.mark.parametrize("flag", ["--no_such_flag=1", "--runner=FnApiRuner"])
def test_a_flag_that_nobody_knows_is_refused(flag):
    with pytest.raises(ConfigError):
        Execution(beam=(flag,)).options()


def test_what_is_changed_in_options_is_seen_in_all_their_views_and_in_no_other_options():
    execution = Execution(beam=("--experiments=a",))
    options, other = execution.options(), execution.options()
    options.view_as(StandardOptions).streaming = True
    options.view_as(DebugOptions).experiments.append("b")
    copied = deepcopy(options)
    copied.view_as(StandardOptions).streaming = False
    assert options.view_as(StandardOptions).streaming is True
    assert not copied.view_as(StandardOptions).streaming
    assert copied.view_as(DebugOptions).experiments == ["a", "b"]
    assert other.view_as(DebugOptions).experiments == execution.options().view_as(DebugOptions).experiments == ["a"]
    assert not other.view_as(StandardOptions).streaming


def test_what_beam_keeps_from_workers_is_in_the_options_and_not_in_what_is_sent():
    options = Execution(beam=("--impersonate_service_account=somebody",)).options()
    sent = pickle.loads(pickle.dumps(options))
    assert options.view_as(GoogleCloudOptions).impersonate_service_account == "somebody"
    assert sent.view_as(GoogleCloudOptions).impersonate_service_account is None


LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
"""127.0.0.1, ::1 and ::ffff:127.0.0.1 as the kernel writes them."""


def listening() -> set[str]:
    """Local addresses of this machine's listening TCP sockets."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                found.add(fields[1])
    return found


def test_servers_for_workers_listen_on_loopback_only():
    before = listening()
    with bound_to_loopback():
        server = worker_handlers.grpc.server(ThreadPoolExecutor(1))
        port = server.add_insecure_port("[::]:0")
        server.start()
        mine = {address for address in listening() - before if int(address.split(":")[1], 16) == port}
        server.stop(None)
    assert mine
    assert {address.split(":")[0] for address in mine} <= LOOPBACK


def test_a_pool_of_workers_in_our_process_listens_on_loopback_only():
    before = opened_by(os.getpid())
    with bound_to_loopback():
        _, server = BeamFnExternalWorkerPoolServicer.start()
        fresh = opened_by(os.getpid()) - before
        server.stop(None)
    assert fresh
    assert {address.split(":")[0] for address in fresh} <= LOOPBACK


def opened_by(pid: int) -> set[str]:
    """Addresses of the listening TCP sockets of a process."""
    links = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in links:
                found.add(fields[1])
    return found


def note_ports(number: int, folder: str) -> None:
    Path(folder, str(os.getpid())).touch()
    for pid in {os.getpid(), os.getppid(), int(os.environ.get(RUNNER_PROCESS, os.getppid()))}:
        for address in opened_by(pid):
            Path(folder, f"{pid}-{address.replace(':', '-')}").touch()


def met_by_workers(folder: Path, before: set[str]) -> tuple[set[str], set[str]]:
    """(processes that worked, addresses at which they or the process that started them listen since)."""
    parents = {str(os.getppid())}
    found = [path.name.partition("-")[::2] for path in folder.iterdir()]
    known = {address.replace(":", "-") for address in before}
    opened = {address for pid, address in found if address and pid not in parents and address not in known}
    return {pid for pid, address in found if not address}, opened


def test_a_run_in_our_process_opens_no_port(tmp_path):
    before = opened_by(os.getpid())
    run_over(list(range(4)), beam.Map(note_ports, str(tmp_path)), Execution())
    assert met_by_workers(tmp_path, before) == ({str(os.getpid())}, set())


def test_workers_are_processes_that_say_nothing_and_listen_on_loopback_only(tmp_path, capfd):
    before = opened_by(os.getpid())
    run_over(list(range(8)), beam.Map(note_ports, str(tmp_path)), Execution(workers=2))
    assert Execution(workers=2).options().view_as(DirectOptions).direct_num_workers == 2
    workers, opened = met_by_workers(tmp_path, before)
    assert workers
    assert str(os.getpid()) not in workers
    assert opened
    assert {address.split("-")[0] for address in opened} <= LOOPBACK
    assert capfd.readouterr().err == ""


def note_processes(number: int, folder: str) -> None:
    Path(folder, f"{os.getpid()}-{os.getppid()}-{number}").touch()


def test_workers_of_all_pipelines_are_forked_from_one_process_and_end_with_it(tmp_path):
    for number in range(2):
        run_over([number, number, number], beam.Map(note_processes, str(tmp_path)), Execution(workers=2))
    met = {tuple(path.name.split("-")) for path in tmp_path.iterdir()}
    assert {number for *_, number in met} == {"0", "1"}
    assert len({worker for worker, *_ in met}) >= 2
    (server,) = {parent for _, parent, _ in met}
    assert server != str(os.getpid())
    end_fork_server()
    assert not any(is_running(int(process)) for process in {server, *(worker for worker, *_ in met)})


def test_a_fork_server_serves_as_long_as_variables_and_folder_are_those_it_began_with(tmp_path, monkeypatch):
    python = tmp_path / "python"
    lines = "import os, sys", "os.read(int(sys.argv[3].partition('=')[2]), 1)", ""
    python.write_text("\n".join((f"#!{sys.executable} -S", *lines)))
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    server = ForkServer()
    served = [server.serves]
    with monkeypatch.context() as changed:
        changed.setenv("TRAJMILL_TOLD", "other")
        served.append(server.serves)
    with monkeypatch.context() as changed:
        changed.chdir(tmp_path)
        served.append(server.serves)
    served.append(server.serves)
    server.close()
    assert [*served, server.serves] == [True, False, False, True, False]


def wait_for_ever(number: int, folder: str) -> None:
    note_processes(number, folder)
    time.sleep(600)


def test_a_run_whose_fork_server_is_killed_ends_and_so_do_its_workers(tmp_path):
    with ThreadPoolExecutor(1) as other:
        run = other.submit(run_over, [1, 2], beam.Map(wait_for_ever, str(tmp_path)), Execution(workers=2))
        wait_until(lambda: any(tmp_path.iterdir()))
        worker, server, _ = next(tmp_path.iterdir()).name.split("-")
        os.kill(int(server), signal.SIGKILL)
        with pytest.raises(ShardError, match="ended from outside"):
            run.result(60)
    wait_until(lambda: not works(int(worker)))


def works(process: int) -> bool:
    """Whether there is such a process, other than one that waits for nobody to ask how it ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(is_so: Callable[[], bool], patience_s: float = 60.0) -> None:
    until = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_nothing_is_run_over_nothing():
    run_over([], beam.Map(lambda _: 1 / 0), Execution())


def test_a_worker_that_fails_while_it_starts_ends_the_run(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(ShardError, match="ended before it began"):
        run_over([1], beam.Map(str), Execution(workers=2))


def test_a_worker_whose_parent_is_gone_when_it_begins_ends_and_one_that_fails_says_why():
    with subprocess.Popen(["true"]) as gone:
        pass
    environment = {**os.environ, RUNNER_PROCESS: str(gone.pid)}
    command = [sys.executable, "-m", "trajmill.pipelines.beam_worker"]
    orphan = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert (orphan.returncode, orphan.stderr) == (1, "")
    environment |= {RUNNER_PROCESS: str(os.getpid()), "CONTROL_API_SERVICE_DESCRIPTOR": "no message"}
    failed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert failed.returncode == 1
    assert "Error" in failed.stderr
