r"""Aider chat histories (`.aider.chat.history.md`); each start of Aider in which a model replied is a trajectory.

>>> show(Aider(), '''
... # aider chat started at 2024-05-06 07:08:09
...
... > Aider v0.50.1\x20\x20
...
... #### Switch it on.\x20\x20
...
... x.py
... ```
... <<<<<<< SEARCH
... 0
... =======
... 1
... >>>>>>> REPLACE
... ```
...
... > Applied edit to x.py\x20\x20
... ''')
action  | {"name": "edit", "arguments": {"content": "x.py\n```\n<<<<<<< SEARCH\n0\n=======\n1\n>>>>>>> REPLACE\n```"}}
after   | Applied edit to x.py

The action is the model's reply: `edit` if it holds edits or Aider applied some, else a message. The next observation is
Aider's output after it: edits applied, commits, output of linters and tests. After a message without such output, it is
the user's next message. Between turns are the words of the harness (token counts, hints, notices of interruption,
questions to the user), commands of the user with their output, and messages of the user that are no answer, including a
typed `y` or `n`.

The file holds neither the system prompt nor the files that the model saw (the `action_space` is derived: the effect of
`edit`), and it holds the output of commands cut and trimmed as Aider printed it. Times are local and without a time
zone, so no step has one. A session without a reply is rejected as `no_transitions`, the text before the first start,
whose beginning is lost, as `no_start`, and a session whose lines a formatter trimmed as `rewritten`.

What Aider itself writes as the user's (the plan of an architect for the editor, the question behind a typed `/ask`) is
left out. Reasoning at the head of a reply (`<think>`, `<thinking-content-…>`) is the action's; a reply that was
interrupted in it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import ClassVar, Final, NamedTuple

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation.told import Told, answered
from trajmill.connectors.conversation.turns import Call
from trajmill.connectors.swe.actions import call, spoken
from trajmill.connectors.swe.aider.lines import Block, Session, sessions
from trajmill.schemas import Agent, Context, Observation, ParseError, Reject, Task, Trajectory, json_text

EDIT: Final = "edit"

_NAME: Final = ".aider.chat.history.md"
_START: Final = re.compile(rb"^# aider chat started at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.MULTILINE)
_EDITS: Final = re.compile(r"^(?:<{5,9} SEARCH|```diff$|<{5,9} ORIGINAL)", re.MULTILINE)
_VERSION: Final = re.compile(r"^Aider v(\S{1,40})$", re.MULTILINE)
_MODEL: Final = re.compile(r"^(?:Main model|Models?): (\S{1,200}) with ", re.MULTILINE)
_APPLIED: Final = "Applied edit to "
_TOOLS: Final = json_text(
    [
        {
            "name": EDIT,
            "description": (
                "A reply with edits of files: the path of each, and a block of the lines to find with those that take "
                "their place. Aider applies the edits that it can, commits what has changed, and runs the linters and "
                "tests that it was started with; it tells what was applied, each commit, blocks whose lines it did not "
                "find, and what linters and tests put out. Changes of the user that are not committed yet it commits "
                "first. The words around the blocks change nothing, but may be taken up in the message of a commit."
            ),
            "parameters": {"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]},
        }
    ]
)
"""Tools in the environment of these sessions, which the files do not name."""

_NOTES: Final = (
    "Tokens: ",
    "Cost: ",
    "You can use /undo to ",
    "Use /help ",
    "^C",
    "Retrying in ",
    "Unexpected error: litellm",
    "litellm.",
    "The API provider ",
    "Please answer with one of: ",
    "Repo-map can't include ",
    "Has it been deleted from the file system but not from git?",
)
"""Beginnings of lines with which Aider reports about itself, not about the repository."""

_ASKED: Final = re.compile(
    r"([A-Z][^\n]*\?(?: (?:\([^\n]{1,80})?\[[^\n\]]{1,16}\]:?)?) ([ynasd]|yes|no|all|skip|don't)", re.IGNORECASE
)
"""Questions of Aider to the user, with the typed answers."""

_FILES_ASKED: Final = "Add these files to the chat?"
"""Question that follows a list of the files named in the reply, one per line."""

_COMMANDS_ASKED: Final = "Run shell command"
"""Beginning of the question that follows lines of the reply."""

_LINE_ASKED: Final = ("Add file to the chat?", "Create new file?", "Allow edits to file that ", "Add URL to the chat?")
"""Beginnings of the questions that follow the line with the file or address in question."""

_THOUGHT: Final = re.compile(r"\s*<(think|thinking-content-[0-9a-f]{32})>(.*?)(?:</\1>\s*|\Z)", re.DOTALL)
"""Reasoning at the head of a reply, by the model's tag or by Aider's own; an interrupted reply does not end it."""

_REFUSED: Final = "did not conform to the edit format"
_UNMET: Final = "failed to match!"
"""An edit that was parsed, but whose lines are not in the file. The content of the file decides, so the answer is the
environment's although it has the same heading; other edits of the reply may have been applied.
"""


class Aider(Connector):
    """Chat histories of Aider."""

    name: ClassVar[str] = "aider"
    version: ClassVar[str] = "7"
    domains: ClassVar[tuple[str, ...]] = ("swe",)
    title: ClassVar[str] = "Aider chat history (Markdown)"
    companions = re.compile(r"\.aider\.(?:input\.history|llm\.history|conf\.yml|tags\.cache\.v\d{1,3}/.*)")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if b"# aider chat started at " in head and _START.search(head):
            return Sniff(0.95, "a heading `# aider chat started at`")
        if uri.endswith(_NAME) and (b"\n#### " in head or b"\n> " in head):
            return Sniff(0.7, "named as a chat history of Aider")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        empty = True
        for session in sessions(blob):
            if session.started is None and session.blocks:
                detail = "lines before the first start of Aider"
                yield Reject("record", "no_start", detail, blob.uri, offset=session.blocks[0].offset)
                continue
            if _is_rewritten(session):
                detail = f"no heading of {session.started} ends in two spaces; another program rewrote what Aider wrote"
                yield Reject("trajectory", "rewritten", detail, blob.uri, offset=session.offset)
                continue
            trajectory = _trajectory(session)
            if trajectory is not None:
                empty = False
                yield trajectory
            elif session.blocks:
                detail = f"the session of {session.started} holds no reply of a model"
                yield Reject("trajectory", "no_transitions", detail, blob.uri, offset=session.offset)
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no session holds a reply of a model")


def _is_rewritten(session: Session) -> bool:
    """Check if the user's lines lost their end, as formatters of Markdown make them, so that voices cannot be told."""
    return not any(block.voice == "user" for block in session.blocks) and any(
        line.startswith("#### ") for block in session.blocks for line in block.texts
    )


