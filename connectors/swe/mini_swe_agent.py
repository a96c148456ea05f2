r"""mini-swe-agent trajectories (`<instance>.traj.json`), one JSON document, of versions 1.0 to 2.x.

>>> show(MiniSweAgent(), r'''
... {"info": {"exit_status": "", "mini_version": "1.15.0"}, "messages": [
...     {"role": "system", "content": "Answer with one bash block."},
...     {"role": "user", "content": "Please solve: the bell is mute."},
...     {"role": "assistant", "content": "THOUGHT: I look around.\n\n```bash\nls\n```"},
...     {"role": "user", "content": "<returncode>0</returncode>\n<output>\nbell.py\n</output>"}]}
... ''')
action  | {"name": "bash", "arguments": {"command": "ls"}}
after   | bell.py

Three layouts: a bare list of messages; an object with `info` and `messages`, in which the action is the one fenced
block of the agent's text and the next user message its answer; and, from 2.0 on, calls of a tool `bash` answered by
`tool` messages, where also messages of the Responses interface are read. A trajectory in a run
folder has the outcome that SWE-bench's report of its instance, or the summary of the run, states.

The answer is what the command put out, without what the harness wrote around it (`wrapped_output`): the return code is
in `exit_code`, a command whose time ran out is marked so, with the seconds that the configuration gives each; the
warning before an output that was cut, the exception that stopped a command, and the harness's advice are its words.

The agent's words around a block are its reasoning where they begin with THOUGHT, else its message. What the agent wrote
with no action in it, or with several, is a message, and the harness's reply its next observation. After the command
that submits stands what it put out, mostly the patch, less its first line, which the harness took off: that is its next
observation, cut by the harness. The raw reply of the model, repeated in `extra.response`, is read for its time and its
token ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.conversation.content import Shown
from trajmill.connectors.conversation.told import Told, answered
from trajmill.connectors.conversation.turns import Call, seconds_between
from trajmill.connectors.conversation.wrapped_output import NEVER_ENDED, Output, limit_of, unwrap
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import object_of, text_in
from trajmill.connectors.reading.large.outline import ARRAY, Shape
from trajmill.connectors.reading.places import places_by_lines
from trajmill.connectors.reading.times import microseconds
from trajmill.connectors.swe.actions import shell, spoken
from trajmill.connectors.swe.answer import observation_of
from trajmill.connectors.swe.evaluation import EVALUATION_FILES, read_run, runs
from trajmill.connectors.swe.instance import environment, instance_of
from trajmill.connectors.swe.messages import Exchange, Message, answer_of, calls_of, each_turn, message_of
from trajmill.schemas import Agent, Context, Observation, Outcome, ParseError, Reject, Task, Trajectory

_SHAPES: Final[list[Shape]] = [[], {"messages": []}]
_ENDING: Final = ".traj.json"
_MARKS: Final = (b"COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", b"MINI_SWE_AGENT_FINAL_OUTPUT")
_SUBMIT, _SUBMIT_FIRST = (mark.decode() for mark in _MARKS)
_LIST: Final = re.compile(rb'\[\s*\{\s*"(?:role|content)"\s*:')
_OBJECT: Final = re.compile(rb'"messages"\s*:\s*\[|"info"\s*:\s*\{')

_UNTIL_FENCE: Final = r"([^\n]*+(?:\n(?!```)[^\n]*+)*+)"
_BLOCKS: Final = (
    ("```mswea_bash_command", re.compile(rf"```mswea_bash_command\s*\n{_UNTIL_FENCE}\n```")),
    ("<mswea_bash_command>", re.compile(r"<mswea_bash_command>(.*?)</mswea_bash_command>", re.DOTALL)),
    ("```bash", re.compile(rf"```bash\s*\n{_UNTIL_FENCE}\n```")),
)
"""Patterns of actions in text, by the mark that the prompt names; the first mark in the prompt applies."""

_HARNESS: Final = ("Please always provide EXACTLY ONE action", "Format error", "Tool call error")
_USER: Final = (
    "Command not executed",
    "Commands not executed",
    "Interrupted by user",
    "Temporary interruption caught",
    "The user added a new task",
    "Switched to human mode",
)
_TYPED: Final = "User command:"


class MiniSweAgent(Connector):
    """Trajectories of mini-swe-agent."""

    name: ClassVar[str] = "mini_swe_agent"
    version: ClassVar[str] = "12"
    domains: ClassVar[tuple[str, ...]] = ("swe",)
    title: ClassVar[str] = "mini-swe-agent trajectory (.traj.json)"
    companions = re.compile(r"minisweagent\.log|exit_statuses_[^/]*\.yaml|" + EVALUATION_FILES.pattern)

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        start = head.lstrip()[:64]
        named = uri.endswith(_ENDING)
        marked = any(mark in head for mark in _MARKS)
        if start[:1] == b"[" and _LIST.match(start) and (marked or named):
            return Sniff(0.85 if marked else 0.6, "a list of messages that name mini-swe-agent's way to submit")
        if start[:1] != b"{":
            return None
        if not named and b'"info"' not in head:  # rows of a data set name its version and its way to submit too
            return None
        if b'"mini_version"' in head or b'"mini-swe-agent-1' in head:
            return Sniff(0.95, "an object that names the version of mini-swe-agent")
        if (marked or named) and _OBJECT.search(head) and b'"exit_status"' in head:
            return Sniff(0.85, "an object with messages and the exit status of mini-swe-agent")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each trajectory that a report of SWE-bench, or the summary of its run, judges."""
        yield from runs(paths, _ENDING)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        yield from read_run(blob, self.name, _ENDING, _trajectory)


