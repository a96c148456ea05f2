"""Reasoning samples: a model's reasoning before a prediction that a judge accepts, as a training sample.

The method follows the published fine-tuning of world models (arXiv 2606.24597, §3.3): several rollouts of one turn, a
judge that scores each and picks the best by pairs, and no sample where the best is below a threshold. Only rollouts
that reach the threshold themselves are compared by pairs, so that no weaker rollout replaces a good one.

A target turn is the one turn of an SFT sample that a model is to predict, with the messages that the model is shown.
The generating model is never sent the real observation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
import xxhash

from trajmill.pipelines.mix.sample_columns import SAMPLE_SCHEMAS
from trajmill.pipelines.render.fixed_texts import ASKING, MARKER
from trajmill.pipelines.render.pieces import cap
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import json_text
from trajmill.synthesis.endpoint import Endpoint
from trajmill.synthesis.judgements import DIMENSIONS, Judge, Question, mean_score
from trajmill.synthesis.predictions import Fault, Prediction, is_plain, pieces, prediction_of, without_thoughts
from trajmill.synthesis.replies import Reply, Request, SpentError
from trajmill.synthesis.tagged_prompts import tag_system_prompt
from trajmill.synthesis.wording import asking

_JUDGED_TURNS: Final = 6
_JUDGED_MESSAGE: Final = 4_000
_JUDGED_ACTION: Final = 24_000
_JUDGED_OBSERVATION: Final = 60_000
"""Turns of the history, and characters of texts, that a judge is shown."""


@dataclass(frozen=True, slots=True)
class TargetTurn:
    """Turn to be predicted.

    Attributes:
        message: Index of the assistant message in the sample.
        shown: Messages sent to the generating model; the last one asks for the prediction.
        truth: Real observation.
    """

    message: int
    shown: tuple[dict[str, str], ...]
    truth: str


def target_turn(
    sample: Mapping[str, Any], most_tokens: int, counter: TokenCounter, seed: int = 0, folder: Path | None = None
) -> TargetTurn | None:
    """Draw a turn of a sample by hash, among those with loss and a prompt within the bound; None if there is none.

    Args:
        sample: Row of SFT shards.
        most_tokens: Largest number of tokens of a prompt.
        counter: Token counter with the recipe's tokenizer.
        folder: Folder of the user's own templates, if the recipe names one.
    """
    messages: Sequence[Mapping[str, Any]] = sample["messages"]
    sizes = counter.count(pa.array([message["content"] for message in messages], pa.string())).tolist()
    before = [0, *accumulate(sizes)]
    fitting = [
        number
        for number, message in enumerate(messages)
        if message["loss"] and message["content"].startswith(MARKER) and before[number] <= most_tokens
    ]
    if not fitting:
        return None
    number = fitting[xxhash.xxh3_64_intdigest(f"reason:{sample['id']}".encode(), seed) % len(fitting)]
    return TargetTurn(
        number, _shown(messages[:number], sample["template"], folder), messages[number]["content"][len(MARKER) :]
    )


def _shown(messages: Sequence[Mapping[str, Any]], template: str, folder: Path | None) -> tuple[dict[str, str], ...]:
    shown = [{"role": message["role"], "content": without_thoughts(message["content"])} for message in messages]
    if shown[0]["role"] == "system":
        shown[0]["content"] = tag_system_prompt(shown[0]["content"], template, folder)
    shown[-1]["content"] += ASKING
    return tuple(shown)


def question(domain: str, turn: TargetTurn) -> Question:
    """Build the question to a judge about a turn, with the last turns before it and only the ends of long texts."""
    before = [message["content"] for message in turn.shown[:-1] if message["role"] != "system"][-2 * _JUDGED_TURNS :]
    action = turn.shown[-1]["content"].removesuffix(ASKING)
    history = "\n\n".join(cap(text, _JUDGED_MESSAGE) for text in before)
    return Question(domain, history, cap(action, _JUDGED_ACTION), cap(turn.truth, _JUDGED_OBSERVATION))


def prediction_for_judge(observation: str) -> str:
    """Return the text of a prediction that a judge is shown."""
    return cap(observation, _JUDGED_OBSERVATION)


Target = Literal["rollout", "truth"]
UNKNOWN: Final = "unknown"
"""Revision of a model if neither the user nor the endpoint names one."""

_ENVIRONMENT: Final = pa.struct([("kind", pa.string()), ("world_model", pa.string()), ("sampling", pa.string())])
PROVENANCE: Final = pa.struct(
    [
        ("target", pa.string()),
        ("environment", _ENVIRONMENT),
        ("model", pa.string()),
        ("sampling", pa.string()),
        ("rollout", pa.int32()),
        ("rollouts", pa.int32()),
        ("score", pa.float64()),
        ("scores", pa.struct([(name, pa.int32()) for name in DIMENSIONS])),
        ("judge", pa.string()),
        ("judge_sampling", pa.string()),
        ("judge_prompts", pa.list_(pa.string())),
    ]
)
"""Origin of a row's last message.

