"""Published data sets as one table: rows in the columns that each documents, who reads them, and what they give.

The rows are written for the tests; names, tools and texts in them are invented.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

CASE: Final = "case"
COLUMNS: Final = "columns"
REAL: Final = "real rows"


class DataSet(NamedTuple):
    """A data set.

    Attributes:
        name: on the Hub, or of the tool whose output it is.
        form: what a row holds.
        connector: that reads its rows.
        checked: on a rebuilt file (`case`), on rows of its documented columns alone, or on real rows.
        rows: in its columns.
        calls, answers: calls that the rows hold, and answers to them.
        reason: why its rows are refused, if they are.
    """

    name: str
    form: str
    connector: str
    checked: str
    rows: list[dict[str, Any]]
    calls: int = 0
    answers: int = 0
    reason: str = ""


def _said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def _from(role: str, value: str, **more: Any) -> dict[str, Any]:
    return {"from": role, "value": value, **more}


def _call(name: str, key: str = "c1", **arguments: Any) -> dict[str, Any]:
    return {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


_TOOLS: Final = json.dumps([{"type": "function", "function": {"name": "look", "parameters": {}}}])
_ISSUE: Final = "<pr_description>\nThe lamp is dark.\n</pr_description>\nUse bash."
_CALLED: Final = [
    _said("user", "How is bed 2?"),
    _said("assistant", "", tool_calls=[_call("look", bed=2)]),
    _said("tool", "dry", tool_call_id="c1"),
    _said("assistant", "It is dry."),
]
_FENCED: Final = [
    _said("system", "You can use a shell."),
    _said("user", _ISSUE),
    _said("assistant", "THOUGHT: look\n\n```bash\nls src\n```"),
    _said("user", "<returncode>0</returncode>\n<output>\nlamp.py\n</output>"),
    _said("assistant", "THOUGHT: done\n\n```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"),
]
_TAGGED: Final = [
    _said("system", "You have access to the following functions:\n---- BEGIN FUNCTION #1: execute_bash ----"),
    _said("user", "<uploaded_files>\n/w/lamp\n</uploaded_files>\nI've uploaded a python code repository. Light it."),
    _said("assistant", "I look.\n\n<function=execute_bash>\n<parameter=command>ls</parameter>\n</function>"),
    _said("user", "EXECUTION RESULT of [execute_bash]:\nlamp.py\n[Command finished with exit code 0]"),
    _said("assistant", "<function=finish>\n</function>"),
]
_REPOSITORY: Final = [
    _said("user", _ISSUE),
    _said("assistant", "I look.", tool_calls=[_call("execute_bash", command="ls")]),
    _said("tool", "lamp.py", tool_call_id="c1", name="execute_bash"),
    _said("assistant", "", tool_calls=[_call("finish", "c2", message="Done.")]),
]
_TERMINUS: Final = [
    _said("user", "Task Description:\nSay the year.\n\nCurrent Terminal Screen:\nroot@h:/app# "),
    _said(
        "assistant",
        json.dumps(
            {
                "analysis": "A prompt.",
                "plan": "Ask for the year.",
                "commands": [{"keystrokes": "date +%Y\n", "duration": 0.1}],
                "task_complete": False,
            }
        ),
    ),
    _said("user", "New Terminal Output:\nroot@h:/app# date +%Y\n2026\n"),
]
_SESSION: Final = [
    {"type": "session", "harness": "lamp", "id": "s"},
    {"type": "message", "message": {"role": "assistant", "tool_calls": [_call("bash", command="ls")]}},
    {"type": "message", "message": {"role": "tool", "tool_call_id": "c1", "content": "notes.txt"}},
]
_GENESIS: Final = (
    "<image>\nYou are a GUI task expert, I will provide you with a high-level instruction, an action history, a "
    "screenshot with its corresponding accessibility tree.\n\nHigh-level instruction: Open the clock\n\n"
    'Action history: \n\nAccessibility tree: {"%s": "(540.0, 1200.0)"}\n\n'
    "Please generate the low-level thought and action for the next step."
)


def _harmony(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}], **more}


def _turn(number: int, role: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"session_id": "s", "turn_number": number, "role": role, "turn_type": kind, "agent": "Claude Code", **more}


def _step(number: int, screen: str, reply: str) -> dict[str, Any]:
    said = [_from("human", _GENESIS % screen), _from("gpt", reply)]
    return {"id": f"aw_task1_{number}", "image": f"{number}.png", "conversations": said}


def _act(uid: str, op: str, html: str, place: int) -> dict[str, Any]:
    return {
        "action_uid": uid,
        "cleaned_html": html,
        "operation": json.dumps({"op": op, "original_op": op, "value": ""}),
        "pos_candidates": [json.dumps({"tag": "button", "backend_node_id": "3", "is_original_target": True})],
        "website": "shop",
        "annotation_id": "b-1",
        "confirmed_task": "Open",
        "action_reprs": ["[button]  Open -> CLICK", "[button]  Shut -> CLICK"],
        "target_action_index": str(place),
    }


DATA_SETS: Final = [
    DataSet(
        "AlienKevin/SWE-ZERO-12M-trajectories",
        "`messages`, whose actions are fenced blocks",
        "swe_rows",
        CASE,
        [{"instance_id": "a__lamp-1", "repo": "a/lamp", "messages": _FENCED, "trajectory_format": "mini-swe-agent-1",
          "exit_status": "Submitted", "duration_sec": 12.5}],
        2, 1,
    ),
    DataSet(
        "SWE-bench/SWE-smith-trajectories",
        "`messages` as JSON text",
        "swe_rows",
        COLUMNS,
        [{"messages": json.dumps(_REPOSITORY), "instance_id": "a__lamp-1", "resolved": True, "model": "parrot-7b",
          "traj_id": "t1", "patch": "diff"}],
        2, 1,
    ),
    DataSet(
        "nebius/SWE-agent-trajectories",
        "`trajectory` of `role` and `text`",
        "swe_rows",
        COLUMNS,
        [{"instance_id": "a__lamp-1", "model_name": "parrot-7b", "target": False, "exit_status": "submitted",
          "generated_patch": "diff", "eval_logs": "ok", "trajectory": [
              {"role": "system", "system_prompt": "SETTING: You are a programmer.", "text": None, "mask": False},
              {"role": "user", "system_prompt": None, "text": "ISSUE:\nDark.\nbash-$", "mask": False},
              {"role": "ai", "system_prompt": None, "text": "DISCUSSION\nI look.\n```\nls\n```", "mask": True},
              {"role": "user", "system_prompt": None, "text": "lamp.py\nbash-$", "mask": False}]}],
        1, 1,
    ),
    DataSet(
        "nebius/SWE-rebench-openhands-trajectories",
        "`trajectory` of chat messages with calls",
        "swe_rows",
        COLUMNS,
        [{"trajectory_id": "t1", "instance_id": "a__lamp-1", "repo": "a/lamp", "trajectory": _REPOSITORY,
          "tools": _TOOLS, "model_patch": "diff", "exit_status": "submit", "resolved": 1}],
        2, 1,
    ),
    DataSet(
        "togethercomputer/CoderForge-Preview",
        "`messages` and `tools` as JSON text, `reward`",
        "swe_rows",
        COLUMNS,
        [{"trajectory_id": "t1", "messages": json.dumps(_REPOSITORY), "tools": _TOOLS, "reward": 1.0,
          "finish_reason": "stop", "image": "img", "license": "mit"}],
        2, 1,
    ),
    DataSet(
        "nvidia/Open-SWE-Traces",
        "`messages` with calls, `resolved` of −1, 0 or 1",
        "swe_rows",
        COLUMNS,
        [{"instance_id": "a__lamp-1", "repo": "a/lamp", "license": "mit", "language": "python", "trajectory_id": "t1",
          "messages": _REPOSITORY, "tools": _TOOLS, "resolved": -1, "metadata": {"teacher_model": "parrot-7b"}}],
        2, 1,
    ),
    DataSet("SWE-Gym/OpenHands-SFT-Trajectories", "`messages` with `<function=…>`", "swe_rows", CASE,
            [{"messages": _TAGGED}], 2, 1),
    DataSet(
        "SWE-Gym/OpenHands-Sampled-Trajectories",
        "`messages` with calls, `test_result`",
        "swe_rows",
        COLUMNS,
        [{"instance_id": "a__lamp-1", "run_id": "r", "resolved": False, "messages": _REPOSITORY, "tools": _TOOLS,
          "test_result": {"git_patch": "diff", "report": {"resolved": False}}}],
        2, 1,
    ),
    DataSet("R2E-Gym/R2EGym-SFT-Trajectories", "`messages` with `<function=…>`, `rewards`", "swe_rows", CASE,
            [{"messages": _TAGGED, "docker_images": "img", "rewards": 1.0, "problem_statement": "p", "exp_name": "e"}],
            2, 1),
    DataSet("SWE-Star", "`full` and `stitched`: messages as JSON text", "swe_rows", CASE,
            [{"timestamp": 1, "instance_id": "a__lamp-1", "exit_status": "submitted", "stitched": json.dumps(_FENCED),
              "full": json.dumps(_FENCED), "result": "diff", "resolved": True}], 2, 1),
    DataSet("nvidia/Nemotron-Terminal-Corpus", "`conversations` of Terminus", "terminus_rows", COLUMNS,
            [{"conversations": _TERMINUS, "model": "parrot-7b", "task": "year"}], 1, 1),
    DataSet("open-thoughts/OpenThoughts-Agent-v1-SFT", "`conversations` of Terminus", "terminus_rows", COLUMNS,
            [{"conversations": _TERMINUS, "agent": "terminus-2", "model": "parrot-7b", "date": "2026-01-01",
              "task": "year", "episode": "episode-1", "run_id": "r", "trial_name": "year__a"}], 1, 1),
    DataSet("traces that Harbor exports", "`conversations` of Terminus", "terminus_rows", COLUMNS,
            [{"conversations": _TERMINUS, "agent": "terminus-2", "model": "parrot-7b", "model_provider": "p",
              "task": "year", "trial_name": "year__b", "episode": "episode-0", "run_id": "r"}], 1, 1),
    DataSet(
        "SALT-NLP/SWE-chat",
        "a turn; answers are rows of their own",
        "turn_rows",
        CASE,
        [_turn(0, "user", "prompt", content="List the files."),
         _turn(1, "assistant", "tool_use", tool_name="Bash", tool_call_id="t1", tool_input_json='{"command": "ls"}'),
         _turn(2, "user", "tool_result", content="lamp.py", tool_call_id="t1")],
        1, 1,
    ),
    DataSet("agent traces of the Hub", "`traces`: the lines of a session, each as JSON text", "agent_traces", CASE,
            [{"harness": "lamp", "session_id": "s", "traces": [json.dumps(line) for line in _SESSION],
              "file_name": "s.jsonl"}], 1, 1),
    DataSet("trace-commons/agent-traces", "`trace`: a session's log as text; messages beside it", "agent_traces", CASE,
            [{"harness": "lamp", "session_id": "s", "prompt": "List.", "messages": [_said("user", "List.")],
              "trace": "".join(json.dumps(line) + "\n" for line in _SESSION)}], 1, 1),
    DataSet(
        "xingyaoww/code-act (CodeActInstruct)",
        "`conversations` with `<execute>`",
        "chat_tools",
        COLUMNS,
        [{"id": "c1", "conversations": [
            _said("system", "You can run code in <execute> tags."),
            _said("user", "What is 2 + 3?"),
            _said("assistant", "I count. <execute> print(2 + 3) </execute>"),
            _said("user", "Observation:\n5\nYou have 4 steps left and 2 chances to propose solution left."),
            _said("assistant", "It is 5.")]}],
        1, 1,
    ),
    DataSet(
        "THUDM/AgentInstruct",
        "`conversations` with `Act:` and a fence",
        "chat_tools",
        COLUMNS,
        [{"id": "os_0", "conversations": [
            _from("human", "You may act with bash, answer or finish. Write Think: and Act: lines.", loss=None),
            _from("gpt", "Understood.", loss=False),
            _from("human", "How many files are here?", loss=None),
            _from("gpt", "Think: I count.\n\nAct: bash\n\n```bash\nls | wc -l\n```", loss=True),
            _from("human", "The output of the OS:\n\n3", loss=None),
            _from("gpt", "Think: Three.\n\nAct: answer(3)", loss=True)]}],
        2, 1,
    ),
    DataSet(
        "AgentGym/AgentTraj-L",
        "`conversations` with `Action:` lines",
        "chat_tools",
        CASE,
        [{"item_id": "alfworld_0", "conversations": [
            _from("human", "Interact with a household.", loss=None),
            _from("gpt", "OK. I'll follow.", loss=False),
            _from("human", "You are in a room.", loss=None),
            _from("gpt", "Thought:\nI look.\n\nAction:\ngo to shelf 1", loss=True),
            _from("human", "On the shelf 1, you see a cup 0.", loss=None)]}],
        1, 1,
    ),
    DataSet(
        "Agent-Ark/Toucan-1.5M",
        "`messages` as JSON text with roles `tool_call` and `tool_response`",
        "chat_tools",
        COLUMNS,
        [{"uuid": "u1", "subset_name": "single-turn", "question": "How is bed 2?", "target_tools": "look",
          "tools": _TOOLS, "messages": json.dumps([
              _said("user", "How is bed 2?"),
              _said("tool_call", "{'name': 'look', 'arguments': '{\"bed\": 2}'}"),
              _said("tool_response", "dry"),
              _said("assistant", "It is dry.")])}],
        1, 1,
    ),
    DataSet(
        "Salesforce/APIGen-MT-5k",
        "`conversations` with `function_call` and `observation`",
        "chat_tools",
        COLUMNS,
        [{"conversations": [
            _from("human", "How is bed 2?"),
            _from("function_call", '{"name": "look", "arguments": {"bed": 2}}'),
            _from("observation", "dry"),
            _from("gpt", "It is dry.")], "tools": _TOOLS, "system": "You tend beds."}],
        1, 1,
    ),
    DataSet(
        "Team-ACE/ToolACE",
        "`conversations` with `[name(argument=value)]`",
        "chat_tools",
        COLUMNS,
        [{"system": 'Here is a list of functions in JSON format that you can invoke:\n[{"name": "look"}]',
          "conversations": [
              _from("user", "How is bed 2?"),
              _from("assistant", "[look(bed=2)]"),
              _from("tool", '[{"name": "look", "results": {"soil": "dry"}}]'),
              _from("assistant", "It is dry.")]}],
        1, 1,
    ),
    DataSet(
        "NousResearch/hermes-function-calling-v1",
        "`conversations` with `<tool_call>`",
        "chat_tools",
        COLUMNS,
        [{"id": "h1", "category": "beds", "subcategory": "soil", "task": "look", "tools": _TOOLS, "conversations": [
            _from("system", f"<tools>{_TOOLS}</tools>"),
            _from("human", "How is bed 2?"),
            _from("gpt", '<tool_call>\n{"name": "look", "arguments": {"bed": 2}}\n</tool_call>'),
            _from("tool", '<tool_response>\n{"name": "look", "content": "dry"}\n</tool_response>'),
            _from("gpt", "It is dry.")]}],
        1, 1,
    ),
    DataSet(
        "allenai/Dolci-Instruct-SFT-Tool-Use",
        "`function_calls` and `functions` beside a message's text",
        "chat_tools",
        CASE,
        [{"id": "d0", "dataset_source": "x", "messages": [
            _said("system", "You call functions.", functions='[{"name": "look"}]', function_calls=None),
            _said("user", "How is bed 2?", functions=None, function_calls=None),
            _said("assistant", None, functions=None, function_calls='look(bed="2")'),
            _said("environment", '{"results": {"soil": "dry"}}', functions=None, function_calls=None),
            _said("assistant", "It is dry.", functions=None, function_calls=None)]}],
        1, 1,
    ),
    DataSet("nvidia/Nemotron-Post-Training-Dataset-v1 (tool_calling)", "`messages` with calls", "chat_tools", COLUMNS,
            [{"uuid": "u1", "license": "cc-by-4.0", "generator": "parrot-7b", "version": "v1", "category": "tool",
              "reasoning": "off", "messages": _CALLED, "metadata": json.dumps({"tools": []})}], 1, 1),
    DataSet("Bentlybro/gemma4-code-tools-v3", "`conversations`, whose `tool_calls` are JSON text", "chat_tools",
            COLUMNS,
            [{"conversations": [{**one, "tool_calls": json.dumps(one["tool_calls"])} if "tool_calls" in one else one
                                for one in _CALLED], "tools": _TOOLS}], 1, 1),
    DataSet(
        "ms-swift agent data",
        "`messages` with lists of calls in `tool_call`",
        "chat_tools",
        CASE,
        [{"tools": _TOOLS, "messages": [
            _said("user", "How are beds 2 and 3?"),
            _said("tool_call", json.dumps([{"name": "look", "arguments": {"bed": bed}} for bed in (2, 3)])),
            _said("tool_response", "dry"),
            _said("tool_response", "wet"),
            _said("assistant", "One is dry.")]}],
        2, 2,
    ),
    DataSet(
        "LLaMA-Factory tool data (glaive_toolcall)",
        "`conversations` with lists of calls in `function_call`",
        "chat_tools",
        CASE,
        [{"system": "", "tools": _TOOLS, "conversations": [
            _from("human", "How are beds 2 and 3?"),
            _from("function_call", json.dumps([{"name": "look", "arguments": {"bed": bed}} for bed in (2, 3)])),
            _from("observation", '["dry", "wet"]'),
            _from("gpt", "One is dry.")]}],
        2, 2,
    ),
    DataSet("TRL tool data", "`messages`, each as JSON (`Json()` of `datasets`)", "chat_tools", CASE,
            [{"messages": [json.dumps(one) for one in _CALLED], "tools": [json.dumps({"name": "look"})]}], 1, 1),
    DataSet(
        "verifiers results and rollouts",
        "`prompt` and `completion`, whose calls are JSON text",
        "chat_tools",
        CASE,
        [{"example_id": 0, "prompt": _CALLED[:1], "answer": "dry", "reward": 1.0, "task": "beds", "completion": [
            _said("assistant", "", tool_calls=[json.dumps(_call("look", bed=2))]), *_CALLED[2:]]}],
        1, 1,
    ),
    DataSet(
        "NeMo Gym rollouts",
        "`responses_create_params` and `response` of the Responses API",
        "chat_tools",
        COLUMNS,
        [{"responses_create_params": {"input": _CALLED[:1], "tools": []}, "reward": 1.0, "response": {
            "object": "response", "output": [
                {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"bed": 2}'},
                {"type": "function_call_output", "call_id": "c1", "output": "dry"}]}}],
        1, 1,
    ),
    DataSet(
        "verl rollout dumps",
        "`input` and `output` as text without control tokens",
        "chat_tools",
        CASE,
        [{"input": "system\nYou tend beds.\nuser\nHow is bed 2?\nassistant\n", "gts": "dry", "score": 1.0, "step": 10,
          "output": '<tool_call>\n{"name": "look", "arguments": {"bed": 2}}\n</tool_call>\nuser\n'
                    "<tool_response>\ndry\n</tool_response>\nassistant\nIt is dry."}],
        1, 1,
    ),
    DataSet(
        "SkyRL rollout dumps",
        "`input` and `output` as ChatML",
        "chat_tools",
        CASE,
        [{"input": "<|im_start|>user\nHow is bed 2?<|im_end|>\n<|im_start|>assistant\n", "score": 1.0, "step": 1,
          "output": '<tool_call>\n{"name": "look", "arguments": {"bed": 2}}\n</tool_call><|im_end|>\n'
                    "<|im_start|>tool\ndry<|im_end|>\n"}],
        1, 1,
    ),
    DataSet(
        "smolagents, code agents",
        "`messages` with code, roles `tool-response`",
        "chat_tools",
        CASE,
        [{"messages": [
            _said("system", "You are an expert assistant who can solve any task using code blobs."),
            _said("user", "What is 2 + 3?"),
            _said("assistant", "Thought: count\nCode:\n```py\nprint(2 + 3)\n```<end_code>"),
            _said("tool-response", "Observation:\nExecution logs:\n5"),
            _said("assistant", "Thought: done\nCode:\n```py\nfinal_answer(5)\n```<end_code>")]}],
        2, 1,
    ),
    DataSet(
        "smolagents, agents that call tools",
        "`messages` of blocks, roles `tool-call` and `tool-response`",
        "chat_tools",
        CASE,
        [{"messages": [
            _said("user", [{"type": "text", "text": "How is bed 2?"}]),
            _said("tool-call", [{"type": "text", "text": "Calling tools:\n[{'id': 'c1', 'type': 'function', "
                                                         "'function': {'name': 'look', 'arguments': {'bed': 2}}}]"}]),
            _said("tool-response", [{"type": "text", "text": "Observation:\ndry"}])]}],
        1, 1,
    ),
    DataSet("cfahlgren1/hermes-agent-traces", "`messages` with calls, a session a row", "chat_tools", CASE,
            [{"id": "20260305_a1", "source": "cli", "model": "parrot-7b", "started_at": 1, "messages": _CALLED}], 1, 1),
    DataSet(
        "Alibaba-NLP/WebDancer",
        "`messages` of type `chatml` with `<tool_call>`",
        "webdancer",
        REAL,
        [{"type": "chatml", "answer": "310 m", "tag": "x", "functions": [], "messages": [
            _said("user", "You search.\n\nUser: How deep is Lake Mirr?"),
            _said("assistant", '<tool_call>\n{"name": "search", "arguments": {"query": ["Lake Mirr"]}}\n</tool_call>'),
            _said("user", "<tool_response>\n310 m.\n</tool_response>"),
            _said("assistant", "<answer>310 m</answer>")]}],
        2, 1,
    ),
    DataSet(
        "outputs of Tongyi DeepResearch",
        "`question` and `messages` with `<tool_call>`",
        "webdancer",
        COLUMNS,
        [{"question": "How deep is Lake Mirr?", "answer": "310 m", "prediction": "310 m", "termination": "answer",
          "messages": [
              _said("user", "How deep is Lake Mirr?"),
              _said("assistant", '<tool_call>\n{"name": "visit", "arguments": {"url": ["a"]}}\n</tool_call>'),
              _said("user", "<tool_response>\n310 m.\n</tool_response>"),
              _said("assistant", "<answer>310 m</answer>")]}],
        2, 1,
    ),
    DataSet(
        "OpenResearcher/OpenResearcher-Dataset",
        "`messages` of harmony with channels and recipients",
        "chat_tools",
        CASE,
        [{"qid": 1, "question": "Who wrote Tea?", "answer": "Ann", "messages": [
            _harmony("user", "Who wrote Tea?"),
            _harmony("assistant", "I search.", channel="analysis"),
            _harmony("assistant", '{"query": "Tea"}', channel="commentary", recipient="browser.search"),
            _harmony("tool", "[0] Tea, by Ann", channel="commentary", recipient="assistant", name="browser.search"),
            _harmony("assistant", "Ann.", channel="final")]}],
        1, 1,
    ),
    DataSet(
        "miromind-ai/MiroVerse-v0.1",
        "`messages` with `<use_mcp_tool>`",
        "chat_tools",
        CASE,
        [{"id": "m0", "messages": [
            _said("system", "In this environment you have access to a set of tools."),
            _said("user", "Who wrote Tea?"),
            _said("assistant", "<use_mcp_tool>\n<server_name>tool-google-search</server_name>\n<tool_name>google_search"
                               '</tool_name>\n<arguments>\n{"q": "Tea"}\n</arguments>\n</use_mcp_tool>'),
            _said("user", '{"organic": ["Tea, by Ann"]}'),
            _said("assistant", "Ann.")]}],
        1, 1,
    ),
    DataSet(
        "neulab/agent-data-collection",
        "`content` of actions and observations (ADP)",
        "adp",
        COLUMNS,
        [{"id": "n1", "schema_version": "1.2.0", "details": {"note": "x"}, "content": [
            {"class_": "text_observation", "content": "Count.", "source": "user"},
            {"class_": "code_action", "content": "wc -l a", "language": "bash", "tool_call_id": "c1"},
            {"class_": "text_observation", "content": "3 a", "source": "system", "tool_call_id": "c1"}]}],
        1, 1,
    ),
    DataSet(
        "ADP's exports in ATIF",
        "`steps` of an ATIF document, as JSON text",
        "adp",
        COLUMNS,
        [{"schema_version": "ATIF-v1.4", "session_id": "s", "agent": json.dumps({"name": "lamp", "version": "1"}),
          "steps": json.dumps([
              {"step_id": 1, "source": "user", "message": "Which files are there?"},
              {"step_id": 2, "source": "agent", "message": "", "tool_calls": [
                  {"tool_call_id": "w1", "function_name": "bash", "arguments": {"command": "ls"}}],
               "observation": {"results": [{"source_call_id": "w1", "content": "notes.txt"}]}}])}],
        1, 1,
    ),
    DataSet(
        "xlangai/AgentNet",
        "`traj` of code; pictures by name",
        "agentnet",
        COLUMNS,
        [{"task_id": "t1", "instruction": "Send the letter", "task_completed": True, "alignment_score": 7, "traj": [
            {"index": number, "image": f"a{number}.png", "value": {
                "code": f"pyautogui.click(x=0.{number + 1}, y=0.5)", "thought": "There."}} for number in (0, 1)]}],
        2, 1,
    ),
    DataSet(
        "AndroidControl (UI-S1, Mobile-Agent)",
        "`steps` of actions; screens are not in the data",
        "android_control_jsonl",
        REAL,
        [{"goal": "Open the clock", "is_successful": True, "steps": [
            {"action_content": {"action": "click", "coordinate": [540.0, 389.8]}, "screenshot": "/i/0.png"}]}],
        1, 0,
    ),
    DataSet(
        "osunlp/Mind2Web",
        "a task with the page before each action",
        "mind2web",
        REAL,
        [{"annotation_id": "b-1", "website": "shop", "domain": "d", "subdomain": "s", "confirmed_task": "Open",
          "action_reprs": ["[button]  Open -> CLICK"], "actions": [
              {"action_uid": "v0", "operation": {"op": "CLICK", "original_op": "CLICK", "value": ""},
               "cleaned_html": '<html><button backend_node_id="3" aria_label="Open"/></html>',
               "pos_candidates": [{"tag": "button", "backend_node_id": "3", "is_original_target": True}]}]}],
        1, 0,
    ),
    DataSet(
        "osunlp/Multimodal-Mind2Web",
        "an action with its page and its task",
        "mind2web",
        COLUMNS,
        [_act("v0", "CLICK", '<html><button backend_node_id="3" aria_label="Open"/></html>', 0),
         _act("v1", "CLICK", '<html><button backend_node_id="3" aria_label="Shut"/></html>', 1)],
        2, 1,
    ),
    DataSet(
        "McGill-NLP/WebLINX",
        "a step with the page as text",
        "step_rows",
        COLUMNS,
        [{"demo": "d1", "turn": 3, "action": 'click(uid="b7")', "action_history": "No previous action",
          "utterances": "[00:05] Open the cart", "candidates": "(uid = b7)", "viewport": "746h x 1536w",
          "clean_html": '(html(body(button data-webtasks-id="b7" Cart)))'},
         {"demo": "d1", "turn": 6, "action": 'say(speaker="navigator", utterance="Open")', "utterances": "[00:05] Open",
          "action_history": '</s><s>[INST] click(uid="b7")</s><s>[INST] say(speaker="instructor", utterance="And?")',
          "candidates": "", "viewport": "746h x 1536w", "clean_html": "(html(body(h1 Cart)))"}],
        1, 1,
    ),
    DataSet(
        "OS-Copilot/OS-Genesis-mobile-data",
        "a prompt with the accessibility tree, and the step",
        "step_rows",
        COLUMNS,
        [_step(1, "Clock", 'Low-level thought: It is there.\naction: {"action_type": "open_app", "app_name": "Clock"}'),
         _step(2, "12:04", 'Low-level thought: Done.\naction: {"action_type": "status", "goal_status": "successful"}')],
        2, 1,
    ),
    DataSet(
        "OpenGVLab/GUI-Odyssey",
        "`steps` of actions; screens are pictures",
        "refused",
        COLUMNS,
        [{"episode_id": "1", "device_info": {"product": "p", "w": 1080, "h": 2400}, "task_info": {"task": "Open"},
          "step_length": 1, "steps": [{"step": 0, "screenshot": "1_0.png", "action": "CLICK", "info": "[[1, 2]]"}]}],
        reason="no_observation",
    ),
    DataSet(
        "Salesforce/xlam-function-calling-60k",
        "`answers`: calls, and nothing of what they gave",
        "chat_tools",
        COLUMNS,
        [{"id": 1, "query": "How is bed 2?", "answers": json.dumps([{"name": "look", "arguments": {"bed": 2}}]),
          "tools": _TOOLS}],
        reason="action_only",
    ),
    DataSet(
        "Qwen/AgentWorldBench",
        "all turns of a trajectory; held out",
        "agentworldbench",
        COLUMNS,
        [{"task": "terminal", "id": 1, "prompt": ["### Turn 1\n**Action:**\nls"], "response": ["notes.txt"],
          "current_prompt": "### Turn 1\n**Action:**\nls", "system_str": "s", "turn_idx": 1, "total_turns": 1}],
        reason="benchmark",
    ),
]  # fmt: skip
