"""Trajectories that are shown as they were logged, many at once: what samples that are made by columns share.

Whatever is not a whole trajectory as it was logged goes row by row: what is longer than a window, what nothing is
learnt of, what holds control strings where the recipe drops those, what others said where it is shown, spans that were
measured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.mix.drawn_rows import WholeRows, is_unread, python_values
from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.pipelines.mix.sample_columns import made_schema
from trajmill.pipelines.mix.sample_tokens import UnitTokens, summed_wholes
from trajmill.pipelines.recipe.recipe import Mix, Pool
from trajmill.pipelines.render.prompts import CONTEXT, Prompt, Wording, shaped_prompt
from trajmill.pipelines.render.text_columns import observed
from trajmill.pipelines.render.turns import View
from trajmill.quality.sets import ranges
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import Reject

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

ROLES: Final = pa.array(["system", "user", "assistant"])
"""Of messages."""

_AT_ONCE: Final = 2 << 20
"""Tokens of samples that are made together: some 8 MB of text, which stands in memory a few times."""


class UnitRows(NamedTuple):
    """The rows of a unit, as `whole_samples` takes them.

    Attributes:
        costs: of all rows.
        use: of each row, of `schemas.verdict.USES`.
        ordinal: of each row, the number of its trajectory among those that are kept.
        wanted: which rows samples are made of.
        domain: of all rows.
    """

    costs: pa.Table
    use: npt.NDArray[Any]
    ordinal: Numbers
    wanted: Flags
    domain: str


class WholeTrajectories(ABC):
    """The trajectories of a pool in a unit, or segments of such, by their numbers; rows by their places among these.

    Args:
        pool: of the samples.
        rows: of the unit.
        places: which of them are of the pool.
        draws: what is drawn of each kept trajectory.
        mix: the recipe's section.
        counter: counts tokens under the recipe's tokenizer.
    """

    reads: Set[str] = frozenset()
    """Leaves of transitions that are read besides those that texts of turns are made of."""

    def __init__(
        self,
        pool: Pool,
        rows: UnitRows,
        places: Numbers,
        draws: Sequence[Mapping[str, Any]],
        mix: Mix,
        counter: TokenCounter,
    ) -> None:
        self._pool, self._mix, self._counter, self._domain, self._places = pool, mix, counter, rows.domain, places
        costs = rows.costs.take(pa.array(places)).combine_chunks()
        self._unit = UnitTokens(costs, rows.use[places], rows.domain, counter)
        self._wholes = summed_wholes(self._unit, pool, mix, counter)
        chosen = self._wholes.taught & ~self._wholes.long
        if mix.control_tokens == "drop":
            chosen &= ~self._unit.prompt_holds & (self._wholes.control_turns == 0)
        if mix.harness == "keep":
            chosen &= self._unit.summed(costs["said_tokens"].to_numpy()) == 0
        self._chosen = np.flatnonzero(chosen)
        self._hashes = tuple(rows.costs[name].to_numpy() for name in ("state_hash", "next_hash"))
        self._size = np.diff(np.append(self._unit.begins, len(places)))
        self._first = places[self._unit.begins]
        self._draws = [draws[number] for number in rows.ordinal[self._first].tolist()]
        self._shapes = self._unit.shapes()
        self._view, self._wording = View.of(mix), Wording.of(mix, pool)

    def within(self, first: int, number: int) -> Flags:
        """Which rows of a row group, that begins with row `first` of the file, samples are made of by columns."""
        found = np.zeros(number, np.bool_)
        some = self._of_group(first, number)
        found[ranges(self._first[some], self._size[some]) - first] = True
        return found

    def _of_group(self, first: int, number: int) -> Numbers:
        """The trajectories of which all rows are in a row group."""
        begins = self._first[self._chosen]
        return self._chosen[(begins >= first) & (begins + self._size[self._chosen] <= first + number)]

    def of(self, group: WholeRows) -> Iterator[pa.RecordBatch | Reject]:
        """The samples of a row group, in batches of `made_schema`; one that is drawn several times comes as often."""
        some = self._of_group(group.first, group.batch.num_rows)
        ends = np.cumsum(self._wholes.tokens[some])
        for part in np.split(some, np.searchsorted(ends, np.arange(_AT_ONCE, ends[-1] if len(ends) else 0, _AT_ONCE))):
            if len(part):
                yield from self._made(part, group)

    @abstractmethod
    def _made(self, some: Numbers, group: WholeRows) -> Iterator[pa.RecordBatch | Reject]:
        """The samples of trajectories of a row group."""

    def _batch(self, some: Numbers, own: Mapping[str, Any]) -> pa.RecordBatch:
        """The samples of trajectories, as often as each is drawn, of their columns."""
        schema = made_schema(self._pool)
        batch = pa.RecordBatch.from_arrays([as_array(own[one.name], one.type) for one in schema], schema=schema)
        copies = np.array([self._draws[number]["copies"] for number in some.tolist()])
        return batch if (copies == 1).all() else batch.take(pa.array(np.repeat(np.arange(len(some)), copies)))

    def _ordering(self, some: Numbers, group: WholeRows) -> dict[str, Any]:
        """The columns by which samples find their place in a shard."""
        keys = self._keys(some)
        return {
            "_hash": np.array([keyed_hash(f"order:{key}", self._mix.seed) for key in keys], np.uint64),
            "_id": keys,
            "_row": self._of_first(group, "row_id", some),
        }

    def _drawn(self, some: Numbers, name: str) -> list[Any]:
        """What is drawn of trajectories."""
        return [self._draws[number][name] for number in some.tolist()]

    def _of_first(self, group: WholeRows, name: str, some: Numbers) -> pa.StringArray:
        """A column of the first row of each trajectory."""
        return group.batch[name].take(pa.array(self._first[some] - group.first)).cast(pa.string())

    def _contexts(self, some: Numbers, group: WholeRows) -> list[dict[str, str | None]]:
        """The context of each trajectory."""
        first = group.batch["context"].take(pa.array(self._first[some] - group.first))
        told = zip(*(python_values(pc.struct_field(first, name)) for name in CONTEXT), strict=True)
        return [dict(zip(CONTEXT, one, strict=True)) for one in told]

    def _prompts(self, some: Numbers, contexts: Sequence[Mapping[str, str | None]]) -> list[Prompt]:
        """The prompt of each trajectory."""
        return [
            shaped_prompt(self._shapes[number], told, key, self._wording, self._view)
            for number, told, key in zip(some.tolist(), contexts, self._keys(some), strict=True)
        ]

    def _unread(self, rows: Numbers, group: WholeRows) -> Flags:
        """Before which rows' actions stood a text that the row before did not lead to."""
        end = group.first + group.batch.num_rows
        unread = is_unread(*(hashes[group.first : end] for hashes in self._hashes))
        found: Flags = unread[self._places[rows] - group.first]
        return found

    def _states(self, rows: Numbers, group: WholeRows) -> pa.StringArray:
        """What stood before the action of each row that shows it; else null."""
        places, shows, unread = self._places[rows] - group.first, self._unit.shows[rows], self._unread(rows, group)
        after, _ = observed(group.batch, "next_observation", self._view)
        led = after.take(pa.array(places - 1, mask=~shows | unread)).cast(pa.string())
        if not (shows & unread).any():
            return led
        before, _ = observed(group.batch, "observation", self._view)
        return pc.coalesce(before.take(pa.array(places, mask=~shows | ~unread)).cast(pa.string()), led)

    def _keys(self, some: Numbers) -> list[str]:
        return [self._unit.keys[number] for number in some.tolist()]


def places_of(pool: Pool, rows: UnitRows, draws: Sequence[Mapping[str, Any]], others: Collection[str] = ()) -> Numbers:
    """Which rows of a unit samples of a pool are made of.

    Args:
        pool: of the samples.
        rows: of the unit.
        draws: what is drawn of each kept trajectory.
        others: ids of trajectories that go row by row.
    """
    mine = np.array([one["pool"] == pool and one["trajectory_id"] not in others for one in draws], np.bool_)
    places = np.flatnonzero(rows.wanted)
    found: Numbers = places[mine[rows.ordinal[places]]]
    return found


def as_array(values: Any, kind: pa.DataType) -> pa.Array:
    """The values as an array of a type; one that is an array is of it."""
    return values if isinstance(values, pa.Array) else pa.array(values).cast(kind)


def lengths(texts: pa.StringArray) -> Numbers:
    """Characters of each text."""
    found: Numbers = pc.utf8_length(texts).to_numpy().astype(np.int64)
    return found
