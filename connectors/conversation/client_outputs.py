r"""What a command put out, within the words that Codex and Gemini CLI write around it, and in any agent's form.

Codex: the headers in the table `harness_text`, such as `Exit code: 1\nWall time: 2 seconds\nOutput:\n…`, and an object
`{"output": …, "metadata": {"exit_code": 1, "duration_seconds": 2}}`, whose output may begin with one of them. In 2025
also, of a command that failed in its sandbox, `failed in sandbox … sandbox denied exec error, exit code: 1, stdout: …,
stderr: …`.

Gemini CLI: `Command: …\nDirectory: …\nOutput: …\nError: (none)\nExit Code: 1\nSignal: (none)\n…`, newer ones without
the lines that say nothing, and `Command was automatically cancelled because it exceeded the timeout of 5.0 minutes
without output. Below is the output before it was cancelled:\n…` (packages/core/src/tools/shell.ts).

All of that is the client's. mini-swe-agent's forms are read by `wrapped_output`, those of OpenHands and SWE-agent by
`templates`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from trajmill.connectors.conversation.harness_text import CODEX, Source, headed
from trajmill.connectors.conversation.templates import may_be_dressed, undressed
from trajmill.connectors.conversation.wrapped_output import Output, limit_of, unwrapped
from trajmill.connectors.reading.fields import INT32, whole_number_of
from trajmill.connectors.reading.values import JsonError, json_value

_BEGINNING: Final = re.compile(
    r'\s*(?:<(?:exception|returncode)>|\{\s*"(?:returncode|output)":|The\s+last\s|Exit code: |Chunk ID: |Wall time: '
    r"|failed in sandbox |command timed out after |Total output lines: |Command was auto|Command: |Output: |Stdout: )"
)
"""How the forms begin: what begins otherwise, as nearly every answer does, has none of them."""

_OBJECT: Final = '{"output":'
_DENIED: Final = re.compile(
    r"failed in sandbox \w+ with execution error: sandbox denied exec error, exit code: (-?\d{1,10})(, stdout: )?"
)
_DENIED_STDERR: Final = ", stderr: "
_LONGEST_SECONDS: Final = 1e9

_CANCELLED: Final = re.compile(
    r"Command was automatically cancelled because it exceeded the timeout of ([0-9]{1,6}(?:\.[0-9]{1,3})?) minutes"
    r"(?: without output)?\."
)
_UNTIL_THEN: Final = " Below is the output before it was cancelled:\n"
_NOTHING: Final = " There was no output before it was cancelled."
_ENDING: Final = re.compile(
    r"(?:\nError: (?P<error>[^\n]*+))?(?:\nExit Code: (?P<code>-?[0-9]{1,10}|\(none\)))?"
    r"(?:\nSignal: (?P<signal>[^\n]*+))?(?:\nBackground PIDs: (?P<background>[^\n]*+))?"
    r"(?:\nProcess Group PGID: (?P<group>[^\n]*+))?\Z"
)
_LONGEST_ENDING: Final = 8192
_DIRECTORY: Final = "\nDirectory: "
_STREAMS: Final = ("\nOutput: ", "\nStdout: ")
_STDERR: Final = "\nStderr: "
_NONE: Final = ("(none)", "(empty)")


def command_output(text: str) -> Output | None:
    """The output that an answer holds in the form of any agent's harness; None where it has none of the forms."""
    told = None
    if _BEGINNING.match(text):
        of_others = text.startswith(_OBJECT) and '"exit_code"' not in text
        told = unwrapped(text) or (None if of_others else codex_output(text)) or gemini_output(text)
    if told is None and may_be_dressed(text):
        dressed = undressed(text)
        told = dressed if dressed.notes else None
    return told


def codex_output(text: str, version: str | None = None) -> Output | None:
    """The output that an answer of Codex holds; None where it has none of the forms; `version` is the client's."""
    told = _of_codex(text)
    inner = text if told is None else told.text or ""
    headers = headed(inner, Source(CODEX, version))
    if not headers.notes:
        return told
    told = told or Output(text)
    return replace(
        told,
        text=headers.text,
        exit_code=None if headers.killed else told.exit_code if headers.exit_code is None else headers.exit_code,
        killed=headers.killed,
        limit=headers.limit,
        notes=(*told.notes, *headers.notes),
        seconds=told.seconds if headers.seconds is None else headers.seconds,
    )


