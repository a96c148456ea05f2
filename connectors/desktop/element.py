"""Elements of an accessibility dump as nodes of the compact tree: their roles, texts, states and boxes.

`atspi` describes the dialect. Elements recur from screen to screen, so nodes are cached, here or in `dump_xml`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from trajmill.connectors.desktop.widgets import HOLDING, MEASURING, POPUPS, role_of, states_of
from trajmill.connectors.screens.element_ids import lasting
from trajmill.connectors.screens.tree import Box, Node

SYSTEM: Final = re.compile(r"//accessibility\.(ubuntu|windows|macos)\.example\.org/ns/([a-z/]+)")
"""Pattern of a namespace that names its system and the kind of its content."""

_DESKAT: Final = re.compile(r"uri:deskat:([a-z.]+?)\.at-spi\.gnome\.org")
_PAIR: Final = r"\(\s*(-?[0-9]{1,10})(?:\.[0-9]*)?\s*,\s*(-?[0-9]{1,10})(?:\.[0-9]*)?\s*\)"
_PAIRS: Final = re.compile(rf"{_PAIR}\|{_PAIR}")
_PLACEHOLDERS: Final = {0xFFFC: None, 0xFFFD: None}
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}\.0*")
_CLICKS: Final = frozenset({"click", "press", "activate", "jump", "toggle", "open", "select"})
_LONGEST_REMEMBERED: Final = 1 << 12
_IDENTS: Final = ("id", "automation_id", "AXDOMIdentifier")
_SET: Final = frozenset({"true", "1"})
_SECRET: Final = frozenset({"password-text", "AXSecureTextField"})
_NO_ATTRIBUTES: Final[dict[str, str]] = {}

FARTHEST: Final = 10**6
"""Bound on coordinates; those beyond it mark widgets without a position (AT-SPI gives -2147483648)."""
_NOWHERE: Final = (FARTHEST, FARTHEST, FARTHEST, FARTHEST)

Names: TypeAlias = tuple[str, ...]


class Widget(NamedTuple):
    """An element as far as a tree shows it.

    Attributes:
        node: its line; None if it is not shown, or only lays out others.
        place: a key that sorts siblings from top to bottom and left to right, those without a position last; it ends
            with the widget's word and its name.
        stated: its states; None if it is not shown.
        box: its box, if the dump states it.
    """

    node: Node | None
    place: tuple[int, int, int, int, str, str]
    stated: _Stated | None
    box: Box | None

    @property
    def name(self) -> str:
        """Label of the widget, shown or not."""
        return self.place[5]

    @property
    def window(self) -> Node | None:
        """Its line as a window; None if it is not shown."""
        if self.stated is None:
            return None
        word, name = self.place[4:]
        role = role_of(word)
        role = role if role in POPUPS or role == "dialog" else "window"
        return Node(role, name, states=states_of(role, word, self.stated.states), bounds=self.box)


def widget(tag: str, names: Names, values: Names, text: str, system: str) -> Widget:
    """Read the widget of an element.

    Args:
        tag: its name, without namespace.
        names: names of its attributes in the order of the dump, as lxml writes them.
        values: values of its attributes.
        text: its text before the first child.
        system: ubuntu, windows or macos.
    """
    states, places, named, valued, point, size, other_names, clickable = _layout(names)
    attributes = {name: values[index] for name, index in other_names} if other_names else _NO_ATTRIBUTES
    word = _own_word(tag, attributes, system) if other_names else tag
    stated = _read_states(word, states, tuple([values[index].lower() in _SET for index in places]), system)
    name = values[named] if named is not None else ""
    if not name and other_names:
        name = attributes.get("AXTitle", "") or attributes.get("AXDescription", "")
    name = clean(name)
    box, nowhere = None, False
    if point is not None and size is not None:
        box, nowhere = _box(values[point].strip(), values[size].strip())
    left, top, right, bottom = box or _NOWHERE
    index = (top, left, bottom, right, word, name)
    if nowhere or not stated.is_shown:
        return Widget(None, index, None, None)
    node = _node(name, text, stated, values[valued] if valued is not None else "", attributes, clickable, box)
    return Widget(node, index, stated, box)


_remembering: Final = lru_cache(maxsize=1 << 15)(widget)


def cached_widget(tag: str, names: Names, values: Names, text: str, system: str) -> Widget:
    """Return the result of `widget`, cached unless the text is long."""
    return (_remembering if len(text) <= _LONGEST_REMEMBERED else widget)(tag, names, values, text, system)


@lru_cache(maxsize=4096)
def kind_of(name: str) -> tuple[str, str]:
    """Return (kind, name) of an attribute as lxml writes it: (`state`, `showing`); the kind may be empty."""
    if not name.startswith("{"):
        return "", name
    uri, _, local = name[1:].partition("}")
    if match := SYSTEM.search(uri):
        return match[2], local
    if match := _DESKAT.fullmatch(uri):
        return match[1], local
    return "other", local


class _Stated(NamedTuple):
    """States of an element: all of them, its role, the states in its line, and whether it is shown at all."""

    states: dict[str, bool]
    role: str
    told: tuple[str, ...]
    is_shown: bool


class _Layout(NamedTuple):
    """Index of the attribute that holds each value of an element; the last of several counts, in `others` the first.

    Attributes:
        state_places: indices of their values.
        others: names and indices of the other attributes.
        clickable: whether one of its actions is a click.
    """

    states: tuple[str, ...]
    state_places: tuple[int, ...]
    name: int | None
    value: int | None
    point: int | None
    size: int | None
    others: tuple[tuple[str, int], ...]
    clickable: bool


@lru_cache(maxsize=4096)
def _layout(names: tuple[str, ...]) -> _Layout:
    states: list[tuple[str, int]] = []
    other_indices: dict[str, int] = {}
    places: dict[str, int] = {}
    boxes: dict[str, int] = {}
    clickable = False
    for index, (kind, local) in enumerate(map(kind_of, names)):
        if kind == "state":
            states.append((_state_word(local), index))
        elif kind == "component":
            boxes[local] = index
        elif kind == "value" and local in ("value", "AXValue"):
            places["value"] = index
        elif kind == "action":
            clickable = clickable or local.rpartition("_")[0].lower() in _CLICKS
        elif not kind and local == "name":
            places["name"] = index
        elif kind in ("attributes", "class", "role", "id", "other"):
            other_indices.setdefault(local, index)
    return _Layout(
        tuple(word for word, _ in states),
        tuple(index for _, index in states),
        places.get("name"),
        places.get("value"),
        boxes.get("screencoord"),
        boxes.get("size"),
        tuple(other_indices.items()),
        clickable,
    )


@lru_cache(maxsize=4096)
def _read_states(word: str, names: tuple[str, ...], flags: tuple[bool, ...], system: str) -> _Stated:
    states = dict(zip(names, flags, strict=True))
    if system == "ubuntu":
        # AT-SPI lists only the states that are set.
        states["enabled"] = states.get("enabled", False) or states.get("sensitive", False)
        states.setdefault("editable", False)
        is_shown = states.get("showing", False) and states.get("visible", False)
    else:
        is_shown = states.get("visible", True)
    # AT-SPI's role `text` is any run of text; only an editable one is a field.
    role = "text" if word == "text" and not states.get("editable") else role_of(word)
    words = states_of(role, word, states)
    return _Stated(states, role, (*words, "password") if word in _SECRET else words, is_shown)


@lru_cache(maxsize=1024)
def _state_word(local: str) -> str:
    short = local.removeprefix("AX")
    return {"keyboard_focused": "focused", "has_keyboard_focus": "focused"}.get(short, short).lower()


def _own_word(tag: str, attributes: dict[str, str], system: str) -> str:
    """Return the toolkit's word for the widget: the tag, or a more exact attribute."""
    if system == "windows":
        # The tag is a class name of Win32, which is empty or arbitrary in newer toolkits.
        return attributes.get("friendly_class_name") or tag
    return attributes.get("AXRole") or tag


