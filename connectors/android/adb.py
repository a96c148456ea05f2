"""Logs of adb commands, one per line: a script that was run, or the log of a recorder.

    2024-05-20 19:52:52,120 adb -s emulator-5554 shell uiautomator dump /sdcard/window_dump_3.xml
    adb shell input tap 540 960
    adb shell input text "hello%sworld" && sleep 2

The commands read are `input tap|swipe|draganddrop|text|keyevent`, `am`, `monkey -p`, `uiautomator dump` with its path
or the file its output is redirected to, `adb pull` and `mv` of a dump, and `sleep`. They may follow a time, a level
word and a prompt, may come with or without `adb shell`, and may be joined by `&&` or `;`. Commands that only look are
skipped; any other command of the device is an action `shell`. `# task: …` and `# device: …` state the task and the
device of the log. The tools' own answers between the commands are skipped. Any other line is an error.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

from trajmill.connectors.android import action as act
from trajmill.connectors.android.entry import (
    About,
    Captured,
    Entry,
    Lost,
    Moment,
    Paused,
    Performed,
    moment_of,
    word_set,
)
from trajmill.connectors.connector import Blob
from trajmill.connectors.reading.lines import lines
from trajmill.schemas import ParseError

_TIME: Final = re.compile(
    r"\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?|\d{9,13}(?:\.\d{1,9})?"
    r"|(?:\d\d-\d\d )?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)\]?[\s:|,-]+"
)
_LEVEL: Final = re.compile(r"(?:\[?(?:DEBUG|INFO|WARN|WARNING|ERROR|CMD|RUN|EXEC|D|I)\]?[\s:|-]+)?(?:[$>+#] +)?")
_CLOCK: Final = re.compile(r"(?:\d\d-\d\d )?(\d\d):(\d\d):(\d\d(?:[.,]\d+)?)")
_FACT: Final = re.compile(r"(?:#|//)\s*(task|goal|instruction|task_id|device|serial|agent|model)\s*[:=]\s*(.+)", re.I)
_FAILURE: Final = re.compile(r"(?i)(?:error: )?(?:could not get idle state|null root node)")
_ANSWER: Final = re.compile(
    r"(?i)(ui hierchary dumped|events injected|## network stats"
    r"|starting: intent|stopping: |success\b|warning: activity not started|\s*bash arg|args: \[|.* pulled)"
)
_SOURCES: Final = word_set(
    "touchscreen touchpad touchnavigation keyboard dpad mouse stylus trackball joystick gamepad default"
)
_OTHER_INPUT: Final = word_set("press roll motionevent keycombination")
_LOOKS: Final = word_set(
    "screencap screenrecord dumpsys getprop getevent ls cat wm logcat ps pidof rm mkdir echo grep test stat du df date "
    "whoami id pwd cd true which export set content"
)
_HOST_ONLY: Final = word_set(
    "devices wait-for-device start-server kill-server version root unroot forward reverse connect disconnect push "
    "get-state get-serialno logcat bugreport remount tcpip usb emu"
)
_DEVICE: Final = word_set("input am monkey uiautomator sleep pm settings svc cmd ime service setprop reboot")
_COPIES: Final = word_set("mv cp")
_SILENT: Final = (
    _LOOKS | _DEVICE | _COPIES | word_set("adb adb.exe if then else fi do done for while #!/bin/sh #!/bin/bash")
)
_LINE_BYTES: Final = 1 << 16
_NO_OUTPUT: Final = re.compile(r"\s(?:[012&]?>>?\s*/dev/null|2>&1)(?=\s|$|[;&|])")
_ENDS: Final = frozenset(("&&", ";", "||", "|", "&"))


def adb_entries(blob: Blob, member: str) -> Iterator[Entry | ParseError]:
    """Yield the entries of the log in order, and a `ParseError` for each unknown line."""
    with blob.open(member) as stream:
        for line in lines(stream, _LINE_BYTES):
            text = (line.data or b"").decode("utf-8", "replace").strip()
            if line.data is None:
                yield ParseError(
                    blob.uri, line.offset, "line_too_long", f"a line of more than {_LINE_BYTES} bytes", member
                )
            elif text:
                yield from _line(text, blob.uri, line.offset, member)


def _line(text: str, uri: str, offset: int, member: str) -> Iterator[Entry | ParseError]:
    stated = _TIME.match(text)
    time = _moment(stated[1]) if stated else None
    command = text[stated.end() :] if stated else text
    fact = _FACT.fullmatch(command)
    if fact:
        yield About(offset, {fact[1].lower(): fact[2].strip()})
        return
    if command.startswith(("#", "//")) and not command.startswith("# adb"):
        return
    command = command[_level_end(command) :]
    excerpt = text[:512].encode("utf-8", "replace")
    if _FAILURE.match(command):
        yield Lost(offset)
        return
    try:
        entries = list(command_entries(command, offset, time))
    except ValueError as error:
        yield ParseError(uri, offset, "bad_record", str(error), member, excerpt)
        return
    yield from entries
    if not entries and not _is_known(command):
        detail = f"wanted an adb command, met {command[:80]!r}"
        yield ParseError(uri, offset, "bad_record", detail, member, excerpt)


def _level_end(text: str) -> int:
    match = _LEVEL.match(text)
    return match.end() if match else 0


def _is_known(text: str) -> bool:
    """Return True if the line is a command that only looks, or an answer of the tools."""
    head = text.split(None, 1)[0] if text.split() else "adb"
    return head in _SILENT or bool(_ANSWER.match(text))


def _moment(text: str) -> Moment | None:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return moment_of(text)
    hours, minutes, seconds = match.groups()
    return Moment(int(hours) * 3600 + int(minutes) * 60 + float(seconds.replace(",", ".")), False)


def command_entries(text: str, offset: int, time: Moment | None = None) -> Iterator[Entry]:
    """Yield the entries of the commands on one line; none for commands that only look.

    Raises:
        ValueError: a command is incomplete.
    """
    parts: list[str] = []
    for word in [*act.words(_NO_OUTPUT.sub(" ", text)), ";"]:
        if word not in _ENDS:
            parts.append(word)
            continue
        if parts:
            yield from _command(parts, offset, time)
        parts = []
        if word == "|":
            return


def _command(parts: list[str], offset: int, time: Moment | None) -> Iterator[Entry]:
    file = None
    redirect = next((index for index, part in enumerate(parts) if part in (">", ">>")), -1)
    if redirect >= 0:
        file = parts[redirect + 1] if redirect + 1 < len(parts) else None
        parts = parts[:redirect]
    if parts[:1] == ["adb"] or parts[:1] == ["adb.exe"]:
        parts, serial = _without_options(parts[1:])
        if serial:
            yield About(offset, {"serial": serial})
        if parts[:1] == ["pull"] and len(parts) > 1:
            yield from _yield_copy(parts[1:], offset, time)
            return
        if not parts or parts[0] in _HOST_ONLY:
            return
        if parts[0] in ("shell", "exec-out", "exec-in"):
            # A single quoted argument is a command line of the device's own.
            inner = parts[1:] if len(parts) != 2 else act.words(parts[1])
            if len(parts) == 2 and _ENDS & set(inner):
                yield from command_entries(parts[1], offset, time)
                return
            parts = inner
    elif not parts or parts[0] not in _DEVICE | _LOOKS | _COPIES:
        return
    yield from _device_command(parts, file, offset, time)


def _without_options(parts: list[str]) -> tuple[list[str], str | None]:
    serial = None
    while parts and parts[0].startswith("-"):
        if parts[0] in ("-s", "-t", "-H", "-P", "-L") and len(parts) > 1:
            serial = parts[1] if parts[0] == "-s" else serial
            parts = parts[2:]
        else:
            parts = parts[1:]
    return parts, serial


def _yield_copy(parts: list[str], offset: int, time: Moment | None) -> Iterator[Entry]:
    names = [part for part in parts if not part.startswith("-")]
    if not names or not names[0].endswith((".xml", ".uix")):
        return
    local = names[1] if len(names) > 1 and names[1].endswith((".xml", ".uix")) else names[0]
    yield Captured(offset, base_name(local), time, base_name(names[0]))


def base_name(path: str) -> str:
    """Return the last part of a Unix or Windows path."""
    return path.replace("\\", "/").rpartition("/")[2]


def _device_command(parts: list[str], file: str | None, offset: int, time: Moment | None) -> Iterator[Entry]:
    head, arguments = (parts[0], parts[1:]) if parts else ("", [])
    if head == "sleep":
        seconds = act.number(arguments[0].rstrip("s")) if arguments else None
        if seconds is not None and seconds >= 0:
            yield Paused(offset, seconds, time)
    elif head == "uiautomator" and arguments[:1] == ["dump"]:
        paths = [part for part in arguments[1:] if not part.startswith("-")]
        named = file or (paths[0] if paths and paths[0] not in ("/dev/tty", "/dev/stdout") else None)
        yield Captured(offset, base_name(named) if named else None, time)
    elif head in _COPIES:
        yield from _yield_copy(arguments, offset, time)
    elif head == "input":
        yield _input(arguments, offset, time)
    elif head and head not in _LOOKS:
        command = {"command": shlex.join(parts)}
        yield Performed(offset, act.INTENT if head == "am" else act.SHELL, command, command, time=time)


def _input(parts: list[str], offset: int, time: Moment | None) -> Performed:
    """Read the action of an `input` command.

    Raises:
        ValueError: the command is incomplete.
    """
    command = {"command": shlex.join(["input", *parts])}
    while parts and (parts[0] in _SOURCES or parts[0] in ("-d", "--display")):
        parts = parts[2:] if parts[0].startswith("-") else parts[1:]
    verb, arguments = (parts[0], parts[1:]) if parts else ("", [])
    values = [act.number(part) for part in arguments]
    numbers = [value for value in values if value is not None]
    if verb == "tap" and len(numbers) >= 2:
        point = (numbers[0], numbers[1])
        return Performed(offset, act.CLICK, {"x": point[0], "y": point[1]}, point=point, time=time)
    if verb in ("swipe", "draganddrop") and len(numbers) >= 4:
        return _swipe(numbers, offset, time)
    if verb == "text" and arguments:
        typed = " ".join(arguments).replace("%s", " ")
        return Performed(offset, act.INPUT_TEXT, {"text": " ".join(arguments)}, {"text": typed}, time=time)
    keys = [part for part in arguments if not part.startswith("-")]
    if verb == "keyevent" and keys:
        return Performed(offset, act.PRESS, {"keys": keys}, {"keys": keys}, time=time)
    if verb in _OTHER_INPUT and arguments:
        return Performed(offset, act.SHELL, command, command, time=time)
    raise ValueError(f"no whole input command: {command['command'][:80]}")


def _swipe(numbers: list[float], offset: int, time: Moment | None) -> Performed:
    """Read a swipe. One that stays in place is a click, or a long press if it lasts at least half a second."""
    start, end = (numbers[0], numbers[1]), (numbers[2], numbers[3])
    original = {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1]}
    if len(numbers) > 4:
        original["duration_ms"] = numbers[4]
    if max(abs(start[0] - end[0]), abs(start[1] - end[1])) <= 10:
        name = act.LONG_PRESS if original.get("duration_ms", 300) >= 500 else act.CLICK
        return Performed(offset, name, original, point=start, time=time)
    return Performed(offset, act.SWIPE, original, point=start, end=end, time=time)
