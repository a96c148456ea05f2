"""The steps of `flow` as Beam's own transforms."""

from __future__ import annotations

from typing import Any, Final

import apache_beam as beam

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
        inputs = (self.elements, *(one.elements for one in others if isinstance(one, BeamCollection)))
        given = inputs if others or isinstance(step, Flatten) else self.elements
        return BeamCollection(given | label >> _beam_transform(step))


class BeamTransform(beam.PTransform):
    """A transform of `flow` as one of Beam's."""

    def __init__(self, transform: Step) -> None:
        super().__init__(type(transform).__name__)
        self._transform = transform

    def expand(self, elements: Any) -> Any:
        """Apply the transform to the pipeline's collections."""
        many = isinstance(elements, tuple)
        given: Any = tuple(map(BeamCollection, elements)) if many else BeamCollection(elements)
        step = self._transform
        made: Any = step.expand(given) if isinstance(step, Transform) else given | step
        return made.elements


def _beam_transform(step: Step) -> beam.PTransform:
    if isinstance(step, Apply):
        return _APPLY[type(step)](step.function, *map(_argument, step.more))
    if isinstance(step, Flatten):
        return beam.Flatten()
    if isinstance(step, GroupByKey):
        return beam.GroupByKey()
    return BeamTransform(step)


def _argument(one: Any) -> Any:
    """An argument of a step; of a side input Beam's own."""
    if not isinstance(one, SideInput):
        return one
    assert isinstance(one.elements, BeamCollection)
    return beam.pvalue.AsDict(one.elements.elements)
