from types import SimpleNamespace

import pytest

from tests.app.cli.test_cli import ran
from tests.pipelines.execution.dataflow.service import FLAGS
from trajmill.pipelines.execution.dataflow import job_options
from trajmill.pipelines.execution.dataflow.job_options import (
    TIME_LIMIT,
    Ceiling,
    Meter,
    cores_of,
    job_flags,
    options_of,
    time_limit,
)
from trajmill.pipelines.execution.execution import Execution
from trajmill.schemas import ConfigError, ShardError

HOURS = Ceiling(hours=2)


@pytest.fixture(autouse=True)
def _installed(monkeypatch):
    monkeypatch.setattr(job_options, "is_installed", lambda: True)


def flags_of(*flags, workers=8, ceiling=HOURS, variables=None):
    return options_of([*job_flags(flags, workers, ceiling, variables or {}), *flags])


def test_a_process_does_one_element_at_a_time_on_a_fixed_number_of_machines():
    options = flags_of(*FLAGS)
    assert options["number_of_worker_harness_threads"] == 1
    assert options["autoscaling_algorithm"] == "NONE"
    assert options["num_workers"] == options["max_num_workers"] == 2
    assert options["machine_type"] == "n2-standard-4"
    assert options["staging_location"] == "gs://some-bucket/tmp/staging"
    assert options["dataflow_service_options"] == [f"{TIME_LIMIT}=7200"]


@pytest.mark.parametrize(
    ("given", "machines"),
    [
        ((), 3),
        (("--machine_type=e2-highmem-2",), 5),
        (("--machine_type=n2-custom-8-65536",), 2),
        (("--num_workers=7",), 7),
    ],
)
def test_so_many_machines_are_taken_as_have_cores_for_the_workers(given, machines):
    assert flags_of(*FLAGS, *given, workers=9)["num_workers"] == machines


def test_what_is_given_wins():
    options = flags_of(
        *FLAGS, "--disk_size_gb=200", "--number_of_worker_harness_threads=2", "--staging_location=gs://abc/s"
    )
    assert (options["disk_size_gb"], options["number_of_worker_harness_threads"]) == (200, 2)
    assert options["staging_location"] == "gs://abc/s"


def test_what_is_not_given_is_found_in_the_environment():
    variables = {
        "GOOGLE_CLOUD_PROJECT": "of-the-environment",
        "CLOUDSDK_COMPUTE_REGION": "us-east1",
        "TRAJMILL_DATAFLOW_TEMP": "gs://bucket/tmp",
        "TRAJMILL_DATAFLOW_IMAGE": "registry.example/trajmill@sha256:" + "0" * 64,
    }
    options = flags_of("--region=europe-west4", variables=variables)
    assert (options["project"], options["region"], options["temp_location"]) == (
        "of-the-environment",
        "europe-west4",
        "gs://bucket/tmp",
    )


def test_everything_that_is_missing_is_told_at_once():
    with pytest.raises(ConfigError) as error:
        flags_of()
    assert all(name in str(error.value) for name in ("project", "region", "temp_location", "sdk_container_image"))


@pytest.mark.parametrize(
    "wrong",
    [
        "--project=Capitals", "--region=europe", "--temp_location=/tmp", "--temp_location=gs://",
        "--sdk_container_image=trajmill", "--staging_location=s3://bucket", "--streaming", "--machine_type=e2-medium",
        "--num_workers=many",
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ConfigError, match=wrong.partition("=")[0].lstrip("-")):
        flags_of(*FLAGS, wrong)


def test_packages_that_are_missing_are_told_with_what_installs_them(monkeypatch):
    monkeypatch.setattr(job_options, "is_installed", lambda: False)
    with pytest.raises(ConfigError, match="dataflow"):
        flags_of(*FLAGS)


def test_a_machine_tells_its_cores():
    assert [cores_of(kind) for kind in ("n2-standard-4", "e2-highcpu-16", "custom-2-4096", "c3-standard-8-lssd")] == [
        4, 16, 2, 8,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ceiling", "seconds"),
    [
        (Ceiling(hours=2), 7200),
        (Ceiling(cost=6.0, price=0.5), 4 * 3600),
        (Ceiling(hours=1, cost=6.0, price=0.5), 3600),
    ],
)
def test_jobs_may_take_what_hours_and_cost_allow(ceiling, seconds):
    assert ceiling.seconds(machines=3) == seconds


@pytest.mark.parametrize(
    ("ceiling", "told"),
    [
        (Ceiling(), "--max-hours"),
        (Ceiling(cost=5.0), "--price"),
        (Ceiling(hours=5, cost=6.0, price=0.5), "7.50"),
        (Ceiling(cost=0.1, price=0.5), "4"),
        (Ceiling(hours=0.1), "6"),
    ],
)
def test_no_limit_and_more_than_the_limit_are_refused(ceiling, told):
    with pytest.raises(ConfigError, match=told):
        ceiling.seconds(machines=3)


def test_later_jobs_have_what_earlier_ones_left(monkeypatch):
    clock = iter((0.0, 3000.0, 5000.0, 9000.0))
    monkeypatch.setattr(job_options, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    meter = Meter()
    with meter.running():
        pass
    assert meter.left(7200) == 4200
    with meter.running():
        pass
    with pytest.raises(ShardError, match=r"2\.0"):
        meter.left(7200)
    meter.reset()
    assert meter.left(7200) == 7200


def test_the_least_of_several_limits_holds():
    flags = (*job_flags(FLAGS, 1, HOURS, {}), *FLAGS, f"--dataflow_service_options={TIME_LIMIT}=99999")
    assert time_limit(Execution(beam=flags).options()) == 7200


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--max-cost", "1"), "not for local"),
        (("--runner", "dataflow"), "--region"),
        (("--runner", "DataflowRunner", *FLAGS), "--max-hours"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_one_line_and_nothing_is_written(words, told, tmp_path, monkeypatch):
    monkeypatch.delenv("CLOUDSDK_COMPUTE_REGION", raising=False)
    code, _, complained = ran("run", "terminal", "--raw", "gs://b/raw", "--out", str(tmp_path / "out"), *words)
    assert code == 1
    assert told in complained
    assert complained.count("\n") == 1
    assert not (tmp_path / "out").exists()
