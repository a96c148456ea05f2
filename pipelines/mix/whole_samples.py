"""Samples of CPT and SFT by columns: the trajectories of a unit that are shown whole, many at once.

They are what `samples.samples_of` makes of the same rows, byte for byte, without a Python object a turn. Whatever is
not a whole trajectory as it was logged goes row by row: what is longer than a window, what nothing is learnt of, what
holds control strings where the recipe drops those, what others said where it is shown, spans that were measured.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.mix.drawn_rows import WholeRows, is_unread, python_values
from pipelines.mix.keyed import keyed_hash
from pipelines.mix.sample_columns import SAMPLE_SCHEMAS, made_schema
from pipelines.mix.sample_tokens import UnitTokens, Wholes, summed_wholes
from pipelines.recipe.recipe import Mix, Pool
from pipelines.rendering.prompts import CONTEXT, Prompt, Wording, shaped_prompt
from pipelines.rendering.text_columns import observed
from pipelines.rendering.turn_columns import TURN_COLUMNS, answer_texts, user_texts
from pipelines.rendering.turns import BETWEEN, MARKER, View
from quality.sets import ranges
from quality.tokens import TokenCounter

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

WHOLE_POOLS: Final[tuple[Pool, ...]] = ("cpt", "sft")
"""Those whose samples show whole trajectories."""

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


def whole_samples(
    pool: Pool,
    rows: UnitRows,
    draws: Sequence[Mapping[str, Any]],
    mix: Mix,
    counter: TokenCounter,
    others: Collection[str] = (),
) -> WholeSamples | None:
    """The trajectories of a unit that are shown whole; None if no row is of the pool.

    Args:
        pool: `cpt` or `sft`.
        rows: of the unit.
        draws: what is drawn of each kept trajectory.
        mix: the recipe's section.
        counter: counts tokens under the recipe's tokenizer.
        others: ids of trajectories that are none of these.
    """
    mine = np.array([one["pool"] == pool and one["trajectory_id"] not in others for one in draws], np.bool_)
    places = np.flatnonzero(rows.wanted)
    places = places[mine[rows.ordinal[places]]]
    if not len(places):
        return None
    costs = rows.costs.take(pa.array(places)).combine_chunks()
    unit = UnitTokens(costs, rows.use[places], rows.domain, counter)
    wholes = summed_wholes(unit, pool, mix, counter)
    chosen = wholes.taught & ~wholes.long
    if mix.control_tokens == "drop":
        chosen &= ~unit.prompt_holds & (wholes.control_turns == 0)
    if mix.harness == "keep":
        chosen &= unit.summed(costs["said_tokens"].to_numpy()) == 0
    return WholeSamples(pool, rows, places, unit, wholes, np.flatnonzero(chosen), draws, mix)


class WholeSamples:
    """Trajectories, or segments of such, by their numbers within a unit; rows by their places among those of a pool.

    Args:
        pool: `cpt` or `sft`.
        rows: of the unit.
        places: which of them are of the pool.
        unit: these.
        wholes: the trajectories.
        chosen: those that are shown whole.
        draws: as of `whole_samples`.
        mix: as of `whole_samples`.
    """

    def __init__(
        self,
        pool: Pool,
        rows: UnitRows,
        places: Numbers,
        unit: UnitTokens,
        wholes: Wholes,
        chosen: Numbers,
        draws: Sequence[Mapping[str, Any]],
        mix: Mix,
    ) -> None:
        self._pool, self._mix = pool, mix
        self._places, self._unit, self._wholes, self._chosen = places, unit, wholes, chosen
        self._domain = rows.domain
        self._hashes = tuple(rows.costs[name].to_numpy() for name in ("state_hash", "next_hash"))
        self._size = np.diff(np.append(unit.begins, len(places)))
        self._first = places[unit.begins]
        self._draws = [draws[number] for number in rows.ordinal[self._first].tolist()]
        self._shapes = unit.shapes()
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

    def of(self, group: WholeRows) -> Iterator[pa.RecordBatch]:
        """The samples of a row group, in batches of `made_schema`; one that is drawn several times comes as often."""
        some = self._of_group(group.first, group.batch.num_rows)
        ends = np.cumsum(self._wholes.tokens[some])
        for part in np.split(some, np.searchsorted(ends, np.arange(_AT_ONCE, ends[-1] if len(ends) else 0, _AT_ONCE))):
            if len(part):
                yield self._made(part, group)

    def _made(self, some: Numbers, group: WholeRows) -> pa.RecordBatch:
        texts = self._texts(some, group)
        own = self._own(some, group.batch.take(pa.array(self._first[some] - group.first)), texts)
        batch = pa.RecordBatch.from_arrays(
            [own[one.name] for one in made_schema(self._pool)], schema=made_schema(self._pool)
        )
        copies = np.array([self._draws[number]["copies"] for number in some.tolist()])
        return batch if (copies == 1).all() else batch.take(pa.array(np.repeat(np.arange(len(some)), copies)))

    def _texts(self, some: Numbers, group: WholeRows) -> _Texts:
        """The texts of trajectories, one after the other."""
        rows = ranges(self._unit.begins[some], self._size[some])
        rows = rows[self._wholes.held[rows]]
        shown = group.batch.select(TURN_COLUMNS).take(pa.array(self._places[rows] - group.first))
        escapable = self._unit.escapable[rows]
        states = self._states(rows, group)
        users = user_texts(shown, self._unit.numbers[rows] + 1, states, self._view, escapable)
        answers = answer_texts(shown, self._view, escapable)
        first = group.batch["context"].take(pa.array(self._first[some] - group.first))
        context = zip(*(python_values(pc.struct_field(first, name)) for name in CONTEXT), strict=True)
        prompts = [
            shaped_prompt(self._shapes[number], dict(zip(CONTEXT, told, strict=True)), key, self._wording, self._view)
            for number, told, key in zip(some.tolist(), context, self._keys(some), strict=True)
        ]
        return _Texts(prompts, users, answers, self._wholes.turns[some], self._unit.bears[rows])

    def _states(self, rows: Numbers, group: WholeRows) -> pa.StringArray:
        """What stood before the action of each row that shows it; else null."""
        places = self._places[rows] - group.first
        shows = self._unit.shows[rows]
        end = group.first + group.batch.num_rows
        unread = is_unread(*(hashes[group.first : end] for hashes in self._hashes))[places]
        after, _ = observed(group.batch, "next_observation", self._view)
        led = after.take(pa.array(places - 1, mask=~shows | unread)).cast(pa.string())
        if not (shows & unread).any():
            return led
        before, _ = observed(group.batch, "observation", self._view)
        return pc.coalesce(before.take(pa.array(places, mask=~shows | ~unread)).cast(pa.string()), led)

    def _keys(self, some: Numbers) -> list[str]:
        return [self._unit.keys[number] for number in some.tolist()]

    def _own(self, some: Numbers, first: pa.RecordBatch, texts: _Texts) -> dict[str, pa.Array]:
        """The columns of samples.

        Args:
            some: the trajectories.
            first: the first row of each.
            texts: of them.
        """
        keys = self._keys(some)
        draws = [self._draws[number] for number in some.tolist()]
        own: dict[str, Any] = {
            "id": keys,
            "domain": [self._domain] * len(some),
            **{name: first[name].cast(pa.string()) for name in ("source", "trajectory_id")},
            **{name: [one[name] for one in draws] for name in ("group", "task_hash", "instance_hash")},
            "num_turns": self._wholes.turns[some],
            "num_tokens": self._wholes.tokens[some],
            "num_loss_tokens": self._wholes.loss_tokens[some],
            "template": [one.template for one in texts.prompts],
            **(texts.documents() if self._pool == "cpt" else texts.conversations()),
            "_hash": np.array([keyed_hash(f"order:{key}", self._mix.seed) for key in keys], np.uint64),
            "_id": keys,
            "_row": first["row_id"].cast(pa.string()),
            "_control_turns": self._wholes.control_turns[some],
            "_control": (self._wholes.control_turns[some] > 0) | self._unit.prompt_holds[some],
        }
        return {
            one.name: found if isinstance(found := own[one.name], pa.Array) else pa.array(found).cast(one.type)
            for one in made_schema(self._pool)
        }


class _Texts:
    """The texts of samples.

    Args:
        prompts: of each.
        users: the user messages of all, one sample after the other.
        answers: the assistant messages.
        turns: of each sample.
        bears: of each turn, whether its answer bears the loss.
    """

    def __init__(
        self, prompts: Sequence[Prompt], users: pa.StringArray, answers: pa.StringArray, turns: Numbers, bears: Flags
    ) -> None:
        self.prompts, self._turns, self._bears = prompts, turns, bears
        self._begins = np.cumsum(turns) - turns
        self._number = np.arange(len(users)) - np.repeat(self._begins, turns)
        self._systems = pa.array([one.text for one in prompts], pa.string())
        self._users, self._answers = users, answers

    def _messages(self) -> pa.ListArray:
        """All messages of each sample: of the system, then of user and assistant by turns."""
        sizes = 1 + 2 * self._turns
        ends = np.cumsum(sizes)
        order = np.zeros(ends[-1], np.int64)
        order[ends - sizes] = np.arange(len(sizes))
        places = np.repeat(ends - sizes, self._turns) + 1 + 2 * self._number
        order[places] = len(sizes) + np.arange(len(self._users))
        order[places + 1] = order[places] + len(self._users)
        texts = pa.concat_arrays([self._systems, self._users, self._answers]).take(pa.array(order))
        return pa.ListArray.from_arrays(pa.array(np.append(0, ends), pa.int32()), texts)

    def documents(self) -> dict[str, pa.Array]:
        """The columns of CPT."""
        texts = pc.binary_join_element_wise(pc.binary_join(self._messages(), BETWEEN), "\n", "")
        users, answers = (_lengths(one) for one in (self._users, self._answers))
        before = np.cumsum(users + answers + 2 * len(BETWEEN)) - answers
        begun = np.append(0, np.cumsum(users + answers + 2 * len(BETWEEN)))[self._begins]
        place = before + np.repeat(_lengths(self._systems) - begun, self._turns)
        return {"text": texts, "spans": self._spans("cpt", place, answers)}

    def conversations(self) -> dict[str, pa.Array]:
        """The columns of SFT."""
        messages = self._messages()
        place = np.arange(len(messages.values)) - np.repeat(messages.offsets[:-1].to_numpy(), 1 + 2 * self._turns)
        role = np.where(place == 0, 0, 2 - place % 2)
        loss = np.zeros(len(place), np.bool_)
        loss[role == 2] = self._bears
        fields = [_ROLES.take(pa.array(role)), messages.values, pa.array(loss, mask=role != 2)]
        kind = SAMPLE_SCHEMAS["sft"].field("messages").type
        struct = pa.StructArray.from_arrays(fields, fields=list(kind.value_type))
        none = np.zeros(len(self._users), np.int64)
        return {
            "messages": pa.ListArray.from_arrays(messages.offsets, struct, type=kind),
            "spans": self._spans("sft", none, _lengths(self._answers)),
        }

    def _spans(self, pool: str, place: Numbers, answers: Numbers) -> pa.ListArray:
        """What bears the loss: of each answer that does its marker, and what stands below it.

        Args:
            pool: of the samples.
            place: where each answer begins in the text.
            answers: lengths of the answers with their markers.
        """
        bearing = np.flatnonzero(self._bears)
        size = 1 + (answers[bearing] > len(MARKER))
        turn = np.repeat(bearing, size)
        below = np.ones(len(turn), np.bool_)
        below[np.cumsum(size) - size] = False
        values = {
            "message": 2 * self._number[turn] + 2,
            "begin": place[turn] + np.where(below, len(MARKER), 0),
            "end": place[turn] + np.where(below, answers[turn], len(MARKER)),
            "label": _LABELS.take(pa.array(below.astype(np.int64))),
        }
        kind = SAMPLE_SCHEMAS[pool].field("spans").type
        fields = list(kind.value_type)
        struct = pa.StructArray.from_arrays(
            [pa.array(values[one.name]).cast(one.type) for one in fields], fields=fields
        )
        before = np.append(0, np.cumsum(np.where(self._bears, 1 + (answers > len(MARKER)), 0)))
        offsets = before[np.append(self._begins, len(answers))]
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), struct, type=kind)


_ROLES: Final = pa.array(["system", "user", "assistant"])
_LABELS: Final = pa.array(["frame", None])
"""The class of an answer's marker; what is below it has none where spans are not measured."""


def _lengths(texts: pa.StringArray) -> Numbers:
    """Characters of each text."""
    return pc.utf8_length(texts).to_numpy().astype(np.int64)
