r"""Conversations of WebVoyager (`interact_messages.json`): labelled elements, screenshots, and `Action: Click [3]`.

>>> show(WebVoyager(), r'''
... [{"role": "user", "content":
...   "Observation: please analyze the accessibility tree and give the Thought and Action.\n[2] link 'Tomorrow'"},
...  {"role": "assistant", "content": "Thought: Tomorrow it is.\n\nAction: Click [2]"},
...  {"role": "user", "content":
...   "Observation: please analyze the accessibility tree and give the Thought and Action.\n[1] heading 'At 12:50'"}]
... ''')
before  | [2] link 'Tomorrow'
action  | {"name": "click", "arguments": {"element": 2}}
after   | [1] heading 'At 12:50'

A user message shows the page: a line of labelled elements (`[2]: <input> "Search";`), or an accessibility tree in runs
without pictures. The harness's request before it (`Observation: please analyze …`) is `interleaved`. WebVoyager removes
old pages from the conversation before it saves it (`A screenshot and some texts. (Omitted in context.)`). Such an
observation has only its screenshot, if the run's folder holds it, and is null otherwise. Screenshots
(`screenshot<n>.png`) are numbered by turn from 1; a turn in which the harness showed no page has none. The picture in a
message is a placeholder.

Actions are read as the harness reads them (`extract_information` in its `utils.py`): Click, Type, Scroll, Wait, GoBack,
Google, ANSWER; typed text is followed by enter. Numbers in them are labels of the page before. An answer of the harness
in place of a page (an action that could not be executed, an answer in the wrong form) is an observation of origin
harness.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.conversation.content import spoken_text
from trajmill.connectors.conversation.harness_text import Source, speaker
from trajmill.connectors.reading.attached import attachment_of_member
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.values import BOM
from trajmill.connectors.screens.moves import Moves
from trajmill.connectors.web import action as words
from trajmill.connectors.web import agent_action as act
from trajmill.schemas import (
    COMPLETE,
    WAIT,
    Action,
    Agent,
    Attachment,
    Context,
    Observation,
    ParseError,
    Reject,
    Task,
    Trajectory,
)

DIALECT: Final = "webvoyager"
_FILE: Final = re.compile(r"((?:.*/)?)interact_messages\.json")
_PICTURE: Final = re.compile(r"((?:.*/)?)screenshot([0-9]{1,6})\.png")
_SIGNS: Final = (b"Imagine you are a robot browsing the web", b"Now given a task:", b"Numerical Label")
_TASK: Final = re.compile(r"Now given a task:\s*(.*?)\s*(?=Observation:|\Z)", re.DOTALL)
_OMITTED: Final = re.compile(r"(?:A screenshot and some texts|An accessibility tree)\.?\s*\(Omitted in context\.?\)")
_LEAD: Final = re.compile(
    r"Observation:\s*.*?(?:refer to the textual information\.?|give the Thought and Action\.?)[ \t]*\n",
    re.DOTALL | re.IGNORECASE,
)
_CLIENT: Final = Source("webvoyager", None, "")
_COMMAND: Final = re.compile(r"Action:\s*(.*?)\s*(?=Thought:|Action:|Observation:|\Z)", re.DOTALL)
_CLICK: Final = re.compile(r"Click\s*\[?(\d+)\]?", re.IGNORECASE)
_TYPE: Final = re.compile(r"Type\s*\[?(\d+)\]?[; ]+\[?(.[^\]]*)\]?", re.IGNORECASE | re.DOTALL)
_SCROLL: Final = re.compile(r"Scroll\s*\[?(\d+|WINDOW)\]?[; ]+\[?(up|down)\]?", re.IGNORECASE)
_ANSWER: Final = re.compile(r"ANSWER[; ]+\[?(.*?)\]?\s*$", re.IGNORECASE | re.DOTALL)
WAIT_SECONDS: Final = 5
"""Seconds that WebVoyager waits (`run.py`)."""


class WebVoyager(Connector):
    """Conversations of WebVoyager."""

    name: ClassVar[str] = "webvoyager"
    version: ClassVar[str] = "3"
    domains: ClassVar[tuple[str, ...]] = ("web",)
    title: ClassVar[str] = "WebVoyager conversations (interact_messages.json, screenshots)"
    companions = re.compile(r"(?:screenshot|accessibility_tree)[^/]*\.(?:png|jpe?g|txt|json)|agent\.log|[^/]*\.pdf")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if not head.removeprefix(BOM).lstrip().startswith(b"["):
            return None
        count = sum(sign in head for sign in _SIGNS)
        if count >= 2 and b'"role"' in head:
            return Sniff(0.92, "messages with the instructions of WebVoyager")
        if _FILE.fullmatch(uri) and b'"role"' in head:
            return Sniff(0.6, "messages in a file named as WebVoyager names them")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each `interact_messages.json` with the screenshots beside it."""
        pictures: dict[str, list[str]] = {}
        for path in paths:
            if match := _PICTURE.fullmatch(path):
                pictures.setdefault(match[1], []).append(path)
        for path in paths:
            if (match := _FILE.fullmatch(path)) and match[1] in pictures:
                folder = match[1]
                members = {name[len(folder) :]: name for name in sorted([path, *pictures[folder]])}
                yield Log(folder.rstrip("/"), members, path[len(folder) :])

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        member = "" if "" in blob.members else "interact_messages.json"
        if member not in blob.members:
            raise ParseError(blob.uri, -1, "no_messages", "wanted interact_messages.json, met none")
        document, data = json_document(blob, member)
        if not isinstance(document, list):
            raise ParseError(blob.uri, 0, "bad_document", "wanted a list of messages", member)
        messages = [entry for entry in document if isinstance(entry, dict) and isinstance(entry.get("role"), str)]
        hits = [hit.start() for hit in re.finditer(rb'\{\s*"role"\s*:', data)]
        offsets = hits if len(hits) == len(messages) else [0] * len(messages)
        course = _Course(blob, member)
        for offset, message in zip(offsets, messages, strict=True):
            fault = course.take(offset, message)
            if fault is not None:
                yield Reject.of(fault, connector=self.name)
        moves = course.moves
        if not moves.steps:
            raise ParseError(blob.uri, -1, "no_transitions", "no message holds an action", member)
        if not moves.is_followed:
            detail = f"none of the {len(moves.steps)} actions is followed by a page"
            raise ParseError(blob.uri, moves.steps[0].offset, "no_observation", detail, member)
        yield Trajectory(
            native_id=blob.uri.rstrip("/").removesuffix("/interact_messages.json").rpartition("/")[2],
            domain="web",
            steps=moves.steps,
            agent=Agent(name="webvoyager"),
            task=Task(instruction=course.instruction),
            context=Context(agent_system=course.system),
        )


