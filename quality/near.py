"""Near duplicates among trajectories that share prefixes: candidates by MinHash of their remainders, and the choice of
survivors.

Rollouts of one task begin alike, so whole-document MinHash takes different rollouts for copies. Here the steps that
many rollouts of a task share are its *background*, and only the rest of a trajectory, its *remainder*, is compared. A
trajectory is dropped only if a kept one holds nearly all of its remainder, so no chain of similar ones can empty a
task.

MinHash uses one permutation with optimal densification (Shrivastava, ICML 2017): the smallest shingle of each of `bands
* rows` bins, with empty bins borrowing from others. The functions are pure arithmetic over the arrays of
`quality.sketch`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trajmill.quality.fingerprint import mixed
from trajmill.quality.lines import Flags, Numbers
from trajmill.quality.sets import distinct, holds, join_keys, split
from trajmill.quality.settings import FEW
from trajmill.quality.shingle import Hashes, Offsets
from trajmill.quality.sketch import ALL, Sketches

BEST: Final = 8
"""Best members of a bucket with which every other member is compared. It bounds the pairs to 8 a member."""

ROLLOUT: Final = np.dtype([("task", "<u8"), ("content", "<u8"), ("unit", "<u4")])
"""Rollout: its task, the hash of its content, and its unit."""

STEP: Final = np.dtype([("kind", "<u8"), ("content", "<u8"), ("unit", "<u4"), ("row", "<u4"), ("rollouts", "<u4")])
"""Step of a rollout: the hash of its task and step, the hash of the trajectory's content, its position, and the number
of different rollouts of its task.
"""

MEMBER: Final = np.dtype(
    [("band", "<u8"), ("rank", "<u8"), ("tie", "<u8"), ("node", "<u8"), ("unit", "<u4"), ("row", "<u4")]
)
"""Trajectory in a bucket: the bucket; rank and tie, by which the smallest is the best; a node of its group; and the
position of its first row.
"""

PAIR: Final = np.dtype(
    [
        ("unit", "<u4"), ("row", "<u4"), ("rank", "<u8"), ("tie", "<u8"), ("node", "<u8"),
        ("other_unit", "<u4"), ("other_row", "<u4"), ("other_rank", "<u8"), ("other_tie", "<u8"), ("other_node", "<u8"),
        ("absent", "<f4"),
    ]
)  # fmt: skip
"""Two trajectories, the worse one first; `absent` is the share of its remainder that the other lacks."""

_AT_ONCE: Final = 1 << 18
_SEED: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Bands:
    """Settings of the search for candidates.

    Two trajectories whose remainders have Jaccard similarity j meet in at least one bucket with probability `1 - (1 -
    j**rows)**bands`, unless either has fewer than `few` own shingles.
    """

    bands: int = 24
    rows: int = 6
    few: int = FEW


def rollouts(task: Numbers, content: Numbers) -> npt.NDArray[np.int64]:
    """Count the different rollouts of each rollout's task; equal rollouts count once.

    Args:
        task: Task of each rollout.
        content: Hash of the content of each rollout.
    """
    once = _distinct(task, content)
    tasks, sizes = np.unique(task[once], return_counts=True)
    return sizes[np.searchsorted(tasks, task)]


def step_kinds(task: Numbers, step: Numbers) -> Numbers:
    """Hash a task and a step together, so that the same step of another task is of another kind."""
    return mixed(task * _SEED ^ step)


def background_steps(steps: npt.NDArray[np.void], least: int, share: float) -> Flags:
    """Flag the steps that occur in at least `max(least, share)` of their task's rollouts; equal rollouts count once.

    Args:
        steps: Steps of dtype `STEP`, including all of each kind.
        least: Smallest number of rollouts.
        share: Smallest share of the task's rollouts, 0 to 1.
    """
    occurring = _distinct(steps["kind"], steps["content"])
    kinds, first, counts = np.unique(steps["kind"][occurring], return_index=True, return_counts=True)
    of_task = steps["rollouts"][occurring][first]
    common = kinds[counts >= np.maximum(least, np.ceil(of_task * share - 1e-9))]
    return holds(common, steps["kind"])


def _order_rows(*columns: npt.NDArray[Any]) -> tuple[Offsets, Flags]:
    """Return the order of rows by these columns, the most significant first, and flags of new combinations in that
    order.
    """
    order = np.lexsort(columns[::-1])
    new = np.ones(len(order), np.bool_)
    new[1:] = np.any([column[order[1:]] != column[order[:-1]] for column in columns], axis=0)
    return order, new


def _distinct(*columns: npt.NDArray[Any]) -> Offsets:
    """Return one row of each distinct combination."""
    order, new = _order_rows(*columns)
    return order[new]


def signatures(set_of_member: Offsets, hashes: Hashes, count: int, bins: int) -> Hashes:
    """Return the MinHash of each set: shape (count, bins); an empty set has all ones.

    Args:
        set_of_member: Set of each member.
        hashes: Members, in any order and with repetition.
        count: Number of sets.
        bins: Bins of the signature.
    """
    return _fill_bins(_minima(set_of_member, hashes, count, bins))


def _minima(set_of_member: Offsets, hashes: Hashes, count: int, bins: int) -> Hashes:
    """Return the smallest member of each set in each bin, `ALL` if there is none: shape (count, bins)."""
    flat = np.full(count * bins, ALL)
    bin_of = set_of_member * bins + (mixed(hashes.astype(np.uint64)) % np.uint64(bins)).astype(np.int64)
    np.minimum.at(flat, bin_of, hashes)
    return flat.reshape(count, bins)


def _fill_bins(minima: Hashes) -> Hashes:
    """Return the minima with each empty bin filled from another of its set."""
    bins = minima.shape[1]
    filled = minima != ALL
    rows, columns = np.nonzero(~filled & filled.any(axis=1)[:, None])
    result = minima.copy()
    for attempt in range(bins):
        if not len(rows):
            break
        donor = _donors(bins)[columns, attempt]
        is_filled = filled[rows, donor]
        result[rows[is_filled], columns[is_filled]] = minima[rows[is_filled], donor[is_filled]]
        rows, columns = rows[~is_filled], columns[~is_filled]
    return result


def _donors(bins: int) -> npt.NDArray[np.int64]:
    """Return, for each bin, the other bins in the order of borrowing; shape (bins, bins)."""
    if bins not in _DONORS:
        numbers = np.arange(bins * bins, dtype=np.uint64).reshape(bins, bins)
        _DONORS[bins] = np.argsort(mixed(numbers * _SEED + np.uint64(1)), axis=1, kind="stable")
    return _DONORS[bins]


_DONORS: Final[dict[int, npt.NDArray[np.int64]]] = {}


def buckets(signature: Hashes, bands: Bands) -> Numbers:
    """Return the bucket of each set in each band: shape (sets, bands)."""
    by_band = signature.reshape(len(signature), bands.bands, bands.rows)
    value = np.broadcast_to(mixed(np.arange(1, bands.bands + 1, dtype=np.uint64) * _SEED), by_band.shape[:2])
    for row in range(bands.rows):
        value = mixed((value + np.uint64(1)) * _SEED ^ by_band[:, :, row])
    return value


def members(
    sketches: Sketches, chosen: Offsets, background: Flags, bands: Bands, who: npt.NDArray[np.void]
) -> npt.NDArray[np.void]:
    """Return the chosen trajectories in their buckets, of dtype `MEMBER`.

    Each trajectory is in the buckets of its remainder. A trajectory with background is also in the buckets of its whole
    content, where it meets copies whose task is unknown or different and which therefore have no background. A
    trajectory with fewer than `bands.few` own shingles is in the bucket of its sequence of steps instead.

    Args:
        sketches: Sketches of a unit.
        chosen: Numbers of trajectories, ascending.
        background: Flags of the background rows.
        bands: Settings of the buckets.
        who: Record of each chosen trajectory, complete except for the bucket; of dtype `MEMBER`.
    """
    backed = np.add.reduceat(background, sketches.starts)[chosen] > 0 if len(chosen) else np.zeros(0, np.bool_)
    sequence = sketches.sequence()
    parts = [who[:0]]
    for some in sketches.portions(chosen):
        count, bins = some.stop - some.start, bands.bands * bands.rows
        number, _, own = sketches.own_rows(chosen[some], background)
        minima = _minima(number, own, count, bins)
        is_few = _have_few(number, own, minima, bands.few)
        alone = who[some][is_few]
        alone["band"] = mixed(sequence[chosen[some][is_few]] ^ _SEED)
        parts += [alone, _put_in_buckets(minima[~is_few], bands, who[some][~is_few])]
        if (more := np.flatnonzero(backed[some] & ~is_few) + some.start).size:
            minima_of_whole = _minima(*sketches.whole(chosen[more]), len(more), bins)
            parts.append(_put_in_buckets(minima_of_whole, bands, who[more]))
    return np.concatenate(parts)


def _have_few(set_of_member: Offsets, hashes: Hashes, minima: Hashes, few: int) -> Flags:
    """Flag the sets with fewer than `few` distinct members. Those with as many filled bins need no count."""
    flags: Flags = (minima != ALL).sum(axis=1) < few
    counted = flags[set_of_member]
    some, _ = split(distinct(join_keys(set_of_member[counted], hashes[counted])))
    return flags & (np.bincount(some, minlength=len(minima)) < few)


def _put_in_buckets(minima: Hashes, bands: Bands, who: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Return the records in the buckets of their sets."""
    bucketed = np.repeat(who, bands.bands)
    bucketed["band"] = buckets(_fill_bins(minima), bands).ravel()
    return bucketed


