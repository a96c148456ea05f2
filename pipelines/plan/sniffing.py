"""Files sniffed in several processes: what each is by itself hangs on no other, and asking takes milliseconds a file.

The processes are of this module; they get the recognizer and files on stdin, answer on stdout, and end with the one
that started them.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain
from queue import SimpleQueue
from typing import Any, BinaryIO, Final

from trajmill.pipelines.execution.passed_errors import original, told
from trajmill.pipelines.execution.server_process import end_with_parent
from trajmill.schemas import ShardError

LEAST: Final = 2_000
"""Files below which it does not pay to start processes: each loads what it asks for as long as 350 files take."""

_AT_ONCE: Final = 64


def sniffed(
    do: Callable[[Any], Any], files: Sequence[Any], workers: int, each: Callable[[int], None] = lambda _: None
) -> Iterator[Any]:
    """What `do`, which can be pickled, makes of each file, in their order.

    Args:
        do: tells what a file is.
        files: all of them.
        workers: processes that do it where there are many.
        each: called with how many more are done.

    Raises:
        What it raised.
        ShardError: a process ended.
    """
    if workers < 2 or len(files) < LEAST:
        return _one_by_one(do, files, each)
    blocks = [files[begin : begin + _AT_ONCE] for begin in range(0, len(files), _AT_ONCE)]
    with ExitStack() as ends:
        free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for _ in range(min(workers, len(blocks))):
            free.put(ends.enter_context(_started(do)))
        pool = ends.enter_context(ThreadPoolExecutor(workers))
        return chain.from_iterable(list(pool.map(lambda block: _answered(block, free, each), blocks)))


def _started(do: Callable[[Any], Any]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(  # noqa: S603 - words of our own
        [sys.executable, "-m", "trajmill.pipelines.plan.sniffing", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    _send(process, do)
    return process


def _one_by_one(do: Callable[[Any], Any], files: Sequence[Any], each: Callable[[int], None]) -> Iterator[Any]:
    for file in files:
        yield do(file)
        each(1)


def _answered(
    block: Sequence[Any], free: SimpleQueue[subprocess.Popen[bytes]], each: Callable[[int], None]
) -> list[Any]:
    process = free.get()
    try:
        _send(process, block)
        assert process.stdout is not None
        answer = pickle.load(process.stdout)  # noqa: S301 - of a process of ours
    except (OSError, EOFError, pickle.UnpicklingError) as error:
        raise ShardError("A process that tells what files are was ended from outside") from error
    finally:
        free.put(process)
    if isinstance(answer, str):
        raise original(RuntimeError(answer))
    found: list[Any] = answer
    each(len(found))
    return found


def _send(process: subprocess.Popen[bytes], what: Any) -> None:
    assert process.stdin is not None
    pickle.dump(what, process.stdin)
    process.stdin.flush()


def _serve(asked: BinaryIO, answers: BinaryIO) -> None:
    do = pickle.load(asked)  # noqa: S301 - of the process that started this one
    while True:
        try:
            block = pickle.load(asked)  # noqa: S301 - the same
        except EOFError:
            return
        try:
            answer: Any = [do(one) for one in block]
        except Exception as error:  # noqa: BLE001 - who asked raises it again
            answer = told(error)
        pickle.dump(answer, answers)
        answers.flush()


def main() -> None:
    """Answers on stdout until stdin ends."""
    if not end_with_parent(int(sys.argv[1])):
        return
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed on the way is no answer
    _serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
