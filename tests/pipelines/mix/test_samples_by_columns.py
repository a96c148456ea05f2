"""Samples made by columns are those made row by row, whatever the view, the copies and the row groups."""

import json
from collections import Counter
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import FUZZ
from tests.pipelines.render.costed import NEEDED, batch_of, costed, costs_of
from tests.pipelines.render.test_costs import MIXES, UNIT
from tests.pipelines.render.test_turns import row
from trajmill.pipelines.execution.exchange import BLOCK_BYTES
from trajmill.pipelines.mix.asked_samples import AskedSamples
from trajmill.pipelines.mix.drawn_rows import WholeRows
from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.pipelines.mix.mix import blocks_by_shard
from trajmill.pipelines.mix.questions import answered_turns
from trajmill.pipelines.mix.sample_columns import made_schema
from trajmill.pipelines.mix.samples import Unlearnable, samples_of
from trajmill.pipelines.mix.whole_samples import WholeSamples
from trajmill.pipelines.mix.whole_trajectories import UnitRows, WholeTrajectories, places_of
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.render.answered import Distractors, turn_of
from trajmill.pipelines.render.fixed_texts import MARKER
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import answer, turns
from trajmill.quality.scrub import scrub_text
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import Reject

COUNTER = TokenCounter()
OWNED = {"group": "g1", "task_hash": "t1", "instance_hash": "i1", "number": 5}


class Columns(NamedTuple):
    samples: list[dict[str, Any]]
    rejects: list[Reject]
    inside: npt.NDArray[np.bool_]


def draws_of(names: list[str], pool: str, copies: int = 1) -> list[dict[str, Any]]:
    return [{"trajectory_id": name, "pool": pool, "copies": copies, **OWNED} for name in names]


def wholes_of(
    pool: Any, rows: list[dict[str, Any]], mix: Mix, copies: int = 1, others: Distractors | None = None
) -> WholeTrajectories:
    """The trajectories of rows of one domain that are made by columns."""
    names = list(dict.fromkeys(one["trajectory_id"] for one in rows))
    ordinal = np.array([names.index(one["trajectory_id"]) for one in rows])
    use = np.array([one["use"] for one in rows], object)
    costs = costs_of(rows, View.of(mix), COUNTER)
    unit = UnitRows(costs, use, ordinal, np.ones(len(rows), np.bool_), rows[0]["domain"])
    draws = draws_of(names, pool, copies)
    told = unit, places_of(pool, unit, draws), draws, mix, COUNTER
    return AskedSamples(*told, others or Distractors()) if pool == "rl" else WholeSamples(pool, *told)


def by_rows(
    pool: Any, rows: list[dict[str, Any]], mix: Mix, others: Distractors | None = None
) -> dict[str, list[dict[str, Any] | Unlearnable]]:
    """What each trajectory becomes, row by row."""
    told = costed([{**one, **OWNED} for one in rows], View.of(mix), COUNTER)
    found: dict[str, list[Any]] = {}
    for name, part in groupby(told, key=itemgetter("trajectory_id")):
        for window, sample in samples_of(pool, list(part), mix, COUNTER, others):
            if not isinstance(sample, Unlearnable):
                sample |= {"_hash": keyed_hash(f"order:{sample['_id']}", mix.seed), "_row": window[0]["row_id"]}
            found.setdefault(name, []).append(sample)
    return found


def by_columns(pool: Any, rows: list[dict[str, Any]], wholes: WholeTrajectories, cut: int, plain: bool) -> Columns:
    """The samples that are made by columns, what is rejected, and which rows they are of.

    Args:
        pool: of the samples.
        rows: of one domain.
        wholes: of them.
        cut: the row that the second row group begins with.
        plain: whether texts that repeat are plain, and not a dictionary, as they are read from a file.
    """
    batch = batch_of(rows, [*NEEDED, "source", "scrubbed"])
    if not plain:
        place = batch.schema.get_field_index("source")
        batch = batch.set_column(place, "source", batch["source"].dictionary_encode())
    made: list[pa.RecordBatch | Reject] = []
    inside = np.zeros(len(rows), np.bool_)
    for first, past in ((0, min(cut, len(rows))), (min(cut, len(rows)), len(rows))):
        inside[first:past] = wholes.within(first, past - first)
        made += list(wholes.of(WholeRows(first, batch.slice(first, past - first))))
    batches = [one for one in made if isinstance(one, pa.RecordBatch)]
    return Columns(read(pool, batches), [one for one in made if isinstance(one, Reject)], inside)


