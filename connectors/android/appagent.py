r"""Task folders of AppAgent (arXiv 2312.13771): a JSON Lines log and one uiautomator dump per step.

>>> show(AppAgent(), {"log_mail_task_1.txt": r'''
... {"step": 1, "prompt": "The task you need to complete is to search. Your past actions …", "image": "1.png", '''
... r'''"response": "Observation: A field.\nThought: Tap it.\nAction: tap(1)\nSummary: I tapped it."}
... ''', "task_1_1.xml": '''
... <hierarchy rotation="0"><node class="android.widget.EditText" text="Search mail" package="org.example.mail"
... resource-id="org.example.mail:id/search" clickable="true" enabled="true" bounds="[40,40][1040,180]" /></hierarchy>
... ''', "task_1_2.xml": '''
... <hierarchy rotation="0"><node class="android.widget.TextView" text="No mail yet" package="org.example.mail"
... resource-id="" clickable="false" enabled="true" bounds="[40,40][1040,180]" /></hierarchy>
... '''})
before  | #1 window "org.example.mail" [40,40][1040,180]
        |   #2 textbox value="Search mail" clickable id=search [40,40][1040,180]
action  | {"name": "click", "arguments": {"element": "#2"}}
after   | #1 window "org.example.mail" [40,40][1040,180]
        |   #3 text "No mail yet" [40,40][1040,180]

`log_<app>_<task>.txt` has one line `{step, prompt, image, response}` per step; `<task>_<n>.xml` is the screen before
step n. The observation of step n is dump n, the action is the call in the response, and the next observation is dump
n+1. If the last dump or the last line is missing, that side is null.

The model names elements by numeric tags that AppAgent draws on the screenshot. It first tags every clickable view in
document order whose center is more than 30 pixels from that of each clickable view tagged before, then by the same rule
the focusable ones that are also that far from each tagged clickable one (`scripts/task_executor.py` and
`and_controller.py`; 30 is the `MIN_DIST` of its configuration). `labels` does the same, so a tag becomes a node of the
tree. AppAgent touches the center of the tagged view, where another view within it may be. A tag that no view has stays
a tag. Grid areas are not converted to coordinates, since no file states the screen's size.

There are two forms of responses: `Observation:`, `Thought:`, `Action: tap(3)`, `Summary:`, and a later one where
`Action:` is prose and `Function: tap(5)` is the call. The text around the call is the agent's reasoning, never an
observation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from trajmill.connectors.android import action as act
from trajmill.connectors.android.dump import read_dump
from trajmill.connectors.android.view import Mark, Screen, environment_of, sound
from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.reading.attached import attachment_of_member
from trajmill.connectors.reading.lines import json_lines
from trajmill.connectors.screens.moves import Moves
from trajmill.schemas import (
    COMPLETE,
    Action,
    Agent,
    Attachment,
    Environment,
    Observation,
    ParseError,
    Reject,
    Task,
    Trajectory,
    call_text,
)

MIN_DISTANCE: Final = 30
"""Smallest distance in pixels between the centers of two tagged views; AppAgent's default."""

_LOG: Final = re.compile(r"(?:.*/)?log_(?!reflect)[^/]*\.txt")
_DUMP: Final = re.compile(r"((?:.*/)?[^/]*?)_?(?<![0-9])([0-9]{1,9})\.xml")
_PICTURE: Final = re.compile(r"(?:.*/)?[^/]*?_([0-9]{1,6})(_labeled|_grid)?\.(png|jpg|jpeg)")
_KEYS: Final = (b'"step"', b'"prompt"', b'"image"', b'"response"')
_FUNCTION: Final = re.compile(r"^[ \t]*Function:[ \t]*(.*)$", re.MULTILINE)
_ACTION: Final = re.compile(r"^[ \t]*Action:[ \t]*(.*)$", re.MULTILINE)
_CALL: Final = re.compile(r"\b(tap|text|long_press|swipe|grid|back|home|wait)[ \t]*\((.*)\)", re.DOTALL)
_LONGEST_CALL: Final = 8192
_ARGUMENT: Final = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^,"'\s]+))\s*(?:,|$)""")
_TASK: Final = re.compile(
    r"The task you need to complete is to\s+(.{1,4000}?)\s*(?:\.\s*Your past actions to proceed|\nNow, given the|\Z)",
    re.DOTALL,
)


