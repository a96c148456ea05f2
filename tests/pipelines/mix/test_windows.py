"""Trajectories that are longer than a model reads: what windows hold, and what a run makes of them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.mix.rendering import document, render
from pipelines.mix.samples import samples_of
from pipelines.mix.windows import windows
from pipelines.recipe.recipe import Mix
from pipelines.recipe.recipe_file import load_recipe, parse_recipe
from pipelines.run import Run
from quality.tokens import TokenCounter
from tests.pipelines.judge.test_near_duplicates import atif
from tests.pipelines.mix.test_rendering import row

COUNTER = TokenCounter()
WORDS = st.integers(1, 120).map(lambda number: "word " * number)
USES = st.sampled_from(["target", "target", "context", "omit"])


def tokens(rows: Any) -> int:
    return int(COUNTER.count(pa.array([document(render(rows))]))[0])


def screens(number: int, use: str = "target") -> list[dict[str, Any]]:
    """A walk over screens of about 40 tokens, of which each follows from the one before."""
    texts = [f"screen {place} " * 10 for place in range(number + 1)]
    rows = [row(place, f"tap {place}", texts[place + 1], texts[place], use) for place in range(number)]
    return [
        {**one, "num_segments": 1, "source": "s", "group": "g", "tokens": 50, "row_id": str(one["step"])}
        for one in rows
    ]


@settings(max_examples=24)
@given(st.lists(st.tuples(st.integers(0, 1), WORDS, USES), min_size=1, max_size=25), st.integers(150, 900))
def test_windows_hold_every_row_once_cut_no_turn_and_are_too_long_only_where_a_turn_is(steps, most):
    rows, turn, before = [], 0, "at first"
    for number, (more, text, use) in enumerate(steps):
        turn += more
        rows.append(row(turn, f"do {number}", text, before, use, step=number))
        before = text
    found = windows(rows, render(rows), most, COUNTER)
    assert [one for part in found for one in part] == rows
    for left, right in pairwise(found):
        assert left[-1]["turn"] != right[0]["turn"]
    for part in found:
        assert tokens(part) <= most or len(render(part).turns) == 1


def test_a_short_trajectory_and_one_without_a_bound_are_not_cut():
    rows = screens(12)
    assert windows(rows, render(rows), None, COUNTER) == [rows]
    assert windows(rows, render(rows), 1 << 18, COUNTER) == [rows]
    assert len(windows(rows, render(rows), 300, COUNTER)) > 2


def test_each_window_begins_with_the_state_that_the_one_before_ended_with():
    rows = screens(12)
    for part in windows(rows, render(rows), 300, COUNTER)[1:]:
        assert f"**Current State:**\n{part[0]['observation']['content']}" in render(part).turns[0].user


@pytest.mark.parametrize("pool", ["cpt", "sft"])
def test_every_window_is_a_sample_and_the_first_has_the_id_of_the_trajectory(pool):
    rows = screens(12)
    found = [sample for _, sample in samples_of(pool, rows, Mix(window_tokens=300), COUNTER) if sample is not None]
    assert [sample["id"] for sample in found][:2] == ["t", f"t@{found[0]['num_turns']}"]
    assert sum(sample["num_turns"] for sample in found) == 12
    assert sum(sample["num_tokens"] for sample in found) == 12 * 50


def test_a_window_without_a_target_is_told_and_is_no_sample():
    rows = [*screens(12)[:6], *screens(12, "context")[6:]]
    found = samples_of("sft", rows, Mix(window_tokens=300), COUNTER)
    assert found[0][1] is not None
    assert found[-1][1] is None
    assert found[-1][0][-1] is rows[-1]
    begun = samples_of("sft", [*screens(12, "context")[:6], *screens(12)[6:]], Mix(window_tokens=300), COUNTER)
    assert next(sample["id"] for _, sample in begun if sample is not None) == "t"


@pytest.mark.parametrize("pool", ["rl", "eval"])
def test_rl_and_eval_take_one_turn_of_all_windows(pool):
    rows = screens(30)
    taken = set()
    for seed in range(12):
        ((part, sample),) = samples_of(pool, rows, Mix(window_tokens=300, seed=seed), COUNTER)
        assert part is rows
        assert sample is not None
        shown = sample["current_prompt"] if pool == "eval" else sample["prompt"][-1]["content"]
        taken.add(next(place for place in range(30) if f"tap {place}\n" in shown))
    assert max(taken) > 15
    assert len(taken) > 5


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    for number in range(6):
        answers = [f"answer {number} {step} " * 20 for step in range(40 if number % 2 else 4)]
        log = json.dumps(atif(f"s{number}", f"task {number}", answers)).replace("step ", f"step {number} ")
        (folder / f"s{number}.json").write_text(log)
    return folder


def shards(raw: Path, out: Path, mix: dict[str, Any]) -> pl.DataFrame:
    values = {"name": "w", "source": "tests", "domains": ["terminal"], "mix": {"pools": {"cpt": 1}, **mix}}
    summary = Run(parse_recipe(json.dumps(values), "w"), [str(raw)], str(out)).run()
    assert [line.checked() for line in summary.lines] == list(summary.lines)
    assert next(line.kept for line in summary.lines if line.unit == "trajectories") == 6
    return pl.concat([pl.read_parquet(file) for file in sorted((out / "shards" / "cpt").rglob("*.parquet"))])


def test_a_long_trajectory_of_a_run_keeps_all_its_turns_in_windows(raw, tmp_path):
    whole = shards(raw, tmp_path / "whole", {})
    cut = shards(raw, tmp_path / "cut", {"window_tokens": 1000})
    assert whole.height == 6
    assert cut.height > 12
    assert cut["id"].n_unique() == cut.height
    turns = [one.group_by("trajectory_id").agg(pl.col("num_turns").sum()).sort("trajectory_id") for one in (whole, cut)]
    assert turns[0].equals(turns[1])
    short = whole.filter(pl.col("num_turns") < 10).sort("id")
    assert cut.filter(pl.col("id").is_in(short["id"].to_list())).sort("id").equals(short)


def test_no_built_in_recipe_drops_a_trajectory_for_its_length():
    recipe = load_recipe("all")
    assert recipe.mix.window_tokens == 262144
    assert "length" not in {rule.signal for rule in recipe.judge.rules.values()}
