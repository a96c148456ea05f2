"""Text of Search-R1: a model that reasons, searches and answers in tags, one example after another.

>>> show(SearchR1(), '''
... Answer the given question. You can search by <search> query </search>. Question: how high is mount tarn?
... <think> I search. </think>
... <search> Mount Tarn height </search>
... <information>Doc 1(Title: "Mount Tarn") 1200 m high</information>
... <answer> 1200 m </answer>
... ''')
action  | {"name": "web_search", "arguments": {"query": "Mount Tarn height"}}
after   | Doc 1(Title: "Mount Tarn") 1200 m high
action  | {"name": "task_complete", "arguments": {"answer": "1200 m"}}
after   | (not in the log)

An example is a ChatML text (`<|im_start|>system`, `user`, `assistant`), or, without chat tags, the instruction `Answer
the given question. …` followed by the completion. In the assistant part, the model writes `<think>…</think>`,
`<search>…</search>` and `<answer>…</answer>`, and the harness inserts `<information>…</information>` after each search.
The instruction names all these tags, so only the assistant part is searched for them. Thinking may be unclosed, or
closed only after the information. Its tags are removed everywhere, and the model's text besides its actions is its
reasoning. A search or answer also counts within unclosed thinking, as in the harness, which uses the first of them that
is closed.

If an action was missing, the harness writes `My previous action is invalid. …` and lets the model try again: this is a
step named `message`, answered by the harness. The log does not state whether an answer is correct.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation import search_tools as vocabulary
from trajmill.connectors.conversation.told import Told, answered
from trajmill.connectors.conversation.turns import Call
from trajmill.schemas import (
    COMPLETE,
    MESSAGE,
    Context,
    Observation,
    ParseError,
    Reject,
    Step,
    Task,
    Trajectory,
    json_text,
)

_TURN: Final = re.compile(rb"<\|im_start\|>(system|user|assistant)[ \t]*\r?\n?")
_PLAIN: Final = re.compile(rb"^Answer the given question\. ", re.MULTILINE)
_PLAIN_QUESTION: Final = re.compile(rb"Question:[^\n]*(?:\n|\Z)")
_ENDS: Final = (b"<|im_end|>", b"<|endoftext|>")
_RETRY: Final = b"My previous action is invalid."
_RETRY_END: Final = b"Let me try again."
_INFORMATION: Final = re.compile(rb"(?:\s|</think>)*<information>(.*?)(</information>|\Z)", re.DOTALL)
_THINK: Final = re.compile(r"</?think>")
_EXAMPLE: Final = "</answer>. "
_QUESTION: Final = "Question: "

_TOOLS: Final = (
    {
        "name": "search",
        "description": "Asks a search engine over an encyclopedia; the top passages come back, with their titles.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
        },
    },
    {
        "name": COMPLETE,
        "description": "Hands in the answer.",
        "parameters": {
            "type": "object",
            "properties": {"answer": {"type": "string"}},
            "required": ["answer"],
        },
    },
)
"""Tools that the instruction of Search-R1 describes in prose."""


class SearchR1(Connector):
    """Texts of Search-R1."""

    name: ClassVar[str] = "search_r1"
    version: ClassVar[str] = "3"
    domains: ClassVar[tuple[str, ...]] = ("search",)
    title: ClassVar[str] = "Search-R1 completions (text with <search> and <information> tags)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if not (start.startswith(b"<|im_start|>") or _PLAIN.match(start)):
            return None
        if b"<search>" in head and b"<information>" in head:
            return Sniff(0.9, "a prompt and completions with <search> and <information> tags")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        data = blob.read()
        empty = True
        for number, example in enumerate(_examples(data)):
            try:
                trajectory = _trajectory(data, example, blob.uri, number)
            except ParseError as error:
                yield Reject.of(error, connector=self.name)
                continue
            empty = False
            yield trajectory
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no example searches")


@dataclass(frozen=True, slots=True)
class _Example:
    """Byte ranges of an example: its system message if any, its user message, and the completion."""

    start: int
    system: tuple[int, int] | None
    user: tuple[int, int]
    completion: tuple[int, int]


def _examples(data: bytes) -> Iterator[_Example]:
    """Yield the examples of a text in order; turns that form no complete example are left out."""
    turns = list(_TURN.finditer(data))
    if not turns:
        yield from _plain_examples(data)
        return
    ends = [following.start() for following in turns[1:]] + [len(data)]
    start, system, user = 0, None, None
    for turn, end in zip(turns, ends, strict=True):
        span = turn.end(), _without_end(data, turn.end(), end)
        if turn[1] == b"system":
            start, system, user = turn.start(), span, None
        elif turn[1] == b"user":
            start, user = (start if system else turn.start()), span
        elif user is not None:
            yield _Example(start, system, user, span)
            system = user = None


def _plain_examples(data: bytes) -> Iterator[_Example]:
    starts = [match.start() for match in _PLAIN.finditer(data)]
    for start, end in pairwise([*starts, len(data)]):
        question = _PLAIN_QUESTION.search(data, start, end)
        if question:
            span = question.end(), _without_end(data, question.end(), end)
            yield _Example(start, None, (start, question.end()), span)


def _without_end(data: bytes, start: int, end: int) -> int:
    """Return the end of a turn's text: before its end tag, else before its trailing white space."""
    marks = [end_tag for mark in _ENDS if (end_tag := data.find(mark, start, end)) >= 0]
    return min(marks, default=start + len(data[start:end].rstrip()))


