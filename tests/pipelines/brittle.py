"""A connector of a user that fails in as many ways as there are, and what makes it known to a process."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.make import trajectory
from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.schemas import Reject, Trajectory

HEAD = "brittle "
SECRET = "AKIAIOSFODNN7EXAMPLF"


def deeper(number: int) -> int:
    return deeper(number + 1) + 1


class Brittle(Connector):
    """Reads `brittle WAY NAME`: a trajectory of that name, and then what the way says."""

    name = "brittle"
    version = "1"
    domains = ("terminal",)
    title = "a format whose connector fails"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if head.startswith(b"ask me nothing"):
            raise KeyError("asked")
        if head.startswith(f"{HEAD}unsniffed".encode()):
            os.kill(os.getpid(), signal.SIGSEGV)
        return Sniff(1.0, "it says so") if head.startswith(HEAD.encode()) else None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        _, way, name = blob.read().decode().split()
        log = trajectory(*(f"{name} shows {number}" for number in range(3)), native_id=name)
        first = log.steps[0]
        if way == "rows":  # no JSON in the arguments: `check` refuses them
            yield replace(log, steps=[replace(first, action=replace(first.action, arguments="{"))])
        elif way == "types":  # a number where text belongs: Arrow refuses it
            yield replace(log, steps=[replace(first, action=replace(first.action, message=5))])  # type: ignore[arg-type]
        elif way == "steps":  # no steps at all: they cannot be taken in
            yield replace(log, steps=None)  # type: ignore[arg-type]
        else:
            yield log
        if way == "raises":
            yield Reject("record", "bad_record", "one that goes with the rest", blob.uri)
            raise KeyError(f"the key {SECRET}\nand a second line")
        if way == "rejects":
            yield Reject("record", "bad_record", "the later one", blob.uri, offset=9)
            yield Reject("record", "bad_record", "the earlier one", blob.uri, offset=2)
        if way == "recursion":
            deeper(0)
        if way == "disk":
            raise OSError(5, "Input/output error", "/dev/worn-out")
        mark = Path(os.environ.get("TRAJMILL_SLOW", os.devnull))
        if way == "slow" and not mark.exists():  # the first time, until somebody ends it; says who it is
            mark.write_text(str(os.getpid()))
            time.sleep(120)
        if way == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        if way == "memory":
            raise MemoryError


def register(folder: Path) -> Path:
    """Makes a folder which, on the module search path, makes `Brittle` a connector."""
    metadata = folder / "brittle-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: brittle\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[trajmill.connectors]\nbrittle = tests.pipelines.brittle:Brittle\n")
    return folder


def logs(folder: Path, *ways: str) -> Path:
    """Writes a log a way, named by its number and the way; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, way in enumerate(ways):
        (folder / f"{number:03d}-{way}.log").write_text(f"{HEAD}{way} name{number}")
    return folder
