r"""Histories of browser-use (`AgentHistoryList`): states of the browser, the agent's answers, and their results.

>>> show(BrowserUseHistory(), r'''
... {"history": [
...     {"model_output": {"next_goal": "Pick tomorrow", "action": [{"click": {"index": 2}}]},
...      "result": [{"is_done": false, "extracted_content": "Clicked element 2"}],
...      "state": {"url": "https://tides.example/", "title": "Tides", "tabs": [], "interacted_element": [null]},
...      "state_message": "<browser_state>\n[2]<a title=Tomorrow />\n</browser_state>"},
...     {"model_output": {"next_goal": "", "action": [{"done": {"text": "At 12:50", "success": true}}]},
...      "result": [{"is_done": true, "success": true, "extracted_content": "At 12:50"}],
...      "state": {"url": "https://tides.example/2", "title": "Tomorrow", "tabs": [], "interacted_element": [null]},
...      "state_message": "<browser_state>\nLow at 12:50\n</browser_state>"}]}
... ''')
before  | [2]<a title=Tomorrow />
action  | {"name": "click", "arguments": {"element": 2}}
after   | Low at 12:50
action  | {"name": "task_complete", "arguments": {"text": "At 12:50", "success": true}}
after   | (not in the log)

Item i holds the state that the agent saw, its answer, and the results of its actions. The observation of its actions is
therefore state i, and the next observation of the last action is state i+1. All versions are read:

- 2024: `action` and `result` are objects, and the state holds its elements as `items`. These are written as the agent
  saw them, one per line: `40[:]<button>…` for an element, `_[:]text` for text, indented by depth.
- Later: they are lists, and the state holds no elements, but `state_message` may hold a `<browser_state>`, which is
  then the screen. If there is neither, the screen is the URL, the title and the tabs, marked as cut by the recorder. In
  actions the log's description of an element (`interacted_element`) then replaces the element's number, which occurs in
  no text.

Several actions of one answer are calls of one turn. The result of an action other than the last is its own next
observation. All results are harness texts before the next action, and no part of a screen. browser-use stops at an
action that changes the page: actions beyond the results were not executed, and their next observation is unknown. The
text of `done` is the agent's own and no observation. An item without an answer is a failure of the harness, which is
noted before the next action.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.attached import attachment_of_bytes
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import object_of, objects_of, str_of
from trajmill.connectors.reading.values import BOM
from trajmill.connectors.screens.moves import Moves
from trajmill.connectors.web.bodies import unbase64
from trajmill.connectors.web.browser_use import DIALECT, REQUEST, SCREEN, add_turn, calls_of, list_results, result_lines
from trajmill.schemas import Agent, Attachment, Observation, Outcome, ParseError, Reject, Task, Trajectory

_BEGINS: Final = re.compile(rb'\s*\{\s*"(?:history|_version|usage|errors)"\s*:')
_KEYS: Final = (
    b'"model_output"',
    b'"current_state"',
    b'"interacted_element"',
    b'"extracted_content"',
    b'"selector_map"',
)
_ITEM: Final = re.compile(rb'\{\s*"model_output"\s*:')
_MAX_DEPTH: Final = 256


class BrowserUseHistory(Connector):
    """Histories of browser-use."""

    name: ClassVar[str] = "browser_use_history"
    version: ClassVar[str] = "4"
    domains: ClassVar[tuple[str, ...]] = ("web",)
    title: ClassVar[str] = "browser-use histories (AgentHistoryList)"
    companions = re.compile(r"(?:screenshots/)?[^/]*\.(?:png|jpe?g|gif|webm|mp4)")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if not _BEGINS.match(head.removeprefix(BOM)) or b'"history"' not in head:
            return None
        if sum(key in head for key in _KEYS) >= 2 or (b'"model_output"' in head and b'"state"' in head):
            return Sniff(0.9, "a history with the model's outputs and states of browser-use")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        document, data = json_document(blob)
        items = object_of(document).get("history")
        if not isinstance(items, list):
            raise ParseError(blob.uri, 0, "no_history", "wanted an object with a list `history`")
        history = _History(items, data)
        yield from history.rejects(blob.uri, self.name)
        moves = history.moves()
        if not moves.steps:
            raise ParseError(blob.uri, -1, "no_transitions", f"none of the {len(items)} items holds an action")
        yield Trajectory(
            native_id=str_of(object_of(document).get("id")),
            domain="web",
            steps=moves.steps,
            agent=Agent(name="browser-use", version=str_of(object_of(document).get("_version")) or None),
            task=Task(instruction=history.instruction()),
            outcome=history.outcome(),
        )


class _History:
    """Items of a history and their offsets."""

    def __init__(self, items: list[Any], data: bytes) -> None:
        self._items = [item if isinstance(item, dict) else None for item in items]
        self._places = _places(self._items, data)

    def rejects(self, uri: str, connector: str) -> Iterator[Reject]:
        """Yield a reject for each item that is no object."""
        for offset, item in zip(self._places, self._items, strict=True):
            if item is None:
                yield Reject("record", "bad_record", "wanted an object", uri, "", offset, connector)

    def instruction(self) -> str | None:
        """Return the task, if a state message states it."""
        for item in self._items:
            request = REQUEST.search(str_of((item or {}).get("state_message")))
            if request:
                return request[1].strip() or None
        return None

    def outcome(self) -> Outcome | None:
        """Return the outcome that the agent itself claims; None if it claims none."""
        for item in reversed(self._items):
            for result in reversed(list_results((item or {}).get("result"))):
                if result.get("is_done") is True and isinstance(result.get("success"), bool):
                    return Outcome(resolved=result["success"], verifier="the agent itself")
        return None

    def moves(self) -> Moves:
        """Return the actions of all items in order."""
        items = [
            (offset, history_item)
            for offset, history_item in zip(self._places, self._items, strict=True)
            if history_item is not None
        ]
        results_before: list[dict[str, Any]] = []
        pending: list[tuple[int, dict[str, Any], list[dict[str, Any]], list[dict[str, Any]], list[str]]] = []
        screens: list[Observation | None] = []
        for offset, item in items:
            screens.append(_screen(item, results_before))
            actions, results = calls_of(item.get("model_output")), list_results(item.get("result"))
            pending.append((offset, item, actions, results, result_lines(results_before)))
            # Without an action, the harness failed and not the browser.
            results_before = results if actions else []
        moves = Moves()
        for number, (offset, item, actions, results, reports) in enumerate(pending):
            moves.say("\n".join(reports))
            after = screens[number + 1] if number + 1 < len(screens) else None
            if not actions:
                for result in results:
                    moves.say(str_of(result.get("error")))
                continue
            add_turn(moves, offset, item, actions, results, screens[number], after)
        return moves


def _places(items: list[dict[str, Any] | None], data: bytes) -> list[int]:
    """Return the offset of each item; all 0 unless every item begins with the agent's answer.

    Screenshots, which are most of a history, are skipped: the search continues behind an item's beginning by as many
    bytes as its own screenshot has.
    """
    offsets: list[int] = []
    after = 0
    while hit := _ITEM.search(data, after):
        item = items[len(offsets)] if len(offsets) < len(items) else None
        offsets.append(hit.start())
        after = hit.end() + len(str_of(object_of((item or {}).get("state")).get("screenshot")))
    return offsets if len(offsets) == len(items) else [0] * len(items)


def _screen(item: dict[str, Any], results: list[dict[str, Any]]) -> Observation | None:
    """Return the state of an item, marked as an error if an action before it failed; None if it holds no state."""
    state = item.get("state")
    if not isinstance(state, dict):
        return None
    shown = SCREEN.search(str_of(item.get("state_message")))
    items = state.get("items")
    is_complete = True
    if shown:
        lines = [shown[1]]
    else:
        lines = _page(state)
        listed = items if isinstance(items, list) else None
        is_complete = listed is not None
        lines += ["Interactive elements:", *_elements(listed)] if listed is not None else []
    failed = any(str_of(result.get("error")) for result in results)
    return Observation(
        content="\n".join(lines),
        form="screen",
        dialect=DIALECT,
        is_error=failed if results else None,
        truncation="none" if is_complete else "recorder",
        uri=str_of(state.get("url")) or None,
        attachments=_screenshot(state),
    )


def _page(state: dict[str, Any]) -> list[str]:
    """Return the address, the title and the tabs of a state, one per line."""
    tabs = objects_of(state.get("tabs"))
    lines = [
        f"Current url: {str_of(state.get('url'))}",
        f"Title: {str_of(state.get('title'))}",
        "Available tabs:",
    ]
    for tab in tabs:
        number = tab.get("page_id", tab.get("tab_id", tab.get("target_id", "")))
        number = number if isinstance(number, int | str) else ""
        lines.append(f"Tab {number}: {str_of(tab.get('url'))} - {str_of(tab.get('title'))}")
    return lines


def _elements(items: list[Any]) -> Iterator[str]:
    """Yield the elements of a state as browser-use of 2024 showed them to its agent, one per line."""
    for element in items:
        if not isinstance(element, dict):
            continue
        depth = element.get("depth")
        indent = "\t" * (min(max(depth, 0), _MAX_DEPTH) if isinstance(depth, int) else 0)
        text = element.get("is_text_only") is True or element.get("clickable") is False
        mark = "_" if text or not isinstance(element.get("index"), int) else str(element["index"])
        yield f"{mark}[:]{indent}{str_of(element.get('text'))}"


def _screenshot(state: dict[str, Any]) -> tuple[Attachment, ...]:
    """Return the screenshot of a state by digest; a screenshot that is given only as a path is not in the log."""
    text = str_of(state.get("screenshot"))
    data = unbase64(text.rpartition(",")[2]) if text else None
    if not data:
        return ()
    return (attachment_of_bytes(data, "screenshot", "image/png"),)
