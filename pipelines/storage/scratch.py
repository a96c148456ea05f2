"""Folders for a process's temporary files on the local disk. Those of killed processes are removed.

A folder's name holds the number of its process, which also holds a lock in it as long as it works. A folder is removed
if no process has the number and nobody holds the lock, since processes of another container may share `TMPDIR`.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"trajmill-(\d+)-\w{8}")
_LOCK: Final = ".lock"


@contextmanager
def scratch_folder() -> Iterator[str]:
    """Create a folder that is removed with its content when the block ends."""
    temporary = tempfile.TemporaryDirectory(prefix=f"trajmill-{os.getpid()}-")
    with temporary as folder, open(f"{folder}/{_LOCK}", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def own_scratch() -> str:
    """Return the path of a folder that this process has until it ends."""
    return _of_process(os.getpid())


@cache
def _of_process(_: int) -> str:
    ends = ExitStack()
    atexit.register(ends.close)
    return ends.enter_context(scratch_folder())


def clear_scratch() -> None:
    """Remove the folders of this user's killed processes."""
    with os.scandir(tempfile.gettempdir()) as entries:
        left = [Path(entry.path) for entry in entries if _is_left(entry)]
    for folder in left:
        with suppress(OSError):
            shutil.rmtree(folder)


def is_running(process: int) -> bool:
    """Return True if there is a process of that number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_left(entry: os.DirEntry[str]) -> bool:
    named = _NAME.fullmatch(entry.name)
    if named is None or not entry.is_dir(follow_symlinks=False):
        return False
    try:
        if entry.stat(follow_symlinks=False).st_uid != os.getuid() or is_running(int(named[1])):
            return False
        with open(f"{entry.path}/{_LOCK}") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
