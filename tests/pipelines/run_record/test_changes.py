"""What a run tells of the one before it in the same folder."""

import copy
from typing import Any

from trajmill.pipelines.run_record.changes import changes, read_record

RECORD: dict[str, Any] = {
    "version": "1.0",
    "begun": 0.0,
    "exit_code": 0,
    "finished": 1.0,
    "last_stage": "mix",
    "recipe": {"judge": {"rules": {"few_turns": {"min": 2}}}, "name": "a"},
    "counts": {"trajectories": {"entered": 10, "kept": 8}},
    "samples": {"sft.web": 4},
}


def changed(**values: Any) -> dict[str, Any]:
    return copy.deepcopy(RECORD) | values


def test_a_first_run_tells_of_no_change():
    assert changes(None, RECORD) == ()
    assert read_record(None) is read_record(b"{") is read_record(b"[]") is None


def test_settings_and_counts_that_differ_are_named_with_both_values():
    after = changed(
        recipe={"judge": {"rules": {"few_turns": {"min": 3}}}, "name": "a"},
        counts={"trajectories": {"entered": 10, "kept": 7}, "inputs": {"entered": 2, "kept": 2}},
        samples={"sft.web": 3, "rl.web": 1},
    )
    told = [line.partition("Z: ")[2] for line in changes(RECORD, after)]
    assert told == [
        "judge.rules.few_turns.min: 2 → 3",
        "trajectories: kept 8 → 7",
        "inputs: in 0 → 2, kept 0 → 2",
        "samples: rl.web 0 → 1, sft.web 4 → 3",
    ]


def test_a_run_that_stood_earlier_is_gone_on_with_and_counts_are_not_compared():
    killed = changed(exit_code=137, finished=None, last_stage="normalize")
    (told,) = changes(killed, RECORD)
    assert "it stood after normalize" in told


def test_the_record_of_another_version_is_no_reason_to_fail():
    assert changes({"begun": "yesterday"}, RECORD) == ()
    assert changes(changed(counts=[]), RECORD) == ()
