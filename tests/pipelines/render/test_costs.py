"""Costs of rows: their sums are the tokens of what is rendered, and what a draw is told is what samples say."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import FUZZ
from tests.pipelines.render.assembled import costs_of, samples_of
from tests.pipelines.render.test_turns import row
from trajmill.pipelines.mix.sample_plan import budget_samples
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import trajectories
from trajmill.quality.control_strings import PATTERN
from trajmill.quality.fingerprint import text_hashes
from trajmill.quality.tokens import TokenCounter

CONTROL = ["<|im_end|>", "< |im_end|>", "[INST]", "<<SYS>>"]
WORDS = ["total 8", "drwxr-xr-x 2 root", "error: no such file", "{", "}", "é 光", "\n", "    return 1", "0x7f", "ok"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)
SHOWN = st.one_of(TEXTS, TEXTS, TEXTS, st.lists(st.sampled_from([*WORDS, *CONTROL]), max_size=40).map(" ".join))
ACTIONS = st.one_of(
    SHOWN.map(lambda text: f"run {text}"),
    TEXTS.map(lambda text: json.dumps({"name": "bash", "arguments": {"command": text, "n": [1, 2.5, {}]}})),
    st.just(
        json.dumps({"name": "Edit", "arguments": {"file_path": "/x.py", "old_string": "a\nb", "new_string": "a\nc"}})
    ),
)
TOOLS = json.dumps(
    [
        {"name": name, "description": "Runs. " * 40, "inputSchema": {"properties": {"command": {}}}}
        for name in ("bash", "Edit")
    ]
    + [{"name": f"other_{number}", "description": "Waits. " * number} for number in range(30)]
)
SAYING = json.dumps([{"role": "user", "content": "What is <|im_start|>?"}])
SAID = json.dumps([{"role": "user", "content": "Go on, please."}, {"role": "harness", "content": "Step limit: 9"}])
TOLD = ("text", "messages", "prompt", "response", "current_prompt", "system_str", "reward_model")
CORPUS = [
    " ".join(WORDS),
    "**Environment Observation:**",
    "**Current State:**",
    "**Action:**",
    "### Turn 12",
    "```json",
]


@pytest.fixture(scope="module")
def bpe(tmp_path_factory):
    """A small byte-pair tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(CORPUS * 9, trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet))
    path = tmp_path_factory.mktemp("bpe") / "tokenizer.json"
    tokenizer.save(str(path))
    return TokenCounter(str(path))


@st.composite
def steps(draw: Any, name: str) -> list[dict[str, Any]]:
    """The rows of a trajectory: calls made at once, screens that stay, rows that are left out, words of others."""
    domain = draw(st.sampled_from(["terminal", "web", "android", "mcp"]))
    context = {
        "action_space": draw(st.sampled_from([None, TOOLS])),
        "initial_state": draw(st.sampled_from([None, "A", "A", "<|endoftext|> B"])),
    }
    rows: list[dict[str, Any]] = []
    turn, before = 0, draw(st.one_of(st.none(), SHOWN))
    for number in range(draw(st.integers(1, 14))):
        turn += draw(st.integers(0, 1)) if rows else 0
        after = draw(st.one_of(SHOWN, st.just(before or "same")))
        ends = {
            "exit_code": draw(st.sampled_from([None, 0, 127])),
            "timed_out": draw(st.sampled_from([None, False, True])),
        }
        transition = row(
            turn, draw(ACTIONS), after, before, draw(st.sampled_from(["target", "target", "context", "omit"])), number
        )
        transition["observation"] = transition["observation"] and {
            **transition["observation"],
            "origin": draw(st.sampled_from(["environment", "environment", "user"])),
        }
        for side in ("observation", "next_observation"):
            if transition[side] and draw(st.booleans()):
                blocks = {"content": [{"type": "text", "text": transition[side]["content"]}], "isError": False}
                transition[side] = {
                    **transition[side],
                    "envelope": json.dumps(blocks, ensure_ascii=draw(st.booleans())),
                }
        transition["next_observation"]["form"] = draw(st.sampled_from(["stream", "screen", None]))
        transition["next_observation"]["origin"] = draw(st.sampled_from(["environment", "environment", "harness"]))
        more = {
            "source": "s",
            "group": "g",
            "trajectory_id": name,
            "num_segments": 1,
            "number": 1,
            "domain": domain,
            "row_id": "r",
        }
        limit = draw(st.sampled_from([None, 60.0, 0.5]))
        interleaved = draw(st.sampled_from([None, SAID, SAYING]))
        rows.append(
            {
                **transition,
                **ends,
                **more,
                "context": {**transition["context"], **context},
                "time_limit_s": limit,
                "interleaved": interleaved,
            }
        )
        before = draw(st.sampled_from([after, after, "another", None]))
    return rows


