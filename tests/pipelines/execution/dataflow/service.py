"""Dataflow as far as this machine can be it: it takes jobs, shows what was submitted, and works through them here.

What is stood in for are the calls that would leave this machine, by Beam's private names: a new Beam may call them
otherwise.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from trajmill.pipelines.execution.dataflow import jobs

FLAGS = (
    "--project=some-project",
    "--region=europe-west4",
    "--temp_location=gs://some-bucket/tmp",
    "--sdk_container_image=registry.example/trajmill:1",
)
"""What a job cannot do without."""


@dataclass
class Submitted:
    """A job as it was submitted.

    Attributes:
        job: the request's JSON.
        staged: name → bytes of what was staged for it.
        graph: the pipeline.
    """

    job: dict[str, Any]
    staged: dict[str, bytes]
    graph: Any

    @property
    def pool(self) -> dict[str, Any]:
        """The machines that it asks for."""
        (pool,) = self.job["environment"]["workerPools"]
        return pool

    def work(self) -> None:
        """Does what the graph says, in this process."""
        graph = beam_runner_api_pb2.Pipeline.FromString(self.graph.SerializeToString())
        for environment in graph.components.environments.values():
            environment.urn, environment.payload = python_urns.EMBEDDED_PYTHON, b""
            del environment.dependencies[:]
        FnApiRunner().run_via_runner_api(graph, PipelineOptions(["--runner=FnApiRunner"])).wait_until_finish()


@dataclass
class Service:
    """What was submitted, in order, and what is staged for the next one.

    Attributes:
        works: whether a job's work is done when it is submitted.
        work: does that.
        state: that jobs end in; an exception comes to who waits for one that does not end.
        buckets: that there are.
        cancelled: ids of jobs.
    """

    works: bool = True
    work: Callable[[Submitted], None] = Submitted.work
    state: str | type[BaseException] = "JOB_STATE_DONE"
    buckets: tuple[str, ...] = ("some-bucket",)
    jobs: list[Submitted] = field(default_factory=list)
    staged: dict[str, bytes] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)

    def stage_file(self, folder: str, name: str, stream: Any, *_: Any, **__: Any) -> None:
        self.staged[f"{folder}/{name}"] = stream.read()

    def submit(self, job: Any) -> Any:
        staged, self.staged = self.staged, {}
        (graph,) = (data for name, data in staged.items() if name.endswith("/pipeline.pb"))
        self.jobs.append(Submitted(json.loads(job.json()), staged, beam_runner_api_pb2.Pipeline.FromString(graph)))
        if self.works:
            self.work(self.jobs[-1])
        return SimpleNamespace(id=f"job-{len(self.jobs)}", current_state=2)  # it runs

    def poll(self, _: Any, result: Any, __: Any) -> None:
        if isinstance(self.state, str):
            assert result.state is not None  # which asks for it
        else:
            time.sleep(1)

    def sleep(self, _: float) -> None:
        if not isinstance(self.state, str):
            raise self.state

    def cancel(self, job: str) -> bool:
        self.cancelled.append(job)
        return True

    def ended(self, _: str) -> Any:
        from google.cloud import dataflow

        state = self.state if isinstance(self.state, str) else "JOB_STATE_RUNNING"
        return SimpleNamespace(id=f"job-{len(self.jobs)}", current_state=dataflow.JobState[state])


def put_in_place(patch: pytest.MonkeyPatch) -> Service:
    """The service, in the place of the calls to the real one."""
    from apache_beam.internal.gcp import auth
    from apache_beam.runners.dataflow import dataflow_runner
    from apache_beam.runners.dataflow.internal import apiclient

    service = Service()
    client = apiclient.DataflowApplicationClient
    patch.setattr(client, "submit_job_description", lambda _, job: service.submit(job))
    patch.setattr(client, "stage_file", lambda _, *words, **more: service.stage_file(*words, **more))
    patch.setattr(client, "get_job", lambda _, job: service.ended(job))
    patch.setattr(client, "list_messages", lambda *_, **__: ([], None))
    patch.setattr(client, "modify_job_state", lambda _, job, __: service.cancel(job))
    patch.setattr(dataflow_runner.DataflowRunner, "poll_for_job_completion", staticmethod(service.poll))
    patch.setattr(dataflow_runner, "time", SimpleNamespace(sleep=service.sleep))
    patch.setattr(GoogleCloudOptions, "validate", lambda *_: [])
    patch.setattr(auth, "get_service_credentials", lambda _: None)
    patch.setattr(apiclient, "get_service_credentials", lambda _: None)
    patch.setattr(apiclient, "create_storage_client", lambda *_: None)
    filesystem = SimpleNamespace(exists=lambda name: name in service.buckets)
    patch.setattr(jobs, "filesystem_of", lambda url: (filesystem, url))
    return service
