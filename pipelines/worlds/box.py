"""Boxes in which actions of logs are run, and nowhere else: no network, a system that cannot be written, bounds on all.

A box is bubblewrap's (`bwrap`), else one of rootless podman; where there is neither, nothing is run. Its working folder
is new and in memory, with a copy of what the user gave; inside, `inside.session` answers requests over a pipe. What
comes out of it is text to be held against a log, never trusted, and read only up to a bound.
"""

from __future__ import annotations

import io
import json
import os
import pwd
import selectors
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from schemas import ConfigError

MODULES: Final = ("files", "database", "session")
_PACKAGE: Final = "pipelines.worlds.inside"
_LOAD: Final = (
    "import json,sys,types\n"
    "for name, source in json.loads(sys.stdin.buffer.readline()).items():\n"
    "    module = sys.modules[name] = types.ModuleType(name)\n"
    "    exec(compile(source, name, 'exec'), module.__dict__)\n"
    "module.main()\n"
)
DISK: Final = 512 << 20
_NOBODY: Final = "nobody"
_PYTHON: Final = "/usr/bin/python3"
_PATIENCE_S: Final = 10.0
_LOOK_S: Final = 0.1
_SYSTEM: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS: Final = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/mime.types")
_TAKEN: Final = (
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "proc",
    "run",
    "sbin",
    "sys",
    "usr",
    "var",
)
_REFUSED: Final = (
    "Actions of logs run in a box only, and this machine has none: {why}. Install bubblewrap (`apt-get install "
    "bubblewrap`), which needs user namespaces, or rootless podman. Nothing was run."
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a box.

    Attributes:
        seconds: that one action may take.
        session_seconds: that all actions of a trajectory may take.
        cpu: seconds of one process.
        memory: bytes that all processes of a box hold together, looked at ten times a second.
        address: bytes of address space of one process; 0 for any number, which sanitizers need.
        processes: at once, with all their threads.
        file: bytes of one file.
        disk: bytes of the working folder, and so much again of /tmp and of shared memory together.
        output: bytes of one answer.
    """

    seconds: float = 10.0
    session_seconds: float = 120.0
    cpu: int = 30
    memory: int = 2 << 30
    address: int = 16 << 30
    processes: int = 64
    file: int = 256 << 20
    disk: int = DISK
    output: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """What a session sees of its machine.

    Attributes:
        folder: where it works; absolute.
        user: its name.
        host: the machine's name.
        variables: of the environment, beside those that every box has.
        system: a folder with the root of a system, in place of this machine's programs; empty for these.
    """

    folder: str = "/work"
    user: str = "dev"
    host: str = "box"
    variables: Mapping[str, str] = field(default_factory=dict)
    system: str = ""

    @property
    def home(self) -> str:
        """The home folder."""
        return "/root" if self.user == "root" else f"/home/{self.user}"

    def environment(self) -> dict[str, str]:
        """All variables: what a session finds does not hang on who asks."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": self.home,
            "USER": self.user,
            "LOGNAME": self.user,
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "dumb",
            "PAGER": "cat",
            "GIT_PAGER": "cat",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            **self.variables,
        }


def may_be_folder(path: str) -> bool:
    """Whether a box may have its working folder there: an absolute path without dots, in no folder of the system."""
    parts = path.split("/")[1:]
    plain = path.startswith("/") and all(part not in ("", ".", "..") and "\0" not in part for part in parts)
    return plain and len(path) < 200 and parts[0] not in _TAKEN and (parts[0] != "tmp" or len(parts) > 1)


class BoxEndedError(Exception):
    """A box ended, or had to be ended; the message is one word that tells why."""


@cache
def engine(system: str = "") -> str:
    """What makes boxes on this machine: `bubblewrap` or `podman`.

    Args:
        system: as of `Place`.

    Raises:
        ConfigError: nothing does.
    """
    told = []
    for name, program, command in (("bubblewrap", "bwrap", _bubblewrap), ("podman", "podman", _podman)):
        if shutil.which(program) is None:
            told.append(f"there is no `{program}`")
        elif name == "podman" and not system:
            told.append("podman needs --system, a folder with the root of a system")
        else:
            wrong = _tried(command(Place(system=system), Limits(), [_PYTHON, "-I", "-c", ""]))
            if not wrong:
                return name
            told.append(f"`{program}` fails ({wrong})")
    raise ConfigError(_REFUSED.format(why=", and ".join(told)))


