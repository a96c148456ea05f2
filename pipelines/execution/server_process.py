"""Other programs: called until they end, or servers that run beside this process and end with it, however it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, Self

from trajmill.schemas import ShardError

_PERIOD_S: Final = 0.1
_TOLD_LINES: Final = 5
_GRACE_S: Final = 10.0
_SET_DEATH_SIGNAL: Final = 1
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


def cache_folder() -> Path:
    """Return this user's folder of files that are downloaded or built once."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trajmill"


def call(command: Sequence[str], wanted: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a program and return its stdout.

    Args:
        environment: variables besides those of this process.

    Raises:
        ShardError: it failed; the message has its last lines.
    """
    variables = dict(os.environ) | dict(environment or {})
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)  # noqa: S603
    if done.returncode:
        last_lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-_TOLD_LINES:]
        raise ShardError(f"{command[0]} could not make what {wanted} needs: {' '.join(last_lines)}")
    return done.stdout


def free_port() -> int:
    """Find a free port of loopback."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def listens(port: int) -> bool:
    """Return True if a server listens at that port of loopback."""
    try:
        socket.create_connection(("localhost", port), timeout=1).close()
    except OSError:
        return False
    return True


def end_with_parent(parent: int) -> bool:
    """Let the system kill this process when its parent ends, where supported; return True if the parent exists."""
    if _LIBC is not None:
        _LIBC.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    return os.getppid() == parent


class Servers:
    """Processes that are ended together, in reverse order of their start."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._ends = ExitStack()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start a process whose output goes to `<name>.log`.

        It is killed with this process. An interrupt of the terminal does not reach it, since it would then end before
        its work.

        Raises:
            ShardError: it cannot be started.
        """
        with (self._logs / f"{name}.log").open("wb") as log:
            try:
                process = subprocess.Popen(  # noqa: S603 - words of our own
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                    preexec_fn=partial(end_with_parent, os.getpid()),  # noqa: PLW1509 - calls only functions of the system
                )
            except OSError as error:
                raise ShardError(f"The {name} cannot be started: {error}") from error
        self.processes[name] = process
        self._ends.callback(_end, process)

    def wait_for(self, is_ready: Callable[[], bool], patience_s: float) -> None:
        """Wait until the servers are ready.

        Raises:
            ShardError: a process ended, or the time ran out; the message has the last line of the log.
        """
        until = time.monotonic() + patience_s
        while not is_ready():
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise ShardError(f"The {name} ended with {process.returncode}: {self.last_said(name)}")
            if time.monotonic() > until:
                last_words = "; ".join(f"{name}: {self.last_said(name)}" for name in self.processes)
                raise ShardError(f"What was started was not ready within {patience_s:.0f} s. {last_words}")
            time.sleep(_PERIOD_S)

    def last_said(self, name: str) -> str:
        """Return the last line of a process's log."""
        lines = (self._logs / f"{name}.log").read_text("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
