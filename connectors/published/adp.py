"""Standardized rows of the Agent Data Protocol (ADP, arXiv 2510.24702), versions 1.0 to 1.2, and its rows in ATIF.

>>> show(Adp(), '''
... [{"schema_version": "1.2.0", "id": "notes-1", "details": {}, "content": [
...   {"class_": "text_observation", "source": "user", "content": "Count the lines of notes.txt."},
...   {"class_": "code_action", "language": "bash", "content": "wc -l notes.txt", "tool_call_id": "call_000000"},
...   {"class_": "text_observation", "source": "system", "content": "3 notes.txt", "tool_call_id": "call_000000"}]}]
... ''')
action  | {"name": "bash", "arguments": {"command": "wc -l notes.txt"}}
after   | 3 notes.txt

A row is a trajectory: `id`, `content` and `details`. `content` is a list of actions (`api_action`, `code_action`,
`message_action`) and observations (`text_observation`, `web_observation`, `image_observation`), distinguished by
`class_`. Since 1.1, calls and answers are linked by `tool_call_id`. Later exports hold ATIF documents instead, one per
row, which `atif` reads. Files are JSON Lines or a JSON array; in Parquet, `table` reads the same rows.

A shell line (`code_action` of a shell) is a call of `bash`; other code is a call of its language with `code`. A
`description` is the agent's message with the call, as in ADP's own exporters. Calls without an observation in between
are one turn. Without links, the observations after a turn answer its calls in order; a single observation answers the
last call. In such a row, a user's message right after a call is also its answer, of origin `user`. A page is kept as
its accessibility tree, else as its HTML. Pictures are paths to files that a row does not hold, and are left out.
Conversations without a call are refused. The domain follows from the row's tools and pages, unless the recipe states
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final

from trajmill.connectors.agents.atif import Atif
from trajmill.connectors.connector import Blob, Connector, MemoryBlob, Sniff
from trajmill.connectors.conversation.calls import MessageError, call, json_of
from trajmill.connectors.conversation.content import media_type
from trajmill.connectors.conversation.refusals import reject_conversation
from trajmill.connectors.conversation.search_tools import searches
from trajmill.connectors.conversation.steps import course
from trajmill.connectors.conversation.turns import Call, Item, Said, Turn
from trajmill.connectors.published.cells import number, text
from trajmill.connectors.published.inside_row import place_at_row
from trajmill.connectors.published.tables import Row, Table
from trajmill.connectors.reading.documents import head_rows, holds_rows
from trajmill.connectors.reading.fields import key_of, str_of
from trajmill.connectors.reading.json_text import parse_if_json, shallow_json
from trajmill.schemas import DOMAINS, MESSAGE, Context, Observation, ParseError, Reject, Task, Trajectory, json_text

_ACTIONS: Final = ("apiaction", "codeaction", "messageaction")
_SHELLS: Final = frozenset({"bash", "sh", "shell", "zsh", "terminal"})
_OWN: Final = frozenset({"finish", "think", "submit", "task_tracker", "request_condensation", MESSAGE})
_TERMINAL: Final = frozenset({"bash", "execute_bash", "run_shell_command", "python", "execute_ipython_cell", "ipython"})
_EDITORS: Final = frozenset(
    {"str_replace_editor", "str_replace_based_edit_tool", "edit_file", "edit", "create", "open", "find_file"}
    | {"search_dir", "search_file", "goto", "scroll_up", "scroll_down", "file_editor"}
)

_LEVELS: Final = 128
"""Deepest nesting of a tool's description."""

Made = Iterator[Trajectory | Reject]


class Adp(Connector):
    """Standardized trajectories of ADP."""

    name: ClassVar[str] = "adp"
    version: ClassVar[str] = "6"
    domains: ClassVar[tuple[str, ...]] = DOMAINS
    title: ClassVar[str] = "Agent Data Protocol, standardized rows (JSONL or JSON)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if b"class_" not in head and b'"steps"' not in head:
            return None
        rows = head_rows(head)
        first = rows[0] if rows else {}
        content, steps = parse_if_json(first.get("content")), parse_if_json(first.get("steps"))
        if isinstance(content, list) and content and _class(content[0]):
            return Sniff(0.95, "rows with an id and a content of actions and observations with class_")
        atif = str_of(first.get("schema_version")).upper().startswith("ATIF") and isinstance(steps, list)
        is_table = len(rows) > 1 or head.lstrip()[:1] == b"[" or isinstance(first.get("steps"), str)
        return Sniff(0.95, "rows that are ATIF documents") if atif and is_table else None

    def is_sliceable(self, blob: Blob) -> bool:
        return holds_rows(blob)

    def parse(self, blob: Blob) -> Made:
        empty = True
        for position, row in Table(blob).rows():
            if isinstance(row, ParseError):
                yield Reject.of(row, "record", self.name)
                continue
            for result in read_row(blob, self.name, position, row):
                empty = empty and isinstance(result, Reject)
                yield result
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no row holds an action with its answer")


