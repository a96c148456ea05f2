"""Token counts of the text pieces of each transition, measured once and summed for any mixture.

A sample is a prompt and turns. The text of a turn does not depend on which other turns are shown, with three
exceptions: its number; the state before its action, which is shown only if it differs from the end of the turn before;
and the words of others, which the first call of a turn shows. The tokens of every sample are therefore sums over its
rows, and no text is counted again when a corpus is mixed anew. Such a sum differs from the count of the whole text by
the tokenizer's behavior at the borders of pieces: a token or two per message, and one per tool where a prompt does not
describe all tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.render.fixed_texts import BELOW_STATE, MARKER, STATE, heading
from trajmill.pipelines.render.pieces import (
    Numbers,
    View,
    cap_texts,
    endings,
    find_escapable,
    has_origin,
    interleaved_texts,
    observed_texts,
    plain_texts,
    shown_actions,
    time_limits,
)
from trajmill.pipelines.render.prompts import CONTEXT, SCREEN_PATTERN
from trajmill.pipelines.render.tool_list import format_name, tool_list, tool_texts
from trajmill.pipelines.render.turns import bearable
from trajmill.quality.control_strings import PATTERN
from trajmill.quality.fingerprint import as_bytes, struct_text, text_hashes
from trajmill.quality.scrubbing.replaced import placeholder_spans
from trajmill.quality.texts import Texts
from trajmill.quality.tokens import Counts, TokenCounter
from trajmill.schemas.verdict import KEY_FIELDS

VERSION: Final = "6"
"""Version of the measured values. A change has all units measured again."""

USER, SAID, STATE_BIT, ANSWER, IN_CONTEXT, ESCAPABLE = (1 << number for number in range(6))
"""Bits of `control`.

