"""Random texts that a pattern matches, for tests of every pattern of a table."""

import re._constants as code  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from random import Random
from typing import Any, Final

_PRINTABLE: Final = list(range(33, 127))
_CLASSES: Final = {
    code.CATEGORY_DIGIT: [byte for byte in _PRINTABLE if chr(byte).isdigit()],
    code.CATEGORY_WORD: [byte for byte in _PRINTABLE if chr(byte).isalnum() or byte == ord("_")],
    code.CATEGORY_SPACE: [ord(" ")],
    code.CATEGORY_NOT_SPACE: _PRINTABLE,
    code.CATEGORY_NOT_WORD: [ord(" "), ord("=")],
}


def drawn(pattern: bytes, random: Random, most: int = 100) -> bytes:
    """A text that the pattern matches from its start; what may repeat does so up to `most` times beyond the least."""
    return bytes(_of(parser.parse(pattern), random, most))


def _of(parts: Any, random: Random, most: int) -> list[int]:
    values: list[int] = []
    for name, value in parts:
        if name is code.LITERAL:
            values.append(value)
        elif name is code.NOT_LITERAL:
            values.append(random.choice([byte for byte in _PRINTABLE if byte != value]))
        elif name is code.ANY:
            values.append(random.choice(_PRINTABLE))
        elif name is code.IN:
            values.append(random.choice(_among(value)))
        elif name in {code.MAX_REPEAT, code.MIN_REPEAT}:
            least, limit, inner = value
            for _ in range(random.randint(least, min(limit, least + most))):
                values += _of(inner, random, most)
        elif name is code.SUBPATTERN:
            values += _of(value[3], random, most)
        elif name is code.BRANCH:
            values += _of(random.choice(value[1]), random, most)
        elif name is code.ATOMIC_GROUP:
            values += _of(value, random, most)
    return values


def _among(parts: Any) -> list[int]:
    """The printable characters of a class."""
    members: set[int] = set()
    negated = parts[0][0] is code.NEGATE
    for name, value in parts:
        if name is code.LITERAL:
            members.add(value)
        elif name is code.RANGE:
            members.update(range(value[0], value[1] + 1))
        elif name is code.CATEGORY:
            members.update(_CLASSES[value])
    return sorted(set(_PRINTABLE) - members if negated else members)