def _trajectory(session: Session) -> Trajectory | None:
    course = Told()
    instruction: str | None = None
    pending: _Reply | None = None
    said = before = ""
    put_out: list[Block] = []
    for block in session.blocks:
        if block.voice == "reply" and block.text:
            _close(course, pending, put_out)
            said, thought = _split_thought(block.text)
            pending, put_out = _Reply(block.offset, said, thought) if said else None, []
        elif block.voice == "user" and _is_passed_on(block.text, said, before):
            _close(course, pending, put_out)
            pending, put_out = None, []
        elif block.voice == "user":
            answered = _close(course, pending, put_out, block.text)
            pending, put_out, before = None, [], block.text
            if instruction is None and not _is_command(block.text):
                instruction = block.text
            elif not answered:
                course.say("user", block.text)
        elif block.voice == "tool" and pending is not None:
            put_out.append(block)
        elif block.voice == "tool":
            course.say("harness", block.text)
    _close(course, pending, put_out)
    if not course.acted:
        return None
    banner = "\n".join(block.text for block in session.blocks if block.voice == "tool")
    version, model = _VERSION.search(banner), _MODEL.search(banner)
    return Trajectory(
        native_id=session.started or "",
        domain="swe",
        steps=course.steps(),
        agent=Agent("aider", version[1] if version else None, model[1] if model else None),
        context=Context(action_space=_TOOLS, origin="derived"),
        task=Task(instruction=instruction),
    )


