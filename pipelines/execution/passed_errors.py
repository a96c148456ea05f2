"""Errors that come up under a runner, as they were: Beam hands on another exception, or only a text.

In our own process Beam raises a copy with more words, behind which the original stands. From a worker process a text
comes: `pipelines.beam_worker` puts the error into it (`told`), and `original` takes it out. Of other runners' texts the
last line that names one of our errors, or one of the system, is what is left.
"""

from __future__ import annotations

import builtins
import json
import re
import traceback
from typing import Final

from trajmill.schemas import errors

_MARK: Final = "trajmill error: "
_STEP: Final = re.compile(r" \[while running '[^']*'\]")
_NAMED: Final = re.compile(r"^(?:RuntimeError: )*(?:schemas\.errors\.)(\w+Error): (.*)$", re.MULTILINE)
_SYSTEM: Final = re.compile(r"^(?:RuntimeError: )*(?:OSError|\w+Error): \[Errno (\d+)\] (.*)$", re.MULTILINE)


def told(error: BaseException) -> str:
    """The error as text that `original` understands: its traceback, and a line of JSON with class, arguments, notes."""
    met = _unwrapped(error)
    kind = type(met)
    arguments = [one if isinstance(one, str | int | float | None) else repr(one) for one in met.args]
    values = {
        "module": kind.__module__,
        "name": kind.__qualname__,
        "arguments": arguments,
        "file": str(getattr(met, "filename", None) or ""),
        "notes": [str(note) for note in getattr(met, "__notes__", ())],
        "trace": "".join(traceback.format_exception(met)),
    }
    return f"{values['trace']}\n{_MARK}{json.dumps(values)}\n"


def original(error: BaseException) -> BaseException:
    """The error that a runner's own exception stands for; that itself, if it stands for none that is known.

    One from another process has the traceback of there as a note, and is a RuntimeError if its class is neither ours
    nor one of Python's own.
    """
    met = _unwrapped(error)
    if type(met) is not RuntimeError:
        return met
    text = str(met)
    for line in reversed(text.splitlines()):
        if line.startswith(_MARK):
            return _rebuilt(line.removeprefix(_MARK))
    return _named_in(text) or met


def _unwrapped(error: BaseException) -> BaseException:
    """What stands behind the copies that Beam makes to say which step was running."""
    while getattr(error, "_tagged_with_step", False) and error.__context__ is not None:
        error = error.__context__
    return error


def _rebuilt(line: str) -> BaseException:
    values = json.loads(line)
    kind = {"builtins": builtins, "trajmill.schemas.errors": errors}.get(values["module"])
    found = getattr(kind, values["name"], None)
    arguments = values["arguments"] + ([values["file"]] if values["file"] and len(values["arguments"]) == 2 else [])
    made: BaseException | None = None
    if isinstance(found, type) and issubclass(found, Exception):
        try:
            made = found(*arguments)
        except TypeError:
            made = None
    if made is None:
        made = RuntimeError(f"{values['name']}: {', '.join(map(str, values['arguments']))}")
    for note in values["notes"]:
        made.add_note(note)
    made.add_note(f"in a worker process:\n{values['trace']}")
    return made


def _named_in(text: str) -> BaseException | None:
    """The error that the text of a foreign runner names last, without the runner's words about its step."""
    plain = _STEP.sub("", text)
    named = [one for one in _NAMED.finditer(plain) if one[1] in ("ConfigError", "ContractError", "ShardError")]
    if named:
        made: BaseException = getattr(errors, named[-1][1])(named[-1][2])
    else:
        of_system = list(_SYSTEM.finditer(plain))
        if not of_system:
            return None
        made = OSError(int(of_system[-1][1]), of_system[-1][2])
    made.add_note(f"as the runner told it:\n{text}")
    return made
