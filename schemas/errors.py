"""Exceptions of trajmill.

    TrajmillError
      ConfigError      the user corrects the recipe or the command line
      ParseError       a log is broken: it becomes a reject, and the run continues
      ContractError    trajmill has a bug: the run ends
      ShardError       a file cannot be read or written: the same work may be tried again

All of them can be pickled, since workers raise them. A message names the value, its place, what is valid there, and
what to do.
"""

from __future__ import annotations


class TrajmillError(Exception):
    """Base of all exceptions of trajmill; never raised itself."""


class ConfigError(TrajmillError):
    """A recipe or a command line is invalid. Raised at launch, before any input is read.

    Args:
        message: the invalid value and what is valid.
        nearest: the closest valid name, if one is close enough for the given one to be a typing error.
    """

    def __init__(self, message: str, nearest: str | None = None) -> None:
        super().__init__(message, nearest)
        self.message = message
        self.nearest = nearest

    def __str__(self) -> str:
        return f"{self.message} Did you mean '{self.nearest}'?" if self.nearest else self.message


class ParseError(TrajmillError):
    """A log, or a record of it, breaks the rules of its format. It becomes a reject, and the run continues.

    Args:
        uri: the input, relative to the folder of raw logs.
        offset: byte offset in the decompressed member where reading failed; -1 for the whole input.
        reason: short snake_case word that rejects are counted by, such as `bad_json`.
        detail: one line for a person to read.
        member: the file, in a log of several files; empty in a log of one file.
        excerpt: bytes around the offset, of which at most 4 KB are kept.
    """

    def __init__(self, uri: str, offset: int, reason: str, detail: str, member: str = "", excerpt: bytes = b"") -> None:
        super().__init__(uri, offset, reason, detail, member, excerpt)
        self.uri = uri
        self.offset = offset
        self.reason = reason
        self.detail = detail
        self.member = member
        self.excerpt = excerpt

    def __str__(self) -> str:
        where = f"{self.uri}#{self.member}" if self.member else self.uri
        return f"{where} at byte {self.offset}: {self.reason}: {self.detail}"


class ContractError(TrajmillError):
    """A bug in trajmill broke an invariant of the schema. It ends the run, since the data would be wrong."""


class ShardError(TrajmillError):
    """A file of the output folder could not be read or written. The same unit of work can safely be tried again."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message; the name of its class if it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0]
