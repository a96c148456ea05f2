"""Assembly of samples: it writes the samples of trajectories in each pool, in the columns that trainers read.

A plan gives the turns of each sample. Here their pieces are joined, many samples at once, without a Python object per
turn. `mix` chooses the pool of a trajectory and the shard of a sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.mix.checks import choose_considered
from trajmill.pipelines.mix.drawn_rows import Stretch, python_values
from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.pipelines.mix.questions import ShownTurns, answerable_turns, question, turn_powers
from trajmill.pipelines.mix.sample_columns import SAMPLE_SCHEMAS, SHOWING, unwritten_schema
from trajmill.pipelines.mix.sample_plan import UNANSWERABLE, UNPROVEN, Plan, PlannedSample, RefusedRows, borders
from trajmill.pipelines.mix.screenshots import screenshots_of
from trajmill.pipelines.recipe.recipe import Mix, Pool
from trajmill.pipelines.render.answered import Answered, Distractors
from trajmill.pipelines.render.fixed_texts import ASKING, BETWEEN, MARKER
from trajmill.pipelines.render.loss_spans import Answer, LossSpan, SpanWeights, answer_spans, draw_spans
from trajmill.pipelines.render.pieces import (
    ANSWER_LEAVES,
    USER_LEAVES,
    Flags,
    Numbers,
    View,
    interleaved_texts,
    observed_texts,
    spoken,
)
from trajmill.pipelines.render.prompts import CONTEXT, Prompt, Wording, make_prompt
from trajmill.pipelines.render.turns import Excerpts, answer_texts, user_texts
from trajmill.quality.fingerprint import struct_text
from trajmill.quality.sets import ranges
from trajmill.schemas import Reject
from trajmill.schemas.verdict import SIGNAL_PREFIX

_AT_ONCE: Final = 2 << 20
"""Tokens of samples that are made together: some 8 MB of text, which is in memory a few times."""

_ROLES: Final = pa.array(["system", "user", "assistant"])
_OWNERS: Final = ("group", "task_hash", "instance_hash")
"""Columns whose values no two pools share."""

_SHOWN: Final = ("row_id", "source", *USER_LEAVES, *ANSWER_LEAVES, "observation.content", "scrubbed")
_ATTACHED: Final = ("observation.attachments",)
_TOLD: Final = ("action.name", "action.arguments", "next_observation.form")
_OF_POOLS: Final[Mapping[str, tuple[str, ...]]] = {"rl": _TOLD, "eval": (*_TOLD, "started_at")}


def leaves_of(pools: Sequence[Pool], mix: Mix) -> list[str]:
    """Return the leaves of transitions that the samples of some pools need."""
    more = ["interleaved"] if mix.harness == "keep" else []
    more += [f"{side}.envelope" for side in ("observation", "next_observation") if mix.mcp == "envelope"]
    more += _ATTACHED if mix.images is not None and not set(pools).isdisjoint(SHOWING) else ()
    own = [leaf for pool in pools for leaf in _OF_POOLS.get(pool, ())]
    return list(dict.fromkeys([*_SHOWN, *(f"context.{name}" for name in CONTEXT), *more, *own]))


class _Askable(NamedTuple):
    """A trajectory of RL or eval.

    Attributes:
        allowed: by key, the positions of the turns that may be asked for.
        fits: for each turn, whether all turns before it fit.
    """

    number: int
    allowed: dict[str, int]
    fits: Flags


class _SampleTexts(NamedTuple):
    """Texts of samples that are written together, with their turns one sample after the other.

    Attributes:
        tokens: tokens of each sample, without separators of turns; in RL and eval, of the part that a model is shown.
        answers: assistant message of each turn.
    """

    planned: Sequence[PlannedSample]
    numbers: list[int]
    prompts: list[Prompt]
    tokens: Numbers
    shown: Excerpts
    rows: pa.RecordBatch
    users: pa.StringArray
    answers: pa.StringArray

    @property
    def last(self) -> Numbers:
        """The position of the last turn of each sample."""
        last: Numbers = np.cumsum(self.shown.counts) - 1
        return last

    def asking(self) -> pa.StringArray:
        """Return the last user message of each sample, with the question to the model."""
        return pc.binary_join_element_wise(self.users.take(pa.array(self.last)), ASKING, "")

    def messages(self, asking: pa.StringArray | None = None) -> tuple[pa.Array, pa.StringArray, Numbers]:
        """Return (the first message of each sample, the texts of messages, the numbers of their roles).

        A sample has a system message, then user and assistant messages in turn. `asking` replaces each sample's last
        turn.
        """
        counts, many = self.shown.counts, len(self.users)
        sizes = 1 + 2 * counts
        ends = np.cumsum(sizes)
        order, roles = np.zeros((2, int(ends[-1])), np.int64)
        order[ends - sizes] = np.arange(len(counts))
        positions = np.repeat(ends - sizes, counts) + 1 + 2 * self.shown.numbers
        order[positions] = len(counts) + np.arange(many)
        order[positions + 1] = order[positions] + many
        roles[positions], roles[positions + 1] = 1, 2
        texts = [pa.array([prompt.text for prompt in self.prompts], pa.string()), self.users, self.answers]
        if asking is not None:
            order[ends - 2] = len(counts) + 2 * many + np.arange(len(counts))
            order, roles = np.delete(order, ends - 1), np.delete(roles, ends - 1)
            ends = ends - np.arange(1, len(counts) + 1)
            texts.append(asking)
        return pa.array(np.append(0, ends), pa.int32()), pa.concat_arrays(texts).take(pa.array(order)), roles


class Assembler:
    """Samples of a unit's trajectories that are drawn for a pool.

    Args:
        beside: further columns of these rows, if known: `spans` of answers, whether they are `certified`, the values
            that their run has `written`, and the signals that weigh the chance of turns.
        instructions: by trajectory id, instructions for contexts without one.
        distractors: answers of other turns, which determine whether an answer of RL or eval can be predicted.
    """

    def __init__(
        self,
        plan: Plan,
        row_numbers: Numbers,
        draws: Sequence[Mapping[str, Any]],
        beside: Mapping[str, pa.ChunkedArray],
        instructions: Mapping[str, str],
        distractors: Distractors,
    ) -> None:
        self._plan, self._places, self._draws, self._beside = plan, row_numbers, draws, beside
        self._unit, self._mix, self._pool, self._counter = plan.unit, plan.mix, plan.pool, plan.counter
        self._instructions, self._others = instructions, distractors
        self._firsts = row_numbers[plan.unit.begins]
        self._view, self._wording = View.of(plan.mix), Wording.of(plan.mix, plan.pool)
        self._weights = SpanWeights.of(plan.mix)
        self._plain = plan.is_plain()
        self._told: tuple[Numbers, pa.StringArray] | None = None
        self._askable = plan.askable()[:2] if plan.pool in ("rl", "eval") else None

    def of(self, stretch: Stretch) -> Iterator[pa.RecordBatch | Reject]:
        """Yield the samples of a stretch of rows, in batches of `unwritten_schema`, each as often as it is drawn."""
        some = np.arange(*np.searchsorted(self._firsts, (stretch.first, stretch.past)))
        waiting: list[PlannedSample] = []
        size = 0
        ends = np.cumsum(self._plan.tokens[some])
        for part in np.split(some, np.searchsorted(ends, np.arange(_AT_ONCE, ends[-1] if len(ends) else 0, _AT_ONCE))):
            for sample in self._planned(part, stretch):
                if isinstance(sample, RefusedRows):
                    yield self._reject(sample)
                    continue
                waiting.append(sample)
                size += int(self._plan.prompts[sample.number]) + int(self._unit.answers[sample.rows].sum())
                if size >= _AT_ONCE:
                    yield self._samples(waiting, stretch)
                    waiting, size = [], 0
            if waiting:
                yield self._samples(waiting, stretch)
                waiting, size = [], 0

    def _planned(self, part: Numbers, stretch: Stretch) -> Iterator[PlannedSample | RefusedRows]:
        if self._pool == "rl":
            yield from self._questions(part, stretch)
        elif self._pool == "eval":
            yield from self._plan_evaluation(part, stretch)
        else:
            for number in part.tolist():
                if self._plain[number]:
                    rows, key = self._plan.rows_of(number), self._unit.keys[number]
                    yield PlannedSample(number, int(self._unit.begins[number]), rows, self._unit.bears[rows], key)
                else:
                    is_cut = self._plan.taught[number] and self._plan.long[number]
                    yield from self._plan.windows(number, self._actions(number, stretch) if is_cut else None)

    def _actions(self, number: int, stretch: Stretch) -> list[str]:
        begin = int(self._firsts[number]) - stretch.first
        rows = stretch.batch.slice(begin, int(self._unit.sizes[number]))
        return python_values(struct_text(rows, "action", "text"))

    def _reject(self, refused: RefusedRows) -> Reject:
        number = int(self._unit.of[refused.begin])
        # a later segment or a window is not a whole trajectory, so its first row represents it
        is_part = refused.is_part or int(self._unit.segments[number]) > 0
        step = int(self._unit.steps[refused.begin]) if is_part else -1
        return Reject(
            "transition" if is_part else "trajectory",
            *refused.why,
            uri="",
            trajectory_id=self._draws[number]["trajectory_id"],
            step=step,
            transitions=refused.end - refused.begin,
        )

    def _asked(self, part: Numbers) -> Iterator[RefusedRows | tuple[int, Numbers, Flags]]:
        """Yield the turns of each trajectory of RL or eval that may be asked for, or a refusal if there are none.

        The turns are given as the number of the trajectory, their positions, and flags of all its turns whose history
        fits.
        """
        assert self._askable is not None
        can, fits = self._askable
        for number in part.tolist():
            refused = self._plan.refused(number)
            rows = self._plan.places_of(number)
            positions = np.flatnonzero(can[rows])
            if refused is not None or not len(positions):
                yield refused or self._plan.refuse_unasked(number)
            else:
                yield number, positions, fits[rows]

    def _question(self, number: int, position: int, fits: Flags, stretch: Stretch) -> PlannedSample | None:
        actions = [] if fits[position] else self._actions(number, stretch)
        return self._plan.question(number, position, bool(fits[position]), actions)

    def _plan_evaluation(self, part: Numbers, stretch: Stretch) -> Iterator[PlannedSample | RefusedRows]:
        askable: list[_Askable] = []
        for candidate in self._asked(part):
            if isinstance(candidate, RefusedRows):
                yield candidate
                continue
            number, positions, fits = candidate
            askable.append(_Askable(number, self._keyed(number, positions, stretch), fits))
        for (number, allowed, fits), _, answered, initial_state in self._answered(askable, stretch):
            answerable = answerable_turns(allowed, answered, initial_state, self._others)
            if not answerable:
                yield self._plan.refuse(number, UNANSWERABLE)
                continue
            chosen = self._plan.evaluated(number, np.array(answerable))
            planned = [
                sample for position in chosen if (sample := self._question(number, position, fits, stretch)) is not None
            ]
            yield from planned or (self._plan.refuse_unasked(number),)

    def _questions(self, part: Numbers, stretch: Stretch) -> Iterator[PlannedSample | RefusedRows]:
        """Yield one turn of each trajectory, drawn by its checks.

        Only turns up to the last one that the draw weighs are rendered.
        """
        askable: list[_Askable] = []
        for candidate in self._asked(part):
            if isinstance(candidate, RefusedRows):
                yield candidate
                continue
            number, positions, fits = candidate
            rows = self._plan.rows_of(number)
            if "certified" in self._beside:
                proven = self._beside["certified"].take(pa.array(self._places[rows[positions]]))
                positions = positions[proven.to_numpy().astype(np.bool_)]
                if not len(positions):
                    yield self._plan.refuse(number, UNPROVEN)
                    continue
            keys = self._keyed(number, positions, stretch)
            looked = choose_considered(keys, self._mix.seed)
            askable.append(_Askable(number, {key: position for key, position in keys.items() if key in looked}, fits))
        for (number, allowed, fits), rows, answered, initial_state in self._answered(askable, stretch):
            chances = self._chances(rows, allowed)
            asked_turn = question(allowed, answered, initial_state, self._others, self._mix.seed, chances.__getitem__)
            if asked_turn is None:
                yield self._plan.refuse(number, UNANSWERABLE)
                continue
            position, truth, quality = asked_turn
            sample = self._question(number, position, fits, stretch)
            yield (
                sample._replace(truth=truth, quality=quality)
                if sample
                else self._plan.refuse(number, self._plan.over())
            )

    def _keyed(self, number: int, positions: Numbers, stretch: Stretch) -> dict[str, int]:
        """Map the keys of a trajectory's turns to their positions."""
        rows = self._plan.rows_of(number)[positions]
        return dict(zip(self._column(stretch, "row_id", rows).to_pylist(), positions.tolist(), strict=True))

    def _answered(
        self, askable: Sequence[_Askable], stretch: Stretch
    ) -> Iterator[tuple[_Askable, Numbers, Iterator[Answered], str | None]]:
        """Yield each trajectory with its rows, their turns, and its initial state.

        The rows are those up to the last turn that may be asked for.
        """
        if not askable:
            return
        rows_shown = [
            self._plan.rows_of(trajectory.number)[: max(trajectory.allowed.values()) + 1] for trajectory in askable
        ]
        turns = self._shown_turns(np.concatenate(rows_shown), stretch)
        contexts = self._contexts([trajectory.number for trajectory in askable], stretch)
        begin = 0
        for trajectory, rows, context in zip(askable, rows_shown, contexts, strict=True):
            yield (
                trajectory,
                rows,
                turns.answered(range(begin, begin + len(rows)), trajectory.allowed),
                context["initial_state"],
            )
            begin += len(rows)

    def _chances(self, rows: Numbers, allowed: Mapping[str, int]) -> dict[str, float]:
        """Return the factor of each turn's chance: the product of its signals, clipped to 0 … 1, to their powers."""
        chances = dict.fromkeys(allowed, 1.0)
        for name, power in turn_powers(self._mix).items():
            row_numbers = pa.array(self._places[rows[list(allowed.values())]])
            for key, value in zip(
                allowed, self._beside[SIGNAL_PREFIX + name].take(row_numbers).to_pylist(), strict=True
            ):
                chances[key] *= min(max(value, 0.0), 1.0) ** power
        return chances

    def _shown_turns(self, rows: Numbers, stretch: Stretch) -> ShownTurns:
        row_numbers = self._places[rows]
        batch = stretch.taken((*ANSWER_LEAVES, "action.text", "row_id", "scrubbed"), row_numbers)
        observations = answer_texts(batch, self._view, self._unit.escapable[rows], marker="")
        self._told, texts = (rows, observations), observations.to_pylist()
        known = self._unit.known[rows]
        states = python_values(stretch.states(row_numbers, known, self._view))
        for turn in np.flatnonzero(known & self._unit.escapable[rows]).tolist():
            states[turn] = self._view.plain(states[turn])
        written = self._beside["written"].take(pa.array(row_numbers)).to_pylist() if "written" in self._beside else ()
        return ShownTurns(
            self._unit.domain,
            batch["row_id"].to_pylist(),
            python_values(struct_text(batch, "next_observation", "form")),
            python_values(struct_text(batch, "action", "name")),
            python_values(struct_text(batch, "action", "arguments")),
            python_values(struct_text(batch, "action", "text")),
            self._answers(rows, batch, texts),
            states,
            (batch["scrubbed"].fill_null(0).to_numpy() > 0).tolist(),
            written,
        )

    def _answers(self, rows: Numbers, batch: pa.RecordBatch, texts: Sequence[str]) -> list[Answer]:
        """Return the answers of some rows, given the texts below their markers."""
        placeholders = self._unit.has_placeholders[rows].tolist()
        ids, steps = self._unit.of[rows].tolist(), self._unit.steps[rows].tolist()
        keys = [f"{self._draws[number]['trajectory_id']}:{step}" for number, step in zip(ids, steps, strict=True)]
        if "spans" not in self._beside:
            return list(map(Answer, texts, repeat(self._view), keys, placeholders))
        labels = self._beside["spans"].take(pa.array(self._places[rows])).to_pylist()
        logged = python_values(struct_text(batch, "next_observation", "content"))
        shown_texts = python_values(observed_texts(batch, "next_observation", self._view)[0])
        return list(map(Answer, texts, repeat(self._view), keys, placeholders, labels, logged, shown_texts))

    def _samples(self, planned: Sequence[PlannedSample], stretch: Stretch) -> pa.RecordBatch:
        """Build the samples of a pool, as often as each is drawn."""
        written = self._written(planned, stretch)
        holds = written.shown.sums(self._unit.holds(written.shown))
        draws = [self._draws[number] for number in written.numbers]
        drawn = {name: [item[name] for item in draws] for name in ("trajectory_id", *_OWNERS)}
        keys = [item.key for item in planned]
        make = {"rl": self._rl, "eval": self._eval}.get(self._pool, self._whole)
        columns = {
            **drawn,
            **make(written, drawn, stretch),
            "_hash": np.array([keyed_hash(f"order:{key}", self._mix.seed) for key in keys], np.uint64),
            "_id": keys,
            "_row": self._column(stretch, "row_id", np.array([item.begin for item in planned])),
            "_screenshots": self._screenshots(written, stretch) if self._pool in SHOWING else (),
            "_control_turns": holds,
            "_control": (holds > 0) | self._unit.prompt_holds[written.numbers],
        }
        schema = unwritten_schema(self._pool)
        batch = pa.RecordBatch.from_arrays([_array(columns[item.name], item.type) for item in schema], schema=schema)
        copies = np.array([item["copies"] for item in draws])
        return batch if (copies == 1).all() else batch.take(pa.array(np.repeat(np.arange(len(planned)), copies)))

    def _screenshots(self, written: _SampleTexts, stretch: Stretch) -> list[list[dict[str, Any]]]:
        """List for each sample the screenshots of the screens at its turns, with the messages that show them."""
        screenshots: list[list[dict[str, Any]]] = [[] for _ in written.planned]
        if self._mix.images is None:
            return screenshots
        shown = written.shown
        firsts = self._unit.first[shown.rows]
        firsts[shown.begins] = True
        turns = np.flatnonzero(firsts)
        before = stretch.taken(_ATTACHED, self._places[shown.rows[turns]])["observation"].to_pylist()
        samples = np.repeat(np.arange(len(screenshots)), shown.counts)[turns].tolist()
        for sample, number, observation in zip(samples, shown.numbers[turns].tolist(), before, strict=True):
            screenshots[sample] += [
                {"message": 1 + 2 * number, "sha256": digest} for digest in screenshots_of(observation)
            ]
        return screenshots

    def _written(self, planned: Sequence[PlannedSample], stretch: Stretch) -> _SampleTexts:
        numbers, rows = [sample.number for sample in planned], np.concatenate([sample.rows for sample in planned])
        shown = Excerpts.of(self._unit, rows, np.array([len(sample.rows) for sample in planned]))
        row_numbers, escapable, view = self._places[rows], self._unit.escapable[rows], self._view
        leaves = (*USER_LEAVES, *(ANSWER_LEAVES if self._told is None else ()))
        batch = stretch.taken(leaves, row_numbers)
        opened = zip(shown.begins.tolist(), (sample.opening for sample in planned), strict=True)
        openings = {begin: opening for begin, opening in opened if opening}
        states = stretch.states(row_numbers, shown.shows, view)
        spoken_words = self._spoken(rows, stretch) if view.harness == "keep" else None
        sizes = np.array([self._counter.of(sample.opening) if sample.opening else 0 for sample in planned])
        bodies = self._plan.bodies(shown, sizes)
        extents = self._plan.extents(numbers, shown, bodies)
        prompts = [
            make_prompt(self._unit.shapes[number], context, self._unit.keys[number], self._wording, view, extent)
            for number, context, extent in zip(numbers, self._contexts(numbers, stretch), extents, strict=True)
        ]
        return _SampleTexts(
            planned,
            numbers,
            prompts,
            np.array([sample.tokens for sample in extents]) + bodies,
            shown,
            batch,
            user_texts(batch, shown.numbers, states, view, escapable, spoken_words, openings),
            self._assistants(rows, batch),
        )

    def _assistants(self, rows: Numbers, batch: pa.RecordBatch) -> pa.StringArray:
        """Return the assistant messages of rows. Questions have rendered their answers already."""
        if self._told is None:
            return answer_texts(batch, self._view, self._unit.escapable[rows])
        known, texts = self._told
        return pc.binary_join_element_wise(MARKER, texts.take(pa.array(np.searchsorted(known, rows))), "")

    def _spoken(self, rows: Numbers, stretch: Stretch) -> Mapping[int, str]:
        """Return the words of others before turns, by the position of each turn's first row.

        Words before hidden calls of a turn are included.
        """
        firsts = np.flatnonzero(self._unit.first[rows])
        turns = self._unit.turn[rows[firsts]]
        begins, ends = (np.searchsorted(self._unit.turn, np.unique(turns), side) for side in ("left", "right"))
        calls = ranges(begins, ends - begins)
        calls = calls[self._unit.said[calls] > 0]
        texts = interleaved_texts(stretch.taken(["interleaved"], self._places[calls]), self._view)
        return {int(firsts[index]): text for index, text in spoken(texts, self._unit.turn[calls], turns).items()}

    def _column(self, stretch: Stretch, name: str, rows: Numbers) -> pa.Array:
        return stretch.batch[name].take(pa.array(self._places[rows] - stretch.first)).cast(pa.string())

    def _contexts(self, numbers: Sequence[int], stretch: Stretch) -> list[dict[str, str | None]]:
        """Return the context texts of each trajectory's prompt."""
        contexts = stretch.batch["context"].take(pa.array(self._firsts[numbers] - stretch.first))
        rows = zip(*(python_values(pc.struct_field(contexts, name)) for name in CONTEXT), strict=True)
        texts: list[dict[str, str | None]] = [dict(zip(CONTEXT, row, strict=True)) for row in rows]
        for number, context in zip(numbers, texts, strict=True) if self._instructions else ():
            instruction = self._instructions.get(self._draws[number]["trajectory_id"])
            context["simulation_instruction"] = context["simulation_instruction"] or instruction
        return texts

    def _whole(self, written: _SampleTexts, _: Mapping[str, Any], stretch: Stretch) -> dict[str, Any]:
        """Build the columns of CPT and SFT."""
        planned, shown = written.planned, written.shown
        bears = np.concatenate([sample.bears for sample in planned])
        loss_tokens = shown.sums(np.where(bears, self._unit.borne[shown.rows], 0))
        ends, texts, roles = written.messages()
        answers = _lengths(written.answers)
        answer_begins = np.zeros(len(answers), np.int64)
        if self._pool == "cpt":
            documents = pc.binary_join(pa.ListArray.from_arrays(ends, texts), BETWEEN)
            text_column = {"text": pc.binary_join_element_wise(documents, "\n", "")}
            sizes = _lengths(texts) + len(BETWEEN)
            begins = np.cumsum(sizes) - sizes
            begun = begins[roles == 0]
            answer_begins = begins[roles == 2] - np.repeat(begun, shown.counts)
        else:
            loss = np.zeros(len(roles), np.bool_)
            loss[roles == 2] = bears
            fields = [_ROLES.take(pa.array(roles)), texts, pa.array(loss, mask=roles != 2)]
            text_column = {"messages": _structs("sft", "messages", fields, ends)}
        return {
            "id": [sample.key for sample in planned],
            "domain": [self._unit.domain] * len(planned),
            "source": self._column(stretch, "source", self._unit.begins[written.numbers]),
            "num_turns": shown.counts,
            "num_tokens": written.tokens + borders(self._pool, shown.counts, self._counter),
            "num_loss_tokens": loss_tokens,
            "template": [prompt.template for prompt in written.prompts],
            **text_column,
            "spans": self._spans(written, bears, answer_begins, answers),
        }

    def _rl(self, written: _SampleTexts, drawn: Mapping[str, Any], _: Stretch) -> dict[str, Any]:
        planned, shown, numbers, size = written.planned, written.shown, written.numbers, len(written.planned)
        ends, texts, roles = written.messages(written.asking())
        steps = self._unit.steps[shown.rows[written.last]].tolist()
        info = {
            "split": ["train"] * size,
            "index": [self._draws[number]["number"] for number in numbers],
            "id": [f"{sample.key}:{step}" for sample, step in zip(planned, steps, strict=True)],
            "domain": [self._unit.domain] * size,
            "turn_idx": shown.counts,
            "total_turns": self._plan.counts[numbers],
            **drawn,
            "num_tokens": written.tokens,
            "max_response_tokens": [self._mix.max_response_tokens] * size,
            "template": [prompt.template for prompt in written.prompts],
            "reward_quality": [sample.quality for sample in planned],
        }
        reward = {"style": ["rule"] * size, "ground_truth": [sample.truth for sample in planned]}
        return {
            "data_source": [f"trajmill/{self._unit.domain}"] * size,
            "prompt": _structs("rl", "prompt", [_ROLES.take(pa.array(roles)), texts], ends),
            "ability": ["world_model"] * size,
            "reward_model": _structs("rl", "reward_model", reward),
            "extra_info": _structs("rl", "extra_info", info),
        }

    def _eval(self, written: _SampleTexts, _: Mapping[str, Any], stretch: Stretch) -> dict[str, Any]:
        shown, numbers, keys = written.shown, written.numbers, [sample.key for sample in written.planned]
        ends = pa.array(np.append(0, written.last + 1), pa.int32())
        asked_rows = pa.array(self._places[shown.rows[written.last]] - stretch.first)
        began = list(map(began_at, stretch.batch["started_at"].take(asked_rows).cast(pa.int64()).to_pylist()))
        return {
            "task": [self._unit.domain] * len(keys),
            "id": [index_of(key, self._mix.seed) for key in keys],
            "prompt": pa.ListArray.from_arrays(ends, written.users),
            "response": pa.ListArray.from_arrays(ends, written.answers),
            "current_prompt": written.asking(),
            "system_str": [prompt.text for prompt in written.prompts],
            "turn_idx": shown.counts,
            "total_turns": self._plan.counts[numbers],
            "sample_id": keys,
            "environment": [self._draws[number]["familiarity"] for number in numbers],
            "started_at": began,
            "time": [_time(time_of, self._mix) for time_of in began],
        }

    def _spans(self, written: _SampleTexts, bears: Flags, answer_begins: Numbers, answers: Numbers) -> pa.ListArray:
        """Build the spans that bear the loss: for each answer under loss its marker, and the text below it.

        Args:
            bears: for each turn, whether its answer bears the loss.
        """
        own = self._own_spans(written, bears)
        size = np.where(bears, 1 + (answers > len(MARKER)), 0)
        size[list(own)] = [len(spans) for spans in own.values()]
        before = np.append(0, np.cumsum(size))
        turn = np.repeat(np.arange(len(size)), size)
        below = np.ones(len(turn), np.bool_)
        below[before[:-1][size > 0]] = False
        begin, end = np.where(below, len(MARKER), 0), np.where(below, answers[turn], len(MARKER))
        label = np.full(len(turn), "frame", object)
        label[below] = None
        where = ranges(before[list(own)], size[list(own)])
        own_spans = np.array([tuple(span) for spans in own.values() for span in spans], object).reshape(-1, 3)
        begin[where], end[where], label[where] = own_spans.T
        values = {
            "message": 2 * written.shown.numbers[turn] + 2,
            "begin": answer_begins[turn] + begin,
            "end": answer_begins[turn] + end,
            "label": pa.array(label, pa.string()),
        }
        offsets = pa.array(before[np.append(written.shown.begins, len(answers))], pa.int32())
        return _structs(self._pool, "spans", values, offsets)

    def _own_spans(self, written: _SampleTexts, bears: Flags) -> dict[int, list[LossSpan]]:
        """Return the spans of the turns whose answers do not bear the loss as one whole without a class."""
        rows = written.shown.rows
        some = self._unit.has_placeholders[rows]
        if "spans" in self._beside:
            some |= self._beside["spans"].take(pa.array(self._places[rows])).is_valid().to_numpy()
        turns = np.flatnonzero(bears & (some | (self._weights is not None)))
        texts = [text[len(MARKER) :] for text in written.answers.take(pa.array(turns)).to_pylist()]
        answers = self._answers(rows[turns], written.rows.take(pa.array(turns)), texts)
        spans = [(answer.key, answer_spans(answer)) for answer in answers]
        loss_spans = [own for _, own in spans]
        if self._weights is not None:  # drawn among those of a sample
            cuts = [0, *np.searchsorted(turns, written.shown.begins[1:]).tolist(), len(turns)]
            parts = (draw_spans(spans[begin:end], self._weights) for begin, end in pairwise(cuts))
            loss_spans = [own for part in parts for own in part]
        return dict(zip(turns.tolist(), loss_spans, strict=True))


