"""Texts of a record batch for the scrubber: each string array once, with the rows that use each text.

Patches keep lengths, so a changed array is the old array with some bytes of the values buffer overwritten; offsets and
validity are shared. Only a dictionary text that two trajectories patch differently needs a new entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trajmill.quality.scrubbing.session import Patch
from trajmill.quality.sets import distinct

CORPUS_WIDE: Final = frozenset({"environment.id", "environment.instance_id"})
"""Columns that group trajectories; their placeholders must be equal across trajectories."""

_OF_ATTACHMENTS: Final = ("media_type", "role", "name")

SCRUBBED: Final = frozenset(
    {
        *CORPUS_WIDE,
        "environment.version",
        "environment.world_model",
        "environment.sampling",
        "agent.name",
        "agent.version",
        "agent.model",
        "task.instruction",
        "context.action_space",
        "context.initial_state",
        "context.demonstrations",
        "context.simulation_instruction",
        "context.agent_system",
        *(
            f"{side}.{name}"
            for side in ("observation", "next_observation")
            for name in (
                "content",
                "envelope",
                "media_type",
                "dialect",
                "uri",
                *(f"attachments.{one}" for one in _OF_ATTACHMENTS),
            )
        ),
        "action.name",
        "action.text",
        "action.arguments",
        "action.message",
        "action.reasoning",
        "interleaved",
        "outcome.verifier",
    }
)
"""Columns with contents of a log; enumerations and digests are not scrubbed."""

NAMES: Final = frozenset({"native_id", "task.id", "action.call_id", "provenance.uri", "provenance.member"})
"""Columns of names; two different names must stay different, so replacements do not keep lengths."""

OWN: Final = frozenset(
    {
        "observation.content",
        "observation.envelope",
        "next_observation.content",
        "next_observation.envelope",
        "action.name",
        "action.text",
        "action.arguments",
        "action.message",
        "action.reasoning",
        "interleaved",
    }
)
"""Columns whose replacements are counted by row, since they belong to the row itself.

