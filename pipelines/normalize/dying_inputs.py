"""Inputs that end the process that reads them, as by a crash in a library: each costs itself, not the run.

What a dead process was reading is tried once more, alone, in a process of its own. If that dies too, or the input is at
hand at a second death, it becomes a reject.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from trajmill.pipelines.execution.pool import WorkerDiedError, died_alone
from trajmill.pipelines.normalize.input_at_hand import take_dead
from trajmill.pipelines.normalize.normalizer import Normalizer, PartsToTransitions, read_alone
from trajmill.pipelines.plan.plan import Part

_ALONE: Final = "reading it ended its process with {}, and again when it was read alone"
_TWICE: Final = "reading it among others ended two processes, the second with {}"

Over = Callable[[Sequence[Part], PartsToTransitions, bool], None]


def normalize_parts(
    find_open: Callable[[Normalizer], Sequence[Part]],
    normalizer: Normalizer,
    over: Over,
    died: Sequence[tuple[str, ...]] = (),
) -> None:
    """Normalize parts until all are done.

    Args:
        find_open: finds the parts that are not done.
        normalizer: with the folder of inputs at hand, or without where deaths are the runner's matter.
        over: runs a transform over parts; its last argument says whether in other processes only.
        died: the uris that processes of an earlier run died over.

    Raises:
        WorkerDiedError: a process died that had no input at hand, or died again over several.
    """
    suspects: set[tuple[str, ...]] = set()
    ending = ""
    while True:
        parts = find_open(normalizer)
        inputs = {one.uri: one for part in parts for one in part.inputs}
        deadly = dict(normalizer.deadly)
        for uris in died:
            for uri in inputs.keys() & set(uris):
                if alone := died_alone(partial(read_alone, normalizer=normalizer), inputs[uri]):
                    deadly[uri] = _ALONE.format(alone)
            if deadly.keys().isdisjoint(uris) and uris in suspects:
                if len(uris) > 1:
                    raise WorkerDiedError(ending)
                deadly[uris[0]] = _TWICE.format(ending)
            suspects.add(uris)
        normalizer = replace(normalizer, deadly=deadly)
        try:
            return over(parts, PartsToTransitions(normalizer), bool(suspects))
        except WorkerDiedError as error:
            ending = error.ending
            died = take_dead(normalizer.at_hand) if normalizer.at_hand is not None else ()
            if not died:
                raise
