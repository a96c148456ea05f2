"""Signs of Goodhart's law: a simulated reward that keeps rising where the real outcome does not.

Both are scaled to their own range over the training steps, so that a merely larger reward is no sign. The result
contains the rank correlation of the steps' means, and the step from which the simulated reward leaves the real outcome:
the kink of a line through the gap between them, behind which the gap rises, provided that the reward itself rises over
the steps. Intervals come from resampling the rows of each step, or the steps if each has one row, with a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from trajmill.schemas import ConfigError

Floats = npt.NDArray[np.float64]

COLUMNS: Final = ("step", "simulated", "real")
"""Columns of the table: a training step, the reward by the simulated world, and the outcome in the real one. A row with
a null in one of the two still counts for the other.
"""

DRAWS: Final = 200
LEAST: Final = 0.1
"""Smallest gain of the reward on the outcome, as a share of their ranges, that counts as divergence. The lower end of
the interval must reach it, because the best of many kinks finds a small gain anywhere.
"""

RISES: Final = 0.5
"""Smallest rank correlation of reward and step at which the reward counts as rising."""

FEWEST: Final = 6
"""Fewest steps for a result."""


@dataclass(frozen=True, slots=True)
class Goodhart:
    """Signs of Goodhart's law in a table of rewards.

    Attributes:
        steps: Training steps, ascending.
        simulated: Mean reward of each step.
        real: Mean outcome of each step.
        rank_correlation: Spearman's rank correlation of these means, -1 to 1, with its interval.
        before: Rank correlation of the steps up to the divergence; None without a divergence, or with too few steps.
        after: Rank correlation of the steps from the divergence on; None as for `before`.
        parts_at: Step of the divergence, with its interval; None without a divergence.
        gap: Gain of the reward on the outcome from there to the last step, as a share of their ranges, with its
            interval.
    """

    steps: list[float]
    simulated: list[float]
    real: list[float]
    rank_correlation: tuple[float, float, float]
    before: float | None
    after: float | None
    parts_at: tuple[float, float, float] | None
    gap: tuple[float, float, float]


def read_rewards(path: str) -> pl.DataFrame:
    """Read the table of a file, `.csv` or JSON Lines, with `COLUMNS` as numbers.

    Raises:
        ConfigError: The file is missing, or not such a table.
    """
    file = Path(path)
    try:
        table = pl.read_csv(file) if file.suffix == ".csv" else pl.read_ndjson(file)
        rewards = table.select(pl.col(name).cast(pl.Float64) for name in COLUMNS)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ConfigError(f"{path} is no table of {', '.join(COLUMNS)}: {str(error).splitlines()[0]}") from error
    if not rewards["step"].is_finite().all() or rewards["step"].has_nulls():
        raise ConfigError(f"{path} has rows without a step.")
    return rewards.with_columns(pl.col(name).fill_nan(None) for name in COLUMNS[1:])


def goodhart(table: pl.DataFrame) -> Goodhart | None:
    """Compute the signs from a table of `COLUMNS`; None if fewer than `FEWEST` steps have both values."""
    both = [
        of.sort("step").group_by("step", maintain_order=True).agg(pl.col(name).drop_nulls().sort())
        for name in COLUMNS[1:]
        for of in [table.select("step", name).drop_nulls()]
    ]
    joined = both[0].join(both[1], on="step", how="inner", maintain_order="left")
    if len(joined) < FEWEST:
        return None
    steps = joined["step"].to_numpy()
    groups = [[np.array(values) for values in joined[name].to_list()] for name in COLUMNS[1:]]
    simulated, real = (np.array([of.mean() for of in some]) for some in groups)
    kink, gap = _kink(steps, simulated, real)
    draws = _draw_groups(steps, groups)
    ranks = np.array([spearman(simulated_draw, real_draw) for _, simulated_draw, real_draw in draws])
    kinks = [_kink(*draw) for draw in draws]
    low, high = _interval(np.array([of for _, of in kinks]))
    parts = None
    if low >= LEAST and kink is not None:
        parts = (kink, *_interval(np.array([np.nan if at is None else at for at, _ in kinks])))
    early, late = (steps <= kink, steps >= kink) if parts is not None and kink is not None else (steps < steps[0],) * 2
    return Goodhart(
        [_round_or_none(step) for step in steps],
        [_round_or_none(value) for value in simulated],
        [_round_or_none(value) for value in real],
        (_round_or_none(spearman(simulated, real)), *_interval(ranks)),
        _correlation(simulated[early], real[early]),
        _correlation(simulated[late], real[late]),
        parts,
        (_round_or_none(gap), low, high),
    )


def goodhart_values(signs: Goodhart) -> Mapping[str, object]:
    """Return the signs as values for JSON."""
    names = ("found", "low", "high")
    return {
        "steps": signs.steps,
        "simulated": signs.simulated,
        "real": signs.real,
        "rank_correlation": dict(zip(names, signs.rank_correlation, strict=True)),
        "rank_correlation_before": signs.before,
        "rank_correlation_after": signs.after,
        "parts_at": None if signs.parts_at is None else dict(zip(names, signs.parts_at, strict=True)),
        "gap_at_the_end": dict(zip(names, signs.gap, strict=True)),
    }


def _draw_groups(steps: Floats, groups: list[list[Floats]]) -> list[tuple[Floats, Floats, Floats]]:
    """Return (steps, simulated, real) of each draw."""
    draws = np.random.default_rng(0)
    if any(len(of) > 1 for some in groups for of in some):
        return [
            (steps, *(np.array([draws.choice(of, len(of)).mean() for of in some]) for some in groups))  # type: ignore[misc]
            for _ in range(DRAWS)
        ]
    means = np.array([[of[0] for of in some] for some in groups])
    chosen = [np.unique(draws.integers(0, len(steps), len(steps))) for _ in range(DRAWS)]
    return [(steps[of], means[0, of], means[1, of]) for of in chosen if len(of) >= 4]


def _kink(steps: Floats, simulated: Floats, real: Floats) -> tuple[float | None, float]:
    """Return the step at which the gap of the two, each scaled to its range, starts to rise, and its rise since."""
    if not spearman(steps, simulated) >= RISES:
        return None, 0.0
    gap, way = _scale(simulated) - _scale(real), _scale(steps)
    best: tuple[float, float | None, float] = (math.inf, None, 0.0)
    for at, position, (design, inverse) in zip(
        steps[1:-1].tolist(), way[1:-1].tolist(), _kinks(way.tobytes()), strict=True
    ):
        line = inverse @ gap
        lost = float(((gap - design @ line) ** 2).sum())
        if line[2] > 0 and line[1] + line[2] > 0 and lost < best[0] - 1e-12:
            best = (lost, at, float((line[1] + line[2]) * (1 - position)))
    return best[1], best[2]


@lru_cache(2)
def _kinks(way: bytes) -> list[tuple[Floats, Floats]]:
    """Return, for each inner point of a path, the columns of a line with a kink there, and its fitting matrix."""
    at = np.frombuffer(way)
    designs = [np.stack([np.ones(len(at)), at, np.maximum(at - position, 0.0)], axis=1) for position in at[1:-1]]
    return [(design, np.linalg.pinv(design)) for design in designs]


def _scale(values: Floats) -> Floats:
    """Scale values from 0 at the smallest to 1 at the largest; 0 if all are equal."""
    width = values.max() - values.min()
    return (values - values.min()) / width if width > 0 else np.zeros(len(values))


def spearman(left: Floats, right: Floats) -> float:
    """Return Spearman's rank correlation, with ties at their mean rank; NaN where one side is constant."""
    ranks = [pl.Series(values).rank("average").to_numpy() for values in (left, right)]
    if len(left) < 3 or any(np.ptp(of) == 0 for of in ranks):
        return math.nan
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _correlation(left: Floats, right: Floats) -> float | None:
    rank = spearman(left, right)
    return None if math.isnan(rank) else _round_or_none(rank)


def _interval(values: Floats) -> tuple[float, float]:
    some = values[np.isfinite(values)]
    low, high = np.quantile(some, [0.025, 0.975]) if len(some) else (math.nan, math.nan)
    return _round_or_none(float(low)), _round_or_none(float(high))


def _round_or_none(value: float) -> float:
    return round(float(value), 6) + 0.0
