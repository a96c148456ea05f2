"""Times in the notations of logs, converted to microseconds since 1970 UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = (1, 10**3, 10**6, 10**9)
_LONGEST_MS: Final = 10**12
_FIRST, _LAST = 1971, 9998
"""First and last year of a valid time: zeros and the largest numbers of a clock are no times."""


def moment(value: Any) -> datetime | None:
    """Return the time in an ISO 8601 text, without a zone if it names none; None for any other value."""
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return at if _FIRST <= at.year <= _LAST else None


def microseconds(value: Any) -> int | None:
    """Return microseconds since 1970 UTC of a time text with a zone, or of a number of s, ms, µs or ns; otherwise None.

    The size of a number decides its unit: 1e9 to 1e11 are seconds, and so on by thousands.
    """
    at = value if isinstance(value, datetime) else moment(value)
    if at is not None:
        if at.tzinfo is None:
            return None
        since = at - _EPOCH
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    for unit in _UNITS:
        if 10**9 * unit <= value < 10**11 * unit:
            return value * 10**6 // unit if isinstance(value, int) else round(value * 1e6 / unit)
    return None


def seconds_of(milliseconds: Any) -> float | None:
    """Convert a duration in milliseconds to seconds; None for any other value."""
    if type(milliseconds) not in (int, float) or not 0 <= milliseconds < _LONGEST_MS:
        return None
    seconds: float = milliseconds / 1000
    return seconds if isinstance(milliseconds, int) else round(seconds, 9)


def seconds_of_span(began: float | None, ended: float | None) -> float | None:
    """Return the seconds from one time in milliseconds to another; None if one is unknown or they are reversed."""
    return (ended - began) / 1000 if began is not None and ended is not None and ended >= began else None
