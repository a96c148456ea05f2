"""Folders of plain uiautomator dumps with an event log: the log holds the actions, the dumps the screens.

>>> show(UiAutomator(), {"events.jsonl": '''
... {"action": "tap", "x": 100, "y": 100, "before": "dump_1.xml", "after": "dump_2.xml"}
... ''', "dump_1.xml": '''
... <?xml version='1.0' encoding='UTF-8' standalone='yes' ?><hierarchy rotation="0"><node class="android.widget.Button"
... text="Play" package="org.example" clickable="true" enabled="true" bounds="[0,0][540,200]" /></hierarchy>
... ''', "dump_2.xml": '''
... <?xml version='1.0' encoding='UTF-8' standalone='yes' ?><hierarchy rotation="0"><node class="android.widget.Button"
... text="Stop" package="org.example" clickable="true" enabled="true" bounds="[0,0][540,200]" /></hierarchy>
... '''})
before  | #1 window "org.example" [0,0][540,200]
        |   #2 button "Play" clickable [0,0][540,200]
action  | {"name": "click", "arguments": {"element": "#2"}}
after   | #1 window "org.example" [0,0][540,200]
        |   #2 button "Stop" clickable [0,0][540,200]

No tool defines the form of the event log; `event_log` (JSON Lines), `adb` (commands) and `touch_log` (getevent)
document the supported forms. The screens before and after an action are taken from the log and never guessed:

- The log names dumps beside its actions (`before`, `after`): these are used. If only one side is named, the other is
  the dump that the adjacent action names, or the one dump left over before the first or after the last. If an action's
  `after` shows something else than the next action's `before`, the screen had not settled, and is marked as cut by the
  recorder.
- The log states when a screen was captured (`uiautomator dump`): an action's observation is the screen captured since
  the action before it. Its next observation is the screen captured before the action after it; of several consecutive
  ones the last, since the others had not settled. Without such a capture it is null, because nobody saw the screen
  between two consecutive actions. A pause after an action belongs to it; a pause between two captures is a `wait`. A
  file that was dumped twice holds only the last screen.
- The log states neither: the dumps, in the order of the numbers in their names, are the screens before each action, and
  after the last if there is one more. Any other number of dumps, or a gap in their numbers, is refused (`unaligned`).

A dump without an event log shows a screen and no transition, and is refused (`no_actions`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from trajmill.connectors.android import action as act
from trajmill.connectors.android.adb import adb_entries
from trajmill.connectors.android.alignment import Aligned, align
from trajmill.connectors.android.dump import is_ios, read_dump
from trajmill.connectors.android.entry import About, Entry, Performed, word_set
from trajmill.connectors.android.uiautomator.event_log import json_entries, kind_of, knows
from trajmill.connectors.android.uiautomator.touch_log import touch_entries
from trajmill.connectors.android.view import Screen, environment_of, sound
from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.reading.fields import plain_text
from trajmill.connectors.reading.own_arguments import own_arguments
from trajmill.connectors.reading.values import JsonError, json_value
from trajmill.connectors.refused import lists_gestures
from trajmill.connectors.screens.moves import Moves
from trajmill.schemas import COMPLETE, Action, Agent, Environment, ParseError, Reject, Task, Trajectory, call_text

_LOG: Final = re.compile(
    r"(?:events?|actions?|event_log|action_log|log|adb|adb_log|commands?|replay|getevent|user_input|touch(?:es)?)"
    r"\.(jsonl|ndjson|log|txt|sh)"
)
_FOLDERS: Final = word_set("dumps dump screens screen xml xmls ui ui_dumps uidumps hierarchies window_dumps")
_ENDINGS: Final = ("jsonl", "ndjson", "log", "txt", "sh")
_DUMP: Final = re.compile(r"[^/]+\.(?:xml|uix)")
_DUMP_ALONE: Final = re.compile(
    r"(?:.*[_-])?(?:dump|window_dump|ui|uidump|ui_dump|view|hierarchy|screen|window)[_-]?\d*\.(?:xml|uix)|.*_\d+\.uix"
)
_APPAGENT_LOG: Final = re.compile(r"log_.+\.txt")
_ERRORS: Final = (
    b"UI hierchary dumped to",
    b"ERROR: could not get idle state",
    b"ERROR: null root node",
    b"null root node",
)
_COMMAND: Final = re.compile(
    rb"(?:adb(?:\.exe)? (?:-s \S+ )?(?:shell|exec-out) |^|\s)(?:input (?:tap|swipe|text|keyevent)|uiautomator dump)\b",
    re.MULTILINE,
)


class UiAutomator(Connector):
    """Folders of uiautomator dumps with an event log."""

    name: ClassVar[str] = "uiautomator"
    version: ClassVar[str] = "7"
    domains: ClassVar[tuple[str, ...]] = ("android",)
    title: ClassVar[str] = "uiautomator dumps with an event log (JSON Lines, adb commands or getevent)"
    companions = re.compile(r"(?:[^/]*/)?[^/]*\.(?:png|jpe?g|mp4)")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        narrow = head.replace(b"\0", b"") if head[:2] in (b"\xff\xfe", b"\xfe\xff") else head
        if b"<hierarchy" in narrow[:4096]:
            return Sniff(0.9, "an XML document of a <hierarchy>, as uiautomator dumps it")
        if is_ios(narrow):
            return Sniff(0.9, "a page source of iOS, which is refused")
        if narrow.lstrip()[:64].startswith(_ERRORS):
            return Sniff(0.8, "a line that uiautomator dump prints")
        if not _LOG.fullmatch(uri.rpartition("/")[2]):
            return None
        if lists_gestures(head):
            return Sniff(0.7, "named as an event log, and holds events of getevent")
        if _COMMAND.search(head):
            return Sniff(0.7, "a log of adb commands: input or uiautomator dump")
        for line in head.split(b"\n")[:3]:
            try:
                record = json_value(line)
            except JsonError:
                continue
            nested = record.get("action") if isinstance(record, dict) else None
            word = kind_of(nested if isinstance(nested, dict) else record) if isinstance(record, dict) else None
            if word is not None and knows(word):
                return Sniff(0.6, f"named as an event log, and its first lines say '{word[:40]}'")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each folder with an event log and dumps in it or in its folder `dumps`; dumps alone are a log each.

        Task folders of AppAgent are left to their own connector.
        """
        folders: dict[str, list[str]] = {}
        for path in paths:
            folders.setdefault(path.rpartition("/")[0], []).append(path)
        logs = {folder: log for folder, files in folders.items() if (log := _log_of(files))}
        dumps: dict[str, list[str]] = {}
        for folder, files in folders.items():
            above, _, name = folder.rpartition("/")
            home = above if folder not in logs and name in _FOLDERS else folder
            if any(_APPAGENT_LOG.fullmatch(path.rpartition("/")[2]) for path in files):
                continue
            if home in logs:
                dumps.setdefault(home, []).extend(path for path in files if _DUMP.fullmatch(path.rpartition("/")[2]))
                continue
            alone = [path for path in files if _DUMP_ALONE.fullmatch(path.rpartition("/")[2])]
            if len(alone) > 1:
                yield _join_folder(folder, alone, alone[0])
        for folder, files in dumps.items():
            if files:
                yield _join_folder(folder, [logs[folder], *files], logs[folder])

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        log = _log_of(blob.members)
        if log is None and "" in blob.members and not _is_xml(blob):
            log = ""
        if log is None:
            if any(is_ios(blob.read(member)) for member in blob.members):
                detail = "a page source of iOS, whose elements are not read here"
                raise ParseError(blob.uri, 0, "not_android", detail)
            screens = _Screens(blob)
            if not any(screens.screen(member) for member in blob.members) and screens.errors:
                raise screens.errors[0]
            detail = "a dump shows a screen; wanted an event log beside it, such as events.jsonl or adb.log"
            raise ParseError(blob.uri, -1, "no_actions", detail)
        files = sorted((member for member in blob.members if member != log), key=act.natural)
        if not files:
            raise ParseError(blob.uri, -1, "no_screens", "wanted uiautomator dumps beside the event log, met none", log)
        entries: list[Entry] = []
        rejected: list[ParseError] = []
        screens = _Screens(blob)
        for entry in _read(blob, log, screens, files):
            (rejected if isinstance(entry, ParseError) else entries).append(entry)  # type: ignore[arg-type]
        pairs = align(entries, files, blob.uri, log)
        moves = Moves()
        for pair in pairs:
            _add(moves, pair, screens, log)
        used = {file for pair in pairs for file in (pair.before, pair.after)}
        for file in files:
            if file not in used:
                detail = "no action left or reached this screen, or a later dump of what it led to stands in its place"
                rejected.append(ParseError(blob.uri, 0, "unreferenced_screen", detail, file))
        for refused in [*rejected, *screens.errors]:
            yield Reject.of(refused, connector=self.name)
        if not moves.steps:
            raise ParseError(blob.uri, -1, "no_transitions", "the event log holds no action", log)
        yield sound(_trajectory(blob, entries, moves, screens))


