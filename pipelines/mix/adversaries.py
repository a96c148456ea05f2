"""Adversarial answers of an RL turn, and how well the reward tells them from the truth."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import xxhash

from trajmill.pipelines.mix import reward
from trajmill.pipelines.render.answered import Answered

_NUMBER: Final = re.compile(r"(?<![\w.])\d{1,9}(?![\w.])")
_TRIES: Final = 8
"""Orders of lines that are drawn to find one that is not the text's own."""

_COPY: Final = 0.001
_NEAREST: Final = 1 - 1e-6
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz "


class Adversary(NamedTuple):
    """An answer and the scores from `low` to `high` that it may have."""

    name: str
    answer: str
    low: float
    high: float


def adversaries(turn: Answered, others: Sequence[str], seed: int = 0) -> Iterator[Adversary]:
    """Make the answers that a reward has to rank: the truth in other wrappings, and wrong answers of many kinds.

    Args:
        turn: the action and its answer.
        others: other answers of the tool.
        seed: of what is drawn by hash of the turn's key.
    """
    text, form = turn.observation, turn.form
    draw = random.Random(xxhash.xxh3_64_intdigest(turn.key.encode(), seed))  # noqa: S311
    shows_state = form in reward.STATES and turn.previous is not None
    changes = shows_state and not reward.same(turn.previous or "", text, form)
    yield Adversary("truth", text, 1, 1)
    yield Adversary("fenced", f"<think>So.</think>\n{reward.MARKER}\n```\n{text}\n```", 1, 1)
    if (written := _rewritten(text, draw)) is not None:
        yield Adversary("other JSON", written, 0.95, 1)
    yield Adversary("empty", "", 0, 0.05)
    if changes:
        yield Adversary("previous", turn.previous or "", 0, _COPY)
        if (answer := _spoiled(turn, draw)) is not None:
            yield Adversary("rubbish", answer, 0, 0.6)
    if not reward.same(turn.action, text, form):
        yield Adversary("echo", turn.action, 0, 0.6)
    if (answer := _shuffled(text, draw)) is not None and (changes or not shows_state):
        yield Adversary("shuffled", answer, 0, 0.8)
    if (answer := _renumbered(turn, draw)) is not None:
        yield Adversary("number", answer, 0, _NEAREST)
    other = next((one for one in others if not reward.same(one, text, form)), None)
    if other is not None:
        yield Adversary("other answer", other, 0, _NEAREST)
    if (answer := _half(turn)) is not None and not (shows_state and reward.same(answer, turn.previous or "", form)):
        yield Adversary("half", answer, 1e-9, _NEAREST)


def reward_quality(turn: Answered, ground_truth: str, others: Sequence[str]) -> float | None:
    """Score the adversarial answers of a turn; None if one of them is out of its bounds.

    The quality is 1 less the best score of a wholly wrong answer: the state before, the action, the answer of another
    turn, or the truth with rubbish in place of what stays.
    """
    best = 0.0
    for one in adversaries(turn, others):
        score = reward.scored(one.answer, ground_truth)["score"]
        if not one.low <= score <= one.high:
            return None
        if one.name in ("previous", "echo", "other answer", "rubbish"):
            best = max(best, score)
    return round(1 - best, 4)


def _half(turn: Answered) -> str | None:
    """The first half of the answer; None if only blanks or volatile parts stand in one of the halves."""
    text = turn.observation.rstrip()
    middle = (len(text) + len(text) - len(text.lstrip())) // 2
    told = list(text)
    for first, last in turn.volatile:
        told[first:last] = " " * len(told[first:last])
    halves = "".join(told[:middle]), "".join(told[middle:])
    return text[:middle] if all(half.strip() for half in halves) else None


def _rewritten(text: str, draw: random.Random) -> str | None:
    """The JSON that a text is, without blanks and with the members of objects in another order."""
    document = reward.document_in(text)
    if document is None:
        return None
    try:
        written = json.dumps(_reordered(document, draw), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return None
    return "\n".join(part for part in (written, reward.ending(text)) if part)


def _reordered(value: Any, draw: random.Random) -> Any:
    if isinstance(value, dict):
        names = list(value)
        draw.shuffle(names)
        return {name: _reordered(value[name], draw) for name in names}
    return [_reordered(item, draw) for item in value] if isinstance(value, list) else value


def _spoiled(turn: Answered, draw: random.Random) -> str | None:
    """The state with random letters in place of the lines that stay as they were; None if none or all do."""
    before = set(reward.lines_of(turn.previous or "", turn.form))
    lines = turn.observation.split("\n")
    stays = [bool(before.intersection(reward.lines_of(line, turn.form))) for line in lines]
    if not any(stays) or not before or all(stays):
        return None
    rubbish = ["".join(draw.choices(_LETTERS, k=max(3, len(line)))) for line in lines]
    return "\n".join(bad if stay else line for line, bad, stay in zip(lines, rubbish, stays, strict=True))


def _shuffled(text: str, draw: random.Random) -> str | None:
    """The lines in another order; None if there are fewer than three different ones."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len({line.strip() for line in lines}) < 3:
        return None
    orders = (draw.sample(lines, len(lines)) for _ in range(_TRIES))
    return next(("\n".join(order) for order in orders if order != lines), None)


def _renumbered(turn: Answered, draw: random.Random) -> str | None:
    """The text with one number changed that is not volatile."""
    text = turn.observation
    places = [
        found.span()
        for found in _NUMBER.finditer(text)
        if not any(begin < found.end() and found.start() < end for begin, end in turn.volatile)
    ]
    if not places:
        return None
    begin, end = draw.choice(places)
    return f"{text[:begin]}{int(text[begin:end]) + draw.randint(1, 9)}{text[end:]}"
