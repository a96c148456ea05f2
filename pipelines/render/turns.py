"""Turns: judged trajectories in the world-model view, as the messages that models are trained on.

A system prompt of what is known beforehand comes first, then turns, where the user turn is one action and the assistant
turn is what was observed. Calls that an agent made at once are successive turns, in the order of the calls. The state
before an action is shown where it is not what the turn before ended with, and once for calls made at once. The agent's
thoughts, words and aims are not shown: a world does not know them. Words of the harness and the user between turns are
shown where the recipe keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.render.fixed_texts import BELOW_STATE, MARKER, STATE, heading
from trajmill.pipelines.render.loss_spans import Answer
from trajmill.pipelines.render.pieces import (
    Flags,
    Numbers,
    View,
    cap_texts,
    endings,
    has_origin,
    interleaved_texts,
    observed_texts,
    plain_texts,
    shown_actions,
    spoken,
    time_limits,
)
from trajmill.quality.fingerprint import struct_text
from trajmill.quality.texts import Texts

Rows: TypeAlias = Sequence[Mapping[str, Any]]


class Outline:
    """The rows of trajectories as turns, before any text of them is written.

    Args:
        begins: the first row of each trajectory, or of each segment of a split one.
        turn: of each row, the trajectory's turn.
        use: of each row, of `schemas.verdict.USES`.
        state: of each row, a number that stands for the text of the state before its action; 0 if it is not known.
        led: of each row, such a number of the text of its next observation.

    Attributes:
        begins: as given.
        of: the number of each row's trajectory.
        turn: of each row, the number of its turn in all of them.
        visible: whether the row is shown.
        first: whether it is the first shown row of its turn.
        known: whether the state before its action is known.
        shows: whether that state is shown, where all rows of the trajectory are shown that can be.
    """

    def __init__(
        self,
        begins: Numbers,
        turn: npt.NDArray[Any],
        use: npt.NDArray[Any],
        state: npt.NDArray[np.uint64],
        led: npt.NDArray[np.uint64],
    ) -> None:
        begun = np.zeros(len(turn), np.bool_)
        begun[begins] = True
        self.begins, self.of = begins, np.cumsum(begun) - 1
        begun[1:] |= turn[1:] != turn[:-1]
        self.turn = np.cumsum(begun) - 1
        self.visible: Flags = use != "omit"
        self.known: Flags = state != 0
        self.first, self.shows = np.zeros((2, len(turn)), np.bool_)
        rows = np.flatnonzero(self.visible)
        self.first[rows] = np.diff(self.turn[rows], prepend=-1) > 0
        before = np.zeros(len(rows), np.uint64)
        before[1:] = np.where(np.diff(self.of[rows]) == 0, led[rows[:-1]], 0)
        self.shows[rows] = self.first[rows] & self.known[rows] & (state[rows] != before)


class Excerpts(NamedTuple):
    """Runs of turns that samples show, one after the other.

    Attributes:
        rows: of their turns.
        counts: turns of each.
        numbers: of each turn its place in its excerpt, from 0.
        shows: whether a turn shows the state before its action: the first one also where the turn before led to it.
    """

    rows: Numbers
    counts: Numbers
    numbers: Numbers
    shows: Flags

    @classmethod
    def of(cls, outline: Outline, rows: Numbers, counts: Numbers) -> Self:
        """Those of some shown rows; each begins with a turn."""
        begins = np.cumsum(counts) - counts
        shows = outline.shows[rows]
        shows[begins] = outline.known[rows[begins]]
        return cls(rows, counts, np.arange(len(rows)) - np.repeat(begins, counts), shows)

    @property
    def begins(self) -> Numbers:
        """The place of each one's first turn."""
        begins: Numbers = np.cumsum(self.counts) - self.counts
        return begins

    def sums(self, values: npt.NDArray[Any]) -> Numbers:
        """The sum over each excerpt of a number of each turn; an excerpt has at least one."""
        sums: Numbers = np.add.reduceat(values.astype(np.int64), self.begins)
        return sums