def _log_of(paths: Sequence[str]) -> str | None:
    """Return the event log among the files of one folder, JSON Lines first; files in subfolders do not count."""
    home = min((path.count("/") for path in paths), default=0)
    logs = [
        (_ENDINGS.index(match[1]), path)
        for path in paths
        if path.count("/") == home and (match := _LOG.fullmatch(path.rpartition("/")[2]))
    ]
    return min(logs)[1] if logs else None


def _join_folder(folder: str, paths: Sequence[str], anchor: str) -> Log:
    prefix = len(folder) + 1 if folder else 0
    return Log(folder, {path[prefix:]: path for path in sorted(paths)}, anchor[prefix:])


def _read(blob: Blob, log: str, screens: _Screens, files: Sequence[str]) -> Iterator[Entry | ParseError]:
    """Yield the entries of the log, in any of its three forms."""
    with blob.open(log) as stream:
        head = stream.read(4096)
    if lists_gestures(head):
        sizes = {screens.size(file) for file in files} - {None}
        return touch_entries(blob, log, sizes.pop() if len(sizes) == 1 else None)
    is_json = head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    return (json_entries if is_json else adb_entries)(blob, log)


def _is_xml(blob: Blob) -> bool:
    with blob.open("") as stream:
        head = stream.read(4096).replace(b"\0", b"")
    return b"<" in head or head.lstrip().startswith(_ERRORS) or not head.strip()


