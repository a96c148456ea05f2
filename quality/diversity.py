"""Numbers of different things that a corpus holds, as Hill's effective numbers (Ecology 54, 1973, page 427).

The number of order q of shares p_i is (sum of p_i^q)^(1/(1-q)): how many equally common kinds would be as diverse.
Order 0 counts all kinds alike, order 1 (the limit, exp of the entropy) weighs them by share, order 2 the common ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from typing import Any


@dataclass(frozen=True, slots=True)
class Diversity:
    """The effective numbers of one kind of thing.

    Attributes:
        kinds: order 0, how many there are.
        effective: order 1.
        dominant: order 2.
        largest: the share of the most common one, 0 to 1.
    """

    kinds: int
    effective: float
    dominant: float
    largest: float


def diversity(counts: Mapping[Any, int]) -> Diversity:
    """The effective numbers of things by how often each occurs; all 0 where nothing does."""
    total = sum(counts.values())
    shares = sorted(count / total for count in counts.values() if count)
    if not shares:
        return Diversity(0, 0.0, 0.0, 0.0)
    entropy = -sum(share * log(share) for share in shares)
    return Diversity(len(shares), exp(entropy), 1 / sum(share * share for share in shares), shares[-1])
