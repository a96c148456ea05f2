"""Tokens of samples, from the costs of their rows: what a mixture is drawn by, without a text being read.

What a sample says of itself (`num_tokens`, `num_loss_tokens`) comes from the same sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.recipe.recipe import Mix, Pool
from trajmill.pipelines.recipe.templates import PromptTemplate
from trajmill.pipelines.render.control_bits import ALWAYS, ESCAPABLE, SAID, STATE
from trajmill.pipelines.render.control_bits import CONTEXT as IN_CONTEXT
from trajmill.pipelines.render.prompts import ASKING, CONTEXT, Shape, Wording, fixed_text
from trajmill.pipelines.render.turns import BETWEEN, Outline, Turn, View, heading
from trajmill.pipelines.render.windows import BETWEEN as ASIDE
from trajmill.pipelines.render.windows import Group, cuts
from trajmill.quality.texts import Texts
from trajmill.quality.tokens import Counts, TokenCounter


class Tokens(NamedTuple):
    """Tokens of a sample, and of what bears the loss in it."""

    whole: int
    loss: int


@dataclass(frozen=True, slots=True)
class Rendered:
    """What trajectories become, each of which is a stretch of rows: of one, or of one segment of it.

    Attributes:
        begins: its first row.
        samples: how many it becomes.
        tokens: of all of these. Which turns RL and eval ask for hangs on texts: there it is of one prompt, in the mean
            of the turns that may be asked for.
        loss_tokens: of what bears the loss in them; in RL and eval, of an answer in the same mean.
    """

    begins: Counts
    samples: Counts
    tokens: Counts
    loss_tokens: Counts


def prompt_tokens(
    drawn: PromptTemplate, shape: Shape, texts: Sequence[int], pool: str, view: View, counter: TokenCounter
) -> int:
    """Tokens of a system prompt, given those of the texts of its context (`CONTEXT`)."""
    text, uses = fixed_text(drawn, shape, pool, view)
    return counter.of(text) + sum(use * size for use, size in zip(uses, texts, strict=True))


TurnTokens: TypeAlias = tuple[list[int], list[int]]
"""Tokens of the user text of each turn, and of its assistant text."""


def turn_tokens(shown: Sequence[Outline | Turn], counter: TokenCounter) -> TurnTokens:
    """Tokens of the user text and of the assistant text of each turn, whose rows bear their costs."""
    first = counter.of(heading(1))
    users = [
        turn.row["user_tokens"]
        + (turn.row["state_tokens"] if turn.shows_state else 0)
        + turn.said_tokens
        + counter.of(heading(number))
        - first
        for number, turn in enumerate(shown, 1)
    ]
    return users, [turn.row["answer_tokens"] for turn in shown]


def whole_tokens(
    pool: str, prompt: int, users: Sequence[int], answers: Sequence[int], loss: Sequence[bool], counter: TokenCounter
) -> Tokens:
    """Tokens of a sample of CPT or SFT, of its prompt and turns."""
    borders = 2 * len(users) * counter.of(BETWEEN) + 1 if pool == "cpt" else 0
    borne = sum(size for size, bears in zip(answers, loss, strict=True) if bears)
    return Tokens(prompt + sum(users) + sum(answers) + borders, borne)


def askable(
    pool: Pool,
    mix: Mix,
    prompt: int,
    users: Sequence[int],
    answers: Sequence[int],
    loss: Sequence[bool],
    held: Sequence[bool],
) -> dict[int, bool]:
    """The places of turns that RL or eval may ask for, and whether all that comes before fits the bound.

    Where the recipe drops what holds control strings, none is asked for from the first turn on that is `held`.
    """
    most, before = mix.window_tokens[pool], prompt
    found: dict[int, bool] = {}
    for place, (user, answer, bears, holds) in enumerate(zip(users, answers, loss, held, strict=True)):
        if holds and mix.control_tokens == "drop":
            break
        fits = most is None or before + user <= most
        if bears and answer <= mix.max_response_tokens and (fits or mix.overflow[pool] != "drop"):
            found[place] = fits
        before += user + answer
    return found


def rendered_tokens(
    costs: pa.Table, use: npt.NDArray[Any], domain: str, pool: Pool, mix: Mix, counter: TokenCounter
) -> Rendered:
    """The tokens of all samples that the trajectories of a unit become in a pool.

    Windows of terminals and repositories are told without what opens a later one (folder and files, at most some
    hundred tokens), and as if no target of theirs hung on what was cut off.

    Args:
        costs: of rows, in the order of their file; each trajectory whole, or each segment of it.
        use: of each row, of `schemas.verdict.USES`.
        domain: of all rows.
        pool: one of `POOLS`.
        mix: the recipe's section.
        counter: counts tokens under the recipe's tokenizer.
    """
    if not costs.num_rows:
        none = np.zeros(0, np.int64)
        return Rendered(none, none, none, none)
    unit, is_whole = UnitTokens(costs, use, domain, counter), pool in ("cpt", "sft")
    wholes = summed_wholes(unit, pool, mix, counter)
    taught, long = wholes.taught.astype(np.int64), wholes.long
    if mix.control_tokens == "drop":
        taught[unit.prompt_holds | ((wholes.control_turns > 0) & ~long & is_whole)] = 0
    found = Rendered(unit.begins, taught, taught * wholes.tokens, taught * wholes.loss_tokens)
    if not is_whole:
        return _asked(unit, wholes, taught > 0, pool, mix, counter)
    for number in np.flatnonzero((taught > 0) & long).tolist():
        made = unit.part(number, int(wholes.prompts[number]), wholes.held).windows(pool, mix, counter)
        found.samples[number] = len(made)
        found.tokens[number], found.loss_tokens[number] = (sum(of) for of in zip(Tokens(0, 0), *made, strict=True))
    return found


def _asked(
    unit: UnitTokens, wholes: Wholes, taught: npt.NDArray[np.bool_], pool: Pool, mix: Mix, counter: TokenCounter
) -> Rendered:
    """What RL or eval asks for in the mean of the turns that `askable` lets it ask for; nothing without such."""
    rows = np.flatnonzero(unit.visible & taught[unit.of])
    of, answers, most = unit.of[rows], unit.answers[rows], mix.window_tokens[pool]
    begins = np.searchsorted(of, of)
    shown = np.append(0, np.cumsum(unit.users[rows] + answers))
    before = wholes.prompts[of] + shown[1:] - shown[begins] - answers
    fits = before <= most if most is not None and mix.overflow[pool] == "drop" else True
    can = unit.bears[rows] & (answers <= mix.max_response_tokens) & fits
    if mix.control_tokens == "drop":
        holding = np.append(0, np.cumsum(unit.holds[rows]))
        can &= holding[1:] == holding[begins]
    count = np.bincount(of[can], minlength=len(taught))
    sizes = (before if most is None else np.minimum(before, most), answers)
    asked, answered = (
        np.rint(np.bincount(of[can], size[can], len(taught)) / np.maximum(count, 1)).astype(np.int64) for size in sizes
    )
    drawn = (count > 0).astype(np.int64)
    return Rendered(unit.begins, drawn, drawn * (asked + counter.of(ASKING)), answered)


@dataclass(frozen=True, slots=True)
class Wholes:
    """The trajectories of a unit, each as one sample that shows all of it, whether or not it may.

    Attributes:
        held: of each row, whether the sample shows it: in CPT and SFT none behind the last target.
        prompts: tokens of the prompt.
        turns: how many the sample shows.
        tokens: of the sample.
        loss_tokens: of what bears the loss in it.
        control_turns: turns of it that hold a control string.
        taught: whether any turn of it bears the loss.
        long: whether it is longer than a window.
    """

    held: npt.NDArray[np.bool_]
    prompts: Counts
    turns: Counts
    tokens: Counts
    loss_tokens: Counts
    control_turns: Counts
    taught: npt.NDArray[np.bool_]
    long: npt.NDArray[np.bool_]


def summed_wholes(unit: UnitTokens, pool: Pool, mix: Mix, counter: TokenCounter) -> Wholes:
    """What each trajectory of a unit would be as one sample of a pool."""
    held = unit.to_last_target() if pool in ("cpt", "sft") else unit.visible
    prompts, shown = unit.prompts(pool, mix), unit.summed(held)
    turns = unit.summed(np.where(held, unit.users + unit.answers, 0))
    borders = 2 * shown * counter.of(BETWEEN) + 1 if pool == "cpt" else 0
    most = mix.window_tokens[pool]
    return Wholes(
        held,
        prompts,
        shown,
        prompts + turns + borders,
        unit.summed(np.where(unit.bears, unit.answers, 0)),
        unit.summed(unit.holds & held),
        unit.summed(unit.bears) > 0,
        prompts + turns + ASIDE * shown > most if most is not None else np.zeros(len(turns), np.bool_),
    )


class UnitTokens:
    """The rows of a unit, or of some of its trajectories: what samples show of them, and its tokens.

    Attributes:
        begins: the first row of each trajectory.
        of: the number of each row's trajectory.
        steps: of each row, the trajectory's step.
        keys: of each trajectory, by which its template is drawn.
        visible: whether samples show the row.
        bears: whether its answer bears the loss.
        users: tokens of its user text, 0 where it is not shown.
        answers: tokens of its assistant text, 0 where it is not shown.
        shows: whether the state before its action is shown.
        numbers: its place among the shown rows of its trajectory, from 0; 0 where it is not shown.
        holds: whether what is shown of it holds a control string.
        prompt_holds: of each trajectory, whether its prompt does.
        escapable: whether escaping could change something of the row.
    """

    def __init__(self, costs: pa.Table, use: npt.NDArray[Any], domain: str, counter: TokenCounter) -> None:
        self._costs, self._domain, self._counter = costs, domain, counter
        segment, step, turn = (self._column(name) for name in ("segment", "step", "turn"))
        ids = costs["trajectory_id"].combine_chunks()
        self.steps = step
        begun = np.ones(len(step), np.bool_)
        begun[1:] = (step[1:] == 0) | (segment[1:] != segment[:-1])
        begun[1:] |= pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
        self.begins = np.flatnonzero(begun)
        self.of = np.cumsum(begun) - 1
        begun[1:] |= turn[1:] != turn[:-1]
        self._turn = np.cumsum(begun) - 1
        split = self._column("num_segments")[self.begins] > 1
        first = ids.take(pa.array(self.begins)).to_pylist(), segment[self.begins].tolist(), split.tolist()
        self.keys = [f"{own}-{part}" if more else own for own, part, more in zip(*first, strict=True)]
        self.visible = use != "omit"
        self.bears = (use == "target") & self._column("can_bear")
        self.answers = np.where(self.visible, self._column("answer_tokens"), 0).astype(np.int64)
        self._control = self._column("control")
        self.prompt_holds = (self._control[self.begins] & IN_CONTEXT) > 0
        self.escapable = (self._control & ESCAPABLE) > 0
        self.users = self._users()

    def _column(self, name: str) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = self._costs[name].to_numpy()
        return found

    def summed(self, of: npt.NDArray[Any]) -> Counts:
        """The sum over each trajectory of a number of each row."""
        return np.add.reduceat(of.astype(np.int64), self.begins)

    def _users(self) -> Counts:
        """Also finds which rows show the state, and which are the first of their turn that are shown."""
        rows = np.flatnonzero(self.visible)
        turn, of = self._turn[rows], self.of[rows]
        first = np.ones(len(rows), np.bool_)
        first[1:] = turn[1:] != turn[:-1]
        before = np.zeros(len(rows), np.uint64)
        before[1:] = np.where(of[1:] == of[:-1], self._column("next_hash")[rows[:-1]], 0)
        state = self._column("state_hash")[rows]
        shows = first & (state != 0) & (state != before)
        told = np.bincount(self._turn, self._column("said_tokens"), self._turn[-1] + 1).astype(np.int64)
        number = np.arange(len(rows)) - np.searchsorted(of, of)
        self._headings = self._heading_tokens(int(number.max(initial=0)) + 1)
        users = np.zeros(len(self.visible), np.int64)
        users[rows] = self._column("user_tokens")[rows] + self._headings[number]
        users[rows] += np.where(first, told[turn], 0) + np.where(shows, self._column("state_tokens")[rows], 0)
        bits = self._control[rows]
        spoke = np.bincount(self._turn, (self._control & SAID) > 0, self._turn[-1] + 1)[turn] > 0
        self.holds = np.zeros(len(self.visible), np.bool_)
        self.holds[rows] = ((bits & ALWAYS) > 0) | (shows & ((bits & STATE) > 0)) | (first & spoke)
        self._is_first, self.shows = np.zeros((2, len(self.visible)), np.bool_)
        self._is_first[rows], self.shows[rows] = first, shows
        self.numbers = np.zeros(len(self.visible), np.int64)
        self.numbers[rows] = number
        return users

    def _heading_tokens(self, number: int) -> Counts:
        """Tokens that the headings of so many turns have more than that of the first."""
        sizes = self._counter.count(pa.array([heading(one) for one in range(1, number + 1)], pa.string()))
        return sizes - sizes[:1]

    def prompts(self, pool: Pool, mix: Mix) -> Counts:
        """Tokens of the prompt of each trajectory."""
        view, wording = View.of(mix), Wording.of(mix, pool)
        context = np.stack([self._column(f"{name}_tokens")[self.begins] for name in CONTEXT], axis=1).tolist()
        drawn = (wording.template(self._domain, key) for key in self.keys)
        told = zip(drawn, self.shapes(), context, strict=True)
        return np.array([prompt_tokens(*one, pool, view, self._counter) for one in told], np.int64)

    def shapes(self) -> list[Shape]:
        """Of each trajectory the shape of its prompt."""
        flags = (self.summed(self.visible & self._column(name)) > 0 for name in ("has_ending", "has_envelope"))
        ends, objects = (flag.tolist() for flag in flags)
        given = np.stack([self._column(f"{name}_tokens")[self.begins] > 0 for name in CONTEXT], axis=1).tolist()
        forms, dialects, screens = self._words("form"), self._words("dialect"), self._screens()
        return [
            Shape(
                self._domain,
                forms.get(number, ()),
                dialects.get(number, ()),
                ends[number],
                objects[number],
                screens.get(number, ""),
                tuple(texts),
            )
            for number, texts in enumerate(given)
        ]

    def _words(self, name: str) -> dict[int, tuple[str, ...]]:
        """The values of a column on the shown rows of each trajectory that has any, in order."""
        texts = Texts.of(self._costs[name].combine_chunks())
        rows = np.flatnonzero(self.visible & (texts.index >= 0))
        words, found = texts.texts.to_pylist(), dict[int, list[str]]()
        for pair in np.unique(self.of[rows] * len(words) + texts.index[rows]).tolist():
            found.setdefault(pair // len(words), []).append(words[pair % len(words)])
        return {number: tuple(sorted(filter(None, some))) for number, some in found.items()}

    def _screens(self) -> dict[int, str]:
        """The first size of a screen that each trajectory tells, if it does."""
        rows = np.flatnonzero(self._costs["screen"].is_valid().to_numpy())
        numbers, first = np.unique(self.of[rows], return_index=True)
        sizes: list[str] = self._costs["screen"].take(pa.array(rows[first])).to_pylist()
        return dict(zip(numbers.tolist(), sizes, strict=True))

    def to_last_target(self) -> npt.NDArray[np.bool_]:
        """Of each row whether it is shown and not behind the last target of its trajectory."""
        rows = np.arange(len(self.bears))
        last = np.maximum.reduceat(np.where(self.bears, rows, -1), self.begins)
        return self.visible & (rows <= last[self.of])

    def part(self, number: int, prompt: int, held: npt.NDArray[np.bool_]) -> _Part:
        """A trajectory by itself, of whose rows those are taken that are `held`."""
        end = self.begins[number + 1] if number + 1 < len(self.begins) else len(self.visible)
        rows = np.arange(self.begins[number], end)[held[self.begins[number] : end]]
        begins = np.flatnonzero(self._is_first[rows])
        states = np.where(self.shows[rows], 0, self._column("state_tokens")[rows])
        extra = self._headings[: len(rows)]
        told = self.users[rows], self.answers[rows], self.bears[rows]
        return _Part(prompt, *told, begins, states, extra, self.holds[rows], (self._control[rows] & STATE) > 0)


@dataclass(frozen=True, slots=True)
class _Part:
    """The shown rows of one trajectory.

    Attributes:
        prompt: tokens of its prompt.
        users: tokens of their user texts.
        answers: tokens of their assistant texts.
        bears: whether these bear the loss.
        begins: the first of each turn.
        states: tokens of the state of each, where it is known and not shown.
        headings: tokens that their headings have more than the first.
        holds: whether they hold a control string.
        state_holds: whether the state before them does, shown or not.
    """

    prompt: int
    users: Counts
    answers: Counts
    bears: npt.NDArray[np.bool_]
    begins: Counts
    states: Counts
    headings: Counts
    holds: npt.NDArray[np.bool_]
    state_holds: npt.NDArray[np.bool_]

    def windows(self, pool: Pool, mix: Mix, counter: TokenCounter) -> list[Tokens]:
        """The samples of CPT or SFT that a trajectory longer than a window becomes."""
        most = mix.window_tokens[pool]
        assert most is not None
        sizes = np.add.reduceat(self.users + self.answers + ASIDE, self.begins)
        chosen = zip(self.begins.tolist(), sizes.tolist(), self.states[self.begins].tolist(), strict=True)
        groups = [Group(*group) for group in chosen]
        found = []
        for begin, past in cuts(groups, self.prompt, most, mix.overflow[pool]):
            opening = groups[begin].opening if begin else 0
            fits = self.prompt + sum(group.size for group in groups[begin:past]) + opening <= most
            first = groups[begin].first
            bearing = np.flatnonzero(self.bears[first : groups[past].first if past < len(groups) else None])
            rows = slice(first, first + int(bearing[-1]) + 1 if len(bearing) else first)
            if mix.control_tokens == "drop":
                fits = fits and not (self.holds[rows].any() or (begin and self.state_holds[first]))
            if fits and len(bearing):
                users = self.users[rows] - self.headings[rows] + self.headings[: len(self.users[rows])]
                told = users.tolist(), self.answers[rows].tolist(), self.bears[rows].tolist()
                found.append(whole_tokens(pool, self.prompt + opening, *told, counter))
        return found
