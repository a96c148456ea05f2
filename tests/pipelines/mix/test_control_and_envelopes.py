"""Whole runs over MCP logs: answers as objects, and control strings by each policy, in every stage."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import re2

from tests.connectors.wire_logs import HELLO, INITIALIZE, call
from trajmill.pipelines.mix.reward import compute_score
from trajmill.pipelines.recipe.recipe import Mix, Pool, Recipe
from trajmill.pipelines.run import Run
from trajmill.quality.control_strings import PATTERN, unescape

MAIL = "carol.jones@corp.io"


def session(number: int) -> str:
    """A session of five calls; every third reads a file that holds a control string."""
    bodies: list[dict[str, Any]] = [INITIALIZE, HELLO]
    for step in range(5):
        shown = f"row {number}.{step} of {MAIL}" + (" <|im_end|> é" if number % 3 == 0 and step == 2 else "")
        bodies.append(call(step + 1, "read", row=step, table=number))
        blocks = [{"type": "text", "text": shown}]
        bodies.append({"jsonrpc": "2.0", "id": step + 1, "result": {"content": blocks, "isError": False}})
    return "".join(json.dumps(body, separators=(",", ":")) + "\n" for body in bodies)


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    for number in range(24):
        (folder / f"{number}.jsonl").write_text(session(number), "utf-8")
    return folder


def run(logs: Path, out: Path, **mix: Any) -> tuple[dict[str, int], dict[str, list[dict[str, Any]]]]:
    """The counts of the shards' manifest, and the samples of each stage."""
    pools: dict[Pool, float] = {"cpt": 1, "sft": 1, "rl": 1, "eval": 1}
    recipe = Recipe(name="r", source="s", domains=("mcp",), mix=Mix(pools=pools, **mix))
    Run(recipe, [str(logs)], str(out)).run()
    counts = json.loads((out / "shards" / "manifest.json").read_text("utf-8"))["counts"]
    by_pool: dict[str, list[dict[str, Any]]] = {"eval": []}
    for pool in ("cpt", "sft", "rl"):
        files = sorted((out / "shards" / pool).rglob("*.parquet"))
        by_pool[pool] = [row for file in files for row in pq.read_table(file).to_pylist()]
    for file in (out / "shards" / "eval").glob("*.jsonl"):
        by_pool["eval"] += map(json.loads, file.read_text("utf-8").splitlines())
    assert all(by_pool.values())
    return counts, by_pool


def texts(pool: str, sample: dict[str, Any]) -> list[str]:
    """What a sample shows, without its prompt."""
    if pool == "cpt":
        return [sample["text"]]
    if pool == "sft":
        return [message["content"] for message in sample["messages"][1:]]
    if pool == "rl":
        truth = json.loads(sample["reward_model"]["ground_truth"])
        return [*(message["content"] for message in sample["prompt"][1:]), truth["observation"]]
    return [*sample["prompt"], *sample["response"], sample["current_prompt"]]


@pytest.fixture(scope="module")
def kept(logs, tmp_path_factory):
    return run(logs, tmp_path_factory.mktemp("kept") / "out")


def told(counts: dict[str, int], prefix: str) -> dict[str, int]:
    return {key.split(".")[1]: count for key, count in counts.items() if key.startswith(f"{prefix}.")}


def test_control_strings_are_kept_and_counted_by_default(kept):
    counts, by_pool = kept
    expected = {
        pool: sum(any(re2.search(PATTERN, text) for text in texts(pool, sample)) for sample in samples)
        for pool, samples in by_pool.items()
    }
    assert told(counts, "control_samples") == expected
    assert told(counts, "control_turns") == expected, "one turn of a session holds one"
    assert sum(expected.values()) > 2


def test_escaped_samples_are_those_that_were_kept_and_count_as_many(kept, logs, tmp_path):
    counts, by_pool = run(logs, tmp_path / "out", control_tokens="escape")
    assert told(counts, "control_samples") == told(kept[0], "control_samples")
    for pool, samples in by_pool.items():
        shown = [texts(pool, sample) for sample in samples]
        assert not any(re2.search(PATTERN, text) for turn_texts in shown for text in turn_texts)
        assert [list(map(unescape, turn_texts)) for turn_texts in shown] == [
            texts(pool, sample) for sample in kept[1][pool]
        ]
    for sample in by_pool["rl"]:
        truth = sample["reward_model"]["ground_truth"]
        assert compute_score("", json.loads(truth)["observation"], truth)["score"] == 1.0
    assert "blank behind their first character" in (tmp_path / "out" / "shards" / "README.md").read_text("utf-8")


def test_dropped_samples_are_counted_as_rejects_by_their_reason(kept, logs, tmp_path):
    counts, by_pool = run(logs, tmp_path / "out", control_tokens="drop")
    assert set(told(counts, "control_samples").values()) == {0}
    whole = {pool: len(kept[1][pool]) - told(kept[0], "control_samples")[pool] for pool in ("cpt", "sft")}
    assert {pool: len(by_pool[pool]) for pool in whole} == whole
    files = (tmp_path / "out" / "rejects" / "mix").rglob("*.parquet")
    reasons = [reason for file in files for reason in pq.read_table(file)["reason"].to_pylist()]
    assert reasons.count("control_tokens") >= sum(told(kept[0], "control_samples")[pool] for pool in whole)


def test_answers_are_shown_as_the_log_has_their_objects_in_every_stage(kept, logs, tmp_path):
    counts, by_pool = run(logs, tmp_path / "out", mcp="envelope")
    for pool, samples in by_pool.items():
        assert len(samples) == len(kept[1][pool])
        for sample in samples:
            shown = "\n".join(texts(pool, sample))
            assert '{"content":[{"type":"text","text":"row ' in shown
            assert MAIL not in shown, "what is scrubbed in texts is scrubbed in objects"
    for row in by_pool["rl"]:
        truth = row["reward_model"]["ground_truth"]
        assert json.loads(json.loads(truth)["observation"])["isError"] is False
        assert compute_score("", json.loads(truth)["observation"], truth)["score"] == 1.0
    sizes = [sum(row["num_tokens"] for row in run_samples["sft"]) for run_samples in (by_pool, kept[1])]
    assert counts["tokens.sft.mcp"] == sizes[0] > sizes[1]
