"""Engines by name: what each needs on this machine, and the options for Beam while it runs.

`local` is this machine, without Beam; Flink speaks Beam's portable protocol, and its workers are processes of
`pipelines.beam_worker`. What is started here ends with the command that started it.
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
"""Beam would else list the packages of this environment by a program that need not be there."""
_HANDED_ON: Final = "--execution_mode_for_batch=PIPELINED_FORCED"
"""Flink else keeps what one step hands to several until all of it is there, wherever one of them might have to wait for
another; each such place wants 512 buffers, more than Flink's default memory holds for the dozens of judging. Here none
waits: what a step is told whole comes beside elements that were grouped, and grouping takes in all there is."""


def lacks(name: str) -> tuple[str, ...]:
    """Programs and packages that the engine needs and that are not here."""
    if name == "dataflow":
        return () if is_dataflow_installed() else ("the packages of trajmill[dataflow]",)
    return missing_of_flink() if name == "flink" else ()


@contextmanager
def running(
    name: str, workers: int = 1, user_flags: Sequence[str] = (), ceiling: Ceiling | None = None
) -> Iterator[tuple[str, ...]]:
    """Run the engine while the block lasts; yield flags for Beam's options.

    Args:
        name: one of `ENGINES`; any other is taken for one of Beam's runners, which is left to start by itself.
        workers: processes that work at once; the local runner's are another's matter.
        user_flags: flags for Beam's options that are added to these, and win.
        ceiling: what the run may cost, where machines are rented for it.

    Raises:
        ConfigError: something is missing, or a ceiling is given for what costs nothing.
        ShardError: what was started is not ready in time.
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
    """The options of workers that an engine starts by itself: one command without words.

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
