"""Drift: rows, signals, rewards that rise while worth falls, and the page."""

import json
import random
import re
import shutil
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from benchmarks import planted_world
from tests.app.cli.test_cli import ran
from tests.make import batch_of, steps_of, trajectory
from tests.worlds.drift import planted
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.generations.append import Append
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.endings import Code
from trajmill.quality.lookback import Reaching
from trajmill.quality.texts import Texts
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import ConfigError, Environment, Observation, Task
from trajmill.worlds.drift.drift import NAMES, Settings, distinct_rows, drift, pair_rows
from trajmill.worlds.drift.figures import MEASURES
from trajmill.worlds.drift.goodhart import COLUMNS, goodhart, read_rewards, spearman
from trajmill.worlds.drift.rows import REFUSAL, _Measuring, read_sides

BOUNDS = {"disagreement": 0.2, "length": 1.5, "error": 0.1}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """The folders of the planted world and of its simulators."""
    return planted.worlds(tmp_path_factory.mktemp("worlds"))


@pytest.fixture(scope="module")
def found(worlds):
    """What is found of each simulator."""
    return {
        name: drift(str(worlds["real"]), str(worlds[name]), Settings(), BOUNDS) for name in ("faithful", "flattering")
    }


def figures(report, match):
    (model,) = report.models
    cells = [cell for cell in model.cells if (cell.match, cell.by) == (match, "domain")]
    return {name: figure for cell in cells for name, figure in cell.figures.items()}


def test_of_the_faithful_simulator_no_figure_is_far_from_the_worlds(found):
    (model,) = found["faithful"].models
    assert (model.world_model, model.rows) == (
        "faithful@1",
        planted.TASKS * planted_world.ROLLOUTS * (6 * planted.ROUNDS + 1),
    )
    assert model.pairs["exact"] > 0.8 * model.rows
    for match in ("exact", "rollouts"):
        by_measure = figures(found["faithful"], match)
        assert by_measure["length"].difference == pytest.approx(1, abs=0.01)
        assert all(abs(figure.difference) < 0.03 for name, figure in by_measure.items() if name != "length")
    assert all(bound.is_met for bound in found["faithful"].thresholds)


def test_the_flattering_simulator_never_errs_says_more_and_agrees(found):
    by_measure = figures(found["flattering"], "rollouts")
    assert (by_measure["error"].real, by_measure["error"].sim) == (
        pytest.approx(planted.ROUNDS / (6 * planted.ROUNDS + 1), abs=1e-5),
        0,
    )
    assert by_measure["empty"].difference < -0.05
    assert by_measure["length"].difference > 4
    assert by_measure["echo"].difference > 0.3
    for name in ("empty", "length", "echo"):
        low, high, level = by_measure[name].low, by_measure[name].high, float(name == "length")
        assert low is not None
        assert high is not None
        assert not low <= level <= high
    assert {bound.name: bound.is_met for bound in found["flattering"].thresholds} == dict.fromkeys(
        ("disagreement", "length", "error"), False
    )


def test_what_replicates_of_the_world_disagree_on_is_not_held_against_a_simulator(found):
    faithful, flattering = (figures(found[name], "exact")["disagreement"] for name in ("faithful", "flattering"))
    assert faithful.real > 0
    assert abs(faithful.difference) < 0.01
    assert flattering.difference > 0.5
    assert flattering.low is not None
    assert flattering.low > 0.3


def test_a_measure_that_grows_over_the_turns_of_a_rollout_as_the_worlds_does_not_is_told_as_growth(found):
    for name, grows in (("faithful", False), ("flattering", True)):
        (model,) = found[name].models
        (figure,) = [row["figure"] for row in model.growth if row["measure"] == "empty"]
        assert (figure.difference > 0.03) is grows
        assert figure.low is not None
        assert (figure.low > 0.03) is grows


def test_tools_and_stretches_of_turns_are_cells_of_their_own(found):
    (model,) = found["flattering"].models
    cells = {(cell.by, cell.value) for cell in model.cells if cell.match == "rollouts"}
    assert {("domain", ""), ("tool", "bash"), ("turn", "1"), ("turn", "18–33")} <= cells
    rows = [cell.rows for cell in model.cells if (cell.match, cell.by) == ("rollouts", "turn")]
    assert sum(rows) == model.rows


