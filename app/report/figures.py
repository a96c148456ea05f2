"""Numbers of a report: totals from manifests and run records, distributions from sampled files."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.app.pages.why import COPIED, KEEPER, rules_of
from trajmill.app.report.sources import Sources, UnitFiles
from trajmill.pipelines.judge.harness_text import read_frames
from trajmill.pipelines.judge.reasons import NEAR_DUPLICATE
from trajmill.pipelines.run_record.conservation import Line, summed_lines
from trajmill.pipelines.run_record.warnings import nothing_kept
from trajmill.schemas.verdict import SIGNAL_PREFIX

LENGTHS: Final[Mapping[str, str]] = {
    "turns": "turns a trajectory",
    "text_bytes": "bytes of text a transition",
    "tokens": "tokens a trajectory",
}
"""Columns whose distribution is shown, with their names in words."""

ANSWER: Final = "answer"
"""Class of characters under loss whose class was not measured."""

_FLAG_EDGES: Final = [-0.5, 0.5, 1.5]
_CLUSTERS: Final = 8
_BARS: Final = 24
"""Most bars of a histogram of a signal."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Number of values in each of adjoining ranges.

    Attributes:
        edges: Edges of the ranges, one more than there are ranges.
    """

    edges: Sequence[float]
    counts: Sequence[int]
    median: float
    total: int


@dataclass(frozen=True, slots=True)
class Signal:
    """Rule of the recipe, and the distribution of its signal.

    Attributes:
        least: Smallest value that passes; None: no bound.
        most: Largest value that passes; None: no bound.
        use: Use of rows that do not pass; empty: the default of the rule's kind.
        cap: Largest share of rows that do not pass and are kept nevertheless.
        spread: Histogram of the values.
        beyond: Number of values in each range that do not pass.
        only: Rows that break this rule alone.
        decided: Rows that this rule decided, without those that break it and were dropped for another reason.
    """

    rule: str
    signal: str
    least: float | None
    most: float | None
    use: str
    cap: float | None
    spread: Histogram
    beyond: Sequence[int]
    only: int = 0
    decided: int = 0

    @property
    def share(self) -> float | None:
        """Share of ones if every value is 0 or 1; otherwise None."""
        is_flag = list(self.spread.edges) == _FLAG_EDGES
        return self.spread.counts[1] / self.spread.total if is_flag else None

    @property
    def broken(self) -> int:
        """Number of values that do not pass."""
        return sum(self.beyond)


@dataclass(frozen=True, slots=True)
class Copies:
    """Trajectories that were dropped as copies of a kept one, among the sampled rejects.

    Attributes:
        largest: (beginning of the kept one's id, near copies, equal ones) of the largest clusters.
    """

    sizes: Mapping[int, int]
    largest: Sequence[tuple[str, int, int]]


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts of a report.

    Attributes:
        recipe: Recipe from the record of the run.
        version: Version of trajmill that ran it.
        digest: Digest of the inputs of the shards; empty before they exist.
        lines: Balance of each unit, over all generations.
        nothing: Lines that explain why nothing is kept; empty if something is.
        samples: Samples by `pool.domain`.
        drawn_tokens: Tokens by `pool.domain`.
        loss_tokens: Tokens under loss by `pool.domain`.
        tokens: Number of all tokens, and of tokens under loss.
        uses: Sampled transitions by domain and use (or `dropped`).
        spreads: Histograms by domain and column of `LENGTHS`; those of a column share their edges.
        signals: Distributions by rule.
        classes: Sampled characters under loss by `pool.domain` and class.
        ceilings: Agreement of replicates by domain.
        harness: Harness text that no parser knows, as in `measures/harness_text.parquet`.
        rewards: Rows of RL, and the least, median and greatest of their reward quality, by domain.
        diversity: Diversity from the manifest of shards.
        mixture: Mixture from the manifest of shards.
        warnings: Lines of the last run on differences between the mixture and the recipe.
        seen: Number of sampled units, and of all units.
    """

    recipe: Mapping[str, Any]
    version: str
    digest: str
    generations: int
    lines: Sequence[Line]
    nothing: Sequence[str]
    samples: Mapping[str, int]
    drawn_tokens: Mapping[str, int]
    loss_tokens: Mapping[str, int]
    tokens: tuple[int, int]
    classes: Mapping[str, Mapping[str, int]]
    copies: Copies
    ceilings: Mapping[str, Mapping[str, float]]
    harness: Sequence[Mapping[str, Any]]
    rewards: Mapping[str, Sequence[float]]
    diversity: Mapping[str, Mapping[str, Mapping[str, float]]]
    mixture: Mapping[str, Any]
    warnings: Sequence[str]
    seen: tuple[int, int]
    uses: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    domains: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    spreads: Mapping[str, Mapping[str, Histogram]] = field(default_factory=dict)
    signals: Sequence[Signal] = ()


def figures(sources: Sources, rejects: pa.Table) -> Figures:
    """Compute the numbers of an output folder.

    Args:
        rejects: Sampled rejects (`examples.reject_rows`).
    """
    shards = sources.manifest("shards")
    counts = shards.counts if shards else {}
    named = {name: _counts_below(counts, f"{name}.") for name in ("samples", "tokens", "loss_tokens")}
    return Figures(
        recipe=sources.recipe,
        version=str(sources.records[-1].get("version", "")) if sources.records else "",
        digest=shards.digest if shards else "",
        generations=len(sources.leads),
        lines=(lines := balance(sources.records)),
        nothing=nothing_kept(lines),
        samples=named["samples"],
        drawn_tokens=named["tokens"],
        loss_tokens=named["loss_tokens"],
        tokens=_tokens(sources.records),
        **(_of_rows(sources) if sources.units else {}),
        classes=_classes(sources),
        copies=_copies(rejects),
        ceilings=_ceilings(sources),
        harness=_harness(sources),
        rewards=_rewards(sources),
        diversity=shards.diversity if shards else {},
        mixture=shards.mixture if shards else {},
        warnings=sources.records[-1].get("warnings", ()) if sources.records else (),
        seen=(len(sources.units), len(sources.all_units)),
    )


def _counts_below(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {key.removeprefix(prefix): number for key, number in sorted(counts.items()) if key.startswith(prefix)}


def balance(records: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Sum the lines of the balance over the run records of the generations."""
    items = (item for record in records for item in record.get("counts", {}).items())
    return summed_lines(Line(unit, **{name: of[name] for name in _OF_LINE}) for unit, of in items)


_OF_LINE: Final = ("entered", "kept", "context", "lost", "merged")


def _tokens(records: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    totals = [record.get("tokens", {}) for record in records]
    return sum(total.get("all", 0) for total in totals), sum(total.get("target", 0) for total in totals)


def _of_rows(sources: Sources) -> dict[str, Any]:
    """Count the sampled rows of transitions and verdicts."""
    rows = _rows(sources)
    trajectories = _trajectories(rows)
    return {
        "uses": _uses(rows),
        "domains": _domains(rows, trajectories),
        "spreads": _spreads(rows, trajectories),
        "signals": list(_signals(rows, rules_of(sources.recipe))),
    }


def _rows(sources: Sources) -> pa.Table:
    """Return the rows of the sampled units: `domain`, measures and decisions."""
    signals = sorted({f"{SIGNAL_PREFIX}{rule.get('signal')}" for rule in rules_of(sources.recipe).values()})
    parts = [_unit_rows(sources, unit, signals) for unit in sources.units]
    return pa.concat_tables(parts, promote_options="permissive")


def _unit_rows(sources: Sources, unit: UnitFiles, signals: Sequence[str]) -> pa.Table:
    table = sources.table(unit.of("transitions"), ["step", "turn"])
    if unit.of("verdicts") in sources.names:
        columns = ["kept", "use", "reason", "tokens", "text_bytes", *signals]
        verdicts = sources.table(unit.of("verdicts"), columns)
        for name in verdicts.column_names:
            table = table.append_column(name, verdicts[name])
    return table.append_column("domain", pa.repeat(pa.scalar(unit.domain), len(table)))


def _trajectories(rows: pa.Table) -> pa.Table:
    """Return `domain` and `turns` of each trajectory, and `tokens` and `kept` if it was judged."""
    number = np.cumsum(rows["step"].to_numpy() == 0)
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    columns = {"domain": rows["domain"].take(starts), "turns": _reduce(np.maximum, rows["turn"], starts) + 1}
    if "tokens" in rows.column_names:
        columns["tokens"] = _reduce(np.add, pc.fill_null(rows["tokens"], 0), starts)
        columns["kept"] = rows["kept"].take(starts)
    return pa.table(columns)


def _reduce(by: np.ufunc, column: pa.ChunkedArray, starts: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    return by.reduceat(column.to_numpy(), starts) if len(starts) else np.zeros(0, np.int64)


def _uses(rows: pa.Table) -> dict[str, dict[str, int]]:
    if "use" not in rows.column_names:
        return {}
    use = pc.if_else(pc.fill_null(rows["kept"], False), rows["use"], "dropped")
    counted = Counter(zip(rows["domain"].to_pylist(), use.to_pylist(), strict=True))
    uses: dict[str, dict[str, int]] = {}
    for (domain, name), number in sorted(counted.items()):
        uses.setdefault(domain, {})[name] = number
    return uses


def _domains(rows: pa.Table, trajectories: pa.Table) -> dict[str, dict[str, Any]]:
    counted = Counter(rows["domain"].to_pylist())
    domains = trajectories["domain"].to_pylist()
    survivors: Counter[str] | None = None
    if "kept" in trajectories.column_names:
        survivors = Counter(
            domain for domain, is_kept in zip(domains, trajectories["kept"].to_pylist(), strict=True) if is_kept
        )
    return {
        domain: {
            "trajectories": number,
            "kept": None if survivors is None else survivors[domain],
            "transitions": counted[domain],
        }
        for domain, number in sorted(Counter(domains).items())
    }


def _spreads(rows: pa.Table, trajectories: pa.Table) -> dict[str, dict[str, Histogram]]:
    by_domain: dict[str, dict[str, Histogram]] = {domain: {} for domain in sorted(rows["domain"].unique().to_pylist())}
    for column in LENGTHS:
        of = trajectories if column in trajectories.column_names else rows
        if column not in of.column_names or not len(of):
            continue
        largest = max(int(pc.max(of[column]).as_py() or 1), 1)
        edges = [0, *(1 << power for power in range(largest.bit_length() + 1))]
        for domain, spreads in by_domain.items():
            spreads[column] = histogram(_numbers(of.filter(pc.equal(of["domain"], domain))[column]), edges)
    return by_domain


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return the values that are not null."""
    return column.drop_null().to_numpy()


def histogram(values: npt.NDArray[Any], edges: Sequence[float]) -> Histogram:
    """Count the values in each range. A value at an edge belongs to the range that begins there, at the last edge to
    the last range.
    """
    there = values.astype(np.float64)
    bins = np.searchsorted(np.array(edges[1:-1], np.float64), there, side="right")
    counts = np.bincount(bins, minlength=len(edges) - 1).tolist()
    return Histogram(edges, counts, float(np.median(there)) if len(there) else 0.0, len(there))


def _signals(rows: pa.Table, rules: Mapping[str, Mapping[str, Any]]) -> Iterator[Signal]:
    failing = {name: fails for name, rule in sorted(rules.items()) if (fails := _failing(rows, rule)) is not None}
    failed = sum(fails.astype(np.int64) for fails in failing.values())
    reasons = Counter(rows["reason"].to_pylist()) if failing else Counter[str | None]()
    for name, fails in failing.items():
        rule = rules[name]
        values = _signal_values(rows, rule)
        there = ~np.isnan(values)
        if not there.any():
            continue
        least, most = rule.get("min"), rule.get("max")
        edges = signal_edges(values[there], [bound for bound in (least, most) if bound is not None])
        description = rule["signal"], least, most, rule.get("use") or "", rule.get("cap")
        spreads = histogram(values[there], edges), histogram(values[fails], edges).counts
        yield Signal(name, *description, *spreads, int((fails & (failed == 1)).sum()), reasons[name])


def _signal_values(rows: pa.Table, rule: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """Return the signal of a rule by row, NaN where it was not measured."""
    column = pc.cast(rows[f"{SIGNAL_PREFIX}{rule.get('signal')}"], pa.float64())
    return pc.fill_null(column, float("nan")).to_numpy().round(6)


def _failing(rows: pa.Table, rule: Mapping[str, Any]) -> npt.NDArray[np.bool_] | None:
    """Flag the rows that break a rule; return None if its signal was not measured at all."""
    if f"{SIGNAL_PREFIX}{rule.get('signal')}" not in rows.column_names:
        return None
    values, fails = _signal_values(rows, rule), np.zeros(len(rows), np.bool_)
    for is_beyond, bound in ((np.less, rule.get("min")), (np.greater, rule.get("max"))):
        fails |= is_beyond(values, bound) if bound is not None else False
    return fails


def signal_edges(values: npt.NDArray[Any], bounds: Sequence[float]) -> list[float]:
    """Return edges of ranges that cover the values and the bounds: one range per number if they are few and whole."""
    least = min([float(values.min()), *bounds])
    most = max([float(values.max()), *bounds])
    is_whole = bool((values == values.round()).all())
    if is_whole and most - least < _BARS:
        return [least - 0.5 + number for number in range(max(int(most - least), 1) + 2)]
    width = (most - least) / _BARS or 1.0
    return [least + width * number for number in range(_BARS + 1)]


def _classes(sources: Sources) -> dict[str, dict[str, int]]:
    classes = {}
    for pool, domain, name in sources.shards():
        table = sources.table(name, ["spans"]) if name.endswith(".parquet") else None
        if table is None or "spans" not in table.column_names:
            continue
        sizes: Counter[str] = Counter()
        for spans in table["spans"].chunks:
            every = spans.flatten().drop_null()
            size = pc.subtract(every.field("end"), every.field("begin"))
            for label, number in zip(every.field("label").to_pylist(), size.to_pylist(), strict=True):
                sizes[ANSWER if label is None else label] += number
        classes[f"{pool}.{domain}"] = dict(sorted(sizes.items()))
    return classes


def _rewards(sources: Sources) -> dict[str, list[float]]:
    """Return (rows, least, median and greatest reward quality) by domain, from the sampled files."""
    rewards = {}
    for pool, domain, name in sources.shards():
        if pool == "rl":
            values = pc.struct_field(sources.table(name, ["extra_info"])["extra_info"], "reward_quality")
            if len(values):
                least, median, greatest = pc.quantile(values, [0, 0.5, 1]).to_pylist()
                rewards[domain] = [len(values), least, median, greatest]
    return rewards


def _copies(rejects: pa.Table) -> Copies:
    named = ("unit", "reason", "detail")
    near: Counter[str] = Counter()
    equal: Counter[str] = Counter()
    for unit, reason, detail in zip(*(rejects[name].to_pylist() for name in named), strict=True):
        if unit == "trajectory" and reason in COPIED and (keeper := re.search(KEEPER, detail or "")):
            (near if reason == NEAR_DUPLICATE else equal)[keeper[1]] += 1
    both = near + equal
    largest = sorted(both, key=lambda keeper: (-both[keeper], keeper))[:_CLUSTERS]
    sizes = dict(sorted(Counter(both.values()).items()))
    return Copies(sizes, [(keeper, near[keeper], equal[keeper]) for keeper in largest])


def _harness(sources: Sources) -> list[dict[str, Any]]:
    """Return the harness text of the last generation that found any."""
    frames = (read_frames(sources.folder / f"{lead}measures") for lead in reversed(sources.leads))
    return next((rows for rows in frames if rows), [])


def _ceilings(sources: Sources) -> dict[str, dict[str, float]]:
    """Return the ceilings of the last generation that measured any; earlier ones are not measured again."""
    for lead in reversed(sources.leads):
        try:
            ceilings = json.loads(sources.folder.found(f"{lead}measures/replicates.json") or b"{}")
        except ValueError:
            continue
        if ceilings:
            return dict(sorted(ceilings.items()))
    return {}
