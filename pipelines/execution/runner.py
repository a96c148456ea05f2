"""Execution of the steps of `flow` on a runner of Beam.

Beam raises a copy of an error with a longer message, and the original as its context. From an engine's text, the last
line that names one of our errors, or an error of the system, is extracted. Elements are stored in the output folder and
passed to workers by number. In the graph, they would make it as large as the corpus has inputs, which engines refuse.
"""

from __future__ import annotations

import hashlib
import logging
import pickle
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import apache_beam as beam
from apache_beam import Pipeline
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from trajmill.pipelines.execution.dataflow.job_options import RUNNER as DATAFLOW
from trajmill.pipelines.execution.dataflow.jobs import run_job
from trajmill.pipelines.execution.execution import Execution, Seeing
from trajmill.pipelines.execution.flow import (
    Apply,
    Collection,
    FlatMap,
    FlatMapTuple,
    Flatten,
    GroupByKey,
    Map,
    MapTuple,
    SideInput,
    Step,
    Transform,
)
from trajmill.pipelines.storage.folders import Folder, make_unfinished_name
from trajmill.pipelines.storage.scratch import own_scratch
from trajmill.schemas import ShardError, errors
from trajmill.schemas.manifest import Manifest

_BLOCK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Kept:
    """Location of an element in a file.

    Attributes:
        sha256: sha256 of the file. Nothing else is ever loaded from it.
    """

    block: str
    sha256: str
    index: int


@dataclass(frozen=True, slots=True)
class Taken:
    """Function that returns elements in any process that sees the folder."""

    folder: Folder

    def __call__(self, location: Kept) -> Any:
        """Read the element.

        Raises:
            ShardError: its file is missing or changed.
        """
        return pickle.loads(_block(self.folder, location.block, location.sha256)[location.index])  # noqa: S301 - by its digest


@lru_cache(maxsize=4)
def _block(folder: Folder, name: str, sha256: str) -> list[bytes]:
    data = folder.read(name)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ShardError(f"{folder.path(name)} is not as it was written")
    elements: list[bytes] = pickle.loads(data)  # noqa: S301 - it is what the run wrote, by its digest
    return elements


@contextmanager
def keep_elements(work: Sequence[Any], folder: Folder) -> Iterator[list[Kept]]:
    """Store the elements in files and yield their locations.

    A killed run leaves the files to the next, which removes them.
    """
    locations: list[Kept] = []
    names: list[str] = []
    try:
        for block in _blocks(work):
            data = pickle.dumps(block)
            names.append(make_unfinished_name("work"))
            folder.write(names[-1], data, private=True)
            sha256 = hashlib.sha256(data).hexdigest()
            locations += [Kept(names[-1], sha256, index) for index in range(len(block))]
        yield locations
    finally:
        for name in names:
            folder.remove(name)


def _blocks(work: Sequence[Any]) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    size = 0
    for element in work:
        block.append(pickle.dumps(element))
        size += len(block[-1])
        if size >= _BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


_APPLY: Final[dict[type[Apply], Any]] = {
    Map: beam.Map,
    MapTuple: beam.MapTuple,
    FlatMap: beam.FlatMap,
    FlatMapTuple: beam.FlatMapTuple,
}


class BeamCollection(Collection[Any]):
    """Elements of a Beam pipeline."""

    def __init__(self, elements: Any) -> None:
        self.elements = elements

    def after(self, step: Step, label: str, *others: Collection[Any]) -> Collection[Any]:
        """Apply the step in Beam's pipeline."""
        inputs = (
            self.elements,
            *(collection.elements for collection in others if isinstance(collection, BeamCollection)),
        )
        elements = inputs if others or isinstance(step, Flatten) else self.elements
        return BeamCollection(elements | label >> _beam_transform(step))


class BeamTransform(beam.PTransform):
    """A transform of `flow` as a transform of Beam."""

    def __init__(self, transform: Step) -> None:
        super().__init__(transform.function.__name__ if isinstance(transform, Apply) else type(transform).__name__)
        self._transform = transform

    def expand(self, elements: Any) -> Any:
        """Apply the transform to the pipeline's collections."""
        many = isinstance(elements, tuple)
        collections: Any = tuple(map(BeamCollection, elements)) if many else BeamCollection(elements)
        step = self._transform
        result: Any = step.expand(collections) if isinstance(step, Transform) else collections | step
        return result.elements


