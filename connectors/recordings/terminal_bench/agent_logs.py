r"""Steps of an agent that ran inside a recorded terminal and logged its actions there: mini-swe-agent and OpenHands.

In such a recording the only input is the command that started the agent; its actions are in the output. The logs of
these two programs are read in the form of their versions of 2025:

- mini-swe-agent: colored headings (`mini-swe-agent (step 1, $0.00):`, `User:`, `System:`), each above a message. An
  agent's message holds a thought and one block of bash, the user's `<returncode>` and `<output>` (`wrapped_output`).
  rich wraps the text at the width of the terminal; these line breaks are removed (`unfold`).
- OpenHands: `12:00:00 - ACTION` and `12:00:00 - OBSERVATION` above `**CmdRunAction (…)**` and `**CmdOutputObservation
  (…)**`. Nothing is wrapped. Actions that the agent did not take (the setup of its runtime) are left out with their
  answers. Actions other than commands keep the log's own text as their argument.

Spinners, log lines of libraries and horizontal rules are left out.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from trajmill.connectors.conversation.harness_text import Source, read_output, truncation
from trajmill.connectors.conversation.told import Told, answered, call_of
from trajmill.connectors.conversation.turns import Call
from trajmill.connectors.conversation.wrapped_output import Output, unwrap
from trajmill.schemas import COMPLETE, MESSAGE, Action, Observation, Step, call_text, json_text

BASH: Final = "bash"

_ESCAPES: Final = r"(?:\x1b\[[0-9;?]*[A-Za-z])*"
_CONTROLS: Final = re.compile(r"(\x1b\[[0-9;?]*[A-Za-z]|\r\n|\r|\n)")
_MINI: Final = re.compile(
    rf"This is {_ESCAPES}mini-swe-agent{_ESCAPES} version {_ESCAPES}([0-9.]+(?:{_ESCAPES}[0-9.]+)*)"
)
_MINI_HEADING: Final = re.compile(
    r"\r?\n\x1b\[1;32m(System|User)\x1b\[0m:\r?\n|\r?\n\x1b\[1;31mmini-swe-agent"
    rf"{_ESCAPES} \(step {_ESCAPES}\d+{_ESCAPES}, {_ESCAPES}\$[\d.]+{_ESCAPES}\):{_ESCAPES}\r?\n"
)
_MINI_NOISE: Final = re.compile(
    r"^(?:\d\d:\d\d:\d\d - LiteLLM|─{20,}|Saved trajectory to '|.? ?Waiting for the LM to respond\.\.\.)", re.MULTILINE
)
_LIBRARY: Final = re.compile(
    r"(?:(?:. Waiting for the LM to respond\.\.\.)?(?:\d\d:\d\d:\d\d - LiteLLM[^\n]*"
    r"|Traceback \(most recent call last\):(?:\n[ \t]+[^\n]*)*+(?:\n[A-Za-z_][\w.]*(?::[^\n]*)?(?=\n))?"
    r"|(?:During handling of|The above exception was the direct cause of) [^\n]{0,60}:)"
    r"|LiteLLM(?: completion\(\)|\.Info: )[^\n]*|Provider List: [^\n]*"
    r"|Give Feedback / Get Help: [^\n]*|INFO:(?:httpx|LiteLLM|openai):[^\n]*|[ \t]*)\n"
)
"""Lines and tracebacks that libraries of the client log anywhere; matched here before a message."""

_RULE: Final = re.compile(r"([=\-_─━*#])\1{9}$")
"""End of a horizontal rule, which ends its line."""

_FENCE: Final = re.compile(r"^```(bash)?[ \t]*$", re.MULTILINE)
_BEGINS: Final = "--BEGIN AGENT OBSERVATION--\n"
_ENDS: Final = "\n--END AGENT OBSERVATION--"
_FINISH: Final = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

_HANDS_CLIENT: Final = Source("openhands")
_HANDS: Final = re.compile(rf"\d\d:\d\d:\d\d{_ESCAPES} - {_ESCAPES}ACTION")
_HANDS_RECORD: Final = re.compile(r"^\d\d:\d\d:\d\d - (?:([A-Z_]+)$|openhands:[A-Z]+)", re.MULTILINE)
_HANDS_ACTION: Final = re.compile(
    r"\*\*(?P<name>\w+?)(?:Action)?(?: \((?P<facts>[^)\n]*)\))?\*\*(?: \((?P<more>[^)\n]*)\))?\n(?P<text>.*)"
    r"|(?P<class>\w+?)Action\((?P<fields>.*)\)?",
    re.DOTALL,
)
_HANDS_NOT_ACTIONS: Final = frozenset({"Recall", "ChangeAgentState", "Null"})
_HANDS_COMMAND: Final = re.compile(r"(?:THOUGHT: (.*?)\n)?COMMAND:\n(.*)", re.DOTALL)
_HANDS_OUTPUT: Final = re.compile(r"\*\*CmdOutputObservation \((.*?)exit code=(-?\d{1,9})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Gap:
    """A point at which an agent did something that its log does not show; `offset` is that of the record."""

    offset: int
    reason: str
    detail: str


@dataclass(slots=True)
class AgentLog:
    """Contents of an agent's log.

    Attributes:
        version: version of the agent, if stated.
        system: its system prompt, if stated.
        told: its turns in order; a new run begins after each gap.
        gaps: points at which the log does not show the action.
    """

    name: str
    version: str | None = None
    system: str | None = None
    told: list[Told] = field(default_factory=lambda: [Told(in_memory=True)])
    gaps: list[Gap] = field(default_factory=list)

    def runs(self) -> list[list[Step]]:
        """Return the steps of each run that has any."""
        return [list(builder.steps()) for builder in self.told if builder.acted]


class Printed:
    """All output of a recording as one text, with the time and offset of each part.

    Args:
        events: (offset, seconds, output) in order.
    """

    def __init__(self, events: Iterable[tuple[int, float, str]]) -> None:
        parts: list[str] = []
        self._starts: list[int] = []
        self._events: list[tuple[int, float]] = []
        size = 0
        for offset, now, data in events:
            self._starts.append(size)
            self._events.append((offset, now))
            parts.append(data)
            size += len(data)
        self.text = "".join(parts)

    def at(self, position: int) -> tuple[int, float]:
        """Return (offset, seconds) of the event that the character is part of."""
        return self._events[bisect_right(self._starts, position) - 1] if self._events else (0, 0.0)


def plain(output: str) -> str:
    r"""Return output in its final form: without colors, and with the last state of a redrawn line (`\r`, erasures)."""
    return "\n".join(_draw_lines(output)) if "\x1b" in output or "\r" in output else output


def _draw_lines(output: str) -> list[str]:
    """Return the lines that a terminal of unlimited width would show."""
    lines: list[list[str]] = [[]]
    row, column, size = 0, 0, 0
    for piece in _CONTROLS.split(output):
        if piece in ("\r\n", "\n", "\x1b[A", "\x1b[1A"):
            row = max(0, row - 1) if piece[0] == "\x1b" else row + 1
            if row == len(lines):
                lines.append([])
            size = sum(map(len, lines[row]))
            column = column if piece[0] == "\x1b" else 0
        elif piece == "\x1b[2K":
            lines[row], size = [], 0
        elif piece == "\r":
            column = 0
        elif piece and not piece.startswith("\x1b["):
            if column != size:
                line = "".join(lines[row]).ljust(column)
                lines[row] = [line[:column], piece, line[column + len(piece) :]]
            else:
                lines[row].append(piece)
            column += len(piece)
            size = max(size, column)
    return ["".join(line) for line in lines]


def agent_log(printed: Printed, columns: int, began: float | None) -> AgentLog | None:
    """Read the log of a known agent in the output; None if there is none.

    Args:
        columns: columns of the terminal, at which mini-swe-agent wraps.
        began: beginning of the recording, in seconds since 1970 UTC.
    """
    if match := _MINI.search(printed.text):
        version = re.sub(_ESCAPES, "", match[1]).strip(".") or None
        return _Mini(printed, columns, began, AgentLog("mini-swe-agent", version)).read(match.end())
    if "**CmdRunAction" in printed.text and _HANDS.search(printed.text):
        return _hands(printed, began, AgentLog("openhands"))
    return None


class _Mini:
    """Reader of a log of mini-swe-agent."""

    def __init__(self, printed: Printed, columns: int, began: float | None, log: AgentLog) -> None:
        self._printed, self._columns, self._began, self._log = printed, columns, began, log

    def read(self, begin: int) -> AgentLog:
        text, log = self._printed.text, self._log
        headings = list(_MINI_HEADING.finditer(text, begin))
        pending: tuple[int, str, str | None] | None = None
        for number, heading in enumerate(headings):
            end = headings[number + 1].start() if number + 1 < len(headings) else len(text)
            body = plain(text[heading.end() : end])
            if heading[1] == "System":
                log.system = log.system or _without_noise(body).strip()
            elif heading[1] is None:
                if pending is not None:
                    self._add(pending, None, None)
                pending = (heading.start(), *_mini_action(body, self._columns))
            elif pending is not None:
                self._add(pending, body, heading.start())
                pending = None
        if pending is not None:
            self._add(pending, None, None)
        return log

    def _add(self, pending: tuple[int, str, str | None], answer: str | None, answered_at: int | None) -> None:
        """Add the step of an agent's message (its offset, thought and command) and the answer to it."""
        start, thought, command = pending
        offset, now = self._printed.at(start + 2)
        if command is None:
            call = Call(MESSAGE, json_text({"content": thought}), None, offset)
        else:
            call = Call(BASH, json_text({"command": command}), None, offset, reasoning=thought or None)
        after, output = _mini_answer(answer, self._columns, command is None)
        ends = command is not None and _FINISH in command and after is None and answer is not None
        answered(
            call,
            after,
            offset,
            exit_code=output.exit_code,
            at=None if self._began is None else round((self._began + now) * 1e6),
            seconds=None if answered_at is None else round(max(0.0, self._printed.at(answered_at + 2)[1] - now), 6),
        )
        call.ending, call.killed, call.named = (None, True if ends else None, None), output.killed or None, output.limit
        builder = self._log.told[-1]
        _tell(builder, call)
        for note in output.notes:
            builder.say("harness", note)


