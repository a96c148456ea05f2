"""Probability, by a classifier that was trained on labels, that a transition is a good one.

Transitions as lines of words, the form in which a classifier is trained on them and asked about them.

Letters are lowered, each sign stands by itself, a number is `0`, so that code, JSON and screens have words at all; the
action stands before a mark and what it led to after it. Pairs of neighbouring words follow, as words of their own.
"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.fasttext_model import Model
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.texts import Texts

CHARACTERS: Final = 3000
"""Of an action and of an observation, each, that are looked at."""

_MARK: Final = "→"


def words(texts: pa.StringArray) -> pa.StringArray:
    """Clean each text to words with one blank between them; of its first `CHARACTERS` characters."""
    cleaned = pc.utf8_lower(pc.utf8_slice_codeunits(texts, 0, CHARACTERS))
    cleaned = pc.replace_substring_regex(cleaned, r"\pN+", "0")
    cleaned = pc.replace_substring_regex(cleaned, r"[^\pL\pM\s0]", r" \0 ")
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(cleaned, r"[\s\pZ\pC]+", " "))


def with_pairs(line: str) -> str:
    """Join the words, then each pair of neighbours as one word."""
    single = line.split()
    return " ".join([*single, *(f"{word}_{next_word}" for word, next_word in pairwise(single))])


def transition_lines(action: pa.StringArray, shown: pa.StringArray) -> list[str]:
    """Format a line a transition; neither array holds nulls."""
    done, seen = words(action).to_pylist(), words(shown).to_pylist()
    return [
        with_pairs(f"{action_words} {_MARK} {shown_words}")
        for action_words, shown_words in zip(done, seen, strict=True)
    ]


def lines_of(measured: Measured) -> Texts:
    """Return the line of each row, null where it has no next observation; equal rows share one."""
    action, shown = measured.texts("action", "text"), measured.texts("next_observation", "content")
    known = (action.index >= 0) & (shown.index >= 0)
    key = action.index * max(1, len(shown.texts)) + shown.index
    distinct, pair_number = np.unique(key[known], return_inverse=True)
    width = max(1, len(shown.texts))
    lines = transition_lines(
        action.texts.take(pa.array(distinct // width)), shown.texts.take(pa.array(distinct % width))
    )
    index = np.full(len(known), -1, np.int64)
    index[known] = pair_number
    return Texts(pa.array(lines, pa.string()), index)


class Classifier(Signal):
    """The probability of a label; 1 where the log does not hold the next observation.

    Args:
        model: path of a supervised fastText model of lines as `quality.word_lines` makes them.
        label: the label it is of.

    Raises:
        ConfigError: there is no such model, or it has no such label.
    """

    name: ClassVar[str] = "classifier"
    measures: ClassVar[str] = "probability that a classifier of yours holds it for good; 1 without a next observation"

    def __init__(self, model: str, label: str = "good") -> None:
        self._model = Model(model)
        self._label = self._model.known([label])
        self.files = (model,)

    def measure(self, measured: Measured) -> Numbers:
        lines = lines_of(measured)
        return lines.spread(self._model.probabilities(lines.texts.to_pylist(), self._label), 1.0).astype(np.float32)


class TrajectoryClassifier(Classifier):
    """The mean of `classifier` over a trajectory's rows."""

    name: ClassVar[str] = "trajectory_classifier"
    scope: ClassVar[str] = "trajectory"
    measures: ClassVar[str] = "mean probability that a classifier of yours holds its transitions for good"

    def measure(self, measured: Measured) -> Numbers:
        return measured.spread(measured.summed(super().measure(measured).astype(np.float64)) / measured.lengths)
