"""The steps of `flow` as Beam's own transforms."""

from __future__ import annotations

from typing import Any, Final

import apache_beam as beam

from trajmill.pipelines.execution.flow import (
    Called,
    Collection,
    FlatMap,
    FlatMapTuple,
    Flatten,
    GroupByKey,
    Map,
    MapTuple,
    Step,
    Transform,
    Whole,
)

_CALLED: Final[dict[type[Called], Any]] = {
    Map: beam.Map,
    MapTuple: beam.MapTuple,
    FlatMap: beam.FlatMap,
    FlatMapTuple: beam.FlatMapTuple,
}


class Beamed(Collection[Any]):
    """Elements of a pipeline."""

    def __init__(self, elements: Any) -> None:
        self.elements = elements

    def after(self, step: Step, label: str, *others: Collection[Any]) -> Collection[Any]:
        """See `Collection`."""
        inputs = (self.elements, *(one.elements for one in others if isinstance(one, Beamed)))
        return Beamed((inputs if others or isinstance(step, Flatten) else self.elements) | label >> OnBeam.of(step))

    def as_dict(self) -> Any:
        """See `Collection`."""
        return beam.pvalue.AsDict(self.elements)


class OnBeam(beam.PTransform):
    """A transform of `flow` as one of Beam's."""

    def __init__(self, transform: Step) -> None:
        super().__init__(type(transform).__name__)
        self._transform = transform

    @staticmethod
    def of(step: Step) -> beam.PTransform:
        """What Beam has for a step."""
        if isinstance(step, Called):
            more = [one.elements.as_dict() if isinstance(one, Whole) else one for one in step.more]
            return _CALLED[type(step)](step.do, *more)
        if isinstance(step, Flatten):
            return beam.Flatten()
        if isinstance(step, GroupByKey):
            return beam.GroupByKey()
        return OnBeam(step)

    def expand(self, elements: Any) -> Any:
        """What Beam calls: the transform over the pipeline's collections."""
        many = isinstance(elements, tuple)
        given: Any = tuple(map(Beamed, elements)) if many else Beamed(elements)
        step = self._transform
        made: Any = step.expand(given) if isinstance(step, Transform) else given | step
        return made.elements
