r"""Result folders of OSWorld (arXiv 2404.07972): `traj.jsonl`, `result.txt`, screenshots, `runtime.log`.

>>> show(OSWorld(), {"traj.jsonl": '''
... {"step_num": 1, "action_timestamp": "20250310@101500", "action": "pyautogui.click(140, 75)", "response": '''
... '''"I save.", "reward": 0, "done": false, "info": {}, "screenshot_file": "step_1_20250310@101500.png"}
... ''', "step_0.xml": '''
... <desktop-frame xmlns:st="https://accessibility.ubuntu.example.org/ns/state"
... xmlns:cp="https://accessibility.ubuntu.example.org/ns/component"><application name="Mail">
... <frame name="Letter" st:showing="true" st:visible="true"><push-button name="Save" st:enabled="true"
... st:showing="true" st:visible="true" cp:screencoord="(100, 60)" cp:size="(80, 30)"/></frame></application>
... </desktop-frame>
... ''', "step_1_20250310@101500.xml": '''
... <desktop-frame xmlns:st="https://accessibility.ubuntu.example.org/ns/state"
... xmlns:cp="https://accessibility.ubuntu.example.org/ns/component"><application name="Mail">
... <frame name="Letter" st:showing="true" st:visible="true"><label name="Saved" st:enabled="true"
... st:showing="true" st:visible="true" cp:screencoord="(100, 60)" cp:size="(80, 30)"/></frame></application>
... </desktop-frame>
... '''})
before  | #1 window "Letter" description="Mail"
        |   #2 button "Save" [100,60][180,90]
action  | {"name": "click", "arguments": {"element": "#2", "x": 140, "y": 75}}
after   | #1 window "Letter" description="Mail"
        |   #3 text "Saved" [100,60][180,90]

`results/<action_space>/<observation_type>/<model>/<domain>/<task id>/traj.jsonl` has one line per action: `{step_num,
action_timestamp, action, response, reward, done, info, screenshot_file}`, and in newer versions the instruction. The
screenshot is taken after the action (`lib_run_single.py`), so it is the next observation, and the observation of a line
is the screen of the line before it. The screen before the first action is not saved, except by forks that write a step
0 with the action `__init__`. Several lines share a `step_num` if one answer holds several actions; each has its own
screen, so each is a turn, and only the first has the text of the answer.

The screen is the first of these that the folder has:

1. An accessibility tree in OSWorld's XML dialect: in the line (`accessibility_tree`, or a file named by
   `accessibility_tree_file`), or a file named like the step's screenshot but ending in `.xml`, or `step_<n>.xml`. Step
   0 is the screen before the first action. OSWorld itself gives agents such trees but does not save them; samples/os.md
   describes the output of our recorder.
2. The table that OSWorld's baseline agent logs before each answer (`runtime_log`). There is none between two actions of
   one answer.
3. Nothing: the content is null, and a screenshot an attachment.

The names of screenshots have a resolution of one second, so two lines may name one file: it shows the screen of the
later line.

A screen that was not at rest (`info.settled` is false, or the active window is busy) is marked as cut by the recorder.

The action is pyautogui code, a word (WAIT, DONE, FAIL) or an object, read by `pyautogui` and `computer_13`. Code that
cannot be read as calls is the action `code`. The time of an action has no time zone and is left out. OSWorld appends a
run to the file of the run before: where `step_num` decreases, another trajectory begins. `result.txt` belongs to the
last run. A line that states an error of the harness is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.desktop.atspi import NAMESPACES
from trajmill.connectors.desktop.osworld.folder import POINTER, Folder
from trajmill.connectors.desktop.osworld.lines import Line, action_of, read_line
from trajmill.connectors.reading.lines import json_lines
from trajmill.connectors.screens.moves import Moves
from trajmill.schemas import Agent, Environment, Outcome, ParseError, Reject, Task, Trajectory

_OTHERS: Final = re.compile(
    r"result\.txt|runtime\.log|recording\.mp4|initial_state\.(?:png|xml)|step_[^/]*\.(?:png|jpe?g|xml)"
)
_LINE_KEYS: Final = (b'"step_num"', b'"action_timestamp"', b'"action"')
_SPACES: Final = ("pyautogui", "computer_13", "claude_computer_use", "autoglm_computer_use")


class OSWorld(Connector):
    """Result folders of OSWorld."""

    name: ClassVar[str] = "osworld"
    version: ClassVar[str] = "8"
    domains: ClassVar[tuple[str, ...]] = ("os",)
    title: ClassVar[str] = "OSWorld result folders (traj.jsonl, accessibility trees)"
    companions = re.compile(r"args\.json|result\.txt|runtime\.log|[^/]*\.(?:png|jpe?g|mp4)")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        name = uri.rpartition("/")[2]
        line = head.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0]
        if line.startswith(b"{") and all(key in line for key in _LINE_KEYS):
            return Sniff(0.95, "first line is a step of OSWorld: step_num, action_timestamp, action")
        if line.startswith((b"<", b'{"AT"')) and NAMESPACES.search(head[:8192]):
            return Sniff(0.9, "an accessibility tree in the dialect of OSWorld")
        if name == "traj.jsonl" and line.startswith(POINTER):
            return Sniff(0.6, "named as a trajectory of OSWorld, and a pointer to it in git-lfs")
        if name == "traj.jsonl" and line.startswith((b'{"Error"', b'{"step_num"', b'{"instruction"')):
            return Sniff(0.6, "named as a trajectory of OSWorld, and begins like one")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each folder with a `traj.jsonl`, and the files that OSWorld puts beside it."""
        folders: dict[str, list[str]] = {}
        for path in paths:
            folder, _, name = path.rpartition("/")
            if name == "traj.jsonl" or _OTHERS.fullmatch(name):
                folders.setdefault(folder, []).append(path)
        for folder, files in folders.items():
            prefix = len(folder) + 1 if folder else 0
            members = {path[prefix:]: path for path in sorted(files)}
            if "traj.jsonl" in members and len(members) > 1:
                yield Log(folder, members, "traj.jsonl")

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        log = next((member for member in ("traj.jsonl", "") if member in blob.members), None)
        if log is None:
            raise ParseError(blob.uri, -1, "no_actions", "wanted a traj.jsonl beside the screens, met none")
        _refuse_others(blob, log)
        runs: list[list[Line]] = [[]]
        rejected: list[ParseError] = []
        instruction: str | None = None
        start: Line | None = None
        unread = False
        for offset, value in json_lines(blob, log):
            try:
                line = read_line(value, blob.uri, offset, log)
            except ParseError as error:
                rejected.append(error)
                # An unreadable action still changed the screen; an error of the harness did not.
                unread = unread or error.reason != "harness_error"
                continue
            instruction = instruction or line.instruction
            if line.action is None:
                start = line if line.picture or line.tree or line.tree_file else start
                continue
            if runs[-1] and (start is not None or line.number < runs[-1][-1].number):
                runs.append([])
            runs[-1].append(replace(line, follows=not unread, start=start))
            unread, start = False, None
        runs = [run for run in runs if run]
        folder = Folder(blob, log, runs)
        moves = [_moves(run, folder) for run in runs]
        outcome = folder.outcome()
        for refused in [*rejected, *folder.errors]:
            yield Reject.of(refused, connector=self.name)
        if not runs:
            raise ParseError(blob.uri, -1, "no_transitions", "no line holds an action", log)
        about = _About.of(blob.uri, instruction)
        for index, run_moves in enumerate(moves):
            yield about.trajectory(run_moves, index, outcome if index == len(runs) - 1 else None)