def _structs(
    pool: str, name: str, values: Mapping[str, Any] | Sequence[pa.Array], ends: pa.Array | None = None
) -> pa.StructArray | pa.ListArray:
    """Build a column of structs from their fields by name or in order; with `ends`, a column of lists of structs."""
    kind = SAMPLE_SCHEMAS[pool].field(name).type
    fields = list(kind if ends is None else kind.value_type)
    columns = [values[item.name] for item in fields] if isinstance(values, Mapping) else values
    arrays = [_array(item, field.type) for item, field in zip(columns, fields, strict=True)]
    column = pa.StructArray.from_arrays(arrays, fields=fields)
    return column if ends is None else pa.ListArray.from_arrays(ends, column, type=kind)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    """Convert values to an array of a type. An array is returned unchanged."""
    return values if isinstance(values, pa.Array) else pa.array(values).cast(kind)


def _lengths(texts: pa.StringArray) -> Numbers:
    lengths: Numbers = pc.utf8_length(texts).to_numpy().astype(np.int64)
    return lengths


def began_at(microseconds: int | None) -> str:
    """Format a time, in microseconds since 1970 UTC, as ISO 8601; empty if unknown."""
    return "" if microseconds is None else f"{np.datetime64(microseconds, 'us')}Z"


def _time(began: str, mix: Mix) -> str:
    if not began or mix.after is None:
        return "unknown"
    return "after" if began >= mix.after.isoformat() else "before"


def count_eval_kinds(samples: pa.Table) -> dict[str, int]:
    """Count the samples of eval by kind: `environment_seen`, `time_after` and so on."""
    counts = Counter(f"{name}_{value}" for name in ("environment", "time") for value in samples[name].to_pylist())
    return dict(sorted(counts.items()))


def index_of(key: str, seed: int) -> int:
    """Return a 63-bit number for a sample's id."""
    return keyed_hash(f"index:{key}", seed) >> 1
