"""The MCP samples are read as what was called when they were recorded, and hold what the servers answer."""

import json
from functools import cache
from typing import Any, Final

import anyio
import pytest
from mcp.shared.exceptions import McpError
from mcp.shared.memory import create_connected_server_and_client_session
from mcp.types import CallToolResult, ReadResourceResult, TextResourceContents

from samples.makers.record_mcp import CLIENT, Client, McpSession, sessions, text_of, turns
from samples.makers.servers.desk import DESKS, server
from tests.conftest import ROOT
from tests.samples.reading import read_samples
from trajmill.schemas import MESSAGE, Reject, Step, Trajectory

SAMPLES: Final = ROOT / "samples" / "mcp"
SESSIONS, COPIES = sessions()
LOGS: Final = [(session, form) for session in SESSIONS for form in session.forms]
READERS: Final = {
    "envelopes": "mcp_jsonrpc", "arrows": "mcp_jsonrpc", "editor": "mcp_jsonrpc", "payloads": "mcp_jsonrpc",
    "exchanges": "mcp_jsonrpc", "desktop": "mcp_desktop_log", "history": "mcp_inspector", "network": "mcp_inspector",
    "vcr": "vcr_cassette", "cassette": "mcp_recorder", "chat": "chat_tools",
}  # fmt: skip
APART: Final = {"exchanges", "network", "vcr", "cassette"}
"""Forms in which a request stands with its answer: calls that were sent together look as if one followed the other."""

QUESTIONS: Final = {"payloads", "arrows"}
"""Forms in which a server that asks the client was recorded."""


@cache
def read() -> tuple[dict[str, list[Trajectory]], dict[str, str], list[Reject]]:
    """(trajectories by file, connectors by file, rejects)."""
    trajectories: dict[str, list[Trajectory]] = {}
    logs, connectors, rejects = read_samples("mcp", SAMPLES)
    for uri, trajectory in logs:
        trajectories.setdefault(uri, []).append(trajectory)
    return trajectories, connectors, rejects


def steps_of(session: McpSession, form: str) -> list[Step]:
    """The calls of the only trajectory of a log; what the agent says at the end of a chat is no call."""
    (trajectory,) = read()[0][session.file(form)]
    assert trajectory.domain == "mcp"
    steps = list(trajectory.steps)
    if form == "chat":
        assert steps.pop().action.name == MESSAGE
    return steps


def name_of(log: tuple[McpSession, str]) -> str:
    return log[0].file(log[1])


def test_the_folder_is_small_and_everything_in_it_is_read():
    files = [path for path in SAMPLES.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1_000_000
    trajectories, readers, rejects = read()
    assert [(reject.reason, reject.uri) for reject in rejects] == [
        ("truncated", name_of(log)) for log in LOGS if log[0].cut
    ]
    assert set(trajectories) == {name_of(log) for log in LOGS} | set(COPIES)
    assert {str(path.relative_to(SAMPLES)) for path in files} == set(trajectories)
    assert {name: readers[name] for name in map(name_of, LOGS)} == {name_of(log): READERS[log[1]] for log in LOGS}


@pytest.mark.parametrize("log", LOGS, ids=name_of)
def test_a_trajectory_holds_what_was_called_and_what_came_of_it(log):
    session, form = log
    steps = steps_of(session, form)
    assert len(steps) == len(session.steps)
    for index, (step, wanted) in enumerate(zip(steps, session.steps, strict=True)):
        arguments = json.loads(step.action.arguments or "{}")
        if wanted.kind == "tool":
            assert (step.action.name, arguments) == (wanted.name, wanted.arguments)
        elif wanted.kind == "read":
            assert (step.action.name, arguments) == ("resources/read", {"uri": wanted.name})
        else:
            assert (step.action.name, arguments["name"]) == ("prompts/get", wanted.name)
            assert arguments["arguments"] == wanted.arguments
        if session.cut and index + 1 == len(steps):
            assert step.next_observation is None
            continue
        assert step.next_observation is not None
        shown = step.next_observation.content
        assert shown is not None
        assert step.next_observation.is_error == (None if form == "chat" else wanted.failed)
        assert [part for part in wanted.told if part not in shown] == []
        assert not wanted.empty or shown == ""


@pytest.mark.parametrize("log", LOGS, ids=name_of)
def test_calls_that_were_sent_together_are_one_turn_where_the_form_holds_the_order(log):
    session, form = log
    places = [[index] for index in range(len(session.steps))] if form in APART else turns(session.steps)
    wanted = [(number, offset, len(turn)) for number, turn in enumerate(places) for offset in range(len(turn))]
    assert [(step.turn, step.call_index, step.num_calls) for step in steps_of(session, form)] == wanted


@pytest.mark.parametrize("log", LOGS, ids=name_of)
def test_who_was_called_and_what_could_be_called_is_told_as_far_as_the_form_knows(log):
    session, form = log
    (trajectory,) = read()[0][session.file(form)]
    desk = DESKS[session.desk]
    assert {tool.get("function", tool)["name"] for tool in json.loads(trajectory.context.action_space or "")} == set(
        desk.tools
    )
    if form == "chat":
        assert trajectory.task.instruction == session.task
    else:
        assert (trajectory.environment.id, trajectory.environment.version) == (desk.name, desk.version)
        assert (trajectory.agent.name, trajectory.agent.version) == CLIENT
        assert trajectory.context.initial_state == desk.instructions


async def asked_again(session: McpSession) -> list[Any]:
    """The answers of a new server to the calls of a session, without a wire between."""
    client = Client(session)
    desk_server = server(session.desk)
    async with create_connected_server_and_client_session(
        desk_server, elicitation_callback=client.say
    ) as client_session:
        await client.act(client_session)
    return client.given


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_the_servers_answer_the_same_when_they_are_asked_again(session):
    """This is the whole text of every answer; what stands in `mcp_sessions.toml` is a part of it, written by hand."""
    answers = anyio.run(asked_again, session)
    for form in session.forms:
        for step, answer in zip(steps_of(session, form), answers, strict=True):
            if step.next_observation is None:
                continue
            shown = step.next_observation.content or ""
            if isinstance(answer, McpError):
                assert json.loads(shown)["message"] == answer.error.message
            elif isinstance(answer, CallToolResult):
                text = text_of(answer)
                assert json.loads(shown) == json.loads(text) if text.startswith("{") else shown == text
            elif isinstance(answer, ReadResourceResult):
                texts = [content.text for content in answer.contents if isinstance(content, TextResourceContents)]
                assert shown == "\n".join(texts)
            else:
                assert [message["content"]["text"] for message in json.loads(shown)["messages"]] == [
                    message.content.text for message in answer.messages
                ]


def test_what_a_server_asked_and_was_told_stands_before_the_next_call():
    for session in SESSIONS:
        for form in session.forms if session.answers else ():
            assert form in QUESTIONS
            steps = steps_of(session, form)
            asking = [index for index, step in enumerate(steps) if step.action.name == "delete_note"]
            for index, sure in zip(asking, session.answers, strict=True):
                question, reply = json.loads(steps[index + 1].interleaved or "[]")
                assert (question["role"], reply["role"]) == ("environment", "user")
                assert "for good?" in question["content"]
                assert f'"sure": {json.dumps(sure)}' in reply["content"]
