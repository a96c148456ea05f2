"""ATIF documents: what is written is read back, and says what the format wants it to say."""

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.make import batch_of, call
from tests.rows import golden_row, parsed
from trajmill.connectors.agents.atif import Atif
from trajmill.connectors.connector import MemoryBlob
from trajmill.pipelines.render.atif_documents import OWN, VERSION, atif_document
from trajmill.schemas import (
    MESSAGE,
    Action,
    Agent,
    Attachment,
    Context,
    Environment,
    Observation,
    Outcome,
    ParseError,
    Reject,
    Step,
    Task,
    Trajectory,
    call_text,
    json_text,
    sampled_text,
)

FIXTURES = Path(__file__).parents[1] / "fixtures"
SAME = ("observation", "action", "next_observation")
TIMES = ("started_at", "duration_s", "time_limit_s", "timed_out")
ALSO = (*SAME, *TIMES, "step", "turn", "call_index", "num_calls", "interleaved", "exit_code")
WHOLE = ("domain", "environment", "agent", "task", "context", "outcome", "reward", "terminated", "truncated")


def read_back(document: dict[str, Any]) -> list[dict[str, Any]]:
    rows, rejects = parsed(Atif(), MemoryBlob("trajectory.json", json.dumps(document).encode()))
    assert rejects == []
    return rows


def rows_of(trajectory: Trajectory) -> list[dict[str, Any]]:
    return batch_of(trajectory).to_pylist()


