"""Running a pipeline on a runner of Beam: with which options, over which work.

`FnApiRunner` is named in place of `DirectRunner`, which tries Prism first and changes silently with the transforms that
a pipeline uses.
"""

from __future__ import annotations

import argparse
import io
import logging
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stderr
from typing import Any, Final

import apache_beam as beam
from apache_beam import Pipeline
from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    StandardOptions,
)
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
from apache_beam.runners import create_runner
from apache_beam.runners.portability.flink_runner import MAGIC_HOST_NAMES

from trajmill.pipelines.execution.addresses import require_answer
from trajmill.pipelines.execution.dataflow.job_options import RUNNER as DATAFLOW
from trajmill.pipelines.execution.dataflow.job_options import faults_of
from trajmill.pipelines.execution.dataflow.jobs import finished, require_reachable
from trajmill.pipelines.execution.execution import IN_PROCESS, Execution, Seeing
from trajmill.pipelines.execution.passed_errors import original
from trajmill.pipelines.execution.work_blocks import Taken, kept
from trajmill.schemas import ConfigError, ShardError

RUNNERS: Final = (IN_PROCESS, "FlinkRunner", "PortableRunner", "DataflowRunner")
"""Runners of Beam that a run can be given; other names are taken for a slip of the pen."""


class FlinkBatch(PipelineOptions):
    """An option of Beam's runner for Flink that the SDK does not list."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--execution_mode_for_batch", help="how Flink hands on what steps of batch jobs make")


def require_runner(options: PipelineOptions, places: Sequence[str] = ()) -> None:
    """Return if the runner can be reached, as far as its options say where it is, and can reach what it has to.

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


def checked(flags: tuple[str, ...], workers: int) -> PipelineOptions:
    """Return Beam's options, by flags that are valid and complete.

    Raises:
        ConfigError: they are not, or the runner is none of `RUNNERS`.
    """
    given = [f"--runner={IN_PROCESS}", "--no_save_main_session", *flags]
    unknown = parsed(given)[1]
    if unknown:
        raise ConfigError(f"Neither trajmill nor Beam knows the option {unknown[0]}.")
    options = PipelineOptions(given)
    runner = options.view_as(StandardOptions).runner
    if runner not in RUNNERS:
        raise ConfigError(f"There is no runner '{runner}'; there are: {', '.join(RUNNERS)}.")
    if runner == IN_PROCESS and workers > 1:
        raise ConfigError(f"{IN_PROCESS} works in one process. Leave out --workers, or all options of Beam.")
    options.view_as(SetupOptions).save_main_session = False
    made = create_runner(runner)
    faults = faults_of(options, made) if runner == DATAFLOW else PipelineOptionsValidator(options, made).validate()
    if runner == "PortableRunner" and not options.view_as(PortableOptions).job_endpoint:
        faults.append("PortableRunner needs --job_endpoint=host:port.")
    if faults:
        raise ConfigError(f"The runner's options are not complete: {' '.join(map(_plain, faults))}")
    return options


def _plain(fault: object) -> str:
    return " ".join(str(fault).split())


class _Parser(argparse.ArgumentParser):
    """A parser that Beam's option classes add their options to."""

    def add_value_provider_argument(self, *names: str, **more: Any) -> None:
        """Add an option whose value Beam may get later."""
        self.add_argument(*names, **more)


def parsed(flags: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the values of all of Beam's options by name, and the flags that none of its option classes defines.

    Raises:
        ConfigError: a flag has no valid value.
    """
    parser = _Parser(allow_abbrev=False)
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)  # the method by which Beam has options defined
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            values, unknown = parser.parse_known_args(list(flags))
            return values, list(unknown)
    except SystemExit as error:
        fault = said.getvalue().strip().rpartition("error: ")[2]
        raise ConfigError(f"Beam does not take an option: {_plain(fault)}.") from error


def run_over(
    work: Sequence[Any], transform: beam.PTransform, execution: Execution, seeing: Seeing | None = None
) -> None:
    """Run the transform over the elements of `work` and wait until it is done; nothing is run over nothing.

    Args:
        work: the elements.
        transform: the steps.
        execution: how.
        seeing: what each worker proves before its first element; None where workers are of this machine.

    Raises:
        Exception: what the transform raised, as `passed_errors.original` finds it; what else a runner raises.
    """
    if not work:
        return
    silence_beam()
    with ExitStack() as ends:
        pipeline = Pipeline(options=execution.options())
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


def silence_beam() -> None:
    """Have Beam log errors only, and not those that it also raises."""
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    for module in ("common", "worker.data_plane", "portability.fn_api_runner.worker_handlers"):
        logging.getLogger(f"apache_beam.runners.{module}").setLevel(logging.CRITICAL)
