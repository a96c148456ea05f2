r"""OpenHands logs: arrays and folders of events, or `output.jsonl`, one evaluated instance or resolved issue per line.

>>> show(OpenHands(), '''
... [{"id": 1, "source": "user", "action": "message", "args": {"content": "Make the kite fly."}},
...  {"id": 5, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "I list the files."}},
...  {"id": 6, "source": "agent", "observation": "run", "content": "kite.py", "cause": 5, "extras": {"command": "ls"}}]
... ''')
action  | {"name": "run", "arguments": {"command": "ls"}}
after   | kite.py

The resolver of issues writes its events without ids, with all arguments beside the action's name.

>>> show(OpenHands(), '''
... {"issue": {"owner": "kites", "repo": "tails", "number": 3}, "instruction": "Make the kite fly.", "git_patch": "", \
...  "history": [{"content": "Make the kite fly.", "wait_for_response": false, "action": "message"}, \
...   {"command": "ls", "thought": "I list the files.", "action": "run", "is_confirmed": "confirmed"}, \
...   {"content": "kite.py", "command_id": -1, "command": "ls", "exit_code": 0, "observation": "run"}], "success": true}
... ''')
action  | {"name": "run", "arguments": {"command": "ls"}}
after   | kite.py

An array is alone or, as the app's API returns it, under `trajectory`; a folder has one file per event, and JSON Lines
have one event per line.

An observation answers the action that it names as its cause, at any position. In logs whose events have no ids (the
oldest, and pairs `[action, observation]`), it answers the action before it. Actions of one reply of the model are the
calls of one turn. The user's answer to a message of the agent is its next observation; a message after `finish` answers
nothing. In an evaluation, the harness answers in the user's place. Other messages of both are between turns. `finish`
and a message to the user are steps like others, often without an answer.

A run that ends within an action, or an evaluated run that ends in neither `finish` nor a message, is truncated.
Timestamps without a time zone give durations, but no time of their own. The patch that the evaluation took from the
repository is no action of the agent and is left out. The outcome of an evaluated line is the report's verdict; that of
a resolved issue is a language model's guess, which the outcome's verifier states.

If a folder lost events, each gap is a reject and the rest is read. The observation before the action after a gap is
unknown, and no observation is matched by position to an action on the other side of it. Turns that the agent SDK rolled
back are kept: the agent forgot them, but their effects remain.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import HEAD_BYTES, Blob, Connector, Log, Sniff
from trajmill.connectors.conversation.declared_tools import declare
from trajmill.connectors.conversation.told import Told, answered
from trajmill.connectors.conversation.turns import Call, seconds_between
from trajmill.connectors.reading.documents import head_rows, json_document, json_rows
from trajmill.connectors.reading.fields import object_of, text_in, whole_number_of
from trajmill.connectors.reading.json_text import shallow_json
from trajmill.connectors.reading.lines import is_by_line
from trajmill.connectors.reading.places import places_by_lines
from trajmill.connectors.reading.values import BOM, json_value
from trajmill.connectors.swe.evaluation import VERIFIER
from trajmill.connectors.swe.instance import environment
from trajmill.connectors.swe.openhands.events import BadEventError, Did, Event, Gap, Said, Shown, event_of
from trajmill.connectors.swe.openhands.folder import MISSING, conversation, folders, is_event, session_of
from trajmill.schemas import Agent, Context, Observation, Outcome, ParseError, Reject, Task, Trajectory

_EVENT: Final = re.compile(
    rb'\[\s*(?:\[\s*)?\{\s*"(?:id|timestamp|source|message|action|observation|kind)"\s*:', re.DOTALL
)
_OLD: Final = re.compile(rb'"(?:action|observation)"\s*:\s*"[a-z_]{2,40}"')
_SDK: Final = re.compile(rb'"kind"\s*:\s*"[A-Za-z]{2,40}Event"')
_GUESS: Final = "openhands resolver's guess"
_WRAPPED: Final = re.compile(rb'\{\s*"trajectory"\s*:\s*(?=\[)')
_SOURCE: Final = re.compile(rb'"source"\s*:\s*"(?:agent|user|environment|hook)"')
_FIRST_KEYS: Final = re.compile(rb'\{\s*"(?:id|timestamp|source|kind|message|action|observation)"\s*:')


class OpenHands(Connector):
    """Events and evaluation outputs of OpenHands."""

    name: ClassVar[str] = "openhands"
    version: ClassVar[str] = "12"
    domains: ClassVar[tuple[str, ...]] = ("swe",)
    title: ClassVar[str] = "OpenHands events (array, folder, JSONL) and output.jsonl (evaluation, resolver)"
    companions = re.compile(r"(?:infer_)?logs/instance_[^/]*\.log|(?:agent_state|conversation_stats)\.pkl")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        start = head.lstrip()
        wrapper = _WRAPPED.match(start)
        if _EVENT.match(start, wrapper.end() if wrapper is not None else 0):
            is_old = _OLD.search(head) and (b'"args"' in head or b'"extras"' in head)
            if is_old or (_SDK.search(head) and b'"source"' in head):
                return Sniff(0.9, "an array of events with action and args, or of a kind")
            return None
        if is_event(uri) and _FIRST_KEYS.match(start) and b'"source"' in head and b'"timestamp"' in head:
            return Sniff(0.9, "a file named as an event of a conversation, with source and timestamp")
        line = start.partition(b"\n")[0]
        if _FIRST_KEYS.match(line) and _SOURCE.search(line):
            is_old = _OLD.search(line) and (b'"args"' in line or b'"extras"' in line)
            return (
                Sniff(0.9, "the first line is an event with source and kind, or action")
                if is_old or _SDK.search(line)
                else None
            )
        row = next(iter(head_rows(head)), {})
        if {"instance_id", "history"} <= row.keys() and not row.keys().isdisjoint(("test_result", "instruction")):
            return Sniff(0.9, "a line with instance_id, history and test_result")
        if row.keys() >= {"issue", "history", "instruction", "git_patch"}:
            return Sniff(0.9, "a line with issue, instruction, git_patch and history")
        if "instance_id" in row and "git_patch" in object_of(row.get("test_result")) and "messages" not in row:
            return Sniff(0.8, "a line with instance_id and the git_patch of a test_result")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield folders of conversations, with one file per event."""
        yield from folders(paths)

    def is_sliceable(self, blob: Blob) -> bool:
        return self._runs_of(blob) == self._rows and is_by_line(blob)

    def _runs_of(self, blob: Blob) -> Callable[[Blob], Iterator[_Run | Reject]]:
        """Return the function that reads the runs of a blob."""
        if blob.members != ("",):
            return self._folder
        with blob.open("") as stream:
            head = stream.read(HEAD_BYTES)
        start = head[:64].removeprefix(BOM).lstrip()
        if _EVENT.match(start) and not any(name in head for name in (b'"instance_id"', b'"issue"')):
            return self._events
        is_row = not next(iter(head_rows(head)), {}).keys().isdisjoint(("instance_id", "issue"))
        if not is_row and (start[:1] == b"[" or _WRAPPED.match(start + b"[")):
            return self._events
        return self._lines if _FIRST_KEYS.match(start) else self._rows

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        empty = True
        for run in self._runs_of(blob)(blob):
            if isinstance(run, Reject):
                yield run
                continue
            trajectory = run.trajectory()
            yield from run.rejects
            if trajectory is not None:
                empty = False
                yield trajectory
            elif run.row:
                detail = f"instance {run.instance} has no action"[:200]
                yield Reject("trajectory", "no_transitions", detail, blob.uri, offset=run.offset, connector=self.name)
        if empty:
            raise ParseError(blob.uri, -1, "no_transitions", "no event is an action of the agent")

    def _events(self, blob: Blob) -> Iterator[_Run | Reject]:
        value, data = json_document(blob)
        key = "trajectory" if isinstance(value, dict) else None
        events = value.get(key) if isinstance(value, dict) else value
        if not isinstance(events, list):
            raise ParseError(blob.uri, 0, "bad_document", "wanted an array of events")
        yield _Run(blob.uri, events, places_by_lines(data, key, events), {}, 0)

    def _lines(self, blob: Blob) -> Iterator[_Run | Reject]:
        events: list[Any] = []
        offsets: list[int] = []
        for offset, value in json_rows(blob):
            if isinstance(value, ParseError):
                yield Reject.of(value, "record", self.name)
            events.append(MISSING if isinstance(value, ParseError) else value)
            offsets.append(offset)
        yield _Run(blob.uri, events, offsets, {}, 0, native_id=session_of(blob.uri))

    def _folder(self, blob: Blob) -> Iterator[_Run | Reject]:
        contents = conversation(blob)
        run = _Run(
            uri=blob.uri,
            events=contents.events,
            offsets=range(len(contents.events)),
            row={},
            offset=-1,
            members=contents.members,
            native_id=contents.native_id,
            model=contents.model,
        )
        run.rejects.extend(Reject.of(fault, "record", self.name) for fault in contents.faults)
        yield run

    def _rows(self, blob: Blob) -> Iterator[_Run | Reject]:
        for offset, row in json_rows(blob):
            if isinstance(row, ParseError):
                yield Reject.of(row, "record", self.name)
            elif not isinstance(row, dict) or not isinstance(row.get("history"), list):
                detail = "wanted an object with a list `history`"
                yield Reject("record", "no_history", detail, blob.uri, offset=offset, connector=self.name)
            else:
                yield _Run(blob.uri, row["history"], [offset] * len(row["history"]), row, offset)


