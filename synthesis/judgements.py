"""Judgments of predictions by a model: scores in five dimensions against the observation, and the better of two.

The judge never sees what a prediction's model thought, so that no reasoning talks it round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from trajmill.synthesis.endpoint import Endpoint
from trajmill.synthesis.replies import Reply, Request
from trajmill.synthesis.wording import asking, object_in

DIMENSIONS: Final = ("format", "factuality", "consistency", "realism", "quality")
"""Of the published judge of world models; each is scored from 1 to 5."""

_LEAST, _MOST = 1, 5
_TRIES: Final = 3
"""How often a judge is asked whose answer cannot be read."""


def scale_score(raw: float) -> float:
    """A score of 1 to 5 as one of 0 to 1."""
    return (raw - _LEAST) / (_MOST - _LEAST)


@dataclass(frozen=True, slots=True)
class Question:
    """Question to a judge about a target: domain, the turns before it as text, the user message, the observation."""

    domain: str
    history: str
    action: str
    truth: str

    def values(self) -> dict[str, str]:
        """As the variables of templates."""
        return {"domain": self.domain, "history": self.history, "action": self.action, "truth": self.truth}


@dataclass(frozen=True, slots=True)
class Judge:
    """A model that judges."""

    endpoint: Endpoint
    model: str
    sampling: Mapping[str, Any]

    def scores(self, question: Question, prediction: str) -> dict[str, int] | None:
        """The raw scores of a prediction by dimension; None if the judge says none that can be read.

        Raises:
            ConfigError, ShardError, SpentError: as of `Endpoint.ask`.
        """
        words = asking("judge_scores").messages(**question.values(), prediction=prediction)
        return next(filter(None, (scores_in(reply) for reply in self.replies(words))), None)

    def better(self, question: Question, one: str, other: str) -> Literal["one", "other"] | None:
        """Choose the better of two predictions, asked in both orders; None where answers differ or are unreadable."""
        forth, back = self._first(question, one, other), self._first(question, other, one)
        if forth is None or back is None or forth == back:
            return None
        return "one" if forth else "other"

    def _first(self, question: Question, first: str, second: str) -> bool | None:
        """Return whether the first prediction is better; None where the answer cannot be read."""
        words = asking("judge_pair").messages(**question.values(), first=first, second=second)
        choices = (_choice_in(reply) for reply in self.replies(words))
        return next((choice == "A" for choice in choices if choice is not None), None)

    def replies(self, words: tuple[dict[str, str], ...]) -> Any:
        """Answers to the same words, one after another, as they are asked for."""
        for index in range(_TRIES):
            yield self.endpoint.ask(Request(self.model, words, dict(self.sampling), index))


def scores_in(reply: Reply, dimensions: Sequence[str] = DIMENSIONS) -> dict[str, int] | None:
    """The whole numbers of 1 to 5 that an answer gives to each dimension; None if one is missing or is none."""
    values = object_in(reply)
    if values is None:
        return None
    raw = {name: values.get(name) for name in dimensions}
    if all(type(value) is int and _LEAST <= value <= _MOST for value in raw.values()):
        return raw  # type: ignore[return-value]
    return None


def mean_score(raw: Mapping[str, int]) -> float:
    """The mean of raw scores, from 0 to 1, to four digits."""
    return round(sum(map(scale_score, raw.values())) / len(raw), 4)


def _choice_in(reply: Reply) -> str | None:
    values = object_in(reply)
    choice = values.get("better") if values is not None else None
    return choice if choice in ("A", "B") else None
