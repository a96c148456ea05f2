"""Minimal dataflow API (Map, FlatMap, GroupByKey, Flatten), executed on this machine or compiled to Beam.

Transforms use Beam's names and operators: `elements | "Label" >> Map(function)`. Over a `LocalCollection` they build a
graph, which then runs in this process or over a pool of workers. `runner` converts the same steps to Beam's transforms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeVar

from trajmill.pipelines.execution.pool import WorkerPool

T = TypeVar("T")


class Collection(ABC, Generic[T]):
    """Elements that steps are applied to, wherever they are."""

    is_held = False
    """True if all elements stay in this process from step to step."""

    @abstractmethod
    def after(self, step: Step, label: str, *others: Collection[Any]) -> Collection[Any]:
        """Return the collection that results from a step on this collection, or on this one and others."""


class Step:
    """One operation on a collection."""

    def __rrshift__(self, label: str) -> NamedStep:
        return NamedStep(label, self)

    def __ror__(self, elements: Collection[Any] | tuple[Collection[Any], ...]) -> Collection[Any]:
        return NamedStep(type(self).__name__, self).__ror__(elements)


@dataclass(frozen=True, slots=True)
class NamedStep:
    """A step with the name that a runner shows."""

    label: str
    step: Step

    def __ror__(self, elements: Collection[Any] | tuple[Collection[Any], ...]) -> Collection[Any]:
        if isinstance(elements, tuple):
            return elements[0].after(self.step, self.label, *elements[1:])
        return elements.after(self.step, self.label)


class Transform(Step, ABC):
    """A step that consists of other steps."""

    @abstractmethod
    def expand(self, elements: Any) -> Collection[Any]:
        """Apply the steps to a collection, or to a tuple of them."""


@dataclass(frozen=True, slots=True)
class SideInput:
    """A collection of pairs that a step receives as a mapping among its arguments."""

    elements: Collection[Any]


class Apply(Step):
    """A step that calls a function for each element.

    Args:
        function: function that is called with an element, or with the items of an element. It must be picklable for a
            pool of workers.
    """

    unpacks = False
    """True if an element is a tuple whose items are arguments."""
    flattens = False
    """True if the function returns several elements."""

    def __init__(self, function: Callable[..., Any], *more: Any) -> None:
        self.function, self.more = function, more

    def over(self, elements: Iterable[Any]) -> Iterator[Any]:
        """Yield the results of the function for the elements, one after the other."""
        for element in elements:
            arguments: Any = element if self.unpacks else (element,)
            result = self.function(*arguments, *self.more)
            if self.flattens:
                yield from result
            else:
                yield result


class Map(Apply):
    """Element → another element."""


class MapTuple(Apply):
    """Element, with its items as arguments → another element."""

    unpacks = True


class FlatMap(Apply):
    """Element → any number of elements."""

    flattens = True


class FlatMapTuple(Apply):
    """Element, with its items as arguments → any number of elements."""

    unpacks = flattens = True


class GroupByKey(Step):
    """(key, value) → (key, all its values), in no particular order."""


class Flatten(Step):
    """Several collections → one of all their elements."""


class LocalCollection(Collection[T]):
    """Elements on this machine, or the step that will produce them when the graph runs.

    Args:
        graph: graph of all collections, each after its inputs.
    """

    def __init__(
        self,
        graph: LocalGraph,
        elements: list[Any] | None = None,
        step: Step | None = None,
        inputs: Sequence[LocalCollection[Any]] = (),
    ) -> None:
        self.graph, self.elements, self.step, self.inputs = graph, elements, step, inputs
        self.side_inputs: list[LocalCollection[Any]] = []
        self.consumers: list[LocalCollection[Any]] = []
        self.is_held = graph.pool is None
        if isinstance(step, Apply):
            self.side_inputs = [_local(argument.elements) for argument in step.more if isinstance(argument, SideInput)]
        for source in (*inputs, *self.side_inputs):
            source.consumers.append(self)
        graph.collections.append(self)

    def after(self, step: Step, label: str, *others: Collection[Any]) -> Collection[Any]:
        """Extend the graph by a step, or by the steps of a transform."""
        if isinstance(step, Transform):
            return step.expand((self, *others) if others else self)
        return LocalCollection(self.graph, step=step, inputs=[self, *map(_local, others)])

    @property
    def is_fused(self) -> bool:
        """True if elements are produced by the process of their only consumer, without ever being collected."""
        if self.elements is not None or not isinstance(self.step, Apply) or len(self.consumers) != 1:
            return False
        (consumer,) = self.consumers
        return isinstance(consumer.step, Apply) and self not in consumer.side_inputs


def _local(collection: Collection[Any]) -> LocalCollection[Any]:
    assert isinstance(collection, LocalCollection)
    return collection


class LocalGraph:
    """Steps over collections of this machine.

    Args:
        pool: workers that run `Apply` steps; None for this process.
    """

    def __init__(self, pool: WorkerPool | None = None) -> None:
        self.pool = pool
        self.collections: list[LocalCollection[Any]] = []

    def run(self) -> None:
        """Compute all elements, in order, and drop those that no further step needs."""
        for collection in self.collections:
            if collection.elements is None and not collection.is_fused:
                collection.elements = self._elements_of(collection)
        self.collections.clear()

    def _elements_of(self, collection: LocalCollection[Any]) -> list[Any]:
        if isinstance(collection.step, Apply):
            return self._applied(collection)
        inputs = [_take_elements(collection, source) for source in collection.inputs]
        if isinstance(collection.step, Flatten):
            return list(chain.from_iterable(inputs))
        assert isinstance(collection.step, GroupByKey)
        groups: dict[Any, list[Any]] = {}
        for key, value in inputs[0]:
            groups.setdefault(key, []).append(value)
        return list(groups.items())

    def _applied(self, collection: LocalCollection[Any]) -> list[Any]:
        """Run the step, together with the steps fused with it, over their input elements."""
        fused = [collection]
        while fused[0].inputs[0].is_fused:
            fused.insert(0, fused[0].inputs[0])
        elements = _take_elements(fused[0], fused[0].inputs[0])
        together = FusedSteps(tuple(map(_with_side_inputs, fused)))
        if self.pool is None:
            return [result for element in elements for result in together(element)]
        return [result for results in self.pool.map(together, elements) for result in results]


def _take_elements(consumer: LocalCollection[Any], source: LocalCollection[Any]) -> list[Any]:
    """Return the elements of a source, which drops them if no further step needs them."""
    assert source.elements is not None
    elements = source.elements
    source.consumers.remove(consumer)
    if not source.consumers:
        source.elements = []
    return elements


def _with_side_inputs(collection: LocalCollection[Any]) -> Apply:
    """Return the step of a collection with its side inputs as mappings."""
    step = collection.step
    assert isinstance(step, Apply)
    more = [
        dict(_take_elements(collection, _local(argument.elements))) if isinstance(argument, SideInput) else argument
        for argument in step.more
    ]
    return type(step)(step.function, *more)


@dataclass(frozen=True, slots=True)
class FusedSteps:
    """Steps that follow each other, run element by element."""

    steps: tuple[Apply, ...]

    def __call__(self, element: Any) -> list[Any]:
        """Return all results of the steps for one element."""
        elements: Iterable[Any] = [element]
        for step in self.steps:
            elements = step.over(elements)
        return list(elements)
