"""Text that varies and costs little to make: words with Zipf-like frequencies, and lines that programs might print.

It means nothing and is made for measuring speed only. The same key gives the same text, on every machine.

A block of text is written in one of `SCRIPTS`, as often as real logs are: a string is held with as many bytes a
character as its widest one needs, so the widths decide much of what reading costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, Final, TypeVar

import numpy as np

from samples.writing.chance import seeded

T = TypeVar("T")

SLOTS: Final = 1 << 16
VOCABULARY: Final = 20_000
DRAWN_AT_ONCE: Final = 2048
WORD_LENGTH: Final = 7
"""Of a word and a space, about."""

_ONSETS: Final = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "ch", "sh", "tr", "pl")
_SYLLABLES: Final = tuple(a + b for a, b in product(_ONSETS, ("a", "e", "i", "o", "u", "ai", "ou")))
_ENDINGS: Final = ("", "n", "r", "s", "t", "l", "m", "ng", "st")
SCRIPTS: Final[dict[str, tuple[float, tuple[str, ...]]]] = {
    "ascii": (0.875, ()),
    "latin": (0.013, ("Über", "naïve", "café", "ñandú")),
    "wide": (0.107, ("日本", "語彙", "Żółw", "Ελλάς", "→", "✓", "…")),
    "emoji": (0.005, ("→", "✓", "…", "日本", "😀", "🚀")),
}
"""Script → its share of text, and words that it has beyond the common ones.

The shares are those of characters in strings of 200 and more, by the widest character of the string, of 19 MB of real
logs of 15 formats (terminal, SWE, search, MCP, web).
"""

_RANK: Final = 10
"""Of a script's own words among all, so that a block of some hundred characters holds one."""

_FILE_ENDINGS: Final = ("py", "txt", "md", "json", "c", "h", "rs", "toml", "csv", "sh", "yaml", "log")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATES: Final = tuple(f"{_MONTHS[n % 12]} {1 + n % 28:2} {n * 7 % 24:02}:{n * 11 % 60:02}" for n in range(12 * 28 * 24))
_STAMPS: Final = tuple(f"2026-03-{1 + n % 28:02} {n * 5 % 24:02}:{n * 11 % 60:02}" for n in range(28 * 24 * 60))
_SECONDS: Final = tuple(f":{n // 1000:02}.{n % 1000:03}" for n in range(0, 60_000, 7))
_SENDERS: Final = tuple(
    f"{level} [worker-{n}]" for level in ("INFO ", "INFO ", "DEBUG", "WARN ", "ERROR") for n in range(64)
)
_LOADS: Final = tuple(f"{n % 97:5}.{n % 10} {n * 7 % 31:4}.{n % 7}" for n in range(4096))
_RESULTS: Final = tuple(f"{'FAILED' if n % 9 == 0 else 'PASSED'} [{n:3}%]" for n in range(101))


@lru_cache(maxsize=8)
def slots(seed: int, script: str) -> Any:
    """A script's words laid out over `SLOTS` places (numpy array of str): each on one or more, the first on most."""
    rng = seeded("vocabulary", seed)
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        stem = "".join(rng.choices(_SYLLABLES, k=rng.choice((1, 1, 2, 2, 2, 3))))
        words[stem + rng.choice(_ENDINGS)] = None
    names = list(words)
    names[_RANK:_RANK] = SCRIPTS[script][1]
    weight = np.cumsum(1.0 / (np.arange(len(names)) + 3.0))
    ends = np.rint(weight / weight[-1] * (SLOTS - len(names))).astype(np.int64)
    counts = 1 + np.diff(ends, prepend=0)
    return np.repeat(np.array(names, dtype=object), counts)


@lru_cache(maxsize=8)
def runs(seed: int, script: str) -> Any:
    """As many runs of three words as there are slots: text is made of them faster than of single words."""
    drawn = slots(seed, script)[np.random.Generator(np.random.PCG64(seed)).integers(0, SLOTS, 3 * SLOTS)].tolist()
    return np.array([" ".join(three) for three in zip(*[iter(drawn)] * 3, strict=True)], dtype=object)


class Source:
    """Words and phrases of one script.

    Args:
        seed: chooses the vocabulary.
        script: one of `SCRIPTS`.
        draws: of the log.
    """

    def __init__(self, seed: int, script: str, draws: np.random.Generator) -> None:
        self._slots, self._runs, self._draws = slots(seed, script), runs(seed, script), draws
        self._drawn: list[str] = []
        self._stream, self._at = "", 0

    def words(self, count: int) -> list[str]:
        """That many words, at most `DRAWN_AT_ONCE`."""
        if len(self._drawn) < count:
            self._drawn = self._draw(self._slots)
        taken = self._drawn[-count:]
        del self._drawn[-count:]
        return taken

    def phrase(self, count: int) -> str:
        """About so many words in a row: it is cut from a longer text, which is quicker than to join it."""
        end = self._at + WORD_LENGTH * count - WORD_LENGTH // 2
        if end + 100 > len(self._stream):
            end -= self._at
            self._stream, self._at = " ".join(self._draw(self._runs)), 0
        end = self._stream.find(" ", end)
        phrase = self._stream[self._at : end]
        self._at = end + 1
        return phrase

    def _draw(self, table: Any) -> list[str]:
        drawn: list[str] = table[self._draws.integers(0, SLOTS, DRAWN_AT_ONCE)].tolist()
        return drawn


