"""Session inside a box: requests arrive as lines of JSON, and each is answered by one line.

The first line holds the source of this module, the second the session's folder and the size of a tar archive that
follows and is unpacked there. Then come commands, keys, calls of file tools and SQL. A command that attacks this
process can only end the session: the caller outside trusts no answer, and waits no longer than its own time limit.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import fcntl
import io
import json
import os
import pty
import re
import resource
import secrets
import select
import signal
import sqlite3
import struct
import subprocess
import sys
import tarfile
import termios
import time
from contextlib import closing
from typing import Any, BinaryIO

_LARGEST = 1 << 20


class FileTools:
    """File tools, which read and change files.

    Args:
        folder: Folder of relative paths.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._before: dict[str, list[str | None]] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return `lines` of the file afterwards, or `failed` with the reason in `output`."""
        path = os.path.join(self._folder, request["path"])
        try:
            if request["act"] == "read" and os.path.isdir(path):
                return {"output": "\n".join(sorted(os.listdir(path))), "stopped": "", "code": None, "folder": True}
            text = self._acted(path, request)
        except (OSError, ValueError, UnicodeError) as error:
            return {"output": f"{type(error).__name__}: {error}", "stopped": "", "code": None, "failed": True}
        if len(text) > _LARGEST:
            return {"output": "", "stopped": "output", "code": None}
        return {"output": "", "stopped": "", "code": None, "lines": text.split("\n")}

    def _acted(self, path: str, request: dict[str, Any]) -> str:
        act = request["act"]
        if act == "undo":
            return self._undone(path)
        there = os.path.exists(path)
        before = self._read(path) if there else None
        if act == "write":
            if there and request.get("new"):
                raise ValueError("it is there already")
            return self._written(path, request["text"], before)
        if before is None:
            raise ValueError("there is no such file")
        for change in request.get("changes", ()):
            old, new = change["old"], change["new"]
            times = before.count(old) if old else 0
            if times == 0 or (times > 1 and not change["all"]):
                raise ValueError(f"the text occurs {times} times")
            before = before.replace(old, new)
        if act == "insert":
            lines, at = before.split("\n"), request["line"]
            if not 0 <= at <= len(lines):
                raise ValueError("there is no such line")
            before = "\n".join([*lines[:at], *request["text"].split("\n"), *lines[at:]])
        return before if act == "read" else self._written(path, before, self._read(path))

    def _read(self, path: str) -> str:
        with open(path, encoding="utf-8", errors="replace", newline="") as stream:
            return stream.read(_LARGEST + 1)

    def _written(self, path: str, text: str, before: str | None) -> str:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="surrogatepass", newline="") as stream:
            stream.write(text)
        self._before.setdefault(path, []).append(before)
        return text

    def _undone(self, path: str) -> str:
        versions = self._before.get(path)
        if not versions:
            raise ValueError("nothing was changed")
        before = versions.pop()
        if before is None:
            os.remove(path)
            return ""
        with open(path, "w", encoding="utf-8", newline="") as stream:
            stream.write(before)
        return before


_READS = "SELECT"


class Database:
    """The one database file in a folder.

    Args:
        folder: Folder with the file, under any name.
    """

    def __init__(self, folder: str) -> None:
        names = sorted(name for name in os.listdir(folder) if not name.endswith(("-wal", "-shm", "-journal")))
        self._path = os.path.join(folder, names[0] if names else "world.db")

    def answer(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run a tool and return its answer's text as `output`."""
        try:
            return {"output": self._answer(tool, arguments), "code": None, "stopped": ""}
        except sqlite3.Error as error:
            return {"output": f"Database error: {error}", "code": None, "stopped": ""}
        except ValueError as error:
            return {"output": f"Error: {error}", "code": None, "stopped": ""}

    def _answer(self, tool: str, arguments: dict[str, Any]) -> str:
        if tool == "list_tables":
            return str(self._run("SELECT name FROM sqlite_master WHERE type='table'"))
        if tool == "describe_table":
            if "table_name" not in arguments:
                raise ValueError("Missing table_name argument")
            return str(self._run(f"PRAGMA table_info({arguments['table_name']})"))
        query = str(arguments.get("query", ""))
        first = query.strip().upper()
        if tool == "read_query":
            if not first.startswith(_READS):
                raise ValueError("Only SELECT queries are allowed for read_query")
            return str(self._run(query))
        if tool == "write_query":
            if first.startswith(_READS):
                raise ValueError("SELECT queries are not allowed for write_query")
            return str(self._run(query))
        if not first.startswith("CREATE TABLE"):
            raise ValueError("Only CREATE TABLE statements are allowed")
        self._run(query)
        return "Table created successfully"

    def _run(self, query: str) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self._path)) as connection:
            connection.row_factory = sqlite3.Row
            with closing(connection.cursor()) as cursor:
                cursor.execute(query)
                if query.strip().upper().startswith(("INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER")):
                    connection.commit()
                    return [{"affected_rows": cursor.rowcount}]
                return [dict(row) for row in cursor.fetchall()]


