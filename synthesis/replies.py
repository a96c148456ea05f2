"""Cache of models' answers by content, so that no answer is paid for twice, and the accounting of their cost.

An answer is a file named by the digest of the prompt, the model, the sampling and the number of the answer. It is
written atomically, so the next process can continue after a kill at any time.
"""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ShardError

_MILLION: Final = 1_000_000
_ROUNDING: Final = 1e-9
"""Tolerance for rounding errors in sums of prices."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer or of many: of the prompts, and of the completions with their reasoning."""

    prompt: int = 0
    completion: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt + other.prompt, self.completion + other.completion)


@dataclass(frozen=True, slots=True)
class Prices:
    """Cost of a million tokens, in the currency of the bound."""

    prompt: float = 0.0
    completion: float = 0.0

    @property
    def is_known(self) -> bool:
        """True if any token has a price."""
        return self.prompt > 0 or self.completion > 0

    def cost(self, usage: Usage) -> float:
        """Return the cost of the tokens."""
        return (usage.prompt * self.prompt + usage.completion * self.completion) / _MILLION


class SpentError(Exception):
    """Error of a request for which the cost bound leaves no room."""


@dataclass(slots=True)
class Spending:
    """Money spent by all threads together.

    The largest possible cost of a request is reserved before it is sent, so that requests in flight cannot exceed the
    bound together. Answers of an earlier, killed run count too, since they are used: the bound applies to the result,
    not to the process.

    Attributes:
        bound: Largest cost; None sets no bound.
        usage: Tokens of all used answers.
        cost: Cost of all used answers.
        asked: Answers fetched by this process.
        known: Answers found in the cache.
        uncounted: Answers whose endpoint reported no token counts.
        fetched_cost: Cost of the answers fetched by this process.
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
        """Reserve the largest cost of a request; wait while requests in flight may still free room for it.

        Raises:
            SpentError: The bound leaves no room.
        """
        with self._changed:
            while self.bound is not None and self.cost + self._held + most > self.bound + _ROUNDING:
                if not self._held:
                    raise SpentError
                self._changed.wait()
            self._held += most

    def release(self, most: float) -> None:
        """Release the reservation of a request."""
        with self._changed:
            self._held = max(0.0, self._held - most)
            if self._held < _ROUNDING:
                self._held = 0.0
            self._changed.notify_all()

    def settle(self, most: float, usage: Usage | None, prices: Prices) -> None:
        """Book a fetched answer; without a token count, at the reserved cost."""
        cost = most if usage is None else prices.cost(usage)
        with self._changed:
            self._book(usage, cost)
            self.asked += 1
            self.fetched_cost += cost
        self.release(most)

    def recall(self, usage: Usage | None, prices: Prices) -> None:
        """Book a cached answer."""
        with self._changed:
            self._book(usage, prices.cost(usage or Usage()))
            self.known += 1

    def _book(self, usage: Usage | None, cost: float) -> None:
        self.usage += usage or Usage()
        self.uncounted += usage is None
        self.cost += cost


_VERSION: Final = 1
"""Version of the content of keys and of the file format."""


@dataclass(frozen=True, slots=True)
class Request:
    """Request to a model.

    Attributes:
        model: Name of the model at the endpoint.
        messages: Chat messages, each with `role` and `content`.
        sampling: Further values of the request's body, such as `temperature` and `max_tokens`.
        index: Number of the answer among those to the same messages; not sent.
    """

    model: str
    messages: tuple[dict[str, str], ...]
    sampling: dict[str, Any] = field(default_factory=dict)
    index: int = 0

    @property
    def key(self) -> str:
        """Digest of all fields, 64 hex digits."""
        content = [_VERSION, self.model, list(self.messages), self.sampling, self.index]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer of a model.

    Attributes:
        reasoning: Reasoning of the model, where the endpoint separates it.
        finish: Finish reason, such as `stop` or `length`; `refused` where the endpoint refuses the request.
        usage: Token counts; None where the endpoint does not report them.
        revision: Revision of the model that the endpoint reports; empty where it reports none.
    """

    content: str
    reasoning: str = ""
    finish: str = "stop"
    usage: Usage | None = None
    revision: str = ""


class Replies:
    """Cache of answers in a folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def get(self, request: Request) -> Reply | None:
        """Return the cached answer to a request; None if it is missing or cannot be read."""
        name = self._name(request)
        if not self._folder.exists(name):
            return None
        try:
            values = json.loads(self._folder.read(name))
            if values.pop("version") != _VERSION:
                return None
            usage = values.pop("usage")
            return Reply(**values, usage=None if usage is None else Usage(**usage))
        except (ShardError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def put(self, request: Request, reply: Reply) -> None:
        """Cache the answer to a request.

        Raises:
            ShardError: The file cannot be written.
        """
        self._folder.write(self._name(request), json.dumps({"version": _VERSION, **asdict(reply)}).encode())

    def _name(self, request: Request) -> str:
        return f"{request.key[:2]}/{request.key}.json"
