"""Files of an OSWorld result folder beside its trajectory: trees, screenshots, the agent's log, the result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from trajmill.connectors.connector import Blob
from trajmill.connectors.desktop.atspi import Screen, read_screen
from trajmill.connectors.desktop.dump_xml import Reader
from trajmill.connectors.desktop.osworld.lines import Line
from trajmill.connectors.desktop.osworld.runtime_log import Answer, align_answers, answers_of
from trajmill.connectors.reading.attached import attachment_of_member
from trajmill.schemas import Attachment, Observation, Outcome, ParseError

POINTER: Final = b"version https://git-lfs.github.com/spec/"

_NUMBERED: Final = re.compile(r"step_0*([0-9]{1,9})(?:[_@.-][^/]*)?\.xml")
_FIRST_PICTURE: Final = re.compile(r"initial_state\.png|step_0(?:_[^/]*)?\.(?:png|jpe?g)")
_SCORE: Final = re.compile(r"\s*([+-]?(?:[0-9]{1,12}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE][+-]?[0-9]{1,2})?)\s*")
_LOG_BYTES: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class Seen:
    """The screen at one moment: the observation, and the screen if it is known as a tree."""

    observation: Observation | None
    screen: Screen | None


NOTHING: Final = Seen(None, None)


class Folder:
    """The screens of a folder, and its result; `errors` collects what could not be read.

    Attributes:
        raw: whether trees are kept in the log's own form, so that actions cannot name ids of nodes.
    """

    def __init__(self, blob: Blob, log: str, runs: Sequence[Sequence[Line]]) -> None:
        self.raw = blob.choices.screen == "raw"
        self.errors: list[ParseError] = []
        self._blob = blob
        self._log = log
        self._numbers = [line.number for run in runs for line in run]
        # Names have a resolution of one second: a later line with the same name has overwritten the earlier screenshot.
        self._last_named = {line.picture: line.offset for run in runs for line in run if line.picture is not None}
        self._runs = len(runs)
        self._trees: dict[int, list[str]] = {}
        for member in blob.members:
            if match := _NUMBERED.fullmatch(member):
                self._trees.setdefault(int(match[1]), []).append(member)
        self._answers = self._read_network_log(runs)
        self._reader = Reader()

    def first(self, run: Sequence[Line]) -> Seen:
        """Return the screen before the first action of a run."""
        seen = NOTHING
        start = run[0].start
        if start is not None:
            seen = self.after([start], 0)
        elif self._runs == 1:
            files = [*self._trees.get(0, []), *(name for name in ("initial_state.xml",) if name in self._blob.members)]
            pictures = self._pictures(self._first_picture())
            if files:
                seen = self._tree(files[0], pictures, True)
            elif pictures:
                seen = Seen(Observation(None, form="screen", attachments=pictures), None)
        logged = self.logged(run[0]) if seen.screen is None else NOTHING
        return logged if logged.observation is not None else seen

    def _first_picture(self) -> str | None:
        named = [name for name in self._blob.members if _FIRST_PICTURE.fullmatch(name)]
        return named[0] if len(named) == 1 else None

    def logged(self, line: Line) -> Seen:
        """Return the screen that the agent received before it answered with the line, if its log holds it."""
        answer = self._answers.get(line.offset)
        return Seen(answer.observation(), None) if answer is not None else NOTHING

    def after(self, run: Sequence[Line], index: int) -> Seen:
        """Return the screen after the action of a line."""
        line = run[index]
        if line.picture is not None and self._last_named.get(line.picture, line.offset) != line.offset:
            line = replace(line, picture=None)
        pictures = self._pictures(line.picture)
        if line.tree is not None:
            return self._read(line.tree.encode("utf-8", "replace"), self._log, line.offset, pictures, line.settled)
        file = self._file_of(line)
        if file is not None:
            return self._tree(file, pictures, line.settled)
        following = run[index + 1] if index + 1 < len(run) else None
        logged = self.logged(following) if following is not None and following.number != line.number else NOTHING
        if logged.observation is not None:
            return logged
        return Seen(Observation(None, form="screen", attachments=pictures), None) if pictures else NOTHING

    def _file_of(self, line: Line) -> str | None:
        """Return the file with the tree after a line: the one it names, or that of its screenshot or its number."""
        if line.tree_file is not None:
            if line.tree_file in self._blob.members:
                return line.tree_file
            detail = f"the line names {line.tree_file[:120]!r}, which is not in the folder"
            self.errors.append(ParseError(self._blob.uri, line.offset, "missing_screen", detail, self._log))
            return None
        if line.picture is not None and (named := f"{line.picture.rpartition('.')[0]}.xml") in self._blob.members:
            return named
        files = self._trees.get(line.number, [])
        return files[0] if len(files) == 1 and self._numbers.count(line.number) <= 1 else None

    def _tree(self, member: str, pictures: tuple[Attachment, ...], settled: bool) -> Seen:
        return self._read(self._blob.read(member), member, 0, pictures, settled)

    def _read(self, data: bytes, member: str, offset: int, pictures: tuple[Attachment, ...], settled: bool) -> Seen:
        try:
            screen = read_screen(data, self._blob.uri, member, offset, self._reader)
        except ParseError as error:
            # Offsets within a tree that is embedded in a line are not offsets in the file.
            at = min(error.offset, offset) if member == self._log else error.offset
            self.errors.append(ParseError(error.uri, at, error.reason, error.detail, member, error.excerpt))
            return Seen(Observation(None, form="screen", attachments=pictures), None) if pictures else NOTHING
        return Seen(screen.observation(self.raw, pictures, settled), screen)

    def _pictures(self, name: str | None) -> tuple[Attachment, ...]:
        """Return the screenshot of that name, if the folder holds it and not just a pointer to it."""
        if name is None or name not in self._blob.members:
            return ()
        with self._blob.open(name) as stream:
            head = stream.read(len(POINTER))
        if not head or head == POINTER:
            return ()
        media_type = "image/png" if name.endswith(".png") else "image/jpeg"
        return (attachment_of_member(self._blob, name, "screenshot", media_type),)

    def _read_network_log(self, runs: Sequence[Sequence[Line]]) -> dict[int, Answer]:
        """Return the answer in `runtime.log` for each line that begins a step, by the line's offset."""
        if "runtime.log" not in self._blob.members:
            return {}
        with self._blob.open("runtime.log") as stream:
            text = stream.read(_LOG_BYTES).decode("utf-8", "replace").replace("\r\n", "\n")
        begins = [
            line for run in runs for index, line in enumerate(run) if not index or run[index - 1].number != line.number
        ]
        answers = align_answers([line.response for line in begins], answers_of(text))
        return {line.offset: answer for line, answer in zip(begins, answers, strict=True) if answer is not None}

    def outcome(self) -> Outcome | None:
        """Read `result.txt`: a score from 0 to 1, where 1 means solved."""
        if "result.txt" not in self._blob.members:
            return None
        with self._blob.open("result.txt") as stream:
            text = stream.read(256).decode("utf-8", "replace")
        match = _SCORE.fullmatch(text)
        if match is None:
            detail = f"wanted a number as the result, met {text[:40]!r}"
            self.errors.append(ParseError(self._blob.uri, 0, "bad_result", detail, "result.txt"))
            return None
        score = float(match[1])
        return Outcome(resolved=score >= 1.0, score=score, verifier="osworld")
