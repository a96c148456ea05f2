"""Names, values and descriptions of elements from attributes, labels and captions.

They follow the W3C's Accessible Name and Description Computation 1.2 in a simpler form. `page_lines` sets the names
that elements take from the text in them, once that text is known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from trajmill.connectors.screens import aria
from trajmill.connectors.screens.dom import DomNode, Scope, collapse_space, text_of, text_with_spaces

MAX_HREF: Final = 100
"""Largest length of an address of a link or frame; longer ones, mostly a session's state, are left out."""

CAPTIONS: Final = {"fieldset": "legend", "table": "caption", "figure": "figcaption", "svg": "title"}
"""Elements that a child names, with the tag of the child."""

_ORIGIN: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#]+")
_NOWHERE: Final = re.compile(r"(?:javascript|data|blob|about|cid):", re.IGNORECASE)
_LABELED: Final = frozenset({"input", "select", "textarea", "meter", "progress", "output"})
_TEXT_VALUE: Final = frozenset(
    {"textbox", "searchbox", "spinbutton", "slider", "color", "date", "datetime"}
) | frozenset({"file", "month", "time", "week"})
_BUTTON_INPUTS: Final = {"submit": "Submit", "reset": "Reset", "button": "", "image": "Submit"}
_NO_LABEL_TEXT: Final = frozenset({"select", "textarea", "button", "script", "style", "template", "noscript", "option"})


class Names:
    """Names of the elements of one page. `captions` are the elements whose text became the name of another.

    Args:
        url: Address of the page.
        hidden: Nodes that are not shown, which name nothing.
    """

    def __init__(self, url: str, hidden: Collection[DomNode]) -> None:
        self.captions: set[DomNode] = set()
        self._hidden = hidden
        self._url = url.partition("#")[0]
        origin = _ORIGIN.match(url)
        self._origin = origin[0] if origin else ""

    def name(self, node: DomNode, role: str, scope: Scope, label: DomNode | None) -> str:
        """Return the name of an element by its attributes, its label or its caption; "" if it has none.

        Args:
            scope: Lookup of elements by their ids.
            label: Label around the element, if there is one.
        """
        attributes = node.attributes
        name = texts_by_id(scope, attributes.get("aria-labelledby")) or collapse_space(attributes.get("aria-label", ""))
        if name:
            return name
        tag = node.tag
        if tag == "input" and role == "button":
            kind = attributes.get("type", "").lower()
            alt = attributes.get("alt") if kind == "image" else None
            return collapse_space(alt or attributes.get("value", _BUTTON_INPUTS.get(kind, "")))
        if tag in _LABELED:
            own = scope.label(attributes["id"]) if "id" in attributes else None
            label = own or label
            return text_with_spaces(label, _NO_LABEL_TEXT, self._hidden) if label is not None else ""
        if tag in ("img", "area"):
            return collapse_space(attributes.get("alt", ""))
        if tag in ("option", "optgroup"):
            return collapse_space(attributes.get("label", ""))
        wanted = CAPTIONS.get(tag)
        caption = next((child for child in node.children if child.tag == wanted), None) if wanted else None
        if caption is None:
            return ""
        self.captions.add(caption)
        return text_with_spaces(caption, hidden=self._hidden)

    def address(self, href: str) -> str:
        """Return the address of a link or frame without the page's own origin; "" if it is long or leads nowhere."""
        href = href.strip()
        if self._origin and href.startswith(self._origin):
            rest = href[len(self._url) :] if href.startswith(self._url + "#") else href[len(self._origin) :]
            href = rest if rest[:1] in ("/", "#", "?") else href
        if len(href) > MAX_HREF or href == "#" or (":" in href and _NOWHERE.match(href)):
            return ""
        return href


def value_of(node: DomNode, role: str) -> str:
    """Return the value of a field according to its attributes."""
    tag, attributes = node.tag, node.attributes
    value = attributes.get("aria-valuetext") or attributes.get("aria-valuenow")
    if value is None and (tag in ("meter", "progress") or (tag == "input" and role in _TEXT_VALUE)):
        value = attributes.get("value")
    if value is None and tag == "textarea":
        value = attributes.get("value", text_of(node))
    return value or ""


def is_password(attributes: Mapping[str, str]) -> bool:
    """Check whether an input is a password field."""
    return attributes.get("type", "").lower() == "password"


def mask(value: str) -> str:
    """Return the text that a password field shows for its value."""
    return "•" * min(len(value), 32)


def name_and_description(
    name: str, attributes: Mapping[str, str], role: str, fillable: bool, scope: Scope
) -> tuple[str, str]:
    """Return (name, description) of an element, completed from its title, placeholder and description elsewhere.

    Args:
        name: Result of `Names.name`.
        fillable: True for a field or a button, which may have a placeholder.
        scope: Lookup of elements by their ids.
    """
    title = collapse_space(attributes.get("title", ""))
    described = texts_by_id(scope, attributes.get("aria-describedby"))
    if not name and role not in aria.NAMED_BY_CONTENT:
        name, title = title, ""
    hint = collapse_space(attributes.get("placeholder", attributes.get("aria-placeholder", ""))) if fillable else ""
    if not name:
        name, hint = hint, ""
    return name, next((text for text in (described, title, hint) if text and text.lower() != name.lower()), "")


def texts_by_id(scope: Scope, idents: str | None) -> str:
    """Return the texts of the elements with these ids, joined by spaces."""
    if not idents:
        return ""
    elements = [scope.element(ident) for ident in idents.split()]
    return collapse_space(" ".join([_naming_text(node) for node in elements if node is not None]))


def _naming_text(node: DomNode) -> str:
    attributes = node.attributes
    return attributes.get("aria-label") or attributes.get("alt") or text_with_spaces(node, _NO_LABEL_TEXT)