Other columns describe the whole trajectory, or repeat its state.
"""

Ints = np.ndarray[Any, np.dtype[np.int64]]


class Texts:
    """String array of a batch, and the rows that use its texts.

    Attributes:
        array: Strings of a dictionary, a plain column or the names in a column of attachments.
        data: Bytes of all texts, one after the other.
        offsets: Beginning of each text in `data`, and the end of the last one.
        corpus_wide: True if the placeholders must not depend on the trajectory.
    """

    def __init__(self, array: pa.StringArray, *, corpus_wide: bool) -> None:
        self.array = array
        self.corpus_wide = corpus_wide
        _, offsets, data = array.buffers()
        self.data = data if data is not None else pa.py_buffer(b"")
        starts = np.frombuffer(offsets, np.int32) if offsets is not None else np.zeros(array.offset + 1, np.int32)
        self.offsets: list[int] = starts[array.offset : array.offset + len(array) + 1].tolist()
        self._rows: list[Ints] = []
        self._texts: list[Ints] = []
        self._counted: list[bool] = []
        self._used: tuple[Ints, list[int]] | None = None

    @cached_property
    def whole(self) -> bytes:
        """`data` as Python bytes."""
        return bytes(memoryview(self.data))

    def add_uses(self, rows: Ints, texts: Ints, counted: bool) -> None:
        """Record that row `rows[i]` uses text `texts[i]`, with rows in ascending order, and whether `count` counts the
        uses.
        """
        self._rows.append(rows)
        self._texts.append(texts)
        self._counted.append(counted)

    def text(self, number: int) -> bytes:
        """Return the bytes of one text."""
        return self.whole[self.offsets[number] : self.offsets[number + 1]]

    def used(self, trajectory: int, trajectory_of: Ints) -> Ints:
        """Return the texts that a trajectory uses, each once, ascending.

        `trajectory_of` holds the trajectory of every row.
        """
        if self._used is None:
            number, texts = self.pairs(range(len(self.array)), trajectory_of).T
            starts = np.searchsorted(number, np.arange(int(trajectory_of[-1]) + 2))
            self._used = texts, starts.tolist()
        texts, begins = self._used
        return texts[begins[trajectory] : begins[trajectory + 1]]

    def _rows_between(self, first: int, last: int) -> Iterator[tuple[Ints, Ints]]:
        for rows, texts in compress(zip(self._rows, self._texts, strict=True), self._counted):
            low, high = np.searchsorted(rows, (first, last))
            yield rows[low:high], texts[low:high]

    def unused(self, numbers: Sequence[int]) -> list[int]:
        """Return those of the texts that no row uses."""
        used = {number for texts in self._texts for number in texts[np.isin(texts, numbers)].tolist()}
        return [number for number in numbers if number not in used]

    def pairs(self, numbers: Sequence[int], trajectory_of: Ints) -> Ints:
        """Return each pair (trajectory, text) of the uses of these texts once, in order; shape (pairs, 2)."""
        count = len(self.array)
        chosen = np.zeros(count, np.bool_)
        chosen[np.asarray(numbers, np.int64)] = True
        pair_numbers = []
        for rows, texts in zip(self._rows, self._texts, strict=True):
            among = chosen[texts]
            pair_numbers.append(trajectory_of[rows[among]] * count + texts[among])
        return np.stack(np.divmod(distinct(np.concatenate(pair_numbers)), max(count, 1)), axis=1)

    def count(self, first: int, last: int, patches: Mapping[int, Sequence[Patch]], counts: Ints) -> None:
        """Add the number of patches in the counted texts of each row from `first` to `last` to `counts`."""
        numbers = np.array(sorted(patches), np.int64)
        sizes = np.array([len(patches[number]) for number in numbers.tolist()], np.int64)
        for rows, texts in self._rows_between(first, last):
            positions = np.searchsorted(numbers, texts).clip(max=len(numbers) - 1)
            hit = numbers[positions] == texts
            np.add.at(counts, rows[hit], sizes[positions[hit]])


class Rewriter:
    """Collector of the patches of one `Texts`, by trajectory, and builder of the patched array.

    Args:
        texts: Texts to patch.
    """

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._variants: dict[int, dict[tuple[Patch, ...], list[int]]] = {}

    def add(self, trajectory: int, patches: Mapping[int, Sequence[Patch]]) -> None:
        """Add the patches of a trajectory by text; each text has at least one."""
        for number, changes in patches.items():
            self._variants.setdefault(number, {}).setdefault(tuple(changes), []).append(trajectory)

    def __bool__(self) -> bool:
        return bool(self._variants)

    def result(self, trajectory_of: Ints) -> tuple[pa.StringArray, dict[int, dict[int, int]]]:
        """Return the new array, and trajectory → old text → new text for the texts that were split.

        A text is overwritten if all trajectories that use it patch it. Each further variant becomes a new text at the
        end.
        """
        pairs = self._texts.pairs(list(self._variants), trajectory_of)
        users = Counter(pairs[:, 1].tolist())
        data = bytearray(memoryview(self._texts.data))
        added: list[str] = []
        moves: dict[int, dict[int, int]] = {}
        for number, variants in self._variants.items():
            wanted = list(variants.items())
            if sum(len(who) for _, who in wanted) >= users[number]:
                _apply(data, self._texts.offsets[number], wanted.pop(0)[0])
            for patches, who in wanted:
                text = bytearray(self._texts.text(number))
                _apply(text, 0, patches)
                for trajectory in who:
                    moves.setdefault(trajectory, {})[number] = len(self._texts.array) + len(added)
                added.append(text.decode())
        return self._array(data, added), moves

    def _array(self, data: bytearray, added: list[str]) -> pa.StringArray:
        old = self._texts.array
        validity, offsets, _ = old.buffers()
        new = pa.StringArray.from_buffers(len(old), offsets, pa.py_buffer(data), validity, old.null_count, old.offset)
        return pa.concat_arrays([new, pa.array(added, pa.string())]) if added else new


def _apply(data: bytearray, begin: int, patches: Sequence[Patch]) -> None:
    for start, end, fresh in patches:
        data[begin + start : begin + end] = fresh


class Columns:
    """Scrubbed columns of a batch as `Texts`, with shared dictionaries once, and the means to rebuild the batch.

    Attributes:
        texts: Each string array once.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._by_buffer: dict[tuple[int, ...], int] = {}
        self._of_path: dict[str, int] = {}
        self.texts: list[Texts] = []
        for field, column in zip(batch.schema, batch.columns, strict=True):
            self._collect(column, field.name)

    def _collect(self, column: pa.Array, path: str) -> None:
        if pa.types.is_struct(column.type):
            for field_number, field in enumerate(column.type.fields):
                self._collect(column.field(field_number), f"{path}.{field.name}")
        elif pa.types.is_list(column.type):
            offsets = column.offsets.to_numpy().astype(np.int64)
            rows = np.repeat(np.arange(len(column), dtype=np.int64), np.diff(offsets))
            for name in _OF_ATTACHMENTS:
                self._add(f"{path}.{name}", column.values.field(name), rows, np.arange(offsets[0], offsets[-1]))
        elif path in SCRUBBED:
            rows = np.arange(len(column), dtype=np.int64)
            if pa.types.is_dictionary(column.type):
                numbers = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
                self._add(path, column.dictionary, rows[numbers >= 0], numbers[numbers >= 0])
            else:
                self._add(path, column, rows, rows)

    def _add(self, path: str, array: pa.StringArray, rows: Ints, numbers: Ints) -> None:
        if not len(array) or array.buffers()[2] is None or not array.buffers()[2].size:
            return
        buffer_key = (*(buffer.address for buffer in array.buffers() if buffer), array.offset, len(array))
        known = self._by_buffer.get(buffer_key)
        if known is None:
            known = self._by_buffer[buffer_key] = len(self.texts)
            self.texts.append(Texts(array, corpus_wide=path in CORPUS_WIDE))
        self._of_path[path] = known
        self.texts[known].add_uses(rows, numbers, path in OWN)

    def rebuilt(self, rewriters: Sequence[Rewriter], trajectory_of: Ints) -> pa.RecordBatch:
        """Replace each of `texts` in the batch by the result of its rewriter; untouched columns are the same arrays."""
        results = {
            text_number: rewriter.result(trajectory_of) for text_number, rewriter in enumerate(rewriters) if rewriter
        }

        def replaced(column: pa.Array, path: str) -> pa.Array:
            if pa.types.is_list(column.type):
                numbers = {name: self._of_path.get(f"{path}.{name}") for name in _OF_ATTACHMENTS}
                fresh = {name: results[number][0] for name, number in numbers.items() if number in results}
                return _with_fresh(column, fresh) if fresh else column
            if self._of_path.get(path) not in results:
                return column
            array, moves = results[self._of_path[path]]
            if pa.types.is_dictionary(column.type):
                return pa.DictionaryArray.from_arrays(_renumber(column.indices, moves, trajectory_of), array)
            return array

        return with_columns(self._batch, replaced)


