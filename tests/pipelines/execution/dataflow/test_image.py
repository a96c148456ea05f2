"""The image's steps, as they stand in its Dockerfile, and its workers at work: `make dataflow`.

Beam's local runner works through the jobs of a run, and its workers are what the image starts with. All of them read
and write a local server as Cloud Storage has it.
"""

import os
import re
import shlex
import shutil
import socket

import fsspec
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_provision_api_pb2, beam_runner_api_pb2, endpoints_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer

from tests.conftest import ROOT
from tests.pipelines.execution.dataflow.conftest import service_in_place
from tests.pipelines.execution.dataflow.image_root import ImageRoot, launched
from tests.pipelines.execution.dataflow.service import FLAGS, Submitted
from trajmill.pipelines.execution.dataflow.job_options import Ceiling
from trajmill.pipelines.execution.engines import running
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas.manifest import PROGRAM_VERSION

IMAGE = "registry.example/trajmill:1"
ASKED = os.environ.get("TRAJMILL_IMAGE", "")
LACKING = [one for one in ("go", "unshare", "chroot") if shutil.which(one) is None] + ["root"] * (os.geteuid() != 0)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ASKED, reason="takes minutes and packages: make dataflow"),
    pytest.mark.skipif(bool(LACKING) and ASKED != "all", reason=f"the image's steps want {', '.join(LACKING)}"),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def image(shared, tmp_path_factory):
    """The root that the Dockerfile makes of the context of the launcher script."""
    folder, build = tmp_path_factory.mktemp("launched"), tmp_path_factory.mktemp("image")
    launched(folder, ["terminal"])
    root = ImageRoot(build, (shared,))
    root.make(folder / "context")
    yield root
    shutil.rmtree(build)


@pytest.fixture(scope="module")
def store():
    """The variables by which processes find a local server as Cloud Storage has it, with one bucket."""
    create_server = pytest.importorskip("gcp_storage_emulator.server").create_server
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = create_server("127.0.0.1", port, in_memory=True)
    server.start()
    variables = {
        "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}",
        "NO_GCE_CHECK": "true",
        "FSSPEC_GS_TOKEN": "anon",
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
    }
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    yield variables
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
    server.stop()


@pytest.fixture(scope="module")
def pool(image, shared, store):
    """The address of a server that starts workers as the image does."""
    worker = shared / "worker"
    worker.write_text(f'#!/bin/sh\nexec {shlex.join(image.command(image.entry, store))} "$@"\n')
    worker.chmod(0o755)
    address, server = BeamFnExternalWorkerPoolServicer.start(use_process=True, container_executable=str(worker))
    yield address
    server.stop(None)


def work_through(job: Submitted, pool: str) -> None:
    """Do what a job says, by workers of the image."""
    graph = beam_runner_api_pb2.Pipeline.FromString(job.graph.SerializeToString())
    for environment in graph.components.environments.values():
        assert beam_runner_api_pb2.DockerPayload.FromString(environment.payload).container_image == IMAGE
        endpoint = endpoints_pb2.ApiServiceDescriptor(url=pool)
        environment.urn = common_urns.environments.EXTERNAL.urn
        environment.payload = beam_runner_api_pb2.ExternalPayload(endpoint=endpoint).SerializeToString()
    # Else the image's boot asks for files, which no job has.
    nothing_staged = ExtendedProvisionInfo(beam_provision_api_pb2.ProvisionInfo())
    options = PipelineOptions(["--runner=FnApiRunner"])
    FnApiRunner(provision_info=nothing_staged).run_via_runner_api(graph, options).wait_until_finish()


def test_workers_of_the_image_give_the_bytes_of_a_local_run(image, pool, raw, made, monkeypatch):
    assert image.base == "apache/beam_python3.11_sdk:2.77.0"
    files = fsspec.filesystem("gs", token="anon")
    files.mkdir("some-bucket")
    for path in raw.iterdir():
        files.pipe_file(f"some-bucket/raw/{path.name}", path.read_bytes())
    service = service_in_place(monkeypatch)
    service.work = lambda job: work_through(job, pool)
    with running("dataflow", 2, FLAGS, Ceiling(hours=2)) as mine:
        execution = Execution(workers=2, beam=(*mine, *FLAGS))
        Run(load_recipe("terminal"), ["gs://some-bucket/raw"], "gs://some-bucket/out", execution).run()
    assert len(service.jobs) == 3
    expected = {
        str(path.relative_to(made)): path.read_bytes() for path in (made / "shards").rglob("*") if path.is_file()
    }
    files.invalidate_cache()
    names = files.find("some-bucket/out/shards")
    assert {name.removeprefix("some-bucket/out/"): files.cat_file(name) for name in names} == expected


def released(lines) -> set[tuple[str, str]]:
    """Names as indexes write them, and releases, of lines such as `name==1.0`."""
    pairs = (line.split(" ")[0].partition("==") for line in lines if "==" in line)
    return {(re.sub("[-_.]+", "-", name.lower()), release) for name, _, release in pairs}


def test_what_the_image_holds_is_what_is_locked(image):
    listing = image.run(
        ["python", "-m", "pip", "list", "--format=freeze", "--exclude=pip", "--exclude=setuptools"]
    ).stdout
    text = (ROOT / "requirements" / "dataflow.txt").read_text("utf-8")
    locked = released(line for line in text.splitlines() if line[:1].isalnum())
    releases = released(listing.splitlines())
    assert len(releases) > 100
    assert releases - locked == {("trajmill", PROGRAM_VERSION)}
