"""Actions of agents that drive a browser, each agent's own words in the one vocabulary of the web.

| name | what it does | arguments of its text |
|---|---|---|
| click, hover | touches an element | element |
| input_text | types into a field | element, text |
| select | takes an option of a list | element, option |
| press | keys | key |
| scroll | moves the view | direction, element, amount or pages |
| scroll_to | moves the view to a text | text |
| goto, back, forward, reload | navigates | url |
| search | asks a search engine | query |
| open_tab, switch_tab, close_tab | tabs | url, tab |
| upload | gives a file to a field | element, path |
| extract, list_options | reads from the page | what the agent gave |
| wait | lets time pass | seconds |
| task_complete | the agent says it is done | text |

`element` is the number or id under which the element stands in the observation's text. An agent's word for what is none
of these is kept, with its arguments. The original arguments always stay in `arguments`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connectors.web.document import bounded
from schemas import COMPLETE, WAIT, Action, call_text, json_text

CLICK: Final = "click"
HOVER: Final = "hover"
INPUT_TEXT: Final = "input_text"
SELECT: Final = "select"
PRESS: Final = "press"
SCROLL: Final = "scroll"
SCROLL_TO: Final = "scroll_to"
GOTO: Final = "goto"
BACK: Final = "back"
FORWARD: Final = "forward"
RELOAD: Final = "reload"
SEARCH: Final = "search"
OPEN_TAB: Final = "open_tab"
SWITCH_TAB: Final = "switch_tab"
CLOSE_TAB: Final = "close_tab"
UPLOAD: Final = "upload"
EXTRACT: Final = "extract"
LIST_OPTIONS: Final = "list_options"

_BROWSER_USE: Final = {
    "click": CLICK,
    "click_element": CLICK,
    "click_element_by_index": CLICK,
    "input": INPUT_TEXT,
    "input_text": INPUT_TEXT,
    "select_dropdown": SELECT,
    "select_dropdown_option": SELECT,
    "send_keys": PRESS,
    "scroll": SCROLL,
    "scroll_down": SCROLL,
    "scroll_up": SCROLL,
    "scroll_to_text": SCROLL_TO,
    "find_text": SCROLL_TO,
    "go_to_url": GOTO,
    "navigate": GOTO,
    "open_url": GOTO,
    "nav": GOTO,
    "go_back": BACK,
    "search": SEARCH,
    "search_google": SEARCH,
    "open_tab": OPEN_TAB,
    "open_new_tab": OPEN_TAB,
    "switch": SWITCH_TAB,
    "switch_tab": SWITCH_TAB,
    "close": CLOSE_TAB,
    "close_tab": CLOSE_TAB,
    "upload_file": UPLOAD,
    "extract": EXTRACT,
    "extract_content": EXTRACT,
    "extract_page_content": EXTRACT,
    "extract_structured_data": EXTRACT,
    "dropdown_options": LIST_OPTIONS,
    "get_dropdown_options": LIST_OPTIONS,
    "wait": WAIT,
    "done": COMPLETE,
}
"""browser-use's names of actions, of all its versions."""

_RENAMED: Final = {
    "index": "element",
    "frame_element_index": "element",
    "keys": "key",
    "page_id": "tab",
    "tab_id": "tab",
    "num_pages": "pages",
}
_OPTION: Final = {"text": "option", "value": "option"}


def call(
    name: str,
    told: Mapping[str, Any],
    original: Mapping[str, Any],
    reasoning: str | None = None,
    message: str | None = None,
) -> Action:
    """The action of that name.

    Args:
        name: of the vocabulary, or the agent's own word.
        told: arguments of its text; those that are None are left out.
        original: the agent's own arguments.
        reasoning: the agent's own.
        message: what it said aloud.
    """
    text = call_text(name, bounded({key: value for key, value in told.items() if value is not None}))
    return Action(name, text, json_text(bounded(dict(original))) if original else None, None, message, reasoning)


def of_browser_use(word: str, arguments: Mapping[str, Any], reasoning: str | None = None) -> Action:
    """The action that browser-use calls `word`."""
    name = _BROWSER_USE.get(word, word)
    if name == word and word not in _BROWSER_USE:
        return call(word, arguments, arguments, reasoning)
    told = {_RENAMED.get(key, key): value for key, value in arguments.items()}
    if name == SELECT:
        told = {_OPTION.get(key, key): value for key, value in told.items()}
    if name == SCROLL:
        down = told.pop("down", None)
        if word in ("scroll_down", "scroll_up"):
            down = word == "scroll_down"
        if isinstance(down, bool):
            told = {"direction": "down" if down else "up", **told}
    return call(name, told, arguments, reasoning)
