"""Turns of judged trajectories in the world-model view, as the messages that models are trained on.

A system prompt of the known facts comes first, then turns. In each, the user message is an action and the assistant
message is the observation. Parallel calls are successive turns, in the order of the calls. The state before an action
is shown if it differs from the end of the previous turn, and once for parallel calls. The agent's reasoning, words and
goals are not shown, since an environment does not know them. Words of the harness and the user between turns are shown
if the recipe keeps them.
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
    """Rows of trajectories as turns, before any text is written.

    Args:
        begins: first row of each trajectory, or of each segment of a split one.
        use: use of each row, one of `schemas.verdict.USES`.
        state: for each row, a number that identifies the text of the state before its action; 0 if unknown.
        led: for each row, such a number for the text of its next observation.

    Attributes:
        turn: number of each row's turn among all turns.
        visible: whether the row is shown.
        first: whether it is the first shown row of its turn.
        known: whether the state before its action is known.
        shows: whether that state is shown, if all visible rows of the trajectory are shown.
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
        numbers: position of each turn in its excerpt, from 0.
        shows: whether a turn shows the state before its action. The first turn of an excerpt shows it even if the
            previous turn led to it.
    """

    rows: Numbers
    counts: Numbers
    numbers: Numbers
    shows: Flags

    @classmethod
    def of(cls, outline: Outline, rows: Numbers, counts: Numbers) -> Self:
        """Build the excerpts of some shown rows. Each excerpt begins with the first row of a turn."""
        begins = np.cumsum(counts) - counts
        shows = outline.shows[rows]
        shows[begins] = outline.known[rows[begins]]
        return cls(rows, counts, np.arange(len(rows)) - np.repeat(begins, counts), shows)

    @property
    def begins(self) -> Numbers:
        """The position of each excerpt's first turn."""
        begins: Numbers = np.cumsum(self.counts) - self.counts
        return begins

    def sums(self, values: npt.NDArray[Any]) -> Numbers:
        """Sum a number of each turn over each excerpt. Every excerpt must have at least one turn."""
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
        batch: rows of the turns, with `USER_LEAVES`.
        numbers: positions of the turns in their samples, from 0.
        states: text before each action, where the message shows it; else null.
        view: how they are shown.
        escapable: flags of rows whose text escaping could change; None if unknown.
        words: by row position, the words of others before its action.
        openings: by row position, further known facts, which open the message.
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
    """Return the assistant message of each turn: the next observation, and below it how a command ended.

    Args:
        batch: rows of the turns, with `ANSWER_LEAVES`.
        view: as in `user_texts`.
        escapable: as in `user_texts`.
        marker: marker at the beginning of the message; empty for only the answer.
    """
    content, _ = observed_texts(batch, "next_observation", view)
    seen = plain_texts(cap_texts(pc.fill_null(content.cast(pa.string()), ""), view), view, escapable)
    ends = endings(batch)
    if not any(ends.texts.to_pylist()):
        return _join_pieces(marker, seen) if marker else seen
    below = _each(ends.mapped(pa.array([f"\n{end}" if end else "" for end in ends.texts.to_pylist()], pa.string())))
    return _join_pieces(marker, seen, pc.if_else(pc.greater(pc.binary_length(seen), 0), below, _each(ends)))


def _add_headings(states: pa.StringArray, view: View) -> pa.StringArray:
    """Put each shown state under its heading; null where messages show none."""
    known = np.flatnonzero(states.is_valid().to_numpy(zero_copy_only=False))
    shown = _join_pieces(STATE, cap_texts(states.take(pa.array(known)), view), BELOW_STATE)
    positions = np.full(len(states), -1)
    positions[known] = np.arange(len(known))
    return shown.take(pa.array(positions, mask=positions < 0))


def _each(texts: Texts) -> pa.StringArray:
    return texts.texts.take(pa.array(texts.index))


def _join_pieces(*pieces: pa.StringArray | str) -> pa.StringArray:
    """Join the pieces of each row; null counts as empty."""
    return pc.binary_join_element_wise(*pieces, "", null_handling="replace", null_replacement="")


class Turn(NamedTuple):
    """One turn.

    Attributes:
        answer: the text of the assistant message below its marker, and its source.
        loss: whether the assistant message bears the loss.
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
            if they were measured.
        view: how they are shown.
        opening: further facts known before the first turn, which the rows do not show; they open the first user
            message.
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
    """Flag the rows whose answers may bear the loss: those with a text, except shown words of the harness."""
    bears: Flags = struct_text(batch, "next_observation", "content").is_valid().to_numpy(zero_copy_only=False)
    return bears & ~has_origin(batch, "next_observation", "harness") if view.harness == "keep" else bears


def trajectories(rows: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the rows of each trajectory, or of each segment of a split one. The rows are in file order."""
    for _, group in groupby(rows, key=itemgetter("trajectory_id", "ordinal", "segment")):
        yield list(group)
