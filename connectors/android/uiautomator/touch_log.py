"""Gestures and keys of a getevent log as actions in pixels, for a log with screens beside it.

Units of the touch device are converted to pixels by its ranges (`getevent -p`; plain `getevent -l` omits them) and the
size of the screens. A log is refused (`unscaled`) if its device states no range, or if its screens are in landscape and
the device in portrait, because its points would be guesses. A gesture of one finger that stays within `TOUCH_SLOP` is a
click, or a long press from half a second on; else it is a swipe. Several fingers at once are the action `multi_touch`,
with the first and last point of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trajmill.connectors.android import action as act
from trajmill.connectors.android.entry import Entry, Moment, Performed
from trajmill.connectors.android.touch import Gesture, Key, Touches, Unit
from trajmill.connectors.connector import Blob
from trajmill.schemas import ParseError

TOUCH_SLOP: Final = 24
"""Largest movement of a finger within a tap, in pixels: 8 dp (ViewConfiguration) at 480 dpi."""

LONG_PRESS_SECONDS: Final = 0.5


def touch_entries(blob: Blob, member: str, size: tuple[int, int] | None) -> Iterator[Entry | ParseError]:
    """Yield the entries of the log in order, and an error for each unknown line.

    Args:
        blob: the log and its screens.
        size: width and height of the screens; None if they differ.

    Raises:
        ParseError: `unscaled`.
    """
    touches = Touches(blob, member)
    for event in touches.events():
        if isinstance(event, ParseError):
            yield event
        elif isinstance(event, Key):
            arguments = {"keys": [event.name]}
            yield Performed(event.offset, act.PRESS, arguments, arguments, time=_at(event.started))
        else:
            limits = touches.ranges.get(event.device, {})
            across, down = limits.get("x"), limits.get("y")
            if not across or not down or size is None or ((across > down) != (size[0] > size[1]) and across != down):
                detail = f"{event.device} states {limits or 'no ranges'}, and the screens {size or 'several sizes'}"
                raise ParseError(blob.uri, event.offset, "unscaled", detail, member)
            yield _gesture_action(event, size[0] / (across + 1), size[1] / (down + 1))


def _at(seconds: float | None) -> Moment | None:
    return Moment(seconds, False) if seconds is not None else None


def _gesture_action(gesture: Gesture, across: float, down: float) -> Performed:
    """Convert a gesture to an action; `across` and `down` are pixels per unit."""

    def pixels(unit: Unit) -> act.Point:
        return int(unit[0] * across), int(unit[1] * down)

    time, original = _at(gesture.started), dict[str, Any]()
    seconds = None
    if gesture.started is not None and gesture.ended is not None and gesture.ended >= gesture.started:
        seconds = original["seconds"] = round(gesture.ended - gesture.started, 3)
    paths = [[pixels(unit) for unit in finger] for finger in gesture.fingers]
    if len(paths) > 1:
        arguments = {"fingers": [{"from": list(path[0]), "to": list(path[-1])} for path in paths]}
        return Performed(gesture.offset, "multi_touch", {**original, **arguments}, arguments, time=time)
    (path,) = paths
    first, last = path[0], path[-1]
    if all(max(abs(x - first[0]), abs(y - first[1])) <= TOUCH_SLOP for x, y in path):
        name = act.LONG_PRESS if seconds is not None and seconds >= LONG_PRESS_SECONDS else act.CLICK
        return Performed(gesture.offset, name, {"x": first[0], "y": first[1], **original}, point=first, time=time)
    original |= {"from": list(first), "to": list(last)}
    return Performed(gesture.offset, act.SWIPE, original, point=first, end=last, time=time)
