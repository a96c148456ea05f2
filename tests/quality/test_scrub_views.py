"""Secrets that are broken or encoded: colours, the terminal's width, wraps, escapes, references, hexadecimal."""

import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote, unquote

import pytest

from tests.conftest import FUZZ
from tests.quality.planted import FILLER, plants
from tests.quality.test_scrub import batch_of, shown, trajectory
from trajmill.quality.scrub import KINDS, Kind, scrub, scrub_text

EACH = 12
"""Plants of each kind."""

TURNS = 4 if FUZZ == 1 else 1
"""Each way of breaking takes every so many of the plants, the next way others; all take all in `make fuzz`."""

COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
Broken = Callable[[str, str], str]
Read = Callable[[str], str]


def coloured(text: str, secret: str) -> str:
    """As `grep --color` shows a match in the middle of the secret."""
    middle = text.index(secret) + len(secret) // 2
    return f"{text[:middle]}\x1b[01;31m\x1b[K{text[middle : middle + 3]}\x1b[m\x1b[K{text[middle + 3 :]}"


def uncoloured(text: str) -> str:
    return COLOUR.sub("", text)


def wrapped(width: int, indent: str = "", mark: str = "") -> Broken:
    """As lines of that many columns, the first of which ends in the middle of the secret."""

    def broken(text: str, secret: str) -> str:
        lines = []
        for line in text.split("\n"):
            offset = line.find(secret)
            if offset >= 0:
                size = width - len(mark)
                filled = "x" * ((size - 1 - offset - len(secret) // 2) % size) + " " + line
                first, rest = filled[:size], filled[size:]
                step = size - len(indent)
                more = [indent + rest[number : number + step] for number in range(0, len(rest), step)]
                lines += [part + mark for part in (first, *more[:-1])] + more[-1:]
            else:
                lines.append(line)
        return FILLER + "\n".join(lines) + "\n" + FILLER

    return broken


def unwrapped(indent: str = "", mark: str = "") -> Read:
    return lambda text: text.replace(f"{mark}\n{indent}", "")


def each(written: Callable[[str], str], every: int = 1) -> Broken:
    """The secret with every so many characters written in another way."""
    return lambda text, secret: text.replace(
        secret, "".join(written(char) if number % every == 0 else char for number, char in enumerate(secret))
    )


def _unescaped(text: str) -> str:
    return re.sub(r"\\(?:u00|x)([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), text)


ENCODED: dict[str, tuple[Broken, Read]] = {
    "grep": (coloured, uncoloured),
    "grep in json": (lambda t, s: json.dumps({"o": coloured(t, s)}), lambda t: uncoloured(json.loads(t)["o"])),
    "unicode escapes": (each(lambda char: f"\\u{ord(char):04x}"), _unescaped),
    "some unicode escapes": (each(lambda char: f"\\u{ord(char):04x}", 5), _unescaped),
    "hexadecimal escapes": (each(lambda char: f"\\x{ord(char):02x}"), _unescaped),
    "html": (lambda t, _: html.escape(t).replace("-", "&#45;").replace("_", "&#x5f;"), html.unescape),
    "all in references": (lambda t, _: "".join(f"&#{ord(char)};" for char in t), html.unescape),
    "percent": (lambda t, _: quote(t, safe=""), unquote),
    "all in percent": (lambda t, _: "".join(f"%{byte:02X}" for byte in t.encode()), unquote),
    "some in percent": (each(lambda char: f"%{ord(char):02x}", 4), unquote),
    "query": (lambda t, _: f"https://x.io/r?next={quote(t)}&a=1", unquote),
    "hexadecimal": (lambda t, _: f"$ xxd -p\n{t.encode().hex()}\n", lambda t: bytes.fromhex(t[9:-1]).decode()),
}
WRAPPED: dict[str, tuple[Broken, Read]] = {
    "a terminal of 80": (wrapped(80), unwrapped()),
    "a terminal of 93": (wrapped(93), unwrapped()),
    "a wrap at 76 with an indent": (wrapped(76, "    "), unwrapped("    ")),
    "a backslash": (wrapped(72, "", "\\"), unwrapped("", "\\")),
    "quoted-printable": (wrapped(76, "", "="), unwrapped("", "=")),
}
BY_FORM: tuple[Kind, ...] = ("jwt", "token", "cloud_key", "url_password", "header")


@pytest.mark.parametrize("way", ENCODED)
@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_that_is_cut_by_colours_or_encoded_is_found(kind: Kind, way: str) -> None:
    if kind == "phone" and way.startswith("grep"):
        pytest.skip("a number that is cut between its groups is not looked for")
    _check(kind, way, ENCODED)


@pytest.mark.parametrize("way", WRAPPED)
@pytest.mark.parametrize("kind", BY_FORM)
def test_a_secret_that_goes_on_in_the_next_line_is_found(kind: Kind, way: str) -> None:
    _check(kind, way, WRAPPED)


def _check(kind: Kind, way: str, ways: dict[str, tuple[Broken, Read]]) -> None:
    broken, read = ways[way]
    for plant in plants(kind, EACH, seed=4)[list(ways).index(way) % TURNS :: TURNS]:
        secret = plant.secrets[0]
        text = broken(plant.text, secret)
        if secret not in read(text):  # quoted-printable that ends in `=` is not read back so simply
            continue
        scrubbed = scrub_text(text, "key")
        assert secret not in read(scrubbed), text
        assert len(scrubbed.encode()) == len(text.encode())
        assert scrub_text(scrubbed, "another") == scrubbed


@pytest.mark.parametrize("way", ["grep", "unicode escapes", "some in percent", "a terminal of 80", "a backslash"])
def test_what_is_broken_becomes_what_it_becomes_whole_and_nothing_around_it_changes(way: str) -> None:
    broken, read = {**ENCODED, **WRAPPED}[way]
    token = "ghp_" + "a1B2c3" * 6
    text = broken(f"token is {token} now", token)
    scrubbed = scrub_text(f"{token}\n{text}", "key")
    whole, _, rest = scrubbed.partition("\n")
    assert whole != token
    assert read(rest) == read(text).replace(token, whole)
    if way == "grep":
        assert COLOUR.findall(rest) == COLOUR.findall(text)


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[01;31m\x1b[Kpassword\x1b[m\x1b[K=hunter2hunter2",
        '\x1b[34;1m"password"\x1b[0m\x1b[1;39m:\x1b[0m \x1b[0;32m"hunter2hunter2"\x1b[0m',
        "%7B%22password%22%3A%22hunter2hunter2%22%7D",
        "&quot;password&quot;: &quot;hunter2hunter2&quot;",
        "\\u0022password\\u0022:\\u0022hunter2hunter2\\u0022",
    ],
)
def test_a_name_that_announces_a_secret_does_so_through_colours_and_escapes(text: str) -> None:
    scrubbed = scrub_text(text)
    assert "hunter2" not in scrubbed
    assert len(scrubbed) == len(text)
    assert scrub_text(scrubbed) == scrubbed


def test_a_learned_secret_is_hidden_where_it_is_cut_or_encoded() -> None:
    secret = "tr0ub4dor7staple"
    texts = [
        "$",
        f"DB_PASSWORD={secret}",
        "the \x1b[31mtr0ub4\x1b[mdor7staple is red",
        "and %74r0ub4dor7staple",
        "and tr0ub4dor7stapl&#101;",
        "xx " * 20 + "and the key is tr0u" + "\n" + "b4dor7staple ends",
    ]
    scrubbed, counts = scrub(batch_of(trajectory("a", texts)))
    lines = shown(scrubbed)
    fresh = lines[0].partition("=")[2]
    assert uncoloured(lines[1]) == f"the {fresh} is red"
    assert unquote(lines[2]) == f"and {fresh}"
    assert html.unescape(lines[3]) == f"and {fresh}"
    assert lines[4].replace("\n", "").endswith(f"{fresh} ends")
    assert counts.to_pylist() == [1, 2, 2, 2, 2]


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumps over the lazy dog, and then sleeps for 12 hours in the\nsun, where it is warm.",
        "export A=" + "value1" * 12 + "\nexport B=2\n",
        "SECRETLESS=" + "abc123" * 11 + "\nDB_HOST=db.internal\nDB_PORT=5432\n",
        "0.1234 5.6789 10.11\n" * 20,
        "sha256:" + "0123456789abcdef" * 4 + "\nsha256:" + "fedcba9876543210" * 4 + "\n",
        "https://example.com/" + "a/b1/" * 12 + "\nhttps://example.com/" + "c/d2/" * 12 + "\n",
        "\x1b[32m.\x1b[0m\x1b[32m.\x1b[0m\x1b[1m PASSED\x1b[0m \x1b[01;34mbin\x1b[0m  \x1b[01;34mboot\x1b[0m",
        "q=how%20to%20print%20%22hello%22&hl=en&safe=%2Fx%2Fy",
        "&lt;div class=&quot;a-b&quot;&gt;&amp;nbsp;3.14159&lt;/div&gt;",
        "\\u003cp\\u003eHello \\u0026 goodbye\\u003c/p\\u003e",
        "digest 68656c6c6f20776f726c642c2074686973206973207465787420616e64206e6f207365637265742e",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ],
)
def test_ordinary_text_with_wraps_and_escapes_stays(text: str) -> None:
    assert scrub_text(text) == text


def test_a_complete_token_at_the_end_of_a_full_line_does_not_swallow_the_next_word() -> None:
    token = "ghp_" + "a1B2c3" * 6
    text = f"{'x' * 39} {token}\nand so on"
    scrubbed = scrub_text(text)
    assert len(text.splitlines()[0]) == 80
    assert token not in scrubbed
    assert scrubbed.endswith("\nand so on")


NUMBERED: dict[str, Callable[[int, str], str]] = {
    "cat -n": lambda n, line: f"{n:6}\t{line}",
    "an agent's reader": lambda n, line: f"{n:6}→{line}",
    "a colon": lambda n, line: f"{n}: {line}",
    "grep -n": lambda n, line: f"/k/x.pem:{n}:{line}",
    "context of grep": lambda n, line: f"{n}-{line}",
    "a table": lambda n, line: f"| {n} | {line} |",
    "a frame": lambda n, line: f"│ {n:3} │ {line} │",
    "bat": lambda n, line: f"\x1b[38;5;246m{n:4}\x1b[0m \x1b[32m{line}\x1b[0m",
    "an added line": lambda n, line: f"+{line}",
    "a removed line": lambda n, line: f"-{line}",
    "a quotation": lambda n, line: f"> {line}",
    "a comment": lambda n, line: f"# {line}",
}


@pytest.mark.parametrize("way", NUMBERED)
@pytest.mark.parametrize("in_json", [False, True])
@pytest.mark.parametrize("complete", [False, True])
def test_a_private_key_is_scrubbed_behind_numbers_and_signs_which_stay(way: str, in_json: bool, complete: bool) -> None:
    for plant in plants("private_key", 3, seed=3):
        lines = plant.text.split("\n") if complete else plant.text.split("\n")[:-2]
        text = "\n".join(NUMBERED[way](number + 8, line) for number, line in enumerate(lines))
        scrubbed = scrub_text(json.dumps({"o": text}) if in_json else text)
        scrubbed = json.loads(scrubbed)["o"] if in_json else scrubbed
        for number, (line, fresh) in enumerate(zip(lines, scrubbed.split("\n"), strict=True)):
            before, after = NUMBERED[way](number + 8, "\0").split("\0")
            assert fresh.startswith(before)
            assert fresh.endswith(after)
            assert (line in fresh) == (line not in plant.secrets)


@pytest.mark.parametrize("size", [8, 15, 17, 18, 30])
@pytest.mark.parametrize("before", ["", "a ", "ab "])
@pytest.mark.parametrize("wrap", [0, 64, 76])
def test_a_base64_body_with_a_learned_short_secret_keeps_no_other(size: int, before: str, wrap: int) -> None:
    import base64

    learned = "hunt3r2xPl4nkt0nQ9z7Tr0ub4dor8"[:size]
    token = "ghp_" + "a1B2c3" * 6
    body = base64.b64encode(f"{before}{learned} {token} carol@corp.io\npassword={learned}".encode()).decode()
    if wrap:
        body = "\n".join(body[number : number + wrap] for number in range(0, len(body), wrap))
    text = f"password='{learned}'\n$ base64 x\n{body}\n$ "
    scrubbed = scrub_text(text)
    fresh = scrubbed.split("'")[1]
    inner = base64.b64decode(scrubbed.partition("x\n")[2].removesuffix("\n$ ").replace("\n", "")).decode()
    assert learned not in scrubbed
    for left in (learned, token, "carol"):
        assert left not in inner
    assert inner.startswith(before + fresh)
    assert inner.endswith(fresh)
    assert scrub_text(scrubbed, "another") == scrubbed
