"""What a run on rented machines may cost: refused before anything is submitted, and held by a time limit afterwards.

The jobs of a run share the limit: each is told how much of it is left, and the service itself cancels it then, whether
or not the process that submitted it is still there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from trajmill.schemas import ConfigError, ShardError

_HOUR_S: Final = 3600
_LEAST_S: Final = 600
"""Below which no job is begun: its machines would start, and then be stopped."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What the jobs of a run may take together.

    Attributes:
        hours: of time; None as many as the cost allows.
        cost: in the currency of the price; None for any.
        price: of one machine for an hour, with its disk and the engine's fee.
    """

    hours: float | None = None
    cost: float | None = None
    price: float | None = None

    def seconds(self, machines: int) -> int:
        """The seconds that jobs on so many machines may take together.

        Raises:
            ConfigError: no limit is given, one needs a price that is not given, or the hours cost more than they may.
        """
        if self.hours is None and self.cost is None:
            raise ConfigError("A run on Dataflow needs a limit: --max-hours, or --max-cost with --price.")
        if self.cost is not None and not self.price:
            raise ConfigError("--max-cost needs --price: what one machine costs an hour, its disk and the fee with it.")
        seconds = float("inf") if self.hours is None else self.hours * _HOUR_S
        if self.cost is not None and self.price:
            hourly = self.price * machines
            worst = hourly * seconds / _HOUR_S
            if self.hours is not None and worst > self.cost:
                raise ConfigError(
                    f"{self.hours:g} hours on {machines} machines at {self.price:g} cost up to {worst:,.2f}, which is "
                    f"more than --max-cost {self.cost:g}. Take fewer hours or machines, or allow more."
                )
            seconds = min(seconds, self.cost / hourly * _HOUR_S)
        if seconds < _LEAST_S:
            raise ConfigError(
                f"The limit leaves {seconds / 60:.0f} minutes on {machines} machines, in which no job gets anywhere. "
                f"Allow at least {_LEAST_S // 60}."
            )
        return int(seconds)


class Meter:
    """The seconds that jobs of this process have taken since it was last reset."""

    def __init__(self) -> None:
        self._taken = 0.0

    def reset(self) -> None:
        """Begin anew."""
        self._taken = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Counts while it lasts."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self._taken += time.monotonic() - begun

    def left(self, seconds: int) -> int:
        """What is left of so many.

        Raises:
            ShardError: less than a job can be begun with.
        """
        left = int(seconds - self._taken)
        if left < _LEAST_S:
            raise ShardError(
                f"The time limit of {seconds / _HOUR_S:.1f} hours is used up: {left / 60:.0f} minutes are left. Allow "
                "more with --max-hours or --max-cost"
            )
        return left
