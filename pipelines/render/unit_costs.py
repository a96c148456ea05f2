"""Token counts of a unit's trajectories as they would be shown, summed over pieces without reading any text.

Budgets are drawn by these sums, and each sample states its own.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.recipe.recipe import Mix, Pool
from trajmill.pipelines.render.costs import ANSWER, ESCAPABLE, IN_CONTEXT, SAID, STATE_BIT, USER
from trajmill.pipelines.render.fixed_texts import heading
from trajmill.pipelines.render.pieces import Flags, Numbers, View
from trajmill.pipelines.render.prompts import CONTEXT, Extent, Shape, Tool, Wording, fit_prompt, prompt_tokens
from trajmill.pipelines.render.turns import Excerpts, Outline
from trajmill.quality.texts import Texts
from trajmill.quality.tokens import TokenCounter


class UnitCosts(Outline):
    """The outline of trajectories of one domain with their token counts.

    Args:
        costs: counts of their rows (`render.costs.COUNTED`), in file order, with whole trajectories or whole segments.
        use: use of each row, one of `schemas.verdict.USES`.

    Attributes:
        segments: number of each among the segments of a split trajectory, from 0.
        keys: key of each trajectory, by which its template is drawn.
        bears: for each row, whether its answer bears the loss.
        answers: tokens of each row's assistant message, 0 if it is not shown.
        borne: of these, the tokens that bear the loss where the message does.
        has_placeholders: for each row, whether its answer holds placeholders.
        states: tokens of the state before each row's action.
        said: tokens of the words of others before each row.
        prompt_holds: for each trajectory, whether its prompt holds a control string.
        escapable: for each row, whether escaping could change its text.
    """

    def __init__(self, costs: pa.Table, use: npt.NDArray[Any], domain: str, counter: TokenCounter) -> None:
        self._costs, self.domain, self._counter = costs, domain, counter
        segment, self.steps = self._column("segment"), self._column("step")
        ids = costs["trajectory_id"].combine_chunks()
        begun = np.ones(len(use), np.bool_)
        begun[1:] = (self.steps[1:] == 0) | (segment[1:] != segment[:-1])
        begun[1:] |= pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
        texts = (self._column(name) for name in ("state_hash", "next_hash"))
        super().__init__(np.flatnonzero(begun), self._column("turn"), use, *texts)
        self.sizes = np.diff(self.begins, append=len(use))
        self.segments = segment[self.begins]
        split = self._column("num_segments")[self.begins] > 1
        first = ids.take(pa.array(self.begins)).to_pylist(), self.segments.tolist(), split.tolist()
        self.keys = [f"{own}-{part}" if more else own for own, part, more in zip(*first, strict=True)]
        self.bears: Flags = (use == "target") & self._column("can_bear")
        self.answers = np.where(self.visible, self._column("answer_tokens"), 0).astype(np.int64)
        placeholder_tokens = self._column("placeholder_tokens")
        self.borne = self.answers - np.where(self.visible, placeholder_tokens, 0)
        self.has_placeholders: Flags = placeholder_tokens > 0
        self.states = self._column("state_tokens")
        self._control = self._column("control")
        self.prompt_holds = (self._control[self.begins] & IN_CONTEXT) > 0
        self.escapable = (self._control & ESCAPABLE) > 0
        # words of others precede the first shown row of their turn
        self.said = self._column("said_tokens")
        words_tokens = np.bincount(self.turn, self.said)[self.turn] if len(use) else np.zeros(0)
        self._spoke = np.bincount(self.turn, (self._control & SAID) > 0)[self.turn] > 0 if len(use) else self.bears
        self._users = self._column("user_tokens") + np.where(self.first, words_tokens, 0).astype(np.int64)

    def _column(self, name: str) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = self._costs[name].to_numpy()
        return values

    def summed(self, values: npt.NDArray[Any]) -> Numbers:
        """Sum a number of each row over each trajectory."""
        return np.add.reduceat(values.astype(np.int64), self.begins) if len(values) else np.zeros(0, np.int64)

    def whole(self) -> Excerpts:
        """Return all shown turns of each trajectory that shows any."""
        counts = self.summed(self.visible)
        return Excerpts.of(self, np.flatnonzero(self.visible), counts[counts > 0])

    def users(self, shown: Excerpts) -> Numbers:
        """Count the tokens of the user message of each turn of excerpts, without openings."""
        most = int(shown.numbers.max(initial=0)) + 1
        heads = self._counter.count(pa.array([heading(number) for number in range(1, most + 1)], pa.string()))
        users: Numbers = self._users[shown.rows] + (heads - heads[:1])[shown.numbers]
        return users + np.where(shown.shows, self.states[shown.rows], 0)

    def holds(self, shown: Excerpts) -> Flags:
        """Flag the turns of excerpts that show a control string."""
        bits = self._control[shown.rows]
        holds: Flags = (bits & (USER | ANSWER)) > 0
        holds |= shown.shows & ((bits & STATE_BIT) > 0)
        return holds | (self.first[shown.rows] & self._spoke[shown.rows])

    def to_last_target(self) -> Flags:
        """Flag the shown rows up to the last target of their trajectory."""
        rows = np.arange(len(self.bears))
        last = np.maximum.reduceat(np.where(self.bears, rows, -1), self.begins)
        return self.visible & (rows <= last[self.of])

    def prompts(self, pool: Pool, mix: Mix) -> Numbers:
        """Count the tokens of the prompt of each trajectory."""
        view, wording = View.of(mix), Wording.of(mix, pool)
        arguments = zip(self.shapes, self.context_tokens, self.keys, strict=True)
        return np.array(
            [prompt_tokens(*trajectory_arguments, wording, view, self._counter) for trajectory_arguments in arguments],
            np.int64,
        )

    def fitted(self, number: int, rows: Numbers, most: float, pool: Pool, mix: Mix) -> Extent:
        """Choose the extent of the prompt of a sample that is too long in full; see `fit_prompt`.

        Args:
            most: largest number of tokens of the prompt.
        """
        sizes = (
            self._costs[name][int(self.begins[number])].as_py() or [] for name in ("tool_tokens", "tool_name_tokens")
        )
        tools = [Tool(*tool_sizes) for tool_sizes in zip(*sizes, strict=True)]
        named = set(self._costs["named_tools"].take(pa.array(rows)).combine_chunks().flatten().to_pylist())
        view, wording = View.of(mix), Wording.of(mix, pool)
        shape, texts, key = self.shapes[number], self.context_tokens[number], self.keys[number]
        return fit_prompt(shape, texts, tools, named, most, key, wording, view, self._counter)

    @cached_property
    def context_tokens(self) -> list[list[int]]:
        """Tokens of the texts of each trajectory's context (`CONTEXT`)."""
        sizes: list[list[int]] = np.stack(
            [self._column(f"{name}_tokens")[self.begins] for name in CONTEXT], axis=1
        ).tolist()
        return sizes

    @cached_property
    def shapes(self) -> list[Shape]:
        """The prompt shape of each trajectory."""
        flags = (self.summed(self.visible & self._column(name)) > 0 for name in ("has_ending", "has_envelope"))
        ends, objects = (flag.tolist() for flag in flags)
        forms, dialects, screens = self._words("form"), self._words("dialect"), self._screens()
        return [
            Shape(
                self.domain,
                forms.get(number, ()),
                dialects.get(number, ()),
                ends[number],
                objects[number],
                screens.get(number, ""),
                tuple(size > 0 for size in sizes),
            )
            for number, sizes in enumerate(self.context_tokens)
        ]

    def _words(self, name: str) -> dict[int, tuple[str, ...]]:
        """Collect the distinct values of a column on the shown rows of each trajectory that has any, sorted."""
        texts = Texts.of(self._costs[name].combine_chunks())
        rows = np.flatnonzero(self.visible & (texts.index >= 0))
        words, words_of = texts.texts.to_pylist(), dict[int, list[str]]()
        for pair in np.unique(self.of[rows] * len(words) + texts.index[rows]).tolist():
            words_of.setdefault(pair // len(words), []).append(words[pair % len(words)])
        return {number: tuple(sorted(filter(None, some))) for number, some in words_of.items()}

    def _screens(self) -> dict[int, str]:
        """Return the first screen size of each trajectory that has any."""
        rows = np.flatnonzero(self._costs["screen"].is_valid().to_numpy())
        numbers, first = np.unique(self.of[rows], return_index=True)
        sizes: list[str] = self._costs["screen"].take(pa.array(rows[first])).to_pylist()
        return dict(zip(numbers.tolist(), sizes, strict=True))
