"""HTML text as a tree of DOM nodes, built as a browser builds it (the WHATWG's parsing algorithm, by Lexbor).

Nothing in a document is run or fetched. Documents whose parsing would take quadratic time or memory are refused before
they are parsed: those with thousands of open elements, or with dozens of formatting elements that every paragraph
reopens.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from typing import Any, Final
from urllib.parse import urldefrag, urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode

from trajmill.connectors.screens.dom import MAX_LEVELS, DomNode, Texts
from trajmill.connectors.screens.names import is_password, mask
from trajmill.connectors.screens.tree import MAX_TAGS
from trajmill.schemas import Observation


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHORT: Final = 2000
"""Documents with fewer tags are parsed without a check of their nesting."""
_LONGEST: Final = 16 << 20
"""Longest page in characters. Each word takes about fifty bytes of memory."""
_MAX_FORMATS: Final = 100
_TAG: Final = re.compile(r"</?[a-zA-Z][a-zA-Z0-9-]{0,40}")
_VOID: Final = _words("area base br col embed hr img input link meta param source track wbr")
_CLOSED_BY_OTHERS: Final = _words(
    "li p td th tr dt dd option optgroup thead tbody tfoot caption colgroup html head body rt rp svg path g use"
)
"""Elements whose end tag may be omitted, or that close themselves. They nest only with another element between."""
_FORMATS: Final = _words("a b big code em font i nobr s small strike strong tt u")


def html_document(text: str, srcdoc: int = 2) -> DomNode:
    """Parse HTML text to a document.

    Args:
        text: the decoded text.
        srcdoc: number of levels of `iframe srcdoc` documents that are parsed too.

    Raises:
        ValueError: the text nests too deeply, or is too large, to be a page.
    """
    if len(text) > _LONGEST or text.count("<") > MAX_TAGS:
        raise ValueError(f"more than {MAX_TAGS} tags, or {_LONGEST} characters")
    if text.count("<") > _SHORT:
        _check_nesting(text)
    # A lone surrogate cannot be encoded in UTF-8, which the parser reads.
    root = html_root(text.encode("utf-8", "replace"))
    document = DomNode("#document")
    if root is not None:
        # Siblings of the root are a doctype or comments.
        document.children.append(_element(root))
        _fill(document.children[0], root, srcdoc)
    return document


def html_root(data: bytes) -> LexborNode | None:
    """Return the root element of HTML in UTF-8, parsed as if scripts ran; None if there is none."""
    return LexborHTMLParser(data, scripting=True).root


def _check_nesting(text: str) -> None:
    opened: dict[str, int] = {}
    depth = formats = 0
    for mark in _TAG.findall(text):
        known = _nesting(mark)
        if known is None:
            continue
        tag, is_format, change = known
        count = opened.get(tag, 0)
        if not count and change < 0:
            continue
        opened[tag] = count + change
        depth += change
        if is_format:
            formats += change
            if formats > _MAX_FORMATS:
                raise ValueError(f"more than {_MAX_FORMATS} open elements")
        if depth > 4 * MAX_LEVELS:
            raise ValueError(f"more than {4 * MAX_LEVELS} open elements")


@lru_cache(maxsize=4096)
def _nesting(mark: str) -> tuple[str, bool, int] | None:
    """Return (tag, whether it is a formatting element, 1 or -1) of the beginning of a tag; None if it never nests."""
    tag = mark.lstrip("</").lower()
    if tag in _VOID or tag in _CLOSED_BY_OTHERS:
        return None
    return tag, tag in _FORMATS, -1 if mark[1] == "/" else 1


def _element(node: LexborNode) -> DomNode:
    attributes = node.attributes
    named: Any = (
        {name: value or "" for name, value in attributes.items()} if None in attributes.values() else attributes
    )
    return DomNode(node.tag or "", named, "", [])


def _fill(top: DomNode, root: LexborNode, srcdoc: int) -> None:
    """Append all content of a source node to a DOM node."""
    texts = Texts()
    stack = [(top, root)]
    while stack:
        parent, source = stack.pop()
        add = parent.children.append
        child = source.first_child
        while child is not None:
            if child.is_text_node:
                add(texts.node(child.text_content or ""))
            elif child.is_element_node:
                element = _element(child)
                tag = element.tag
                if tag == "template":
                    _fill_template(parent, element, child, srcdoc)
                else:
                    add(element)
                    stack.append((element, child))
                    if tag == "iframe" and "srcdoc" in element.attributes and srcdoc > 0:
                        element.frame = html_document(element.attributes["srcdoc"], srcdoc - 1)
            child = child.next


def _fill_template(parent: DomNode, element: DomNode, source: LexborNode, srcdoc: int) -> None:
    """Attach a template that declares a shadow root to its parent; the content of any other template is not shown."""
    if "shadowrootmode" not in element.attributes or parent.shadow is not None:
        return
    for fragment in source.template_fragments()[:1]:
        holder = DomNode("#shadow")
        _fill(holder, fragment, srcdoc)
        parent.shadow = holder.children


def sheet_links(document: DomNode, url: str) -> list[tuple[DomNode, str]]:
    """Return the elements that link a style sheet, also in shadow roots, each with the sheet's address."""
    links: list[tuple[DomNode, str]] = []
    base = url
    stack = [document]
    while stack:
        node = stack.pop()
        attributes = node.attributes
        if node.tag == "base" and base == url:
            base = attributes.get("href") or url
        elif node.tag == "link" and "stylesheet" in attributes.get("rel", "").lower().split() and "href" in attributes:
            links.append((node, without_fragment(base, attributes["href"])))
        stack += [*(node.shadow or ()), *node.children][::-1]
    return links


def without_fragment(base: str, address: str) -> str:
    """Resolve an address against a base, without its fragment."""
    try:
        return urldefrag(urljoin(base, address)).url
    except ValueError:
        return address


def html_observation(document: DomNode | None, uri: str | None) -> Observation:
    """Return the HTML of a DOM as an observation, shadow roots as templates, frames as `srcdoc`; else empty.

    Scripts and style sheets are left out, and the content of password fields is masked, as it is on the screen.
    """
    masked: list[str] = []
    text = _html_text(document, masked)
    return Observation(text, "text/html", form="screen", uri=uri, sensitive=tuple(masked))


def _html_text(document: DomNode | None, masked: list[str]) -> str:
    parts: list[str] = []
    stack: list[DomNode | str] = [document] if document is not None else []
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            parts.append(node)
        elif node.tag == "#text":
            parts.append(escape(node.text, quote=False))
        elif node.tag == "#document":
            stack.extend(reversed(node.children))
        elif not node.tag.startswith("#") and node.tag not in ("script", "style", "noscript"):
            attributes = dict(node.attributes)
            if is_password(attributes) and attributes.get("value"):
                masked.append(attributes["value"])
                attributes["value"] = mask(attributes["value"])
            if node.frame is not None:
                attributes["srcdoc"] = _html_text(node.frame, masked)
            written_attributes = [
                f' {name}="{escape(value)}"' if value else f" {name}" for name, value in attributes.items()
            ]
            parts.append(f"<{node.tag}{''.join(written_attributes)}>")
            if node.tag not in _VOID:
                stack.append(f"</{node.tag}>")
                stack.extend(reversed(node.children))
                if node.shadow is not None:
                    stack.append("</template>")
                    stack.extend(reversed(node.shadow))
                    stack.append('<template shadowrootmode="open">')
    return "".join(parts)
