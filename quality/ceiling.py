"""Noise ceilings of rows: the share of words of a next observation on which replicates of the row agree.

Of a row that has replicates it is *measured*; of one whose world was asked again, and answered the same, it is
*replayed*: what the two answers agree on. Of others it is *pooled*, the mean of what was measured of the same
domain, tool and turn (or, where that is too little, of the same domain and tool), or *extrapolated*: by the classes of
the bytes of its answer (see `quality.spans`), each with a rate of agreement that is fitted to all that was
measured. How far pooled and extrapolated numbers are from measured ones is found by leaving out: the history itself,
the tool, or the domain.

What is summed are whole numbers (thousandths), so that the order in which sums are added changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.fingerprint import struct_text, text_hashes
from trajmill.quality.lines import Numbers
from trajmill.quality.spans import Labelling
from trajmill.quality.tokens import text_bytes

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MEASURED: Final = "measured"
REPLAYED: Final = "replayed"
POOLED: Final = "pooled"
EXTRAPOLATED: Final = "extrapolated"
SOURCES: Final = (MEASURED, REPLAYED, POOLED, EXTRAPOLATED)

CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    "frame": ("harness", "frame"),
    "copied": ("action", "history", "pre_existing"),
    "derivable": ("derivable",),
    "new": (),
}
"""Classes of the bytes of an answer by their labels; what has none is new."""

PRIOR: Final[Mapping[str, float]] = {"frame": 1.0, "copied": 0.99, "derivable": 0.99, "new": 0.96}
"""The rates of agreement where nothing was measured: those of 152 histories of public logs of search and mcp."""

PRIOR_GROUPS: Final = 4.0
"""Histories that the prior counts as, for each class, beside those that were measured."""

FEWEST: Final = 10
"""Histories with replicates that make a mean."""

WHOLE: Final = 1000
"""Shares are counted in parts of this."""

LAST_TURN: Final = 5
"""Turns 0, 1, 2 to 3, 4 to 7, 8 to 15, and from 16 on are told apart."""

ROWS_SCHEMA: Final = pa.schema(
    [
        pa.field("tool", pa.uint64(), nullable=False, metadata={"doc": "hash of the action's name"}),
        pa.field("turn", pa.uint8(), nullable=False, metadata={"doc": "its bucket, up to the last"}),
        *(pa.field(name, pa.int16(), nullable=False, metadata={"doc": "thousandths of the bytes"}) for name in CLASSES),
    ]
)
"""One row a transition, aligned to the transitions."""

_CLASSES: Final = len(CLASSES)
_PAIRS: Final = np.triu_indices(_CLASSES)
MOMENTS: Final = 3 + _CLASSES + len(_PAIRS[0])
"""Histories, sum of what they agree on, its square; its product with each share; the products of shares."""

CELL: Final = np.dtype([("tool", "<u8"), ("turn", "<i8"), ("moments", "<i8", (MOMENTS,))])
"""What was measured of the rows of a tool and turn."""


class Classing:
    """Tool, turn and classes of each row of a file: batches of `ROWS_SCHEMA`, aligned to it.

    Args:
        labelling: what labels the same batches, each before it comes here.
    """

    def __init__(self, labelling: Labelling) -> None:
        self._labelling = labelling

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What is told of `batch`, of `encoded_schema()`."""
        if not batch.num_rows:
            return
        sizes = text_bytes(struct_text(batch, "next_observation", "content"))
        shares = class_shares(self._labelling.told, sizes)
        tool = text_hashes(struct_text(batch, "action", "name"))[:, 0]
        columns = [pa.array(tool), pa.array(turn_buckets(batch["turn"].to_numpy()))]
        columns += [pa.array(shares[:, number].astype(np.int16)) for number in range(_CLASSES)]
        yield pa.RecordBatch.from_arrays(columns, schema=ROWS_SCHEMA)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Nothing: no row waits for what comes after."""
        return iter(())


def turn_buckets(turns: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
    """The bucket of each turn."""
    bits = np.frexp(np.maximum(turns, 0).astype(np.float64))[1]
    return np.minimum(bits, LAST_TURN).astype(np.uint8)


def class_shares(spans: pa.ListArray, sizes: Ints) -> Ints:
    """The thousandths of each text that are of each class; those of an empty text are all frame.

    Args:
        spans: of each text, as `quality.spans` tells them.
        sizes: of each text, in bytes.
    """
    rows = pc.list_parent_indices(spans).to_numpy(zero_copy_only=False)
    flat = spans.flatten()
    length = flat.field("end").to_numpy().astype(np.int64) - flat.field("begin").to_numpy().astype(np.int64)
    found = np.zeros((len(sizes), _CLASSES), np.int64)
    for number, labels in enumerate(CLASSES.values()):
        mine = pc.is_in(flat.field("label"), pa.array(labels, pa.string())).to_numpy(zero_copy_only=False)
        found[:, number] = np.bincount(rows[mine], length[mine], len(sizes)).astype(np.int64)
    found = found * WHOLE // np.maximum(sizes, 1)[:, None]
    found[:, -1] = WHOLE - found[:, :-1].sum(axis=1)
    found[sizes == 0] = [WHOLE] + [0] * (_CLASSES - 1)
    return found


def shares_in(rows: pa.Table) -> Ints:
    """The columns of `ROWS_SCHEMA` that hold shares, side by side."""
    return np.stack([rows[name].to_numpy().astype(np.int64) for name in CLASSES], axis=1)


def summed(tool: Numbers, turn: npt.NDArray[Any], agreement: Ints, shares: Ints) -> npt.NDArray[np.void]:
    """What was measured of some rows, by tool and turn; of dtype `CELL`, ascending.

    Args:
        tool: of each row.
        turn: the bucket of each.
        agreement: thousandths that its replicates agree on.
        shares: of its classes.
    """
    products = (shares[:, :, None] * shares[:, None, :])[:, _PAIRS[0], _PAIRS[1]]
    ones = np.ones(len(tool), np.int64)
    first = np.stack([ones, agreement, agreement * agreement], axis=1)
    found = np.zeros(len(tool), CELL)
    found["tool"], found["turn"] = tool, turn
    found["moments"] = np.concatenate([first, agreement[:, None] * shares, products], axis=1)
    return added([found])


def added(some: Iterable[npt.NDArray[np.void]]) -> npt.NDArray[np.void]:
    """The sums of cells, one of each tool and turn, ascending."""
    cells = np.concatenate([np.zeros(0, CELL), *some])
    keys, place = np.unique(cells[["tool", "turn"]], return_inverse=True)
    found = np.zeros(len(keys), CELL)
    found["tool"], found["turn"] = keys["tool"], keys["turn"]
    np.add.at(found["moments"], place.ravel(), cells["moments"])
    return found


@dataclass(frozen=True, slots=True)
class Estimates:
    """What is estimated of rows of a domain that have no replicates.

    Attributes:
        cells: mean agreement by (tool, turn), of those with enough histories.
        tools: the same by tool.
        rates: of each class.
    """

    cells: Mapping[tuple[int, int], float]
    tools: Mapping[int, float]
    rates: tuple[float, ...]

    def told(self) -> dict[str, Any]:
        """As JSON holds it."""
        cells = [[f"{tool:016x}", turn, mean] for (tool, turn), mean in sorted(self.cells.items())]
        tools = [[f"{tool:016x}", mean] for tool, mean in sorted(self.tools.items())]
        return {"cells": cells, "tools": tools, "rates": list(self.rates)}

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Estimates:
        """What `told` gave."""
        cells = {(int(tool, 16), turn): mean for tool, turn, mean in told["cells"]}
        return cls(cells, {int(tool, 16): mean for tool, mean in told["tools"]}, tuple(told["rates"]))

    def ceilings(
        self, rows: pa.Table, measured: Floats, replayed: Floats
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.object_]]:
        """The ceiling of each row, 0 to 1, and where it is from.

        Args:
            rows: of `ROWS_SCHEMA`.
            measured: of each what its replicates agree on; NaN where it has none.
            replayed: of each what its answer and the world's second one agree on; NaN where there is none.
        """
        tool, turn = rows["tool"].to_numpy(), rows["turn"].to_numpy()
        keys, place = np.unique(np.rec.fromarrays([tool, turn]), return_inverse=True)
        means = np.array([self._pooled(int(one), int(at)) for one, at in keys.tolist()], np.float64)
        pooled = means[place.ravel()] if len(keys) else np.zeros(0)
        rates = shares_in(rows) / WHOLE @ np.array(self.rates)
        found, from_where = rates, np.full(len(rates), EXTRAPOLATED, object)
        for source, told in ((POOLED, pooled), (REPLAYED, replayed), (MEASURED, measured)):
            known = ~np.isnan(told)
            found, from_where = np.where(known, told, found), np.where(known, source, from_where)
        return np.round(found, 4).astype(np.float32), from_where.astype(object)

    def _pooled(self, tool: int, turn: int) -> float:
        return self.cells.get((tool, turn), self.tools.get(tool, np.nan))


@dataclass(slots=True)
class Pool:
    """All that was measured, by domain, tool and turn."""

    domains: dict[str, npt.NDArray[np.void]] = field(default_factory=dict)

    def add(self, domain: str, cells: npt.NDArray[np.void]) -> None:
        """Adds what was measured of a domain."""
        self.domains[domain] = added([self.domains.get(domain, np.zeros(0, CELL)), cells])

    @property
    def total(self) -> Ints:
        """The sums of all."""
        return np.sum([_total(cells) for cells in self.domains.values()], axis=0, initial=0) + np.zeros(
            MOMENTS, np.int64
        )

    def rates(self) -> tuple[float, ...]:
        """The fitted rate of each class."""
        return tuple(np.round(_rates(self.total[None]), 4)[0].tolist())

    def estimates(self, domain: str) -> Estimates:
        """What is estimated of rows of a domain."""
        cells = self.domains.get(domain, np.zeros(0, CELL))
        enough = cells[cells["moments"][:, 0] >= FEWEST]
        tools, sums = _by_tool(cells)
        has = sums[:, 0] >= FEWEST
        return Estimates(
            dict(zip(zip(enough["tool"].tolist(), enough["turn"].tolist(), strict=True), _means(enough), strict=True)),
            dict(zip(tools[has].tolist(), _mean_of(sums[has]), strict=True)),
            self.rates(),
        )

    def errors(self, domain: str) -> dict[str, Any]:
        """How far estimates are from what was measured in a domain, as the root of the mean square; None if unknown.

        That takes `FEWEST` histories, which each error is of, and as many that it is estimated by.

        `pooled`: of histories by the mean of their cell without them. `extrapolated`: by the rates that are fitted
        without what was measured of the same tool; `other_domains`: without all of the domain. `spread` is the
        deviation of what was measured, and so the error of whoever knew its mean.
        """
        cells = self.domains.get(domain, np.zeros(0, CELL))
        whole = _total(cells)
        count = int(whole[0])
        found: dict[str, Any] = {"histories": count, "pooled_histories": 0, "extrapolated_histories": 0}
        found |= dict.fromkeys(("mean", "spread", "pooled", "extrapolated", "other_domains"))
        if not count:
            return found
        mean = whole[1] / count / WHOLE
        found |= {"mean": round(mean, 4), "spread": _root(whole[2] / WHOLE**2 - count * mean * mean, count)}
        square, number = _pooled_square(cells)
        found |= {"pooled_histories": number, "pooled": _root(square, number) if number else None}
        sums = _by_tool(cells)[1]
        rest = self.total[None] - sums
        known = rest[:, 0] >= FEWEST
        found["extrapolated_histories"] = number = int(sums[known, 0].sum())
        if number >= FEWEST:
            found["extrapolated"] = _root(float(_squares(sums[known], _rates(rest[known])).sum()), number)
        rest = (self.total - whole)[None]
        if min(rest[0, 0], count) >= FEWEST:
            found["other_domains"] = _root(float(_squares(whole[None], _rates(rest))[0]), count)
        return found

    def told(self) -> dict[str, list[list[Any]]]:
        """As JSON holds it: of each domain a list of tool, turn and sums."""
        return {
            domain: [[f"{one['tool']:016x}", int(one["turn"]), *one["moments"].tolist()] for one in cells]
            for domain, cells in sorted(self.domains.items())
        }

    def add_told(self, told: Mapping[str, Iterable[list[Any]]]) -> None:
        """Adds what `told` gave."""
        for domain, rows in told.items():
            self.add(domain, np.array([(int(tool, 16), turn, sums) for tool, turn, *sums in rows], CELL))


def _total(cells: npt.NDArray[np.void]) -> Ints:
    total: Ints = cells["moments"].sum(axis=0, dtype=np.int64)
    return total


def _by_tool(cells: npt.NDArray[np.void]) -> tuple[Numbers, Ints]:
    """The tools, ascending, and the sums of each."""
    tools, place = np.unique(cells["tool"], return_inverse=True)
    sums = np.zeros((len(tools), MOMENTS), np.int64)
    np.add.at(sums, place.ravel(), cells["moments"])
    return tools, sums


def _mean_of(sums: Ints) -> list[float]:
    means: list[float] = np.round(sums[:, 1] / np.maximum(sums[:, 0], 1) / WHOLE, 4).tolist()
    return means


def _means(cells: npt.NDArray[np.void]) -> list[float]:
    return _mean_of(cells["moments"])


def _normal(sums: Ints) -> tuple[Floats, Floats]:
    """(products of shares, products of shares with what is agreed on) of each sum, as matrices and vectors."""
    square = np.zeros((len(sums), _CLASSES, _CLASSES))
    square[:, _PAIRS[0], _PAIRS[1]] = sums[:, 3 + _CLASSES :] / WHOLE**2
    square[:, _PAIRS[1], _PAIRS[0]] = square[:, _PAIRS[0], _PAIRS[1]]
    return square, sums[:, 3 : 3 + _CLASSES] / WHOLE**2


def _rates(sums: Ints) -> Floats:
    """The rates that fit each sum best, drawn to the prior by so many histories."""
    square, vector = _normal(sums)
    prior = np.array(list(PRIOR.values()))
    solved = np.linalg.solve(square + PRIOR_GROUPS * np.eye(_CLASSES), (vector + PRIOR_GROUPS * prior)[:, :, None])
    return np.clip(solved[:, :, 0], 0.0, 1.0)


def _squares(sums: Ints, rates: Floats) -> Floats:
    """The sum of the squared errors of rates, of each sum."""
    square, vector = _normal(sums)
    products = np.einsum("ni,nij,nj->n", rates, square, rates)
    found: Floats = sums[:, 2] / WHOLE**2 - 2 * (rates * vector).sum(axis=1) + products
    return found


def _pooled_square(cells: npt.NDArray[np.void]) -> tuple[float, int]:
    """The squared errors of histories by the mean of their cell, or tool, without them, summed; how many these are."""
    tools, sums = _by_tool(cells)
    of_tool = sums[np.searchsorted(tools, cells["tool"])].astype(np.float64)
    own = cells["moments"].astype(np.float64)
    pool = np.where(own[:, :1] >= FEWEST, own, of_tool)
    has = pool[:, 0] >= FEWEST
    own, pool = own[has], pool[has]
    count, total = pool[:, 0], pool[:, 1] / WHOLE
    each, one, two = own[:, 0], own[:, 1] / WHOLE, own[:, 2] / WHOLE**2
    squares = (count**2 * two - 2 * count * total * one + each * total**2) / np.maximum(count - 1, 1) ** 2
    return float(squares.sum()), int(each.sum())


def _root(square: float, count: int) -> float:
    return round(float(np.sqrt(max(square, 0.0) / max(count, 1))), 4)