`environment` marks an observation made by a model (`kind: model`, `world_model` as `name@revision`, `sampling`); it is
null if the observation is from the log. `model` and `sampling` describe the reasoning in either case. `score` is the
mean of `scores`, from 0 to 1. `rollout` is the index of the kept rollout among `rollouts`.
"""

REASONED_SCHEMA: Final = pa.schema([*SAMPLE_SCHEMAS["sft"], pa.field("reasoning", PROVENANCE)])
"""Columns of reasoned samples: those of SFT samples, and the origin of the reasoning."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Settings of the reasoning.

    Attributes:
        model: Model that reasons.
        revision: Revision of the model; empty takes the revision from the endpoint.
        rollouts: Answers per turn.
        threshold: Mean score, from 0 to 1, below which an answer is not used.
        target: `rollout` keeps the whole best answer, `truth` only its reasoning, before the real observation.
        max_prompt_tokens: Largest number of prompt tokens of a chosen turn.
        seed: Seed of the choice of turns.
    """

    model: str
    revision: str = ""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    rollouts: int = 3
    threshold: float = 0.75
    target: Target = "truth"
    max_prompt_tokens: int = 1 << 17
    seed: int = 0


class Reasoned(NamedTuple):
    """Result for a sample: a row, or the reason why there is none, and its rollouts counted by outcome."""

    row: dict[str, Any] | None
    outcome: str
    rollouts: Counter[str]


class _Rollout(NamedTuple):
    number: int
    prediction: Prediction
    reply: Reply
    scores: dict[str, int]

    @property
    def score(self) -> float:
        return mean_score(self.scores)


@dataclass(frozen=True, slots=True)
class Reasoner:
    """Generator of reasoning for samples.

    Attributes:
        endpoint: Endpoint of the model that reasons.
        judge: Judge of the predictions.
        counter: Token counter with the recipe's tokenizer.
        templates: Folder of the user's own templates, if the recipe names one.
    """

    reasoning: Reasoning
    endpoint: Endpoint
    judge: Judge
    counter: TokenCounter
    templates: Path | None = None

    def reasoned(self, sample: Mapping[str, Any]) -> Reasoned:
        """Add reasoning to a row of SFT shards.

        Outcomes without a row: `no_turn` (no turn has loss and fits the bound), `no_prediction` (no rollout can be
        parsed), `unjudged` (no judgment can be parsed), `below_threshold`, `ambiguous` (the real observation contains
        tags of its own), `not_asked` (the cost bound was reached).

        Raises:
            ConfigError, ShardError: As in `Endpoint.ask`.
        """
        tally: Counter[str] = Counter()
        how = self.reasoning
        turn = target_turn(sample, how.max_prompt_tokens, self.counter, how.seed, self.templates)
        if turn is None:
            return Reasoned(None, "no_turn", tally)
        if how.target == "truth" and not is_plain(Prediction("x", turn.truth)):
            return Reasoned(None, "ambiguous", tally)
        try:
            best = self._best(sample["domain"], turn, tally)
        except SpentError:
            return Reasoned(None, "not_asked", Counter())
        if isinstance(best, str):
            return Reasoned(None, best, tally)
        return Reasoned(self._row(sample, turn, best), "kept", tally)

    def _best(self, domain: str, turn: TargetTurn, tally: Counter[str]) -> _Rollout | str:
        """Return the best rollout of a turn, or the reason why there is none."""
        read: list[tuple[int, Prediction, Reply]] = []
        for number in range(self.reasoning.rollouts):
            request = Request(self.reasoning.model, turn.shown, dict(self.reasoning.sampling), number)
            reply = self.endpoint.ask(request)
            parsed = prediction_of(reply)
            tally[parsed if isinstance(parsed, Fault) else "read"] += 1
            if isinstance(parsed, Prediction):
                read.append((number, parsed, reply))
        if not read:
            return "no_prediction"
        asked = question(domain, turn)
        rated = [(rollout, self.judge.scores(asked, prediction_for_judge(rollout[1].observation))) for rollout in read]
        scored = [_Rollout(*rated_rollout, scores) for rated_rollout, scores in rated if scores is not None]
        tally["unjudged"] += len(read) - len(scored)
        if not scored:
            return "unjudged"
        passing = [rollout for rollout in scored if rollout.score >= self.reasoning.threshold]
        tally["passing"] += len(passing)
        return self._winner(domain, turn, passing) if passing else "below_threshold"

    def _winner(self, domain: str, turn: TargetTurn, passing: Sequence[_Rollout]) -> _Rollout:
        """Return the rollout that wins the comparisons, made from the best score down; a tie keeps the higher score."""
        best, *others = sorted(passing, key=lambda rollout: (-rollout.score, rollout.number))
        asked = question(domain, turn)
        for rival in others:
            if rival.prediction.observation != best.prediction.observation:
                texts = (
                    prediction_for_judge(best.prediction.observation),
                    prediction_for_judge(rival.prediction.observation),
                )
                best = rival if self.judge.better(asked, *texts) == "other" else best
        return best

    def _row(self, sample: Mapping[str, Any], turn: TargetTurn, best: _Rollout) -> dict[str, Any]:
        is_truth = self.reasoning.target == "truth"
        written = Prediction(best.prediction.reasoning, turn.truth) if is_truth else best.prediction
        texts = pieces(written)
        content, spans = "".join(texts), _spans(sample, turn, texts, is_truth)
        history: list[dict[str, Any]] = [
            {**message, "loss": False if message["role"] == "assistant" else None} for message in turn.shown
        ]
        messages = [*history, {"role": "assistant", "content": content, "loss": True}]
        learnt = [content[begin:end] for begin, end in _join_spans(spans)]
        return {
            **{name: sample[name] for name in ("domain", "source", "trajectory_id", "group", "template")},
            "id": f"{sample['id']}:{turn.message}",
            "num_turns": sum(message["role"] == "user" for message in messages),
            "num_tokens": self._tokens([message["content"] for message in messages]),
            "num_loss_tokens": self._tokens(learnt),
            "messages": messages,
            "spans": [{"message": len(messages) - 1, **span} for span in spans],
            "reasoning": self._provenance(best, is_truth),
        }

    def _tokens(self, texts: Sequence[str]) -> int:
        return int(self.counter.count(pa.array(texts, pa.string())).sum())

    def _provenance(self, best: _Rollout, is_truth: bool) -> dict[str, Any]:
        how, sampling = self.reasoning, json_text(dict(self.reasoning.sampling))
        name = f"{how.model}@{how.revision or best.reply.revision or UNKNOWN}"
        environment = None if is_truth else {"kind": "model", "world_model": name, "sampling": sampling}
        return {
            "target": how.target,
            "environment": environment,
            "model": name,
            "sampling": sampling,
            "rollout": best.number,
            "rollouts": how.rollouts,
            "score": best.score,
            "scores": best.scores,
            "judge": self.judge.model,
            "judge_sampling": json_text(dict(self.judge.sampling)),
            "judge_prompts": [asking(prompt_name).reference for prompt_name in ("judge_scores", "judge_pair")],
        }


def _spans(sample: Mapping[str, Any], turn: TargetTurn, texts: Sequence[str], is_truth: bool) -> list[dict[str, Any]]:
    """Build the spans of the last message: all, but only the parts of the real observation that had loss before."""
    moved: list[dict[str, Any]] = []
    offset = 0
    for text, label in zip(texts, ("frame", None, "frame", "observed", "frame"), strict=True):
        if label == "observed" and is_truth:
            moved += _shift_spans(sample["spans"], turn.message, offset - len(MARKER), len(MARKER))
        elif text:
            moved.append({"begin": offset, "end": offset + len(text), "label": None if label == "observed" else label})
        offset += len(text)
    return moved


def _shift_spans(spans: Sequence[Mapping[str, Any]], message: int, by: int, head: int) -> list[dict[str, Any]]:
    """Return the spans of a message behind its heading, shifted."""
    mine = [(max(span["begin"], head), span["end"], span["label"]) for span in spans if span["message"] == message]
    return [{"begin": begin + by, "end": end + by, "label": label} for begin, end, label in mine if begin < end]


def _join_spans(spans: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Return (begin, end) of the ranges that adjacent spans cover without a gap."""
    ranges: list[tuple[int, int]] = []
    for span in spans:
        if ranges and ranges[-1][1] == span["begin"]:
            ranges[-1] = ranges[-1][0], span["end"]
        else:
            ranges.append((span["begin"], span["end"]))
    return ranges
