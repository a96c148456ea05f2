"""Steps of a trajectory from the messages of an Inspect sample.

Tool results follow the assistant message with their calls. They are paired with the calls by id, or in order if a
result has no id. A search that the model's provider ran within an assistant message (`tool_use` parts) is a turn of its
own. A user message that is not in the sample's input is the harness's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trajmill.connectors.benches.inspect_log.sample import SHELLS, Attachments, Times, content, objects, observation
from trajmill.connectors.conversation import search_tools
from trajmill.connectors.conversation.content import media_type
from trajmill.connectors.conversation.items import Items
from trajmill.connectors.conversation.steps import course
from trajmill.connectors.conversation.turns import Call, Said, Turn
from trajmill.connectors.conversation.wrapped_output import limit_of
from trajmill.connectors.reading.fields import join_paragraphs, plain_text, text_of
from trajmill.connectors.reading.json_text import is_shallow
from trajmill.connectors.reading.values import JsonError, json_value
from trajmill.schemas import Observation, Step, Steps

_TURN_BYTES: Final = 2048
"""Approximate memory of a turn without the answers to its calls, in bytes."""


@dataclass(slots=True)
class Course:
    """Turns and messages of a conversation, built message by message.

    Attributes:
        unmatched: ids of tool results without a call.
        acted: whether the agent has made a call or sent a message.
    """

    held: Attachments
    times: Times
    renamed: bool
    place: Callable[[str], int]
    items: Items = field(default_factory=Items)
    system: list[str] = field(default_factory=list)
    instruction: str | None = None
    unmatched: list[str] = field(default_factory=list)
    acted: bool = False

    def take(self, conversation: Sequence[Mapping[str, Any]]) -> Steps | list[Step]:
        """Return the steps of a whole conversation."""
        index = 0
        while index < len(conversation):
            message = conversation[index]
            index += 1
            results = []
            while index < len(conversation) and conversation[index].get("role") == "tool":
                results.append(conversation[index])
                index += 1
            if message.get("role") == "assistant":
                self._agent(message, results)
            else:
                self._other(message)
                self.unmatched += [plain_text(result.get("tool_call_id"))[:80] for result in results]
        return course(self.items, instructed=True).steps

    def _other(self, message: Mapping[str, Any]) -> None:
        role, text = message.get("role"), content(message, self.held).text
        if text is None:
            return
        if role == "system" and not self.acted:
            self.system.append(text)
        elif role == "user" and self.instruction is None and not self.acted:
            self.instruction = text
        else:
            speaker = "user" if role == "user" and message.get("source") in ("input", "operator") else "harness"
            self.items.append(Said(speaker, text, answers=role == "user"))

    def _agent(self, message: Mapping[str, Any], results: list[Mapping[str, Any]]) -> None:
        parsed = content(message, self.held)
        spoken, thought = parsed.text, join_paragraphs([text for text in parsed.reasoning if text])
        calls = [item for item in objects(message.get("tool_calls")) if text_of(item.get("function"))]
        for use in parsed.uses:
            name = text_of(use.get("name")) or text_of(use.get("tool_type")) or ""
            result_text = text_of(use.get("result"))
            seen = self.held.text(result_text) if result_text else None
            shown = None if seen is None else Observation(seen, media_type(seen))
            call = self._call(name, _parse_arguments(use.get("arguments")), text_of(use.get("id")), shown)
            call.reasoning, thought = thought, None
            self._turn([call])
        if calls:
            answers = _pair_results(calls, results, self.unmatched)
            rows = []
            for item, answer in zip(calls, answers, strict=True):
                shown, ended = observation(answer, item["function"], self.held) if answer is not None else (None, None)
                call = self._call(item["function"], item.get("arguments"), text_of(item.get("id")), shown)
                if ended is not None:
                    call.ends(ended)
                rows.append(call)
            rows[0].message, rows[0].reasoning = spoken, thought
            self._turn(rows)
        else:
            self.unmatched += [plain_text(result.get("tool_call_id"))[:80] for result in results]
            if spoken is not None:
                self._append(Turn(self.place(""), texts=[spoken], thoughts=[thought] if thought else []))

    def _call(self, name: str, arguments: Any, call_id: str | None, shown: Observation | None) -> Call:
        values = self.held.value(arguments) if is_shallow(arguments) else None
        call = search_tools.call(name, values, call_id)
        if not self.renamed:
            call.name, call.text = name, None
        call.shown = shown
        if name in SHELLS and isinstance(values, dict):
            call.limit = limit_of(values.get("timeout"))
        call.at, call.seconds = self.times.by_id.get(call_id or "", (None, None))
        return call

    def _turn(self, calls: list[Call]) -> None:
        for call in calls:
            call.offset = self.place(call.call_id or "")
        self._append(Turn(calls[0].offset, calls=calls))

    def _append(self, turn: Turn) -> None:
        self.items.append(turn)
        self.items.grow(_TURN_BYTES + sum(len((item.shown and item.shown.content) or "") for item in turn.calls))
        self.acted = True


def _parse_arguments(value: Any) -> Any:
    """Parse arguments that a provider wrote as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json_value(value)
    except JsonError:
        return value or None


def _pair_results(
    calls: Sequence[dict[str, Any]], results: list[Mapping[str, Any]], unmatched: list[str]
) -> list[Mapping[str, Any] | None]:
    """Return the result of each call: by id, then those without one in order; other ids go to `unmatched`."""
    answers: list[Mapping[str, Any] | None] = [None] * len(calls)
    for result in results:
        key = text_of(result.get("tool_call_id"))
        free = [index for index, answer in enumerate(answers) if answer is None]
        same = [index for index in free if key is None or calls[index].get("id") == key]
        if same:
            answers[same[0]] = result
        else:
            unmatched.append(str(key)[:80])
    return answers
