"""Templates: what they are asked for, what they are made of, and how they are launched one after the other."""

import inspect
import json
import re
import zipfile
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest

from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from tests.pipelines.execution.dataflow.image_root import read_dockerfile
from tests.pipelines.execution.dataflow.service import FLAGS
from tests.pipelines.execution.dataflow.workflow_reader import RaisedError, Workflow
from trajmill.app.cli.cli import run
from trajmill.app.cli.flex_templates.building import build, deployed, run_commands, specification
from trajmill.app.cli.flex_templates.launching import NEXT, NOTHING, recipe_of
from trajmill.app.cli.flex_templates.parameters import IMAGE, STAGES, parameters, taken
from trajmill.app.cli.flex_templates.running import Templates
from trajmill.pipelines.execution.dataflow import job_options
from trajmill.pipelines.execution.runner import parsed
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.recipe.section import Section
from trajmill.schemas import ConfigError, ShardError
from trajmill.schemas.manifest import PROGRAM_VERSION

MADE, LAUNCHER = "registry.example/trajmill:1", "registry.example/launcher:1"
RUN = ("run", "terminal", "--raw", "gs://b/raw", "--out", "OUT")
WORDS = ("--config=terminal", "--raw=gs://b/raw", "--out=gs://b/out", "--max_hours=2", "--workers=8")


def leaves(values, keys=()):
    """The keys that lead to each value of a recipe."""
    for name, value in values:
        if isinstance(value, Section):
            yield from leaves(value, (*keys, name))
        else:
            yield (*keys, name)


def test_every_value_of_a_recipe_is_a_parameter():
    asked = {one.keys for one in parameters("mix") if one.keys}
    found = set(leaves(Recipe(name="n", source="s")))
    assert len(found) > 90
    assert found <= asked
    assert all(any(keys == one[: len(keys)] for one in found) for keys in asked)


def test_every_option_of_a_run_is_a_parameter_but_those_that_a_template_says_itself():
    options = set(inspect.signature(run).parameters) - {"context"}
    names = {one.name for one in parameters("mix") if not one.keys}
    assert options - names == {"runner", "stop_after", "part"}
    assert names - options == {"spent_hours", IMAGE}


def test_parameters_have_names_of_their_own_that_are_no_options_of_beam():
    names = [one.name for one in parameters("mix")]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z][a-z0-9_]*", name) for name in names)
    assert set(names) & set(vars(parsed([])[0])) == {IMAGE}
    assert all(one.help_text for one in parameters("mix"))


def test_parameters_say_everything_that_a_recipe_says():
    recipe = load_recipe("android")
    words = []
    for keys in leaves(recipe):
        value: Any = recipe.model_dump(mode="json")
        for key in keys:
            value = value[key]
        words.append(f"--{'__'.join(keys)}={value if isinstance(value, str) else json.dumps(value)}")
    found = taken(["--stage=mix", "--config=web", "--raw=r", "--out=o", *words])
    assert not found[1]
    assert recipe_of(found[0]) == recipe != load_recipe("web")


def test_parameters_reach_into_sections():
    words = ["--mix__stages={cpt: {samples: 7}}", "--judge__near_duplicates__bands=9", "--licence=MIT", "--name=7"]
    recipe = recipe_of(taken([f"--stage={STAGES[0]}", *WORDS, *words])[0])
    assert recipe.mix.stages["cpt"].samples == 7
    assert recipe.judge.near_duplicates is not None
    assert recipe.judge.near_duplicates.bands == 9
    assert (recipe.licence, recipe.name) == ("MIT", "7")
    assert recipe_of({"config": "terminal", "judge__near_duplicates": "null"}).judge.near_duplicates is None


