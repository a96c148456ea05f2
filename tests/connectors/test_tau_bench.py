"""Results of tau-bench: repeated ids pair by place, on the real file too."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

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


def by_place(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(name, result) of each call: the next message of role tool answers it, whatever its id."""
    made = []
    for place, message in enumerate(messages):
        for one in message.get("tool_calls") or ():
            answer = messages[place + 1]
            assert answer["role"] == "tool"
            made.append((one["function"]["name"], answer["content"]))
    return made


@pytest.mark.corpus
def test_every_call_of_the_real_episodes_has_the_result_that_follows_it(corpus):
    failed, data = sorted((path.read_bytes() for path in corpus("tau_bench") if path.suffix == ".json"), key=len)
    assert json.loads(failed)[0]["traj"] == []
    records = json.loads(data)
    ids = Counter(one["id"] for record in records for m in record["traj"] for one in m.get("tool_calls") or ())
    assert max(ids.values()) > 1
    found = list(TauBench().parse(MemoryBlob("results.json", data)))
    kept = {one.native_id: one for one in found if isinstance(one, Trajectory)}
    assert Counter(one.reason for one in found if isinstance(one, Reject)) == {"no_calls": 5}
    assert len(kept) == 35
    for record in records:
        made = by_place(record["traj"])
        one = kept.get(f"{record['task_id']}/{record['trial']}")
        assert (one is None) == (not made)
        if one is not None:
            calls = [step for step in one.steps if step.action.name != "message"]
            assert [
                (step.action.name, step.next_observation.content if step.next_observation else None) for step in calls
            ] == made
            for step in calls:
                answer = step.next_observation
                assert answer is not None
                assert answer.is_error == ((answer.content or "").startswith("Error: ") or None)
            assert data[one.steps[0].offset :].startswith(b'{\n    "task_id": %d,' % record["task_id"])
            said = [m["content"] for m in record["traj"] if m["role"] == "assistant" and m["content"]]
            seen = {step.next_observation.content for step in one.steps if step.next_observation}
            assert not seen & set(said)


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