def user_texts(
    batch: pa.RecordBatch,
    numbers: Numbers,
    states: pa.StringArray,
    view: View,
    escapable: Flags | None = None,
    words: Mapping[int, str] | None = None,
    openings: Mapping[int, str] | None = None,
) -> pa.StringArray:
    """Join the pieces of the user message of each turn.

    Args:
        batch: the rows of the turns, with `USER_LEAVES`.
        numbers: of the turns in their samples, from 0.
        states: the text before each action, where the message shows it; else null.
        view: how they are shown.
        escapable: of which rows escaping could change a text; None if that is not known.
        words: by the place of a row, the words of others before its action.
        openings: by the place of a row, what else is known before it, which opens the message.
    """
    heads = pa.array([heading(number) for number in range(1, int(numbers.max(initial=0)) + 2)], pa.string())
    limits, actions = time_limits(batch), shown_actions(batch, view)
    pieces = [heads.take(pa.array(numbers)), _add_headings(states, view), _each(limits), _each(actions)]
    for position, texts in ((2, words), (1, openings)):
        if texts:
            pieces.insert(position, pa.array([texts.get(row) for row in range(len(numbers))], pa.string()))
            escapable = None if escapable is None else escapable | np.isin(np.arange(len(numbers)), list(texts))
    return plain_texts(_join_pieces(*pieces), view, escapable)


def answer_texts(
    batch: pa.RecordBatch, view: View, escapable: Flags | None = None, marker: str = MARKER
) -> pa.StringArray:
    """The assistant message of each turn, or its answer alone: the next observation, and below it how a command ended.

    Args:
        batch: the rows of the turns, with `ANSWER_LEAVES`.
        view: as of `user_texts`.
        escapable: as there.
        marker: leads the message; empty for the answer alone.
    """
    content, _ = observed_texts(batch, "next_observation", view)
    seen = plain_texts(cap_texts(pc.fill_null(content.cast(pa.string()), ""), view), view, escapable)
    ends = endings(batch)
    if not any(ends.texts.to_pylist()):
        return _join_pieces(marker, seen) if marker else seen
    below = _each(ends.mapped(pa.array([f"\n{end}" if end else "" for end in ends.texts.to_pylist()], pa.string())))
    return _join_pieces(marker, seen, pc.if_else(pc.greater(pc.binary_length(seen), 0), below, _each(ends)))


def _add_headings(states: pa.StringArray, view: View) -> pa.StringArray:
    """Put each state that messages show under its heading; null where they show none."""
    known = np.flatnonzero(states.is_valid().to_numpy(zero_copy_only=False))
    shown = _join_pieces(STATE, cap_texts(states.take(pa.array(known)), view), BELOW_STATE)
    positions = np.full(len(states), -1)
    positions[known] = np.arange(len(known))
    return shown.take(pa.array(positions, mask=positions < 0))


def _each(texts: Texts) -> pa.StringArray:
    """The text of each row."""
    return texts.texts.take(pa.array(texts.index))


def _join_pieces(*pieces: pa.StringArray | str) -> pa.StringArray:
    """Join the pieces of each row; null is nothing."""
    return pc.binary_join_element_wise(*pieces, "", null_handling="replace", null_replacement="")


class Turn(NamedTuple):
    """One turn.

    Attributes:
        step: the trajectory's step.
        user: the user message.
        answer: the text that the assistant message says below its marker, and where it comes from.
        loss: whether the loss stands on the assistant message.
        row: the transition that is shown.
    """

    step: int
    user: str
    answer: Answer
    loss: bool
    row: Mapping[str, Any]

    @property
    def observation(self) -> str:
        """The text below the marker."""
        return self.answer.text

    @property
    def assistant(self) -> str:
        """The assistant message."""
        return MARKER + self.answer.text