The first five mark strings that chat tokenizers take for control tokens (`quality.control_strings`): in the action, in
the words of others before it, in the state before it, in the answer, or in the context of its prompt. The last marks
text in action, state or answer that escaping changes.
"""

_I: Final = pa.int32()
COSTS_SCHEMA: Final = pa.schema(
    [
        *KEY_FIELDS,
        pa.field("segment", _I, nullable=False),
        pa.field("num_segments", _I, nullable=False),
        pa.field("turn", _I, nullable=False),
        pa.field("user_tokens", _I, nullable=False, metadata={"doc": "of the user text as of turn 1, without a state"}),
        pa.field("said_tokens", _I, nullable=False, metadata={"doc": "of what others said before the action"}),
        pa.field("state_tokens", _I, nullable=False, metadata={"doc": "of the state with its heading; 0: not known"}),
        pa.field("answer_tokens", _I, nullable=False, metadata={"doc": "of the assistant text"}),
        pa.field("placeholder_tokens", _I, nullable=False, metadata={"doc": "of it, those that never bear the loss"}),
        pa.field("can_bear", pa.bool_(), nullable=False, metadata={"doc": "whether the loss may stand on the answer"}),
        pa.field("state_hash", pa.uint64(), nullable=False, metadata={"doc": "of the state; 0: not known"}),
        pa.field("next_hash", pa.uint64(), nullable=False, metadata={"doc": "of the next observation; 0: no text"}),
        pa.field("form", pa.string(), metadata={"doc": "of the next observation"}),
        pa.field("dialect", pa.string(), metadata={"doc": "of the next observation"}),
        pa.field("has_ending", pa.bool_(), nullable=False, metadata={"doc": "whether the answer tells how it ended"}),
        pa.field("control", pa.uint8(), nullable=False, metadata={"doc": "where control strings are: bits"}),
        pa.field(
            "has_envelope", pa.bool_(), nullable=False, metadata={"doc": "whether the answer is an object of MCP"}
        ),
        pa.field("screen", pa.string(), metadata={"doc": "size of the screen before", "null": "none is told"}),
        *(
            pa.field(f"{name}_tokens", _I, nullable=False, metadata={"doc": "of a text of the context"})
            for name in CONTEXT
        ),
        pa.field(
            "tool_tokens",
            pa.list_(_I),
            metadata={"doc": "of each tool of the context", "null": "fewer than two, or told by a row before"},
        ),
        pa.field(
            "tool_name_tokens",
            pa.list_(_I),
            metadata={"doc": "of the name of each", "null": "as of tool_tokens"},
        ),
        pa.field(
            "named_tools",
            pa.list_(_I),
            metadata={"doc": "numbers of the tools that action or answer name", "null": "fewer than two tools"},
        ),
    ],
    metadata={b"trajmill.costs_schema": VERSION.encode()},
)
"""Schema of one row per transition, aligned to the transitions."""

COUNTED: Final = tuple(name for name in COSTS_SCHEMA.names if name != "row_id")
"""Columns from which the tokens of samples are computed."""

COST_HASHES: Final = ("state_hash", "next_hash")
"""Columns that identify equal texts without reading them."""


class Costing:
    """Token counts of each row of a file, as batches of `COSTS_SCHEMA` aligned to it.

    Args:
        view: how samples show trajectories.
        counter: counter of the recipe's tokenizer.
    """

    def __init__(self, view: View, counter: TokenCounter) -> None:
        self._view, self._counter = view, counter
        self._control = np.zeros(0, np.uint8)

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the token counts of `batch`, which has the schema `encoded_schema()`."""
        if batch.num_rows:
            self._control = np.zeros(batch.num_rows, np.uint8)
            columns = {
                **{name: batch[name] for name in ("segment", "num_segments", "turn", "row_id", "step")},
                "trajectory_id": batch["trajectory_id"].cast(pa.string()),
                "user_tokens": self._users(batch),
                "said_tokens": self._shown(interleaved_texts(batch, self._view), SAID),
                **self._observed(batch),
                **{f"{name}_tokens": self._context(batch, name) for name in CONTEXT},
                **self._tools(batch),
            }
            columns["control"] = self._control
            arrays = [_column(columns[field.name], field.type) for field in COSTS_SCHEMA]
            yield pa.RecordBatch.from_arrays(arrays, schema=COSTS_SCHEMA)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Return nothing, since no count depends on later rows."""
        return iter(())

    def _shown(self, texts: Texts, bit: int) -> Counts:
        """Count the tokens of each row's piece as shown. Rows whose piece holds a control string get the bit."""
        self._mark(texts.texts, {bit: texts.index})
        return texts.spread(self._counter.count(plain_texts(texts.texts, self._view)))

    def _mark(self, texts: pa.StringArray | pa.ChunkedArray, rows: Mapping[int, Numbers]) -> None:
        """Mark the rows whose piece holds a control string or text that escaping changes.

        Args:
            texts: pieces before they are escaped.
            rows: by the bit to set, the number of each row's text, -1 for none.
        """
        changed = np.append(find_escapable(texts).to_numpy(zero_copy_only=False), False)
        if not changed.any():
            return
        has_control = np.zeros(len(changed), np.bool_)
        some = np.flatnonzero(changed)
        has_control[some] = pc.match_substring_regex(texts.take(pa.array(some)), PATTERN).to_numpy(zero_copy_only=False)
        for bit, index in rows.items():
            own = ESCAPABLE if bit not in (SAID, IN_CONTEXT) else 0
            self._control |= np.where(has_control[index], bit, 0).astype(np.uint8)
            self._control |= np.where(changed[index], own, 0).astype(np.uint8)

    def _users(self, batch: pa.RecordBatch) -> Counts:
        """Count the tokens of heading, time limit and action."""
        limits = time_limits(batch)
        shown = self._shown(shown_actions(batch, self._view), USER)
        return self._counter.of(heading(1)) + shown + limits.spread(self._counter.count(limits.texts))

    def _context(self, batch: pa.RecordBatch, name: str) -> Counts:
        texts = Texts.of(struct_text(batch, "context", name))
        if name == "action_space":
            texts = texts.mapped(pa.array([tool_list(text) for text in texts.texts.to_pylist()], pa.string()))
        return self._shown(texts, IN_CONTEXT)

    def _tools(self, batch: pa.RecordBatch) -> dict[str, Any]:
        """Return columns of the declared tools, for contexts that declare several."""
        spaces = Texts.of(struct_text(batch, "context", "action_space"))
        declared = [tool_texts(text) for text in spaces.texts.to_pylist()]
        several = np.append([len(tools) > 1 for tools in declared], False).astype(np.bool_)
        step, segment = (batch[name].to_numpy() for name in ("step", "segment"))
        begins = step == 0
        begins[:1] = True
        begins[1:] |= segment[1:] != segment[:-1]
        index = spaces.index
        rows = np.flatnonzero(several[index])
        named_of_row: list[list[int] | None] = [None] * batch.num_rows
        some = batch.take(pa.array(rows))
        calls, actions, answers = (
            struct_text(some, side, leaf).to_pylist()
            for side, leaf in (("action", "name"), ("action", "text"), ("next_observation", "content"))
        )
        for row, call, action, answer in zip(rows.tolist(), calls, actions, answers, strict=True):
            named_of_row[row] = [
                number
                for number, (name, _) in enumerate(declared[index[row]])
                if name in (action or "") or name in (answer or "") or (call and call in name)
            ]
        columns = {"named_tools": pa.array(named_of_row, pa.list_(_I))}
        spaces_of_rows = np.where(begins & several[index], index, -1).tolist()
        for column, texts in (
            ("tool_tokens", [[text for _, text in tools] for tools in declared]),
            ("tool_name_tokens", [[format_name(name) for name, _ in tools] for tools in declared]),
        ):
            sizes = [self._sizes(some) for some in texts]
            columns[column] = pa.array([None if space < 0 else sizes[space] for space in spaces_of_rows], pa.list_(_I))
        return columns

    def _sizes(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text."""
        sizes: list[int] = self._counter.count(plain_texts(pa.array(texts, pa.string()), self._view)).tolist()
        return sizes

    def _observed(self, batch: pa.RecordBatch) -> dict[str, Any]:
        """Return columns of the texts before and after the action. Each distinct text is counted once."""
        (state_text, _), (answer_text, enveloped) = (
            observed_texts(batch, side, self._view) for side in ("observation", "next_observation")
        )
        before, after = Texts.of(state_text), Texts.of(answer_text)
        from_environment = has_origin(batch, "observation", "environment")
        texts, state = _add_texts(after, Texts(before.texts, np.where(from_environment, before.index, -1)))
        answer = after.index
        seen = [cap_texts(some, self._view) for some in texts]
        self._mark(pa.chunked_array(seen), {STATE_BIT: state, ANSWER: answer})
        shown = [plain_texts(some, self._view) for some in seen]
        counts = np.concatenate([*map(self._counter.count, shown), [0]])
        hashes = np.concatenate([*(text_hashes(some)[:, 0] | np.uint64(1) for some in texts), np.zeros(1, np.uint64)])
        ends = endings(batch)
        lines = pa.array([f"\n{text}" if text else "" for text in ends.texts.to_pylist()], pa.string())
        scrubbed = pc.fill_null(batch["scrubbed"], 0).to_numpy(zero_copy_only=False) > 0
        around = self._counter.of(STATE) + self._counter.of(BELOW_STATE)
        ended = ends.spread(self._counter.count(lines))
        return {
            "state_tokens": np.where(state >= 0, counts[state] + around, 0),
            "answer_tokens": np.where(answer >= 0, self._counter.of(MARKER) + counts[answer] + ended, 0),
            "placeholder_tokens": self._placeholders(pa.chunked_array(shown), counts, np.where(scrubbed, answer, -1)),
            "can_bear": bearable(batch, self._view),
            "state_hash": hashes[state],
            "next_hash": hashes[answer],
            **{name: struct_text(batch, "next_observation", name) for name in ("form", "dialect")},
            "has_ending": ends.spread(pc.not_equal(ends.texts, "").to_numpy(zero_copy_only=False)),
            "has_envelope": enveloped,
            "screen": _screens(batch, pa.chunked_array(texts), state),
        }

    def _placeholders(self, texts: pa.ChunkedArray, counts: Counts, answer: Numbers) -> Counts:
        """Count the tokens of the placeholders in each answer's text, at most those of the text."""
        numbers = np.unique(answer[answer >= 0])
        scrubbed = texts.take(pa.array(numbers)).to_pylist()
        placeholders = [[text[begin:end] for begin, end in placeholder_spans(text)] for text in scrubbed]
        owners = np.repeat(numbers, [len(some) for some in placeholders])
        sizes = self._counter.count(pa.array([text for some in placeholders for text in some], pa.string()))
        tokens = np.bincount(owners, sizes, len(texts) + 1).astype(np.int64)
        tokens[:-1] = np.minimum(tokens[:-1], counts[: len(texts)])
        return tokens[answer]


def _add_texts(texts: Texts, more: Texts) -> tuple[list[pa.StringArray], Numbers]:
    """Return the texts and those of `more` that are used and not among them, and the number of each row's text of
    `more`.
    """
    number = pc.index_in(*(as_bytes(text_hashes(side.texts)) for side in (more, texts)))
    used = np.bincount(more.index[more.index >= 0], minlength=len(more.texts)) > 0
    added = np.flatnonzero(number.is_null().to_numpy(zero_copy_only=False) & used)
    numbers = np.append(number.fill_null(-1).to_numpy(zero_copy_only=False), -1).astype(np.int64)
    numbers[added] = len(texts.texts) + np.arange(len(added))
    return [texts.texts, more.texts.take(pa.array(added))], numbers[more.index]


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values).cast(kind)


def _screens(batch: pa.RecordBatch, texts: pa.ChunkedArray, state: Numbers) -> pa.Array:
    """Return the size of the screen before each action that led to a screen."""
    form = pc.fill_null(pc.equal(struct_text(batch, "next_observation", "form").cast(pa.string()), "screen"), False)
    chosen = np.where(form.to_numpy(zero_copy_only=False), state, -1)
    used = np.unique(chosen[chosen >= 0])
    met = pc.extract_regex(texts.take(pa.array(used)).combine_chunks(), rf"^[^\n]*?{SCREEN_PATTERN}")
    sizes = pc.binary_join_element_wise(pc.struct_field(met, "width"), pc.struct_field(met, "height"), " x ")
    positions = np.full(len(texts) + 1, -1)
    positions[used] = np.arange(len(used))
    index = positions[chosen]
    return sizes.take(pa.array(index, mask=index < 0))
