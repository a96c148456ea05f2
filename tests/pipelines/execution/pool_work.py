"""What workers are given to do. They import this module alone, and neither pytest nor what tests share."""

import os
import signal
import time
from pathlib import Path


def slow_square(number: int) -> int:
    time.sleep(0.3 / number)
    return number * number


def process_of(_: int) -> tuple[int, int]:
    time.sleep(0.1)
    return os.getpid(), os.getppid()


def listening_sockets(process: int) -> set[str]:
    links = {os.readlink(path) for path in Path(f"/proc/{process}/fd").iterdir() if path.is_symlink()}
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table]
    return {line[1] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in links}


def ports(_: int) -> set[str]:
    return listening_sockets(os.getpid()) | listening_sockets(os.getppid())


class OddError(Exception):
    """One that cannot be made again by its arguments."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def fail(error: object) -> None:
    if error == "odd":
        raise OddError("really", "odd")
    raise error  # type: ignore[misc]


def kill_or_write(item: tuple[int, str]) -> int:
    number, folder = item
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.2)
    Path(folder, str(number)).touch()
    return number


def value_of(name: str) -> str | None:
    return os.environ.get(name)


def sleep_for_ever(folder: str) -> None:
    for process in (os.getpid(), os.getppid()):
        Path(folder, str(process)).touch()
    time.sleep(600)
