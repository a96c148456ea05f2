"""What was done in a box, as mini-swe-agent (1 and 2) and SWE-agent (1.1, with and without function calls) write it.

The prompts are our own and short. Written are the keys that say something of a run; `extra.response` holds no reply of
a model, since there was none, and the `query` of each step, with which SWE-agent repeats the history, is left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from samples.makers.swe_box import FOLDER
from samples.makers.swe_script import TEXT_AGENTS, Move, Run, Task
from samples.writing.json_text import document
from samples.writing.messages import function_call, opening

LIMIT: Final = 3000
"""Characters up to which mini-swe-agent shows an output; of a longer one it shows half of that from either end."""

ONE_ACTION: Final = "Please always provide EXACTLY ONE action in triple backticks, found {count} actions."
SUBMIT: Final = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git add -A && git diff --cached"
MINI_SYSTEM: Final = """You work on a repository with a shell.
Answer with a line that begins with THOUGHT and exactly one block of bash:

```bash
your command
```

Every command runs in a shell of its own, in the folder of the repository."""
CALLS_SYSTEM: Final = "You work on a repository with the tool bash. Every command runs in a shell of its own."
SWE_SYSTEM: Final = """You work on a repository with a shell, which keeps its folder, and with the commands
str_replace_editor (view, create, str_replace, insert) and submit, which hands in what was changed."""
SWE_TEXT_SYSTEM: Final = """You work on a repository with a shell, which keeps its folder. Say what you mean to do, then
give one command between lines of three backticks. The command submit hands in what was changed."""


@dataclass(slots=True)
class Done:
    """What was really done in a run.

    Attributes:
        moves: of the agent, each with what came of its calls: (began, box's answer).
        patch: what was handed in; None where nothing was.
        commit: what the run began with.
    """

    commit: str
    moves: list[tuple[Move, float, list[dict[str, Any]]]] = field(default_factory=list)
    patch: str | None = None
    submitted_at: float = 0.0
    took_s: float = 0.0


def written(run: Run, task: Task, done: Done) -> bytes:
    """The trajectory file of a run, in the form of its agent."""
    form = {"mini-text": _mini_text, "mini-calls": _mini_calls}.get(run.agent)
    told = form(task, done) if form is not None else _sweagent(run, task, done)
    return document(told, escaped=False) + b"\n"


def _mini_info(done: Done, version: str) -> dict[str, Any]:
    return {
        "exit_status": "Submitted" if done.patch is not None else "LimitsExceeded",
        "submission": done.patch or "",
        "model_stats": {"instance_cost": 0.0, "api_calls": len(done.moves) + (done.patch is not None)},
        "mini_version": version,
        "config": {"model": {"model_name": "scripted"}, "environment": {"cwd": FOLDER}},
    }


def _mini_prompt(task: Task) -> str:
    return (
        f"<pr_description>\n{task.issue}\n</pr_description>\n\nThe repository is in {FOLDER}. Change what has to be "
        f"changed. When it is done, hand it in with:\n\n    {SUBMIT}\n"
    )


def shown_output(told: dict[str, Any]) -> str:
    """What mini-swe-agent shows of what a command came to."""
    output = told["output"]
    if len(output) < LIMIT:
        return f"<returncode>{told['code']}</returncode>\n<output>\n{output}</output>"
    half = LIMIT // 2
    return (
        f"<returncode>{told['code']}</returncode>\n<warning>\nThe output was too long; ask for less.\n</warning>\n"
        f"<output_head>\n{output[:half]}\n</output_head>\n<elided_chars>\n{len(output) - 2 * half} characters elided\n"
        f"</elided_chars>\n<output_tail>\n{output[-half:]}\n</output_tail>"
    )


def stopped_output(command: str, output: str) -> str:
    return (
        f"The last command <command>{command}</command> timed out and has been killed.\n"
        f"The output of the command was:\n<output>\n{output}\n</output>"
    )


def _mini_text(task: Task, done: Done) -> dict[str, Any]:
    messages = opening(MINI_SYSTEM, _mini_prompt(task))
    for move, began, told in done.moves:
        extra = {"response": {"model": "scripted", "created": int(began)}}
        if not move.calls:
            messages.append({"role": "assistant", "content": move.said, "extra": extra})
            count = move.said.count("```bash")
            messages.append({"role": "user", "content": ONE_ACTION.format(count=count)})
            continue
        (call,), (answer,) = move.calls, told
        text = f"THOUGHT: {move.said}\n\n```bash\n{call.line}\n```"
        messages.append({"role": "assistant", "content": text, "extra": extra})
        stopped = answer["code"] is None
        shown = stopped_output(call.line, answer["output"]) if stopped else shown_output(answer)
        messages.append({"role": "user", "content": shown})
    if done.patch is not None:
        text = f"THOUGHT: It is done.\n\n```bash\n{SUBMIT}\n```"
        extra = {"response": {"model": "scripted", "created": int(done.submitted_at)}}
        messages += [{"role": "assistant", "content": text, "extra": extra}, {"role": "user", "content": done.patch}]
    info = _mini_info(done, "1.17.0")
    return {
        "info": info,
        "messages": messages,
        "trajectory_format": "mini-swe-agent-1",
        "instance_id": task.instance,
    }


def _bash_call(key: str, command: str) -> dict[str, Any]:
    return function_call(key, "bash", json.dumps({"command": command}, ensure_ascii=False))


def _mini_calls(task: Task, done: Done) -> dict[str, Any]:
    messages = opening(CALLS_SYSTEM, _mini_prompt(task))
    for number, (move, began, told) in enumerate(done.moves):
        keys = [f"call_{number}_{place}" for place in range(len(move.calls))]
        calls = [_bash_call(key, call.line) for key, call in zip(keys, move.calls, strict=True)]
        actions = [{"command": call.line, "tool_call_id": key} for key, call in zip(keys, move.calls, strict=True)]
        extra: dict[str, Any] = {"actions": actions, "timestamp": began}
        messages.append({"role": "assistant", "content": move.said, "tool_calls": calls, "extra": extra})
        at = began
        for key, call, answer in zip(keys, move.calls, told, strict=True):
            at += answer["took_s"]
            stopped = answer["code"] is None
            extra = {"raw_output": answer["output"], "returncode": -1 if stopped else answer["code"], "timestamp": at}
            if stopped:
                extra["exception_info"] = "An error occurred while executing the command: timed out"
            shown = stopped_output(call.line, answer["output"]) if stopped else shown_output(answer)
            messages.append({"role": "tool", "tool_call_id": key, "content": shown, "extra": extra})
    if done.patch is not None:
        submits = _bash_call("call_submit", SUBMIT)
        extra = {"actions": [{"command": SUBMIT, "tool_call_id": "call_submit"}], "timestamp": done.submitted_at}
        messages.append({"role": "assistant", "content": "It is done.", "tool_calls": [submits], "extra": extra})
        extra = {
            "exit_status": "Submitted",
            "submission": done.patch,
            "timestamp": done.submitted_at + done.took_s,
        }
        messages.append({"role": "exit", "content": done.patch, "extra": extra})
    info = _mini_info(done, "2.1.0")
    return {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1", "instance_id": task.instance}


class _Traj:
    """Collects steps and history of a run of SWE-agent."""

    def __init__(self, run: Run, task: Task) -> None:
        self.steps: list[dict[str, Any]] = []
        self._as_text = run.agent in TEXT_AGENTS
        system = SWE_TEXT_SYSTEM if self._as_text else SWE_SYSTEM
        prompt = f"The repository is in {FOLDER}. Solve this issue, then submit.\n\n<issue>\n{task.issue}\n</issue>"
        self.history: list[dict[str, Any]] = [
            {"role": "system", "content": system, "agent": "main", "message_type": "system_prompt"},
            {"role": "user", "content": prompt, "agent": "main", "message_type": "observation"},
        ]

    def add(self, said: str, line: str, call: dict[str, Any], answer: dict[str, Any]) -> None:
        """Adds a step and its two messages."""
        response = f"{said}\n\n```\n{line}\n```" if self._as_text else said
        key = f"call_{len(self.steps)}"
        self.steps.append(
            {
                "action": line,
                "observation": answer["output"],
                "response": response,
                "thought": said,
                "execution_time": answer["took_s"],
                "state": {"working_dir": answer["folder"]},
                "extra_info": {},
            }
        )
        acted: dict[str, Any] = {"role": "assistant", "content": response, "thought": said, "action": line}
        seen: dict[str, Any] = {"role": "user", "content": f"OBSERVATION:\n{answer['output']}"}
        if not self._as_text:
            acted["tool_calls"] = [{"function": call, "id": key, "type": "function"}]
            seen |= {"role": "tool", "tool_call_ids": [key]}
        self.history += [
            {**acted, "agent": "main", "message_type": "action"},
            {**seen, "agent": "main", "message_type": "observation"},
        ]


def _sweagent(run: Run, task: Task, done: Done) -> dict[str, Any]:
    made = _Traj(run, task)
    for move, _, told in done.moves:
        (call,), (answer,) = move.calls, told
        function = {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
        made.add(move.said, call.line, function, answer)
    status = "submitted"
    if done.patch is not None:
        handed = {"output": done.patch, "took_s": done.took_s, "folder": FOLDER}
        made.add("It is done.", "submit", {"name": "submit", "arguments": "{}"}, handed)
    elif run.ends == "limit":
        status = "exit_cost"
        told_off = "Exit due to cost limit"
        made.steps.append(
            {
                "action": "",
                "observation": "",
                "response": told_off,
                "thought": told_off,
                "execution_time": 0.0,
                "state": {"working_dir": FOLDER},
                "extra_info": {},
            }
        )
    config = {
        "agent": {"model": {"name": "scripted"}},
        "env": {"repo": {"repo_name": "testbed", "base_commit": done.commit, "type": "preexisting"}},
        "problem_statement": {"type": "text", "text": task.issue, "id": task.instance},
    }
    info = {
        "swe_agent_version": "1.1.0",
        "exit_status": status,
        "submission": done.patch,
        "model_stats": {"instance_cost": 0, "api_calls": len(done.moves) + (done.patch is not None)},
    }
    return {
        "trajectory": made.steps,
        "history": made.history,
        "info": info,
        "replay_config": json.dumps(config, ensure_ascii=False),
        "environment": "main",
    }
