"""Filters of datatrove as signals on the prose of a trajectory: `datatrove:GopherQualityFilter`.

Only deterministic filters are supported that decide by the text alone and download nothing. datatrove is an optional
dependency, imported when a recipe names a filter.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from trajmill.quality.prose import join_prose, prose_lines
from trajmill.quality.settings import DATATROVE
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.schemas import ConfigError

FILTERS: Final = (
    "C4ParagraphFilter",
    "C4QualityFilter",
    "FineWebQualityFilter",
    "GopherQualityFilter",
    "GopherRepetitionFilter",
    "RegexFilter",
)
_REFUSED: Final[Mapping[str, str]] = {
    "C4BadWordsFilter": "it fetches lists of words and drops at random",
    "FastTextClassifierFilter": "it fetches its model; the signal 'classifier' reads one",
    "LambdaFilter": "it needs code, and a recipe holds values",
    "LanguageFilter": "it fetches its model; the signal 'language' reads one",
    "SamplerFilter": "it drops at random",
    "UnigramLogProbFilter": "it fetches frequencies of words",
    "URLFilter": "it looks at an address, not at text",
}
_OURS: Final = ("self", "exclusion_writer", "batch_size")

CHARACTERS: Final = 1 << 17
"""Characters of a trajectory's prose that are used."""


def _load_filter(name: str) -> Any:
    """Load the filter class of that name.

    Raises:
        ConfigError: There is no usable filter of that name, or datatrove is not installed.
    """
    if name in _REFUSED:
        raise ConfigError(f"'{DATATROVE}{name}' cannot be a signal: {_REFUSED[name]}.")
    if name not in FILTERS:
        nearest = get_close_matches(name, FILTERS, 1)
        raise ConfigError(
            f"There is no signal '{DATATROVE}{name}'; there are: {', '.join(FILTERS)}.",
            DATATROVE + nearest[0] if nearest else None,
        )
    try:
        from datatrove.pipeline import filters
    except ImportError as error:
        raise ConfigError(
            f"'{DATATROVE}{name}' needs datatrove, which cannot be imported ({error}). "
            "Install trajmill with the extra 'datatrove'."
        ) from error
    return getattr(filters, name)


def _lines(measured: Measured) -> list[list[str]]:
    return prose_lines(measured, CHARACTERS)


class DatatroveFilter(Signal):
    """1 if the filter keeps the trajectory's prose, or there is none; 0 if it drops it.

    Args:
        filter_name: Name of the class in `datatrove.pipeline.filters`.
        settings: Keyword arguments of the class.

    Raises:
        ConfigError: There is no such filter or argument, or datatrove or a requirement of the filter is not installed.
    """

    name: ClassVar[str] = "datatrove"
    scope: ClassVar[str] = "trajectory"
    measures: ClassVar[str] = "1: that filter of datatrove keeps its prose, or there is none"

    def __init__(self, filter_name: str, settings: Mapping[str, Any]) -> None:
        kind = _load_filter(filter_name)
        valid = [name for name in inspect.signature(kind).parameters if name not in _OURS]
        for name in settings:
            if name not in valid:
                nearest = get_close_matches(name, valid, 1)
                known = ", ".join(valid) or "none"
                raise ConfigError(
                    f"'{DATATROVE}{filter_name}' has no setting '{name}'; it has: {known}.",
                    nearest[0] if nearest else None,
                )
        parameters = inspect.signature(kind).parameters.values()
        missing = [
            parameter.name
            for parameter in parameters
            if parameter.default is parameter.empty and parameter.name not in settings
        ]
        if missing:
            raise ConfigError(f"'{DATATROVE}{filter_name}' needs: {', '.join(missing)}.")
        self._filter_name = filter_name
        try:  # asked once, so that what it lacks is known before anything is run
            self._made = kind(**settings)
            self._told("There are some words here, and that is all of them.")
        except (ImportError, LookupError, OSError) as error:
            raise ConfigError(f"'{DATATROVE}{filter_name}' cannot be used here: {error}") from error
        except (TypeError, ValueError, re.error) as error:
            raise ConfigError(f"'{DATATROVE}{filter_name}' does not take these settings: {error}") from error

    def _told(self, text: str) -> tuple[bool, str | None]:
        from datatrove.data import Document

        answer = self._made.filter(Document(text=text, id=""))
        passes, reason = answer if isinstance(answer, tuple) else (answer, None)
        return bool(passes), None if passes else str(reason or self._filter_name)

    def _found(self, measured: Measured) -> list[tuple[bool, str | None]]:
        return [self._kept([lines]) for lines in self.evidence(measured)]

    def _kept(self, stretches: Sequence[list[str]]) -> tuple[bool, str | None]:
        text = join_prose(stretches, CHARACTERS)
        return self._told(text) if text else (True, None)

    def measure(self, measured: Measured) -> Numbers:
        flags = [passes for passes, _ in measured.once(self._found)]
        return measured.spread(np.array(flags, np.float64))

    def reasons(self, measured: Measured) -> pa.StringArray:
        """Return the filter's own reason on each row of a trajectory that it drops."""
        reasons_of_trajectories = pa.array([reason for _, reason in measured.once(self._found)], pa.string())
        return reasons_of_trajectories.take(pa.array(measured.trajectory))

    def evidence(self, measured: Measured) -> Sequence[list[str]]:
        return measured.once(_lines)

    def settled(self, evidence: Sequence[list[str]]) -> tuple[float, str | None]:
        passes, reason = self._kept(evidence)
        return float(passes), reason
