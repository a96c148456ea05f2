"""Client of OpenAI-compatible chat endpoints: the official library with a request rate, a cost bound and a cache.

The client repeats requests that failed for the moment (429, 5xx) or were lost on the way (resets, time-outs), after a
growing pause or the pause that the endpoint names. Other modules write the prompts and parse the answers.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa

from trajmill.quality.scrub import scrub_text
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import ConfigError, ShardError
from trajmill.synthesis.replies import Prices, Replies, Reply, Request, Spending, Usage


class Pace:
    """Limiter that spaces requests evenly.

    Args:
        per_minute: Requests per minute; None sets no limit.
        clock: Returns a monotonic time in seconds.
        sleep: Waits for a number of seconds.
    """

    def __init__(
        self,
        per_minute: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._distance = 60 / per_minute if per_minute else 0.0
        self._clock, self._sleep = clock, sleep
        self._next = float("-inf")
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Wait until another request may be sent."""
        if not self._distance:
            return
        with self._lock:
            now = self._clock()
            mine = max(now, self._next)
            self._next = mine + self._distance
        if mine > now:
            self._sleep(mine - now)


_DENIED: Final = (401, 403, 404)
_REFUSED: Final = (400, 413, 422)
_MALFORMED_TRIES: Final = 3
_REFUSALS: Final = 8
"""Requests refused before the first answer at which the settings are taken to be at fault."""

_SHOWN: Final = 300
DECLINED: Final = "declined"
"""Finish reason of an answer in which the model refuses, in a field that the endpoint keeps for refusals."""

_LENGTHS: Final = ("max_tokens", "max_completion_tokens")
_FALLBACK_LENGTH: Final = 1 << 15
_GENEROUS: Final = 1.5
"""Factor that raises token estimates, since tokenizers differ and chat templates add words."""


@dataclass(frozen=True, slots=True)
class Address:
    """Address of an endpoint and its access settings.

    Attributes:
        url: Base URL, such as `http://127.0.0.1:8000/v1`.
        key: API key; never written or printed.
        prices: Prices of the endpoint's tokens.
        timeout_s: Timeout of an answer, in seconds.
        retries: Number of times a request is repeated after a failure that may pass.
    """

    url: str
    key: str = "none"
    prices: Prices = field(default_factory=Prices)
    timeout_s: float = 600.0
    retries: int = 8

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(f"'{self.url}' is no address of an endpoint; wanted is one as http://127.0.0.1:8000/v1.")


def openai_library() -> Any:
    """Return the module of the official client.

    Raises:
        ConfigError: The package is not installed.
    """
    try:
        import openai
    except ImportError as error:
        raise ConfigError("The package openai is not installed. Install trajmill[llm].") from error
    return openai


