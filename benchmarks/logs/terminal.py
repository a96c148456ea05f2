"""Fresh logs of terminals: asciicast recordings and Claude Code sessions. Shapes after real ones, content made up.

Each generator writes one log of about `size` bytes, by whole commands or turns. It is no emulator: screens are drawn,
but what is typed does not lead to what is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from json.encoder import encode_basestring as quoted
from typing import Any, Final

import orjson

from benchmarks.logs.text import Text
from samples.writing import claude_code as cli
from samples.writing.moments import zulu

_BEGIN: Final = datetime(2026, 3, 2, 8, tzinfo=UTC)
_COLOURS: Final = tuple(
    f"\x1b[{code}m"
    for code in (1, 2, 3, 4, 31, 32, 33, 34, 35, 36, 90, "01;32", "01;34", "38;5;208", "38;2;90;160;90", 7)
)
"""Sixteen of them: `_color` picks by four bits."""
_RESET: Final = "\x1b[0m"
_ACCOUNTS: Final = ("dev", "root", "agent", "ubuntu")
_TOOLS: Final = (
    "ls -la",
    "grep -rn",
    "cat",
    "git log --oneline",
    "pytest -v",
    "find . -name",
    "sed -n 1,80p",
    "make",
    "jq .",
)


class Cast:
    """An asciicast v2 recording in the making; `typed` says whether it holds input events."""

    def __init__(self, text: Text, typed: bool) -> None:
        self._text = text
        self.typed = typed
        self._lines: list[bytes] = []
        self._time = 0.0
        self.size = 0
        head: dict[str, Any] = {"version": 2, "width": 80 + 20 * text.below(3), "height": 24 + 8 * text.below(3)}
        head |= {"timestamp": 1_772_000_000 + text.below(10_000_000), "title": text.phrase(4, 9).capitalize()}
        self._add(orjson.dumps(head | {"env": {"SHELL": "/bin/bash", "TERM": "xterm-256color"}}).decode())

    def event(self, kind: str, data: str, after: float) -> None:
        self._time += after
        if kind == "i" and not self.typed:
            return
        self._add(f'[{self._time:.6f}, "{kind}", {quoted(data)}]')

    def shown(self, data: str) -> None:
        """Output in events of 300 to 900 characters; escape sequences may be cut, as recorders cut them."""
        at = 0
        while at < len(data):
            step = 300 + self._text.below(601)
            self.event("o", data[at : at + step], 0.0005 + self._text.random.random() * 0.02)
            at += step

    def bytes(self) -> bytes:
        return b"".join(self._lines)

    def _add(self, line: str) -> None:
        self._lines.append(line.encode() + b"\n")
        self.size += len(self._lines[-1])


def asciicast(text: Text, size: int, typed: bool) -> bytes:
    """A recording: commands at a prompt, their coloured output, now and then a full screen.

    With input events, as harnesses record them, nearly all commands are sent as a whole; without, as recorders write by
    default, half of the commands are echoed key by key, as a person types them. The prompts of real recordings at hand
    name common accounts only; half of these name a person, who is scrubbed away.
    """
    cast = Cast(text, typed)
    user = text.pick(_ACCOUNTS) if text.below(2) else text.name()
    folder = text.name()
    shown = ""
    while cast.size < size:
        if text.random.random() < 0.2:
            folder = f"{text.name()}/{text.name()}"
        cast.shown(f"{shown}\x1b[?2004h\x1b[01;32m{user}@box\x1b[00m:\x1b[01;34m~/{folder}\x1b[00m$ ")
        command = f"{text.pick(_TOOLS)} {text.path()}"
        by_key = text.random.random() < (0.03 if cast.typed else 0.5)
        for chunk in command if by_key else (command,):
            cast.event("i", chunk, 0.05 + text.random.random() * 0.4)
            if by_key:
                cast.event("o", chunk, 0.0004)
        cast.event("i", "\r", 0.1)
        shown = "\r\n\x1b[?2004l\r" if by_key else command + "\r\n\x1b[?2004l\r"
        if text.random.random() < 0.12:
            cast.shown(shown + "\x1b[?1049h\x1b[H\x1b[2J")
            for _ in range(2 + text.below(5)):
                cast.event("i", text.pick(("j", "k", "\x1b[B", "\x06", " ")), 0.3)
                cast.shown(_screen(text))
            cast.event("i", "q", 0.5)
            shown = "\x1b[?1049l\x1b[?25h"
        else:
            shown += _color(text, text.block(500 + text.below(5000)))
    cast.shown(shown + "exit\r\n")
    return cast.bytes()


def _color(text: Text, block: str) -> str:
    """The lines with a coloured word or two each, ended by \\r\\n."""
    rows = []
    lines = block.split("\n")
    for line, chance in zip(lines, text.random.randbytes(len(lines)), strict=True):
        head, space, tail = line.partition(" ")
        if len(tail) > 60:
            middle = tail.find(" ", chance & 31) + 1
            tail = f"{tail[:middle]}{_COLOURS[chance & 7]}{tail[middle:]}{_RESET}"
        rows.append(f"{_COLOURS[chance >> 4]}{head}{_RESET}{space}{tail}\r\n")
    return "".join(rows)


def _screen(text: Text) -> str:
    """Some rows of a full screen, drawn with cursor moves, and its status line."""
    first = 1 + text.below(10)
    numbers = range(first, min(first + 4 + text.below(16), 24))
    rows = [
        f"\x1b[{row};1H{_COLOURS[chance & 15]}{row:4} \x1b[39m{text.phrase(4, 10)}\x1b[K"
        for row, chance in zip(numbers, text.random.randbytes(len(numbers)), strict=True)
    ]
    status = f"\x1b[24;1H\x1b[7m{text.path()}\x1b[27m\x1b[24;{60 + text.below(12)}H{text.below(100)}%"
    return f"\x1b[?25l{''.join(rows)}{status}\x1b[?25h"


class Log:
    """A Claude Code session in the making: lines chained by `parentUuid`."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.rows: list[bytes] = []
        self.size = 0
        self.cwd = "/home/dev/" + "/".join(text.words(2))
        self.session = text.uuid()
        self._branch = text.name()
        self._parent: str | None = None
        self._now = _BEGIN + timedelta(seconds=text.below(10_000_000))

    def line(self, kind: str, message: dict[str, Any], more: dict[str, Any]) -> None:
        number = self.text.uuid()
        self._now += timedelta(milliseconds=200 + self.text.below(9000))
        head = cli.head(self._parent, self.cwd, self.session, self._branch)
        row = {**head, "type": kind, "message": message, **more, "uuid": number, "timestamp": zulu(self._now)}
        self.rows.append(orjson.dumps(row))
        self.size += len(self.rows[-1]) + 1
        self._parent = number

    def user(self, content: Any, **more: Any) -> None:
        self.line("user", {"role": "user", "content": content}, more)

    def assistant(self, *blocks: dict[str, Any]) -> None:
        """One answer; each block on a line of its own, under one message id."""
        number, request = "msg_01" + self.text.hex(22), "req_011C" + self.text.hex(20)
        spent = self.text.below(60_000)
        spoken = 1 + self.text.below(900)
        for block in blocks:
            message = cli.answer(number, "generated", block, new=spent // 20, cached=spent, spoken=spoken)
            self.line("assistant", message, {"requestId": request})


def claude_code(text: Text, size: int) -> bytes:
    """A session of 60 to 120 lines, fewer if `size` is reached before; most lines have 2 to 8 KB."""
    log = Log(text)
    log.user(text.block(1500 + text.below(2000)))
    wanted = 60 + text.below(61)
    while len(log.rows) < wanted and log.size < size:
        calls = [text.pick(_CALLS)(log) for _ in range(text.pick((1, 1, 1, 2)))]
        texts = [{"type": "text", "text": text.block(1200 + text.below(1500))}] if text.below(3) == 0 else []
        uses = [cli.use("toolu_01" + text.hex(22), name, arguments) for name, arguments, _, _ in calls]
        log.assistant(*texts, *uses)
        for use, (_, _, content, structured) in zip(uses, calls, strict=True):
            log.user([cli.result(use["id"], content)], toolUseResult=structured)
    log.assistant({"type": "text", "text": text.block(1200 + text.below(1500))})
    return b"\n".join(log.rows) + b"\n"


_Called = tuple[str, dict[str, Any], str, Any]
"""Name, input, text of the result, structured copy of the result."""


def _bash(log: Log) -> _Called:
    text = log.text
    script = "\n".join([f"cd {log.cwd} && python3 - <<'END'", text.block(600 + text.below(1500)), "END"])
    command = script if text.below(2) else f"{text.pick(_TOOLS)} {text.path()}"
    out = text.block(900 + text.below(2600))
    return "Bash", {"command": command, "description": text.phrase(3, 6).capitalize()}, out, cli.ran(out)


def _read(log: Log) -> _Called:
    text = log.text
    name, start, content = f"{log.cwd}/{text.path()}", 1 + text.below(400), text.block(1200 + text.below(2000))
    lines = content.split("\n")
    arguments = {"file_path": name, "offset": start, "limit": len(lines)}
    return "Read", arguments, cli.numbered(lines, start), cli.read(name, lines, start, 900)


def _write(log: Log) -> _Called:
    text = log.text
    name, content = f"{log.cwd}/{text.path()}", text.block(1800 + text.below(4000))
    arguments, structured = {"file_path": name, "content": content}, cli.wrote(name, content, None, [])
    return "Write", arguments, f"File created successfully at: {name}", structured


def _edit(log: Log) -> _Called:
    text = log.text
    name, old, new = f"{log.cwd}/{text.path()}", text.block(500 + text.below(900)), text.block(500 + text.below(900))
    before, after = text.block(400 + text.below(600)), text.block(400 + text.below(600))
    patch = ["-" + line for line in old.split("\n")] + ["+" + line for line in new.split("\n")]
    hunk = {"oldStart": 7, "oldLines": old.count("\n") + 1, "newStart": 7, "newLines": new.count("\n") + 1}
    structured = cli.edited(name, old, new, f"{before}\n{old}\n{after}", [{**hunk, "lines": patch}])
    shown = cli.numbered(new.split("\n"), 7)
    result = f"The file {name} has been updated. Here's the result of running `cat -n` on a snippet of it:\n{shown}"
    return "Edit", {"file_path": name, "old_string": old, "new_string": new}, result, structured


def _grep(log: Log) -> _Called:
    text = log.text
    content = text.block(1000 + text.below(2500))
    arguments = {"pattern": text.name(), "path": log.cwd, "output_mode": "content", "-n": True}
    return "Grep", arguments, content, cli.matched(content, 40)


_CALLS: Final[tuple[Callable[[Log], _Called], ...]] = (_bash, _bash, _bash, _read, _read, _write, _edit, _grep)


def recordings(text: Text, size: int) -> Iterator[tuple[str, bytes]]:
    """One asciicast file with input events, of 0.2 to 1.4 MB, less if `size` is smaller."""
    wanted = 200_000 + text.below(1_200_000)
    yield f"{text.name()}-{text.hex(6)}.cast", asciicast(text, min(wanted, size), typed=True)


def output_recordings(text: Text, size: int) -> Iterator[tuple[str, bytes]]:
    """One asciicast file of output alone, of 0.2 to 1.4 MB, less if `size` is smaller."""
    wanted = 200_000 + text.below(1_200_000)
    yield f"{text.name()}-{text.hex(6)}.cast", asciicast(text, min(wanted, size), typed=False)


def sessions(text: Text, size: int) -> Iterator[tuple[str, bytes]]:
    """One Claude Code log, in a folder as the CLI names it after a project."""
    data = claude_code(text, size)
    name = orjson.loads(data[: data.index(b"\n")])["sessionId"]
    yield f"{name}.jsonl", data
