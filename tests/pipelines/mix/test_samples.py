"""Samples: the assembler writes the turns of trajectories, whatever the view, the windows and the pool."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import FUZZ
from tests.pipelines.render.assembled import (
    assembler_of,
    document,
    document_spans,
    made_of,
    message_spans,
    messages,
    prompt_of,
    samples_of,
)
from tests.pipelines.render.test_costs import MIXES, UNIT
from tests.pipelines.render.test_turns import row
from trajmill.pipelines.judge.measuring import Answering
from trajmill.pipelines.mix import shard_writing
from trajmill.pipelines.mix.mix import blocks_by_shard
from trajmill.pipelines.mix.mixing import Mixing, Shard
from trajmill.pipelines.mix.sample_columns import unwritten_schema
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.render.answered import Distractors
from trajmill.pipelines.render.fixed_texts import ASKING, MARKER
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import trajectories, turns
from trajmill.pipelines.storage.folders import Folder
from trajmill.quality.scrub import scrub_text
from trajmill.quality.scrubbing.replaced import placeholder_spans
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import Reject

ANY: dict[Any, Any] = dict.fromkeys(("cpt", "sft", "rl", "eval"))
NAME = scrub_text("API_TOKEN=Zk83hsQ0pLm29xWv").removeprefix("API_TOKEN=")


def by_domain(unit: Any) -> list[list[dict[str, Any]]]:
    """The rows of each domain, each with an id of its own."""
    every = [
        {**transition, "row_id": f"{transition['trajectory_id']}{transition['step']}"}
        for part in unit
        for transition in part
    ]
    return [
        [transition for transition in every if transition["domain"] == domain]
        for domain in sorted({transition["domain"] for transition in every})
    ]


def to_last_target(shown: list[Any]) -> list[Any]:
    return shown[: max((number for number, turn in enumerate(shown) if turn.loss), default=-1) + 1]


@settings(max_examples=8 * FUZZ)
@given(unit=UNIT, mix=MIXES)
def test_a_sample_shows_all_turns_up_to_the_last_target_in_the_order_of_the_rows(unit, mix):
    view = View.of(mix)
    for rows in by_domain(unit):
        by_pool = {
            pool: {sample["trajectory_id"]: sample for sample in samples_of(pool, rows, mix)} for pool in ("cpt", "sft")
        }
        for part in map(list, trajectories(rows)):
            key, shown = part[0]["trajectory_id"], to_last_target(turns(part, view))
            if not shown or mix.control_tokens == "drop":
                continue
            system = prompt_of(part, "sft", view, mix.seed)
            assert by_pool["sft"][key]["messages"] == messages(system, shown)
            assert by_pool["sft"][key]["spans"] == message_spans(shown)
            system = prompt_of(part, "cpt", view, mix.seed)
            assert by_pool["cpt"][key]["text"] == document(system, shown)
            assert by_pool["cpt"][key]["spans"] == document_spans(system, shown)


@settings(max_examples=8 * FUZZ)
@given(unit=UNIT, mix=MIXES, most=st.sampled_from([1500, 2500]))
def test_windows_bear_the_loss_on_each_target_once_at_most_and_begin_with_turn_one(unit, mix, most):
    mix = mix.model_copy(update={"window_tokens": dict.fromkeys(("cpt", "sft", "rl", "eval"), most)})
    for rows in by_domain(unit):
        whole = samples_of("sft", rows, mix.model_copy(update={"window_tokens": {**mix.window_tokens, "sft": None}}))
        samples = samples_of("sft", rows, mix)
        for sample in whole:
            parts = [part for part in samples if part["trajectory_id"] == sample["trajectory_id"]]
            assert all(part["messages"][1]["content"].startswith("### Turn 1\n") for part in parts)
            answers = [message["content"] for message in sample["messages"] if message["loss"]]
            learnt = [message["content"] for part in parts for message in part["messages"] if message["loss"]]
            assert len(learnt) <= len(answers)
            assert all(text in answers for text in learnt)
            assert [part["num_tokens"] > 0 for part in parts] == [True] * len(parts)


@settings(max_examples=8 * FUZZ)
@given(unit=UNIT, mix=MIXES, most=st.sampled_from([None, 2500]))
def test_rl_and_eval_ask_for_a_target_after_the_turns_before_it(unit, mix, most):
    bound = dict.fromkeys(("cpt", "sft", "rl", "eval"), most)
    mix, view = mix.model_copy(update={"window_tokens": bound}), View.of(mix)
    for rows in by_domain(unit):
        parts = {part[0]["trajectory_id"]: list(part) for part in trajectories(rows)}
        for sample in samples_of("eval", rows, mix):
            shown = turns(parts[sample["trajectory_id"]], view)
            count = sample["turn_idx"]
            assert sample["prompt"] == [turn.user for turn in shown[:count]]
            assert sample["response"] == [turn.assistant for turn in shown[:count]]
            assert sample["current_prompt"] == sample["prompt"][-1] + ASKING
            assert shown[count - 1].loss
            assert sample["sample_id"] == f"{sample['trajectory_id']}:{shown[count - 1].step}"
        for sample in samples_of("rl", rows, mix, others=answers_of(rows, view)):
            info = sample["extra_info"]
            part = parts[info["trajectory_id"]]
            shown = turns(part, view)
            wanted = messages(prompt_of(part, "rl", view, mix.seed), shown[: info["turn_idx"]])[:-1]
            wanted[-1]["content"] += ASKING
            assert sample["prompt"] == [{name: message[name] for name in ("role", "content")} for message in wanted]
            truth = json.loads(sample["reward_model"]["ground_truth"])
            assert truth["observation"] == shown[info["turn_idx"] - 1].observation
            assert info["total_turns"] == len(shown)


def answers_of(rows: list[dict[str, Any]], view: View) -> Distractors:
    """The answers of rows, as judge holds them."""
    _, stretch = assembler_of("rl", rows, Mix())
    answering, others = Answering(view), Distractors()
    list(answering.add(stretch.batch))
    for batch in answering.rest():
        others.take(batch)
    return others


def orders(name: str, number: int) -> list[dict[str, Any]]:
    """A session of a tool's calls, each of whose answers repeats what the action said, and what was shown before."""
    rows: list[dict[str, Any]] = []
    for step in range(5):
        verb = ("get", "show")[number % 2]
        arguments = json.dumps({"command": f"{verb} order {number}{step}"})
        answer = {
            "id": f"order {number}{step}",
            "last": f"order {number}{step - 1}",
            "status": ("open", "sent", "paid")[(number + step) % 3],
            "mark": "<|im_end|>" if step == 1 else "none",
        }
        after = json.dumps(answer) if step in (1, 2) else f"welcome, buyer {number}"
        before = rows[-1]["next_observation"]["content"] if rows else f"shop {number} <|im_start|>"
        transition = row(step, "order", after, before if step != 2 else f"shop {number} again", step=step)
        transition["action"] |= {"name": "order", "arguments": arguments}
        transition["next_observation"]["form"] = "response" if number % 4 else "state"
        rows.append({**transition, "trajectory_id": name, "row_id": f"{name}{step}", "domain": "mcp"})
        rows[-1] |= {"scrubbed": int(number % 3 == 0)}
    return rows


