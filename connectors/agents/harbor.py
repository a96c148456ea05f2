"""Trial folders of Harbor (Terminal-Bench 2 and others): the agent's ATIF documents and the verifier's verdict.

>>> show(Harbor(), {
...     "agent/trajectory.json": '''{"schema_version": "ATIF-v1.4", "agent": {"name": "coder"}, "steps": [
...         {"step_id": 1, "source": "user", "message": "Which files are there?"},
...         {"step_id": 2, "source": "agent", "message": "", "tool_calls": [
...             {"tool_call_id": "w1", "function_name": "bash", "arguments": {"command": "ls"}}],
...          "observation": {"results": [{"source_call_id": "w1", "content": "notes.txt"}]}}]}''',
...     "result.json": '''{"trial_name": "list__aB3", "verifier_result": {"rewards": {"reward": 1.0}}}'''})
action  | {"name": "bash", "arguments": {"command": "ls"}}
after   | notes.txt

A trial is a folder with `result.json` or `config.json` and `agent/trajectory.json`. A trial of several tasks in a row
has `steps/<name>/agent/trajectory.json` instead, each with a verifier of its own. All files of the folder are one log.
Recordings, panes, episodes, the agent's own sessions and files copied out of the container are part of it but are not
read, because they repeat the content of the documents. `atif` describes how documents become steps.

The score is the reward in `result.json`, else the reward in `verifier/reward.json` or `reward.txt`, else the share of
tests in `verifier/ctrf.json` that passed. A reward of 1 or 0 states whether the task was solved; other rewards do not.
A folder without ATIF documents is left to the connectors for the agent's own logs. A trajectory is truncated if the
time limit stopped its agent. The output of the tests is not read, since it answers no action of the agent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from posixpath import basename, dirname
from typing import Any, BinaryIO, ClassVar, Final

from trajmill.connectors.agents.atif import Atif, is_part, values
from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import text_in
from trajmill.schemas import DOMAINS, Agent, Outcome, ParseError, Reject, Task, Trajectory

RESULT: Final = "result.json"
CONFIG: Final = "config.json"
AGENT: Final = "agent/trajectory.json"
VERIFIER: Final = "harbor verifier"

_ROOT: Final = re.compile(r"((?:.*/)?)steps/[^/]+/")
_RESULT: Final = re.compile(rb'\s*\{[^\[{]{0,4000}?"trial_name"\s*:')
_CONFIG: Final = re.compile(rb'\s*\{\s*"task"\s*:\s*\{')


class Harbor(Connector):
    """Trials of Harbor whose agents write ATIF."""

    name: ClassVar[str] = "harbor"
    version: ClassVar[str] = "6"
    domains: ClassVar[tuple[str, ...]] = DOMAINS
    title: ClassVar[str] = "Harbor trial folders (ATIF and the verifier's reward; Terminal-Bench 2)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        is_trial = _RESULT.match(head) and b'"task_name"' in head
        if is_trial and (b'"trial_uri"' in head or b'"task_checksum"' in head):
            return Sniff(0.95, "a JSON object of task_name, trial_name and trial_uri")
        if _CONFIG.match(head) and b'"trial_name"' in head and b'"trials_dir"' in head:
            return Sniff(0.95, "a JSON object of task, trial_name and trials_dir")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each folder with an `agent/trajectory.json`, its own or a step's, and a file that marks a trial."""
        known = set(paths)
        anchors: dict[str, str] = {}
        for path in paths:
            if path == AGENT or path.endswith("/" + AGENT):
                folder = path.removesuffix(AGENT)
                step = _ROOT.fullmatch(folder)
                for root in (folder, *([step[1]] if step else [])):
                    if anchor := next((name for name in (RESULT, CONFIG) if root + name in known), None):
                        anchors.setdefault(root, anchor)
                        break
        folders: dict[str, dict[str, str]] = {root: {} for root in anchors}
        for path in paths if folders else ():
            root = path
            while root and root not in folders:
                root = dirname(root.rstrip("/"))
                root += "/" if root else ""
            if root in folders:
                folders[root][path[len(root) :]] = path
        for root, members in folders.items():
            yield Log(root.rstrip("/") or RESULT, dict(sorted(members.items())), anchors[root])

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        trial = _Trial(blob)
        failures: list[ParseError] = []
        empty = True
        for prefix in trial.runs():
            try:
                records = list(Atif().parse(_Documents(blob, prefix)))
            except ParseError as error:
                failures.append(error)
                continue
            last = max((n for n, record in enumerate(records) if _is_agents(record)), default=-1)
            for number, record in enumerate(records):
                if isinstance(record, Reject):
                    yield replace(record, connector=self.name)
                else:
                    empty = False
                    yield trial.judged(record, prefix, number == last)
        for fault in [*trial.faults, *failures[1 if empty else 0 :]]:
            yield Reject.of(fault, connector=self.name)
        if empty:
            detail = "the trial has no agent/trajectory.json"
            raise failures[0] if failures else ParseError(blob.uri, -1, "no_trajectory", detail)


def _is_agents(record: Trajectory | Reject) -> bool:
    """Return True for the agent's own trajectory or its continuation, False for a sub-agent's."""
    return isinstance(record, Trajectory) and record.relation in (None, "continuation")


