"""Output options of commands (words or JSON, level of detail), and the orderly end of a command on signals.

`run_record.endings` defines how any other error ends a command.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from trajmill.app.console import notices, pass_lines_as
from trajmill.pipelines.run_record.endings import Ending, Interrupted, ending_of

if TYPE_CHECKING:
    from trajmill.app.cli.progress import Voice
    from trajmill.pipelines.run_record.run_log import RunLog


class LogFormat(StrEnum):
    """Form of the progress output."""

    TEXT = "text"
    JSON = "json"


_LEVELS: Final = (logging.WARNING, logging.INFO, logging.DEBUG)
"""Log levels of libraries, by the number of `--verbose` flags."""


@dataclass(slots=True)
class Manner:
    """Output options of the command line.

    Attributes:
        form: words, or one JSON object a line.
        quiet: whether only what went wrong is told.
        details: 0; 1 to tell of each unit; 2 to tell what libraries log, too.
        as_json: whether the result is for a program, whatever the form of the progress.
    """

    form: LogFormat = LogFormat.TEXT
    quiet: bool = False
    details: int = 0
    as_json: bool = False

    def take(self, form: LogFormat, details: int, *, quiet: bool, as_json: bool = False) -> None:
        """Set these options and configure logging."""
        self.form, self.details, self.quiet = form, details, quiet
        self.as_json = as_json or self.is_json
        if self.is_json:
            from trajmill.app.cli.progress import event

            pass_lines_as(lambda line: event("note", text=line))
        else:
            pass_lines_as(None)
        if details:
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
            logging.getLogger().addHandler(handler)
            logging.getLogger().setLevel(_LEVELS[min(details, len(_LEVELS)) - 1])

    @property
    def is_json(self) -> bool:
        """True if the output is for a program."""
        return self.form is LogFormat.JSON

    def voices(self, log: RunLog) -> list[Voice]:
        """Return the progress reporters of a run."""
        from trajmill.app.cli.progress import JsonLines, Lines, LogFile, Terminal, Units

        console = notices()
        reporters: list[Voice] = [LogFile(log)]
        if self.quiet:
            return reporters
        if self.is_json:
            return [*reporters, JsonLines(console)]
        if self.details:
            reporters.append(Units(console))
        return [*reporters, Terminal(console) if console.is_terminal else Lines(console)]


MANNER: Final = Manner()
"""Options of this process's command. They determine the form of errors, wherever these are raised."""


Form = Annotated[LogFormat, typer.Option("--log-format", help="Words, or one JSON object a line for programs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Tell only what went wrong.")]
Details = Annotated[
    int, typer.Option("--verbose", "-v", count=True, help="Tell of each part; twice: what libraries log.")
]


def tell_end(line: str, code: int) -> None:
    """Print the reason why the command ends, and its exit code."""
    if MANNER.is_json:
        from trajmill.app.cli.progress import event

        notices().print_line(event("error", code=int(code), message=line))
    else:
        notices().print_line(f"trajmill: {line}")


def fail(error: Exception, code: int) -> NoReturn:
    """End the command with an exit code and a message."""
    tell_end(str(error), code)
    raise typer.Exit(code)


_PATIENCE_S: Final = 3.0
"""Seconds that an interrupted run has to clean up; the next run cleans up the rest."""

_LEAVING: Final = threading.Lock()


@contextmanager
def interruptible() -> Iterator[None]:
    """Make SIGINT and SIGTERM raise `Interrupted` in the main thread within the context, and end the process soon
    after.
    """

    def interrupt(number: int, _: object) -> NoReturn:
        for caught in before:
            signal.signal(caught, signal.SIG_IGN)
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
    """Print the final line and end the process at once, without waiting for threads that still work."""
    _LEAVING.acquire()  # never given back: who comes second has nothing more to say
    notices().show_cursor()
    tell_end(ending.line, ending.code)
    os._exit(ending.code)
