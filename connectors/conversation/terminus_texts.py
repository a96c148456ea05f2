"""Prompts and responses of Terminus: the terminal's part of a prompt, and the commands of a response.

The forms are the prompt templates and parsers of Terminus 2 (JSON and XML) and Terminus 1 (JSON). A prompt is the text
shown to the agent; the harness's words around the terminal's text, including its headings, are separated from it. A
response is parsed only if it has exactly this form. Terminus 2 also accepts prose around it and missing closing braces.
`recover_response` parses these in the same way, for logs that show that Terminus did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from trajmill.connectors.conversation.harness_text import Source, speaker, truncation
from trajmill.connectors.conversation.wrapped_output import Output, limit_of
from trajmill.connectors.reading.fields import number_of
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.values import json_value
from trajmill.schemas import COMPLETE, KEYSTROKES, WAIT, Action, Observation, keystrokes_text
from trajmill.schemas.record import record

TERMINUS: Final = Source("terminus", None, "")
_MARKER: Final = re.compile(r"^(New Terminal Output|Current Terminal Screen):(?:\n|\Z)", re.MULTILINE)
_TASK: Final = "Task Description:\n"
_STATE: Final = "Current terminal state:\n"
_CONFIRM: Final = "\n\nAre you sure you want to mark the task as complete?"
_REFUSED: Final = "Previous response had parsing errors:"
_HANDOVER: Final = ("Here are the answers the other agent provided", "Here is a summary", "You are picking up work")
_OUT_OF_TIME: Final = re.compile(
    r"^The previous command timed out after ([0-9]{1,6}(?:\.[0-9]{1,6})?) seconds\.?\n"
    r"[^\n]*\n[^\n]*\n(?:[^\n]*\n)?Here is the current (?:state of the terminal|terminal state):\n\n?",
    re.MULTILINE,
)
_XML: Final = re.compile(r"\s*<response>(.*)</response>\s*", re.DOTALL)
_MARKS: Final = re.compile(r"\\.|[\"{}]", re.DOTALL)
_XML_OPEN: Final = re.compile(r"<keystrokes((?:\s+\w+=\"[^\"]*\")*)\s*>")
_XML_DURATION: Final = re.compile(r"duration=\"(\d{1,9}(?:\.\d{1,9})?)\"")


@record
class Prompt:
    """Contents of an episode's prompt.

    Attributes:
        seen: Terminal output; None if the prompt has none.
        note: Words of the harness beside it, including headings; may be empty.
        refused: True if the harness refused the previous response, so that nothing of it was executed.
        task: Instruction of the task, in a first prompt.
        system: Text before the task, in a first prompt.
        told: Outcome of the previous input, if the harness's time limit for it ran out.
    """

    seen: Observation | None
    note: str = ""
    refused: bool = False
    task: str | None = None
    system: str | None = None
    told: Output = Output(None)


class Response(NamedTuple):
    """Contents of a response; `agent` is terminus-1 or terminus-2, `complete` is true if it declares the task done."""

    action: Action
    agent: str
    complete: bool


_LEVELS: Final = 100
"""Largest nesting of commands."""


class UnclearResponseError(ValueError):
    """Error of a response that does not have exactly the form; `reason` is the word that rejects are counted by."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def prompt_of(text: str, bare: bool) -> Prompt:
    """Parse the prompt of an episode.

    Args:
        bare: True if text without any heading is the terminal's, as in Terminus 1.
    """
    task = text.find(_TASK)
    state = text.rfind(_STATE) if task >= 0 else -1
    if 0 <= task < state:
        seen, note = _terminal(text[state + len(_STATE) :], True)
        return Prompt(seen, note, task=text[task + len(_TASK) : state].strip(), system=text[:task].strip() or None)
    if text.startswith(_REFUSED):
        return Prompt(Observation(text, origin="harness"), refused=True)
    if (late := out_of_time(text)) is not None:
        shown = late.text or ""
        marker = _MARKER.match(shown)
        seen = _seen(shown[marker.end() :] if marker is not None else shown, _form(marker))
        return Prompt(seen, late.notes[0], told=replace(late, notes=()))
    seen, note = _terminal(text, bare and speaker(text, TERMINUS) is None)
    return Prompt(seen, note)