def with_columns(batch: pa.RecordBatch, replaced: Callable[[pa.Array, str], pa.Array]) -> pa.RecordBatch:
    """Replace each column of the batch, or each field of a struct, by the result of `replaced` for (column, path).

    If no column changes, the batch itself is returned.
    """
    columns = batch.columns
    arrays = [_with_fields(column, field.name, replaced) for field, column in zip(batch.schema, columns, strict=True)]
    if all(new_array is old_array for new_array, old_array in zip(arrays, columns, strict=True)):
        return batch
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _with_fields(column: pa.Array, path: str, replaced: Callable[[pa.Array, str], pa.Array]) -> pa.Array:
    if not pa.types.is_struct(column.type):
        return replaced(column, path)
    old = [column.field(field_number) for field_number in range(column.type.num_fields)]
    names = [f"{path}.{field.name}" for field in column.type.fields]
    new = [_with_fields(child, name, replaced) for child, name in zip(old, names, strict=True)]
    if all(old_child is new_child for old_child, new_child in zip(old, new, strict=True)):
        return column
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(new, fields=list(column.type.fields), mask=mask)


def _renumber(indices: pa.Int32Array, moves: Mapping[int, Mapping[int, int]], trajectory_of: Ints) -> pa.Int32Array:
    if not moves:
        return indices
    numbers = indices.fill_null(-1).to_numpy(zero_copy_only=False).copy()
    for trajectory, renamed in moves.items():
        first, last = np.searchsorted(trajectory_of, (trajectory, trajectory + 1))
        part = numbers[first:last]
        numbers[first:last] = [renamed.get(number, number) for number in part.tolist()]
    return pa.array(numbers, pa.int32(), mask=numbers < 0)


def _with_fresh(column: pa.ListArray, fresh: Mapping[str, pa.StringArray]) -> pa.ListArray:
    """Replace these fields of the items of lists."""
    values = column.values
    fields = list(values.type.fields)
    children = [fresh.get(field.name, values.field(field_number)) for field_number, field in enumerate(fields)]
    mask = values.is_null() if values.null_count else None
    items = pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    buffers = column.buffers()[:2]
    return pa.Array.from_buffers(column.type, len(column), buffers, column.null_count, column.offset, children=[items])
