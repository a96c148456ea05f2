"""One element of an accessibility dump as a node of the compact tree: its role, its texts, its states, its box.

`atspi` says what the dialect is. Elements recur from screen to screen, so what one means is remembered.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from connectors.desktop.widgets import HOLDING, MEASURING, POPUPS, role_of, states_of
from connectors.lasting import lasting
from connectors.tree import Box, Node

SYSTEM: Final = re.compile(r"//accessibility\.(ubuntu|windows|macos)\.example\.org/ns/([a-z/]+)")
"""Where a namespace names its system and the kind of what is in it."""

_DESKAT: Final = re.compile(r"uri:deskat:([a-z.]+?)\.at-spi\.gnome\.org")
_PAIR: Final = re.compile(r"\(\s*(-?[0-9]{1,10})(?:\.[0-9]*)?\s*,\s*(-?[0-9]{1,10})(?:\.[0-9]*)?\s*\)")
_PLACEHOLDERS: Final = {0xFFFC: None, 0xFFFD: None}
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}\.0*")
_CLICKS: Final = frozenset({"click", "press", "activate", "jump", "toggle", "open", "select"})
_LONGEST_REMEMBERED: Final = 1 << 12
_IDENTS: Final = ("id", "automation_id", "AXDOMIdentifier")

FARTHEST: Final = 10**6
"""Coordinates beyond this stand for widgets that are nowhere (AT-SPI gives -2147483648)."""

Attributes: TypeAlias = tuple[tuple[str, str], ...]


class Widget(NamedTuple):
    """An element as far as a tree shows it.

    Attributes:
        node: its line; None if it is not shown, or only lays out others.
        shown: what it says; None if it is not shown.
        name: what labels it, shown or not.
        place: a key that sorts siblings from top to bottom and left to right, those without a place last.
    """

    node: Node | None
    shown: _Element | None
    name: str
    place: tuple[int, int, int, int, str, str]

    @property
    def window(self) -> Node | None:
        """Its line as a window; None if it is not shown."""
        return _window(self.shown) if self.shown is not None else None


def widget(tag: str, attributes: Attributes, text: str, system: str) -> Widget:
    """What an element shows.

    Args:
        tag: its name, without namespace.
        attributes: in the order of the dump, with names as lxml writes them.
        text: what stands in it before its first child.
        system: ubuntu, windows or macos.
    """
    return (_remembered if len(text) <= _LONGEST_REMEMBERED else _widget)(tag, attributes, text, system)


def _widget(tag: str, attributes: Attributes, text: str, system: str) -> Widget:
    found = _read(tag, attributes, text, system)
    left, top, right, bottom = found.box or (FARTHEST,) * 4
    place = (top, left, bottom, right, found.word, found.name)
    if not _is_shown(found, system):
        return Widget(None, None, found.name, place)
    return Widget(_node(found), found, found.name, place)


_remembered: Final = lru_cache(maxsize=1 << 15)(_widget)


def _is_shown(found: _Element, system: str) -> bool:
    if found.nowhere:
        return False
    if system == "ubuntu":
        return found.states.get("showing", False) and found.states.get("visible", False)
    return found.states.get("visible", True)


def _window(found: _Element) -> Node:
    role = role_of(found.word)
    role = role if role in POPUPS or role == "dialog" else "window"
    return Node(role, found.name, states=states_of(role, found.word, found.states), bounds=found.box)


@lru_cache(maxsize=4096)
def kind_of(name: str) -> tuple[str, str]:
    """(kind, name) of an attribute as lxml writes it: (`state`, `showing`); the kind is empty without a namespace."""
    if not name.startswith("{"):
        return "", name
    uri, _, local = name[1:].partition("}")
    if found := SYSTEM.search(uri):
        return found[2], local
    if found := _DESKAT.fullmatch(uri):
        return found[1], local
    return "other", local


class _Element(NamedTuple):
    """What one element says, sorted by kind of attribute; `nowhere` if it has no area on the screen."""

    word: str
    name: str
    text: str
    states: dict[str, bool]
    value: str
    attributes: dict[str, str]
    clickable: bool
    box: Box | None
    nowhere: bool


def _read(tag: str, pairs: Attributes, content: str, system: str) -> _Element:
    name = value = ""
    states: dict[str, bool] = {}
    attributes: dict[str, str] = {}
    clickable = False
    placed: dict[str, str] = {}
    for key, text in pairs:
        kind, local = kind_of(key)
        if kind == "state":
            states[_state_word(local)] = text.lower() in ("true", "1")
        elif kind == "component":
            placed[local] = text.strip()
        elif kind == "value" and local in ("value", "AXValue"):
            value = text
        elif kind == "action":
            clickable = clickable or local.rpartition("_")[0].lower() in _CLICKS
        elif not kind and local == "name":
            name = text
        elif kind in ("attributes", "class", "role", "id", "other"):
            attributes.setdefault(local, text)
    box, nowhere = _box(_pair(placed.get("screencoord", "")), _pair(placed.get("size", "")))
    if system == "ubuntu":
        # AT-SPI lists the states that are set and no others.
        states["enabled"] = states.get("enabled", False) or states.get("sensitive", False)
        states.setdefault("editable", False)
    return _Element(
        word=_own_word(tag, attributes, system),
        name=clean(name or attributes.get("AXTitle", "") or attributes.get("AXDescription", "")),
        text=content.translate(_PLACEHOLDERS),
        states=states,
        value=value,
        attributes=attributes,
        clickable=clickable,
        box=box,
        nowhere=nowhere,
    )


@lru_cache(maxsize=1024)
def _state_word(local: str) -> str:
    short = local.removeprefix("AX")
    return {"keyboard_focused": "focused", "has_keyboard_focus": "focused"}.get(short, short).lower()


def _own_word(tag: str, attributes: dict[str, str], system: str) -> str:
    """The word that names the widget: the tag, or what says it better."""
    if system == "windows":
        # The tag is a class name of Win32, empty or arbitrary in newer toolkits.
        return attributes.get("friendly_class_name") or tag
    return attributes.get("AXRole") or tag


def clean(text: str) -> str:
    """The text without white space around it and without the placeholders of embedded widgets."""
    return text.translate(_PLACEHOLDERS).strip() if text else ""


def _pair(text: str) -> tuple[int, int] | None:
    found = _PAIR.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def _box(place: tuple[int, int] | None, size: tuple[int, int] | None) -> tuple[Box | None, bool]:
    """(box, whether the widget is nowhere): without area, off the screen's corner, or at no place."""
    if place is None or size is None:
        return None, False
    left, top, right, bottom = place[0], place[1], place[0] + size[0], place[1] + size[1]
    nowhere = size[0] <= 0 or size[1] <= 0 or right <= 0 or bottom <= 0
    if nowhere or max(map(abs, (left, top, right, bottom))) > FARTHEST:
        return None, True
    return (left, top, right, bottom), False


