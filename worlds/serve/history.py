"""History of a served session: the messages that a world model receives at each step, as in its training samples.

Rows have the form that rendering takes, and are rendered by the functions that render samples: the prompt by its
template, the turns, the caps, and the windows if a history is longer than a sample. The answer of the requested turn is
unknown, so it counts no tokens. If that answer alone would have exceeded the bound, training began a new window with
it; a served session begins the window one turn later.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trajmill.pipelines.recipe.recipe import Mix, Pool
from trajmill.pipelines.render.costs import COSTS_SCHEMA, Costing
from trajmill.pipelines.render.fixed_texts import ASKING, COMMANDS
from trajmill.pipelines.render.pieces import MARK, View, cap
from trajmill.pipelines.render.prompts import CONTEXT, Prompt, Wording, make_prompt, prompt_tokens
from trajmill.pipelines.render.turns import Turn, turns
from trajmill.pipelines.render.unit_costs import UnitCosts
from trajmill.pipelines.render.windows import windows
from trajmill.quality.control_strings import unescape
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import TRANSITION_SCHEMA, Action
from trajmill.synthesis.tagged_prompts import tag_system_prompt
from trajmill.worlds.serve.scenarios import Scenario

_ENDING: Final = re.compile(r"(?:\A|\n)\[(?:(timed out)|exit code (-?(?:0|[1-9][0-9]{0,9})))\]\Z")
_INT32: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Manner:
    """Form in which a model sees sessions: that of the samples of a pool.

    Attributes:
        mix: The recipe's `mix` section.
        pool: Pool of the samples: `sft`, `rl` or `eval`.
        tagged: True if the model is asked to write its prediction between tags: always in RL and eval, and in SFT if it
            was trained on samples with reasoning.
        counter: Token counter with the recipe's tokenizer.
    """

    mix: Mix
    pool: Pool
    tagged: bool
    counter: TokenCounter

    @property
    def view(self) -> View:
        """View of turns. Texts are capped on arrival by `Manner.seen`, and not again."""
        return replace(View.of(self.mix), observation_chars=None)

    def seen(self, text: str) -> str:
        """Cap a text as in samples, unless it is capped already, as a model trained on capped texts writes it."""
        most = self.mix.observation_chars
        return text if most is None or is_capped(text, most) else cap(text, most)

    def said(self, text: str) -> str:
        """Return an observation of a model in its stored form."""
        return self.seen(unescape(text) if View.of(self.mix).escapes else text)


def is_capped(text: str, most: int) -> bool:
    """Return True if a text is the result of `cap` on a longer one."""
    tail, head = most // 2, most - most // 2
    middle = text[head : len(text) - tail]
    met = _MARKED.fullmatch(middle)
    return met is not None and middle == f"\n{MARK.format(int(met[1].replace(',', '')))}\n"


_MARKED: Final = re.compile(re.escape(f"\n{MARK}\n").replace(re.escape("{:,}"), "([0-9][0-9,]{0,20})"))


class Asked(NamedTuple):
    """Messages for a model at a step, and the first step of their window."""

    messages: list[dict[str, str]]
    begins: int


class Move(NamedTuple):
    """Facts about a step before it is answered.

    Attributes:
        together: True if the action is parallel to the one before it.
        state: State before the action, if it is not the result of the step before.
        said: Messages of the harness and the user before the action: (role, content).
        time_limit_s: Seconds after which the action is killed; None if not stated.
    """

    action: Action
    together: bool = False
    state: str | None = None
    said: tuple[tuple[str, str], ...] = ()
    time_limit_s: float | None = None


class Ended(NamedTuple):
    """Answer without the line on how a command ended, and the content of that line."""

    content: str
    exit_code: int | None = None
    timed_out: bool | None = None


def split_ending(domain: str, answer: str) -> Ended:
    """Split an answer from the line on how its command ended. `render.turns.answer_texts` is the inverse."""
    met = _ENDING.search(answer) if domain in COMMANDS else None
    if met is None:
        return Ended(answer)
    content = answer[: met.start()]
    if met[1]:
        return Ended(content, None, True)
    code = int(met[2])
    if met[2] == "-0" or not -_INT32 <= code < _INT32 or (met.start() == 0 and answer.startswith("\n")):
        return Ended(answer)
    return Ended(content, code, None)


class History:
    """Turns of one session.

    Args:
        manner: Form in which the model sees it.

    Attributes:
        rows: Answered steps, in the form that rendering takes.
    """

    def __init__(self, scenario: Scenario, manner: Manner) -> None:
        self.scenario, self._manner = scenario, manner
        self.rows: list[dict[str, Any]] = []
        self._costs: list[dict[str, Any]] = []
        self._context = scenario.whole_context
        self._first_state = None if scenario.observation is None else manner.seen(scenario.observation)
        self.prompt: Prompt = self._prompt()
        self._tokens = self._prompt_tokens()
        self.characters = len(self.prompt.text) + len(self._first_state or "")

    def _prompt(self) -> Prompt:
        manner, key = self._manner, self.scenario.key or self.scenario.id
        wording = Wording.of(manner.mix, manner.pool)
        prompt = make_prompt(self.scenario.shape, self._context, key, wording, View.of(manner.mix))
        if not manner.tagged or manner.pool != "sft":
            return prompt
        return prompt._replace(text=tag_system_prompt(prompt.text, prompt.template, wording.folder))

    def _prompt_tokens(self) -> int:
        manner, key = self._manner, self.scenario.key or self.scenario.id
        costs = _costs({**self._row(Move(Action("", ""))), "context": self._context}, manner)
        texts = [costs[f"{name}_tokens"] for name in CONTEXT]
        wording = Wording.of(manner.mix, manner.pool)
        return prompt_tokens(self.prompt.shape, texts, key, wording, View.of(manner.mix), manner.counter)

    def _row(self, move: Move) -> dict[str, Any]:
        """Return the row of a step that is not answered yet."""
        last = self.rows[-1] if self.rows else None
        turn = 0 if last is None else last["turn"] + (not move.together)
        before = last["next_observation"]["content"] if last is not None else self._first_state
        if last is not None and move.together:
            before = None if last["observation"] is None else last["observation"]["content"]
        if move.state is not None:
            before = self._manner.seen(move.state)
        messages = [{"role": role, "content": content} for role, content in move.said]
        form = self.scenario.forms[0] if self.scenario.forms else "response"
        dialect = self.scenario.dialects[0] if self.scenario.dialects else None
        seen = {"content": None, "origin": "environment", "form": form, "dialect": dialect, "envelope": None}
        return {
            "row_id": "",
            "trajectory_id": self.scenario.id,
            "ordinal": 0,
            "segment": 0,
            "num_segments": 1,
            "step": len(self.rows),
            "turn": turn,
            "domain": self.scenario.domain,
            "observation": None if before is None else {**seen, "content": before},
            "action": {name: getattr(move.action, name) for name in ("name", "arguments", "text")},
            "next_observation": seen,
            "interleaved": json.dumps(messages, ensure_ascii=False) if messages else None,
            "context": dict.fromkeys(CONTEXT),
            "exit_code": None,
            "timed_out": None,
            "time_limit_s": self.scenario.time_limit_s if move.time_limit_s is None else move.time_limit_s,
            "scrubbed": 0,
            "use": "target",
        }

    def asked(self, move: Move) -> Asked | None:
        """Build the messages for a step; None if they are longer than the model's samples."""
        row = self._row(move)
        turns = self._shown([*self.rows, row], [*self._costs, _costs(row, self._manner)])
        if turns is None:
            return None
        messages = [{"role": "system", "content": self.prompt.text}]
        for turn in turns:
            messages.append({"role": "user", "content": turn.user})
            messages.append({"role": "assistant", "content": turn.assistant})
        messages.pop()
        if self._manner.tagged:
            messages[-1]["content"] += ASKING
        return Asked(messages, turns[0].step)

    def _shown(self, rows: Sequence[Mapping[str, Any]], costs: Sequence[Mapping[str, Any]]) -> list[Turn] | None:
        """Return the turns of the window of a step, including its own; None if that alone is too long."""
        mix, pool, counter, view = self._manner.mix, self._manner.pool, self._manner.counter, self._manner.view
        table = pa.Table.from_pylist(list(costs), schema=COSTS_SCHEMA)
        unit = UnitCosts(table, np.full(len(rows), "target", object), self.scenario.domain, counter)
        most, overflow = mix.window_tokens[pool], mix.overflow[pool]
        if pool in ("rl", "eval"):
            if most is None or self._tokens + int((unit.users(unit.whole()) + unit.answers).sum()) <= most:
                return turns(rows, view)
            if overflow == "drop":
                return None
            overflow = "cut_oldest"
        actions = [row["action"]["text"] for row in rows]
        parts = windows(unit, np.arange(len(rows)), len(rows), self._tokens, most, overflow, actions, counter)
        last = deque(parts, 1)
        if not last or not last[0].fits or last[0].end != len(rows):
            return None
        return turns(rows[last[0].begin :], view, last[0].opening)

    def answered(self, move: Move, answer: str) -> dict[str, Any]:
        """Add the row of a step that a model answered to the history, and return it.

        Args:
            answer: Observation by the model, with the line on how a command ended.
        """
        content, code, late = split_ending(self.scenario.domain, answer)
        row = self._row(move)
        row |= {"exit_code": code, "timed_out": late}
        row["next_observation"] = {**row["next_observation"], "content": self._manner.said(content)}
        self.rows.append(row)
        self._costs.append(_costs(row, self._manner))
        self.characters += len(row["action"]["text"]) + len(row["next_observation"]["content"]) + len(move.state or "")
        return row


_COSTED: Final = pa.schema(
    [
        pa.field(TRANSITION_SCHEMA.field(name).name, TRANSITION_SCHEMA.field(name).type)
        for name in (
            *(
                "row_id",
                "trajectory_id",
                "step",
                "turn",
                "segment",
                "num_segments",
                "domain",
                "interleaved",
                "scrubbed",
            ),
            *("exit_code", "time_limit_s", "timed_out", "action", "observation", "next_observation", "context"),
        )
    ]
)
"""Columns of transitions from which costs are measured."""


def _costs(row: Mapping[str, Any], manner: Manner) -> dict[str, Any]:
    """Measure a row as the judge stage does."""
    batch = pa.RecordBatch.from_pylist([row], schema=_COSTED)
    (costs,) = Costing(manner.view, manner.counter).add(batch)
    measured: dict[str, Any] = costs.to_pylist()[0]
    return measured
