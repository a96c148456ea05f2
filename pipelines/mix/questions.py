"""Questions: the turn of a trajectory that RL asks for, with the truth that a reward holds a prediction against."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from pipelines.mix.checks import checks_of, drawn, ground_truth, looked_at, rubric_id, weight
from pipelines.recipe.recipe import Mix
from pipelines.rendering.answered import Answered, Distractors, Known, turn_of
from pipelines.rendering.loss_spans import turn_spans
from pipelines.rendering.turns import MARKER, Turn
from schemas.verdict import SIGNAL_PREFIX


def answered_turns(shown: Sequence[Turn], looked: Container[str]) -> list[Answered]:
    """Turns as checks are derived from them, each with what was shown before it.

    Args:
        shown: all turns of the trajectory.
        looked: keys of those whose spans are told.
    """
    found: list[Answered] = []
    before: str | None = None
    for turn in shown:
        labelled = turn_spans(turn)[1:] if turn.row["row_id"] in looked else []
        spans = [(one.begin - len(MARKER), one.end - len(MARKER), one.label) for one in labelled]
        known = [(begin, end, label) for begin, end, label in spans if label is not None]
        volatile = [(begin, end) for begin, end, label in known if label == "volatile"]
        previous = turn.state if turn.state is not None else before
        found.append(turn_of(turn.row, turn.observation, previous, volatile, known))
        before = turn.observation
    return found


def turn_powers(mix: Mix) -> Mapping[str, float]:
    """The signals by which the chance of turns is multiplied, and the power of each."""
    stage = mix.stages.get("rl")
    return (stage.weigh_turns or {}) if stage is not None else {}


def chance_by(turn: Turn, powers: Mapping[str, float]) -> float:
    """By what the chance of a turn is multiplied: the product of its signals to their powers, each cut to 0 … 1."""
    found = 1.0
    for name, power in powers.items():
        found *= min(max(turn.row[SIGNAL_PREFIX + name], 0.0), 1.0) ** power
    return found


def question(
    shown: Sequence[Turn],
    places: Sequence[int],
    initial_state: str | None,
    others: Distractors,
    mix: Mix,
) -> tuple[int, str] | None:
    """(place, ground truth) of the turn that is asked for; None if there is none whose answer a rule can tell.

    Args:
        shown: all turns of the trajectory.
        places: of those that may be asked for.
        initial_state: that the system prompt tells.
        others: answers of other turns.
        mix: the recipe's section.
    """
    seed, powers = mix.seed, turn_powers(mix)
    allowed = {shown[place].row["row_id"]: place for place in places}
    looked = looked_at(allowed, seed)
    told = answered_turns(shown, looked)
    known = _known(told, initial_state)
    checks: dict[str, list[dict[str, Any]]] = {}

    def weighed(key: str) -> float:
        turn = told[allowed[key]]
        checks[key] = checks_of(turn, known[allowed[key]], others.of(turn))
        return weight(turn, checks[key], seed) * chance_by(shown[allowed[key]], powers)

    key = drawn(looked, weighed, seed)
    return None if key is None else (allowed[key], ground_truth(told[allowed[key]], checks[key], rubric_id()))


def _known(told: Sequence[Answered], initial_state: str | None) -> list[Known]:
    """What the trajectory has shown when each turn is acted in."""
    known, found = Known(), []
    known.saw(initial_state)
    for one in told:
        known.saw(one.previous)
        found.append(known.now())
        known.add(one)
    return found
