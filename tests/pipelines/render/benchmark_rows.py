"""Rows of AgentWorldBench's form as turns and back, byte for byte, through the renderer that writes our own.

Rows of a benchmark become no trajectory of a run. A turn's prompt is `### Turn N`, on the first one perhaps the task,
perhaps the state, and the action in one fence; a response is the marker and what was observed. What a row holds beside
turns is kept as it stands.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trajmill.pipelines.render.fixed_texts import MARKER
from trajmill.pipelines.render.turns import Rows, turns

_ACTION: Final = "**Action:**\n"
_STATE: Final = "**Current State:**\n"
_TASK: Final = "**Task Instruction:**\n"
_LIMIT: Final = re.compile(r"\*\*Time Limit:\*\*\n([0-9.e+]+) s\n\Z")
_FENCED: Final = re.compile(r"(`{3,})([a-z]*)\n(.*)\n\1\Z", re.DOTALL)
_SCREENS: Final = frozenset({"android", "os", "terminal", "web"})
_CONTEXT: Final = ("action_space", "initial_state", "demonstrations", "simulation_instruction", "agent_system")


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """A row of the benchmark as turns.

    Attributes:
        rows: transitions as `turns.turns` takes them; of the actions' fences they keep `language`.
        opening: what stands before the state of the first turn; empty if nothing does.
        asking: what the evaluated prompt says below its action.
        rest: the row without its turns: task, id, system_str, turn_idx, total_turns, and whatever else it holds.
    """

    rows: Rows
    opening: str
    asking: str
    rest: Mapping[str, Any]

    @property
    def row(self) -> dict[str, Any]:
        """The row as the renderer writes it."""
        shown = turns(self.rows, opening=self.opening)
        columns = {
            "prompt": [turn.user for turn in shown],
            "response": [turn.assistant for turn in shown],
            "current_prompt": shown[self.rest["turn_idx"] - 1].user + self.asking,
        }
        return {name: columns.get(name, value) for name, value in self.rest.items()}


def benchmark_row(row: Mapping[str, Any]) -> BenchmarkRow:
    """The turns of a row.

    Args:
        row: `task`, `id`, `prompt`, `response`, `current_prompt`, `system_str`, `turn_idx` (from 1), `total_turns`.

    Raises:
        ValueError: the row is not in the benchmark's form, so that the renderer would write another; it says where.
    """
    prompts, responses = row["prompt"], row["response"]
    if len(prompts) != len(responses) or not 0 < row["turn_idx"] <= len(prompts):
        raise ValueError(f"{len(prompts)} prompts, {len(responses)} responses, turn_idx {row['turn_idx']}")
    current = prompts[row["turn_idx"] - 1]
    if not row["current_prompt"].startswith(current):
        raise ValueError(f"current_prompt does not begin as prompt {row['turn_idx']}")
    domain = str(row["task"]).rpartition("/")[2]
    opening, transitions = "", []
    for number, (prompt, response) in enumerate(zip(prompts, responses, strict=True), 1):
        if not response.startswith(MARKER):
            raise ValueError(f"response {number} does not begin with {MARKER!r}")
        head, action = _split(prompt, number)
        if number == 1 and head.startswith(_TASK):
            offset = head.find(_STATE)
            cut = len(head) if offset < 0 else offset
            opening, head = head[:cut], head[cut:]
        transitions.append(_transition(domain, number - 1, head, action, response.removeprefix(MARKER)))
    rest = {name: None if name in ("prompt", "response", "current_prompt") else value for name, value in row.items()}
    result = BenchmarkRow(transitions, opening, row["current_prompt"].removeprefix(current), rest)
    _require_same(result.row, row)
    return result


def _split(prompt: str, number: int) -> tuple[str, re.Match[str]]:
    """What stands between the heading of a turn and its action, and the action's fence, which ends the prompt."""
    heading = f"### Turn {number}\n"
    if not prompt.startswith(heading):
        raise ValueError(f"prompt {number} does not begin with {heading!r}")
    offset = prompt.find(_ACTION, len(heading))
    while offset >= 0:
        fence = _FENCED.match(prompt, offset + len(_ACTION))
        if fence is not None and not re.search(rf"^{fence[1]}", fence[3], re.MULTILINE):
            return prompt[len(heading) : offset], fence
        offset = prompt.find(_ACTION, offset + 1)
    raise ValueError(f"prompt {number} does not end with an action in a fence")


def _transition(domain: str, step: int, head: str, fence: re.Match[str], observed: str) -> dict[str, Any]:
    limit = _LIMIT.search(head)
    before = head[: limit.start()] if limit else head
    state = before.removeprefix(_STATE).removesuffix("\n\n") if before.startswith(_STATE) else None
    call = _call(fence[3]) if fence[2] == "json" else {}
    arguments = call.get("arguments")
    shown = {"origin": "environment", "form": "screen" if domain in _SCREENS else "response", "dialect": None}
    return {
        "trajectory_id": "",
        "ordinal": 1,
        "segment": 0,
        "step": step,
        "turn": step,
        "domain": domain,
        "observation": None if state is None else {"content": state, **shown},
        "action": {
            "name": call.get("name"),
            "arguments": None if arguments is None else json.dumps(arguments, ensure_ascii=False),
            "text": fence[3],
            "language": fence[2],
        },
        "next_observation": {"content": observed, **shown},
        "interleaved": None,
        "context": dict.fromkeys(_CONTEXT),
        "exit_code": None,
        "time_limit_s": float(limit[1]) if limit else None,
        "timed_out": None,
        "scrubbed": 0,
        "use": "target",
    }


def _call(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _require_same(actual: Mapping[str, Any], row: Mapping[str, Any]) -> None:
    for name in ("prompt", "response"):
        for number, (left, right) in enumerate(zip(actual[name], row[name], strict=True), 1):
            if left != right:
                raise ValueError(f"{name} {number} would be written otherwise")
    if actual["current_prompt"] != row["current_prompt"]:
        raise ValueError("current_prompt would be written otherwise")
