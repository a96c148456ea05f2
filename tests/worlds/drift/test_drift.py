"""Two planted simulators, a faithful one and one that flatters, are told apart by figures; what is none is not told."""

import json
import re
import shutil

import polars as pl
import pytest

from benchmarks import planted_world
from tests.app.cli.test_cli import ran
from tests.worlds.drift import planted
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.generations.append import Append
from trajmill.pipelines.run import Run
from trajmill.pipelines.run_record.endings import Code
from trajmill.schemas import ConfigError
from trajmill.worlds.drift.drift import NAMES, Settings, distinct_rows, drift, paired
from trajmill.worlds.drift.figures import MEASURES
from trajmill.worlds.drift.rows import read_sides

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


def figures(of, match):
    (model,) = of.models
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
        told = figures(found["faithful"], match)
        assert told["length"].difference == pytest.approx(1, abs=0.01)
        assert all(abs(figure.difference) < 0.03 for name, figure in told.items() if name != "length")
    assert all(bound.is_met for bound in found["faithful"].thresholds)


def test_the_flattering_simulator_never_errs_says_more_and_agrees(found):
    told = figures(found["flattering"], "rollouts")
    assert (told["error"].real, told["error"].sim) == (
        pytest.approx(planted.ROUNDS / (6 * planted.ROUNDS + 1), abs=1e-5),
        0,
    )
    assert told["empty"].difference < -0.05
    assert told["length"].difference > 4
    assert told["echo"].difference > 0.3
    for name in ("empty", "length", "echo"):
        low, high, level = told[name].low, told[name].high, float(name == "length")
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
        (told,) = [of["figure"] for of in model.growth if of["measure"] == "empty"]
        assert (told.difference > 0.03) is grows
        assert told.low is not None
        assert (told.low > 0.03) is grows


def test_tools_and_stretches_of_turns_are_cells_of_their_own(found):
    (model,) = found["flattering"].models
    of = {(cell.by, cell.value) for cell in model.cells if cell.match == "rollouts"}
    assert {("domain", ""), ("tool", "bash"), ("turn", "1"), ("turn", "18–33")} <= of
    rows = [cell.rows for cell in model.cells if (cell.match, cell.by) == ("rollouts", "turn")]
    assert sum(rows) == model.rows


def test_every_measure_is_told_of_every_domain(found):
    assert figures(found["flattering"], "rollouts").keys() == set(MEASURES)
    assert figures(found["flattering"], "exact").keys() == {*MEASURES, "disagreement"}


def test_copies_of_a_log_are_no_replicates_and_one_row_is_in_one_pair(worlds, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    for rollout in range(2):
        (raw / f"{rollout}.json").write_text(
            json.dumps(planted_world.session(3, 0, planted.ROUNDS) | {"session_id": f"copy {rollout}"})
        )
    real, sim = read_sides(str(planted.normalized(raw, tmp_path / "out")), str(worlds["faithful"]), 10**6)
    assert len(distinct_rows(real.rows)) == len(real.rows) / 2
    made = paired(distinct_rows(real.rows), sim.rows)
    both = pl.concat([made.exact.select("file", "row"), made.near.select("file", "row")])
    assert len(both) == len(both.unique()) == len(sim.rows) - made.alone
    assert made.exact["place"].n_unique() == 1


def test_above_so_many_rows_the_same_share_of_tasks_is_taken_of_both_sides(worlds):
    whole, some = (read_sides(str(worlds["real"]), str(worlds["faithful"]), most) for most in (10**6, 150))
    assert (whole[0].share, some[0].share) == (1.0, 0.25)
    places = [set(side.rows["place"]) for side in some]
    assert places[0] == places[1] < set(whole[0].rows["place"])
    assert len(some[0].rows) == len(some[1].rows) < len(whole[0].rows)


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
    code, said, _ = ran(*words, "--out", tmp_path / "one", "--fail-over", "echo=0.3", "--fail-over", "goodhart=0.2")
    assert code == Code.DRIFT.value == 6
    assert "part from step" in said
    assert ran(*words, "--out", tmp_path / "two", "--fail-over", "refusal=0.5")[0] == 0
    told = json.loads((tmp_path / "one" / "drift.json").read_text())
    assert [bound["is_met"] for bound in told["thresholds"]] == [False, False]
    assert told["goodhart"]["parts_at"]["found"] in range(4, 9)
    page = (tmp_path / "one" / "drift.html").read_text()
    assert "flattering@1" in page
    assert page.count("<polyline") >= 2 * len(MEASURES) + 2
    assert not re.search(r"<script|https?://|src=", page)


@pytest.mark.parametrize("bound", ["echo=0.5", "goodhart=0.5"])
def test_a_figure_that_was_not_measured_fails_its_threshold(worlds, tmp_path, bound):
    words = ["world", "drift", worlds["real"], worlds["faithful"], "--out", tmp_path, "--fewest", 10**6]
    code, said, complained = ran(*words, "--fail-over", bound)
    assert not complained
    told = json.loads((tmp_path / "drift.json").read_text())["thresholds"]
    assert (code, told[0]["found"], told[0]["is_met"]) == (6, None, False)
    assert "within" not in said


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
    found = drift(out, out, Settings(), dict.fromkeys(NAMES, 0.5))
    assert [one.world_model for one in found.models] == ["faithful@1", "flattering@1"]
    assert found.real_left_out == 2 * found.sim_left_out
    named = {bound.name: bound for bound in found.thresholds}
    assert named["goodhart"].found is None
    assert named["echo"].where.startswith("flattering@1")


def test_what_later_generations_added_is_compared_too(worlds, tmp_path):
    raw = tmp_path / "raw"
    logs = sorted((worlds["real"].parent / "raw" / "real").iterdir())
    sides: list[pl.DataFrame] = []
    for some in (logs[:3], logs[3:6]):
        raw.mkdir(exist_ok=True)
        for log in some:
            shutil.copy(log, raw)
        if not sides:
            Run(planted.recipe(), [str(raw)], str(tmp_path / "out"), Execution()).run("mix")
        else:
            Append(planted.recipe(), [str(raw)], str(tmp_path / "out"), Execution()).run()
        sides.append(read_sides(str(tmp_path / "out"), str(worlds["faithful"]), 10**6)[0].rows)
    assert len(sides[1]) == 2 * len(sides[0])
    assert set(sides[1]["place"]) > set(sides[0]["place"])
