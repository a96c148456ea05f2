"""Plans of samples, made before any text is written: the turns that a pool's samples show, and their tokens.

Plans without texts set the budgets of draws, and samples are written by the same plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.pipelines.recipe.recipe import Mix, Pool
from trajmill.pipelines.render.fixed_texts import ASKING, BETWEEN
from trajmill.pipelines.render.pieces import Flags, Numbers
from trajmill.pipelines.render.prompts import Extent
from trajmill.pipelines.render.turns import Excerpts
from trajmill.pipelines.render.unit_costs import UnitCosts
from trajmill.pipelines.render.windows import ASIDE, Window, windows
from trajmill.quality.tokens import TokenCounter

WHOLE_POOLS: Final = frozenset({"cpt", "sft"})
"""Pools whose samples show whole trajectories, or windows of them."""

_EVALUATED: Final = 5
"""Number of turns of a trajectory that AgentWorldBench asks for, before half of its samples were taken."""


class Unlearnable(NamedTuple):
    """Cause why rows become no sample: the reason of their reject, and an explanation."""

    reason: str
    detail: str


HOLDING: Final = Unlearnable(
    "control_tokens", "what it would show holds a string that chat tokenizers take for a control token"
)
UNANSWERABLE: Final = Unlearnable("no_question", "no turn of it has an answer that a rule can tell")
UNPROVEN: Final = Unlearnable("not_certified", "no turn of it led to the same when it was replayed")


class PlannedSample(NamedTuple):
    """A sample to be written.

    Attributes:
        begin: its first row, shown or not.
        bears: for each, whether its answer bears the loss.
        opening: text before its first turn.
        truth: ground truth of the reward.
        quality: how well the reward separates wrong answers from the truth, from 0 to 1.
    """

    number: int
    begin: int
    rows: Numbers
    bears: Flags
    key: str
    opening: str = ""
    truth: str = ""
    quality: float = 0.0


class RefusedRows(NamedTuple):
    """Rows [begin, end) that become no sample; `is_part` if they are a window."""

    begin: int
    end: int
    why: Unlearnable
    is_part: bool = False


class TokenBudget(NamedTuple):
    """Sizes of the samples of trajectories.

    Attributes:
        begins: first row of each trajectory.
        tokens: tokens of all its samples. The turns of RL and eval depend on texts, so there it is the mean over the
            prompts of the turns that may be asked for.
        loss_tokens: tokens under loss in them; in RL and eval, tokens of an answer, by the same mean.
    """

    begins: Numbers
    samples: Numbers
    tokens: Numbers
    loss_tokens: Numbers


class Plan:
    """Samples of the trajectories of a unit in a pool.

    Args:
        unit: the trajectories, at least one.
        counter: token counter of the recipe's tokenizer.

    Attributes:
        prompts: tokens of each full prompt.
        shown: rows that a sample of each whole trajectory would show; in CPT and SFT up to the last target.
        users: tokens of the user message of each shown row.
        control_turns: number of its turns that hold a control string.
        taught: whether any turn of it bears the loss.
        long: whether it is longer than a window.
    """

    def __init__(self, unit: UnitCosts, pool: Pool, mix: Mix, counter: TokenCounter) -> None:
        self.unit, self.pool, self.mix, self.counter = unit, pool, mix, counter
        is_shown = unit.to_last_target() if pool in WHOLE_POOLS else unit.visible
        rows, self.counts = np.flatnonzero(is_shown), unit.summed(is_shown)
        self.shown = Excerpts.of(unit, rows, self.counts[self.counts > 0])
        self.users, self.prompts = unit.users(self.shown), unit.prompts(pool, mix)
        bodies = self._summed(self.users + unit.answers[rows])
        sizes = self.prompts + bodies
        self.tokens = sizes + borders(pool, self.counts, counter)
        if pool in WHOLE_POOLS:
            nonempty = np.flatnonzero(self.counts)
            self.tokens[nonempty] += self.prompts_of(nonempty, self.shown, bodies[nonempty]) - self.prompts[nonempty]
        self.loss_tokens = self._summed(np.where(unit.bears[rows], unit.borne[rows], 0))
        self.control_turns = self._summed(unit.holds(self.shown))
        self.taught: Flags = unit.summed(unit.bears) > 0
        most = mix.window_tokens[pool]
        self.long: Flags = sizes + ASIDE * self.counts > (np.inf if most is None else most)

    def _summed(self, values: npt.NDArray[Any]) -> Numbers:
        """Sum a number of each shown row over each trajectory."""
        return np.bincount(self.unit.of[self.shown.rows], values, len(self.counts)).astype(np.int64)

    @property
    def drops(self) -> bool:
        """True if the recipe drops samples that hold control strings."""
        return self.mix.control_tokens == "drop"

    def is_plain(self) -> Flags:
        """Flag the trajectories that become one sample each that shows all of them."""
        plain = self.taught & ~self.long
        return plain & ~self.unit.prompt_holds & (self.control_turns == 0) if self.drops else plain

    def rows_of(self, number: int) -> Numbers:
        """Return the shown rows of a trajectory."""
        return self.shown.rows[self.places_of(number)]

    def places_of(self, number: int) -> slice:
        """Return the positions of a trajectory's shown rows among all shown rows."""
        return slice(*np.searchsorted(self.shown.rows, (self.unit.begins[number], self.end_of(number))))

    def end_of(self, number: int) -> int:
        """Return the row after the last one of a trajectory."""
        return int(self.unit.begins[number] + self.unit.sizes[number])

    def refused(self, number: int) -> RefusedRows | None:
        """Refuse a trajectory that becomes no sample whichever turns are shown; None if it may become one."""
        if not self.taught[number]:
            return self.refuse(number, self._untaught())
        return self.refuse(number, HOLDING) if self.drops and self.unit.prompt_holds[number] else None

    def refuse(self, number: int, why: Unlearnable) -> RefusedRows:
        """Return the refusal of a whole trajectory."""
        return RefusedRows(int(self.unit.begins[number]), self.end_of(number), why)

    def _untaught(self) -> Unlearnable:
        return Unlearnable("no_target", f"no turn of it can stand alone as a target in pool {self.pool}")

    def over(self) -> Unlearnable:
        """Return the cause that nothing of a trajectory fits."""
        most = self.mix.window_tokens[self.pool]
        if most is None:
            answer = self.mix.max_response_tokens
            return Unlearnable("over_window", f"every answer is longer than the {answer:,} tokens of a response")
        return Unlearnable("over_window", f"longer than the {most:,} tokens of a sample of pool {self.pool}")

    def windows(self, number: int, actions: Sequence[str] | None) -> Iterator[PlannedSample | RefusedRows]:
        """Yield the samples of CPT or SFT. Each ends with its last target, since later turns teach nothing.

        The first sample has the id of the trajectory, others `<id>@<step>` of their first row.

        Args:
            actions: texts of its actions; None if unknown.
        """
        if (refused := self.refused(number)) is not None:
            yield refused
            return
        key, has_first, has_any, is_cut = self.unit.keys[number], False, False, bool(self.long[number])
        for window in self._cut(number, self.rows_of(number), self.end_of(number), actions):
            has_any = True
            taught = np.flatnonzero(window.bears)
            count = int(taught[-1]) + 1 if len(taught) else 0
            rows = window.rows[:count]
            if window.fits and self.drops and self._holds(rows):
                yield RefusedRows(window.begin, window.end, HOLDING, is_cut)
            elif not window.fits or not count:
                yield RefusedRows(window.begin, window.end, self._untaught() if window.fits else self.over(), is_cut)
            else:
                own = f"{key}@{self.unit.steps[window.begin]}" if has_first else key
                has_first = True
                yield PlannedSample(number, window.begin, rows, window.bears[:count], own, window.opening)
        if not has_any:
            yield self.refuse(number, self.over())

    def _cut(
        self, number: int, rows: Numbers, end: int, actions: Sequence[str] | None, overflow: Any = None
    ) -> Iterator[Window]:
        bound = self.mix.window_tokens[self.pool], overflow or self.mix.overflow[self.pool]
        return windows(self.unit, rows, end, int(self.prompts[number]), *bound, actions, self.counter)

    def _holds(self, rows: Numbers) -> bool:
        """Return True if an excerpt shows a control string."""
        if not len(rows):
            return False
        return bool(self.unit.holds(Excerpts.of(self.unit, rows, np.array([len(rows)]))).any())

    def askable(self) -> tuple[Flags, Flags, Numbers]:
        """Return for each shown row whether it may be asked for, whether its history fits, and the tokens before it.

        The tokens are those of the prompt and all turns up to the row's action. If the recipe drops samples that hold
        control strings, no turn is asked for from the first that holds one.
        """
        rows, most = self.shown.rows, self.mix.window_tokens[self.pool]
        answers, trajectories = self.unit.answers[rows], self.unit.of[rows]
        begins = np.searchsorted(trajectories, trajectories)
        ends = np.append(0, np.cumsum(self.users + answers))
        before = self.prompts[trajectories] + ends[1:] - ends[begins] - answers
        fits = before <= most if most is not None else np.ones(len(rows), np.bool_)
        is_askable = self.unit.bears[rows] & (answers <= self.mix.max_response_tokens)
        if self.mix.overflow[self.pool] == "drop":
            is_askable &= fits
        if self.drops:
            holding = np.append(0, np.cumsum(self.unit.holds(self.shown)))
            is_askable &= holding[1:] == holding[begins]
        return is_askable, fits, before

    def refuse_unasked(self, number: int) -> RefusedRows:
        """Refuse a trajectory of which no turn may be asked for, or none fits."""
        return self.refuse(number, HOLDING if self.drops and self.control_turns[number] else self.over())

    def question(self, number: int, position: int, fits: bool, actions: Sequence[str]) -> PlannedSample | None:
        """Return the sample that asks for a turn; None if the turn alone is too long.

        The sample shows all turns before it, or the newest of them.

        Args:
            position: position of the turn among the shown ones.
            fits: whether all turns before it fit.
        """
        begin, key = int(self.unit.begins[number]), self.unit.keys[number]
        rows = self.rows_of(number)[: position + 1]
        if self.pool == "eval":
            key = f"{key}:{self.unit.steps[rows[-1]]}"
        if fits:
            return PlannedSample(number, begin, rows, self.unit.bears[rows], key)
        end = int(rows[-1]) + 1
        (cut,) = self._cut(number, rows, end, actions[: end - begin], "cut_oldest")
        if not cut.fits or not cut.bears[-1]:
            return None
        return PlannedSample(number, begin, cut.rows, cut.bears, key, cut.opening)

    def evaluated(self, number: int, can: Numbers) -> list[int]:
        """Choose the turns of a trajectory that eval asks for, as AgentWorldBench does.

        These are the first, the last and three between them, and half of those by hash, at least one. AgentWorldBench
        has 12 to 38 turns per trajectory. A trajectory with at most five such turns gives only the last one, which has
        the longest history.

        Args:
            can: positions of the turns that may be asked for, in order.
        """
        positions, rows = can.tolist(), self.rows_of(number)
        if len(positions) <= _EVALUATED:
            return positions[-1:]
        positions = [positions[round(n * (len(positions) - 1) / (_EVALUATED - 1))] for n in range(_EVALUATED)]
        key, seed = self.unit.keys[number], self.mix.seed
        draws = sorted(
            (keyed_hash(f"turn:{key}:{self.unit.steps[rows[position]]}", seed), position) for position in positions
        )
        return sorted([position for lot, position in draws if lot < 1 << 63] or [position for _, position in draws[:1]])

    def plan_budget(self) -> TokenBudget:
        """Compute the tokens of all samples.

        Windows of terminals and repositories are counted without the opening of a later window (folder and files, at
        most some hundred tokens), and as if no target depended on an omitted part.
        """
        if self.pool not in WHOLE_POOLS:
            return self._asked()
        samples = self.is_plain().astype(np.int64)
        budget = TokenBudget(self.unit.begins, samples, samples * self.tokens, samples * self.loss_tokens)
        for number in np.flatnonzero(self.taught & self.long).tolist():
            for sample in self.windows(number, None):
                if isinstance(sample, PlannedSample):
                    shown = Excerpts.of(self.unit, sample.rows, np.array([len(sample.rows)]))
                    body = self.bodies(shown, 0)
                    tokens = self.prompts_of([number], shown, body) + body
                    budget.samples[number] += 1
                    budget.tokens[number] += int((tokens + borders(self.pool, shown.counts, self.counter))[0])
                    budget.loss_tokens[number] += int(self.unit.borne[sample.rows[sample.bears]].sum())
        return budget

    def extents(self, numbers: Any, shown: Excerpts, bodies: Numbers) -> list[Extent]:
        """Choose the extent of each sample's prompt, so that it has at most the recipe's share of the sample.

        Args:
            bodies: tokens of the text after the prompt.
        """
        share, full = self.mix.prompt_share, self.prompts[numbers]
        extents, begins = list(map(Extent, full.tolist())), shown.begins
        for index in np.flatnonzero(full > share * (full + bodies)).tolist():
            rows = shown.rows[begins[index] : begins[index] + shown.counts[index]]
            most = share / (1 - share) * int(bodies[index])
            extents[index] = self.unit.fitted(int(numbers[index]), rows, most, self.pool, self.mix)
        return extents

    def prompts_of(self, numbers: Any, shown: Excerpts, bodies: Numbers) -> Numbers:
        """Return the tokens of each sample's prompt. Arguments are those of `extents`."""
        return np.array([extent.tokens for extent in self.extents(numbers, shown, bodies)], np.int64)

    def bodies(self, shown: Excerpts, openings: Any) -> Numbers:
        """Return the tokens of the text after each sample's prompt, without the separators of turns."""
        answers = self.unit.answers[shown.rows]
        if self.pool not in WHOLE_POOLS:
            answers[np.cumsum(shown.counts) - 1] = self.counter.of(ASKING)
        bodies: Numbers = shown.sums(self.unit.users(shown) + answers) + openings
        return bodies

    def _asked(self) -> TokenBudget:
        """Compute the mean size of one turn that may be asked for, after a full prompt.

        Trajectories without such a turn have size 0.
        """
        can, _, before = self.askable()
        trajectories, answers = self.unit.of[self.shown.rows], self.unit.answers[self.shown.rows]
        most, size = self.mix.window_tokens[self.pool], len(self.counts)
        if self.drops:
            can = can & ~self.unit.prompt_holds[trajectories]
        count = np.bincount(trajectories[can], minlength=size)
        prompt_tokens, answer_tokens = (
            np.rint(np.bincount(trajectories[can], values[can], size) / np.maximum(count, 1)).astype(np.int64)
            for values in (before if most is None else np.minimum(before, most), answers)
        )
        drawn = (count > 0).astype(np.int64)
        return TokenBudget(self.unit.begins, drawn, drawn * (prompt_tokens + self.counter.of(ASKING)), answer_tokens)


def borders(pool: str, turns: Numbers, counter: TokenCounter) -> Numbers | int:
    """Return the tokens of the separators between the turns of a pool's samples."""
    return 2 * turns * counter.of(BETWEEN) + 1 if pool == "cpt" else 0


def budget_samples(
    costs: pa.Table, use: npt.NDArray[Any], domain: str, pool: Pool, mix: Mix, counter: TokenCounter
) -> TokenBudget:
    """Compute the tokens of all samples of a unit's trajectories in a pool. Arguments are those of `UnitCosts`."""
    if not costs.num_rows:
        return TokenBudget(*np.zeros((4, 0), np.int64))
    return Plan(UnitCosts(costs, use, domain, counter), pool, mix, counter).plan_budget()
