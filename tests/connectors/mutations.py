"""Logs that a hostile or future writer may leave: a value of another type, or bytes cut, put in or left out."""

import json
import sys
from collections.abc import Iterator
from typing import Any, Final

from hypothesis import strategies as st

Path = tuple[str | int, ...]


def nested(depth: int) -> list[Any]:
    """Arrays within each other."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


STRANGERS: Final[tuple[Any, ...]] = (
    None, True, 0, -1, 2**31, 10**25, 1.5, 1e308, "", "x", "\0", "\ud800", "99999-99-99T99:99:99Z", "9" * 5000, [],
    [None], ["x"], [[]], [{}], {}, {"": None}, {"x": {"x": "x"}}, nested(900), {"x": nested(900)},
)  # fmt: skip
"""What takes the place of a value: every JSON type, and the extremes of each."""


SIGNS: Final = (b",", b"}", b"]", b"{", b'"', b"\\", b"x", b":", b"\xff", b" ", b"0")
"""Bytes that, put anywhere, may or may not leave JSON."""


def documents(data: bytes) -> list[Any] | None:
    """The JSON values of a member: of one document or of its lines (those that are JSON); None if it holds none."""
    try:
        return [json.loads(data)]
    except (ValueError, RecursionError):
        values = []
    for line in data.splitlines():
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    return values if any(isinstance(value, dict | list) for value in values) else None


def written(values: list[Any]) -> bytes:
    """The values as one document or as JSON Lines, lone surrogates as escapes, however deep they are nested."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(usual + 9000)
    try:
        return b"\n".join(json.dumps(value).encode() for value in values) + b"\n"
    finally:
        sys.setrecursionlimit(usual)


def places(value: Any, at: Path = ()) -> Iterator[Path]:
    """The path of every value below `value`, itself included."""
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*at, key))


def replaced(value: Any, at: Path, stranger: Any) -> Any:
    """`value` with `stranger` at the path; what is not on the path is shared."""
    if not at:
        return stranger
    copy = value.copy()
    copy[at[0]] = replaced(value[at[0]], at[1:], stranger)
    return copy


def damaged(data: bytes, draw: st.DataObject, times: int, taken: int) -> bytes:
    """`data` with a place or several at which it is cut, a character is put in, or up to `taken` bytes are left out."""
    log = bytearray(data)
    for _ in range(draw.draw(st.integers(1, times))):
        position = draw.draw(st.integers(0, len(log)))
        kind = draw.draw(st.sampled_from(["cut", "put", "take"]))
        if kind == "cut":
            del log[position:]
        elif kind == "take":
            del log[position : position + draw.draw(st.integers(1, taken))]
        else:
            log[position:position] = draw.draw(st.sampled_from(SIGNS))
    return bytes(log)
