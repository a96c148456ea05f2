"""Which signals there are: ours by module, users' by the entry-point group `trajmill.signals`."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import Final

from quality.signal import Signal
from quality.signals.binary_content import BinaryContent
from quality.signals.context_leak import ContextLeak
from quality.signals.control_tokens import ControlTokens
from quality.signals.dangling_call import DanglingCall
from quality.signals.empty_action import EmptyAction
from quality.signals.environment_failure import EnvironmentFailure
from quality.signals.error_observation import ErrorObservation
from quality.signals.foreign_answer import ForeignAnswer
from quality.signals.harness_retry import HarnessRetry
from quality.signals.length import Length
from quality.signals.length_ratio import LengthRatio
from quality.signals.loop import Loop
from quality.signals.no_op import NoOp
from quality.signals.novelty import Novelty
from quality.signals.overlap import Overlap
from quality.signals.predictability import HistoryPredictability, StepPredictability
from quality.signals.reasoning_leak import ReasoningLeak
from quality.signals.recorder_cut import RecorderCut
from quality.signals.turn_category import TurnCategory
from quality.signals.turn_mask import TurnMask
from quality.signals.turns import Turns
from quality.signals.undeclared_tool import UndeclaredTool
from quality.signals.unsettled import Unsettled
from schemas import ConfigError

GROUP: Final = "trajmill.signals"

SIGNALS: Final[tuple[type[Signal], ...]] = (
    Turns,
    EmptyAction,
    DanglingCall,
    ForeignAnswer,
    RecorderCut,
    EnvironmentFailure,
    Length,
    UndeclaredTool,
    BinaryContent,
    ControlTokens,
    NoOp,
    HarnessRetry,
    Loop,
    Unsettled,
    ErrorObservation,
    Overlap,
    Novelty,
    LengthRatio,
    TurnCategory,
    TurnMask,
    ContextLeak,
    ReasoningLeak,
    HistoryPredictability,
    StepPredictability,
)


@cache
def signals() -> dict[str, Signal]:
    """Every signal by name, ours first.

    Raises:
        ConfigError: two have one name, or an entry point is no signal.
    """
    known = {kind.name: kind() for kind in SIGNALS}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        kind = point.load()
        if not (isinstance(kind, type) and issubclass(kind, Signal)):
            raise ConfigError(f"Entry point '{point.name}' of {GROUP} is {point.value}, which is no Signal class.")
        if kind.name in known:
            raise ConfigError(f"Entry point '{point.name}' of {GROUP} takes the name '{kind.name}', which is taken.")
        known[kind.name] = kind()
    return known


def signal(name: str) -> Signal:
    """The signal of that name.

    Raises:
        ConfigError: there is none, with the nearest name.
    """
    known = signals()
    if name not in known:
        nearest = get_close_matches(name, known, 1)
        raise ConfigError(f"There is no signal '{name}'.", nearest[0] if nearest else None)
    return known[name]
