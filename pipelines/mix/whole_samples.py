"""Samples of CPT and SFT by columns: the trajectories of a unit that are shown whole, many at once.

They are what `samples.samples_of` makes of the same rows, byte for byte, without a Python object a turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.mix.drawn_rows import WholeRows
from trajmill.pipelines.mix.sample_columns import SAMPLE_SCHEMAS
from trajmill.pipelines.mix.whole_trajectories import ROLES, Flags, Numbers, WholeTrajectories, lengths
from trajmill.pipelines.recipe.recipe import Pool
from trajmill.pipelines.render.loss_spans import told_pieces
from trajmill.pipelines.render.prompts import Prompt
from trajmill.pipelines.render.turn_columns import TURN_COLUMNS, answer_texts, user_texts
from trajmill.pipelines.render.turns import BETWEEN, MARKER
from trajmill.quality.sets import ranges

WHOLE_POOLS: Final[tuple[Pool, ...]] = ("cpt", "sft")
"""Those whose samples show whole trajectories."""


class WholeSamples(WholeTrajectories):
    """The samples of CPT or SFT that show whole trajectories; arguments as of `WholeTrajectories`."""

    reads = frozenset({"scrubbed"})

    def _made(self, some: Numbers, group: WholeRows) -> Iterator[pa.RecordBatch]:
        texts = self._texts(some, group)
        yield self._batch(some, self._own(some, group, texts) | self._ordering(some, group))

    def _texts(self, some: Numbers, group: WholeRows) -> _Texts:
        """The texts of trajectories, one after the other."""
        rows = ranges(self._unit.begins[some], self._size[some])
        rows = rows[self._wholes.held[rows]]
        shown = group.batch.select((*TURN_COLUMNS, "scrubbed")).take(pa.array(self._places[rows] - group.first))
        escapable = self._unit.escapable[rows]
        users = user_texts(shown, self._unit.numbers[rows] + 1, self._states(rows, group), self._view, escapable)
        answers = answer_texts(shown, self._view, escapable)
        prompts = self._prompts(some, self._contexts(some, group))
        bears = self._unit.bears[rows]
        scrubbed = shown["scrubbed"].fill_null(0).to_numpy(zero_copy_only=False) > 0
        return _Texts(prompts, users, answers, self._wholes.turns[some], bears, np.flatnonzero(bears & scrubbed))

    def _own(self, some: Numbers, group: WholeRows, texts: _Texts) -> dict[str, Any]:
        """The columns that trainers read, and what is counted."""
        control_turns = self._wholes.control_turns[some]
        return {
            "id": self._keys(some),
            "domain": [self._domain] * len(some),
            **{name: self._of_first(group, name, some) for name in ("source", "trajectory_id")},
            **{name: self._drawn(some, name) for name in ("group", "task_hash", "instance_hash")},
            "num_turns": self._wholes.turns[some],
            "num_tokens": self._wholes.tokens[some],
            "num_loss_tokens": self._wholes.loss_tokens[some],
            "template": [one.template for one in texts.prompts],
            **(texts.documents() if self._pool == "cpt" else texts.conversations()),
            "_control_turns": control_turns,
            "_control": (control_turns > 0) | self._unit.prompt_holds[some],
        }


class _Texts:
    """The texts of samples.

    Args:
        prompts: of each.
        users: the user messages of all, one sample after the other.
        answers: the assistant messages.
        turns: of each sample.
        bears: of each turn, whether its answer bears the loss.
        scrubbed: the turns that do, and in which placeholders may stand.
    """

    def __init__(
        self,
        prompts: Sequence[Prompt],
        users: pa.StringArray,
        answers: pa.StringArray,
        turns: Numbers,
        bears: Flags,
        scrubbed: Numbers,
    ) -> None:
        self.prompts, self._turns, self._bears = prompts, turns, bears
        self._begins = np.cumsum(turns) - turns
        self._number = np.arange(len(users)) - np.repeat(self._begins, turns)
        self._systems = pa.array([one.text for one in prompts], pa.string())
        self._users, self._answers = users, answers
        texts = answers.take(pa.array(scrubbed)).to_pylist()
        self._parted = {
            turn: pieces
            for turn, text in zip(scrubbed.tolist(), texts, strict=True)
            if (pieces := told_pieces(text)) is not None
        }

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
        users, answers = (lengths(one) for one in (self._users, self._answers))
        before = np.cumsum(users + answers + 2 * len(BETWEEN)) - answers
        begun = np.append(0, np.cumsum(users + answers + 2 * len(BETWEEN)))[self._begins]
        place = before + np.repeat(lengths(self._systems) - begun, self._turns)
        return {"text": texts, "spans": self._spans("cpt", place, answers)}

    def conversations(self) -> dict[str, pa.Array]:
        """The columns of SFT."""
        messages = self._messages()
        place = np.arange(len(messages.values)) - np.repeat(messages.offsets[:-1].to_numpy(), 1 + 2 * self._turns)
        role = np.where(place == 0, 0, 2 - place % 2)
        loss = np.zeros(len(place), np.bool_)
        loss[role == 2] = self._bears
        fields = [ROLES.take(pa.array(role)), messages.values, pa.array(loss, mask=role != 2)]
        kind = SAMPLE_SCHEMAS["sft"].field("messages").type
        struct = pa.StructArray.from_arrays(fields, fields=list(kind.value_type))
        none = np.zeros(len(self._users), np.int64)
        return {
            "messages": pa.ListArray.from_arrays(messages.offsets, struct, type=kind),
            "spans": self._spans("sft", none, lengths(self._answers)),
        }

    def _spans(self, pool: str, place: Numbers, answers: Numbers) -> pa.ListArray:
        """What bears the loss: of each answer that does its marker, and what stands below it but for placeholders.

        Args:
            pool: of the samples.
            place: where each answer begins in the text.
            answers: lengths of the answers with their markers.
        """
        size = np.where(self._bears, 1 + (answers > len(MARKER)), 0)
        for number, pieces in self._parted.items():
            size[number] = 1 + len(pieces)
        before = np.append(0, np.cumsum(size))
        turn = np.repeat(np.arange(len(size)), size)
        below = np.ones(len(turn), np.bool_)
        below[before[:-1][size > 0]] = False
        begin, end = np.where(below, len(MARKER), 0), np.where(below, answers[turn], len(MARKER))
        for number, pieces in self._parted.items():
            own = slice(before[number] + 1, before[number + 1])
            begin[own], end[own] = np.array(pieces, np.int64).reshape(-1, 2).T
        values = {
            "message": 2 * self._number[turn] + 2,
            "begin": place[turn] + begin,
            "end": place[turn] + end,
            "label": _LABELS.take(pa.array(below.astype(np.int64))),
        }
        kind = SAMPLE_SCHEMAS[pool].field("spans").type
        fields = list(kind.value_type)
        struct = pa.StructArray.from_arrays(
            [pa.array(values[one.name]).cast(one.type) for one in fields], fields=fields
        )
        offsets = before[np.append(self._begins, len(answers))]
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), struct, type=kind)


_LABELS: Final = pa.array(["frame", None])
"""The class of an answer's marker; what is below it has none where spans are not measured."""
