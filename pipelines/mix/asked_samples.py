"""Samples of RL by columns: one turn of each trajectory, drawn by its checks, given all before it, many at once.

They are what `samples.samples_of` makes of the same rows, byte for byte. Only turns that a question could ask for are
looked at one by one, with those before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.mix.drawn_rows import WholeRows, python_values
from trajmill.pipelines.mix.questions import question, turn_powers
from trajmill.pipelines.mix.sample_columns import SAMPLE_SCHEMAS
from trajmill.pipelines.mix.samples import UNANSWERABLE
from trajmill.pipelines.mix.whole_trajectories import ROLES, Flags, Numbers, UnitRows, WholeTrajectories, as_array
from trajmill.pipelines.recipe.recipe import Mix, Pool
from trajmill.pipelines.render.answered import Answered, Distractors
from trajmill.pipelines.render.prompts import ASKING, Prompt
from trajmill.pipelines.render.text_columns import observed
from trajmill.pipelines.render.turn_columns import TURN_COLUMNS, USER_COLUMNS, answer_texts, user_texts
from trajmill.pipelines.render.turns import MARKER
from trajmill.quality.fingerprint import struct_text
from trajmill.quality.scrubbing.replaced import replaced_spans
from trajmill.quality.sets import ranges
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import Reject

POOL: Final[Pool] = "rl"


class AskedSamples(WholeTrajectories):
    """The samples of RL of trajectories that fit their window whole, so that each of their turns can be asked for.

    Turns whose chance is weighed by signals, and those that were replayed, are asked for row by row.

    Args:
        rows: as of `WholeTrajectories`, as are `places`, `draws`, `mix` and `counter`.
        places: as there.
        draws: as there.
        mix: as there.
        counter: as there.
        others: answers that checks are tried by.
    """

    reads = frozenset({"scrubbed", "action.name", "action.arguments"})

    def __init__(
        self,
        rows: UnitRows,
        places: Numbers,
        draws: Sequence[Mapping[str, Any]],
        mix: Mix,
        counter: TokenCounter,
        others: Distractors,
    ) -> None:
        super().__init__(POOL, rows, places, draws, mix, counter)
        self._others = others
        self._can: Flags = self._unit.bears & self._unit.visible & (self._unit.answers <= mix.max_response_tokens)
        has_any = self._unit.summed(self._can) > 0
        self._chosen = self._chosen[has_any[self._chosen]] if not turn_powers(mix) else self._chosen[:0]

    def _made(self, some: Numbers, group: WholeRows) -> Iterator[pa.RecordBatch | Reject]:
        contexts = self._contexts(some, group)
        turns = self._turns(some, group)
        begins = turns.places(self._unit.begins[some])
        ends = np.append(begins[1:], len(turns.rows))
        asked: list[tuple[int, str] | None] = []
        for number, begin, end, context in zip(some.tolist(), begins.tolist(), ends.tolist(), contexts, strict=True):
            asked.append(self._question(range(begin, end), context["initial_state"], turns))
            if asked[-1] is None:
                name, size = self._draws[number]["trajectory_id"], int(self._size[number])
                yield Reject("trajectory", *UNANSWERABLE, "", "", -1, "", name, -1, size)
        found = [place for place, one in enumerate(asked) if one is not None]
        if found:
            told = [one for one in asked if one is not None]
            counts = np.array([place + 1 for place, _ in told], np.int64)
            rows = turns.rows[ranges(begins[found], counts)]
            truths = [truth for _, truth in told]
            yield self._samples(some[found], [contexts[place] for place in found], rows, counts, truths, group, turns)

    def _turns(self, some: Numbers, group: WholeRows) -> _Turns:
        """The turns of trajectories that are shown."""
        rows = ranges(self._unit.begins[some], self._size[some])
        rows = rows[self._unit.visible[rows]]
        places = self._places[rows] - group.first
        shown = group.batch.select((*TURN_COLUMNS, "row_id", "scrubbed")).take(pa.array(places))
        observations = answer_texts(shown, self._view, self._unit.escapable[rows], marker="")
        return _Turns(
            rows,
            self._domain,
            keys=python_values(shown["row_id"]),
            forms=python_values(struct_text(shown, "next_observation", "form")),
            tools=python_values(struct_text(shown, "action", "name")),
            arguments=python_values(struct_text(shown, "action", "arguments")),
            actions=python_values(struct_text(shown, "action", "text")),
            scrubbed=python_values(shown["scrubbed"]),
            states=self._known_states(rows, group),
            observations=observations,
            told=python_values(observations),
        )

    def _known_states(self, rows: Numbers, group: WholeRows) -> list[str | None]:
        """What stood before the action of each row, shown or not; None where it is not known."""
        places = self._places[rows] - group.first
        known = self._hashes[0][self._places[rows]] != 0
        unread = known & self._unread(rows, group)
        after, _ = observed(group.batch, "next_observation", self._view)
        found = python_values(after.take(pa.array(places - 1, mask=~known | unread)))
        if unread.any():
            before, _ = observed(group.batch, "observation", self._view)
            texts = python_values(before.take(pa.array(places[unread])))
            for turn, text in zip(np.flatnonzero(unread).tolist(), texts, strict=True):
                found[turn] = text
        for turn in np.flatnonzero(known & self._unit.escapable[rows]).tolist():
            found[turn] = self._view.plain(found[turn])
        return found

    def _question(self, places: range, initial_state: str | None, turns: _Turns) -> tuple[int, str] | None:
        """The turn of a trajectory that is asked for, by its number among those that are shown, and its ground truth.

        Args:
            places: of these among all turns.
            initial_state: that the system prompt tells.
            turns: of several trajectories.
        """
        can = np.flatnonzero(self._can[turns.rows[places.start : places.stop]])
        allowed = {turns.keys[places.start + number]: number for number in can.tolist()}
        return question(allowed, lambda _: turns.answered(places), initial_state, self._others, self._mix.seed)

    def _samples(
        self,
        some: Numbers,
        contexts: Sequence[Mapping[str, str | None]],
        rows: Numbers,
        counts: Numbers,
        truths: Sequence[str],
        group: WholeRows,
        turns: _Turns,
    ) -> pa.RecordBatch:
        """The samples of trajectories.

        Args:
            some: their numbers.
            contexts: of each.
            rows: of their turns up to the one that is asked for, one trajectory after the other.
            counts: how many of these each has.
            truths: the ground truth of each.
            group: the row group.
            turns: of these trajectories, and maybe of others.
        """
        ends = np.cumsum(counts)
        last = np.zeros(len(rows), np.bool_)
        last[ends - 1] = True
        prompts = self._prompts(some, contexts)
        keys, steps = self._keys(some), self._unit.steps[rows[last]].tolist()
        begins = ends - counts
        users, answers = self._unit.users[rows], np.where(last, 0, self._unit.answers[rows])
        tokens = self._wholes.prompts[some] + np.add.reduceat(users + answers, begins) + self._counter.of(ASKING)
        control_turns = np.add.reduceat(self._unit.holds[rows].astype(np.int64), begins)
        drawn = {name: self._drawn(some, name) for name in ("group", "task_hash", "instance_hash")}
        told = {
            "split": ["train"] * len(some),
            "index": self._drawn(some, "number"),
            "id": [f"{key}:{step}" for key, step in zip(keys, steps, strict=True)],
            "domain": [self._domain] * len(some),
            "turn_idx": counts,
            "total_turns": self._wholes.turns[some],
            "trajectory_id": self._of_first(group, "trajectory_id", some),
            **drawn,
            "num_tokens": tokens,
            "max_response_tokens": [self._mix.max_response_tokens] * len(some),
            "template": [one.template for one in prompts],
        }
        reward = {"style": ["rule"] * len(some), "ground_truth": truths}
        own = {
            "data_source": [f"trajmill/{self._domain}"] * len(some),
            "prompt": self._messages(prompts, rows, counts, last, group, turns),
            "ability": ["world_model"] * len(some),
            "reward_model": _struct("reward_model", reward),
            "extra_info": _struct("extra_info", told),
            "_control_turns": control_turns,
            "_control": (control_turns > 0) | self._unit.prompt_holds[some],
        }
        return self._batch(some, own | self._ordering(some, group))

    def _messages(
        self, prompts: Sequence[Prompt], rows: Numbers, counts: Numbers, last: Flags, group: WholeRows, turns: _Turns
    ) -> pa.ListArray:
        """The messages of each sample: of the system, then of user and assistant by turns, up to the last question."""
        shown = group.batch.select(USER_COLUMNS).take(pa.array(self._places[rows] - group.first))
        numbers, escapable = self._unit.numbers[rows] + 1, self._unit.escapable[rows]
        users = user_texts(shown, numbers, self._states(rows, group), self._view, escapable)
        answers = _joined(MARKER, turns.observations.take(pa.array(turns.places(rows[~last]))))
        asking = _joined(users.filter(pa.array(last)), ASKING)
        systems = pa.array([one.text for one in prompts], pa.string())
        ends = np.cumsum(2 * counts)
        first, user = ends - 2 * counts, np.arange(len(rows)) * 2 + 1
        order = np.empty(ends[-1], np.int64)
        order[first] = np.arange(len(counts))
        order[user] = np.where(
            last, len(systems) + len(rows) + np.cumsum(last) - 1, len(systems) + np.arange(len(rows))
        )
        order[user[~last] + 1] = len(systems) + len(rows) + len(counts) + np.arange(len(answers))
        texts = pa.concat_arrays([systems, users, asking, answers]).take(pa.array(order))
        role = np.where(order < len(systems), 0, 2 - np.arange(len(order)) % 2)
        kind = SAMPLE_SCHEMAS[POOL].field("prompt").type
        struct = pa.StructArray.from_arrays([ROLES.take(pa.array(role)), texts], fields=list(kind.value_type))
        return pa.ListArray.from_arrays(pa.array(np.append(0, ends), pa.int32()), struct, type=kind)


class _Turns(NamedTuple):
    """Turns that are shown, of trajectories one after the other.

    Attributes:
        rows: of each.
        domain: of all.
        keys: of each.
        forms: of what each observes.
        tools: the name of each action.
        arguments: of each action, as JSON.
        actions: the text of each.
        scrubbed: of each, whether placeholders stand in it.
        states: what stood before each action; None where it is not known.
        observations: what each predicts.
        told: the same as Python values.
    """

    rows: Numbers
    domain: str
    keys: Sequence[str]
    forms: Sequence[str]
    tools: Sequence[str | None]
    arguments: Sequence[str | None]
    actions: Sequence[str | None]
    scrubbed: Sequence[bool]
    states: Sequence[str | None]
    observations: pa.StringArray
    told: Sequence[str]

    def places(self, rows: Numbers) -> Numbers:
        """The places of rows among all turns."""
        found: Numbers = np.searchsorted(self.rows, rows)
        return found

    def answered(self, places: range) -> Iterator[Answered]:
        """Turns as checks are derived from them, each with what was shown before it, made as it is asked for."""
        before: str | None = None
        for turn in places:
            state, observation = self.states[turn], self.told[turn]
            yield Answered(
                key=self.keys[turn],
                domain=self.domain,
                form=self.forms[turn],
                tool=self.tools[turn] or "",
                arguments=self.arguments[turn],
                action=self.actions[turn] or "",
                observation=observation,
                previous=before if state is None else state,
                volatile=tuple(replaced_spans(observation)) if self.scrubbed[turn] else (),
                scrubbed=bool(self.scrubbed[turn]),
            )
            before = observation


def _struct(name: str, values: Mapping[str, Any]) -> pa.StructArray:
    """A column of structs, of the values of its fields."""
    fields = list(SAMPLE_SCHEMAS[POOL].field(name).type)
    return pa.StructArray.from_arrays([as_array(values[one.name], one.type) for one in fields], fields=fields)


def _joined(*pieces: pa.StringArray | str) -> pa.StringArray:
    return pc.binary_join_element_wise(*pieces, "")
