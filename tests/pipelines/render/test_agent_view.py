"""The agent view says what logs say, message for message, or why it cannot."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT, corpora_folder
from tests.rows import blob_at, parsed
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connectors
from trajmill.pipelines.render.agent_view import RESTORED, Conversation, Refused, agent_conversation

FIXTURES = ROOT / "tests" / "fixtures"

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("look", "dig")]


def asked(name, key, arguments):
    return {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}


TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "You garden.\n\n"},
    {"role": "user", "content": "  How is bed 2? "},
    {
        "role": "assistant",
        "content": "A moment.",
        "reasoning_content": "Both.",
        "tool_calls": [asked("look", "a", '{"bed": 2, "depth": 1.5}'), asked("dig", "b", '{"bed": }')],
    },
    {"role": "tool", "tool_call_id": "a", "name": "look", "content": '{"soil":  "dry"}\n'},
    {"role": "tool", "tool_call_id": "b", "name": "dig", "content": "invalid arguments"},
    {"role": "user", "content": "Only look."},
    {"role": "user", "content": "Please."},
    {"role": "assistant", "content": "Dry. More?"},
    {"role": "user", "content": "Yes: bed 3."},
    {"role": "assistant", "content": None, "tool_calls": [asked("look", "a", '{"bed": 3}')]},
    {"role": "tool", "tool_call_id": "a", "name": "look", "content": ""},
    {"role": "assistant", "content": "Nothing there."},
]


def rows_of(talk, tools=TOOLS):
    data = json.dumps({"tools": tools, "messages": talk}, ensure_ascii=False).encode()
    rows, _ = parsed(connectors()["chat_tools"], MemoryBlob("talk.json", data))
    return rows


def conversations(name, blob, requires_tools=False):
    rows, _ = parsed(connectors()[name], blob)
    return [
        agent_conversation(list(group), requires_tools)
        for _, group in groupby(rows, key=lambda row: row["trajectory_id"])
    ]


def text_of(content):
    if isinstance(content, list):
        return "\n".join(block["text"] for block in content if block.get("type", "text") == "text")
    return content or ""


def arguments_of(written):
    try:
        return json.loads(written or "{}") if isinstance(written, str) else written
    except ValueError:
        return written


def plain(messages):
    """Messages of OpenAI's or Anthropic's shape as (role, text, calls or id), answers of a turn in order of ids."""
    found: list[tuple[Any, ...]] = []
    for one in messages:
        blocks = one["content"] if isinstance(one["content"], list) else []
        calls = one.get("tool_calls") or []
        calls = json.loads(calls) if isinstance(calls, str) else calls
        made = [(call["id"], call["function"]["name"], arguments_of(call["function"]["arguments"])) for call in calls]
        made += [(block["id"], block["name"], block["input"]) for block in blocks if block.get("type") == "tool_use"]
        answers = [
            ("tool", text_of(block.get("content")), block["tool_use_id"])
            for block in blocks
            if block.get("type") == "tool_result"
        ]
        if one["role"] == "tool":
            answers.append(("tool", text_of(one["content"]), one["tool_call_id"]))
        found += answers
        if not answers or (one["role"] == "user" and text_of(one["content"])):
            found.append((one["role"].replace("developer", "system"), text_of(one["content"]), made or None))
    ordered: list[tuple[Any, ...]] = []
    for is_answer, held in groupby(found, key=lambda one: one[0] == "tool"):
        group = list(held)
        ordered += sorted(group, key=lambda one: one[2]) if is_answer else group
    while ordered and ordered[-1][0] == "user":
        ordered.pop()
    return ordered


def test_a_conversation_comes_back_message_for_message_with_its_tools():
    found = agent_conversation(rows_of(TALK))
    assert isinstance(found, Conversation)
    assert plain(found.messages) == plain(TALK)
    assert [one["reasoning_content"] for one in found.messages if one["role"] == "assistant"] == [
        one.get("reasoning_content") for one in TALK if one["role"] == "assistant"
    ]
    assert json.loads(found.tools or "") == TOOLS


def test_the_loss_stands_on_what_the_agent_said_and_nothing_else():
    found = agent_conversation(rows_of(TALK))
    assert isinstance(found, Conversation)
    assert [one["loss"] for one in found.messages] == [True if one["role"] == "assistant" else None for one in TALK]


def without(place):
    return [*TALK[:place], *TALK[place + 1 :]]


@pytest.mark.parametrize(
    ("talk", "reason"),
    [
        ([*TALK[:5], {"role": "system", "content": "Two calls are left."}, *TALK[5:]], "harness_words"),
        (without(4), "unanswered"),
        (without(1)[:4], "no_instruction"),
        (
            [
                *TALK[:8],
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "See."},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,bm90IGEgcGljdHVyZQ=="}},
                    ],
                },
                *TALK[9:],
            ],
            "attachments",
        ),
        (
            [
                *TALK[:2],
                {"role": "assistant", "content": None, "tool_calls": [asked("look", "a", "{}")] * 2},
                {"role": "tool", "tool_call_id": "a", "content": "x"},
                {"role": "tool", "tool_call_id": "a", "content": "y"},
            ],
            "call_ids",
        ),
        (
            [
                *TALK[:2],
                {"role": "assistant", "content": None, "tool_calls": [asked("look", "mcp_0a1b", "{}")]},
                {"role": "tool", "tool_call_id": "mcp_0a1b", "content": "x"},
            ],
            "hosted",
        ),
    ],
)
def test_what_cannot_be_restored_is_refused_with_its_reason(talk, reason):
    found = agent_conversation(rows_of(talk))
    assert isinstance(found, Refused), found
    assert found.reason == reason


def changed(rows, place, **more):
    return [{**row, **more} if number == place else row for number, row in enumerate(rows)]


def test_a_part_of_a_conversation_is_refused():
    rows = rows_of(TALK)
    assert agent_conversation(rows[1:])[0] == "incomplete"
    assert agent_conversation(changed(rows, 0, relation="continuation"))[0] == "continuation"
    cut = {**rows[0]["next_observation"], "truncation": "recorder"}
    assert agent_conversation(changed(rows, 0, next_observation=cut))[0] == "truncated"
    screen = {**rows[0]["next_observation"], "dialect": "uitree/1"}
    assert agent_conversation(changed(rows, 0, next_observation=screen))[0] == "rewritten"
    assert agent_conversation(changed(rows, 0, exit_code=0))[0] == "unwrapped"


def test_tools_that_the_log_does_not_declare_are_not_made_up():
    rows = rows_of(TALK, [])
    assert agent_conversation(rows)[0] == "no_tools"
    found = agent_conversation(rows, requires_tools=False)
    assert isinstance(found, Conversation)
    assert found.tools is None


def test_a_format_that_no_test_compares_is_refused():
    rows, _ = parsed(connectors()["claude_code"], blob_at(FIXTURES / "claude_code" / "input" / "agent-5c0f.jsonl"))
    assert agent_conversation(rows)[0] == "format"
    assert {"atif", "chat_tools", "otel_genai", "tau_bench", "vcr_cassette"} == RESTORED


def lists_of_messages(value):
    """Every list of messages in a document, with the system prompt beside it."""
    if isinstance(value, str) and '"messages"' in value:
        try:
            value = json.loads(value)
        except ValueError:
            return
    if isinstance(value, dict):
        messages = value.get("messages") or value.get("traj")
        if isinstance(messages, list):
            system = value.get("system")
            yield ([{"role": "system", "content": system}] if system else []) + messages
        for one in value.values():
            yield from lists_of_messages(one)
    elif isinstance(value, list):
        for one in value:
            yield from lists_of_messages(one)


def as_logged(path: Path) -> list[list[tuple[Any, ...]]]:
    text = path.read_text()
    if path.suffix == ".jsonl":
        values = [json.loads(line) for line in text.splitlines() if line.strip()]
        if "role" in values[0]:
            values = [{"messages": values}]
    else:
        values = [yaml.load(text, yaml.CSafeLoader) if path.suffix == ".yaml" else json.loads(text)]
    return [plain(messages) for messages in lists_of_messages(values)]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("chat_tools", "anthropic.jsonl"),
        ("tau_bench", "tools.json"),
        ("vcr_cassette", "agent_and_server.yaml"),
    ],
)
def test_what_a_fixture_says_comes_back(name, path):
    file = FIXTURES / name / "input" / path
    found = [one for one in conversations(name, blob_at(file)) if isinstance(one, Conversation)]
    assert found
    logged = as_logged(file)
    for one in found:
        mine = plain(one.messages)
        # the last answer of the model stands beside the messages that it was asked with
        assert any(messages in (mine, mine[:-1]) for messages in logged), mine


def test_what_logs_of_tau_bench_say_comes_back():
    folder = corpora_folder()
    if folder is None:
        pytest.skip("no corpora beside the repository")
    files = sorted((folder / "mcp" / "tau_bench_results").rglob("*.json"))
    count = 0
    for file in files:
        rows, _ = parsed(connectors()["tau_bench"], blob_at(file)) if file.name.startswith("gpt-4o-air") else ([], [])
        logged = as_logged(file) if rows else []
        for _, group in groupby(rows, key=lambda row: row["trajectory_id"]):
            found = agent_conversation(list(group), requires_tools=False)
            assert isinstance(found, Conversation)
            assert plain(found.messages) in logged
            count += 1
    assert count > 20


def test_spans_of_a_conversation_come_back():
    (found,) = conversations("otel_genai", blob_at(FIXTURES / "otel_genai" / "input" / "conversation.jsonl"))
    assert isinstance(found, Conversation)
    assert plain(found.messages)[:4] == [
        ("system", "You garden.", None),
        ("user", "How is bed 1?", None),
        ("assistant", "A moment.", [("c1", "look", {"bed": 1}), ("c2", "look", {"bed": 2})]),
        ("tool", "dry", "c1"),
    ], plain(found.messages)
    assert found.messages[2]["reasoning_content"] == "Look."


def test_steps_of_atif_come_back():
    (found,) = conversations("atif", blob_at(FIXTURES / "atif" / "input" / "plain_version.json"))
    assert isinstance(found, Conversation)
    assert [(one["role"], one["content"]) for one in found.messages] == [
        ("user", "Search."),
        ("assistant", None),
        ("tool", '{"hits": []}'),
    ]
    assert json.loads(found.messages[1]["tool_calls"]) == [asked("web_search", "w1", '{"query": "x"}')]
