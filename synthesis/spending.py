"""What asking models costs: tokens as endpoints count them, at prices per million, and a bound that is kept to."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

_MILLION: Final = 1_000_000
_ROUNDING: Final = 1e-9
"""What sums of prices may differ by from what they are."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer or of many: of what was asked, and of what was answered, its reasoning with it."""

    prompt: int = 0
    completion: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt + other.prompt, self.completion + other.completion)


@dataclass(frozen=True, slots=True)
class Prices:
    """What a million tokens cost, in whatever currency the bound is in."""

    prompt: float = 0.0
    completion: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether anything costs something."""
        return self.prompt > 0 or self.completion > 0

    def cost(self, usage: Usage) -> float:
        """What these tokens cost."""
        return (usage.prompt * self.prompt + usage.completion * self.completion) / _MILLION


class SpentError(Exception):
    """The bound on costs leaves no room for another request."""


@dataclass(slots=True)
class Spending:
    """What was spent, by all threads together.

    A request is held at the most that it may cost before it is sent, so that what is in flight cannot pass the bound
    together. What was asked by an earlier, killed run counts too, since its answers are used: the bound is on the
    result, not on the process.

    Attributes:
        bound: the most that may be spent; None is no bound.
        usage: tokens of all answers that are used.
        cost: of them.
        asked: answers that were fetched now.
        known: answers that were there already.
        uncounted: answers whose endpoint did not say how many tokens they are.
        fetched_cost: of those that were fetched now.
    """

    bound: float | None = None
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    asked: int = 0
    known: int = 0
    uncounted: int = 0
    fetched_cost: float = 0.0
    _held: float = 0.0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def hold(self, most: float) -> None:
        """Sets aside what a request may cost; waits while others that are in flight may leave room for it.

        Raises:
            SpentError: the bound leaves no room.
        """
        with self._changed:
            while self.bound is not None and self.cost + self._held + most > self.bound + _ROUNDING:
                if not self._held:
                    raise SpentError
                self._changed.wait()
            self._held += most

    def release(self, most: float) -> None:
        """Gives back what was set aside for a request that brought no answer."""
        with self._changed:
            self._held = max(0.0, self._held - most)
            if self._held < _ROUNDING:
                self._held = 0.0
            self._changed.notify_all()

    def settle(self, most: float, usage: Usage | None, prices: Prices) -> None:
        """Books an answer that was fetched; one without a count is booked at what was set aside for it."""
        cost = most if usage is None else prices.cost(usage)
        with self._changed:
            self._book(usage, cost)
            self.asked += 1
            self.fetched_cost += cost
        self.release(most)

    def recall(self, usage: Usage | None, prices: Prices) -> None:
        """Books an answer that was there already."""
        with self._changed:
            self._book(usage, prices.cost(usage or Usage()))
            self.known += 1

    def _book(self, usage: Usage | None, cost: float) -> None:
        self.usage += usage or Usage()
        self.uncounted += usage is None
        self.cost += cost
