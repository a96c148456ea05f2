"""Run folders of the Agent World Model: which files make a run, and what its verifiers say."""

import json
from pathlib import Path
from typing import Any

from trajmill.connectors.benches.awm import Awm
from trajmill.connectors.connector import MemoryBlob
from trajmill.schemas import Trajectory

FOLDER = Path(__file__).parents[1] / "fixtures" / "awm" / "input" / "20260316_101500_boat_rental_3_task_4"


def run(**verdicts: Any) -> Trajectory:
    members = {"trajectory.json": (FOLDER / "trajectory.json").read_bytes()}
    members |= {f"verify.{mode}.json": json.dumps(value).encode() for mode, value in verdicts.items()}
    (found,) = [one for one in Awm().parse(MemoryBlob("run", members)) if isinstance(one, Trajectory)]
    return found


def test_a_run_that_does_not_state_its_limit_is_recognized_by_its_iterations():
    value = json.loads((FOLDER / "trajectory.json").read_bytes())
    del value["max_iterations"]
    told = Awm().sniff(json.dumps(value).encode()[:65536], "trajectory.json")
    assert told is not None
    assert told.score >= 0.9
    del value["trajectory"]
    assert Awm().sniff(json.dumps(value).encode(), "trajectory.json") is None
