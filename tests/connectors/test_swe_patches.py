"""Patches, predicted and evaluated."""

import json

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.swe.swebench_eval import SwebenchEval
from trajmill.connectors.swe.swebench_predictions import SwebenchPredictions
from trajmill.schemas import Reject, Trajectory

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


def test_where_tests_put_out_nothing_before_the_time_limit_nothing_is_shown():
    made = evaluated(patch_diff=DIFF, test="\n\nTimeout error: 60 seconds exceeded.")
    assert (shown(made), made.steps[0].timed_out, made.steps[0].time_limit_s) == ("", True, 60)