def _trajectory(data: bytes, example: _Example, uri: str, number: int) -> Trajectory:
    """Build the trajectory of an example.

    Raises:
        ParseError: `not_utf8`, `no_calls`.
    """
    try:
        data[example.start : example.completion[1]].decode()
    except UnicodeDecodeError as error:
        detail = f"wanted UTF-8: {error.reason}"
        raise ParseError(uri, example.start + error.start, "not_utf8", detail) from None
    prompt, question = _prompt(data[slice(*example.user)].decode().strip())
    steps = _steps(data, *example.completion)
    if all(step.action.name in (MESSAGE, COMPLETE) for step in steps):
        raise ParseError(uri, example.start, "no_calls", "the example does not search")
    system = data[slice(*example.system)].decode().strip() if example.system else ""
    context = vocabulary.context(_TOOLS, "\n\n".join(filter(None, (system, prompt))))
    derived = Context(context.action_space, agent_system=context.agent_system, origin="derived")
    return Trajectory(str(number), "search", steps, task=Task(instruction=question), context=derived)


def _prompt(text: str) -> tuple[str, str]:
    """Return the instruction in a user message, empty if there is none, and the question."""
    begin = text.find(_QUESTION, max(text.find(_EXAMPLE), 0))
    return (text[:begin].strip(), text[begin + len(_QUESTION) :].strip()) if begin >= 0 else ("", text)


class _Finder:
    """Finder of the actions of a completion, in order; an unclosed tag is not searched for again."""

    def __init__(self, data: bytes, end: int) -> None:
        self._data = data
        self._end = end
        self._marks = {b"search": -2, b"answer": -2, b"": -2}

    def after(self, begin: int) -> _Found | None:
        """Return the next action from a position on; None if there is none."""
        starts = [(start, tag) for tag in self._marks if (start := self._start(tag, begin)) >= 0]
        while starts:
            start, tag = min(starts)
            starts.remove((start, tag))
            if not tag:
                return _Found(tag, start, start, self._retry_end(start))
            inner = start + len(tag) + 2
            close = self._data.find(b"</" + tag + b">", inner, self._end)
            if close >= 0:
                return _Found(tag, start, inner, close)
            self._marks[tag] = -1
        return None

    def _start(self, tag: bytes, begin: int) -> int:
        """Return the next position of the tag, -1 if there is none; a hit is cached until it is passed."""
        known = self._marks[tag]
        if known == -2 or 0 <= known < begin:
            mark = b"<" + tag + b">" if tag else _RETRY
            known = self._marks[tag] = self._data.find(mark, begin, self._end)
        return known

    def _retry_end(self, start: int) -> int:
        line = self._data.find(b"\n", start, self._end)
        line = self._end if line < 0 else line
        close = self._data.find(_RETRY_END, start, line)
        return line if close < 0 else close + len(_RETRY_END)


@dataclass(frozen=True, slots=True)
class _Found:
    """An action: its tag (empty for a retry that the harness asks for), its beginning, and the range of its text."""

    tag: bytes
    start: int
    inner: int
    close: int

    @property
    def end(self) -> int:
        """The beginning of the text after the action."""
        return self.close + len(self.tag) + 3 if self.tag else self.close


def _steps(data: bytes, start: int, end: int) -> list[Step]:
    builder = Told(in_memory=True)
    finder = _Finder(data, end)
    position = start
    while (action := finder.after(position)) is not None:
        thought = _words(data[position : action.start])
        text = data[action.inner : action.close].decode().strip()
        position = action.end
        after = None
        if action.tag == b"answer":
            call = vocabulary.answer(text, reasoning=thought)
            call.ending = (None, True, None)
        elif action.tag:
            call = vocabulary.call("search", {"query": text}, reasoning=thought)
            information = _INFORMATION.match(data, position, end)
            if information:
                after, position = _information(information), information.end()
        else:
            call = Call(MESSAGE, json_text({"content": thought or ""}), None, 0)
            after = Observation(text, origin="harness")
        builder.turn([answered(call, after, action.start)])
        if call.name == COMPLETE:
            break
    return list(builder.steps())


def _words(text: bytes) -> str | None:
    """Return the model's text besides its actions, without the tags of thinking; None if there is none."""
    return _THINK.sub("", text.decode()).strip() or None


def _information(match: re.Match[bytes]) -> Observation:
    """Return the observation of a search, marked as cut if the text ends within the information."""
    return Observation(match[1].decode().strip(), truncation="none" if match[2] else "recorder")
