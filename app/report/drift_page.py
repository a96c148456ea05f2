"""Page `drift.html`: differences between simulated and real rows, as plots and tables, without a script."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trajmill.app.report.report import TEMPLATES, page
from trajmill.worlds.drift.drift import NAMES, Drift, Drifted
from trajmill.worlds.drift.figures import DISAGREEMENT, MEASURES, Cell, Figure, stretches
from trajmill.worlds.drift.goodhart import Goodhart

WORDS: Final[Mapping[str, str]] = {
    "error": "answers that report an error",
    "empty": "empty answers",
    "refusal": "refusals",
    "length": "characters (geometric mean; the difference is a ratio)",
    "novelty": "words that nothing before showed",
    "echo": "words of the action that the answer repeats",
    DISAGREEMENT: "words that differ from the world's; of the world, from its own replicates",
}
MATCHES: Final[Mapping[str, str]] = {
    "logged": "pairs with the row of the log that was served",
    "exact": "pairs of equal history and action",
    "near": "pairs of near histories",
    "rollouts": "rollouts of served logs and shared tasks",
}
_WIDTH, _HEIGHT = 300.0, 110.0
_BAR: Final = (180.0, 16.0)
_OCTAVES: Final = 6
"""Doublings of length at the end of the ratio scale."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Line through points, `x,y` in pixels separated by blanks; `kind` selects its style."""

    kind: str
    points: str


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves on an area, with a marked region and labels.

    Attributes:
        label: Description for readers who cannot see it.
        ends: Labels at the bottom, the top, the left and the right.
        region: Left edge and width of the region in pixels; None for none.
    """

    title: str
    label: str
    curves: Sequence[Curve]
    ends: tuple[str, str, str, str]
    region: tuple[float, float] | None = None
    note: str = ""
    width: float = _WIDTH
    height: float = _HEIGHT


@dataclass(frozen=True, slots=True)
class Span:
    """Interval on a scale with zero in the middle: its ends, and the position of the figure."""

    low: float
    high: float
    at: float
    is_apart: bool
    label: str
    width: float = _BAR[0]
    height: float = _BAR[1]


def drift_page(report: Drift, names: tuple[str, str]) -> bytes:
    """Render the page of a comparison of two runs, whose folders have these names."""
    values = {
        "found": report,
        "names": names,
        "words": WORDS,
        "matches": MATCHES,
        "tables": tables,
        "details": details,
        "plots": plots,
        "signs": None if report.goodhart is None else goodhart_plot(report.goodhart),
        "told": format_figure,
        "known": NAMES,
    }
    return page("drift.html", values, (TEMPLATES / "drift.css").read_text("utf-8"))


Line = tuple[str, Figure, Span]


def tables(model: Drifted) -> Iterator[tuple[str, str, Cell, list[Line]]]:
    """Yield (domain, pairs compared, cell, its lines) for whole domains; disagreement is listed with logged and exact
    pairs.
    """
    whole = [cell for cell in model.cells if cell.by == "domain"]
    for domain in sorted({cell.domain for cell in whole}):
        for match, words in MATCHES.items():
            mine = [cell for cell in whole if (cell.domain, cell.match) == (domain, match)]
            if mine:
                yield domain, words, mine[0], [line for cell in mine for line in _lines(cell)]


def _lines(cell: Cell) -> Iterator[Line]:
    for name in (*MEASURES, DISAGREEMENT):
        if name in cell.figures:
            yield name, cell.figures[name], span(name, cell.figures[name])


def details(model: Drifted, by: str) -> list[tuple[str, str, str, int, list[tuple[str, Figure]]]]:
    """List (domain, tool or turns, pairs compared, rows, figures) of the cells of a kind."""
    joined: dict[tuple[str, str, str], tuple[int, list[tuple[str, Figure]]]] = {}
    for cell in model.cells:
        if cell.by == by:
            rows, figures = joined.get((cell.domain, cell.match, cell.value), (cell.rows, []))
            joined[cell.domain, cell.match, cell.value] = rows, [*figures, *cell.figures.items()]
    return [(domain, value, match, *of) for (domain, match, value), of in joined.items()]


def span(name: str, figure: Figure) -> Span:
    """Place the interval of a figure on its scale: shares from -1 to 1, ratios by their logarithm."""
    width = _BAR[0]

    def place(value: float) -> float:
        share = math.log2(max(value, 1e-9)) / _OCTAVES if name == "length" else value
        return round(width / 2 * (1 + min(max(share, -1.0), 1.0)), 2)

    level = 1.0 if name == "length" else 0.0
    low = figure.difference if figure.low is None else figure.low
    high = figure.difference if figure.high is None else figure.high
    apart = figure.low is not None and not low <= level <= high
    return Span(place(low), place(high), place(figure.difference), apart, format_figure(name, figure))


def format_figure(name: str, figure: Figure) -> str:
    """Format the difference of a figure with its interval."""
    form = "×{:.2f}" if name == "length" else "{:+.3f}"
    text = form.format(figure.difference)
    if figure.low is None or figure.high is None:
        return f"{text} (too few tasks for an interval)"
    return f"{text} ({form.format(figure.low)} to {form.format(figure.high)})"


def plots(model: Drifted) -> Iterator[tuple[str, list[Plot]]]:
    """Yield (domain, plots) of rollouts: each measure by turn, in the world and in the model."""
    order = stretches()
    for domain in sorted({row["domain"] for row in model.turns}):
        growing = {of["measure"]: of["figure"] for of in model.growth if of["domain"] == domain}
        drawn = []
        for name in MEASURES:
            sides = {
                side: [
                    (float(order.index(row["turns"])), float(row[name]))
                    for row in model.turns
                    if (row["domain"], row["side"]) == (domain, side) and name in row
                ]
                for side in ("real", "sim")
            }
            if all(sides.values()):
                drawn.append(_plot(name, sides, growing.get(name), order))
        yield domain, drawn


def _plot(
    name: str, sides: Mapping[str, Sequence[tuple[float, float]]], figure: Figure | None, order: Sequence[str]
) -> Plot:
    values = [value for points in sides.values() for _, value in points]
    top = max(*values, 1e-9) if name == "length" else max(*values, 0.05)
    last = max(x for points in sides.values() for x, _ in points)
    curves = [Curve(side, _points(points, (0.0, last), (0.0, top))) for side, points in sides.items()]
    note = "" if figure is None else f"in 10 turns {figure.difference:+.3f} more than in the world"
    if name == "length" and figure is not None:
        note = f"in 10 turns ×{2**figure.difference:.2f} as much more"
    ends = ("0", f"{top:,.2f}" if top < 10 else f"{top:,.0f}", f"turn {order[0]}", order[int(last)])
    return Plot(WORDS[name].partition(" (")[0], f"{WORDS[name]} over turns", curves, ends, note=note)


def goodhart_plot(goodhart: Goodhart) -> Plot:
    """Plot the simulated reward and the real outcome over steps, each scaled to its range, with the region where they
    diverge.
    """
    first, last = goodhart.steps[0], goodhart.steps[-1]
    curves = [
        Curve(kind, _points(list(zip(goodhart.steps, _scale(values), strict=True)), (first, last), (0.0, 1.0)))
        for kind, values in (("real", goodhart.real), ("sim", goodhart.simulated))
    ]
    region = None
    if goodhart.parts_at is not None:
        low, high = (min(max((step - first) / (last - first), 0.0), 1.0) * _WIDTH for step in goodhart.parts_at[1:])
        region = (round(low, 2), round(max(high - low, 2.0), 2))
    ends = ("smallest", "largest", f"step {first:g}", f"{last:g}")
    return Plot("Reward and outcome over training", "scaled to their ranges", curves, ends, region)


def _points(points: Sequence[tuple[float, float]], wide: tuple[float, float], high: tuple[float, float]) -> str:
    def place(value: float, bounds: tuple[float, float]) -> float:
        return (value - bounds[0]) / ((bounds[1] - bounds[0]) or 1.0)

    pixels = ((place(x, wide) * _WIDTH, (1 - place(y, high)) * (_HEIGHT - 6) + 3) for x, y in points)
    return " ".join(f"{round(x, 1):g},{round(y, 1):g}" for x, y in pixels)


def _scale(values: Sequence[float]) -> list[float]:
    low, width = min(values), max(values) - min(values)
    return [(value - low) / width if width else 0.0 for value in values]


def to_strict_json(value: Any) -> Any:
    """Convert a value to strict JSON: infinities and NaN become null."""
    if isinstance(value, Mapping):
        return {name: to_strict_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_strict_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
