"""The screen of a terminal of a given size after its output: the visible rows, and the cursor's line, as text.

libghostty does the emulation. Output is buffered and passed to it in larger pieces, which is faster. The emulator
answers no query and opens no file (the file media of the graphics protocol are disabled in the library). Colors, titles
and images are not reported.
"""

from __future__ import annotations

import re
from typing import Any, Final

from trajmill.schemas import Observation

DIALECT: Final = "ansi-screen/1"
"""The visible rows as text: wrapped rows as shown, without trailing blanks and without blank rows at the bottom."""

MAX_SIDE: Final = 4096
MAX_CELLS: Final = 1 << 18
"""Largest number of cells. Larger terminals are refused, because nobody looked at one, and it would cost memory."""

SCROLLBACK: Final = 10_000
"""Rows kept above the screen, since they return when the terminal grows. Fewer rows were slower, not faster."""

_HELD_CHARS: Final = 1 << 15
_STATUS: Final = re.compile(r"\x1b\]133;D;(\d{1,10})(?:[;\x07]|\x1b\\)")
"""Shell integration (OSC 133, FinalTerm): D marks the end of a command and states its exit status."""

_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[]P_^X][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_TITLE_CHARS: Final = 4096
_TITLE: Final = re.compile(rf"\x1bk[^\x1b\x07]{{0,{_TITLE_CHARS}}}(?:\x1b\\|\x07)")
_TITLE_BEGUN: Final = re.compile(rf"\x1b(?:k[^\x1b\x07]{{0,{_TITLE_CHARS}}}\x1b?)?\Z")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def check_size(columns: object, rows: object) -> tuple[int, int] | None:
    """Return (columns, rows) if the size is valid (integers from 1, within the limits above); else None."""
    if type(columns) is not int or type(rows) is not int:
        return None
    fits = 1 <= columns <= MAX_SIDE and 1 <= rows <= MAX_SIDE and columns * rows <= MAX_CELLS
    return (columns, rows) if fits else None


def encode_text(text: str) -> bytes:
    """Encode `text` as UTF-8; surrogate pairs are joined, lone surrogates become U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def visible(output: str) -> str:
    """Return the characters of output that take up a cell, without escape sequences and control characters."""
    return _CONTROL.sub("", _ESCAPE.sub("", output))


class Titles:
    r"""Filter that removes window titles of GNU screen and tmux (`\ek…\e\\`) from output that may be split anywhere.

    Shells that run in one of these programs set titles before and after each command. No other terminal knows the
    sequence; the emulator does not know it either and would print the title.
    """

    def __init__(self) -> None:
        self._held = ""

    def strip_titles(self, output: str) -> str:
        """Return the output without titles; a possible beginning of a title is held back until more output arrives."""
        if not self._held and "\x1bk" not in output and output[-1:] != "\x1b":
            return output
        output = _TITLE.sub("", self._held + output)
        begun = _TITLE_BEGUN.search(output, max(0, len(output) - _TITLE_CHARS - 3))
        self._held = begun[0] if begun is not None else ""
        return output[: len(output) - len(self._held)]


def screen_observation(content: str, truncation: str = "none") -> Observation:
    """Return the text of a screen as an observation."""
    return Observation(content, form="screen", dialect=DIALECT, truncation=truncation)


class Screen:
    """A terminal of `columns` by `rows`, blank at first.

    Attributes:
        statuses: exit statuses that the shell itself reported since they were last taken, in order.
    """

    def __init__(self, columns: int, rows: int) -> None:
        from trajmill.connectors.recordings import emulator  # here, since only who shows a screen needs the library

        self._emulator = emulator
        self._terminal = emulator.Terminal(columns, rows, SCROLLBACK)
        self._columns, self._rows = columns, rows
        self._held: list[str] = []
        self._held_chars = 0
        self._options: Any = emulator.new_struct("GhosttyTerminalSelectionFormatOptions")
        self._options.emit = emulator.PLAIN
        self._selection: Any = emulator.new_struct("GhosttySelection")
        self._first, self._last = (emulator.ffi.addressof(self._selection, name) for name in ("start", "end"))
        self._first.size = self._last.size = emulator.ffi.sizeof("GhosttyGridRef")
        self._point: Any = emulator.ffi.new("GhosttyPoint*")
        self._point.tag = emulator.ACTIVE
        self._options.selection = self._selection
        self._buffer: Any = emulator.ffi.new("uint8_t[]", 16384)
        self._length: Any = emulator.ffi.new("size_t*")
        self.statuses: list[int] = []
        self._blank = True

    def write(self, text: str) -> None:
        """Add output, to be emulated when the screen is next read."""
        if not text:
            return
        self._held.append(text)
        self._held_chars += len(text)
        if self._held_chars > _HELD_CHARS:
            self._emulate()

    def _emulate(self) -> None:
        if not self._held:
            return
        text = "".join(self._held)
        self._held.clear()
        self._held_chars = 0
        self._blank = False
        if "\x1b]133;D;" in text:
            self.statuses += [int(code) for code in _STATUS.findall(text) if int(code) < 1 << 31]
        self._terminal.feed(encode_text(text))

    def resize(self, columns: int, rows: int) -> None:
        """Resize the screen to a size accepted by `check_size`."""
        self._emulate()
        self._columns, self._rows = columns, rows
        self._terminal.resize(columns, rows)

    def take_statuses(self) -> list[int]:
        """Return the exit statuses reported since the last call; see `statuses`."""
        self._emulate()
        taken, self.statuses = self.statuses, []
        return taken

    @property
    def alternate(self) -> bool:
        """True if the alternate screen of full-screen programs is shown."""
        self._emulate()
        shown = self._told(self._emulator.ACTIVE_SCREEN, "int*")
        return bool(shown == self._emulator.ALTERNATE)

    @property
    def wraps(self) -> bool:
        """True if the cursor's row is full, so that the next character would be on the next row."""
        return self.column == self._columns

    @property
    def column(self) -> int:
        """The cursor's column from 0; the number of columns if the next character would wrap."""
        self._emulate()
        column, wraps = self._emulator.CURSOR_X, self._emulator.PENDING_WRAP
        return int(self._told(column, "uint16_t*")) + bool(self._told(wraps, "bool*"))

    def text(self) -> str:
        """Return the visible rows, in the form of `DIALECT`."""
        self._emulate()
        return self._between(self._columns - 1, self._rows - 1, unwrap=False, trim=True).rstrip(" \n")

    def seen(self) -> str | None:
        """Return the visible rows; None if there was never any output."""
        text = self.text()
        return None if self._blank else text

    def line(self) -> str:
        """Return the cursor's line up to the cursor, with its wrapped rows joined.

        Trailing blanks are kept if they were written.
        """
        return self._above().rpartition("\n")[2]

    def whole_line(self) -> str:
        """Return the cursor's line, including any text after the cursor."""
        above = self._above()
        lines = self._between(self._columns - 1, self._rows - 1, unwrap=True, trim=True).split("\n")
        number = above.count("\n")
        line = lines[number] if number < len(lines) else ""
        return max(line, above.rpartition("\n")[2], key=len)

    def _above(self) -> str:
        """Return the text on the screen before the cursor, with the wrapped rows of a line joined."""
        column = self.column
        row = int(self._told(self._emulator.CURSOR_Y, "uint16_t*"))
        if column:
            return self._between(column - 1, row, unwrap=True, trim=False)
        return self._between(self._columns - 1, row - 1, unwrap=True, trim=False) + "\n" if row else ""

    def _between(self, column: int, row: int, unwrap: bool, trim: bool) -> str:
        """Return the text from the upper left corner to the given cell, inclusive."""
        options, length, handle = self._options, self._length, self._terminal.handle
        options.unwrap, options.trim = unwrap, trim
        self._place(self._first, 0, 0)
        self._place(self._last, column, row)
        format_buffer = self._emulator.lib.ghostty_terminal_selection_format_buf
        result = format_buffer(handle, options[0], self._buffer, len(self._buffer), length)
        if result == self._emulator.OUT_OF_SPACE:
            self._buffer = self._emulator.ffi.new("uint8_t[]", length[0])
            result = format_buffer(handle, options[0], self._buffer, len(self._buffer), length)
        self._emulator.check(result, "selection_format")
        return str(self._emulator.ffi.buffer(self._buffer, length[0]), "utf-8")

    def _told(self, field: int, kind: str) -> Any:
        """Return a property of the terminal; `kind` is the C type of a pointer to it."""
        pointer: Any = self._emulator.ffi.new(kind)
        self._emulator.check(
            self._emulator.lib.ghostty_terminal_get(self._terminal.handle, field, pointer), "terminal_get"
        )
        return pointer[0]

    def _place(self, reference: Any, column: int, row: int) -> None:
        """Point a reference to a cell; it is valid until the terminal changes."""
        self._point.value.x, self._point.value.y = column, row
        self._emulator.check(
            self._emulator.lib.ghostty_terminal_grid_ref(self._terminal.handle, self._point[0], reference), "grid_ref"
        )
