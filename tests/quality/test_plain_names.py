"""Names told where the scan stands are those that the finders tell, wherever a text begins and ends."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from trajmill.quality.scrubbing.detection import Detection
from trajmill.quality.scrubbing.kinds import Kind, Span

WANTED: tuple[Kind, ...] = ("host", "home")
WORDS = [
    "carol",
    "root",
    "dev",
    "jane.doe",
    "thinkpad",
    "box",
    "localhost",
    "4f2a9c1b77de",
    "devbox-2",
    "10.1.2.3",
    "@",
    ":",
    "~",
    "/",
    "~/src",
    "/home/",
    "/Users/",
]
MARKS = (
    " ",
    "\n",
    "$ ",
    "# ",
    "=",
    "'",
    '"',
    ".",
    "-",
    "_",
    "x",
    "\x1b[32m",
    "\x1b[0m",
    "\\n",
    "%20",
    "ssh ",
    "GET ",
    "ä",
)
PIECES = st.sampled_from((*WORDS, *MARKS, "(venv) ", ":~$ ", "carol@thinkpad:~/x$ ls", "/home/carol/x"))
TEXTS = st.lists(st.lists(PIECES, max_size=12).map("".join), min_size=1, max_size=5)


def replaced(spans: tuple[Span, ...]) -> set[tuple[int, int, str]]:
    return {(span.secret, span.end, span.kind) for span in spans if not span.stays}


@given(TEXTS)
def test_what_the_scan_tells_by_itself_is_what_the_finders_find(texts: list[str]) -> None:
    detection = Detection.of(WANTED)
    parts = [text.encode() for text in texts]
    names: dict[int, list[Span]] = {}
    offsets = [0, *accumulate(map(len, parts))]
    regions = detection.regions(b"".join(parts), offsets, names)
    for number, text in enumerate(parts):
        told = detection.finds(text, regions.get(number, ()), (), names.get(number, ()))
        assert replaced(told.spans) == replaced(detection.finds(text, [(0, len(text))]).spans), text


def test_a_plain_prompt_and_home_need_no_finder() -> None:
    detection = Detection.of(WANTED)
    text = b"carol@thinkpad:~/src$ ls /home/carol/src\n"
    names: dict[int, list[Span]] = {}
    assert detection.regions(text, (0, len(text)), names) == {}
    assert replaced(tuple(names[0])) == {(0, 5, "home"), (6, 14, "host"), (31, 36, "home")}
