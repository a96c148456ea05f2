"""Trajectories of AgentNet (OpenCUA, arXiv 2508.09123): people's desktop tasks, one per line or document.

>>> show(AgentNet(), '''
... {"task_id": "20250101_1", "instruction": "Send the letter", "task_completed": true, "traj": [{"index": 0, '''
... '''"image": "a0.png", "value": {"code": "pyautogui.click(x=0.1632, y=0.2711)", "thought": "The button is there."}}]}
... ''')
before  | (not in the log)
action  | {"name": "click", "arguments": {"x": 0.1632, "y": 0.2711}}
after   | (not in the log)

A line is `{task_id, instruction, task_completed, alignment_score, …, traj}`. `traj` has one step per action: `{index,
image, value: {code, observation, thought, action, last_step_correct, last_step_redundant, reflection}}`. The image is
the screen before the action, so the next observation is the image of the step with the next index. The data set has
screens only as pictures, in a separate archive. The content of every observation is therefore null, and its address is
the picture's name.

`observation`, `thought` and `action` are a model's words about a person's action, written afterwards: they are
reasoning, and never an observation. `reflection` describes the effect of the action and is left out, since it would
reveal the outcome in advance. The points in the code are fractions of the screen. The outcome is `task_completed`, a
model's verdict; that model's scores, from 0 to 10, are left out, and so are `natural_language_task` and `actual_task`,
which the same model wrote.

AgentNetBench (`{task_id, user_task_description, steps: [{step_num, image, action, inner_monologue, …}]}`) has the same
data under other names: `action` is the code, and `low_level_instruction` of its `inner_monologue` the action in words.
`step_num` reveals steps that its makers left out. Pictures beside it in a folder `images` are attached. The other
correct actions that it lists (`ground_truth_actions`, `alternative_options`) are left out.

>>> show(AgentNet(), '''
... {"task_id": "s_1", "user_task_description": "Send the letter", "steps": [{"step_num": 3, "image": "s_1_3.png", '''
... '''"action": "pyautogui.write(message='Dear Ann')", "inner_monologue": {"thought": "The field is empty."}}]}
... ''')
before  | (not in the log)
action  | {"name": "type", "arguments": {"text": "Dear Ann"}}
after   | (not in the log)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.desktop import action as act
from trajmill.connectors.desktop.pyautogui import calls_of
from trajmill.connectors.reading.attached import attachment_of_member
from trajmill.connectors.reading.documents import json_document, json_rows, row_texts
from trajmill.connectors.reading.fields import object_of, text_of
from trajmill.connectors.reading.lines import first_line
from trajmill.connectors.screens.moves import Moves
from trajmill.schemas import Action, Agent, Observation, Outcome, ParseError, Reject, Task, Trajectory

_IMAGES: Final = "images/"
_PICTURE: Final = re.compile(r"((?:.*/)?)images/([^/]+)_\d{1,4}\.png")
_REASONING: Final = ("observation", "thought", "action")
_TASKS: Final = ("instruction", "user_task_description", "high_level_task_description")


class AgentNet(Connector):
    """JSON Lines of AgentNet."""

    name: ClassVar[str] = "agentnet"
    version: ClassVar[str] = "6"
    domains: ClassVar[tuple[str, ...]] = ("os",)
    title: ClassVar[str] = "AgentNet, OpenCUA and AgentNetBench trajectories (JSONL, JSON)"
    companions = re.compile(r"(?:(?:images|screenshots)/(?:.*/)?)?[^/]*\.(?:png|jpe?g)")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if all(key in head for key in (b'"user_task_description"', b'"steps"', b'"step_num"', b'"inner_monologue"')):
            return Sniff(0.9, "a task of AgentNetBench with its steps")
        line = next(iter(row_texts(head, 1)), b"")
        if not line.startswith(b"{"):
            return None
        has_code = b'"code"' in line and (b"pyautogui." in line or b"computer." in line)
        if b'"traj"' in line and b'"value"' in line and has_code:
            return Sniff(0.92, "a task with a traj of pyautogui code and images, as AgentNet has it")
        if b'"task_id"' in line and b'"task_completed"' in line and b'"alignment_score"' in line:
            return Sniff(0.9, "a task of AgentNet with its scores")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each task of AgentNetBench with the pictures of its steps in the folder `images` beside it."""
        known, tasks = set(paths), dict[str, list[str]]()
        for path in paths:
            if (match := _PICTURE.fullmatch(path)) and (task := f"{match[1]}{match[2]}.json") in known:
                tasks.setdefault(task, []).append(path)
        for task, pictures in tasks.items():
            start = task.rpartition("/")[0]
            names = {path[len(start) :].lstrip("/"): path for path in (task, *pictures)}
            anchor = task[len(start) :].lstrip("/")
            yield Log(task, names, anchor, frozenset(names) - {anchor})

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        has_tasks = False
        log = next((name for name in blob.members if name.endswith(".json")), "")
        for offset, value in [(0, json_document(blob, log)[0])] if log or _is_indented(blob) else json_rows(blob):
            try:
                if isinstance(value, ParseError):
                    raise value
                trajectory = _trajectory(value, blob, log, offset)
            except ParseError as error:
                yield Reject.of(error, connector=self.name)
                continue
            has_tasks = True
            yield trajectory
        if not has_tasks:
            raise ParseError(blob.uri, -1, "no_transitions", "no line holds a task with an action")


