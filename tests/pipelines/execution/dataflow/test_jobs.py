"""Jobs of a run, as they would be submitted: caught where they would leave this machine, and done here."""

import re
import shutil

import fsspec
import pytest
from apache_beam.portability.api import beam_runner_api_pb2

from tests.conftest import ROOT
from tests.pipelines.execution.dataflow.service import FLAGS
from trajmill.pipelines.execution.dataflow import job_options
from trajmill.pipelines.execution.dataflow.job_options import TIME_LIMIT, Ceiling
from trajmill.pipelines.execution.dataflow.jobs import METER
from trajmill.pipelines.execution.engines import running
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.recipe.recipe_file import load_recipe, parse_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import ConfigError, ShardError

PART = 20_000
HOURS = Ceiling(hours=2)


def shards(url):
    memory, root = fsspec.filesystem("memory"), url.removeprefix("memory:/")
    return {path.removeprefix(f"{root}/"): memory.cat_file(path) for path in memory.find(f"{root}/shards")}


def of_local_run(made):
    return {str(path.relative_to(made)): path.read_bytes() for path in (made / "shards").rglob("*") if path.is_file()}


def run(bucket, flags=FLAGS, recipe=None, out="out", ceiling=HOURS):
    with running("dataflow", 8, flags, ceiling) as mine:
        execution = Execution(workers=8, beam=(*mine, *flags), part_bytes=PART)
        return Run(recipe or load_recipe("terminal"), [f"{bucket}/raw"], f"{bucket}/{out}", execution).run()


@pytest.fixture(scope="module")
def one_run(raw, made):
    """The jobs of a run, and the shards that they gave."""
    from tests.pipelines.execution.dataflow.conftest import filled_bucket, service_in_place

    with pytest.MonkeyPatch.context() as patch, filled_bucket(raw) as bucket:
        service = service_in_place(patch)
        run(bucket)
        yield service.jobs, shards(f"{bucket}/out")


def test_a_run_is_three_jobs_that_give_the_local_bytes(one_run, made):
    jobs, files = one_run
    assert len(jobs) == 3
    assert files == of_local_run(made)


def test_a_job_stages_its_graph_and_no_code(one_run):
    for job in one_run[0]:
        (name,) = job.staged
        assert name.startswith("gs://some-bucket/tmp/staging/")
        assert name.endswith("/pipeline.pb")
        assert len(job.staged[name]) < 500_000
        (environment,) = job.graph.components.environments.values()
        assert not environment.dependencies


def test_a_job_asks_for_the_image_the_machines_and_the_time_that_it_was_told(one_run):
    for job in one_run[0]:
        options = job.job["environment"]["sdkPipelineOptions"]["options"]
        (environment,) = job.graph.components.environments.values()
        payload = beam_runner_api_pb2.DockerPayload.FromString(environment.payload)
        assert payload.container_image == job.pool["workerHarnessContainerImage"] == "registry.example/trajmill:1"
        assert job.pool["numWorkers"] == job.pool["autoscalingSettings"]["maxNumWorkers"] == 2
        assert job.pool["autoscalingSettings"]["algorithm"] == "AUTOSCALING_ALGORITHM_NONE"
        assert (job.pool["machineType"], job.pool["diskSizeGb"]) == ("n2-standard-4", 50)
        assert job.pool["numThreadsPerWorker"] == 1
        assert job.pool["sdkHarnessContainerImages"][0]["useSingleCorePerContainer"]
        assert job.job["type"] == "JOB_TYPE_BATCH"
        assert re.fullmatch("trajmill-(partstotransitions|unitstoverdicts|unitstoshards)-[0-9a-f]{8}", job.job["name"])
        assert {"use_runner_v2", "use_multiple_sdk_containers"} <= set(job.job["environment"]["experiments"])
        (limit,) = job.job["environment"]["serviceOptions"]
        assert 7000 < int(limit.removeprefix(f"{TIME_LIMIT}=")) <= 7200
        assert options["save_main_session"] is False
        assert options["sdk_location"] == "container"


def test_the_jobs_are_those_of_the_stages(one_run):
    steps = [{transform.unique_name for transform in job.graph.components.transforms.values()} for job in one_run[0]]
    tops = [{name.partition("/")[0] for name in names if name and "ref_" not in name} for names in steps]
    assert all({"Work", "See", "Take"} <= names for names in tops)
    assert [sorted(names - {"Work", "See", "Take"}) for names in tops] == [
        ["PartsToTransitions"],
        ["UnitsToVerdicts"],
        ["UnitsToShards"],
    ]


