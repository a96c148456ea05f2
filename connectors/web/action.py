"""Browser actions in one vocabulary for all logs; targets are lines of the page's tree.

| name | what it does | arguments of its text |
|---|---|---|
| click, dblclick, right_click, hover, focus | points at an element | element, or x and y; button |
| fill | sets what a field holds | element, text; enter, where that key follows |
| type | types into what has the focus, or into an element | element, text |
| press | one key or chord | key, element |
| select_option | chooses in a list | element, options |
| check, uncheck | sets a checkbox or radio button | element |
| upload | gives files to a field | element, files |
| drag | drags an element, or from a point | element or from, onto or to |
| scroll | moves the view | element, direction, or x and y it was scrolled to |
| goto, go_back, go_forward, reload | goes to an address, or loads a page from its HTML | url or html |
| tab_new, tab_select, tab_close | tabs | url, tab |
| resize | the window's size | width, height |
| handle_dialog | answers an alert, confirm or prompt | accept, text |
| evaluate | runs a script | script |
| wait | lets time pass, or waits for something | seconds, until |
| extract, screenshot | only looks | what |
| http_request | asks a server, without a page or beside it | method, url, body |
| websocket_send | sends messages on an open web socket | messages |
| task_complete | the agent says it is done | |

`element` is the id of a line that occurs in the observation's text, never of any other line. Without it, `target`
describes the element as the log does (a selector, a label), or the text has the coordinates. For an action outside the
vocabulary, the log's own word is kept. The original arguments stay in `arguments`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.reading.own_arguments import own_arguments
from trajmill.connectors.screens.dom import DomNode
from trajmill.connectors.screens.page import Page
from trajmill.schemas import COMPLETE, WAIT, Action, call_text

CLICK: Final = "click"
DBLCLICK: Final = "dblclick"
RIGHT_CLICK: Final = "right_click"
HOVER: Final = "hover"
FOCUS: Final = "focus"
FILL: Final = "fill"
TYPE: Final = "type"
PRESS: Final = "press"
SELECT_OPTION: Final = "select_option"
CHECK: Final = "check"
UNCHECK: Final = "uncheck"
UPLOAD: Final = "upload"
DRAG: Final = "drag"
SCROLL: Final = "scroll"
GOTO: Final = "goto"
GO_BACK: Final = "go_back"
GO_FORWARD: Final = "go_forward"
RELOAD: Final = "reload"
TAB_NEW: Final = "tab_new"
TAB_SELECT: Final = "tab_select"
TAB_CLOSE: Final = "tab_close"
RESIZE: Final = "resize"
HANDLE_DIALOG: Final = "handle_dialog"
EVALUATE: Final = "evaluate"
EXTRACT: Final = "extract"
SCREENSHOT: Final = "screenshot"
HTTP_REQUEST: Final = "http_request"
WEBSOCKET_SEND: Final = "websocket_send"

VOCABULARY: Final = frozenset(
    {CLICK, DBLCLICK, RIGHT_CLICK, HOVER, FOCUS, FILL, TYPE, PRESS, SELECT_OPTION, CHECK, UNCHECK, UPLOAD, DRAG, SCROLL}
    | {GOTO, GO_BACK, GO_FORWARD, RELOAD, TAB_NEW, TAB_SELECT, TAB_CLOSE, RESIZE, HANDLE_DIALOG, EVALUATE, EXTRACT}
    | {SCREENSHOT, HTTP_REQUEST, WEBSOCKET_SEND, WAIT, COMPLETE}
)

MASK: Final = "••••••••"
"""Text that replaces the content of a password field in an action."""


def element_id(node: int) -> str:
    """Return a line's id as actions write it: `#12`."""
    return f"#{node}"


def line_of(page: Page | None, node: DomNode | None) -> int | None:
    """Return the id of the line for the DOM node; None if it is not shown, or if the page or node is unknown."""
    return page.ids.get(node) if page is not None and node is not None else None


def whole(value: float) -> int:
    """Round a coordinate to the nearest whole pixel."""
    if type(value) is int:
        return value
    return int(value // 1) if value % 1 < 0.5 else int(value // 1) + 1


def call(
    name: str,
    common: Mapping[str, Any],
    original: Mapping[str, Any],
    element: int | None = None,
    target: str | None = None,
    reasoning: str | None = None,
    message: str | None = None,
    call_id: str | None = None,
) -> Action:
    """Build the action of that name.

    Args:
        name: a word of `VOCABULARY`, or the log's own word.
        common: arguments for the text, except the element; None values are left out.
        original: the log's own arguments.
        element: the id of the line that the action targets, if known. It is part of the text and is added to the
            original arguments in `arguments`; an original argument named element is then called `target`.
        target: the log's description of the element, used in the text if no line is known.
    """
    target_arguments: dict[str, Any] = {}
    if element is not None:
        target_arguments = {"element": element_id(element)}
        if "element" in original:
            original = {"target": original["element"], **original}
        original = {**original, **target_arguments}
    elif target:
        target_arguments = {"target": target}
    text = call_text(name, {**target_arguments, **{key: value for key, value in common.items() if value is not None}})
    return Action(name, text, own_arguments(original), call_id, message, reasoning)
