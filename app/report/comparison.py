"""Comparison of two runs: settings, counts, and the fate of each trajectory, by its key.

A key is the id of the content and the copy, as in rows and in the viewer, so each copy counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from trajmill.app.console import Printer
from trajmill.app.report.report import page
from trajmill.app.report.sources import Sources, UnitFiles
from trajmill.pipelines.run_record.changes import settings_changed, told_value
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ConfigError

NEW: Final = "new"
GONE: Final = "gone"
MOVED: Final = "moved to another pool"
DROPPED: Final = "kept before, dropped now"
KEPT: Final = "dropped before, kept now"
OTHER: Final = "dropped for another reason"
KINDS: Final = (NEW, GONE, DROPPED, KEPT, OTHER, MOVED)
"""Possible changes of a trajectory, in the order of the output."""

_COLUMNS: Final = ("row_id", "trajectory_id", "step", "kept", "use", "reason")
_NO_POOL: Final = "no pool"


@dataclass(frozen=True, slots=True)
class Change:
    """Trajectories with the same change of fate.

    Attributes:
        kind: One of `KINDS`.
        before: Fate in the first run: `kept`, `dropped: REASON`, a pool; empty if absent.
        after: Fate in the second run.
    """

    kind: str
    domain: str
    before: str
    after: str
    number: int
    examples: Sequence[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of two runs. Pairs of numbers belong to the first and the second run.

    Attributes:
        settings: (name, value of the first, of the second) of settings that differ between the recipes.
        domains: Numbers by domain and unit (trajectories, kept, dropped, transitions, targets).
        reasons: Dropped trajectories by reason.
        uses: Transitions of kept trajectories that are not targets, by (use, reason).
        samples: Samples by `pool.domain`.
        same: Number of trajectories with the same fate.
        changes: Changes of the other trajectories, the largest first.
    """

    settings: Sequence[tuple[str, Any, Any]]
    versions: tuple[str, str]
    domains: Mapping[str, Mapping[str, tuple[int, int]]]
    reasons: Mapping[str, tuple[int, int]]
    uses: Mapping[tuple[str, str], tuple[int, int]]
    samples: Mapping[str, tuple[int, int]]
    same: int
    changes: Sequence[Change]

    def of(self, kind: str) -> int:
        """Count the trajectories whose fate changed in one way."""
        return sum(change.number for change in self.changes if change.kind == kind)


@dataclass(frozen=True, slots=True)
class Side:
    """One run: `fates`, a row for each trajectory, and its transitions counted by their use."""

    sources: Sources
    fates: pl.DataFrame
    rows: pl.DataFrame


def compare_runs(first: str, second: str, examples: int = 3) -> Comparison:
    """Compare two output folders.

    Args:
        examples: Number of keys named for each change.

    Raises:
        ConfigError: One folder holds no judged run.
    """
    before, after = _side(first), _side(second)
    joined = _join_fates(before.fates, after.fates)
    versions = [
        str(side.sources.records[-1].get("version", "")) if side.sources.records else "" for side in (before, after)
    ]
    return Comparison(
        settings=settings_changed(before.sources.recipe, after.sources.recipe),
        versions=(versions[0], versions[1]),
        domains=_domains(before, after),
        reasons=_pair_counts(_reasons(before), _reasons(after)),
        uses=_pair_counts(_uses(before), _uses(after)),
        samples=_pair_counts(_samples(before), _samples(after)),
        same=int(joined["kind"].is_null().sum()),
        changes=_changes(joined, examples),
    )


def _side(out: str) -> Side:
    sources = Sources(out)
    units = [unit for unit in sources.all_units if unit.of("verdicts") in sources.names]
    if not units:
        raise ConfigError(f"{out} holds no verdicts: only what is judged can be compared.")
    parts = [_unit(sources, unit) for unit in units]
    rows = (
        pl.concat([counted for _, counted in parts]).group_by("domain", "kept", "use", "reason").agg(pl.col("n").sum())
    )
    fates = pl.concat([fates for fates, _ in parts])
    return Side(sources, fates.join(_pools(sources), on="trajectory_id", how="left").drop("trajectory_id"), rows)


