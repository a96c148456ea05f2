"""One suite over the engines: the same recipe and logs give the same bytes.

By default what runs in seconds and needs nothing that is not here. `make engines` runs all of it over more logs
(`TRAJMILL_ENGINES=here`), and with `TRAJMILL_ENGINES=all` what a machine lacks is a failure.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import grpc
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.metrics.monitoring_infos import USER_COUNTER_URN
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_provision_api_pb2 as provision
from apache_beam.portability.api import beam_provision_api_pb2_grpc as services
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.portability.api import endpoints_pb2 as endpoints

from tests.conftest import ROOT
from trajmill.pipelines.beam_worker import provisioned
from trajmill.pipelines.execution.engines import ENGINES, FLINK_MASTER, lacks, running
from trajmill.pipelines.execution.execution import IN_PROCESS, Execution
from trajmill.pipelines.execution.flink.cluster import TASK_MANAGERS, FlinkServers
from trajmill.pipelines.execution.runner import Taken, keep_elements
from trajmill.pipelines.execution.server_process import Servers, free_port, listens
from trajmill.pipelines.plan.plan import Part
from trajmill.pipelines.plan.recognition import Input
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.summary import Summary
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.paths import Place
from trajmill.schemas import ConfigError, ShardError
from trajmill.schemas.manifest import Manifest

ASKED = os.environ.get("TRAJMILL_ENGINES", "")
LOGS, RECIPE = (ROOT / "samples" / "android", "android") if ASKED else (None, "terminal")
WORKERS = 2
PART_BYTES = 20_000 if ASKED else 40_000
"""So small that there are several parts, and units that have to be brought together."""

needs_asking = pytest.mark.skipif(not ASKED, reason="takes minutes: make engines")


def shards(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in (out / "shards").rglob("*") if path.is_file()}


def require(engine: str) -> None:
    """Skips where the machine lacks something, or fails where everything was asked for."""
    lacking = ", ".join(lacks(engine))
    if lacking and ASKED == "all":
        pytest.fail(f"{engine} was asked for, and is not run: {lacking} is not on PATH")
    if lacking:
        pytest.skip(f"{engine} is not run: {lacking} is not on PATH")


@pytest.fixture(scope="module")
def logs(raw) -> Path:
    return LOGS or raw


@pytest.fixture(scope="module")
def expected(logs, tmp_path_factory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("local") / "out"
    summary = Run(load_recipe(RECIPE), [str(logs)], str(out), Execution(part_bytes=PART_BYTES)).run()
    assert len(summary.plan.parts) > 1
    return shards(out)


def below(pid: int) -> dict[int, str]:
    """The processes that descend from one, and their command lines."""
    parents, lines = {}, {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            process = int(status.parent.name)
            parents[process] = int(status.read_text().rpartition(")")[2].split()[1])
            lines[process] = (status.parent / "cmdline").read_text().replace("\0", " ")
    descendants = {pid}
    while more := {process for process, parent in parents.items() if parent in descendants} - descendants:
        descendants |= more
    return {process: lines[process] for process in descendants - {pid}}


@pytest.fixture
def graphs(monkeypatch) -> list[beam_runner_api_pb2.Pipeline]:
    """The pipelines that are run, as an engine is told them."""
    run, protos = beam.Pipeline.run, []

    def noted(pipeline: beam.Pipeline, *arguments: object, **named: object) -> object:
        protos.append(pipeline.to_runner_api())
        return run(pipeline, *arguments, **named)

    monkeypatch.setattr(beam.Pipeline, "run", noted)
    return protos


def waits(graph: beam_runner_api_pb2.Pipeline) -> set[str]:
    """Steps that are told something whole while elements wait that were not grouped: see `engines._HANDED_ON`."""
    steps = graph.components.transforms
    urns = {name: step.spec.urn for step in steps.values() if step.spec.urn for name in step.outputs.values()}
    names = set()
    for step in steps.values():
        if step.spec.urn == common_urns.primitives.PAR_DO.urn:
            beside = beam_runner_api_pb2.ParDoPayload.FromString(step.spec.payload).side_inputs
            main = {name for tag, name in step.inputs.items() if tag not in beside}
            if beside and any(urns[name] != common_urns.primitives.GROUP_BY_KEY.urn for name in main):
                names.add(step.unique_name)
    return names


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "workers"), [("local", 2), (IN_PROCESS, 1)])
def test_an_engine_gives_the_bytes_of_one_local_worker(engine, workers, logs, expected, graphs, tmp_path):
    run_on(engine, workers, logs, tmp_path / "out")
    assert shards(tmp_path / "out") == expected
    assert [waits(graph) for graph in graphs] == ([] if engine == "local" else [set()] * 3)
    assert all(graph.ByteSize() < 5 << 20 for graph in graphs)


def run_on(engine: str, workers: int, logs: Path, out: Path) -> Summary:
    with running(engine, workers) as flags:
        execution = Execution(workers=workers, beam=flags, part_bytes=PART_BYTES)
        return Run(load_recipe(RECIPE), [str(logs)], str(out), execution).run()


@pytest.mark.slow
@needs_asking
def test_a_flink_cluster_gives_these_bytes_and_its_rest_address_the_counts_of_the_run(
    logs, expected, graphs, monkeypatch, tmp_path
):
    require("flink")
    out, servers_in = tmp_path / "out", tmp_path / "servers"
    servers_in.mkdir()
    with FlinkServers(servers_in) as servers:
        address = servers.start_cluster()
        servers.wait()
        monkeypatch.setenv(FLINK_MASTER, address)
        summary = run_on("flink", WORKERS, logs, out)
        counts = counters(address)
    assert shards(out) == expected
    assert [waits(graph) for graph in graphs] == [set()] * 3
    assert all(graph.ByteSize() < 5 << 20 for graph in graphs)

    folders = {"normalize": "transitions", "judge": "verdicts", "mix": "shards"}
    manifests = {
        stage: Manifest.from_json((out / name / "manifest.json").read_bytes()) for stage, name in folders.items()
    }
    licences = {name for name in manifests["mix"].counts if name.startswith("licences.")}  # which the driver counts
    assert counts == {
        stage: {name: count for name, count in manifest.counts.items() if name not in licences}
        for stage, manifest in manifests.items()
    }
    line = next(line for line in summary.lines if line.unit == "trajectories")
    dropped = {f"trajectories.dropped.{reason}": count for reason, count in (line.lost | line.merged).items()}
    assert dropped
    assert {"trajectories": line.entered, "trajectories.kept": line.kept, **dropped}.items() <= counts["judge"].items()


def counters(address: str) -> dict[str, dict[str, int]]:
    """Beam's counters by namespace: of each job of a Flink cluster the accumulator that its REST address shows."""

    def ask(path: str) -> dict[str, list[dict[str, str]]]:
        with urllib.request.urlopen(f"http://{address}/{path}", timeout=60) as answer:
            return json.load(answer)

    counts: dict[str, dict[str, int]] = {}
    for job in ask("jobs")["jobs"]:
        for accumulator in ask(f"jobs/{job['id']}/accumulators")["user-task-accumulators"]:
            for metric in json.loads(accumulator["value"])["metrics"]["attempted"]:
                if metric["urn"] == USER_COUNTER_URN:
                    labels, payload = metric["labels"], base64.b64decode(metric["payload"])
                    counts.setdefault(labels["NAMESPACE"], {})[labels["NAME"]] = VarIntCoder().decode(payload)
    return counts