def _node(found: _Element) -> Node | None:
    """The node of a widget, or None if it only lays out others."""
    role = role_of(found.word)
    if found.word == "text" and not found.states.get("editable"):
        # AT-SPI's role `text` is any run of text; only an editable one is a field.
        role = "text"
    states = states_of(role, found.word, found.states)
    if found.word in ("password-text", "AXSecureTextField"):
        states = (*states, "password")
    name, value = found.name, ""
    number = _short_number(found.value) if role in MEASURING and found.value not in ("", "None") else ""
    text = found.text if role in HOLDING else found.text.strip()
    if role in HOLDING:
        value = text.rstrip() if role == "terminal" else text
        value = value or number or (found.value if role in ("textbox", "combobox") else "")
    elif not name:
        name, value = text, number
    else:
        value = text if text != name and text else number
    if role in ("group", "image", "text", "canvas") and found.clickable:
        states = (*states, "clickable")
    told = found.attributes
    second = clean(told.get("description", "") or told.get("placeholder-text", "") or told.get("AXHelp", ""))
    idents = [clean(told.get(key, "")) for key in _IDENTS]
    # A bare group says nothing but a box; what is in it says the rest.
    if role == "group" and not (name or value or set(states) - {"unchecked", "expanded"}):
        return None
    return Node(role, name, value, second if second != name else "", states, lasting(*idents), found.box)


def _short_number(text: str) -> str:
    """A number without the decimals that say nothing: `5` for `5.0`."""
    return text.partition(".")[0] if _NUMBER.fullmatch(text) else text
