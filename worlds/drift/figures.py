"""Figures of drift: measures of simulated and real rows, by cell, with intervals from resampling tasks.

A cell is a domain, one of its tools, or a stretch of its turns. It compares `logged`, `exact` or `near` pairs, or
`rollouts`: all rows of the served logs, or of the tasks on both sides, whose histories may differ. Tasks are resampled
in at most `BLOCKS` blocks with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]

MEASURES: Final = ("error", "empty", "refusal", "length", "novelty", "echo")
"""Measures by which rows are compared, each by its mean. `length` is the logarithm to base 2 of the characters plus
one, so that its difference is the logarithm of a ratio.
"""

DISAGREEMENT: Final = "disagreement"
TURNS: Final = (0, 1, 2, 3, 5, 9, 17, 33)
"""First turns of the stretches of turns."""

TOOLS: Final = 20
"""Most tools of a domain that get a cell, the most frequent in simulated rows."""

BLOCKS: Final = 512
DRAWS: Final = 1000
PER_TURNS: Final = 10
"""Turns over which growth is stated."""

FEWEST_BLOCKS: Final = 3
"""Fewest blocks of tasks for an interval."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure of a cell.

    Attributes:
        real: Mean of the real world.
        sim: Mean of the world model.
        difference: Difference of `sim` from `real`; for lengths, the ratio.
        low: Lower end of the 95 % interval; None with too few tasks.
        high: Upper end of the 95 % interval; None with too few tasks.
    """

    real: float
    sim: float
    difference: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Cell:
    """Figures of a cell.

    Attributes:
        match: `logged`, `exact`, `near` or `rollouts`.
        by: `domain`, `tool` or `turn`.
        value: Tool, or stretch of turns; empty for a whole domain.
        rows: Number of simulated rows.
        tasks: Number of their tasks.
        figures: Figures by measure.
    """

    match: str
    by: str
    domain: str
    value: str
    rows: int
    tasks: int
    figures: dict[str, Figure]


@lru_cache(64)
def draws_of(blocks: int) -> Floats:
    """Count how often each block is in each bootstrap draw: shape (draws, blocks)."""
    return np.random.default_rng(blocks).multinomial(blocks, np.full(blocks, 1 / blocks), DRAWS).astype(np.float64)


def bounds(values: Floats) -> tuple[float, float] | tuple[None, None]:
    """Return the 95 % interval of the finite draws; None for both ends if fewer than half are finite."""
    finite = values[np.isfinite(values)]
    if len(finite) < DRAWS // 2:
        return None, None
    low, high = np.quantile(finite, [0.025, 0.975])
    return round_figure(float(low)), round_figure(float(high))


def round_figure(value: float) -> float:
    """Round a figure for output, so that the last bits of a sum decide nothing."""
    return round(value, 6) + 0.0


def stretch(turn: pl.Expr) -> pl.Expr:
    """Return the name of the stretch that contains a turn."""
    label = pl.lit(f"{TURNS[-1] + 1}…")
    for begin, end in reversed(list(pairwise(TURNS))):
        word = str(begin + 1) if end == begin + 1 else f"{begin + 1}–{end}"
        label = pl.when(turn < end).then(pl.lit(word)).otherwise(label)
    return label


def stretches() -> list[str]:
    """Return the names of all stretches in order."""
    pairs = pairwise(TURNS)
    words = [str(begin + 1) if end == begin + 1 else f"{begin + 1}–{end}" for begin, end in pairs]
    return [*words, f"{TURNS[-1] + 1}…"]


def sides_of(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return pairs as rows of both sides with the same columns: `side` is 0 for the real world and 1 for the model."""
    ours = pairs.with_columns(pl.lit(1).alias("side"))
    named = {name: f"{name}_real" for name in ("chars", "error", "empty", "refusal", "novelty", "echo")}
    theirs = pairs.with_columns(pl.lit(0).alias("side"), *(pl.col(real).alias(name) for name, real in named.items()))
    return pl.concat([prepare_columns(ours), prepare_columns(theirs)])