@pytest.mark.parametrize("stage", STAGES)
def test_a_specification_is_what_the_service_takes(stage):
    dataflow = pytest.importorskip("google.cloud.dataflow", reason="the extra dataflow is not installed: make dataflow")
    spec = dataflow.ContainerSpec.from_json(json.dumps(specification(stage, MADE)))
    assert spec.image == spec.default_environment.sdk_container_image == MADE
    assert spec.sdk_info.language == dataflow.SDKInfo.Language.PYTHON
    assert len(spec.metadata.parameters) == len(parameters(stage))
    needed = [one.name for one in spec.metadata.parameters if not one.is_optional]
    assert needed == ["stage", "config", "raw", "out"]
    assert spec.metadata.parameters[0].regexes == [f"^{stage}$"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    return folder, build(str(folder), MADE, LAUNCHER)


def test_what_is_built_is_whole_and_the_same_each_time(built, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "one.ftz").write_bytes(b"model")
    again = build(str(tmp_path / "out"), MADE, LAUNCHER, [str(tmp_path / "models")])
    assert {*again.names} == {*built[1].names, "context/files/models/one.ftz"}
    for name in built[1].names:
        assert (tmp_path / "out" / name).read_bytes() == (built[0] / name).read_bytes()
    context = tmp_path / "out" / "context"
    assert (context / "files" / "models" / "one.ftz").read_bytes() == b"model"
    assert (context / "requirements.txt").read_bytes() == (ROOT / "requirements" / "dataflow.txt").read_bytes()
    (wheel,) = context.glob("*.whl")
    names = zipfile.ZipFile(BytesIO(wheel.read_bytes())).namelist()
    assert {"pipelines/run.py", "pipelines/configs/android.yaml", "pipelines/deploy/dataflow/Dockerfile"} <= set(names)
    assert "pipelines/deploy/dataflow/requirements.txt" in names


def test_a_dockerfile_takes_what_the_context_holds_and_the_sdk_that_is_locked(built):
    steps = read_dockerfile((built[0] / "context" / "Dockerfile").read_text())
    told = dict(one.rest.partition("=")[::2] for one in steps if one.word == "ARG")
    assert told["BEAM"] == version("apache-beam")
    assert [one.rest for one in steps if one.word == "FROM"] == [
        "${LAUNCHER} AS launcher",
        "apache/beam_python${PYTHON}_sdk:${BEAM}",
    ]
    copied = {one.rest.split()[0] for one in steps if one.word == "COPY" and not one.flags}
    there = {name.split("/")[1] for name in built[1].names if name.startswith("context/")}
    assert copied == there - {"Dockerfile"}
    assert f"trajmill-{PROGRAM_VERSION}-py3-none-any.whl" in copied
    installs = [one.rest for one in steps if one.word == "RUN" and "pip" in one.rest]
    assert all("--require-hashes" in one or "--no-deps" in one for one in installs)
    assert steps[-1].rest == '["/opt/apache/beam/boot"]'


def test_templates_are_written_to_a_bucket_and_the_commands_fetch_the_context(tmp_path):
    memory = fsspec.filesystem("memory")
    built = build("memory://templates/of-mine", MADE, LAUNCHER)
    assert {name.removeprefix("/templates/of-mine/") for name in memory.find("/templates/of-mine")} == set(built.names)
    assert [one[:2] for one in built.commands] == [("gcloud", "storage"), ("docker", "build"), ("docker", "push")]
    assert built.commands[1][-1] == "context"
    memory.store.clear()


@pytest.mark.parametrize("image", ["trajmill", "", "a b:1"])
def test_an_image_without_a_tag_is_refused_before_anything_is_written(image, tmp_path):
    with pytest.raises(ConfigError, match="names no image"):
        build(str(tmp_path / "out"), image, LAUNCHER)
    with pytest.raises(ConfigError, match="names no image"):
        build(str(tmp_path / "out"), MADE, image)
    with pytest.raises(ConfigError, match="no-such"):
        build(str(tmp_path / "out"), MADE, LAUNCHER, ["no-such"])
    assert not (tmp_path / "out").exists()


def test_commands_are_run_only_where_all_programs_are_there_and_each_is_told_first(built, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="docker"):
        list(run_commands(built[1]))
    program = tmp_path / "docker"
    program.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/called\n[ "$1" != push ]\n')
    program.chmod(0o755)
    told: list[str] = []
    with pytest.raises(ShardError, match="docker push"):
        told.extend(" ".join(one[:2]) for one in run_commands(built[1]))
    assert (tmp_path / "called").read_text() == "build\npush\n"


class Google:
    """Both clients of the service: launches templates, and tells of jobs, each of which took half an hour."""

    NEXT: tuple[str, ...] = ("judge", "mix", "mix", "finish", NOTHING)

    def __init__(self, state="JOB_STATE_DONE"):
        self.requests, self.asked, self.state = [], 0, state

    def launch_flex_template(self, request):
        self.requests.append(request.launch_parameter)
        return SimpleNamespace(job=SimpleNamespace(id=f"job-{len(self.requests)}"))

    def get_job(self, request):
        assert request.job_id == f"job-{len(self.requests)}"
        self.asked += 1
        state = "JOB_STATE_RUNNING" if self.asked % 2 else self.state
        begun = datetime(2026, 1, 1, tzinfo=UTC)
        labels = {NEXT: self.NEXT[len(self.requests) - 1]}
        return SimpleNamespace(
            current_state=SimpleNamespace(name=state),
            labels=labels,
            create_time=begun,
            current_state_time=begun + timedelta(minutes=30),
        )


@pytest.fixture
def templates(monkeypatch):
    """The templates of a bucket, of which only the image is read."""
    pytest.importorskip("google.cloud.dataflow", reason="the extra dataflow is not installed: make dataflow")
    monkeypatch.setattr(Templates, "_image", lambda _: MADE)

    def made(google, *words):
        flags = [one for one in FLAGS if IMAGE not in one]
        return Templates("gs://b/templates", [*WORDS, *flags, *words], (google, google), lambda _: None)

    return made


def test_templates_are_launched_one_after_the_other_as_labels_tell(templates):
    google = Google()
    done = templates(google, "--service_account_email=a@b.c").run()
    stages = [one.stage for one in done]
    assert stages == ["normalize", "judge", "mix", "mix", "finish"]
    paths = [one.container_spec_gcs_path for one in google.requests]
    assert paths == [f"gs://b/templates/{stage}/template.json" for stage in stages]
    assert [float(one.parameters["spent_hours"]) for one in google.requests] == [0.0, 0.5, 1.0, 1.5, 2.0]
    for one, stage in zip(google.requests, stages, strict=True):
        assert one.parameters["stage"] == stage
        assert one.parameters["config"] == "terminal"
        assert one.environment.max_workers == one.environment.num_workers == 2
        assert one.environment.sdk_container_image == MADE
        assert one.environment.service_account_email == "a@b.c"
        taken([f"--{name}={value}" for name, value in one.parameters.items()])


def test_a_job_that_fails_ends_the_chain(templates):
    google = Google("JOB_STATE_FAILED")
    with pytest.raises(ShardError, match="job-1 of normalize"):
        templates(google).run()
    assert len(google.requests) == 1


@pytest.mark.parametrize("wrong", ["--config=no-such", "--mix__seed=x", "--max_hours=0", "--region=x"])
def test_nothing_is_launched_with_parameters_that_are_wrong(templates, wrong):
    google = Google()
    with pytest.raises(ConfigError):
        templates(google, wrong).run()
    assert not google.requests


def test_a_folder_that_is_no_bucket_or_holds_no_templates_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(job_options, "is_installed", lambda: True)
    with pytest.raises(ConfigError, match="bucket"):
        Templates(str(tmp_path), WORDS)
    with pytest.raises(ConfigError, match="missing: --config"):
        Templates("gs://b/templates", WORDS[1:])


def workflow(google, asked):
    """Ours, over both clients."""

    def launch(projectId, location, body):  # noqa: N803 - the service's names
        told = body["launchParameter"]
        asked.append((projectId, location, told["environment"]))
        return {"job": {"id": google.launch_flex_template(SimpleNamespace(launch_parameter=told)).job.id}}

    def get(projectId, location, jobId, view):  # noqa: N803
        assert view == "JOB_VIEW_ALL"
        job = google.get_job(SimpleNamespace(job_id=jobId))
        times = {"createTime": job.create_time, "currentStateTime": job.current_state_time}
        told = {name: one.strftime("%Y-%m-%dT%H:%M:%SZ") for name, one in times.items()}
        return told | {"currentState": job.current_state.name, "labels": job.labels}

    service = "googleapis.dataflow.v1b3.projects.locations"
    calls: dict[str, Any] = {
        f"{service}.flexTemplates.launch": launch,
        f"{service}.jobs.get": get,
        "sys.sleep": lambda seconds: None,
    }
    return Workflow((deployed() / "workflow.yaml").read_text("utf-8"), calls)


ARGUMENTS = {
    "project": "p",
    "region": "r",
    "templates": "gs://b/templates",
    "parameters": {"config": "terminal"},
    "environment": {"tempLocation": "gs://b/tmp"},
}


def test_the_workflow_launches_the_same_templates_with_the_same_parameters():
    google, asked = Google(), list[Any]()
    assert workflow(google, asked).run(ARGUMENTS) == 2.5
    stages = ["normalize", "judge", "mix", "mix", "finish"]
    assert [one["containerSpecGcsPath"] for one in google.requests] == [
        f"gs://b/templates/{stage}/template.json" for stage in stages
    ]
    assert [one["parameters"] for one in google.requests] == [
        {"config": "terminal", "stage": stage, "spent_hours": str(spent)}
        for stage, spent in zip(stages, (0.0, 0.5, 1.0, 1.5, 2.0), strict=True)
    ]
    assert set(map(str, asked)) == {"('p', 'r', {'tempLocation': 'gs://b/tmp'})"}
    assert all(re.fullmatch("[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?", one["jobName"]) for one in google.requests)


def test_the_workflow_ends_with_the_job_that_fails():
    google = Google("JOB_STATE_CANCELLED")
    with pytest.raises(RaisedError, match="normalize ended as JOB_STATE_CANCELLED"):
        workflow(google, []).run(ARGUMENTS)
    assert len(google.requests) == 1


def test_the_workflow_ends_where_jobs_never_do():
    google = Google()
    google.NEXT = ("normalize",) * 20
    with pytest.raises(RaisedError, match="after 16 jobs"):
        workflow(google, []).run(ARGUMENTS)
    assert len(google.requests) == 16


def test_the_command_line_builds_templates_and_prints_what_is_left_to_do(tmp_path):
    code, said, _ = ran("template", "build", str(tmp_path), "--image", MADE, "--launcher", LAUNCHER)
    assert code == 0
    assert f"docker build --build-arg LAUNCHER={LAUNCHER} --tag {MADE} {tmp_path}/context" in said
    assert (tmp_path / "mix" / "metadata.json").is_file()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("template", "build", "OUT", "--image", "trajmill", "--launcher", LAUNCHER), "names no image"),
        (("template", "run", "OUT", *WORDS), "bucket"),
        (("template", "launch", "--stage=mix"), "missing: --config, --raw, --out"),
        (("run", "terminal", "--raw", "gs://b/raw", "--out", "OUT", "--max-cost", "1"), "not for local"),
        (("run", "terminal", "--raw", "gs://b/raw", "--out", "OUT", "--runner", "dataflow"), "--region"),
        (
            ("run", "terminal", "--raw", "gs://b/raw", "--out", "OUT", "--runner", "DataflowRunner", *FLAGS),
            "--max-hours",
        ),
    ],
)
def test_what_is_wrong_on_the_command_line_is_one_line_and_nothing_is_written(words, told, tmp_path, monkeypatch):
    monkeypatch.setattr(job_options, "is_installed", lambda: True)
    monkeypatch.delenv("CLOUDSDK_COMPUTE_REGION", raising=False)
    code, _, complained = ran(*(str(tmp_path / "out") if one == "OUT" else one for one in words))
    assert code == 1
    assert told in complained
    assert complained.count("\n") == 1
    assert not (tmp_path / "out").exists()
