from pyghostty import ffi as theirs
from pyghostty import lib as known

from tests.golden.make import LIBGHOSTTY, libghostty
from trajmill.connectors.recordings import emulator
from trajmill.connectors.recordings.emulator import ffi, lib

STRUCTS = ("GhosttyGridRef", "GhosttySelection", "GhosttyTerminalSelectionFormatOptions", "GhosttyPoint")
FUNCTIONS = (
    "ghostty_terminal_new",
    "ghostty_terminal_free",
    "ghostty_terminal_set",
    "ghostty_terminal_get",
    "ghostty_terminal_vt_write",
    "ghostty_terminal_resize",
    "ghostty_terminal_grid_ref",
    "ghostty_terminal_selection_format_buf",
)
VALUES = {
    "OUT_OF_SPACE": "OUT_OF_SPACE",
    "SCROLLBACK_MAX_LINES": "TERMINAL_OPT_SCROLLBACK_MAX_LINES",
    "CURSOR_X": "TERMINAL_DATA_CURSOR_X",
    "CURSOR_Y": "TERMINAL_DATA_CURSOR_Y",
    "PENDING_WRAP": "TERMINAL_DATA_CURSOR_PENDING_WRAP",
    "ACTIVE_SCREEN": "TERMINAL_DATA_ACTIVE_SCREEN",
    "ALTERNATE": "TERMINAL_SCREEN_ALTERNATE",
    "PLAIN": "FORMATTER_FORMAT_PLAIN",
    "ACTIVE": "POINT_TAG_ACTIVE",
}


def fields(ffi, name):
    return [(field, one.offset, ffi.sizeof(one.type)) for field, one in ffi.typeof(name).fields]


def signature(ffi, function):
    told = ffi.typeof(function)
    sizes = [(ffi.sizeof(one), one.kind == "pointer", one.kind == "struct") for one in told.args]
    return sizes, 0 if told.result.kind == "void" else ffi.sizeof(told.result)


def test_the_module_of_the_emulator_is_made_of_what_is_declared():
    assert LIBGHOSTTY.read_text("utf-8") == libghostty()


def test_structs_functions_and_values_are_declared_as_pyghostty_declares_them():
    assert {name: fields(ffi, name) for name in STRUCTS} == {name: fields(theirs, name) for name in STRUCTS}
    mine = {name: signature(ffi, getattr(lib, name)) for name in FUNCTIONS}
    assert mine == {name: signature(theirs, getattr(known, name)) for name in FUNCTIONS}
    assert {name: getattr(emulator, name) for name in VALUES} == {
        name: getattr(known, f"GHOSTTY_{other}") for name, other in VALUES.items()
    }
    assert set(FUNCTIONS) == set(dir(lib)), "a function that is declared is compared here"
