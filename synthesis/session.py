"""A session with models: the one that writes and the one that judges, with one purse and one pace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ConfigError
from trajmill.schemas.manifest import Manifest
from trajmill.synthesis.endpoint import Address, Endpoint, Pace
from trajmill.synthesis.judgements import Judge
from trajmill.synthesis.replies import Replies, Spending


@dataclass(frozen=True, slots=True)
class Models:
    """Which models are asked, and how.

    Attributes:
        writer: where the model is that writes.
        judge: where the one is that judges.
        model: that writes.
        judge_model: that judges.
        sampling: of the one that writes.
        judge_sampling: of the one that judges.
        per_minute: requests to both together; None is any number.
        max_cost: of both together; None is any.

    Raises:
        ConfigError: costs are bounded and nothing has a price.
    """

    writer: Address
    judge: Address
    model: str
    judge_model: str
    sampling: Mapping[str, Any] = field(default_factory=dict)
    judge_sampling: Mapping[str, Any] = field(default_factory=dict)
    per_minute: float | None = None
    max_cost: float | None = None

    def __post_init__(self) -> None:
        if self.max_cost is not None and not (self.writer.prices.is_known or self.judge.prices.is_known):
            raise ConfigError("--max-cost needs what tokens cost: give --price and, where it differs, --judge-price.")

    def settings(self) -> dict[str, Any]:
        """What decides what is answered."""
        return {
            "model": self.model,
            "sampling": dict(self.sampling),
            "judge_model": self.judge_model,
            "judge_sampling": dict(self.judge_sampling),
        }


class Session(NamedTuple):
    """The models while they can be asked."""

    writer: Endpoint
    judge: Judge


class Report(NamedTuple):
    """What a command made: its manifest, and what was spent on it."""

    manifest: Manifest
    spending: Spending


@contextmanager
def session(models: Models, replies: Folder, spending: Spending) -> Iterator[Session]:
    """The models, asked through endpoints that are closed at the end.

    Raises:
        ConfigError: as of `Endpoint`, or one of them took none of its requests.
    """
    kept, pace = Replies(replies), Pace(models.per_minute)
    writer = Endpoint(models.writer, kept, spending, pace)
    judging = Endpoint(models.judge, kept, spending, pace)
    try:
        yield Session(writer, Judge(judging, models.judge_model, models.judge_sampling))
        writer.check_answers()
        judging.check_answers()
    finally:
        writer.close()
        judging.close()
