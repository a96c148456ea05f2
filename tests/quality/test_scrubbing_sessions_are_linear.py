"""What a hostile log repeats costs its length: secrets, suspects, bodies, escapes, wraps, long lines."""

from base64 import b64encode
from collections.abc import Callable
from time import process_time
from typing import Final

import pytest

from tests.conftest import FUZZ
from tests.quality.test_scrub import batch_of, trajectory
from trajmill.quality.scrub import scrub, scrub_name

SMALL: Final = 8_000
TRIES: Final = 5
TIMES: Final = 4
NOISE: Final = 0.03
"""CPU seconds that say nothing."""


def _token(number: int) -> str:
    return f"ghp_{number:036d}"


def _password(number: int) -> str:
    return f"pa55w0rd{number * 7919:08d}x"


def _in_base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def _references(text: str) -> str:
    return "".join(f"&#{ord(char)};" for char in text)


def _each(written: Callable[[int], str]) -> Callable[[int], str]:
    """A text of about so many bytes, of what is written for 0, 1, 2 and so on."""
    return lambda size: "".join(map(written, range(size // len(written(1)))))


def _same(part: str, before: str = "", after: str = "") -> Callable[[int], str]:
    return lambda size: before + part * (size // len(part)) + after


HOSTILE: Final[dict[str, Callable[[int], str]]] = {
    "learned secrets": _each(lambda n: f"password='{_password(n)}'\n"),
    "learned secrets that begin alike": _each(lambda n: f"password='pa55w0rdpa55w0rd{n:06d}'\n"),
    "learned secrets of many lengths": _each(lambda n: f"password='a1b2c3d4{'e5' * (n % 90)}'\n"),
    "learned secrets shown again": _each(lambda n: f"password='{_password(n)}' and {_password(n)}\n"),
    "learned secrets in bodies": _each(lambda n: f"password='{_password(n)}'\n{_in_base64(_password(n) + ' is it')}\n"),
    "short learned secrets in bodies": _each(lambda n: f"password='h{n:07d}x'\n{_in_base64(f'h{n:07d}x')}\n"),
    "one secret in one line": _same(f"x{_password(1)}y ", f"password='{_password(1)}' "),
    "suspects in a suspect": _same("password=a1", "password='", "'"),
    "suspects that overlap finds": _same("a=uid=1000(carol", "Cookie: "),
    "cookies": _each(lambda n: f"; a{n}=b{n:08d}cdef"),
    "bodies": _each(lambda n: f"{_in_base64('token ' + _token(n))}\n"),
    "bodies in bodies": lambda size: _in_base64(_in_base64(_each(lambda n: _token(n) + " ")(size // 2))),
    "hexadecimal bodies": _each(lambda n: f"password='{_password(n)}'".encode().hex() + "\n"),
    "hexadecimal lines": _same("68" * 30 + "\n"),
    "one hexadecimal line": _same("68"),
    "tokens cut by colours": _each(lambda n: f"gh\x1b[mp_{n:036d} "),
    "colours": _same("a\x1b[m"),
    "unfinished sequences": _same("\x1b["),
    "a sequence without end": _same("1;", "\x1b["),
    "titles": _same("a\x1b]0;x"),
    "titles without end": _same("\x1b]" + "a" * 500),
    "percent": _same("%41"),
    "announced in percent": _same("password%3D"),
    "unicode escapes": _same("\\u0041"),
    "backslashes": _same("\\"),
    "references": _same("&#65;"),
    "tokens in references": _each(lambda n: _references(_token(n)) + " "),
    "ampersands": _same("&"),
    "full lines": _same("a1" * 40 + "\n"),
    "full lines of one value": _same("a1" * 40 + "\n", "password='"),
    "wrapped tokens": _each(lambda n: f"{'x' * 60} {_token(n)[:19]}\n{_token(n)[19:]} and so on\n"),
    "lines that say they go on": _same("abcdefgh12345678\\\n"),
    "beginnings of keys": _same("-----BEGIN PRIVATE KEY-----\n"),
    "keys": _same("-----BEGIN PRIVATE KEY-----\n" + ("a1" * 32 + "\n") * 4 + "-----END PRIVATE KEY-----\n"),
    "numbers of lines of a key": _same("12: ", "-----BEGIN PRIVATE KEY-----\n"),
    "bars of a key": _same("/", "-----BEGIN PRIVATE KEY-----\n"),
    "homes": _each(lambda n: f"/home/carol{n}/x "),
    "short names": _each(lambda n: f"/home/c{n}x/x c{n}x\n"),
    "prompts": _each(lambda n: f"carol{n}@host{n}:~$ ls\n"),
    "addresses": _each(lambda n: f"carol{n}@corp{n}.io "),
    "web tokens": _each(lambda n: f"eyJhbGciOiJIUzI1NiJ9.eyJhbGciOiJIUzI1NiJ9.{n:043d} "),
}


pytestmark = pytest.mark.skipif(FUZZ == 1, reason="make fuzz compares times")


def _seconds(work: Callable[[], object]) -> float:
    began = process_time()
    work()
    return process_time() - began


def _assert_linear(work: Callable[[int], object], size: int) -> None:
    """Four times as much takes four times as long: 16 times were a square's, and half of that is told from noise."""
    work(size // 4)
    measured = []
    for _ in range(TRIES):  # a machine that is busy with others makes one of the two slow, seldom each time
        small = _seconds(lambda: work(size))
        large = _seconds(lambda: work(size * TIMES))
        if large < 2 * TIMES * small + NOISE:
            return
        measured.append(f"{small:.3f} s, then {large:.3f} s")
    pytest.fail(f"not linear in any of {TRIES} tries: {measured}")


@pytest.mark.parametrize("what", ["learned secrets", "short names", "tokens cut by colours", "hexadecimal bodies"])
def test_a_trajectory_of_many_texts_is_scrubbed_in_linear_time(what: str) -> None:
    lines = HOSTILE[what](SMALL * TIMES).splitlines() or [HOSTILE[what](SMALL * TIMES)]
    parts = {count: batch_of(trajectory("a", ["$", *lines[:count]])) for count in (20, 80, 320)}
    _assert_linear(lambda count: scrub(parts[count]), 80)


def test_a_long_path_is_named_in_linear_time() -> None:
    _assert_linear(lambda size: scrub_name("/home/carol/" * (size // 12) + "-Users-dave-x/" * (size // 14)), 4_000)
