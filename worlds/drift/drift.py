"""Drift: where simulated rows part from real ones, as one value that a page, a table and a file of JSON tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import polars as pl

from trajmill.schemas import ConfigError
from trajmill.worlds.drift.disagreement import disagreements
from trajmill.worlds.drift.figures import (
    DISAGREEMENT,
    MEASURES,
    Cell,
    Figure,
    by_turn,
    cells,
    growth,
    lengths,
    prepared,
    sides_of,
)
from trajmill.worlds.drift.goodhart import Goodhart, goodhart, read_rewards, told
from trajmill.worlds.drift.pairs import distinct_rows, paired
from trajmill.worlds.drift.rows import Side, read_sides

GOODHART: Final = "goodhart"
GROWTH: Final = "growth."
NAMES: Final = (*MEASURES, DISAGREEMENT, *(f"{GROWTH}{name}" for name in MEASURES), GOODHART)
"""Figures that a threshold may be on."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How two runs are compared.

    Attributes:
        most: rows of a side above which only a share of the tasks is compared.
        compared: pairs of a domain whose words are compared.
        fewest: simulated rows of a domain below which no threshold is held against it.
        rewards: a table of rewards over steps of training; None for none.
    """

    most: int = 1_000_000
    compared: int = 400
    fewest: int = 30
    rewards: str | None = None


@dataclass(frozen=True, slots=True)
class Drifted:
    """What one world model does otherwise.

    Attributes:
        world_model: by name and revision.
        rows: simulated rows.
        pairs: how many of them are in `exact` and `near` pairs, or `alone`.
        shared_tasks: tasks that both sides have.
        cells: figures by cell.
        growth: by domain and measure, over the turns of rollouts.
        turns: means by domain, side and stretch of turns.
        lengths: quantiles of characters by domain and side.
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
    """A bound on a figure, and what was found.

    Attributes:
        name: of `NAMES`.
        allowed: most that it may be.
        found: the largest; None where nothing could be measured.
        where: world model and domain of it, and whether in pairs or rollouts.
    """

    name: str
    allowed: float
    found: float | None
    where: str

    @property
    def is_met(self) -> bool:
        """Whether the figure was measured and is no larger than allowed."""
        return self.found is not None and self.found <= self.allowed


@dataclass(frozen=True, slots=True)
class Drift:
    """What was found.

    Attributes:
        real_rows: rows of the world that were compared.
        real_left_out: simulated rows in the real run.
        sim_left_out: real rows in the simulated one.
        share: of the tasks that were compared.
        models: one a world model, by name.
        goodhart: signs of it; None without a table, or with one of too few steps.
        thresholds: that were asked for.
    """

    real_rows: int
    real_left_out: int
    sim_left_out: int
    share: float
    models: Sequence[Drifted]
    goodhart: Goodhart | None
    thresholds: Sequence[Threshold]

    def json(self) -> dict[str, Any]:
        """The same as JSON has it."""
        found = {name: getattr(self, name) for name in ("real_rows", "real_left_out", "sim_left_out", "share")}
        models = [asdict(one) for one in self.models]
        bounds = [{**asdict(one), "is_met": one.is_met} for one in self.thresholds]
        signs = None if self.goodhart is None else told(self.goodhart)
        return {**found, "models": models, "goodhart": signs, "thresholds": bounds}


def drift(real: str, sim: str, settings: Settings, bounds: Mapping[str, float]) -> Drift:
    """Where the simulated rows of one run part from the real ones of another.

    Args:
        real: a run's folder, normalized at least.
        sim: another; it may be the same.
        settings: how they are compared.
        bounds: figures of `NAMES` and the most that each may be.

    Raises:
        ConfigError: there are no rows to compare, or the table of rewards is none.
        ShardError: a file cannot be read.
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
    found = (Threshold(name, most, *_worst(name, models, signs, settings.fewest)) for name, most in bounds.items())
    return Drift(len(once), world.left_out, model.left_out, world.share, models, signs, tuple(found))


def _of(world: Side, once: pl.DataFrame, model: Side, name: str, settings: Settings) -> Drifted:
    sim = model.rows.filter(pl.col("world_model") == name)
    pairs = paired(once, sim)
    both = _rollouts(once, sim)
    found: list[Cell] = []
    for match, rows in (("exact", sides_of(pairs.exact)), ("near", sides_of(pairs.near)), ("rollouts", both)):
        found += cells(match, rows) if len(rows) else ()
    found += disagreements(world, once, model, pairs, settings.compared)
    counts = {"exact": len(pairs.exact), "near": len(pairs.near), "alone": pairs.alone}
    tasks = both["place"].n_unique()
    return Drifted(name, len(sim), counts, tasks, found, list(growth(both)), list(by_turn(both)), list(lengths(both)))


def _rollouts(real: pl.DataFrame, sim: pl.DataFrame) -> pl.DataFrame:
    """All rows of tasks that both sides have, as `drift_figures.prepared`."""
    sides = [
        one.filter(pl.col("place") != 0).join(other.select("place"), on="place", how="semi", maintain_order="left")
        for one, other in ((real, sim), (sim, real))
    ]
    both = [one.with_columns(pl.lit(number).alias("side")) for number, one in enumerate(sides)]
    return prepared(pl.concat(both))


def _worst(name: str, models: Sequence[Drifted], signs: Goodhart | None, fewest: int) -> tuple[float | None, str]:
    """The largest value of a figure, and where it was found."""
    if name == GOODHART:
        return (None, "") if signs is None else (signs.gap[0] if signs.parts_at is not None else 0.0, "rewards")
    told = [
        (_size(name, figure), f"{one.world_model}, {where}")
        for one in models
        for where, figure in _figures(name, one, fewest)
    ]
    return max(told, key=lambda pair: pair[0]) if told else (None, "")


def _figures(name: str, one: Drifted, fewest: int) -> Iterator[tuple[str, Figure]]:
    """(where, figure) of what is found of a figure in the domains, pairs and rollouts that hold rows enough."""
    if name.startswith(GROWTH):
        measure = name.removeprefix(GROWTH)
        told = ((f"{of['domain']}, growth", of["figure"]) for of in one.growth if of["measure"] == measure)
    else:
        of_domains = [of for of in one.cells if of.by == "domain" and of.rows >= fewest and name in of.figures]
        told = ((f"{of.domain}, {of.match}", of.figures[name]) for of in of_domains)
    yield from told


def _size(name: str, figure: Figure) -> float:
    """By how much a figure parts: of lengths the ratio, the larger by the smaller."""
    if name == "length":
        return max(figure.difference, 1 / max(figure.difference, 1e-9))
    return figure.difference if name == DISAGREEMENT else abs(figure.difference)
