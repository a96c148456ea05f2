"""Judgments of predictions by a model: scores in five dimensions against the observation, and the better of two.

The judge never sees the reasoning behind a prediction, so the reasoning cannot persuade it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from trajmill.synthesis.endpoint import Endpoint
from trajmill.synthesis.replies import Reply, Request
from trajmill.synthesis.wording import asking, object_in

DIMENSIONS: Final = ("format", "factuality", "consistency", "realism", "quality")
"""Dimensions of the published judge of world models, each scored from 1 to 5."""

_LEAST, _MOST = 1, 5
_TRIES: Final = 3
"""Number of times a judge is asked when its answers cannot be parsed."""


def scale_score(raw: float) -> float:
    """Convert a score from 1 to 5 to a score from 0 to 1."""
    return (raw - _LEAST) / (_MOST - _LEAST)


@dataclass(frozen=True, slots=True)
class Question:
    """Question to a judge about a target: the domain, the turns before as text, user message and observation."""

    domain: str
    history: str
    action: str
    truth: str

    def values(self) -> dict[str, str]:
        """Return the fields as template variables."""
        return {"domain": self.domain, "history": self.history, "action": self.action, "truth": self.truth}


@dataclass(frozen=True, slots=True)
class Judge:
    """Model that judges."""

    endpoint: Endpoint
    model: str
    sampling: Mapping[str, Any]

    def scores(self, question: Question, prediction: str) -> dict[str, int] | None:
        """Return the raw scores of a prediction by dimension; None if no answer of the judge can be parsed.

        Raises:
            ConfigError, ShardError, SpentError: As in `Endpoint.ask`.
        """
        words = asking("judge_scores").messages(**question.values(), prediction=prediction)
        return next(filter(None, (scores_in(reply) for reply in self.replies(words))), None)

    def better(self, question: Question, one: str, other: str) -> Literal["one", "other"] | None:
        """Choose the better of two predictions by asking in both orders; None if answers disagree or are unclear."""
        forth, back = self._first(question, one, other), self._first(question, other, one)
        if forth is None or back is None or forth == back:
            return None
        return "one" if forth else "other"

    def _first(self, question: Question, first: str, second: str) -> bool | None:
        """Check whether the first prediction is better; None if the answer cannot be parsed."""
        words = asking("judge_pair").messages(**question.values(), first=first, second=second)
        choices = (_choice_in(reply) for reply in self.replies(words))
        return next((choice == "A" for choice in choices if choice is not None), None)

    def replies(self, words: tuple[dict[str, str], ...]) -> Any:
        """Yield answers to the same prompt, each asked for on demand."""
        for index in range(_TRIES):
            yield self.endpoint.ask(Request(self.model, words, dict(self.sampling), index))


def scores_in(reply: Reply, dimensions: Sequence[str] = DIMENSIONS) -> dict[str, int] | None:
    """Return the integer scores from 1 to 5 in an answer by dimension; None if a score is missing or invalid."""
    values = object_in(reply)
    if values is None:
        return None
    raw = {name: values.get(name) for name in dimensions}
    if all(type(value) is int and _LEAST <= value <= _MOST for value in raw.values()):
        return raw  # type: ignore[return-value]
    return None


def mean_score(raw: Mapping[str, int]) -> float:
    """Return the mean of raw scores, from 0 to 1, rounded to four digits."""
    return round(sum(map(scale_score, raw.values())) / len(raw), 4)


def _choice_in(reply: Reply) -> str | None:
    values = object_in(reply)
    choice = values.get("better") if values is not None else None
    return choice if choice in ("A", "B") else None
