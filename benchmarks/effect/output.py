"""A measured effect for people: a page of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

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
