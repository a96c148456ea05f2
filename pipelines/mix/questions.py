"""Turns that RL and eval may ask for, and the one that RL draws, with the ground truth of its reward."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from trajmill.pipelines.mix.adversaries import reward_quality
from trajmill.pipelines.mix.answerable import is_unknowable, mark_random_values
from trajmill.pipelines.mix.checks import checks_of, draw_key, ground_truth, rubric_id, weight
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.render.answered import Answered, Distractors, Known
from trajmill.pipelines.render.fixed_texts import MARKER
from trajmill.pipelines.render.loss_spans import Answer, answer_spans
from trajmill.quality.scrubbing.replaced import placeholder_spans
from trajmill.schemas import COMPLETE

ENDINGS: Final = frozenset({COMPLETE, "fail"})
"""Actions by which an agent ends its work. They ask nothing of the environment."""


def turn_powers(mix: Mix) -> Mapping[str, float]:
    """Return the signals that multiply the chance of turns, with the power of each."""
    stage = mix.stages.get("rl")
    return (stage.weigh_turns or {}) if stage is not None else {}


class ShownTurns(NamedTuple):
    """Turns of one domain as they are shown, as columns, with trajectories one after the other.

    Attributes:
        keys: row id of each turn.
        forms: form of each next observation.
        tools: name of each action.
        arguments: arguments of each action, as JSON.
        states: text before each action; None if unknown.
        scrubbed: whether texts of each were replaced.
        written: values that the run of each wrote into a database; empty if not needed.
    """

    domain: str
    keys: Sequence[str]
    forms: Sequence[str]
    tools: Sequence[str | None]
    arguments: Sequence[str | None]
    actions: Sequence[str | None]
    answers: Sequence[Answer]
    states: Sequence[str | None]
    scrubbed: Sequence[bool]
    written: Sequence[Sequence[str] | None]

    def answered(self, turns: range, looked: Collection[str]) -> Iterator[Answered]:
        """Yield the turns of a trajectory as inputs of checks, each with the text shown before it.

        Args:
            looked: keys of the turns whose spans are needed.
        """
        before: str | None = None
        for turn in turns:
            answer, state, key = self.answers[turn], self.states[turn], self.keys[turn]
            spans = answer_spans(answer)[1:] if key in looked and answer.labels is not None else []
            known = [(span.begin - len(MARKER), span.end - len(MARKER), span.label) for span in spans if span.label]
            volatile = [(begin, end) for begin, end, label in known if label == "volatile"]
            if answer.placeholders:
                volatile = sorted([*volatile, *placeholder_spans(answer.text)])
            yield Answered(
                key=key,
                domain=self.domain,
                form=self.forms[turn],
                tool=self.tools[turn] or "",
                arguments=self.arguments[turn],
                action=self.actions[turn] or "",
                observation=answer.text,
                previous=before if state is None else state,
                volatile=tuple(volatile),
                spans=tuple(known),
                scrubbed=self.scrubbed[turn],
                stored=tuple(self.written[turn] or ()) if self.written else (),
            )
            before = answer.text


def can_be_asked(turn: Answered, known: Known, other_answers: Sequence[str]) -> bool:
    """Return True if the action of a turn asks something of the environment and its answer can be predicted."""
    return turn.tool not in ENDINGS and not is_unknowable(turn, known, other_answers)


def answerable_turns(
    allowed: Mapping[str, int], turns: Iterator[Answered], initial_state: str | None, distractors: Distractors
) -> list[int]:
    """Return the positions of the turns that may be asked for, in order. Arguments are those of `question`."""
    asked_turns = _LazyTurns(turns, initial_state)
    candidates = ((position, *asked_turns.at(position)) for position in sorted(allowed.values()))
    return [position for position, turn, known in candidates if can_be_asked(turn, known, distractors.of(turn))]


def question(
    allowed: Mapping[str, int],
    turns: Iterator[Answered],
    initial_state: str | None,
    distractors: Distractors,
    seed: int,
    chance: Callable[[str], float] = lambda _: 1.0,
) -> tuple[int, str, float] | None:
    """Draw the turn to ask for, as (position, ground truth, reward quality); None if rules can rank no turn's answers.

    Args:
        turns: turns of the trajectory, up to the last of these.
    """
    asked_turns = _LazyTurns(turns, initial_state)
    truths: dict[str, tuple[Answered, str]] = {}

    def weighed(key: str) -> float:
        turn, known = asked_turns.at(allowed[key])
        if not can_be_asked(turn, known, distractors.of(turn)):
            return 0.0
        turn = mark_random_values(turn, known)
        checks = checks_of(turn, known, distractors.of(turn))
        truths[key] = turn, ground_truth(turn, checks, rubric_id())
        return weight(turn, checks, seed) * chance(key)

    remaining = dict(allowed)
    while (key := draw_key(remaining, weighed, seed)) is not None:
        position, (turn, truth) = remaining.pop(key), truths[key]
        quality = reward_quality(turn, truth, distractors.of(turn))
        if quality is not None:
            return position, truth, quality
    return None


class _LazyTurns:
    """Turns of a trajectory with the texts known before each, computed on demand.

    Args:
        turns: the turns in order.
    """

    def __init__(self, turns: Iterator[Answered], initial_state: str | None) -> None:
        self._turns, self._known = turns, Known()
        self._told: list[tuple[Answered, Known]] = []
        self._known.saw(initial_state)

    def at(self, position: int) -> tuple[Answered, Known]:
        """Return the turn at a position and the texts known before it."""
        for next_turn in islice(self._turns, max(0, position + 1 - len(self._told))):
            self._known.saw(next_turn.previous)
            self._told.append((next_turn, self._known.now()))
            self._known.add(next_turn)
        return self._told[position]
