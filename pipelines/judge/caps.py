"""The caps of a recipe, over the whole corpus: counts of targets are gathered by domain, nothing else is shuffled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trajmill.pipelines.judge.corpus_rule import Answers, Key, Keys, Round
from trajmill.pipelines.judge.part_state import LIMITS, Standing, cap_bins
from trajmill.quality.cap import counted, limits

_NUMBER = 8
"""Bytes of the unit's number before its counts."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Which targets break which capped rule, by bin → the first bin over each rule's cap, told to the domain's units.

    Rows over a cap are told by their rule's name, so that there is no reason of its own.
    """

    shares: tuple[float | None, ...]
    """Of each rule by position, None where it is not capped."""
    reasons: tuple[str, ...] = ()
    losing: str = "caps"
    reported: tuple[str, ...] = ()

    @property
    def rounds(self) -> tuple[Round, ...]:
        """See `Decision`."""
        return (Round(self.losing, self.keys, self.losers),)

    def keys(self, standing: Standing) -> Keys:
        """The unit's domain; its number, and how many of its targets break which capped rule, by bin, packed."""
        target, measures = standing.targets(), standing.measures
        counts = counted(measures.decision.capped[target], cap_bins(measures)[target])
        yield standing.unit.domain, standing.unit.number.to_bytes(_NUMBER, "little") + counts.tobytes()

    def losers(self, key: Key, packed: Iterable[bytes]) -> Answers:
        """The limits of a domain, told to each of its units."""
        blocks = list(packed)
        found = limits((data[_NUMBER:] for data in blocks), self.shares).astype("<i8").tobytes()
        for data in blocks:
            yield LIMITS, int.from_bytes(data[:_NUMBER], "little"), found

    def words(self, reason: str, survivor: int) -> str:
        """See `Decision`."""
        return "by the recipe's rule"
