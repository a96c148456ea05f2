"""`python -m tests.loops --tokenizer FOLDER [--loop NAME…]`: agents of trainers live in a served world.

Each loop runs in an environment of pinned packages, which is made with `uv` and removed afterwards. Its agent says
three actions, the last of which declares the task done, in each of three scenarios. Ends with 1 unless each session
that the world logged holds these actions, and the observations that the agent was shown.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.environment import environment, run_checked
from tests.conftest import ROOT
from tests.consumers.consumers import QUIET
from tests.synthesis.chat_server import chat_server
from trajmill.pipelines.render.fixed_texts import MARKER
from trajmill.schemas import ConfigError

_TORCH: Final = "torch==2.15.0"
LOOPS: Final[Mapping[str, tuple[str, ...]]] = {
    "gymnasium": ("gymnasium==1.4.0",),
    "verifiers": ("verifiers==0.4.0",),
    "trl": (_TORCH, "trl==1.16.0", "transformers==5.24.0"),
    "verl": (_TORCH, "verl==0.9.1", "cachetools", "fastapi", "uvicorn"),
}
SAID: Final = (
    "<think>\nLook first.\n</think>\n\n<action>ls</action>",
    '<action>{"name": "bash", "arguments": {"command": "cat notes.txt"}}</action>',
    '<action>{"name": "task_complete", "arguments": {}}</action>',
)
NAMES: Final = ["text", "bash", "task_complete"]
"""Of the actions, as the world logs them."""


def echo(body: dict[str, Any]) -> str:
    """Answer with how much a world model was asked, and with the end of it."""
    return f"{MARKER}seen: {len(body['messages'])} {body['messages'][-1]['content'][-40:]}"


@contextmanager
def served_world(folder: Path) -> Iterator[str]:
    """Serve three scenarios by a world model that is an echo, and yield the address."""
    scenarios = folder / "scenarios.jsonl"
    plain = {"domain": "terminal", "observation": "$", "instruction": "Look."}
    scenarios.write_text("".join(json.dumps({"id": f"s{number}", **plain}) + "\n" for number in range(3)))
    words = ["--recipe", "terminal", "--model", "echo@1", "--scenarios", str(scenarios), "--log", f"{folder}/log"]
    with chat_server(echo) as chat:
        command = [sys.executable, "-m", "trajmill", "world", "serve", "--endpoint", chat.url, *words]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip().partition(": ")[2]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def rollouts_by(name: str, tokenizer: str, folder: Path) -> list[dict[str, Any]]:
    """What the rollouts of a loop say of themselves, each `session` and `shown`, with `logged`, what the world says."""
    with environment(LOOPS[name]) as python, served_world(folder) as url:
        written = folder / "rollouts.jsonl"
        script = Path(__file__).parent / "scripts" / f"{name}.py"
        more = {**os.environ, **QUIET, "PYTHONPATH": str(ROOT), "HF_HOME": f"{folder}/cache"}
        run_checked([python, "-P", str(script), url, tokenizer, json.dumps(SAID), str(written)], **more)
    rollouts = [json.loads(line) for line in written.read_text().splitlines()]
    for rollout in rollouts:
        rollout["logged"] = json.loads((folder / "log" / "trajectories" / f"{rollout['session']}.json").read_text())
    return rollouts


def is_as_logged(rollout: Mapping[str, Any]) -> bool:
    """Tell if a world logged what an agent said and was shown, which may lack what ends the session."""
    calls = [(step["tool_calls"][0], step["observation"]["results"][0]) for step in rollout["logged"]["steps"][1:]]
    observations = [result["content"] for _, result in calls]
    shown = rollout["shown"]
    return (
        [call["function_name"] for call, _ in calls] == NAMES
        and len(shown) >= 2
        and observations[: len(shown)] == shown
    )


def main() -> int:
    """Try loops, and print a line of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, help="folder of the tokenizer that agents are given")
    parser.add_argument("--loop", nargs="+", default=[*LOOPS], choices=[*LOOPS], metavar="NAME")
    words = parser.parse_args()
    good = True
    for name in words.loop:
        with tempfile.TemporaryDirectory(prefix="trajmill-loop-") as folder:
            try:
                rollouts = rollouts_by(name, words.tokenizer, Path(folder))
            except ConfigError as error:
                print(f"{name}: {error}")
                good = False
                continue
        same = sum(is_as_logged(rollout) for rollout in rollouts)
        good = good and 0 < same == len(rollouts)
        print(f"{name}: {same} of {len(rollouts)} rollouts are as the world logged them; {' '.join(LOOPS[name])}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
