"""What `trajmill effect --attribute` found, for people: tables of tests and of clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.table import Table

from trajmill.app.console import Printer
from trajmill.pipelines.effect.significance import FEWEST, LEVEL

if TYPE_CHECKING:
    from trajmill.pipelines.effect.attribution import Attribution, Gain
    from trajmill.pipelines.effect.effect import Test

SHOWN: Final = 10
"""Clusters at either end that are told."""

_PAGE: Final = """# Gains

What each cluster (a group of the run) takes off the cost of held-out answers: the bits per byte that they cost more if
it is taken from the random fifth of the training text that a model that counts is taught, for 1,000 tokens of it.
`gains.parquet` has them by trajectory.

## Whether a choice by gains teaches more

A fifth of the training text, at equal tokens, is asked on groups that gains did not come from. Less is better. A
difference counts if it is beyond chance at {level:g} after Holm's correction; fewer than {fewest} groups are not
measurable.
"""

_HEADS: Final = ("domain", "tokens", "arm", "against", "groups", "bits/byte", "against it", "difference", "95 %", "")


def markdown(made: Attribution) -> str:
    """The page."""
    lines = _PAGE.format(level=LEVEL, fewest=FEWEST).splitlines()
    lines += ["", *_table(_HEADS, [_row(one, made.tokens[one.domain]) for one in made.tests])]
    for domain, gains in sorted(made.gains.items()):
        above = sum(one.low > 0 for one in gains)
        below = sum(one.high < 0 for one in gains)
        lines += ["", f"## {domain}: {len(gains):,} clusters, {above:,} beyond noise above 0, {below:,} below", ""]
        ends = gains if len(gains) <= 2 * SHOWN else [*gains[:SHOWN], *gains[-SHOWN:]]
        lines += _table(("cluster", "tokens", "gain", "95 %"), [_gain(one) for one in ends])
    return "\n".join(lines) + "\n"


def _row(one: Test, tokens: int) -> tuple[str, ...]:
    told = ("", "")
    if one.apart is not None:
        told = f"{one.apart.mean:+.4f}", f"{one.apart.low:+.4f} to {one.apart.high:+.4f}, p {one.p:.3f}"
    costs = f"{one.costs:.4f}", f"{one.costs_against:.4f}"
    return one.domain, f"{tokens:,}", one.arm, one.against, str(one.groups), *costs, *told, one.word


def _gain(one: Gain) -> tuple[str, ...]:
    return f"`{one.cluster}`", f"{one.tokens:,}", f"{one.gain:+.5f}", f"{one.low:+.5f} to {one.high:+.5f}"


def _table(heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(row)} |"


def show_attribution(made: Attribution, console: Printer) -> None:
    """A table of the tests."""
    if not made.tests:
        console.print("Nothing can be attributed: no domain has groups in every fold.")
        return
    table = Table(title="A fifth of the training text, bits per byte", title_justify="left")
    for name in ("domain", "arm", "against", "difference"):
        table.add_column(name, no_wrap=name == "domain")
    for one in made.tests:
        said = one.word if one.apart is None else f"{one.apart.mean:+.4f} {one.word}"
        table.add_row(one.domain, one.arm, one.against, said)
    console.print(table)
