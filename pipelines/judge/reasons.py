"""Reasons to drop a trajectory or a row, besides the recipe's rules: the closed vocabulary of judging."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trajmill.quality.share_caps import BOUNDED
from trajmill.quality.variety import OF_TRAJECTORIES

EXCLUDED: Final = "excluded"
SIMULATED: Final = "simulated"
CONTAMINATED: Final = "contaminated"
NEAR_DUPLICATE: Final = "near_duplicate"
DUPLICATE_TRAJECTORY: Final = "duplicate_trajectory"
DUPLICATE_TRANSITION: Final = "duplicate_transition"
MAX_PER_TASK: Final = "max_per_task"
REPLICATE: Final = "replicate"
HARNESS_TEXT: Final = "harness_text"
HARNESS_SHARE: Final = "harness_share"
BRIDGES_POOLS: Final = "bridges_pools"
NO_TARGET: Final = "no_target"
NO_TEXT: Final = "no_text"

SHARE_REASONS: Final[Mapping[str, str]] = {kind: f"max_share_{kind}" for kind in BOUNDED}


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason to drop a trajectory or a row.

    Attributes:
        name: name in verdicts and rejects.
        whole: whether it drops whole trajectories, which are given by their first rows.
    """

    name: str
    use: str
    whole: bool


REASONS: Final = (
    Reason(SIMULATED, "omit", whole=True),
    Reason(BRIDGES_POOLS, "omit", whole=True),
    Reason(CONTAMINATED, "omit", whole=True),
    Reason(DUPLICATE_TRAJECTORY, "omit", whole=True),
    Reason(NEAR_DUPLICATE, "omit", whole=True),
    Reason(MAX_PER_TASK, "omit", whole=True),
    *(Reason(SHARE_REASONS[kind], "omit", whole=True) for kind in BOUNDED if kind in OF_TRAJECTORIES),
    Reason(HARNESS_SHARE, "omit", whole=True),
    Reason(EXCLUDED, "omit", whole=True),
    Reason(HARNESS_TEXT, "context", whole=False),
    Reason(DUPLICATE_TRANSITION, "context", whole=False),
    Reason(REPLICATE, "context", whole=False),
    *(Reason(SHARE_REASONS[kind], "context", whole=False) for kind in BOUNDED if kind not in OF_TRAJECTORIES),
    Reason(NO_TARGET, "omit", whole=True),
    Reason(NO_TEXT, "omit", whole=False),
)
"""Reasons besides the recipe's rules, numbered after them. If a row has two, the later one is reported."""

_LEFT: Final = (NO_TARGET, NO_TEXT)
LOST: Final = tuple(reason.name for reason in REASONS if reason.whole and reason.name not in _LEFT)
"""Reasons of a decision over the corpus, or before all such decisions, that drop a trajectory."""

LOST_ROWS: Final = tuple(reason.name for reason in REASONS if not reason.whole and reason.name not in _LEFT)
"""Reasons of a decision over the corpus that turn a row of a kept trajectory into context."""

AFTER_NEAR: Final = (MAX_PER_TASK, *SHARE_REASONS.values(), NO_TARGET)
"""Reasons that drop a trajectory after the search for near duplicates, in which it took part."""