@pytest.mark.slow
@needs_asking
def test_a_task_manager_that_is_killed_amid_judging_changes_no_byte(logs, expected, tmp_path):
    require("flink")
    out, done = tmp_path / "out", False
    for kills in (True, False):
        with running("flink", WORKERS) as flags, ThreadPoolExecutor(1) as beside:
            killed = beside.submit(kill_a_task_manager, out) if kills else None
            execution = Execution(workers=WORKERS, beam=flags, part_bytes=PART_BYTES)
            with suppress(ShardError):
                Run(load_recipe(RECIPE), [str(logs)], str(out), execution).run()
                done = True
            if killed is not None:
                killed.result()
        if done:
            break
    assert shards(out) == expected


def kill_a_task_manager(out: Path) -> None:
    """Kills one once a unit is measured, and sees its workers go."""
    while not any((out / "_units" / "measures").glob("*-part-*")):
        time.sleep(0.1)
    managers = {process for process, line in below(os.getpid()).items() if "TaskManagerRunner" in line}
    assert len(managers) == TASK_MANAGERS
    manager = min(managers)
    workers = set(below(manager))
    os.kill(manager, signal.SIGKILL)
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        time.sleep(0.1)


def test_a_name_that_is_no_engine_is_refused_with_those_that_are():
    with pytest.raises(ConfigError, match=", ".join(ENGINES)), running("flnik"):
        pass


