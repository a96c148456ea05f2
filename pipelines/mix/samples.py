"""Samples: what a judged trajectory becomes in each pool, with columns that trainers read as they are.

A pure function of the rows of a trajectory and the recipe's section `mix`; which pool it is for, and where a sample
then lies, is the matter of `mix`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.pipelines.mix.questions import question_of
from trajmill.pipelines.mix.sample_tokens import TurnTokens, askable, prompt_tokens, turn_tokens, whole_tokens
from trajmill.pipelines.recipe.recipe import Mix, Pool
from trajmill.pipelines.render.answered import Distractors
from trajmill.pipelines.render.control_bits import CONTEXT as IN_CONTEXT
from trajmill.pipelines.render.loss_spans import SpanWeights, document_spans, message_spans
from trajmill.pipelines.render.prompts import ASKING, CONTEXT, Prompt, Wording, prompt
from trajmill.pipelines.render.turns import Outline, Rows, Turn, View, document, messages, outlined, rendered, turns
from trajmill.pipelines.render.windows import windows
from trajmill.quality.tokens import TokenCounter

_EVALUATED: Final = 5
"""Turns of a trajectory that AgentWorldBench asks for, before half of its samples were taken."""


class Unlearnable(NamedTuple):
    """Why rows become no sample: the reason of their reject and its words."""

    reason: str
    detail: str


HOLDING: Final = Unlearnable(
    "control_tokens", "what it would show holds a string that chat tokenizers take for a control token"
)

UNANSWERABLE: Final = Unlearnable("no_question", "no turn of it has an answer that a rule can tell")
UNPROVEN: Final = Unlearnable("not_certified", "no turn of it led to the same when it was replayed")

Made: TypeAlias = "Iterable[tuple[Rows, dict[str, Any] | Unlearnable]]"


def samples_of(pool: Pool, rows: Rows, mix: Mix, counter: TokenCounter, others: Distractors | None = None) -> Made:
    """What a trajectory becomes in a pool: (rows, sample), or why rows become none.

    In CPT and SFT each window is a sample. The first that holds something to learn has the id of the trajectory, others
    `<id>@<step>` of their first row. RL takes one turn and what comes before it; eval takes turns as AgentWorldBench
    does, the first, the last and three between them, and half of those by hash.

    They are made as they are asked for, one after the other: of a long trajectory only what one shows is rendered.

    Args:
        pool: one of `POOLS`.
        rows: of a trajectory, or of one segment of it, in order, each with its verdict and costs.
        mix: the recipe's section.
        counter: counts tokens under the recipe's tokenizer.
        others: answers that the checks of RL are tried by; None has none.
    """
    first = rows[0]
    key = first["trajectory_id"] + (f"-{first['segment']}" if first["num_segments"] > 1 else "")
    view = View.of(mix)
    whole = outlined(rows, view)
    if not targets(whole):
        return [(rows, Unlearnable("no_target", f"no turn of it can stand alone as a target in pool {pool}"))]
    if mix.control_tokens == "drop" and first["control"] & IN_CONTEXT:
        return [(rows, HOLDING)]
    wording = Wording.of(mix, pool)
    told = prompt(rows, key, wording, view)
    texts = [first[f"{name}_tokens"] for name in CONTEXT]
    size = prompt_tokens(wording.template(first["domain"], key), told.shape, texts, pool, view, counter)
    making = _Making(pool, key, rows, told, size, mix, counter)
    if pool == "rl":
        return making.rl_sample(whole, others or Distractors())
    return making.eval_samples(whole) if pool == "eval" else making.whole_samples(whole)


@dataclass(frozen=True, slots=True)
class _Making:
    """What the samples of a trajectory share."""

    pool: Pool
    key: str
    rows: Rows
    prompt: Prompt
    prompt_tokens: int
    mix: Mix
    counter: TokenCounter

    def _over(self) -> Unlearnable:
        most = self.mix.window_tokens[self.pool]
        return Unlearnable("over_window", f"longer than the {most:,} tokens of a sample of pool {self.pool}")

    @property
    def _view(self) -> View:
        return View.of(self.mix)

    def _drops(self, shown: Sequence[Outline]) -> bool:
        """Whether what these turns show leaves them out."""
        return self.mix.control_tokens == "drop" and any(turn.holds_control for turn in shown)

    def whole_samples(self, whole: Sequence[Outline]) -> Iterator[tuple[Rows, dict[str, Any] | Unlearnable]]:
        """The samples of CPT or SFT, each of which ends with its last target: what comes after teaches nothing."""
        whole = _to_last_target(whole)
        costs = turn_tokens(whole, self.counter)
        sizes = list(map(add, *costs))
        bound = self.mix.window_tokens[self.pool], self.counter, self.mix.overflow[self.pool]
        has_any = has_first = False
        for window in windows(self.rows, whole, sizes, self.prompt_tokens, *bound):
            has_any, is_whole = True, window.rows is self.rows
            shown = whole if is_whole else _to_last_target(outlined(window.rows, self._view))
            if window.fits and self._drops(shown):
                yield window.rows, HOLDING
                continue
            if not window.fits or not shown:
                said = "no turn of it can stand alone as a target in pool "
                yield window.rows, Unlearnable("no_target", said + self.pool) if window.fits else self._over()
                continue
            own = f"{self.key}@{window.rows[0]['step']}" if has_first else self.key
            has_first = True
            mine = costs if is_whole else turn_tokens(shown, self.counter)
            yield (
                window.rows,
                self._whole_sample(own, rendered(shown, self._view, window.opening), mine, window.opening),
            )
        if not has_any:
            yield self.rows, self._over()

    def _whole_sample(self, key: str, shown: Sequence[Turn], costs: TurnTokens, opening: str) -> dict[str, Any]:
        first, is_cpt = self.rows[0], self.pool == "cpt"
        system, before = self.prompt.text, self.prompt_tokens + self.counter.of(opening)
        loss = [turn.loss for turn in shown]
        tokens = whole_tokens(self.pool, before, *costs, loss, self.counter)
        common = {
            "id": key,
            "domain": first["domain"],
            "source": first["source"],
            "trajectory_id": first["trajectory_id"],
            **{name: first[name] for name in _OWNERS},
            "num_turns": len(shown),
            "num_tokens": tokens.whole,
            "num_loss_tokens": tokens.loss,
            "template": self.prompt.template,
        }
        text = {"text": document(system, shown)} if is_cpt else {"messages": messages(system, shown)}
        weights = SpanWeights.of(self.mix)
        spans = document_spans(system, shown, weights) if is_cpt else message_spans(shown, weights)
        return {**common, **text, "spans": spans, "_id": key, **self._held(shown)}

    def rl_sample(self, whole: Sequence[Outline], others: Distractors) -> Made:
        """The sample of RL: one turn that the bounds allow, drawn by hash, given those before it."""
        fitting = self._fitting(whole)
        if not fitting:
            return [(self.rows, HOLDING if self._drops(whole) else self._over())]
        proven = {row["step"] for row in self.rows if row.get("certified", True)}
        fitting = {place: fits for place, fits in fitting.items() if whole[place].step in proven}
        if not fitting:
            return [(self.rows, UNPROVEN)]
        state = self.rows[0]["context"]["initial_state"]
        asked = question_of(whole, fitting, state, others, self.mix)
        if asked is None:
            return [(self.rows, UNANSWERABLE)]
        place, truth = asked
        before = whole[: place + 1]
        shown, opening = (rendered(before, self._view), "") if fitting[place] else self._newest(before)
        return [(self.rows, self._rl_row(shown, len(whole), truth, opening) if shown else self._over())]

    def eval_samples(self, whole: Sequence[Outline]) -> Made:
        """The samples of eval: of the first turn, the last and three between them, half by hash and at least one."""
        fitting = self._fitting(whole)
        places = list(fitting)
        if len(places) > _EVALUATED:
            places = [places[round(n * (len(places) - 1) / (_EVALUATED - 1))] for n in range(_EVALUATED)]
        draws = sorted((keyed_hash(f"turn:{self.key}:{whole[place].step}", self.mix.seed), place) for place in places)
        taken = [place for number, place in draws if number < 1 << 63] or [place for _, place in draws[:1]]
        known = rendered(whole[: max((place + 1 for place in taken if fitting[place]), default=0)], self._view)
        found: list[tuple[Rows, dict[str, Any] | Unlearnable]] = []
        for place in sorted(taken):
            shown = known[: place + 1] if fitting[place] else self._newest(whole[: place + 1])[0]
            found += [(self.rows, self._eval_row(shown, len(whole)))] if shown else []
        return found or [(self.rows, HOLDING if self._drops(whole) else self._over())]

    def _fitting(self, whole: Sequence[Outline]) -> dict[int, bool]:
        """The places of turns that can be asked for, and whether all that comes before fits the bound."""
        users, answers = turn_tokens(whole, self.counter)
        loss, held = [turn.loss for turn in whole], [turn.holds_control for turn in whole]
        return askable(self.pool, self.mix, self.prompt_tokens, users, answers, loss, held)

    def _newest(self, shown: Sequence[Outline]) -> tuple[list[Turn], str]:
        """The last turns before the bound, of a trajectory up to the last of these, and what opens them."""
        steps = [row["step"] for row in self.rows]
        rows = self.rows[: steps.index(shown[-1].step) + 1]
        sizes = list(map(add, *turn_tokens(shown, self.counter)))
        most = self.mix.window_tokens[self.pool]
        (cut,) = windows(rows, shown, sizes, self.prompt_tokens, most, self.counter, "cut_oldest")
        found = turns(cut.rows, self._view, cut.opening)
        return found if cut.fits and found[-1].loss else [], cut.opening

    def _eval_row(self, shown: Sequence[Turn], total: int) -> dict[str, Any]:
        first, turn = self.rows[0], shown[-1]
        key = f"{self.key}:{turn.step}"
        began = began_at(turn.row["started_at"])
        return {
            "task": first["domain"],
            "id": _number(key, self.mix.seed),
            "prompt": [one.user for one in shown],
            "response": [one.assistant for one in shown],
            "current_prompt": turn.user + ASKING,
            "system_str": self.prompt.text,
            "turn_idx": len(shown),
            "total_turns": total,
            "sample_id": key,
            "trajectory_id": first["trajectory_id"],
            **{name: first[name] for name in _OWNERS},
            "environment": first["familiarity"],
            "started_at": began,
            "time": _time(began, self.mix),
            "_id": key,
            **self._held(shown),
        }

    def _rl_row(self, shown: Sequence[Turn], total: int, truth: str, opening: str) -> dict[str, Any]:
        first, turn = self.rows[0], shown[-1]
        users, answers = turn_tokens(shown, self.counter)
        tokens = self.prompt_tokens + sum(map(self.counter.of, (opening, ASKING))) + sum(users) + sum(answers[:-1])
        said = messages(self.prompt.text, shown)[:-1]
        said[-1]["content"] = turn.user + ASKING
        return {
            "data_source": f"trajmill/{first['domain']}",
            "prompt": [{k: m[k] for k in ("role", "content")} for m in said],
            "ability": "world_model",
            "reward_model": {"style": "rule", "ground_truth": truth},
            "extra_info": {
                "split": "train",
                "index": first["number"],
                "id": f"{self.key}:{turn.step}",
                "domain": first["domain"],
                "turn_idx": len(shown),
                "total_turns": total,
                "trajectory_id": first["trajectory_id"],
                **{name: first[name] for name in _OWNERS},
                "num_tokens": tokens,
                "max_response_tokens": self.mix.max_response_tokens,
                "template": self.prompt.template,
            },
            "_id": self.key,
            **self._held(shown),
        }

    def _held(self, shown: Sequence[Turn]) -> dict[str, Any]:
        """How many turns of a sample show control strings, and whether it shows any."""
        number = sum(turn.holds_control for turn in shown)
        return {"_control_turns": number, "_control": number > 0 or bool(self.rows[0]["control"] & IN_CONTEXT)}


def _to_last_target(shown: Sequence[Outline]) -> list[Outline]:
    taught = targets(shown)
    return list(shown[: taught[-1] + 1]) if taught else []


_OWNERS: Final = ("group", "task_hash", "instance_hash")
"""Of what no two pools have the same."""


def began_at(microseconds: int | None) -> str:
    """A moment, in microseconds since 1970 UTC, as ISO 8601; empty if it is not known."""
    return "" if microseconds is None else f"{np.datetime64(microseconds, 'us')}Z"


def _time(began: str, mix: Mix) -> str:
    if not began or mix.after is None:
        return "unknown"
    return "after" if began >= mix.after.isoformat() else "before"


def held_out_kinds(samples: pa.Table) -> dict[str, int]:
    """How many samples of eval there are of each kind: `environment_seen`, `time_after` and so on."""
    counts = Counter(f"{name}_{value}" for name in ("environment", "time") for value in samples[name].to_pylist())
    return dict(sorted(counts.items()))


def targets(shown: Sequence[Outline | Turn]) -> list[int]:
    """Positions of the turns that the loss stands on."""
    return [position for position, turn in enumerate(shown) if turn.loss]


def _number(key: str, seed: int) -> int:
    return keyed_hash(f"index:{key}", seed) >> 1


def with_own_ids(samples: pa.Table, keys: Sequence[str], pool: str, mix: Mix) -> pa.Table:
    """The samples of a pool, of which those that share an id have one of their own: the second `<id>.2`, and so on.

    Exact copies, where the recipe keeps them, share the id of their trajectory. They all go to one shard, so that it
    can tell them apart.

    Args:
        samples: in the order in which they stand in the shard.
        keys: the id that each was made with.
        pool: of the samples.
        mix: the recipe's section.
    """
    seen: Counter[str] = Counter()
    own: dict[int, str] = {}
    for row, key in enumerate(keys):
        seen[key] += 1
        if seen[key] > 1:
            own[row] = f"{key}.{seen[key]}"
    if not own:
        return samples
    numbers = {row: _number(key, mix.seed) for row, key in own.items()}
    if pool == "eval":
        return _replaced(_replaced(samples, "id", numbers), "sample_id", own)
    if pool != "rl":
        return _replaced(samples, "id", own)
    told = samples["extra_info"].to_pylist()
    turns = {row: told[row]["id"].rpartition(":")[2] for row in own}
    infos = {row: {**told[row], "id": f"{key}:{turns[row]}"} for row, key in own.items()}
    return _replaced(samples, "extra_info", infos)


def _replaced(table: pa.Table, name: str, values: Mapping[int, Any]) -> pa.Table:
    """The table with other values in some rows of a column."""
    held = [values.get(row, value) for row, value in enumerate(table[name].to_pylist())]
    position = table.schema.get_field_index(name)
    return table.set_column(position, table.schema.field(name), pa.array(held, table.schema.field(name).type))