def read(pool: str, made: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return pa.Table.from_batches(made, made_schema(pool)).to_pylist()


@pytest.mark.parametrize("pool", ["cpt", "sft"])
@settings(max_examples=24 * FUZZ)
@given(unit=UNIT, mix=MIXES, most=st.sampled_from([None, 2500]), cut=st.integers(0, 30), plain=st.booleans())
def test_a_trajectory_that_is_shown_whole_is_the_same_sample(pool, unit, mix, most, cut, plain):
    mix = mix.model_copy(update={"window_tokens": dict.fromkeys(("cpt", "sft", "rl", "eval"), most)})
    every = [{**one, "row_id": f"{one['trajectory_id']}{one['step']}"} for part in unit for one in part]
    for domain in sorted({one["domain"] for one in every}):
        rows = [one for one in every if one["domain"] == domain]
        wanted = by_rows(pool, rows, mix)
        made, _, inside = by_columns(pool, rows, wholes_of(pool, rows, mix), cut, plain)
        names = [one["trajectory_id"] for one, here in zip(rows, inside, strict=True) if here]
        assert made == [sample for name in dict.fromkeys(names) for sample in wanted[name]]
        for name, some in wanted.items():
            own = [number for number, one in enumerate(rows) if one["trajectory_id"] == name]
            assert inside[own].all() or not inside[own].any()
            is_cut = own[0] < cut <= own[-1]
            keeps = mix.harness == "keep" and any(rows[number]["interleaved"] for number in own)
            is_one = len(some) == 1 and not isinstance(some[0], Unlearnable) and (most is None or is_short(some[0]))
            assert inside[own].all() == (is_one and not is_cut and not keeps)


def asked_both_ways(
    rows: list[dict[str, Any]], mix: Mix, cut: int, plain: bool
) -> tuple[dict[str, list[dict[str, Any] | Unlearnable]], Columns]:
    """What rows of one domain become in RL, row by row and by columns."""
    others = Distractors()
    for one in rows:
        others.add(turn_of(one, answer(one, View.of(mix)), None))
    wanted = by_rows("rl", rows, mix, others)
    found = by_columns("rl", rows, wholes_of("rl", rows, mix, others=others), cut, plain)
    names = list(dict.fromkeys(one["trajectory_id"] for one, here in zip(rows, found.inside, strict=True) if here))
    assert found.samples == [one for name in names for one in wanted[name] if not isinstance(one, Unlearnable)]
    refused = [(name, *one) for name in names for one in wanted[name] if isinstance(one, Unlearnable)]
    assert [(one.trajectory_id, one.reason, one.detail) for one in found.rejects] == refused
    sizes = Counter(one["trajectory_id"] for one in rows)
    assert all(one.transitions == sizes[one.trajectory_id] for one in found.rejects)
    return wanted, found


@settings(max_examples=24 * FUZZ)
@given(unit=UNIT, mix=MIXES, most=st.sampled_from([None, 2500]), cut=st.integers(0, 30), plain=st.booleans())
def test_a_turn_that_is_asked_for_is_the_same_sample(unit, mix, most, cut, plain):
    mix = mix.model_copy(update={"window_tokens": dict.fromkeys(("cpt", "sft", "rl", "eval"), most)})
    every = [{**one, "row_id": f"{one['trajectory_id']}{one['step']}"} for part in unit for one in part]
    for domain in sorted({one["domain"] for one in every}):
        rows = [one for one in every if one["domain"] == domain]
        wanted, found = asked_both_ways(rows, mix, cut, plain)
        for name, (one,) in wanted.items():
            own = [number for number, row in enumerate(rows) if row["trajectory_id"] == name]
            keeps = mix.harness == "keep" and any(rows[number]["interleaved"] for number in own)
            keeps |= mix.control_tokens == "drop"
            if not own[0] < cut <= own[-1] and not keeps and most is None and not isinstance(one, Unlearnable):
                assert found.inside[own].all()


def orders(name: str, number: int) -> list[dict[str, Any]]:
    """A session of a tool's calls, each of whose answers repeats what the action said, and what was shown before."""
    rows: list[dict[str, Any]] = []
    for step in range(5):
        verb = ("get", "show")[number % 2]
        given, state = (
            json.dumps({"command": f"{verb} order {number}{step}"}),
            ("open", "sent", "paid")[(number + step) % 3],
        )
        told = {
            "id": f"order {number}{step}",
            "last": f"order {number}{step - 1}",
            "status": state,
            "mark": "<|im_end|>" if step == 1 else "none",
        }
        after = json.dumps(told) if step in (1, 2) else f"welcome, buyer {number}"
        before = rows[-1]["next_observation"]["content"] if rows else f"shop {number} <|im_start|>"
        one = row(step, "order", after, before if step != 2 else f"shop {number} again", step=step)
        one["action"] |= {"name": "order", "arguments": given}
        one["next_observation"]["form"] = "response" if number % 4 else "state"
        rows.append({**one, "trajectory_id": name, "row_id": f"{name}{step}", "domain": "mcp", "source": "s"})
        rows[-1] |= {"scrubbed": int(number % 3 == 0), "num_segments": 1, "number": number}
    return rows


@pytest.mark.parametrize("policy", ["escape", "keep"])
def test_checks_of_a_turn_are_the_same(policy):
    rows = [one for number in range(24) for one in orders(f"t{number}", number)]
    _, found = asked_both_ways(rows, Mix(control_tokens=policy), len(rows), plain=False)
    truths = [json.loads(one["reward_model"]["ground_truth"]) for one in found.samples]
    assert {check["type"] for one in truths for check in one["checks"]} >= {"json_path", "exact"}
    assert any(one["previous"] for one in truths)


def is_short(sample: dict[str, Any]) -> bool:
    """Whether a sample is surely no window of a longer trajectory that the bound of the test cuts."""
    return bool(sample["num_tokens"] + 17 * sample["num_turns"] + 4 < 2500)


SECRETS = ["token is Zk83hsQ0pLm29xWv, keep it", "Zk83hsQ0pLm29xWv", "no secret", "ü Zk83hsQ0pLm29xWv"]


@pytest.mark.parametrize("pool", ["cpt", "sft"])
def test_placeholders_bear_no_loss_row_by_row_and_by_columns(pool):
    name = scrub_text("API_TOKEN=Zk83hsQ0pLm29xWv").removeprefix("API_TOKEN=")
    rows = [
        {
            **row(number, "x", text.replace("Zk83hsQ0pLm29xWv", name)),
            "trajectory_id": "t",
            "domain": "mcp",
            "source": "s",
        }
        for number, text in enumerate(SECRETS)
    ]
    rows = [{**one, "row_id": f"t{one['step']}", "scrubbed": 1, "num_segments": 1} for one in rows]
    [sample] = by_rows(pool, rows, Mix())["t"]
    assert by_columns(pool, rows, wholes_of(pool, rows, Mix()), len(rows), plain=True).samples == [sample]
    assert isinstance(sample, dict)
    texts = [sample["text"]] if pool == "cpt" else [one["content"] for one in sample["messages"]]
    told = [texts[span.get("message", 0)][span["begin"] : span["end"]] for span in sample["spans"]]
    assert [one for one in told if one != MARKER] == ["token is ", ", keep it", "no secret", "ü "]


def test_a_placeholder_is_not_asked_for():
    name = scrub_text("API_TOKEN=Zk83hsQ0pLm29xWv").removeprefix("API_TOKEN=")
    shown = turns([{**row(0, "x", f"token is {name}"), "row_id": "t0", "scrubbed": 1}])
    [turn] = answered_turns(shown, {"t0"})
    assert turn.volatile == ((9, 25),)


def test_a_trajectory_that_is_drawn_twice_is_there_twice():
    rows = [{**row(0, "ls", "a"), "trajectory_id": "t", "domain": "web", "source": "s"}]
    group = WholeRows(0, batch_of(rows, [*NEEDED, "source", "scrubbed"]))
    (made,) = wholes_of("sft", rows, Mix(), copies=2).of(group)
    assert isinstance(made, pa.RecordBatch)
    assert made.num_rows == 2
    assert made.slice(0, 1).equals(made.slice(1, 1))


def test_samples_go_to_the_shards_of_their_hashes_in_bounded_blocks():
    text = "x" * (BLOCK_BYTES // 5)
    rows = [
        {**row(0, f"ls {n}", text), "trajectory_id": f"t{n}", "row_id": f"r{n}", "domain": "web", "source": "s"}
        for n in range(12)
    ]
    made = list(wholes_of("sft", rows, Mix()).of(WholeRows(0, batch_of(rows, [*NEEDED, "source", "scrubbed"]))))
    blocks = [block for batch in made for block in blocks_by_shard(batch, 3)]
    told = [(index, sample["_hash"]) for index, block in blocks for sample in block.to_pylist()]
    assert sorted(told) == sorted((one["_hash"] * 3 >> 64, one["_hash"]) for one in read("sft", made))
    assert len(told) == 12
    assert all(block.nbytes <= BLOCK_BYTES for _, block in blocks)
