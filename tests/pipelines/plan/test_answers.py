"""Predictions are joined to the folders that evaluate them by instance and model, wherever both lie."""

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from trajmill.connectors.swe.swebench_eval import SwebenchEval
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan.plan import Plan, make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.schemas import ContractError, Reject, Trajectory

RECIPE = Recipe(name="t", source="t")
PATCH = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
STATUS = {"FAIL_TO_PASS": {"success": ["test_x"], "failure": []}}
OUTPUT = ">>>>> Start Test Output\n1 passed\n>>>>> End Test Output\n"
FILES = "[start of x]\n1 a\n[end of x]\n[start of y]\n1 c\n[end of y]"
PROMPT = f"Solve it.\n<issue>\nx is a\n</issue>\n<code>\n{FILES}\n</code>"


def prediction(instance: str, model: str = "m/one", **more: Any) -> dict[str, Any]:
    return {"instance_id": instance, "model_name_or_path": model, "model_patch": PATCH, **more}


def report(instance: str) -> str:
    return json.dumps({instance: {"patch_successfully_applied": True, "resolved": True, "tests_status": STATUS}})


def laid(root: Path, files: Mapping[str, str]) -> Plan:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return make_plan(RECIPE, [str(root)], strict=True)


def read(plan: Plan) -> tuple[list[Trajectory], list[Reject]]:
    records = [record for log in plan.inputs for record, _ in read_input(log, RECIPE)]
    return [record for record in records if isinstance(record, Trajectory)], [
        record for record in records if isinstance(record, Reject)
    ]


def folder(instance: str, model: str = "m__one", run: str = "r") -> str:
    return f"far/off/logs/run_evaluation/{run}/{model}/{instance}"


FORMS: dict[str, Callable[[list[dict[str, Any]]], str]] = {
    "preds.jsonl": lambda rows: "".join(json.dumps(row) + "\n" for row in rows),
    "preds.json": lambda rows: json.dumps({row["instance_id"]: row for row in rows}, indent=1),
    "list.json": lambda rows: json.dumps(rows, indent=1),
    "compact.json": json.dumps,
}


@pytest.mark.parametrize("name", FORMS)
def test_a_prediction_and_its_evaluation_in_another_folder_are_one_transition(tmp_path, name):
    rows = [prediction("a__b-1"), prediction("a__b-2", text=PROMPT), prediction("a__b-3", problem_statement="z")]
    files = {f"{folder(row['instance_id'])}/report.json": report(row["instance_id"]) for row in rows}
    plan = laid(tmp_path, {f"mine/{name}": FORMS[name](rows), **files, f"{folder('a__b-2')}/test_output.txt": OUTPUT})
    assert plan.unrecognized == ()
    assert plan.claimed == {"swebench_predictions": 1}
    assert [log.uri for log in plan.inputs] == [folder(row["instance_id"]) for row in rows]
    trajectories, rejects = read(plan)
    assert rejects == []
    steps = [next(iter(trajectory.steps)) for trajectory in trajectories]
    assert [json.loads(step.action.arguments or "") for step in steps] == [{"patch": PATCH}] * 3
    assert {trajectory.agent.model for trajectory in trajectories} == {"m/one"}
    before = [step.observation and step.observation.content for step in steps]
    assert before == [None, "x is a\n\n[start of x]\n1 a\n[end of x]", "z"], (
        "the issue, and of the files the touched one"
    )
    after = [step.next_observation and step.next_observation.content for step in steps]
    assert after == [json.dumps(STATUS), "1 passed\n", json.dumps(STATUS)]
    assert Plan.from_json(plan.to_json()) == plan


def test_a_prediction_of_another_model_or_instance_is_answered_by_nobody(tmp_path):
    rows = [prediction("a__b-1", "m/two"), prediction("a__b-9"), prediction("a__b-2")]
    files = {f"{folder(name)}/report.json": report(name) for name in ("a__b-1", "a__b-2")}
    trajectories, rejects = read(laid(tmp_path, {"preds.jsonl": FORMS["preds.jsonl"](rows), **files}))
    assert [trajectory.task.id for trajectory in trajectories] == ["a__b-2"]
    reasons = [(reject.reason, reject.uri) for reject in rejects]
    assert reasons == [("no_transitions", f"{folder('a__b-1')}/report.json"), *[("no_observation", "preds.jsonl")] * 2]
    assert "no evaluation of 'a__b-1' by 'm/two' is among the raw files" in rejects[1].detail


def test_where_the_path_names_no_model_the_predictions_above_the_folder_are_meant(tmp_path):
    files = {f"{name}/preds.json": FORMS["preds.json"]([prediction("a__b-1", name)]) for name in ("p", "p/lo", "q")}
    plan = laid(tmp_path, {**files, "p/logs/a__b-1/report.json": report("a__b-1")})
    trajectories, rejects = read(plan)
    assert [trajectory.agent.model for trajectory in trajectories] == ["p"]
    reasons = [(reject.reason, reject.uri) for reject in rejects]
    assert reasons == [("no_observation", "p/lo/preds.json"), ("no_observation", "q/preds.json")]


