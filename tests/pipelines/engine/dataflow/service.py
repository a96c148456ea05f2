"""Dataflow as far as this machine can be it: it takes jobs, shows what was submitted, and works through them here.

What is stood in for are the calls that would leave this machine, by Beam's private names: a new Beam may call them
otherwise.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest
from apache_beam.internal.gcp import auth
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from pipelines.engine.dataflow import jobs

FLAGS = (
    "--project=some-project",
    "--region=europe-west4",
    "--temp_location=gs://some-bucket/tmp",
    "--sdk_container_image=registry.example/trajmill:1",
)
"""What a job cannot do without."""

DONE = 3
"""The service's number for a job that is done."""


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
    """What was submitted, in order; `works` says whether it is done at once."""

    works: bool = True
    buckets: tuple[str, ...] = ("some-bucket",)
    jobs: list[Submitted] = field(default_factory=list)
    staged: dict[str, bytes] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)

    def stage_file(self, folder: str, name: str, stream: Any, *__: Any, **___: Any) -> None:
        self.staged[f"{folder}/{name}"] = stream.read()

    def submit(self, client: Any, job: Any) -> Any:
        staged, self.staged = self.staged, {}
        (graph,) = (data for name, data in staged.items() if name.endswith("/pipeline.pb"))
        made = Submitted(json.loads(job.json()), staged, beam_runner_api_pb2.Pipeline.FromString(graph))
        self.jobs.append(made)
        if self.works:
            made.work()
        return SimpleNamespace(id=f"job-{len(self.jobs)}", current_state=DONE)


def put_in_place(patch: pytest.MonkeyPatch) -> Service:
    """The service, in the place of the calls to the real one."""
    from apache_beam.runners.dataflow.internal import apiclient

    service = Service()
    client = apiclient.DataflowApplicationClient
    patch.setattr(client, "submit_job_description", lambda self, job: service.submit(self, job))
    patch.setattr(client, "stage_file", service.stage_file)
    patch.setattr(client, "get_job", lambda self, _: SimpleNamespace(id="job", current_state=DONE))
    patch.setattr(GoogleCloudOptions, "validate", lambda self, _: [])
    patch.setattr(auth, "get_service_credentials", lambda _: None)
    patch.setattr(apiclient, "get_service_credentials", lambda _: None)
    patch.setattr(apiclient, "create_storage_client", lambda *_: None)
    there = SimpleNamespace(exists=lambda name: name in service.buckets)
    patch.setattr(jobs, "filesystem_of", lambda url: (there, url))
    return service


@contextmanager
def folder_in_memory() -> Any:
    """The URL of a folder that every thread of this process sees, and no machine has."""
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    yield "memory://bucket"
    memory.store.clear()
