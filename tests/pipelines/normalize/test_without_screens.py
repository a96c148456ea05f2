"""A log of actions between which nobody recorded a screen is refused, whatever connector reads it."""

from tests.conftest import ROOT
from tests.rows import RECIPE, recognized
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.schemas import Reject

FIXTURES = ROOT / "tests" / "fixtures"


def told(name: str) -> list[tuple[str, int]]:
    """(reason or domain, transitions) of what comes of each log of a connector's fixture folder."""
    folder = FIXTURES / name / "input"
    inputs, _ = recognized([path for path in folder.rglob("*") if path.is_file()], folder)
    results = [record for log in inputs for record, _ in read_input(log, RECIPE)]
    return [
        (record.reason, record.transitions or 0) if isinstance(record, Reject) else (record.domain, len(record.steps))
        for record in results
    ]


def test_actions_without_any_screen_are_refused_with_their_count() -> None:
    for name in ("android_control_jsonl", "terminator"):
        results = told(name)
        assert ("no_observation", 0) not in results
        assert {reason for reason, _ in results} & {"android", "os", "web"} == set()
        assert "no_observation" in {reason for reason, _ in results}


def test_a_patch_that_the_tests_answered_and_a_screen_as_a_picture_are_kept() -> None:
    assert {reason for reason, _ in told("swebench_eval")} >= {"swe"}
    assert ("no_observation", 1) in told("swebench_predictions")
    assert {reason for reason, _ in told("aitz")} >= {"android"}
