r"""Terminal recordings in the asciicast format, versions 1, 2 and 3, as asciinema and other tools write it.

>>> show(Asciicast(), r'''
... {"version": 2, "width": 40, "height": 5}
... [0.5, "o", "$ "]
... [1.0, "i", "date +%Y\r"]
... [1.1, "o", "date +%Y\r\n2026\r\n$ "]
... ''')
before  | $
action  | [{"keystrokes": "date +%Y\n", "duration": 0.1}]
after   | $ date +%Y
        | 2026
        | $

Format: docs.asciinema.org/manual/asciicast. A recording is a trajectory. An action is a run of keystrokes up to the
point where the terminal answers (see `bursts`); an observation is the screen as text when the next action begins. If
the recording holds input (`i` events), actions are read from it. If not, typed lines are derived from their echo on
the screen (see `echo`), and the arguments say so (`"source": "echo"`). A recording without any action is rejected as
`no_input`. Where input is missing between two actions, the trajectory ends there (truncated) and a new one continues
it.

A bad event becomes a reject and ends the trajectory; its last screen is marked as cut by the recorder. Steps before the
bad event are complete and are kept, since a recorder that was killed leaves such files. Events after it are not read,
because the screens could be wrong. Themes are ignored.

A title is no instruction, so there is no task. The native id is the timestamp of the recording, if it has one,
because an id must not depend on a path. Text typed at a hidden prompt is kept and marked as not echoed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.documents import head_object
from trajmill.connectors.reading.values import BOM
from trajmill.connectors.recordings.cast_events import Header, header_of, read_cast
from trajmill.connectors.recordings.recording import UNDATED, Recording, trajectories_of
from trajmill.connectors.recordings.session import Session
from trajmill.schemas import Reject, Trajectory

_VERSION: Final = re.compile(rb'"version"\s*:\s*([123])\s*[,}]')
_VERSION_1: Final = re.compile(rb'"(?:stdout|width|height)"\s*:')


class Asciicast(Connector):
    """Terminal recordings in asciicast form."""

    name: ClassVar[str] = "asciicast"
    version: ClassVar[str] = "5"
    domains: ClassVar[tuple[str, ...]] = ("terminal",)
    title: ClassVar[str] = "asciinema recordings of a terminal (asciicast v1, v2, v3)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        line = head.removeprefix(BOM).lstrip().partition(b"\n")[0]
        value = head_object(line)
        with suppress(ValueError):
            if value is not None:
                return Sniff(0.95, f"the first line is an asciicast header of version {header_of(value).version}")
        version = _VERSION.search(head[:4096])
        if version and version[1] == b"1" and head.lstrip()[:1] == b"{" and len(_VERSION_1.findall(head)) == 3:
            return Sniff(0.9, "a JSON object with version 1, width, height and stdout")
        return Sniff(0.3, "named as an asciicast, though its header is none") if uri.endswith(".cast") else None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        with blob.open() as stream:
            header, events = read_cast(stream, blob)
            session = Session(header.columns, header.rows)
            session.read(events)
        yield from trajectories_of(session, recording_of(header), blob, self.name)


def recording_of(header: Header) -> Recording:
    """Describe the recording by its header."""
    native_id = UNDATED if header.timestamp is None else f"{header.timestamp:.15g}"
    began, command = header.timestamp, header.command
    return Recording(
        native_id=native_id,
        columns=header.columns,
        rows=header.rows,
        began=began,
        term=header.term,
        shell=header.shell,
        command=command,
    )