@pytest.mark.parametrize("policy", ["escape", "keep"])
def test_a_turn_is_asked_for_by_the_checks_of_its_answer(policy):
    rows = [transition for number in range(24) for transition in orders(f"t{number}", number)]
    mix = Mix(control_tokens=policy)
    samples = samples_of("rl", rows, mix, others=answers_of(rows, View.of(mix)))
    truths = [json.loads(sample["reward_model"]["ground_truth"]) for sample in samples]
    assert {check["type"] for truth in truths for check in truth["checks"]} >= {"json_path", "exact"}
    states = [truth["previous"] for truth in truths if truth["previous"]]
    assert states
    assert any("< |im_start|>" in state for state in states) == (policy == "escape")


def calls(*exchanges: tuple[str, str, str], form: str = "response") -> list[dict[str, Any]]:
    """A session of calls, given name, arguments and answer of each."""
    rows = [
        {**row(step, "", answer), "domain": "mcp", "row_id": f"t{step}"}
        for step, (_, _, answer) in enumerate(exchanges)
    ]
    for transition, (name, arguments, _) in zip(rows, exchanges, strict=True):
        text = f'{{"name": "{name}", "arguments": {arguments}}}'
        transition["action"] = {"name": name, "arguments": arguments, "text": text}
        transition["next_observation"]["form"] = form
    return rows


