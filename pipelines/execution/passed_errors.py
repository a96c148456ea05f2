"""Errors that come up under a runner of Beam, which raises another exception, or tells only a text.

In this process Beam raises a copy with more words, behind which the original stands. Of an engine's text the last line
that names one of our errors, or one of the system, is what is left.
"""

from __future__ import annotations

import re
from typing import Final

from trajmill.schemas import errors

_STEP: Final = re.compile(r" \[while running '[^']*'\]")
_NAMED: Final = re.compile(
    r"^(?:RuntimeError: )*trajmill\.schemas\.errors\.((?:Config|Contract|Shard)Error): (.*)$", re.MULTILINE
)
_SYSTEM: Final = re.compile(r"^(?:RuntimeError: )*(?:OSError|\w+Error): \[Errno (\d+)\] (.*)$", re.MULTILINE)


def original(error: BaseException) -> BaseException:
    """Return the error that a runner's exception stands for; that itself, if it stands for none that is known."""
    copied = error
    while copied.__context__ is not None and _STEP.search(str(copied)):
        copied = copied.__context__
    if type(copied) is not RuntimeError:
        return copied
    return _named_in(str(copied)) or copied


def _named_in(text: str) -> BaseException | None:
    """The error that the text of an engine names last, without its words about the step."""
    plain = _STEP.sub("", text)
    made: BaseException
    if named := _NAMED.findall(plain):
        kind, told = named[-1]
        made = getattr(errors, kind)(told)
    elif of_system := _SYSTEM.findall(plain):
        number, told = of_system[-1]
        made = OSError(int(number), told)
    else:
        return None
    made.add_note(f"as the runner told it:\n{text}")
    return made
