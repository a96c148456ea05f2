"""What a row of transitions holds as shingles: its action, and what that led to and had not been there before.

Which of a trajectory's shingles are kept, and how two are compared, is `quality.sketch`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.fingerprint import mixed, struct_text
from trajmill.quality.lines import Lines, Numbers
from trajmill.quality.sets import distinct, expanded, holds, joined, split
from trajmill.quality.shingle import Hashes, Offsets, shingles
from trajmill.quality.without_element_ids import TREE

SCREENS: Final = ("screen", "state")
"""Forms of observation that show all again, whatever changed."""

AGAIN: Final = 0.5
"""Share of its shingles up to which JSON may be new against what stood before and still is that, sent again."""

JSON: Final = r"\A(?:HTTP [^\n]*\n(?:[^\n]+\n)*\n)?[ \t\r\n]*[\[{]"
"""How a text begins that is JSON, or a server's response with JSON (RE2 syntax)."""

CHANGE: Final = np.uint32(1)
"""The bit of a shingle that says that it stands for all that is new in an answer, and is none of words or lines."""


@dataclass(frozen=True, slots=True)
class Column:
    """Shingles of pieces of text, and which pieces each row has.

    Attributes:
        hashes, offsets: of the pieces, as `shingles` gives them.
        row, piece: every use of a piece by a row; rows ascending.
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
    """Each row's text as one piece."""
    texts, place = _texts(column)
    return Column(*_shingles(texts, parted), np.arange(len(place)), place)


def _texts(column: pa.Array) -> tuple[pa.StringArray, Offsets]:
    """The distinct texts as they are encoded, and which one each row has; null is a text without a word."""
    if not pa.types.is_dictionary(column.type):
        return column, np.arange(len(column))
    texts = pa.concat_arrays([column.dictionary, pa.array([""], column.dictionary.type)])
    places = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)
    return texts, places.astype(np.int64)


def answered(batch: pa.RecordBatch, parted: bool) -> list[Column]:
    """What each row led to: the new lines of what is a screen, the change of JSON that is sent again, else all."""
    form, dialect = (struct_text(batch, "next_observation", name).cast(pa.string()) for name in ("form", "dialect"))
    shown = pc.or_kleene(pc.is_in(form, pa.array(SCREENS)), pc.ends_with(dialect, TREE))
    screen = pc.fill_null(shown, False).to_numpy(zero_copy_only=False)
    texts, place = _texts(struct_text(batch, "next_observation", "content"))
    other = np.flatnonzero(~screen)
    used = distinct(place[other])
    chosen = texts.take(pa.array(used))
    columns = [Column(*_shingles(chosen, parted), other, np.searchsorted(used, place[other]))]
    json = pc.match_substring_regex(chosen, JSON).to_numpy(zero_copy_only=False)[columns[0].piece]
    json &= struct_text(batch, "observation", "content").is_valid().to_numpy(zero_copy_only=False)[other]
    if json.any():
        columns = _sent_again(batch, columns[0], np.flatnonzero(json), parted)
    if screen.any():
        columns.append(_new_lines(batch, np.flatnonzero(screen)))
    return columns


def _sent_again(batch: pa.RecordBatch, after: Column, chosen: Offsets, parted: bool) -> list[Column]:
    """The column without those of the chosen rows that mostly hold what stood before them, and these rows' changes.

    A change is one shingle, whatever its size: an interface that sends a whole list after each act says with the one
    item that is new as much as with any other. It is of what is new; where nothing is, of what is gone.
    """
    texts, place = _texts(struct_text(batch, "observation", "content"))
    rows = after.row[chosen]
    used = distinct(place[rows])
    before = expanded(*_shingles(texts.take(pa.array(used)), parted), np.searchsorted(used, place[rows]))
    held, shown = (distinct(joined(*of)) for of in (before, expanded(after.hashes, after.offsets, after.piece[chosen])))
    new, gone = shown[~holds(held, shown)], held[~holds(shown, held)]
    total, changed, lost = (np.bincount(split(some)[0], minlength=len(rows)) for some in (shown, new, gone))
    again = (changed <= AGAIN * total) & (total > 0)
    sums = _summed(new, len(rows))
    sums = np.where(changed > 0, sums, ~_summed(gone, len(rows)))
    of_change = (mixed(sums) >> np.uint64(32)).astype(np.uint32) | CHANGE
    kept = np.ones(len(after.row), np.bool_)
    kept[chosen[again]] = False
    some = np.flatnonzero(again & (changed + lost > 0))
    changes = Column(of_change[some], np.arange(len(some) + 1), rows[some], np.arange(len(some)))
    return [Column(after.hashes, after.offsets, after.row[kept], after.piece[kept]), changes]


def _summed(pairs: Numbers, count: int) -> Numbers:
    """A hash of each place's set of shingles."""
    place, hashes = split(pairs)
    sums = np.zeros(count, np.uint64)
    np.add.at(sums, place, mixed(hashes.astype(np.uint64)))
    return sums


def _new_lines(batch: pa.RecordBatch, rows: Offsets) -> Column:
    """The lines that the given rows' screens show and those before did not; a line is one shingle."""
    after, before = (_lines(batch, side, rows) for side in ("next_observation", "observation"))
    hashes, row = after
    new = ~holds(distinct(_of_row(*before)), _of_row(hashes, row))
    lines, number = np.unique(hashes[new], return_inverse=True)
    of_line = (lines >> np.uint64(32)).astype(np.uint32) & ~CHANGE
    return Column(of_line, np.arange(len(lines) + 1), row[new], number)


def _lines(batch: pa.RecordBatch, side: str, rows: Offsets) -> tuple[Numbers, Offsets]:
    """(hash of a line, its row) of every line of the rows' observations on that side."""
    texts, place = _texts(struct_text(batch, side, "content"))
    used = distinct(place[rows])
    cut = Lines.of(texts.take(pa.array(used)))
    use, line = expanded(np.arange(len(cut.starts) - 1), cut.first, np.searchsorted(used, place[rows]))
    return cut.hashes()[line], rows[use]


def _of_row(hashes: Numbers, row: Offsets) -> Numbers:
    return mixed(hashes + row.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
