"""What was asked of models and what they answered, kept by content, so that nothing is paid for twice.

An answer is a file of its own, named by the digest of the request, the model, the sampling and the number of the
answer, and written in one step: a process may be killed at any time, and the next one goes on with what is there.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ShardError
from trajmill.synthesis.spending import Usage

_VERSION: Final = 1
"""Of what a key is made from, and of a file's form."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a model is asked.

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
    """What a model answered.

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
