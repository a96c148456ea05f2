"""Steps of a log of screens and actions: the one module in which these become transitions.

A format's reader passes, in the order of its log, the actions and the screens before and after them. This module counts
turns and keeps the numbers of elements stable across screens (`connectors.screens.numbers`). It attaches the harness's
words to the turn that follows them. Facts that a log states only later (the result of the last action, the end of the
episode) are set on their step. If no screen was seen, the reader passes None: no screen is taken over from another
action. `connectors.conversation` handles conversations, in which calls are answered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from trajmill.connectors.screens.numbers import Numbers
from trajmill.connectors.screens.tree import DIALECT
from trajmill.schemas import Action, Observation, Step, Steps, json_text

_ELEMENT: Final = re.compile(r'("(?:element|onto)": "#)(\d+)"')
"""Name of an element in the text and the arguments of actions; within a string its quotes would be escaped."""

_REMEMBERED: Final = 8
"""Number of recent screens that are recognized by object identity."""


_Numbered: TypeAlias = tuple[Observation, Observation, Mapping[int, int]]
"""Screen as its reader gives it, the screen with lasting numbers, and these by the positions of the elements."""


def _renumber_action(action: Action, numbers: Mapping[int, int]) -> Action:
    """Return the action with the numbers of its elements instead of their positions."""

    def new_number(match: re.Match[str]) -> str:
        position = int(match[2][:9])
        return f'{match[1]}{numbers.get(position, position)}"'

    text = _ELEMENT.sub(new_number, action.text)
    arguments = action.arguments and _ELEMENT.sub(new_number, action.arguments)
    return (
        action
        if text == action.text and arguments == action.arguments
        else replace(action, text=text, arguments=arguments)
    )


class Moves:
    """Collector of the steps of a trajectory: a turn is an action, or the parallel calls of one answer.

    >>> moves = Moves()
    >>> before, after = Observation("Cart: empty"), Observation("Cart: 1 pen")
    >>> moves.add(Action("click", "click(7)"), before, after, 0)
    >>> moves.say("The page was reloaded.")
    >>> moves.add(Action("click", "click(2)"), after, None, 80)
    >>> moves.end(truncated=True)
    >>> [(step.turn, step.interleaved, step.truncated) for step in moves.steps]
    [(0, None, None), (1, '[{"role": "harness", "content": "The page was reloaded."}]', True)]

    Attributes:
        steps: Steps collected so far, in the order of the log.

    Args:
        in_memory: True if the log is held in memory, so that its steps, which share its texts, may be too.
    """

    def __init__(self, *, in_memory: bool = True) -> None:
        self.steps: list[Step] | Steps = [] if in_memory else Steps()
        self._turn = -1
        self._left = 0
        self._said: list[str] = []
        self._numbers = Numbers()
        self._shown: dict[int, _Numbered] = {}

    def say(self, text: str | None) -> None:
        """Add a text of the harness before the next turn; an empty text is ignored."""
        if text:
            self._said.append(text)

    def add(
        self,
        action: Action,
        before: Observation | None,
        after: Observation | None,
        offset: int,
        member: str = "",
        *,
        calls: int = 1,
        reward: float | None = None,
        terminated: bool | None = None,
        truncated: bool | None = None,
        exit_code: int | None = None,
        at: int | None = None,
        seconds: float | None = None,
    ) -> None:
        """Add an action between two screens.

        Args:
            before: Screen that the agent saw before it.
            after: Resulting screen.
            offset: Beginning of its record in `member`, in bytes.
            calls: Number of parallel calls in its turn, itself included; they are added one after the other.
            reward: Reward of the action by the environment.
            terminated: True if it ended the episode; None if the log does not say.
            truncated: True if the episode was cut after it; None if the log does not say.
            at: Time of its start, in µs since 1970 UTC.
            seconds: Duration in seconds.
        """
        interleaved: str | None = None
        if not self._left:
            self._turn, self._left = self._turn + 1, calls
            interleaved = (
                json_text([{"role": "harness", "content": text} for text in self._said]) if self._said else None
            )
            self._said = []
        seen, numbers = self._numbered(before)
        led_to, _ = self._numbered(after)
        self.steps.append(
            Step(
                _renumber_action(action, numbers) if numbers else action,
                seen,
                led_to,
                self._turn,
                offset,
                member,
                call_index=calls - self._left,
                num_calls=calls,
                interleaved=interleaved,
                reward=reward,
                terminated=terminated,
                truncated=truncated,
                exit_code=exit_code,
                started_at=at,
                duration_s=seconds,
            )
        )
        self._left -= 1

    def reach(self, after: Observation | None) -> None:
        """Set the result of the last action, for a log that shows it only later."""
        self.steps[-1] = replace(self.steps[-1], next_observation=self._numbered(after)[0])

    def _numbered(self, screen: Observation | None) -> tuple[Observation | None, Mapping[int, int]]:
        """Return the screen with lasting numbers of its elements, and these by the positions that an action names."""
        if screen is None or screen.dialect != DIALECT or not screen.content:
            return screen, {}
        known = self._shown.get(id(screen))
        if known is None:
            text, numbers = self._numbers.shown(screen.content)
            if len(self._shown) >= _REMEMBERED:
                del self._shown[next(iter(self._shown))]
            # keep the screen itself, so that no other object gets its identity
            known = self._shown[id(screen)] = screen, replace(screen, content=text), numbers
        return known[1], known[2]

    def end(
        self, *, reward: float | None = None, terminated: bool | None = None, truncated: bool | None = None
    ) -> None:
        """Set the reward of the last action and how it ended the episode; without an action, do nothing."""
        if self.steps:
            last = self.steps[-1]
            self.steps[-1] = replace(last, reward=reward, terminated=terminated, truncated=truncated)

    @property
    def is_seen(self) -> bool:
        """True if there is a screen before or after any of the actions."""
        return any(step.observation is not None or step.next_observation is not None for step in self.steps)

    @property
    def is_followed(self) -> bool:
        """True if there is a screen after any of the actions."""
        return any(step.next_observation is not None for step in self.steps)
