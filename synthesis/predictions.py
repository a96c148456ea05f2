"""Predictions: a model's reasoning and the observation it predicts, parsed strictly and written in the same form."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from trajmill.pipelines.render.fixed_texts import CLOSING, MARKER, OPENING
from trajmill.synthesis.replies import Reply

THINK: Final = "<think>"
THOUGHT: Final = "</think>"


class Prediction(NamedTuple):
    """Reasoning of a model, and the observation that it predicts."""

    reasoning: str
    observation: str


class Fault(StrEnum):
    """Reason why an answer is not a prediction.

    `refused`: the endpoint took no such request. `cut`: it ends at the length that it may have. `no_reasoning`: it says
    nothing of how it came about. `malformed`: it does not hold one observation between its tags, after the thoughts.
    """

    REFUSED = "refused"
    CUT = "cut"
    NO_REASONING = "no_reasoning"
    MALFORMED = "malformed"


def format_prediction(prediction: Prediction) -> str:
    """The prediction as an assistant message."""
    return "".join(pieces(prediction))


def pieces(prediction: Prediction) -> tuple[str, str, str, str, str]:
    """The assistant message in five: frame, reasoning, frame, observation, frame."""
    middle = f"\n{THOUGHT}\n\n{OPENING}\n"
    return f"{THINK}\n", prediction.reasoning, middle, prediction.observation, f"\n{CLOSING}"


def prediction_of(reply: Reply) -> Prediction | Fault:
    """The prediction in an answer.

    Thoughts stand apart where the endpoint tells them apart, else up to the first `</think>` of the answer, whose
    beginning a chat template may have taken. Behind them the last `<predicted_observation>` counts; it has to be
    closed, with nothing behind it, and one line break at either end of the observation is the tags'.
    """
    if reply.finish == "refused":
        return Fault.REFUSED
    if reply.finish == "length":
        return Fault.CUT
    thought, rest = (reply.reasoning, reply.content) if reply.reasoning else _apart(reply.content)
    observation = _observation(rest)
    if observation is None:
        return Fault.MALFORMED
    prediction = Prediction(thought.strip(), observation)
    if not prediction.reasoning:
        return Fault.NO_REASONING
    return prediction if is_plain(prediction) else Fault.MALFORMED


def is_plain(prediction: Prediction) -> bool:
    """Check that the text `format_prediction` makes of a prediction is read as that prediction again."""
    thought, rest = _apart(format_prediction(prediction))
    return (thought.strip(), _observation(rest)) == prediction and THINK not in prediction.reasoning


def observation_in(content: str) -> str | None:
    """The observation that an answer holds between its tags, read as strictly; None if it holds none, or not one."""
    return _observation(_apart(content)[1])


def unthought(content: str) -> str:
    """Return an answer without the reasoning that it begins with, if that is delimited and ends."""
    _, rest = _apart(content)
    return rest if rest is content else rest.lstrip("\n")


def without_thoughts(content: str) -> str:
    """An assistant message of earlier turns as a model that thinks is to see it: the observation under its heading."""
    if not content.startswith(f"{THINK}\n"):
        return content
    observation = _observation(_apart(content)[1])
    return content if observation is None else MARKER + observation


def _apart(content: str) -> tuple[str, str]:
    """(thoughts, what follows them) of an answer that holds both; no thoughts where none are closed."""
    thought, closed, rest = content.partition(THOUGHT)
    if not closed:
        return "", content
    return thought.lstrip().removeprefix(THINK), rest


def _observation(rest: str) -> str | None:
    _, opened, behind = rest.rpartition(OPENING)
    if not opened or behind.count(CLOSING) != 1:
        return None
    observation, _, after = behind.partition(CLOSING)
    if after.strip() or observation.lstrip().startswith(MARKER.strip()):
        return None
    return observation.removeprefix("\n").removesuffix("\n")
