"""Running a pipeline: which runner, with which options, over which work.

The local runner is pinned to FnApiRunner: the name DirectRunner tries Prism first and changes silently with the
transforms that a pipeline uses. Worker ports of the local runner are bound to loopback.
"""

from __future__ import annotations

import argparse
import io
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr
from functools import cache
from types import SimpleNamespace
from typing import Any, Final

import apache_beam as beam
from apache_beam import Pipeline
from apache_beam.options.pipeline_options import (
    DirectOptions,
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    StandardOptions,
)
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners import create_runner
from apache_beam.runners.portability import local_job_service
from apache_beam.runners.portability.flink_runner import MAGIC_HOST_NAMES
from apache_beam.runners.portability.fn_api_runner import FnApiRunner, worker_handlers
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from trajmill.pipelines.execution.addresses import require_answer
from trajmill.pipelines.execution.dataflow.job_options import RUNNER as DATAFLOW
from trajmill.pipelines.execution.dataflow.job_options import faults_of
from trajmill.pipelines.execution.dataflow.jobs import finished, require_reachable
from trajmill.pipelines.execution.execution import LOCAL, Execution, Seeing
from trajmill.pipelines.execution.fork_server import WORKER, fork_server
from trajmill.pipelines.execution.options import Options
from trajmill.pipelines.execution.passed_errors import original
from trajmill.pipelines.execution.passed_errors import told as passed
from trajmill.pipelines.execution.server_process import RUNNER_PROCESS
from trajmill.pipelines.execution.silence import silence_beam
from trajmill.pipelines.execution.work_blocks import Taken, kept
from trajmill.schemas import ConfigError, ShardError

_OF_WORKERS: Final = ("run_worker", "beam_control_read", "read_grpc_client_inputs")
"""Threads of Beam that end with an exception where a worker process does."""

_ENDED: Final = (
    "A worker process was ended from outside, as systems do that run out of memory: take fewer --workers, or give them "
    "more of it"
)
_NEVER_BEGAN: Final = "A worker process ended before it began to work"

RUNNERS: Final = (LOCAL, "PrismRunner", "FlinkRunner", "PortableRunner", "DataflowRunner")
"""Runners that a run can be given; other names are taken for a slip of the pen."""


def require_runner(options: PipelineOptions, places: Sequence[str] = ()) -> None:
    """Returns if the runner can be reached, as far as its options say where it is, and can reach what it has to.

    Args:
        options: of the runner.
        places: paths and URLs that its workers read and write.

    Raises:
        ConfigError: an address is none, or workers elsewhere see no such place.
        ShardError: nobody answers there.
    """
    if options.view_as(StandardOptions).runner == DATAFLOW:
        require_reachable(options, places)
    endpoint = options.view_as(PortableOptions).job_endpoint
    if endpoint and endpoint != "embed":
        require_answer(endpoint, "job_endpoint")
    if options.view_as(StandardOptions).runner == "FlinkRunner" and not endpoint:
        master = options.view_as(FlinkRunnerOptions).flink_master
        if master not in MAGIC_HOST_NAMES:
            require_answer(master, "flink_master")


def pipeline(options: PipelineOptions, workers: int) -> Pipeline:
    """An empty pipeline with these options.

    Several workers are processes of `pipelines.beam_worker`: those of Beam's mode `multi_processing` write dozens of
    lines to stderr.
    """
    if options.view_as(StandardOptions).runner != LOCAL or workers < 2:
        return Pipeline(options=options)
    return Pipeline(FnApiRunner(SubprocessSDKEnvironment.from_command_string(_command())), options)


def _command() -> str:
    """What starts a worker."""
    return f"exec {shlex.quote(sys.executable)} -m {WORKER}"


class UnknownOptionError(ConfigError):
    """A word of the command line that neither we nor Beam know.

    Attributes:
        option: it.
    """

    def __init__(self, option: str) -> None:
        super().__init__(f"Neither trajmill nor Beam knows the option {option}.")
        self.option = option


@cache
def checked(flags: tuple[str, ...], workers: int) -> Options:
    """The options, which nobody changes: a run asks for them a dozen times, and to check them takes 0.1 seconds."""
    given = [f"--runner={LOCAL}", "--no_save_main_session", *flags]
    unknown = parsed(given)[1]
    options = Options(given)
    if unknown:
        raise UnknownOptionError(unknown[0])
    runner = options.view_as(StandardOptions).runner
    if runner not in RUNNERS:
        raise ConfigError(f"There is no runner '{runner}'; there are: {', '.join(RUNNERS)}.")
    options.view_as(SetupOptions).save_main_session = False
    if runner == LOCAL and workers > 1:
        options.view_as(DirectOptions).direct_num_workers = workers
    made = create_runner(runner)
    faults = faults_of(options, made) if runner == DATAFLOW else PipelineOptionsValidator(options, made).validate()
    if runner == "PortableRunner" and not options.view_as(PortableOptions).job_endpoint:
        faults.append("PortableRunner needs --job_endpoint=host:port.")
    if faults:
        raise ConfigError(f"The runner's options are not complete: {' '.join(map(_plain, faults))}")
    return options


