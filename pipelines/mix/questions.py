"""Questions: the turn of a trajectory that RL asks for, with the truth that a reward holds a prediction against."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from trajmill.pipelines.mix.checks import checks_of, drawn, ground_truth, looked_at, rubric_id, weight
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.render.answered import Answered, Distractors, Known, turn_of
from trajmill.pipelines.render.loss_spans import turn_spans
from trajmill.pipelines.render.turns import MARKER, Outline, Turn, View, answering
from trajmill.quality.scrubbing.replaced import replaced_spans
from trajmill.schemas.verdict import SIGNAL_PREFIX


def answered_turns(shown: Iterable[Turn], looked: Container[str]) -> Iterator[Answered]:
    """Turns as checks are derived from them, each with what was shown before it.

    Args:
        shown: the turns of the trajectory.
        looked: keys of those whose spans are told.
    """
    before: str | None = None
    for turn in shown:
        labelled = turn_spans(turn)[1:] if turn.row["row_id"] in looked else []
        spans = [(one.begin - len(MARKER), one.end - len(MARKER), one.label) for one in labelled]
        known = [(begin, end, label) for begin, end, label in spans if label is not None]
        volatile = [(begin, end) for begin, end, label in known if label == "volatile"]
        if turn.row["scrubbed"]:
            volatile = sorted([*volatile, *replaced_spans(turn.observation)])
        previous = turn.state if turn.state is not None else before
        yield turn_of(turn.row, turn.observation, previous, volatile, known)
        before = turn.observation


def turn_powers(mix: Mix) -> Mapping[str, float]:
    """The signals by which the chance of turns is multiplied, and the power of each."""
    stage = mix.stages.get("rl")
    return (stage.weigh_turns or {}) if stage is not None else {}


def chance_by(row: Mapping[str, Any], powers: Mapping[str, float]) -> float:
    """By what the chance of a turn is multiplied: the product of its signals to their powers, each cut to 0 … 1."""
    found = 1.0
    for name, power in powers.items():
        found *= min(max(row[SIGNAL_PREFIX + name], 0.0), 1.0) ** power
    return found


def question(
    allowed: Mapping[str, int],
    turns: Callable[[Container[str]], Iterator[Answered]],
    initial_state: str | None,
    others: Distractors,
    seed: int,
    chance: Callable[[str], float] = lambda _: 1.0,
) -> tuple[int, str] | None:
    """(place, ground truth) of the turn that is asked for; None if there is none whose answer a rule can tell.

    Args:
        allowed: places of the turns that may be asked for, by their keys.
        turns: all turns of the trajectory; it is told the keys of those that one is drawn from.
        initial_state: that the system prompt tells.
        others: answers of other turns.
        seed: of the draw.
        chance: by what the chance of a turn is multiplied.
    """
    looked = looked_at(allowed, seed)
    told = _Told(turns(looked), initial_state)
    checks: dict[str, list[dict[str, Any]]] = {}

    def weighed(key: str) -> float:
        turn, known = told.at(allowed[key])
        checks[key] = checks_of(turn, known, others.of(turn))
        return weight(turn, checks[key], seed) * chance(key)

    key = drawn(looked, weighed, seed)
    return None if key is None else (allowed[key], ground_truth(told.at(allowed[key])[0], checks[key], rubric_id()))


def question_of(
    whole: Sequence[Outline], places: Iterable[int], initial_state: str | None, others: Distractors, mix: Mix
) -> tuple[int, str] | None:
    """The same of the turns of a trajectory.

    Args:
        whole: all of them.
        places: of those that may be asked for.
        initial_state: as of `question`, as are `others`.
        others: as there.
        mix: the recipe's section.
    """
    powers, view = turn_powers(mix), View.of(mix)
    allowed = {whole[place].row["row_id"]: place for place in places}

    def turns(looked: Container[str]) -> Iterator[Answered]:
        return answered_turns(answering(whole, view), looked)

    def chance(key: str) -> float:
        return chance_by(whole[allowed[key]].row, powers)

    return question(allowed, turns, initial_state, others, mix.seed, chance)


class _Told:
    """The turns of a trajectory, and what it has shown when each is acted in, as far as they are asked for.

    Args:
        turns: in order.
        initial_state: that was shown before them.
    """

    def __init__(self, turns: Iterator[Answered], initial_state: str | None) -> None:
        self._turns, self._known = turns, Known()
        self._told: list[tuple[Answered, Known]] = []
        self._known.saw(initial_state)

    def at(self, place: int) -> tuple[Answered, Known]:
        """The turn at a place, and what was known before it."""
        for one in islice(self._turns, max(0, place + 1 - len(self._told))):
            self._known.saw(one.previous)
            self._told.append((one, self._known.now()))
            self._known.add(one)
        return self._told[place]
