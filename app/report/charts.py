"""Charts as shapes in pixels, which a template writes as SVG: bars, histograms and their thresholds. No text is drawn.

The `kind` of a shape, from which the style sheet derives color and pattern, and its `title` carry the meaning.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trajmill.app.report.figures import Histogram, Signal
from trajmill.pipelines.run_record.conservation import Line

WIDTH: Final = 560
"""Width of a bar on a line of its own."""

HEIGHT: Final = 18
SMALL: Final = (210, 64)
"""Width and height of one histogram among several."""

_LEAST: Final = 1.5
"""Smallest width in pixels of a nonzero part."""


@dataclass(frozen=True, slots=True)
class Box:
    """Rectangle of a chart: its position and size, its kind, and the tooltip."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Boxes and vertical lines (x, kind) on an area of a given width and height, described in words by `label`."""

    width: float
    height: float
    boxes: Sequence[Box]
    label: str
    lines: Sequence[tuple[float, str]] = ()


def stacked(parts: Iterable[tuple[str, str, float]], whole: float, label: str, width: float = WIDTH) -> Chart:
    """Draw a bar of adjoining parts, each (kind, name, number); `whole` is the number that fills the chart's width."""
    boxes, x = list[Box](), 0.0
    for kind, name, number in parts:
        if number > 0:
            long = max(number / max(whole, 1e-9) * width, _LEAST)
            title = f"{name}: {_format(number)}"
            boxes.append(Box(_px(min(x, width - _LEAST)), 0, _px(min(long, width - x)), HEIGHT, kind, title))
            x = min(x + long, width - _LEAST)
    return Chart(width, HEIGHT, boxes, label)


def line_bar(line: Line) -> Chart:
    """Draw the balance of a unit: the parts kept, shown as context, merged and dropped, of all that entered."""
    parts = [
        ("kept", "kept", line.kept),
        *(("context", reason, number) for reason, number in _largest(line.context)),
        *(("merged", reason, number) for reason, number in _largest(line.merged)),
        *(("lost", reason, number) for reason, number in _largest(line.lost)),
    ]
    return stacked(parts, line.entered, f"{line.unit}: {line.kept:,} of {line.entered:,} kept")


def reasons_of(line: Line) -> list[tuple[str, str, int]]:
    """List (kind, reason, number) of the items of a unit that were not kept, the most frequent first."""
    kinds = (("lost", line.lost), ("merged", line.merged), ("context", line.context))
    reasons = [(kind, reason, number) for kind, of in kinds for reason, number in of.items()]
    return sorted(reasons, key=lambda entry: (-entry[2], entry[1]))


