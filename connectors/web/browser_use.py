"""Common parts of all logs of browser-use: an answer with its calls, their results, and the screen in a message.

The formats are `browser_use_history` and `browser_use_messages`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

from trajmill.connectors.reading.fields import object_of, str_of
from trajmill.connectors.screens.moves import Moves
from trajmill.connectors.web import agent_action as act
from trajmill.schemas import COMPLETE, Observation

DIALECT: Final = "browser-use"
SCREEN: Final = re.compile(r"<browser_state>\s*\n?(.*?)\n?\s*</browser_state>", re.DOTALL)
REQUEST: Final = re.compile(r"<user_request>\s*\n?(.*?)\n?\s*</user_request>", re.DOTALL)
_THOUGHTS: Final = (
    "thinking",
    "evaluation_previous_goal",
    "valuation_previous_goal",
    "memory",
    "next_goal",
)
_NAMING: Final = ("id", "name", "aria-label", "placeholder", "title", "alt")
_WORDS_LENGTH: Final = 80


def add_turn(
    moves: Moves,
    offset: int,
    item: dict[str, Any],
    actions: list[dict[str, Any]],
    results: list[dict[str, Any]],
    before: Observation | None,
    after: Observation | None,
) -> None:
    """Add the calls of one answer.

    An action names an element by its number on the screen. If the log left the elements out of the screen, the log's
    description of the element (`interacted_element`) replaces the number.

    Args:
        moves: the agent's earlier actions.
        item: holds the answer (`model_output`); in a history also `state` and `metadata`.
        actions: the calls of the answer, as returned by `calls_of`.
        results: their results in order; browser-use may have stopped before the last call.
        before: the screen that the agent saw.
        after: the next screen; None if there is none.
    """
    elements = object_of(item.get("state")).get("interacted_element")
    is_cut = before is not None and before.truncation == "recorder"
    unseen = elements if is_cut and isinstance(elements, list) and len(elements) == len(actions) else []
    began, seconds = _times(item.get("metadata"))
    done = min(len(results), len(actions)) or len(actions)
    for index, browser_call in enumerate(actions):
        target = describe_element(unseen[index]) if index < len(unseen) else None
        reasoning = _reasoning(item.get("model_output")) if index == 0 else None
        action = act.of_browser_use(browser_call["name"], browser_call["arguments"], reasoning, target)
        result = results[index] if index < len(results) else {}
        if action.name == COMPLETE:
            shown = None
        elif index == done - 1:
            shown = after or _result(result)
        else:
            shown = _result(result)
        moves.add(
            action,
            before,
            shown,
            offset,
            calls=len(actions),
            terminated=True if action.name == COMPLETE else None,
            at=began,
            seconds=seconds if len(actions) == 1 else None,
        )


def list_results(value: Any) -> list[dict[str, Any]]:
    """Return results as a list, whether the version wrote a single result or a list."""
    return [result for result in (value if isinstance(value, list) else [value]) if isinstance(result, dict)]


def calls_of(output: Any) -> list[dict[str, Any]]:
    """Return the calls of an answer, each as {name, arguments}; entries without a call are left out."""
    calls: list[dict[str, Any]] = []
    for action in list_results(object_of(output).get("action")):
        for word, arguments in action.items():
            if arguments is not None and word:
                calls.append({"name": word, "arguments": arguments if isinstance(arguments, dict) else {}})
    return calls


def describe_element(element: Any) -> str | None:
    """Return a short description of an element in a history: `input[name="q"]`, else its path; None without."""
    fields = object_of(element)
    tag = (str_of(fields.get("tag_name")) or str_of(fields.get("node_name"))).lower()
    attributes = object_of(fields.get("attributes"))
    path = str_of(fields.get("xpath")) or str_of(fields.get("x_path")) or str_of(fields.get("css_selector"))
    name = str_of(fields.get("ax_name")).strip()[:_WORDS_LENGTH]
    if tag and name:
        return f'{tag} "{name}"'
    for key in _NAMING:
        if tag and (value := str_of(attributes.get(key)).strip()):
            return f'{tag}[{key}="{value[:_WORDS_LENGTH]}"]'
    return path or None


def _reasoning(output: Any) -> str | None:
    """Return the agent's statements about its state, one per line; None if there are none."""
    state = object_of(output)
    thoughts = {**state, **object_of(state.get("current_state"))}
    lines = [f"{key}: {thoughts[key]}" for key in _THOUGHTS if str_of(thoughts.get(key)).strip()]
    return "\n".join(lines) or None


def _result(result: dict[str, Any]) -> Observation | None:
    """Return the result of one action as its observation; None if it gave none."""
    text = "\n".join(result_lines([result]))
    return Observation(text, is_error=bool(str_of(result.get("error")))) if text else None


def result_lines(results: list[dict[str, Any]]) -> list[str]:
    """List the results of actions, one per line, as the agent receives them; its final words are left out."""
    lines = []
    for number, result in enumerate(results, 1):
        if result.get("is_done") is True:
            continue
        count = f" {number}/{len(results)}" if len(results) > 1 else ""
        if text := str_of(result.get("extracted_content")):
            lines.append(f"Action result{count}: {text}")
        if text := str_of(result.get("error")):
            lines.append(f"Action error{count}: {text}")
    return lines


def _times(metadata: Any) -> tuple[int | None, float | None]:
    """Return (microseconds since 1970 UTC, seconds) of a step, as far as its metadata has them."""
    start, end = object_of(metadata).get("step_start_time"), object_of(metadata).get("step_end_time")
    if not isinstance(start, float | int) or isinstance(start, bool) or not 31_536_000 < start < 1e11:
        return None, None
    at = int((datetime.fromtimestamp(start, UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
    known = isinstance(end, float | int) and not isinstance(end, bool) and start <= end < 1e11
    return at, round(end - start, 6) if known and end is not None else None
