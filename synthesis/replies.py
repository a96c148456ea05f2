"""Cache of models' answers by content, so that nothing is paid for twice, and their cost within a bound.

An answer is a file of its own, named by the digest of the request, the model, the sampling and the number of the
answer, and written in one step: a process may be killed at any time, and the next one goes on with what is there.
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
    """Cost of a million tokens, in the currency of the bound."""

    prompt: float = 0.0
    completion: float = 0.0

    @property
    def is_known(self) -> bool:
        """True if any token costs something."""
        return self.prompt > 0 or self.completion > 0

    def cost(self, usage: Usage) -> float:
        """Cost of some tokens."""
        return (usage.prompt * self.prompt + usage.completion * self.completion) / _MILLION


class SpentError(Exception):
    """The bound on costs leaves no room for another request."""


@dataclass(slots=True)
class Spending:
    """Money spent by all threads together.

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


_VERSION: Final = 1
"""Of what a key is made from, and of a file's form."""


@dataclass(frozen=True, slots=True)
class Request:
    """Request to a model.

    Attributes:
        model: its name at the endpoint.
        messages: chat messages, each with `role` and `content`.
        sampling: further values of the request's body, such as `temperature` and `max_tokens`.
        index: number of the answer among those to the same words; it is not sent.
    """

    model: str
    messages: tuple[dict[str, str], ...]
    sampling: dict[str, Any] = field(default_factory=dict)
    index: int = 0

    @property
    def key(self) -> str:
        """The digest of all of it, 64 hex digits."""
        content = [_VERSION, self.model, list(self.messages), self.sampling, self.index]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer of a model.

    Attributes:
        content: its words.
        reasoning: what it thought, where the endpoint tells that apart.
        finish: why it ended, such as `stop` or `length`; `refused` where the endpoint takes no such request.
        usage: its tokens; None where the endpoint does not count them.
        revision: what the endpoint says of the state of the model; empty where it says nothing.
    """

    content: str
    reasoning: str = ""
    finish: str = "stop"
    usage: Usage | None = None
    revision: str = ""


class Replies:
    """Answers in a folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def get(self, request: Request) -> Reply | None:
        """The answer to a request; None if it is not there, or what is there cannot be read."""
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
        """Keeps the answer to a request.

        Raises:
            ShardError: it cannot be written.
        """
        self._folder.write(self._name(request), json.dumps({"version": _VERSION, **asdict(reply)}).encode())

    def _name(self, request: Request) -> str:
        return f"{request.key[:2]}/{request.key}.json"