class _Documents:
    """The ATIF documents of one run and their images, under their names in the trial; see `Blob`."""

    def __init__(self, blob: Blob, prefix: str) -> None:
        self.uri = blob.uri
        self.choices = blob.choices
        self.file_slice = blob.file_slice
        folder = prefix + dirname(AGENT) + "/"
        self.members = tuple(
            member for member in blob.members if member.startswith(folder) and is_part(member[len(folder) :])
        )
        self._blob = blob

    def open(self, member: str = "") -> BinaryIO:
        return self._blob.open(member)

    def seekable(self, member: str = "") -> BinaryIO:
        return self._blob.seekable(member)

    def read(self, member: str = "") -> bytes:
        return self._blob.read(member)

    def digest(self, member: str = "") -> str:
        return self._blob.digest(member)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The end of a run: its outcome, and whether it ran out of time."""

    outcome: Outcome | None
    out_of_time: bool


class _Trial:
    """The files that Harbor wrote about a trial; `faults` lists errors of those that cannot be read."""

    def __init__(self, blob: Blob) -> None:
        self.faults: list[ParseError] = []
        self._blob = blob
        self._result = self._table(RESULT) or (self._table("") if blob.members == ("",) else {})
        config = values.table(self._result, "config") or self._table(CONFIG)
        task = values.table(config, "task")
        named = text_in(task, "name") or basename((text_in(task, "path") or "").rstrip("/"))
        self._task = text_in(self._result, "task_name") or named or None
        self._verdicts: dict[str, _Verdict] = {}

    def runs(self) -> list[str]:
        """Return the folder of each run within the trial in run order: `""`, or the folders of the steps."""
        folders = sorted(member.removesuffix(AGENT) for member in self._blob.members if self._is_run(member))
        order = [f"steps/{text_in(step, 'step_name')}/" for step in values.items(self._result, "step_results")]
        return sorted(folders, key=lambda folder: (order.index(folder) if folder in order else len(order), folder))

    def judged(self, trajectory: Trajectory, prefix: str, last: bool) -> Trajectory:
        """Add the trial's facts to a trajectory; `last` means that the agent took no action in this run after it."""
        verdict = self._verdicts.get(prefix)
        if verdict is None:
            verdict = self._verdicts[prefix] = self._verdict(prefix)
        task = Task(trajectory.task.id or self._task, trajectory.task.instruction)
        if not _is_agents(trajectory):
            return replace(trajectory, task=task)
        steps = trajectory.steps
        end = steps[-1]
        if last and verdict.out_of_time and not end.terminated:
            steps = [*steps[:-1], replace(end, truncated=True)]
        return replace(
            trajectory,
            steps=steps,
            task=task,
            agent=self._agent(trajectory.agent),
            outcome=trajectory.outcome or verdict.outcome,
        )

    def _is_run(self, member: str) -> bool:
        folder = member.removesuffix(AGENT)
        return folder != member and (not folder or _ROOT.fullmatch(folder) is not None)

    def _agent(self, agent: Agent) -> Agent:
        info = values.table(self._result, "agent_info")
        model = text_in(values.table(info, "model_info"), "name")
        name, version = text_in(info, "name"), text_in(info, "version")
        version = None if version == "unknown" else version
        return Agent(agent.name or name, agent.version or version, agent.model or model)

    def _verdict(self, prefix: str) -> _Verdict:
        result = self._result
        if prefix:
            steps = values.items(self._result, "step_results")
            result = next((step for step in steps if f"steps/{text_in(step, 'step_name')}/" == prefix), {})
        failed = text_in(values.table(result, "exception_info"), "exception_type") or ""
        reward = _reward(values.table(result, "verifier_result"))
        folder = f"{prefix}verifier/"
        if reward is None:
            reward = _reward({"rewards": self._table(f"{folder}reward.json")})
        if reward is None:
            reward = self._read_number(f"{folder}reward.txt")
        resolved = None if reward not in (0, 1) else reward == 1
        score = reward if reward is not None else _pass_ratio(self._table(f"{folder}ctrf.json"))
        outcome = None if score is None else Outcome(resolved, score, VERIFIER)
        return _Verdict(outcome, failed.endswith("AgentTimeoutError"))

    def _read_number(self, member: str) -> float | None:
        """Return the number in a text file; None if there is no such file, or no number in it."""
        if member not in self._blob.members:
            return None
        data = self._blob.read(member)
        try:
            value = values.number({"": float(data[:64])}, "") if len(data) <= 64 else None
        except ValueError:
            value = None
        if value is None:
            self.faults.append(ParseError(self._blob.uri, 0, "bad_reward", "wanted a number", member, data[:64]))
        return value

    def _table(self, member: str) -> dict[str, Any]:
        """Return the JSON object in a member; empty if the member is missing, empty with a fault if it is invalid."""
        if member not in self._blob.members:
            return {}
        try:
            value, _ = json_document(self._blob, member)
        except ParseError as error:
            self.faults.append(error)
            return {}
        return value if isinstance(value, dict) else {}


def _reward(verified: dict[str, Any]) -> float | None:
    """Return the reward of a verifier's result: the entry `reward`, else the only entry; None if ambiguous."""
    rewards = values.table(verified, "rewards")
    reward = values.number(rewards, "reward")
    if reward is None and not rewards:
        reward = values.number(verified, "reward")
    numbers = [number for number in (values.number(rewards, key) for key in rewards) if number is not None]
    return numbers[0] if reward is None and len(numbers) == 1 else reward


def _pass_ratio(ctrf: dict[str, Any]) -> float | None:
    """Return the share of passed tests in a CTRF report; None if it names no tests."""
    summary = values.table(values.table(ctrf, "results"), "summary")
    tests, passed = values.number(summary, "tests"), values.number(summary, "passed")
    return passed / tests if tests and passed is not None and 0 <= passed <= tests else None
