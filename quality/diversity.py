"""Diversity of a corpus as Hill's effective numbers (Ecology 54, 1973, page 427).

The number of order q of shares p_i is (sum of p_i^q)^(1/(1-q)): the number of equally common kinds with the same
diversity. Order 0 counts all kinds alike, order 1 (the limit, exp of the entropy) weighs them by share, order 2 favors
the common ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from typing import Any


@dataclass(frozen=True, slots=True)
class Diversity:
    """Effective numbers of one kind of thing.

    Attributes:
        kinds: Order 0, the number of kinds.
        effective: Order 1.
        dominant: Order 2.
        largest: Share of the most common kind, 0 to 1.
    """

    kinds: int
    effective: float
    dominant: float
    largest: float


def diversity(counts: Mapping[Any, int]) -> Diversity:
    """Return the effective numbers of things from their counts; all 0 if there are none."""
    total = sum(counts.values())
    shares = sorted(count / total for count in counts.values() if count)
    if not shares:
        return Diversity(0, 0.0, 0.0, 0.0)
    entropy = -sum(share * log(share) for share in shares)
    return Diversity(len(shares), exp(entropy), 1 / sum(share * share for share in shares), shares[-1])
