"""Batches without the numbers that connectors gave to screen elements: the form in which screens are compared.

An element's number depends on the screens that its trajectory showed before, so two trajectories may number one screen
differently, and so may one trajectory that returns to it. Texts that are hashed or compared therefore have trees
without numbers, and an action names its element by the position of the element in the screen before it. So equal
screens are equal, and two clicks are the same if they hit the same element of equal screens. A source's own ids belong
to texts of other dialects, and stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
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
    contents = _bare_contents(batch, (before, after))
    changed = {
        "observation": {"content": contents[0]},
        "next_observation": {"content": contents[1]},
        "action": _name_by_places(batch, before),
    }
    names = batch.schema.names
    columns = [_with(batch[name], changed[name]) if name in changed else batch[name] for name in names]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _trees(batch: pa.RecordBatch, side: str) -> Flags:
    """Flag the rows whose observation on that side is a tree."""
    dialect = struct_text(batch, side, "dialect").cast(pa.string())
    flags: Flags = pc.fill_null(pc.ends_with(dialect, TREE), False).to_numpy(zero_copy_only=False)
    return flags


def _bare_contents(batch: pa.RecordBatch, trees: Sequence[Flags]) -> list[pa.Array]:
    """Return the contents before and after the actions, without numbers in the rows with a tree. Other rows with the
    same text are unchanged.
    """
    sides = Texts.shared([struct_text(batch, side, "content") for side in ("observation", "next_observation")])
    texts = sides[0].texts
    numbers = np.full((2, len(texts) + 1), -1, np.int64)  # of texts as they are and of trees in the result
    parts, total = [], 0
    for is_tree, number in enumerate(numbers):
        used = [side.index[(flags == is_tree) & (side.index >= 0)] for side, flags in zip(sides, trees, strict=True)]
        chosen = np.flatnonzero(np.bincount(np.concatenate(used), minlength=len(texts)))
        number[chosen] = total + np.arange(len(chosen))
        parts.append(texts.take(pa.array(chosen)))
        total += len(chosen)
    parts[1] = pc.replace_substring_regex(parts[1], _NUMBER, r"\1")
    return [
        _encode(parts, numbers[flags.astype(np.int64), side.index]) for side, flags in zip(sides, trees, strict=True)
    ]


def _name_by_places(batch: pa.RecordBatch, trees: Flags) -> dict[str, pa.Array]:
    """Return the text and the arguments of each action, with elements named by their position in the tree before it,
    counted from 1.
    """
    columns = {name: Texts.of(struct_text(batch, "action", name)) for name in ("text", "arguments")}
    named = {name: texts.matching(_ELEMENT.pattern) for name, texts in columns.items()}
    shown = Texts.of(struct_text(batch, "observation", "content"))
    index = {name: texts.index.copy() for name, texts in columns.items()}
    added = {name: list[str]() for name in columns}
    screen_of = lru_cache(1)(lambda screen: shown.texts[screen].as_py())

    @cache
    def placed(name: str, text: int, screen: int) -> int:
        added[name].append(_with_places(columns[name].texts[text].as_py(), screen_of(screen)))
        return len(columns[name].texts) + len(added[name]) - 1

    rows = np.flatnonzero(trees & np.any(list(named.values()), axis=0) & (shown.index >= 0))
    for row in rows.tolist():
        for name, numbers in index.items():
            if named[name][row]:
                numbers[row] = placed(name, int(numbers[row]), int(shown.index[row]))
    return {
        name: _encode([texts.texts, pa.array(added[name], pa.string())], index[name]) for name, texts in columns.items()
    }


def _with_places(text: str, screen: str) -> str:
    return _ELEMENT.sub(lambda match: f'{match[1]}#{_place_of(match[2], screen) or match[2]}"', text)


def _place_of(number: str, screen: str) -> int:
    """Return the line, counted from 1, of an element of a tree; 0 if it does not stand there."""
    at = screen.find(f"#{number} ")
    while at >= 0:
        begin, end = screen.rfind("\n", 0, at) + 1, screen.find("\n", at)
        if not screen[begin:at].strip(" "):
            return screen.count("\n", 0, begin) + 1
        at = screen.find(f"#{number} ", end) if end >= 0 else -1
    return 0


def _encode(texts: list[pa.Array], index: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    indices = pa.array(index.astype(np.int32), mask=index < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.concat_arrays([part.cast(pa.string()) for part in texts]))


def _with(struct: pa.StructArray, changed: dict[str, pa.Array]) -> pa.StructArray:
    names = [field.name for field in struct.type]
    columns = [changed.get(name, column) for name, column in zip(names, struct.flatten(), strict=True)]
    return pa.StructArray.from_arrays(columns, names=names, mask=struct.is_null())
