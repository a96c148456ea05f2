r"""WebDancer and Tongyi DeepResearch: one ChatML conversation per row, with actions in text tags.

>>> show(WebDancer(), '''
... {"question": "How deep is Lake Mirr?", "messages": [{"role": "user", "content": "How deep is Lake Mirr?"}, \
...  {"role": "assistant", "content": \
...   "<tool_call>\\n{\\"name\\": \\"search\\", \\"arguments\\": {\\"query\\": [\\"Lake Mirr\\"]}}\\n</tool_call>"}, \
...  {"role": "user", "content": "<tool_response>\\n1. Lake Mirr, 310 m.\\n</tool_response>"}, \
...  {"role": "assistant", "content": "<answer>310 m</answer>"}]}
... ''')
action  | {"name": "web_search", "arguments": {"query": ["Lake Mirr"]}}
after   | 1. Lake Mirr, 310 m.
action  | {"name": "task_complete", "arguments": {"answer": "310 m"}}
after   | (not in the log)

There are two shapes of lines: WebDancer's training samples `{type: "chatml", messages, functions, answer, tag}`, and
the inference output of Tongyi DeepResearch `{question, answer, messages, prediction, termination}`. In both the
assistant writes `<think>…</think>` and then `<tool_call>{"name", "arguments"}</tool_call>` or `<answer>…</answer>`; a
tool's result is a user message `<tool_response>…</tool_response>`. A call of the Python interpreter has its program in
`<code>…</code>` beside the JSON; it becomes the argument `code`.

The first user message is the prompt: it shows the tags by example, so it is never searched for them. The text after
`User: ` in it is the task. The text before it is the agent's prompt, as are the system message and the tools in it.
User messages without a tool response are the harness's. Such a text of the harness may replace the last tool response
(limit of calls or tokens): that response is lost, and its step has no next observation.

The reference answer (`answer`) is left out, and nothing is judged here: `prediction` repeats the last message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation import search_tools as vocabulary
from trajmill.connectors.conversation.harness_text import strip_forms
from trajmill.connectors.conversation.steps import course
from trajmill.connectors.conversation.turns import Call, Item, Said, Turn
from trajmill.connectors.reading.documents import head_rows, json_rows
from trajmill.connectors.reading.fields import join_paragraphs, objects_of, str_of
from trajmill.connectors.reading.json_text import is_shallow, parse_if_json
from trajmill.connectors.reading.values import json_value
from trajmill.schemas import COMPLETE, Context, Observation, ParseError, Reject, Step, Task, Trajectory

_NAME: Final = re.compile(r"""["']name["']\s*:\s*["']([^"'\n]{1,100})["']""")
_BETWEEN: Final = re.compile(r"\n?</tool_response>\s*<tool_response>\n?")
_PYTHON: Final = "python"
"""The harness runs the `<code>` of a call that holds this word, even if the rest of it is no JSON."""

_OPEN: Final = "<tool_response>"
_CLOSE: Final = "</tool_response>"
_TASK: Final = "\n\nUser: "
_SNIFFED_LINES: Final = 8
"""Rows of questions that failed before an answer have no messages, so the first row may not show the format."""


class WebDancer(Connector):
    """Conversations of WebDancer and Tongyi DeepResearch."""

    name: ClassVar[str] = "webdancer"
    version: ClassVar[str] = "8"
    domains: ClassVar[tuple[str, ...]] = ("search",)
    title: ClassVar[str] = "WebDancer and Tongyi DeepResearch conversations (ChatML; JSONL, JSON)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        for number, row in enumerate(head_rows(head)[:_SNIFFED_LINES], 1):
            is_chatml = row.get("type") == "chatml"
            if not is_chatml and ("question" not in row or "tools" in row):
                return None
            texts = (str_of(message.get("content")) for message in objects_of(parse_if_json(row.get("messages"))))
            if any("<tool_call>" in text or _OPEN in text for text in texts):
                kind = "is a chatml record whose" if is_chatml else "has a question and"
                return Sniff(0.95 if is_chatml else 0.9, f"row {number} {kind} messages that call tools in tags")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        empty = True
        for number, (offset, value) in enumerate(json_rows(blob)):
            try:
                if isinstance(value, ParseError):
                    raise value
                trajectory = _trajectory(value, blob.uri, offset, number)
            except ParseError as error:
                yield Reject.of(error, connector=self.name)
                continue
            empty = False
            yield strip_forms(trajectory, self.name)
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no line holds a conversation with a tool call")


class _Reading:
    """Turns of a conversation, built message by message."""

    def __init__(self, offset: int) -> None:
        self.items: list[Item] = []
        self.open: list[Call] = []
        self.acts = False
        self._offset = offset
        self._thoughts: list[str] = []

    def agent(self, text: str) -> None:
        """Process a message of the agent; a message with only thoughts is merged with the next."""
        calls, words, thought = _calls(text)
        thoughts = [*self._thoughts, *([thought] if thought else [])]
        self._thoughts = [] if calls or words else thoughts
        if not calls and words is None:
            return
        turn = Turn(self._offset)
        turn.texts, turn.thoughts = [words] if words else [], thoughts
        for call in calls:
            call.offset = self._offset
            turn.add(call)
        self.items.append(turn)
        self.open = [call for call in calls if call.name != COMPLETE]
        self.acts = self.acts or bool(self.open)

    def answered(self, responses: list[str]) -> bool:
        """Assign responses to the calls of the last turn in order; False if there are more responses than calls."""
        if len(responses) > len(self.open):
            return False
        for call, text in zip(self.open, responses, strict=False):
            call.shown = Observation(text)
        self.open = []
        return True

    def harness(self, text: str) -> None:
        """Process words of the harness in place of a response, or in answer to a message."""
        self.open = []
        self.items.append(Said("harness", text, answers=True))


def _trajectory(value: Any, uri: str, offset: int, number: int) -> Trajectory:
    """Build the trajectory of a line.

    Raises:
        ParseError: `bad_record` (no conversation), `no_calls`, `response_without_call`.
    """
    messages = parse_if_json(value.get("messages")) if isinstance(value, dict) else None
    if not isinstance(messages, list) or not all(_is_message(entry) for entry in messages):
        raise ParseError(uri, offset, "bad_record", "wanted an object with messages of role and content")
    first = next((index for index, entry in enumerate(messages) if entry["role"] == "user"), None)
    if first is None:
        raise ParseError(uri, offset, "bad_record", "wanted a user message with the task")
    before, task = _prompt(messages[first]["content"])
    reading = _Reading(offset)
    for entry in messages[first + 1 :]:
        _take(reading, entry["role"], entry["content"], uri, offset)
    if not reading.acts:
        raise ParseError(uri, offset, "no_calls", "the conversation calls no tool")
    question = value.get("question")
    system = [entry["content"] for entry in messages[:first] if entry["role"] == "system"]
    return Trajectory(
        native_id=str(number),
        domain="search",
        steps=_mark_ending(list(course(reading.items, instructed=True).steps), value.get("termination")),
        task=Task(instruction=question if isinstance(question, str) and question else task),
        context=_context("\n\n".join([*system, *([before] if before else [])]), value.get("functions")),
    )


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str) and isinstance(value.get("content"), str)


def _prompt(text: str) -> tuple[str, str]:
    """Return the agent's prompt in the first user message, empty if there is none, and the task."""
    before, mark, task = text.partition(_TASK)
    return (before, task) if mark and "<tools>" in before else ("", text)


def _take(reading: _Reading, role: str, text: str, uri: str, offset: int) -> None:
    stripped = text.strip()
    if role == "assistant":
        reading.agent(text)
    elif stripped.startswith(_OPEN):
        inner = stripped.removeprefix(_OPEN).removeprefix("\n").removesuffix(_CLOSE).removesuffix("\n")
        calls = len(reading.open)
        responses = _BETWEEN.split(inner) if calls > 1 else [inner]
        if not reading.answered(responses):
            raise ParseError(
                uri, offset, "response_without_call", f"{len(responses)} tool responses follow {calls} calls"
            )
    else:
        reading.harness(text)


def _calls(text: str) -> tuple[list[Call], str | None, str | None]:
    """Return the calls, the message and the reasoning of an assistant message."""
    thought, body = _thought(text)
    tagged: list[_Tagged] = []
    while (element := _find_tagged(body, "tool_call", tagged[-1].end if tagged else 0)) is not None:
        tagged.append(element)
    answer = _find_tagged(body, "answer", tagged[-1].end if tagged else 0)
    first = tagged[0] if tagged else answer
    words = body[: first.start if first else len(body)].strip() or None
    if tagged:
        late = body[answer.start : answer.end] if answer else None
        return (
            [_call(element.inner) for element in tagged],
            join_paragraphs([part for part in (words, late) if part]),
            thought,
        )
    if answer:
        handed_in = vocabulary.answer(answer.inner.strip("\n"))
        handed_in.ending = (None, True, None)
        return [handed_in], words, thought
    return [], words, thought


class _Tagged(NamedTuple):
    """Text between two tags, with the beginning of the first and the end of the second."""

    inner: str
    start: int
    end: int


def _find_tagged(text: str, tag: str, position: int) -> _Tagged | None:
    """Return the next text between `<tag>` and `</tag>`, up to the end if it is not closed."""
    start = text.find(f"<{tag}>", position)
    if start < 0:
        return None
    begin = start + len(tag) + 2
    close = text.find(f"</{tag}>", begin)
    return (
        _Tagged(text[begin:], start, len(text))
        if close < 0
        else _Tagged(text[begin:close], start, close + len(tag) + 3)
    )


def _thought(text: str) -> tuple[str | None, str]:
    """Return the thinking at the beginning of a message, and the rest; unclosed thinking ends at the next tag."""
    stripped = text.lstrip()
    if not stripped.startswith("<think>"):
        return None, text
    inner = stripped.removeprefix("<think>")
    thought, closed, body = inner.partition("</think>")
    if not closed:
        tag = re.search(r"<(?:tool_call|answer)>", inner)
        thought, body = (inner[: tag.start()], inner[tag.start() :]) if tag else (inner, "")
    return thought.strip("\n") or None, body


def _call(text: str) -> Call:
    """Build the call of a tool call; one whose JSON cannot be read keeps its text and the name found in it."""
    code = _find_tagged(text, "code", 0)
    json_part = text[: code.start] if code else text
    try:
        value = json_value(json_part.strip())
    except ValueError:
        value = None
    if isinstance(value, dict) and isinstance(value.get("name"), str) and is_shallow(value):
        arguments = value.get("arguments")
        if code:
            named_arguments = arguments if isinstance(arguments, dict) else {}
            arguments = {**named_arguments, "code": code.inner.strip("\n")}
        return vocabulary.call(value["name"], arguments)
    if code and _PYTHON in json_part.lower():
        return vocabulary.call("PythonInterpreter", {"code": code.inner.strip("\n")})
    named = _NAME.search(text)
    return Call(vocabulary.common_word(named[1]) if named else "tool_call", None, None, 0, text=text.strip("\n"))


def _mark_ending(steps: list[Step], termination: Any) -> list[Step]:
    """Mark the last step as truncated if the log states that the run ended without an answer."""
    if isinstance(termination, str) and termination != "answer" and steps[-1].action.name != COMPLETE:
        steps[-1] = replace(steps[-1], truncated=True)
    return steps


def _context(prompt: str, functions: Any) -> Context:
    """Return the agent's prompt and its tools: those in the prompt, else those that the record lists."""
    context = _parse_tools(prompt.partition("<tools>")[2].partition("</tools>")[0].strip())
    if context.action_space is None and isinstance(functions, list):
        context = vocabulary.context([_plain(function) for function in functions if isinstance(function, dict)], None)
    return replace(context, agent_system=prompt or None)


@lru_cache(64)
def _parse_tools(shown: str) -> Context:
    """Parse the tools in a prompt: consecutive objects, separated by commas or one per line."""
    declared: list[dict[str, Any]] = []
    for text in (f"[{shown}]", f"[{','.join(shown.splitlines())}]"):
        try:
            declared = [value for value in json_value(text) if isinstance(value, dict)]
        except ValueError:
            continue
        break
    inner = [tool["function"] if isinstance(tool.get("function"), dict) else tool for tool in declared]
    return vocabulary.context(inner, None)


def _plain(function: dict[str, Any]) -> dict[str, Any]:
    """Convert a tool of Qwen's older form to the common keys."""
    return {key: function.get(f"{key}_for_model", function.get(key)) for key in ("name", "description", "parameters")}