def read_row(blob: Blob, name: str, position: int, row: Row) -> Made:
    """Yield the trajectory of a row and those of its sub-agents, or a reject that explains why there is none.

    Args:
        blob: the log that holds the row.
        row: the row as a JSON object; `content`, `steps` and `details` may be JSON text.
    """
    try:
        fields = {key: parse_if_json(value) for key, value in row.items()}
        if isinstance(fields.get("steps"), list):
            document = MemoryBlob(blob.uri, json_of(fields).encode("utf-8", "replace"), blob.choices)
            yield from place_at_row(Atif().parse(document), name, position)
            return
        yield _trajectory(blob, position, fields)
    except MessageError as error:
        yield reject_conversation(blob, name, position, error.reason, error.detail)


def _class(value: Any) -> str:
    """Return the kind of an element as one lower-case word, such as `apiaction`; empty if it is no element of ADP."""
    class_name = value.get("class_") if isinstance(value, dict) else None
    return _kind(class_name) if isinstance(class_name, str) else ""


@lru_cache(64)
def _kind(class_name: str) -> str:
    """Return the kind that a `class_` names; empty if it is no class of ADP."""
    word = class_name.replace("_", "").lower()
    return word if word in _ACTIONS or word.endswith("observation") else ""


class _Reading:
    """Reader of the elements of a row, in order, into turns and the items between them (`items`)."""

    def __init__(self, content: Sequence[Any]) -> None:
        self.items: list[Item] = []
        self.system: list[str] = []
        self.names: list[str] = []
        self.pages = False
        self.calls = 0
        self._linked = any(isinstance(element, dict) and element.get("tool_call_id") is not None for element in content)
        self._by_id: dict[str, list[Call]] = {}
        self._answered: set[int] = set()
        self._open: list[Call] = []
        self._shown: list[tuple[Observation, float | None]] = []
        self._acting = False
        for position, element in enumerate(content):
            kind = _class(element)
            if not kind:
                raise MessageError(
                    "bad_element", f"element {position} of content is no action and no observation of ADP"
                )
            if kind in _ACTIONS:
                self._act(kind, element)
            else:
                self._see(kind, element)
        self._settle()

    def _turn(self) -> Turn:
        turn = self.items[-1] if self._acting else None
        if not isinstance(turn, Turn):
            self._settle()
            turn = Turn(0)
            self.items.append(turn)
            self._acting = True
        return turn

    def _act(self, kind: str, element: Mapping[str, Any]) -> None:
        turn = self._turn()
        description, thought = text(element.get("description")), text(element.get("reasoning_content"))
        if thought:
            turn.thoughts.append(thought)
        if kind == "messageaction":
            content = text(element.get("content"))
            turn.texts += [each for each in (description, content) if each]
            return
        if description:
            turn.texts.append(description)
        added = _api_call(element) if kind == "apiaction" else _code(element)
        if (reward := number(element.get("reward"))) is not None:
            added.ending = (reward, None, None)
        turn.add(added)
        self.calls += 1
        self.names.append(added.name)
        self._open.append(added)
        if added.call_id is not None:
            self._by_id.setdefault(added.call_id, []).append(added)

    def _see(self, kind: str, element: Mapping[str, Any]) -> None:
        key, source = element.get("tool_call_id"), element.get("source")
        asked, waits = self._asked(key, element) if isinstance(key, str) else (None, False)
        if source in ("agent", "assistant") and asked is None:
            words = text(element.get("content"))
            self._turn().texts += [words] if words else []
            return
        self.pages = self.pages or kind == "webobservation"
        self._acting = False
        if asked is not None:
            if waits:
                self._answer(asked, _observation(kind, element, "environment"), number(element.get("reward")))
            self._open = [call_ for call_ in self._open if call_ is not asked]
        elif source == "user" and (self._linked or not self._open or self._shown):
            self._settle()
            self._say("user", element)
        elif source == "system" and not self.calls and not any(isinstance(item, Turn) for item in self.items):
            self.system += [words] if (words := text(element.get("content"))) else []
        elif self._linked and source == "system":
            self._say("harness", element)
        else:
            self._wait(kind, element)

    def _asked(self, key: str, element: Mapping[str, Any]) -> tuple[Call | None, bool]:
        """Return the call that an answer is linked to by its id, and True if that call had no answer yet.

        If all such calls are answered, return the call whose answer is repeated (or None), and False. If several calls
        share the id, the answer belongs to the first open one of the turn before it.
        """
        calls = self._by_id.get(key, [])
        near = (
            calls if len(calls) == 1 else [waiting_call for waiting_call in self._open if waiting_call.call_id == key]
        )
        for waiting_call in near:
            if id(waiting_call) not in self._answered:
                self._answered.add(id(waiting_call))
                return waiting_call, True
        content = element.get("content")
        return next(
            (
                waiting_call
                for waiting_call in calls
                if waiting_call.shown is not None and waiting_call.shown.content == content
            ),
            None,
        ), False

    def _wait(self, kind: str, element: Mapping[str, Any]) -> None:
        """Keep an observation without a link: how many follow a turn determines the calls that they answer."""
        seen = _observation(kind, element, "user" if element.get("source") == "user" else "environment")
        if seen is None:
            return
        if self._open:
            self._shown.append((seen, number(element.get("reward"))))
        else:
            self.items.append(seen)

    def _settle(self) -> None:
        """Assign the kept observations to the open calls; if there are fewer than calls, to the last calls."""
        calls, shown = self._open, self._shown
        if not calls and not shown:
            return
        self._open, self._shown = [], []
        if len(shown) < len(calls):
            calls = calls[-len(shown) :] if shown else []
        for open_call, (seen, reward) in zip(calls, shown, strict=False):
            self._answer(open_call, seen, reward)
        self.items += [seen for seen, _ in shown[len(calls) :]]

    def _answer(self, open_call: Call, seen: Observation | None, reward: float | None) -> None:
        open_call.shown = seen
        if open_call.ending[0] is None and reward is not None:
            open_call.ending = (reward, None, None)

    def _say(self, role: str, element: Mapping[str, Any]) -> None:
        words = text(element.get("content"))
        if words:
            self.items.append(Said(role, words))