def _plain(fault: object) -> str:
    return " ".join(str(fault).split())


def parsed(flags: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The values of all of Beam's options by name, and the flags that none of its option classes defines.

    Raises:
        ConfigError: a flag has no valid value.
    """
    parser = beam.options.pipeline_options._BeamArgumentParser(allow_abbrev=False)
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            values, unknown = parser.parse_known_args(list(flags))
            return values, list(unknown)
    except SystemExit as error:
        fault = said.getvalue().strip().rpartition("error: ")[2]
        raise ConfigError(f"Beam does not take an option: {_plain(fault)}.") from error


@contextmanager
def bound_to_loopback() -> Iterator[None]:
    """While it lasts, servers that the local runner opens for its workers listen on loopback only.

    Beam binds them to every interface; anybody who reaches such a port can run code in the worker.
    """
    original = worker_handlers.grpc.server

    def server(*arguments: Any, **named: Any) -> Any:
        made = original(*arguments, **named)
        add = made.add_insecure_port
        made.add_insecure_port = lambda address: add(address.replace("[::]", "localhost"))
        return made

    worker_handlers.grpc.server = server
    try:
        yield
    finally:
        worker_handlers.grpc.server = original


@contextmanager
def lost_workers_told() -> Iterator[None]:
    """While it lasts, work of the local runner fails where a worker process ends that still has some.

    Beam waits for ever for what a process that the system killed, such as for its memory, would have answered, and for
    one that ends before it has asked for work.
    """
    kind, told = worker_handlers.SubprocessSdkWorkerHandler, threading.excepthook
    start_worker, servicer = kind.start_worker, worker_handlers.BeamFnControlServicer

    def watch(handler: Any) -> None:
        handler.worker_thread.join()
        control, push = handler.control_conn, handler.control_conn.push
        error = ShardError(_NEVER_BEGAN if control._state == servicer.UNSTARTED_STATE else _ENDED)

        def refuse(request: Any) -> None:
            if request is not servicer._DONE_MARKER:
                raise error
            push(request)

        if control._state != servicer.DONE_STATE:
            control.push = refuse
            for future in list(control._futures_by_id.values()):
                # Beam looks for an answer, and not for whether what it waits for was aborted
                future.set(beam_fn_api_pb2.InstructionResponse(error=passed(error)))

    def start(handler: Any) -> None:
        start_worker(handler)
        threading.Thread(target=watch, args=(handler,), daemon=True).start()

    def hook(arguments: threading.ExceptHookArgs) -> None:
        if arguments.thread is None or arguments.thread.name not in _OF_WORKERS:
            told(arguments)

    kind.start_worker, threading.excepthook = start, hook
    os.environ[RUNNER_PROCESS] = str(os.getpid())
    try:
        yield
    finally:
        kind.start_worker, threading.excepthook = start_worker, told
        del os.environ[RUNNER_PROCESS]


@contextmanager
def workers_forked(workers: int) -> Iterator[None]:
    """While it lasts, workers that Beam would start by our command are forked from a process that has all code.

    Args:
        workers: how many there are to be; one works in this process.
    """
    if workers < 2:
        yield
        return
    original, ours = local_job_service.subprocess, _command()
    server = fork_server()

    def started(command: str, *, env: dict[str, str], **more: Any) -> Any:
        return server.start(env) if command == ours else subprocess.Popen(command, env=env, **more)  # noqa: S603

    local_job_service.subprocess = SimpleNamespace(Popen=started)
    try:
        yield
    finally:
        local_job_service.subprocess = original


def run_over(
    work: Sequence[Any], transform: beam.PTransform, execution: Execution, seeing: Seeing | None = None
) -> None:
    """Runs the transform over the elements of `work` and waits until it is done; nothing is run over nothing.

    Args:
        work: the elements.
        transform: what is done with them.
        execution: how.
        seeing: what each worker proves before its first element; None where workers are of this machine.

    Raises:
        What the transform raised, as `passed_errors.original` finds it; what else a runner raises.
    """
    if not work:
        return
    silence_beam()
    forked = workers_forked(execution.workers if execution.is_local else 1)
    with bound_to_loopback(), lost_workers_told(), forked, ExitStack() as ends:
        pipeline = execution.pipeline()
        if seeing is None:
            elements = pipeline | "Work" >> beam.Create(list(work))
        else:
            places = ends.enter_context(kept(work, seeing.out))
            numbered = pipeline | "Work" >> beam.Create(places) | "See" >> beam.Map(seeing)
            elements = numbered | "Take" >> beam.Map(Taken(seeing.out))
        _ = elements | transform
        try:
            if pipeline.options.view_as(StandardOptions).runner == DATAFLOW:
                finished(pipeline, transform.label)
            else:
                pipeline.run().wait_until_finish()
        except Exception as error:
            met = original(error)
            if type(met) is RuntimeError and not execution.is_local and "Traceback" not in str(met):
                raise ShardError(f"The runner could not do the work: {_plain(met)}") from error
            if met is error:
                raise
            raise met from None