def out_of_time(text: str) -> Output | None:
    """Return the terminal's text if the harness reports that its time limit for a command ran out; otherwise None."""
    late = _OUT_OF_TIME.search(text) if text.startswith("Previous command:\n") else None
    if late is None:
        return None
    return Output(text[late.end() :], None, True, limit_of(float(late[1])), notes=(text[: late.end()].strip(),))


def _form(marker: re.Match[str] | None) -> str:
    """Return the form of the text below a heading, `stream` or `screen`; `screen` without a heading."""
    return "stream" if marker is not None and marker[1].startswith("New") else "screen"


def _terminal(text: str, bare: bool) -> tuple[Observation | None, str]:
    """Return (terminal output, words of the harness) of a prompt."""
    asked = text.find(_CONFIRM)
    body, question = (text, "") if asked < 0 else (text[:asked], text[asked:].strip())
    # Text of another agent may quote a heading; so may the terminal's text, after the real heading.
    marker = _MARKER.search(body)
    if marker is not None and body.startswith(_HANDOVER):
        *_, marker = _MARKER.finditer(body)
    if marker is None:
        if bare or body.startswith(_STATE):
            heading = _STATE.strip() if body.startswith(_STATE) else ""
            return _seen(body.removeprefix(_STATE), "stream"), "\n\n".join(filter(None, (heading, question)))
        return None, text.strip()
    before = body[: marker.end()].strip()
    return _seen(body[marker.end() :], _form(marker)), f"{before}\n\n{question}" if question else before


def _seen(content: str, form: str) -> Observation:
    shown = content.strip("\n").rstrip(" \n")
    return Observation(content=shown, form=form, truncation=truncation(content, TERMINUS))


def recover_response(text: str) -> Response | None:
    """Parse an inexact response in the way of Terminus 2; None if Terminus 2 could not use it.

    It takes the first balanced JSON object, or the first `<response>`, without the text around it; if no object is
    closed, it closes all open ones at the end. The text around is the agent's message.
    """
    spans = sorted(_spans(text), key=lambda span: span[0])
    for start, inner in spans:
        try:
            response = response_of(inner)
        except UnclearResponseError:
            continue
        if response.agent == "terminus-2":
            around = (text[:start].strip(), text[start + len(inner) :].strip())
            message = "\n".join(part for part in around if part)
            return Response(replace(response.action, message=message or None), response.agent, response.complete)
    return None


def _spans(text: str) -> Iterator[tuple[int, str]]:
    """Yield the parts of a text that may be the response, each with its position."""
    start = text.find("<response>")
    end = text.find("</response>", start)
    if 0 <= start < end:
        yield start, text[start : end + len("</response>")]
    inner, start = _first_object(text)
    missing = text.count("{") - text.count("}")
    if not inner and missing > 0:
        inner, start = _first_object(text + "}" * missing)
    if inner:
        yield start, inner


def _first_object(text: str) -> tuple[str, int]:
    """Return the first text from `{` to its closing `}`, and its position; empty if none is closed.

    As in the harness, quotes are counted from the beginning of the text, including those in prose before it.
    """
    quoted, depth, start = False, 0, -1
    for mark in _MARKS.finditer(text):
        sign = mark[0]
        if sign == '"':
            quoted = not quoted
        elif quoted or len(sign) > 1:
            continue
        elif sign == "{":
            start = mark.start() if depth == 0 else start
            depth += 1
        else:
            depth -= 1
            if depth == 0 and start >= 0:
                return text[start : mark.end()], start
    return "", 0


def response_of(text: str) -> Response:
    """Parse a response.

    Raises:
        UnclearResponseError: It is wrapped in other text, truncated, or of another form (`wrapped_response`,
            `truncated_response`, `bad_response`).
    """
    if match := _XML.fullmatch(text):
        return _xml(match[1])
    body = text.strip()
    if not body.startswith("{"):
        if "{" in body or "<response>" in body:
            closed = body.rstrip("`\n ").endswith(("}", "</response>"))
            raise UnclearResponseError(
                "wrapped_response" if closed or "</response>" in body else "truncated_response",
                "other text stands around the response",
            )
        raise UnclearResponseError("bad_response", "wanted a JSON object or a <response>")
    try:
        value = json_value(body)
    except ValueError:
        is_closed = body.endswith("}") or re.search(r"\}\s*\n", body) is not None
        reason = "wrapped_response" if is_closed and not body.endswith("}") else "truncated_response"
        raise UnclearResponseError(reason, "wanted one JSON object and nothing else") from None
    if not isinstance(value, dict):
        raise UnclearResponseError("bad_response", "wanted a JSON object")
    return _json(value)


