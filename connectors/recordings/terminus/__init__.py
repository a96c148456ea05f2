r"""Episodes of Terminus, the agent of Terminal-Bench: folders `episode-N` with prompt.txt and response.txt.

>>> show(Terminus(), {"episode-0/prompt.txt": '''
... Task Description:
... Say the year.
...
... Current Terminal Screen:
... root@h:/app#
... ''', "episode-0/response.txt": r'''
... {"analysis": "", "plan": "", "commands": [{"keystrokes": "date +%Y\n", "duration": 0.1}], "task_complete": false}
... ''', "episode-1/prompt.txt": '''
... New Terminal Output:
... root@h:/app# date +%Y
... 2026
... ''', "episode-1/response.txt": '''
... {"analysis": "", "plan": "", "commands": [], "task_complete": true}
... '''})
before  | root@h:/app#
action  | [{"keystrokes": "date +%Y\n", "duration": 0.1}]
after   | root@h:/app# date +%Y
        | 2026
action  | []
after   | (not in the log)

The response of an episode is an action: keystrokes with the seconds to wait after each. The terminal's answer is in the
prompt of the next episode, below `New Terminal Output:` or `Current Terminal Screen:`. The harness's other text there,
including its headings, is `interleaved`. The last episode therefore has no next observation. After a prompt that holds
only the harness's own words (a summary was handed over), the observation before the next action is unknown.

A response that the harness refused (`Previous response had parsing errors`) changed nothing. If it can be read, it is
kept with the harness's words as next observation, else it is a reject. A response with prose around it, or without its
last braces, is repaired as the harness repaired it, but only if the next prompt shows this (`Extra text detected`,
`AUTO-CORRECTED`, or the question whether the task is complete); the prose is the agent's message. A response that the
harness understood and this reader does not ends the trajectory, and another one continues it.

If the folder belongs to a trial of Terminal-Bench, the task and the outcome are those of its results.json. Its
recordings and panes, which show the same, belong to the log but are not read. Only the model is read from debug.json.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final, NamedTuple

from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.conversation.terminus_texts import (
    Prompt,
    Response,
    UnclearResponseError,
    limit_in,
    prompt_of,
    recover_response,
    response_of,
)
from trajmill.connectors.conversation.told import Told, answered, call_of
from trajmill.connectors.reading.fields import text_in
from trajmill.connectors.reading.values import value_or_none
from trajmill.connectors.recordings.recording import UNDATED
from trajmill.connectors.recordings.terminal_bench import RESULTS, trial_of
from trajmill.schemas import Agent, Context, Outcome, ParseError, Reject, Step, Task, Trajectory

MAX_BYTES: Final = 64 << 20

_EPISODE: Final = re.compile(r"((?:.*/)?)episode-(\d{1,6})/(prompt\.txt|response\.txt|debug\.json)", re.DOTALL)
_OF_TRIAL: Final = re.compile(r"((?:.*/)?)(?:results\.json|commands\.txt|(?:panes|sessions)/[^/]+)", re.DOTALL)
_LOGS: Final = "agent-logs/"
_CORRECTED: Final = re.compile(r"^[^\n]*(?:Extra text detected|AUTO-CORRECTED: )", re.MULTILINE)
_QUESTION: Final = "Are you sure you want to mark the task as complete"
_SHOWN: Final = re.compile(rb"(?m)^(?:New Terminal Output|Current Terminal Screen|Current terminal state):\r?$")


class Terminus(Connector):
    """Episode folders of Terminus 1 and 2."""

    name: ClassVar[str] = "terminus"
    version: ClassVar[str] = "5"
    domains: ClassVar[tuple[str, ...]] = ("terminal",)
    title: ClassVar[str] = "Terminus episodes (prompt.txt and response.txt)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        named = _EPISODE.fullmatch(uri)
        if named is None or named[3] != "prompt.txt":
            return None
        if b"keystrokes" in head:
            return Sniff(0.95, "named as a prompt of Terminus, and says how to answer with keystrokes")
        return Sniff(0.6, "named as a prompt of Terminus, and shows a terminal") if _SHOWN.search(head) else None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield the episodes below one folder, with the files of their trial, if there is one."""
        folders: dict[str, dict[int, dict[str, str]]] = {}
        trials: dict[str, list[str]] = {}
        for path in paths:
            if hit := _EPISODE.fullmatch(path):
                folders.setdefault(hit[1], {}).setdefault(int(hit[2]), {})[hit[3]] = path
            elif hit := _OF_TRIAL.fullmatch(path):
                trials.setdefault(hit[1], []).append(path)
        for base, episodes in folders.items():
            first = next((number for number in sorted(episodes) if "prompt.txt" in episodes[number]), None)
            if first is None or not any("response.txt" in files for files in episodes.values()):
                continue
            root = base.removesuffix(_LOGS)
            files = [path for episode_files in episodes.values() for path in episode_files.values()]
            if root != base and root + RESULTS in trials.get(root, ()):
                files += trials[root]
            members = {path[len(root) :]: path for path in sorted(files)}
            yield Log(root.rstrip("/") or "episodes", members, episodes[first]["prompt.txt"][len(root) :])

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        log = _Folder(blob, self.name)
        trial = trial_of(blob, RESULTS) if RESULTS in blob.members else None
        log.read()
        yield from log.rejects
        runs = log.runs()
        if not runs:
            raise ParseError(blob.uri, -1, "no_transitions", "no response of any episode can be read")
        if trial is not None and trial.failure == "agent_timeout" and not runs[-1][-1].terminated:
            runs[-1][-1] = replace(runs[-1][-1], truncated=True)
        native_id, task, outcome = UNDATED, Task(), None
        if trial is not None:
            native_id, task, outcome = trial.native_id, trial.task, trial.outcome
        yield from trajectories_of(log, runs, native_id, task, outcome)


