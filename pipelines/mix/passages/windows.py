"""Texts longer than a component's bound, cut into pieces between paragraphs, lines or words.

The pieces put together are the text, letter by letter, but for pieces of nothing but blanks. A pure function of the
text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa

from trajmill.pipelines.mix.passages.passage import Message, Passage, hashes
from trajmill.quality.tokens import TokenCounter

_BORDERS: Final = ("\n\n", "\n", " ")
_REACH: Final = 4
"""A border is looked for within a quarter of a piece, on both sides of where the cut would be."""


def cut_text(passage: Passage, most: int, counter: TokenCounter) -> list[Passage]:
    """The pieces of a text, each of at most so many tokens, that share the group of the whole.

    Args:
        passage: a text.
        most: tokens of a piece; a single character may have more.
        counter: counts tokens under the recipe's tokenizer.
    """
    (whole,) = passage.messages
    document = int(hashes([passage.messages])[0][0, 0])
    pieces = [text for text in _pieces(whole.content, most, counter) if text.strip()]
    return [
        replace(passage, messages=(Message(whole.role, text),), window=number, document=document)
        for number, text in enumerate(pieces)
    ]


def _pieces(text: str, most: int, counter: TokenCounter) -> Iterator[str]:
    """The pieces in order: about equal parts, of which those that are still too long are cut again."""
    waiting = [text]
    while waiting:
        one = waiting.pop()
        tokens = int(counter.count(pa.array([one], pa.string()))[0])
        if tokens <= most or len(one) < 2:
            yield one
        else:
            waiting += reversed(_parted(one, -(-tokens // most)))


def _parted(text: str, count: int) -> list[str]:
    """The text in so many parts, or fewer, cut at the best border near to equal lengths."""
    size = max(1, len(text) // count)
    cuts = {_border(text, size * number, size // _REACH) for number in range(1, count)}
    ends = [*sorted(cut for cut in cuts if 0 < cut < len(text)), len(text)]
    return [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _border(text: str, place: int, reach: int) -> int:
    """Where a part ends: behind the nearest border of the best kind within reach of the place, else at the place."""
    low, high = max(0, place - reach), min(len(text), place + reach)
    for border in _BORDERS:
        before, after = text.rfind(border, low, place), text.find(border, place, high)
        found = [at + len(border) for at in (before, after) if at >= 0]
        if found:
            return min(found, key=lambda at: (abs(at - place), at))
    return place
