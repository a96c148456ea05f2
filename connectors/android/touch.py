"""Gestures and keys from the kernel's input events as `getevent` prints them.

    [   10462.142048] /dev/input/event0: EV_ABS       ABS_MT_POSITION_X    00000172      (getevent -lt)
    /dev/input/event0: 0003 0035 00000172                                               (getevent)
    0003 0035 00000172                                              (getevent /dev/input/event0)

Supported are multi-touch protocol B (slots with tracking ids) and A (contacts separated by SYN_MT_REPORT), and single
touch (BTN_TOUCH with ABS_X and ABS_Y), as defined in the kernel's documentation of multi-touch. A gesture begins when
the first finger comes down and ends when the last is lifted, however many events that takes. A value that the kernel
does not send again has not changed. Other sensors are skipped. Positions are units of the device; `ranges` holds their
largest values if the log states them (`getevent -p`). This module knows no screens and no pixels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from trajmill.connectors.connector import Blob
from trajmill.connectors.reading.lines import lines
from trajmill.schemas import ParseError

LINE: Final = re.compile(
    r"(?:\[\s*(\d{1,10}\.\d{1,9})\]\s*)?(?:(/dev/input/event\d{1,4}):\s+"
    r"|(?=(?:EV_[A-Z]{2,8}|00[01][0-9a-f])\s+(?:[A-Z][A-Z0-9_]{2,31}|[0-9a-f]{4})\s+(?:[0-9a-f]{1,8}|[A-Z]{2,8})\s*$))"
    r"(\S{1,32})\s+(\S{1,32})\s+(\S{1,32})\s*"
)
"""Seconds since boot, device, type, code and value of an event; getevent omits the device if it reads only one."""

_DEVICE: Final = re.compile(r"add device \d+: (/dev/input/event\d{1,4})\s*")
_RANGE: Final = re.compile(r".*?(ABS_MT_POSITION_[XY]|ABS_[XY]|003[56]|000[01])\s*:\s*value .*?\bmax (\d{1,9})\b.*")
_HEADER: Final = re.compile(r"\s|could not|add device|remove device|name:|$")
_TYPES: Final = {"0000": "EV_SYN", "0001": "EV_KEY", "0003": "EV_ABS"}
_CODES: Final = {
    ("EV_SYN", "0000"): "SYN_REPORT",
    ("EV_SYN", "0002"): "SYN_MT_REPORT",
    ("EV_KEY", "014a"): "BTN_TOUCH",
    ("EV_KEY", "009e"): "KEY_BACK",
    ("EV_KEY", "0066"): "KEY_HOME",
    ("EV_KEY", "00ac"): "KEY_HOMEPAGE",
    ("EV_KEY", "008b"): "KEY_MENU",
    ("EV_KEY", "0244"): "KEY_APPSELECT",
    ("EV_KEY", "0074"): "KEY_POWER",
    ("EV_KEY", "0073"): "KEY_VOLUMEUP",
    ("EV_KEY", "0072"): "KEY_VOLUMEDOWN",
    ("EV_ABS", "0000"): "ABS_X",
    ("EV_ABS", "0001"): "ABS_Y",
    ("EV_ABS", "002f"): "ABS_MT_SLOT",
    ("EV_ABS", "0035"): "ABS_MT_POSITION_X",
    ("EV_ABS", "0036"): "ABS_MT_POSITION_Y",
    ("EV_ABS", "0039"): "ABS_MT_TRACKING_ID",
}
"""Names in linux/input-event-codes.h for the numbers that plain `getevent` prints."""

_KEYS: Final = {
    "KEY_BACK": "back",
    "KEY_HOME": "home",
    "KEY_HOMEPAGE": "home",
    "KEY_MENU": "menu",
    "KEY_APPSELECT": "app_switch",
    "KEY_POWER": "power",
    "KEY_VOLUMEUP": "volume_up",
    "KEY_VOLUMEDOWN": "volume_down",
}
_AXES: Final = {
    "0035": "x",
    "0036": "y",
    "ABS_MT_POSITION_X": "x",
    "ABS_MT_POSITION_Y": "y",
    "ABS_X": "x",
    "ABS_Y": "y",
}
_WORDS: Final = {"DOWN": 1, "UP": 0}
_LIFTED: Final = 0xFFFFFFFF
_LINE_BYTES: Final = 4096

Unit: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Gesture:
    """Fingers on the screen: the points of each in order, in units of the device; usually one finger."""

    offset: int
    device: str
    fingers: tuple[tuple[Unit, ...], ...]
    started: float | None
    ended: float | None


@dataclass(frozen=True, slots=True)
class Key:
    """A pressed key of the device."""

    offset: int
    name: str
    started: float | None


@dataclass(slots=True)
class _Slot:
    """One finger: its position as far as known, and the `points` that it has touched since it came down."""

    x: int | None = None
    y: int | None = None
    is_down: bool = False
    points: list[Unit] = field(default_factory=list)


@dataclass(slots=True)
class _Pad:
    """State of a touch device between two events."""

    name: str
    slots: dict[int, _Slot] = field(default_factory=dict)
    slot: int = 0
    has_slots: bool = False
    contacts: int = 0
    is_reported: bool = False
    begun: tuple[int, float | None] | None = None

    def at(self, slot: int) -> _Slot:
        return self.slots.setdefault(slot, _Slot())

    def take(self, kind: str, code: str, value: int) -> None:
        """Process an event other than a report."""
        if code == "ABS_MT_SLOT":
            self.slot, self.has_slots = min(value, 63), True
        elif code == "ABS_MT_TRACKING_ID":
            if value == _LIFTED:
                self.at(self.slot).is_down = False
            else:
                self.has_slots = self.has_slots or not self.is_reported
                self.at(self.slot).is_down = True
        elif code in _AXES:
            finger = self.at(self.slot)
            setattr(finger, _AXES[code], value)
            # In protocol A a contact is down if it is listed at all; single touch has BTN_TOUCH.
            finger.is_down = finger.is_down or self.is_reported
        elif code == "SYN_MT_REPORT":
            if not self.is_reported:
                self.is_reported = True
                self.at(self.slot).is_down = self.at(self.slot).x is not None
            self.contacts += 1
            self.slot = min(self.contacts, 63)
        elif code == "BTN_TOUCH" and kind == "EV_KEY" and not self.has_slots:
            if value:
                self.at(0).is_down = True
            else:
                for finger in self.slots.values():
                    finger.is_down = False

    def report(self, offset: int, time: float | None) -> Gesture | None:
        """End a report, and return the gesture that ended with it; None if there is none."""
        for finger in self.slots.values():
            if finger.is_down and finger.x is not None and finger.y is not None:
                self.begun = self.begun or (offset, time)
                if not finger.points or finger.points[-1] != (finger.x, finger.y):
                    finger.points.append((finger.x, finger.y))
        down = any(finger.is_down for finger in self.slots.values())
        if self.is_reported:
            # Protocol A lists every contact in each report, and none in the report that lifts the last contact.
            for finger in self.slots.values():
                finger.is_down = False
            self.contacts, self.slot = 0, 0
        if down or self.begun is None:
            return None
        fingers = tuple(tuple(contact.points) for contact in self.slots.values() if contact.points)
        (begun, started), self.begun = self.begun, None
        for finger in self.slots.values():
            finger.points = []
        return Gesture(begun, self.name, fingers, started, time)


class Touches:
    """The events of a log in order; `ranges` grows during reading: device → axis → largest value."""

    def __init__(self, blob: Blob, member: str = "") -> None:
        self._blob, self._member = blob, member
        self.ranges: dict[str, dict[str, int]] = {}
        self.is_cut = False

    def events(self) -> Iterator[Gesture | Key | ParseError]:
        """Yield gestures and keys in the order in which they ended, and an error for each unknown line."""
        pads: dict[str, _Pad] = {}
        device = ""
        with self._blob.open(self._member) as stream:
            for line in lines(stream, _LINE_BYTES):
                text = (line.data or b"").decode("utf-8", "replace").strip("\r")
                match = LINE.fullmatch(text)
                if match is not None and not line.ended and len(match[5]) < 8 and match[5] not in _WORDS:
                    match = None  # a value has 8 digits, so the file was cut within this one
                if match is None:
                    device = self._take_header(text, device)
                    if line.data is None or not _HEADER.match(text):
                        reason = "bad_record" if line.ended else "truncated"
                        detail = f"wanted an event of getevent, met {text[:60]!r}"
                        yield ParseError(self._blob.uri, line.offset, reason, detail, self._member)
                    continue
                time = float(match[1]) if match[1] else None
                # An event that names no device belongs to the device that was listed last.
                name = match[2] or device
                pad = pads.setdefault(name, _Pad(name))
                yield from _take_event(pad, match, line.offset, time)
        self.is_cut = any(pad.begun is not None for pad in pads.values())

    def _take_header(self, text: str, device: str) -> str:
        """Process a line of the list of devices, and return the device that the list has reached."""
        added = _DEVICE.fullmatch(text)
        if added:
            return added[1]
        ranged = _RANGE.fullmatch(text)
        if ranged and device:
            axis = {"0000": "x", "0001": "y"}.get(ranged[1]) or _AXES[ranged[1]]
            known = self.ranges.setdefault(device, {})
            if axis not in known or "MT" in ranged[1] or ranged[1].startswith("003"):
                known[axis] = int(ranged[2])
        return device


def _take_event(pad: _Pad, match: re.Match[str], offset: int, time: float | None) -> Iterator[Gesture | Key]:
    kind = _TYPES.get(match[3], match[3])
    code = _CODES.get((kind, match[4].lower()), match[4])
    value = _WORDS.get(match[5])
    if value is None:
        try:
            value = int(match[5], 16)
        except ValueError:
            return
    if kind == "EV_KEY" and code in _KEYS:
        if value == 1:
            yield Key(offset, _KEYS[code], time)
    elif kind == "EV_SYN" and code == "SYN_REPORT":
        gesture = pad.report(offset, time)
        if gesture is not None:
            yield gesture
    elif kind in ("EV_ABS", "EV_KEY", "EV_SYN"):
        pad.take(kind, code, value)
