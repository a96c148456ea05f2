"""Worker processes of a run, each with one task at a time.

A fork server loads all code once and forks the workers, so that they share its memory and no thread or lock of the
command is copied. Neither imports from the working folder, or runs the main module again. A worker ends with the
process that started it, however that ends.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import tempfile
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from trajmill.pipelines.execution.memory import tune_memory
from trajmill.pipelines.storage.scratch import scratch_folder
from trajmill.schemas import ShardError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess

_PRELOADED: Final = "trajmill.pipelines.worker_code"
_SAFE_PATH: Final = "PYTHONSAFEPATH"


def start_fork_server() -> None:
    """Start the process that workers are forked from, which loads all code while this process does other work."""
    from multiprocessing import forkserver

    forkserver.set_forkserver_preload([_PRELOADED])
    with _as_workers_begin():
        forkserver.ensure_running()


class WorkerDiedError(ShardError):
    """Error for a worker process that ended while it worked.

    Attributes:
        ending: how the process ended: the name of a signal, or its exit code.
    """

    def __init__(self, ending: str) -> None:
        super().__init__(
            f"A worker process was ended from outside ({ending}), as systems do that run out of memory: take fewer "
            "--workers, or give them more of it"
        )
        self.ending = ending


class WorkerPool:
    """Worker processes, started when they are first needed."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._workers: list[_Worker] = []
        self._ends = ExitStack()
        self._scratch = ""

    def map(
        self, function: Callable[[Any], Any], items: Sequence[Any], done: Callable[[int], None] = lambda _: None
    ) -> list[Any]:
        """Call a function with each item, and return the results in the order of the items.

        Args:
            function: function, which is pickled once for each worker.
            items: items, each pickled for the next free worker.
            done: function that is called with the position of each finished item.

        Raises:
            Exception: an exception of the function; workers that are still at work are ended.
            WorkerDiedError: a worker ended; the items of the other workers are finished first.
        """
        code = pickle.dumps(function)
        results: list[Any] = [None] * len(items)
        waiting = deque(enumerate(items))
        idle = self._started(min(self._count, len(items)))
        prepared: set[_Worker] = set()
        busy: dict[Any, tuple[_Worker, int]] = {}
        died = ""
        try:
            while busy or (waiting and not died):
                while idle and waiting and not died:
                    worker, (number, item) = idle.pop(), waiting.popleft()
                    worker.give(None if worker in prepared else code, item)
                    prepared.add(worker)
                    busy[worker.connection] = worker, number
                for connection in _wait(busy):
                    worker, number = busy.pop(connection)
                    answer = worker.answer()
                    if answer is None:
                        self._workers.remove(worker)
                        died = worker.end()
                        continue
                    results[number] = _result(answer)
                    idle.append(worker)
                    done(number)
        except BaseException:
            self.close()
            raise
        if died:
            raise WorkerDiedError(died)
        return results

    def close(self) -> None:
        """End all workers, whatever they do."""
        while self._workers:
            self._workers.pop().end()
        self._ends.close()
        self._scratch = ""

    def _started(self, count: int) -> list[_Worker]:
        """Return this many workers, after starting the missing ones."""
        if not self._scratch:
            self._scratch = self._ends.enter_context(scratch_folder())
        try:
            with _as_workers_begin():
                while len(self._workers) < count:
                    self._workers.append(_Worker(self._scratch))
        except (EOFError, OSError) as error:
            raise ShardError(f"A worker process cannot be started: {error}") from error
        return self._workers[:count]


class _Worker:
    """A worker process, as seen by the process that started it."""

    def __init__(self, scratch: str) -> None:
        from multiprocessing import get_context

        start_fork_server()
        context = get_context("forkserver")
        self.connection, theirs = context.Pipe()
        self._process: ForkServerProcess = context.Process(
            target=_work, args=(theirs, dict(os.environ), scratch), daemon=True
        )
        with theirs:
            self._process.start()

    def give(self, code: bytes | None, item: Any) -> None:
        """Send an item, and the function if it is new to the worker."""
        task = pickle.dumps((code, item))
        try:
            self.connection.send_bytes(task)
        except OSError:
            return  # it has ended, of which `answer` tells

    def answer(self) -> tuple[Exception | None, Any] | None:
        """Receive the exception or the result of the last item; None if the process has ended."""
        try:
            answer: tuple[Exception | None, Any] = self.connection.recv()
        except (EOFError, OSError):
            return None
        return answer

    def end(self) -> str:
        """End the process unless it has ended; return how it ended."""
        self.connection.close()
        self._process.kill()
        self._process.join()
        code = self._process.exitcode or 0
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"exit code {code}"


def _wait(connections: Mapping[Any, object]) -> list[Any]:
    from multiprocessing.connection import wait

    return wait(list(connections))


def _result(answer: tuple[Exception | None, Any]) -> Any:
    error, result = answer
    if error is not None:
        raise error
    return result


@contextmanager
def _as_workers_begin() -> Iterator[None]:
    """Let processes that start within the block ignore this process's main module and working folder.

    `multiprocessing` would otherwise run a script without a guard again, and search the folder for modules.
    """
    main, path, before = sys.modules["__main__"], sys.path, os.environ.get(_SAFE_PATH)
    sys.modules["__main__"] = ModuleType("__main__")
    sys.path = [folder for folder in path if folder]
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        sys.modules["__main__"], sys.path = main, path
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


def _work(connection: Connection, environment: Mapping[str, str], scratch: str) -> None:
    """Answer tasks until the process that sends them is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = scratch
    tune_memory()
    function: Callable[[Any], Any] | None = None
    while True:
        try:
            task = connection.recv_bytes()
        except EOFError:
            return
        try:
            code, item = pickle.loads(task)  # noqa: S301 - of the process that started this one
            function = pickle.loads(code) if code is not None else function  # noqa: S301 - the same
            assert function is not None
            answer = pickle.dumps((None, function(item)))
        except Exception as error:  # noqa: BLE001 - who gave the task raises it again
            answer = pickle.dumps((_portable(error), None))
        connection.send_bytes(answer)
        task = item = answer = b""  # which may be large


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _portable(error: Exception) -> Exception:
    """Return the error with its traceback as a note; a RuntimeError with its message if it cannot be pickled."""
    trace = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
        portable_error = error
    except Exception:  # noqa: BLE001 - a class of somebody else's
        portable_error = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            portable_error.add_note(note)
    portable_error.add_note(f"in a worker process:\n{trace}")
    return portable_error


_CURRENT: Final[ContextVar[WorkerPool | None]] = ContextVar("pool", default=None)
"""Pool of the current run."""


@contextmanager
def worker_pool(count: int) -> Iterator[WorkerPool]:
    """Yield the pool of the current run, or a new one that ends with the block."""
    current = _CURRENT.get()
    if current is not None:
        yield current
        return
    pool = WorkerPool(count)
    token = _CURRENT.set(pool)
    try:
        yield pool
    finally:
        _CURRENT.reset(token)
        pool.close()


def died_alone(function: Callable[[Any], Any], item: Any) -> str:
    """Call a function in a separate process; return how the process ended, or an empty text if the call returned."""
    pool = WorkerPool(1)
    try:
        pool.map(function, [item])
    except WorkerDiedError as error:
        return error.ending
    finally:
        pool.close()
    return ""
