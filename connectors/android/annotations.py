"""Steps of Android in the Wild (arXiv 2307.10088) for all storage formats: screens of detected texts and icons, and
gestures.

A screen is a list of annotations, which a detector derived from the screenshot: a text that it read, or the class of an
icon. They become nodes `text` and `icon` of one window, in their order. The class of an icon is its description, since
it is not written on the screen. The data do not state which elements can be touched, so a tap is named by the smallest
annotation that contains it, or has coordinates if there is none.

Actions are numbers (android_in_the_wild/action_type.py): 3 types text, 4 is a gesture from a touch to a lift, 5, 6 and
7 press back, home and enter, 10 means that the task is complete, 11 that it is impossible. A gesture is a tap if its
two points, in fractions of the screen, are at most 0.04 apart, else a swipe (action_matching.py).

The steps of an episode are consecutive and numbered from 0. If a number is missing, the next observation of the step
before it is unknown. A number that does not increase is rejected.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from trajmill.connectors.android import action as act
from trajmill.connectors.android.view import environment_of
from trajmill.connectors.screens.moves import Moves
from trajmill.connectors.screens.tree import Box, render_node, tree_text
from trajmill.schemas import COMPLETE, Action, Environment, Observation, ParseError, Task, Trajectory
from trajmill.schemas.record import record

TAP_DISTANCE: Final = 0.04
"""Largest distance between touch and lift of a tap, as a fraction of the screen."""

_TYPE, _GESTURE, _COMPLETE, _IMPOSSIBLE = 3, 4, 10, 11
_KEYS: Final = {5: "back", 6: "home", 7: "enter"}
_TEXT_TYPES: Final = ("TEXT", "")


@record
class Annotated:
    """One step as stored, in any file format.

    Attributes:
        number: position in the episode, from 0.
        observation: the screen before the action.
        touched: the node at `touch`, as returned by `find_touched`; None if the observation is the log's own text.
        size: width and height in pixels; None if unknown.
        kind: number of the action's type.
        text: the typed text.
        touch: point at which the finger came down, x and y in fractions of the screen.
        lift: point at which it was lifted.
        offset: offset of its record in `member`.
        package: the app in the foreground.
        version: the stated version of Android.
        reasoning: the thought that was annotated for the action.
    """

    episode: str
    number: int
    goal: str | None
    observation: Observation
    touched: int | None
    size: tuple[int, int] | None
    kind: int
    text: str
    touch: act.Point | None
    lift: act.Point | None
    offset: int
    member: str = ""
    package: str = ""
    version: str | None = None
    reasoning: str | None = None


def screen_text(
    boxes: Sequence[Box], texts: Sequence[str], types: Sequence[str], size: tuple[int, int] | None, package: str
) -> str:
    """Return the compact text of a list of annotations.

    Args:
        boxes: box of each annotation.
        texts: text of each annotation; empty for most icons.
        types: `TEXT`, or the class of an icon.
        size: size of the screen, for the box of its window.
        package: the app in the foreground, empty if unknown.
    """
    window = render_node("window", package, bounds=(0, 0, *size) if size is not None else None)
    annotations = zip(boxes, texts, types, strict=True)
    return tree_text([(0, window), *((1, _annotation(box, text, kind)) for box, text, kind in annotations)])


def _annotation(box: Box, text: str, kind: str) -> str:
    if kind in _TEXT_TYPES:
        return render_node("text", text, bounds=box)
    return render_node("icon", text, "", kind, bounds=box)


def find_touched(boxes: Sequence[Box], touch: act.Point | None, size: tuple[int, int] | None) -> int | None:
    """Find the node of the smallest annotation that contains a touch; the first of equal ones."""
    if touch is None or size is None:
        return None
    x, y = _to_pixels(touch, size)
    candidates = [
        ((right - left) * (bottom - top), node)
        for node, (left, top, right, bottom) in enumerate(boxes, 2)
        if left <= x < right and top <= y < bottom
    ]
    return min(candidates)[1] if candidates else None


def box_of_sides(top: float, left: float, height: float, width: float) -> Box:
    """Return the box of an annotation, in whole pixels."""
    return act.whole(left), act.whole(top), act.whole(left + width), act.whole(top + height)


def trajectories(steps: Iterable[Annotated | ParseError], uri: str) -> Iterator[Trajectory | ParseError]:
    """Yield the trajectory of each run of steps of one episode, in order; errors among the steps are passed through."""
    run: list[Annotated] = []
    for step in steps:
        if isinstance(step, ParseError):
            yield step
            continue
        if run and step.episode != run[0].episode:
            yield from _episode(run, uri)
            run = []
        if run and step.number <= run[-1].number:
            detail = f"step {step.number} of episode {step.episode} follows step {run[-1].number}"
            yield ParseError(uri, step.offset, "duplicate_step", detail, step.member)
        else:
            run.append(step)
    yield from _episode(run, uri)


def _episode(run: list[Annotated], uri: str) -> Iterator[Trajectory | ParseError]:
    moves = Moves()
    for index, step in enumerate(run):
        following = run[index + 1] if index + 1 < len(run) else None
        is_next = following is not None and following.number == step.number + 1 and step.kind < _COMPLETE
        after = following.observation if following is not None and is_next else None
        try:
            performed = _action(step, uri)
        except ParseError as error:
            yield error
            continue
        moves.add(performed, step.observation, after, step.offset, step.member)
    if moves.steps:
        yield Trajectory(
            native_id=run[0].episode,
            domain="android",
            steps=moves.steps,
            environment=Environment(id=environment_of([step.package for step in run]), version=run[0].version),
            task=Task(instruction=run[0].goal),
        )


def _action(step: Annotated, uri: str) -> Action:
    """Convert a step into an action.

    Raises:
        ParseError: `bad_record`: the number is no action type, or a gesture lacks its points.
    """
    original: dict[str, Any] = {"action_type": step.kind}
    if step.kind in _KEYS:
        return act.call(act.PRESS, {"key": _KEYS[step.kind]}, original, reasoning=step.reasoning)
    if step.kind == _TYPE:
        original["text"] = step.text
        return act.call(act.INPUT_TEXT, {"text": step.text}, original, reasoning=step.reasoning)
    if step.kind in (_COMPLETE, _IMPOSSIBLE):
        arguments = {"status": "impossible"} if step.kind == _IMPOSSIBLE else {}
        return act.call(COMPLETE, arguments, original, reasoning=step.reasoning)
    if step.kind != _GESTURE:
        detail = f"{step.kind} is no type of action"
        raise ParseError(uri, step.offset, "bad_record", detail, step.member)
    if step.touch is None or step.lift is None:
        raise ParseError(uri, step.offset, "bad_record", "a gesture without its two points", step.member)
    touch, lift = step.touch, step.lift
    original = {"action_type": _GESTURE, "touch_yx": [touch[1], touch[0]], "lift_yx": [lift[1], lift[0]]}
    first = _to_pixels(touch, step.size)
    if touch != lift and math.dist(touch, lift) > TAP_DISTANCE:
        last = _to_pixels(lift, step.size)
        return act.call(act.SWIPE, {"from": list(first), "to": list(last)}, original, reasoning=step.reasoning)
    if step.touched is not None:
        return act.call(act.CLICK, {}, original, f"#{step.touched}", step.reasoning)
    return act.call(act.CLICK, {"x": first[0], "y": first[1]}, original, reasoning=step.reasoning)


def _to_pixels(point: act.Point, size: tuple[int, int] | None) -> tuple[float, float]:
    """Convert a point to pixels, or to fractions of four digits if the size of the screen is unknown."""
    if size is None:
        return round(point[0], 4), round(point[1], 4)
    return act.whole(point[0] * size[0]), act.whole(point[1] * size[1])