class _Reply(NamedTuple):
    """A reply of the model: where it stands, what it says and the reasoning before it."""

    offset: int
    said: str
    thought: str | None


def _split_thought(text: str) -> tuple[str, str | None]:
    """Split a reply into what was said and the reasoning before it."""
    head = _THOUGHT.match(text)
    return (text, None) if head is None else (text[head.end() :].strip("\n"), head[2].strip() or None)


def _is_passed_on(text: str, said: str, before: str) -> bool:
    """Check if Aider wrote the user's line itself: the plan for the editor model, or the question behind a `/ask`."""
    typed = before.lstrip()
    lines = _stripped_lines(text)
    return lines == _stripped_lines(said) or (typed[:1] == "/" and lines == _stripped_lines(typed.partition(" ")[2]))


def _stripped_lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line and not line.isspace()]


def _close(course: Told, pending: _Reply | None, put_out: list[Block], reply: str = "") -> bool:
    """Add the pending turn; return True if the user's `reply` was used as its answer."""
    if pending is None:
        return False
    output_lines, notes = _sort_lines(put_out, pending.said)
    text = "\n".join(output_lines).strip("\n")
    action = _action(pending, _APPLIED in text)
    seen = _shown(text) if text else None
    replied = seen is None and action.name != EDIT and bool(reply) and not _is_command(reply)
    if replied:
        seen = Observation(reply, origin="user")
    course.turn([answered(action, seen, pending.offset)])
    for role, lines in groupby(notes, itemgetter(0)):
        course.say(role, "\n".join(line for _, line in lines))
    return replied


def _shown(text: str) -> Observation:
    """Return Aider's output after a reply; it is the harness's if Aider could not parse the reply."""
    if _REFUSED not in text or _APPLIED in text:
        return Observation(text, form="stream")
    if _UNMET in text:
        return Observation(text, form="stream", is_error=True)
    return Observation(text, form="stream", origin="harness")


def _sort_lines(put_out: list[Block], said: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Sort lines: those about the repository, and (role, line) of Aider's own reports and its dialog with the user."""
    output_lines: list[str] = []
    notes: list[tuple[str, str]] = []
    of_reply = frozenset(_stripped_lines(said))
    for line in (line.rstrip() for block in put_out for line in block.texts):
        asked = _ASKED.fullmatch(line)
        if asked is not None:
            begin = len(output_lines)
            if asked[1].startswith(_LINE_ASKED):
                begin = max(begin - 1, 0)
            elif asked[1].startswith(_FILES_ASKED):
                while begin and output_lines[begin - 1] and " " not in output_lines[begin - 1]:
                    begin -= 1
            elif asked[1].startswith(_COMMANDS_ASKED):
                while begin and output_lines[begin - 1].strip() in of_reply:
                    begin -= 1
            notes += [*(("harness", name) for name in output_lines[begin:]), ("harness", asked[1]), ("user", asked[2])]
            del output_lines[begin:]
        elif line.startswith(_NOTES):
            notes.append(("harness", line))
        else:
            output_lines.append(line)
    return output_lines, notes


def _is_command(text: str) -> bool:
    return text.lstrip().startswith(("/", "!")) and not text.lstrip().startswith(("/code ", "/ask ", "/architect "))


def _action(reply: _Reply, applied: bool) -> Call:
    edit = None
    if applied or _EDITS.search(reply.said):
        edit = call(EDIT, {"content": reply.said}, reasoning=reply.thought)
    return spoken(reply.said, reply.thought) if edit is None else edit