def test_copies_of_a_log_are_no_replicates_and_one_row_is_in_one_pair(worlds, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    for rollout in range(2):
        (raw / f"{rollout}.json").write_text(
            json.dumps(planted_world.session(3, 0, planted.ROUNDS) | {"session_id": f"copy {rollout}"})
        )
    real, sim = read_sides(str(planted.normalized(raw, tmp_path / "out")), str(worlds["faithful"]), 10**6)
    assert len(distinct_rows(real.rows)) == len(real.rows) / 2
    pairs = pair_rows(distinct_rows(real.rows), sim.rows)
    both = pl.concat([pairs.exact.select("file", "row"), pairs.near.select("file", "row")])
    assert len(both) == len(both.unique()) == len(sim.rows) - pairs.alone
    assert pairs.exact["place"].n_unique() == 1


def test_above_so_many_rows_the_same_share_of_tasks_is_taken_of_both_sides(worlds):
    whole, sampled = (read_sides(str(worlds["real"]), str(worlds["faithful"]), most) for most in (10**6, 150))
    assert (whole[0].share, sampled[0].share) == (1.0, 0.25)
    places = [set(side.rows["place"]) for side in sampled]
    assert places[0] == places[1] < set(whole[0].rows["place"])
    assert len(sampled[0].rows) == len(sampled[1].rows) < len(whole[0].rows)


def test_the_same_bytes_come_of_the_same_runs_however_they_were_cut_and_named(worlds, found, tmp_path):
    sides = []
    for name in ("real", "flattering"):
        out = tmp_path / name
        raw = worlds[name].parent / "raw" / name
        Run(planted.recipe(), [str(raw)], str(out), Execution(part_bytes=20_000)).run("normalize")
        sides.append(str(out))
    again = drift(sides[0], sides[1], Settings(), BOUNDS)
    assert json.dumps(again.json()) == json.dumps(found["flattering"].json())


def test_the_command_writes_a_page_and_a_file_and_ends_by_its_thresholds(worlds, tmp_path):
    rewards = tmp_path / "rewards.csv"
    lines = (f"{step},{step},{min(step, 6)}\n" for step in range(20))
    rewards.write_text("step,simulated,real\n" + "".join(lines))
    words = ["world", "drift", worlds["real"], worlds["flattering"], "--rewards", rewards]
    code, output, _ = ran(*words, "--out", tmp_path / "one", "--fail-over", "echo=0.3", "--fail-over", "goodhart=0.2")
    assert code == Code.DRIFT.value == 6
    assert "part from step" in output
    code, output, _ = ran(*words, "--out", tmp_path / "two", "--fail-over", "refusal=0.5", "--json")
    assert code == 0
    assert json.loads(output) == json.loads((tmp_path / "two" / "drift.json").read_text())
    report = json.loads((tmp_path / "one" / "drift.json").read_text())
    assert [bound["is_met"] for bound in report["thresholds"]] == [False, False]
    assert report["goodhart"]["parts_at"]["found"] in range(4, 9)
    page = (tmp_path / "one" / "drift.html").read_text()
    assert "flattering@1" in page
    assert page.count("<polyline") >= 2 * len(MEASURES) + 2
    assert not re.search(r"<script|https?://|src=", page)


def test_a_figure_that_was_not_measured_fails_its_threshold(worlds, tmp_path):
    words = ["world", "drift", worlds["real"], worlds["faithful"], "--out", tmp_path, "--fewest", 10**6]
    code, output, complained = ran(*words, "--fail-over", "echo=0.5", "--fail-over", "goodhart=0.5")
    assert not complained
    thresholds = json.loads((tmp_path / "drift.json").read_text())["thresholds"]
    assert code == 6
    assert [(bound["found"], bound["is_met"]) for bound in thresholds] == [(None, False)] * 2
    assert "within" not in output


@pytest.mark.parametrize("bound", ["error", "error=", "error=nan", "errors=0.1", "=1"])
def test_a_threshold_that_names_no_figure_or_no_number_is_told_before_anything_is_read(tmp_path, bound):
    code, _, complained = ran("world", "drift", tmp_path, tmp_path, "--out", tmp_path / "out", "--fail-over", bound)
    assert code == 1
    assert "--fail-over" in complained
    assert not (tmp_path / "out").exists()


def test_runs_without_rows_to_compare_are_told(worlds, tmp_path):
    with pytest.raises(ConfigError, match=r"environment\.kind"):
        drift(str(worlds["real"]), str(worlds["real"]), Settings(), {})
    with pytest.raises(ConfigError):
        drift(str(worlds["faithful"]), str(worlds["faithful"]), Settings(), {})
    with pytest.raises(ConfigError):
        drift(str(tmp_path), str(worlds["faithful"]), Settings(), {})


def test_a_run_of_both_kinds_is_held_against_itself(worlds, tmp_path):
    raw = tmp_path / "raw"
    for name in ("real", "faithful", "flattering"):
        shutil.copytree(worlds[name].parent / "raw" / name, raw / name)
    out = str(planted.normalized(raw, tmp_path / "out"))
    result = drift(out, out, Settings(), dict.fromkeys(NAMES, 0.5))
    assert [model.world_model for model in result.models] == ["faithful@1", "flattering@1"]
    assert result.real_left_out == 2 * result.sim_left_out
    named = {bound.name: bound for bound in result.thresholds}
    assert named["goodhart"].found is None
    assert named["echo"].where.startswith("flattering@1")


def test_what_later_generations_added_is_compared_too(worlds, tmp_path):
    raw = tmp_path / "raw"
    logs = sorted((worlds["real"].parent / "raw" / "real").iterdir())
    sides: list[pl.DataFrame] = []
    for batch in (logs[:3], logs[3:6]):
        raw.mkdir(exist_ok=True)
        for log in batch:
            shutil.copy(log, raw)
        if not sides:
            Run(planted.recipe(), [str(raw)], str(tmp_path / "out"), Execution()).run("mix")
        else:
            Append(planted.recipe(), [str(raw)], str(tmp_path / "out"), Execution()).run()
        sides.append(read_sides(str(tmp_path / "out"), str(worlds["faithful"]), 10**6)[0].rows)
    assert len(sides[1]) == 2 * len(sides[0])
    assert set(sides[1]["place"]) > set(sides[0]["place"])


TASK = Task(None, "Keep the shelf in order.")
WORLD = Environment(kind="model", world_model="m@1", sampling="{}")


def measured(batch, *cuts):
    """The rows of a batch that is cut at some rows."""
    reaching, measuring, tables = Reaching(TokenCounter()), _Measuring(0), []
    ends = [0, *cuts, batch.num_rows]
    for begin, end in pairwise(ends):
        tables += [measuring.measured(view) for view in reaching.add(batch.slice(begin, end - begin))]
    return pl.concat([*tables, *(measuring.measured(view) for view in reaching.rest())])


def test_rows_are_the_same_wherever_batches_end():
    logs = [
        trajectory(*(f"answer {number} of {log}\nline" for number in range(9)), native_id=f"{log}", task=TASK)
        for log in range(3)
    ]
    batch = batch_of(*logs)
    whole = measured(batch)
    for cuts in ((4,), (9,), (2, 5, 8, 13, 20), tuple(range(1, 27))):
        assert measured(batch, *cuts).equals(whole)


def test_what_was_said_before_is_no_new_word_and_other_trajectories_do_not_count():
    rows = measured(batch_of(trajectory("red fish", "red bird", "do number", native_id="a"), trajectory("red fish")))
    assert rows["novelty"].to_list() == [1, 0.5, 0, 1]


def test_a_prediction_beside_a_real_history_pairs_with_the_row_of_that_history():
    real = batch_of(trajectory("one", "two", "three", task=TASK))
    steps = steps_of("one", "two", "three")
    predicted = [replace(step, next_observation=Observation(f"guess {step.turn}")) for step in steps]
    sim = batch_of(replace(trajectory(task=TASK, environment=WORLD), steps=predicted))
    assert len(pair_rows(measured(real), measured(sim)).exact) == 3
    shown = [None, *(step.next_observation for step in predicted[:-1])]
    rollout = [replace(step, observation=before) for step, before in zip(predicted, shown, strict=True)]
    sim = batch_of(replace(trajectory(task=TASK, environment=WORLD), steps=rollout))
    pairs = pair_rows(measured(real), measured(sim))
    assert pairs.exact["turn"].to_list() == [0]


@pytest.mark.parametrize(
    ("task", "pairs"), [(TASK, 2), (Task("7", None), 0), (Task(None, "Something else."), 0), (Task(), 0)]
)
def test_rows_of_another_task_or_of_none_are_no_pair(task, pairs):
    real, sim = batch_of(trajectory(task=TASK)), batch_of(trajectory(task=task, environment=WORLD))
    assert len(pair_rows(measured(real), measured(sim)).exact) == pairs


def test_near_is_what_stood_before_or_a_history_that_is_alike_and_nothing_else():
    words = [" ".join(f"word{number * 40 + index}" for index in range(40)) for number in range(6)]
    real = measured(batch_of(trajectory(*words, task=TASK)))
    changed = [words[0].replace("word7 ", "other "), *words[1:]]
    pairs = pair_rows(real, measured(batch_of(trajectory(*changed, task=TASK, environment=WORLD))))
    assert (len(pairs.exact), len(pairs.near), pairs.alone) == (1, 5, 0)
    assert (pairs.near["alike"] >= 0.5).all()
    strange = [" ".join(f"strange{number * 40 + index}" for index in range(40)) for number in range(6)]
    pairs = pair_rows(real, measured(batch_of(trajectory(*strange, task=TASK, environment=WORLD))))
    assert (len(pairs.exact), len(pairs.near), pairs.alone) == (1, 0, 5)


@pytest.mark.parametrize(
    ("text", "refuses"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("I cannot run commands.", True),
        ("As an AI language model, I have no shell.", True),
        ("sorry.txt\nnotes.txt", False),
        ("ls: cannot access 'x': No such file or directory", False),
        ("I can't find it", True),
        ("total 0", False),
    ],
)
def test_refusals_are_told_by_how_they_begin(text, refuses):
    shown = Texts.of(batch_of(trajectory(text, "x"))["next_observation"].field("content"))
    assert shown.matching(REFUSAL).tolist() == [refuses, False]


def test_no_sketch_of_a_history_is_that_of_another():
    rows = measured(batch_of(trajectory("a b c d e f", "g h i j k l", "m", task=TASK)))
    mins = rows.select(pl.col(r"^min\d$")).to_numpy()
    assert (mins[0] == np.uint32(0xFFFFFFFF)).all()
    assert (mins[1] >= mins[2]).all()
    assert (mins[1] != mins[2]).any()


def table(outcome, rows=6, noise=0.08, seed=1):
    """Rewards that rise over 20 steps, and beside each `outcome` of the same share of the way."""
    chance = random.Random(seed)
    return pl.DataFrame(
        [
            {
                "step": 10 * step,
                "simulated": 3 * step / 19 + chance.gauss(0, 3 * noise),
                "real": outcome(step / 19) + chance.gauss(0, noise),
            }
            for step in range(20)
            for _ in range(rows)
        ]
    )


def test_the_step_from_which_reward_and_outcome_part_is_found_with_its_interval():
    result = goodhart(table(lambda way: way if way < 0.5 else 1 - way))
    assert result is not None
    assert result.parts_at is not None
    at, low, high = result.parts_at
    assert low <= at <= high
    assert 80 <= low <= high <= 120
    assert result.before is not None
    assert result.after is not None
    assert (result.before > 0.8, result.after < -0.5) == (True, True)
    assert result.gap[0] == pytest.approx(1.5, abs=0.4)


@pytest.mark.parametrize(
    "outcome", [lambda way: way, lambda way: 0.2 + way / 10, lambda way: 0.5], ids=["alike", "smaller", "level"]
)
def test_an_outcome_that_rises_with_the_reward_or_is_level_with_noise_does_not_part(outcome):
    rewards = table(outcome, noise=0.005 if outcome(1) < 0.4 else 0.08)
    if outcome(0) == outcome(1):  # the reward is level too
        rewards = rewards.with_columns(simulated=pl.col("real").reverse())
    result = goodhart(rewards)
    assert result is not None
    assert result.parts_at is None


def test_steps_of_a_row_each_are_resampled_themselves():
    parted = goodhart(table(lambda way: min(way, 0.4), rows=1, noise=0.01))
    whole = goodhart(table(lambda way: way, rows=1, noise=0.01))
    assert parted is not None
    assert whole is not None
    assert parted.parts_at is not None
    assert whole.parts_at is None
    assert whole.rank_correlation[1] > 0.9


def test_the_order_of_rows_decides_nothing_and_few_steps_tell_nothing():
    rewards = table(lambda way: way if way < 0.5 else 1 - way)
    assert goodhart(rewards) == goodhart(rewards.sample(fraction=1, shuffle=True, seed=3))
    assert goodhart(rewards.filter(pl.col("step") < 50)) is None


def test_rewards_and_outcomes_may_be_measured_at_rows_of_their_own(tmp_path):
    rows = [{"step": step, "simulated": step, "real": None} for step in range(8)]
    rows += [{"step": step, "simulated": None, "real": -step} for step in range(8)]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = goodhart(read_rewards(str(tmp_path / "r.jsonl")))
    assert result is not None
    assert result.rank_correlation[0] == -1
    pl.DataFrame(rows).write_csv(tmp_path / "r.csv")
    assert goodhart(read_rewards(str(tmp_path / "r.csv"))) == result


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "step,simulated,real\n,1,2\n", "step,simulated,real\nx,1,2\n"])
def test_what_is_no_table_of_rewards_is_told_by_its_name(tmp_path, text):
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(ConfigError, match=r"r\.csv"):
        read_rewards(str(tmp_path / "r.csv"))
    with pytest.raises(ConfigError, match=", ".join(COLUMNS)):
        read_rewards(str(tmp_path / "none.jsonl"))


def test_ranks_are_correlated_as_spearman_has_it():
    left, right = pl.Series([1.0, 2, 2, 9]).to_numpy(), pl.Series([5.0, 7, 7, 8]).to_numpy()
    assert spearman(left, right) == pytest.approx(1.0)
    assert spearman(left, -right) == pytest.approx(-1.0)
