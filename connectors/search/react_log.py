"""Text logs of ReAct and Reflexion on HotpotQA: trials, their agents by outcome, and a transcript for each question.

>>> show(ReactLog(), '''
... ########################################
... BEGIN TRIAL 1
... Trial summary: Correct: 1, Incorrect: 0, Halted: 0
... #######################################
... ------------- BEGIN CORRECT AGENTS -------------
...
... Question: How deep is Lake Mirr?
... Thought 1: I search.
... Action 1: Search[Lake Mirr]
... Observation 1: Lake Mirr is a lake, 31 m deep.
... Thought 2: That is it.
... Action 2: Finish[31 m]
... Observation 2: Answer is CORRECT
... Correct answer: 31 m
... ''')
action  | {"name": "web_search", "arguments": {"entity": "Lake Mirr"}}
after   | Lake Mirr is a lake, 31 m deep.
action  | {"name": "task_complete", "arguments": {"answer": "31 m"}}
after   | Answer is CORRECT

A question after an empty line begins an episode. The section (`CORRECT`, `INCORRECT`, `HALTED`) states the outcome if
the transcript's own verdict does not: halted agents ran out of steps or of context, and gave no answer. After the
question, Reflexion tells an agent that it failed before, with its reflections or its last trial. These are words of the
harness, and are `interleaved` before the first step. The line `Correct answer:` is left out.

Later trials repeat the finished agents literally. Each repetition is kept, and judging drops the duplicates.
Chain-of-thought logs of the same project (`Context: … Question: …`, an unnumbered `Action: Finish[…]`) do not act on an
environment and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.lines import Line, lines
from trajmill.connectors.reading.values import BOM, readable
from trajmill.connectors.search.react_text import CONTEXT, Text, is_first, moves, steps
from trajmill.schemas import Agent, Outcome, ParseError, Reject, Step, Task, Trajectory

VERIFIER: Final = "answer match"
"""Verifier of HotpotQA's answers: equality after normalization."""

_SECTION: Final = re.compile(rb"-{5,} BEGIN (CORRECT|INCORRECT|HALTED) AGENTS -{5,}")
_TRIAL: Final = re.compile(rb"BEGIN TRIAL ([0-9]{1,9})")
_RULE: Final = re.compile(rb"#{20,}")
_TOLD: Final = re.compile(r"You have attempted to answer (?:the )?following question before and failed\.")
_LAST_TRIAL: Final = "(END PREVIOUS TRIAL)"
_PLAIN: Final = re.compile(rb"\s*Question:[^\n]*\n(?:[^\n]*\n){0,200}?Thought 1:[^\n]*\nAction 1:")


class ReactLog(Connector):
    """Text logs of ReAct and Reflexion agents that answer questions."""

    name: ClassVar[str] = "react_log"
    version: ClassVar[str] = "5"
    domains: ClassVar[tuple[str, ...]] = ("search",)
    title: ClassVar[str] = "ReAct and Reflexion question logs (text)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        text = head.replace(b"\r\n", b"\n").removeprefix(BOM)
        for line in text.split(b"\n", 16)[:16]:
            if _SECTION.fullmatch(line):
                return Sniff(0.95, "one of the first lines begins a section of agents")
        if _PLAIN.match(text):
            return Sniff(0.7, "a question with a numbered thought and action")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        refused: list[ParseError] = []
        empty = True
        for episode in _episodes(blob):
            try:
                trajectory = _trajectory(episode, blob.uri)
            except ParseError as error:
                if error.reason == "no_environment":
                    refused.append(error)
                else:
                    yield Reject.of(error, connector=self.name)
                continue
            empty = False
            yield trajectory
        if empty:
            why = "its agents answer at once and act on no environment" if refused else "no question has an action"
            raise ParseError(blob.uri, -1, "no_transitions", why)
        yield from (Reject.of(fault, connector=self.name) for fault in refused)


@dataclass(slots=True)
class _Episode:
    """The lines of one question, with its offset; `whole` is False if the file ends within them."""

    offset: int
    native_id: str
    section: bytes | None
    lines: list[Line] = field(default_factory=list)
    closed: bool = False
    whole: bool = True