def _beam_transform(step: Step) -> beam.PTransform:
    if isinstance(step, Apply):
        return _APPLY[type(step)](step.function, *map(_argument, step.more))
    if isinstance(step, Flatten):
        return beam.Flatten()
    if isinstance(step, GroupByKey):
        return beam.GroupByKey()
    return BeamTransform(step)


def _argument(argument: Any) -> Any:
    """Convert an argument of a step; a side input becomes Beam's own."""
    if not isinstance(argument, SideInput):
        return argument
    assert isinstance(argument.elements, BeamCollection)
    return beam.pvalue.AsDict(argument.elements.elements)


_STEP: Final = re.compile(r" \[while running '[^']*'\]")
_NAMED: Final = re.compile(
    r"^(?:RuntimeError: )*trajmill\.schemas\.errors\.((?:Config|Contract|Shard)Error): (.*)$", re.MULTILINE
)
_SYSTEM: Final = re.compile(r"^(?:RuntimeError: )*(?:OSError|\w+Error): \[Errno (\d+)\] (.*)$", re.MULTILINE)


def original(error: BaseException) -> BaseException:
    """Return the original error of a runner's exception, or the exception itself if there is no known one."""
    copied = error
    while copied.__context__ is not None and _STEP.search(str(copied)):
        copied = copied.__context__
    if type(copied) is not RuntimeError:
        return copied
    return _last_error(str(copied)) or copied


def _last_error(text: str) -> BaseException | None:
    """Rebuild the error that an engine's text names last, without the words about the step; None if it names none."""
    plain = _STEP.sub("", text)
    error: BaseException
    if named := _NAMED.findall(plain):
        kind, message = named[-1]
        error = getattr(errors, kind)(message)
    elif of_system := _SYSTEM.findall(plain):
        number, message = of_system[-1]
        error = OSError(int(number), message)
    else:
        return None
    error.add_note(f"as the runner told it:\n{text}")
    return error


def run_over(
    work: Sequence[Any], transform: beam.PTransform, execution: Execution, seeing: Seeing | None = None
) -> None:
    """Run the transform over the elements of `work` and wait until it is done. Without elements, nothing runs.

    If the transform returns manifests, the engine counts their counts.

    Args:
        seeing: the proof that each worker gives before its first element; None if workers are on this machine.

    Raises:
        Exception: an exception of the transform, as `original` extracts it, or of the runner.
    """
    if not work:
        return
    silence_beam()
    with ExitStack() as ends:
        pipeline = empty_pipeline(execution.options())
        if seeing is None:
            elements = pipeline | "Work" >> beam.Create(list(work))
        else:
            locations = ends.enter_context(keep_elements(work, seeing.out))
            numbered = pipeline | "Work" >> beam.Create(locations) | "See" >> beam.Map(seeing)
            elements = numbered | "Take" >> beam.Map(Taken(seeing.out))
        _ = elements | transform | "Count" >> beam.Map(_count)
        try:
            if pipeline.options.view_as(StandardOptions).runner == DATAFLOW:
                run_job(pipeline, transform.label)
            else:
                pipeline.run().wait_until_finish()
        except Exception as error:
            met = original(error)
            if type(met) is RuntimeError and not execution.is_local and "Traceback" not in str(met):
                raise ShardError(f"The runner could not do the work: {' '.join(str(met).split())}") from error
            if met is error:
                raise
            raise met from None


def _count(output: Any) -> None:
    """Add the counts of a manifest to the engine's counters, in the namespace of the stage."""
    if isinstance(output, Manifest):
        for name, number in output.counts.items():
            Metrics.counter(output.stage, name).inc(number)


def silence_beam() -> None:
    """Let Beam log only errors, except those that it also raises."""
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    for module in ("common", "worker.data_plane", "portability.fn_api_runner.worker_handlers"):
        logging.getLogger(f"apache_beam.runners.{module}").setLevel(logging.CRITICAL)


def empty_pipeline(options: PipelineOptions) -> Pipeline:
    """Build an empty pipeline whose temporary folder is in that of this process and is removed with it."""
    usual, tempfile.tempdir = tempfile.tempdir, own_scratch()
    try:
        return Pipeline(options=options)
    finally:
        tempfile.tempdir = usual
