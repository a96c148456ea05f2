"""What earlier generations keep, as judging a later one asks for it: looked up by hash, in what they wrote down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pipelines.engine.ledgers import read_ledger
from pipelines.engine.storage import Folder
from quality.duplicate import KEY


@dataclass(frozen=True, slots=True)
class Earlier:
    """Earlier generations, picklable.

    Attributes:
        parent: digest of the last one's manifest, by it of all.
        ledgers: the folders of their ledgers, in order.
        withdrawn: unit's label → first rows of trajectories that would join two pools, as they were found so far.
    """

    parent: str
    ledgers: tuple[Folder, ...]
    withdrawn: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def bridges(self, label: str) -> npt.NDArray[np.int64]:
        """First rows of a unit's trajectories that would join two pools."""
        return np.array(dict(self.withdrawn).get(label, ()), np.int64)

    def without(self, bridges: Mapping[str, tuple[int, ...]]) -> Earlier:
        """The same, where these are withdrawn too."""
        found = dict(self.withdrawn)
        for label, rows in bridges.items():
            found[label] = tuple(sorted({*found.get(label, ()), *rows}))
        return replace(self, withdrawn=tuple(sorted(found.items())))

    def survivors(self, kind: str, keys: npt.NDArray[np.void]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.void]]:
        """Which keys an earlier generation keeps an equal of, and those keys' survivors as keys.

        Args:
            kind: `trajectories` or `transitions`.
            keys: of dtype `KEY`.
        """
        if not len(keys):
            return np.zeros(0, np.bool_), np.zeros(0, KEY)
        held = read_ledger(self.ledgers, kind, int(keys["high"].min()), int(keys["high"].max()))
        held = held[np.isin(held["high"], keys["high"])]
        pairs = np.concatenate([np.stack([some["high"], some["low"]], axis=1) for some in (held, keys)])
        _, first, inverse = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        place = first[inverse.ravel()][len(held) :]
        again = place < len(held)
        kept = np.zeros(int(again.sum()), KEY)
        for name in ("high", "low", "tie"):
            kept[name] = held[name][place[again]]
        return again, kept
