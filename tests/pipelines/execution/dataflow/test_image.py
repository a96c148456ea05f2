"""The image's steps, as they stand in its Dockerfile, and what they make at work: `make dataflow`.

Launchers run what a machine runs that launches a template, with Beam's own client, which stages to a local server as
Cloud Storage has it. What they hand in is worked through by Prism, and its workers are what the image starts with.
"""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess

import fsspec
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.portable_runner import PortableRunner

from tests.conftest import ROOT
from tests.pipelines.execution.dataflow.image_root import ImageRoot
from trajmill.app.cli.flex_templates.building import build
from trajmill.app.cli.flex_templates.launching import NEXT, NOTHING
from trajmill.pipelines.execution.engines import running
from trajmill.schemas.manifest import PROGRAM_VERSION

IMAGE, LAUNCHER = "registry.example/trajmill:1", "registry.example/launcher:1"
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
    """What the Dockerfile makes of the context that `trajmill template build` writes."""
    folder, made = tmp_path_factory.mktemp("templates"), tmp_path_factory.mktemp("image")
    build(str(folder), IMAGE, LAUNCHER)
    root = ImageRoot(made, (shared,))
    root.make(folder / "context", {"LAUNCHER": LAUNCHER})
    yield root
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def store():
    """The variables by which processes find a local server as Cloud Storage has it, with one bucket."""
    made = pytest.importorskip("gcp_storage_emulator.server").create_server
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = made("127.0.0.1", port, in_memory=True)
    server.start()
    told = {
        "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}",
        "NO_GCE_CHECK": "true",
        "FSSPEC_GS_TOKEN": "anon",
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
    }
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    yield told
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
    server.stop()


def started_by(image, shared, variables) -> str:
    """A command that engines start workers with: the image's own."""
    worker = shared / "worker"
    words = shlex.join(image.command(image.entry, variables))
    # Prism quotes the first word once too often
    worker.write_text(f'#!/bin/sh\nname=$(printf %s "$1" | tr -d "\'"); shift\nexec {words} "$name" "$@"\n')
    worker.chmod(0o755)
    return str(worker)


def work_through(graph: bytes, worker: str, endpoint: str) -> None:
    """Has Prism do what was staged, by workers that are processes of a command."""
    pipeline = beam_runner_api_pb2.Pipeline.FromString(graph)
    for environment in pipeline.components.environments.values():
        assert beam_runner_api_pb2.DockerPayload.FromString(environment.payload).container_image == IMAGE
        environment.urn = "beam:env:process:v1"
        environment.payload = beam_runner_api_pb2.ProcessPayload(command=worker).SerializeToString()
    options = PipelineOptions(["--runner=PortableRunner", endpoint])
    PortableRunner().run_portable_pipeline(pipeline, options).wait_until_finish()


def test_launchers_and_workers_of_the_image_give_the_bytes_of_a_local_run(image, shared, store, raw, made):
    assert image.bases == [LAUNCHER, "apache/beam_python3.11_sdk:2.77.0"]
    files = fsspec.filesystem("gs", token="anon")
    files.mkdir("some-bucket")
    for path in raw.iterdir():
        files.pipe_file(f"some-bucket/raw/{path.name}", path.read_bytes())
    worker = started_by(image, shared, store)
    stage, stages = "normalize", []
    with running("prism") as flags:
        (endpoint,) = (one for one in flags if one.startswith("--job_endpoint"))
        while stage != NOTHING:
            stages.append(stage)
            image.run(["python", image.variables["FLEX_TEMPLATE_PYTHON_PY_FILE"], *words_of(stage)], store)
            files.invalidate_cache()
            job = json.loads(files.cat_file(f"some-bucket/launches/{stage}"))
            place = job["environment"]["sdkPipelineOptions"]["options"]["pipelineUrl"]
            work_through(files.cat_file(place), worker, endpoint)
            stage = job["labels"][NEXT]
    assert stages == ["normalize", "judge", "mix", "finish"]
    expected = {str(one.relative_to(made)): one.read_bytes() for one in (made / "shards").rglob("*") if one.is_file()}
    files.invalidate_cache()
    names = files.find("some-bucket/out/shards")
    assert {name.removeprefix("some-bucket/out/"): files.cat_file(name) for name in names} == expected


def words_of(stage: str) -> list[str]:
    """What a launcher is given: the template's parameters, and the service's words."""
    parameters = ["--config=terminal", "--raw=gs://some-bucket/raw", "--out=gs://some-bucket/out", "--max_hours=2"]
    service = ["--runner=DataflowRunner", "--project=some-project", "--region=europe-west4", f"--job_name=one-{stage}"]
    places = ["--temp_location=gs://some-bucket/tmp", f"--template_location=gs://some-bucket/launches/{stage}"]
    return [f"--stage={stage}", *parameters, *service, *places, f"--sdk_container_image={IMAGE}", "--no_auth"]


def test_a_launcher_of_the_image_refuses_what_is_missing_in_one_line(image):
    words = ["python", image.variables["FLEX_TEMPLATE_PYTHON_PY_FILE"], "--stage=judge", "--config=terminal"]
    done = subprocess.run(image.command(words), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "trajmill: What the template needs is missing: --raw, --out.\n"


def released(lines) -> set[tuple[str, str]]:
    """Names as indexes write them, and releases, of lines such as `name==1.0`."""
    pairs = (line.split(" ")[0].partition("==") for line in lines if "==" in line)
    return {(re.sub("[-_.]+", "-", name.lower()), release) for name, _, release in pairs}


def test_what_the_image_holds_is_what_is_locked(image):
    told = image.run(["python", "-m", "pip", "list", "--format=freeze", "--exclude=pip", "--exclude=setuptools"]).stdout
    text = (ROOT / "requirements" / "dataflow.txt").read_text("utf-8")
    locked = released(line for line in text.splitlines() if line[:1].isalnum())
    found = released(told.splitlines())
    assert len(found) > 100
    assert found - locked == {("trajmill", PROGRAM_VERSION)}
