"""Actions of agents that drive a browser, translated from each agent's words to those of `connectors.web.action`.

`element` is the number or id by which the agent named an element. The observations of these logs are kept as the agent
saw them, so the same number or id occurs in their text. The word `search`, which queries a search engine, is added to
the vocabulary. Other words of an agent are kept with their arguments. The original arguments always stay in
`arguments`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.reading.json_text import bound_depth
from trajmill.connectors.web.action import (
    CLICK,
    EXTRACT,
    FILL,
    GO_BACK,
    GOTO,
    PRESS,
    SCROLL,
    SELECT_OPTION,
    TAB_CLOSE,
    TAB_NEW,
    TAB_SELECT,
    TYPE,
    UPLOAD,
)
from trajmill.schemas import COMPLETE, WAIT, Action, call_text, json_text

SEARCH: Final = "search"

_BROWSER_USE: Final = {
    "click": CLICK,
    "click_element": CLICK,
    "click_element_by_index": CLICK,
    "input": FILL,
    "input_text": FILL,
    "select_dropdown": SELECT_OPTION,
    "select_dropdown_option": SELECT_OPTION,
    "send_keys": PRESS,
    "scroll": SCROLL,
    "scroll_down": SCROLL,
    "scroll_up": SCROLL,
    "scroll_to_text": SCROLL,
    "find_text": SCROLL,
    "go_to_url": GOTO,
    "navigate": GOTO,
    "open_url": GOTO,
    "nav": GOTO,
    "go_back": GO_BACK,
    "search": SEARCH,
    "search_google": SEARCH,
    "open_tab": TAB_NEW,
    "open_new_tab": TAB_NEW,
    "switch": TAB_SELECT,
    "switch_tab": TAB_SELECT,
    "close": TAB_CLOSE,
    "close_tab": TAB_CLOSE,
    "upload_file": UPLOAD,
    "extract": EXTRACT,
    "extract_content": EXTRACT,
    "extract_page_content": EXTRACT,
    "extract_structured_data": EXTRACT,
    "dropdown_options": EXTRACT,
    "get_dropdown_options": EXTRACT,
    "wait": WAIT,
    "done": COMPLETE,
}
"""Action names of all versions of browser-use."""

_RENAMED: Final = {
    "index": "element",
    "frame_element_index": "element",
    "keys": "key",
    "page_id": "tab",
    "tab_id": "tab",
    "num_pages": "pages",
}


def call(
    name: str,
    common: Mapping[str, Any],
    original: Mapping[str, Any],
    reasoning: str | None = None,
    message: str | None = None,
) -> Action:
    """Build the action of that name.

    Args:
        name: a word of the vocabulary, or the agent's own word.
        common: arguments for the text; None values are left out.
        original: the agent's own arguments.
    """
    text = call_text(name, bound_depth({key: value for key, value in common.items() if value is not None}))
    return Action(name, text, json_text(bound_depth(dict(original))) if original else None, None, message, reasoning)


def of_browser_use(
    word: str, arguments: Mapping[str, Any], reasoning: str | None = None, target: str | None = None
) -> Action:
    """Build the action that browser-use calls `word`.

    Args:
        word: browser-use's name of the action.
        arguments: browser-use's arguments.
        target: description of the element, if the screen does not show the element's number.
    """
    name = _BROWSER_USE.get(word, word)
    if name == word and word not in _BROWSER_USE:
        return call(word, arguments, arguments, reasoning)
    common = {_RENAMED.get(key, key): value for key, value in arguments.items()}
    if name == FILL and common.pop("clear", True) is False:
        name = TYPE
    for key in ("text", "value") if name == SELECT_OPTION else ():
        if key in common:
            common["options"] = [common.pop(key)]
    if name == UPLOAD and "path" in common:
        common["files"] = [common.pop("path")]
    if name == SCROLL:
        down = common.pop("down", None)
        if word in ("scroll_down", "scroll_up"):
            down = word == "scroll_down"
        if isinstance(down, bool):
            common = {"direction": "down" if down else "up", **common}
    if target is not None and common.pop("element", None) is not None:
        common = {"target": target, **common}
        arguments = {**arguments, "target": target}
    return call(name, common, arguments, reasoning)
