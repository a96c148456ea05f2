"""Documents with planted copies: what a search for duplicates should find, and how well it did.

Of the documents 65 % are originals of five kinds (output of a shell, a traceback, JSON-RPC, a tree of views, prose),
20 % are exact copies of an original and 15 % near copies, in which 1 to 9 % of the tokens between blanks were replaced.
The same seed gives the same documents. Nothing here is read from a log.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmarks.logs.text import Text
from samples.writing.chance import seeded

EXACT: Final = 0.20
NEAR: Final = 0.15
"""Shares of the documents that are copies."""

EDITED: Final = (0.01, 0.09)
"""Least and largest share of the tokens of a near copy that are replaced."""

_MEAN: Final = 2500
_SPREAD: Final = 0.7
"""Mean size of a document in characters, and the standard deviation of its logarithm."""

_LEAST: Final = 200


def shell(text: Text, size: int) -> str:
    """Commands and what they print."""
    parts: list[str] = []
    while sum(map(len, parts)) < size:
        parts.append(f"$ {text.name()} --{text.name()} {text.path()}\n{text.block(min(size, 900))}")
    return "\n".join(parts)


def trace(text: Text, size: int) -> str:
    """A Python traceback."""
    lines = ["Traceback (most recent call last):"]
    while sum(map(len, lines)) < size:
        lines.append(f'  File "/srv/{text.path()}", line {text.below(900) + 1}, in {text.name()}_{text.name()}')
        lines.append(f"    {text.name()} = {text.name()}.{text.name()}({text.name()}, {text.below(500)})")
    return "\n".join([*lines, f"{text.name().title()}Error: {text.phrase(5, 12)}"])


def messages(text: Text, size: int) -> str:
    """Lines of JSON-RPC."""
    lines: list[str] = []
    while sum(map(len, lines)) < size:
        number = text.below(10_000)
        call = f'{{"name": "{text.name()}_{text.name()}", "arguments": {{"path": "{text.path()}", "limit": {number}}}}}'
        lines.append(f'{{"jsonrpc": "2.0", "id": {number}, "method": "tools/call", "params": {call}}}')
        lines.append(f'{{"jsonrpc": "2.0", "id": {number}, "result": {{"text": "{text.phrase(20, 60)}"}}}}')
    return "\n".join(lines)


def views(text: Text, size: int) -> str:
    """A tree of views as XML."""
    lines = ["<hierarchy>"]
    while sum(map(len, lines)) < size:
        x, y = text.below(900), text.below(1800)
        lines.append(
            f'  <node index="{len(lines)}" text="{text.phrase(1, 6)}" resource-id="{text.name()}:id/{text.name()}"'
            f' class="android.widget.TextView" clickable="true" bounds="[{x},{y}][{x + 140},{y + 60}]" />'
        )
    return "\n".join([*lines, "</hierarchy>"])


def prose(text: Text, size: int) -> str:
    """Sentences."""
    parts: list[str] = []
    while sum(map(len, parts)) < size:
        parts.append(text.phrase(8, 18).capitalize() + ".")
    return " ".join(parts)


KINDS: Final[tuple[Callable[[Text, int], str], ...]] = (shell, trace, messages, views, prose)


@dataclass(frozen=True, slots=True)
class Planted:
    """Documents and the truth about them.

    Attributes:
        texts: of the documents, in an order that tells nothing.
        group: of each the number of the original that it is, or is a copy of.
        text: of each a number that it shares with its exact copies alone.
    """

    texts: list[str]
    group: npt.NDArray[np.int64]
    text: npt.NDArray[np.int64]


def plant_documents(count: int, seed: int) -> Planted:
    """So many documents, those of this seed."""
    order = seeded("documents", seed)
    exact, near = round(count * EXACT), round(count * NEAR)
    originals = [_original(seed, number) for number in range(count - exact - near)]
    rows = [(text, number, number) for number, text in enumerate(originals)]
    for _ in range(exact):
        source = order.randrange(len(originals))
        rows.append((originals[source], source, source))
    words = Text(seed, "edits")
    for _ in range(near):
        source = order.randrange(len(originals))
        rows.append((_edit(originals[source], order, words), source, len(rows)))
    order.shuffle(rows)
    texts, group, text = zip(*rows, strict=True)
    return Planted(list(texts), np.array(group, np.int64), np.array(text, np.int64))


def _original(seed: int, number: int) -> str:
    text = Text(seed, f"document/{number}")
    size = int(text.random.lognormvariate(np.log(_MEAN) - _SPREAD**2 / 2, _SPREAD))
    text.change_script()
    return text.pick(KINDS)(text, max(size, _LEAST))


def _edit(text: str, order: random.Random, words: Text) -> str:
    """The text with some of its tokens replaced, at least one."""
    tokens = text.split(" ")
    share = order.uniform(*EDITED)
    for index in order.sample(range(len(tokens)), max(1, round(share * len(tokens)))):
        tokens[index] = words.words(1)[0]
    return " ".join(tokens)


@dataclass(frozen=True, slots=True)
class Score:
    """Precision and recall of a choice of documents to drop.

    Attributes:
        dropped: documents.
        precision: share of these that leave one of their group behind.
        recall: share of the copies, exact and near, that are dropped: of each group all but one may go.
        near_recall: the same of distinct texts; one goes when all its exact copies do.
    """

    dropped: int
    precision: float
    recall: float
    near_recall: float


def score(truth: Planted, survivors: Iterable[int]) -> Score:
    """Score the choice to keep just the documents of these numbers."""
    gone = np.ones(len(truth.texts), np.bool_)
    gone[list(survivors)] = False
    by_group = np.bincount(truth.group[gone], minlength=int(truth.group.max()) + 1)
    spare = np.bincount(truth.group) - 1
    right = np.minimum(by_group, spare).sum()
    texts, first = np.unique(truth.text, return_index=True)
    still = np.isin(texts, truth.text[~gone])
    group = truth.group[first]
    of_group = np.bincount(group) - 1
    lost = np.minimum(np.bincount(group[~still], minlength=len(of_group)), of_group)
    return Score(
        int(gone.sum()),
        float(right / max(gone.sum(), 1)),
        float(right / max(spare.sum(), 1)),
        float(lost.sum() / max(of_group.sum(), 1)),
    )
