"""Rollouts of pull requests as rows of one JSON Lines file, in the shape of the largest public corpus of them.

SWE-ZERO-12M has 12,290,800 rollouts of 122,908 pull requests, 100 each, in the text form of mini-swe-agent: up to 15
commands, and 112 billion tokens by its card, so 9,100 tokens or 36 kB a rollout. Here the rollouts of a task begin
alike, for none to all of `SHARED` commands, and go on by themselves; a share are exact copies of the one before. The
same seed gives the same rows, and a larger share of the corpus begins with the smaller one. The content means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

from benchmarks.logs.text import Text, code, prose

TASKS: Final = 122_908
EACH: Final = 100
"""Rollouts of a task."""

STEPS: Final = (4, 15)
"""Fewest and most commands of a rollout."""

SHARED: Final = 4
"""Most commands with which rollouts of a task begin alike."""

COPIED: Final = 0.03
"""Share of exact copies: of 1,000 rollouts that the makers of SWE-ZERO compared, 28 were like another."""

SUBMITTED: Final = 0.27
"""Share of rollouts that submit a patch."""

_SYSTEM: Final = (
    "You are a helpful assistant that works on a computer to solve software engineering tasks.\n\n"
    "Write a THOUGHT, then exactly one bash block with one command. Programs of the repository cannot be run here."
)
_RULES: Final = "\n".join(f"{number}. Read the files before you edit them, and edit no test." for number in range(30))

Turn = tuple[str, str]
"""Words of the agent with a command, and the output of the shell."""


def _turn(text: Text) -> Turn:
    command = f"{text.name()} --{text.name()} {text.path()}"
    if text.below(5) == 0:
        command = f"cat <<'EOF' > {text.path()}\n" + "\n".join(code(text) for _ in range(20)) + "\nEOF"
    failed = text.below(20) == 0
    output = f"bash: {text.name()}: command not found" if failed else text.block(100 + text.below(5000))
    said = f"THOUGHT: {' '.join(prose(text) for _ in range(3))}\n\n```bash\n{command}\n```"
    return said, f"<returncode>{127 if failed else 0}</returncode>\n<output>\n{output}\n</output>"


def task_rows(number: int, seed: int) -> Iterator[bytes]:
    """Yield the lines of the rollouts of one task.

    Args:
        number: number of the task.
        seed: the same gives the same lines.
    """
    text = Text(seed, f"pull request/{number}")
    repository = f"{text.name()}/{text.name()}"
    asked = " ".join(prose(text) for _ in range(40))
    opening = [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": f"<pr_description>\n{asked}\n</pr_description>\n\n{_RULES}"},
    ]
    shared = [_turn(text) for _ in range(SHARED)]
    row = b""
    for _ in range(EACH):
        if not row or text.random.random() >= COPIED:
            turns = shared[: text.below(SHARED + 1)]
            count = STEPS[0] + text.below(STEPS[1] - STEPS[0] + 1)
            turns += [_turn(text) for _ in range(count - len(turns))]
            messages = opening + [
                {"role": role, "content": content}
                for turn in turns
                for role, content in zip(("assistant", "user"), turn, strict=True)
            ]
            submits = text.random.random() < SUBMITTED
            if submits:
                block = "```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"
                messages.append({"role": "assistant", "content": f"THOUGHT: It is done.\n\n{block}"})
            row = orjson.dumps(
                {
                    "instance_id": f"{repository.replace('/', '__')}-{number}",
                    "repo": repository,
                    "messages": messages,
                    "trajectory_format": "mini-swe-agent-1",
                    "exit_status": "Submitted" if submits else "incomplete",
                    "duration_sec": text.below(388_000) / 1000,
                },
                option=orjson.OPT_APPEND_NEWLINE,
            )
        yield row


def write_rows(path: Path, share: float, seed: int) -> int:
    """Write that share of the corpus, whole tasks, to a file, and return its number of bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        for number in range(round(TASKS * share)):
            stream.writelines(task_rows(number, seed))
        return stream.tell()