UNKNOWABLE = ("get_country", "{}", "Utopia, capital Amaurot")
ASKED = ("say", '{"text": "hello"}', "hello")


def test_eval_asks_for_no_turn_that_nothing_tells():
    samples = samples_of("eval", calls(UNKNOWABLE, ASKED, (*UNKNOWABLE[:2], "commit 9f8e7d6c5b4a")))
    assert [sample["sample_id"] for sample in samples] == ["t:1"]
    assert samples[0]["response"] == [MARKER + text for text in ("Utopia, capital Amaurot", "hello")]


@pytest.mark.parametrize("pool", ["rl", "eval"])
@pytest.mark.parametrize("name", ["task_complete", "fail"])
def test_the_end_of_the_agents_work_is_not_asked_for(pool, name):
    (record,) = made_of(pool, calls((name, "{}", "window 'Shop'\n  text 'Tea'"), form="state"))
    assert isinstance(record, Reject)
    assert record.reason == "no_question"


def test_eval_asks_for_what_other_answers_of_the_tool_say_anyway():
    (refused,) = made_of("eval", calls(UNKNOWABLE))
    assert isinstance(refused, Reject)
    others = answers_of(calls(*((*UNKNOWABLE[:2], f"Utopia, capital Amaurot, visit {n}") for n in range(3))), View())
    (sample,) = samples_of("eval", calls(UNKNOWABLE), others=others)
    assert sample["sample_id"] == "t:0"


def secrets() -> list[dict[str, Any]]:
    texts = ["token is S, keep it", "S", "no secret", "ü S"]
    rows = [row(number, "x", text.replace("S", NAME)) for number, text in enumerate(texts)]
    return [{**transition, "domain": "mcp", "row_id": f"t{transition['step']}", "scrubbed": 1} for transition in rows]


@pytest.mark.parametrize("pool", ["cpt", "sft"])
def test_placeholders_bear_no_loss_and_are_not_counted_as_such(pool):
    counter = TokenCounter()
    (sample,) = samples_of(pool, secrets())
    texts = [sample["text"]] if pool == "cpt" else [message["content"] for message in sample["messages"]]
    learnt = [texts[span.get("message", 0)][span["begin"] : span["end"]] for span in sample["spans"]]
    assert [text for text in learnt if text != MARKER] == ["token is ", ", keep it", "no secret", "ü "]
    (plain,) = samples_of(pool, [{**transition, "scrubbed": 0} for transition in secrets()])
    assert plain["num_tokens"] == sample["num_tokens"]
    assert plain["num_loss_tokens"] - sample["num_loss_tokens"] == 3 * counter.of(NAME)


def test_a_placeholder_is_not_asked_for():
    rows = [*orders("t", 1)[:1], *orders("u", 2)[:1]]
    rows[0] |= {"scrubbed": 1, "next_observation": {**rows[0]["next_observation"], "content": f"token is {NAME}"}}
    for sample in samples_of("rl", rows, Mix(), others=answers_of(rows, View())):
        truth = json.loads(sample["reward_model"]["ground_truth"])
        assert [tuple(span) for span in truth["volatile"]] == placeholder_spans(truth["observation"])


def test_answers_that_are_all_too_long_are_told_where_a_prompt_may_be_of_any_length():
    rows = [{**row(0, "cat x", "word " * 500), "domain": "mcp"}]
    mix = Mix(window_tokens={"rl": None}, max_response_tokens=16)
    (record,) = made_of("rl", rows, mix)
    assert isinstance(record, Reject)
    assert record.reason == "over_window"


@pytest.mark.parametrize(("segment", "unit", "step"), [(0, "trajectory", -1), (1, "transition", 4)])
def test_a_later_segment_that_becomes_no_sample_is_told_by_its_first_row(segment, unit, step):
    rows = [{**row(0, "ls", "a", use="context", step=4), "segment": segment, "num_segments": 2}]
    (record,) = made_of("sft", rows)
    assert isinstance(record, Reject)
    assert (record.unit, record.step, record.reason) == (unit, step, "no_target")