def _tried(command: Sequence[str]) -> str:
    """Why a box that does nothing cannot be made; empty if it can."""
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=60, check=False, **_as_whom(), stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError) as error:
        return type(error).__name__
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if done.returncode == 0 else (lines[-1] if lines else f"exit code {done.returncode}")[:200]


def _as_whom() -> dict[str, Any]:
    """As which user, and with which variables, a box is made.

    Root's processes are bounded by no number of processes, so a box of root's is another user's. What the box's first
    process has in its environment stands in the box's /proc.
    """
    kept = {name: os.environ[name] for name in ("HOME", "XDG_RUNTIME_DIR") if name in os.environ and os.getuid()}
    variables = {"PATH": os.environ.get("PATH", os.defpath), **kept}
    if os.getuid():
        return {"env": variables}
    nobody = pwd.getpwnam(_NOBODY)
    return {"env": variables, "user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@cache
def _known_options() -> str:
    return subprocess.run(["bwrap", "--help"], capture_output=True, text=True, check=False).stdout


def _bubblewrap(place: Place, limits: Limits, command: Sequence[str], accounts: str = "/nonexistent") -> list[str]:
    """The command line of a box of bubblewrap's; `accounts` is a folder with its `passwd` and `group`."""
    made = ["bwrap", "--unshare-user", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    made += ["--disable-userns"] if "--disable-userns" in _known_options() else []
    identity = ("0", "0") if place.user == "root" else ("1000", "1000")
    made += ["--uid", identity[0], "--gid", identity[1], "--hostname", place.host]
    root = place.system.rstrip("/")
    made += ["--ro-bind", f"{root}/usr", "/usr"]
    for one in _SYSTEM:
        if os.path.islink(root + one):
            made += ["--symlink", os.readlink(root + one), one]
        elif os.path.isdir(root + one):
            made += ["--ro-bind", root + one, one]
    for one in _SETTINGS:
        made += ["--ro-bind-try", root + one, one]
    made += ["--proc", "/proc", "--dev", "/dev"]
    small = str(limits.disk // 2)
    made += ["--size", small, "--tmpfs", "/tmp", "--size", small, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    top = "/home" if place.folder.startswith("/home/") else place.folder
    made += ["--size", str(limits.disk), "--tmpfs", top]
    made += ["--dir", place.home, "--dir", place.folder]
    for name in ("passwd", "group"):
        made += ["--ro-bind-try", f"{accounts}/{name}", f"/etc/{name}"]
    made += ["--remount-ro", "/", "--clearenv"]
    for name, value in place.environment().items():
        made += ["--setenv", name, value]
    return [*made, "--chdir", place.folder, *command]


def _podman(place: Place, limits: Limits, command: Sequence[str], accounts: str = "") -> list[str]:
    """The command line of a box of podman's, over a system that the user gives as a folder, with its accounts."""
    del accounts
    made = ["podman", "run", "--rm", "--interactive", "--network", "none", "--read-only", "--read-only-tmpfs=false"]
    made += ["--cap-drop", "all", "--security-opt", "no-new-privileges", "--pids-limit", str(limits.processes)]
    made += ["--memory", str(limits.memory + 2 * limits.disk), "--hostname", place.host, "--ipc", "private"]
    for folder, size in ((place.folder, limits.disk), ("/tmp", limits.disk // 2)):
        made += ["--tmpfs", f"{folder}:rw,size={size},mode=1777"]
    made += ["--unsetenv-all", *(f"--env={name}={value}" for name, value in place.environment().items())]
    return [*made, "--workdir", place.folder, "--rootfs", f"{place.system}:O", *command]


class Base:
    """What a session's working folder holds at its beginning, packed once.

    Args:
        archive: a tar archive; None for nothing.
    """

    def __init__(self, archive: IO[bytes] | None = None) -> None:
        self.archive: IO[bytes] = archive or io.BytesIO()
        self.bytes = self.archive.seek(0, os.SEEK_END)

    @classmethod
    def at(cls, path: str | Path, most: int) -> Self:
        """A copy of a folder's content, or of one file.

        Args:
            path: the folder or file; links in it stay links, and what is no file, folder or link is left out.
            most: bytes that it may have.

        Raises:
            ConfigError: it is not there, or is larger.
        """
        root, held = Path(path), [0]
        if not root.exists():
            raise ConfigError(f"The base {root} is not there.")

        def bounded(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
            if not (member.isreg() or member.isdir() or member.issym()):
                return None
            held[0] += member.size
            if held[0] > most:
                raise ConfigError(f"The base {root} holds more than {most:,} bytes, which is what a box has room for.")
            return member

        archive: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it goes with the base
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT, dereference=False) as packed:
            for one in sorted(root.iterdir()) if root.is_dir() else [root]:
                packed.add(one, one.name, filter=bounded)
        return cls(archive)


class Box:
    """A box with a session in it, from the beginning to the end of a `with` block.

    Args:
        base: what the working folder holds at first.
        place: what the session sees.
        limits: its bounds.

    Raises:
        ConfigError: this machine has no box.
        BoxEndedError: it does not begin.
    """

    def __init__(self, base: Base, place: Place, limits: Limits) -> None:
        if not may_be_folder(place.folder):
            raise ConfigError(f"A box cannot have its working folder at {place.folder}.")
        made = {"bubblewrap": _bubblewrap, "podman": _podman}[engine(place.system)]
        self._limits, self._place = limits, place
        self._until = time.monotonic() + limits.session_seconds
        self._accounts = _accounts(place)
        self._process = subprocess.Popen(
            made(place, limits, [_PYTHON, "-I", "-B", "-c", _LOAD], self._accounts.name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **_as_whom(),
        )
        assert self._process.stdout is not None
        self._held = b""
        self._answers = selectors.DefaultSelector()
        assert self._process.stdin is not None
        for stream in (self._process.stdin, self._process.stdout):
            os.set_blocking(stream.fileno(), False)
        self._answers.register(self._process.stdout, selectors.EVENT_READ)
        try:
            self._begin(base)
        except BaseException:
            self.close()
            raise

    def _begin(self, base: Base) -> None:
        bounds = {name: int(value) for name, value in asdict(self._limits).items()}
        begin = {
            "folder": self._place.folder,
            "environment": self._place.environment(),
            "limits": bounds,
            "bytes": base.bytes,
        }
        seconds = _PATIENCE_S + base.bytes / 1e7
        for value in (_sources(), begin):
            self._send(json.dumps(value).encode() + b"\n", seconds)
        base.archive.seek(0)
        while data := base.archive.read(1 << 20):
            self._send(data, seconds)
        if self._answer(seconds)["stopped"]:
            raise BoxEndedError("base")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the box with everything in it."""
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._accounts.cleanup()
        self._answers.close()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The session's answer to a request: `output`, `code`, and `stopped` where a bound was met.

        Raises:
            BoxEndedError: there is none in time, or the box ended.
        """
        seconds = min(self._limits.seconds, self._until - time.monotonic())
        if seconds <= 0:
            raise BoxEndedError("time")
        self._send(json.dumps({**request, "seconds": seconds}).encode() + b"\n", seconds + _PATIENCE_S)
        return self._answer(seconds + _PATIENCE_S)

    def _send(self, data: bytes, seconds: float) -> None:
        """Writes to the session, which may have been stopped from reading: no longer than so many seconds."""
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
        """Whether the processes of the box hold more memory together than they may."""
        return sum(_resident(one) for one in _descendants(self._process.pid)) > self._limits.memory

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
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BoxEndedError("ended") from error
        if not (isinstance(found, dict) and isinstance(found.get("stopped"), str)):
            raise BoxEndedError("ended")
        return found


def _descendants(process: int) -> Iterator[int]:
    """A process and all that it started, as far as they are there."""
    yield process
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children", encoding="ascii") as stream:
                for child in stream.read().split():
                    yield from _descendants(int(child))


def _resident(process: int) -> int:
    """Bytes that a process holds of its own; 0 where it is gone."""
    with suppress(OSError, IndexError, ValueError), open(f"/proc/{process}/statm", encoding="ascii") as stream:
        told = stream.read().split()
        return (int(told[1]) - int(told[2])) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _accounts(place: Place) -> tempfile.TemporaryDirectory[str]:
    """A folder with the accounts that a session finds: its user's, and root's."""
    made = tempfile.TemporaryDirectory(prefix="box-")
    folder = Path(made.name)
    folder.chmod(0o755)
    own = "" if place.user == "root" else f"{place.user}:x:1000:1000::{place.home}:/bin/bash\n"
    (folder / "passwd").write_text(f"root:x:0:0:root:/root:/bin/bash\n{own}")
    (folder / "group").write_text("root:x:0:\n" + ("" if place.user == "root" else f"{place.user}:x:1000:\n"))
    return made


@cache
def _sources() -> dict[str, str]:
    """The modules that run inside, by the names under which they know each other."""
    held = resources.files(_PACKAGE)
    return {f"{_PACKAGE}.{name}": (held / f"{name}.py").read_text("utf-8") for name in MODULES}
