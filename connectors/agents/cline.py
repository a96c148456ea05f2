r"""Cline and Roo tasks (`api_conversation_history.json`): messages whose calls are native blocks or XML in the text.

>>> show(Cline(), r'''
... [{"role": "user", "content": [{"type": "text", "text": "<task>\nWhich files are there?\n</task>"}]},
...  {"role": "assistant", "content": [{"type": "text", "text": "<list_files>\n<path>.</path>\n</list_files>"}]},
...  {"role": "user", "content": [{"type": "text", "text": "[list_files for '.'] Result:"},
...      {"type": "text", "text": "notes.txt"}]}]
... ''')
action  | {"name": "list_files", "arguments": {"path": "."}}
after   | notes.txt

Only tools that the clients have are calls in a text, and the head of an answer, `[tool for 'what'] Result:`, tells
which call it answers. A tool that speaks to the user (`attempt_completion`, `ask_followup_question`,
`plan_mode_respond`) is what the agent says, and what the user says to it the reply. Details of the environment,
reminders and whatever else the client put in are the harness's words. What the client showed meanwhile stands in
`ui_messages.json` beside it, and is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from trajmill.connectors.agents.agent_session import ended
from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation.calls import MessageError, call
from trajmill.connectors.conversation.content import shown
from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.refusals import refused, unmatched
from trajmill.connectors.conversation.shapes import parts, spoken
from trajmill.connectors.conversation.steps import mark_dangling
from trajmill.connectors.conversation.tools import MCP_PREFIX, domain_of
from trajmill.connectors.conversation.turns import Call, Part, Result, Said, Text
from trajmill.connectors.reading.documents import json_document, opening
from trajmill.connectors.reading.fields import object_of, objects_of, str_of, text_in
from trajmill.connectors.reading.places import places_by_beginning
from trajmill.schemas import Agent, ParseError, Reject, Task, Trajectory

_SPEAKS: Final = {"attempt_completion": "result", "ask_followup_question": "question", "plan_mode_respond": "response"}
_ACTS: Final = (
    "execute_command read_command_output read_file write_to_file replace_in_file apply_diff insert_content "
    "search_and_replace edit_file apply_patch search_files list_files list_code_definition_names codebase_search "
    "browser_action use_mcp_tool access_mcp_resource load_mcp_documentation web_fetch web_search new_task condense "
    "new_rule switch_mode use_skill fetch_instructions update_todo_list generate_image"
)
_TOOLS: Final = frozenset({*_SPEAKS, *_ACTS.split()})
_LONG: Final = frozenset({"content", "diff", "args", "arguments", "result", "patch"})
"""Parameters that may hold what looks like tags; they end where their last closing tag stands."""

_OPEN: Final = re.compile(r"<(" + "|".join(sorted(_TOOLS)) + r")>\s*(?=<)")
_PARAMETER: Final = re.compile(r"<([a-z_]{2,40})>")
_HEAD: Final = re.compile(r"\[(\w{2,60})(?: (?:for|to|in|from|on) .*?)?\] Result:\n*", re.DOTALL)
_SAYS: Final = re.compile(r"<(task|feedback|answer|user_message)>\s*(.*?)\s*</\1>", re.DOTALL)
_CLIENT: Final = re.compile(
    r"\s*(?:<environment_details>|# (?:task_progress|todo list)\b|\[[A-Z ]{4,40}\])", re.IGNORECASE
)
_RAN: Final = re.compile(
    r"\A\s*Command executed(?: in terminal[^\n]*?)?\.(?: Exit code: (-?\d{1,9}))?\n+(?:Output:\n)?"
)
_FAILED: Final = re.compile(
    r"\AThe tool execution failed with the following error:\n<error>\n(.*)\n</error>\s*\Z", re.DOTALL
)


class Cline(Connector):
    """Conversations of Cline, and of Roo, which came out of it."""

    name: ClassVar[str] = "cline"
    version: ClassVar[str] = "1"
    domains: ClassVar[tuple[str, ...]] = ("terminal", "mcp", "search")
    title: ClassVar[str] = "Cline or Roo task (JSON)"
    companions = re.compile(
        r"ui_messages\.json|task_metadata\.json|history_item\.json|focus_chain_[^/]*|context_history\.json"
    )

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        found = opening(head)
        listed = found.values[0] if found is not None and not found.lines else None
        for message in objects_of(listed)[:1]:
            for block in objects_of(message.get("content")) if message.get("role") == "user" else ():
                text = str_of(block.get("text"))
                if text.startswith("<task>") or "<environment_details>" in text:
                    return Sniff(0.95, "a list of messages that begins with a task of Cline")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        value, data = json_document(blob)
        if not isinstance(value, list):
            raise ParseError(blob.uri, 0, "bad_session", "wanted a list of messages")
        reading = _Reading()
        found: list[Part] = []
        for message, offset in zip(value, places_by_beginning(data, value), strict=True):
            try:
                found += list(reading.message(object_of(message), offset))
            except MessageError as error:
                yield refused(blob, self.name, offset, error.reason, error.detail)
                return
        made = conversation(found)
        yield from (unmatched(blob.uri, self.name, one) for one in made.unmatched)
        for offset, tool in reading.lost:
            detail = f"no open call of the conversation is one of {tool:.80}"
            yield Reject("record", "result_without_call", detail, blob.uri, offset=offset, connector=self.name)
        if not made.calls:
            raise ParseError(blob.uri, -1, "no_transitions", "no message of the task holds a call")
        mark_dangling(made.steps)
        names = (step.action.name for step in made.steps)
        yield Trajectory(
            native_id="task",
            domain=domain_of(names, "terminal", frozenset({"update_todo_list"})),
            steps=made.steps,
            agent=Agent("cline"),
            task=Task(instruction=made.instruction),
        )


class _Reading:
    """Messages as parts.

    Attributes:
        lost: offset and tool of each answer that no open call has.
    """

    def __init__(self) -> None:
        self.lost: list[tuple[int, str]] = []
        self._waiting: list[tuple[str, str]] = []
        self._spoken: set[str] = set()

    def message(self, message: dict[str, Any], offset: int) -> Iterator[Part]:
        role, content = message.get("role"), message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if role == "assistant":
            self._waiting = []
            for block in objects_of(blocks):
                kind, text = block.get("type"), text_in(block, "text")
                if kind == "text":
                    yield from self._written(text or "", offset)
                elif kind == "tool_use":
                    yield self._called(
                        str_of(block.get("name")), object_of(block.get("input")), block.get("id"), offset
                    )
                else:
                    yield from parts({"role": role, "content": [block]}, offset)
        elif role == "user":
            yield from self._heard(objects_of(blocks), offset)
        else:
            raise MessageError("unknown_role", "wanted a message of the user or the assistant")

    def _written(self, text: str, offset: int) -> Iterator[Part]:
        """What a text says, and the calls in it."""
        while (opened := _OPEN.search(text)) is not None:
            name = opened[1]
            parameter = _PARAMETER.match(text, opened.end())
            is_long = parameter is not None and (name not in ("read_file", "execute_command"))
            closing = f"</{name}>"
            end = text.rfind(closing, opened.end()) if is_long else text.find(closing, opened.end())
            if end < 0:
                break
            yield from spoken(text[: opened.start()].strip(), offset, None)
            yield self._called(name, _parameters(text[opened.end() : end]), None, offset)
            text = text[end + len(closing) :]
        yield from spoken(text.strip(), offset, None)

    def _called(self, tool: str, given: dict[str, Any], key: Any, offset: int) -> Call | Text:
        if tool in _SPEAKS:
            self._spoken.add(str_of(key))
            return Text(str_of(given.get(_SPEAKS[tool])) or tool, offset)
        name = tool
        arguments: Any = given
        if tool == "use_mcp_tool":
            name = f"{MCP_PREFIX}{str_of(given.get('server_name'))}__{str_of(given.get('tool_name'))}"
            arguments = given.get("arguments")
        if key is None:
            self._waiting.append((tool, name))
        return call(name, arguments, key, offset)

    def _heard(self, blocks: list[dict[str, Any]], offset: int) -> Iterator[Part]:
        """What a message of the user holds: answers, and what user and client said."""
        answer: tuple[str, list[dict[str, Any]]] | None = None
        for block in blocks:
            text = str_of(block.get("text"))
            head = _HEAD.match(text)
            if block.get("type") == "tool_result":
                key, seen = str_of(block.get("tool_use_id")), shown(block.get("content"))
                if key in self._spoken:
                    yield from _said(seen.text or "")
                else:
                    body, error, code = _outcome(seen.text)
                    failed = error or block.get("is_error") is True or None
                    yield Result(key or None, None, body, offset, failed, seen.attachments, None, code)
            elif head is not None:
                yield from self._answered(answer, offset)
                rest = text[head.end() :]
                answer = head[1], [{"type": "text", "text": rest}] if rest else []
            elif _CLIENT.match(text):
                yield from self._answered(answer, offset)
                answer = None
                yield Said("harness", text)
            elif answer is not None:
                answer[1].append(block)
            else:
                yield from _said(text)
        yield from self._answered(answer, offset)

    def _answered(self, answer: tuple[str, list[dict[str, Any]]] | None, offset: int) -> Iterator[Part]:
        if answer is None:
            return
        tool, blocks = answer
        seen = shown(blocks)
        if tool in _SPEAKS:
            yield from _said(seen.text or "")
            return
        one = next((one for one in self._waiting if one[0] == tool), None)
        if one is None:
            self.lost.append((offset, tool))
            return
        self._waiting.remove(one)
        body, error, code = _outcome(seen.text or "")
        yield Result(None, one[1], body, offset, error, seen.attachments, None, code)


def _outcome(text: str | None) -> tuple[str | None, bool | None, int | None]:
    """The text of an answer, whether it is an error, and the exit code of its command, without the client's words."""
    failed = _FAILED.match(text or "")
    if failed is not None:
        return failed[1], True, None
    body, code = ended(text, _RAN)
    return body, None, code


def _said(text: str) -> Iterator[Said]:
    """What user and client say in a text: what stands in the user's tags is the user's, and so is one without any."""
    said = list(_SAYS.finditer(text))
    place = 0
    for one in said:
        if before := text[place : one.start()].strip():
            yield Said("harness", before)
        yield Said("user", one[2])
        place = one.end()
    if rest := text[place:].strip():
        yield Said("harness" if said else "user", rest)


def _parameters(body: str) -> dict[str, Any]:
    """The parameters of a call in XML."""
    found: dict[str, Any] = {}
    place = 0
    while (opened := _PARAMETER.search(body, place)) is not None:
        closing = f"</{opened[1]}>"
        is_long = opened[1] in _LONG
        end = body.rfind(closing, opened.end()) if is_long else body.find(closing, opened.end())
        end = len(body) if end < 0 else end
        found[opened[1]] = body[opened.end() : end].removeprefix("\n").removesuffix("\n")
        place = end + len(closing)
    return found
