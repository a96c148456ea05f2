"""Passages of earlier generations: whom new ones are copies of, looked up by hash, and what a generation adds to that.

What earlier generations keep stays, so an earlier passage ranks before all new ones, and two of them are not compared.
Of an earlier unit what is not met is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from trajmill.pipelines.generations.ledgers import KINDS, known_in
from trajmill.pipelines.mix.passages.passage import KEY_SCHEMA
from trajmill.pipelines.mix.passages.preparation import READ, STAGE, EarlierStage, Preparation, label_of, part_names
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches, read_table
from trajmill.quality.sets import distinct

EARLIER: Final = 1 << 31
"""The number of the first unit of earlier generations; the others follow."""

Numbers = npt.NDArray[np.uint64]

_UNIT: Final = np.uint64(32)
_NODE: Final = "passage"


def passage_node(component: str, group: str) -> int:
    """The node of a group of passages, by which later generations know its pool: pieces of one document share it."""
    return xxhash.xxh3_64_intdigest(f"{_NODE}\x1e{component}\x1e{group}".encode())


@dataclass
class EarlierPassages:
    """Passages that earlier generations keep.

    Attributes:
        stages: where these lie, in their order.
    """

    stages: Sequence[EarlierStage]
    _read: dict[int, pa.ChunkedArray] = field(default_factory=dict)

    @cached_property
    def _firsts(self) -> list[int]:
        sizes = [len(part_names(one.folder / STAGE)) for one in self.stages]
        return [EARLIER + sum(sizes[:which]) for which in range(len(sizes))]

    def equal(self, high: Numbers, low: Numbers) -> dict[tuple[int, int], tuple[int, int]]:
        """(hash, hash) of passages that are there already → unit and place of the one that stays."""
        found: dict[tuple[int, int], tuple[int, int]] = {}
        wanted = distinct(high)
        for first, one in zip(self._firsts, self.stages, strict=True):
            for row in known_in([one.ledgers], "passages", wanted).tolist():
                found.setdefault((row[0], row[1]), (first + (row[2] >> 32), row[2] & 0xFFFFFFFF))
        pairs = set(zip(high.tolist(), low.tolist(), strict=True))
        return {key: place for key, place in found.items() if key in pairs}

    def words(self, number: int, place: int) -> str:
        """What a passage of an earlier unit is called, by its number there."""
        return str(self._ids(number)[place].as_py())

    def _place(self, number: int) -> tuple[Folder, str]:
        which = int(np.searchsorted(self._firsts, number, "right")) - 1
        stage = self.stages[which].folder
        return stage / READ, label_of(part_names(stage / STAGE)[number - self._firsts[which]])

    def _ids(self, number: int) -> pa.ChunkedArray:
        if number not in self._read:
            folder, label = self._place(number)
            self._read[number] = read_table(folder, f"{label}.keys.parquet", ["id"])["id"]
        return self._read[number]


def passage_rows(preparing: Preparation) -> dict[str, npt.NDArray[np.void]]:
    """What a generation whose passages are prepared adds to the ledgers that later ones look copies up in."""
    copies = [np.zeros(0, KINDS["passages"])]
    for number, part in enumerate(part_names(preparing.parts)):
        keys = pa.Table.from_batches(
            read_batches(preparing.read, f"{label_of(part)}.keys.parquet"), KEY_SCHEMA
        ).combine_chunks()
        kept = read_table(preparing.parts, part, ["id", "row"])
        names = set(zip(kept["id"].to_pylist(), kept["row"].to_pylist(), strict=True))
        told = zip(keys["id"].to_pylist(), keys["row"].to_pylist(), strict=True)
        chosen = np.flatnonzero(np.array([one in names for one in told], np.bool_))
        high, low = keys["high"].to_numpy()[chosen], keys["low"].to_numpy()[chosen]
        unit = np.uint64(number) << _UNIT
        some = np.zeros(len(chosen), KINDS["passages"])
        some["high"], some["low"], some["place"] = high, low, unit | chosen.astype(np.uint64)
        copies.append(some)
    return {"passages": np.concatenate(copies)}
