"""What all logs of browser-use have in common: an answer with its calls, their results, and the screen in a message.

`browser_use_history` and `browser_use_messages` are the formats.
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
    place: int,
    item: dict[str, Any],
    actions: list[dict[str, Any]],
    results: list[dict[str, Any]],
    before: Observation | None,
    after: Observation | None,
) -> None:
    """Adds the calls of one answer.

    An action names an element by its number on the screen. Where the log left the elements out of the screen, what it
    says of the element (`interacted_element`) stands in place of the number.

    Args:
        moves: what the agent did before.
        place: where the answer begins in the log.
        item: holds the answer (`model_output`); of a history also `state` and `metadata`.
        actions: its calls, as of `calls_of`.
        results: what they gave, in order; browser-use may have stopped before the last one.
        before: the screen that the agent saw.
        after: the next screen; None if there is none.
    """
    told = object_of(item.get("state")).get("interacted_element")
    is_cut = before is not None and before.truncation == "recorder"
    unseen = told if is_cut and isinstance(told, list) and len(told) == len(actions) else []
    began, seconds = _times(item.get("metadata"))
    done = min(len(results), len(actions)) or len(actions)
    for index, one in enumerate(actions):
        target = described(unseen[index]) if index < len(unseen) else None
        reasoning = _reasoning(item.get("model_output")) if index == 0 else None
        action = act.of_browser_use(one["name"], one["arguments"], reasoning, target)
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
            place,
            calls=len(actions),
            terminated=True if action.name == COMPLETE else None,
            at=began,
            seconds=seconds if len(actions) == 1 else None,
        )


def listed(value: Any) -> list[dict[str, Any]]:
    """Results as a list, whether the version wrote one or a list."""
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]


def calls_of(output: Any) -> list[dict[str, Any]]:
    """The calls of an answer, each as {name, arguments}; one that calls nothing is left out."""
    found: list[dict[str, Any]] = []
    for one in listed(object_of(output).get("action")):
        for word, arguments in one.items():
            if arguments is not None and word:
                found.append({"name": word, "arguments": arguments if isinstance(arguments, dict) else {}})
    return found


def described(element: Any) -> str | None:
    """A short description of an element that a history tells of: `input[name="q"]`, else its path; None without."""
    told = object_of(element)
    tag = (str_of(told.get("tag_name")) or str_of(told.get("node_name"))).lower()
    attributes = object_of(told.get("attributes"))
    path = str_of(told.get("xpath")) or str_of(told.get("x_path")) or str_of(told.get("css_selector"))
    name = str_of(told.get("ax_name")).strip()[:_WORDS_LENGTH]
    if tag and name:
        return f'{tag} "{name}"'
    for key in _NAMING:
        if tag and (value := str_of(attributes.get(key)).strip()):
            return f'{tag}[{key}="{value[:_WORDS_LENGTH]}"]'
    return path or None


def _reasoning(output: Any) -> str | None:
    """What the agent wrote of its state, a line each; None if it wrote nothing."""
    state = object_of(output)
    thoughts = {**state, **object_of(state.get("current_state"))}
    lines = [f"{key}: {thoughts[key]}" for key in _THOUGHTS if str_of(thoughts.get(key)).strip()]
    return "\n".join(lines) or None


def _result(result: dict[str, Any]) -> Observation | None:
    """The result of one action as its answer; None if it gave none."""
    text = "\n".join(told_results([result]))
    return Observation(text, is_error=bool(str_of(result.get("error")))) if text else None


def told_results(results: list[dict[str, Any]]) -> list[str]:
    """What actions gave, a line each, as the agent is told it; what it said itself when done is left out."""
    lines = []
    for number, one in enumerate(results, 1):
        if one.get("is_done") is True:
            continue
        count = f" {number}/{len(results)}" if len(results) > 1 else ""
        if text := str_of(one.get("extracted_content")):
            lines.append(f"Action result{count}: {text}")
        if text := str_of(one.get("error")):
            lines.append(f"Action error{count}: {text}")
    return lines


def _times(metadata: Any) -> tuple[int | None, float | None]:
    """(microseconds since 1970 UTC, seconds) of a step, as far as its metadata has them."""
    start, end = object_of(metadata).get("step_start_time"), object_of(metadata).get("step_end_time")
    if not isinstance(start, float | int) or isinstance(start, bool) or not 31_536_000 < start < 1e11:
        return None, None
    at = int((datetime.fromtimestamp(start, UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
    known = isinstance(end, float | int) and not isinstance(end, bool) and start <= end < 1e11
    return at, round(end - start, 6) if known and end is not None else None
