"""Boxes that run logged actions: no network, a read-only system, and bounds on every resource.

A box uses bubblewrap (`bwrap`), otherwise rootless podman; without either, nothing is run. Its working folder is new
and in memory, with a copy of the user's base; inside, `inside_session` answers requests over a pipe. Its output is
untrusted text for comparison with a log, read only up to a bound.
"""

from __future__ import annotations

import io
import json
import os
import selectors
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from trajmill.schemas import ConfigError
from trajmill.worlds.replay.engines import (
    COMMANDS,
    PYTHON,
    Limits,
    Place,
    accounts_of,
    as_whom,
    call_filter,
    end_container,
    engine,
    may_be_folder,
    process_of,
)

_SESSION: Final = "inside_session.py"
_LOAD: Final = (
    "import json,sys,types\n"
    "session = sys.modules['session'] = types.ModuleType('session')\n"
    "exec(compile(json.loads(sys.stdin.buffer.readline()), 'session', 'exec'), session.__dict__)\n"
    "session.main()\n"
)
_PATIENCE_S: Final = 10.0
_LOOK_S: Final = 0.1
_DAY_S: Final = 86_400


class BoxEndedError(Exception):
    """A box ended, or had to be ended; the message is one word with the reason."""


class Base:
    """Packed contents of the working folder at the beginning of a session.

    Args:
        archive: Tar archive; None for an empty folder.
    """

    def __init__(self, archive: IO[bytes] | None = None) -> None:
        self.archive: IO[bytes] = archive or io.BytesIO()
        self.bytes = self.archive.seek(0, os.SEEK_END)

    @classmethod
    def at(cls, path: str | Path, most: int) -> Self:
        """Pack a copy of a folder's content, or of one file.

        Args:
            path: Folder or file; links in it stay links, and special files are left out.
            most: Most bytes of its files.

        Raises:
            ConfigError: The path does not exist, or is larger.
        """
        root, total = Path(path), [0]
        if not root.exists():
            raise ConfigError(f"The base {root} is not there.")

        def bounded(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
            if not (member.isreg() or member.isdir() or member.issym()):
                return None
            total[0] += member.size
            if total[0] > most:
                raise ConfigError(f"The base {root} holds more than {most:,} bytes, which is what a box has room for.")
            return member

        archive: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it goes with the base
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT, dereference=False) as packed:
            for path_inside in sorted(root.iterdir()) if root.is_dir() else [root]:
                packed.add(path_inside, path_inside.name, filter=bounded)
        return cls(archive)


