"""Steps of Android in the Wild (arXiv 2307.10088), however stored: screens of detected texts and icons, and gestures.

A screen is a list of annotations, which a detector drew from the screenshot: a text that it read, or the class of an
icon. They become nodes `text` and `icon` of one window, in their order; the class of an icon is its description, since
it stands nowhere on the screen. Nothing says what can be touched, so a tap is named by the smallest annotation that it
falls in, and has its coordinates otherwise.

Actions are numbers (android_in_the_wild/action_type.py): 3 types text, 4 is a gesture from a touch to a lift, 5, 6 and
7 press back, home and enter, 10 says that the task is complete, 11 that it is impossible. A gesture is a tap if its two
points, in fractions of the screen, are at most 0.04 apart, else a swipe (action_matching.py).

Steps of an episode stand one after the other, numbered from 0. Where a number is left out, what the step before it led
to is not known; a number that does not grow is rejected.
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
"""Fraction of the screen that touch and lift of a tap may be apart."""

_TYPE, _GESTURE, _COMPLETE, _IMPOSSIBLE = 3, 4, 10, 11
_KEYS: Final = {5: "back", 6: "home", 7: "enter"}
_TEXT_TYPES: Final = ("TEXT", "")


@record
class Annotated:
    """One step as stored, whichever file it is from.

    Attributes:
        episode: its episode's id.
        number: its place in the episode, from 0.
        goal: what the episode is for.
        observation: what was seen before the action.
        touched: the node that `touch` falls on, as `find_touched` tells it; None where it shows the log's own text.
        size: width and height in pixels; None if not known.
        kind: the number of the action's type.
        text: what was typed.
        touch: where the finger came down, x and y in fractions of the screen.
        lift: where it was lifted.
        offset: where its record begins in `member`.
        package: the app in the foreground.
        version: of Android, as told.
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
    """The compact text of a list of annotations.

    Args:
        boxes: of each.
        texts: what each says; empty for most icons.
        types: `TEXT`, or the class of an icon.
        size: of the screen, for the box of its window.
        package: the app in the foreground, empty if not known.
    """
    window = render_node("window", package, bounds=(0, 0, *size) if size is not None else None)
    annotations = zip(boxes, texts, types, strict=True)
    return tree_text([(0, window), *((1, _annotation(box, text, kind)) for box, text, kind in annotations)])


def _annotation(box: Box, text: str, kind: str) -> str:
    if kind in _TEXT_TYPES:
        return render_node("text", text, bounds=box)
    return render_node("icon", text, "", kind, bounds=box)


def find_touched(boxes: Sequence[Box], touch: act.Point | None, size: tuple[int, int] | None) -> int | None:
    """Find the node of the smallest annotation that a touch falls in; of equals the first."""
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
    """The box of an annotation, in whole pixels."""
    return act.whole(left), act.whole(top), act.whole(left + width), act.whole(top + height)


def trajectories(steps: Iterable[Annotated | ParseError], uri: str) -> Iterator[Trajectory | ParseError]:
    """The trajectory of each run of steps of one episode, in order; an error among the steps comes out at its place."""
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
        ParseError: `bad_record`: a number that stands for no action, or a gesture without its points.
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
    """Convert a point to pixels, or to fractions of four digits where the size of the screen is not known."""
    if size is None:
        return round(point[0], 4), round(point[1], 4)
    return act.whole(point[0] * size[0]), act.whole(point[1] * size[1])