class AppAgent(Connector):
    """Task folders of AppAgent."""

    name: ClassVar[str] = "appagent"
    version: ClassVar[str] = "6"
    domains: ClassVar[tuple[str, ...]] = ("android",)
    title: ClassVar[str] = "AppAgent task folders (log and uiautomator dumps)"
    companions = re.compile(
        r"log_[^/]*\.txt|record\.txt|task_desc\.txt|(?:(?:raw|labeled)_screenshots/)?[^/]*\.(?:png|jpe?g)"
    )

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        line = head.lstrip()[:65536].split(b"\n", 1)[0]
        if line.startswith(b"{") and all(key in line for key in _KEYS):
            return Sniff(0.95, "first line is a step of AppAgent: step, prompt, image, response")
        if line.startswith(b'{"step"') and b'"prompt"' in line and _LOG.fullmatch(uri):
            return Sniff(0.6, "named as a log of AppAgent, and its first line begins like one")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each folder with a `log_*.txt` and numbered dumps, with its screenshots."""
        folders: dict[str, list[str]] = {}
        for path in paths:
            folders.setdefault(path.rpartition("/")[0], []).append(path)
        for folder, files in folders.items():
            logs = [path for path in files if _LOG.fullmatch(path)]
            dumps = [path for path in files if _DUMP.fullmatch(path)]
            if logs and dumps:
                names = [*logs[:1], *dumps, *(path for path in files if _PICTURE.fullmatch(path))]
                prefix = len(folder) + 1 if folder else 0
                members = {path[prefix:]: path for path in sorted(names)}
                yield Log(folder, members, logs[0][prefix:])

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        log = next((member for member in blob.members if member == "" or _LOG.fullmatch(member)), None)
        if log is None:
            raise ParseError(blob.uri, -1, "no_actions", "wanted a log_*.txt beside the dumps, met none")
        folder = _Folder(blob, log)
        moves = Moves()
        lines: list[_Line] = []
        rejected: list[ParseError] = []
        for offset, value in json_lines(blob, log):
            try:
                if isinstance(value, ParseError):
                    raise value
                line = _line(value, blob.uri, offset, log, [line.step for line in lines])
            except ParseError as error:
                rejected.append(error)
                continue
            lines.append(line)
            before, after = folder.observation(line.step), folder.observation(line.step + 1)
            moves.add(line.action(folder.screens.get(line.step)), before, after, offset, log)
        for refused in [*rejected, *folder.errors]:
            yield Reject.of(refused, connector=self.name)
        if not moves.steps:
            raise ParseError(blob.uri, -1, "no_transitions", "no line of the log holds an action", log)
        packages = [screen.package for _, screen in sorted(folder.screens.items())]
        trajectory = Trajectory(
            native_id=blob.uri.rstrip("/").rpartition("/")[2],
            domain="android",
            steps=moves.steps,
            environment=Environment(id=environment_of(packages)),
            agent=Agent(name="appagent"),
            task=Task(instruction=next((line.instruction for line in lines if line.instruction), None)),
        )
        yield sound(trajectory)


class _Folder:
    """The screens of a task folder by step, each read once; `errors` collects what could not be read."""

    def __init__(self, blob: Blob, log: str) -> None:
        self._blob = blob
        self._dumps: dict[int, str] = {}
        self._pictures: dict[int, list[tuple[str, str]]] = {}
        self._seen: dict[int, Observation | None] = {}
        self.screens: dict[int, Screen] = {}
        self.errors: list[ParseError] = []
        dumps = [match for member in blob.members if (match := _DUMP.fullmatch(member))]
        # The log's name ends with the name of its dumps; other dumps in the folder belong to another log.
        own = [match for match in dumps if match[1] and log.endswith(f"{match[1]}.txt")]
        for match in own or dumps:
            self._dumps.setdefault(int(match[2]), match[0])
        for member in blob.members:
            if match := _PICTURE.fullmatch(member):
                self._pictures.setdefault(int(match[1]), []).append((match[2] or "", member))

    def observation(self, step: int) -> Observation | None:
        """Return the screen before that step; None if its dump is missing or broken."""
        if step not in self._seen:
            self._seen[step] = self._read(step)
        return self._seen[step]

    def _read(self, step: int) -> Observation | None:
        member = self._dumps.get(step)
        if member is None:
            return None
        try:
            is_raw = self._blob.choices.screen == "raw"
            screen = read_dump(self._blob.read(member), self._blob.uri, member, is_raw)
        except ParseError as error:
            self.errors.append(error)
            return None
        self.screens[step] = screen
        pictures = sorted(self._pictures.get(step, []))
        return screen.observation(attachments=tuple(self._picture(*picture) for picture in pictures))

    def _picture(self, kind: str, member: str) -> Attachment:
        role = "screenshot" + kind
        media_type = "image/png" if member.endswith(".png") else "image/jpeg"
        return attachment_of_member(self._blob, member, role, media_type)


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the log: its step, its task, and the call in its response.

    `call` is (function, text in the brackets); None if the response says FINISH.
    """

    step: int
    instruction: str | None
    call: tuple[str, str] | None
    reasoning: str | None

    def action(self, screen: Screen | None) -> Action:
        """Return the action of the line, taken on the screen before it."""
        if self.call is None:
            return Action(COMPLETE, call_text(COMPLETE, {}), reasoning=self.reasoning)
        name, inside = self.call
        if name == "text":
            typed = inside.strip()
            quoted = len(typed) > 1 and typed[0] in "\"'" and typed[-1] == typed[0]
            typed = typed[1:-1] if quoted else typed
            return act.call(act.INPUT_TEXT, {"text": typed}, {"text": typed}, reasoning=self.reasoning)
        if name in ("back", "home"):
            return act.press([name], {}, self.reasoning)
        return _touch_action(name, _arguments(inside), screen, self.reasoning)


