"""Batches without the numbers that connectors gave to screen elements: the form in which screens are compared.

An element's number depends on the screens that its trajectory showed before, so two trajectories may number one screen
differently, and so may one trajectory that returns to it. Texts that are hashed or compared therefore have trees
without numbers, and an action names its element by the position of the element in the screen before it. So equal
screens are equal, and two clicks are the same if they hit the same element of equal screens. A source's own ids belong
to texts of other dialects, and stay as they are.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.fingerprint import struct_text
from trajmill.quality.texts import Flags, Texts

TREE: Final = "uitree/1"
"""Suffix of the dialect of an observation that is a tree of lines, or contains one, such as a server's response with a
page.
"""

_NUMBER: Final = r"(?m)^( *)#[0-9]+ "
"""Pattern of the number before an element in a line (RE2 syntax)."""

_ELEMENT: Final = re.compile(r'("(?:element|onto)": ")#(\d+)"')
"""Pattern of an element's number in an action's text or arguments."""


def remove_element_ids(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with trees and actions in the form for comparison; the batch itself if it holds no tree.

    Args:
        batch: Batch with `observation`, `next_observation` and `action`, each with the fields to compare.
    """
    before, after = (_trees(batch, side) for side in ("observation", "next_observation"))
    if not (before.any() or after.any()):
        return batch
    changed = {
        "observation": {"content": _bare(batch, "observation", before)},
        "next_observation": {"content": _bare(batch, "next_observation", after)},
        "action": {name: _name_by_places(batch, name, before) for name in ("text", "arguments")},
    }
    names = batch.schema.names
    columns = [_with(batch[name], changed[name]) if name in changed else batch[name] for name in names]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _trees(batch: pa.RecordBatch, side: str) -> Flags:
    """Flag the rows whose observation on that side is a tree."""
    dialect = struct_text(batch, side, "dialect").cast(pa.string())
    flags: Flags = pc.fill_null(pc.ends_with(dialect, TREE), False).to_numpy(zero_copy_only=False)
    return flags


def bare(texts: pa.Array) -> pa.Array:
    """Return the trees without the numbers of their elements."""
    return pc.replace_substring_regex(texts, _NUMBER, r"\1")


def _bare(batch: pa.RecordBatch, side: str, trees: Flags) -> pa.Array:
    """Return the contents on that side, without numbers in rows with a tree. Other rows with the same text are
    unchanged.
    """
    texts = Texts.of(struct_text(batch, side, "content"))
    chosen = trees & (texts.index >= 0)
    used, text_number = np.unique(texts.index[chosen], return_inverse=True)
    index = texts.index.copy()
    index[chosen] = len(texts.texts) + text_number
    return _encode([texts.texts, bare(texts.texts.take(pa.array(used)))], index)


def _name_by_places(batch: pa.RecordBatch, name: str, trees: Flags) -> pa.Array:
    """Return the given text of each action, with elements named by their position in the tree before it, counted from
    1.
    """
    column, screens = (struct_text(batch, *path) for path in (("action", name), ("observation", "content")))
    texts = Texts.of(column)
    named = pc.match_substring_regex(texts.texts, _ELEMENT.pattern).to_numpy(zero_copy_only=False)
    index, added, numbers = texts.index.copy(), list[str](), dict[tuple[int, int], int]()
    shown = Texts.of(screens)
    rows = np.flatnonzero(trees & texts.spread(named, False) & (shown.index >= 0))
    for row in rows.tolist():
        key = int(texts.index[row]), int(shown.index[row])
        if key not in numbers:
            numbers[key] = len(texts.texts) + len(added)
            added.append(_with_places(texts.texts[key[0]].as_py(), shown.texts[key[1]].as_py()))
        index[row] = numbers[key]
    return _encode([texts.texts, pa.array(added, pa.string())], index)


def _with_places(text: str, screen: str) -> str:
    def placed(match: re.Match[str]) -> str:
        line = re.search(rf"(?m)^ *#{match[2]} ", screen)
        return f'{match[1]}#{screen.count(chr(10), 0, line.start()) + 1}"' if line is not None else match[0]

    return _ELEMENT.sub(placed, text)


def _encode(texts: list[pa.Array], index: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    indices = pa.array(index.astype(np.int32), mask=index < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.concat_arrays([part.cast(pa.string()) for part in texts]))


def _with(struct: pa.StructArray, changed: dict[str, pa.Array]) -> pa.StructArray:
    names = [field.name for field in struct.type]
    columns = [changed.get(name, column) for name, column in zip(names, struct.flatten(), strict=True)]
    return pa.StructArray.from_arrays(columns, names=names, mask=struct.is_null())