class _Files(NamedTuple):
    """Members of an episode, empty if missing."""

    prompt: str
    response: str
    debug: str


class Episodes(ABC):
    """Reader of prompts and responses, one pair per episode, into runs of steps; a missing one begins a new run.

    Within a run, the next observation of a step is the observation of the step after it. Subclasses provide the texts.

    Args:
        offset: offset of the episodes in their members.
        numbers: numbers of the episodes, ascending.
        bare: whether a prompt without any heading is entirely the terminal's text.

    Attributes:
        thoughts: reasoning that is stored apart from a response, by the episode's number.
    """

    def __init__(self, uri: str, connector: str, offset: int, numbers: Sequence[int], bare: bool) -> None:
        self._uri, self._connector, self._place, self._numbers, self._bare = uri, connector, offset, numbers, bare
        self.told: list[Told] = [Told(in_memory=True)]
        self.rejects: list[Reject] = []
        self.agent = "terminus-2"
        self.task: str | None = None
        self.system: str | None = None
        self.model: str | None = None
        self.thoughts: dict[int, str] = {}

    @abstractmethod
    def asked(self, number: int) -> str | None:
        """Return the text of an episode's prompt; None if there is none, with a reject if one was expected."""

    @abstractmethod
    def answered(self, number: int) -> str | None:
        """Return the text of an episode's response; None if there is none, with a reject if one was expected."""

    def runs(self) -> list[list[Step]]:
        """Return the steps of each run that has any."""
        return [list(builder.steps()) for builder in self.told if builder.acted]

    def member(self, number: int) -> str:
        """Return the member that holds an episode's response."""
        return ""

    def read(self) -> None:
        """Read all episodes in the order of their numbers."""
        first, last = self._numbers[0], self._numbers[-1]
        run, offset, thoughts = self.told[-1], self._place, self.thoughts
        before, completed = first - 2, False
        # The prompt after an episode is that of the next one, if none is missing.
        known, after = first - 1, None
        for number in self._numbers:
            prompt = after if number == known else self._prompt(number)
            known, after = number + 1, self._prompt(number + 1)
            if number != before + 1:
                run = Told(in_memory=True)
                self.told.append(run)
                run.show(None if prompt is None or prompt.refused else prompt.seen)
                completed = False
            before = number
            if prompt is not None:
                self.task, self.system = self.task or prompt.task, self.system or prompt.system
                run.say("harness", prompt.note)
            response = self._response(number, after)
            if response is None:
                completed = False
                if after is not None and after.refused and after.seen is not None:
                    run.say("harness", after.seen.content)
                else:
                    before = number - 1
                continue
            action, self.agent, complete = response
            if number in thoughts:
                action = replace(action, reasoning=_join_thoughts(thoughts[number], action.reasoning))
            seen = after.seen if after is not None else None
            ends = complete and number == last and (completed or self.agent == "terminus-1")
            call = answered(call_of(action), seen, offset, member=self.member(number))
            call.limit = limit_in(action)
            if after is not None:
                call.ends(after.told)
            call.ending = (None, True if ends else None, None)
            run.turn([call])
            run.show(seen)
            completed = complete

    def _response(self, number: int, after: Prompt | None) -> Response | None:
        """Return the parsed response of the episode; add a reject and return None if it is unclear."""
        text = self.answered(number)
        try:
            return response_of(text) if text is not None else None
        except UnclearResponseError as error:
            response = recover_response(text or "") if after is not None and not after.refused else None
            if response is not None and after is not None and (_CORRECTED.search(after.note) or _asks(response, after)):
                return response
            self.reject(error.reason, error.detail, self.member(number), text or "")
            return None

    def _prompt(self, number: int) -> Prompt | None:
        """Return the prompt of the episode; None if there is none."""
        text = self.asked(number)
        return None if text is None else prompt_of(text, self._bare and number != self._numbers[0])

    def text_of(self, data: bytes, member: str) -> str | None:
        """Return the bytes as text; add a reject and return None if there are too many."""
        if len(data) > MAX_BYTES:
            self.reject("too_large", f"a file of more than {MAX_BYTES} bytes", member)
            return None
        text = data.decode("utf-8", "replace")
        return text.replace("\r\n", "\n") if "\r" in text else text

    def reject(self, reason: str, detail: str, member: str, excerpt: str = "") -> None:
        """Record that a prompt or a response is rejected."""
        fault = ParseError(self._uri, self._place, reason, detail, member, excerpt[:4096].encode())
        self.rejects.append(Reject.of(fault, connector=self._connector))


