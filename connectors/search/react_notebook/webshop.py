"""Episodes of a ReAct agent in WebShop (arXiv 2207.01206) as the notebook of ReAct prints them.

    Action: reset
    Observation: …                     the page with the instruction, one line a text or button

    Action: search[…] | click[…] | think[…]
    Observation: …

    1 0.0 0.0 0.0                      episodes so far, mean score, shares of successes and of failures

`reset` is an action of the harness, and its output is the observation before the first action. The harness also answers
a thought (`OK.`) and an action that the page does not offer (`Invalid action!`). The score of a purchase is the reward;
an episode that ends without one ran out of steps. This module does not search notebooks for episodes; see
`react_notebook`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from trajmill.connectors.conversation.told import Told, answered
from trajmill.connectors.conversation.turns import Call
from trajmill.schemas import Agent, Context, Environment, Observation, Outcome, Task, Trajectory, json_text

RESET: Final = "Action: reset"

_ACTION: Final = "Action: "
_SEEN: Final = "Observation: "
_NUMBER: Final = re.compile(r"\d{1,9}")
_ENDED: Final = re.compile(r"\d{1,9}(?: \d[\d.e-]{0,30}){3}")
_CALL: Final = re.compile(r"(\w{1,64})\[(.*?)\]?\s*")
_SCORE: Final = re.compile(r"Your score \(min 0\.0, max 1\.0\): (\d(?:\.\d{1,20})?)\s*")
_INSTRUCTION: Final = re.compile(r"Instruction:\s*(.*?)\s*\[Search\]", re.DOTALL)
_BY_HARNESS: Final = ("OK.", "Invalid action!")
_ARGUMENTS: Final = {"search": "query", "click": "button", "think": "thought"}
_BUYS: Final = "click[Buy Now]"

_TOOLS: Final = json_text(
    [
        {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]},
        }
        for name, key, description in (
            ("search", "query", "Searches the shop, from its first page."),
            ("click", "button", "Presses a button of the page: a product, an option, Buy Now."),
            ("think", "thought", "Does nothing to the page."),
        )
    ]
)


@dataclass(slots=True)
class Episode:
    """Lines of an episode after its reset; `number` is printed before it, `ended` is True if its end was printed."""

    number: str
    lines: list[str] = field(default_factory=list)
    ended: bool = False


def episodes(text: str) -> Iterator[Episode]:
    """Yield the episodes that a cell printed, in order."""
    current: Episode | None = None
    before = ""
    for line in text.split("\n"):
        if line == RESET:
            if current is not None:
                yield current
            current = Episode(before if _NUMBER.fullmatch(before) else "")
        elif current is not None and _ENDED.fullmatch(line):
            current.ended = True
            yield current
            current = None
        elif current is not None:
            current.lines.append(line)
        before = line
    if current is not None:
        yield current


def trajectory(episode: Episode, count: int, offset_of: Callable[[str], int]) -> Trajectory | None:
    """Return the trajectory of an episode; None if it holds no action.

    Args:
        episode: the printed episode.
        count: number of the episode in the notebook, from 0.
        offset_of: returns the offset of an action's line.
    """
    first, moves = _moves(episode.lines)
    builder = Told(in_memory=True)
    if first:
        builder.show(Observation(first, form="screen"))
    for line, text in moves:
        score = _SCORE.fullmatch(text or "")
        bought = line == _BUYS and text is not None and text not in _BY_HARNESS
        call = answered(_call(line), _seen(text), offset_of(_ACTION + line))
        call.ending = (float(score[1]) if score else None, True if bought else None, None)
        builder.turn([call])
    steps = builder.steps()
    if not steps:
        return None
    last = steps[-1]
    if episode.ended and not last.terminated:
        steps[-1] = replace(last, truncated=True)
    asked = _INSTRUCTION.search(first or "")
    return Trajectory(
        native_id=f"{count}/{episode.number}",
        domain="web",
        steps=steps,
        environment=Environment(id="webshop"),
        agent=Agent(name="react"),
        task=Task(f"webshop/fixed_{episode.number}" if episode.number else None, asked[1] if asked else None),
        context=Context(action_space=_TOOLS, origin="derived"),
        outcome=None if last.reward is None else Outcome(last.reward == 1, last.reward, "webshop score"),
    )


def _moves(lines: Sequence[str]) -> tuple[str | None, list[tuple[str, str | None]]]:
    """Return the observation after the reset, and each action with its observation, None if nothing follows it."""
    pairs: list[tuple[str, list[str] | None]] = [("", None)]
    blank = True
    for line in lines:
        action, seen = pairs[-1]
        if seen is None and line.startswith(_SEEN.rstrip()):
            pairs[-1] = action, [line[len(_SEEN) :]]
        elif seen is not None and blank and line.startswith(_ACTION):
            pairs.append((line[len(_ACTION) :], None))
        elif seen is not None:
            seen.append(line)
        blank = not line.strip()
    joined_moves = [(action, None if seen is None else "\n".join(seen).strip("\n")) for action, seen in pairs]
    return joined_moves[0][1], joined_moves[1:]


def _seen(text: str | None) -> Observation | None:
    if text is None:
        return None
    by_harness = text in _BY_HARNESS
    return Observation(
        text, form="response" if by_harness else "screen", origin="harness" if by_harness else "environment"
    )


def _call(line: str) -> Call:
    match = _CALL.fullmatch(line)
    if match is None or match[1] not in _ARGUMENTS:
        return Call("", None, None, 0, text=line)
    return Call(match[1], json_text({_ARGUMENTS[match[1]]: match[2]}), None, 0)
