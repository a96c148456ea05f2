"""Execution of a transform over its work: in this process, over a pool of workers, or on a runner of Beam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trajmill.pipelines.execution.flow import LocalCollection, LocalGraph, Step
from trajmill.pipelines.execution.pool import WorkerPool, worker_pool

if TYPE_CHECKING:
    from trajmill.pipelines.execution.execution import Execution, Seeing


def run_over(work: Sequence[Any], transform: Step, execution: Execution, seeing: Seeing | None = None) -> None:
    """Run a transform over the elements of `work`, and return when it is done.

    Args:
        seeing: the proof that each worker gives before its first element; None if workers are on this machine.

    Raises:
        Exception: an exception of the transform, or of the runner.
        WorkerDiedError: a worker on this machine was killed.
    """
    if not work:
        return
    if not execution.is_plain:
        from trajmill.pipelines.execution import runner
        from trajmill.pipelines.execution.runner import BeamTransform

        runner.run_over(work, BeamTransform(transform), execution, seeing)
    elif execution.workers > 1 or execution.isolated:
        with worker_pool(execution.workers) as pool:
            _run_here(work, transform, pool)
    else:
        _run_here(work, transform, None)


def _run_here(work: Sequence[Any], transform: Step, pool: WorkerPool | None) -> None:
    graph = LocalGraph(pool)
    _ = LocalCollection(graph, list(work)) | transform
    graph.run()