@pytest.mark.parametrize(("master", "error"), [("nowhere", ConfigError), ("localhost:1", ShardError)])
def test_a_flink_cluster_that_is_not_there_is_told_before_anything_is_started(master, error, monkeypatch, tmp_path):
    monkeypatch.setenv(FLINK_MASTER, master)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(error, match=master), running("flink"):
        pass
    assert not any(tmp_path.iterdir())


def test_what_is_started_ends_with_the_process_that_started_it(tmp_path):
    starts = (
        "import sys, time; from pathlib import Path; from trajmill.pipelines.execution.server_process import Servers\n"
        "servers = Servers(Path(sys.argv[1])); servers.start('sleeper', ['sleep', '60'])\n"
        "print(servers.processes['sleeper'].pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", starts, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        sleeper = int(parent.stdout.readline())
        parent.kill()
    while Path(f"/proc/{sleeper}").exists() and not is_zombie(sleeper):
        time.sleep(0.05)


def is_zombie(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def test_a_server_that_ends_too_soon_is_told_with_what_it_said_last(tmp_path):
    with Servers(tmp_path) as servers:
        servers.start("server", ["sh", "-c", "echo no room; exit 3"])
        port = free_port()
        with pytest.raises(ShardError, match="3"):
            servers.wait_for(lambda: listens(port), 10)


def part_of(inputs: int) -> Part:
    logs = (
        Input(name, "asciicast", "1", "its first line", {name: Place(f"/corpus/{name}")}, 1_000_000, "0" * 64)
        for name in (f"sessions/of/somebody/{number:06d}.cast" for number in range(inputs))
    )
    return Part(0, "0" * 64, tuple(logs))


def test_what_workers_take_is_what_was_kept_or_nothing(tmp_path):
    out = Folder(str(tmp_path))
    work = [part_of(number) for number in (1, 9_000, 9_000, 3, 9_000)]
    with keep_elements(work, out) as places:
        assert [Taken(out)(location) for location in places] == work
        assert len({location.block for location in places}) > 1
        (tmp_path / places[-1].block).write_bytes(b"another")
        with pytest.raises(ShardError):
            Taken(Folder(str(tmp_path)))(replace(places[-1], sha256="0" * 64))
    assert not any(tmp_path.iterdir())


class Provisioning(services.ProvisionServiceServicer):
    """Answers as an engine does, and holds who asked."""

    def GetProvisionInfo(self, request, context):  # noqa: N802 - the protocol's name
        self.asked_by = dict(context.invocation_metadata())["worker_id"]
        control = endpoints.ApiServiceDescriptor(url="localhost:7")
        return provision.GetProvisionInfoResponse(info=provision.ProvisionInfo(control_endpoint=control))


def test_a_worker_that_an_engine_starts_asks_it_where_its_work_comes_from():
    answering, server = Provisioning(), grpc.server(ThreadPoolExecutor(1))
    services.add_ProvisionServiceServicer_to_server(answering, server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    variables = provisioned(["--id=worker-1", f"--provision_endpoint=localhost:{port}"])
    server.stop(None)
    assert answering.asked_by == variables["WORKER_ID"] == "worker-1"
    assert variables["CONTROL_API_SERVICE_DESCRIPTOR"] == 'url: "localhost:7"\n'
