"""Drift between simulated and real rows, as one value from which a page, a table and a JSON file are made.

Drift is the distance of simulated answers from real ones of equal history and action, beyond the distance of real ones
from each other. Disagreement is the share of words that two answers do not have in common, line by line
(`quality.replicate`). The disagreement of real replicates is unpredictable, so it is subtracted: the rest is due to the
model.

Pairs of real and simulated rows are: rows of one log with the same actions so far, if the simulated row was served from
a log; rows of equal history and action, by hash; and near rows if there are no equal ones. Near rows have the same task
and action, and either the same text before the action or a history with a similar sketch. A simulated row is in at most
one pair. Several real rows of equal history and action form one side together, and their differences are the noise
ceiling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from trajmill.quality.replicate import agreement
from trajmill.schemas import ConfigError
from trajmill.worlds.drift.figures import (
    BLOCKS,
    DISAGREEMENT,
    MEASURES,
    Cell,
    Figure,
    by_turn,
    cells,
    growth,
    interval_of_ratios,
    lengths,
    prepare_columns,
    round_figure,
    sides_of,
    stretch,
)
from trajmill.worlds.drift.goodhart import Goodhart, goodhart, goodhart_values, read_rewards
from trajmill.worlds.drift.rows import MINS, Side, read_sides

VALUES: Final = ("chars", "error", "empty", "refusal", "novelty", "echo")
"""Values of a pair that are compared, row by row."""

CANDIDATES: Final = 8
"""Real rows of one task and action among which the nearest is chosen."""

ALIKE: Final = 0.5
"""Smallest share of a sketch in which the histories of a near pair agree."""

_PLACE: Final = ("domain", "tool", "turn", "place")
_BY: Final = (pl.col("trajectory") ^ pl.col("step_hash")).alias("by")
"""Sort key by hash, independent of the files of a run."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of the rows of a world model with real rows.

    Attributes:
        logged: One row a pair: the position of the simulated row (`domain`, `tool`, `turn`, `place`, `by`, `file`,
            `row`), the real row's `key`, `VALUES`, and, with the suffix `_real`, `VALUES`, `file` and `row` of the real
            row.
        exact: The same columns, with the simulated row's `key`, and the means of `VALUES` over its real rows.
        near: The same columns without `key`, with `alike`, the share of the sketch in which the histories agree.
        alone: Number of simulated rows without a pair.
    """

    logged: pl.DataFrame
    exact: pl.DataFrame
    near: pl.DataFrame
    alone: int


def distinct_rows(real: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of trajectories of distinct content, since copies of one log are no replicates of each other."""
    ids, of = np.unique(real["trajectory"].to_numpy(), return_inverse=True)
    content = np.zeros(len(ids), np.uint64)
    np.add.at(content, of, real["step_hash"].to_numpy())
    named = pl.DataFrame({"trajectory": ids, "content": content})
    first_copies = named.sort("content", "trajectory").unique("content", keep="first", maintain_order=True)
    return real.join(first_copies.select("trajectory"), on="trajectory", how="semi", maintain_order="left")


def pair_rows(real: pl.DataFrame, sim: pl.DataFrame) -> Pairs:
    """Pair the rows of a world model with real rows, in the order of the former.

    Args:
        real: Rows of the real world, of `drift.rows.SCHEMA`.
    """
    logged = _pair_logged(real, sim)
    rest = sim.join(logged.select("file", "row"), on=["file", "row"], how="anti", maintain_order="left")
    known = distinct_rows(real).filter(pl.col("place") != 0)
    asked = rest.filter(pl.col("place") != 0)
    exact = asked.select(*_PLACE, _BY, "file", "row", "key", *VALUES).join(
        _sides(known), on="key", how="inner", maintain_order="left"
    )
    rest = asked.join(known.select("key"), on="key", how="anti", maintain_order="left")
    near = _near(known, rest)
    return Pairs(logged, exact, near, len(sim) - len(logged) - len(exact) - len(near))


