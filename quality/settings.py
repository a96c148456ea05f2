"""Settings of measuring that recipes give, apart from its code: a wrong recipe fails before that is loaded."""

from __future__ import annotations

from typing import Final

ESTIMATE: Final = "estimate"
"""Names no tokenizer: tokens are estimated."""

PREFERENCES: Final = ("outcome", "complete", "longer")
"""By what one of several like trajectories is kept: its outcome is known; the log does not say that it was cut, and
holds what its last action led to; it has more steps. A recipe can also prefer `solved` ones, then those of which the
log does not say, of equal ones the higher score; and `shorter` ones."""

FEW: Final = 64
"""Own shingles below which trajectories are compared by their whole sequence of steps, where a recipe says nothing."""

DATATROVE: Final = "datatrove:"
"""Before the name of a filter of datatrove, which is a signal then."""
