r"""Sessions of Google's Antigravity (`~/.gemini/antigravity*/brain/<id>/…/transcript.jsonl`), one step a line.

>>> show(Antigravity(), '''
... {"step_index": 1, "source": "MODEL", "type": "PLANNER_RESPONSE", "tool_calls": [ \
...     {"name": "run_command", "args": {"CommandLine": "\\"ls\\""}}]}
... {"step_index": 2, "source": "MODEL", "type": "RUN_COMMAND", "content": "notes.txt"}
... ''')
action  | {"name": "run_command", "arguments": {"CommandLine": "ls"}}
after   | notes.txt

A result does not name its call. It is assigned to the first open call of the preceding response whose tool gives
results of that type; without such a call it is rejected. An error message answers the only open call. Older clients
write each argument as JSON text. A step lists the fields that the client cut when it wrote the transcript: a result
with cut content is marked as lost in part, and a cut response is kept with its marks of what is missing. Text that the
client added to a request and messages of the client belong to the harness. Time stamps at the head of a result are
left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from trajmill.connectors.agents.agent_session import AgentSession, Facts
from trajmill.connectors.agents.event_stream import head_events
from trajmill.connectors.connector import Sniff
from trajmill.connectors.conversation.calls import MessageError, call
from trajmill.connectors.conversation.turns import Part, Result, Said, Text, Thought, Unlogged
from trajmill.connectors.reading.fields import INT32, object_of, objects_of, str_of, text_in, whole_number_of
from trajmill.connectors.reading.times import moment
from trajmill.connectors.reading.values import JsonError, json_value

_HARNESS: Final = frozenset({"SYSTEM_MESSAGE", "EPHEMERAL_MESSAGE", "CHECKPOINT", "ERROR_MESSAGE"})
_IGNORED: Final = frozenset({"CONVERSATION_HISTORY", "KNOWLEDGE_ARTIFACTS", "TASK_BOUNDARY"})
_TAG: Final = re.compile(r"<(USER_REQUEST|ADDITIONAL_METADATA|USER_SETTINGS_CHANGE)>\s*(.*?)\s*(?:</\1>|\Z)", re.DOTALL)
_CUT: Final = re.compile(r"(\\*)(\n<truncated \d{1,12} bytes>)\Z")
"""Mark behind an argument that the client cut, with the beginning of an escape before it."""

_TIME_STAMPS: Final = re.compile(r"\ACreated At: [^\n]*\n(?:Completed At: [^\n]*\n)?")
_TOOLS: Final = {
    "RUN_COMMAND": ("run_command",),
    "COMMAND_STATUS": ("command_status",),
    "SEND_COMMAND_INPUT": ("send_command_input",),
    "VIEW_FILE": ("view_file",),
    "LIST_DIRECTORY": ("list_dir",),
    "GREP_SEARCH": ("grep_search",),
    "FIND": ("find_by_name",),
    "CODE_ACTION": ("write_to_file", "write_file", "replace_file_content", "multi_replace_file_content"),
    "SEARCH_WEB": ("search_web",),
    "READ_URL_CONTENT": ("read_url_content",),
    "GENERATE_IMAGE": ("generate_image",),
    "BROWSER_SUBAGENT": ("browser_subagent",),
}
"""Type of a result → tools that give it. Results of other tools have the type GENERIC or a type of their own."""

_TYPED_TOOLS: Final = frozenset(name for names in _TOOLS.values() for name in names)


class Antigravity(AgentSession):
    """Transcripts of Google's Antigravity, from the editor and from its command line client."""

    name: ClassVar[str] = "antigravity"
    version: ClassVar[str] = "4"
    title: ClassVar[str] = "Antigravity transcript (JSONL)"
    agent = "antigravity"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        for number, line in head_events(head, 8):
            if type(line.get("step_index")) is int and isinstance(line.get("type"), str) and "source" in line:
                return Sniff(0.95, f"line {number} is a step of an Antigravity transcript")
        return None

    def parts(self, line: dict[str, Any], offset: int, facts: Facts) -> Iterator[Part] | None:
        return self._parts(line, offset, facts) if isinstance(line.get("type"), str) else None

    def _parts(self, line: dict[str, Any], offset: int, facts: Facts) -> Iterator[Part]:
        kind, text, at = line["type"], str_of(line.get("content")), moment(line.get("created_at"))
        if kind == "USER_INPUT":
            tagged_texts = [(match[1], match[2]) for match in _TAG.finditer(text)] or [("USER_REQUEST", text)]
            for tag, content in tagged_texts:
                yield Said("user" if tag == "USER_REQUEST" else "harness", content, at=at)
        elif kind == "PLANNER_RESPONSE":
            if facts.waiting:
                yield Unlogged(offset)
            facts.waiting = [str_of(request.get("name")) for request in objects_of(line.get("tool_calls"))]
            if thought := text_in(line, "thinking"):
                yield Thought(thought, offset, at)
            if text.strip():
                yield Text(text, offset, at)
            for request in objects_of(line.get("tool_calls")):
                yield call(
                    request.get("name"), _arguments(object_of(request.get("args"))), request.get("id"), offset, at
                )
        elif kind == "ERROR_MESSAGE" and len(facts.waiting) == 1:
            error = _TIME_STAMPS.sub("", text) or str_of(line.get("error"))
            yield Result(None, facts.waiting.pop(), error, offset, True, at=at)
        elif kind in _HARNESS:
            yield Said("harness", _TIME_STAMPS.sub("", text))
        elif kind not in _IGNORED:
            tools = _TOOLS.get(kind)
            fits = (tool for tool in facts.waiting if (tool in tools if tools else tool not in _TYPED_TOOLS))
            name = next(fits, None)
            if name is None:
                raise MessageError("result_without_call", f"no open call gives an answer of type {kind:.80}")
            facts.waiting.remove(name)
            is_cut = "content" in (line.get("truncated_fields") or ())
            code = whole_number_of(line.get("exit_code"), INT32)
            failed = True if line.get("status") == "ERROR" else None
            yield Result(None, name, _TIME_STAMPS.sub("", text), offset, failed, at=at, exit_code=code, lost=is_cut)


def _arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Decode the arguments of a call if all of them are JSON text, as older clients write them."""
    try:
        return {key: _decode(value) if isinstance(value, str) else json_value("") for key, value in arguments.items()}
    except JsonError:
        return arguments


def _decode(text: str) -> Any:
    """Decode an argument. Of a text that was cut, decode what stands before the mark; keep another value as it is."""
    cut = _CUT.search(text)
    if cut is None:
        return json_value(text)
    if not text.startswith('"'):
        return text
    return str_of(json_value(f'{text[: cut.end(1) - len(cut[1]) % 2]}"')) + cut[2]
