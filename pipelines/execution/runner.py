"""Running a pipeline on a runner of Beam."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import apache_beam as beam
from apache_beam import Pipeline
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from trajmill.pipelines.execution.dataflow.job_options import RUNNER as DATAFLOW
from trajmill.pipelines.execution.dataflow.jobs import finished
from trajmill.pipelines.execution.execution import Execution, Seeing
from trajmill.pipelines.execution.passed_errors import original
from trajmill.pipelines.execution.work_blocks import Taken, kept
from trajmill.pipelines.storage.scratch import own_scratch
from trajmill.schemas import ShardError


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
        pipeline = empty_pipeline(execution.options())
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
                raise ShardError(f"The runner could not do the work: {' '.join(str(met).split())}") from error
            if met is error:
                raise
            raise met from None


def silence_beam() -> None:
    """Have Beam log errors only, and not those that it also raises."""
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    for module in ("common", "worker.data_plane", "portability.fn_api_runner.worker_handlers"):
        logging.getLogger(f"apache_beam.runners.{module}").setLevel(logging.CRITICAL)


def empty_pipeline(options: PipelineOptions) -> Pipeline:
    """An empty pipeline, whose temporary folder lies in that of this process and is removed with it."""
    usual, tempfile.tempdir = tempfile.tempdir, own_scratch()
    try:
        return Pipeline(options=options)
    finally:
        tempfile.tempdir = usual
