import os
import subprocess
import sys
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import StandardOptions

from trajmill.pipelines.execution.execution import IN_PROCESS, LOCAL, Execution
from trajmill.pipelines.execution.runner import run_over
from trajmill.schemas import ConfigError
from trajmill.schemas.manifest import Manifest


def test_beam_runs_only_where_it_is_asked_for():
    assert Execution(workers=2).runner == LOCAL
    assert Execution(beam=("--experiments=a",)).options().view_as(StandardOptions).runner == IN_PROCESS
    assert Execution(beam=("--experiments=a",)).is_local


def test_flags_go_to_beam_and_win():
    execution = Execution(beam=("--runner=FlinkRunner", "--flink_master=localhost:8081"))
    assert execution.options().view_as(StandardOptions).runner == "FlinkRunner"
    assert not execution.is_local


@pytest.mark.parametrize("flag", ["--no_such_flag=1", "--runner=FnApiRuner", "--runner=PrismRunner"])
def test_a_flag_that_nobody_knows_is_refused(flag):
    with pytest.raises(ConfigError):
        Execution(beam=(flag,)).options()


def test_beams_runner_in_this_process_takes_no_workers():
    with pytest.raises(ConfigError):
        Execution(2, (f"--runner={IN_PROCESS}",)).options()


def note_process(number: int, folder: str) -> None:
    Path(folder, f"{os.getpid()}-{number}").touch()


def test_beams_runner_works_in_this_process(tmp_path):
    run_over([1, 2], beam.Map(note_process, str(tmp_path)), Execution())
    assert {path.name for path in tmp_path.iterdir()} == {f"{os.getpid()}-1", f"{os.getpid()}-2"}


def made(number: int) -> Manifest:
    return Manifest(
        "normalize", f"part-{number}", "", "", counts={"trajectories": number, "rejected.record.bad_json": 1}
    )


def test_an_engine_counts_what_manifests_count(monkeypatch):
    results = []
    begun = beam.Pipeline.run

    def run(self, *more):
        results.append(begun(self, *more))
        return results[-1]

    monkeypatch.setattr(beam.Pipeline, "run", run)
    run_over([2, 3], beam.Map(made), Execution())
    (result,) = results
    counters = {
        (one.key.metric.namespace, one.key.metric.name): one.committed for one in result.metrics().query()["counters"]
    }
    assert counters == {("normalize", "trajectories"): 5, ("normalize", "rejected.record.bad_json"): 2}


def test_nothing_is_run_over_nothing():
    run_over([], beam.Map(lambda _: 1 / 0), Execution())


def test_a_worker_that_no_engine_starts_says_so():
    command = [sys.executable, "-m", "trajmill.pipelines.beam_worker"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--provision_endpoint" in done.stderr
