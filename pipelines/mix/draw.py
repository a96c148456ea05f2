"""Draw of a stage: the samples it takes, and how often, so that its budget, weights and bounds hold.

At each step the category (a component's domain) that is furthest below its weight gives its next sample in the order of
hashes. A sample that a bound forbids waits until enough others are drawn; among samples with equal values, the smallest
goes first. If the next sample exceeds the remaining budget, its category continues with the largest sample that fits,
so that in the end no remaining sample would fit. Up to that point a larger budget draws the same samples. The draw is
pure and does not depend on the order of input.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.mix.coded_names import Coded, Codes, as_coded
from trajmill.pipelines.recipe.mixture import Bound, Component, Stage
from trajmill.quality.sets import distinct, ranges
from trajmill.schemas import ConfigError

Values: TypeAlias = Coded | npt.NDArray[Any]
"""Names, possibly as objects, or hashes."""

_NOT_KNOWN: Final = (0, "", None)


class Bounded:
    """A bound, and the tokens drawn of each value that it distinguishes."""

    def __init__(self, bound: Bound, values: Values, carried: Mapping[Any, int]) -> None:
        self.bound = bound
        self.number, self._names = number_values(values)
        self.taken = array("q", bytes(8 * len(self._names)))
        where = {name: index for index, name in enumerate(self._names)} if carried or bound.value is not None else {}
        for name in carried.keys() & where.keys():
            self.taken[where[name]] = carried[name]
        self._own = where.get(bound.value, -1)
        self._elsewhere = carried.get(bound.value, 0)

    def needed(self, value: int, size: int) -> float:
        """Return the tokens that must be drawn before an item of this value and size may be; infinite for never."""
        bound = self.bound
        if self._names[value] in _NOT_KNOWN or (bound.value is not None and value != self._own):
            return 0.0
        drawn_tokens = self.taken[value]
        after = drawn_tokens + size
        if bound.max_tokens is not None and after > bound.max_tokens:
            return float("inf")
        if bound.max_share is not None and drawn_tokens:
            return after / bound.max_share - size if bound.max_share else float("inf")
        return 0.0

    def lacks(self, values: Mapping[str, str], total: int) -> bool:
        """Return True if items of these values go first, being below the bound's minimum share of `total` tokens."""
        bound = self.bound
        if bound.min_share is None or bound.value != values[bound.by]:
            return False
        return (self.taken[self._own] if self._own >= 0 else self._elsewhere) < bound.min_share * total


def number_values(values: Values) -> tuple[Codes, Sequence[Any]]:
    """Return the number of each value, and the distinct values."""
    if isinstance(values, Coded) or values.dtype == object:
        named = as_coded(values)
        return named.codes, named.names
    names = distinct(values)
    return np.searchsorted(names, values).astype(np.uint32), array("Q", names.astype("<u8").tobytes())


@dataclass(frozen=True, slots=True)
class Items:
    """Items that a stage can draw, one per trajectory, as arrays of one length.

    Attributes:
        key: 64 bits that define the order by hash; items with equal keys keep their order.
        loss_tokens: the tokens under loss among them.
        group: group of trajectories that share a pool.
        values: values that the stage's bounds distinguish, by `Bound.by`: names, or hashes, where 0 is unknown and
            never bounded.
    """

    key: npt.NDArray[np.uint64]
    tokens: npt.NDArray[np.integer[Any]]
    loss_tokens: npt.NDArray[np.integer[Any]]
    group: npt.NDArray[np.uint64]
    component: Coded | npt.NDArray[np.object_]
    domain: Coded | npt.NDArray[np.object_]
    values: Mapping[str, Values] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True)