def prepare_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the columns from which figures are computed to rows with `side`."""
    block = pl.col("place").rank("dense").over("domain") - 1
    return rows.select(
        "side",
        "domain",
        "place",
        pl.col("tool").fill_null("").alias("tool"),
        stretch(pl.col("turn")).alias("stretch"),
        pl.col("turn").cast(pl.Float64),
        (pl.col("chars").cast(pl.Float64) + 1).log(2).alias("length"),
        *(pl.col(name).cast(pl.Float64) for name in ("error", "empty", "refusal", "novelty", "echo")),
        (block % BLOCKS).alias("block"),
    )


def cells(match: str, rows: pl.DataFrame) -> Iterator[Cell]:
    """Yield the cells of rows of both sides, as of `prepare_columns`: each domain, then its tools, then its turns."""
    for (domain,), mine in rows.sort("domain", maintain_order=True).group_by("domain", maintain_order=True):
        yield _cell(match, "domain", str(domain), "", mine)
        counted = (
            mine.filter(pl.col("side") == 1).group_by("tool").len().sort(["len", "tool"], descending=[True, False])
        )
        for by, column, values in (
            ("tool", "tool", counted["tool"].head(TOOLS).to_list()),
            ("turn", "stretch", stretches()),
        ):
            for value in values:
                some = mine.filter(pl.col(column) == value)
                if some["side"].n_unique() == 2:
                    yield _cell(match, by, str(domain), str(value), some)


def _cell(match: str, by: str, domain: str, value: str, rows: pl.DataFrame) -> Cell:
    totals = [pl.len().cast(pl.Float64), *(pl.col(name).sum() for name in MEASURES)]
    sums = [_sums(rows.filter(pl.col("side") == side), totals) for side in (0, 1)]
    blocks = sorted(sums[0].keys() | sums[1].keys())
    figures = {
        name: _figure(name, [_table(side_sums, blocks, (number, 0)) for side_sums in sums])
        for number, name in enumerate(MEASURES, 1)
    }
    mine = rows.filter(pl.col("side") == 1)
    return Cell(match, by, domain, value, len(mine), mine["place"].n_unique(), figures)


def _sums(rows: pl.DataFrame, totals: Sequence[pl.Expr]) -> dict[int, list[float]]:
    summed = rows.group_by("block").agg(totals).sort("block")
    return {int(block): list(values) for block, *values in summed.iter_rows()}


def _table(sums: dict[int, list[float]], blocks: Sequence[int], columns: Sequence[int]) -> Floats:
    """Return the sums by block and column."""
    none = [0.0] * (max(columns) + 1)
    return np.array([[sums.get(block, none)[column] for column in columns] for block in blocks])


def interval_of_ratios(tables: Sequence[npt.NDArray[Any]]) -> tuple[float | None, float | None]:
    """Return the bounds of the model's ratio of sums less the real one; of each side the two summands by block."""
    blocks = tables[0].shape[1]
    drawn = np.full(DRAWS, np.nan)
    if blocks >= FEWEST_BLOCKS:
        weights = draws_of(blocks)
        with np.errstate(divide="ignore", invalid="ignore"):
            real, sim = ((weights @ above) / (weights @ below) for above, below in tables)
        drawn = sim - real
    return bounds(drawn)


def _figure(name: str, tables: Sequence[Floats]) -> Figure:
    real, sim = (float(table[:, 0].sum() / table[:, 1].sum()) for table in tables)
    low, high = interval_of_ratios([table.T for table in tables])
    if name == "length":
        ends = (None if end is None else round_figure(2**end) for end in (low, high))
        return Figure(round_figure(2**real), round_figure(2**sim), round_figure(2 ** (sim - real)), *ends)
    return Figure(round_figure(real), round_figure(sim), round_figure(sim - real), low, high)


def growth(rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the growth of each measure over `PER_TURNS` turns of a rollout, by domain, in world and model."""
    for (domain,), mine in rows.sort("domain", maintain_order=True).group_by("domain", maintain_order=True):
        for name in MEASURES:
            turn = pl.col("turn")
            moments = [
                pl.len().cast(pl.Float64),
                turn.sum().alias("t"),
                (turn * turn).sum().alias("tt"),
                pl.col(name).sum().alias("y"),
                (pl.col(name) * turn).sum().alias("ty"),
            ]
            sums = [_sums(mine.filter(pl.col("side") == side), moments) for side in (0, 1)]
            blocks = sorted(sums[0].keys() | sums[1].keys())
            tables = [_table(side_sums, blocks, range(5)) for side_sums in sums]
            slopes = [float(_slopes(table.sum(axis=0)[None])[0]) for table in tables]
            if not np.isfinite(slopes).all():
                continue
            drawn = np.full(DRAWS, np.nan)
            if len(blocks) >= FEWEST_BLOCKS:
                weights = draws_of(len(blocks))
                drawn = _slopes(weights @ tables[1]) - _slopes(weights @ tables[0])
            low, high = bounds(drawn * PER_TURNS)
            real, sim = (round_figure(slope * PER_TURNS) for slope in slopes)
            figure = Figure(real, sim, round_figure(sim - real), low, high)
            yield {"domain": str(domain), "measure": name, "figure": figure}


def _slopes(moments: Floats) -> Floats:
    """Return the slope of the line through weighted points, for each row of (weights, t, t², y, t·y)."""
    n, t, tt, y, ty = moments.T
    below = n * tt - t * t
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below > 1e-9, (n * ty - t * y) / below, np.nan)


def by_turn(rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the means of all measures by domain, side and stretch of turns, for the plots of rollouts."""
    table = rows.group_by("domain", "side", "stretch").agg(
        pl.len().alias("rows"), *(pl.col(name).mean() for name in MEASURES)
    )
    places = {word: number for number, word in enumerate(stretches())}
    for means in sorted(table.to_dicts(), key=lambda row: (row["domain"], row["side"], places[row["stretch"]])):
        measured = {name: round_figure(2 ** means[name] if name == "length" else means[name]) for name in MEASURES}
        yield {
            "domain": means["domain"],
            "side": ("real", "sim")[means["side"]],
            "turns": means["stretch"],
            "rows": means["rows"],
            **measured,
        }


QUANTILES: Final = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)


def lengths(rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the quantiles of the characters of answers by domain and side."""
    chars = (2 ** pl.col("length") - 1).round(0)
    quantiles = [chars.quantile(share, "nearest").cast(pl.Int64).alias(f"{share:g}") for share in QUANTILES]
    for row in rows.group_by("domain", "side").agg(quantiles).sort("domain", "side").to_dicts():
        yield {
            "domain": row["domain"],
            "side": ("real", "sim")[row["side"]],
            **{f"{q:g}": row[f"{q:g}"] for q in QUANTILES},
        }
