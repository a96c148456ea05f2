"""Trajectories that are recorded here: real commands in a real bash, and queries of a real database, written as ATIF.

They are run on this machine and not in a box, so that a box has something to be held against.
"""

import json
import os
import sqlite3
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

SHELL: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "1",
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_PAGER": "cat", "GIT_AUTHOR_NAME": "Dev",
    "GIT_AUTHOR_EMAIL": "dev@example.org", "GIT_COMMITTER_NAME": "Dev", "GIT_COMMITTER_EMAIL": "dev@example.org",
    "GIT_AUTHOR_DATE": "2026-01-05T09:00:00Z", "GIT_COMMITTER_DATE": "2026-01-05T09:00:00Z",
}  # fmt: skip
MARK: Final = "--- that was"


def in_bash(folder: Path, commands: Sequence[str]) -> list[str]:
    """What each command puts out in one bash, that begins in the folder."""
    script = "".join(f"{{ {command}\n}} 2>&1 < /dev/null\nprintf '\\n{MARK}\\n'\n" for command in commands)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc"],
        cwd=folder,
        input=script,
        env={**SHELL, "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split(f"\n{MARK}\n")[: len(commands)]


def of_database(path: Path, calls: Sequence[tuple[str, dict[str, str]]]) -> list[str]:
    """What the SQLite server of MCP answers, as its tests say it does."""
    answers = []
    for tool, arguments in calls:
        with sqlite3.connect(path) as connection:
            query = arguments.get("query", "SELECT name FROM sqlite_master WHERE type='table'")
            query = f"PRAGMA table_info({arguments['table_name']})" if tool == "describe_table" else query
            try:
                cursor = connection.execute(query)
            except sqlite3.Error as error:
                answers.append(f"Database error: {error}")
                continue
            names = [column[0] for column in cursor.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        if tool == "write_query":
            answers.append(f"[{{'affected_rows': {cursor.rowcount}}}]")
        else:
            answers.append("Table created successfully" if tool == "create_table" else str(rows))
        connection.close()
    return answers


def document(
    name: str, domain: str, environment: Mapping[str, str], steps: Sequence[tuple[str, Mapping[str, Any], str]]
) -> bytes:
    """A trajectory as ATIF: (tool, arguments, answer) of each step."""
    entries: list[dict[str, Any]] = [{"source": "user", "message": f"Do what {name} asks."}]
    for number, (tool, arguments, answer) in enumerate(steps):
        key = f"c{number}"
        call = {"tool_call_id": key, "function_name": tool, "arguments": dict(arguments)}
        result = {"source_call_id": key, "content": answer}
        entries.append({"source": "agent", "message": "", "tool_calls": [call], "observation": {"results": [result]}})
    own = {"domain": domain, "environment": {**environment, "kind": "real"}, "task": {"id": f"task-{name}"}}
    value = {
        "schema_version": "ATIF-v1.7",
        "session_id": name,
        "agent": {"name": "recorded", "version": "1"},
        "steps": [{"step_id": number, **step} for number, step in enumerate(entries, 1)],
        "extra": {"trajmill": own},
    }
    return json.dumps(value, indent=1).encode()


def repository(folder: Path, files: Mapping[str, str]) -> str:
    """Makes a git repository of one commit, and returns the commit's id."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    output = in_bash(folder, ["git init -q -b main && git add -A && git commit -q -m Begin && git rev-parse HEAD"])
    return output[0].strip()