def _trajectory(blob: Blob, member: str, known: Mapping[str, Outcome]) -> Iterator[Trajectory | Reject]:
    """Yield a reject for each invalid message, then the trajectory of one file.

    Raises:
        ParseError: `bad_document` or `no_transitions`.
    """
    yield from _Run(blob, member, known).trajectory()


class _Run:
    """One trajectory file."""

    def __init__(self, blob: Blob, member: str, known: Mapping[str, Outcome]) -> None:
        self._uri = blob.uri
        self._member = member
        self._known = known
        self._value, self._data = json_document(blob, member, _SHAPES)
        document = self._value if isinstance(self._value, dict) else {}
        info = document.get("info")
        self._info: Mapping[str, Any] = info if isinstance(info, dict) else {}
        self._status = text_in(self._info, "exit_status")
        self._limit = limit_of(object_of(object_of(self._info.get("config")).get("environment")).get("timeout"))
        self._instance = (
            text_in(document, "instance_id")
            or text_in(self._info, "instance_id")
            or instance_of(self._member or self._uri)
        )

    def trajectory(self) -> Iterator[Trajectory | Reject]:
        """Yield a reject for each invalid message, then the file's trajectory.

        Raises:
            ParseError: `bad_document` or `no_transitions`.
        """
        raw = self._value.get("messages") if isinstance(self._value, dict) else self._value
        if not isinstance(raw, ARRAY):
            raise ParseError(self._uri, 0, "bad_document", "wanted a list of messages", self._member)
        key = "messages" if isinstance(self._value, dict) else None
        bad: list[Reject] = []
        before: list[Message] = []
        turns = each_turn(self._messages(raw, places_by_lines(self._data, key, raw), bad), before, _TYPED)
        turn = next(turns, None)
        system = next((message.text for message in before if message.role in ("system", "developer")), None)
        first = next((message for message in before if message.role == "user"), None)
        course = Told(in_memory=isinstance(raw, list))
        pattern = _pattern([message.text or "" for message in before])
        refused: list[Reject] = []
        while turn is not None:
            following = next(turns, None)
            refused += self._add(course, turn, pattern, following is None)
            turn = following
        yield from bad
        yield from refused
        if not course.acted:
            raise ParseError(self._uri, -1, "no_transitions", "no message is the agent's", self._member)
        self._end(course)
        yield Trajectory(
            native_id=self._instance or "",
            domain="swe",
            steps=course.steps(),
            environment=environment(self._instance, text_in(self._info, "config", "environment", "image")),
            agent=Agent(
                "mini-swe-agent",
                text_in(self._info, "mini_version"),
                text_in(self._info, "config", "model", "model_name"),
            ),
            task=Task(self._instance, first.text if first is not None else None),
            context=Context(agent_system=system),
            outcome=self._known.get(self._instance or ""),
        )

    def _messages(self, raw: Sequence[Any], offsets: Sequence[int], bad: list[Reject]) -> Iterator[tuple[Message, int]]:
        """Yield the messages with their offsets; rejects of invalid ones are added to `bad`."""
        for entry, offset in zip(raw, offsets, strict=True):
            message = message_of(entry)
            if message is None:
                detail = "wanted an object with a role"
                bad.append(Reject("record", "bad_message", detail, self._uri, self._member, offset, MiniSweAgent.name))
            else:
                yield message, offset

    def _add(self, course: Told, turn: Exchange, pattern: re.Pattern[str], last: bool) -> list[Reject]:
        """Add a turn; return the reject of a turn whose call cannot be kept."""
        actions = _actions(turn.message, pattern)
        acts: list[Call] = []
        used: dict[int, Output] = {}
        for index, (action, acted) in enumerate(actions):
            if action is None:
                detail = "the arguments of a call"
                where = (self._uri, self._member, turn.offset)
                return [Reject("record", "nested_too_deeply", detail, *where, MiniSweAgent.name)]
            position = answer_of(turn, index, used)
            if position is None:
                acts.append(self._act(turn, action, acted, None, None, last))
            else:
                reply = turn.after[position]
                output = unwrap(reply.text or "")
                used[position] = output or Output(reply.text)
                acts.append(self._act(turn, action, acted, reply, output, last))
        course.turn(acts, turn.message.sampled)
        for position in sorted(used):
            for note in used[position].notes:
                course.say("harness", note)
        if len(used) < len(turn.after):
            for position, message in enumerate(turn.after):
                if position not in used and message.role != "exit":
                    course.say("user" if _origin(message, True) == "user" else "harness", message.text)
        return []

    def _act(
        self,
        turn: Exchange,
        action: Call,
        acted: bool,
        reply: Message | None,
        unwrapped_reply: Output | None,
        last: bool,
    ) -> Call:
        """Build the action with the observation in `reply`; `unwrapped_reply` is its text without harness words."""
        seen, took = None, None
        output = unwrapped_reply or Output(None if reply is None else reply.text)
        if reply is not None:
            submits = acted and any(sign in (action.arguments or "") for sign in (_SUBMIT, _SUBMIT_FIRST))
            handed_in = submits or (acted and self._status == "Submitted")
            submission = handed_in and last and (reply.role == "exit" or unwrapped_reply is None)
            seen = self._submitted(reply.text, _origin(reply, acted)) if submission else None
            origin = "harness" if last and not submits and unwrapped_reply is None and self._failed(reply) else None
            origin = origin or ("harness" if reply.role == "exit" else _origin(reply, acted))
            if not submission and (reply.role != "exit" or output.text):
                pictures = reply.attachments if output.text is not None else ()
                seen = observation_of(Shown(output.text, pictures), origin)
                seen = replace(seen, truncation="harness") if seen is not None and output.cut else seen
                if origin == "environment":
                    action.exit_code = (
                        reply.exit_code if reply.exit_code not in (None, NEVER_ENDED) else output.exit_code
                    )
                    action.killed = output.killed or reply.killed_after is not None or None
            took = seconds_between(turn.message.at, reply.at)
        if acted:
            action.limit = self._limit
            action.named = output.limit or (reply.killed_after if reply is not None else None)
        started = turn.message.at if turn.message.at is not None else microseconds(turn.message.created)
        return answered(
            action, seen, turn.offset, exit_code=action.exit_code, at=started, seconds=took, member=self._member
        )

    def _submitted(self, text: str | None, origin: str) -> Observation | None:
        """Return the output of the command that ended the run, as far as logged: without its first line, the mark."""
        if self._status not in (None, "Submitted") or origin != "environment":
            return None
        shown = text or text_in(self._info, "submission") or text
        return None if shown is None else Observation(shown, truncation="harness")

    def _failed(self, reply: Message) -> bool:
        """Check if a last message is the text of the exception that ended the run."""
        return self._status not in (None, "Submitted") and reply.role == "user"

    def _end(self, course: Told) -> None:
        if self._status is not None:
            course.end(self._status == "Submitted", self._status != "Submitted")


