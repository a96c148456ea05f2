r"""Trials of Terminal-Bench (tb): a folder of results.json, commands.txt, panes and recordings, read as one log.

>>> show(TerminalBench(), {"results.json": '''
... {"trial_name": "today.1-of-1.run", "task_id": "today", "instruction": "Say the year.", "is_resolved": true}
... ''', "sessions/agent.cast": r'''
... {"version": 2, "width": 60, "height": 12, "timestamp": 1932789600}
... [0.1, "o", "# "]
... [2.1, "i", "date +%Y; tmux wait -S done\r"]
... [2.2, "o", "date +%Y; tmux wait -S done\r\n2031\r\n# "]
... '''})
before  | #
action  | [{"keystrokes": "date +%Y\n", "duration": 0.1}]
after   | # date +%Y
        | 2031
        | #

Layout and quirks follow the runs published as terminal-bench-leaderboard. The file that is read is
`sessions/agent.cast`. The raw `agent.log` and the panes repeat it, so they belong to the log but are not read;
`tests.cast` shows the verifier, not the agent. If the recording shows the log of a known agent (`agent_logs`), the
agent's steps are taken from that log. If another agent was installed and started, the recording shows that agent's own
text, and the trial is refused (`unknown_agent_log`). Otherwise each line typed into the terminal is an action of the
agent.

Input of the harness is no step: `clear` at the beginning, ^D at the end, and `; tmux wait -S done` after a command,
which is removed from actions and screens. A recording with nothing else is refused (`empty_recording`), whatever its
reward, because the agent worked elsewhere. A trial whose agent could not be installed is refused too
(`agent_installation_failed`). The results.json of a whole run, with all its trials, is no log.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Log, MemoryBlob, Sniff
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import text_of
from trajmill.connectors.reading.lines import lines
from trajmill.connectors.recordings.acts import Act, Ending, steps_of
from trajmill.connectors.recordings.asciicast import recording_of
from trajmill.connectors.recordings.cast_events import Header, read_cast
from trajmill.connectors.recordings.recording import terminal_words
from trajmill.connectors.recordings.session import Event, Run, Session
from trajmill.connectors.recordings.terminal_bench.agent_logs import AgentLog, Printed, agent_log
from trajmill.schemas import (
    Agent,
    Context,
    Environment,
    Observation,
    Outcome,
    ParseError,
    Reject,
    Step,
    Task,
    Trajectory,
)

RESULTS: Final = "results.json"
CAST: Final = "sessions/agent.cast"
COMMANDS: Final = "commands.txt"

_PARTS: Final = re.compile(r"commands\.txt|panes/[^/]+\.txt|sessions/[^/]+\.(?:cast|log)")
_HEAD: Final = re.compile(rb'\s*\{[^\[{]{0,4000}?"trial_name"\s*:')
_KEYS: Final = (b'"task_id"', b'"instruction"')
_MARKER: Final = "; tmux wait -S done"
_SHOWN_MARKER: Final = re.compile(r"\n?".join(map(re.escape, _MARKER)) + r"(?=\n|$)")
_HARNESS: Final = frozenset({"clear", "\x04"})
_INSTALLED: Final = "/installed-agent/"
_MODEL: Final = re.compile(r"(?:^mini\s(?:.{0,80}\s)??-m|\s--model)[ =]'?([\w./:@-]{1,200})")
_LONGEST_COMMAND: Final = 1 << 20
_FEW_EVENTS: Final = 24
"""An empty shell that is started, cleared and left shows fewer events."""


class TerminalBench(Connector):
    """Trial folders of Terminal-Bench."""

    name: ClassVar[str] = "terminal_bench"
    version: ClassVar[str] = "10"
    domains: ClassVar[tuple[str, ...]] = ("terminal",)
    title: ClassVar[str] = "Terminal-Bench trial folders (results and recordings)"
    companions = re.compile(
        r"run\.log|run_metadata\.json|tb\.lock|sessions/[^/]*\.(?:log|cast)|panes/[^/]*\.txt|commands\.txt"
    )

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if _HEAD.match(head) and all(key in head for key in _KEYS):
            return Sniff(0.95, "a JSON object of trial_name, task_id and instruction")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each folder of a results.json with recordings, panes or commands, but no episodes of an agent."""
        known = set(paths)
        folders: dict[str, dict[str, str]] = {}
        for path in paths:
            folder, slash, _ = path.rpartition("/")
            for prefix in (folder + slash, folder.rpartition("/")[0] + "/" if "/" in folder else ""):
                member = path[len(prefix) :]
                if prefix + RESULTS in known and (member == RESULTS or _PARTS.fullmatch(member)):
                    folders.setdefault(prefix, {})[member] = path
        with_episodes = {
            path[: match.start(0)] for path in paths if (match := re.search(r"agent-logs/episode-\d", path))
        }
        for prefix, members in folders.items():
            if len(members) > 1 and prefix not in with_episodes:
                yield Log(prefix.rstrip("/") or RESULTS, dict(sorted(members.items())), RESULTS)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        trial = trial_of(blob, RESULTS if RESULTS in blob.members else "")
        if trial.failure == "agent_installation_failed":
            raise ParseError(blob.uri, -1, trial.failure, "the agent was not installed and did nothing", trial.member)
        if CAST not in blob.members:
            raise ParseError(blob.uri, -1, "no_recording", "the trial has no sessions/agent.cast", trial.member)
        faults: list[ParseError] = []
        commands = list(_commands(blob, faults))
        cast = _Cast(blob)
        if cast.is_empty:
            detail = "nothing but the harness's own clear and ^D was typed"
            raise cast.error or ParseError(blob.uri, -1, "empty_recording", detail, CAST)
        log = agent_log(cast.printed(), cast.header.columns, cast.header.timestamp)
        installed = any(_INSTALLED in command for command in [*commands, *cast.typed])
        if log is not None:
            runs, gaps = log.runs(), [(gap.offset, gap.reason, gap.detail) for gap in log.gaps]
        elif installed:
            raise ParseError(blob.uri, -1, "unknown_agent_log", "the recording is the log of an unknown agent", CAST)
        else:
            runs, gaps = _read_runs(cast)
        for offset, reason, detail in gaps:
            yield Reject("record", reason, detail, blob.uri, CAST, offset, self.name)
        if not any(runs):
            raise cast.error or ParseError(blob.uri, -1, "no_transitions", "no step can be told in the recording", CAST)
        yield from _trajectories(runs, trial, cast, log, [*commands, *cast.typed])
        for fault in [*faults, *([cast.error] if cast.error else [])]:
            yield Reject.of(fault, connector=self.name)


