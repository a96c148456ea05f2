"""The harness's words around what the agent was shown: headings, the state of its shell, how a command ended.

Templates of SWE-agent (`OBSERVATION:`, the lines before `bash-$`, what it says of a command whose time ran out, the
marker that it reads exit codes from), of R2E-Gym (`Execution output of […]:` behind an exit code) and of OpenHands
(`EXECUTION RESULT of […]:`, the lines in brackets after an output, of which some say that it stopped waiting, the count
of turns left). Only whole templates at a text's very ends are told; the same words anywhere else are the environment's.
What a message as a whole means is not judged here.
"""

from __future__ import annotations

import re
from typing import Final

from trajmill.connectors.conversation.wrapped_output import Output, killed_after

_HEAD: Final = re.compile(
    r"(OBSERVATION:(?:\n|\Z)|"
    r"(?:Exit code: -?\d{1,9}\n)?(?:EXECUTION RESULT|Execution output) of \[[\w.-]{1,100}\]:(?:\n|\Z))?"
    r"(\[Below is the output of the previous command\.\](?:\n|\Z))?"
)
_STATE: Final = re.compile(r"(?:\A|\n)(\(Open file: [^\n]*\)\n(?:\([^\n]*\)\n){1,8}bash-\$\s*)\Z")
_REMINDER: Final = re.compile(r"(?:\A|\n)(ENVIRONMENT REMINDER: You have [^\n]*)\Z")
_ENDED: Final = re.compile(
    r"(?:\A|\n)(\[(?:The command completed with exit code|Command finished with exit code|Current working directory:|"
    r"Python [Ii]nterpreter:|Jupyter current working directory:|Jupyter Python interpreter:|"
    r"The command has no new output after|The command timed out after)[^\n]*\])\Z"
)
_STOPPED: Final = re.compile(r"\[The command (?:has no new output|timed out) after ")
_FOLDER: Final = re.compile(r"\[(?:Jupyter c|C)urrent working directory: ([^\n]*)\]")
_SILENT: Final = re.compile(
    r"(?:\A|\n)(EXECUTION TIMED OUT(?: BECAUSE NO OUTPUT WAS PRODUCED FOR MORE THAN [0-9.]{1,12} SECONDS\.\n"
    r"PLEASE REFINE YOUR RUNNING COMMAND SO IT WILL PRODUCE OUTPUT IN THE SPECIFIED TIME FRAME\.)?)\s*\Z"
)
_SILENCES: Final = ("EXECUTION TIMED OUT", "SPECIFIED TIME FRAME.")
_DONE: Final = re.compile(r"///PROCESS-DONE:([0-9]{1,3}):PROCESS-DONE///\s*\Z")
_DONE_BEGINS: Final = "///PROCESS-DONE:"
_DONE_ENDS: Final = ":PROCESS-DONE///"
_COMMAND: Final = "The command '"
_TOOK: Final = re.compile(r"' was cancelled because it took more than [0-9.]{1,12} seconds\.[^\n]*\s*\Z")
_CODE: Final = re.compile(r"(?:\[(?:The command completed|Command finished) with exit|Exit) code:? (-?\d{1,9})\b")

_HEADS: Final = (
    "OBSERVATION:",
    "EXECUTION RESULT of [",
    "Execution output of [",
    "Exit code: ",
    "[Below is the output of ",
    _COMMAND,
)
_SHELL: Final = "bash-$"
_REMINDS: Final = "ENVIRONMENT REMINDER: You have "
_REMINDS_BARE: Final = _REMINDS.rstrip()
_ENDS: Final = ("]", _SHELL, _DONE_ENDS, *_SILENCES)

_TAIL: Final = 8192
"""Characters of an end that a template is looked for in."""

_LINES: Final = 8

_LONGEST_SILENCE: Final = 256
"""Characters that SWE-agent's words on a silent command take."""


def may_be_dressed(text: str) -> bool:
    """Whether there may be a template at an end of the text; without one it is what was shown."""
    end = text.rstrip()
    return end.endswith(_ENDS) or text.startswith(_HEADS) or end.find(_REMINDS_BARE, end.rfind("\n") + 1) >= 0


def undressed(text: str) -> Output:
    """What was shown, and the harness's words around it; one line end goes with each of them."""
    head = _HEAD.match(text)
    heads = tuple(one.rstrip() for one in head.groups() if one) if head is not None else ()
    begin, end = head.end() if head is not None else 0, len(text)
    tail: list[str] = []
    while len(tail) < _LINES:
        start = end - _TAIL if end - begin > _TAIL else begin
        found = _last(text[start:end].rstrip("\n"))
        if found is None:
            break
        tail.append(found[1].rstrip())
        end = start + found.start()
    tail.reverse()
    body: str | None = text[begin:end].rstrip("\n") if tail else text[begin:]
    ended = read_ending(body or "") or Output(None)
    if ended.notes:
        body, tail = ended.text, [*ended.notes, *tail]
    stopped = next((note for note in tail if _STOPPED.match(note)), None)
    code = next((int(told[1]) for note in (*reversed(tail), *heads) if (told := _CODE.match(note))), None)
    return Output(
        body,
        code if code is not None and -(2**31) < code < 2**31 and code != -1 else ended.exit_code,
        ended.killed or stopped is not None,
        ended.limit or killed_after(stopped),
        notes=(*heads, *tail),
        folder=next((told[1] for note in tail if (told := _FOLDER.match(note))), None),
    )


def read_ending(text: str) -> Output | None:
    """What a command put out before SWE-agent's words at the end of the text on how it ended; None without such words.

    Of a command that it cancelled it shows nothing else, and where it names no silence (before 0.7) nothing either:
    what the command put out is then not known. The marker with the exit code is left where no line end precedes it.
    """
    place = text.rfind(_DONE_BEGINS)
    if place >= 0 and (done := _DONE.match(text, place)) is not None:
        return Output(text[:place], int(done[1]), notes=(done[0].rstrip(),))
    place = text.rfind("' was cancelled because it took more than ") if text.startswith(_COMMAND) else -1
    if place >= 0 and _TOOK.match(text, place):
        return Output(None, None, True, killed_after(text[place:]), notes=(text.rstrip(),))
    end = text.rstrip()
    found = _SILENT.search(end, max(0, len(end) - _LONGEST_SILENCE)) if end.endswith(_SILENCES) else None
    if found is None:
        return None
    shown = end[: found.start()]
    known = bool(shown) or found[1] != _SILENCES[0]
    return Output(shown if known else None, None, True, killed_after(found[1].replace("\n", " ")), notes=(found[1],))


def state_apart(text: str) -> tuple[str | None, str | None]:
    """A text, None if nothing is left of it, and the state of SWE-agent's shell that it ends in, None if in none."""
    ends = text.rstrip().endswith(_SHELL)
    found = _STATE.search(text, max(0, len(text) - _TAIL)) if ends else None
    if found is None:
        return text or None, None
    return text[: found.start()].rstrip("\n") or None, found[1].rstrip()


def _last(text: str) -> re.Match[str] | None:
    """The template that the text ends in."""
    if text.endswith("]"):
        line = text.rfind("\n")
        return _ENDED.search(text, line if line > 0 else 0)
    if text.endswith(_SHELL) or (text[-1:].isspace() and text.rstrip().endswith(_SHELL)):
        place = text.rfind("(Open file: ")
        return _STATE.search(text, place - 1 if place else 0) if place >= 0 else None
    line = text.rfind("\n") + 1
    return _REMINDER.search(text, line - 1 if line else 0) if text.rfind(_REMINDS, line) == line else None
