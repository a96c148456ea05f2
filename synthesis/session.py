"""Session with two models, a writer and a judge, which share a budget and a request rate."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ConfigError
from trajmill.schemas.manifest import Manifest
from trajmill.synthesis.endpoint import Address, Endpoint, Pace
from trajmill.synthesis.judgements import Judge
from trajmill.synthesis.replies import Replies, Spending

_AHEAD: Final = 2
"""Samples that wait for each thread, so that a slow one keeps no other idle."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Work:
    """Concurrency of the work, and its progress.

    Attributes:
        concurrency: samples that are worked on at the same time.
        limit: samples of each domain, the first of its files; None takes all.
        tell: is called with the outcome of each sample.
    """

    concurrency: int = 8
    limit: int | None = None
    tell: Callable[[str], None] = lambda _: None


def in_order(work: Callable[[_Item], _Result], items: Iterable[_Item], threads: int) -> Iterator[_Result]:
    """Yield the result of work on each item, in the order of the items; threads work a little ahead.

    The first error of an item ends it: what has not begun then is not begun.
    """
    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future[_Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= threads * _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class Models:
    """Models that are asked, with their settings.

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
        """Settings that decide the answers."""
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
    """Result of a command: its manifest, and its spending."""

    manifest: Manifest
    spending: Spending


@contextmanager
def session(models: Models, replies: Folder, spending: Spending) -> Iterator[Session]:
    """The models, asked through endpoints that are closed at the end.

    Raises:
        ConfigError: as of `Endpoint`, or one of them took none of its requests.
    """
    cache, pace = Replies(replies), Pace(models.per_minute)
    writer = Endpoint(models.writer, cache, spending, pace)
    judging = Endpoint(models.judge, cache, spending, pace)
    try:
        yield Session(writer, Judge(judging, models.judge_model, models.judge_sampling))
        writer.check_answers()
        judging.check_answers()
    finally:
        writer.close()
        judging.close()
