"""Drawing: which samples a stage takes, and how often, so that its budget, weights and bounds hold.

A stage is drawn as one endless sequence, of which a budget takes the beginning: so a larger budget contains a smaller
one. At each step the category (a component's domain) that has least for its weight gives its next sample in the order
of hashes; a sample that a bound forbids waits until enough else is drawn. Pure, and the same for every order of input.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pipelines.recipe.mixture import Bound, Component, Stage
from schemas import ConfigError


@dataclass(frozen=True, slots=True)
class Items:
    """What a stage can be drawn from, one item a trajectory; arrays of one length.

    Attributes:
        key: 64 bits that order by hash; items of equal keys keep their order.
        tokens: of what the item becomes, rendered.
        loss_tokens: of them, those under loss.
        group: of trajectories that no two pools share.
        component: names of components, one an item.
        domain: names of domains.
        values: what bounds tell apart, by `Bound.by`: names, or hashes of which 0 is not known and never bounded.
    """

    key: npt.NDArray[np.uint64]
    tokens: npt.NDArray[np.int64]
    loss_tokens: npt.NDArray[np.int64]
    group: npt.NDArray[np.uint64]
    component: npt.NDArray[np.object_]
    domain: npt.NDArray[np.object_]
    values: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was drawn of a category.

    Attributes:
        component: its component.
        domain: its domain; empty for a component that has none, since nothing belongs to it.
        samples: items, each as often as it is drawn.
        tokens: of them.
        loss_tokens: of them.
        available: tokens of all its items, each once; 0 of what has a weight and no item.
        share: of the stage that its weight asks for; None where all is taken.
        shortfall: tokens of that share that were not drawn, if more than a sample: of the budget, or of all that was
            drawn where a number of samples is asked for; 0 where neither is.
    """

    component: str
    domain: str
    samples: int
    tokens: int
    loss_tokens: int
    available: int
    share: float | None
    shortfall: int

    @property
    def epochs(self) -> float:
        """How often what there is was drawn, by tokens."""
        return self.tokens / self.available if self.available else 0.0


@dataclass(frozen=True, slots=True)
class Drawing:
    """How often each item is drawn, and what that is by category."""

    copies: npt.NDArray[np.int64]
    categories: tuple[Drawn, ...]


def drawing(items: Items, stage: Stage, name: str = "mix.stages") -> Drawing:
    """What a stage takes of its items.

    Args:
        items: all that there is.
        stage: what is asked for.
        name: of the stage, for errors.

    Raises:
        ConfigError: something falls short, and the stage is to stop then.
    """
    found = _Draw(items, stage).done()
    if stage.on_shortfall == "stop":
        _check(found, stage, name)
    return found


def _check(found: Drawing, stage: Stage, name: str) -> None:
    """Nothing, if all that a stage asks for was drawn.

    Raises:
        ConfigError: it was not, with the figures of everything that falls short.
    """
    short = [
        f"{_named(one)} falls short: {one.available:,} tokens are there, {one.tokens:,} are drawn, and its share of "
        f"{(one.tokens + one.shortfall) / (one.share or 1):,.0f} is {one.tokens + one.shortfall:,}"
        for one in found.categories
        if one.shortfall
    ]
    samples = sum(one.samples for one in found.categories)
    if stage.samples is not None and stage.budget is None and samples < stage.samples:
        short.append(f"{samples:,} samples are drawn, and {stage.samples:,} are asked for")
    if short:
        raise ConfigError(
            f"{name}: {'; '.join(short)}. Lower the budget, the number of samples or a weight, or let on_shortfall be "
            "redistribute or repeat."
        )


def _named(one: Drawn) -> str:
    return f"{one.domain} of component '{one.component}'" if one.domain else f"component '{one.component}'"


def weights_of(component: Component, sizes: Mapping[str, int]) -> dict[str, float]:
    """The share of each domain within a component, which add up to 1.

    Args:
        component: how domains are weighed.
        sizes: tokens of each domain that has some.
    """
    if component.weights is not None:
        chosen = {name: component.weights[name] for name in sizes if name in component.weights}
    elif component.unimax is not None:
        chosen = dict.fromkeys(sizes, 1.0)
    else:
        chosen = {name: float(size) ** (1 / (component.temperature or 1.0)) for name, size in sizes.items()}
    whole = sum(chosen.values())
    return {name: share / whole for name, share in chosen.items()} if whole else {}