def _unit(sources: Sources, unit: UnitFiles) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the trajectories of a unit, a row each, and the counts of its transitions."""
    rows = pl.DataFrame(sources.table(unit.of("verdicts"), _COLUMNS)).with_columns(pl.lit(unit.domain).alias("domain"))
    number = (pl.col("step") == 0).cum_sum().alias("number")
    reason = pl.when(~pl.col("kept")).then("reason").drop_nulls().first()
    fates = rows.group_by(number, maintain_order=True).agg(
        pl.col("row_id").first().str.head(-2).alias("key"),  # the first row's ends with -0
        *(pl.col(name).first() for name in ("trajectory_id", "domain", "kept")),
        reason.alias("reason"),
    )
    return fates.drop("number"), rows.group_by("domain", "kept", "use", "reason").agg(pl.len().alias("n"))


def _pools(sources: Sources) -> pl.DataFrame:
    """Return a table of each trajectory and the pool into which it was drawn."""
    names = [name for lead in sources.leads for name in sources.below(f"{lead}draws") if "-part-" in name]
    parts = [pl.DataFrame(sources.table(name, ["trajectory_id", "pool"])) for name in names]
    empty = pl.DataFrame(schema={"trajectory_id": pl.String, "pool": pl.String})
    return pl.concat([empty, *parts], how="vertical_relaxed").unique("trajectory_id", keep="first", maintain_order=True)


def _join_fates(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each key with its change of fate: `kind` (null: none), `domain`, `before`, `after`."""
    both = first.join(second, on="key", how="full", coalesce=True, suffix="_after")
    was, now = pl.col("kept"), pl.col("kept_after")
    pool, pool_after = pl.col("pool").fill_null(_NO_POOL), pl.col("pool_after").fill_null(_NO_POOL)
    kind = (
        pl.when(was.is_null()).then(pl.lit(NEW))
        .when(now.is_null()).then(pl.lit(GONE))
        .when(was & ~now).then(pl.lit(DROPPED))
        .when(~was & now).then(pl.lit(KEPT))
        .when(~was & ~now & pl.col("reason").ne_missing(pl.col("reason_after"))).then(pl.lit(OTHER))
        .when(was & now & (pool != pool_after)).then(pl.lit(MOVED))
    )  # fmt: skip
    has_moved = pl.col("kind") == MOVED
    return both.with_columns(kind.alias("kind")).select(
        "key",
        "kind",
        pl.coalesce("domain_after", "domain").alias("domain"),
        pl.when(has_moved).then(pool).otherwise(_fate("")).alias("before"),
        pl.when(has_moved).then(pool_after).otherwise(_fate("_after")).alias("after"),
    )


def _fate(side: str) -> pl.Expr:
    is_kept, reason = pl.col(f"kept{side}"), pl.col(f"reason{side}").fill_null("no reason told")
    dropped = pl.concat_str(pl.lit("dropped: "), reason)
    return pl.when(is_kept.is_null()).then(pl.lit("")).when(is_kept).then(pl.lit("kept")).otherwise(dropped)


def _changes(joined: pl.DataFrame, examples: int) -> list[Change]:
    keys = ["kind", "domain", "before", "after"]
    groups = (
        joined.filter(pl.col("kind").is_not_null())
        .group_by(keys)
        .agg(pl.len().alias("number"), pl.col("key").sort().head(examples).alias("examples"))
    )
    changes = [Change(**row) for row in groups.to_dicts()]
    return sorted(
        changes,
        key=lambda change: (KINDS.index(change.kind), -change.number, change.domain, change.before, change.after),
    )


def _pair_counts(first: Mapping[Any, int], second: Mapping[Any, int]) -> dict[Any, tuple[int, int]]:
    keys = sorted(first.keys() | second.keys(), key=lambda key: (-max(first.get(key, 0), second.get(key, 0)), key))
    return {key: (first.get(key, 0), second.get(key, 0)) for key in keys}


def _reasons(side: Side) -> dict[str, int]:
    dropped = side.fates.filter(~pl.col("kept")).group_by(pl.col("reason").fill_null("no reason told")).len()
    return dict(dropped.iter_rows())


def _uses(side: Side) -> dict[tuple[str, str], int]:
    used = side.rows.filter(pl.col("kept") & (pl.col("use") != "target") & pl.col("reason").is_not_null())
    counted = used.group_by("use", "reason").agg(pl.col("n").sum())
    return {(use, reason): int(number) for use, reason, number in counted.iter_rows()}


