"""A planted world: an item stands on a shelf, which its name tells; most logs are copies of one that asks for few."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.effect.measurement import FOUND, PLAN, Settings, measure_effect, trials
from benchmarks.effect.trials import CURATED, LOGGED
from tests.benchmarks.effect.test_trials import domain
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import ConfigError

ITEMS = [f"{first}{second}" for first in ("oak", "iron", "clay", "wool") for second in ("cup", "bolt", "lamp", "rope")]
RECIPE = """name: planted
source: planted
judge:
  spans: true
  rules:
    few_turns: {signal: turns, min: 2}
    never: {signal: turns, min: 0}
"""
QUICK = Settings(seeds=2, folds=2, tokens=1_000)


def log(number, items):
    """A session that asks where items stand."""
    steps = [{"step_id": 1, "source": "user", "message": f"Find the goods of order {number}."}]
    for call_number, item in enumerate(items, 2):
        index = ITEMS.index(item)
        call = {
            "tool_call_id": f"c{call_number}",
            "function_name": "bash",
            "arguments": {"command": f"stock --find {item}"},
        }
        answer = (
            f"{item}: hall {index % 3}, shelf {index * 7 % 16:02}, {('left', 'right')[index % 2]} of the {item} sign"
        )
        results = [{"source_call_id": f"c{call_number}", "content": f"stock --find {item}\n{answer}"}]
        steps.append(
            {
                "step_id": call_number,
                "source": "agent",
                "message": "",
                "tool_calls": [call],
                "observation": {"results": results},
            }
        )
    agent = {"name": "a", "version": "1"}
    return {"schema_version": "ATIF-v1.4", "session_id": f"s{number}", "agent": agent, "steps": steps}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A judged run over the planted logs."""
    folder = tmp_path_factory.mktemp("planted")
    raw = folder / "raw"
    raw.mkdir()
    random = np.random.default_rng(0)
    logs = [log(number, random.choice(ITEMS, 5, replace=False).tolist()) for number in range(50)]
    logs += [log(100, ITEMS[:5]) | {"session_id": f"copy{number}"} for number in range(100)]
    logs += [log(200 + number, ITEMS[number : number + 1]) for number in range(16)]
    for number, document in enumerate(logs):
        (raw / f"{number}.json").write_text(json.dumps(document))
    Run(recipe(), [str(raw)], str(folder / "out")).run("judge")
    return folder / "out"


def recipe():
    return parse_recipe(RECIPE, "planted")


@pytest.fixture(scope="module")
def found(out, tmp_path_factory):
    """What was measured, and where."""
    folder = tmp_path_factory.mktemp("effect") / "effect"
    return measure_effect(recipe(), str(out), str(folder), QUICK), folder


def of(found, arm, scored=LOGGED):
    (test,) = [test for test in found.tests if (test.arm, test.what) == (arm, scored)]
    return test


def test_copies_teach_less_and_what_is_equal_elsewhere_teaches_something(found):
    effect, _ = found
    assert of(effect, "exact copies dropped", CURATED).word == "better"
    assert of(effect, "exact copies dropped", CURATED).apart.mean < -0.05
    assert of(effect, "near, equal transitions masked").word == "worse"  # most of what the world says has no loss then


def test_a_rule_that_drops_nothing_is_no_arm_and_one_that_does_little_is_noise(found):
    effect, _ = found
    assert "near, and rule never" in effect.unchanged["terminal"]
    assert of(effect, "near, and rule few_turns").word == "within noise"


def test_classes_of_what_is_scored_are_told_apart(found):
    parts = of(found[0], "everything").parts
    assert parts["copied"][0] < 0.5 * parts["new"][0]  # what the command says is read from it


def test_the_plan_is_written_first_and_another_is_not_written_over_it(out, found, tmp_path):
    effect, folder = found
    plan = json.loads((folder / PLAN).read_text())
    assert {test.arm for test in effect.tests} <= {arm["name"] for arm in plan["arms"]}
    assert json.loads((folder / FOUND).read_text())["tests"][0]["arm"] == "everything"
    with pytest.raises(ConfigError):
        measure_effect(recipe(), str(out), str(folder), Settings(seeds=2))
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(ConfigError):
        measure_effect(recipe(), str(out), str(tmp_path), QUICK)


def test_the_same_seeds_give_the_same_numbers_with_any_workers():
    serial, two = (trials(domain(), replace(QUICK, workers=workers)) for workers in (1, 2))
    assert serial == two


def test_a_run_that_is_not_judged_is_refused(tmp_path):
    with pytest.raises(ConfigError):
        measure_effect(recipe(), str(tmp_path), str(tmp_path / "effect"), QUICK)
