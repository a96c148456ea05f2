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
"""Samples queued per thread, so that a slow sample leaves no other thread idle."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Work:
    """Concurrency, limit and progress of the work.

    Attributes:
        concurrency: Samples processed at the same time.
        limit: First samples of each domain to process; None takes all.
        tell: Callback with the outcome of each sample.
    """

    concurrency: int = 8
    limit: int | None = None
    tell: Callable[[str], None] = lambda _: None


def in_order(work: Callable[[_Item], _Result], items: Iterable[_Item], threads: int) -> Iterator[_Result]:
    """Yield the result of each item, in the order of the items; threads work a little ahead.

    The first error of an item stops the iteration and cancels work that has not begun.
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
    """Models of a session and their settings.

    Attributes:
        writer: Address of the model that writes.
        judge: Address of the model that judges.
        model: Name of the model that writes.
        sampling: Sampling settings of the model that writes.
        per_minute: Requests per minute to both models together; None sets no limit.
        max_cost: Largest cost of both models together; None sets no bound.

    Raises:
        ConfigError: The cost is bounded and no model has a price.
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
        """Return the settings that decide the answers."""
        return {
            "model": self.model,
            "sampling": dict(self.sampling),
            "judge_model": self.judge_model,
            "judge_sampling": dict(self.judge_sampling),
        }


class Session(NamedTuple):
    """Models whose endpoints are open."""

    writer: Endpoint
    judge: Judge


class Report(NamedTuple):
    """Result of a command: its manifest and its spending."""

    manifest: Manifest
    spending: Spending


@contextmanager
def session(models: Models, replies: Folder, spending: Spending) -> Iterator[Session]:
    """Open the models' endpoints and close them at the end.

    Raises:
        ConfigError: As in `Endpoint`, or an endpoint refused all of its requests.
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