def clean(text: str) -> str:
    """Strip white space around the text and remove the placeholders of embedded widgets."""
    return text.strip() if text.isascii() else text.translate(_PLACEHOLDERS).strip()


def _box(point: str, size: str) -> tuple[Box | None, bool]:
    """Return (box, whether there is no valid position: without area, left of or above the screen, or too far)."""
    match = _PAIRS.fullmatch(f"{point}|{size}")
    if match is None:
        return None, False
    left, top, width, height = map(int, match.groups())
    right, bottom = left + width, top + height
    if width <= 0 or height <= 0 or right <= 0 or bottom <= 0:
        return None, True
    if right > FARTHEST or bottom > FARTHEST or left < -FARTHEST or top < -FARTHEST:
        return None, True
    return (left, top, right, bottom), False


def _node(
    name: str, text: str, stated: _Stated, number: str, attributes: Mapping[str, str], clickable: bool, box: Box | None
) -> Node | None:
    """Return the node of a widget; None if it only lays out others."""
    _, role, states, _ = stated
    value = ""
    if text:
        text = text if text.isascii() else text.translate(_PLACEHOLDERS)
        text = text if role in HOLDING else text.strip()
    measured = _short_number(number) if role in MEASURING and number not in ("", "None") else ""
    if role in HOLDING:
        value = text.rstrip() if role == "terminal" else text
        value = value or measured or (number if role in ("textbox", "combobox") else "")
    elif not name:
        name, value = text, measured
    else:
        value = text if text != name and text else measured
    if clickable and role in ("group", "image", "text", "canvas"):
        states = (*states, "clickable")
    second = ident = ""
    if attributes:
        second = clean(
            attributes.get("description", "") or attributes.get("placeholder-text", "") or attributes.get("AXHelp", "")
        )
        ident = lasting(*[clean(attributes.get(key, "")) for key in _IDENTS])
    # A group without a name or state would only add a box; its children have lines of their own.
    if role == "group" and not (name or value or set(states) - {"unchecked", "expanded"}):
        return None
    return Node(role, name, value, second if second != name else "", states, ident, box)


def _short_number(text: str) -> str:
    """Shorten a number whose decimals are zero: `5` for `5.0`."""
    return text.partition(".")[0] if _NUMBER.fullmatch(text) else text
