"""Words of an answer that nothing before it showed, over trajectories that go on from one batch to the next."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from trajmill.quality.fingerprint import mixed
from trajmill.quality.segments import goes_on
from trajmill.quality.sets import distinct, holds, ranges
from trajmill.quality.signal import Measured
from trajmill.quality.texts import Texts

Hashes = npt.NDArray[np.uint64]

CARRIED: Final = 1 << 20
"""Words of a trajectory that are remembered from one batch to the next, those of least hash."""

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


class SeenWords:
    """The words that the trajectory at the end of the last batch has shown, done or been told."""

    def __init__(self) -> None:
        self._seen: Hashes = np.zeros(0, np.uint64)

    def novelty(self, view: Measured) -> npt.NDArray[np.float32]:
        """Of each row the share, 0 to 1, of the distinct words of its answer that nothing before held."""
        texts = [
            ("task", "instruction"),
            ("observation", "content"),
            ("action", "text"),
            ("next_observation", "content"),
        ]
        spoken = [_spoken(view.texts(*path)) for path in texts]
        order = np.concatenate([rows * 2 + (number == len(texts) - 1) for number, (rows, _) in enumerate(spoken)])
        words = np.concatenate([words for _, words in spoken])
        placed = np.argsort(order, kind="stable")
        order, words = order[placed], words[placed]
        of = view.trajectory[order // 2]
        keys = mixed(words + (of.astype(np.uint64) + np.uint64(1)) * _ODD)
        first = np.zeros(len(keys), np.bool_)
        first[np.unique(keys, return_index=True)[1]] = True
        if goes_on(view.batch) and len(self._seen):
            first &= ~((of == 0) & holds(self._seen, words))
        answers = order % 2 == 1
        rows = view.batch.num_rows
        new = np.bincount(order[first & answers] // 2, minlength=rows)
        told = np.unique(mixed(words[answers]) + (order[answers] // 2).astype(np.uint64) * _ODD, return_index=True)[1]
        whole = np.bincount((order[answers] // 2)[told], minlength=rows)
        self._keep(view, words[of == len(view.starts) - 1])
        return (new / np.maximum(whole, 1)).astype(np.float32)

    def _keep(self, view: Measured, words: Hashes) -> None:
        goes = goes_on(view.batch) and len(view.starts) == 1
        self._seen = distinct(np.concatenate([self._seen, words]) if goes else words)[:CARRIED]


def _spoken(texts: Texts) -> tuple[npt.NDArray[np.int64], Hashes]:
    """(row, word) of every word of every row."""
    hashes, offsets = texts.words()
    index = np.where(texts.index >= 0, texts.index, 0)
    counts = np.where(texts.index >= 0, np.diff(offsets)[index] if len(texts.texts) else 0, 0)
    begins = offsets[:-1][index] if len(texts.texts) else index
    return np.repeat(np.arange(len(texts.index)), counts), hashes[ranges(begins, counts)]
