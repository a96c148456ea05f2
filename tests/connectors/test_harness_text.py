"""In every format that has text of a harness: it stands in `interleaved`, and in no observation of the environment."""

import json

import pytest

from tests.rows import parsed
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.conversation.templates import undressed
from trajmill.connectors.registry import connectors


def lines(*values: object) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in values)


def whole(value: object) -> bytes:
    return json.dumps(value).encode()


def rollout(*items: dict[str, object]) -> bytes:
    meta = {
        "timestamp": "2025-09-01T10:00:00.000Z",
        "type": "session_meta",
        "payload": {"id": "s", "cwd": "/srv/mill", "cli_version": "0.40"},
    }
    at = [f"2025-09-01T10:00:{second:02}.000Z" for second in range(len(items))]
    told = ({"timestamp": at[n], "type": "response_item", "payload": one} for n, one in enumerate(items))
    return lines(meta, *told)


def codex_call(ident: str) -> dict[str, object]:
    return {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": ident}


def claude(number: int, kind: str, *blocks: dict[str, object]) -> dict[str, object]:
    return {
        "type": kind,
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": "s",
        "timestamp": "2025-09-01T10:00:00.000Z",
        "message": {"id": f"m{number}", "role": kind, "content": list(blocks)},
    }


def claude_use(ident: str) -> dict[str, object]:
    return {"type": "tool_use", "id": ident, "name": "Bash", "input": {"command": "ls"}}


def claude_result(ident: str, text: str) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": ident, "content": text}


TERMINUS = json.dumps(
    {"analysis": "a", "plan": "p", "commands": [{"keystrokes": "ls\n", "duration": 1}], "task_complete": False}
).encode()
FIRST = (
    b"Answer with keystrokes.\n\nTask Description:\nDo it.\n\nCurrent terminal state:\nCurrent Terminal Screen:\n$\n"
)
ROW = {"instance_id": "acme__lamp-1", "model": "m"}
SWE_ASK = {"role": "user", "content": "<uploaded_files>\n/lamp\n</uploaded_files> solve it"}
TOOL_CALL = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
MINI = "```bash\nls\n```"
MINI_KILLED = (
    "The last command <command>ls</command> timed out and has been killed.\nThe output of the command was:\n <output>\n"
    "SEEN\n</output>\nPlease try another command and make sure to avoid those requiring interactive input."
)
MINI_CUT = "<returncode>0</returncode>\n<warning>\nThe output was too long.\n</warning>\n<output>\nSEEN\n</output>"

CASES = [
    (
        "terminus",
        {
            "episode-0/prompt.txt": FIRST,
            "episode-0/response.txt": TERMINUS,
            "episode-1/prompt.txt": b"Previous response had warnings:\nWARNINGS: HARNESS\n\nNew Terminal Output:\nSEEN",
            "episode-1/response.txt": TERMINUS,
        },
        ["HARNESS", "New Terminal Output:"],
    ),
    (
        "openhands",
        whole(
            [
                {"id": 1, "source": "user", "action": "message", "args": {"content": "Do it."}},
                {"id": 2, "source": "agent", "action": "run", "args": {"command": "ls"}},
                {
                    "id": 3,
                    "cause": 2,
                    "source": "agent",
                    "observation": "run",
                    "content": "SEEN",
                    "extras": {"metadata": {"exit_code": 0, "suffix": "\n[HARNESS: 0]"}},
                },
                {"id": 4, "source": "agent", "action": "run", "args": {"command": "ls"}},
            ]
        ),
        ["[HARNESS: 0]"],
    ),
    (
        "sweagent",
        whole(
            {
                "history": [
                    {"role": "user", "content": "Do it.", "agent": "primary"},
                    {"role": "assistant", "content": "Look.\n```\nls\n```", "agent": "primary"},
                    {
                        "role": "user",
                        "content": "OBSERVATION:\nSEEN\n(Open file: n/a)\n(Current directory: /lamp)\nbash-$",
                        "agent": "primary",
                    },
                    {"role": "assistant", "content": "Look.\n```\nls\n```", "agent": "primary"},
                ]
            }
        ),
        ["OBSERVATION:", "(Open file: n/a)\n(Current directory: /lamp)\nbash-$"],
    ),
    (
        "mini_swe_agent",
        whole(
            {
                "info": {"exit_status": "Submitted", "mini_version": "1.9"},
                "messages": [
                    {"role": "system", "content": "Answer with ```bash blocks."},
                    {"role": "user", "content": "Do it."},
                    {"role": "assistant", "content": MINI},
                    {"role": "user", "content": MINI_CUT},
                    {"role": "assistant", "content": MINI},
                ],
            }
        ),
        ["The output was too long."],
    ),
    (
        "mini_swe_agent",
        whole(
            [
                {"role": "system", "content": "Answer with ```bash blocks."},
                {"role": "user", "content": "Do it."},
                {"role": "assistant", "content": MINI},
                {"role": "user", "content": MINI_KILLED},
                {"role": "assistant", "content": MINI},
                {"role": "user", "content": "<exception>HARNESS</exception>\n<returncode>-1</returncode>\n<output>\n"},
                {"role": "assistant", "content": MINI},
            ]
        ),
        ["timed out and has been killed", "Please try another command", "<exception>HARNESS</exception>"],
    ),
    (
        "aider",
        (
            b"# aider chat started at 2025-01-02 03:04:05\n\n#### Do it.  \n\nlamp.py\n<<<<<<< SEARCH\na\n=======\nb\n"
            b">>>>>>> REPLACE\n\n> Tokens: 1k sent, HARNESS got.  \n> Applied edit to SEEN.py  \n\n#### Again.  \n\n"
            b"lamp.py\n<<<<<<< SEARCH\nb\n=======\na\n>>>>>>> REPLACE\n\n> Applied edit to lamp.py  \n"
        ),
        ["Tokens: 1k sent, HARNESS got."],
    ),
    (
        "react_log",
        (
            b"Question: Who?\nYou have attempted to answer following question before and failed. HARNESS\n"
            b"Thought 1: x\nAction 1: Search[a]\nObservation 1: SEEN\nThought 2: x\nAction 2: Finish[b]\n"
            b"Observation 2: Answer is CORRECT\n"
        ),
        ["HARNESS"],
    ),
    (
        "claude_code",
        lines(
            claude(0, "user", {"type": "text", "text": "Do it."}),
            claude(1, "assistant", claude_use("a")),
            claude(2, "user", claude_result("a", "SEEN\n\n<system-reminder>\nHARNESS\n</system-reminder>")),
            claude(3, "assistant", claude_use("b")),
        ),
        ["HARNESS"],
    ),
    (
        "codex",
        rollout(
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Do it."}]},
            codex_call("a"),
            {
                "type": "function_call_output",
                "call_id": "a",
                "output": "Exit code: 0\nWall time: 2 seconds\nOutput:\nSEEN",
            },
            codex_call("b"),
            {"type": "function_call_output", "call_id": "b", "output": "x"},
        ),
        ["Exit code: 0\nWall time: 2 seconds\nOutput:"],
    ),
    (
        "webdancer",
        lines(
            {
                "type": "chatml",
                "messages": [
                    {"role": "user", "content": "Do it."},
                    {"role": "assistant", "content": '<tool_call>{"name": "search", "arguments": {}}</tool_call>'},
                    {"role": "user", "content": "<tool_response>\nSEEN\n</tool_response>"},
                    {"role": "user", "content": "HARNESS: answer now."},
                    {"role": "assistant", "content": "<answer>a</answer>"},
                ],
            }
        ),
        ["HARNESS: answer now."],
    ),
    (
        "tau_bench",
        whole(
            [
                {
                    "task_id": 0,
                    "reward": 1.0,
                    "info": {},
                    "traj": [
                        {"role": "system", "content": "# Retail agent policy"},
                        {"role": "user", "content": "Help."},
                        {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]},
                        {"role": "tool", "tool_call_id": "c", "name": "bash", "content": "SEEN"},
                        {"role": "system", "content": "HARNESS"},
                        {"role": "assistant", "content": None, "tool_calls": [{**TOOL_CALL, "id": "d"}]},
                        {"role": "tool", "tool_call_id": "d", "name": "bash", "content": "x"},
                    ],
                }
            ]
        ),
        ["HARNESS"],
    ),
    (
        "swe_rows",
        lines(
            {
                **ROW,
                "messages": [
                    SWE_ASK,
                    {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]},
                    {
                        "role": "tool",
                        "tool_call_id": "c",
                        "content": "SEEN\n[The command completed with exit code 3.]\n[Current working directory: /lamp]"
                        "\n\nENVIRONMENT REMINDER: You have 9 turns left to complete the task.",
                    },
                    {"role": "assistant", "content": None, "tool_calls": [{**TOOL_CALL, "id": "d"}]},
                    {"role": "tool", "tool_call_id": "d", "content": "x"},
                ],
            }
        ),
        ["[The command completed with exit code 3.]", "[Current working directory: /lamp]", "ENVIRONMENT REMINDER: "],
    ),
]


@pytest.mark.parametrize(("name", "log", "harness"), CASES, ids=[case[0] for case in CASES])
def test_harness_text_is_interleaved_and_in_no_observation(name, log, harness):
    rows, rejects = parsed(connectors()[name], MemoryBlob("log", log))
    assert rejects == []
    seen = [row["next_observation"] for row in rows if row["next_observation"]]
    shown = "\n".join(one["content"] for one in seen if one["origin"] == "environment")
    said = [one for row in rows for one in json.loads(row["interleaved"] or "[]") if one["role"] == "harness"]
    assert "SEEN" in shown
    for text in harness:
        assert text not in shown
        assert text in "\n".join(one["content"] for one in said)


@pytest.mark.parametrize(
    "text", ["(Open file: " * 50000 + "\nbash-$", "[Current working directory:]\n" * 50000, "\n" * 500000]
)
def test_templates_are_looked_for_in_linear_time(text):
    assert len(undressed(text).notes) <= 8
