"""What two runs have done otherwise: settings, counts, and what became of each trajectory, by its key.

A key is the id of content and what tells exact copies apart, as rows and the viewer have it, so each copy counts.
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
"""What may have become of a trajectory, in the order in which it is told."""

_COLUMNS: Final = ("row_id", "trajectory_id", "step", "kept", "use", "reason")
_NO_POOL: Final = "no pool"


@dataclass(frozen=True, slots=True)
class Change:
    """Trajectories of which the same became.

    Attributes:
        kind: one of `KINDS`.
        domain: theirs.
        before: what they were: `kept`, `dropped: REASON`, a pool; empty where they were not there.
        after: what they are.
        number: how many.
        examples: keys of some.
    """

    kind: str
    domain: str
    before: str
    after: str
    number: int
    examples: Sequence[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs beside each other; pairs of numbers are of the first and the second.

    Attributes:
        settings: (name, value of the first, of the second) of what their recipes have otherwise.
        versions: of trajmill.
        domains: domain → unit (trajectories, kept, dropped, transitions, targets) → its numbers.
        reasons: reason → dropped trajectories.
        uses: (use, reason) → transitions that are no target, of kept trajectories.
        samples: `pool.domain` → samples.
        same: trajectories of which the same became.
        changes: the others, the largest first.
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
        """How many trajectories are of a kind."""
        return sum(one.number for one in self.changes if one.kind == kind)


@dataclass(frozen=True, slots=True)
class Side:
    """One run: `fates`, a row for each trajectory, and its transitions counted by what became of them."""

    sources: Sources
    fates: pl.DataFrame
    rows: pl.DataFrame


def compared(first: str, second: str, examples: int = 3) -> Comparison:
    """Compares two output folders.

    Args:
        first: the one that was before.
        second: the other.
        examples: keys that are named of each change.

    Raises:
        ConfigError: one holds no judged run.
        ShardError: a file cannot be read.
    """
    one, other = _side(first), _side(second)
    joined = _joined(one.fates, other.fates)
    versions = [
        str(side.sources.records[-1].get("version", "")) if side.sources.records else "" for side in (one, other)
    ]
    return Comparison(
        settings=settings_changed(one.sources.recipe, other.sources.recipe),
        versions=(versions[0], versions[1]),
        domains=_domains(one, other),
        reasons=_paired(_reasons(one), _reasons(other)),
        uses=_paired(_uses(one), _uses(other)),
        samples=_paired(_samples(one), _samples(other)),
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
    """The trajectories of a unit, a row each, and its transitions, counted."""
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
    """Trajectory → the pool that it was drawn into."""
    names = [name for lead in sources.leads for name in sources.below(f"{lead}draws") if "-part-" in name]
    parts = [pl.DataFrame(sources.table(name, ["trajectory_id", "pool"])) for name in names]
    empty = pl.DataFrame(schema={"trajectory_id": pl.String, "pool": pl.String})
    return pl.concat([empty, *parts], how="vertical_relaxed").unique("trajectory_id", keep="first", maintain_order=True)


def _joined(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    """A row for each key with what became of it: `kind` (null: the same), `domain`, `before`, `after`."""
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
    kept, reason = pl.col(f"kept{side}"), pl.col(f"reason{side}").fill_null("no reason told")
    dropped = pl.concat_str(pl.lit("dropped: "), reason)
    return pl.when(kept.is_null()).then(pl.lit("")).when(kept).then(pl.lit("kept")).otherwise(dropped)


def _changes(joined: pl.DataFrame, examples: int) -> list[Change]:
    keys = ["kind", "domain", "before", "after"]
    found = (
        joined.filter(pl.col("kind").is_not_null())
        .group_by(keys)
        .agg(pl.len().alias("number"), pl.col("key").sort().head(examples).alias("examples"))
    )
    told = [Change(**row) for row in found.to_dicts()]
    return sorted(told, key=lambda one: (KINDS.index(one.kind), -one.number, one.domain, one.before, one.after))


def _paired(first: Mapping[Any, int], second: Mapping[Any, int]) -> dict[Any, tuple[int, int]]:
    keys = sorted(first.keys() | second.keys(), key=lambda key: (-max(first.get(key, 0), second.get(key, 0)), key))
    return {key: (first.get(key, 0), second.get(key, 0)) for key in keys}


def _reasons(side: Side) -> dict[str, int]:
    dropped = side.fates.filter(~pl.col("kept")).group_by(pl.col("reason").fill_null("no reason told")).len()
    return dict(dropped.iter_rows())


def _uses(side: Side) -> dict[tuple[str, str], int]:
    told = side.rows.filter(pl.col("kept") & (pl.col("use") != "target") & pl.col("reason").is_not_null())
    counted = told.group_by("use", "reason").agg(pl.col("n").sum())
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
    found: dict[tuple[str, str], int] = {}
    kept = pl.col("kept").sum()
    for domain, number, held in side.fates.group_by("domain").agg(pl.len().alias("n"), kept).iter_rows():
        found |= {(domain, "trajectories"): number, (domain, "kept"): held, (domain, "dropped"): number - held}
    target = pl.col("n").filter(pl.col("kept") & (pl.col("use") == "target")).sum().alias("targets")
    for domain, number, learnt in side.rows.group_by("domain").agg(pl.col("n").sum(), target).iter_rows():
        found |= {(domain, "transitions"): number, (domain, "targets"): learnt}
    return found


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
    rows = ((name, *map(_pair, of.values())) for name, of in found.domains.items())
    console.table(["domain", *heads], rows, dropped=("dropped", "transitions", "targets"))
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
        console.table([title, "before", "now"], ((name, f"{a:,}", f"{b:,}") for name, (a, b) in differ.items()))


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
