"""A world model at an endpoint: pinned by name and revision, with pinned sampling, asked within a budget.

Each request has a seed of its own, made of the session's, the step and the try, so that the same session of the same
actions asks the same. What was answered before is kept and not paid for again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import xxhash

from trajmill.schemas import ConfigError
from trajmill.synthesis.endpoint import Address, Endpoint, Pace, most_tokens
from trajmill.synthesis.replies import Prices, Replies, Reply, Request, Spending, SpentError, Usage

_SEEDS: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Pinned:
    """World model that is asked, with its settings.

    Attributes:
        name: as the endpoint names it.
        revision: of it.
        sampling: values of the request's body beside model, messages and seed.
        seed: of sessions that name none.
        tries: answers that are asked for until one holds an observation.
    """

    name: str
    revision: str
    sampling: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    tries: int = 2

    @classmethod
    def of(cls, model: str, **more: Any) -> Pinned:
        """The model that `NAME@REVISION` says.

        Raises:
            ConfigError: it says no revision.
        """
        name, _, revision = model.rpartition("@")
        if not name or not revision:
            raise ConfigError(f"'{model}' pins no world model: wanted is NAME@REVISION, such as lwm-8b@2026-11-01.")
        return cls(name, revision, **more)

    @property
    def world_model(self) -> str:
        """As rows name it."""
        return f"{self.name}@{self.revision}"

    def seed_of(self, session_seed: int, step: int, number: int) -> int:
        """The seed of a request: of a session's seed, the step, and the number of the try."""
        return xxhash.xxh3_64_intdigest(f"serve:{session_seed}:{step}:{number}") % _SEEDS


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of all sessions together; None is no bound. Answers that are known already do not count.

    Attributes:
        cost: by the prices of the endpoint.
        tokens: asked and answered.
        calls: requests, those without an observation too.
    """

    cost: float | None = None
    tokens: int | None = None
    calls: int | None = None


class BudgetError(Exception):
    """The budget leaves no room for another request; `bound` names what is spent: `cost`, `tokens` or `calls`."""

    def __init__(self, bound: str) -> None:
        super().__init__(f"The budget is spent: no more {bound} may be used.")
        self.bound = bound


class Call(NamedTuple):
    """One request and its answer.

    Attributes:
        request: as it was sent.
        reply: to it.
        known: whether it was answered before, and costs nothing.
        cost: by the prices of the endpoint.
        seconds: that it took.
    """

    request: Request
    reply: Reply
    known: bool
    cost: float
    seconds: float


class ServedModel:
    """A world model, asked by many sessions at once from one event loop.

    Args:
        address: of the endpoint.
        pinned: which model, and how it is asked.
        replies: that are kept.
        bounds: of what all may use.
        concurrency: requests at the same time.
        per_minute: requests; None is any number.

    Attributes:
        calls: requests that were sent.
        known: answers that were there already.
        tokens: of answers that were fetched, asked and answered; by an estimate where the endpoint does not count them.
        spent: the bound that was met, if one was.
        revisions: what the endpoint said of the state of the model, and how often.

    Raises:
        ConfigError: the client's package is missing, or costs are bounded and nothing has a price.
    """

    def __init__(
        self,
        address: Address,
        pinned: Pinned,
        replies: Replies,
        bounds: Bounds,
        concurrency: int = 16,
        per_minute: float | None = None,
    ) -> None:
        if bounds.cost is not None and not address.prices.is_known:
            raise ConfigError("--max-cost needs what tokens cost: give --price or --prices.")
        self.pinned, self.bounds = pinned, bounds
        self.spending = Spending(bound=bounds.cost)
        self._replies, self._prices = replies, address.prices
        self._endpoint = Endpoint(address, replies, self.spending, Pace(per_minute))
        self._threads = ThreadPoolExecutor(concurrency, "world-model")
        self._held = 0
        self._free = asyncio.Condition()
        self.calls = 0
        self.tokens = 0
        self.known = 0
        self.spent = ""
        self.revisions: dict[str, int] = {}

    def close(self) -> None:
        """Ends what is asked for, and closes connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._endpoint.close()

    @property
    def prices(self) -> Prices:
        """Of the endpoint's tokens."""
        return self._prices

    async def ask(self, messages: Sequence[dict[str, str]], session_seed: int, step: int, number: int) -> Call:
        """The answer to the messages of a step.

        Args:
            messages: of the history, with the turn that is asked for.
            session_seed: of the session.
            step: of the session.
            number: of the try, from 0.

        Raises:
            BudgetError: the budget leaves no room.
            ConfigError: the endpoint does not know its user or the model.
            ShardError: it cannot be reached, or does not answer in its form.
        """
        seed = self.pinned.seed_of(session_seed, step, number)
        request = Request(self.pinned.name, tuple(messages), {**self.pinned.sampling, "seed": seed}, number)
        loop = asyncio.get_running_loop()
        known = await loop.run_in_executor(self._threads, self._replies.get, request)
        if known is not None:
            self.known += 1
            return Call(request, known, known=True, cost=0.0, seconds=0.0)
        estimate = most_tokens(request)
        reserved = estimate.prompt + estimate.completion
        await self._hold(reserved)
        begun = time.monotonic()
        try:
            reply = await loop.run_in_executor(self._threads, self._endpoint.ask, request)
        except SpentError as error:
            self.calls -= 1
            self.spent = "cost"
            raise BudgetError(self.spent) from error
        finally:
            self._held -= reserved
            async with self._free:
                self._free.notify_all()
        used = Usage() if reply.finish == "refused" else reply.usage or estimate
        self.tokens += used.prompt + used.completion
        revision = reply.revision or "unstated"
        if revision in self.revisions or len(self.revisions) < _REVISIONS:
            self.revisions[revision] = self.revisions.get(revision, 0) + 1
        return Call(request, reply, known=False, cost=self._prices.cost(used), seconds=time.monotonic() - begun)

    async def _hold(self, tokens: int) -> None:
        """Sets aside a request's call and tokens; waits while others that are in flight may leave room for it."""
        bounds = self.bounds
        async with self._free:
            while bounds.tokens is not None and self.tokens + self._held + tokens > bounds.tokens and self._held:
                await self._free.wait()
        if bounds.calls is not None and self.calls >= bounds.calls:
            self.spent = "calls"
            raise BudgetError(self.spent)
        if bounds.tokens is not None and self.tokens + self._held + tokens > bounds.tokens:
            self.spent = "tokens"
            raise BudgetError(self.spent)
        self._held += tokens
        self.calls += 1

    def usage(self) -> dict[str, Any]:
        """Usage so far, in the form of a status."""
        used = self.spending.usage
        return {
            "calls": self.calls,
            "known": self.known,
            "prompt_tokens": used.prompt,
            "completion_tokens": used.completion,
            "cost": round(self.spending.cost, 9),
            "uncounted": self.spending.uncounted,
        }


_REVISIONS: Final = 64
"""States of a model that are counted apart."""