class _Folder(Episodes):
    """The episodes of a log, stored as its members.

    Raises:
        ParseError: `no_episodes`.
    """

    def __init__(self, blob: Blob, connector: str) -> None:
        self._blob = blob
        self._files = _files(blob)
        if not self._files:
            raise ParseError(blob.uri, -1, "no_episodes", "wanted episode-0/prompt.txt and response.txt")
        super().__init__(blob.uri, connector, 0, sorted(self._files), False)
        self.model = next(filter(None, (self._model(files.debug) for files in self._files.values())), None)
        first = next((number for number in self._numbers if self._files[number].response), None)
        self._bare = first is not None and '"state_analysis"' in (self.answered(first) or "")

    def asked(self, number: int) -> str | None:
        files = self._files.get(number)
        return self._text(files.prompt) if files is not None and files.prompt else None

    def answered(self, number: int) -> str | None:
        files = self._files[number]
        if files.response:
            return self._text(files.response)
        self.reject("no_response", "the episode has no response", files.prompt)
        return None

    def member(self, number: int) -> str:
        return self._files[number].response

    def _text(self, member: str) -> str | None:
        with self._blob.open(member) as stream:
            data = stream.read(MAX_BYTES + 1)
        return self.text_of(data, member)

    def _model(self, member: str) -> str | None:
        if not member:
            return None
        text = self._text(member)
        return text_in(value_or_none(text or ""), "model")


def _asks(response: Response, after: Prompt) -> bool:
    """Check if the prompt after a response shows that the harness read it as a declaration that the task is done."""
    return response.complete and _QUESTION in after.note


def _join_thoughts(thought: str, reasoning: str | None) -> str | None:
    return "\n\n".join(part for part in (thought, reasoning) if part) or None


def _files(blob: Blob) -> Mapping[int, _Files]:
    """Return the members of each episode, by its number."""
    names: dict[int, dict[str, str]] = {}
    for member in blob.members:
        if match := _EPISODE.fullmatch(member):
            names.setdefault(int(match[2]), {})[match[3]] = member
    return {
        number: _Files(files.get("prompt.txt", ""), files.get("response.txt", ""), files.get("debug.json", ""))
        for number, files in names.items()
    }


def trajectories_of(
    log: Episodes, runs: Sequence[list[Step]], native_id: str, task: Task, outcome: Outcome | None = None
) -> Iterator[Trajectory]:
    """Yield the trajectories of the runs with steps, each the continuation of the one before."""
    for number, steps in enumerate(runs):
        if number < len(runs) - 1:
            steps[-1] = replace(steps[-1], truncated=True)
        yield Trajectory(
            f"{native_id}/{number}" if number else native_id,
            "terminal",
            steps,
            agent=Agent(log.agent, None, log.model),
            task=Task(task.id, task.instruction or log.task),
            context=Context(agent_system=log.system),
            outcome=outcome,
            parent=None if not number else f"{native_id}/{number - 1}" if number > 1 else native_id,
            parent_step=len(runs[number - 1]) - 1 if number else None,
            relation="continuation" if number else None,
        )
