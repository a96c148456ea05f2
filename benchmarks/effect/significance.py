"""Test whether one arm is better than another beyond chance: a paired bootstrap over groups and seeds, corrected by
Holm.

Groups are the units that were drawn from the world; trajectories of one are alike. What an arm costs on a group is
compared with what the other costs on the same, under the same seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DRAWS: Final = 4_000
"""Of the bootstrap."""

LEVEL: Final = 0.05

FEWEST: Final = 30
"""Groups below which nothing is claimed of a domain."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference in cost between an arm and another: negative is better.

    Attributes:
        mean: in bits per byte.
        low: of its interval of 95 %.
        high: of the same.
        p: the chance of so large a difference if there were none, two-sided.
    """

    mean: float
    low: float
    high: float
    p: float


def difference(ours: Floats, theirs: Floats, sizes: Floats, seed: int = 0) -> Difference:
    """The difference of two arms.

    Args:
        ours: bits by (seed, group).
        theirs: the same of the arm that it is compared with.
        sizes: bytes by (seed, group).
        seed: of the bootstrap.
    """
    apart = ours - theirs
    draws = np.random.default_rng(seed)
    seeds, groups = apart.shape
    of_groups = draws.multinomial(groups, np.full(groups, 1 / groups), DRAWS).astype(np.float64)
    of_seeds = draws.multinomial(seeds, np.full(seeds, 1 / seeds), DRAWS).astype(np.float64)
    above = np.einsum("ds,sg,dg->d", of_seeds, apart, of_groups, optimize=True)
    below = np.einsum("ds,sg,dg->d", of_seeds, sizes, of_groups, optimize=True)
    ratios = above / np.maximum(below, 1.0)
    low, high = np.quantile(ratios, [LEVEL / 2, 1 - LEVEL / 2])
    tail = min(int((ratios <= 0).sum()), int((ratios >= 0).sum()))
    p = min(1.0, 2 * (tail + 1) / (DRAWS + 1))
    return Difference(float(apart.sum() / max(sizes.sum(), 1.0)), float(low), float(high), p)


def alike(sizes: Floats) -> float:
    """As how many groups of one size these weigh (Kish 1965), to one decimal."""
    return round(float(sizes.sum() ** 2 / max((sizes**2).sum(), 1.0)), 1)


def holm(chances: Sequence[float]) -> list[float]:
    """The chances of a family of tests, corrected after Holm (1979) so that the level holds for all together."""
    order = np.argsort(chances, kind="stable")
    adjusted, most = [0.0] * len(chances), 0.0
    for rank, number in enumerate(order.tolist()):
        most = max(most, min(1.0, (len(chances) - rank) * chances[number]))
        adjusted[number] = most
    return adjusted
