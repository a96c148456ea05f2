"""Settings of signals and measures in recipes, separate from their code, so that an invalid recipe fails before it is
loaded.
"""

from __future__ import annotations

from typing import Final

ESTIMATE: Final = "estimate"
"""Value that selects no tokenizer: tokens are estimated."""

PREFERENCES: Final = ("outcome", "complete", "longer")
"""By what one of several like trajectories is kept: its outcome is known; the log does not say that it was cut, and
holds what its last action led to; it has more steps. A recipe can also prefer `solved` ones, then those of which the
log does not say, of equal ones the higher score; and `shorter` ones."""

FEW: Final = 64
"""Number of own shingles below which trajectories are compared by their whole sequence of steps; the recipe's
default.
"""

DATATROVE: Final = "datatrove:"
"""Prefix of a datatrove filter that is used as a signal."""
