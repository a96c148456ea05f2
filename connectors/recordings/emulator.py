"""The parts of libghostty, the library bundled with pyghostty, that `screen` uses.

pyghostty declares the whole library and parses its declarations in every process, which takes longer than reading a
small recording. This module declares only the required parts, which were parsed when `libghostty` was generated. A test
compares them with the full declarations.
"""

from __future__ import annotations

import sys
import weakref
from importlib.util import find_spec
from typing import Any, Final

from trajmill.connectors.recordings.libghostty import ffi

__all__ = [
    "ACTIVE",
    "ACTIVE_SCREEN",
    "ALTERNATE",
    "CURSOR_X",
    "CURSOR_Y",
    "DECLARED",
    "OUT_OF_SPACE",
    "PENDING_WRAP",
    "PLAIN",
    "SCROLLBACK_MAX_LINES",
    "Terminal",
    "check",
    "ffi",
    "lib",
    "new_struct",
]

DECLARED: Final = """
typedef struct GhosttyTerminalImpl* GhosttyTerminal;
typedef struct { size_t size; void *node; uint16_t x; uint16_t y; } GhosttyGridRef;
typedef struct { size_t size; GhosttyGridRef start; GhosttyGridRef end; bool rectangle; } GhosttySelection;
typedef struct {
  size_t size; int emit; bool unwrap; bool trim; const GhosttySelection *selection;
} GhosttyTerminalSelectionFormatOptions;
typedef struct { uint16_t x; uint32_t y; uint64_t padding; } GhosttyPointValue;
typedef struct { int tag; GhosttyPointValue value; } GhosttyPoint;

int ghostty_terminal_new(const void *allocator, GhosttyTerminal *terminal, uint16_t cols, uint16_t rows);
void ghostty_terminal_free(GhosttyTerminal terminal);
int ghostty_terminal_set(GhosttyTerminal terminal, int option, const void *value);
int ghostty_terminal_get(GhosttyTerminal terminal, int data, void *out);
void ghostty_terminal_vt_write(GhosttyTerminal terminal, const uint8_t *data, size_t len);
int ghostty_terminal_resize(
  GhosttyTerminal terminal, uint16_t cols, uint16_t rows, uint32_t cell_width_px, uint32_t cell_height_px);
int ghostty_terminal_grid_ref(GhosttyTerminal terminal, GhosttyPoint point, GhosttyGridRef *out_ref);
int ghostty_terminal_selection_format_buf(
  GhosttyTerminal terminal, GhosttyTerminalSelectionFormatOptions options,
  uint8_t *buf, size_t buf_len, size_t *out_written);
"""
"""C declarations from which `python -m tests.golden.make libghostty` generates the module `libghostty`.

The library declares the value of a point as a union, which cffi cannot pass; the struct here has the same size and is
passed in the same way.
"""

OUT_OF_SPACE: Final = -3
SCROLLBACK_MAX_LINES: Final = 28
CURSOR_X: Final = 3
CURSOR_Y: Final = 4
PENDING_WRAP: Final = 5
ACTIVE_SCREEN: Final = 6
ALTERNATE: Final = 1
PLAIN: Final = 0
ACTIVE: Final = 0
"""Values of the library's enumerations: results, options, data, screens, formats and points."""

_CELL: Final = (8, 16)
"""Size of a cell in pixels, which affects only reports of sizes and images."""


def _library() -> Any:
    """Load the library from pyghostty's package, with the file ending of the operating system."""
    package = find_spec("pyghostty")  # which does not load it
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'pyghostty'", name="pyghostty")
    ending = {"darwin": "dylib", "win32": "dll"}.get(sys.platform, "so")
    return ffi.dlopen(f"{package.submodule_search_locations[0]}/_lib/libghostty-vt.{ending}")


lib: Final[Any] = _library()


def check(result: int, operation: str) -> None:
    """Raise RuntimeError unless the result of a call is success."""
    if result:
        raise RuntimeError(f"libghostty: {operation} failed with {result}")


def new_struct(kind: str) -> Any:
    """Return a new struct that states its own size, as the library requires."""
    struct = ffi.new(f"{kind}*")
    struct.size = ffi.sizeof(kind)
    return struct


class Terminal:
    """A terminal of a given size in cells with a scrollback.

    Attributes:
        handle: argument of the library's functions.
    """

    def __init__(self, columns: int, rows: int, scrollback: int) -> None:
        pointer = ffi.new("GhosttyTerminal*")
        check(lib.ghostty_terminal_new(ffi.NULL, pointer, columns, rows), "terminal_new")
        self.handle: Any = pointer[0]
        weakref.finalize(self, lib.ghostty_terminal_free, self.handle)
        lines = ffi.new("size_t*", scrollback)
        check(lib.ghostty_terminal_set(self.handle, SCROLLBACK_MAX_LINES, lines), "terminal_set")

    def feed(self, data: bytes) -> None:
        """Process output."""
        lib.ghostty_terminal_vt_write(self.handle, data, len(data))

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal; lines are wrapped again."""
        check(lib.ghostty_terminal_resize(self.handle, columns, rows, *_CELL), "terminal_resize")
