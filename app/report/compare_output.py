"""A comparison of two runs as it is told on a terminal, and as a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from rich.table import Table

from trajmill.app.console import Printer
from trajmill.app.report.comparison import GONE, KINDS, Comparison
from trajmill.app.report.report import page
from trajmill.pipelines.run_record.changes import told_value
from trajmill.pipelines.storage.folders import Folder

_SETTINGS: Final = 20
"""Settings that are told."""

_CHANGES: Final = 30
"""Changes of trajectories that are told."""


def show_comparison(found: Comparison, names: tuple[str, str], console: Printer) -> None:
    """Tells a comparison on a terminal; `names` are those of the two folders, in which examples can be looked at."""
    first, second = names
    if found.versions[0] != found.versions[1]:
        console.print(f"trajmill {found.versions[0]} → {found.versions[1]}", soft_wrap=True)
    for name, old, new in found.settings[:_SETTINGS]:
        console.print(f"{name}: {told_value(old)} → {told_value(new)}", soft_wrap=True)
    if len(found.settings) > _SETTINGS:
        console.print(f"and {len(found.settings) - _SETTINGS} settings of the recipe more")
    if not found.settings:
        console.print("recipe: the same settings")
    heads = list(next(iter(found.domains.values()), {}))
    console.print(_table(["domain", *heads], ((name, *map(_pair, of.values())) for name, of in found.domains.items())))
    _print_pairs("dropped by", found.reasons, console)
    _print_pairs(
        "kept trajectories' transitions", {f"{use}: {why}": of for (use, why), of in found.uses.items()}, console
    )
    _print_pairs("samples", found.samples, console)
    told = ", ".join(f"{number:,} {kind}" for kind in KINDS if (number := found.of(kind)))
    console.print(f"trajectories: {found.same:,} as they were{', ' if told else ''}{told}", soft_wrap=True)
    for one in found.changes[:_CHANGES]:
        ways = f"{one.before} → {one.after}" if one.before and one.after else one.before or one.after
        console.print(f"{one.kind}, {one.domain}, {ways}: {one.number:,}", style="bold", soft_wrap=True)
        console.print(f"  {', '.join(one.examples)}", soft_wrap=True)
    if len(found.changes) > _CHANGES:
        console.print(f"and {len(found.changes) - _CHANGES} kinds of change more: see --html")
    if found.changes:
        console.print(f"next: trajmill inspect {second} --trajectory ID, or trajmill view {second}", soft_wrap=True)
        if found.of(GONE):
            console.print(f"what is gone is looked at in {first}", soft_wrap=True)


def _print_pairs(title: str, pairs: Mapping[str, tuple[int, int]], console: Printer) -> None:
    """Those of the pairs that differ."""
    differ = {name: of for name, of in pairs.items() if of[0] != of[1]}
    if differ:
        console.print(_table([title, "before", "now"], ((name, f"{a:,}", f"{b:,}") for name, (a, b) in differ.items())))


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    table = Table(*heads)
    for row in rows:
        table.add_row(*row)
    return table


def _pair(of: tuple[int, int]) -> str:
    return f"{of[0]:,}" if of[0] == of[1] else f"{of[0]:,} → {of[1]:,}"


def write_comparison(found: Comparison, names: tuple[str, str], file: str) -> None:
    """Writes a comparison as a page.

    Args:
        found: what is told.
        names: of the two folders.
        file: that is written.

    Raises:
        ShardError: it cannot be written.
    """
    values = {"found": found, "names": names, "kinds": KINDS, "told_value": told_value}
    place = Path(file)
    Folder.named(str(place.parent)).write(place.name, page("comparison.html", values))