def _without_noise(body: str) -> str:
    """Return a message without the output of other programs after it, and without blank lines around it."""
    noise = _MINI_NOISE.search(body)
    return (body[: noise.start()] if noise else body).strip("\n")


def _message(body: str, columns: int) -> str:
    """Return a message without the console's line breaks, and without what libraries logged before it."""
    begin = 0
    while (line := _LIBRARY.match(body, begin)) is not None:
        begin = line.end()
    return unfold(body[begin:], columns)


def _mini_action(body: str, columns: int) -> tuple[str, str | None]:
    """Return (thought, command) of an agent's message; the command is None unless there is one block of bash."""
    body = _message(body, columns)
    blocks: list[tuple[int, str]] = []
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(body):
        if opened is None:
            opened = fence if fence[1] else None
        elif not fence[1]:
            blocks.append((opened.start(), body[opened.end() + 1 : max(opened.end() + 1, fence.start() - 1)]))
            opened = None
    if len(blocks) != 1:
        return _without_noise(body).strip(), None
    return body[: blocks[0][0]].strip(), blocks[0][1]


def _mini_answer(body: str | None, columns: int, is_harness: bool) -> tuple[Observation | None, Output]:
    """Return the observation in a user's message, and the harness's words about it."""
    body = _message(body or "", columns)
    output = None if is_harness else unwrap(body, entire=False)
    if output is None:
        words = _without_noise(body)
        return Observation(words, origin="harness") if words else None, Output(None)
    if output.text is None:
        return None, output
    return Observation(output.text, truncation="harness" if output.cut else "none"), output