def _is_indented(blob: Blob) -> bool:
    """Return True for a document of one task that is written over several lines."""
    first = first_line(blob)
    return first is not None and first.data is not None and first.data.strip() == b"{"


def _trajectory(value: Any, blob: Blob, log: str, offset: int) -> Trajectory:
    """Build the trajectory of a line.

    Raises:
        ParseError: `bad_record` (no task), `no_transitions` (a task without a step), `bad_step` (a step without code,
            so that the cause of the next screen is unknown).
    """
    uri = blob.uri
    rows = (value.get("traj") or _bench_steps(value)) if isinstance(value, dict) else None
    if not isinstance(rows, list):
        raise ParseError(uri, offset, "bad_record", "wanted an object with a list traj or steps")
    if not rows:
        raise ParseError(uri, offset, "no_transitions", "the task has no step")
    moves = Moves()
    pictures = [_picture(row, blob) for row in rows]
    for index, row in enumerate(rows):
        fields = row.get("value") if isinstance(row, dict) else None
        code = fields.get("code") if isinstance(fields, dict) else None
        if not isinstance(code, str) or not isinstance(fields, dict):
            raise ParseError(uri, offset, "bad_step", f"step {index} of the task has no code")
        after = pictures[index + 1] if index + 1 < len(pictures) and _follows(rows[index + 1], row) else None
        moves.add(_action(code, fields), pictures[index], after, offset, log)
    completed = value.get("task_completed")
    resolved = completed if isinstance(completed, bool) else None
    identity = text_of(value.get("task_id"))
    return Trajectory(
        native_id=identity or str(offset),
        domain="os",
        steps=moves.steps,
        agent=Agent(name="person"),
        task=Task(identity, next((text for key in _TASKS if (text := text_of(value.get(key)))), None)),
        outcome=Outcome(resolved=resolved, verifier="agentnet") if resolved is not None else None,
    )


def _bench_steps(value: dict[str, Any]) -> list[Any] | None:
    """Convert the steps of a task of AgentNetBench to those of AgentNet; None if there is no list of steps."""
    steps = value.get("steps", value.get("traj"))
    return [_plain(step) if isinstance(step, dict) else step for step in steps] if isinstance(steps, list) else None


def _plain(step: dict[str, Any]) -> dict[str, Any]:
    monologue = object_of(step.get("inner_monologue"))
    fields = {**monologue, "action": monologue.get("low_level_instruction"), "code": step.get("action")}
    return {"index": step.get("step_num"), "image": step.get("image"), "value": fields}


def _follows(later: Any, row: dict[str, Any]) -> bool:
    """Return True if no step is missing between two, as far as their indexes show."""
    index, after = row.get("index"), later.get("index") if isinstance(later, dict) else None
    return not (isinstance(index, int) and isinstance(after, int)) or after == index + 1


def _picture(row: Any, blob: Blob) -> Observation | None:
    """Return the screen before a step: its picture's name without content, and the picture if available."""
    name = text_of(row.get("image")) if isinstance(row, dict) else None
    if name is None:
        return None
    file = f"{_IMAGES}{name}"
    attachments = (attachment_of_member(blob, file, "screenshot", "image/png", name),) if file in blob.members else ()
    return Observation(None, "image/png", "screen", uri=name, attachments=attachments)


def _action(code: str, fields: dict[str, Any]) -> Action:
    words = [word for key in _REASONING if (word := fields.get(key)) and isinstance(word, str)]
    reasoning = "\n\n".join(words) if words else None
    calls = calls_of(code)
    if not calls:
        return act.build_action(act.CODE, {"code": code}, {"code": code}, reasoning)
    return act.action_of(calls, None, {"code": code}, reasoning)
