"""Worker processes forked from one that has loaded all code.

Beam starts the workers of each pipeline anew, and a run is three pipelines or more: each worker would load Beam, all
stages and all connectors, which takes two CPU-seconds. So a process of `pipelines.beam_worker` loads them once, and
forks a worker as often as it is asked to. It starts no thread and opens no connection, so nothing is torn by a fork.
What it forked ends with it, and it ends with the process that started it.
"""

from __future__ import annotations

import atexit
import gc
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final

WORKER: Final = "trajmill.pipelines.beam_worker"
FORKS: Final = "--forks"
"""The word by which that module knows that it is to fork workers; `=` and the number of a socket follow."""

_LENGTH: Final = struct.Struct("!Q")
_STARTED: Final = "started"


class Forked:
    """A worker that was forked, as `subprocess.Popen` shows a process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = threading.Event()

    def end(self, code: int) -> None:
        """Notes with which code it ended."""
        self.returncode = code
        self._ended.set()

    def wait(self) -> int | None:
        """Its code, once it has ended."""
        self._ended.wait()
        return self.returncode

    def poll(self) -> int | None:
        """Its code; None as long as it runs."""
        return self.returncode

    def kill(self) -> None:
        """Ends it."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class ForkServer:
    """A process that forks workers, which have the variables, the working folder and the output of this one."""

    def __init__(self) -> None:
        self.environment, self.folder = dict(os.environ), os.getcwd()
        self._channel, theirs = socket.socketpair()
        self._asking = threading.Lock()
        self._begun: SimpleQueue[Forked] = SimpleQueue()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - words of our own
                [sys.executable, "-m", WORKER, f"{FORKS}={theirs.fileno()}"],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        threading.Thread(target=self._listen, name="fork_server", daemon=True).start()

    @property
    def serves(self) -> bool:
        """Whether a worker that it forks would be as one that is started now."""
        return self._process.poll() is None and (self.environment, self.folder) == (dict(os.environ), os.getcwd())

    def start(self, environment: Mapping[str, str]) -> Forked:
        """A new worker; one that has ended if this server has.

        Args:
            environment: its variables; only those in which it differs from this process are handed on.
        """
        more = {name: value for name, value in environment.items() if self.environment.get(name) != value}
        with self._asking:
            with suppress(OSError):  # it is gone, of which the listening thread tells
                _send(self._channel, more)
            begun = self._begun.get()
            if begun.pid == self._process.pid:
                self._begun.put(begun)  # for whoever asks next
            return begun

    def close(self) -> None:
        """Ends it, with what it forked."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        self._process.wait()

    def _listen(self) -> None:
        running: dict[int, Forked] = {}
        while (told := _received(self._channel)) is not None:
            process, code = told
            if code == _STARTED:
                running[process] = Forked(process)
                self._begun.put(running[process])
            else:
                running.pop(process).end(code)
        self._process.wait()
        gone = Forked(self._process.pid)
        for one in (*running.values(), gone):
            one.end(-signal.SIGKILL)
        self._begun.put(gone)


_SERVERS: Final[list[ForkServer]] = []


def fork_server() -> ForkServer:
    """The server of this process; a new one where the old one would fork other workers than are wanted now."""
    if not _SERVERS or not _SERVERS[0].serves:
        end_fork_server()
        _SERVERS.append(ForkServer())
    return _SERVERS[0]


@atexit.register
def end_fork_server() -> None:
    """Ends the server of this process, if there is one."""
    while _SERVERS:
        _SERVERS.pop().close()


def fork_when_asked(number: int) -> dict[str, str] | None:
    """Forks workers as long as somebody may ask for them.

    Args:
        number: of the socket that this process got from the one that started it.

    Returns:
        In a process that was forked: variables that it has to set. None in this process, when it may end.
    """
    gc.freeze()  # or the collector would write to each page that workers share
    channel = socket.socket(fileno=number)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler nothing is woken
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    try:
        while True:
            ready = select.select([channel.fileno(), woken], [], [])[0]
            if woken in ready:
                os.read(woken, select.PIPE_BUF)
                _tell_ended(channel)
            if channel.fileno() in ready:
                more = _received(channel)
                if more is None:
                    return None
                process = os.fork()
                if not process:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for end in (channel.detach(), woken, wake):
                        os.close(end)
                    return dict(more)
                _send(channel, (process, _STARTED))
    except OSError:
        return None  # who asked is gone


def _tell_ended(channel: socket.socket) -> None:
    """Tells of each worker that has ended."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            _send(channel, (ended[0], os.waitstatus_to_exitcode(ended[1])))


def _send(channel: socket.socket, what: Any) -> None:
    packed = pickle.dumps(what)
    channel.sendall(_LENGTH.pack(len(packed)) + packed)


def _received(channel: socket.socket) -> Any:
    """What the other end sent next; None if it is gone."""
    length = _exactly(channel, _LENGTH.size)
    packed = b"" if length is None else _exactly(channel, *_LENGTH.unpack(length))
    return pickle.loads(packed) if packed else None  # noqa: S301 - of a process of ours


def _exactly(channel: socket.socket, count: int) -> bytes | None:
    found = b""
    while len(found) < count:
        try:
            more = channel.recv(count - len(found))
        except ConnectionError:
            return None
        if not more:
            return None
        found += more
    return found
