"""Engines by name: their requirements on this machine, and the options for Beam while they run.

`local` is this machine, without Beam. Flink uses Beam's portable protocol, and its workers are processes of
`pipelines.beam_worker`. Processes that are started here end with the command that started them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from trajmill.pipelines.execution.dataflow.job_options import RUNNER as DATAFLOW_RUNNER
from trajmill.pipelines.execution.dataflow.job_options import Ceiling, job_flags
from trajmill.pipelines.execution.dataflow.job_options import is_installed as is_dataflow_installed
from trajmill.pipelines.execution.dataflow.jobs import METER
from trajmill.pipelines.execution.execution import RUNNERS, require_answer
from trajmill.pipelines.execution.flink.cluster import TASK_MANAGERS, FlinkServers
from trajmill.pipelines.execution.flink.cluster import missing as missing_of_flink
from trajmill.pipelines.storage.scratch import scratch_folder
from trajmill.schemas import ConfigError

ENGINES: Final = ("local", "flink", "dataflow")
WORKER: Final = "trajmill-worker"
FLINK_MASTER: Final = "FLINK_MASTER"
_QUIET: Final = "--experiments=disable_logging_submission_environment"
"""Option that keeps Beam from listing the packages of this environment by a program that may be missing."""
_HANDED_ON: Final = "--execution_mode_for_batch=PIPELINED_FORCED"
"""Option for the data exchange of batch jobs.

By default, Flink materializes the output of a step with several consumers wherever one of them might have to wait for
another. Each such exchange needs 512 buffers, more than Flink's default memory holds for the dozens of them in judging.
No consumer waits here: side inputs are used beside grouped elements, and grouping consumes all its input.
"""


def lacks(name: str) -> tuple[str, ...]:
    """Return the programs and packages that the engine needs and that are missing here."""
    if name == "dataflow":
        return () if is_dataflow_installed() else ("the packages of trajmill[dataflow]",)
    return missing_of_flink() if name == "flink" else ()


@contextmanager
def running(
    name: str, workers: int = 1, user_flags: Sequence[str] = (), ceiling: Ceiling | None = None
) -> Iterator[tuple[str, ...]]:
    """Run the engine within the block; yield flags for Beam's options.

    Args:
        name: one of `ENGINES`; any other name is taken for a runner of Beam, which starts by itself.
        workers: number of processes that work at once; ignored by the local runner.
        user_flags: flags for Beam's options that are added and take precedence.
        ceiling: limits of cost and time, for an engine with rented machines.

    Raises:
        ConfigError: a requirement is missing, or a ceiling is given for an engine without cost.
        ShardError: a started process is not ready in time.
    """
    if name in ("dataflow", DATAFLOW_RUNNER):
        flags = job_flags(user_flags, workers, ceiling or Ceiling())
        METER.reset()
        yield flags
        return
    if ceiling is not None and ceiling != Ceiling():
        raise ConfigError(f"--max-cost, --max-hours and --price are for --runner dataflow, not for {name}.")
    if name == "local":
        yield ()
        return
    if name not in (*ENGINES, *RUNNERS):
        raise ConfigError(
            f"There is no runner '{name}'; there are: {', '.join(ENGINES)}; of Beam's {', '.join(RUNNERS)}."
        )
    if name in RUNNERS:
        yield (f"--runner={name}",)
        return
    with scratch_folder() as folder, _flink(Path(folder)) as endpoint:
        at_once = f"--parallelism={max(workers, TASK_MANAGERS)}"
        portable = "--runner=PortableRunner", f"--job_endpoint={endpoint}", _QUIET
        yield (*portable, *_boot(), at_once, "--sdk_worker_parallelism=1", _HANDED_ON)


def _boot() -> tuple[str, ...]:
    """Return the options of workers that an engine starts by itself: a command without arguments.

    Raises:
        ConfigError: the command is not installed beside this interpreter.
    """
    command = Path(sys.executable).with_name(WORKER)
    if not command.exists():
        raise ConfigError(f"{command} is missing. Install trajmill again.")
    return (
        "--environment_type=PROCESS",
        f"--environment_config={json.dumps({'command': str(command)})}",
        "--environment_cache_millis=300000",
    )


@contextmanager
def _flink(folder: Path) -> Iterator[str]:
    named = os.environ.get(FLINK_MASTER)
    if named:
        require_answer(named, "flink_master")
    with FlinkServers(folder) as servers:
        master = named or servers.start_cluster()
        endpoint = servers.start_job_server(master)
        servers.wait()
        yield endpoint
