"""Conversations of Terminus in published data sets: rows of messages, read as the original episodes.

Each user message is the prompt of an episode, each message of the agent its response (Nemotron's Terminal-Corpus,
traces of Harbor as `conversations`). Thinking in `<think>` before a response is its reasoning. Terminus uses headings
to separate the terminal's text from its own. If no follow-up of the row has them, each follow-up is entirely the
terminal's text. `recordings.terminus` and `conversation.terminus_texts` document the prompts and responses of episodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from trajmill.connectors.connector import Blob
from trajmill.connectors.recordings.recording import UNDATED
from trajmill.connectors.recordings.terminus import MAX_BYTES, Episodes, trajectories_of
from trajmill.schemas import Reject, Task, Trajectory

COLUMNS: Final = ("conversations", "messages", "conversation")

_NAMES: Final = ("trajectory_id", "trial_name", "id")
_AGENT: Final = frozenset({"assistant", "gpt"})
_USER: Final = frozenset({"user", "human"})
_SYSTEM: Final = "system"
_RESPONSE: Final = re.compile(r'"keystrokes"\s*:|"(?:task_complete|is_task_complete)"\s*:|<keystrokes|<task_complete>')
_HEADED: Final = re.compile(r"^(?:New Terminal Output|Current Terminal Screen|Current terminal state):$", re.MULTILINE)
_THOUGHT: Final = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)


class Turns(NamedTuple):
    """The messages of a row as pairs of a prompt and a response; `last` is the text after the last response."""

    system: str | None
    pairs: list[tuple[str, str]]
    last: str | None


def turns_of(messages: Any) -> Turns | None:
    """Return the turns of a Terminus conversation; None if the messages are no such conversation, or call a tool."""
    if not isinstance(messages, list) or not messages:
        return None
    system, prompts = None, list[str]()
    pairs: list[tuple[str, str]] = []
    for message in messages:
        if not isinstance(message, dict):
            return None
        # Roles and texts use the names of OpenAI's form or of ShareGPT's.
        role = message["role"] if "role" in message else message.get("from")
        text = message["content"] if "content" in message else message.get("value")
        if not isinstance(role, str) or not isinstance(text, str) or message.get("tool_calls"):
            return None
        if role in _AGENT:
            pairs.append((prompts[0] if len(prompts) == 1 else "\n".join(prompts), text))
            prompts = []
        elif role == _SYSTEM and not pairs and not prompts:
            system = text
        elif role in _USER:
            prompts.append(text)
        else:
            return None
    if not pairs or not _is_response(pairs[0][1]):
        return None
    if 2 * sum([_is_response(response) for _, response in pairs]) < len(pairs):
        return None
    return Turns(system, pairs, "\n".join(prompts) or None)


def _is_response(text: str) -> bool:
    return _RESPONSE.search(text) is not None


def trajectories(
    blob: Blob, connector: str, offset: int, turns: Turns, row: Mapping[str, Any]
) -> Iterator[Trajectory | Reject]:
    """Yield the trajectories of a row, each the continuation of the one before, and a reject for each unreadable part.

    Args:
        blob: the log that holds the row.
        turns: turns of the row's conversation.
        row: the row, for its facts about the whole.
    """
    log = _Row(blob.uri, connector, offset, turns)
    log.read()
    yield from log.rejects
    runs = log.runs()
    # Rows without a name share one, so that equal rows stay equal; only a continuation must name its parent
    base = next((row[key] for key in _NAMES if isinstance(row.get(key), str) and row[key]), None)
    base = base or (UNDATED if len(runs) < 2 else f"row-{offset}")
    model, task = row.get("model"), row.get("task")
    log.model = model if isinstance(model, str) and model else None
    log.system = "\n\n".join(part for part in (turns.system, log.system) if part) or None
    yield from trajectories_of(log, runs, base, Task(task if isinstance(task, str) and task else None))


class _Row(Episodes):
    """The episodes of a row's conversation; the text after the last response is the prompt of one more episode."""

    def __init__(self, uri: str, connector: str, offset: int, turns: Turns) -> None:
        self._prompts = [prompt for prompt, _ in turns.pairs]
        self._responses = [response for _, response in turns.pairs]
        headless = not _are_headed(self._prompts[1:])
        if turns.last is not None:
            self._prompts.append(turns.last)
        super().__init__(uri, connector, offset, range(len(self._prompts)), headless)
        for number, response in enumerate(self._responses):
            thought = _THOUGHT.match(response)
            if thought is not None:
                self.thoughts[number] = thought[1].strip()
                self._responses[number] = response[thought.end() :]
        self._bare = headless or '"state_analysis"' in (self.answered(0) or "")

    def asked(self, number: int) -> str | None:
        return self._text(self._prompts[number]) if number < len(self._prompts) else None

    def answered(self, number: int) -> str | None:
        return self._text(self._responses[number]) if number < len(self._responses) else None

    def _text(self, text: str) -> str | None:
        if text.isascii() and len(text) <= MAX_BYTES:
            return text.replace("\r\n", "\n") if "\r" in text else text
        return self.text_of(text.encode("utf-8", "surrogatepass"), "")


def _are_headed(later: Sequence[str]) -> bool:
    return not later or any(_HEADED.search(prompt) for prompt in later)