_CHUNK = 1 << 16
_BREATH = 0.05
_ORDINARY = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM, signal.SIGTSTP)
_PIECES = re.compile(r"[^\x03\x04\x12\x1a\x1c]+|[\x03\x04\x12\x1a\x1c]")
_PROMPT_S = 5.0
_SETTLED_S = 0.06
_PROMPTED = re.compile(rb"[$#>] (?:\x1b\[[0-9;?]*[A-Za-z])*\Z")
_KILLED_BY = {signal.SIGXFSZ: "disk", signal.SIGXCPU: "cpu"}
_NO_FORK = re.compile(r"fork: (?:retry: )?Resource temporarily unavailable")
_LOST_FILE = re.compile(r"File size limit exceeded|No space left on device")


class Session:
    """Folder with an open shell, terminal and database.

    Args:
        folder: Initial folder of commands.
        environment: All environment variables.
        limits: `cpu` seconds, `address` and `file` bytes, `processes`, `output` bytes of one answer.
    """

    def __init__(self, folder: str, environment: dict[str, str], limits: dict[str, int]) -> None:
        self.folder = self.here = folder
        self.environment, self.limits = environment, limits
        self._shell: subprocess.Popen[bytes] | None = None
        self._terminal = -1
        self._files = FileTools(folder)
        self._database: Database | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request."""
        kind = request["do"]
        if kind == "shell":
            return self._in_shell(request["command"], request["seconds"])
        if kind == "run":
            return self._apart(request)
        if kind == "open":
            return self._opened(request)
        if kind == "keys":
            for piece in _PIECES.findall(request["keys"]):
                is_control = piece < " " and len(piece) == 1
                time.sleep(_BREATH if is_control else 0)  # who is interrupted forgets what was not read yet
                os.write(self._terminal, piece.encode("utf-8", "surrogatepass"))
                time.sleep(_BREATH if is_control else 0)
            return self._shown(request)
        if kind == "file":
            return self._files.answer(request)
        if self._database is None:
            self._database = Database(self.folder)
        return self._database.answer(request["tool"], request["arguments"])

    def _limit_resources(self) -> None:
        for number in _ORDINARY:  # a shell keeps ignoring what who started us ignores, such as an interrupt
            signal.signal(number, signal.SIG_DFL)
        bounds = {
            resource.RLIMIT_CPU: self.limits["cpu"],
            resource.RLIMIT_AS: self.limits["address"] or resource.RLIM_INFINITY,
            resource.RLIMIT_FSIZE: self.limits["file"],
            resource.RLIMIT_NPROC: self.limits["processes"],
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_NOFILE: 256,
        }
        for resource_kind, wanted in bounds.items():
            _, hard = resource.getrlimit(resource_kind)
            known = [bound for bound in (wanted, hard) if bound != resource.RLIM_INFINITY]
            most = min(known, default=resource.RLIM_INFINITY)
            resource.setrlimit(resource_kind, (most, most))

    def _started(self, command: list[str], **streams: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=self.here,
            env=self.environment,
            start_new_session=True,
            preexec_fn=self._limit_resources,
            **streams,
        )

    def _in_shell(self, command: str, seconds: float) -> dict[str, Any]:
        """Run a command in the one bash that stays open, and return its output and exit code."""
        if self._shell is None or self._shell.poll() is not None:
            self.here = self.folder
            self._shell = self._started(
                ["bash", "--noprofile", "--norc"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        shell, mark = self._shell, secrets.token_hex(16)
        packed = base64.b64encode(command.encode("utf-8", "surrogatepass")).decode()
        script = f"eval \"$(printf %s '{packed}' | base64 -d)\" </dev/null\nprintf '\\n%s %d\\n' {mark} $?\n"
        assert shell.stdin is not None and shell.stdout is not None
        try:
            shell.stdin.write(script.encode())
            shell.stdin.flush()
        except OSError:
            return self._ended(shell, b"")
        ending = re.compile(rb"\n" + mark.encode() + rb" (\d+)\n\Z")
        data, stopped = self._read([shell.stdout.fileno()], seconds, lambda buffers: ending.search(buffers[0][-64:]))
        match = ending.search(data[0][-64:])
        if match is not None:
            shown = data[0][: len(data[0]) - len(match.group(0))]
            return self._told(shown, int(match.group(1)), "")
        if stopped:
            _kill(shell)
            return self._told(data[0], None, stopped)
        return self._ended(shell, data[0])

    def _ended(self, shell: subprocess.Popen[bytes], shown: bytes) -> dict[str, Any]:
        self._shell = None
        return self._told(shown, shell.wait(), "")

    def _apart(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run a command in a bash of its own and return its output; `keeps_folder` keeps its last folder."""
        told_read, told_write = os.pipe()
        command = request["command"]
        script = 'trap \'pwd >&"$TOLD"; exec {TOLD}>&-\' EXIT\neval "$1"' if request["keeps_folder"] else 'eval "$1"'
        os.set_inheritable(told_write, True)
        try:
            process = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "-c", f"TOLD={told_write}; {script}", "bash", command],
                cwd=self.here if request["keeps_folder"] else self.folder,
                env=self.environment,
                start_new_session=True,
                preexec_fn=self._limit_resources,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if request["apart"] else subprocess.STDOUT,
                pass_fds=[told_write],
            )
        except OSError as error:
            os.close(told_read)
            os.close(told_write)
            return self._told(b"", None, "start" if error.errno == errno.E2BIG else "processes")
        os.close(told_write)
        pipes = [pipe.fileno() for pipe in (process.stdout, process.stderr) if pipe is not None]
        data, stopped = self._read(pipes, request["seconds"], lambda _: process.poll() is not None)
        code = None if stopped else process.wait()
        _kill(process)
        if request["keeps_folder"] and not stopped:
            ready, _, _ = select.select([told_read], [], [], 0)
            where = os.read(told_read, 1 << 12).decode("utf-8", "replace").strip() if ready else ""
            self.here = where if where.startswith("/") and os.path.isdir(where) else self.here
        os.close(told_read)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        both = [output.rstrip(b"\n") for output in data if output.strip(b"\n")] if request["apart"] else data
        return self._told(b"\n".join(both), code, stopped)

    def _read(self, pipes: list[int], seconds: float, over: Any) -> tuple[list[bytes], str]:
        """Read each pipe until all are closed or `over` returns true; return the bytes, and why it stopped early."""
        buffers = [bytearray() for _ in pipes]
        open_pipes, until = list(pipes), time.monotonic() + seconds
        while open_pipes:
            ready, _, _ = select.select(open_pipes, [], [], _BREATH)
            for pipe in ready:
                data = os.read(pipe, _CHUNK)
                buffers[pipes.index(pipe)] += data
                if not data:
                    open_pipes.remove(pipe)
            if sum(map(len, buffers)) > self.limits["output"]:
                return [bytes(buffer[: self.limits["output"]]) for buffer in buffers], "output"
            if over(buffers) and not select.select(open_pipes, [], [], 0)[0]:
                break
            if time.monotonic() > until:
                return [bytes(buffer) for buffer in buffers], "time"
        return [bytes(buffer) for buffer in buffers], ""

    def _told(self, shown: bytes, code: int | None, stopped: str) -> dict[str, Any]:
        text = shown.decode("utf-8", "replace")
        if code is not None and not stopped:
            number = -code if code < 0 else code - 128
            stopped = _KILLED_BY.get(number, "") if number > 0 else ""  # type: ignore[call-overload]
        if not stopped and _NO_FORK.search(text):
            stopped = "processes"
        if not stopped and _LOST_FILE.search(text) and self._is_full(text):
            stopped = "disk"
        return {"output": text, "code": code if code is None or code >= 0 else 128 - code, "stopped": stopped}

    def _is_full(self, text: str) -> bool:
        room = os.statvfs(self.folder)
        return room.f_bavail * room.f_frsize < _CHUNK or "limit exceeded" in text

    def _opened(self, request: dict[str, Any]) -> dict[str, Any]:
        """Open a terminal with an interactive bash, and return its first output."""
        child, self._terminal = pty.fork()
        if not child:
            try:
                self._limit_resources()
                os.chdir(self.folder)
                variables = {**self.environment, "PS1": request["prompt"], "TERM": request["term"]}
                size = struct.pack("HHHH", request["rows"], request["columns"], 0, 0)
                fcntl.ioctl(0, termios.TIOCSWINSZ, size)
                os.execvpe("bash", ["bash", "--noprofile", "--norc", "-i"], variables)
            finally:
                os._exit(127)
        return self._shown(request)

    def _shown(self, request: dict[str, Any]) -> dict[str, Any]:
        """Read the terminal until it has been quiet for a while, and shows a prompt if one is expected."""
        output, stopped = bytearray(), ""
        until = time.monotonic() + min(request["seconds"], request.get("most", request["seconds"]))
        prompt = (
            time.monotonic() + min(request["seconds"], request.get("most", _PROMPT_S))
            if request.get("prompted")
            else 0.0
        )
        while True:
            shown = bool(_PROMPTED.search(output[-80:]))
            quiet = _SETTLED_S if shown and prompt else request["quiet"]
            ready, _, _ = select.select([self._terminal], [], [], quiet)
            try:
                data = os.read(self._terminal, _CHUNK) if ready else b""
            except OSError:  # nobody has the terminal open any more
                break
            output += data
            now = time.monotonic()
            if not data and (shown or now > prompt):
                break
            if len(output) > self.limits["output"]:
                stopped = "output"
                break
            if now > until:  # a program that draws again and again, and goes on
                break
        return self._told(bytes(output), None, stopped)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with its whole session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass
    process.wait()


