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

    `refused`: The endpoint refused the request. `cut`: The answer ends at its length limit. `no_reasoning`: The answer
    has no reasoning. `malformed`: The answer does not hold one observation between its tags after the reasoning.
    """

    REFUSED = "refused"
    CUT = "cut"
    NO_REASONING = "no_reasoning"
    MALFORMED = "malformed"


def format_prediction(prediction: Prediction) -> str:
    """Return the prediction as an assistant message."""
    return "".join(pieces(prediction))


def pieces(prediction: Prediction) -> tuple[str, str, str, str, str]:
    """Split the assistant message into five pieces: frame, reasoning, frame, observation, frame."""
    middle = f"\n{THOUGHT}\n\n{OPENING}\n"
    return f"{THINK}\n", prediction.reasoning, middle, prediction.observation, f"\n{CLOSING}"


def prediction_of(reply: Reply) -> Prediction | Fault:
    """Parse the prediction in an answer.

    The reasoning is a field of its own if the endpoint separates it. Otherwise it ends at the first `</think>` of the
    answer; a chat template may have removed the opening tag. The last `<predicted_observation>` after the reasoning
    counts. It must be closed with nothing behind it. One line break at either end of the observation belongs to the
    tags.
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
    """Check that parsing the text of `format_prediction` returns the same prediction."""
    thought, rest = _apart(format_prediction(prediction))
    return (thought.strip(), _observation(rest)) == prediction and THINK not in prediction.reasoning


def observation_in(content: str) -> str | None:
    """Return the observation between the tags of an answer, parsed as strictly; None unless there is exactly one."""
    return _observation(_apart(content)[1])


def unthought(content: str) -> str:
    """Return an answer without the delimited and closed reasoning at its beginning."""
    _, rest = _apart(content)
    return rest if rest is content else rest.lstrip("\n")


def without_thoughts(content: str) -> str:
    """Convert an earlier assistant message for a reasoning model: the observation under its heading alone."""
    if not content.startswith(f"{THINK}\n"):
        return content
    observation = _observation(_apart(content)[1])
    return content if observation is None else MARKER + observation


def _apart(content: str) -> tuple[str, str]:
    """Split an answer into (reasoning, rest); the reasoning is empty if it is not closed."""
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