def candidates(bucketed: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Return the pairs to compare: each member of a bucket with its `BEST` best members; distinct, of dtype `PAIR`.

    Args:
        bucketed: Members of dtype `MEMBER`, including all of each bucket, in any order.
    """
    bucketed = bucketed[_may_repeat(bucketed["band"])]  # most are alone in their bucket
    order, new = _order_rows(*(bucketed[name] for name in ("band", "rank", "tie", "unit", "row")))
    ranked = bucketed[order[new]]  # one may stand twice in a bucket, with its remainder and with all that it holds
    begins = np.ones(len(ranked), np.bool_)
    begins[1:] = ranked["band"][1:] != ranked["band"][:-1]
    first = np.maximum.accumulate(np.where(begins, np.arange(len(ranked)), 0))
    depth = np.arange(len(ranked)) - first
    _, first_of, number = np.unique(_keys(ranked, ""), return_index=True, return_inverse=True)
    met = np.zeros(0, np.uint64)  # two numbers each: pairs meet in many buckets, and are large
    for best in range(BEST):
        worse = np.flatnonzero(depth > best)
        pairs = (number[worse].astype(np.uint64) << np.uint64(32)) | number[first[worse] + best].astype(np.uint64)
        met = np.union1d(met, pairs)
    worse, better = first_of[met >> np.uint64(32)], first_of[met & np.uint64(0xFFFFFFFF)]
    found_pairs = np.zeros(len(met), PAIR)
    for begin in range(0, len(met), _AT_ONCE):
        some = slice(begin, begin + _AT_ONCE)
        found_pairs[some] = _make_pairs(ranked[better[some]], ranked[worse[some]])
    return found_pairs


def _may_repeat(hashes: Numbers) -> Flags:
    """Flag the hashes that may occur more than once: all that do, and a few that share their last bits with another."""
    last = (hashes & np.uint64((4 << len(hashes).bit_length()) - 1)).astype(np.int64)
    flags: Flags = np.bincount(last)[last] > 1
    return flags


def _make_pairs(
    better: npt.NDArray[np.void], worse: npt.NDArray[np.void], of_better: str = "", of_worse: str = ""
) -> npt.NDArray[np.void]:
    """Return pairs from the fields with the given prefixes."""
    pairs = np.zeros(len(worse), PAIR)
    for name in ("unit", "row", "rank", "tie", "node"):
        pairs[name], pairs["other_" + name] = worse[of_worse + name], better[of_better + name]
    return pairs


def second_looks(pairs: npt.NDArray[np.void], chosen: Offsets | None = None) -> npt.NDArray[np.void]:
    """Return further pairs to compare: a trajectory that stays, and the kept one that replaced a third trajectory
    similar to both.

    Two copies of one original need not meet in a bucket, though each of them meets the original. If one of the copies
    is the best, the original is dropped and the other copy would stay.

    Args:
        pairs: Pairs of dtype `PAIR`, all of the corpus.
        chosen: As for `decisive`.

    Returns:
        Distinct pairs of dtype `PAIR`.
    """
    chosen = np.arange(len(pairs)) if chosen is None else chosen
    gone = decisive(pairs, chosen)
    left = _keys(pairs, "", gone)
    order = np.argsort(left)
    left, gone = left[order], gone[order]
    looks = []
    for stays, goes in (("", "other_"), ("other_", "")):
        going = _keys(pairs, goes, chosen)
        shared = np.flatnonzero(holds(left, going) & ~holds(left, _keys(pairs, stays, chosen)))
        keeper = pairs[gone[np.searchsorted(left, going[shared])]]
        look = _make_pairs(keeper, pairs[chosen[shared]], "other_", stays)
        looks.append(look[_keys(look, "") != _keys(look, "other_")])
    every = np.concatenate(looks)
    return every[_distinct(*(every[name] for name in ("unit", "row", "other_unit", "other_row")))]


def _keys(pairs: npt.NDArray[np.void], side: str, chosen: Offsets | slice = slice(None)) -> Numbers:
    return (pairs[side + "unit"][chosen].astype(np.uint64) << np.uint64(32)) | pairs[side + "row"][chosen]


def decisive(pairs: npt.NDArray[np.void], chosen: Offsets) -> Offsets:
    """Return the numbers of the pairs that drop a trajectory: each dropped one once, with the best similar one that is
    kept.

    From the best to the worst, a trajectory is dropped if a kept one is similar to it. So every dropped one has a kept
    neighbor, and the result does not depend on the order of the pairs. One process holds all pairs of a corpus, so none
    is copied.

    Args:
        pairs: Pairs of dtype `PAIR`, all of the corpus.
        chosen: Numbers of the pairs that are similar enough.
    """
    if not len(chosen):
        return chosen
    worse, better, count = _rank_pairs(pairs, chosen)
    assert not np.any(worse == better)
    undecided = np.ones(count, np.bool_)
    stays, gone = np.zeros_like(undecided), np.zeros_like(undecided)
    while undecided.any():
        waits, has_kept = np.zeros_like(undecided), np.zeros_like(undecided)
        waits[worse[undecided[better]]] = True
        has_kept[worse[stays[better]]] = True
        gone |= undecided & has_kept
        stays |= undecided & ~has_kept & ~waits
        undecided = ~(gone | stays)
    deciding = np.flatnonzero(gone[worse] & stays[better])
    order = np.lexsort([better[deciding], worse[deciding]])
    deciding = deciding[order]
    first = np.ones(len(deciding), np.bool_)
    first[1:] = worse[deciding[1:]] != worse[deciding[:-1]]
    return chosen[deciding[first]]


_Ranks = npt.NDArray[np.uint32]


def _rank_pairs(pairs: npt.NDArray[np.void], chosen: Offsets) -> tuple[_Ranks, _Ranks, int]:
    """Return the worse and the better trajectory of each chosen pair, numbered from the best, and the number of
    trajectories.
    """
    sides = ("", "other_")
    keys = distinct(np.concatenate([_keys(pairs, side, chosen) for side in sides]))
    number = [np.searchsorted(keys, _keys(pairs, side, chosen)).astype(np.uint32) for side in sides]
    rank, tie = np.zeros(len(keys), np.uint64), np.zeros(len(keys), np.uint64)
    for side, numbers_of_side in zip(sides, number, strict=True):
        rank[numbers_of_side], tie[numbers_of_side] = pairs[side + "rank"][chosen], pairs[side + "tie"][chosen]
    order = np.lexsort([keys, tie, rank])
    from_best = np.empty(len(order), np.uint32)
    from_best[order] = np.arange(len(order), dtype=np.uint32)
    worse, better = (from_best[numbers_of_side] for numbers_of_side in number)
    return worse, better, len(keys)
