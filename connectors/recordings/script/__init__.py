r"""Recordings of script(1) of util-linux: a typescript, with its timing file if there is one.

>>> show(Script(), {"day.typescript": '''
... Script started on 2026-02-03 04:05:06+00:00 [COMMAND="bash" TERM="xterm" COLUMNS="60" LINES="12"]
... \x1b[?2004h$ date +%Y\r
... \x1b[?2004l\r2026\r
...
... Script done on 2026-02-03 04:05:09+00:00 [COMMAND_EXIT_CODE="0"]
... ''', "day.timing": '''
... 0.010000 10
... 0.900000 8
... 0.300000 17
... '''})
before  | $
action  | [{"keystrokes": "date +%Y\n", "duration": 0.0}]
after   | $ date +%Y
        | 2026

Format: script(1), scriptreplay(1) and the output of util-linux 2.38. A typescript is a line `Script started on …`, the
raw bytes of the terminal and, unless the recorder was killed, a line `Script done on …`. `typescripts` explains files
with several recordings, and `timing` the two forms of timing. A trajectory is one recording. If input was recorded,
only the input determines the typed text, otherwise the echo does, as in asciicasts.

A timing file counts bytes, so the typescript is split first and decoded afterwards, as UTF-8; bytes that are not UTF-8
become U+FFFD. The terminal's size is that of the header or of the timing, else 80x24; without either its width is
derived from the lines at prompts.

A timing file belongs to the last recording of a typescript, or to all of them if its sum fits all. If it fits neither
(`timing_mismatch`), or if there is none, only the order of the output is known. A typed line is then the text after a
recurring prompt (see `prompts`), its arguments state `"source": "inferred"`, and no step has a time. An input log alone
holds no output and is refused. A timing file whose name has another stem than the typescript's is not found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.recordings.recording import UNDATED, Recording, trajectories_of
from trajmill.connectors.recordings.screen import check_size
from trajmill.connectors.recordings.script.prompts import COLUMNS, iterate_untimed_events, prompts_of
from trajmill.connectors.recordings.script.timing import Timing, fit_timing, iterate_timed_events, timing_of
from trajmill.connectors.recordings.script.typescripts import START, Typescript, typescripts_of
from trajmill.connectors.recordings.session import Session
from trajmill.schemas import ParseError, Reject, Trajectory

ROWS: Final = 24

_TIMING: Final = re.compile(r"(?:(.*)\.)?(?:timing|timing\.log|timing\.txt|tm|timingfile)", re.DOTALL)
_OUTPUTS: Final = (".typescript", ".out", ".log", ".script", "")
_INPUT: Final = ".in"


class Script(Connector):
    """Typescripts of util-linux."""

    name: ClassVar[str] = "script"
    version: ClassVar[str] = "5"
    domains: ClassVar[tuple[str, ...]] = ("terminal",)
    title: ClassVar[str] = "recordings of script(1): typescript and timing"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        match = START.match(head)
        return Sniff(0.95, f"the first line is that of script(1): {_line(match[0])}") if match else None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each timing file with the typescript and the input log, whose names differ only in the ending.

        A folder with one such recording gives it its name; if there are several, the common stem is added.
        """
        known, taken = set(paths), set[str]()
        logs: dict[str, list[tuple[str, dict[str, str], str]]] = {}
        for path in paths:
            folder, slash, name = path.rpartition("/")
            match = _TIMING.fullmatch(name)
            if match is None:
                continue
            stem, base = match[1] or "", folder + slash
            names = [stem + ending for ending in _OUTPUTS if stem] or ["typescript"]
            anchor = next(
                (
                    name_beside
                    for name_beside in names
                    if base + name_beside in known and base + name_beside not in taken and name_beside != name
                ),
                None,
            )
            if anchor is None:
                continue
            names = [anchor, name]
            if stem and base + stem + _INPUT in known and base + stem + _INPUT not in taken:
                names.append(stem + _INPUT)
            taken.update(base + taken_name for taken_name in names)
            logs.setdefault(folder, []).append(
                (stem or anchor, {file_name: base + file_name for file_name in sorted(names)}, anchor)
            )
        for folder, found_logs in logs.items():
            for stem, members, anchor in found_logs:
                alone = len(found_logs) == 1 and folder
                yield Log(folder if alone else f"{folder}/{stem}".lstrip("/"), members, anchor)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        with ExitStack() as opened:
            yield from self._parse(blob, _Files(blob, opened))

    def _parse(self, blob: Blob, files: _Files) -> Iterator[Trajectory | Reject]:
        blocks = typescripts_of(files.output, blob.uri, files.output_name)
        if not blocks:
            raise ParseError(blob.uri, 0, "no_header", "wanted a line 'Script started on …'", files.output_name)
        timings: list[Timing | None] = [None] * len(blocks)
        faults: list[ParseError] = []
        if files.timing is not None:
            try:
                timing = timing_of(files.timing, blob.uri, files.timing_name)
                timings = fit_timing(timing, blocks, files.input is not None, blob.uri, files.timing_name)
            except ParseError as error:
                faults.append(error)
        count = 0
        names: Counter[str] = Counter()
        for block, own in zip(blocks, timings, strict=True):
            session, recording = _read(files, block, own, names)
            try:
                for result in trajectories_of(session, recording, blob, self.name):
                    yield result
                    count += isinstance(result, Trajectory)
            except ParseError as error:
                faults.append(error)
        if not count:
            raise faults[0]
        for fault in faults:
            yield Reject.of(fault, connector=self.name)


