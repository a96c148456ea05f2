"""Questions: the turn of a trajectory that RL asks for, with the truth that a reward holds a prediction against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.mix.checks import checks_of, drawn, ground_truth, looked_at, rubric_id, weight
from pipelines.rendering.answered import Answered, Distractors, Known, turn_of
from pipelines.rendering.loss_spans import turn_spans
from pipelines.rendering.turns import MARKER, Turn


def answered_turns(shown: Sequence[Turn]) -> list[Answered]:
    """Turns as checks are derived from them, each with what was shown before it."""
    found: list[Answered] = []
    before: str | None = None
    for turn in shown:
        spans = [(one.begin - len(MARKER), one.end - len(MARKER), one.label) for one in turn_spans(turn)[1:]]
        known = [(begin, end, label) for begin, end, label in spans if label is not None]
        volatile = [(begin, end) for begin, end, label in known if label == "volatile"]
        previous = turn.state if turn.state is not None else before
        found.append(turn_of(turn.row, turn.observation, previous, volatile, known))
        before = turn.observation
    return found


def question(
    shown: Sequence[Turn], places: Sequence[int], initial_state: str | None, others: Distractors, seed: int
) -> tuple[int, str] | None:
    """(place, ground truth) of the turn that is asked for; None if there is none whose answer a rule can tell.

    Args:
        shown: all turns of the trajectory.
        places: of those that may be asked for.
        initial_state: that the system prompt tells.
        others: answers of other turns.
        seed: of the draw.
    """
    told = answered_turns(shown)
    allowed = {told[place].key: place for place in places}
    looked = looked_at(allowed, seed)
    known = Known()
    known.saw(initial_state)
    checks: dict[str, list[dict[str, Any]]] = {}
    for turn in told:
        known.saw(turn.previous)
        if turn.key in looked:
            checks[turn.key] = checks_of(turn, known, others.of(turn))
        known.add(turn)
    by_key = {turn.key: turn for turn in told}
    key = drawn({key: weight(by_key[key], checks[key], seed) for key in sorted(looked)}, seed)
    return None if key is None else (allowed[key], ground_truth(by_key[key], checks[key], rubric_id()))