def _episodes(blob: Blob) -> Iterator[_Episode]:
    trial, section, number = "", None, 0
    current: _Episode | None = None
    blank = True
    with blob.open() as stream:
        for line in lines(stream):
            data = line.data or b""
            heading = _SECTION.fullmatch(data) or _TRIAL.fullmatch(data) or (blank and _RULE.fullmatch(data))
            begins = blank and data.startswith((b"Question:", b"Context:"))
            if (heading or begins) and current is not None:
                yield current
                current = None
            if isinstance(heading, re.Match):
                if heading.re is _SECTION:
                    section = heading[1]
                elif heading.re is _TRIAL:
                    trial, section, number = f"trial-{int(heading[1])}/", None, 0
            elif begins:
                current = _Episode(line.offset, f"{trial}{number}", section)
                number += 1
            if current is not None and not current.closed:
                current.closed = data.startswith(b"Correct answer:")
                current.whole = line.ended or current.closed
                if not current.closed:
                    current.lines.append(line)
            blank = not data.strip() and line.data is not None
    if current is not None:
        yield current


def _trajectory(episode: _Episode, uri: str) -> Trajectory:
    """Build the trajectory of an episode.

    Raises:
        ParseError: `line_too_long`, `truncated` (the file ends before an action was answered), `no_actions`,
            `no_environment` (a chain of thought).
    """
    texts = [_text(line, uri) for line in episode.lines]
    begins = 1 + max((number for number, line in enumerate(texts) if line.text.endswith(_LAST_TRIAL)), default=-1)
    start = next((number for number in range(begins, len(texts)) if is_first(texts[number].text)), len(texts))
    instruction, reflections = _preamble("\n".join(line.text for line in texts[:start]))
    episode_moves = moves(texts[start:])
    if episode_moves and not episode.whole and not episode_moves[-1].observation:
        episode_moves.pop()  # its action may be cut
    if not episode_moves:
        if any(line.text.startswith("Action: ") for line in texts):
            raise ParseError(uri, episode.offset, "no_environment", "a chain of thought acts on no environment")
        reason = "no_actions" if episode.whole else "truncated"
        raise ParseError(uri, episode.offset, reason, "the question has no whole action")
    episode_steps = steps(episode_moves, reflections)
    if not episode.whole:
        episode_steps = _cut(episode_steps)
    return Trajectory(
        native_id=episode.native_id,
        domain="search",
        steps=_truncate_halted(episode_steps) if episode.section == b"HALTED" else episode_steps,
        agent=Agent(name="react"),
        task=Task(instruction=instruction),
        context=CONTEXT,
        outcome=_outcome(episode_steps[-1], episode.section),
    )


def _text(line: Line, uri: str) -> Text:
    if line.data is None:
        raise ParseError(uri, line.offset, "line_too_long", "a line of a transcript is too long")
    return Text(line.offset, readable(line.data))


def _preamble(text: str) -> tuple[str, str]:
    """Return the question, and the harness's words about earlier trials, empty if there are none."""
    question = text.removeprefix("Question:")
    mark = _TOLD.search(question)
    ends = (mark.start() if mark else -1, question.find("\nReflections:"))
    end = min((position for position in ends if position >= 0), default=len(question))
    return question[:end].strip(), question[end:].strip()


def _cut(steps: list[Step]) -> list[Step]:
    """Return the steps of an episode cut by the end of the file; the rest of its last observation may be lost."""
    last = steps[-1].next_observation
    cut = replace(last, truncation="recorder") if last is not None and steps[-1].reward is None else last
    return [*steps[:-1], replace(steps[-1], next_observation=cut)]


def _truncate_halted(steps: list[Step]) -> list[Step]:
    last = steps[-1]
    return [*steps[:-1], last if last.terminated else replace(last, truncated=True)]


def _outcome(last: Step, section: bytes | None) -> Outcome | None:
    if last.reward is not None:
        return Outcome(resolved=last.reward == 1, verifier=VERIFIER)
    if section is None:
        return None
    return Outcome(resolved=section == b"CORRECT", verifier=VERIFIER)
