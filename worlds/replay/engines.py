"""Engines that make boxes on a machine, and their command lines: bubblewrap, otherwise rootless podman on a system of
the user's.

Nothing here runs logged actions; see `box`.
"""

from __future__ import annotations

import errno
import importlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from trajmill.schemas import ConfigError

DISK: Final = 512 << 20
_NOBODY: Final = 65534
PYTHON: Final = "/usr/bin/python3"
_NEEDED: Final = "import pty, sqlite3, tarfile"
_ACCOUNTS: Final = ("passwd", "group", "shadow")
CONTAINER: Final = "container"
PROCESS: Final = "process"
_AFTERWARDS_S: Final = 60
_SYSTEM: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS: Final = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/mime.types")
_HOMES: Final = ("/home/", "/Users/")
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
_CALLS: Final = (
    *("add_key", "bpf", "io_uring_enter", "io_uring_register", "io_uring_setup", "kcmp", "keyctl", "perf_event_open"),
    *("pidfd_getfd", "process_vm_readv", "process_vm_writev", "ptrace", "request_key", "userfaultfd"),
)
"""System calls that a box does not need, and that others used to escape theirs."""

_REFUSED: Final = (
    "Actions of logs run in a box only, and this machine has none: {why}. Install bubblewrap (`apt-get install "
    "bubblewrap`), which needs user namespaces, or rootless podman. Nothing was run."
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a box.

    Attributes:
        seconds: Time limit of one action.
        session_seconds: Time limit of all actions of a trajectory.
        cpu: CPU seconds of one process.
        memory: Bytes that all processes of a box hold together, checked ten times a second.
        address: Bytes of address space of one process; 0 for no bound, which sanitizers need.
        processes: Concurrent processes, with all their threads.
        file: Bytes of one file.
        disk: Bytes of the working folder, and as much again for /tmp and shared memory together.
        output: Bytes of one answer.
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


class Account(NamedTuple):
    """User of a system, as in its /etc/passwd."""

    user: int
    group: int
    home: str


@dataclass(frozen=True, slots=True)
class Place:
    """View of the machine that a session has.

    Attributes:
        folder: Working folder; absolute.
        user: Name of the user.
        host: Name of the machine.
        variables: Environment variables, besides those that a login sets.
        system: Folder with the root of a system that replaces this machine's programs; empty for these.
        real_user: Name of the user in the system, if the log uses another one; empty for the same.
    """

    folder: str = "/work"
    user: str = "dev"
    host: str = "box"
    variables: Mapping[str, str] = field(default_factory=dict)
    system: str = ""
    real_user: str = ""

    @property
    def account(self) -> Account:
        """User's account in the system; a typical one if the system has none of that name."""
        name = self.real_user or self.user
        account = _accounts(self.system).get(name) if self.system else None
        if account is not None and may_be_folder(account.home):
            return account._replace(home=self._as_told(account.home))
        if self.user == "root":
            return Account(0, 0, "/root")
        return Account(1000, 1000, f"/Users/{self.user}" if self.folder.startswith("/Users/") else f"/home/{self.user}")

    @property
    def home(self) -> str:
        """Home folder."""
        home = self._as_told(self.variables.get("HOME", ""))
        return home if may_be_folder(home) else self.account.home

    def _as_told(self, home: str) -> str:
        head, _, last = home.rpartition("/")
        return f"{head}/{self.user}" if self.real_user and last == self.real_user else home

    def environment(self) -> dict[str, str]:
        """Return all variables: those that a login sets, and the given ones."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "USER": self.user,
            "LOGNAME": self.user,
            "SHELL": "/bin/bash",
            **self.variables,
            "HOME": self.home,
        }


@cache
def _accounts(system: str) -> dict[str, Account]:
    """Return the readable accounts of a system by name."""
    accounts = {}
    for line in _lines(f"{system}/etc/passwd"):
        name, *rest = line.split(":")
        with suppress(ValueError, IndexError):
            accounts[name] = Account(int(rest[1]), int(rest[2]), rest[4])
    return accounts


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def may_be_folder(path: str) -> bool:
    """Return True if a box may have its working folder at a path: absolute, without dots, in no system folder."""
    parts = path.split("/")[1:]
    plain = path.startswith("/") and all(part not in ("", ".", "..") and "\0" not in part for part in parts)
    return plain and len(path) < 200 and parts[0] not in _TAKEN and (parts[0] != "tmp" or len(parts) > 1)


@cache
def engine(system: str = "") -> str:
    """Choose the engine that makes boxes on this machine: `bubblewrap` or `podman`.

    Args:
        system: As of `Place`.

    Raises:
        ConfigError: There is none.
    """
    faults = []
    for name, program, command in (("bubblewrap", "bwrap", _bubblewrap), ("podman", "podman", _podman)):
        if shutil.which(program) is None:
            faults.append(f"there is no `{program}`")
        elif name == "podman" and not system:
            faults.append("podman needs --system, a folder with the root of a system")
        else:
            with call_filter() as filters:
                trial = command(Place(system=system), Limits(), [PYTHON, "-I", "-c", _NEEDED], "", filters)
                wrong = _try_box(trial, filters)
            if not wrong:
                return name
            faults.append(f"`{program}` fails ({wrong})")
    raise ConfigError(_REFUSED.format(why=", and ".join(faults)))


def _try_box(command: Sequence[str], filters: Sequence[int]) -> str:
    """Return the reason why an empty box cannot be made; an empty text if it can."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=60,
            check=False,
            **as_whom(),
            stdin=subprocess.DEVNULL,
            pass_fds=filters,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return type(error).__name__
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if done.returncode == 0 else (lines[-1] if lines else f"exit code {done.returncode}")[:200]


def as_whom() -> dict[str, Any]:
    """Return the user and the variables with which a box is started.

    Root has no limit on its number of processes, so root's boxes run as another user. The environment of the box's
    first process is visible in its /proc, so it is kept minimal.
    """
    inherited = {name: os.environ[name] for name in ("HOME", "XDG_RUNTIME_DIR") if name in os.environ and os.getuid()}
    variables = {"PATH": os.environ.get("PATH", os.defpath), **inherited}
    if os.getuid():
        return {"env": variables}
    return {"env": variables, "user": _NOBODY, "group": _NOBODY, "extra_groups": []}


@contextmanager
def call_filter() -> Iterator[tuple[int, ...]]:
    """Open the file of a seccomp filter for bubblewrap, compiled by libseccomp; none if that is not installed."""
    try:
        seccomp = importlib.import_module("pyseccomp")
    except (ImportError, RuntimeError):
        yield ()
        return
    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    for name in _CALLS:
        rules.add_rule(seccomp.ERRNO(errno.EPERM), name)
    rules.add_rule(seccomp.ERRNO(errno.EPERM), "socket", seccomp.Arg(0, seccomp.EQ, socket.AF_VSOCK))
    with open(os.memfd_create("seccomp"), "w+b") as file:
        rules.export_bpf(file)
        file.seek(0)
        yield (file.fileno(),)


def filters_calls() -> bool:
    """Return True if bubblewrap boxes filter system calls, which requires pyseccomp and libseccomp."""
    with call_filter() as filters:
        return bool(filters)


@cache
def _known_options() -> str:
    return subprocess.run(["bwrap", "--help"], capture_output=True, text=True, check=False).stdout


def _bubblewrap(setting: Place, limits: Limits, command: Sequence[str], own: str, filters: Sequence[int]) -> list[str]:
    """Return the command line of a bubblewrap box; `own` is a folder with its `passwd` and `group`."""
    words = ["bwrap", "--unshare-user", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    words += ["--disable-userns"] if "--disable-userns" in _known_options() else []
    words += [word for descriptor in filters for word in ("--seccomp", str(descriptor))]
    account = setting.account
    words += ["--uid", str(account.user), "--gid", str(account.group), "--hostname", setting.host]
    root = setting.system.rstrip("/")
    for path in _folders_of(setting):
        if os.path.islink(root + path):
            words += ["--symlink", os.readlink(root + path), path]
        elif os.path.isdir(root + path):
            words += ["--ro-bind", root + path, path]
    for path in () if root else _SETTINGS:
        words += ["--ro-bind-try", path, path]
    words += ["--proc", "/proc", "--dev", "/dev"]
    small = str(limits.disk // 2)
    words += ["--size", small, "--tmpfs", "/tmp", "--size", small, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    for path in _tops(setting):
        words += ["--size", str(limits.disk), "--tmpfs", path]
    words += ["--dir", setting.home, "--dir", setting.folder]
    for name in _ACCOUNTS:
        words += ["--ro-bind-try", f"{own}/{name}", f"/etc/{name}"]
    words += ["--remount-ro", "/", "--clearenv"]
    for name, value in setting.environment().items():
        words += ["--setenv", name, value]
    return [*words, "--chdir", setting.folder, *command]


def _podman(setting: Place, limits: Limits, command: Sequence[str], own: str, _: Sequence[int]) -> list[str]:
    """Return the command line of a podman box, on a system that the user gives as a folder, with podman's own filter.

    The processes in it are no children of podman: they are found by the process id in `own`/`PROCESS`, and ended by the
    container in `own`/`CONTAINER`. If nobody does that, a time limit ends them.
    """
    words = ["podman", "run", "--rm", "--interactive", "--network", "none", "--read-only", "--read-only-tmpfs=false"]
    words += ["--cap-drop", "all", "--security-opt", "no-new-privileges", "--pids-limit", str(limits.processes)]
    words += ["--memory", str(limits.memory + 2 * limits.disk), "--hostname", setting.host, "--ipc", "private"]
    words += ["--log-driver", "none", "--timeout", str(int(limits.session_seconds) + _AFTERWARDS_S)]
    small = limits.disk // 2
    for path in _tops(setting):
        words += ["--tmpfs", f"{path}:rw,size={limits.disk},mode=1777,U"]  # its user's own: git asks who owns it
    words += ["--tmpfs", f"/tmp:rw,size={small},mode=1777"]
    account = setting.account
    words += ["--shm-size", str(small), *(("--user", f"{account.user}:{account.group}") if account.user else ())]
    if own:
        words += ["--cidfile", f"{own}/{CONTAINER}", "--pidfile", f"{own}/{PROCESS}"]
        words += [f"--volume={own}/{name}:/etc/{name}:ro" for name in _ACCOUNTS]
    words += ["--unsetenv-all", *(f"--env={name}={value}" for name, value in setting.environment().items())]
    return [*words, "--workdir", "/", "--rootfs", f"{setting.system}:O", *command]


def _folders_of(setting: Place) -> list[str]:
    """Return the system folders that a box shows: this machine's programs, or another system's whole root."""
    if not setting.system:
        return ["/usr", *_SYSTEM]
    own = {"proc", "dev", "sys", "tmp", "run", "home", "root", *(top.split("/")[1] for top in _tops(setting))}
    return sorted(f"/{name}" for name in os.listdir(setting.system) if name not in own)


def _tops(setting: Place) -> list[str]:
    """Return the folders in memory: those that are or contain the working folder and the home."""
    tops = {f"/{path.split('/')[1]}" if path.startswith(_HOMES) else path for path in (setting.folder, setting.home)}
    return sorted(top for top in tops if not any(top.startswith(f"{parent}/") for parent in tops))


def end_container(own: str) -> None:
    """End the container that podman started, which is no child of podman; `own` as in a box's command line."""
    if os.path.exists(f"{own}/{CONTAINER}"):
        command = ["podman", "rm", "--force", "--time", "0", "--ignore", "--cidfile", f"{own}/{CONTAINER}"]
        subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL, **as_whom())


def process_of(own: str) -> int | None:
    """Return the first process of a container; None if there is none yet."""
    try:
        return int(Path(own, PROCESS).read_text("ascii"))
    except (OSError, ValueError):
        return None


def accounts_of(setting: Place) -> tempfile.TemporaryDirectory[str]:
    """Write a folder with the accounts of a session: those of its system, or root and the user, without passwords."""
    directory = tempfile.TemporaryDirectory(prefix="box-")
    folder, account = Path(directory.name), setting.account
    folder.chmod(0o755)
    users = _lines(f"{setting.system}/etc/passwd") if setting.system else ["root:x:0:0:root:/root:/bin/bash"]
    groups = _lines(f"{setting.system}/etc/group") if setting.system else ["root:x:0:"]
    if setting.real_user:
        users = [re.sub(rf"^{re.escape(setting.real_user)}:", f"{setting.user}:", line) for line in users]
        groups = [re.sub(rf"^{re.escape(setting.real_user)}:", f"{setting.user}:", line) for line in groups]
    if not any(line.startswith(f"{setting.user}:") for line in users):
        users.append(f"{setting.user}:x:{account.user}:{account.group}::{setting.home}:/bin/bash")
        groups.append(f"{setting.user}:x:{account.group}:")
    (folder / "passwd").write_text("\n".join([*users, ""]), "utf-8")
    (folder / "shadow").touch(0)
    (folder / "group").write_text("\n".join([*groups, ""]), "utf-8")
    return directory


COMMANDS: Final[Mapping[str, Callable[[Place, Limits, Sequence[str], str, Sequence[int]], list[str]]]] = {
    "bubblewrap": _bubblewrap,
    "podman": _podman,
}
"""Builders of the command line of a box, by engine. Their last arguments are a folder of the box's own, with the files
of `accounts_of`, and the descriptors of `call_filter`.
"""