def _pair_logged(real: pl.DataFrame, sim: pl.DataFrame) -> pl.DataFrame:
    columns = ("file", "row", *VALUES)
    theirs = _each_log_once(real).select("logged", "key", *(pl.col(name).alias(f"{name}_real") for name in columns))
    ours = sim.filter(pl.col("logged") != 0).select("logged", *_PLACE, _BY, *columns)
    return ours.join(theirs, on="logged", how="inner", maintain_order="left").drop("logged")


def _each_log_once(real: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of one copy of each trajectory id; copies are identical."""
    return real.sort("logged", "trajectory", "row").unique("logged", keep="first", maintain_order=True)


def _sides(real: pl.DataFrame) -> pl.DataFrame:
    """Return one row a key: the means of its rows, and the position of the first of them by trajectory."""
    ordered = real.sort("key", "trajectory", "row")
    means = [pl.col(name).cast(pl.Float64).mean().alias(f"{name}_real") for name in VALUES]
    where = [pl.col(name).first().alias(f"{name}_real") for name in ("file", "row")]
    return ordered.group_by("key", maintain_order=True).agg(*means, *where)


def _near(real: pl.DataFrame, sim: pl.DataFrame) -> pl.DataFrame:
    mins = [f"min{number}" for number in range(MINS)]
    first = real.sort("act", "trajectory", "row").group_by("act", maintain_order=True).head(CANDIDATES)
    real_rows = first.select("act", "context", "trajectory", "file", "row", *mins, *VALUES)
    asked = sim.select(*_PLACE, _BY, "file", "row", "act", "context", *mins, *VALUES)
    both = asked.join(real_rows, on="act", how="inner", suffix="_real", maintain_order="left_right")
    agree = pl.sum_horizontal(pl.col(name) == pl.col(f"{name}_real") for name in mins) / MINS
    same = pl.col("context") == pl.col("context_real")
    ranked = both.with_columns(agree.alias("alike"), same.alias("same")).filter(
        pl.col("same") | (pl.col("alike") >= ALIKE)
    )
    order = ["file", "row", "same", "alike", "trajectory", "row_real"]
    best = ranked.sort(order, descending=[False, False, True, True, False, False])
    chosen = best.unique(["file", "row"], keep="first", maintain_order=True)
    real_side = [f"{name}_real" for name in (*VALUES, "file", "row")]
    return chosen.select(*_PLACE, "by", "file", "row", *VALUES, *real_side, "alike")


def pick_replicates(real: pl.DataFrame) -> pl.DataFrame:
    """Pick two real rows of each history and action that has several, the first by trajectory, by domain and key.

    Returns:
        Table of `key`, `domain`, `tool`, `turn`, `place`, `by`, `file`, `row`, `file_real` and `row_real`.
    """
    ordered = real.filter(pl.col("place") != 0).sort("key", "trajectory", "row")
    several = ordered.filter(pl.len().over("key") > 1)
    where = [pl.col(name).first() for name in (*_PLACE, "file", "row")]
    others = [pl.col(name).get(1).alias(f"{name}_real") for name in ("file", "row")]
    groups = several.group_by("key", maintain_order=True).agg(*where, pl.col("key").first().alias("by"), *others)
    return groups.sort("domain", "key")


def sample_pairs(pairs: pl.DataFrame, most: int) -> pl.DataFrame:
    """Sample at most `most` pairs of each domain, by hash."""
    ordered = pairs.sort("domain", "by", "place", "turn")
    return ordered.group_by("domain", maintain_order=True).head(most)


FEWEST: Final = 5
"""Fewest pairs with real replicates for a domain; with fewer, pairs are compared with all its replicates instead."""


def disagreements(real: Side, rows: pl.DataFrame, sim: Side, pairs: Pairs, most: int) -> Iterator[Cell]:
    """Yield the disagreement of logged and of exact pairs, by domain, tool and stretch of turns.

    In a figure, `real` is the disagreement of real replicates, and `sim` that of the model with the real world. For
    logged pairs, the replicates are those of the row itself; without any, `real` is 0. For exact pairs, they are those
    of the pair's own history and action if enough pairs have some; a domain without replicates gets no figure.

    Args:
        real: Side of the real world.
        rows: Its rows, each trajectory's content once.
        sim: Side of the model.
        most: Most pairs of a domain that are read.
    """
    known = pick_replicates(rows)
    for (domain,), every in pairs.logged.sort("domain", maintain_order=True).group_by("domain", maintain_order=True):
        chosen = sample_pairs(every, most)
        answered = _disagreeing(chosen, sim, real)
        keyed = chosen.select("key", "place").unique("key", maintain_order=True)
        own = keyed.join(known.drop("place"), on="key", how="inner", maintain_order="left")
        apart = own.select("key").with_columns(_disagreeing(own, real, real)["apart"].alias("base"))
        base = answered.with_columns(
            chosen.select("key")
            .join(apart, on="key", how="left", maintain_order="left")["base"]
            .fill_null(0)
            .alias("apart")
        )
        yield from _cells("logged", str(domain), answered, base, in_parts=True)
    for (domain,), every in pairs.exact.sort("domain", maintain_order=True).group_by("domain", maintain_order=True):
        groups = known.filter(pl.col("domain") == domain)
        own = every.join(groups.select("key"), on="key", how="semi", maintain_order="left")
        is_own = len(own) >= FEWEST
        chosen = sample_pairs(own if is_own else every, most)
        if is_own:
            keys = chosen.select("key").join(groups, on="key", how="left", maintain_order="left")
        else:
            keys = sample_pairs(groups, most)
        if not len(keys):
            continue
        base, answered = _disagreeing(keys, real, real), _disagreeing(chosen, sim, real)
        yield from _cells("exact", str(domain), answered, base, in_parts=is_own)


def _cells(match: str, domain: str, rows: pl.DataFrame, base: pl.DataFrame, *, in_parts: bool) -> Iterator[Cell]:
    yield _cell(match, "domain", domain, "", rows, base)
    for by, column in (("tool", "tool"), ("turn", "stretch")) if in_parts else ():
        for (value,), some in rows.sort(column, maintain_order=True).group_by(column, maintain_order=True):
            yield _cell(match, by, domain, str(value), some, base.filter(pl.col(column) == value))


def _disagreeing(pairs: pl.DataFrame, first: Side, second: Side) -> pl.DataFrame:
    """Return `domain`, `tool`, `stretch`, `place` and `apart`, 0 to 1, of each pair, in the order of the pairs."""
    words = first.words(pairs)
    others = second.words(pairs.select(pl.col("file_real").alias("file"), pl.col("row_real").alias("row")))
    apart = [
        1 - agreement([words[file, row], others[file_real, row_real]])
        for file, row, file_real, row_real in pairs.select("file", "row", "file_real", "row_real").iter_rows()
    ]
    return pairs.select(
        "domain", pl.col("tool").fill_null(""), stretch(pl.col("turn")).alias("stretch"), "place"
    ).with_columns(pl.Series("apart", apart, pl.Float64))


def _cell(match: str, by: str, domain: str, value: str, rows: pl.DataFrame, base: pl.DataFrame) -> Cell:
    places = np.unique(np.concatenate([rows["place"].to_numpy(), base["place"].to_numpy()]))
    blocks = min(len(places), BLOCKS)
    tables = []
    for table in (base, rows):
        of = np.searchsorted(places, table["place"].to_numpy()) % BLOCKS
        tables.append(np.stack([np.bincount(of, table["apart"].to_numpy(), blocks), np.bincount(of, minlength=blocks)]))
    means = [float(above.sum() / below.sum()) for above, below in tables]
    low, high = interval_of_ratios(tables)
    figure = Figure(round_figure(means[0]), round_figure(means[1]), round_figure(means[1] - means[0]), low, high)
    return Cell(match, by, domain, value, len(rows), rows["place"].n_unique(), {"disagreement": figure})


GOODHART: Final = "goodhart"
GROWTH: Final = "growth."
NAMES: Final = (*MEASURES, DISAGREEMENT, *(f"{GROWTH}{name}" for name in MEASURES), GOODHART)
"""Figures that may have a threshold."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a comparison of two runs.

    Attributes:
        most: Rows of a side above which only a share of the tasks is compared.
        compared: Pairs of a domain whose words are compared.
        fewest: Fewest simulated rows of a domain to which thresholds apply.
        rewards: Table of rewards over training steps; None for none.
    """

    most: int = 1_000_000
    compared: int = 400
    fewest: int = 30
    rewards: str | None = None


@dataclass(frozen=True, slots=True)
class Drifted:
    """Differences of one world model from the real world.

    Attributes:
        world_model: Name and revision of the model.
        rows: Number of simulated rows.
        pairs: Number of them in `logged`, `exact` and `near` pairs, or `alone`.
        shared_tasks: Number of tasks on both sides.
        cells: Figures by cell.
        growth: Growth by domain and measure, over the turns of rollouts.
        turns: Means by domain, side and stretch of turns.
        lengths: Quantiles of characters by domain and side.
    """

    world_model: str
    rows: int
    pairs: Mapping[str, int]
    shared_tasks: int
    cells: Sequence[Cell]
    growth: Sequence[Mapping[str, Any]]
    turns: Sequence[Mapping[str, Any]]
    lengths: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Threshold:
    """Bound on a figure, and the measured value.

    Attributes:
        name: Name of the figure, of `NAMES`.
        allowed: Largest allowed value.
        found: Largest measured value; None if nothing could be measured.
        where: World model and domain of that value, and its kind of pairs or rollouts.
    """

    name: str
    allowed: float
    found: float | None
    where: str

    @property
    def is_met(self) -> bool:
        """True if the figure was measured and is at most the allowed value."""
        return self.found is not None and self.found <= self.allowed


@dataclass(frozen=True, slots=True)
class Drift:
    """Result of a comparison of two runs.

    Attributes:
        real_rows: Number of real rows that were compared.
        real_left_out: Number of simulated rows in the real run.
        sim_left_out: Number of real rows in the simulated run.
        share: Share of the tasks that were compared, 0 to 1.
        models: One result a world model, by name.
        goodhart: Signs of Goodhart's law; None without a table, or with too few steps.
        thresholds: Requested thresholds.
    """

    real_rows: int
    real_left_out: int
    sim_left_out: int
    share: float
    models: Sequence[Drifted]
    goodhart: Goodhart | None
    thresholds: Sequence[Threshold]

    def json(self) -> dict[str, Any]:
        """Return the result as values for JSON."""
        values = {name: getattr(self, name) for name in ("real_rows", "real_left_out", "sim_left_out", "share")}
        models = [asdict(model) for model in self.models]
        bounds = [{**asdict(threshold), "is_met": threshold.is_met} for threshold in self.thresholds]
        signs = None if self.goodhart is None else goodhart_values(self.goodhart)
        return {**values, "models": models, "goodhart": signs, "thresholds": bounds}


def drift(real: str, sim: str, settings: Settings, bounds: Mapping[str, float]) -> Drift:
    """Compare the simulated rows of one run with the real rows of another.

    Args:
        real: A run's folder, normalized at least.
        sim: Another run's folder; it may be the same.
        settings: Settings of the comparison.
        bounds: Figures of `NAMES` and the largest allowed value of each.

    Raises:
        ConfigError: There are no rows to compare, or the table of rewards is invalid.
        ShardError: A file cannot be read.
    """
    signs = None if settings.rewards is None else goodhart(read_rewards(settings.rewards))
    world, model = read_sides(real, sim, settings.most)
    if not len(model.rows):
        raise ConfigError(f"{sim} holds no row whose environment.kind is model.")
    if not len(world.rows):
        raise ConfigError(f"{real} holds no row that the world answered.")
    once = distinct_rows(world.rows)
    names = model.rows["world_model"].unique().sort().to_list()
    models = [_of(world, once, model, name, settings) for name in names]
    thresholds = (Threshold(name, most, *_worst(name, models, signs, settings.fewest)) for name, most in bounds.items())
    return Drift(len(once), world.left_out, model.left_out, world.share, models, signs, tuple(thresholds))


def _of(world: Side, once: pl.DataFrame, model: Side, name: str, settings: Settings) -> Drifted:
    sim = model.rows.filter(pl.col("world_model") == name)
    pairs = pair_rows(world.rows, sim)
    both = _rollouts(world.rows, once, sim)
    model_cells: list[Cell] = []
    for match in ("logged", "exact", "near"):
        rows = getattr(pairs, match)
        model_cells += cells(match, sides_of(rows)) if len(rows) else ()
    model_cells += cells("rollouts", both) if len(both) else ()
    model_cells += disagreements(world, once, model, pairs, settings.compared)
    counts = {"logged": len(pairs.logged), "exact": len(pairs.exact), "near": len(pairs.near), "alone": pairs.alone}
    tasks = both["place"].n_unique()
    return Drifted(
        name, len(sim), counts, tasks, model_cells, list(growth(both)), list(by_turn(both)), list(lengths(both))
    )


def _rollouts(real: pl.DataFrame, once: pl.DataFrame, sim: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the served logs, as far as sessions went, and of other tasks that both sides have.

    Returns:
        Rows as of `figures.prepare_columns`.
    """
    is_served = pl.col("log").is_in(real["log"].unique().implode())
    served = sim.filter(is_served)
    ends = served.group_by("log", "trajectory").len("end").group_by("log").max().drop("trajectory")
    reached = _each_log_once(real).join(ends, on="log", maintain_order="left")
    reached = reached.filter(pl.col("row").rank("ordinal").over("log") <= pl.col("end")).drop("end")
    of_logs = [side_rows.with_columns(place="log") for side_rows in (reached, served)]
    of_tasks = [side_rows.filter(pl.col("place") != 0) for side_rows in (once, sim.filter(~is_served))]
    shared = [
        side_rows.join(opposite.select("place"), on="place", how="semi", maintain_order="left").with_columns(
            side=pl.lit(number)
        )
        for sides in (of_logs, of_tasks)
        for number, (side_rows, opposite) in enumerate((sides, sides[::-1]))
    ]
    return prepare_columns(pl.concat(shared))


def _worst(name: str, models: Sequence[Drifted], signs: Goodhart | None, fewest: int) -> tuple[float | None, str]:
    """Return the largest value of a figure, and where it was found."""
    if name == GOODHART:
        return (None, "") if signs is None else (signs.gap[0] if signs.parts_at is not None else 0.0, "rewards")
    sizes = [
        (_size(name, figure), f"{model.world_model}, {where}")
        for model in models
        for where, figure in _figures(name, model, fewest)
    ]
    return max(sizes, key=lambda pair: pair[0]) if sizes else (None, "")


def _figures(name: str, model: Drifted, fewest: int) -> Iterator[tuple[str, Figure]]:
    """Yield (where, figure) for a figure in the domains, pairs and rollouts with enough rows."""
    if name.startswith(GROWTH):
        measure = name.removeprefix(GROWTH)
        figures = ((f"{of['domain']}, growth", of["figure"]) for of in model.growth if of["measure"] == measure)
    else:
        of_domains = [of for of in model.cells if of.by == "domain" and of.rows >= fewest and name in of.figures]
        figures = ((f"{of.domain}, {of.match}", of.figures[name]) for of in of_domains)
    yield from figures


def _size(name: str, figure: Figure) -> float:
    """Return the size of a figure's difference; for lengths, the ratio of the larger to the smaller."""
    if name == "length":
        return max(figure.difference, 1 / max(figure.difference, 1e-9))
    return figure.difference if name == DISAGREEMENT else abs(figure.difference)
