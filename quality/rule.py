"""Rules: the recipe's decisions by a signal. The name of the rule is the reason of each drop.

A rule on a trajectory's signal keeps or drops the trajectory; a rule on a transition's signal sets the row's use. If
several rules are broken, the first in the recipe's order gives the reason. A rule with a cap lets some of the rows that
break it keep their loss (see `quality.cap`), and applies only to rows that break no rule without a cap. A rule that
spares a share lets that share of the breaking rows pass, chosen by a hash of their content: a model still learns that
such rows occur, and copies share one fate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.quality.fingerprint import mixed, text_hashes
from trajmill.quality.signal import Numbers


@dataclass(frozen=True, slots=True)
class Rule:
    """A bound on one signal.

    Attributes:
        name: the reason written for what it drops.
        signal: name of the signal.
        scope: the signal's scope.
        least: smallest value that passes, or None.
        most: largest value that passes, or None.
        use: what a transition that does not pass becomes: `context` or `omit`; unused for trajectories.
        cap: share of targets up to which transitions that do not pass stay targets, or None for none.
        domains: whose rows it speaks of; empty means all.
        of: whose targets the cap is a share of: `domain`, or `trajectory` for those of the transition's own trajectory.
        spare: share of what does not pass that is let through, 0 to 1.
    """

    name: str
    signal: str
    scope: str
    least: float | None = None
    most: float | None = None
    use: str = "omit"
    cap: float | None = None
    spare: float = 0.0
    of: str = "domain"
    domains: tuple[str, ...] = ()

    def keep(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        """Flag the values that pass. Numbers are rounded to 1e-6 first, so that the last bit of a float decides
        nothing.
        """
        rounded = np.round(numbers.astype(np.float64), 6)
        passes = np.ones(len(rounded), np.bool_)
        if self.least is not None:
            passes &= rounded >= self.least
        if self.most is not None:
            passes &= rounded <= self.most
        return passes

    def spares(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Flag the rows that pass whatever their value, by the hash of their content."""
        lots = mixed(keys ^ text_hashes(pa.array([f"spare:{self.name}"]))[0, 0])
        return lots < np.float64(self.spare) * 2.0**64


@dataclass(frozen=True, slots=True)
class Decision:
    """Decisions of the rules, one value a row: the position in `names` of the first rule that the row breaks, or -1.

    Attributes:
        names: Names of the rules.
        trajectory: First broken rule on trajectories.
        transition: First broken rule on transitions without a cap.
        capped: First broken rule with a cap.
    """

    names: tuple[str, ...]
    trajectory: npt.NDArray[np.int16]
    transition: npt.NDArray[np.int16]
    capped: npt.NDArray[np.int16]


Keys: TypeAlias = "Mapping[str, npt.NDArray[np.uint64]]"
"""Hash of each row's or its trajectory's content, by scope."""


def apply_rules(
    rules: Sequence[Rule], signals: Mapping[str, Numbers], rows: int, keys: Keys | None = None, domain: str = ""
) -> Decision:
    """Apply all rules to the rows that the signals were measured on; a rule on a signal not there is silent, and so is
    one of other domains.

    Args:
        rules: in their order.
        signals: by name, a value a row.
        rows: how many.
        keys: by which rules that spare a share draw; None where no rule does.
        domain: of the rows.
    """
    by_scope = {scope: np.full(rows, -1, np.int16) for scope in ("trajectory", "transition", "capped")}
    for position, rule in enumerate(rules):
        if rule.signal not in signals or (rule.domains and domain not in rule.domains):
            continue
        verdict = by_scope[rule.scope if rule.cap is None else "capped"]
        breaks = ~rule.keep(signals[rule.signal])
        if rule.spare and keys is not None:
            breaks &= ~rule.spares(keys[rule.scope])
        verdict[breaks & (verdict < 0)] = position
    return Decision(tuple(rule.name for rule in rules), **by_scope)