def test_a_trajectory_that_is_drawn_twice_is_there_twice():
    assembler, stretch = assembler_of("sft", [row(0, "ls", "a")], Mix(), copies=2)
    (batch,) = assembler.of(stretch)
    assert isinstance(batch, pa.RecordBatch)
    assert batch.num_rows == 2
    assert batch.slice(0, 1).equals(batch.slice(1, 1))


@pytest.mark.parametrize(
    ("pool", "column", "names"),
    [
        ("cpt", "id", ["cpt/mcp/train-00000-of-00001.parquet"]),
        ("sft", "id", ["sft/mcp/train-00000-of-00001.parquet"]),
        ("eval", "sample_id", ["eval/mcp_test.jsonl", "eval/mcp/test-00000-of-00001.parquet"]),
    ],
)
def test_samples_that_are_there_twice_have_ids_of_their_own_and_those_of_eval_are_lines_too(
    pool, column, names, tmp_path
):
    assembler, stretch = assembler_of(pool, calls(ASKED), Mix(), copies=2)
    blocks = [record for record in assembler.of(stretch) if isinstance(record, pa.RecordBatch)]
    recipe = parse_recipe('{"name": "r", "source": "tests"}', "r")
    mixing = Mixing(recipe, Folder(str(tmp_path)), "digest", shards=(Shard(0, pool, "mcp", 0, 1),))
    assert [file.name for file in shard_writing.write_shard(0, blocks, mixing).files] == names
    first, second = pq.read_table(tmp_path / "shards" / names[-1])[column].to_pylist()
    assert second == f"{first}.2"


def test_samples_larger_than_a_row_group_have_one_each(monkeypatch):
    monkeypatch.setattr(shard_writing, "SHARD_ROW_GROUP_BYTES", 100)
    table = pa.table({"text": ["x" * 300, "y" * 300, "z" * 300]})
    assert [group["text"].to_pylist() for group in shard_writing._row_groups(table)] == [
        [text] for text in table["text"].to_pylist()
    ]


@pytest.mark.parametrize("pool", ["sft", "cpt", "eval"])
def test_samples_go_to_the_shards_of_their_hashes_in_bounded_blocks(pool, monkeypatch):
    most = 100_000
    monkeypatch.setattr("trajmill.pipelines.mix.mix.BLOCK_BYTES", most)
    text = "x" * (most // 5)
    rows = [{**row(0, f"ls {n}", text), "trajectory_id": f"t{n}", "row_id": f"r{n}"} for n in range(12)]
    assembler, stretch = assembler_of(
        pool, rows, Mix(observation_chars=None, max_response_tokens=1 << 30, window_tokens=ANY)
    )
    batches = [record for record in assembler.of(stretch) if isinstance(record, pa.RecordBatch)]
    blocks = [block for batch in batches for block in blocks_by_shard(batch, 3, seed=0)]
    table = pa.Table.from_batches([block for _, block in blocks], unwritten_schema(pool))
    index = np.repeat([index for index, _ in blocks], [block.num_rows for _, block in blocks])
    assert table.num_rows == 12
    assert all(block.nbytes <= most for _, block in blocks)
    if pool != "eval":
        assert index.tolist() == [hash_ * 3 >> 64 for hash_ in table["_hash"].to_pylist()]
    assert set(index.tolist()) == {0, 1, 2}


@given(st.integers(1, 9), st.lists(st.integers(0, 2**64 - 1), max_size=9))
def test_a_shard_takes_an_equal_range_of_hashes_to_the_last_one(count, hashes):
    firsts = [-(-(number << 64) // count) for number in range(1, count)]
    hashes += [hash_ for first in firsts for hash_ in (first - 1, first)] + [0]
    batch = pa.record_batch({"_hash": pa.array(hashes, pa.uint64())})
    pairs = [
        (hash_, index) for index, block in blocks_by_shard(batch, count, 0) for hash_ in block["_hash"].to_pylist()
    ]
    assert sorted(pairs) == sorted((hash_, hash_ * count >> 64) for hash_ in hashes)
