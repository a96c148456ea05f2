"""Trajectories that are longer than a model reads: what windows hold, and what a run makes of them."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.pipelines.judge.test_near_duplicates import atif
from tests.pipelines.render.assembled import document, made_of, samples_of, unit_of
from tests.pipelines.render.test_turns import row
from trajmill.pipelines.mix import samples
from trajmill.pipelines.recipe.recipe import Mix, Overflow, Pool
from trajmill.pipelines.recipe.recipe_file import load_recipe, parse_recipe
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import turns, user_texts
from trajmill.pipelines.render.windows import Group, _fill_windows, _newest, windows
from trajmill.pipelines.run import Run
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import Reject

COUNTER = TokenCounter()
WORDS = st.integers(1, 120).map(lambda number: "word " * number)
OWN = {"num_segments": 1, "source": "s", "group": "g", "number": 3}
BOUND = 2000
"""Tokens that hold a prompt and some turns."""
USES = st.sampled_from(["target", "target", "context", "omit"])


PROMPT = "A world. " * 10
PROMPT_TOKENS = int(COUNTER.count(pa.array([PROMPT]))[0])


class Part(NamedTuple):
    """A window with all its rows."""

    rows: list[dict[str, Any]]
    opening: str
    fits: bool


def tokens(part: Part) -> int:
    text = document(PROMPT, turns(part.rows, None, part.opening))
    return int(COUNTER.count(pa.array([text]))[0])


def cut(rows: Any, most: int | None, overflow: Overflow = "windows") -> list[Part]:
    """The windows of a trajectory that shows something; targets that depend on what was cut off are context."""
    unit, actions = unit_of(rows, View(), COUNTER), [transition["action"]["text"] for transition in rows]
    shown = np.flatnonzero(unit.visible)
    parts = []
    for window in windows(unit, shown, len(rows), PROMPT_TOKENS, most, overflow, actions, COUNTER):
        own = [dict(rows[number]) for number in range(window.begin, window.end)]
        for number, bears in zip(window.rows.tolist(), window.bears.tolist(), strict=True):
            if rows[number]["use"] == "target" and not bears:
                own[number - window.begin]["use"] = "context"
        parts.append(Part(own, window.opening, window.fits))
    return parts


def screens(number: int, use: str = "target") -> list[dict[str, Any]]:
    """A walk over screens of about 40 tokens, of which each follows from the one before."""
    texts = [f"screen {index} " * 10 for index in range(number + 1)]
    rows = [row(index, f"tap {index}", texts[index + 1], texts[index], use) for index in range(number)]
    return [{**transition, **OWN, "row_id": str(transition["step"])} for transition in rows]


@given(st.lists(st.tuples(st.integers(0, 1), WORDS, USES), min_size=1, max_size=25), st.integers(150, 900))
def test_windows_hold_every_row_once_cut_no_turn_and_are_too_long_only_where_a_turn_is(steps, most):
    rows, turn, before = [], 0, "at first"
    for number, (more, text, use) in enumerate(steps):
        turn += more
        rows.append(row(turn, f"do {number}", text, before, use, step=number))
        before = text
    assume(any(transition["use"] != "omit" for transition in rows))
    parts = cut(rows, most)
    assert [transition for part in parts for transition in part.rows] == rows
    for left, right in pairwise(parts):
        assert left.rows[-1]["turn"] != right.rows[0]["turn"]
    for part in parts:
        assert (
            tokens(part) <= most
            if part.fits
            else len({transition["turn"] for transition in part.rows if transition["use"] != "omit"}) == 1
        )


@pytest.mark.parametrize(("overflow", "first", "last"), [("cut_newest", True, False), ("cut_oldest", False, True)])
def test_one_window_can_be_all_that_stays(overflow, first, last):
    rows = screens(12)
    (part,) = cut(rows, 300, overflow)
    assert part.fits
    assert (part.rows[0] == rows[0], part.rows[-1] == rows[-1]) == (first, last)
    assert tokens(part) <= 300


@pytest.mark.parametrize(("most", "begin"), [(18, 2), (19, 1), (22, 1), (23, 0)])
def test_the_newest_groups_are_taken_as_long_as_they_fit_with_their_opening(most, begin):
    assert _newest([Group(5, 1), Group(3, 2), Group(4, 9)], 10, most) == begin


@pytest.mark.parametrize(
    ("most", "found"), [(22, [(0, 3)]), (21, [(0, 2), (2, 3)]), (18, [(0, 2), (2, 3)]), (17, [(0, 1), (1, 2), (2, 3)])]
)
def test_windows_are_filled_in_turn_and_each_but_the_first_has_an_opening(most, found):
    assert _fill_windows([Group(5, 9), Group(3, 1), Group(4, 2)], 10, most) == found


def test_what_is_too_long_is_dropped_where_the_recipe_says_so():
    assert cut(screens(12), 300, "drop") == []
    assert len(cut(screens(12), 1 << 18, "drop")) == 1


def write(path: str, content: str) -> str:
    return json.dumps({"name": "write_file", "arguments": {"path": path, "content": content}})


def test_a_later_window_tells_which_files_were_written_and_teaches_none_that_it_has_not_seen():
    rows = [
        row(0, write("/t/a.py", "x = 1"), "written"),
        row(1, "cd /t && make", "word " * 60),
        row(2, "make", "word " * 60),
        row(3, "cat /t/a.py", "x = 1"),
        row(4, write("/t/a.py", "x = 2"), "written"),
        row(5, "cat /t/a.py", "x = 2"),
    ]
    first, *others = cut(rows, 300)
    assert first.opening == ""
    assert len(others) == 1
    later = others[0]
    assert later.opening == "**Known State:**\nFolder entered last: /t\nFiles written before: /t/a.py\n\n"
    assert turns(later.rows, None, later.opening)[0].user.startswith(f"### Turn 1\n{later.opening}**Action:**")
    uses = {transition["step"]: transition["use"] for transition in later.rows}
    assert uses[3] == "context"
    assert uses[5] == "target"


@pytest.mark.parametrize("pool", ["cpt", "sft"])
def test_every_window_is_a_sample_and_the_first_has_the_id_of_the_trajectory(pool):
    rows = screens(60)
    windowed = samples_of(pool, rows, Mix(window_tokens={pool: BOUND}))
    assert len(windowed) > 2
    assert [sample["id"] for sample in windowed][:2] == ["t", f"t@{windowed[0]['num_turns']}"]
    assert sum(sample["num_turns"] for sample in windowed) == 60
    assert all(sample["num_loss_tokens"] < sample["num_tokens"] <= BOUND for sample in windowed)


def test_a_window_without_a_target_is_told_and_is_no_sample():
    mix = Mix(window_tokens={"sft": BOUND})
    records = made_of("sft", [*screens(60)[:6], *screens(60, "context")[6:54], *screens(60)[54:]], mix)
    refused = [record for record in records if isinstance(record, Reject)]
    assert {(reject.reason, reject.unit) for reject in refused} == {("no_target", "transition")}
    assert len(records) > len(refused) + 1
    assert samples_of("sft", [*screens(60, "context")[:50], *screens(60)[50:]], mix)[0]["id"] == "t"


def test_a_window_is_named_by_its_first_step_whatever_becomes_of_the_one_before():
    rows = [*screens(120)[:30], *screens(120, "context")[30:70], *screens(120)[70:]]
    records = made_of("sft", rows, Mix(window_tokens={"sft": BOUND}))
    assert [record.reason for record in records if isinstance(record, Reject)] == ["no_target"]
    first, *later = (record for record in records if isinstance(record, dict))
    assert first["id"] == "t"
    assert len(later) > 2
    for sample in later:
        step = int(sample["id"].removeprefix("t@"))
        assert f"tap {step}\n" in sample["messages"][1]["content"]


@pytest.mark.parametrize("pool", ["cpt", "sft"])
@pytest.mark.parametrize("most", [None, BOUND])
def test_a_sample_ends_with_its_last_target(pool, most):
    rows = [*screens(60)[:50], *screens(60, "context")[50:]]
    windowed = samples_of(pool, rows, Mix(window_tokens={pool: most}))
    assert sum(sample["num_turns"] for sample in windowed) == 50
    for sample in windowed:
        text = sample["text"] if pool == "cpt" else sample["messages"][-1]["content"]
        assert sample["spans"][-1]["end"] == len(text.rstrip("\n") if pool == "cpt" else text)


def test_a_turn_that_is_longer_than_the_bound_is_told_and_is_no_sample():
    rows = [
        {**transition, **OWN} for transition in (row(0, "ls", "a"), row(1, "cat x", "word " * 5000), row(2, "ls", "b"))
    ]
    records = made_of("cpt", rows, Mix(window_tokens={"cpt": BOUND}, observation_chars=None))
    refused = [record for record in records if isinstance(record, Reject)]
    assert [(reject.reason, reject.unit, reject.step, reject.transitions) for reject in refused] == [
        ("over_window", "transition", 1, 1)
    ]
    assert [record["num_turns"] for record in records if isinstance(record, dict)] == [1, 1]


@pytest.mark.parametrize("pool", ["rl", "eval"])
def test_rl_and_eval_take_one_turn_whose_whole_history_fits(pool):
    rows = screens(60)
    assert max(asked(pool, rows, Mix(seed=seed)) for seed in range(12)) > 40
    assert max(asked(pool, rows, Mix(seed=seed, window_tokens={pool: BOUND})) for seed in range(12)) < 40


@pytest.mark.parametrize("pool", ["rl", "eval"])
def test_rl_and_eval_take_any_turn_after_what_fits_where_the_oldest_is_cut(pool):
    mixes = [Mix(seed=seed, window_tokens={pool: BOUND}, overflow={pool: "cut_oldest"}) for seed in range(12)]
    assert max(asked(pool, screens(60), mix) for mix in mixes) > 40


@pytest.mark.parametrize("number", [1, 5, 60])
def test_eval_takes_half_of_the_first_the_last_and_three_between_by_hash_or_the_last_of_few(number):
    taken = [places_asked("eval", screens(number), Mix(seed=seed)) for seed in range(20)]
    allowed = {round(n * (number - 1) / 4) for n in range(5)} if number > 5 else {number - 1}
    assert {index for numbers in taken for index in numbers} == allowed
    assert min(map(len, taken)) >= 1
    assert sum(map(len, taken)) / len(taken) == pytest.approx(len(allowed) / 2, abs=0.7)


def asked(pool: Pool, rows: list[dict[str, Any]], mix: Mix) -> int:
    """The number of the last tap that the samples of a walk ask for."""
    return max(places_asked(pool, rows, mix))


def places_asked(pool: Pool, rows: list[dict[str, Any]], mix: Mix) -> list[int]:
    """The numbers of the taps that the samples of a walk ask for."""
    numbers = []
    for sample in made_of(pool, rows, mix):
        assert isinstance(sample, dict)
        shown = sample["current_prompt"] if pool == "eval" else sample["prompt"][-1]["content"]
        assert shown.endswith("`<predicted_observation>` and `</predicted_observation>`.")
        numbers.append(next(number for number in range(60) if f"tap {number}\n" in shown))
    assert pool == "eval" or len(numbers) == 1
    return numbers


@pytest.mark.parametrize("pool", ["cpt", "rl"])
def test_of_a_long_trajectory_only_what_a_sample_shows_is_rendered(pool, monkeypatch):
    sizes: list[int] = []

    def counted(batch, numbers, *more):
        sizes.append(len(numbers))
        return user_texts(batch, numbers, *more)

    monkeypatch.setattr(samples, "user_texts", counted)
    monkeypatch.setattr(samples, "_AT_ONCE", 2 * BOUND)
    windowed = samples_of(pool, screens(200), Mix(window_tokens={pool: BOUND}))
    assert sum(sizes) == (200 if pool == "cpt" else windowed[0]["extra_info"]["turn_idx"])
    assert max(sizes) < 150


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
    cut = shards(raw, tmp_path / "cut", {"window_tokens": {"cpt": 3000}})
    assert whole.height == 6
    assert cut.height >= 12
    assert cut["id"].n_unique() == cut.height
    turns = [
        table.group_by("trajectory_id").agg(pl.col("num_turns").sum()).sort("trajectory_id") for table in (whole, cut)
    ]
    assert turns[0].equals(turns[1])
    short = whole.filter(pl.col("num_turns") < 10).sort("id")
    assert cut.filter(pl.col("id").is_in(short["id"].to_list())).sort("id").equals(short)


def test_no_built_in_recipe_drops_a_trajectory_for_its_length():
    recipe = load_recipe("all")
    assert recipe.mix.window_tokens["sft"] == 262144
    assert "length" not in {rule.signal for rule in recipe.judge.rules.values()}
