"""A planted world: tasks of a shell and of tools, each done several times, whose every answer is known beforehand.

    python -m benchmarks.planted_world DIR     # logs in ATIF that a run reads

Files are written and read again, sums are worked out, a file is missing, a tool tells what only this world knows, and
the last command tells what no two rollouts agree on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

TASKS: Final = 40
ROLLOUTS: Final = 3


def session(task: int, rollout: int, rounds: int = 5) -> dict[str, Any]:
    """A rollout of a task as a document of ATIF: six calls a round, and `uptime`."""
    calls: list[tuple[str, dict[str, str], str]] = []
    for number in range(rounds):
        name, line = f"notes{number}.txt", f"entry {task * 31 + number} of shelf {task + 100}"
        missing = f"cat missing{number}.txt"
        inode = f"the inode of {name} on shelf {task + 100} is number {task * 7 + number}\n"
        calls += [
            ("write_file", {"path": name, "content": line}, ""),
            ("read_file", {"path": name}, f"{line}\n"),
            ("bash", {"command": missing}, f"cat: missing{number}.txt: No such file or directory\n"),
            ("calculate", {"expression": f"{task} + {number + 12}"}, f"{task + number + 12}\n"),
            ("calculate", {"expression": f"{task} * {number + 2}"}, f"{task * (number + 2)}\n"),
            ("bash", {"command": f"stat-inode --of {name}"}, inode),
        ]
    seconds = 10_000 + 977 * task + 131 * rollout
    uptime = f"up since {seconds} seconds, process {seconds * 3 % 32768} of this machine\n"
    calls.append(("bash", {"command": "uptime"}, uptime))
    steps: list[dict[str, Any]] = [
        {"step_id": 1, "source": "user", "message": f"Keep the shelf {task + 100} in order."}
    ]
    for number, (tool, arguments, answer) in enumerate(calls, 2):
        call = {"tool_call_id": f"c{number}", "function_name": tool, "arguments": arguments}
        observation = {"results": [{"source_call_id": f"c{number}", "content": answer}]}
        step = {"step_id": number, "source": "agent", "message": "", "tool_calls": [call], "observation": observation}
        steps.append(step)
    agent = {"name": "a", "version": "1"}
    return {"schema_version": "ATIF-v1.4", "session_id": f"{task}-{rollout}", "agent": agent, "steps": steps}


def write(target: Path, tasks: int = TASKS, rounds: int = 5) -> None:
    """Writes the rollouts of so many tasks, a file each."""
    target.mkdir(parents=True, exist_ok=True)
    for task in range(tasks):
        for rollout in range(ROLLOUTS):
            text = json.dumps(session(task, rollout, rounds))
            (target / f"{task:03d}-{rollout}.json").write_text(text, "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
