"""Patches, predicted and evaluated."""

import json

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import sniff
from trajmill.connectors.swe.evaluation import outcomes
from trajmill.connectors.swe.instance import environment
from trajmill.connectors.swe.swebench_eval import SwebenchEval
from trajmill.connectors.swe.swebench_predictions import SwebenchPredictions
from trajmill.schemas import Outcome, Reject, Trajectory

DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


def evaluated(**members: str) -> Trajectory:
    blob = MemoryBlob(
        "logs/a__b-1",
        {
            name.replace("_", ".", 1) if name != "test" else "test_output.txt": text.encode()
            for name, text in members.items()
        },
    )
    found = [one for one in SwebenchEval().parse(blob) if isinstance(one, Trajectory)]
    assert len(found) == 1
    return found[0]


def shown(trajectory: Trajectory) -> str | None:
    seen = trajectory.steps[0].next_observation
    return seen.content if seen is not None else None


PREDICTION = {"instance_id": "a__b-1", "model_patch": DIFF, "model_name_or_path": "m"}
BROKEN = json.dumps(PREDICTION).replace(', "model', ',\n"model')
"""A prediction over several lines, the first of which holds its instance."""


def refused(data: str | bytes, path: str = "preds.json") -> list[Reject]:
    blob = MemoryBlob(path, data.encode() if isinstance(data, str) else data)
    return [one for one in SwebenchPredictions().parse(blob) if isinstance(one, Reject)]


@pytest.mark.parametrize("data", [f"[{BROKEN},\n{BROKEN}]", BROKEN, f'{{"a__b-1": {BROKEN}}}', f"\n [{BROKEN}]\n"])
def test_a_document_whose_first_line_holds_an_instance_is_read_whole(data):
    made = refused(data)
    assert len(made) == data.count("instance_id")
    for one in made:
        assert one.reason == "no_observation"
        assert "'a__b-1' by 'm'" in one.detail


def test_a_damaged_first_prediction_costs_its_line_alone():
    bad, made = refused(json.dumps(PREDICTION)[:-9] + "\n" + json.dumps(PREDICTION) + "\n", "preds.jsonl")
    assert (bad.reason, bad.offset) == ("bad_json", 0)
    assert (made.reason, made.unit, made.transitions) == ("no_observation", "trajectory", 1)


def test_the_tests_answer_the_patch_between_their_marks():
    text = "setup\n+ : '>>>>> Start Test Output'\n1 passed\n+ : '>>>>> End Test Output'\nrest\n"
    assert shown(evaluated(patch_diff=DIFF, test=text)) == "1 passed\n"


def test_an_output_cut_before_its_end_mark_is_taken_to_its_end():
    assert shown(evaluated(patch_diff=DIFF, test=">>>>> Start Test Output\n1 pas")) == "1 pas"


@pytest.mark.parametrize("mark", ["", "setup\n+ : '>>>>> Start Test Output'\n"])
def test_the_line_of_the_harness_about_its_time_limit_is_no_output_of_the_tests(mark):
    ending = "\n\nTimeout error: 1800 seconds exceeded."
    made = evaluated(patch_diff=DIFF, test=f"{mark}test_a ok\ntest_b ...{ending}")
    step = made.steps[0]
    assert (shown(made), step.timed_out, step.time_limit_s, step.truncated) == (
        "test_a ok\ntest_b ...",
        True,
        1800,
        None,
    )
    assert made.steps[0].next_observation is not None
    assert made.steps[0].next_observation.origin == "environment"


def test_tests_that_ended_before_the_time_limit_were_not_killed():
    text = ">>>>> Start Test Output\n1 passed\n>>>>> End Test Output\ncleaning\n\nTimeout error: 60 seconds exceeded."
    made = evaluated(patch_diff=DIFF, test=text)
    assert (shown(made), made.steps[0].timed_out) == ("1 passed\n", None)


def test_where_tests_put_out_nothing_before_the_time_limit_nothing_is_shown():
    made = evaluated(patch_diff=DIFF, test="\n\nTimeout error: 60 seconds exceeded.")
    assert (shown(made), made.steps[0].timed_out, made.steps[0].time_limit_s) == ("", True, 60)


def test_a_timeout_that_the_tests_speak_of_themselves_stays_theirs():
    text = "Timeout error: 5 seconds exceeded.\n1 failed\n"
    made = evaluated(patch_diff=DIFF, test=text)
    assert (shown(made), made.steps[0].timed_out) == (text, None)


def test_an_evaluation_without_an_output_has_an_outcome_and_no_observation():
    made = evaluated(patch_diff=DIFF, report_json='{"a__b-1": {"resolved": false}}')
    assert (shown(made), made.outcome) == (None, Outcome(False, None, "swe-bench tests"))


def test_a_report_about_several_instances_judges_the_folder_of_its_name():
    report = json.dumps({"a__b-1": {"resolved": True}, "a__b-2": {"resolved": False}})
    made = evaluated(patch_diff=DIFF, report_json=report)
    assert made.outcome is not None
    assert made.outcome.resolved is True


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"resolved": True}, {"i": True}),
        ({"a": {"resolved": False}, "b": 5}, {"a": False}),
        ({"instances": [{"instance_id": "a", "resolved": True}, {"instance_id": "b"}]}, {"a": True}),
        ({"resolved_ids": ["a"], "unresolved_ids": ["b", 7]}, {"a": True, "b": False}),
        ([1], {}),
    ],
)
def test_reports_of_each_form_are_read(value, told):
    assert {name: one.resolved for name, one in outcomes(value, "i").items()} == told


@pytest.mark.parametrize(
    ("instance", "repo", "commit", "held"),
    [
        ("django__django-11133", None, None, ("django/django", None)),
        ("acme__lamp.0a1b2c3d.func_pm__x", None, None, ("acme/lamp", "acme/lamp@0a1b2c3d")),
        ("a__b-1", "a/b", "0a1b2c3d4e", ("a/b", "a/b@0a1b2c3d4e")),
        ("a__b-1", None, "HEAD", ("a/b", None)),
        ("BabyEncryption", None, None, (None, None)),
        (None, None, "0a1b2c3d", (None, None)),
    ],
)
def test_an_id_tells_repository_and_commit_only_if_it_holds_them(instance, repo, commit, held):
    found = environment(instance, None, repo, commit)
    assert (found.id, found.instance_id) == held


def test_a_damaged_first_prediction_costs_only_itself_and_one_with_its_prompt_is_recognized():
    good = json.dumps({"model_name_or_path": "m", "instance_id": "a__b-1", "text": "t" * 70000, "model_patch": "d"})
    damaged = good[:60].encode() + b"\n" + good.encode() + b"\n"
    assert [one.reason for one in refused(damaged, "preds.jsonl")] == ["bad_json", "no_observation"]
    assert [one.name for one, _ in sniff(good.encode()[:65536], "preds.jsonl")] == ["swebench_predictions"]
