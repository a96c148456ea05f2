"""Warnings at the end of a run.

They report that nothing is kept, in total or of a domain, that a pool is empty or far off its share, or that a stage
falls short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.judge.reasons import CONTAMINATED
from trajmill.pipelines.mix.mixture import Mixture
from trajmill.pipelines.recipe.mixture import Stage
from trajmill.pipelines.recipe.recipe import POOLS, Mix
from trajmill.pipelines.run_record.conservation import Line
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table
from trajmill.pipelines.storage.units import unit_manifests

_SHOWN = 3
"""Largest number of reasons that are listed."""

_DROPPED = "trajectories.dropped."


def nothing_kept(lines: Sequence[Line]) -> tuple[str, ...]:
    """Return a warning that a run keeps nothing, with the reasons; empty if it keeps something."""
    for line in lines:
        if line.unit in ("files", "inputs", "trajectories") and line.entered and not line.kept:
            return (f"nothing is kept: of {line.entered:,} {line.unit}, {_largest({**line.lost, **line.merged})}",)
    return ()


def domain_counts(units: Sequence[Unit], verdicts: Folder) -> dict[str, Counter[str]]:
    """Sum the counts of judged units by domain."""
    found: dict[str, Counter[str]] = {}
    for domain in sorted({unit.domain for unit in units}):
        found[domain] = Counter()
        for made in unit_manifests(verdicts, [unit.label for unit in units if unit.domain == domain]):
            found[domain].update(made.counts)
    return found


def lost_domains(judged: Mapping[str, Counter[str]], units: Sequence[Unit], rejects: Folder) -> Iterator[str]:
    """Yield a warning for each domain of which judging keeps no trajectory.

    Args:
        judged: counts by domain (`domain_counts`).
        rejects: folder of the judge stage's rejects.
    """
    for domain, counts in judged.items():
        labels = [unit.label for unit in units if unit.domain == domain]
        if counts["trajectories"] and not counts["trajectories.kept"]:
            reasons = {key.removeprefix(_DROPPED): count for key, count in counts.items() if key.startswith(_DROPPED)}
            shown = _benchmarks(labels, rejects) if CONTAMINATED in reasons else {}
            named = f"; they show items of {_largest(shown)}" if shown else ""
            yield f"nothing of {domain} is kept: of {counts['trajectories']:,} trajectories, {_largest(reasons)}{named}"


def _benchmarks(labels: Sequence[str], rejects: Folder) -> Counter[str]:
    """Count the trajectories that show an item, by benchmark."""
    found: Counter[str] = Counter()
    for label in labels:
        table = read_table(rejects, f"{label}.parquet", ["reason", "detail"])
        for reason, item in zip(table["reason"].to_pylist(), table["detail"].to_pylist(), strict=True):
            if reason == CONTAMINATED:
                found[item.partition(":")[0]] += 1
    return found


def _largest(counts: Mapping[str, int]) -> str:
    listed = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    more = f" and {len(listed) - _SHOWN} reasons more" if len(listed) > _SHOWN else ""
    return ", ".join(f"{name} {count:,}" for name, count in listed[:_SHOWN]) + more


FAR: Final = 0.2
"""Share of its wanted trajectories by which a pool may be off without a warning."""

FEW: Final = 10
"""Number of trajectories by which a pool may be off without a warning, since groups are not divided."""


def mixture_warnings(
    mixture: Mixture, mix: Mix, samples: Mapping[str, int] | None = None, *, is_first: bool = True
) -> tuple[str, ...]:
    """What a reader of the end of a run has to know of its mixture, a line each.

    Args:
        samples: what became of it, by `pool.domain`; None where nothing was made yet.
        is_first: whether there is no earlier generation; a pool of a later one may well get nothing.
    """
    made = mixture.drawn() if samples is None else samples
    warnings = list(_empty(mixture, mix, made)) if is_first else []
    warnings += _far_off(mixture)
    for pool in POOLS:
        warnings += _short(pool, mixture.stages.get(pool, []), mix.stages.get(pool, Stage()))
    return tuple(warnings)


def _empty(mixture: Mixture, mix: Mix, made: Mapping[str, int]) -> Iterator[str]:
    for pool in sorted(mix.pools):
        if not mix.pools[pool] or any(count for key, count in made.items() if key.startswith(f"{pool}.")):
            continue
        given = sum(number for _, number in mixture.asked.get(pool, {}).values())
        why = "no group of trajectories was assigned to it"
        if given:
            why = f"none of the {given:,} trajectories assigned to it makes a sample"
        yield f"pool {pool} is empty: {why}"


def _far_off(mixture: Mixture) -> Iterator[str]:
    for pool, domains in mixture.asked.items():
        for domain, (asked, given) in domains.items():
            if abs(given - asked) > max(FAR * asked, FEW):
                yield f"pool {pool} was given {given:,} trajectories of {domain}, where its share is {asked:,.0f}"


LITTLE: Final = 0.01
"""Share of a budget that may be left without a warning, since no remaining sample fits it."""


def _short(pool: str, rows: list[dict[str, Any]], stage: Stage) -> Iterator[str]:
    """Yield the shortfalls of a stage: as a whole, or of single components or domains if the others have enough."""
    short = [one for one in rows if one["shortfall"]]
    tokens, samples = (sum(one[name] for one in rows) for name in ("tokens", "samples"))
    lacking = 0 if stage.budget is None else stage.budget - tokens
    domains: dict[str, list[str]] = {}
    for one in short:
        domains.setdefault(one["component"], []).append(one["domain"])
    named = "; ".join(_named({"component": name, "domain": ", ".join(of)}) for name, of in domains.items())
    begun = f"stage {pool} falls short: it drew {tokens:,} of the {stage.budget or 0:,} tokens asked for"
    if short and lacking >= sum(one["shortfall"] for one in short) / 2:
        yield f"{begun}; short is {named}"
    else:
        if lacking > LITTLE * (stage.budget or 0):
            yield f"{begun}; no sample that is left fits the rest"
        for one in short:
            wanted = one["tokens"] + one["shortfall"]
            yield (
                f"stage {pool} falls short: {_named(one)} gave {one['tokens']:,} of the {wanted:,} tokens of its share,"
                f" and {one['available']:,} are there"
            )
    if stage.samples is not None and stage.budget is None and samples < stage.samples:
        yield f"stage {pool} falls short: it drew {samples:,} of the {stage.samples:,} samples asked for"


def _named(one: Mapping[str, Any]) -> str:
    component = f"component '{one['component']}'"
    return f"{one['domain']} of {component}" if one["domain"] else component
