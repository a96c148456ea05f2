"""fastText models, read from files that the recipe names and queried for label probabilities.

One model, for languages, comes with trajmill (`quality/models/NOTICE.md`); none is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trajmill.schemas import ConfigError

_PREFIX: Final = "__label__"


@lru_cache(maxsize=4)
def _read(path: str, _size: int, _changed: int) -> Any:
    import fasttext

    try:
        return fasttext.load_model(path)
    except (ValueError, RuntimeError, MemoryError) as error:
        raise ConfigError(f"model: '{path}' is no fastText model: {error}") from error


class Model:
    """Supervised fastText model, read on first use.

    Args:
        path: Path of its file (`.bin` or `.ftz`).

    Raises:
        ConfigError: There is no such file, or it is not a supervised fastText model.
    """

    def __init__(self, path: str) -> None:
        if not isinstance(path, str) or not Path(path).is_file():
            raise ConfigError(f"model: '{path}' is no file; a fastText model is wanted.")
        self.path = path
        self.labels = self._labels()

    def _loaded(self) -> Any:
        status = Path(self.path).stat()
        return _read(self.path, status.st_size, status.st_mtime_ns)

    def _labels(self) -> tuple[str, ...]:
        labels = sorted(label.removeprefix(_PREFIX) for label in self._loaded().get_labels())
        model = str(self._loaded().f.getArgs().model)
        if not model.endswith("supervised"):
            raise ConfigError(f"model: '{self.path}' holds word vectors; a model trained on labels is wanted.")
        return tuple(labels)

    def known(self, labels: Iterable[str]) -> tuple[str, ...]:
        """Return the labels if the model has them all.

        Raises:
            ConfigError: A label is missing; the error suggests the nearest known one.
        """
        wanted = tuple(map(str, labels))
        for label in wanted:
            if label not in self.labels:
                nearest = get_close_matches(label, self.labels, 1)
                some = ", ".join(self.labels[:20])
                message = f"'{self.path}' has no label '{label}'; it has: {some}."
                raise ConfigError(message, nearest[0] if nearest else None)
        return wanted

    def probabilities(self, texts: Sequence[str], labels: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the probability, 0 to 1, that each text has one of the labels. A line feed in a text counts as a
        blank.
        """
        shares_of_texts = np.zeros(len(texts))
        model, wanted = self._loaded(), {_PREFIX + label for label in labels}
        for number, text in enumerate(texts):
            predicted, shares = model.predict([text.replace("\n", " ")], k=-1)
            shares_of_texts[number] = sum(
                share for label, share in zip(predicted[0], shares[0], strict=True) if label in wanted
            )
        return np.clip(shares_of_texts, 0, 1)