_NOT_KNOWN: Final = (0, "", None)


@dataclass(slots=True)
class _Category:
    values: dict[str, str]
    weight: float
    asked: float
    epochs: int
    items: list[int]
    available: int
    place: int = 0
    epoch: int = 1
    taken: int = 0
    loss: int = 0
    samples: int = 0
    waiting: list[tuple[float, int, int]] = field(default_factory=list)
    ended: bool = False

    @property
    def component(self) -> str:
        return self.values["component"]

    @property
    def domain(self) -> str:
        return self.values["domain"]


class _Draw:
    def __init__(self, items: Items, stage: Stage) -> None:
        self._items, self._stage = items, stage
        self._tokens: list[int] = items.tokens.tolist()
        self._loss: list[int] = items.loss_tokens.tolist()
        self._copies = np.zeros(len(items), np.int64)
        self._bounds = [(bound, items.values[bound.by].tolist()) for bound in stage.bounds]
        self._taken: list[Counter[Any]] = [Counter() for _ in self._bounds]
        self._total = self._samples = 0
        self._lacking: list[tuple[str, str, float]] = []  # component, domain and share of what has no item
        self._categories = list(self._made())

    def _made(self) -> Iterator[_Category]:
        order = self._capped(np.argsort(self._items.key, kind="stable"))
        apart = sorted({bound.by for bound in self._stage.bounds if bound.min_share is not None} & {"source", "kind"})
        by_place: dict[tuple[str, ...], list[int]] = {}
        columns = [self._items.component, self._items.domain, *(self._items.values[by] for by in apart)]
        for item in order.tolist():
            by_place.setdefault(tuple(column[item] for column in columns), []).append(item)
        held = {place: sum(self._tokens[item] for item in items) for place, items in sorted(by_place.items())}
        whole = sum(held.values())
        for name, asked in self._stage.components.items():
            domains: Counter[str] = Counter()
            for place, size in held.items():
                domains[place[1]] += size if place[0] == name else 0
            sizes = {domain: size for domain, size in sorted(domains.items()) if size}
            share = asked.weight if asked.weight is not None else sum(sizes.values()) / max(whole, 1)
            weights = weights_of(asked, sizes)
            wanted = asked.weights or weights
            self._lacking += [(name, domain, share * part) for domain, part in wanted.items() if domain not in sizes]
            self._lacking += [(name, "", share)] if not sizes and not wanted else []
            epochs = asked.unimax or (asked.epochs if self._stage.on_shortfall == "repeat" else 1)
            for place, size in held.items():
                if place[0] == name and share * weights.get(place[1], 0) * size > 0:
                    weight = share * weights[place[1]] * size / sizes[place[1]]
                    values: dict[str, str] = {"component": name, "domain": place[1]}
                    values |= zip(apart, place[2:], strict=True)
                    told = share * wanted[place[1]] * size / sizes[place[1]]
                    yield _Category(values, weight, told, epochs, by_place[place], size)

    def _capped(self, order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The items in their order, of each group only the first that the stage allows."""
        most = self._stage.max_per_group
        if most is None:
            return order
        groups = self._items.group[order]
        by_group = np.argsort(groups, kind="stable")
        begins = np.r_[True, groups[by_group][1:] != groups[by_group][:-1]]
        place = np.arange(len(order)) - np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
        kept = np.zeros(len(order), np.bool_)
        kept[by_group] = place < most
        return order[kept]

    def done(self) -> Drawing:
        while not self._is_full():
            category, item = self._next()
            if category is None or not self._fits(item):
                break
            self._take(category, item)
        return Drawing(self._copies, tuple(self._told()))

    def _is_full(self) -> bool:
        stage = self._stage
        return (stage.budget is not None and self._total >= stage.budget) or (
            stage.samples is not None and self._samples >= stage.samples
        )

    def _fits(self, item: int) -> bool:
        budget = self._stage.budget
        return budget is None or self._total + self._tokens[item] <= budget

    def _next(self) -> tuple[_Category | None, int]:
        """The category whose turn it is, and its next item."""
        for one in sorted((one for one in self._categories if not one.ended), key=self._due):
            item = self._item_of(one)
            if item is not None:
                return one, item
        return None, -1

    def _due(self, one: _Category) -> tuple[int | float | str, ...]:
        lacks = any(
            bound.min_share is not None
            and bound.value == one.values[bound.by]
            and taken[bound.value] < bound.min_share * self._total
            for (bound, _), taken in zip(self._bounds, self._taken, strict=True)
        )
        return (0 if lacks else 1, one.taken / one.weight, *one.values.values())

    def _item_of(self, one: _Category) -> int | None:
        """The next item of a category that no bound forbids; None if there is none now."""
        while one.waiting and one.waiting[0][0] <= self._total:
            needed, number, item = heapq.heappop(one.waiting)
            needed = self._needed(item)
            if needed <= self._total:
                return item
            heapq.heappush(one.waiting, (needed, number, item))
        while self._has_more(one):
            item = one.items[one.place]
            one.place += 1
            needed = self._needed(item)
            if needed <= self._total:
                return item
            if needed != float("inf"):
                heapq.heappush(one.waiting, (needed, one.place + one.epoch * len(one.items), item))
        return None

    def _has_more(self, one: _Category) -> bool:
        if one.place < len(one.items):
            return True
        if one.epoch < one.epochs and self._stage.budget is not None and not one.waiting:
            one.epoch, one.place = one.epoch + 1, 0
            return bool(one.items)
        one.ended = not one.waiting
        return False

    def _needed(self, item: int) -> float:
        """The tokens that have to be drawn before an item may be; infinite if it may never."""
        needed, size = 0.0, self._tokens[item]
        for (bound, values), taken in zip(self._bounds, self._taken, strict=True):
            value = values[item]
            if value in _NOT_KNOWN or bound.value not in (None, value):
                continue
            after = taken[value] + size
            if bound.max_tokens is not None and after > bound.max_tokens:
                return float("inf")
            if bound.max_share is not None and taken[value]:
                needed = max(needed, after / bound.max_share - size if bound.max_share else float("inf"))
        return needed

    def _take(self, one: _Category, item: int) -> None:
        size = self._tokens[item]
        self._copies[item] += 1
        one.taken, one.loss, one.samples = one.taken + size, one.loss + self._loss[item], one.samples + 1
        self._total, self._samples = self._total + size, self._samples + 1
        for (_, values), taken in zip(self._bounds, self._taken, strict=True):
            taken[values[item]] += size

    def _told(self) -> Iterator[Drawn]:
        budget, samples = self._stage.budget, self._stage.samples
        if samples is not None and (budget is None or self._samples >= samples):
            budget = self._total  # what the number of samples leaves out is no shortfall
        largest = max((self._tokens[item] for one in self._categories for item in one.items), default=0)
        by_domain: dict[tuple[str, str], list[_Category]] = {}
        for one in self._categories:
            by_domain.setdefault((one.component, one.domain), []).append(one)
        for (component, domain), some in sorted(by_domain.items()):
            weight, taken = sum(one.asked for one in some), sum(one.taken for one in some)
            short = 0 if budget is None else round(weight * budget) - taken
            yield Drawn(
                component=component,
                domain=domain,
                samples=sum(one.samples for one in some),
                tokens=taken,
                loss_tokens=sum(one.loss for one in some),
                available=sum(one.available for one in some),
                share=None if budget is None else weight,
                shortfall=short if short > largest else 0,
            )
        for component, domain, share in self._lacking if budget is not None else ():
            if share:
                yield Drawn(component, domain, 0, 0, 0, 0, share, round(share * (budget or 0)))


def unknown_values(bounds: Sequence[Bound], values: Mapping[str, npt.NDArray[Any]]) -> list[str]:
    """What bounds name that no item has, as `domain web`; such a bound does nothing."""
    return [
        f"{bound.by} {bound.value}"
        for bound in bounds
        if bound.value is not None and bound.value not in set(values[bound.by].tolist())
    ]