@pytest.mark.parametrize("wrong", ["--region=nowhere", "--temp_location=/tmp", "--no_such_flag=1", "--num_workers=x"])
def test_an_option_that_is_wrong_is_refused_before_anything_is_written(bucket, service, wrong):
    with pytest.raises(ConfigError):
        run(bucket, (*FLAGS, wrong))
    assert not service.jobs
    assert not fsspec.filesystem("memory").find("/bucket/out")


def test_a_bucket_that_is_not_there_is_told_before_anything_is_written(bucket, service):
    with pytest.raises(ConfigError, match="other-bucket"):
        run(bucket, (*FLAGS, "--temp_location=gs://other-bucket/tmp"))
    assert not fsspec.filesystem("memory").find("/bucket/out")


def test_what_workers_elsewhere_do_not_see_is_refused_before_anything_is_written(bucket, service, raw, tmp_path):
    with running("dataflow", 8, FLAGS, HOURS) as mine:
        execution = Execution(beam=(*mine, *FLAGS))
        for raws, out in (([str(raw)], f"{bucket}/out"), ([f"{bucket}/raw"], str(tmp_path / "out"))):
            with pytest.raises(ConfigError):
                Run(load_recipe("terminal"), raws, out, execution).run()
    templates = tmp_path / "templates"
    shutil.copytree(ROOT / "configs" / "templates" / "terminal", templates / "terminal")
    text = f"{{extends: terminal, name: n, source: s, mix: {{templates: {templates}}}}}"
    with pytest.raises(ConfigError, match=templates):
        run(bucket, recipe=parse_recipe(text, "recipe"))
    assert not (tmp_path / "out").exists()
    assert not fsspec.filesystem("memory").find("/bucket/out")


def test_a_run_that_may_cost_too_much_is_refused_before_anything_is_written(bucket, service):
    with pytest.raises(ConfigError):
        run(bucket, ceiling=Ceiling(hours=10, cost=1, price=0.3))
    assert not fsspec.filesystem("memory").find("/bucket/out")


def test_a_run_ends_where_its_time_is_used_up_and_what_is_done_is_kept(bucket, service, monkeypatch):
    with running("dataflow", 8, FLAGS, HOURS) as mine:
        monkeypatch.setattr(METER, "_taken", 6900.0)
        with pytest.raises(ShardError):
            Run(load_recipe("terminal"), [f"{bucket}/raw"], f"{bucket}/out", Execution(beam=(*mine, *FLAGS))).run()
    assert not service.jobs


def test_a_job_that_fails_ends_the_run_and_the_next_one_goes_on(bucket, service, made):
    service.state = "JOB_STATE_FAILED"
    with pytest.raises(ShardError):
        run(bucket)
    service.state = "JOB_STATE_DONE"
    run(bucket)
    assert len(service.jobs) == 3  # the first of which had done its work, whatever became of it
    assert shards(f"{bucket}/out") == of_local_run(made)


@pytest.mark.parametrize("meets", [KeyboardInterrupt, OSError])
def test_a_run_that_ends_before_its_job_cancels_that(bucket, service, meets):
    service.works, service.state = False, meets
    with pytest.raises(meets):
        run(bucket)
    assert service.cancelled == ["job-1"]


def test_a_job_that_nobody_tells_of_any_more_is_cancelled(bucket, service):
    service.works, service.state = False, "JOB_STATE_RUNNING"
    with pytest.raises(ShardError):
        run(bucket)
    assert service.cancelled == ["job-1"]


def test_a_run_with_passages_is_five_jobs(bucket, service):
    row = '{"text": "A long tale of number %d, told in words that no other one has: %d."}\n'
    tales = "".join(row % (number, number**7) for number in range(9))
    fsspec.filesystem("memory").pipe_file("/bucket/tales/one.jsonl", tales.encode())
    passages = "[{name: tales, kind: text, licence: MIT, path: 'memory://bucket/tales/one.jsonl'}]"
    drawn = "{cpt: {components: {trajectories: {}, tales: {kind: text}}}}"
    text = f"{{extends: terminal, name: n, source: s, mix: {{passages: {passages}, stages: {drawn}}}}}"
    run(bucket, recipe=parse_recipe(text, "recipe"))
    assert len(service.jobs) == 5
    assert any("/cpt/" in name for name in shards(f"{bucket}/out"))


def test_without_the_packages_nothing_is_written(bucket, monkeypatch):
    monkeypatch.setattr(job_options, "is_installed", lambda: False)
    with pytest.raises(ConfigError, match="dataflow"):
        run(bucket)
    assert not fsspec.filesystem("memory").find("/bucket/out")