def _of_codex(text: str) -> Output | None:
    if text.startswith(_OBJECT):
        return _structured(text)
    if text.startswith("failed in sandbox ") and (match := _DENIED.match(text)):
        return _denied(text, match)
    return None


def _denied(text: str, header: re.Match[str]) -> Output:
    """What a command put out that the sandbox was blamed for; the whole text where its two streams cannot be told."""
    stdout, _, stderr = text[header.end() :].partition(_DENIED_STDERR)
    if header[2] is None or _DENIED_STDERR not in text or _DENIED_STDERR in stderr:
        return Output(text, _code(header[1]))
    between = "\n" if stdout and stderr and not stdout.endswith("\n") else ""
    return Output(stdout + between + stderr, _code(header[1]), notes=(header[0].removesuffix(", stdout: "),))


def _structured(text: str) -> Output | None:
    try:
        value = json_value(text)
    except JsonError:
        return None
    inner, metadata = value.get("output"), value.get("metadata")
    if len(value) != 2 or not isinstance(inner, str) or not isinstance(metadata, dict):
        return None
    code, seconds = whole_number_of(metadata.get("exit_code"), INT32), metadata.get("duration_seconds")
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds < _LONGEST_SECONDS:
        seconds = None
    return Output(inner, code, seconds=seconds if seconds is None else float(seconds))


def _code(digits: str | None) -> int | None:
    return None if digits is None else whole_number_of(int(digits), INT32)


def gemini_output(text: str, shell: bool = False) -> Output | None:
    """The output that an answer of Gemini CLI holds; None where it has none of the forms.

    Args:
        text: the answer.
        shell: whether it answers the client's shell, so that the lines at its end tell the form by themselves.
    """
    if (late := _CANCELLED.match(text)) is not None:
        rest = text[late.end() :]
        until = rest.removeprefix(_UNTIL_THEN) if rest.startswith(_UNTIL_THEN) else ""
        if not until and rest.strip() not in ("", _NOTHING.strip()):
            return None
        return Output(until, None, True, limit_of(float(late[1]) * 60), notes=(late[0],))
    begin, label = _beginning(text)
    if begin < 0 and not shell:
        return None
    start = max(begin, 0)
    ending = _ENDING.search(text, max(start, len(text) - _LONGEST_ENDING))
    if ending is None or (ending["code"] is None and ending["group"] is None):
        return None
    shown = [_unless_none(text[start : max(start, ending.start())])]
    if label == _STREAMS[1]:
        shown = [_unless_none(part) for part in shown[0].partition(_STDERR)[::2]]
    error, signal, background = (_unless_none(ending[name] or "") for name in ("error", "signal", "background"))
    known = _code(ending["code"]) if ending["code"] not in (None, *_NONE) else None
    if ending["code"] is None and not error and not signal and begin >= 0:
        known = 0  # newer clients leave out the line of a command that succeeded
    told = (("Signal", signal), ("Background PIDs", background))
    notes = tuple(f"{name}: {value}" for name, value in told if value)
    return Output("\n".join(part for part in (*shown, error) if part), known, notes=notes)


def _beginning(text: str) -> tuple[int, str]:
    """(where the output begins, the label before it) of the client's form; -1 where the text does not begin as it."""
    label = next((one for one in _STREAMS if text.startswith(one[1:])), None)
    if label is not None:
        return len(label) - 1, label
    folder = text.find(_DIRECTORY) if text.startswith("Command: ") else -1
    end = text.find("\n", folder + 1) if folder >= 0 else -1
    label = next((one for one in _STREAMS if end >= 0 and text.startswith(one, end)), None)
    return (end + len(label), label) if label is not None else (-1, "")


def _unless_none(text: str) -> str:
    return "" if text in _NONE else text
