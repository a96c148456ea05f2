r"""Rows that are steps on a screen, each with the screen before it as text: WebLINX and OS-Genesis.

>>> show(StepRows(), r'''
... [{"demo": "d1", "turn": 3, "action": "click(uid=\"b7\")", "action_history": "No previous action",
...   "utterances": "[00:05] Open the cart", "clean_html": "(html(body(button data-webtasks-id=\"b7\" Cart)))"},
...  {"demo": "d1", "turn": 5, "action": "say(speaker=\"navigator\", utterance=\"It is open\")",
...   "action_history": "</s><s>[INST] click(uid=\"b7\")", "clean_html": "(html(body(h1 Cart)))"}]
... ''')
before  | (html(body(button data-webtasks-id="b7" Cart)))
action  | {"name": "click", "arguments": {"element": "b7"}}
after   | (html(body(h1 Cart)))
action  | {"name": "message", "arguments": {"content": "It is open"}}
after   | (not in the log)

Adjacent rows of one course (`demo`; the `id` without its number) are a trajectory. The next observation of an action is
the screen of the next row if there was no action in between: their numbers are consecutive, or, in WebLINX, which
leaves out turns, the next row's `action_history` ends with the action. A row of OS-Genesis is a sample for training,
whose prompt holds the accessibility tree; its pictures are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, ClassVar, Final, NamedTuple

from trajmill.connectors.android import action as phone
from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.published.inside_row import Made
from trajmill.connectors.reading.documents import head_rows, json_rows
from trajmill.connectors.reading.fields import object_of, objects_of, str_of, text_in, whole_number_of
from trajmill.connectors.reading.json_text import parse_if_json
from trajmill.connectors.reading.own_arguments import own_arguments
from trajmill.connectors.reading.values import object_or_none
from trajmill.connectors.screens.moves import Moves
from trajmill.connectors.web import action as page
from trajmill.schemas import COMPLETE, MESSAGE, Action, Observation, ParseError, Reject, Task, Trajectory, call_text

_WEBLINX: Final = frozenset({"demo", "turn", "action", "clean_html"})
_CALL: Final = re.compile(r"\s*(\w{1,40})\((.*)\)\s*\Z", re.DOTALL)
_ARGUMENT: Final = re.compile(r"(\w{1,40})=(.*?)(?=,\s*\w{1,40}=|\Z)", re.DOTALL)
_TURN: Final = re.compile(r"</?s>|\[/?INST\]")
_PAGES: Final = {
    "click": page.CLICK,
    "text_input": page.TYPE,
    "textInput": page.TYPE,
    "change": page.SELECT_OPTION,
    "load": page.GOTO,
    "scroll": page.SCROLL,
    "say": MESSAGE,
    "tabcreate": page.TAB_NEW,
    "tabswitch": page.TAB_SELECT,
    "tabremove": page.TAB_CLOSE,
}
_RENAMED: Final = {"uid": "element", "utterance": "content", "value": "options", "app_name": "app"}

_PROMPT: Final = re.compile(
    r"You are a GUI task expert\b.*?High-level instruction:\s*(?P<task>.*?)\s*Action history:.*?"
    r"Accessibility tree:\s*(?P<tree>.*?)\s*Please generate\b",
    re.DOTALL,
)
_REPLY: Final = re.compile(r"\s*Low-level thought:\s*(.*?)\s*\b[Aa]ction:\s*(.*?)\s*\Z", re.DOTALL)
_STEP: Final = re.compile(r"(.+)_(\d{1,6})\Z", re.DOTALL)
_PHONE: Final = {
    "navigate_back": (phone.PRESS, {"key": "back"}),
    "navigate_home": (phone.PRESS, {"key": "home"}),
    "keyboard_enter": (phone.PRESS, {"key": "enter"}),
    "status": (COMPLETE, {}),
    "answer": (MESSAGE, {}),
}


class _Row(NamedTuple):
    """A step: its course, its number there, the screen before it, its action, and its task.

    `history` holds the actions before it, the last at the end, if the row states them.
    """

    course: str
    number: int
    screen: str
    action: Action
    domain: str
    task: str | None
    written: str = ""
    history: str = ""


class StepRows(Connector):
    """Rows with steps on screens."""

    name: ClassVar[str] = "step_rows"
    version: ClassVar[str] = "1"
    domains: ClassVar[tuple[str, ...]] = ("web", "android")
    title: ClassVar[str] = "rows that are steps on screens as text (WebLINX, OS-Genesis; JSONL, JSON)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        first = next(iter(head_rows(head)), {})
        if first.keys() >= _WEBLINX:
            return Sniff(0.9, "rows with demo, turn, action and clean_html, as WebLINX has them")
        is_sample = isinstance(first.get("id"), str) and _PROMPT.search(_message_text(first, 0)) is not None
        return Sniff(0.9, "rows with prompts of OS-Genesis") if is_sample else None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        empty = True
        read = ((offset, _read(row)) for offset, row in json_rows(blob))
        for _, steps in groupby(read, lambda pair: pair[1].course if isinstance(pair[1], _Row) else ""):
            for result in self._course(blob, list(steps)):
                empty = empty and isinstance(result, Reject)
                yield result
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no row is a step on a screen")

    def _course(self, blob: Blob, entries: list[tuple[int, _Row | ParseError | None]]) -> Made:
        moves = Moves()
        rows = [(offset, row) for offset, row in entries if isinstance(row, _Row)]
        for offset, fault in entries:
            if isinstance(fault, ParseError):
                yield Reject.of(fault, "record", self.name)
            elif fault is None:
                detail = "wanted a row of WebLINX or OS-Genesis with a screen and an action"
                yield Reject("record", "bad_record", detail, blob.uri, offset=offset, connector=self.name)
        screens = [Observation(row.screen, "text/plain", "screen") for _, row in rows]
        for position, (offset, row) in enumerate(rows):
            led = position + 1 < len(rows) and _is_followed_by(row, rows[position + 1][1])
            moves.add(row.action, screens[position], screens[position + 1] if led else None, offset)
        if rows:
            first = rows[0][1]
            yield Trajectory(first.course, first.domain, moves.steps, task=Task(None, first.task))


def _is_followed_by(row: _Row, later: _Row) -> bool:
    """Check that there was no action between two rows."""
    if later.number == row.number + 1:
        return True
    turns = [turn for turn in map(str.strip, _TURN.split(later.history)) if turn]
    done = [turn for turn in turns if not turn.startswith('say(speaker="instructor"')]
    return bool(done) and done[-1] == row.written


def _read(value: Any) -> _Row | ParseError | None:
    """Return the step of a row; None if the row is no step."""
    if isinstance(value, ParseError):
        return value
    row = object_of(value)
    return _of_weblinx(row) if "demo" in row else _of_genesis(row)


def _of_weblinx(row: Mapping[str, Any]) -> _Row | None:
    demo, turn, screen = text_in(row, "demo"), whole_number_of(row.get("turn")), text_in(row, "clean_html")
    written = str_of(row.get("action")).strip()
    called = _CALL.match(written)
    if demo is None or turn is None or screen is None or called is None:
        return None
    own = {name: _plain(value.strip()) for name, value in _ARGUMENT.findall(called[2])}
    common: dict[str, Any] = {_RENAMED.get(name, name): value for name, value in own.items() if name != "speaker"}
    if "options" in common:
        common["options"] = [common["options"]]
    name = _PAGES.get(called[1], called[1])
    action = Action(name, call_text(name, common), own_arguments(own))
    history = str_of(row.get("action_history"))
    return _Row(demo, turn, screen, action, "web", text_in(row, "utterances"), written, history)


def _plain(written: str) -> str | int:
    if written[:1] == written[-1:] == '"' and len(written) > 1:
        return written[1:-1]
    return int(written) if re.fullmatch(r"-?\d{1,9}", written) else written


def _of_genesis(row: Mapping[str, Any]) -> _Row | None:
    step_id, asked = _STEP.match(str_of(row.get("id"))), _PROMPT.search(_message_text(row, 0))
    reply = _REPLY.match(_message_text(row, 1))
    if step_id is None or asked is None or reply is None or not asked["tree"]:
        return None
    reply_action = object_or_none(reply[2])
    word = text_in(reply_action, "action_type")
    if reply_action is None or word is None:
        name, text = reply[2].partition(" ")[0].strip("`"), reply[2].strip("` \n")
        action = Action(name or "act", text or reply[2], reasoning=reply[1] or None)
        return _Row(step_id[1], int(step_id[2]), asked["tree"], action, "web", asked["task"] or None)
    own = {key: value for key, value in reply_action.items() if key != "action_type" and value is not None}
    name, more = _PHONE.get(word, (word, {}))
    common = {_RENAMED.get(key, key): value for key, value in own.items()}
    if name == MESSAGE:
        common = {"content": common.get("text")}
    action = Action(name, call_text(name, {**common, **more}), own_arguments(own), reasoning=reply[1] or None)
    return _Row(step_id[1], int(step_id[2]), asked["tree"], action, "android", asked["task"] or None)


def _message_text(row: Mapping[str, Any], number: int) -> str:
    """Return the text of a message of a sample."""
    messages = objects_of(parse_if_json(row.get("conversations")))
    return str_of(messages[number].get("value")) if len(messages) > number else ""