def unfold(text: str, columns: int) -> str:
    """Remove the line breaks that a console inserted because the next word did not fit its width.

    Such a break follows a blank after which the next word would not fit, or a line of the full width. The blank stays
    at the end of the line, and nothing else leaves one there; but the blank after a word that ends at the full width
    is lost, and is put back. A line of the full width that is one word is a piece of a longer word. Blanks stay with
    the word before them, so that no break is before one.
    """
    lines = text.split("\n")
    unwrapped_lines = [lines[0]]
    for before, line in pairwise(lines):
        word = line.split(" ", 1)[0]
        if not word or _is_full_line(before, line, columns):
            unwrapped_lines.append(line)
        elif len(before) == columns:
            unwrapped_lines[-1] += f" {line}" if " " in before.strip() and not before.endswith(" ") else line
        elif before.endswith(" ") and len(before.rstrip(" ")) + 1 + len(word) > columns:
            unwrapped_lines[-1] += line
        else:
            unwrapped_lines.append(line)
    return "\n".join(unwrapped_lines)


def _is_full_line(before: str, line: str, columns: int) -> bool:
    """Check whether a line of the full width is a horizontal rule, or is followed by a fence; neither is wrapped."""
    is_rule = _RULE.search(before) is not None and (" " in before.strip() or line[0] != before[-1])
    return len(before) == columns and (is_rule or line.startswith("```"))