class _Course:
    """State after the messages so far: the actions, and the page for the next action."""

    def __init__(self, blob: Blob, member: str) -> None:
        self._blob, self._member = blob, member
        self.moves = Moves()
        self._page: Observation | None = None
        self._shown = 0
        self._open: Action | None = None
        self.instruction: str | None = None
        self.system: str | None = None

    def take(self, offset: int, message: dict[str, Any]) -> ParseError | None:
        """Process a message; return an error if it is an answer without an action."""
        text = spoken_text(message.get("content"))
        role = message["role"]
        if role == "system":
            self.system = self.system or text or None
        elif role == "user":
            self._user(text)
        elif role == "assistant":
            self._open = action = read_action(text)
            if action is None:
                detail = "wanted `Action:` with one of WebVoyager's actions"
                return ParseError(
                    self._blob.uri, offset, "no_action", detail, self._member, text.encode("utf-8", "replace")
                )
            done = True if action.name == COMPLETE else None
            self.moves.add(action, self._page, None, offset, self._member, terminated=done)
        return None

    def _user(self, text: str) -> None:
        task = _TASK.search(text)
        if task and self.instruction is None:
            self.instruction = task[1]
            text = text[task.end() :]
        self._shown += 1
        failed = speaker(text, _CLIENT) is not None and not _LEAD.match(text)
        if failed and self._open is None:
            self.moves.say(text)  # the answer before held no action, so the page stands as it was
            return
        if failed:
            seen: Observation | None = Observation(text, origin="harness", is_error=True)
        else:
            seen = self._seen(text)
        if self._open is not None and self._open.name != COMPLETE:
            self.moves.reach(seen)
        self._open, self._page = None, seen

    def _seen(self, text: str) -> Observation | None:
        """Return the page in a user message; None if it has neither a text nor a screenshot."""
        picture = f"screenshot{self._shown}.png"
        attachments: tuple[Attachment, ...] = ()
        if picture in self._blob.members:
            attachments = (attachment_of_member(self._blob, picture, "screenshot", "image/png"),)
        content: str | None = None
        if not _OMITTED.search(text):
            lead = _LEAD.match(text)
            if lead:
                self.moves.say(lead[0].strip())
                text = text[lead.end() :]
            content = text.strip() or None
        if content is None and not attachments:
            return None
        return Observation(content, form="screen", dialect=DIALECT, attachments=attachments)


def read_action(text: str) -> Action | None:
    """Return the action in an answer of WebVoyager; None if there is none.

    WebVoyager executes only the first action; pages and actions that the model wrote after it are imagined.
    """
    for match in _COMMAND.finditer(text):
        reasoning = text[: match.start()].strip().removeprefix("Thought:").strip() or None
        if (action := _read_command(match[1].lstrip("*` "), reasoning)) is not None:
            return action
    return None


def _read_command(command: str, reasoning: str | None) -> Action | None:
    if hit := _TYPE.match(command):
        typed = hit[2].rstrip()
        common: dict[str, Any] = {"element": int(hit[1]), "text": typed, "enter": True}
        return act.call(words.FILL, common, {"label": int(hit[1]), "content": typed}, reasoning)
    if hit := _CLICK.match(command):
        return act.call(words.CLICK, {"element": int(hit[1])}, {"label": int(hit[1])}, reasoning)
    if hit := _SCROLL.match(command):
        window = hit[1].upper() == "WINDOW"
        common = {"direction": hit[2].lower(), "element": None if window else int(hit[1])}
        return act.call(words.SCROLL, common, {"label": hit[1], "direction": hit[2].lower()}, reasoning)
    if hit := _ANSWER.match(command):
        return act.call(COMPLETE, {"text": hit[1]}, {"content": hit[1]}, reasoning)
    word = command[:6].lower()
    if word.startswith("wait"):
        return act.call(WAIT, {"seconds": WAIT_SECONDS}, {}, reasoning)
    if word.startswith("goback"):
        return act.call(words.GO_BACK, {}, {}, reasoning)
    if word.startswith("google"):
        return act.call(words.GOTO, {"url": "https://www.google.com/"}, {}, reasoning)
    return None
