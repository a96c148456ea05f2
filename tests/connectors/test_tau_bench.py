"""Results of tau-bench: calls that stand in texts."""

import json
from typing import Any

from trajmill.connectors.benches.tau_bench import TauBench
from trajmill.connectors.connector import MemoryBlob
from trajmill.schemas import Reject, Trajectory


def parsed(value: Any) -> list[Trajectory | Reject]:
    return list(TauBench().parse(MemoryBlob("results.json", json.dumps(value, indent=2).encode())))


def episode(*traj: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "task_id": 0,
        "reward": 0.0,
        "info": {"task": {"instruction": "Ask."}},
        "traj": list(traj),
        "trial": 0,
        **more,
    }


def test_a_text_without_a_call_among_written_calls_is_refused():
    found = parsed(
        [
            episode(
                {"role": "assistant", "content": "I do not know."},
                {"role": "user", "content": "API output: x"},
            ),
            episode(
                {"role": "assistant", "content": 'Action:\n{"name": "f"}'},
                {"role": "user", "content": "API output: x"},
            ),
        ]
    )
    assert [one.reason for one in found if isinstance(one, Reject)] == ["calls_in_text"]
