"""Options of a Dataflow job: the given ones, and those that follow from how trajmill works.

An element is a part, which takes minutes but has a few bytes for the service. Each process of a machine therefore
handles one at a time, and the number of machines is fixed: the service estimates the remaining work by bytes, would see
no work for more than one machine, and would take machines away from long parts.

A run that may cost too much is refused before anything is submitted, and a time limit applies afterwards. The jobs of a
run share the limit: each receives the remaining time, after which the service itself cancels it, whether or not the
submitting process still exists.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from trajmill.schemas import ConfigError, ShardError

_HOUR_S: Final = 3600
_LEAST_S: Final = 600
"""Seconds below which no job is started, since its machines would be stopped right after their start."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Limits of cost and time for all jobs of a run together.

    Attributes:
        hours: hours of time; None for as many as the cost allows.
        cost: cost in the currency of the price; None for no limit.
        price: price of one machine for an hour, with its disk and the engine's fee.
    """

    hours: float | None = None
    cost: float | None = None
    price: float | None = None

    def seconds(self, machines: int) -> int:
        """Return the seconds that jobs on this many machines may take together.

        Raises:
            ConfigError: there is no limit, the price for a cost limit is missing, the hours exceed the cost, or the
                time is too short.
        """
        if self.hours is None and self.cost is None:
            raise ConfigError("A run on Dataflow needs a limit: --max-hours, or --max-cost with --price.")
        if self.cost is not None and not self.price:
            raise ConfigError("--max-cost needs --price: what one machine costs an hour, its disk and the fee with it.")
        seconds = float("inf") if self.hours is None else self.hours * _HOUR_S
        if self.cost is not None and self.price:
            hourly = self.price * machines
            worst = hourly * seconds / _HOUR_S
            if self.hours is not None and worst > self.cost:
                raise ConfigError(
                    f"{self.hours:g} hours on {machines} machines at {self.price:g} cost up to {worst:,.2f}, which is "
                    f"more than --max-cost {self.cost:g}. Take fewer hours or machines, or allow more."
                )
            seconds = min(seconds, self.cost / hourly * _HOUR_S)
        if seconds < _LEAST_S:
            raise ConfigError(
                f"The limit leaves {seconds / 60:.0f} minutes on {machines} machines, in which no job gets anywhere. "
                f"Allow at least {_LEAST_S // 60}."
            )
        return int(seconds)


class Meter:
    """Seconds that jobs of this process have taken since the last reset."""

    def __init__(self) -> None:
        self._taken = 0.0

    def reset(self) -> None:
        """Start again at 0."""
        self._taken = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time of the block."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self._taken += time.monotonic() - begun

    def left(self, seconds: int) -> int:
        """Return the rest of this many seconds.

        Raises:
            ShardError: the rest is too short to start a job.
        """
        left = int(seconds - self._taken)
        if left < _LEAST_S:
            raise ShardError(
                f"The time limit of {seconds / _HOUR_S:.1f} hours is used up: {left / 60:.0f} minutes are left. Allow "
                "more with --max-hours or --max-cost"
            )
        return left


RUNNER: Final = "DataflowRunner"
MACHINE: Final = "n2-standard-4"
"""Default machine type.

