"""The steps of a log that holds screens and the actions between them: the one place where these become transitions.

A format's reader says, in the order of its log, what was done and which screens stood before and after it. Turns are
counted here, the elements of screens keep their numbers (`connectors.screens.numbers`), what the harness said meanwhile
goes with the turn that follows it, and what a log tells only later (what the last action led to, how it ended) is set
on the step that it belongs to. Where nobody saw a screen the reader says None: none is taken over from another action.
Conversations, in which calls are answered, are told in `connectors.conversation`. Nothing here reads a log.
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
"""An element as the text and the arguments of actions name it; within a string its quotes would be escaped."""

_REMEMBERED: Final = 8
"""Screens that are known again as the same object."""


_Numbered: TypeAlias = tuple[Observation, Observation, Mapping[int, int]]
"""A screen as its reader gave it, with numbers that last, and these by the places of the elements."""


def _renumber_action(action: Action, numbers: Mapping[int, int]) -> Action:
    """The action with the elements that it names by their numbers in place of their places."""

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
    """Collects the steps of a trajectory: a turn is an action, or the parallel calls of one answer.

    >>> moves = Moves()
    >>> before, after = Observation("Cart: empty"), Observation("Cart: 1 pen")
    >>> moves.add(Action("click", "click(7)"), before, after, 0)
    >>> moves.say("The page was reloaded.")
    >>> moves.add(Action("click", "click(2)"), after, None, 80)
    >>> moves.end(truncated=True)
    >>> [(step.turn, step.interleaved, step.truncated) for step in moves.steps]
    [(0, None, None), (1, '[{"role": "harness", "content": "The page was reloaded."}]', True)]

    Attributes:
        steps: those collected so far, in the order of the log.

    Args:
        in_memory: whether the log is held in memory, so that its steps, which share its texts, may be too.
    """

    def __init__(self, *, in_memory: bool = True) -> None:
        self.steps: list[Step] | Steps = [] if in_memory else Steps()
        self._turn = -1
        self._left = 0
        self._said: list[str] = []
        self._numbers = Numbers()
        self._shown: dict[int, _Numbered] = {}

    def say(self, text: str | None) -> None:
        """Notes a text of the harness that stood before the next turn; an empty one is not noted."""
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
        """Adds what was done between two screens.

        Args:
            action: what was done.
            before: what the agent saw before it.
            after: what it led to.
            offset: where its record begins in `member`, in bytes.
            member: the file it stands in.
            calls: how many parallel calls its turn has, itself included; they are added one after the other.
            reward: of the action, by the environment.
            terminated: whether it ended the episode; None if the log does not say.
            truncated: whether the episode was cut after it; likewise.
            exit_code: of a command.
            at: when it began, in µs since 1970 UTC.
            seconds: how long it took.
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
        """States what the last action led to, where the log shows it only later."""
        self.steps[-1] = replace(self.steps[-1], next_observation=self._numbered(after)[0])

    def _numbered(self, screen: Observation | None) -> tuple[Observation | None, Mapping[int, int]]:
        """The screen with the numbers of its elements, and those by the places that an action names."""
        if screen is None or screen.dialect != DIALECT or not screen.content:
            return screen, {}
        known = self._shown.get(id(screen))
        if known is None:
            text, numbers = self._numbers.shown(screen.content)
            if len(self._shown) >= _REMEMBERED:
                del self._shown[next(iter(self._shown))]
            # The screen itself is held too, so that no other one comes to have its identity.
            known = self._shown[id(screen)] = screen, replace(screen, content=text), numbers
        return known[1], known[2]

    def end(
        self, *, reward: float | None = None, terminated: bool | None = None, truncated: bool | None = None
    ) -> None:
        """States how the last action was rewarded and how it ended the episode; does nothing if there is none."""
        if self.steps:
            last = self.steps[-1]
            self.steps[-1] = replace(last, reward=reward, terminated=terminated, truncated=truncated)

    @property
    def is_seen(self) -> bool:
        """Check if a screen stands before or after any of the actions."""
        return any(step.observation is not None or step.next_observation is not None for step in self.steps)

    @property
    def is_followed(self) -> bool:
        """Check if a screen stands after any of the actions."""
        return any(step.next_observation is not None for step in self.steps)
