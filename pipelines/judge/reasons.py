"""Why a trajectory or a row is not kept, besides the recipe's rules: the closed vocabulary of judging."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quality.share import BOUNDED
from quality.variety import OF_TRAJECTORIES

SHARE_REASONS: Final[Mapping[str, str]] = {kind: f"max_share_{kind}" for kind in BOUNDED}
OF_WHOLES: Final = tuple(SHARE_REASONS[kind] for kind in BOUNDED if kind in OF_TRAJECTORIES)
OF_ROWS: Final = tuple(SHARE_REASONS[kind] for kind in BOUNDED if kind not in OF_TRAJECTORIES)
"""Reasons by which trajectories go, and those by which rows lose the loss."""

CONTAMINATED: Final = "contaminated"
NEAR_DUPLICATE: Final = "near_duplicate"
DUPLICATE_TRAJECTORY: Final = "duplicate_trajectory"
LOST: Final = (CONTAMINATED, DUPLICATE_TRAJECTORY, NEAR_DUPLICATE, *OF_WHOLES)
"""Reasons by which a trajectory goes besides the recipe's rules."""

DUPLICATE_TRANSITION: Final = "duplicate_transition"
REPLICATE: Final = "replicate"
LOST_ROWS: Final = (DUPLICATE_TRANSITION, REPLICATE, *OF_ROWS)
"""Reasons by which a row of a kept trajectory stays as context besides the recipe's rules."""

NO_TARGET: Final = "no_target"
NO_TEXT: Final = "no_text"
REASONS: Final = (*LOST, *LOST_ROWS, NO_TARGET, NO_TEXT)
"""Reasons besides the recipe's rules, numbered after them."""
