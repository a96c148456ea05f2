"""Launching templates by Google's API: one of them, or one after the other until the run is finished."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trajmill.app.cli.flex_templates.launching import NEXT, NOTHING, ceiling_of, recipe_of, workers_of
from trajmill.app.cli.flex_templates.parameters import STAGES, taken
from trajmill.pipelines.execution.dataflow.job_options import job_flags, options_of
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.paths import url_of
from trajmill.schemas import ConfigError, ShardError

_PERIOD_S: Final = 30.0
_MOST_JOBS: Final = 16
_ENDED: Final = ("JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_DRAINED", "JOB_STATE_UPDATED")
_DONE: Final = "JOB_STATE_DONE"


@dataclass(frozen=True, slots=True)
class Job:
    """A job that was launched.

    Attributes:
        stage: whose template it is of.
        id: of the service.
        hours: that it took; 0 where nobody waited.
    """

    stage: str
    id: str
    hours: float = 0.0


class Templates:
    """The templates of a folder, and what they are launched with.

    Args:
        folder: that `trajmill template build` wrote, a URL.
        words: `--name=value` of parameters, and Beam's flags.
        clients: of the service: that launches templates, and that knows jobs; Google's by default.
        sleep: waits some seconds.

    Raises:
        ConfigError: packages, the folder, parameters or options are missing or wrong; nothing was launched.
    """

    def __init__(
        self,
        folder: str,
        words: Sequence[str],
        clients: tuple[Any, Any] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if url_of(folder) is None or not folder.startswith("gs://"):
            raise ConfigError(
                f"Templates are launched from a bucket, which '{folder}' is not: wanted gs://bucket/folder."
            )
        self.folder, self._sleep = folder.rstrip("/"), sleep
        self.found, flags = taken([f"--stage={STAGES[0]}", *words])
        recipe_of(self.found)
        image = self._image()
        named = [*flags, f"--sdk_container_image={image}"]
        self._options = options_of([*job_flags(named, workers_of(self.found), ceiling_of(self.found)), *named])
        self._clients = clients

    def _image(self) -> str:
        name = f"{STAGES[0]}/template.json"
        try:
            image = json.loads(Folder(self.folder).read(name))["image"]
        except (ShardError, ValueError, KeyError) as error:
            raise ConfigError(
                f"There is no template at {self.folder}/{name}; trajmill template build writes it."
            ) from error
        return str(image)

    def request(self, stage: str, spent: float = 0.0) -> dict[str, Any]:
        """What the service is asked for to launch a stage, after jobs that took so many hours."""
        options = self._options
        parameters = self.found | {"stage": stage, "spent_hours": f"{spent:.4f}"}
        parameters["sdk_container_image"] = options["sdk_container_image"]
        environment = {
            "temp_location": options["temp_location"],
            "staging_location": options["staging_location"],
            "machine_type": options["machine_type"],
            "num_workers": options["num_workers"],
            "max_workers": options["max_num_workers"],
            "sdk_container_image": options["sdk_container_image"],
        }
        more = ("service_account_email", "network", "subnetwork", "worker_region", "worker_zone")
        environment |= {name: options[name] for name in more if options[name]}
        launched = {
            "job_name": f"trajmill-{stage}-{int(time.time())}",
            "container_spec_gcs_path": f"{self.folder}/{stage}/template.json",
            "parameters": parameters,
            "environment": environment,
        }
        return {"project_id": options["project"], "location": options["region"], "launch_parameter": launched}

    def launch(self, stage: str, spent: float = 0.0) -> Job:
        """Launches the template of a stage, after jobs that took so many hours."""
        from google.cloud import dataflow

        request = dataflow.LaunchFlexTemplateRequest(self.request(stage, spent))
        return Job(stage, str(self._clients_of()[0].launch_flex_template(request=request).job.id))

    def run(self, tell: Callable[[Job], None] = lambda _: None) -> list[Job]:
        """Launches one template after the other until the run is finished, each after the job of the one before.

        Args:
            tell: is called with each job when it is launched.

        Raises:
            ShardError: a job failed, or was cancelled.
        """
        done: list[Job] = []
        stage = STAGES[0]
        while stage != NOTHING:
            if len(done) == _MOST_JOBS:
                raise ShardError(f"There is still work to do after {_MOST_JOBS} jobs")
            job = self.launch(stage, sum(one.hours for one in done))
            tell(job)
            ended = self._ended(job)
            hours = (ended.current_state_time - ended.create_time).total_seconds() / 3600
            done.append(Job(stage, job.id, hours))
            stage = dict(ended.labels).get(NEXT, "")
            if stage not in (*STAGES, NOTHING):
                raise ShardError(f"The job {job.id} does not tell what follows it")
        return done

    def _ended(self, job: Job) -> Any:
        from google.cloud import dataflow

        request = dataflow.GetJobRequest(
            project_id=self._options["project"],
            location=self._options["region"],
            job_id=job.id,
            view=dataflow.JobView.JOB_VIEW_ALL,
        )
        while True:
            found = self._clients_of()[1].get_job(request=request)
            if found.current_state.name == _DONE:
                return found
            if found.current_state.name in _ENDED:
                raise ShardError(f"The job {job.id} of {job.stage} ended as {found.current_state.name}")
            self._sleep(_PERIOD_S)

    def _clients_of(self) -> tuple[Any, Any]:
        if self._clients is None:
            from google.cloud import dataflow

            self._clients = dataflow.FlexTemplatesServiceClient(), dataflow.JobsV1Beta3Client()
        return self._clients
