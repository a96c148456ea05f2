"""How far simulated answers are from real ones of equal history and action, beyond what real ones are from each other.

Disagreement is the share of words that two answers do not have in common, line by line (`quality.replicate`). What real
replicates disagree on nobody can know, so it is taken away: what is left is the model's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from trajmill.quality.replicate import agreement
from trajmill.worlds.drift.figures import (
    BLOCKS,
    DRAWS,
    FEWEST_BLOCKS,
    Cell,
    Figure,
    bounds,
    draws_of,
    rounded,
    stretch,
)
from trajmill.worlds.drift.pairs import Pairs, replicated, sampled
from trajmill.worlds.drift.rows import Side

FEWEST: Final = 5
"""Pairs with real replicates below which a domain's pairs are held against all of its replicates instead."""


def disagreements(real: Side, rows: pl.DataFrame, sim: Side, pairs: Pairs, most: int) -> Iterator[Cell]:
    """The disagreement of exact pairs, by domain, tool and stretch of turns.

    `real` of a figure is what real replicates disagree on, those of the pair's own history and action where enough
    pairs have some, and `sim` what the model does with the world. Of a domain without replicates nothing is told.

    Args:
        real: the side of the world.
        rows: its rows, each trajectory's content once.
        sim: the side of the model.
        pairs: of it.
        most: pairs of a domain that are read.
    """
    known = replicated(rows)
    for (domain,), every in pairs.exact.sort("domain", maintain_order=True).group_by("domain", maintain_order=True):
        groups = known.filter(pl.col("domain") == domain)
        own = every.join(groups.select("key"), on="key", how="semi", maintain_order="left")
        is_own = len(own) >= FEWEST
        chosen = sampled(own if is_own else every, most)
        if is_own:
            keys = chosen.select("key").join(groups, on="key", how="left", maintain_order="left")
        else:
            keys = sampled(groups, most)
        if not len(keys):
            continue
        base, found = _disagreeing(keys, real, real), _disagreeing(chosen, sim, real)
        yield _cell("domain", str(domain), "", found, base)
        for by, column in (("tool", "tool"), ("turn", "stretch")) if is_own else ():
            for (value,), some in found.sort(column, maintain_order=True).group_by(column, maintain_order=True):
                yield _cell(by, str(domain), str(value), some, base.filter(pl.col(column) == value))


def _disagreeing(pairs: pl.DataFrame, first: Side, second: Side) -> pl.DataFrame:
    """`domain`, `tool`, `stretch`, `place` and `apart`, 0 to 1, of each pair, sorted by domain."""
    words = first.words(pairs)
    others = second.words(pairs.select(pl.col("file_real").alias("file"), pl.col("row_real").alias("row")))
    apart = [
        1 - agreement([words[file, row], others[file_real, row_real]])
        for file, row, file_real, row_real in pairs.select("file", "row", "file_real", "row_real").iter_rows()
    ]
    return pairs.select(
        "domain", pl.col("tool").fill_null(""), stretch(pl.col("turn")).alias("stretch"), "place"
    ).with_columns(pl.Series("apart", apart, pl.Float64))


def _cell(by: str, domain: str, value: str, rows: pl.DataFrame, base: pl.DataFrame) -> Cell:
    places = np.unique(np.concatenate([rows["place"].to_numpy(), base["place"].to_numpy()]))
    blocks = min(len(places), BLOCKS)
    tables = []
    for one in (base, rows):
        of = np.searchsorted(places, one["place"].to_numpy()) % BLOCKS
        tables.append(np.stack([np.bincount(of, one["apart"].to_numpy(), blocks), np.bincount(of, minlength=blocks)]))
    means = [float(above.sum() / below.sum()) for above, below in tables]
    drawn = np.full(DRAWS, np.nan)
    if blocks >= FEWEST_BLOCKS:
        weights = draws_of(blocks)
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = [(weights @ above) / (weights @ below) for above, below in tables]
        drawn = parts[1] - parts[0]
    figure = Figure(rounded(means[0]), rounded(means[1]), rounded(means[1] - means[0]), *bounds(drawn))
    return Cell("exact", by, domain, value, len(rows), rows["place"].n_unique(), {"disagreement": figure})