@dataclass(slots=True)
class _Given:
    """Prompts and tools that the agent received before its first action."""

    instruction: str | None = None
    system: str | None = None
    tools: str | None = None


@dataclass(slots=True)
class _Run:
    """The events of one run, and the line of `output.jsonl` that holds them, if any.

    If events have members of their own, `offsets` are indices into `members`, and each event is all of its member.
    """

    uri: str
    events: Sequence[Any]
    offsets: Sequence[int]
    row: Mapping[str, Any]
    offset: int
    members: Sequence[str] = ()
    native_id: str | None = None
    model: str | None = None
    rejects: list[Reject] = field(default_factory=list)

    @property
    def instance(self) -> str | None:
        """Id of the instance, or of the issue in its host's form."""
        issue, repo = self.row.get("issue"), self._repository
        number = whole_number_of(issue.get("number")) if isinstance(issue, dict) else None
        issue_id = f"{repo}#{number}" if repo is not None and number is not None else None
        return text_in(self.row, "instance_id") or issue_id

    @property
    def _repository(self) -> str | None:
        owner, name = text_in(self.row, "issue", "owner"), text_in(self.row, "issue", "repo")
        return text_in(self.row, "instance", "repo") or (f"{owner}/{name}" if owner and name else None)

    def trajectory(self) -> Trajectory | None:
        """Return the trajectory of the run; None if it holds no action."""
        events = list(self._told())
        answers = self._answers(events)
        course, opening = Told(in_memory=True), _Given(text_in(self.row, "instruction"))
        _Telling(course, opening, answers, self.members).tell(events)
        if not course.acted:
            return None
        error = self.row.get("error")
        last = next((event for event in reversed(events) if isinstance(event, Did)), None)
        if isinstance(error, str) and error:
            course.end(False, True)
        elif last is not None and last.ends:
            course.end(True, False)
        elif (
            last is not None and last.action.name not in ("message", "finish") and (self.row or id(last) not in answers)
        ):
            course.end(None, True)
        instance = self.instance
        commit = text_in(self.row, "instance", "base_commit") or text_in(self.row, "base_commit")
        return Trajectory(
            native_id=instance or self.native_id or "",
            domain="swe",
            steps=course.steps(),
            environment=environment(instance, None, self._repository, commit),
            agent=Agent("openhands", None, self._model()),
            task=Task(instance, opening.instruction),
            context=Context(action_space=opening.tools, agent_system=opening.system),
            outcome=self._outcome(),
        )

    def _told(self) -> Iterator[Event]:
        for value, offset in zip(self.events, self.offsets, strict=True):
            if value is MISSING:
                yield Gap()
                continue
            for entry in value if isinstance(value, list) else (value,):
                try:
                    yield from event_of(entry, offset)
                except BadEventError as error:
                    self._refuse("bad_event", str(error), offset)

    def _answers(self, events: Sequence[Event]) -> dict[int, Shown]:
        """Map id(action) to its observation: by cause if ids are unique, else to the observation after it."""
        counts = Counter(event.ident for event in events if isinstance(event, Did) and event.ident is not None)
        named = {event.ident: event for event in events if isinstance(event, Did) and counts[event.ident or ""] == 1}
        answers: dict[int, Shown] = {}
        before: Did | None = None
        for event in events:
            if isinstance(event, Did):
                before = event
            elif isinstance(event, Gap):
                before = None
            elif isinstance(event, Shown):
                by_place = event.cause is None or counts[event.cause] > 1
                did = before if event.cause is None or by_place else named.get(event.cause)
                if (
                    did is not None
                    and id(did) not in answers
                    and not (by_place and event.alone and did.ident is not None)
                ):
                    answers[id(did)] = event
                elif (
                    did is not None
                    and event.cause is not None
                    and not event.alone
                    and answers[id(did)].seen != event.seen
                ):
                    self._refuse("result_repeated", f"action {event.cause:.80} was answered before", event.offset)
                elif did is None and not event.alone:
                    self._refuse(
                        "result_without_call", f"no action is its cause ({event.cause or 'none':.80})", event.offset
                    )
        return answers

    def _outcome(self) -> Outcome | None:
        result = self.row.get("test_result")
        inner = result if isinstance(result, dict) else {}
        for report in (self.row.get("report"), inner.get("report"), inner.get("result")):
            resolved = report.get("resolved") if isinstance(report, dict) else None
            if resolved in (True, False):
                return Outcome(bool(resolved), None, VERIFIER)
        guess = self.row.get("success") if "issue" in self.row else None
        return Outcome(guess, None, _GUESS) if isinstance(guess, bool) else None

    def _model(self) -> str | None:
        replies = (text_in(event, "tool_call_metadata", "model_response", "model") for event in self.events)
        stated = text_in(self.row, "metadata", "llm_config", "model") or next((name for name in replies if name), None)
        return stated or self.model

    def _refuse(self, reason: str, detail: str, offset: int) -> None:
        member, offset = _place(self.members, offset)
        self.rejects.append(Reject("record", reason, detail, self.uri, member, offset, OpenHands.name))


