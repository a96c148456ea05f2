"""Rows of published SWE trajectories: three ways to write an action, and what a row tells of the outcome."""

import json

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.swe.swe_rows import SweRows
from trajmill.connectors.swe.text_action import function, last_fence
from trajmill.schemas import Reject, Trajectory


def read(*rows: dict) -> list[Trajectory]:
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    found = list(SweRows().parse(MemoryBlob("rows.jsonl", data)))
    assert not [one for one in found if isinstance(one, Reject)]
    return [one for one in found if isinstance(one, Trajectory)]


def row(*messages: tuple[str, str], **columns: object) -> dict:
    return {"instance_id": "a__b-1", "messages": [{"role": r, "content": c} for r, c in messages], **columns}


def test_a_block_within_a_block_is_none():
    found = last_fence("```\ncat <<EOF\n```bash\nls\n```\nEOF\n```\n")
    assert found is not None
    assert found.arguments["command"].startswith("cat <<EOF\n```bash")


def test_a_function_that_is_not_closed_is_none():
    assert function("<function=bash>\n<parameter=command>ls") is None


def test_what_the_agent_says_in_two_messages_before_it_acts_is_one_step():
    ran = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "run", "arguments": "{}"}}]}
    again = {"role": "assistant", "tool_calls": [{"id": "2", "function": {"name": "read", "arguments": "{}"}}]}
    answers = [{"role": "tool", "tool_call_id": key, "content": f"did {key}"} for key in ("2", "1")]
    messages = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": "First I look."}, ran, again]
    made = read({"instance_id": "a__b-1", "messages": [*messages, *answers]})[0]
    assert [(one.action.name, one.turn, one.action.message) for one in made.steps] == [
        ("run", 0, "First I look."),
        ("read", 0, None),
    ]
    assert [one.next_observation and one.next_observation.content for one in made.steps] == ["did 1", "did 2"]