class CategoryDraw:
    """Summary of the draws of a category.

    Attributes:
        domain: its domain; empty for a component without items.
        samples: drawn items, counted as often as they are drawn.
        available: tokens of all its items, each counted once; 0 for a weight without items.
        share: share of the stage that its weight asks for; None if everything is taken.
        shortfall: tokens of that share that were not drawn. The share is of the budget, or of all drawn tokens if a
            number of samples is set; 0 if neither is set. If samples are left, a shortfall counts only if it exceeds
            both the smallest remaining sample and the largest that the stage drew.
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
        """Number of times that the available tokens were drawn."""
        return self.tokens / self.available if self.available else 0.0


@dataclass(frozen=True, slots=True)
class Drawing:
    """Number of copies of each item, and the draws by category."""

    copies: npt.NDArray[np.int32]
    categories: tuple[CategoryDraw, ...]


@dataclass(frozen=True, slots=True)
class PriorDraws:
    """Earlier draws, which count in budgets, shares and bounds.

    Attributes:
        drawn: drawn tokens, by component and domain.
        available: available tokens, by component and domain.
        bounds: for each bound of the stage, tokens by value.
    """

    samples: int = 0
    drawn: Mapping[tuple[str, str], int] = field(default_factory=dict)
    available: Mapping[tuple[str, str], int] = field(default_factory=dict)
    bounds: tuple[Mapping[Any, int], ...] = ()
    groups: Mapping[int, int] = field(default_factory=dict)


NOTHING: Final = PriorDraws()


def draw_stage(items: Items, stage: Stage, name: str = "mix.stages", carried: PriorDraws = NOTHING) -> Drawing:
    """Draw the samples of a stage from its items.

    Args:
        carried: earlier draws, which count in budget, samples, shares and bounds too.

    Raises:
        ConfigError: a share falls short, and the stage is set to stop in that case.
    """
    result = _Draw(items, stage, carried).done()
    if stage.on_shortfall == "stop":
        _check(result, stage, name, carried.samples)
    return result


def _check(result: Drawing, stage: Stage, name: str, before: int) -> None:
    """Check that everything that a stage asks for was drawn.

    Raises:
        ConfigError: it was not; the message lists every shortfall.
    """
    short = [
        f"{_name_category(category)} falls short: {category.available:,} tokens are there, "
        f"{category.tokens:,} are drawn, and its share of "
        f"{(category.tokens + category.shortfall) / (category.share or 1):,.0f} is "
        f"{category.tokens + category.shortfall:,}"
        for category in result.categories
        if category.shortfall
    ]
    samples = before + sum(category.samples for category in result.categories)
    if stage.samples is not None and stage.budget is None and samples < stage.samples:
        short.append(f"{samples:,} samples are drawn, and {stage.samples:,} are asked for")
    if short:
        raise ConfigError(
            f"{name}: {'; '.join(short)}. Lower the budget, the number of samples or a weight, or let on_shortfall be "
            "redistribute or repeat."
        )


def _name_category(category: CategoryDraw) -> str:
    return (
        f"{category.domain} of component '{category.component}'"
        if category.domain
        else f"component '{category.component}'"
    )


def weights_of(component: Component, sizes: Mapping[str, int]) -> dict[str, float]:
    """Return the share of each domain within a component; the shares sum to 1.

    Args:
        component: the component, which sets how domains are weighed.
    """
    if component.weights is not None:
        chosen = {name: component.weights[name] for name in sizes if name in component.weights}
    elif component.unimax is not None:
        chosen = dict.fromkeys(sizes, 1.0)
    else:
        chosen = {name: float(size) ** (1 / (component.temperature or 1.0)) for name, size in sizes.items()}
    total = sum(chosen.values())
    return {name: share / total for name, share in chosen.items()} if total else {}


_AT_ONCE: Final = 1 << 12
"""Number of a category's items that are converted to Python numbers at once."""

Item = tuple[int, ...]
"""Number, tokens and loss tokens of an item, and for each bound the number of its value."""


@dataclass(slots=True)
class _Category:
    values: dict[str, str]
    weight: float
    asked: float
    epochs: int
    items: npt.NDArray[np.uint32]
    available: int
    before: float
    place: int = 0
    epoch: int = 1
    taken: int = 0
    loss: int = 0
    samples: int = 0
    ended: bool = False
    ahead: list[Item] = field(default_factory=list)
    """Items from `place` on, in reverse order."""
    waiting: dict[Item, list[tuple[int, int]]] = field(default_factory=dict)
    """Items that a bound forbids, by the numbers of their values: heaps of (tokens, place)."""
    heads: list[tuple[float, int, Item]] = field(default_factory=list)
    """Heap of (tokens needed at the last look, place, values) of the first item of each of these heaps."""

    @property
    def component(self) -> str:
        return self.values["component"]

    @property
    def domain(self) -> str:
        return self.values["domain"]


