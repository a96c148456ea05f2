r"""Notebooks of ReAct (`.ipynb`, arXiv 2210.03629): the episodes that their cells printed, one after another.

>>> show(ReactNotebook(), r'''
... {"cells": [{"cell_type": "code", "outputs": [{"output_type": "stream", "name": "stdout", "text": [
...     "3687 Claim: Lake Mirr is deep.\n",
...     "Thought 1: I search.\n",
...     "Action 1: Search[Lake Mirr]\n",
...     "Observation 1: Lake Mirr is a lake, 31 m deep.\n",
...     "\n",
...     "{'steps': 1, 'answer': None, 'gt_answer': 'SUPPORTS', 'em': 0}\n"]}]}]}
... ''')
action  | {"name": "web_search", "arguments": {"entity": "Lake Mirr"}}
after   | Lake Mirr is a lake, 31 m deep.

Only the standard output of cells is read, with each cell's parts joined, since one episode may be printed in several
parts. An episode begins with its number in the data set and its question or claim. It ends with the line that begins
with `{'steps':`, whose `em` is the outcome; the reference answer in it is left out. An episode that ends in this way
without an answer ran out of steps. A notebook without outputs, as published for execution, is refused. `webshop` reads
the output of the notebook on WebShop, which has the domain web; the output of the one on ALFWorld is not of this
format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.documents import document_in
from trajmill.connectors.reading.places import TextPlaces
from trajmill.connectors.search.react_log import VERIFIER
from trajmill.connectors.search.react_notebook import webshop as webshop_text
from trajmill.connectors.search.react_text import CONTEXT, moves, steps
from trajmill.schemas import Agent, Outcome, ParseError, Reject, Task, Trajectory

_BEGIN: Final = re.compile(r"([0-9]{1,9}) ((?:Claim|Question): .*)")
_END: Final = "{'steps':"
_SIGNS: Final = frozenset("0123456789{")
"""First characters of lines that begin or end an episode."""

_EXACT: Final = re.compile(r"'em': (True|False|[01](?:\.0)?)[,}]")


class ReactNotebook(Connector):
    """Notebooks of ReAct with their outputs."""

    name: ClassVar[str] = "react_notebook"
    version: ClassVar[str] = "5"
    domains: ClassVar[tuple[str, ...]] = ("search", "web")
    title: ClassVar[str] = "ReAct notebooks with printed episodes (ipynb)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if not start.startswith(b"{") or b'"cells"' not in start[:4096] or b'"cell_type"' not in head:
            return None
        if b"def webthink(" in head or re.search(rb'"Thought 1: .{0,4000}?"Action 1: ', head, re.DOTALL):
            return Sniff(0.9, "a notebook with the loop or the transcript of a ReAct agent")
        if b"def webshop_run(" in head or b'"Action: reset' in head:
            return Sniff(0.9, "a notebook with the loop or the transcript of a ReAct agent in WebShop")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        data = blob.read()
        printed = list(_cell_outputs(data, blob.uri))
        if not any(printed):
            raise ParseError(blob.uri, -1, "no_outputs", "the notebook was saved without the outputs of its cells")
        empty = True
        finder = TextPlaces(data)
        shops: list[str] = []
        asked = (_trajectory(episode, finder, number) for number, episode in enumerate(_episodes(printed, shops)))
        for number, trajectory in enumerate(chain(asked, _shopping(shops, finder))):
            if trajectory is None:
                detail = f"episode {number} has no action"
                yield Reject("record", "no_actions", detail, blob.uri, offset=finder.place, connector=self.name)
            else:
                empty = False
                yield trajectory
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no output holds an episode of an agent with actions")


def _cell_outputs(data: bytes, uri: str) -> Iterator[str]:
    """Yield the standard output of each code cell, empty if it has none.

    Raises:
        ParseError: `bad_json`, `truncated`, `bad_record` (no notebook).
    """
    value = document_in(data, uri)
    cells = value.get("cells") if isinstance(value, dict) else None
    if not isinstance(cells, list):
        raise ParseError(uri, 0, "bad_record", "wanted an object with cells")
    for cell in cells:
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        shown = [_text(output) for output in outputs] if isinstance(outputs, list) else []
        yield "".join(shown)


def _text(output: Any) -> str:
    if not isinstance(output, dict) or output.get("output_type") != "stream" or output.get("name") != "stdout":
        return ""
    text = output.get("text")
    parts = text if isinstance(text, list) else [text]
    return "".join([part for part in parts if isinstance(part, str)])


@dataclass(frozen=True, slots=True)
class _Episode:
    """A printed episode: its number in the data set, its question, its lines, and the line that ends it, if any."""

    index: str
    question: str
    lines: Sequence[str]
    end: str | None


def _episodes(printed: Sequence[str], shops: list[str]) -> Iterator[_Episode]:
    """Yield the episodes in an encyclopedia; the texts of cells with episodes in WebShop are appended to `shops`."""
    for text in printed:
        begun: re.Match[str] | None = None
        start = 0
        lines = text.split("\n")
        for number in [number for number, line in enumerate(lines) if line[:1] in _SIGNS]:
            line = lines[number]
            begins = _BEGIN.fullmatch(line)
            if begun is not None and (begins or line.startswith(_END)):
                yield _Episode(begun[1], begun[2], lines[start:number], None if begins else line)
                begun = None
            if begins:
                begun, start = begins, number + 1
        if begun is not None:
            yield _Episode(begun[1], begun[2], lines[start:], None)
        if webshop_text.RESET in lines:
            shops.append(text)


def _trajectory(episode: _Episode, finder: TextPlaces, number: int) -> Trajectory | None:
    finder.of(f"{episode.index} {episode.question}")
    offsets = [finder.of(line) if line.startswith("Action ") else 0 for line in episode.lines]
    episode_steps = steps(moves(zip(offsets, episode.lines, strict=True)))
    if not episode_steps:
        return None
    last = episode_steps[-1]
    exact = _EXACT.search(episode.end) if episode.end else None
    if episode.end is not None and not last.terminated:
        episode_steps[-1] = replace(last, truncated=True)
    resolved = exact[1] in ("1", "1.0", "True") if exact else None
    if resolved is None and last.reward is not None:
        resolved = last.reward == 1
    return Trajectory(
        native_id=f"{number}/{episode.index}",
        domain="search",
        steps=episode_steps,
        agent=Agent(name="react"),
        task=Task(id=_task_id(episode), instruction=episode.question.removeprefix("Question: ").strip()),
        context=CONTEXT,
        outcome=None if resolved is None else Outcome(resolved=resolved, verifier=VERIFIER),
    )


def _shopping(shops: Sequence[str], finder: TextPlaces) -> Iterator[Trajectory | None]:
    """Yield the trajectory of each WebShop episode in the texts of `shops`; None for one without an action."""
    number = 0
    for text in shops:
        for episode in webshop_text.episodes(text):
            finder.of(webshop_text.RESET)
            yield webshop_text.trajectory(episode, number, finder.of)
            number += 1


def _task_id(episode: _Episode) -> str:
    """Return the number with its data set: claims belong to FEVER, questions to HotpotQA."""
    return f"{'fever' if episode.question.startswith('Claim: ') else 'hotpotqa'}/{episode.index}"