class _Files:
    """The files of a log by role, opened for random access. Without a timing file there is only the output.

    Raises:
        ParseError: the log is only an input log (`no_output`).
    """

    def __init__(self, blob: Blob, opened: ExitStack) -> None:
        self.uri = blob.uri
        names = blob.members
        timing = next((name for name in names if name and _TIMING.fullmatch(name.rpartition("/")[2])), None)
        entered = next((name for name in names if name.endswith(_INPUT)), None)
        output = next((name for name in names if name not in (timing, entered)), None)
        if output is None or (output == "" and blob.uri.endswith(_INPUT)):
            raise ParseError(blob.uri, -1, "no_output", "a log of input alone, without what the terminal showed")
        self.output_name, self.timing_name, self.input_name = output, timing or "", entered or ""
        self.output = opened.enter_context(blob.seekable(output))
        self.timing = None if timing is None else opened.enter_context(blob.seekable(timing))
        self.input = None if entered is None else opened.enter_context(blob.seekable(entered))


def _read(files: _Files, block: Typescript, timing: Timing | None, names: Counter[str]) -> tuple[Session, Recording]:
    """Return the session of a block, read, and its description; `names` counts the dates so far."""
    facts = {**block.facts, **(timing.facts if timing else {})}
    prompts = None if timing is not None else prompts_of(files.output, block)
    columns, rows = _size(facts, COLUMNS if prompts is None else prompts.columns)
    session = Session(columns, rows)
    if prompts is not None:
        session.read(iterate_untimed_events(files.output, block, prompts, files.uri, files.output_name))
    elif timing is not None:
        session.read(
            iterate_timed_events(
                timing, block, files.output, files.input, files.uri, (files.output_name, files.input_name)
            )
        )
    native_id = block.date or UNDATED
    names[native_id] += 1
    if names[native_id] > 1:
        native_id = f"{native_id} ({names[native_id]})"
    split = session.has_input and files.input is not None
    recording = Recording(
        native_id=native_id,
        columns=columns,
        rows=rows,
        began=block.began,
        term=facts.get("TERM"),
        shell=facts.get("SHELL"),
        command=facts.get("COMMAND"),
        member=files.input_name if split else files.output_name,
        timed=timing is not None,
    )
    return session, recording


def _size(facts: dict[str, str], usual: int) -> tuple[int, int]:
    columns, rows = facts.get("COLUMNS", ""), facts.get("LINES", "")
    stated = re.fullmatch(r"\d{1,5}x\d{1,5}", f"{columns}x{rows}", re.ASCII)
    return (check_size(int(columns), int(rows)) if stated else None) or (usual, ROWS)


def _line(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()[:60]
