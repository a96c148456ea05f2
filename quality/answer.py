"""Shingles of a row of transitions: of its action, and of the new content that the action led to.

`quality.sketch` chooses the shingles that are kept and compares trajectories.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.fingerprint import mixed, struct_text
from trajmill.quality.lines import Lines, Numbers
from trajmill.quality.sets import distinct, expand_lists, holds, join_keys, split
from trajmill.quality.shingle import Hashes, Offsets, shingles
from trajmill.quality.texts import Texts
from trajmill.quality.without_element_ids import TREE

SCREENS: Final = ("screen", "state")
"""Forms of observation that repeat the whole content, whatever changed."""

AGAIN: Final = 0.5
"""Largest share of new shingles at which a JSON answer still counts as a repetition of the previous one."""

JSON: Final = r"\A(?:HTTP [^\n]*\n(?:[^\n]+\n)*\n)?[ \t\r\n]*[\[{]"
"""Pattern of the beginning of JSON text, or of a server's response with JSON (RE2 syntax)."""

CHANGE: Final = np.uint32(1)
"""Bit that marks a shingle of a whole change, as opposed to a shingle of words or lines."""


@dataclass(frozen=True, slots=True)
class Column:
    """Shingles of pieces of text, and the pieces of each row.

    Attributes:
        hashes, offsets: Shingles of the pieces, as `shingles` returns them.
        row, piece: Every use of a piece by a row; rows ascending.
    """

    hashes: Hashes
    offsets: Offsets
    row: Offsets
    piece: Offsets


def _shingles(texts: pa.StringArray, parted: bool) -> tuple[Hashes, Offsets]:
    hashes, offsets = shingles(texts, parted=parted)
    hashes &= ~CHANGE
    return hashes, offsets


def whole(column: pa.Array, parted: bool) -> Column:
    """Shingle each row's text as one piece."""
    texts = Texts.of(column)
    return _pieces(texts, np.flatnonzero(texts.index >= 0), parted)[0]


def _pieces(texts: Texts, rows: Offsets, parted: bool) -> tuple[Column, pa.StringArray]:
    """Shingle the text of each of the rows, which have one, as one piece; return the pieces as well."""
    used, piece = np.unique(texts.index[rows], return_inverse=True)
    pieces = texts.texts if len(used) == len(texts.texts) else texts.texts.take(pa.array(used))
    return Column(*_shingles(pieces, parted), rows, piece), pieces


def answer_columns(batch: pa.RecordBatch, parted: bool) -> list[Column]:
    """Shingle each row's answer: the new lines of a screen, the change of repeated JSON, otherwise the whole text."""
    form, dialect = (struct_text(batch, "next_observation", name).cast(pa.string()) for name in ("form", "dialect"))
    shown = pc.or_kleene(pc.is_in(form, pa.array(SCREENS)), pc.ends_with(dialect, TREE))
    screen = pc.fill_null(shown, False).to_numpy(zero_copy_only=False)
    texts, before = (Texts.of(struct_text(batch, side, "content")) for side in ("next_observation", "observation"))
    answer, pieces = _pieces(texts, np.flatnonzero(~screen & (texts.index >= 0)), parted)
    json = pc.match_substring_regex(pieces, JSON).to_numpy(zero_copy_only=False)[answer.piece]
    json &= before.index[answer.row] >= 0
    columns = [answer]
    if json.any():
        columns = _shingle_changes(before, answer, np.flatnonzero(json), parted)
    if screen.any():
        columns.append(_new_lines(batch, np.flatnonzero(screen)))
    return columns


def _shingle_changes(observations: Texts, after: Column, chosen: Offsets, parted: bool) -> list[Column]:
    """Replace the shingles of the chosen rows that mostly repeat the observation before them by one shingle of the
    change.

    A change is one shingle, whatever its size: an interface that sends a whole list after each action says as much with
    one new item as with many. The shingle hashes the new shingles, or the vanished ones if nothing is new.
    """
    rows = after.row[chosen]
    shown_before, _ = _pieces(observations, rows, parted)
    before = expand_lists(shown_before.hashes, shown_before.offsets, shown_before.piece)
    shingles_before, shown = (
        distinct(join_keys(*column_parts))
        for column_parts in (before, expand_lists(after.hashes, after.offsets, after.piece[chosen]))
    )
    new, gone = shown[~holds(shingles_before, shown)], shingles_before[~holds(shown, shingles_before)]
    total, changed, lost = (np.bincount(split(some)[0], minlength=len(rows)) for some in (shown, new, gone))
    again = (changed <= AGAIN * total) & (total > 0)
    sums = _hash_sets(new, len(rows))
    sums = np.where(changed > 0, sums, ~_hash_sets(gone, len(rows)))
    of_change = (mixed(sums) >> np.uint64(32)).astype(np.uint32) | CHANGE
    kept_flags = np.ones(len(after.row), np.bool_)
    kept_flags[chosen[again]] = False
    some = np.flatnonzero(again & (changed + lost > 0))
    changes = Column(of_change[some], np.arange(len(some) + 1), rows[some], np.arange(len(some)))
    return [Column(after.hashes, after.offsets, after.row[kept_flags], after.piece[kept_flags]), changes]


def _hash_sets(pairs: Numbers, count: int) -> Numbers:
    """Return a hash of each set of shingles."""
    set_number, hashes = split(pairs)
    sums = np.zeros(count, np.uint64)
    np.add.at(sums, set_number, mixed(hashes.astype(np.uint64)))
    return sums


def _new_lines(batch: pa.RecordBatch, rows: Offsets) -> Column:
    """Return the lines that the screens of the given rows show and the screens before did not; a line is one
    shingle.
    """
    after, before = (_lines(batch, side, rows) for side in ("next_observation", "observation"))
    hashes, row = after
    new = ~holds(distinct(_of_row(*before)), _of_row(hashes, row))
    lines, number = np.unique(hashes[new], return_inverse=True)
    of_line = (lines >> np.uint64(32)).astype(np.uint32) & ~CHANGE
    return Column(of_line, np.arange(len(lines) + 1), row[new], number)


def _lines(batch: pa.RecordBatch, side: str, rows: Offsets) -> tuple[Numbers, Offsets]:
    """Return (hash of a line, its row) of every line of the rows' observations on that side."""
    texts = Texts.of(struct_text(batch, side, "content"))
    used, number = np.unique(texts.index[rows], return_inverse=True)
    cut = Lines.of(texts.texts.take(pa.array(used, mask=used < 0)))
    use, line = expand_lists(np.arange(len(cut.starts) - 1), cut.first, number)
    return cut.hashes()[line], rows[use]


def _of_row(hashes: Numbers, row: Offsets) -> Numbers:
    return mixed(hashes + row.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
