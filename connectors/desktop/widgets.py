"""Roles and states of desktop widgets in the words of the compact tree, for all toolkits.

AT-SPI (Linux), UI Automation (Windows) and AX (macOS) name the same widget differently; `role_of` returns one word, the
same as in Android's trees if there is one. This module does not read files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

_WORDS: Final = {
    "window": "frame window internalframe",
    "dialog": "dialog alert filechooser colorchooser fontchooser sheet messagebox systemdialog",
    "button": "pushbutton button splitbutton toolbarbutton menubutton",
    "toggle": "togglebutton",
    "switch": "switch",
    "textbox": "text entry edit editbar textfield textarea securetextfield searchfield passwordtext autocomplete "
    "textbox dateeditor",
    "text": "label static statictext paragraph caption textblock accelerlabel comment",
    "checkbox": "checkbox checkmenuitemcheckbox",
    "radio": "radiobutton",
    "combobox": "combobox popupbutton",
    "menuitem": "menuitem checkmenuitem radiomenuitem tearoffmenuitem menubaritem",
    "menu": "menu popupmenu contextmenu",
    "menubar": "menubar",
    "toolbar": "toolbar",
    "statusbar": "statusbar",
    "tooltip": "tooltip helptag",
    "list": "list listbox listview directorypane iconview",
    "listitem": "listitem listboxitem desktopicon",
    "table": "table datagrid grid",
    "row": "tablerow row dataitem outlinerow",
    "cell": "tablecell cell datacell",
    "columnheader": "tablecolumnheader columnheader headeritem sortbutton",
    "rowheader": "tablerowheader rowheader",
    "tree": "tree treetable treeview outline",
    "treeitem": "treeitem treeviewitem",
    "tab": "pagetab tabitem tab",
    "tablist": "pagetablist tabcontrol tabgroup",
    "slider": "slider trackbar dial",
    "spinbutton": "spinbutton spinner updown stepper incrementor",
    "progressbar": "progressbar progress progressindicator levelbar",
    "scrollbar": "scrollbar",
    "link": "link hyperlink",
    "heading": "heading header",
    "image": "image icon animation picture",
    "document": "document documentframe documentweb documenttext documentspreadsheet documentpresentation "
    "documentemail webarea embedded",
    "terminal": "terminal",
    "canvas": "canvas drawingarea",
    "group": "filler panel section viewport layeredpane splitpane grouping group rootpane redundantobject unknown "
    "unknownrole form scrollpane scrollarea optionpane glasspane pane custom groupbox splitgroup splitter separator "
    "generic article landmark blockquote titlebar thumb valueindicator container layoutarea layoutitem",
}
_ROLES: Final = {word: role for role, words in _WORDS.items() for word in words.split()}
_NOT_ROLE: Final = re.compile(r"[^a-z0-9_.-]+")
_JOINTS: Final = re.compile(r"[\s_-]+")

CHECKABLE: Final = frozenset({"checkbox", "radio", "switch", "toggle"})
"""Roles that are either checked or not; the tree states which."""

INTERACTIVE: Final = CHECKABLE | frozenset(
    {"button", "textbox", "combobox", "menuitem", "listitem", "tab", "slider", "spinbutton", "link", "treeitem"}
)
"""Roles that a person acts on; the tree states `disabled` if such a widget cannot be used."""

HOLDING: Final = frozenset({"textbox", "combobox", "spinbutton", "terminal"})
"""Roles whose text is their content, not their label."""

SCROLLING: Final = frozenset({"list", "table", "tree", "document"})
"""Roles that scroll as a whole when the wheel is turned over any part of them."""

MEASURING: Final = frozenset({"slider", "progressbar", "scrollbar", "spinbutton"})
"""Roles whose line has their number."""

POPUPS: Final = frozenset({"menu", "tooltip", "list"})
"""Roles that are above everything else, as windows of their own or opened from a widget."""

_KEPT: Final = (
    ("active", "active"),
    ("modal", "modal"),
    ("focused", "focused"),
    ("selected", "selected"),
    ("checked", "checked"),
    ("indeterminate", "indeterminate"),
    ("pressed", "pressed"),
    ("expanded", "expanded"),
    ("collapsed", "collapsed"),
    ("busy", "busy"),
    ("invalid_entry", "invalid"),
    ("required", "required"),
    ("minimized", "minimized"),
    ("iconified", "minimized"),
)


@lru_cache(maxsize=4096)
def role_of(word: str) -> str:
    """Return the role for a toolkit's word for a widget, such as `button` for `push-button` or `AXButton`.

    `group` for widgets that only lay out others, and for an empty word. Another unknown word is kept, in lower case.
    """
    short = word.strip()
    if short.startswith("AX"):
        short = short[2:]
    short = short.lower()
    plain = _JOINTS.sub("", short)
    return _ROLES.get(plain) or _NOT_ROLE.sub("_", short)[:64].strip("_.-") or "group"


def states_of(role: str, word: str, states: Mapping[str, bool]) -> tuple[str, ...]:
    """Return the states of a widget for its line, in a fixed order.

    Args:
        role: role as returned by `role_of`.
        word: the toolkit's own word, which determines for menu items whether they can be checked.
        states: the source's states, by name without prefix, in lower case; absent ones are not set.
    """
    return _states_of(role, word, tuple(states.items()))


@lru_cache(maxsize=4096)
def _states_of(role: str, word: str, pairs: tuple[tuple[str, bool], ...]) -> tuple[str, ...]:
    states = dict(pairs)
    words = [word_kept for name, word_kept in _KEPT if states.get(name)]
    if "active" in words and role not in ("window", "dialog", "menu"):
        # For other roles, AT-SPI means the cursor of a list, which `focused` and `selected` state.
        words.remove("active")
    if "expanded" not in words and "collapsed" not in words and states.get("expandable"):
        words.append("collapsed")
    can_check = role in CHECKABLE or "check" in word or "radio" in word or states.get("checkable")
    if can_check and "checked" not in words and (role != "toggle" or "pressed" not in words):
        words.append("unchecked")
    if role == "textbox" and (states.get("read_only") or states.get("editable") is False):
        words.append("readonly")
    if role != "textbox" and states.get("editable"):
        words.append("editable")
    if role in INTERACTIVE and not _is_usable(states):
        words.append("disabled")
    return tuple(dict.fromkeys(words))


def _is_usable(states: Mapping[str, bool]) -> bool:
    """Return True if the widget takes input, which it does unless its states deny it."""
    flags = [states[name] for name in ("enabled", "sensitive") if name in states]
    return any(flags) if flags else True
