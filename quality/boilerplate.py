"""Boilerplate of tools and screens: the fixed text around answers, found by a closed table of forms.

A form is a whole line (or a whole answer); the content of its groups is no boilerplate, since the environment fills it
in. Texts that are answers by themselves, such as errors, are excluded. The line numbers of a listing are boilerplate if
they are consecutive. No statistic is involved: the result depends only on the text and the tool.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_ANY: Final = (
    # Harnesses of shells.
    r"\[The command completed with exit code (-?\d+)\.\]",
    r"\[Command finished with exit code (-?\d+)\]",
    r"\[Current working directory: ([^\r\n]*)\]",
    r"\[Python [Ii]nterpreter: ([^\r\n]*)\]",
    r"\[exit code (-?\d+)\]",
    r"Exit code: (-?\d+)",
    r"Wall time: ([0-9.]+) seconds",
    r"Process (?:exited with code|running with session ID) (-?\d+)",
    r"Command running in background with ID: ([^\r\n]*)",
    r"OBSERVATION:",
    r"New Terminal (?:Output|Screen):",
    r"Current Terminal Screen:",
    # Editors.
    r"\[File: ([^\r\n]*) \((\d+) lines total\)\]",
    r"\((\d+) more lines (?:above|below)\)",
    r"<<<<< (?:START|END) CURSOR >>>>>",
    r"(?:File updated\. Please r|R)eview the changes and make sure they are [^.\r\n]*\. Edit the file again[^.\r\n]*\.",
    r"The file ([^\r\n]+) has been (?:updated|edited)(?: successfully)?\.",
    r"The file ([^\r\n]+) has been (?:updated|edited)\. Here's the result of running `cat -n` on a snippet[^\r\n:]*:",
    r"Here's the result of running `cat -n` on ([^\r\n]+):",
    r"Here's the files and directories up to \d levels deep in ([^\r\n]+), excluding hidden items:",
    r"File created successfully at: ([^\r\n]+)",
    r"Successfully (?:created and wrote to new|overwrote) file: ([^\r\n]+?)\.",
    r"Applied edit to ([^\r\n]+)",
    r"Committing ([^\r\n]+) before applying edits\.",
    r"Commit ([0-9a-f]{7,12}) ([^\r\n]+)",
    # Programs.
    r"diff --git a/([^\r\n]+) b/([^\r\n]+)",
    r"index ([0-9a-f]{6,40})\.\.([0-9a-f]{6,40})(?: (\d{6}))?",
    r"@@ -([0-9,]+) \+([0-9,]+) @@( [^\r\n]*)?",
    r"Traceback \(most recent call last\):",
    r"={3,} (?:test session starts|FAILURES|ERRORS|warnings summary|short test summary info) ={3,}",
    r"-- Docs: https://docs\.pytest\.org/[^\r\n ]+",
    # Search engines, and tools that call other tools.
    r"A Google search for '([^\r\n]*)' found (\d+) results:",
    r"Web search results for query: \"([^\r\n]*)\"",
    r"## Web Results",
    r"Date published: ([^\r\n]+)",
)
_LINES: Final = "|".join(rf"(?:{form})" for form in _ANY)
_RULE: Final = r"[|+][-=+|: ]{6,}[|+]|[-=]{2,}(?:[+|][-=]{2,})+|[┌├└╔╠╚┏┣┗][─━═┬┼┴╦╬╩┳╋┻]{2,}[┐┤┘╗╣╝┓┫┛]"
_NODE: Final = r"[ \t]*#\d+ [a-z_]+"
"""Node of a tree of elements that states only its kind."""

_HTTP: Final = r"HTTP (\d{3}(?: [^\r\n]*)?)|(?:content-type|location): ([^\r\n]*)"
REQUESTS: Final = "http"
TREES: Final = "tree"

_FORMS: Final = {
    "": rf"(?m)^(?:{_LINES}|{_RULE})[ \t\r]*$\n?",
    REQUESTS: rf"(?m)^(?:{_LINES}|{_RULE}|{_HTTP})[ \t\r]*$\n?",
    TREES: rf"(?m)^(?:{_LINES}|{_RULE}|{_NODE})[ \t\r]*$\n?",
}
"""Forms by kind of answer: requests, trees of elements, and all others. Each takes 10 ms to compile."""

_WRAPPED: Final = re.compile(r'\{"error": "([^"\\\n]*)", "response": "((?:[^"\\]|\\.)*)"\}')
_HINT: Final = (
    r"(?m)^(?:\[(?:The command|Command fin|Current w|Python|exit code|File: )|\(\d+ more|Exit code|Wall time|Process "
    r"|Command running|OBSERVATION:|New Terminal|Current Terminal|File |<<<<< [SE]|The file|Review|Here's the"
    r"|Successfully|Applied edit|Committing |Commit [0-9a-f]{7}|diff --git|index |@@ |Traceback|===|-- Docs|A Google"
    r"|Web search|## Web|Date published|[|+]|[-=]{2,}[+|]|[┌├└╔╠╚┏┣┗]|[ \t]*#\d+ [a-z_]+[ \t\r]*$|HTTP \d"
    r"|content-type|location)|^\{\"error\": \""
)
"""Pattern that every text with boilerplate matches. Other texts are not searched line by line."""

_GUTTER_HINT: Final = r"(?m)^[ \t]*\d+[\t→:]"
_GUTTER: Final = re.compile(r"(?m)^[ \t]*(\d+)([\t→:])")
_LISTED: Final = re.compile(r"(?:lines total\)\]|more lines above\)|CURSOR >>>>>)[ \t\r]*\n\Z")


@cache
def _form(kind: str) -> re.Pattern[str]:
    return re.compile(_FORMS[kind])


def may_have_frames(texts: pa.StringArray) -> npt.NDArray[np.bool_]:
    """Flag the texts that may contain boilerplate."""
    hinted = pc.or_(pc.match_substring_regex(texts, _HINT), pc.match_substring_regex(texts, _GUTTER_HINT))
    flags: npt.NDArray[np.bool_] = hinted.to_numpy(zero_copy_only=False)
    return flags


def frames(text: str, kind: str = "") -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Find the boilerplate of a text, and the content within its forms.

    Both are (begin, end) in characters, in order and without overlaps.

    Args:
        text: Text of the observation.
        kind: `REQUESTS` for the answer to a request, `TREES` for a tree of elements, empty otherwise.
    """
    frame, content = [gutter for gutter in gutters(text) if gutter[0] < gutter[1]], []
    whole = _WRAPPED.fullmatch(text)
    for match in [whole] if whole else _form(kind).finditer(text):
        at, end = match.start(), match.end()
        groups_seen: set[str] = set()
        for number, group in enumerate(match.groups(), 1):
            # A value that a form repeats counts as content only at its first occurrence.
            if group is not None and (group not in groups_seen or group.isdigit()):
                groups_seen.add(group)
                content.append(match.span(number))
                frame += [(at, match.start(number))] if at < match.start(number) else []
                at = match.end(number)
        frame += [(at, end)] if text[at:end].strip() else []
    return sorted(frame), content