def _refuse_others(blob: Blob, log: str) -> None:
    """Raise a `ParseError` for a file that only looks like a log: a git-lfs pointer, or only an accessibility tree."""
    with blob.open(log) as stream:
        head = stream.read(8192).lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith(POINTER):
        raise ParseError(blob.uri, 0, "lfs_pointer", "git-lfs left a pointer here; wanted the file itself", log, head)
    if head.startswith((b"<", b'{"AT"')):
        detail = "an accessibility tree shows a screen; wanted a traj.jsonl of what was done beside it"
        raise ParseError(blob.uri, 0, "no_actions", detail, log, head[:512])


def _moves(run: Sequence[Line], folder: Folder) -> Moves:
    """Convert a run into moves; the observation of a line is the screen after the line before it.

    After an unreadable line, the observation is taken from the agent's own log, or is null.
    """
    moves = Moves()
    before = folder.first(run)
    last_response: str | None = None
    for turn, line in enumerate(run):
        if not line.follows:
            before = folder.logged(line)
        after = folder.after(run, turn)
        # The text of an answer with several actions is kept once, at the first of them.
        again = turn > 0 and run[turn - 1].number == line.number and line.response == last_response
        last_response = line.response
        screen = None if folder.raw else before.screen
        moves.add(
            action_of(line, screen, None if again else line.response),
            before.observation,
            after.observation,
            line.offset,
            line.member,
            reward=line.reward,
            terminated=line.done,
        )
        before = after
    return moves


@dataclass(frozen=True, slots=True)
class _About:
    """Facts in the folder's path: `…/<action space>/<observation type>/<model>/<domain>/<task id>`."""

    native_id: str
    task: Task
    environment: Environment
    agent: Agent

    @classmethod
    def of(cls, uri: str, instruction: str | None) -> _About:
        """Read the facts in the path; a path of another shape gives only the trajectory's id."""
        parts = uri.rstrip("/").removesuffix("/traj.jsonl").split("/")
        start = next((index for index, part in enumerate(parts) if part in _SPACES), None)
        tail = parts[start + 2 :] if start is not None else []
        model, domain = ("/".join(tail[:-2]), tail[-2]) if len(tail) >= 3 else (None, None)
        task = Task(parts[-1] if domain else None, instruction)
        return cls(parts[-1], task, Environment(domain), Agent(model=model))

    def trajectory(self, moves: Moves, index: int, outcome: Outcome | None) -> Trajectory:
        """Build the trajectory of a run; the index counts from 0 among the runs in the folder."""
        native_id = self.native_id if index == 0 else f"{self.native_id}#{index + 1}"
        return Trajectory(native_id, "os", moves.steps, self.environment, self.agent, self.task, outcome=outcome)
