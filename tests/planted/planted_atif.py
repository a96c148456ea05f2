"""The known steps as ATIF documents, as agents that made them would write them (Harbor RFC 0001, version 1.6).

Nothing is recorded here: the documents are written from the truth after the format. An agent reads a terminal's screen
(as Terminus-2 does), or a command's output and exit code as the result of a tool.
"""

import json
from typing import Any, Final

from samples.makers import shell_truth

TASK: Final = "Do as planned."
PROMPT: Final = "You are an agent at a terminal. Answer with keystrokes.\n\nTask Description:\n"
"""How the first prompt of Terminus-2 begins, in short."""


def _document(agent: str, steps: list[dict[str, Any]]) -> bytes:
    document = {
        "schema_version": "ATIF-v1.6",
        "session_id": f"planted-{agent}",
        "agent": {"name": agent, "version": "1", "model_name": "scripted"},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
    }
    return json.dumps(document, ensure_ascii=False, indent=1).encode()


def _agent(calls: list[dict[str, Any]], results: list[dict[str, Any]]) -> dict[str, Any]:
    return {"source": "agent", "message": "", "tool_calls": calls, "observation": {"results": results}}


def shell_by_terminal() -> bytes:
    """The shell's steps by an agent that types and looks at the screen."""
    screens = shell_truth.screens()
    steps = [
        {
            "source": "user",
            "message": f"{PROMPT}{TASK}\n\nCurrent terminal state:\nCurrent Terminal Screen:\n{screens[0]}",
        }
    ]
    for number, (step, screen) in enumerate(zip(shell_truth.STEPS, screens[1:], strict=True)):
        arguments = {"keystrokes": step.typed.replace("\r", "\n"), "duration": max(0.1, step.seconds)}
        call = {"tool_call_id": f"call_{number}_1", "function_name": "bash_command", "arguments": arguments}
        steps.append(_agent([call], [{"content": f"Current Terminal Screen:\n{screen}"}]))
    return _document("terminus-2", steps)


def shell_by_tool() -> bytes:
    """The shell's steps by an agent whose tool runs a line and returns its output; leaving the shell is none."""
    steps: list[dict[str, Any]] = [{"source": "user", "message": TASK}]
    for number, step in enumerate(shell_truth.STEPS[:-1]):
        key = f"t{number}"
        call = {"tool_call_id": key, "function_name": "bash", "arguments": {"command": step.line}}
        result = {"source_call_id": key, "content": step.output, "extra": {"exit_code": step.exit_code}}
        steps.append(_agent([call], [result]))
    return _document("runner", steps)