def test_of_two_predictions_the_nearer_is_meant_and_of_equally_near_ones_neither(tmp_path):
    predictions = FORMS["preds.json"]([prediction("a__b-1")])
    trajectories, _ = read(
        laid(
            tmp_path / "near",
            {
                "far/preds.json": predictions,
                "preds.json": predictions,
                f"{folder('a__b-1')}/report.json": report("a__b-1"),
            },
        )
    )
    assert len(trajectories) == 1
    trajectories, rejects = read(
        laid(
            tmp_path / "tie",
            {
                "u/preds.json": predictions,
                "v/preds.json": predictions,
                f"{folder('a__b-1')}/report.json": report("a__b-1"),
            },
        )
    )
    assert trajectories == []
    assert sorted(reject.reason for reject in rejects) == ["no_observation", "no_observation", "no_transitions"]


def test_what_was_evaluated_goes_before_what_was_predicted(tmp_path):
    evaluated = PATCH.replace("+b", "+c")
    files = {f"{folder('a__b-1')}/report.json": report("a__b-1"), f"{folder('a__b-1')}/patch.diff": evaluated}
    trajectories, _ = read(
        laid(tmp_path, {"preds.json": FORMS["preds.json"]([prediction("a__b-1", text=PROMPT)]), **files})
    )
    (step,) = trajectories[0].steps
    assert json.loads(step.action.arguments or "") == {"patch": evaluated}
    assert step.observation is not None


def test_an_evaluation_is_read_with_the_issue_that_a_trajectory_of_its_instance_states(tmp_path):
    messages = [{"role": "user", "content": "<pr_description>\nx is a\n</pr_description>\nGo."}]
    acts = {"role": "assistant", "content": "THOUGHT: so\n\n```bash\nls\n```"}
    run = json.dumps({"info": {"mini_version": "1.15.0"}, "messages": [*messages, acts]})
    files = {f"{folder('a__b-1')}/report.json": report("a__b-1"), f"{folder('a__b-1')}/patch.diff": PATCH}
    plan = laid(tmp_path, {"run/trajs/a__b-1/a__b-1.traj.json": run, **files})
    trajectories, rejects = read(plan)
    assert rejects == []
    assert [log.connector for log in plan.inputs] == ["swebench_eval", "mini_swe_agent"]
    step = next(iter(trajectories[0].steps))
    assert step.observation is not None
    assert (step.observation.content, trajectories[0].task.instruction) == ("x is a", "x is a")


def test_an_output_alone_answers_and_what_else_the_harness_leaves_is_claimed(tmp_path):
    files = {f"{folder('a__b-1')}/test_output.txt": OUTPUT, f"{folder('a__b-1')}/prepare_image.log": "built\n"}
    plan = laid(tmp_path, {"preds.json": FORMS["preds.json"]([prediction("a__b-1")]), **files})
    assert plan.claimed == {"swebench_eval": 1, "swebench_predictions": 1}
    trajectories, rejects = read(plan)
    assert (len(trajectories), rejects, plan.unrecognized) == (1, [], ())


def test_a_report_of_something_else_answers_nothing(tmp_path):
    files = {f"{folder('a__b-1')}/report.json": '{"build": "ok"}', f"{folder('a__b-2')}/report.json": report("a__b-2")}
    rows = [prediction("a__b-1"), prediction("a__b-2")]
    plan = laid(tmp_path, {"preds.json": FORMS["preds.json"](rows), **files})
    assert [(reject.reason, reject.uri) for reject in plan.unrecognized] == [
        ("unrecognized", f"{folder('a__b-1')}/report.json")
    ]
    trajectories, rejects = read(plan)
    assert [trajectory.task.id for trajectory in trajectories] == ["a__b-2"]
    assert [(reject.reason, "'a__b-1'" in reject.detail) for reject in rejects] == [("no_observation", True)]


def test_the_order_in_which_files_are_named_changes_nothing(tmp_path):
    rows = [prediction(f"a__b-{n}") for n in range(4)]
    files = {
        f"{folder(row['instance_id'], run=run)}/report.json": report(row["instance_id"]) for row in rows for run in "rs"
    }
    whole = laid(tmp_path, {"preds.jsonl": FORMS["preds.jsonl"](rows), "copy/preds.jsonl": "{}\n", **files})
    assert sum(log.connector == "swebench_eval" for log in whole.inputs) == 8
    names = [str(path) for path in tmp_path.rglob("*") if path.is_file()]
    plans = set()
    for seed in range(3):
        random.Random(seed).shuffle(names)
        plans.add(make_plan(RECIPE, names).to_json())
    assert len(plans) == 1