class Endpoint:
    """Chat endpoint that many threads can use.

    Args:
        address: Address of the endpoint.
        replies: Cache of answers.
        spending: Spending of all endpoints together.
        pace: Limiter of all requests, including repeated ones.

    Raises:
        ConfigError: The client's package is missing.
    """

    def __init__(self, address: Address, replies: Replies, spending: Spending, pace: Pace) -> None:
        self._library = openai_library()
        self._address, self._replies, self._spending = address, replies, spending
        http = self._library.DefaultHttpxClient(event_hooks={"request": [lambda _: pace.wait()]})
        self._client = self._library.OpenAI(
            base_url=address.url,
            api_key=address.key,
            timeout=address.timeout_s,
            max_retries=address.retries,
            http_client=http,
        )
        self._lock = threading.Lock()
        self._answered = self._refused = 0

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def check_answers(self) -> None:
        """Check that the endpoint did not refuse every request.

        Raises:
            ConfigError: Requests were sent and the endpoint refused all of them.
        """
        if self._refused and not self._answered:
            raise ConfigError(f"{self._address.url} took none of {self._refused} requests.")

    def ask(self, request: Request) -> Reply:
        """Return the cached answer to a request, or ask for a new one and cache it.

        If the endpoint refuses a request, such as a prompt that is too long for the model, the answer is empty and its
        `finish` is `refused`. It is not cached, so the next run asks again.

        Raises:
            ConfigError: The endpoint rejects the key or the model, or refuses all of the first requests.
            ShardError: The endpoint does not answer, or repeatedly answers in another format.
            SpentError: The cost bound leaves no room.
        """
        known = self._replies.get(request)
        if known is not None:
            self._spending.recall(known.usage, self._address.prices)
            self._count_answer()
            return known
        most = self._address.prices.cost(most_tokens(request))
        self._spending.hold(most)
        try:
            reply = self._fetch(request)
        except BaseException:
            self._spending.release(most)
            raise
        if reply.finish == "refused":
            self._spending.release(most)
            return reply
        self._spending.settle(most, reply.usage, self._address.prices)
        self._replies.put(request, reply)
        return reply

    def _fetch(self, request: Request) -> Reply:
        for _ in range(_MALFORMED_TRIES):
            try:
                reply = reply_of(self._body(request))
            except self._library.APIStatusError as error:
                return self._refusal(error)
            except self._library.APIConnectionError as error:
                raise ShardError(f"{self._address.url} cannot be reached: {error.__cause__ or error}.") from error
            if reply is not None:
                self._count_answer()
                return reply
        raise ShardError(f"{self._address.url} answers in no form of a chat endpoint, {_MALFORMED_TRIES} times.")

    def _body(self, request: Request) -> bytes:
        response = self._client.chat.completions.with_raw_response.create(
            model=request.model, messages=list(request.messages), extra_body=dict(request.sampling)
        )
        return bytes(response.content)

    def _count_answer(self) -> None:
        with self._lock:
            self._answered += 1

    def _refusal(self, error: Any) -> Reply:
        """Return the empty answer to a request that the endpoint refuses."""
        detail = scrub_text(" ".join(str(error.message).split()))[:_SHOWN]
        message = f"{self._address.url} answers {error.status_code}: {detail}"
        if error.status_code in _DENIED:
            raise ConfigError(f"{message}. Look at the address, the name of the model and the key.") from error
        if error.status_code not in _REFUSED:
            raise ShardError(message) from error
        with self._lock:
            self._refused += 1
            if not self._answered and self._refused >= _REFUSALS:
                raise ConfigError(f"{message}. None of the first {_REFUSALS} requests was taken.") from error
        return Reply("", finish="refused")


def most_tokens(request: Request) -> Usage:
    """Estimate the most tokens that a request may use: a generous count of the prompt plus the bound of the answer."""
    texts = pa.array([message["content"] for message in request.messages], pa.string())
    lengths = [request.sampling[name] for name in _LENGTHS if name in request.sampling]
    return Usage(int(_GENEROUS * TokenCounter().count(texts).sum()), max(lengths, default=_FALLBACK_LENGTH))


def reply_of(body: bytes) -> Reply | None:
    """Return the answer in the body of a chat completion; None if the body has another format.

    The model's reasoning is in `reasoning_content`, as in DeepSeek, vLLM and SGLang, or in `reasoning`. If the body has
    a `refusal` and no answer, the refusal becomes the content and the finish reason is `declined`.
    """
    try:
        values = json.loads(body)
        choice = values["choices"][0]
        message = choice["message"]
        content, reasoning = message.get("content"), message.get("reasoning_content") or message.get("reasoning")
        finish, declined = choice.get("finish_reason"), message.get("refusal")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None
    if content is reasoning is None and isinstance(declined, str):
        content, finish = declined, DECLINED
    if not isinstance(content, str | None) or not isinstance(reasoning, str | None) or content is reasoning is None:
        return None
    revision = values.get("system_fingerprint")
    return Reply(
        _encodable(content or ""),
        _encodable(reasoning or ""),
        finish if isinstance(finish, str) else "stop",
        _usage(values.get("usage")),
        revision if isinstance(revision, str) else "",
    )


def _encodable(text: str) -> str:
    """Return the text with lone surrogates replaced, which JSON can hold and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()


def _usage(values: Any) -> Usage | None:
    if not isinstance(values, Mapping):
        return None
    counts = values.get("prompt_tokens"), values.get("completion_tokens")
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        return None
    return Usage(*counts)  # type: ignore[arg-type]
