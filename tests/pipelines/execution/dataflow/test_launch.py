"""The launcher script: the image that it builds, and the run that it starts."""

import os
import subprocess
import zipfile
from importlib.metadata import version

import pytest

from tests.conftest import ROOT
from tests.pipelines.execution.dataflow.image_root import launched, read_dockerfile

WORDS = ("android", "--raw", "gs://b/raw", "--out", "gs://b/out", "--max-hours", "4", "--project=some-project")


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    folder = tmp_path_factory.mktemp("launched")
    return folder, launched(folder, WORDS)


def test_the_image_is_built_and_pushed_and_then_an_ordinary_run_is_started(started):
    _, calls = started
    assert calls == [
        "docker build --tag registry.example/trajmill:1 CONTEXT",
        "docker push registry.example/trajmill:1",
        f"trajmill run {' '.join(WORDS)} --runner dataflow",
    ]


def test_the_context_holds_what_the_dockerfile_copies_and_the_sdk_that_is_locked(started):
    context = started[0] / "context"
    steps = read_dockerfile((context / "Dockerfile").read_text("utf-8"))
    arguments = dict(step.rest.partition("=")[::2] for step in steps if step.word == "ARG")
    assert arguments["BEAM"] == version("apache-beam")
    copied = {step.rest.split()[0] for step in steps if step.word == "COPY"}
    assert copied == {path.name for path in context.iterdir()} - {"Dockerfile"}
    installs = [step.rest for step in steps if step.word == "RUN" and "pip" in step.rest]
    assert all("--no-deps" in step for step in installs)
    (wheel,) = context.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"trajmill/pipelines/run.py", "trajmill/configs/android.yaml"} <= names
    assert (context / "dataflow.txt").read_bytes() == (ROOT / "requirements" / "dataflow.txt").read_bytes()


def test_nothing_is_built_without_the_name_of_an_image(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRAJMILL_DATAFLOW_IMAGE"}
    script = ROOT / "deploy" / "dataflow" / "launch.sh"
    done = subprocess.run([script, *WORDS], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "TRAJMILL_DATAFLOW_IMAGE: is not set" in done.stderr