def _pattern(prompts: Sequence[str]) -> re.Pattern[str]:
    """Return the pattern of actions in the agent's text, chosen by its prompts."""
    patterns = (pattern for word, pattern in _BLOCKS if any(word in prompt for prompt in prompts))
    return next(patterns, _BLOCKS[-1][1])


def _actions(message: Message, pattern: re.Pattern[str]) -> list[tuple[Call | None, bool]]:
    """Return the actions of a message, each with whether it could be executed."""
    text = message.text or ""
    if message.calls:
        return [(action, True) for action in calls_of(message)]
    blocks = list(pattern.finditer(text))
    if message.role == "user" and not blocks:
        blocks = list(_BLOCKS[-1][1].finditer(text))
    if len(blocks) != 1:
        return [(spoken(text, message.reasoning), False)]
    block = blocks[0]
    if message.role == "user":
        return [(shell(block[1]), True)]
    before, after = text[: block.start()].strip(), text[block.end() :].strip()
    around = f"{before}\n{after}" if before and after else before or after
    if not around.startswith("THOUGHT"):
        return [(shell(block[1].strip(), around or None, message.reasoning or None), True)]
    return [(shell(block[1].strip(), None, f"{message.reasoning}\n\n{around}" if message.reasoning else around), True)]


def _origin(reply: Message, acted: bool) -> str:
    text = reply.text or ""
    if reply.interrupt is not None:
        return "user" if reply.interrupt.startswith("User") else "harness"
    if text.startswith(_USER):
        return "user"
    if not acted or text.startswith(_HARNESS) or reply.not_executed:
        return "harness"
    return "environment"