def _unpack(folder: str, data: bytes) -> None:
    """Unpack files, folders and links."""
    folders = []
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extraction_filter = lambda member, _: member  # a base is the user's own, and the folder is in a box
        for member in archive:
            if member.isreg() or member.isdir() or member.issym() or member.islnk():
                member.uid, member.gid = os.getuid(), os.getgid()
                if member.isdir():
                    folders.append((os.path.join(folder, member.name), member.mode, member.mtime))
                    member.mode |= 0o700
                archive.extract(member, folder, set_attrs=True)
    for path, mode, moment in reversed(folders):  # in a folder that is closed nothing could be made
        os.chmod(path, mode)
        os.utime(path, (moment, moment))


def main() -> None:
    """Answer requests until there are no more."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    os.set_inheritable(answers.fileno(), False)
    begin = json.loads(requests.readline())
    _tell(answers, _begun(begin, requests))
    session = Session(begin["folder"], begin["environment"], begin["limits"])
    for line in requests:
        try:
            reply = session.answer(json.loads(line))
        except Exception as error:
            reply = {"output": "", "code": None, "stopped": f"broken: {type(error).__name__}: {error}"}
        _tell(answers, reply)


def _begun(begin: dict[str, Any], requests: BinaryIO) -> dict[str, Any]:
    data = requests.read(begin["bytes"])
    for _ in range(begin["begun"]):
        if not (child := os.fork()):
            os._exit(0)
        os.waitpid(child, 0)
    try:
        os.makedirs(begin["folder"], exist_ok=True)
        with contextlib.suppress(OSError):  # a home that the folder does not lie in is of the system
            os.makedirs(begin["environment"]["HOME"], exist_ok=True)
        if data:
            _unpack(begin["folder"], data)
    except (OSError, tarfile.TarError) as error:
        return {"stopped": f"base: {error}"}
    return {"stopped": "", "ahead_s": time.localtime().tm_gmtoff}


def _tell(answers: BinaryIO, value: dict[str, Any]) -> None:
    answers.write(json.dumps(value).encode() + b"\n")
    answers.flush()
