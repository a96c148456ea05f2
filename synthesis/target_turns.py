"""Target turns: the one turn of an SFT sample that a model is to predict, and what it is shown for that.

What was really observed is never among the words that a generating model is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import xxhash

from trajmill.pipelines.render.capping import capped
from trajmill.pipelines.render.fixed_texts import ASKING, MARKER
from trajmill.quality.tokens import TokenCounter
from trajmill.synthesis.judgements import Question
from trajmill.synthesis.predictions import without_thoughts
from trajmill.synthesis.tagged_prompts import tagged_system

_JUDGED_TURNS: Final = 6
_JUDGED_MESSAGE: Final = 4_000
_JUDGED_ACTION: Final = 24_000
_JUDGED_OBSERVATION: Final = 60_000
"""Turns of the history, and characters of texts, that a judge is shown."""


@dataclass(frozen=True, slots=True)
class TargetTurn:
    """A turn to be predicted.

    Attributes:
        message: number of the assistant message among those of the sample.
        shown: the messages that the generating model is sent, the last of which asks.
        truth: what was observed.
    """

    message: int
    shown: tuple[dict[str, str], ...]
    truth: str


def target_turn(
    sample: Mapping[str, Any], most_tokens: int, counter: TokenCounter, seed: int = 0, folder: Path | None = None
) -> TargetTurn | None:
    """One of a sample's turns that bear loss and whose prompt is within the bound, drawn by hash; None if none is.

    Args:
        sample: a row of SFT shards.
        most_tokens: of a prompt.
        counter: counts tokens under the recipe's tokenizer.
        seed: of the draw.
        folder: of the user's own templates, if the recipe names one.
    """
    messages: Sequence[Mapping[str, Any]] = sample["messages"]
    sizes = counter.count(pa.array([message["content"] for message in messages], pa.string())).tolist()
    before = [0, *accumulate(sizes)]
    fitting = [
        number
        for number, message in enumerate(messages)
        if message["loss"] and message["content"].startswith(MARKER) and before[number] <= most_tokens
    ]
    if not fitting:
        return None
    number = fitting[xxhash.xxh3_64_intdigest(f"reason:{sample['id']}".encode(), seed) % len(fitting)]
    return TargetTurn(
        number, _shown(messages[:number], sample["template"], folder), messages[number]["content"][len(MARKER) :]
    )


def _shown(messages: Sequence[Mapping[str, Any]], template: str, folder: Path | None) -> tuple[dict[str, str], ...]:
    said = [{"role": one["role"], "content": without_thoughts(one["content"])} for one in messages]
    if said[0]["role"] == "system":
        said[0]["content"] = tagged_system(said[0]["content"], template, folder)
    said[-1]["content"] += ASKING
    return tuple(said)


def question(domain: str, turn: TargetTurn) -> Question:
    """What a judge is told of a turn: the last turns before it, and long texts by their head and tail."""
    before = [one["content"] for one in turn.shown[:-1] if one["role"] != "system"][-2 * _JUDGED_TURNS :]
    action = turn.shown[-1]["content"].removesuffix(ASKING)
    history = "\n\n".join(capped(text, _JUDGED_MESSAGE) for text in before)
    return Question(domain, history, capped(action, _JUDGED_ACTION), capped(turn.truth, _JUDGED_OBSERVATION))


def judged(observation: str) -> str:
    """A prediction as a judge is shown it."""
    return capped(observation, _JUDGED_OBSERVATION)
