"""A command that is asked to end, by SIGINT or SIGTERM: it ends soon, and says so.

How any other error ends a command is the matter of `run_record.endings`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from trajmill.app.cli.output_options import tell_end
from trajmill.app.console import notices
from trajmill.pipelines.run_record.endings import Ending, Interrupted, ending_of

_PATIENCE_S: Final = 3.0
"""What an interrupted run has to put things away; what it has not then is put away by the next."""

_LEAVING: Final = threading.Lock()


@contextmanager
def interruptible() -> Iterator[None]:
    """While it lasts, SIGINT and SIGTERM raise `Interrupted` in the main thread, and end the process soon after."""

    def interrupt(number: int, _: object) -> NoReturn:
        for one in before:
            signal.signal(one, signal.SIG_IGN)
        threading.excepthook = lambda _: None  # what Beam's threads say of their end
        error = Interrupted(number)
        met.append(error)
        ending = ending_of(error)
        for seconds, end, argument in ((_PATIENCE_S, leave, ending), (_PATIENCE_S + 1, os._exit, ending.code)):
            watchdog = threading.Timer(seconds, end, args=(argument,))
            watchdog.daemon = True
            watchdog.start()
        raise error

    met: list[Interrupted] = []
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except Exception as error:
        if met:  # what it came in the middle of, such as an import, made another error of it
            raise met[0] from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave(ending: Ending) -> NoReturn:
    """Says the ending's line and ends the process at once, without waiting for threads that still work."""
    _LEAVING.acquire()  # never given back: who comes second has nothing more to say
    notices().show_cursor()
    tell_end(ending.line, ending.code)
    os._exit(ending.code)