class _Telling:
    """Converter of events to a course: the turns of one reply together, and the messages between them.

    An answer may arrive after later actions (a task was delegated, and these are the delegate's actions). It was then
    not the observation before them, so from that point the order of the events determines the observations.
    """

    def __init__(self, course: Told, opening: _Given, answers: Mapping[int, Shown], members: Sequence[str]) -> None:
        self._course = course
        self._given = opening
        self._answers = answers
        self._members = members
        self._open: list[tuple[Did, Shown | None]] = []
        self._notes: list[tuple[str, str]] = []
        self._asked = opening.instruction
        self._met: set[int] = set()
        self._last: Observation | None = None
        self._before: Observation | None = None
        self._overtaken = False
        self._lost = False

    def tell(self, events: Sequence[Event]) -> None:
        """Add all events in order."""
        used = {id(shown) for shown in self._answers.values()}
        for event in events:
            if isinstance(event, Shown) and id(event) in used:
                self._met.add(id(event))
                self._last = event.seen or self._last
            elif isinstance(event, Did):
                before = self._open[-1][0] if self._open else None
                if before is not None and (event.reply is None or event.reply != before.reply):
                    self._close()
                self._before = self._before if self._open else self._last
                self._open.append((event, self._answers.get(id(event))))
            elif isinstance(event, Said):
                self._say(event)
            elif isinstance(event, Gap):
                self._lose()
            elif event.alone and event.seen is not None:
                self._note("harness", event.seen.content or "")
        self._close()

    def _say(self, message: Said) -> None:
        if message.role == "system":
            self._given.system = self._given.system or message.text
        elif message.role == "tools":
            self._given.tools = _all_tools(self._given.tools, message.text)
        elif message.role == "user" and not self._course.acted and not self._open and self._first(message):
            self._given.instruction = message.text
        elif message.seen is not None and self._open and self._open[-1][1] is None and _asks(self._open[-1][0]):
            self._open[-1] = self._open[-1][0], Shown(message.seen, -1, None, at=message.at)
            self._last = message.seen
            self._close()
        else:
            self._note(message.role, message.text)

    def _note(self, role: str, text: str) -> None:
        """Keep a message for the next turn, after those that belong to the answers of an open turn."""
        if self._open:
            self._notes.append((role, text))
        else:
            self._course.say(role, text)

    def _first(self, message: Said) -> bool:
        """Check if this is the agent's task: the first message, or the instruction in the line."""
        first = (self._given.instruction is None and not self._lost) or (
            self._asked is not None and message.text.strip() == self._asked.strip()
        )
        self._asked = None
        return first

    def _lose(self) -> None:
        """End the open turn at missing events, so that the observation of the next action is unknown."""
        self._close()
        self._course.show(None)
        self._last = None
        self._lost = True

    def _close(self) -> None:
        """End the open turn."""
        acts = [_act(did, shown, self._members) for did, shown in self._open]
        if self._overtaken:
            self._course.show(self._before)
        self._course.turn(acts, self._open[0][0].sampled if len(self._open) == 1 else None)
        own = [shown for _, shown in self._open if shown is not None and shown.offset >= 0]
        self._overtaken = self._overtaken or any(id(shown) not in self._met for shown in own)
        self._open = []
        for role, text in self._notes:
            self._course.say(role, text)
        self._notes = []


def _all_tools(known: str | None, more: str) -> str | None:
    """Merge the tools of a session with those stated earlier, both as JSON text of arrays."""
    if known is None or known == more:
        return more
    tools = json_value(known)
    declare(tools, json_value(more))
    return shallow_json(tools)


def _asks(did: Did) -> bool:
    """Check if the user's next message answers the action; messages after the agent has finished answer nothing."""
    return did.action.name == "message"


def _place(members: Sequence[str], offset: int) -> tuple[str, int]:
    """Return (member, offset) of an event, which is the beginning of its own member if it has one."""
    return (members[offset], 0) if members else ("", offset)


def _act(did: Did, shown: Shown | None, members: Sequence[str]) -> Call:
    member, offset = _place(members, did.offset)
    acted = answered(
        did.action,
        shown.seen if shown is not None else None,
        offset,
        exit_code=shown.exit_code if shown is not None else None,
        at=did.at if did.is_utc else None,
        seconds=seconds_between(did.at, shown.at) if shown is not None else None,
        member=member,
    )
    if shown is not None:
        acted.ends(shown.told)
    return acted
