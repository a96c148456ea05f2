"""Near duplicates among passages of all components: who is compared with whom, and who goes.

What the numbers mean is `quality.near`'s. A passage has no rollouts beside it, so nothing of it is background: all its
shingles are compared. Hashes of buckets lie in a file of their own while pairs are looked for, and sketches are read
for two units at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.execution.exchange import Span, carried, fetched
from trajmill.pipelines.judge.packed_rows import partitioned
from trajmill.pipelines.recipe.judgement import NearDuplicates
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.scratch import scratch_folder
from trajmill.quality.near import MEMBER, PAIR, candidates, dropped, members, second_looks
from trajmill.quality.sets import distinct
from trajmill.quality.sketch import Sketches, absent_shares

Records = npt.NDArray[np.void]
Numbers = npt.NDArray[np.uint64]

_PLACE: Final = ["unit", "row", "other_unit", "other_row"]


def near_copies(
    who: Mapping[int, Records],
    sketches: Callable[[int], Sketches],
    near: NearDuplicates,
    meeting: Callable[[Numbers], Records] | None = None,
) -> Records:
    """Pairs of dtype `PAIR`, one for each passage that goes, with the best kept one that it is like.

    Args:
        who: by unit the passages that are left, of dtype `MEMBER` without their buckets; `row` is the first of the
            passage's rows in the sketches, ascending.
        sketches: of a unit.
        near: what counts as a near duplicate.
        meeting: who of earlier generations stands in buckets, of rank 0; these stay. None where there is no earlier.
    """
    pairs = _compared(_pairs(who, sketches, near, meeting), sketches, near)
    if len(pairs):
        looks = second_looks(pairs)
        looks = looks[np.isin(looks["unit"], list(who))]
        pairs = np.concatenate([pairs, _compared(looks, sketches, near)])
    return dropped(pairs)


def _pairs(
    who: Mapping[int, Records],
    sketches: Callable[[int], Sketches],
    near: NearDuplicates,
    meeting: Callable[[Numbers], Records] | None,
) -> Records:
    """The pairs that meet in a bucket, each once, of which the worse one is new."""
    found = [np.zeros(0, PAIR)]
    with scratch_folder() as folder:
        spill = Folder(folder)
        held: defaultdict[int, list[bytes | Span]] = defaultdict(list)
        for unit, some in who.items():
            of = sketches(unit)
            chosen = np.searchsorted(of.starts, some["row"])
            banded = members(of, chosen, np.zeros(len(of.step), np.bool_), near.made(), some)
            for key, span in carried("members", unit, partitioned(banded, "band"), spill):
                held[key].append(span)
        for key in sorted(held):
            some = _joined(fetched(held[key], spill))
            earlier = some[:0] if meeting is None else meeting(distinct(some["band"]))
            found.append(candidates(np.concatenate([some, earlier])))
    pairs = np.concatenate(found)
    pairs = pairs[np.isin(pairs["unit"], list(who))]
    return pairs[np.unique(pairs[_PLACE], return_index=True)[1]]


def _joined(packed: Iterable[bytes]) -> Records:
    return np.concatenate([np.frombuffer(data, MEMBER) for data in packed])


def _compared(pairs: Records, sketches: Callable[[int], Sketches], near: NearDuplicates) -> Records:
    """Those of the pairs of which the worse one holds too little that the better one does not."""
    found = [np.zeros(0, PAIR)]
    for unit, other in np.unique(pairs[["unit", "other_unit"]]).tolist():
        some = pairs[(pairs["unit"] == unit) & (pairs["other_unit"] == other)]
        mine, theirs = sketches(unit), sketches(other)
        place, against = np.searchsorted(mine.starts, some["row"]), np.searchsorted(theirs.starts, some["other_row"])
        absent, size = absent_shares(mine, place, np.zeros(len(mine.step), np.bool_), theirs, against)
        same = mine.sequence()[place] == theirs.sequence()[against]
        some["absent"] = np.where(same, 0.0, np.where(size < near.few, 1.0, absent)).astype(np.float32)
        found.append(some[some["absent"] < near.max_absent])
    return np.concatenate(found)
