"""Pairs of real and simulated rows: of equal history and action, by hash, and near ones where none is equal.

Near is what has the same task and action and stood before the same text, or else has a history whose sketch is alike. A
row is in one pair at most, as the simulated one; several real rows of equal history and action are one side together,
and what they differ in is the noise ceiling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from trajmill.worlds.drift.rows import MINS

VALUES: Final = ("chars", "error", "empty", "refusal", "novelty", "echo", "facts", "wrong")
"""What is compared of a pair, row by row."""

CANDIDATES: Final = 8
"""Real rows of one task and action among which the nearest is looked for."""

ALIKE: Final = 0.5
"""Share of a sketch in which the histories of a near pair agree, at least."""

_PLACE: Final = ("domain", "tool", "turn", "place")
_BY: Final = (pl.col("trajectory") ^ pl.col("step_hash")).alias("by")
"""Orders rows by hash, however a run was cut into files."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """What was found of a world model's rows.

    Attributes:
        exact: a row a pair: where the simulated row stands (`domain`, `tool`, `turn`, `place`, `by`, `file`, `row`),
            its `key` and `VALUES`, and, with `_real` behind the name, the means of those of the real rows, and `file`
            and `row` of one of them.
        near: the same, with `alike`, the share of the sketch in which histories agree.
        alone: simulated rows of which no pair was found.
    """

    exact: pl.DataFrame
    near: pl.DataFrame
    alone: int


def distinct_rows(real: pl.DataFrame) -> pl.DataFrame:
    """The rows of trajectories of distinct content: copies of one log are no replicates of each other."""
    ids, of = np.unique(real["trajectory"].to_numpy(), return_inverse=True)
    content = np.zeros(len(ids), np.uint64)
    np.add.at(content, of, real["step_hash"].to_numpy())
    named = pl.DataFrame({"trajectory": ids, "content": content})
    kept = named.sort("content", "trajectory").unique("content", keep="first", maintain_order=True)
    return real.join(kept.select("trajectory"), on="trajectory", how="semi", maintain_order="left")


def paired(real: pl.DataFrame, sim: pl.DataFrame) -> Pairs:
    """The pairs of a world model's rows, in the order of these.

    Args:
        real: rows of the world, of `drift_rows.SCHEMA`, each trajectory's content once.
        sim: rows of one world model.
    """
    known = real.filter(pl.col("place") != 0)
    asked = sim.filter(pl.col("place") != 0)
    exact = asked.select(*_PLACE, _BY, "file", "row", "key", *VALUES).join(
        _sides(known), on="key", how="inner", maintain_order="left"
    )
    rest = asked.join(known.select("key"), on="key", how="anti", maintain_order="left")
    near = _near(known, rest)
    return Pairs(exact, near, len(sim) - len(exact) - len(near))


def _sides(real: pl.DataFrame) -> pl.DataFrame:
    """One row a key: the means of its rows, and where the first of them by trajectory stands."""
    ordered = real.sort("key", "trajectory", "row")
    means = [pl.col(name).cast(pl.Float64).mean().alias(f"{name}_real") for name in VALUES]
    where = [pl.col(name).first().alias(f"{name}_real") for name in ("file", "row")]
    return ordered.group_by("key", maintain_order=True).agg(*means, *where)


def _near(real: pl.DataFrame, sim: pl.DataFrame) -> pl.DataFrame:
    mins = [f"min{number}" for number in range(MINS)]
    first = real.sort("act", "trajectory", "row").group_by("act", maintain_order=True).head(CANDIDATES)
    held = first.select("act", "context", "trajectory", "file", "row", *mins, *VALUES)
    asked = sim.select(*_PLACE, _BY, "file", "row", "act", "context", *mins, *VALUES)
    both = asked.join(held, on="act", how="inner", suffix="_real", maintain_order="left_right")
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


def replicated(real: pl.DataFrame) -> pl.DataFrame:
    """Two real rows of each history and action that has several, the first by trajectory, sorted by domain and key.

    Returns:
        `key`, `domain`, `tool`, `turn`, `place`, `by`, `file`, `row`, `file_real` and `row_real`.
    """
    ordered = real.filter(pl.col("place") != 0).sort("key", "trajectory", "row")
    several = ordered.filter(pl.len().over("key") > 1)
    where = [pl.col(name).first() for name in (*_PLACE, "file", "row")]
    others = [pl.col(name).get(1).alias(f"{name}_real") for name in ("file", "row")]
    groups = several.group_by("key", maintain_order=True).agg(*where, pl.col("key").first().alias("by"), *others)
    return groups.sort("domain", "key")


def sampled(pairs: pl.DataFrame, most: int) -> pl.DataFrame:
    """At most so many pairs of each domain, by hash."""
    ordered = pairs.sort("domain", "by", "place", "turn")
    return ordered.group_by("domain", maintain_order=True).head(most)
