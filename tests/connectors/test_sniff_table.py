"""Every real file of the corpora is recognized as what it is, and what is no trajectory is left alone."""

import csv

import pytest

from tests.conftest import INDEX, corpora_folder, named_files, real_files
from tests.golden.make import taken_by

TABLE: dict[str, set[str | None]] = {
    "aider_chat_history": {"aider"},
    "android_control_jsonl": {"android_control_jsonl"},
    "appagent_task": {"appagent"},
    "asciicast_v2": {"asciicast"},
    "asciicast_v3": {"asciicast"},
    "browser_use_history": {"browser_use_history"},
    "browser_use_messages": {"browser_use_messages", None},
    "browsergym_result": {"browsergym"},
    "cdp_perflog": {"cdp"},
    "claude_code_jsonl": {"claude_code"},
    "claude_web_export": {"claude_code"},
    "claude_managed_agent_jsonl": {"managed_agent"},
    "codex_exec_json_stream": {"codex_exec"}, "codex_rollout_jsonl": {"codex"}, "droidbot_output": {"droidbot"},
    "gemini_cli_session": {"gemini_cli"}, "generic_message_jsonl": {"gemini_stream"}, "har": {"har"},
    "getevent": {"refused"}, "inspect_eval_log": {"inspect"}, "jsonrpc_spec_examples": {"mcp_jsonrpc", None},
    "jsonrpc_wire": {"agent_vcr", "mcp_recorder", "vcr_cassette"},
    "mhtml": {"refused"}, "mind2web_json": {"mind2web"}, "logcat": {"refused"},
    "mini_swe_agent_traj": {"mini_swe_agent"}, "openhands_events": {"openhands"}, "patch": {"refused"},
    "playwright_blob": {"playwright_trace"}, "playwright_trace": {"playwright_trace"},
    "react_hotpotqa_txt": {"react_log"}, "rrweb_events": {"rrweb", None}, "script_typescript": {"script"},
    "search_r1_text": {"search_r1"}, "selenium_side": {"refused"}, "sweagent_traj": {"sweagent"},
    "swebench_eval_logs": {"swebench_eval"},
    "swebench_predictions": {"swebench_predictions", None},
    "tau2_results": {"tau2"}, "tau_bench_results": {"tau_bench"}, "toolbench_answer": {"toolbench"},
    "terminator_mcp_log": {None}, "terminator_recording": {"terminator"}, "ttyrec": {"ttyrec", None},
    "utf16_log": {None}, "vcr_cassette": {"vcr_cassette", None}, "vcr_llm_toolcalls": {"vcr_cassette"},
    "webdancer_chatml_jsonl": {"webdancer"}, "webvoyager_messages": {"webvoyager"},
}  # fmt: skip
"""Format, as the index of the corpora names it → connectors that may take it; None: left alone. Single messages of the
protocol's specification are no log, what a program logs of itself is no trajectory, a summary of results is no
prediction, an empty file is nothing, events within source code are no recording, and calls of gRPC and of WebSockets
are in no exchange that a cassette's reader knows. Formats that are not named here are read by nothing yet, or hold no
trajectory (question seeds, tool logs)."""


@pytest.mark.corpus
def test_every_real_file_is_what_the_index_says(record_property):
    files = real_files([""], record_property)
    root = corpora_folder()
    assert root is not None
    with (root / INDEX).open(encoding="utf-8") as stream:
        formats = {row["path"]: row["format"] for row in csv.DictReader(stream, delimiter="\t")}
    found = taken_by(files, root)
    assert found == named_files()
    assert {name: taker for name, taker in found.items() if taker not in TABLE.get(formats[name], {None})} == {}
