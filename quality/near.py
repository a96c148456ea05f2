"""Near duplicates among trajectories that share prefixes: candidates by MinHash of their remainders, and who goes.

Rollouts of one task begin alike, so whole-document MinHash takes different rollouts for copies. Here the steps that
many rollouts of a task share are its *background*, and only the rest of a trajectory, its *remainder*, is compared. A
trajectory goes only if one that is kept holds nearly all of its remainder, so no chain of similar ones can empty a
task.

MinHash is by one permutation with optimal densification (Shrivastava, ICML 2017): the smallest shingle of each of
`bands * rows` bins, an empty bin borrowing from another. Pure arithmetic over the arrays of `quality.sketch`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trajmill.quality.fingerprint import mixed
from trajmill.quality.lines import Flags, Numbers
from trajmill.quality.sets import distinct, holds
from trajmill.quality.settings import FEW
from trajmill.quality.shingle import Hashes, Offsets
from trajmill.quality.sketch import Sketches

BEST: Final = 8
"""Members of a bucket, the best first, that each other one is compared with: bounds the pairs to 8 a member."""

ROLLOUT: Final = np.dtype([("task", "<u8"), ("content", "<u8"), ("unit", "<u4")])
"""A rollout: its task, the hash of its content, and its unit."""

STEP: Final = np.dtype([("kind", "<u8"), ("content", "<u8"), ("unit", "<u4"), ("row", "<u4"), ("rollouts", "<u4")])
"""A step of a rollout: the hash of its task and its own, the hash of the trajectory's content, where it stands, and how
many different rollouts its task has."""

MEMBER: Final = np.dtype(
    [("band", "<u8"), ("rank", "<u8"), ("tie", "<u8"), ("node", "<u8"), ("unit", "<u4"), ("row", "<u4")]
)
"""A trajectory in a bucket: the bucket; rank and tie, by which the smallest is the best; a node of its group; and where
its first row stands."""

PAIR: Final = np.dtype(
    [
        ("unit", "<u4"), ("row", "<u4"), ("rank", "<u8"), ("tie", "<u8"), ("node", "<u8"),
        ("other_unit", "<u4"), ("other_row", "<u4"), ("other_rank", "<u8"), ("other_tie", "<u8"), ("other_node", "<u8"),
        ("absent", "<f4"),
    ]
)  # fmt: skip
"""Two trajectories, the worse one first; `absent` is the share of its remainder that the other does not hold."""

_AT_ONCE: Final = 1 << 18
_SEED: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Bands:
    """How candidates are found: two trajectories whose remainders have Jaccard similarity j meet in at least one bucket
    with probability `1 - (1 - j**rows)**bands`, unless either has fewer than `few` own shingles.
    """

    bands: int = 24
    rows: int = 6
    few: int = FEW


def rollouts(task: Numbers, content: Numbers) -> npt.NDArray[np.int64]:
    """How many different rollouts the task of each has; equal ones count once.

    Args:
        task: of each rollout.
        content: hash of what each holds.
    """
    once = _distinct(task, content)
    tasks, sizes = np.unique(task[once], return_counts=True)
    return sizes[np.searchsorted(tasks, task)]


def step_kinds(task: Numbers, step: Numbers) -> Numbers:
    """The hash of a task and of a step together: the same step of another task is of another kind."""
    return mixed(task * _SEED ^ step)


def background_steps(steps: npt.NDArray[np.void], least: int, share: float) -> Flags:
    """Whether each step occurs in at least `max(least, share)` of its task's rollouts; equal rollouts count once.

    Args:
        steps: of dtype `STEP`; all of a kind are among them.
        least: rollouts.
        share: of the task's rollouts, 0 to 1.
    """
    occurring = _distinct(steps["kind"], steps["content"])
    kinds, first, counts = np.unique(steps["kind"][occurring], return_index=True, return_counts=True)
    of_task = steps["rollouts"][occurring][first]
    common = kinds[counts >= np.maximum(least, np.ceil(of_task * share - 1e-9))]
    return holds(common, steps["kind"])


def _ordered(*columns: npt.NDArray[Any]) -> tuple[Offsets, Flags]:
    """The order of rows by these columns, the first of most weight, and which of them, in order, are new."""
    order = np.lexsort(columns[::-1])
    new = np.ones(len(order), np.bool_)
    new[1:] = np.any([column[order[1:]] != column[order[:-1]] for column in columns], axis=0)
    return order, new


def _distinct(*columns: npt.NDArray[Any]) -> Offsets:
    """One row of each distinct combination."""
    order, new = _ordered(*columns)
    return order[new]


def signatures(place: Offsets, hashes: Hashes, count: int, bins: int) -> Hashes:
    """The MinHash of each set: shape (count, bins); a set without a member has all ones.

    Args:
        place: which set each member belongs to, sorted.
        hashes: the members, ascending within a set.
        count: of sets.
        bins: of the signature.
    """
    empty = np.uint32(0xFFFFFFFF)
    flat = np.full(count * bins, empty)
    bin_of = place * bins + (mixed(hashes.astype(np.uint64)) % np.uint64(bins)).astype(np.int64)
    flat[bin_of[::-1]] = hashes[::-1]
    taken = flat.reshape(count, bins)
    filled = taken != empty
    rows, columns = np.nonzero(~filled & filled.any(axis=1)[:, None])
    result = taken.copy()
    for attempt in range(bins):
        if not len(rows):
            break
        donor = _donors(bins)[columns, attempt]
        found = filled[rows, donor]
        result[rows[found], columns[found]] = taken[rows[found], donor[found]]
        rows, columns = rows[~found], columns[~found]
    return result


def _donors(bins: int) -> npt.NDArray[np.int64]:
    """For each bin the other bins in the order in which it borrows from them; shape (bins, bins)."""
    if bins not in _DONORS:
        numbers = np.arange(bins * bins, dtype=np.uint64).reshape(bins, bins)
        _DONORS[bins] = np.argsort(mixed(numbers * _SEED + np.uint64(1)), axis=1, kind="stable")
    return _DONORS[bins]


_DONORS: Final[dict[int, npt.NDArray[np.int64]]] = {}


def buckets(signature: Hashes, bands: Bands) -> Numbers:
    """The bucket of each set in each band: shape (sets, bands)."""
    result = np.zeros((len(signature), bands.bands), np.uint64)
    for band in range(bands.bands):
        value = np.full(len(signature), mixed(np.array([band + 1], np.uint64) * _SEED)[0])
        for row in range(bands.rows):
            value = mixed((value + np.uint64(1)) * _SEED ^ signature[:, band * bands.rows + row])
        result[:, band] = value
    return result


def members(
    sketches: Sketches, chosen: Offsets, background: Flags, bands: Bands, who: npt.NDArray[np.void]
) -> npt.NDArray[np.void]:
    """The chosen trajectories in their buckets: of dtype `MEMBER`.

    Each stands in those of its remainder; one that has a background also in those of all that it holds, where it meets
    a copy whose task is not known or is another, and which therefore has no background. One with fewer than `bands.few`
    own shingles stands in the bucket of its sequence of steps instead.

    Args:
        sketches: of a unit.
        chosen: numbers of trajectories, ascending.
        background: of each row.
        bands: how buckets are made.
        who: of each trajectory chosen all but the bucket; of dtype `MEMBER`.
    """
    backed = np.add.reduceat(background, sketches.starts)[chosen] > 0 if len(chosen) else np.zeros(0, np.bool_)
    sequence = sketches.sequence()
    found = [who[:0]]
    for some in sketches.portions(chosen):
        place, own = sketches.own(chosen[some], background)
        sizes = np.bincount(place, minlength=some.stop - some.start)
        alone = who[some][sizes < bands.few]
        alone["band"] = mixed(sequence[chosen[some][sizes < bands.few]] ^ _SEED)
        found += [alone, _bucketed(place, own, sizes >= bands.few, bands, who[some])]
        if (more := backed[some] & (sizes >= bands.few)).any():
            found.append(_bucketed(*sketches.whole(chosen[some]), more, bands, who[some]))
    return np.concatenate(found)


def _bucketed(
    place: Offsets, hashes: Hashes, wanted: Flags, bands: Bands, who: npt.NDArray[np.void]
) -> npt.NDArray[np.void]:
    """The wanted ones of `who` in the buckets of their sets."""
    kept = wanted[place]
    renumbered = np.cumsum(wanted) - 1
    count = int(wanted.sum())
    banded = buckets(signatures(renumbered[place[kept]], hashes[kept], count, bands.bands * bands.rows), bands)
    found = np.repeat(who[wanted], bands.bands)
    found["band"] = banded.ravel()
    return found


def candidates(found: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """The pairs to compare: each member of a bucket with its `BEST` best; each pair once, of dtype `PAIR`.

    Args:
        found: of dtype `MEMBER`; all of a bucket are among them, in any order.
    """
    order, new = _ordered(*(found[name] for name in ("band", "rank", "tie", "unit", "row")))
    ranked = found[order[new]]  # one may stand twice in a bucket, with its remainder and with all that it holds
    begins = np.ones(len(ranked), np.bool_)
    begins[1:] = ranked["band"][1:] != ranked["band"][:-1]
    first = np.maximum.accumulate(np.where(begins, np.arange(len(ranked)), 0))
    depth = np.arange(len(ranked)) - first
    _, one, number = np.unique(_keys(ranked, ""), return_index=True, return_inverse=True)
    met = np.zeros(0, np.uint64)  # two numbers each: pairs meet in many buckets, and are large
    for best in range(BEST):
        worse = np.flatnonzero(depth > best)
        pairs = (number[worse].astype(np.uint64) << np.uint64(32)) | number[first[worse] + best].astype(np.uint64)
        met = np.union1d(met, pairs)
    worse, better = one[met >> np.uint64(32)], one[met & np.uint64(0xFFFFFFFF)]
    found_pairs = np.zeros(len(met), PAIR)
    for begin in range(0, len(met), _AT_ONCE):
        some = slice(begin, begin + _AT_ONCE)
        found_pairs[some] = _paired(ranked[better[some]], ranked[worse[some]])
    return found_pairs


def _paired(
    better: npt.NDArray[np.void], worse: npt.NDArray[np.void], of_better: str = "", of_worse: str = ""
) -> npt.NDArray[np.void]:
    """Pairs of what stands in the fields that begin so."""
    pairs = np.zeros(len(worse), PAIR)
    for name in ("unit", "row", "rank", "tie", "node"):
        pairs[name], pairs["other_" + name] = worse[of_worse + name], better[of_better + name]
    return pairs


def second_looks(pairs: npt.NDArray[np.void], chosen: Offsets | None = None) -> npt.NDArray[np.void]:
    """Pairs still to compare: one that stays, and the one for which a third goes that both are like.

    Two copies of one original need not meet in a bucket, though each of them meets the original; where one of the
    copies is the best, the original goes and the other copy would stay.

    Args:
        pairs: of dtype `PAIR`, all of the corpus.
        chosen: as for `decisive`.

    Returns:
        Each pair once, of dtype `PAIR`.
    """
    chosen = np.arange(len(pairs)) if chosen is None else chosen
    gone = decisive(pairs, chosen)
    left = _keys(pairs, "", gone)
    order = np.argsort(left)
    left, gone = left[order], gone[order]
    looks = []
    for stays, goes in (("", "other_"), ("other_", "")):
        going = _keys(pairs, goes, chosen)
        found = np.flatnonzero(holds(left, going) & ~holds(left, _keys(pairs, stays, chosen)))
        keeper = pairs[gone[np.searchsorted(left, going[found])]]
        look = _paired(keeper, pairs[chosen[found]], "other_", stays)
        looks.append(look[_keys(look, "") != _keys(look, "other_")])
    every = np.concatenate(looks)
    return every[_distinct(*(every[name] for name in ("unit", "row", "other_unit", "other_row")))]


def _keys(pairs: npt.NDArray[np.void], side: str, chosen: Offsets | slice = slice(None)) -> Numbers:
    return (pairs[side + "unit"][chosen].astype(np.uint64) << np.uint64(32)) | pairs[side + "row"][chosen]


def decisive(pairs: npt.NDArray[np.void], chosen: Offsets) -> Offsets:
    """Numbers of the pairs by which a trajectory goes: each that goes once, with the best kept one it is like.

    From the best to the worst, one goes if a kept one is like it; so every one that goes has a kept neighbor, and the
    result does not depend on the order of the pairs. All pairs of a corpus come together in one place, so none is
    copied.

    Args:
        pairs: of dtype `PAIR`, all of the corpus.
        chosen: numbers of those that are alike enough.
    """
    if not len(chosen):
        return chosen
    worse, better, count = _ranked(pairs, chosen)
    assert not np.any(worse == better)
    undecided = np.ones(count, np.bool_)
    kept, gone = np.zeros_like(undecided), np.zeros_like(undecided)
    while undecided.any():
        waits, held = np.zeros_like(undecided), np.zeros_like(undecided)
        waits[worse[undecided[better]]] = True
        held[worse[kept[better]]] = True
        gone |= undecided & held
        kept |= undecided & ~held & ~waits
        undecided = ~(gone | kept)
    found = np.flatnonzero(gone[worse] & kept[better])
    order = np.lexsort([better[found], worse[found]])
    found = found[order]
    first = np.ones(len(found), np.bool_)
    first[1:] = worse[found[1:]] != worse[found[:-1]]
    return chosen[found[first]]


_Ranks = npt.NDArray[np.uint32]


def _ranked(pairs: npt.NDArray[np.void], chosen: Offsets) -> tuple[_Ranks, _Ranks, int]:
    """The number of the worse and of the better one of each chosen pair, from the best, and how many there are."""
    sides = ("", "other_")
    places = distinct(np.concatenate([_keys(pairs, side, chosen) for side in sides]))
    number = [np.searchsorted(places, _keys(pairs, side, chosen)).astype(np.uint32) for side in sides]
    rank, tie = np.zeros(len(places), np.uint64), np.zeros(len(places), np.uint64)
    for side, of in zip(sides, number, strict=True):
        rank[of], tie[of] = pairs[side + "rank"][chosen], pairs[side + "tie"][chosen]
    order = np.lexsort([places, tie, rank])
    from_best = np.empty(len(order), np.uint32)
    from_best[order] = np.arange(len(order), dtype=np.uint32)
    worse, better = (from_best[of] for of in number)
    return worse, better, len(places)