def same(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    back = read_back(atif_document(rows))
    for name in columns:
        assert [row[name] for row in back] == [row[name] for row in rows], name


def said(content: str, **more: Any) -> Action:
    return Action(MESSAGE, call_text(MESSAGE, {"content": content}), json_text({"content": content}), **more)


def whole() -> Trajectory:
    first = replace(call("run", line="ls"), sampled=sampled_text([4, 2**31 - 1], [-0.1, -1e-7]))
    answer, two = Observation("a.txt\n", uri="/srv/app"), Observation("denied", is_error=True, origin="harness")
    reply = Observation("go on", origin="user", uri="/srv/app")
    steps = [
        Step(
            first, Observation("$ ", form="screen"), answer, 0, 5, num_calls=2,
            started_at=1_700_000_000_000_000, duration_s=0.25, exit_code=0,
            interleaved=json_text([{"role": "user", "content": "quick"}, {"role": "harness", "content": "note"}]),
        ),
        Step(call("run", line="rm a"), Observation("$ ", form="screen"), two, 0, 9, call_index=1, num_calls=2),
        Step(said("Shall I?", reasoning="unsure"), two, reply, 1, 20),
        Step(said("I begin."), reply, None, 2, 25),
        Step(call("run", line="cat"), reply, Observation(None, attachments=(Attachment("a" * 64, "image"),)), 3, 30),
        Step(
            Action("wait", "[]", None, "c1", "Waiting.", "It takes time."), None, None, 4, 40,
            reward=1.0, terminated=True, truncated=False,
        ),
        Step(
            said("Done.", sampled=sampled_text([7], None)),
            Observation("{}", "application/json", "state", "tree/1"), None, 5, 50,
        ),
    ]  # fmt: skip
    return Trajectory(
        "native",
        "mcp",
        steps,
        Environment("image:1", "box", "model", "2", "world@1", '{"temperature": 0.5}'),
        Agent("clerk", None, "m-1"),
        Task("task-7", "List the files."),
        Context('[{"name": "run"}]', "empty", "none", "fail once", "You are a clerk.", "derived"),
        Outcome(True, 0.5, "tests"),
    )


def test_a_trajectory_written_and_read_back_is_the_same_in_every_column():
    same(rows_of(whole()), (*ALSO, *WHOLE))


@pytest.mark.parametrize("reply", [Observation("no", origin="harness"), Observation("", origin="user")])
def test_a_message_of_the_agent_that_no_user_answers_is_the_same_when_it_is_read_back(reply):
    same(rows_of(replace(whole(), steps=[Step(said("Shall I?"), None, reply, 0, 1)])), (*ALSO, *WHOLE))


GOLDEN = sorted(FIXTURES.glob("*/expected/*.jsonl"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_every_golden_trajectory_is_read_back_as_it_was_written(path):
    by_id: dict[str, list[dict[str, Any]]] = {}
    for text in path.read_text("utf-8").splitlines():
        row = golden_row(text)
        if row["started_at"] is not None:
            row["started_at"] = datetime.fromisoformat(row["started_at"])
        by_id.setdefault(row["trajectory_id"], []).append(row)
    for rows in by_id.values():
        same(rows, (*ALSO, *WHOLE))


def test_a_document_has_what_the_format_requires_and_numbers_its_steps_from_one():
    document = atif_document(rows_of(whole()))
    assert document["schema_version"] == VERSION
    assert document["agent"] == {
        "name": "clerk", "version": "unknown", "model_name": "m-1", "tool_definitions": [{"name": "run"}],
    }  # fmt: skip
    assert [step["step_id"] for step in document["steps"]] == list(range(1, len(document["steps"]) + 1))
    assert [step["source"] for step in document["steps"][:5]] == ["system", "user", "user", "system", "agent"]
    ids = [tool_call["tool_call_id"] for step in document["steps"] for tool_call in step.get("tool_calls", ())]
    assert len(ids) == len(set(ids))
    for step in document["steps"]:
        known = {tool_call["tool_call_id"] for tool_call in step.get("tool_calls", ())}
        assert {result["source_call_id"] for result in step.get("observation", {}).get("results", ())} <= known
        assert isinstance(step["message"], str)


def test_what_a_model_sampled_stands_in_the_metrics_of_its_step():
    document = atif_document(rows_of(whole()))
    assert [step["metrics"] for step in document["steps"] if "metrics" in step] == [
        {"completion_token_ids": [4, 2147483647], "logprobs": [-0.1, -1e-07]},
        {"completion_token_ids": [7]},
    ]


def test_an_action_space_that_is_written_otherwise_is_no_list_of_tools():
    trajectory = replace(whole(), context=Context('[{"name":  "run"}]'))
    document = atif_document(rows_of(trajectory))
    assert "tool_definitions" not in document["agent"]
    same(rows_of(trajectory), ("context",))


def test_what_atif_has_no_field_for_stands_under_extra():
    document = atif_document(rows_of(whole()))
    extra = document["extra"][OWN]
    assert extra["environment"]["kind"] == "model"
    assert extra["outcome"] == {"resolved": True, "score": 0.5, "verifier": "tests"}
    assert extra["provenance"]["uri"] == "log"


@pytest.mark.parametrize(
    "told",
    [
        {"sampling": None},
        {"sampling": [1]},
        {"world_model": None},
        {"world_model": "world"},
        {"world_model": "world@"},
        {"world_model": "world@1\n"},
        {"kind": "real"},
        {"kind": "dream"},
    ],
)
def test_a_simulated_environment_that_does_not_say_so_whole_is_not_read_as_a_real_one(told):
    document = atif_document(rows_of(whole()))
    document["extra"][OWN]["environment"] |= told
    records = Atif().parse(MemoryBlob("trajectory.json", json.dumps(document).encode()))
    reject = next(records)
    assert isinstance(reject, Reject)
    assert reject.reason == "unstated_world_model"
    with pytest.raises(ParseError, match="no_transitions"):
        next(records)


def test_rows_of_two_trajectories_or_none_are_refused():
    with pytest.raises(ValueError):
        atif_document([])
    rows = rows_of(whole())
    with pytest.raises(ValueError):
        atif_document([*rows, {**rows[0], "trajectory_id": "0" * 32}])


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
observations = st.none() | st.builds(
    Observation,
    content=texts,
    media_type=st.sampled_from(["text/plain", "application/json"]),
    form=st.sampled_from(["screen", "stream", "state", "response"]),
    dialect=st.none() | st.just("x/1"),
    origin=st.sampled_from(["environment", "user", "agent", "harness"]),
    is_error=st.none() | st.booleans(),
    truncation=st.sampled_from(["none", "harness", "recorder"]),
    uri=st.none() | st.just("/srv/app"),
)
words = st.none() | texts.filter(str.strip)
actions = st.one_of(
    st.builds(said, texts, reasoning=words),
    st.builds(
        lambda name, given, call_id, message, reasoning: Action(
            name, call_text(name, given), json_text(given), call_id, message, reasoning
        ),
        texts.filter(bool),
        st.dictionaries(texts, st.integers() | texts, max_size=2),
        st.none() | st.sampled_from(["c1", "c2"]),
        words,
        words,
    ),
    st.builds(Action, st.just("keystrokes"), texts, st.none(), message=words, reasoning=words),
)
notes = st.none() | st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "harness", "tool"]),
        texts.filter(str.strip),
    ),
    min_size=1,
    max_size=2,
).map(json_text)


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    steps: list[Step] = []
    shown = draw(observations)
    for turn in range(draw(st.integers(1, 4))):
        count = draw(st.integers(1, 3))
        before = shown if draw(st.booleans()) else draw(observations)
        for index in range(count):
            after = draw(observations)
            at = draw(st.none() | st.integers(10**15, 2 * 10**15))
            said_before = draw(notes) if index == 0 else None
            steps.append(Step(draw(actions), before, after, turn, 0, "", index, count, said_before, started_at=at))
            shown = after or shown
    return Trajectory("n", "terminal", steps, task=Task(None, draw(words)), context=Context(agent_system=draw(words)))


@given(trajectories())
def test_any_trajectory_is_read_back_as_it_was_written(trajectory):
    same(rows_of(trajectory), (*ALSO, *WHOLE))
