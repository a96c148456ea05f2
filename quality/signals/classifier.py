"""Probability, by a classifier trained on labels, that a transition is a good one.

A transition becomes a line of words, the form used for training and for prediction. Letters are lowered, punctuation is
split off and numbers become `0`, so that code, JSON and screens consist of words. The action comes first, then a mark,
then the answer. Pairs of neighboring words follow, as words of their own.
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
"""Characters of an action and of an observation that are used, each."""

_MARK: Final = "→"


def words(texts: pa.StringArray) -> pa.StringArray:
    """Clean the first `CHARACTERS` characters of each text to words separated by one blank."""
    cleaned = pc.utf8_lower(pc.utf8_slice_codeunits(texts, 0, CHARACTERS))
    cleaned = pc.replace_substring_regex(cleaned, r"\pN+", "0")
    cleaned = pc.replace_substring_regex(cleaned, r"[^\pL\pM\s0]", r" \0 ")
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(cleaned, r"[\s\pZ\pC]+", " "))


def with_pairs(line: str) -> str:
    """Append each pair of neighboring words as one word to the words of a line."""
    single = line.split()
    return " ".join([*single, *(f"{word}_{next_word}" for word, next_word in pairwise(single))])


def transition_lines(action: pa.StringArray, shown: pa.StringArray) -> list[str]:
    """Format a line for each transition; neither array may hold nulls."""
    done, seen = words(action).to_pylist(), words(shown).to_pylist()
    return [
        with_pairs(f"{action_words} {_MARK} {shown_words}")
        for action_words, shown_words in zip(done, seen, strict=True)
    ]


def lines_of(measured: Measured) -> Texts:
    """Return the line of each row, null if it has no next observation; equal rows share a line."""
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
    """Probability of a label; 1 if the log does not hold the next observation.

    Args:
        model: Path of a supervised fastText model of lines as `transition_lines` formats them.
        label: Label whose probability is measured.

    Raises:
        ConfigError: There is no such model, or it has no such label.
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
    """Mean of `classifier` over a trajectory's rows."""

    name: ClassVar[str] = "trajectory_classifier"
    scope: ClassVar[str] = "trajectory"
    measures: ClassVar[str] = "mean probability that a classifier of yours holds its transitions for good"

    def measure(self, measured: Measured) -> Numbers:
        return measured.spread(measured.summed(super().measure(measured).astype(np.float64)) / measured.lengths)
