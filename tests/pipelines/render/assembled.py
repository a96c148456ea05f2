"""Samples of rows that tests write as Python values, and what they say, put together plainly."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from trajmill.pipelines.mix.drawn_rows import Stretch
from trajmill.pipelines.mix.sample_columns import unwritten_schema
from trajmill.pipelines.mix.sample_plan import Plan
from trajmill.pipelines.mix.samples import Assembler
from trajmill.pipelines.mix.simulation_instructions import costs_with_instructions
from trajmill.pipelines.recipe.recipe import Mix, Pool
from trajmill.pipelines.render.answered import Distractors
from trajmill.pipelines.render.costs import COST_HASHES, Costing
from trajmill.pipelines.render.fixed_texts import BETWEEN, MARKER
from trajmill.pipelines.render.loss_spans import LossSpan, answer_spans
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.prompts import CONTEXT, Wording, make_prompt
from trajmill.pipelines.render.turns import Rows, Turn
from trajmill.pipelines.render.unit_costs import UnitCosts
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import Reject
from trajmill.schemas.transition import encode_schema
from trajmill.schemas.verdict import SIGNAL_PREFIX

DEFAULTS: dict[str, Any] = {"row_id": "r", "num_segments": 1, "segment": 0, "source": "s", "scrubbed": 0}
NEEDED = (
    *("row_id", "trajectory_id", "step", "segment", "num_segments", "turn", "domain", "context", "observation"),
    *("action", "next_observation", "interleaved", "exit_code", "time_limit_s", "timed_out", "source", "scrubbed"),
    "started_at",
)
OWNED: dict[str, Any] = {"group": "g", "task_hash": "t", "instance_hash": "i", "number": 5, "familiarity": "seen"}


def batch_of(rows: Rows, names: Sequence[str] = NEEDED) -> pa.RecordBatch:
    """Some columns of rows, as transitions have them."""
    fields = [pa.field(field.name, _nullable(field.type)) for field in map(encode_schema().field, names)]
    values = [{name: {**DEFAULTS, **row}.get(name) for name in names} for row in rows]
    return pa.RecordBatch.from_pylist(values, schema=pa.schema(fields))


def _nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return (
        pa.struct([pa.field(field.name, _nullable(field.type)) for field in kind]) if pa.types.is_struct(kind) else kind
    )


def unit_of(rows: Rows, view: View, counter: TokenCounter) -> UnitCosts:
    """The costs of rows of one domain."""
    use = np.array([row["use"] for row in rows], object)
    return UnitCosts(costs_of(rows, view, counter), use, rows[0]["domain"], counter)


def costs_of(rows: Rows, view: View, counter: TokenCounter) -> pa.Table:
    """What judge measures of rows."""
    return pa.Table.from_batches(Costing(view, counter).add(batch_of(rows)))


def assembler_of(
    pool: Pool,
    rows: Rows,
    mix: Mix,
    counter: TokenCounter | None = None,
    others: Distractors | None = None,
    copies: int = 1,
    instructions: Mapping[str, str] | None = None,
) -> tuple[Assembler, Stretch]:
    """Who makes the samples of rows of one domain, and the rows as it takes them."""
    counter = counter or TokenCounter()
    costs, use = costs_of(rows, View.of(mix), counter), np.array([row["use"] for row in rows], object)
    own = costs_with_instructions(costs, instructions or {}, counter)
    plan = Plan(UnitCosts(own, use, rows[0]["domain"], counter), pool, mix, counter)
    firsts = [rows[number] for number in plan.unit.begins.tolist()]
    draws = [{**OWNED, "trajectory_id": row["trajectory_id"], "copies": copies} for row in firsts]
    names = ("spans", "certified", "written", *(name for name in rows[0] if name.startswith(SIGNAL_PREFIX)))
    spans = pa.list_(pa.struct([("begin", pa.int64()), ("end", pa.int64()), ("label", pa.string())]))
    kinds = {"spans": spans, "written": pa.list_(pa.string())}
    beside = {
        name: pa.chunked_array([pa.array([row.get(name) for row in rows], kinds.get(name))])
        for name in names
        if any(row.get(name) is not None for row in rows)
    }
    assembler = Assembler(plan, np.arange(len(rows)), draws, beside, instructions or {}, others or Distractors())
    state, led = (costs[name].to_numpy() for name in COST_HASHES)
    unread = (state != 0) & (state != np.append(np.uint64(0), led[:-1]))
    batch = batch_of(rows)
    return assembler, Stretch(0, batch, unread, batch.filter(pa.array(unread)))


def made_of(
    pool: Pool,
    rows: Rows,
    mix: Mix | None = None,
    counter: TokenCounter | None = None,
    others: Distractors | None = None,
    instructions: Mapping[str, str] | None = None,
) -> list[dict[str, Any] | Reject]:
    """The samples of rows of one domain and why others become none, in the order in which they are made."""
    assembler, stretch = assembler_of(pool, rows, mix or Mix(), counter, others, 1, instructions)
    records: list[dict[str, Any] | Reject] = []
    for record in assembler.of(stretch):
        records += (
            [record]
            if isinstance(record, Reject)
            else pa.Table.from_batches([record], unwritten_schema(pool)).to_pylist()
        )
    return records


def samples_of(
    pool: Pool,
    rows: Rows,
    mix: Mix | None = None,
    counter: TokenCounter | None = None,
    others: Distractors | None = None,
    instructions: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """The samples alone."""
    return [sample for sample in made_of(pool, rows, mix, counter, others, instructions) if isinstance(sample, dict)]


def prompt_of(rows: Rows, pool: str, view: View | None = None, seed: int = 0) -> str:
    """The system prompt of one trajectory."""
    chosen = view or View()
    (shape,) = unit_of(rows, chosen, TokenCounter()).shapes
    context = {name: rows[0]["context"].get(name) for name in CONTEXT}
    return make_prompt(shape, context, rows[0]["trajectory_id"], Wording(pool, seed), chosen).text


def targets(shown: Sequence[Turn]) -> list[int]:
    """The places of the turns that bear the loss."""
    return [number for number, turn in enumerate(shown) if turn.loss]


def messages(system: str, shown: Sequence[Turn]) -> list[dict[str, Any]]:
    """The messages that turns are shown in."""
    conversation: list[dict[str, Any]] = [{"role": "system", "content": system, "loss": None}]
    for turn in shown:
        conversation.append({"role": "user", "content": turn.user, "loss": None})
        conversation.append({"role": "assistant", "content": turn.assistant, "loss": turn.loss})
    return conversation


def document(system: str, shown: Sequence[Turn]) -> str:
    """The text that turns are shown in."""
    return BETWEEN.join(message["content"] for message in messages(system, shown)) + "\n"


def turn_spans(turn: Turn) -> list[LossSpan]:
    """The spans of a turn that bear the loss."""
    return answer_spans(turn.answer) if turn.loss else []


def message_spans(shown: Sequence[Turn]) -> list[dict[str, Any]]:
    """The same of messages, as samples hold them."""
    return [
        {"message": 2 * number + 2, **span._asdict()} for number, turn in enumerate(shown) for span in turn_spans(turn)
    ]


def document_spans(system: str, shown: Sequence[Turn]) -> list[dict[str, Any]]:
    """The same of a document."""
    spans: list[dict[str, Any]] = []
    for number, turn in enumerate(shown):
        offset = len(document(system, shown[: number + 1])) - len(MARKER) - len(turn.observation) - 1
        spans += [
            {"begin": offset + span.begin, "end": offset + span.end, "label": span.label} for span in turn_spans(turn)
        ]
    return spans
