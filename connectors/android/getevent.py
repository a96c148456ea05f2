"""Input events of a device alone (`adb shell getevent`): recognized, decoded and rejected, as they hold no screen.

>>> show(GetEvent(), '''
... [      10.000000] /dev/input/event2: EV_ABS       ABS_MT_TRACKING_ID   00000001
... [      10.000000] /dev/input/event2: EV_ABS       ABS_MT_POSITION_X    00000100
... [      10.000000] /dev/input/event2: EV_ABS       ABS_MT_POSITION_Y    00000200
... [      10.000000] /dev/input/event2: EV_SYN       SYN_REPORT           00000000
... [      10.100000] /dev/input/event2: EV_ABS       ABS_MT_TRACKING_ID   ffffffff
... [      10.100000] /dev/input/event2: EV_SYN       SYN_REPORT           00000000
... ''')
refused | no_observation

What fingers and keys did is an action, but the log does not hold what they met or led to, nor task or agent: a row
would be an action without anything around it. So the log becomes one reject, `no_observation`, which says how many
gestures and keys it holds; a log without any (sensors alone) is `no_actions`. Beside uiautomator dumps the same log
says what was done, and the connector `uiautomator` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from trajmill.connectors.android.touch import LINE, Gesture, Touches
from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.schemas import ParseError, Reject, Trajectory

_LISTED: Final = b"add device "


class GetEvent(Connector):
    """Logs of getevent; none is carried on."""

    name: ClassVar[str] = "getevent"
    version: ClassVar[str] = "1"
    domains: ClassVar[tuple[str, ...]] = ("android",)
    title: ClassVar[str] = "input events of getevent (rejected: no observation)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        return sniffed(head)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        touches = Touches(blob)
        gestures = keys = 0
        for found in touches.events():
            if isinstance(found, ParseError):
                yield Reject.of(found, connector=self.name)
            elif isinstance(found, Gesture):
                gestures += 1
            else:
                keys += 1
        if not gestures and not keys:
            raise ParseError(blob.uri, -1, "no_actions", "no finger and no key in the log")
        detail = f"{gestures} gestures and {keys} keys, and no screen that they were made on; wanted dumps beside them"
        yield Reject.of(ParseError(blob.uri, 0, "no_observation", detail), connector=self.name)


def sniffed(head: bytes) -> Sniff | None:
    """Whether a log begins as getevent prints: with its list of devices, or with events."""
    rows = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:4096].splitlines()
    if rows and rows[0].startswith(_LISTED) and b"/dev/input/event" in rows[0]:
        return Sniff(0.95, "begins with the devices that getevent lists")
    # The last of the rows may be cut.
    events = [row for row in rows[:8] if LINE.fullmatch(row.decode("utf-8", "replace"))]
    if rows and events and events[0] == rows[0]:
        return Sniff(0.9, "first line is an event of getevent")
    return None