def _json(value: dict[str, Any]) -> Response:
    first = "state_analysis" in value or "is_task_complete" in value
    commands = value.get("commands")
    complete = value.get("is_task_complete" if first else "task_complete") in (True, "true", "True", "1", "yes")
    if commands is None and complete:
        commands = []
    if not isinstance(commands, list):
        raise UnclearResponseError("bad_response", "wanted a list of commands")
    strokes = [_stroke(command, first) for command in commands]
    analysis, plan = ("state_analysis", "explanation") if first else ("analysis", "plan")
    thought, more = _thought(value.get(analysis)), _thought(value.get(plan))
    reasoning = f"{thought}\n{more}" if thought and more else thought or more
    return _response(strokes, commands, complete, reasoning, "terminus-1" if first else "terminus-2")


def _thought(value: Any) -> str | None:
    return value if isinstance(value, str) and value and not value.isspace() else None


def _stroke(command: Any, first: bool) -> tuple[str, float | None]:
    """Return (keys, seconds to wait after them if stated) of a command; Terminus 1 states only a limit."""
    keys = command.get("keystrokes") if isinstance(command, dict) else None
    if not isinstance(keys, str):
        raise UnclearResponseError("bad_response", "wanted keystrokes in each command")
    return keys, None if first else number_of(command.get("duration"), 1e9, 0)


def _xml(inside: str) -> Response:
    commands = []
    strokes: list[tuple[str, float | None]] = []
    around: list[str] = []
    *closed, rest = inside.split("</keystrokes>")
    for part in closed:
        opening = _XML_OPEN.search(part)
        if opening is None:
            raise UnclearResponseError("bad_response", "wanted whole <keystrokes>")
        duration, keys = _XML_DURATION.search(opening[1]), part[opening.end() :]
        strokes.append((keys, float(duration[1]) if duration else None))
        commands.append({"keystrokes": keys, **({"duration": float(duration[1])} if duration else {})})
        around.append(part[: opening.start()])
    outside = "".join([*around, rest])
    if "<keystrokes" in outside or ("<commands" not in outside and "<task_complete" not in outside):
        raise UnclearResponseError("bad_response", "wanted <commands> with whole <keystrokes>")
    complete = (_element(outside, "task_complete") or "").lower() == "true"
    thoughts = [_element(outside, name) for name in ("analysis", "plan")]
    return _response(strokes, commands, complete, "\n".join(filter(None, thoughts)) or None, "terminus-2")


def _element(text: str, name: str) -> str | None:
    """Return the text of the first element of a name, without surrounding white space."""
    _, _, after = text.partition(f"<{name}>")
    inside, closed, _ = after.partition(f"</{name}>")
    return inside.strip() if closed else None


def _response(
    strokes: list[tuple[str, float | None]], commands: list[Any], complete: bool, reasoning: str | None, agent: str
) -> Response:
    """Return the response of the keystrokes; none are a wait of unknown length, unless the task is complete."""
    arguments = shallow_json({"commands": commands, "task_complete": complete}, _LEVELS)
    if arguments is None:
        raise UnclearResponseError("bad_response", f"the commands nest more than {_LEVELS} levels deep")
    if not strokes:
        name, text = (COMPLETE, keystrokes_text([])) if complete else (WAIT, keystrokes_text([("", None)]))
    else:
        name, text = KEYSTROKES if any(keys for keys, _ in strokes) else WAIT, keystrokes_text(strokes)
    return Response(Action(name, text, arguments, reasoning=reasoning), agent, complete)


def limit_in(action: Action) -> float | None:
    """Return the time limit of a Terminus 1 response with a single blocking command, in seconds; None for any other."""
    arguments = action.arguments or ""
    commands = json_value(arguments)["commands"] if '"timeout_sec"' in arguments else ()
    waits = [command for command in commands if isinstance(command, dict) and command.get("is_blocking") is True]
    return limit_of(waits[0].get("timeout_sec")) if len(waits) == 1 else None