@dataclass(frozen=True, slots=True)
class Trial:
    """Contents of a trial's results.json; `failure` is its failure_mode, empty if unset."""

    member: str
    native_id: str
    task: Task
    outcome: Outcome | None
    failure: str


def trial_of(blob: Blob, member: str) -> Trial:
    """Read the trial of a results.json.

    Raises:
        ParseError: the member is no JSON document, or no trial (`no_trial`).
    """
    value, _ = json_document(blob, member)
    if not isinstance(value, dict) or not isinstance(value.get("trial_name"), str):
        raise ParseError(blob.uri, 0, "no_trial", "wanted the results of one trial", member)
    failure = value.get("failure_mode")
    native_id = value.get("id")
    return Trial(
        member,
        native_id if isinstance(native_id, str) and native_id else value["trial_name"] or "trial",
        Task(text_of(value.get("task_id")), text_of(value.get("instruction"))),
        _outcome(value),
        failure if isinstance(failure, str) and failure not in ("unset", "none") else "",
    )


def _outcome(value: dict[str, Any]) -> Outcome | None:
    """Return the judgment of the trial; the score is the share of tests that passed."""
    resolved, tests = value.get("is_resolved"), value.get("parser_results")
    score = None
    if isinstance(tests, dict) and tests:
        score = sum(result == "passed" for result in tests.values()) / len(tests)
    known = resolved if isinstance(resolved, bool) else None
    return None if known is None and score is None else Outcome(known, score, "test suite")


def _commands(blob: Blob, faults: list[ParseError]) -> Iterator[str]:
    """Yield the commands that the harness sent before the tests, one per line; unreadable lines go to `faults`."""
    if COMMANDS not in blob.members:
        return
    with blob.open(COMMANDS) as stream:
        for line in lines(stream, _LONGEST_COMMAND):
            if line.data is not None and not line.data.strip():
                continue
            try:
                keys = _keys((line.data or b"").decode())
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                reason = "bad_command" if line.ended else "truncated"
                faults.append(ParseError(blob.uri, line.offset, reason, "wanted a list of keys as Python", COMMANDS))
                continue
            if any("tests.cast" in key for key in keys):
                return
            yield "".join(key for key in keys if key != "Enter")


def _keys(line: str) -> list[str]:
    """Return the keys listed in a line of commands.txt.

    Raises:
        ValueError, SyntaxError, RecursionError, MemoryError: the line is no list of keys.
    """
    keys = ast.literal_eval(line)
    keys = [keys] if isinstance(keys, str) else keys
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ValueError("wanted a list of keys")
    return keys