class _Draw:
    def __init__(self, items: Items, stage: Stage, carried: PriorDraws) -> None:
        self._items, self._stage, self._carried = items, stage, carried
        self._copies = array("i", bytes(4 * len(items)))
        self._bounds = [
            Bounded(bound, items.values[bound.by], drawn_before)
            for bound, drawn_before in zip(stage.bounds, carried.bounds or [{}] * len(stage.bounds), strict=True)
        ]
        self._columns = [items.tokens, items.loss_tokens, *(bounded.number for bounded in self._bounds)]
        self._total, self._samples = sum(carried.drawn.values()), carried.samples
        self._lacking: list[tuple[str, str, float]] = []  # component, domain and share of what has no item
        self._categories = list(self._made())

    def _places(self, apart: Sequence[str]) -> dict[tuple[str, ...], npt.NDArray[np.uint32]]:
        """Return the items of each component, domain and further key in `apart`, in the order of their keys."""
        order = self._capped(np.argsort(self._items.key, kind="stable").astype(np.uint32))
        columns = [as_coded(self._items.component), as_coded(self._items.domain)]
        columns += [as_coded(self._items.values[by]) for by in apart]
        mixed = np.zeros(len(order), np.int64)
        for column in columns:
            mixed = mixed * len(column.names) + column.codes[order]
        codes = distinct(mixed)
        mixed = np.searchsorted(codes, mixed).astype(np.min_scalar_type(len(codes)))
        by_place = order[np.argsort(mixed, kind="stable")]
        items_by_key: dict[tuple[str, ...], npt.NDArray[np.uint32]] = {}
        for rows in np.split(by_place, np.cumsum(np.bincount(mixed, minlength=len(codes)))[:-1]) if len(codes) else ():
            named: list[Any] = [column.names[column.codes[rows[0]]] for column in columns]
            items_by_key[tuple(named)] = rows
        return items_by_key

    def _made(self) -> Iterator[_Category]:
        apart = sorted({bound.by for bound in self._stage.bounds if bound.min_share is not None} & {"source", "kind"})
        by_place = self._places(apart)
        tokens_by_key = {key: int(self._items.tokens[items].sum()) for key, items in sorted(by_place.items())}
        before = self._carried.available
        total = sum(tokens_by_key.values()) + sum(before.values())
        for name, component in self._stage.components.items():
            domains: Counter[str] = Counter()
            for key, size in [*tokens_by_key.items(), *before.items()]:
                domains[key[1]] += size if key[0] == name else 0
            sizes = {domain: size for domain, size in sorted(domains.items()) if size}
            share = component.weight if component.weight is not None else sum(sizes.values()) / max(total, 1)
            weights = weights_of(component, sizes)
            wanted = component.weights or weights
            self._lacking += [(name, domain, share * part) for domain, part in wanted.items() if domain not in sizes]
            self._lacking += [(name, "", share)] if not sizes and not wanted else []
            epochs = component.unimax or (component.epochs if self._stage.on_shortfall == "repeat" else 1)
            for key, size in tokens_by_key.items():
                if key[0] == name and share * weights.get(key[1], 0) * size > 0:
                    domain_tokens = sum(
                        other_tokens for other_key, other_tokens in tokens_by_key.items() if other_key[:2] == key[:2]
                    )
                    weight = share * weights[key[1]] * size / domain_tokens
                    drawn = self._carried.drawn.get((name, key[1]), 0) * size / domain_tokens
                    values: dict[str, str] = {"component": name, "domain": key[1]}
                    values |= zip(apart, key[2:], strict=True)
                    asked_share = share * wanted[key[1]] * size / domain_tokens
                    yield _Category(values, weight, asked_share, epochs, by_place[key], size, drawn)

    def _capped(self, order: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Keep the first items of each group, as many as the stage allows."""
        most = self._stage.max_per_group
        if most is None:
            return order
        groups = self._items.group[order]
        by_group = np.argsort(groups, kind="stable").astype(np.uint32)
        groups = groups[by_group]
        begins = np.flatnonzero(np.append(True, groups[1:] != groups[:-1])[: len(groups)])
        sizes = np.diff(np.append(begins, len(groups)))
        carried = self._carried.groups
        before = [carried.get(group, 0) for group in groups[begins].tolist()] if carried else np.zeros(len(begins))
        allowed = np.minimum(np.maximum(most - np.array(before, np.int64), 0), sizes)
        is_kept = np.zeros(len(order), np.bool_)
        is_kept[by_group[ranges(begins, allowed)]] = True
        return order[is_kept]

    def done(self) -> Drawing:
        while not self._is_full():
            category, item = self._next()
            if category is None:
                break
            self._take(category, item)
        return Drawing(np.frombuffer(self._copies, np.int32), tuple(self._told()))

    def _is_full(self) -> bool:
        stage = self._stage
        return (stage.budget is not None and self._total >= stage.budget) or (
            stage.samples is not None and self._samples >= stage.samples
        )

    def _room(self) -> float:
        """Return the remaining tokens of the budget."""
        return float("inf") if self._stage.budget is None else self._stage.budget - self._total

    def _next(self) -> tuple[_Category | None, Item]:
        for category in sorted((category for category in self._categories if not category.ended), key=self._due):
            item = self._item_of(category)
            if item is not None:
                return category, item
        return None, ()

    def _due(self, category: _Category) -> tuple[int | float | str, ...]:
        lacks = any(bounded.lacks(category.values, self._total) for bounded in self._bounds)
        return (0 if lacks else 1, (category.before + category.taken) / category.weight, *category.values.values())

    def _item_of(self, category: _Category) -> Item | None:
        """Return the next item of a category that fits the budget and no bound forbids; None if there is none yet."""
        while category.heads and category.heads[0][0] <= self._total:
            _, position, values = heappop(category.heads)
            queue = category.waiting.get(values, [])
            if not queue or queue[0][1] != position:  # another came before it
                continue
            (item,) = self._read_items(category.items[(position - 1) % len(category.items)][None])
            needed = self._needed(item)
            if needed <= self._total:
                heappop(queue)
            elif needed == float("inf"):  # so do those behind it, which are no smaller
                queue.clear()
            if queue:
                heappush(category.heads, (needed, queue[0][1], values))
            else:
                del category.waiting[values]
            if needed <= self._total:
                return item
        while self._has_more(category):
            if not category.ahead:
                category.ahead = self._read_items(category.items[category.place : category.place + _AT_ONCE])[::-1]
            if category.ahead[-1][1] > self._room():
                self._order_by_size(category)
                continue
            item = category.ahead.pop()
            category.place += 1
            needed = self._needed(item)
            if needed <= self._total:
                return item
            if needed != float("inf"):
                self._wait(category, item, needed)
        return None

    def _order_by_size(self, category: _Category) -> None:
        """Order the remaining items by size, starting with the largest that fits, and skip those that do not fit."""
        remaining = category.items[category.place :]
        sizes = self._items.tokens[remaining].astype(np.int64)
        category.items[category.place :] = remaining[np.argsort(-sizes, kind="stable")]
        category.place, category.ahead = category.place + int((sizes > self._room()).sum()), []

    def _wait(self, category: _Category, item: Item, needed: float) -> None:
        """Let an item wait.

        Only the smallest item with the same values is looked at again, since it may be drawn first.
        """
        position, values = category.place + category.epoch * len(category.items), item[3:]
        queue = category.waiting.setdefault(values, [])
        heappush(queue, (item[1], position))
        if queue[0][1] == position:
            heappush(category.heads, (needed, position, values))

    def _read_items(self, items: npt.NDArray[np.uint32]) -> list[Item]:
        return list(zip(items.tolist(), *(column[items].tolist() for column in self._columns), strict=True))

    def _has_more(self, category: _Category) -> bool:
        if category.place < len(category.items):
            return True
        if category.epoch < category.epochs and self._stage.budget is not None and not category.waiting:
            category.epoch, category.place = category.epoch + 1, 0
            return bool(len(category.items))
        category.ended = not category.waiting
        return False

    def _needed(self, item: Item) -> float:
        """Return the tokens that must be drawn before an item may be; infinite if it never may."""
        needed, size = 0.0, item[1]
        if size > self._room():
            return float("inf")
        for bounded, value in zip(self._bounds, item[3:], strict=True):
            needed = max(needed, bounded.needed(value, size))
        return needed

    def _take(self, category: _Category, item: Item) -> None:
        number, size, loss = item[:3]
        self._copies[number] += 1
        category.taken, category.loss, category.samples = (
            category.taken + size,
            category.loss + loss,
            category.samples + 1,
        )
        self._total, self._samples = self._total + size, self._samples + 1
        for bounded, value in zip(self._bounds, item[3:], strict=True):
            bounded.taken[value] += size

    def _told(self) -> Iterator[CategoryDraw]:
        budget, samples = self._stage.budget, self._stage.samples
        if samples is not None and (budget is None or self._samples >= samples):
            budget = self._total  # what the number of samples leaves out is no shortfall
        copies = np.frombuffer(self._copies, np.int32)
        largest = int(self._items.tokens[copies > 0].max(initial=0))
        by_domain: dict[tuple[str, str], list[_Category]] = {}
        for category in self._categories:
            by_domain.setdefault((category.component, category.domain), []).append(category)
        for (component, domain), categories in sorted(by_domain.items()):
            weight, taken = (
                sum(category.asked for category in categories),
                sum(category.taken for category in categories),
            )
            before = round(sum(category.before for category in categories))
            short = 0 if budget is None else max(round(weight * budget) - taken - before, 0)
            remaining = np.concatenate(
                [
                    self._items.tokens[category.items[copies[category.items] < category.epochs]]
                    for category in categories
                ]
            )
            if len(remaining) and short <= max(largest, int(remaining.min())):
                short = 0
            yield CategoryDraw(
                component=component,
                domain=domain,
                samples=sum(category.samples for category in categories),
                tokens=taken,
                loss_tokens=sum(category.loss for category in categories),
                available=sum(category.available for category in categories),
                share=None if budget is None else weight,
                shortfall=short,
            )
        for component, domain, share in self._lacking if budget is not None else ():
            if share:
                yield CategoryDraw(component, domain, 0, 0, 0, 0, share, round(share * (budget or 0)))
