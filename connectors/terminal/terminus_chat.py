"""Conversations of Terminus as data sets publish them: a row with its messages, read as the episodes that they were.

Each user message is the prompt of an episode, each message of the agent its response (Nemotron's Terminal-Corpus,
traces of Harbor as `conversations`). Thinking that stands before a response in `<think>` is its reasoning. A follow-up
without the headings by which Terminus tells the terminal's text from its own is the terminal's as a whole, if no
follow-up of the row has them. What an episode's prompt and response mean is told in `terminus` and `terminus_texts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from connectors.connector import Blob, MemoryBlob
from connectors.terminal.recording import UNDATED
from connectors.terminal.terminus import Episodes, trajectory_of
from schemas import Reject, Trajectory

COLUMNS: Final = ("conversations", "messages", "conversation")

_NAMES: Final = ("trajectory_id", "trial_name", "id")
_AGENT: Final = frozenset({"assistant", "gpt"})
_USER: Final = frozenset({"user", "human"})
_SYSTEM: Final = "system"
_RESPONSE: Final = re.compile(r'"keystrokes"\s*:|"(?:task_complete|is_task_complete)"\s*:|<keystrokes|<task_complete>')
_HEADED: Final = re.compile(r"^(?:New Terminal Output|Current Terminal Screen|Current terminal state):$", re.MULTILINE)
_THOUGHT: Final = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)
_MEMBER: Final = re.compile(r"episode-(\d+)/")


class Turns(NamedTuple):
    """The messages of a row as pairs of a prompt and a response; `last` is what stood after the last response."""

    system: str | None
    pairs: list[tuple[str, str]]
    last: str | None


def turns_of(messages: Any) -> Turns | None:
    """The turns of a conversation of Terminus; None if the messages are none, or a tool is called."""
    if not isinstance(messages, list) or not messages:
        return None
    system, said = None, list[str]()
    pairs: list[tuple[str, str]] = []
    for one in messages:
        role, text = _told(one)
        if text is None or (isinstance(one, dict) and one.get("tool_calls")):
            return None
        if role in _AGENT:
            pairs.append(("\n".join(said), text))
            said = []
        elif role == _SYSTEM and not pairs and not said:
            system = text
        elif role in _USER:
            said.append(text)
        else:
            return None
    answered = sum(_RESPONSE.search(response) is not None for _, response in pairs)
    if not pairs or 2 * answered < len(pairs) or not _RESPONSE.search(pairs[0][1]):
        return None
    return Turns(system, pairs, "\n".join(said) or None)


def trajectories(
    blob: Blob, connector: str, place: int, turns: Turns, row: Mapping[str, Any]
) -> Iterator[Trajectory | Reject]:
    """The trajectories of a row, each the continuation of the one before, and a reject for what cannot be read.

    Args:
        blob: that the row stands in.
        connector: name, for rejects.
        place: of the row.
        turns: of the row's conversation.
        row: for what it says of the whole.
    """
    members: dict[str, bytes] = {}
    thoughts: dict[int, str] = {}
    for number, (prompt, response) in enumerate(turns.pairs):
        thought = _THOUGHT.match(response)
        if thought is not None:
            thoughts[number] = thought[1].strip()
        answer = response[thought.end() :] if thought is not None else response
        members[f"episode-{number}/prompt.txt"] = prompt.encode("utf-8", "surrogatepass")
        members[f"episode-{number}/response.txt"] = answer.encode("utf-8", "surrogatepass")
    end = len(turns.pairs)
    if turns.last is not None:
        members[f"episode-{end}/prompt.txt"] = turns.last.encode("utf-8", "surrogatepass")
    later = [prompt for prompt, _ in turns.pairs[1:]]
    episodes = Episodes(MemoryBlob(blob.uri, members), connector, None if _are_headed(later) else True)
    episodes.read()
    for reject in episodes.rejects:
        if not (reject.reason == "no_response" and reject.member.startswith(f"episode-{end}/")):
            yield replace(reject, member="", offset=place)
    runs = [run for run in episodes.runs if run]
    # rows without a name share one, so that equal ones stay equal; only a continuation has to tell its parent
    base = next((row[key] for key in _NAMES if isinstance(row.get(key), str) and row[key]), None)
    base = base or (UNDATED if len(runs) < 2 else f"row-{place}")
    for number, steps in enumerate(runs):
        if number < len(runs) - 1:
            steps[-1] = replace(steps[-1], truncated=True)
        whole = []
        for step in steps:
            found = _MEMBER.match(step.member)
            thought_before = thoughts.get(int(found[1])) if found else None
            reasoning = "\n\n".join(part for part in (thought_before, step.action.reasoning) if part) or None
            action = step.action if reasoning == step.action.reasoning else replace(step.action, reasoning=reasoning)
            whole.append(replace(step, action=action, member="", offset=place))
        made = trajectory_of(episodes, None, whole, number, runs[number - 1])
        system = "\n\n".join(part for part in (turns.system, made.context.agent_system) if part) or None
        model, task = row.get("model"), row.get("task")
        yield replace(
            made,
            native_id=base + made.native_id.removeprefix(UNDATED),
            parent=None if made.parent is None else base + made.parent.removeprefix(UNDATED),
            agent=replace(made.agent, model=model if isinstance(model, str) and model else None),
            task=replace(made.task, id=task if isinstance(task, str) and task else None),
            context=replace(made.context, agent_system=system),
        )


def _are_headed(later: Sequence[str]) -> bool:
    return not later or any(_HEADED.search(prompt) for prompt in later)


def _told(message: Any) -> tuple[str | None, str | None]:
    """Role and text of a message, in the words of OpenAI's form or of ShareGPT's."""
    if not isinstance(message, dict):
        return None, None
    role = message.get("role", message.get("from"))
    text = message.get("content", message.get("value"))
    return (role if isinstance(role, str) else None), (text if isinstance(text, str) else None)