class Box:
    """Box with a session in it, for the duration of a `with` block.

    Args:
        base: Initial content of the working folder.
        setting: View of the machine that the session has.
        limits: Bounds of the box.
        begun: Processes that start and end before the session, so that its own get other ids.

    Raises:
        ConfigError: This machine has no box.
        BoxEndedError: The box does not start.
    """

    def __init__(self, base: Base, setting: Place, limits: Limits, begun: int = 0) -> None:
        if not may_be_folder(setting.folder):
            raise ConfigError(f"A box cannot have its working folder at {setting.folder}.")
        self._engine = engine(setting.system)
        self._limits, self._place = limits, setting
        self._until = time.monotonic() + limits.session_seconds
        self._own = accounts_of(setting)
        with call_filter() as filters:
            self._process = subprocess.Popen(
                COMMANDS[self._engine](setting, limits, [PYTHON, "-I", "-B", "-c", _LOAD], self._own.name, filters),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=filters,
                **as_whom(),
            )
        assert self._process.stdout is not None
        self._held = b""
        self._answers = selectors.DefaultSelector()
        assert self._process.stdin is not None
        for stream in (self._process.stdin, self._process.stdout):
            os.set_blocking(stream.fileno(), False)
        self._answers.register(self._process.stdout, selectors.EVENT_READ)
        try:
            self._begin(base, begun)
        except BaseException:
            self.close()
            raise

    def _begin(self, base: Base, begun: int) -> None:
        bounds = {name: int(value) for name, value in asdict(self._limits).items()}
        begin = {
            "folder": self._place.folder,
            "environment": self._place.environment(),
            "limits": bounds,
            "bytes": base.bytes,
            "begun": begun,
        }
        seconds = _PATIENCE_S + base.bytes / 1e7
        for value in (_source(), begin):
            self._send(json.dumps(value).encode() + b"\n", seconds)
        base.archive.seek(0)
        while data := base.archive.read(1 << 20):
            self._send(data, seconds)
        answer = self._answer(seconds)
        if answer["stopped"]:
            raise BoxEndedError("base")
        ahead = answer.get("ahead_s")
        self._ahead = timedelta(seconds=ahead if isinstance(ahead, int) and abs(ahead) < _DAY_S else 0)

    def now(self) -> datetime:
        """The time that clocks in the box show, as its zone has it."""
        return datetime.now(UTC) + self._ahead

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the box with everything in it."""
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        if self._engine == "podman":
            end_container(self._own.name)
        self._own.cleanup()
        self._answers.close()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the session's answer to a request: `output`, `code`, and `stopped` if a bound was met.

        Raises:
            BoxEndedError: There is no answer in time, or the box ended.
        """
        seconds = min(self._limits.seconds, self._until - time.monotonic())
        if seconds <= 0:
            raise BoxEndedError("time")
        self._send(json.dumps({**request, "seconds": seconds}).encode() + b"\n", seconds + _PATIENCE_S)
        return self._answer(seconds + _PATIENCE_S)

    def _send(self, data: bytes, seconds: float) -> None:
        """Write to the session within so many seconds, since a stopped session does not read."""
        assert self._process.stdin is not None
        until, left = time.monotonic() + seconds, memoryview(data)
        with selectors.DefaultSelector() as taking:
            taking.register(self._process.stdin, selectors.EVENT_WRITE)
            while left:
                if time.monotonic() > until:
                    raise BoxEndedError("time")
                try:
                    if taking.select(_LOOK_S):
                        left = left[os.write(self._process.stdin.fileno(), left[: 1 << 16]) :]
                except OSError as error:
                    raise BoxEndedError("ended") from error

    def _is_heavy(self) -> bool:
        """Return True if the processes of the box together hold more memory than allowed."""
        first = process_of(self._own.name) if self._engine == "podman" else self._process.pid
        return first is not None and sum(map(_resident, _descendants(first))) > self._limits.memory

    def _answer(self, seconds: float) -> dict[str, Any]:
        until = time.monotonic() + seconds
        most = 8 * self._limits.output + (1 << 16)
        assert self._process.stdout is not None
        while b"\n" not in self._held:
            left = until - time.monotonic()
            if left <= 0 or len(self._held) > most:
                raise BoxEndedError("time" if left <= 0 else "output")
            if self._is_heavy():
                self._process.kill()
                raise BoxEndedError("memory")
            if self._answers.select(min(left, _LOOK_S)):
                data = self._process.stdout.read(1 << 16)
                if not data:
                    raise BoxEndedError("ended")
                self._held += data
        line, _, self._held = self._held.partition(b"\n")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BoxEndedError("ended") from error
        if not (isinstance(answer, dict) and isinstance(answer.get("stopped"), str)):
            raise BoxEndedError("ended")
        return answer


def _descendants(process: int) -> Iterator[int]:
    """Yield a process and all its descendants that exist."""
    yield process
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children", encoding="ascii") as stream:
                for child in stream.read().split():
                    yield from _descendants(int(child))


def _resident(process: int) -> int:
    """Return the bytes of a process's private memory; 0 if it is gone."""
    with suppress(OSError, IndexError, ValueError), open(f"/proc/{process}/statm", encoding="ascii") as stream:
        pages = stream.read().split()
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")
    return 0


@cache
def _source() -> str:
    """Return the source of the module that runs only inside a box; it imports nothing of trajmill."""
    return (resources.files("trajmill.worlds.replay") / _SESSION).read_text("utf-8")