def _largest(of: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(of.items(), key=lambda pair: (-pair[1], pair[0]))


def histogram_chart(spread: Histogram, unit: str, *, tallest: int = 0) -> Chart:
    """Draw a histogram as bars, with the median as a line.

    Args:
        tallest: Count of the highest bar; 0: the highest of these.
    """
    width, height = SMALL
    top, number = tallest or max(spread.counts, default=0), len(spread.counts)
    step = width / max(1, number)
    boxes = [
        _bar(index, step, tall, "bar", _range(spread, index, unit))
        for index, count in enumerate(spread.counts)
        if (tall := _tall(count / max(1, top), count, height))
    ]
    label = f"{unit}: median {_format(spread.median)}, at most {_format(spread.edges[-1])}, {spread.total:,} in all"
    return Chart(width, height, boxes, label, [(_px(_place(spread, spread.median) * width), "median")])


def signal_chart(signal: Signal) -> Chart:
    """Draw the values of a signal with its bounds as lines. Bars outside of the bounds are marked; heights are
    logarithmic.
    """
    width, height = SMALL
    spread = signal.spread
    low, high = spread.edges[0], spread.edges[-1]
    top = math.log1p(max(spread.counts, default=0)) or 1.0
    step = width / max(1, len(spread.counts))
    boxes = [
        _bar(
            index,
            step,
            tall,
            "out" if 2 * signal.beyond[index] > count else "bar",
            _range(spread, index, signal.signal),
        )
        for index, count in enumerate(spread.counts)
        if (tall := _tall(math.log1p(count) / top, count, height))
    ]
    least, most = signal.least, signal.most
    if is_of_numbers(spread):  # a bound stands between two numbers
        least = None if least is None else math.ceil(least) - 0.5
        most = None if most is None else math.floor(most) + 0.5
    places = [min(max((bound - low) / (high - low or 1), 0.0), 1.0) for bound in (least, most) if bound is not None]
    lines = [(_px(bound * width), "bound") for bound in places]
    return Chart(width, height, boxes, f"{signal.rule}: {signal.broken:,} of {spread.total:,} do not pass", lines)


def is_of_numbers(spread: Histogram) -> bool:
    """Return True if every range holds one whole number."""
    begin, end = spread.edges[0], spread.edges[1]
    return begin != int(begin) and 2 * begin == int(2 * begin) and end - begin == 1


def _bar(index: int, step: float, tall: float, kind: str, title: str) -> Box:
    return Box(_px(index * step + 0.75), _px(SMALL[1] - tall), _px(step - 1.5), _px(tall), kind, title)


def _tall(share: float, count: int, height: float) -> float:
    return max(share * (height - 2), 2.0) if count else 0.0


def _place(spread: Histogram, value: float) -> float:
    """Return the position of a value on an axis of ranges drawn equally wide, from 0 to 1."""
    for number, (begin, end) in enumerate(zip(spread.edges, spread.edges[1:], strict=False)):
        if begin <= value < end or number == len(spread.counts) - 1:
            return (number + min(max((value - begin) / (end - begin or 1), 0), 1)) / len(spread.counts)
    return 0.0


def _range(spread: Histogram, index: int, unit: str) -> str:
    begin, end, count = spread.edges[index], spread.edges[index + 1], spread.counts[index]
    if is_of_numbers(spread):
        return f"{unit} {_format(begin + 0.5)}: {count:,}"
    return f"{unit} from {_format(begin)} to less than {_format(end)}: {count:,}"


def _format(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:,.3g}"


def _px(number: float) -> float:
    return round(number, 2)


USES: Final[Mapping[str, str]] = {"target": "kept", "context": "context", "omit": "merged", "dropped": "lost"}
"""Kind of a box by the use of transitions."""


def uses_bar(domain: str, uses: Mapping[str, int]) -> Chart:
    """Draw the transitions of a domain by their use."""
    parts = [(kind, use, uses.get(use, 0)) for use, kind in USES.items()]
    return stacked(parts, sum(uses.values()), f"{domain}: what transitions are for")


def loss_bar(component: str, learnt: int, tokens: int, classes: Mapping[str, int]) -> Chart:
    """Draw the tokens under loss among all tokens of a pool's domain, by the classes of their characters."""
    measured = sum(classes.values())
    parts: list[tuple[str, str, float]] = [("kept", "under loss", learnt)]
    if measured:
        parts = [(f"class-{name}", name, learnt * number / measured) for name, number in classes.items()]
    return stacked([(kind, name, round(size)) for kind, name, size in parts], tokens, f"{component}: tokens under loss")


def asked_bar(asked: float, received: int, most: float) -> Chart:
    """Draw the amount that a pool received of a domain, filled, inside the outline of the requested amount."""
    width = 160.0
    boxes = [
        Box(0, 3, _px(received / most * (width - 2)), HEIGHT - 6, "given", f"given: {received:,}"),
        Box(1, 1, _px(asked / most * (width - 2)), HEIGHT - 2, "asked", f"asked for: {asked:,.1f}"),
    ]
    return Chart(width, HEIGHT, boxes, f"{received:,} given, {asked:,.1f} asked for")


def most_asked(pools: Mapping[str, Mapping[str, Mapping[str, float]]]) -> float:
    """Return the largest requested or received amount of the mixture, which sets the scale of its bars."""
    return max([1.0, *(counts[key] for of in pools.values() for counts in of.values() for key in ("asked", "given"))])


def pool_sum(counts: Mapping[str, int], pool: str) -> int:
    """Sum the counts of a pool, from counts by `pool.domain`."""
    return sum(number for key, number in counts.items() if key.partition(".")[0] == pool)


def share_chart(signal: Signal) -> Chart:
    """Draw the share of ones of a signal that is 0 or 1."""
    kind = "out" if signal.most is not None and signal.most < 1 else "bar"
    return stacked([(kind, signal.signal, signal.share or 0)], 1, f"{signal.rule}: share of ones", SMALL[0])


def stage_rows(mixture: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any], float]]:
    """List (pool, row of the mixture, its share of the pool's tokens) for the pools that were drawn by tokens."""
    rows = []
    for pool, drawn in mixture.get("stages", {}).items():
        total = sum(row["tokens"] for row in drawn) or 1
        rows += [(pool, row, row["tokens"] / total) for row in drawn]
    return rows


def end_of(spread: Histogram, index: int) -> str:
    """Return the first or the last value of a histogram as text; for whole numbers the number, not the edge of its
    range.
    """
    edge = spread.edges[index]
    if is_of_numbers(spread):
        edge += 0.5 if index == 0 else -0.5
    return _format(edge)