def _api_call(element: Mapping[str, Any]) -> Call:
    parsed = call(element.get("function"), parse_if_json(element.get("kwargs")), element.get("tool_call_id"), 0)
    return Call(parsed.name, parsed.arguments, parsed.call_id, 0)


def _code(element: Mapping[str, Any]) -> Call:
    content, language = element.get("content"), element.get("language")
    if not isinstance(content, str):
        raise MessageError("bad_element", "wanted text as the content of a code_action")
    shell = not isinstance(language, str) or not language or language.lower() in _SHELLS
    name = "bash" if shell else str(language).lower()
    return Call(name, json_text({"command" if shell else "code": content}), key_of(element.get("tool_call_id")), 0)


def _observation(kind: str, element: Mapping[str, Any], origin: str) -> Observation | None:
    """Return the observation of an element; None if it only holds a picture that is stored elsewhere."""
    if kind == "webobservation":
        tree, html, url = text(element.get("axtree")), text(element.get("html")), text(element.get("url"))
        if tree is None and html is None:
            return None
        media = "text/plain" if tree is not None else "text/html"
        return Observation(tree or html, media, "screen", origin=origin, uri=url)
    if kind == "imageobservation":
        return None
    content = element.get("content")
    if content is None:
        return None
    shown = content if isinstance(content, str) else json_of(content)
    return Observation(shown, media_type(shown), "response", None, origin)


def _trajectory(blob: Blob, position: int, row: Mapping[str, Any]) -> Trajectory:
    content = row.get("content")
    if not isinstance(content, list):
        raise MessageError("no_content", "wanted a list `content` of actions and observations")
    reading = _Reading(content)
    if not reading.calls:
        raise MessageError("no_calls", "a conversation without a call")
    for item in reading.items:
        if isinstance(item, Turn):
            item.offset = position
            for item_call in item.calls:
                item_call.offset = position
    result = course(reading.items)
    tools = row.get("available_custom_tools") or row.get("available_apis")
    return Trajectory(
        native_id=text(row.get("id")) or "row",
        domain=blob.choices.rows.domain or _domain(reading),
        steps=result.steps,
        task=Task(None, result.instruction),
        context=Context(
            action_space=shallow_json(tools, _LEVELS) if isinstance(tools, list) else None,
            agent_system="\n\n".join(reading.system) or None,
        ),
        licence=text(row.get("license")),
    )


def _domain(reading: _Reading) -> str:
    """Return the domain suggested by the row's pages and tools."""
    used = set(reading.names) - _OWN
    if reading.pages:
        return "web"
    if used & _EDITORS:
        return "swe"
    if searches(used):
        return "search"
    return "terminal" if used and used <= _TERMINAL else "mcp"