def _hands(printed: Printed, began: float | None, log: AgentLog) -> AgentLog:
    """Read a log of OpenHands. An observation answers the action before it, since the log has no ids."""
    builder = log.told[0]
    call: Call | None = None
    begun, is_open = 0.0, False
    for start, kind, body in _hands_records(printed):
        offset, now = printed.at(start)
        if kind == "ACTION":
            is_open = False
            if (action := _hands_action(body, log)) is not None:
                _tell(builder, call)
                call = answered(call_of(action), None, offset, at=None if began is None else round((began + now) * 1e6))
                call.ending = (None, True if action.name == COMPLETE else None, None)
                begun, is_open = now, True
        elif kind == "OBSERVATION" and is_open and call is not None:
            call.shown, output = _hands_observation(body)
            call.seconds, is_open = round(max(0.0, now - begun), 6), False
            call.ends(output)
    _tell(builder, call)
    return log


def _tell(builder: Told, call: Call | None) -> None:
    """Add a call with its result, which is also the observation before the next call, or None if unknown."""
    if call is not None:
        builder.turn([call])
        builder.show(call.shown)


def _hands_records(printed: Printed) -> Iterator[tuple[int, str | None, str]]:
    """Yield (position in the output, kind, text) of each record of the log; kind is None for lines of other loggers."""
    text, original_offset = _strip_colours(printed.text)
    heads = list(_HANDS_RECORD.finditer(text))
    for number, head in enumerate(heads):
        end = heads[number + 1].start() if number + 1 < len(heads) else len(text)
        yield original_offset(head.start()), head[1], text[head.end() + 1 : end].rstrip("\n")


def _strip_colours(text: str) -> tuple[str, _Places]:
    """Return the text without escape sequences and carriage returns, and a map to the original positions."""
    parts: list[str] = []
    begins: list[int] = []
    stood: list[int] = []
    size = at = 0
    for escape in re.finditer(r"\x1b\[[0-9;?]*[A-Za-z]|(?<!\r)\r+(?=\n)", text):
        if escape.start() > at:
            begins.append(size)
            stood.append(at)
            parts.append(text[at : escape.start()])
            size += escape.start() - at
        at = escape.end()
    begins.append(size)
    stood.append(at)
    parts.append(text[at:])
    return "".join(parts), _Places(begins, stood)


@dataclass(frozen=True, slots=True)
class _Places:
    kept: Sequence[int]
    stood: Sequence[int]

    def __call__(self, position: int) -> int:
        number = bisect_right(self.kept, position) - 1
        return self.stood[number] + position - self.kept[number]


def _hands_action(body: str, log: AgentLog) -> Action | None:
    """Return the action of a record; None if the agent did not take it. A system prompt is stored in `log`."""
    record = _HANDS_ACTION.match(body)
    if record is None:
        return None
    name = record["name"] or record["class"]
    facts = f"{record['facts'] or ''} {record['more'] or ''}"
    text = (record["text"] or record["fields"] or "").strip("\n")
    if ("source=" in facts and "source=EventSource.AGENT" not in facts) or name in _HANDS_NOT_ACTIONS:
        return None
    if name in ("System", "SystemMessage"):
        log.system = log.system or text.removeprefix("CONTENT: ")
        return None
    if name == "Message":
        message = {"content": text.removeprefix("CONTENT: ")}
        return Action(MESSAGE, call_text(MESSAGE, message), json_text(message))
    command = _HANDS_COMMAND.match(text) if name == "CmdRun" else None
    if command is None:
        name, arguments = COMPLETE if name == "AgentFinish" else name, {"logged": text}
        return Action(name, call_text(name, arguments), json_text(arguments))
    bash_arguments: dict[str, object] = {"command": command[2]}
    if "is_input=True" in facts:
        bash_arguments["is_input"] = True
    return Action(BASH, call_text(BASH, bash_arguments), json_text(bash_arguments), reasoning=command[1])


def _hands_observation(body: str) -> tuple[Observation, Output]:
    """Return (observation, end of the command) of a record, without the lines that OpenHands adds at the ends."""
    output = _HANDS_OUTPUT.match(body)
    begin, end = body.find(_BEGINS), body.rfind(_ENDS)
    if begin >= 0 and begin + len(_BEGINS) <= end:
        client_output = read_output(body[begin + len(_BEGINS) : end], _HANDS_CLIENT)
    else:
        client_output = Output(body.partition("**\n")[2] if body.startswith("**") else body)
    content = client_output.text or ""
    is_error = True if body.startswith("**ErrorObservation") else None
    status = int(output[2]) if output and int(output[2]) >= 0 else None
    notes = tuple(note for note in client_output.notes if client_output.killed)
    ended = replace(client_output, exit_code=status, notes=notes)
    return Observation(
        content, truncation=truncation(content, _HANDS_CLIENT), is_error=is_error, uri=client_output.folder
    ), ended