def gutters(text: str) -> list[tuple[int, int]]:
    """Find (begin, end) in characters of the line numbers of a listing: at least two lines with consecutive numbers.

    The line feed before a number belongs to it, except before the first.
    """
    spans: list[tuple[int, int]] = []
    run: list[tuple[int, int]] = []
    last, stop, mark, is_file = -2, -1, "", False
    for match in _GUTTER.finditer(text):
        number = int(match.group(1)[:9])
        if number == last + 1 and match.start() == stop + 1 and match.group(2) == mark:
            run.append((stop, match.end()))
        else:
            spans += run if len(run) > 1 or mark == ":" else []
            # Search tools also print hits as a number and a colon.
            mark = match.group(2)
            is_file = is_file or _LISTED.search(text[max(match.start() - 80, 0) : match.start()]) is not None
            is_listing = mark != ":" or is_file
            run = [match.span()] if is_listing else []
            number = number if is_listing else -2
        last, stop = number, text.find("\n", match.end())
        if stop < 0:
            break
    return spans + (run if len(run) > 1 or mark == ":" else [])


def without_gutters(texts: pa.StringArray) -> pa.StringArray:
    """Return the texts without the line numbers of listings; the number of lines stays the same."""
    hinted = pc.match_substring_regex(texts, _GUTTER_HINT)
    if not pc.any(hinted).as_py():
        return texts
    bare = [_bare(text) for text in texts.filter(hinted).to_pylist()]
    return pc.replace_with_mask(texts, hinted, pa.array(bare, texts.type))


def _bare(text: str) -> str:
    parts, at = [], 0
    for begin, end in gutters(text):
        parts.append(text[at:begin])
        parts.append("\n" if text.startswith("\n", begin) else "")
        at = end
    return "".join([*parts, text[at:]])


def in_bytes(text: str, spans: Sequence[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Convert spans in characters to spans in bytes of the UTF-8 text."""
    if text.isascii() or not spans:
        return list(spans)
    sizes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    byte_offsets: npt.NDArray[np.int64] = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(1 + (sizes >= 0x80) + (sizes >= 0x800) + (sizes >= 0x10000), out=byte_offsets[1:])
    return [(int(byte_offsets[begin]), int(byte_offsets[end]), label) for begin, end, label in spans]
