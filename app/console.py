"""The door to the terminal: whatever the command line prints passes here, and control characters of data are shown.

A log, the name of a file or a message about either may hold codes that set a terminal's title, write the clipboard,
move the cursor over what was said before or turn the direction of reading, and characters that cannot be seen at all.
All of them appear as the escapes that Python and `ls -b` know (`\\x1b`, `\\u202e`), and never reach the terminal.
Markup of rich in data is text. A byte of a file name that is no UTF-8 appears as itself (`\\xff`), and what the
encoding of a terminal cannot say as its number.

No other module makes a rich Console or Text, prints, or writes to a stream of the process. What
libraries and Python itself say on stderr passes the same way once `guard` was called. Nothing of it changes what is
written to files.
"""

from __future__ import annotations

import io
import json
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, is_dataclass
from typing import IO, Any, Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

_UNSEEN: Final = (
    "\x00-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Controls, formats, surrogates, line separators, and characters that Unicode allows to ignore on display. The two
selectors U+FE0E and U+FE0F are left out, since they only choose between glyphs of one character.
"""

_IN_A_LINE: Final = re.compile(f"[{_UNSEEN}]")
_IN_LINES: Final = re.compile(f"(?![\n\t])[{_UNSEEN}]")
_TEXT_WIDTH: Final = 14
"""Minimum width of a text column in characters, below which other columns are left out."""

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_NAMED: Final = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}


def quantity(number: int, plural: str) -> str:
    """Write a number with a noun, which is given in the plural: "1 file", "2,000 trajectories"."""
    singular = f"{plural.removesuffix('ies')}y" if plural.endswith("ies") else plural.removesuffix("s")
    return f"{number:,} {singular if number == 1 else plural}"


def shown(content: str, *, lines: bool = False) -> str:
    """Return the text with control and invisible characters as escapes.

    Args:
        lines: True if newlines and tabs are layout and stay; otherwise they are escaped too, as in the name of a file.
    """
    return (_IN_LINES if lines else _IN_A_LINE).sub(_escape, content)


def _escape(met: re.Match[str]) -> str:
    character = met[0]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # how Python holds a byte of a name that is no UTF-8
        code -= 0xDC00
    if code < 0x100:
        return _NAMED.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def text(content: str, style: str = "") -> Text:
    """Return text of a log, of one or several lines, for printing in a style."""
    return Text(shown(content, lines=True), style)


def label_text(label: str, content: str) -> Text:
    """Return text of a log behind a bold label."""
    return Text.assemble((shown(label), "bold"), shown(content, lines=True))


def _plain(value: object) -> object:
    """Return a value that JSON does not support as one that it does."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return list(value) if isinstance(value, (set, frozenset, tuple)) else str(value)


class Printer(Console):
    """rich Console that escapes control characters and ignores markup in its input.

    A string is one line: its newlines are escaped. Use `text` for several lines. The control codes of rich itself
    (colors, cursor moves for a progress bar) pass.
    """

    def __init__(self, file: IO[str] | None = None, *, stderr: bool = False) -> None:
        super().__init__(file=file, stderr=stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return the string as one line of text, before it is laid out."""
        return super().render_str(shown(text), **{**options, "markup": False, "emoji": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a renderable, with control characters escaped. All output passes here last."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else self._harmless(segment)

    def _harmless(self, segment: Segment) -> Segment:
        encoding = self.encoding
        content = shown(segment.text, lines=True).encode(encoding, "backslashreplace").decode(encoding)
        style = segment.style
        return Segment(content, style.update_link(None) if style is not None and style.link else style)

    def table(
        self,
        heads: Sequence[str],
        rows: Iterable[Sequence[str | Text]],
        *,
        texts: Collection[int] = (0,),
        dropped: Sequence[str] = (),
        title: str = "",
        sums: int = 0,
    ) -> None:
        """Print a table that is no wider than the terminal: texts wrap, and numbers are never cut.

        Args:
            texts: columns that may wrap.
            dropped: columns that are left out where there is no room, the first before the second; a line says so.
            sums: rows at the end that stand below a line.
        """
        cells = [[str(cell) for cell in row] for row in rows]
        widths = [max(map(cell_len, (head, *column))) for head, *column in zip(heads, *cells, strict=True)]
        least = [min(width, _TEXT_WIDTH) if index in texts else width for index, width in enumerate(widths)]
        shown_heads = list(heads)
        for name in dropped:
            if sum(least[heads.index(shown)] + 3 for shown in shown_heads) < self.width:
                break
            shown_heads.remove(name)
        table = Table(title=title or None, title_justify="left")
        for head in shown_heads:
            is_text = heads.index(head) in texts
            table.add_column(head, overflow="fold", no_wrap=not is_text, justify="left" if is_text else "right")
        for number, row in enumerate(cells):
            if number == len(cells) - sums:
                table.add_section()
            table.add_row(*(text(row[heads.index(head)]) for head in shown_heads))
        self.print(table)
        if left := [head for head in heads if head not in shown_heads]:
            self.print(f"not shown at {self.width} columns: {', '.join(left)} (--json has all)")

    def print_line(self, content: RenderableType, style: str | None = None) -> None:
        """Print a text without breaking its lines at the width of the terminal."""
        self.print(content, style=style, soft_wrap=True)

    def json(self, value: object) -> None:
        """Print plain values and data classes as JSON."""
        self.document(json.dumps(value, indent=2, default=_plain) + "\n")

    def document(self, content: str) -> None:
        """Print a document as it is, without breaking its lines."""
        self.print(text(content), soft_wrap=True, end="")


class _Lines(io.TextIOBase):
    """Stream for code that does not use a `Printer`: its lines go through one, which keeps a progress bar below them.

    It does not claim to be a terminal. Color codes are removed.
    """

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, stream: IO[str]) -> None:
        self.printer = Printer(stream)
        self._stream = stream
        self._begun = ""
        self._lock = threading.RLock()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, content: str) -> int:
        if not isinstance(content, str):
            raise TypeError(f"wanted str, got {type(content).__name__}")
        with self._lock:
            *whole, self._begun = (self._begun + content).split("\n")
            for line in whole:
                self._print(line, "\n")
        return len(content)

    def flush(self) -> None:
        with self._lock:
            begun, self._begun = self._begun, ""
            if begun:
                self._print(begun, "")
        self._stream.flush()

    def _print(self, line: str, end: str) -> None:
        plain = _COLOURS.sub("", line)
        if _LINE_FORM:
            plain, end = _LINE_FORM[-1](plain), "\n"
        self.printer.print(text(plain), soft_wrap=True, end=end)


_LINE_FORM: Final[list[Callable[[str], str]]] = []


def pass_lines_as(form: Callable[[str], str] | None) -> None:
    """Format each line that other code writes to stderr with this function, such as an object of JSON; None to
    reset.
    """
    _LINE_FORM[:] = [form] if form is not None else []


def guard() -> None:
    """Route stderr of this process through a `Printer`, including tracebacks, warnings, logging and usage errors."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if not isinstance(sys.stderr, _Lines):
        sys.stderr = _Lines(sys.stderr)


def results() -> Printer:
    """Return the printer of stdout."""
    return Printer()


def notices() -> Printer:
    """Return the printer of stderr. It is shared, so that lines do not break a progress bar."""
    return sys.stderr.printer if isinstance(sys.stderr, _Lines) else Printer(stderr=True)
