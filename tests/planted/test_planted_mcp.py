"""A real MCP server's known answers come out of every log of the wire as they were, but for what a form cannot hold."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.planted import planted_atif
from tests.planted.mcp_truth import CALLS, CLIENT, INSTRUCTIONS, SERVER, turns
from tests.rows import blob_at, parsed
from trajmill.connectors.connector import HEAD_BYTES, MemoryBlob
from trajmill.connectors.registry import connector, sniff

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Form:
    """A form of log, and what of the truth it holds.

    Attributes:
        connector: that reads it.
        order: whether messages stand in the order in which they passed; if not, each request stands with its answer,
            and calls that were sent together look as if one had waited for the other.
        heard: of what the server asked and was told, how many messages it holds: both, the question alone, or none.
        began: whether it tells when a call was made.
        lasted: whether it tells how long it took to be answered.
    """

    connector: str
    order: bool = True
    heard: int = 2
    began: bool = False
    lasted: bool = False


FORMS: Final = {
    "stdio.jsonl": Form("mcp_jsonrpc", began=True, lasted=True),
    "stdio.log": Form("mcp_jsonrpc"),
    "mcp-server-planted.log": Form("mcp_desktop_log", began=True, lasted=True),
    "editor.log": Form("mcp_jsonrpc"),
    "inspector-history.json": Form("mcp_inspector", heard=1, began=True, lasted=True),
    "http.jsonl": Form("mcp_jsonrpc", began=True, lasted=True),
    "inspector-network.json": Form("mcp_inspector", order=False, began=True),
    "exchanges.jsonl": Form("mcp_jsonrpc", order=False, began=True),
    "exchanges.yaml": Form("vcr_cassette", order=False),
    "cassette.json": Form("mcp_recorder", order=False, heard=0, lasted=True),
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of logs."""
    folder = tmp_path_factory.mktemp("planted") / "mcp"
    command = [sys.executable, "-m", "tests.planted.record_mcp", str(folder)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"the server cannot be recorded: {done.stderr}"
    return folder


@pytest.fixture(scope="module")
def rows_of(logs: Path) -> Callable[[str], list[dict[str, Any]]]:
    """Gives the rows of a log, which has to be read without a reject, and to be one trajectory."""

    def rows(form: str) -> list[dict[str, Any]]:
        found, rejects = parsed(connector(FORMS[form].connector), blob_at(logs / form))
        assert not rejects
        assert len({row["trajectory_id"] for row in found}) == 1
        return found

    return rows


def shown(row: dict[str, Any]) -> tuple[str | None, bool | None, tuple[str, ...]]:
    after = row["next_observation"]
    return after["content"], after["is_error"], tuple(one["sha256"] for one in after["attachments"] or ())


@pytest.mark.parametrize("form", FORMS)
def test_each_call_is_an_action_and_its_answer_the_next_observation(rows_of, form):
    rows = rows_of(form)
    assert [(row["action"]["name"], json.loads(row["action"]["arguments"])) for row in rows] == [
        (call.name, call.arguments) for call in CALLS
    ]
    assert [shown(row) for row in rows] == [(call.shown, call.is_error, call.pictures) for call in CALLS]
    assert {row["domain"] for row in rows} == {"mcp"}


@pytest.mark.parametrize("form", FORMS)
def test_calls_that_were_sent_together_are_one_turn_where_the_form_holds_the_order(rows_of, form):
    told = [(row["turn"], row["call_index"], row["num_calls"]) for row in rows_of(form)]
    assert told == turns(parallel=FORMS[form].order)


@pytest.mark.parametrize("form", FORMS)
def test_before_a_call_stands_what_was_answered_last(rows_of, form):
    """An answer that came late stands before nothing: the next call saw the one that was sent after it."""
    rows = rows_of(form)
    wanted: list[tuple[Any, ...] | None] = [None]
    for number, call in enumerate(CALLS[:-1]):
        together = FORMS[form].order and CALLS[number + 1].together
        wanted.append(wanted[-1] if together else (call.shown, call.is_error, call.pictures))
    before = [None if row["observation"] is None else shown({"next_observation": row["observation"]}) for row in rows]
    assert before == wanted


@pytest.mark.parametrize("form", FORMS)
def test_what_the_server_asked_and_was_told_stands_before_the_next_call(rows_of, form):
    for row, call in zip(rows_of(form), CALLS, strict=True):
        told = [(one["role"], one["content"]) for one in json.loads(row["interleaved"] or "[]")]
        wanted = call.heard[: FORMS[form].heard]
        assert [role for role, _ in told] == [role for role, _ in wanted]
        assert all(word in text for (_, text), (_, word) in zip(told, wanted, strict=True))


@pytest.mark.parametrize("form", FORMS)
def test_who_talked_to_whom_and_what_could_be_called_is_told_by_the_handshake(rows_of, form):
    row = rows_of(form)[0]
    assert (row["environment"]["id"], row["environment"]["version"]) == SERVER
    assert (row["agent"]["name"], row["agent"]["version"]) == CLIENT
    assert row["context"]["initial_state"] == INSTRUCTIONS
    tools = {tool["name"] for tool in json.loads(row["context"]["action_space"])}
    assert tools == {call.name for call in CALLS if call.is_tool} - {"fly"}


@pytest.mark.parametrize("form", FORMS)
def test_times_are_told_where_the_form_holds_them(rows_of, form):
    rows = rows_of(form)
    dawdled = next(row for row in rows if row["action"]["name"] == "dawdle")
    assert {row["started_at"] is not None for row in rows} == {FORMS[form].began}
    assert {row["duration_s"] is not None for row in rows} == {FORMS[form].lasted}
    assert dawdled["duration_s"] is None or 0.3 < dawdled["duration_s"] < 20


@pytest.mark.parametrize("form", FORMS)
def test_a_log_is_recognized_whatever_it_is_called(logs, form):
    assert sniff((logs / form).read_bytes()[:HEAD_BYTES], "planted")[0][0].name == FORMS[form].connector


def test_the_same_calls_as_an_agent_would_tell_them_are_the_same_steps():
    """ATIF holds no talk between server and client; who failed is an emitter's own field, names have a prefix."""
    rows, rejects = parsed(connector("atif"), MemoryBlob("planted", planted_atif.mcp()))
    assert not rejects
    names = [row["action"]["name"].removeprefix(planted_atif.MCP_PREFIX) for row in rows]
    assert names == [call.name for call in CALLS]
    assert [json.loads(row["action"]["arguments"]) for row in rows] == [call.arguments for call in CALLS]
    assert [shown(row) for row in rows] == [(call.shown, call.is_error, call.pictures) for call in CALLS]
    assert [(row["turn"], row["call_index"], row["num_calls"]) for row in rows] == turns(parallel=True)
    assert {row["interleaved"] for row in rows} == {None}
    assert {row["domain"] for row in rows} == {"mcp"}
