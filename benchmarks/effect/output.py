"""A measured effect for people: a page of tables, and pictures of the differences with their intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import jinja2

from benchmarks.effect.measurement import FEWEST_CHANGED
from benchmarks.effect.significance import FEWEST, LEVEL

if TYPE_CHECKING:
    from benchmarks.effect.measurement import Effect, Test

FAMILIES: Final[Mapping[str, str]] = {
    "whole": "The whole recipe against none",
    "size": "All rows, however many, against the whole recipe",
    "steps": "Copies",
    "rules": "Each rule alone, after near copies",
    "masks": "On what the loss stands",
    "classes": "The loss without classes of spans",
}
_HEADS: Final = ("domain", "set", "arm", "groups", "changed", "bits/byte", "against", "difference", "95 %", "p", "")


_PAGE: Final = """# Effect

Bits per byte of next observations that were held out by group: less is better. What was to be tested stands in
`plan.json`, which was written before. A difference counts if it is beyond chance at {level:g} after Holm's correction
within its table (bootstrap over groups and seeds, paired); a set with fewer than {fewest} groups of a domain is not
measurable, nor is an arm that changes fewer than {changed} of its trajectories. `as logged` are all answers of the
world, `as kept` those that the recipe keeps.

| domain | tokens learnt by each arm |
|---|---|
"""


def rows_of(tests: Sequence[Test]) -> Iterator[tuple[str, ...]]:
    """A row of the table for each test."""
    for test in tests:
        difference = ("", "", "")
        if test.apart is not None:
            difference = f"{test.apart.mean:+.4f}", f"{test.apart.low:+.4f} to {test.apart.high:+.4f}", f"{test.p:.3f}"
        costs = str(test.groups), str(test.changed), f"{test.costs:.4f}", f"{test.costs_against:.4f}"
        yield test.domain, test.what, test.arm, *costs, *difference, test.word


def parts_of(tests: Sequence[Test]) -> Iterator[tuple[str, ...]]:
    """A row for each class of what was scored, of the tests that tell some."""
    for test in tests:
        for kind, (ours, theirs) in sorted(test.parts.items()):
            costs = f"{ours:.4f}", f"{theirs:.4f}", f"{ours - theirs:+.4f}"
            yield test.domain, test.what, test.arm, kind, *costs


def markdown(effect: Effect) -> str:
    """The page."""
    lines = [*_PAGE.format(level=LEVEL, fewest=FEWEST, changed=FEWEST_CHANGED).splitlines()]
    lines += [f"| {domain} | {size:,} |" for domain, size in sorted(effect.tokens.items())]
    for family, title in FAMILIES.items():
        some = [test for test in effect.tests if test.family == family]
        if some:
            lines += ["", f"## {title}", "", *_table(_HEADS, rows_of(some))]
    parts = list(parts_of([test for test in effect.tests if test.family == "whole"]))
    if parts:
        heads = ("domain", "set", "arm", "class", "bits/byte", "against", "difference")
        lines += ["", "## By what an answer's text can be known from", "", *_table(heads, parts)]
    unchanged = [(domain, ", ".join(names)) for domain, names in sorted(effect.unchanged.items()) if names]
    if unchanged:
        lines += ["", "## Arms that change nothing", "", *_table(("domain", "arms"), unchanged)]
    return "\n".join(lines) + "\n"


def _table(heads: Sequence[str], rows: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(row)} |"


LOSSES: Final = frozenset({"masks", "classes"})
"""The families that a picture of their own shows."""


def pictures(tests: Sequence[Test]) -> tuple[str, str]:
    """Two pictures: of what is learnt, and of where the loss stands."""
    return picture([test for test in tests if test.family not in LOSSES]), picture(
        [test for test in tests if test.family in LOSSES]
    )


def picture(tests: Sequence[Test]) -> str:
    """An SVG of the differences that can be measured, with their intervals; shapes tell what colours do."""
    shown = [(test, test.apart) for test in tests if test.apart is not None]
    left, wide, step = 400, 340, 18
    most = max((max(abs(apart.low), abs(apart.high)) for _, apart in shown), default=1.0) or 1.0
    zero = left + wide / 2

    def at(value: float) -> float:
        return round(zero + value / most * wide / 2, 1)

    kinds = {"better": "better", "worse": "worse"}
    rows = [
        {
            "name": f"{test.domain}, {test.what}: {test.arm}",
            "y": 30 + number * step,
            "low": at(apart.low),
            "high": at(apart.high),
            "mean": at(apart.mean),
            "kind": kinds.get(test.word, "noise"),
        }
        for number, (test, apart) in enumerate(shown)
    ]
    ticks = [(at(value), f"{value:+.2g}" if value else "0 bits/byte") for value in (-most, 0.0, most)]
    text = Path(__file__).with_name("templates").joinpath("effect.svg").read_text("utf-8")
    template = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(text)
    return template.render(width=left + wide + 40, height=50 + len(rows) * step, zero=zero, rows=rows, ticks=ticks)