Each process has 4 GB there; with over 1 GB of logs in one part, the most demanding stage took 1 GB.
"""

DISK_GB: Final = 50
TIME_LIMIT: Final = "max_workflow_runtime_walltime_seconds"
"""Option of the service by which it cancels a job itself."""

VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "project": ("GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"),
    "region": ("CLOUDSDK_DATAFLOW_REGION", "CLOUDSDK_COMPUTE_REGION"),
    "temp_location": ("TRAJMILL_DATAFLOW_TEMP",),
    "sdk_container_image": ("TRAJMILL_DATAFLOW_IMAGE",),
}
"""Environment variables that replace options that are not given."""

_WANTED: Final[Mapping[str, str]] = {
    "project": "--project=ID",
    "region": "--region=us-central1",
    "temp_location": "--temp_location=gs://bucket/tmp",
    "sdk_container_image": "--sdk_container_image=IMAGE (as deploy/dataflow/launch.sh makes it)",
}
_SHAPES: Final = {
    "project": re.compile(r"(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{4,61}[a-z0-9]"),
    "region": re.compile(r"[a-z]+-[a-z]+\d+"),
    "temp_location": re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](?:/.*)?"),
    "staging_location": re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](?:/.*)?"),
    "sdk_container_image": re.compile(r"[a-z0-9][a-z0-9._:/-]*(?::[\w.-]+|@sha256:[0-9a-f]{64})", re.IGNORECASE),
    "service_account_email": re.compile(r"[^@\s]+@[^@\s]+"),
}
_CORES: Final = re.compile(r"[a-z0-9]+(?:-[a-z]+)*-(\d+)(?:-.*)?")
_QUIET: Final = "disable_logging_submission_environment"


def is_installed() -> bool:
    """Return True if the packages of the extra are installed."""
    try:
        return find_spec("google.cloud.dataflow") is not None and find_spec("gcsfs") is not None
    except ModuleNotFoundError:
        return False


def cores_of(machine: str) -> int:
    """Return the number of cores of a machine type, each of which works separately.

    Raises:
        ConfigError: its name does not contain the number.
    """
    match = _CORES.fullmatch(machine)
    if match is None:
        raise ConfigError(
            f"--machine_type={machine} does not tell how many cores that has; wanted one such as {MACHINE}."
        )
    return int(match[1])


def job_flags(
    user_flags: Sequence[str], workers: int, ceiling: Ceiling, variables: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the flags of jobs besides the given ones, which take precedence.

    Args:
        user_flags: flags of Beam, as on a command line.
        workers: number of processes that work at once, which gives the number of machines by their cores.
        ceiling: limits of cost and time.
        variables: environment variables; those of this process by default.

    Raises:
        ConfigError: packages are missing; or options are missing or not valid, all of which are reported; or the jobs
            may cost more than allowed.
    """
    if not is_installed():
        raise ConfigError("Dataflow needs packages that are not installed. Install trajmill[dataflow].")
    known = options_of(user_flags)
    known |= {
        name: from_environment
        for name in _WANTED
        if not known.get(name) and (from_environment := _variable(name, variables))
    }
    faults = [f"{_WANTED[name]} is missing" for name in _WANTED if not known.get(name)]
    faults += [
        f"--{name}={known[name]} is none such as {_WANTED.get(name, 'it should be')}"
        for name, shape in _SHAPES.items()
        if known.get(name) and not shape.fullmatch(str(known[name]))
    ]
    if known.get("streaming") or known.get("update"):
        faults.append("a run ends: --streaming and --update are for what does not")
    if faults:
        raise ConfigError(f"The options of Dataflow are not complete: {'; '.join(faults)}.")
    machine = known.get("machine_type") or MACHINE
    cores = cores_of(machine)
    machines = max(known.get("num_workers") or 0, known.get("max_num_workers") or 0) or -(-workers // cores)
    mine = {name: known[name] for name in _WANTED}
    mine |= {
        "staging_location": f"{mine['temp_location'].rstrip('/')}/staging",
        "machine_type": machine,
        "num_workers": machines,
        "max_num_workers": machines,
        "autoscaling_algorithm": "NONE",
        "disk_size_gb": DISK_GB,
        "number_of_worker_harness_threads": 1,
        "sdk_location": "container",
    }
    defaults = options_of([])
    chosen = tuple(
        f"--{name}={value}" for name, value in mine.items() if known[name] == defaults[name] or name in _WANTED
    )
    limit = f"--dataflow_service_options={TIME_LIMIT}={ceiling.seconds(machines)}"
    return (f"--runner={RUNNER}", *chosen, f"--experiments={_QUIET}", limit)


def _variable(name: str, variables: Mapping[str, str] | None) -> str:
    there = os.environ if variables is None else variables
    return next((there[variable] for variable in VARIABLES[name] if there.get(variable)), "")


def options_of(flags: Sequence[str]) -> dict[str, Any]:
    """Return the value of every option of Beam by name, from flags.

    Raises:
        ConfigError: a flag has no valid value.
    """
    from trajmill.pipelines.execution.beam_flags import parse_flags

    return dict(vars(parse_flags(flags)[0]))


def faults_of(options: Any, runner: Any) -> list[str]:
    """List the faults that Beam finds in options, without the checks that access or create resources in the cloud."""
    from apache_beam.options.pipeline_options import GoogleCloudOptions
    from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator

    validator = PipelineOptionsValidator(options, runner)
    faults = list(validator.validate_cloud_options(options.view_as(GoogleCloudOptions)))
    kinds = [kind for kind in validator.OPTIONS if kind is not GoogleCloudOptions and "validate" in vars(kind)]
    return faults + [fault for kind in kinds for fault in options.view_as(kind).validate(validator)]


def time_limit(options: Any) -> int | None:
    """Return the seconds after which the service cancels a job with these options; None for never."""
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    service_options = options.view_as(GoogleCloudOptions).dataflow_service_options or ()
    limits = [option.partition("=")[2] for option in service_options if option.partition("=")[0] == TIME_LIMIT]
    return min(map(int, limits)) if limits else None


def limit_to(options: Any, seconds: int) -> None:
    """Let the service cancel a job with these options after this many seconds."""
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    view = options.view_as(GoogleCloudOptions)
    other_options = [option for option in view.dataflow_service_options or () if option.partition("=")[0] != TIME_LIMIT]
    view.dataflow_service_options = [*other_options, f"{TIME_LIMIT}={seconds}"]