class _Screens:
    """The screens of a folder by file, each read once; `errors` collects what could not be read."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._seen: dict[str, Screen | None] = {}
        self.errors: list[ParseError] = []

    def screen(self, file: str | None) -> Screen | None:
        """Return the screen in the file; None if there is no file, or if it cannot be read."""
        if file is None:
            return None
        if file not in self._seen:
            try:
                is_raw = self._blob.choices.screen == "raw"
                self._seen[file] = read_dump(self._blob.read(file), self._blob.uri, file, is_raw)
            except ParseError as error:
                self.errors.append(error)
                self._seen[file] = None
        return self._seen[file]

    def size(self, file: str) -> tuple[int, int] | None:
        """Return the width and height of the largest window in the file; None if there is none."""
        screen = self.screen(file)
        nodes = screen.tree.nodes if screen is not None else ()
        boxes = [node.bounds for node in nodes if node.role == "window" and node.bounds is not None]
        return max(((box[2], box[3]) for box in boxes), key=lambda size: size[0] * size[1], default=None)

    def packages(self) -> list[str]:
        """Return the packages of the screens read, in reading order."""
        return [screen.package for screen in self._seen.values() if screen is not None]


def _add(moves: Moves, pair: Aligned, screens: _Screens, log: str) -> None:
    before, after, later = (screens.screen(file) for file in (pair.before, pair.after, pair.later))
    performed = pair.performed
    seen = after.observation() if after is not None else None
    if seen is not None and after is not None and later is not None and later.text != after.text:
        seen = replace(seen, truncation="recorder")
    moves.add(
        _action(performed, before),
        before.observation() if before is not None else None,
        seen,
        performed.offset,
        log,
        at=performed.time.microseconds if performed.time else None,
        seconds=pair.duration,
    )


def _action(performed: Performed, screen: Screen | None) -> Action:
    """Build the action, with its target as a node of the screen before it."""
    name, arguments, original, reasoning = performed.name, performed.told, performed.original, performed.reasoning
    if name == COMPLETE:
        return Action(COMPLETE, call_text(COMPLETE, {}), own_arguments(original), reasoning=reasoning)
    if name == act.PRESS:
        return act.press(list(arguments.get("keys", ())), original, reasoning)
    if name == act.INTENT and arguments.get("command"):
        return act.intent(str(arguments["command"]), original, reasoning)
    if name == act.SHELL and plain_text(arguments.get("command", "")).startswith("monkey "):
        return act.monkey(str(arguments["command"]), original, reasoning)
    box = act.box_of(performed.target.get("bounds"))
    point = performed.point or (((box[0] + box[2]) // 2, (box[1] + box[3]) // 2) if box else None)
    if name == act.SWIPE and point and performed.end:
        return act.path(screen, point, performed.end, original, reasoning)
    node = act.find_named_node(screen, performed.target, box, point)
    if screen is not None and node is not None:
        return act.call(name, arguments, original, screen.element(node), reasoning)
    label = performed.target.get("name") or performed.target.get("resource_id")
    if point is None and isinstance(label, str) and name in act.VOCABULARY:
        arguments = {"target": label, **arguments}
    return act.touch(name, screen, point, original, arguments, reasoning)


def _trajectory(blob: Blob, entries: Sequence[Entry], moves: Moves, screens: _Screens) -> Trajectory:
    facts: dict[str, str] = {}
    for entry in entries:
        if isinstance(entry, About):
            facts.update({key: value for key, value in entry.facts.items() if key not in facts})
    return Trajectory(
        native_id=blob.uri.rstrip("/").rpartition("/")[2],
        domain="android",
        steps=moves.steps,
        environment=Environment(
            id=facts.get("package") or environment_of(screens.packages()),
            instance_id=facts.get("serial") or facts.get("device"),
        ),
        agent=Agent(name=facts.get("agent"), model=facts.get("model")),
        task=Task(
            id=facts.get("task_id"),
            instruction=facts.get("task") or facts.get("goal") or facts.get("instruction"),
        ),
    )
