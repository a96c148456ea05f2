"""How likely a classifier that was trained on labels holds a transition for a good one."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trajmill.quality.fasttext_model import Model
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.word_lines import lines_of


class Classifier(Signal):
    """The probability of a label; 1 where the log does not hold the next observation.

    Args:
        model: path of a supervised fastText model of lines as `quality.word_lines` makes them.
        label: the label it is of.

    Raises:
        ConfigError: there is no such model, or it has no such label.
    """

    name: ClassVar[str] = "classifier"
    scope: ClassVar[str] = "transition"
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
