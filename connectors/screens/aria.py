"""Roles, states, lasting ids and values of elements, derived from their tags and attributes.

Roles follow the W3C's HTML Accessibility API Mappings (HTML-AAM 1.0) in a shorter vocabulary; a `role` attribute
overrides the tag. Where HTML-AAM has no role, the kind of field is the role (`date`, `file`). Headings have their level
as role (`h2`). An element's children and its place in a document are not considered here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from trajmill.connectors.screens.element_ids import lasting
from trajmill.schemas.record import record

INLINE: Final = "inline"
"""Role of an element that only marks a run of text (`span`, `b`): no line; its text joins that around it."""

BLOCK: Final = "block"
"""Role of an element that only lays out its children (`div`, `p`): it has no line, and its text stands apart."""

GONE: Final = "gone"
"""Role of an element that is never shown (`script`, `template`)."""

ID_ATTRIBUTES: Final = ("id", "data-testid", "data-test-id", "data-test", "data-qa", "name")
"""Attributes that may contain a lasting id, in order of precedence.

Only attributes that this module names are read, so nonces, tokens and generated classes never get into a tree.
"""

_IDENTS: Final = frozenset(ID_ATTRIBUTES)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BY_TAG: Final = {
    "address": "group",
    "article": "article",
    "aside": "complementary",
    "audio": "audio",
    "blockquote": "blockquote",
    "button": "button",
    "canvas": "canvas",
    "dd": "definition",
    "details": "group",
    "dialog": "dialog",
    "dt": "term",
    "embed": "embed",
    "fieldset": "group",
    "figure": "figure",
    "footer": "contentinfo",
    "form": "form",
    "frame": "iframe",
    "h1": "h1",
    "h2": "h2",
    "h3": "h3",
    "h4": "h4",
    "h5": "h5",
    "h6": "h6",
    "header": "banner",
    "hr": "separator",
    "iframe": "iframe",
    "img": "image",
    "li": "listitem",
    "main": "main",
    "math": "math",
    "menu": "list",
    "meter": "meter",
    "nav": "navigation",
    "object": "object",
    "ol": "list",
    "optgroup": "group",
    "option": "option",
    "output": "status",
    "progress": "progressbar",
    "search": "search",
    "section": "region",
    "summary": "button",
    "svg": "image",
    "table": "table",
    "tbody": "rowgroup",
    "td": "cell",
    "textarea": "textbox",
    "tfoot": "rowgroup",
    "th": "columnheader",
    "thead": "rowgroup",
    "tr": "row",
    "ul": "list",
    "video": "video",
}
_GONE: Final = _words(
    "#comment base col colgroup command datalist head link meta noembed noframes noscript param script source style "
    "template title track "
    # Of a drawing.
    "clippath defs desc lineargradient marker mask metadata pattern radialgradient symbol"
)
_BLOCKS: Final = _words(
    "#document body caption center dir div dl fieldset figcaption foreignobject hgroup html legend p picture pre text"
)
_FIELDS: Final = {
    "button": "button",
    "checkbox": "checkbox",
    "color": "color",
    "date": "date",
    "datetime-local": "datetime",
    "file": "file",
    "hidden": GONE,
    "image": "button",
    "month": "month",
    "number": "spinbutton",
    "radio": "radio",
    "range": "slider",
    "reset": "button",
    "search": "searchbox",
    "submit": "button",
    "time": "time",
    "week": "week",
}
_ARIA: Final = _words(
    "alert alertdialog application article banner blockquote button cell checkbox columnheader combobox complementary "
    "contentinfo definition dialog feed figure form grid gridcell group heading image img link list listbox listitem "
    "log main marquee math menu menubar menuitem menuitemcheckbox menuitemradio meter navigation note option "
    "progressbar radio radiogroup region row rowgroup rowheader scrollbar search searchbox separator slider spinbutton "
    "status switch tab table tablist tabpanel term textbox timer toolbar tooltip tree treegrid treeitem"
)
_NO_ROLE: Final = _words("none presentation generic paragraph text caption code emphasis strong time mark document")
_RENAMED: Final = {"img": "image", "gridcell": "cell"}

NAMED_BY_CONTENT: Final = _words(
    "button link h1 h2 h3 h4 h5 h6 option tab menuitem menuitemcheckbox menuitemradio radio checkbox switch treeitem "
    "tooltip"
)
"""Roles whose name is the text in them; actable elements within them still have lines of their own."""

FIELDS: Final = _words(
    "textbox searchbox combobox listbox slider spinbutton color date datetime file month time week checkbox radio "
    "switch"
)
"""Roles of elements that a person fills in or chooses."""

ACTABLE: Final = FIELDS | _words(
    "button link option tab menuitem menuitemcheckbox menuitemradio treeitem scrollbar iframe"
)
"""Roles that can be acted on."""

LANDMARKS: Final = frozenset({"banner", "contentinfo"})
"""Roles that `header` and `footer` have only if they belong to the page and not to a section of it."""


@lru_cache(maxsize=8192)
def _role_of_attribute(stated: str, level: str) -> str | None:
    """Return the role in a `role` attribute, its first known word; None if it has none."""
    for word in stated.lower().split():
        if word in _NO_ROLE:
            return INLINE if word in ("code", "emphasis", "strong", "time", "mark") else BLOCK
        if word == "heading":
            return f"h{level}" if level in ("1", "2", "3", "4", "5", "6") else "h2"
        if word in _ARIA:
            return _RENAMED.get(word, word)
    return None


_SPEAKING: Final = frozenset(
    {"type", "list", "href", "multiple", "size", "scope", "role", "contenteditable", "alt", "aria-label", "aria-level"}
)
"""Attributes on which a role may depend."""

_ACTED_ON: Final = frozenset({"onclick", "tabindex"})

_STATING: Final = _ACTED_ON | _words(
    "selected open playing checked indeterminate multiple required readonly type aria-selected aria-expanded "
    "aria-pressed aria-busy aria-invalid aria-current aria-checked aria-required aria-readonly aria-disabled"
)
_NAMING: Final = frozenset({"aria-labelledby", "aria-label"})
_HINTING: Final = frozenset({"title", "aria-describedby", "placeholder", "aria-placeholder"})
_VALUING: Final = frozenset({"aria-valuetext", "aria-valuenow"})
_LABELED: Final = _words("input select textarea")
_NAMED: Final = _LABELED | _words("meter progress output svg fieldset table figure")
"""Elements that a label or a caption can name."""
_NAMED_BY: Final = {"img": "alt", "area": "alt", "option": "label", "optgroup": "label"}
"""Elements with an attribute that names them."""
_VALUED: Final = _words("input textarea meter progress")
_BY_VALUE: Final = _words("input select th img")
"""Elements whose role may depend on values of attributes other than `role` and `contenteditable`."""


@record
class Reading:
    """Properties of an element that follow from its tag and the names of its attributes, without any value.

    Attributes:
        role: Role, as in `role_of`; None if it depends on values.
        is_acted_on: True if the element may listen to clicks or take the focus.
        is_stated: True if it may have states (`states_of`) that roles other than those in `CHECKED` have.
        is_named: True if it may be named other than by the text in it.
        is_valued: True if it may have a value that does not follow from its role.
        is_hinted: True if it may have a title, a placeholder or a description elsewhere.
        has_ident: True if it may have a lasting id.
    """

    role: str | None
    is_acted_on: bool
    is_stated: bool
    is_named: bool
    is_valued: bool
    is_hinted: bool
    has_ident: bool


@lru_cache(maxsize=16384)
def reading(tag: str, *names: str) -> Reading:
    """Return the properties that follow from the tag and the names of the attributes.

    The result is cached, since a page has hundreds of equal combinations.
    """
    given_names = frozenset(names)
    by_value = (
        "role" in given_names
        or "contenteditable" in given_names
        or (tag in _BY_VALUE and not _SPEAKING.isdisjoint(given_names))
    )
    return Reading(
        role=None if by_value else role_of(tag, dict.fromkeys(names, "")),
        is_acted_on=not _ACTED_ON.isdisjoint(given_names),
        is_stated=not _STATING.isdisjoint(given_names),
        is_named=tag in (_NAMED if names else _LABELED)
        or _NAMED_BY.get(tag) in given_names
        or not _NAMING.isdisjoint(given_names),
        is_valued=tag in _VALUED or not _VALUING.isdisjoint(given_names),
        is_hinted=not _HINTING.isdisjoint(given_names),
        has_ident=not _IDENTS.isdisjoint(given_names),
    )


def role_of(tag: str, attributes: Mapping[str, str]) -> str:
    """Return the role of an element; `INLINE` or `BLOCK` for a wrapper, `GONE` for an element that is never shown.

    Args:
        tag: Tag in lower case.
        attributes: Attributes by name in lower case; one without a value has the value `""`.
    """
    if tag in _GONE:
        return GONE
    if tag == "input":
        native = _FIELDS.get(attributes.get("type", "").lower(), "combobox" if "list" in attributes else "textbox")
        if native == GONE:
            return GONE
    elif tag in ("a", "area"):
        native = "link" if "href" in attributes or "onclick" in attributes else INLINE
    elif tag == "select":
        size = attributes.get("size", "")
        native = "listbox" if "multiple" in attributes or (size.isdecimal() and int(size[:9]) > 1) else "combobox"
    else:
        native = _BY_TAG.get(tag) or (BLOCK if tag in _BLOCKS else INLINE)
        if tag == "th" and attributes.get("scope", "").lower() in ("row", "rowgroup"):
            native = "rowheader"
    stated = attributes.get("role")
    if stated:
        role = _role_of_attribute(stated, attributes.get("aria-level", ""))
        if role is not None and not (role in (INLINE, BLOCK) and native in ACTABLE):
            return role
    if native in (INLINE, BLOCK) and _is_edited(attributes):
        return "textbox"
    if tag == "img" and attributes.get("alt") == "" and "aria-label" not in attributes:
        return GONE
    return native


def _is_edited(attributes: Mapping[str, str]) -> bool:
    editable = attributes.get("contenteditable")
    return editable is not None and editable.lower() != "false"


_TOLD_STATES: Final = (
    ("aria-selected", {"true": "selected"}),
    ("aria-expanded", {"true": "expanded", "false": "collapsed"}),
    ("aria-pressed", {"true": "pressed", "mixed": "pressed_partly"}),
    ("aria-busy", {"true": "busy"}),
    ("aria-invalid", {"true": "invalid", "grammar": "invalid", "spelling": "invalid"}),
)
_STATED: Final = frozenset(name for name, _ in _TOLD_STATES) | {"selected", "aria-current", "open", "playing"}
CHECKED: Final = frozenset({"checkbox", "radio", "switch", "menuitemcheckbox", "menuitemradio"})
"""Roles that are always either checked or not."""


def states_of(tag: str, attributes: Mapping[str, str], role: str, disabled: bool, focused: bool) -> tuple[str, ...]:
    """Return the states of an element that are set, in a fixed order.

    Args:
        tag: Tag in lower case.
        disabled: True if the element or the fieldset around it is disabled.
        focused: True if it has the focus.

    A checkbox, radio button or switch is `checked` or `unchecked`. `clickable` and `focusable` are stated only if they
    do not follow from the role.
    """
    states = []
    if role not in ACTABLE:
        if "onclick" in attributes:
            states.append("clickable")
        elif attributes.get("tabindex", "-")[:1].isdecimal():
            states.append("focusable")
    if focused:
        states.append("focused")
    if role in CHECKED:
        states.append(_check_state(tag, attributes))
    if not _STATED.isdisjoint(attributes):
        states.extend(_states_of_attributes(tag, attributes))
    if role in FIELDS:
        states.extend(_field_states(tag, attributes))
    if disabled or attributes.get("aria-disabled", "").lower() == "true":
        states.append("disabled")
    return tuple(dict.fromkeys(states)) if states else ()


def _states_of_attributes(tag: str, attributes: Mapping[str, str]) -> list[str]:
    states: list[str] = []
    if "selected" in attributes and tag == "option":
        states.append("selected")
    for name, words in _TOLD_STATES:
        value = attributes.get(name)
        if value is not None and (word := words.get(value.lower())):
            states.append(word)
    if attributes.get("aria-current", "false").lower() not in ("false", ""):
        states.append("current")
    if "open" in attributes and tag == "dialog":
        states.append("open")
    if "playing" in attributes and tag in ("audio", "video"):
        states.append("playing")
    return states


def _check_state(tag: str, attributes: Mapping[str, str]) -> str:
    stated = attributes.get("aria-checked", "").lower()
    if stated == "mixed" or "indeterminate" in attributes:
        return "mixed"
    is_checked = "checked" in attributes if tag == "input" else stated == "true"
    return "checked" if is_checked else "unchecked"


def _field_states(tag: str, attributes: Mapping[str, str]) -> list[str]:
    states = []
    if tag == "input" and attributes.get("type", "").lower() == "password":
        states.append("password")
    if "multiple" in attributes:
        states.append("multiple")
    if "required" in attributes or attributes.get("aria-required", "").lower() == "true":
        states.append("required")
    if "readonly" in attributes or attributes.get("aria-readonly", "").lower() == "true":
        states.append("readonly")
    return states


def ident_of(attributes: Mapping[str, str]) -> str:
    """Return the lasting id of an element, the first of `ID_ATTRIBUTES` that is not generated; "" if it has none."""
    if _IDENTS.isdisjoint(attributes):
        return ""
    return lasting(*map(attributes.get, ID_ATTRIBUTES))