def _samples(side: Side) -> dict[str, int]:
    shards = side.sources.manifest("shards")
    counts = shards.counts if shards else {}
    return {key.removeprefix("samples."): number for key, number in counts.items() if key.startswith("samples.")}


def _domains(first: Side, second: Side) -> dict[str, dict[str, tuple[int, int]]]:
    sides = [_by_domain(side) for side in (first, second)]
    units = ("trajectories", "kept", "dropped", "transitions", "targets")
    return {
        domain: {unit: (sides[0].get((domain, unit), 0), sides[1].get((domain, unit), 0)) for unit in units}
        for domain in sorted({domain for side in sides for domain, _ in side})
    }


def _by_domain(side: Side) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    survivor_count = pl.col("kept").sum()
    for domain, number, survivors in side.fates.group_by("domain").agg(pl.len().alias("n"), survivor_count).iter_rows():
        counts |= {
            (domain, "trajectories"): number,
            (domain, "kept"): survivors,
            (domain, "dropped"): number - survivors,
        }
    target = pl.col("n").filter(pl.col("kept") & (pl.col("use") == "target")).sum().alias("targets")
    for domain, number, learnt in side.rows.group_by("domain").agg(pl.col("n").sum(), target).iter_rows():
        counts |= {(domain, "transitions"): number, (domain, "targets"): learnt}
    return counts


_SETTINGS: Final = 20
"""Number of settings that are printed."""

_CHANGES: Final = 30
"""Number of changes of trajectories that are printed."""


def show_comparison(comparison: Comparison, names: tuple[str, str], console: Printer) -> None:
    """Print a comparison; `names` are the two folders, in which examples can be looked up."""
    first, second = names
    if comparison.versions[0] != comparison.versions[1]:
        console.print_line(f"trajmill {comparison.versions[0]} → {comparison.versions[1]}")
    for name, old, new in comparison.settings[:_SETTINGS]:
        console.print_line(f"{name}: {told_value(old)} → {told_value(new)}")
    if len(comparison.settings) > _SETTINGS:
        console.print(f"and {len(comparison.settings) - _SETTINGS} settings of the recipe more")
    if not comparison.settings:
        console.print("recipe: the same settings")
    heads = list(next(iter(comparison.domains.values()), {}))
    rows = ((name, *map(_pair, of.values())) for name, of in comparison.domains.items())
    console.table(["domain", *heads], rows, dropped=("dropped", "transitions", "targets"))
    _print_pairs("dropped by", comparison.reasons, console)
    _print_pairs(
        "kept trajectories' transitions", {f"{use}: {why}": of for (use, why), of in comparison.uses.items()}, console
    )
    _print_pairs("samples", comparison.samples, console)
    summary = ", ".join(f"{number:,} {kind}" for kind in KINDS if (number := comparison.of(kind)))
    console.print_line(f"trajectories: {comparison.same:,} as they were{', ' if summary else ''}{summary}")
    for change in comparison.changes[:_CHANGES]:
        ways = f"{change.before} → {change.after}" if change.before and change.after else change.before or change.after
        console.print_line(f"{change.kind}, {change.domain}, {ways}: {change.number:,}", style="bold")
        console.print_line(f"  {', '.join(change.examples)}")
    if len(comparison.changes) > _CHANGES:
        console.print(f"and {len(comparison.changes) - _CHANGES} kinds of change more: see --html")
    if comparison.changes:
        console.print_line(f"next: trajmill inspect {second} --trajectory ID, or trajmill view {second}")
        if comparison.of(GONE):
            console.print_line(f"what is gone is looked at in {first}")


def _print_pairs(title: str, pairs: Mapping[str, tuple[int, int]], console: Printer) -> None:
    differ = {name: of for name, of in pairs.items() if of[0] != of[1]}
    if differ:
        console.table([title, "before", "now"], ((name, f"{a:,}", f"{b:,}") for name, (a, b) in differ.items()))


def _pair(of: tuple[int, int]) -> str:
    return f"{of[0]:,}" if of[0] == of[1] else f"{of[0]:,} → {of[1]:,}"


def write_comparison(comparison: Comparison, names: tuple[str, str], file: str) -> None:
    """Write a comparison as a page."""
    values = {"found": comparison, "names": names, "kinds": KINDS, "told_value": told_value}
    target = Path(file)
    Folder.named(str(target.parent)).write(target.name, page("comparison.html", values))
