"""What a stage does with its work, written once: run here step by step, or handed to Beam as a pipeline.

A run in one process needs no engine, and to load and wire Beam for it costs more than a small run does. So transforms
are written of the steps below, in Beam's words and with its operators: `elements | "Label" >> Map(do)`. Over `Here`
each step is done at once, over all elements, in their order; `beam_steps` makes Beam's own of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from trajmill.pipelines.execution.execution import Execution, Seeing

T = TypeVar("T")


class Collection(ABC, Generic[T]):
    """Elements that steps are done with, wherever they are."""

    @abstractmethod
    def after(self, step: Step, label: str, *others: Collection[Any]) -> Collection[Any]:
        """What the step makes of these elements; of several collections the others follow."""

    @abstractmethod
    def as_dict(self) -> Any:
        """The elements, which are pairs, as an argument of a step that is told them whole, as a mapping."""


class Step:
    """One thing that is done with elements."""

    def __rrshift__(self, label: str) -> Labelled:
        return Labelled(label, self)

    def __ror__(self, elements: Collection[Any] | tuple[Collection[Any], ...]) -> Collection[Any]:
        return Labelled(type(self).__name__, self).__ror__(elements)


@dataclass(frozen=True, slots=True)
class Labelled:
    """A step with the name that a runner shows."""

    label: str
    step: Step

    def __ror__(self, elements: Collection[Any] | tuple[Collection[Any], ...]) -> Collection[Any]:
        if isinstance(elements, tuple):
            return elements[0].after(self.step, self.label, *elements[1:])
        return elements.after(self.step, self.label)


class Transform(Step, ABC):
    """A step that is made of others."""

    @abstractmethod
    def expand(self, elements: Any) -> Collection[Any]:
        """What comes of a collection, or of a tuple of them."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Stands among the arguments of a step for a collection of pairs, told whole as a mapping."""

    elements: Collection[Any]


class Called(Step):
    """A step that calls a function.

    Args:
        do: is called with an element, or with what an element holds.
        more: further arguments of each call.
    """

    unpacks = False
    """Whether an element is a tuple whose items are arguments."""
    flattens = False
    """Whether the elements of what is returned follow, instead of that itself."""

    def __init__(self, do: Callable[..., Any], *more: Any) -> None:
        self.do, self.more = do, more


class Map(Called):
    """Element → what the function makes of it."""


class MapTuple(Called):
    """The same, the element's items being arguments."""

    unpacks = True


class FlatMap(Called):
    """Element → any number of others."""

    flattens = True


class FlatMapTuple(Called):
    """The same, the element's items being arguments."""

    unpacks = flattens = True


class GroupByKey(Step):
    """(key, value) → (key, all its values), in no particular order."""


class Flatten(Step):
    """Several collections → one of all their elements."""


class Here(Collection[T]):
    """Elements in this process, with which each step is done at once."""

    def __init__(self, elements: Iterable[T]) -> None:
        self.elements: Sequence[T] = list(elements)

    def after(self, step: Step, label: str, *others: Collection[Any]) -> Collection[Any]:
        """See `Collection`."""
        if isinstance(step, Transform):
            return step.expand((self, *others) if others else self)
        if isinstance(step, Called):
            return Here(self._called(step))
        if isinstance(step, Flatten):
            return Here(chain(self.elements, *(one.elements for one in others if isinstance(one, Here))))
        assert isinstance(step, GroupByKey), label
        groups: dict[Any, list[Any]] = {}
        pairs: Any = self.elements
        for key, value in pairs:
            groups.setdefault(key, []).append(value)
        return Here(groups.items())

    def as_dict(self) -> Any:
        """See `Collection`."""
        pairs: Any = self.elements
        return dict(pairs)

    def _called(self, step: Called) -> Iterable[Any]:
        more = [one.elements.as_dict() if isinstance(one, Whole) else one for one in step.more]
        for element in self.elements:
            given: Any = element if step.unpacks else (element,)
            made = step.do(*given, *more)
            if step.flattens:
                yield from made
            else:
                yield made


def run_over(work: Sequence[Any], transform: Step, execution: Execution, seeing: Seeing | None = None) -> None:
    """Does the transform with the elements of `work`, as the execution says, and returns when it is done.

    Args:
        work: the elements.
        transform: what is done with them.
        execution: how.
        seeing: what each worker proves before its first element; None where workers are of this machine.

    Raises:
        What the transform raised; what else a runner raises.
    """
    if not work:
        return
    if execution.is_plain:
        _ = Here(work) | transform
        return
    from trajmill.pipelines.execution import runner
    from trajmill.pipelines.execution.beam_steps import OnBeam

    runner.run_over(work, OnBeam(transform), execution, seeing)
