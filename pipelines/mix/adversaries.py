"""Adversarial answers of an RL turn, and a measure of how well the reward separates them from the truth."""

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
"""Number of shuffles that are tried to find an order of lines that differs from the original."""

_COPY: Final = 0.001
_NEAREST: Final = 1 - 1e-6
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz "


class Adversary(NamedTuple):
    """An answer and the range of scores, `low` to `high`, that it may have."""

    name: str
    answer: str
    low: float
    high: float


def adversaries(turn: Answered, other_answers: Sequence[str], seed: int = 0) -> Iterator[Adversary]:
    """Yield the answers that a reward has to rank: the truth in other wrappings, and wrong answers of many kinds.

    Args:
        seed: seed of the draws by hash of the turn's key.
    """
    text, form = turn.observation, turn.form
    draw = random.Random(xxhash.xxh3_64_intdigest(turn.key.encode(), seed))  # noqa: S311
    shows_state = form in reward.STATES and turn.previous is not None
    changes = shows_state and not reward.same(turn.previous or "", text, form)
    yield Adversary("truth", text, 1, 1)
    yield Adversary("fenced", f"<think>So.</think>\n{reward.MARKER}\n```\n{text}\n```", 1, 1)
    if (written := _rewrite_json(text, draw)) is not None:
        yield Adversary("other JSON", written, 0.95, 1)
    yield Adversary("empty", "", 0, 0.05)
    if changes:
        yield Adversary("previous", turn.previous or "", 0, _COPY)
        if (answer := _spoil_unchanged_lines(turn, draw)) is not None:
            yield Adversary("rubbish", answer, 0, 0.6)
    if not reward.same(turn.action, text, form):
        yield Adversary("echo", turn.action, 0, 0.6)
    if (answer := _shuffle_lines(text, draw)) is not None and (changes or not shows_state):
        yield Adversary("shuffled", answer, 0, 0.8)
    if (answer := _change_number(turn, draw)) is not None:
        yield Adversary("number", answer, 0, _NEAREST)
    other_answer = next((candidate for candidate in other_answers if not reward.same(candidate, text, form)), None)
    if other_answer is not None:
        yield Adversary("other answer", other_answer, 0, _NEAREST)
    if (answer := _half(turn)) is not None and not (shows_state and reward.same(answer, turn.previous or "", form)):
        yield Adversary("half", answer, 1e-9, _NEAREST)


def reward_quality(turn: Answered, ground_truth: str, other_answers: Sequence[str]) -> float | None:
    """Score the adversarial answers of a turn; None if the score of one is out of its range.

    The quality is 1 minus the best score of an entirely wrong answer: the state before, the action, the answer of
    another turn, or the truth with random letters in place of its unchanged lines.
    """
    best = 0.0
    for adversary in adversaries(turn, other_answers):
        score = reward.scored(adversary.answer, ground_truth)["score"]
        if not adversary.low <= score <= adversary.high:
            return None
        if adversary.name in ("previous", "echo", "other answer", "rubbish"):
            best = max(best, score)
    return round(1 - best, 4)


def _half(turn: Answered) -> str | None:
    """Return the first half of the answer; None if a half holds only blanks or volatile parts."""
    text = turn.observation.rstrip()
    middle = (len(text) + len(text) - len(text.lstrip())) // 2
    letters = list(text)
    for begin, end in turn.volatile:
        letters[begin:end] = " " * len(letters[begin:end])
    halves = "".join(letters[:middle]), "".join(letters[middle:])
    return text[:middle] if all(half.strip() for half in halves) else None


def _rewrite_json(text: str, draw: random.Random) -> str | None:
    """Rewrite a JSON text without blanks and with the members of objects in another order; None if it is no JSON."""
    document = reward.document_in(text)
    if document is None:
        return None
    try:
        written = json.dumps(_shuffle_members(document, draw), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return None
    return "\n".join(part for part in (written, reward.ending(text)) if part)


def _shuffle_members(value: Any, draw: random.Random) -> Any:
    if isinstance(value, dict):
        names = list(value)
        draw.shuffle(names)
        return {name: _shuffle_members(value[name], draw) for name in names}
    return [_shuffle_members(item, draw) for item in value] if isinstance(value, list) else value


def _spoil_unchanged_lines(turn: Answered, draw: random.Random) -> str | None:
    """Replace the unchanged lines of a state by random letters; None if no line or every line is unchanged."""
    before = set(reward.lines_of(turn.previous or "", turn.form))
    lines = turn.observation.split("\n")
    stays = [bool(before.intersection(reward.lines_of(line, turn.form))) for line in lines]
    if not any(stays) or not before or all(stays):
        return None
    rubbish = ["".join(draw.choices(_LETTERS, k=max(3, len(line)))) for line in lines]
    return "\n".join(bad if stay else line for line, bad, stay in zip(lines, rubbish, stays, strict=True))


def _shuffle_lines(text: str, draw: random.Random) -> str | None:
    """Return the lines in another order; None if there are fewer than three different ones."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len({line.strip() for line in lines}) < 3:
        return None
    orders = (draw.sample(lines, len(lines)) for _ in range(_TRIES))
    return next(("\n".join(order) for order in orders if order != lines), None)


def _change_number(turn: Answered, draw: random.Random) -> str | None:
    """Change one number of the text that is not volatile; None if there is none."""
    text = turn.observation
    spans = [
        match.span()
        for match in _NUMBER.finditer(text)
        if not any(begin < match.end() and match.start() < end for begin, end in turn.volatile)
    ]
    if not spans:
        return None
    begin, end = draw.choice(spans)
    return f"{text[:begin]}{int(text[begin:end]) + draw.randint(1, 9)}{text[end:]}"