MIXES = st.builds(
    Mix,
    seed=st.integers(0, 9),
    harness=st.sampled_from(["strip", "keep"]),
    edits=st.sampled_from(["call", "diff"]),
    actions=st.sampled_from(["call", "native"]),
    observation_chars=st.sampled_from([None, 256]),
    mcp=st.sampled_from(["text", "envelope"]),
    control_tokens=st.sampled_from(["keep", "escape", "drop"]),
    prompt_share=st.just(1.0),
)
SHARES = st.sampled_from([1.0, 0.8, 0.5, 0.1])
UNIT = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=4, unique=True).flatmap(
    lambda names: st.tuples(*map(steps, names))
)


def made_of(pool: Any, unit: list[dict[str, Any]], mix: Mix, counter: TokenCounter) -> list[list[dict[str, Any]]]:
    """The samples of each trajectory."""
    return [samples_of(pool, part, mix, counter) for part in trajectories(unit)]


def counted(sample: dict[str, Any], counter: TokenCounter) -> int:
    """Tokens of the text of a sample, or of its messages."""
    texts = [sample["text"]] if "text" in sample else [message["content"] for message in sample["messages"]]
    return sum(map(counter.of, texts))


def counted_loss(sample: dict[str, Any], counter: TokenCounter) -> int:
    """Tokens of what bears the loss in a sample."""
    return sum(counter.of(message["content"]) for message in sample["messages"] if message["loss"])


@pytest.mark.parametrize("name", ["estimate", "bpe"])
@pytest.mark.parametrize("pool", ["cpt", "sft"])
@settings(max_examples=5 * FUZZ)
@given(unit=UNIT, mix=MIXES, share=SHARES)
def test_a_sample_has_the_tokens_that_it_says(pool, name, bpe, unit, mix, share):
    mix = mix.model_copy(update={"prompt_share": share})
    counter = bpe if name == "bpe" else TokenCounter()
    for samples in made_of(pool, [transition for rows in unit for transition in rows], mix, counter):
        for sample in samples:
            room = 8 * (1 + 2 * sample["num_turns"]) + 32  # of which a token a tool
            assert abs(sample["num_tokens"] - counted(sample, counter)) <= room
            if pool == "sft":
                assert abs(sample["num_loss_tokens"] - counted_loss(sample, counter)) <= room


@pytest.mark.parametrize("pool", ["cpt", "sft"])
@settings(max_examples=6 * FUZZ)
@given(unit=UNIT, mix=MIXES, most=st.sampled_from([None, 2500]), share=SHARES)
def test_what_a_draw_is_told_is_what_samples_say(pool, unit, mix, most, share):
    counter, rows = TokenCounter(), [transition for part in unit for transition in part]
    mix = mix.model_copy(
        update={"prompt_share": share, "window_tokens": dict.fromkeys(("cpt", "sft", "rl", "eval"), most)}
    )
    for domain in sorted({transition["domain"] for transition in rows}):
        own = [transition for transition in rows if transition["domain"] == domain]
        costs, use = costs_of(own, View.of(mix), counter), np.array([transition["use"] for transition in own], object)
        budget = budget_samples(costs, use, domain, pool, mix, counter)
        samples = made_of(pool, own, mix, counter)
        assert len(budget.begins) == len(samples)
        if most is None or domain not in ("terminal", "swe"):
            assert budget.samples.tolist() == list(map(len, samples))
        if most is None or domain not in ("terminal", "swe"):
            assert budget.tokens.tolist() == [sum(sample["num_tokens"] for sample in group) for group in samples]
            assert budget.loss_tokens.tolist() == [
                sum(sample["num_loss_tokens"] for sample in group) for group in samples
            ]


