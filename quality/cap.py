"""Caps on rules: of the rows that break a capped rule, at most a share of all targets, or of the trajectory's targets,
keeps its loss.

A hash of (trajectory, step) decides which rows keep it, so the position in a file has no influence. The hashes fall
into `BINS` bins. The counts of the whole corpus by bin give the first bin that no longer fits, which decides each row.
So the share is never exceeded, and it is missed by less than one bin's rows. Within a trajectory, the rows with the
smallest hashes keep their loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

BINS: Final = 4096
COUNT: Final = np.dtype([("rule", "<i4"), ("bin", "<u4"), ("rows", "<u8")])
"""Number of targets of one bin that break the capped rule at that position first; rule -1: none."""

Limits = npt.NDArray[np.int64]


def bins(chance: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Return the bin of each row by its hash, 0 to BINS - 1."""
    return (chance % np.uint64(BINS)).astype(np.int64)


def count_by_bin(rule: npt.NDArray[np.int16], bins: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    """Count targets by the first capped rule that they break (-1: none) and by bin."""
    key = rule.astype(np.int64) * BINS + np.where(rule < 0, 0, bins)
    distinct, rows = np.unique(key, return_counts=True)
    counts = np.zeros(len(distinct), COUNT)
    counts["rule"], counts["bin"], counts["rows"] = distinct // BINS, distinct % BINS, rows
    return counts


def limits(packed: Iterable[bytes], caps: Sequence[float | None]) -> Limits:
    """Find the first bin whose rows lose their loss, for each rule; `BINS` if all keep it.

    A share refers to the targets that remain when all caps are applied. With T targets that break no capped rule and
    N_j that break rule j first, the total is the largest t = T + sum of min(N_j, cap_j * t).

    Args:
        packed: Bytes of `COUNT` records, of all units of one domain.
        caps: Cap of each rule by position, None for rules without a cap; the caps sum to less than 1.
    """
    counts = np.concatenate([np.zeros(0, COUNT), *(np.frombuffer(data, COUNT) for data in packed)])
    by_bin = np.zeros((len(caps) + 1, BINS), np.int64)
    np.add.at(by_bin, (counts["rule"] + 1, counts["bin"]), counts["rows"].astype(np.int64))
    number = by_bin.sum(axis=1)
    first_bins = np.full(len(caps), BINS, np.int64)
    bound = set[int]()
    while True:
        free = int(number[0]) + sum(int(number[rule + 1]) for rule in range(len(caps)) if rule not in bound)
        total = free / (1 - sum(caps[rule] or 0.0 for rule in bound))
        more = {rule for rule, cap in enumerate(caps) if cap is not None and number[rule + 1] > cap * total}
        if more <= bound:
            break
        bound |= more
    for rule in bound:
        fits = np.cumsum(by_bin[rule + 1]) <= (caps[rule] or 0.0) * total + 1e-9
        first_bins[rule] = BINS if fits.all() else int(np.argmin(fits))
    return first_bins


def beyond_own(
    breaks: npt.NDArray[np.bool_],
    targets: npt.NDArray[np.bool_],
    starts: npt.NDArray[np.int64],
    chance: npt.NDArray[np.uint64],
    share: float,
) -> npt.NDArray[np.bool_]:
    """Flag the rows that break a rule and exceed its share of their trajectory's targets.

    Args:
        breaks: Flags of the rows that break the rule.
        targets: Flags of the rows that would be targets without the rule.
        starts: First row of each trajectory.
        chance: Hash of each row.
        share: Largest share of the remaining targets, 0 to 1.
    """
    flags = np.zeros(len(breaks), np.bool_)
    rows = np.flatnonzero(breaks)
    if len(rows):
        own = np.add.reduceat((targets & ~breaks).astype(np.int64), starts)
        trajectory = np.searchsorted(starts, rows, side="right") - 1
        order = np.lexsort((chance[rows], ~targets[rows], trajectory))
        trajectory = trajectory[order]
        rank = np.arange(len(rows)) - np.searchsorted(trajectory, trajectory)
        flags[rows[order]] = rank >= np.floor(own[trajectory] * share / (1 - share) + 1e-9)
    return flags
