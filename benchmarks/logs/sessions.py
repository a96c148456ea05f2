"""Made sessions of agents whose texts are as long as those of real logs: what `session_logs` writes in many formats.

The sizes are those of public logs, as `SIZES` holds them by domain: quantiles of what the environment showed, of the
arguments of a call as JSON text, and of what an agent says with one. Terminal is of Codex rollouts and Claude Code
sessions, swe of SWE-agent and mini-swe-agent trajectories, mcp of tau-bench, tau2-bench, ToolBench and recordings of
servers, search of ReAct logs, WebDancer and Search-R1. A size is drawn between two quantiles by the logarithm, and
never beyond the outermost ones.

The content means nothing: lines of code, listings and prose with quotes and tabs, and for mcp objects as JSON text in
three answers of four, as in tau-bench. No text is like another. Sessions are seeded by their number and domain alone.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log
from typing import Any, Final

from samples.writing.chance import seeded

_PLACES: Final = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)

SIZES: Final[dict[str, dict[str, tuple[int, ...]]]] = {
    "terminal": {
        "shown": (72, 119, 962, 3037, 5831, 6901, 9500),
        "arguments": (113, 129, 169, 211, 889, 1376, 6124),
        "said": (30, 34, 39, 47, 423, 514, 747),
    },
    "swe": {
        "shown": (30, 60, 250, 900, 3400, 5000, 9500),
        "arguments": (30, 45, 55, 85, 250, 560, 1300),
        "said": (46, 69, 166, 375, 650, 1299, 5789),
    },
    "mcp": {
        "shown": (7, 79, 645, 781, 986, 1260, 5882),
        "arguments": (28, 29, 64, 300, 624, 917, 1360),
        "said": (89, 113, 179, 324, 733, 847, 1072),
    },
    "search": {
        "shown": (97, 239, 375, 956, 2297, 3569, 8762),
        "arguments": (22, 25, 31, 41, 62, 128, 460),
        "said": (64, 82, 108, 140, 187, 385, 2331),
    },
}
"""Characters at the shares `_PLACES` of all, by domain and part of a step, measured on 900 kB to 6 MB of logs each."""

TURNS: Final = (6, 40)
"""The least and the most steps of a session."""

_TEXT: Final = (
    "value return import module request error path string number index result parse field schema config branch commit "
    "order flight ticket account balance review search page title author water lamp harbour greenhouse valley window"
)
_WORDS: Final = _TEXT.split()
_TOOLS: Final = ("read_file", "run_command", "search", "update_record", "get_details", "list_items")


@dataclass(frozen=True, slots=True)
class Act:
    """One call of an agent with what it said before, and what the environment showed."""

    number: int
    said: str
    tool: str
    arguments: dict[str, Any]
    shown: str

    @property
    def call_id(self) -> str:
        return f"call_{self.number:024x}"


@dataclass(frozen=True, slots=True)
class Session:
    """A task, the system prompt, and the acts in their order; `domain` says how long texts are."""

    domain: str
    number: int
    system: str
    task: str
    acts: tuple[Act, ...]


def draw_size(sizes: tuple[int, ...], share: float) -> int:
    """The size below which that share of all lie: between two known quantiles by the logarithm, never beyond them."""
    if share <= _PLACES[0]:
        return sizes[0]
    for index in range(1, len(_PLACES)):
        if share <= _PLACES[index]:
            low, high = log(sizes[index - 1]), log(sizes[index])
            part = (share - _PLACES[index - 1]) / (_PLACES[index] - _PLACES[index - 1])
            return round(exp(low + part * (high - low)))
    return sizes[-1]


def prose(chance: random.Random, size: int) -> str:
    """A text of `size` characters in lines: code, listings, words."""
    lines: list[str] = []
    left = size
    while left > 0:
        words = [chance.choice(_WORDS) for _ in range(chance.randrange(4, 12))]
        kind = chance.random()
        if kind < 0.3:
            line = f"src/{words[0]}/{words[1]}_{chance.randrange(10_000)}.py:{chance.randrange(999)}: {' '.join(words)}"
        elif kind < 0.6:
            line = f'    {words[0]}_{words[1]} = {words[2]}["{words[3]}"] + {chance.randrange(10**6)}'
        elif kind < 0.65:
            line = "\t" + " ".join(words)
        else:
            line = f"{chance.randrange(10**5)} " + " ".join(words)
        lines.append(line)
        left -= len(line) + 1
    return "\n".join(lines)[:size]


def record(chance: random.Random, size: int) -> str:
    """JSON text of about `size` characters, an object of short values and lists."""
    values: dict[str, Any] = {}
    left = size
    while left > 0:
        key = f"{chance.choice(_WORDS)}_{len(values)}"
        kind = chance.random()
        if kind < 0.5:
            values[key] = " ".join(chance.choice(_WORDS) for _ in range(chance.randrange(1, 5)))
        elif kind < 0.75:
            values[key] = chance.randrange(10**6) if kind < 0.65 else round(chance.random() * 1000, 2)
        else:
            values[key] = [{"id": f"{chance.randrange(10**8)}", "kind": chance.choice(_WORDS)} for _ in range(2)]
        left -= len(key) + 8 + len(str(values[key]))
    return json.dumps(values)


def session(domain: str, number: int) -> Session:
    """The session of that number."""
    chance = seeded(domain, number)
    sizes = SIZES[domain]

    def size(part: str) -> int:
        return draw_size(sizes[part], chance.random())

    acts = []
    for step in range(chance.randrange(*TURNS)):
        shown = size("shown")
        is_record = domain == "mcp" and shown > 40 and chance.random() < 0.75
        acts.append(
            Act(
                number * 1000 + step,
                prose(chance, size("said")).replace("\n", " "),
                chance.choice(_TOOLS),
                _arguments(chance, domain, size("arguments")),
                record(chance, shown) if is_record else prose(chance, shown),
            )
        )
    return Session(domain, number, prose(chance, 3000), prose(chance, 700), tuple(acts))


def _arguments(chance: random.Random, domain: str, size: int) -> dict[str, Any]:
    """Arguments whose JSON text has about `size` characters: a command, or some fields."""
    if domain in ("terminal", "swe"):
        return {"command": prose(chance, max(4, size - 16))}
    values: dict[str, Any] = {"id": f"{chance.randrange(10**6)}"}
    while (left := size - len(json.dumps(values))) > 16:
        values[f"{chance.choice(_WORDS)}_{len(values)}"] = prose(chance, min(left - 16, 80)).replace("\n", " ")
    return values


def sessions(domain: str) -> Iterator[Session]:
    """The sessions of a domain, one after the other for ever."""
    number = 0
    while True:
        yield session(domain, number)
        number += 1


def tools() -> list[dict[str, Any]]:
    """Definitions of tools as a server of the Model Context Protocol lists them, about 700 characters each."""
    chance = seeded("tools")
    return [
        {
            "name": name,
            "description": prose(chance, 400),
            "inputSchema": {
                "type": "object",
                "properties": {word: {"type": "string", "description": prose(chance, 60)} for word in _WORDS[:4]},
                "required": list(_WORDS[:2]),
            },
        }
        for name in _TOOLS
    ]