@pytest.mark.parametrize("pool", ["rl", "eval"])
@settings(max_examples=6 * FUZZ)
@given(unit=UNIT, mix=MIXES)
def test_a_draw_counts_the_questions_that_there_are(pool, unit, mix):
    counter, rows = TokenCounter(), [transition for part in unit for transition in part]
    for domain in sorted({transition["domain"] for transition in rows}):
        own = [transition for transition in rows if transition["domain"] == domain]
        costs, use = costs_of(own, View.of(mix), counter), np.array([transition["use"] for transition in own], object)
        counts = budget_samples(costs, use, domain, pool, mix, counter).samples.tolist()
        samples = made_of(pool, own, mix, counter)
        assert all(bool(number) >= bool(group) for number, group in zip(counts, samples, strict=True))
        if pool == "eval":
            assert list(map(bool, counts)) == list(map(bool, samples))


@pytest.mark.parametrize("pool", ["cpt", "sft", "rl", "eval"])
@settings(max_examples=6 * FUZZ)
@given(unit=UNIT, mix=MIXES, most=st.sampled_from([None, 2500]))
def test_no_sample_holds_what_the_policy_on_control_strings_forbids(pool, unit, mix, most):
    mix = mix.model_copy(update={"window_tokens": dict.fromkeys(("cpt", "sft", "rl", "eval"), most)})
    for samples in made_of(pool, [transition for rows in unit for transition in rows], mix, TokenCounter()):
        for sample in samples:
            shown = json.dumps([value for name, value in sample.items() if name in TOLD], ensure_ascii=False)
            if mix.control_tokens == "keep":
                assert sample["_control"] or not re2.search(PATTERN, shown)
            else:
                assert not re2.search(PATTERN, shown)
                assert mix.control_tokens == "escape" or not sample["_control"]


def test_a_state_that_an_omitted_row_led_to_is_not_counted_where_it_was_shown_before():
    rows = [
        {**row(0, "a", "one", "zero"), "num_segments": 1},
        {**row(1, "b", "two", "one", "omit"), "num_segments": 1},
        {**row(2, "c", "three", "one"), "num_segments": 1},
        {**row(3, "d", "four", "two"), "num_segments": 1},
    ]
    counter, mix = TokenCounter(), Mix()
    costs = costs_of(rows, View(), counter)
    tokens = [
        budget_samples(costs, np.array(use, object), "web", "sft", mix, counter).tokens[0]
        for use in (["target", "omit", "target", "target"], ["target", "omit", "target", "omit"])
    ]
    last = costs.to_pylist()[3]
    assert tokens[0] - tokens[1] == last["user_tokens"] + last["state_tokens"] + last["answer_tokens"]


def test_a_state_and_the_answer_before_it_have_the_hash_of_their_text():
    rows = [
        {**row(number, "a", after, before), "num_segments": 1}
        for number, (before, after) in enumerate([("A", "B"), ("B", "C")])
    ]
    costs = costs_of(rows, View(), TokenCounter())
    hashes = (text_hashes(pa.array(["A", "B", "C"]))[:, 0] | np.uint64(1)).tolist()
    assert (costs["state_hash"].to_pylist(), costs["next_hash"].to_pylist()) == (hashes[:2], hashes[1:])
