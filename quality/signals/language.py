"""Signal of the prose of a trajectory: the probability that it is in a language of the recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from trajmill.quality.fasttext_model import Model
from trajmill.quality.prose import join_prose, prose_lines
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.schemas import ConfigError

MODEL: Final = str(Path(__file__).parents[1] / "models" / "lid.176.ftz")
"""Model that comes with trajmill: fastText's for 176 languages."""

CHARACTERS: Final = 2000
"""Characters of a trajectory's prose, from its beginning, from which lines are chosen; a larger number changes no
verdict.
"""

READ: Final = 500
"""Characters that the model reads, in lines spread evenly over the chosen prose. They determine the cost."""

LEAST: Final = 100
"""Fewest bytes of prose that identify a language.

For 3 in 100 shorter English lines of real logs the model names another language; for longer ones it never does. Scripts
other than Latin take more bytes and need fewer words.
"""


def readable(text: str) -> str:
    """Return the part of prose that a language model reads: some of its lines, with lines in capitals lowered.

    Such models have seen few capitals in training, and may assign a line of them to any language.
    """
    lines = text.split("\n")[:: -(-len(text) // READ) or 1]
    return "\n".join(line.lower() if line.isupper() else line for line in lines)[:READ]


def _lines(measured: Measured) -> list[list[str]]:
    return prose_lines(measured, CHARACTERS)


class Language(Signal):
    """Probability that the prose of a trajectory is in one of the languages; 1 if it has too little prose.

    Args:
        languages: Labels of the model, such as `en` or `eng_Latn`.
        model: Path of a fastText language model; by default `lid.176.ftz`, which comes with trajmill.

    Raises:
        ConfigError: There is no such model, or it does not have these labels.
    """

    name: ClassVar[str] = "language"
    scope: ClassVar[str] = "trajectory"
    measures: ClassVar[str] = (
        "probability that its prose is in a language that the recipe names; 1 below 100 bytes of prose"
    )

    def __init__(self, languages: str | Sequence[str], model: str = MODEL) -> None:
        if not isinstance(languages, str | list | tuple):
            raise ConfigError(f"languages: a list of labels is wanted, not {languages!r}.")
        self._model = Model(model)
        self._languages = self._model.known([languages] if isinstance(languages, str) else languages)
        self.files = (model,)

    def measure(self, measured: Measured) -> Numbers:
        return measured.spread(
            self._probabilities([join_prose([lines], CHARACTERS) for lines in self.evidence(measured)])
        )

    def evidence(self, measured: Measured) -> Sequence[list[str]]:
        return measured.once(_lines)

    def settled(self, evidence: Sequence[list[str]]) -> tuple[float, str | None]:
        return float(self._probabilities([join_prose(evidence, CHARACTERS)])[0]), None

    def _probabilities(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        probabilities = self._model.probabilities([readable(text) for text in texts], self._languages)
        return np.where([len(text.encode()) >= LEAST for text in texts], probabilities, 1.0)
