"""What `screen` takes of libghostty: to load it means to parse its C header, so only who shows a screen does."""

from __future__ import annotations

from typing import Final

from pyghostty.core import Terminal, check, ffi, init_sized, lib, union_fn

__all__ = [
    "ACTIVE_SCREEN",
    "CURSOR_X",
    "CURSOR_Y",
    "GRID_REF",
    "OUT_OF_SPACE",
    "PENDING_WRAP",
    "Terminal",
    "check",
    "ffi",
    "init_sized",
    "lib",
]

OUT_OF_SPACE: Final = lib.GHOSTTY_OUT_OF_SPACE
GRID_REF: Final = union_fn(
    "ghostty_terminal_grid_ref", "GhosttyResult(*)(GhosttyTerminal, GhosttyPointS, GhosttyGridRef*)"
)
ACTIVE_SCREEN: Final = lib.GHOSTTY_TERMINAL_DATA_ACTIVE_SCREEN
CURSOR_X: Final = lib.GHOSTTY_TERMINAL_DATA_CURSOR_X
CURSOR_Y: Final = lib.GHOSTTY_TERMINAL_DATA_CURSOR_Y
PENDING_WRAP: Final = lib.GHOSTTY_TERMINAL_DATA_CURSOR_PENDING_WRAP