def test_a_bug_in_looking_for_answers_leaves_every_file_as_it_was(tmp_path, monkeypatch):
    def fails(*_: object) -> None:
        raise KeyError("x")

    files = {f"{folder('a__b-1')}/report.json": report("a__b-1"), f"{folder('a__b-1')}/patch.diff": PATCH}
    laid(tmp_path, {"preds.json": FORMS["preds.json"]([prediction("a__b-1")]), **files})
    monkeypatch.setattr(SwebenchEval, "answers", fails)
    plan = make_plan(RECIPE, [str(tmp_path)])
    assert [log.connector for log in plan.inputs] == ["swebench_eval", "swebench_predictions"]
    assert [(withdrawal.connector, withdrawal.error) for withdrawal in plan.withdrawn] == [
        ("swebench_eval", "KeyError")
    ]
    with pytest.raises(KeyError) as caught:
        make_plan(RECIPE, [str(tmp_path)], strict=True)
    assert caught.value.__notes__ == ["while connector 'swebench_eval' was asked what its logs answer"]
    (tmp_path / "preds.json").unlink()
    assert [one.uri for one in make_plan(RECIPE, [str(tmp_path)]).withdrawn] == [min(files)]


def test_an_error_in_looking_for_answers_that_is_no_bug_of_the_connector_ends_the_plan(tmp_path, monkeypatch):
    def fails(*_: object) -> None:
        raise ContractError("bug")

    laid(tmp_path, {f"{folder('a__b-1')}/report.json": report("a__b-1")})
    monkeypatch.setattr(SwebenchEval, "answers", fails)
    with pytest.raises(ContractError):
        make_plan(RECIPE, [str(tmp_path)])


PREFIX = "[a__b__1.0] [a__b-1] "
COMMANDS = f"{PREFIX}Command: pytest x \n{PREFIX}Subprocess args: {{}} \n{PREFIX}Std. Output:\n"
REFUSED = ">>>>> Patch Apply Failed; (pred_try)\nOutput:\nerror: x: patch does not apply\n"
FAILED = f"{COMMANDS}1 failed\n \n{PREFIX}Return Code: 1 \n\n>>>>> Some Tests Failed\n"
PASSED = f"{COMMANDS}1 passed\n \n{PREFIX}Return Code: 0 \n\n>>>>> All Tests Passed\n"
REFUSED_TWICE = REFUSED + REFUSED.replace("pred_try", "pred_minimal_try").replace("x:", "y:")
OLD_LOGS = [
    (f"Test Script: pytest x;\n{FAILED}", "1 failed\n", 1),
    (f"Test Script: pytest x;\n{PASSED}", "1 passed\n", 0),
    ("Test Script: pytest x;\nOutput:\n1 passed\n\n>>>>> All Tests Passed\n", "1 passed\n", 0),
    ("Test Script: pytest x;\nOutput:\n1 failed\n\n>>>>> Some Tests Failed\n", "1 failed\n", None),
    (f"{REFUSED}{PREFIX}Command: git apply \n", "error: x: patch does not apply", None),
    (REFUSED_TWICE, "error: x: patch does not apply", None),
]


def old_log(rest: str) -> str:
    text = "Task Metadata:\n\t- Instance ID: a__b-1\n\t- Evaluation Model: m.1\n>>>>> Applied Patch (pred)\n"
    return f"{PREFIX}{text}{rest}"


@pytest.mark.parametrize(("rest", "shown", "code"), OLD_LOGS)
def test_a_log_of_2024_answers_the_prediction_of_its_instance_and_model(tmp_path, rest, shown, code):
    files = {"run/logs/a__b-1.m.1.eval.log": old_log(rest), "run/preds.json": json.dumps([prediction("a__b-1", "m.1")])}
    (trajectory,), rejects = read(laid(tmp_path, files))
    (step,) = trajectory.steps
    assert rejects == []
    assert step.next_observation is not None
    assert (step.next_observation.content, step.exit_code) == (shown, code)
    assert json.loads(step.action.arguments or "") == {"patch": PATCH}
    assert (trajectory.task.id, trajectory.agent.model) == ("a__b-1", "m.1")


def test_a_log_of_2024_that_breaks_off_is_cut_and_one_whose_time_ran_out_says_so(tmp_path):
    preds = {"preds.json": json.dumps([prediction("a__b-1", "m")])}
    (trajectory,), _ = read(laid(tmp_path, {**preds, "a__b-1.m.eval.log": old_log("Test Script: x\nOutput:\n1 pas")}))
    seen = trajectory.steps[0].next_observation
    assert seen is not None
    assert (seen.content, seen.truncation) == ("1 pas", "recorder")
    late = old_log("Test Script: x\n>>>>> Tests Timed Out after 900 seconds\n")
    (trajectory,), _ = read(laid(tmp_path, {"a__b-1.m.eval.log": late}))
    assert (trajectory.steps[0].timed_out, trajectory.steps[0].time_limit_s) == (True, 900)


@pytest.mark.parametrize("other", [{"model": "m2"}, {"model": "m"}])
def test_a_log_of_2024_is_refused_without_a_prediction_of_its_model_in_a_folder_above_it(tmp_path, other):
    path = "elsewhere/preds.json" if other["model"] == "m" else "run/preds.json"
    files = {path: json.dumps([prediction("a__b-1", **other)]), "run/a__b-1.m.eval.log": old_log("")}
    trajectories, rejects = read(laid(tmp_path, files))
    assert trajectories == []
    assert sorted(reject.reason for reject in rejects) == ["no_observation", "no_transitions"]
