"""Screens in OSWorld's `runtime.log`: the accessibility tree that the agent received before each answer.

OSWorld saves no accessibility tree, but its baseline agent (`mm_agents/agent.py`) logs, for each answer, `LINEAR AT: `
with the tree as a table (one line per widget: tag, name, text, class, description, position, size, separated by tabs)
and then `RESPONSE: ` with the answer. The table is the log's own text form of the screen and is kept as it is. It has
no ids of widgets, and a text of several lines breaks its rows, so it is not converted to a tree.

If a task is run again, the log is appended to. An answer may have no table; a table belongs to an answer if it follows
the previous answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from trajmill.schemas import Observation

LINEAR_DIALECT: Final = "osworld-linear"

_OPENS: Final = re.compile(
    r"^(?:(LINEAR AT: )|(RESPONSE: )|Generating content with |Failed to |Retrying|Got Action: |PLAN: )",
    re.MULTILINE,
)
_HEADER: Final = "tag\t"
_CUT: Final = "[...]"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the agent: its text, and the table before it."""

    response: str
    table: str | None

    def observation(self) -> Observation | None:
        """Return the table as an observation, cut by the harness if it is marked so."""
        if self.table is None:
            return None
        truncation = "harness" if self.table.endswith(_CUT) else "none"
        return Observation(self.table, form="screen", dialect=LINEAR_DIALECT, truncation=truncation)


def answers_of(text: str) -> list[Answer]:
    """Return the answers of a log, in order."""
    opened = list(_OPENS.finditer(text))
    answers: list[Answer] = []
    table: str | None = None
    for index, opener in enumerate(opened):
        end = opened[index + 1].start() if index + 1 < len(opened) else len(text)
        body = text[opener.end() : end]
        if opener[1]:
            table = body.rstrip() if body.startswith(_HEADER) else None
        elif opener[2]:
            answers.append(Answer(body.strip(), table))
            table = None
    return answers


def align_answers(responses: list[str | None], answers: list[Answer]) -> list[Answer | None]:
    """Find the log's answer for each response of a trajectory: the next one with the same text; None if there is none.

    The search for a response begins after the answer found last. A response that is not found does not advance this
    position, so that later responses are still found.
    """
    matches: list[Answer | None] = []
    start = 0
    for response in responses:
        wanted = response.strip() if response else None
        hit = next(
            (index for index in range(start, len(answers)) if wanted and answers[index].response == wanted), None
        )
        matches.append(answers[hit] if hit is not None else None)
        start = hit + 1 if hit is not None else start
    return matches
