"""Registry of signals: built-in ones, those of the entry-point group `trajmill.signals`, and datatrove's filters.

Most signals need no settings and are available by name. Others, such as model classifiers, are made with a recipe's
settings.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any, Final

from trajmill.quality.settings import DATATROVE
from trajmill.quality.signal import Signal
from trajmill.quality.signals.answer_origin import DanglingCall, ForeignAnswer, HarnessAnswer, RecorderCut
from trajmill.quality.signals.binary_content import BinaryContent
from trajmill.quality.signals.broken_instruction import BrokenInstruction
from trajmill.quality.signals.classifier import Classifier, TrajectoryClassifier
from trajmill.quality.signals.control_tokens import ControlTokens
from trajmill.quality.signals.datatrove_filter import DatatroveFilter
from trajmill.quality.signals.empty_action import EmptyAction
from trajmill.quality.signals.empty_answer import EmptyAnswer
from trajmill.quality.signals.environment_failure import EnvironmentFailure
from trajmill.quality.signals.error_observation import ErrorObservation, ErrorShare, ErrorStreak
from trajmill.quality.signals.invented_answer import InventedAnswer
from trajmill.quality.signals.language import Language
from trajmill.quality.signals.leaks import ContextLeak, ReasoningLeak
from trajmill.quality.signals.length import Length
from trajmill.quality.signals.loop import Loop
from trajmill.quality.signals.no_op import NoOp
from trajmill.quality.signals.opaque_content import OpaqueContent
from trajmill.quality.signals.outcome import Outcome
from trajmill.quality.signals.predictability import HistoryPredictability, StepPredictability
from trajmill.quality.signals.side_request import SideRequest
from trajmill.quality.signals.turn_mask import LengthRatio, Novelty, Overlap, TurnCategory, TurnMask
from trajmill.quality.signals.turns import Turns, TurnTokens
from trajmill.quality.signals.unannounced_timeout import UnannouncedTimeout
from trajmill.quality.signals.undeclared_tool import UndeclaredTool
from trajmill.quality.signals.unsettled import Unsettled
from trajmill.schemas import ConfigError
from trajmill.schemas.plugins import plugins

GROUP: Final = "trajmill.signals"

SIGNALS: Final[tuple[type[Signal], ...]] = (
    Turns,
    Outcome,
    EmptyAction,
    DanglingCall,
    ForeignAnswer,
    InventedAnswer,
    BrokenInstruction,
    RecorderCut,
    UnannouncedTimeout,
    EnvironmentFailure,
    Length,
    TurnTokens,
    UndeclaredTool,
    BinaryContent,
    OpaqueContent,
    ControlTokens,
    NoOp,
    SideRequest,
    EmptyAnswer,
    HarnessAnswer,
    Loop,
    Unsettled,
    ErrorObservation,
    ErrorStreak,
    ErrorShare,
    Overlap,
    Novelty,
    LengthRatio,
    TurnCategory,
    TurnMask,
    ContextLeak,
    ReasoningLeak,
    HistoryPredictability,
    StepPredictability,
    Classifier,
    TrajectoryClassifier,
    Language,
)


def _parameters(kind: type[Signal]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a class of signals, by name."""
    return {} if kind.__init__ is object.__init__ else dict(inspect.signature(kind).parameters)


def _required_settings(kind: type[Signal]) -> list[str]:
    """List the settings without a default."""
    return [name for name, parameter in _parameters(kind).items() if parameter.default is parameter.empty]


@cache
def kinds() -> dict[str, type[Signal]]:
    """Return every class of signals by name, the built-in ones first.

    Raises:
        ConfigError: Two classes have the same name, or an entry point is not a signal.
    """
    known = {kind.name: kind for kind in SIGNALS}
    for point, kind in plugins(GROUP, Signal):  # type: ignore[type-abstract]
        if kind.name in known:
            raise ConfigError(f"Entry point '{point.name}' of {GROUP} takes the name '{kind.name}', which is taken.")
        known[kind.name] = kind
    return known


@cache
def signals() -> dict[str, Signal]:
    """Return every signal that needs no settings, by name."""
    return {name: kind() for name, kind in kinds().items() if not _required_settings(kind)}


def make_signal(kind: str, settings: Mapping[str, Any]) -> Signal:
    """Make the signal of a class with a recipe's settings. Signals with equal settings are shared within a process.

    Raises:
        ConfigError: The class or a setting is unknown, with the nearest name; a setting is missing; or the settings are
            invalid.
    """
    try:
        return _make_signal(kind, json.dumps(settings, sort_keys=True))
    except TypeError as error:
        raise ConfigError(f"'{kind}' does not take these settings: {error}") from error


@lru_cache(maxsize=32)
def _make_signal(name: str, settings: str) -> Signal:
    values: dict[str, Any] = json.loads(settings)
    if name.startswith(DATATROVE):
        return DatatroveFilter(name.removeprefix(DATATROVE), values)
    known = kinds()
    if name not in known:
        nearest = get_close_matches(name, known, 1)
        raise ConfigError(f"There is no signal '{name}'.", nearest[0] if nearest else None)
    valid = _parameters(known[name])
    for setting in values:
        if setting not in valid:
            nearest = get_close_matches(setting, valid, 1)
            there = f"it has: {', '.join(valid)}" if valid else "it has none"
            raise ConfigError(f"'{name}' has no setting '{setting}'; {there}.", nearest[0] if nearest else None)
    missing = [setting for setting in _required_settings(known[name]) if setting not in values]
    if missing:
        raise ConfigError(f"'{name}' needs settings under judge.signals.{name}: {', '.join(missing)}.")
    return known[name](**values)


def signal(name: str) -> Signal:
    """Return the signal of that name.

    Raises:
        ConfigError: There is no such signal; the error suggests the nearest name.
    """
    known = signals()
    if name not in known:
        nearest = get_close_matches(name, known, 1)
        raise ConfigError(f"There is no signal '{name}'.", nearest[0] if nearest else None)
    return known[name]
