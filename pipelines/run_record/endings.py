"""Endings of a command: the exit code and the line of explanation for every error; see docs/operations.md.

An error that the user can fix is one line with its cause and remedy. Tracebacks are for bugs.
"""

from __future__ import annotations

import errno
import os
import signal
import tempfile
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from trajmill.schemas import ConfigError, ShardError

AGAIN: Final = "Run the same command again to go on where it stopped."
REPEAT: Final = "Mend that and run the same command again."
REPORT: Final = "Please report it, with the lines above, to whoever gave you trajmill."


class Code(IntEnum):
    """Exit codes of `trajmill`."""

    DONE = 0
    USAGE = 1
    REJECTS = 2
    CONNECTOR = 3
    ENVIRONMENT = 4
    DAMAGE = 5
    DRIFT = 6
    BUG = 70
    INTERRUPTED = 128 + signal.SIGINT
    TERMINATED = 128 + signal.SIGTERM
    KILLED = 128 + signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Ending:
    """Ending of a command after an error: the exit code, the line, and whether the traceback is shown above it."""

    code: Code
    line: str
    traceback: bool = False


class Interrupted(BaseException):
    """Exception for a signal that asks the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def ending_of(error: BaseException, *, goes_on: bool = True) -> Ending:
    """Return how a command ends after this error.

    Args:
        goes_on: whether repeating the command resumes where it stopped.
    """
    if isinstance(error, Interrupted):  # before the imports, since it may come in the middle of one
        line = "interrupted; run the same command again to go on" if goes_on else "interrupted"
        return Ending(Code(128 + error.number), line)
    if isinstance(error, ConfigError):  # before the imports too: a slip of the pen should be told at once
        return Ending(Code.USAGE, str(error))
    from trajmill.pipelines.normalize.connector_errors import is_noted, of_store
    from trajmill.pipelines.run_record.conservation import TooManyRejectsError
    from trajmill.pipelines.storage.paths import missing_package

    if isinstance(error, TooManyRejectsError):
        return Ending(Code.REJECTS, str(error))
    missing = missing_package(error)
    if missing:
        return Ending(Code.USAGE, missing)
    again = AGAIN if goes_on else REPEAT
    if isinstance(error, ShardError):
        return Ending(Code.ENVIRONMENT, _with_remedy(str(error), again))
    if is_noted(error):
        return Ending(Code.CONNECTOR, f"A connector failed, which is a bug of its. {REPORT}", traceback=True)
    if isinstance(error, OSError):
        return Ending(Code.ENVIRONMENT, _with_remedy(_of_system(error), again))
    if isinstance(error, MemoryError):
        line = "There is not enough memory. Give the process more, or take fewer --workers."
        return Ending(Code.ENVIRONMENT, f"{line} {again}")
    if of_store(error) or type(error).__module__.partition(".")[0] == "grpc":
        return Ending(Code.ENVIRONMENT, f"{type(error).__name__}: {_one_line(str(error))}. {again}")
    return Ending(Code.BUG, f"This is a bug of trajmill. {REPORT}", traceback=True)


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def _of_system(error: OSError) -> str:
    """Return the operating system's message, with the paths that it concerns."""
    said = os.strerror(error.errno) if error.errno else _one_line(str(error))
    files = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return f"{' → '.join(files)}: {said}" if files else _one_line(str(error)) or said


def _with_remedy(told: str, again: str) -> str:
    """Append a remedy to a message, such as freeing disk space or fixing permissions, and then `again`."""
    line = _one_line(told)
    if _names_one_of(line, errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{line}. Make room there; temporary files lie in {tempfile.gettempdir()} (TMPDIR). {again}"
    if _names_one_of(line, errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{line}. Make it one that you may read and write. {again}"
    return f"{line}. {again}"


def _names_one_of(line: str, *codes: int) -> bool:
    """Return True if the message is that of a system error with one of these codes."""
    return any(os.strerror(code).lower() in line.lower() or f"[Errno {code}]" in line for code in codes)
