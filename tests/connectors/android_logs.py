"""Helpers of the Android tests: trajectories of a blob, folders of the corpora, small screens."""

from collections.abc import Callable
from pathlib import Path

from tests.conftest import ROOT
from tests.conftest import real_files as named_real_files
from tests.rows import split_records
from trajmill.connectors.connector import Connector, MemoryBlob
from trajmill.schemas import ParseError, Reject, Trajectory

FIXTURES = ROOT / "tests" / "fixtures"


def read(connector: Connector, blob: MemoryBlob) -> tuple[list[Trajectory], list[Reject]]:
    """(trajectories, rejects) of a blob."""
    return split_records(connector.parse(blob))


def outcome(connector: Connector, blob: MemoryBlob) -> tuple[list[Trajectory], list[str]]:
    """(trajectories, reasons of all rejects); an input that is refused has the reason of its error."""
    try:
        trajectories, rejects = read(connector, blob)
    except ParseError as error:
        return [], [error.reason]
    return trajectories, [reject.reason for reject in rejects]


def real_files(name: str, pattern: str, record: Callable[[str, object], None]) -> list[Path]:
    """The files of a corpus that fit a pattern; where the corpora are absent the test is skipped."""
    paths = [path for path in named_real_files([f"android/{name}/"], record) if path.match(pattern)]
    assert paths
    return paths


def node(bounds: str, text: str = "", inner: str = "", **attributes: str) -> str:
    """A `<node>` of a dump; flags that are not given are off."""
    fields = {"class": "android.widget.TextView", "package": "org.example", "enabled": "true", **attributes}
    words = " ".join(f'{key.replace("_", "-")}="{value}"' for key, value in fields.items())
    return f'<node text="{text}" {words} bounds="{bounds}">{inner}</node>'


def dump(*nodes: str) -> bytes:
    """A dump of a window that holds the nodes."""
    root = node("[0,0][100,200]", inner="".join(nodes), **{"class": "android.widget.FrameLayout"})
    return f'<?xml version="1.0" encoding="UTF-8"?><hierarchy rotation="0">{root}</hierarchy>'.encode()