def _line(value: Any, uri: str, offset: int, member: str, taken: Sequence[int]) -> _Line:
    """Read the line of a parsed record.

    Raises:
        ParseError: `bad_record` (no step), `duplicate_step`, `no_action` (no call that AppAgent knows).
    """
    if not isinstance(value, dict):
        raise ParseError(uri, offset, "bad_record", "wanted an object of step, prompt and response", member)
    stated = act.number(value.get("step", len(taken) + 1))
    step = int(stated) if stated is not None and stated == int(stated) else None
    if step is None:
        raise ParseError(uri, offset, "bad_record", "wanted a whole number as step", member)
    if step in taken:
        detail = f"step {step} was logged before, so which screen it left is not known"
        raise ParseError(uri, offset, "duplicate_step", detail, member)
    response = _response_text(value.get("response"))
    called = _FUNCTION.search(response) or _ACTION.search(response)
    if called is None or len(called[1]) > _LONGEST_CALL:
        raise ParseError(uri, offset, "no_action", "wanted Action: or Function: in the response", member)
    signature = None if "FINISH" in called[1] else _CALL.search(called[1])
    if signature is None and "FINISH" not in called[1]:
        raise ParseError(uri, offset, "no_action", f"AppAgent has no such function: {called[1][:80]!r}", member)
    prompt = value.get("prompt")
    task = _TASK.search(prompt[-8000:]) if isinstance(prompt, str) else None
    around = response[: called.start()] + response[called.end() :]
    reasoning = re.sub(r"\n{2,}", "\n", around).strip() or None
    return _Line(
        step, task[1].strip() if task else None, (signature[1], signature[2]) if signature else None, reasoning
    )


