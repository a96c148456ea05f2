"""Kinds of secrets and personal data, planted one each into answers of tools with letters that are drawn anew."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from tests.quality.forms import drawn
from tests.quality.planted import from_json, in_json, plain
from trajmill.quality.scrub import scrub_text

_TABLE: Final = Path(__file__).with_suffix(".txt")
_PART: Final = re.compile(r"«([^»]*)»|\\(.)|([^«\\]+)")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "e": "\x1b", "\\": "\\", '"': '"'}
_READABLE: Final = 8
"""Characters of a secret that tell something of it; all of a shorter one."""


@dataclass(frozen=True)
class SecretKind:
    """A kind of secret: its family, its name, and a template of the text that gives it away."""

    family: str
    name: str
    template: str

    def planted(self, random: Random) -> tuple[str, list[str]]:
        """A text with fresh secrets, and the secrets."""
        text, secrets = "", []
        for pattern, escape, literal in _PART.findall(self.template):
            if pattern:
                secrets.append(_drawn(pattern, random))
                text += secrets[-1]
            else:
                text += _ESCAPES[escape] if escape else literal
        return text, secrets

    def left(self, random: Random) -> list[str]:
        """The secrets that stay readable in an answer of a tool, plain or in JSON."""
        text, secrets = self.planted(random)
        scrubbed = (scrub_text(plain(text), "key"), from_json(scrub_text(in_json(text), "key")))
        return [secret for secret in secrets if any(_is_readable(secret, answer) for answer in scrubbed)]


def secret_kinds() -> list[SecretKind]:
    """Every kind of the table."""
    lines = _TABLE.read_text(encoding="utf-8").splitlines()
    return [SecretKind(*line.split("\t", 2)) for line in lines if not line.startswith("#")]


def _drawn(pattern: str, random: Random) -> str:
    if pattern.isascii():
        return drawn(pattern.encode(), random).decode()
    letters = [chr(code) for code in range(ord("а"), ord("я") + 1)]
    return "".join(random.choices(letters, k=int(pattern.rpartition("{")[2][:-1])))


def _is_readable(secret: str, text: str) -> bool:
    return any(window in text for window in _windows(secret))


def _windows(secret: str) -> Iterator[str]:
    size = min(len(secret), _READABLE)
    for start in range(len(secret) - size + 1):
        yield secret[start : start + size]