_OBSERVATION: Final = pa.struct([(name, pa.string()) for name in ("content", "envelope", "origin")])
_SHOWN: Final = pa.schema(
    [
        ("domain", pa.string()),
        ("turn", pa.int32()),
        ("action", pa.struct([("text", pa.string())])),
        ("observation", _OBSERVATION),
        ("next_observation", _OBSERVATION),
        ("interleaved", pa.string()),
        ("exit_code", pa.int32()),
        ("timed_out", pa.bool_()),
        ("time_limit_s", pa.float64()),
    ]
)


def turns(rows: Rows, view: View | None = None, opening: str = "") -> list[Turn]:
    """Build the turns of one trajectory whose rows are Python values.

    Args:
        rows: all rows of a trajectory (or of one segment or window) in order, each with its `use`, and with its `spans`
            where they were measured.
        view: how they are shown.
        opening: what else is known before the first turn, which the rows do not show; it opens the first user message.
    """
    chosen = view or View()
    batch = pa.RecordBatch.from_pylist(list(rows), schema=_SHOWN)
    use = np.array([row["use"] for row in rows], object)
    texts = [observed_texts(batch, side, chosen)[0] for side in ("observation", "next_observation")]
    ids = pa.concat_arrays(texts).dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64) + 1
    state = np.where(has_origin(batch, "observation", "environment"), ids[: len(rows)], 0)
    outline = Outline(
        np.zeros(min(len(rows), 1), np.int64),
        batch["turn"].to_numpy(),
        use,
        state.astype(np.uint64),
        ids[len(rows) :].astype(np.uint64),
    )
    shown_rows = np.flatnonzero(outline.visible)
    if not len(shown_rows):
        return []
    excerpt = Excerpts.of(outline, shown_rows, np.array([len(shown_rows)]))
    shown = batch.take(pa.array(shown_rows))
    states = texts[0].take(pa.array(shown_rows, mask=~excerpt.shows))
    firsts = np.flatnonzero(outline.first[shown_rows])
    words = spoken(interleaved_texts(batch, chosen), outline.turn, outline.turn[shown_rows[firsts]])
    words_of_row = {int(firsts[position]): text for position, text in words.items()}
    users = user_texts(shown, excerpt.numbers, states, chosen, None, words_of_row, {0: opening} if opening else None)
    answers = answer_texts(shown, chosen, marker="")
    bears = (use == "target") & bearable(batch, chosen)
    logged, seen = struct_text(shown, "next_observation", "content").to_pylist(), texts[1].take(pa.array(shown_rows))
    mine = [rows[row_number] for row_number in shown_rows.tolist()]
    answers_of_turns = map(_answer, mine, repeat(chosen), answers.to_pylist(), logged, seen.to_pylist())
    return [
        Turn(row["step"], user, answer, bears_loss, row)
        for row, user, answer, bears_loss in zip(
            mine, users.to_pylist(), answers_of_turns, bears[shown_rows].tolist(), strict=True
        )
    ]


def _answer(row: Mapping[str, Any], view: View, text: str, content: str | None, shown: str | None) -> Answer:
    key = f"{row.get('trajectory_id')}:{row['step']}"
    return Answer(text, view, key, bool(row.get("scrubbed")), row.get("spans"), content, shown)


def bearable(batch: pa.RecordBatch, view: View) -> Flags:
    """The rows on whose answers the loss may stand: not on words of the harness where these are shown."""
    bears: Flags = struct_text(batch, "next_observation", "content").is_valid().to_numpy(zero_copy_only=False)
    return bears & ~has_origin(batch, "next_observation", "harness") if view.harness == "keep" else bears


def trajectories(rows: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """The rows of each trajectory, or of each segment of a split one; rows come in the order of their file."""
    for _, group in groupby(rows, key=itemgetter("trajectory_id", "ordinal", "segment")):
        yield list(group)