class Text:
    """A source of text for one log.

    Args:
        seed: chooses the vocabulary.
        key: chooses the text, such as the log's place in the corpus.
    """

    def __init__(self, seed: int, key: str) -> None:
        self.random = seeded(seed, key)
        self._seed = seed
        self._draws = np.random.Generator(np.random.PCG64(self.random.getrandbits(64)))
        self._sources: dict[str, Source] = {}
        self._plain = self._source = self._written_in("ascii")

    def words(self, count: int) -> list[str]:
        """That many words, at most `DRAWN_AT_ONCE`."""
        return self._source.words(count)

    def name(self) -> str:
        """A word that can stand in an identifier."""
        return self._plain.words(1)[0]

    def phrase(self, least: int, most: int) -> str:
        """Words in a row, about so many."""
        return self._source.phrase(least + int(self.random.random() * (most - least + 1)))

    def change_script(self) -> None:
        """Draw the script of the text that follows by its share."""
        shares = [share for share, _ in SCRIPTS.values()]
        self._source = self._written_in(self.random.choices(list(SCRIPTS), shares)[0])

    def _written_in(self, script: str) -> Source:
        source = self._sources.get(script)
        if source is None:
            source = self._sources[script] = Source(self._seed, script, self._draws)
        return source

    def below(self, bound: int) -> int:
        """A whole number from 0 to bound - 1."""
        return int(self.random.random() * bound)

    def pick(self, of: Sequence[T]) -> T:
        return of[int(self.random.random() * len(of))]

    def hex(self, digits: int) -> str:
        return f"{self.random.getrandbits(4 * digits):0{digits}x}"

    def uuid(self) -> str:
        digits = self.hex(32)
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"

    def path(self) -> str:
        return f"{self.phrase(1, 3).replace(' ', '/')}.{self.pick(_FILE_ENDINGS)}"

    def block(self, size: int) -> str:
        """At least that many characters of one kind of output in one script, whole lines."""
        before = self._source
        self.change_script()
        line = self.pick(KINDS)
        lines: list[str] = []
        while size > 0:
            lines.append(line(self))
            size -= len(lines[-1]) + 1
        self._source = before
        return "\n".join(lines)


def prose(text: Text) -> str:
    return text.phrase(8, 18).capitalize() + "."


def listing(text: Text) -> str:
    """A line as of `ls -l`."""
    name = text.phrase(1, 3).replace(" ", "_")
    size = text.below(900_000)
    return f"-rw-r--r-- 1 dev dev {size:8} {text.pick(_DATES)} {name}.{text.pick(_FILE_ENDINGS)}"


def match(text: Text) -> str:
    """A line as of `grep -rn`."""
    return f"{text.path()}:{text.below(900) + 1}:{text.phrase(4, 10)}"


def test(text: Text) -> str:
    """A line as of `pytest -v`."""
    module, case = text.name(), text.phrase(2, 6).replace(" ", "_")
    return f"tests/test_{module}.py::test_{case} {text.pick(_RESULTS)}"


def code(text: Text) -> str:
    """A line of code, indented by chance."""
    a, b, c, d = text.words(4)
    shape = text.below(6)
    indent = " " * 4 * text.below(4)
    if shape == 0:
        return f"{indent}def {a}_{b}({c}, {d}=None):"
    if shape == 1:
        return f'{indent}{a} = {b}["{c}"] + {text.below(10_000)}  # {d}'
    if shape == 2:
        return f"{indent}if {a}.{b} > {text.below(100)} and not {c}({d}):"
    if shape == 3:
        return f"{indent}return {a}_{b}({c}, {d}={text.below(1000)})"
    if shape == 4:
        return f"{indent}for {a}, {b} in {c}.items():"
    return f'{indent}{a}.{b}(f"{c}: {{{d}}}", {text.below(100)})'


def commit(text: Text) -> str:
    """A line as of `git log --oneline`."""
    return f"{text.random.getrandbits(28):07x} {text.phrase(4, 9)}"


def service(text: Text) -> str:
    """A line of a service's log."""
    return f"{text.pick(_STAMPS)}{text.pick(_SECONDS)} {text.pick(_SENDERS)} {text.phrase(6, 12)}"


def record(text: Text) -> str:
    """A line of JSON."""
    a, b, c, d = text.words(4)
    return f'{{"id": {text.below(10_000_000)}, "{a}": "{b} {c}", "score": {text.random.random():.4f}, "{d}": null}}'


def process(text: Text) -> str:
    """A line as of `ps aux`."""
    number = text.below(60_000)
    return f"dev {number:7} {text.pick(_LOADS)} {number * 37:8} ? Ssl {text.path()} --{text.phrase(3, 8)}"


KINDS: Final[tuple[Callable[[Text], str], ...]] = (
    prose,
    prose,
    listing,
    match,
    test,
    code,
    code,
    commit,
    service,
    record,
    process,
)
