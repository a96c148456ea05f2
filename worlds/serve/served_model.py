"""A world model at an endpoint: pinned by name and revision, with pinned sampling, within a budget.

Each request has its own seed, made from the session's seed, the step and the try, so that the same session with the
same actions sends the same requests. Earlier answers are stored and not paid for again.
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
    """World model with its settings.

    Attributes:
        name: Name of the model at the endpoint.
        sampling: Values of the request's body besides model, messages and seed.
        seed: Seed of sessions that name none.
        tries: Most answers requested until one holds an observation.
    """

    name: str
    revision: str
    sampling: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    tries: int = 2

    @classmethod
    def of(cls, model: str, **more: Any) -> Pinned:
        """Parse a model in the form `NAME@REVISION`.

        Raises:
            ConfigError: The text has no revision.
        """
        name, _, revision = model.rpartition("@")
        if not name or not revision:
            raise ConfigError(f"'{model}' pins no world model: wanted is NAME@REVISION, such as lwm-8b@2026-11-01.")
        return cls(name, revision, **more)

    @property
    def world_model(self) -> str:
        """Name and revision as in rows."""
        return f"{self.name}@{self.revision}"

    def seed_of(self, session_seed: int, step: int, number: int) -> int:
        """Return the seed of a request, from a session's seed, the step, and the number of the try."""
        return xxhash.xxh3_64_intdigest(f"serve:{session_seed}:{step}:{number}") % _SEEDS


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of all sessions together; None is no bound. Stored answers do not count.

    Attributes:
        cost: Largest cost by the prices of the endpoint.
        tokens: Most tokens of prompts and answers.
        calls: Most requests, including those without an observation.
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
        request: Request as sent.
        known: True if the answer was stored and costs nothing.
        cost: Cost by the prices of the endpoint.
        seconds: Time of the request.
    """

    request: Request
    reply: Reply
    known: bool
    cost: float
    seconds: float


class ServedModel:
    """World model that many sessions query at once from one event loop.

    Args:
        address: Address of the endpoint.
        replies: Store of answers.
        bounds: Bounds of the total usage.
        concurrency: Most concurrent requests.
        per_minute: Most requests a minute; None is no bound.

    Attributes:
        calls: Number of requests sent.
        known: Number of stored answers used.
        tokens: Tokens of fetched answers and their prompts; an estimate if the endpoint does not count them.
        spent: Bound that was met, if any.
        revisions: Number of answers by the revision that the endpoint stated.

    Raises:
        ConfigError: The client's package is missing, or costs are bounded without prices.
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
        """Cancel pending requests, and close connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._endpoint.close()

    @property
    def prices(self) -> Prices:
        """Prices of the endpoint's tokens."""
        return self._prices

    async def ask(self, messages: Sequence[dict[str, str]], session_seed: int, step: int, number: int) -> Call:
        """Return the answer to the messages of a step.

        Args:
            messages: Messages of the history, with the requested turn.
            number: Number of the try, from 0.

        Raises:
            BudgetError: The budget leaves no room.
            ConfigError: The endpoint does not know its user or the model.
            ShardError: The endpoint cannot be reached, or its answer has another form.
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
        """Reserve a request's call and tokens; wait while requests in flight may still leave room for it."""
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
        """Return the usage so far, in the form of a status."""
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
"""Most revisions of a model that are counted separately."""