class _Cast:
    """The agent's recording, read whole; `error` holds why reading ended before it did."""

    def __init__(self, blob: Blob) -> None:
        self.error: ParseError | None = None
        self.events: list[Event] = []
        own = MemoryBlob(blob.uri, blob.read(CAST))
        with own.open() as stream:
            try:
                self.header, events = read_cast(stream, own)
            except ParseError as error:
                raise _within(error) from None
            try:
                self.events.extend(events)
            except ParseError as error:
                self.error = _within(error)

    @property
    def typed(self) -> list[str]:
        """Typed input, one entry per event."""
        return [data for _, _, code, data in self.events if code == "i"]

    @property
    def is_empty(self) -> bool:
        """Whether only the harness's own commands were typed, and nothing else was shown."""
        return all(keys.strip("\r\n") in _HARNESS for keys in self.typed) and len(self.events) < _FEW_EVENTS

    def printed(self) -> Printed:
        """Return the output as one text."""
        return Printed((offset, now, data) for offset, now, code, data in self.events if code == "o")


def _within(error: ParseError) -> ParseError:
    return ParseError(error.uri, error.offset, error.reason, error.detail, CAST, error.excerpt)


def _read_runs(cast: _Cast) -> tuple[list[list[Step]], list[tuple[int, str, str]]]:
    """Return the steps typed into the terminal, without the harness's own, and the gaps with unclear input."""
    session = Session(cast.header.columns, cast.header.rows)
    session.read(cast.events)
    session.error = cast.error
    runs = []
    for run in session.runs():
        own = _own(run)
        if own is not None:
            steps = list(steps_of(own[0], own[1], cast.header.timestamp))
            seen = {
                id(screen): _strip_markers(screen)
                for step in steps
                for screen in (step.observation, step.next_observation)
            }
            runs.append(
                [
                    replace(
                        step, observation=seen[id(step.observation)], next_observation=seen[id(step.next_observation)]
                    )
                    for step in steps
                ]
            )
    return runs, [(gap.offset, gap.reason, gap.detail) for gap in session.gaps]


def _own(run: Run) -> tuple[list[Act], Ending] | None:
    """Return the acts of the run without the harness's input, and their ending; None if nothing is left."""
    acts, ending = list(run.acts), run.ending
    while acts and acts[0].keys.strip("\r\n") == "clear":
        del acts[0]
    while acts and acts[-1].keys == "\x04":
        last = acts.pop()
        ending = Ending(last.start, last.before)
    for act in acts:
        act.strokes = [(keys.replace(_MARKER, ""), begin, end) for keys, begin, end in act.strokes]
        if "line" in act.facts:
            act.facts["line"] = act.facts["line"].replace(_MARKER, "")
    return (acts, ending) if acts else None


def _strip_markers(seen: Observation | None) -> Observation | None:
    if seen is None or seen.content is None or "tmux" not in seen.content.replace("\n", ""):
        return seen
    return replace(seen, content=_SHOWN_MARKER.sub("", seen.content))


def _trajectories(
    runs: Sequence[list[Step]], trial: Trial, cast: _Cast, log: AgentLog | None, commands: Sequence[str]
) -> Iterator[Trajectory]:
    """Yield the trajectories of the runs, each the continuation of the one before."""
    header: Header = cast.header
    model_match = next((hit for command in commands if (hit := _MODEL.search(command))), None) if log else None
    model = model_match[1] if model_match else None
    nonempty = [run for run in runs if run]
    for number, steps in enumerate(nonempty):
        cut = trial.failure == "agent_timeout" or (log is not None and cast.error is not None)
        if number < len(nonempty) - 1 or (cut and not steps[-1].terminated):
            steps[-1] = replace(steps[-1], truncated=True)
        yield Trajectory(
            native_id=f"{trial.native_id}/{number}" if number else trial.native_id,
            domain="terminal",
            steps=[replace(step, member=CAST) for step in steps],
            environment=Environment(id=header.shell),
            agent=Agent(log.name, log.version, model) if log else Agent(),
            task=trial.task,
            context=Context(
                initial_state=terminal_words(recording_of(header)), agent_system=log.system if log else None
            ),
            outcome=trial.outcome,
            parent=None if not number else f"{trial.native_id}/{number - 1}" if number > 1 else trial.native_id,
            parent_step=len(nonempty[number - 1]) - 1 if number else None,
            relation="continuation" if number else None,
        )
