"""Tags of a uiautomator dump, each a view or a container of views. `dump` combines them to a tree.

A tag is split at its double quotes, so that every second part is the value of an attribute. The text before each value
gives the attribute's name. Most tags of a dump have the same attributes in the same order, so the names are determined
only once (`_layout`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from trajmill.connectors.android.view import FLAGS, Touch, states_of, view_node
from trajmill.connectors.screens.tree import Box, Node

_CONTAINERS: Final = frozenset({"hierarchy", "displays", "display", "window"})
_TEXTS: Final = ("class", "text", "content-desc", "hint", "resource-id", "package", "bounds", "title")
_DEFAULTS: Final = {"enabled": "true", "visible-to-user": "true"}
_FIRST_FLAG: Final = len(_TEXTS)
_FIRST: Final = re.compile(r"([A-Za-z_][\w.$:-]*)\s+([\w.:-]+)\s*=\s*")
_NEXT: Final = re.compile(r"\s+([\w.:-]+)\s*=\s*")
_TAIL: Final = re.compile(r"\s*(/?)>")
_BARE: Final = re.compile(r"(/?)([A-Za-z_][\w.$:-]*)\s*(/?)>")
_QUOTED: Final = re.compile(r"""([\w.:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_BOUNDS: Final = re.compile(r"\[(-?[0-9]{1,7}),(-?[0-9]{1,7})\]\[(-?[0-9]{1,7}),(-?[0-9]{1,7})\]")
_REFERENCE: Final = re.compile(r"&(?:#([0-9]{1,10})|#[xX]([0-9A-Fa-f]{1,8})|(amp|lt|gt|quot|apos));")
_ENTITIES: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_CONTROLS: Final = dict.fromkeys(range(32), "\ufffd") | dict.fromkeys((9, 10, 13), " ")
_LONGEST_REQUOTED: Final = 1 << 14
LONGEST_REMEMBERED: Final = 1 << 12

_Layout: TypeAlias = tuple[Callable[[list[str]], tuple[str, ...]], str]
"""A function that picks the values of `_TEXTS`, then of `FLAGS`, from a tag split at its quotes; and the tag's name."""


Attributes: TypeAlias = tuple[str, str, Box | None, tuple[str, ...], str]
"""Attributes of an opening tag: name of the container (empty for a view), package, bounds, states and title."""

Tag: TypeAlias = tuple[int, Node | None, Touch | None, Attributes]
"""A parsed tag: its kind, the node of a view that is shown, how it can be touched, and its other attributes."""

VIEW, VIEW_ALONE, CLOSE, OPEN_CONTAINER, EMPTY_CONTAINER, CLOSE_CONTAINER, NOTHING = range(7)
SILENT: Final[Attributes] = ("", "", None, (), "")
CLOSE_TAG: Final[Tag] = (CLOSE, None, None, SILENT)


class BadTagError(Exception):
    """Error for a document that cannot be read further. `dump` catches it, so it does not leave the package."""


def read_tag(piece: str) -> Tag:
    """Parse the tag at the beginning of a piece of text, which reaches from behind a `<` to the next one.

    Raises:
        BadTagError: the piece is no tag.
    """
    parts = piece.split('"')
    if (len(parts) == 1 and "'" not in piece) or piece[0] in "?/":
        return _bare(piece)
    layout = _layout(tuple(parts[:-1:2])) if len(parts) % 2 and len(parts) > 1 else None
    if layout is None:
        return read_tag(_requote(piece))
    ends = _TAIL.match(parts[-1])
    if ends is None:
        raise BadTagError(f"a tag without an end: <{piece[:80]}")
    pick, name = layout
    parts += ("", "true", name)
    picked = pick(parts)
    if "&" in piece or not "".join(picked).isprintable():
        picked = tuple([_unescape(value) for value in picked])
    return _interpret_tag(name, picked[:_FIRST_FLAG], _flags(picked[_FIRST_FLAG:]), bool(ends[1]))


remembered_tag: Final = lru_cache(maxsize=1 << 14)(read_tag)
"""`read_tag` with a cache; tags longer than `LONGEST_REMEMBERED` must not be passed to it."""


def _bare(piece: str) -> Tag:
    """Parse a tag without attributes, a closing tag or the XML declaration."""
    if piece[:1] == "?" and ">" in piece:
        return NOTHING, None, None, SILENT
    match = _BARE.match(piece)
    if match is None or (match[1] and match[3]):
        raise BadTagError(f"wanted a tag, met <{piece[:80]}")
    if not match[1]:
        flags = _flags(tuple(_DEFAULTS.get(flag, "") for flag in FLAGS))
        return _interpret_tag(match[2], (match[2], *([""] * 7)), flags, bool(match[3]))
    if match[2] in _CONTAINERS:
        return CLOSE_CONTAINER, None, None, (match[2], "", None, (), "")
    return CLOSE_TAG


@lru_cache(maxsize=256)
def _layout(words: tuple[str, ...]) -> _Layout | None:
    """Return a picker of the wanted attributes from a tag split at its double quotes, and the tag's name; None if the
    words are not attribute names.

    Tags with the same attributes in the same order share a layout. The caller appends three parts to those of the tag:
    an empty one, `true` and the tag's name. They are picked for attributes that the tag does not have.

    Args:
        words: the part before each value: first the tag's name with the first attribute, then the other attributes.
    """
    first = _FIRST.fullmatch(words[0])
    names = [match[1] if (match := _NEXT.fullmatch(word)) else "" for word in words[1:]]
    if first is None or not all(names):
        return None
    places = {name: 2 * index + 1 for index, name in enumerate([first[2], *names])}
    if len(places) < len(words):
        raise BadTagError(f"<{first[1]}> has an attribute twice")
    if "displayed" in places:
        # Appium's page sources use this name.
        places.setdefault("visible-to-user", places["displayed"])
    absent = 2 * len(words) + 1
    fallback = {"class": absent + 2} | dict.fromkeys(_DEFAULTS, absent + 1)
    wanted = (*_TEXTS, *FLAGS)
    return itemgetter(*[places.get(name, fallback.get(name, absent)) for name in wanted]), first[1]


def _requote(piece: str) -> str:
    """Rewrite the tag with its attributes in double quotes.

    Raises:
        BadTagError: the piece is no tag with attributes, or has no single quotes.
    """
    name = re.match(r"[A-Za-z_][\w.$:-]*", piece)
    end = piece.rfind(">")
    if name is None or end < 0 or "'" not in piece or len(piece) > _LONGEST_REQUOTED:
        raise BadTagError(f"wanted a tag, met <{piece[:80]}")
    body = piece[name.end() : end]
    remainder = _QUOTED.sub("", body).strip()
    if remainder not in ("", "/"):
        raise BadTagError(f"wanted attributes, met {remainder[:80]}")
    pairs = [(match[1], (match[2] or match[3] or "").replace('"', "&quot;")) for match in _QUOTED.finditer(body)]
    return name[0] + "".join(f' {key}="{value}"' for key, value in pairs) + remainder + ">"


def _character(code: int) -> str:
    if code in (9, 10, 13) or 32 <= code <= 0x10FFFF:
        return chr(code)
    return "\ufffd"


def _resolve_reference(match: re.Match[str]) -> str:
    decimal, hexadecimal, entity = match.groups()
    if entity:
        return _ENTITIES[entity]
    return _character(int(decimal) if decimal else int(hexadecimal, 16))


def _unescape(value: str) -> str:
    """Unescape an attribute's value: normalize white space as in XML, resolve references, join surrogate pairs."""
    if not value.isprintable():
        value = value.translate(_CONTROLS)
    if "&" not in value:
        return value
    value = _REFERENCE.sub(_resolve_reference, value)
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _box(bounds: str) -> Box | None:
    match = _BOUNDS.fullmatch(bounds)
    if match is None:
        return None
    left, top, right, bottom = map(int, match.groups())
    return left, top, right, bottom


class _Flags(NamedTuple):
    states: tuple[str, ...]
    clickable: bool
    focusable: bool
    visible: bool


@cache
def _flags_of(flags: tuple[bool, ...]) -> _Flags:
    return _Flags(states_of(flags[:11]), flags[2], flags[4], flags[11])


@lru_cache(maxsize=1 << 12)
def _flags(words: tuple[str, ...]) -> _Flags:
    return _flags_of(tuple([word == "true" for word in words]))


def _interpret_tag(name: str, texts: tuple[str, ...], flags: _Flags, alone: bool) -> Tag:
    """Interpret an opening tag by its attributes in the order of `_TEXTS`; `alone`: the tag closes itself."""
    kind, text, description, hint, resource, package, bounds, title = texts
    box = _box(bounds)
    if name in _CONTAINERS:
        opens = EMPTY_CONTAINER if alone else OPEN_CONTAINER
        return opens, None, None, (name, package, box, flags.states, title)
    states, clickable, focusable, visible = flags
    node = view_node(kind, text, description, hint, resource, box, states) if visible else None
    touch = (box, clickable, focusable) if clickable or focusable else None
    return VIEW_ALONE if alone else VIEW, node, touch, ("", package, box, states, "")