def _response_text(response: Any) -> str:
    """Return the response as text; it is a text, a chat completion, or an object with its parts by name."""
    if isinstance(response, str):
        return response.replace("\r\n", "\n")
    if not isinstance(response, dict):
        return ""
    choices = response.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        content = message.get("content") if isinstance(message, dict) else None
        return content if isinstance(content, str) else ""
    return "\n".join(f"{key}: {value}" for key, value in response.items() if isinstance(value, str))


def _arguments(inside: str) -> list[int | str]:
    values: list[int | str] = []
    for match in _ARGUMENT.finditer(inside):
        double, single, bare = match.groups()
        if bare is not None and re.fullmatch(r"-?[0-9]{1,9}", bare):
            values.append(int(bare))
        else:
            values.append(next(text for text in (double, single, bare) if text is not None))
    return values


_SIGNATURES: Final[Mapping[tuple[str, int], tuple[str, ...]]] = {
    ("tap", 1): ("label",),
    ("long_press", 1): ("label",),
    ("swipe", 3): ("label", "direction", "distance"),
    ("tap", 2): ("area", "subarea"),
    ("long_press", 2): ("area", "subarea"),
    ("swipe", 4): ("start_area", "start_subarea", "end_area", "end_subarea"),
    ("grid", 0): (),
    ("wait", 1): ("seconds",),
}
"""Names of the arguments of AppAgent's functions, by function and number of arguments. `label` is the numeric tag,
which AppAgent calls element.
"""


def _touch_action(name: str, values: list[int | str], screen: Screen | None, reasoning: str | None) -> Action:
    word = act.CLICK if name == "tap" else name
    names = _SIGNATURES.get((name, len(values)))
    if names is None:
        return act.call(word, {"arguments": values}, {"arguments": values}, reasoning=reasoning)
    original = dict(zip(names, values, strict=True))
    label = original.get("label")
    marks = [Mark(node, *touch) for node, touch in screen.marks] if screen is not None else []
    tagged = labels(marks) if isinstance(label, int) else []
    node = tagged[label - 1].node if isinstance(label, int) and 0 < label <= len(tagged) else 0
    if not node or screen is None:
        return act.call(word, original, original, reasoning=reasoning)
    arguments = {key: value for key, value in original.items() if key != "label"}
    met = node if word == act.SWIPE else act.touched_within(screen, node, word)
    return act.call(word, arguments, original, screen.element(met), reasoning)


def labels(marks: Sequence[Mark]) -> list[Mark]:
    """Return the views that AppAgent tags on a screen, in tag order: the view at index i has tag i + 1."""
    clickable, focusable = _Spread(), _Spread()
    for mark in marks:
        if mark.clickable:
            clickable.take(mark)
        if mark.focusable:
            focusable.take(mark)
    return clickable.marks + [mark for mark in focusable.marks if not clickable.is_near(_centre(mark))]


class _Spread:
    """Marks whose centers are more than `MIN_DISTANCE` apart, in insertion order; found by grid cells of that size."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self._cells: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def take(self, mark: Mark) -> None:
        """Keep the mark unless a kept mark is near."""
        x, y = _centre(mark)
        if not self.is_near((x, y)):
            self.marks.append(mark)
            self._cells.setdefault((x // MIN_DISTANCE, y // MIN_DISTANCE), []).append((x, y))

    def is_near(self, centre: tuple[int, int]) -> bool:
        """Return True if a kept mark is at most `MIN_DISTANCE` away."""
        x, y = centre
        column, row = x // MIN_DISTANCE, y // MIN_DISTANCE
        return any(
            (x - left) ** 2 + (y - top) ** 2 <= MIN_DISTANCE**2
            for across in (-1, 0, 1)
            for down in (-1, 0, 1)
            for left, top in self._cells.get((column + across, row + down), ())
        )


def _centre(mark: Mark) -> tuple[int, int]:
    left, top, right, bottom = mark.bounds or (0, 0, 0, 0)
    return (left + right) // 2, (top + bottom) // 2
