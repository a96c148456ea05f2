"""Recordings of Windows' Steps Recorder (formerly Problem Steps Recorder): an MHTML file, which it zips.

>>> show(StepsRecorder(), '''
... From:
... MIME-Version: 1.0
... Content-Type: multipart/related; type="text/html"; boundary="=_NextPart_SMP_1"
...
... --=_NextPart_SMP_1
... Content-Type: text/html; charset="UTF-8"
... Content-Location: main.htm
...
... <script id="myXML" type="text/xml"><Report><UserActionData><RecordSession ActionCount="1" MissedActionCount="0">
... <EachAction ActionNumber="1" FileName="NOTEPAD.EXE"><Description>User left click on File</Description>
... <Action>Mouse Left Click</Action><CursorCoordsXY>20,40</CursorCoordsXY><UIAStack>
... <Level Name="File" LocalizedControlType="menu item" /></UIAStack>
... <ScreenshotFileName>screenshot0001.JPEG</ScreenshotFileName></EachAction></RecordSession></UserActionData></Report>
... --=_NextPart_SMP_1--
... ''')
action  | {"name": "click", "arguments": {"x": 20, "y": 40, "target": {"role": "menu item", "name": "File"}, \
"description": "User left click on File"}}
after   | (not in the log)

The page holds an XML report with the facts about each action: its name, the recorder's words, the position of the
pointer, the controls there (`UIAStack`, the innermost first), and the name of its screenshot, which is a part of the
same file. The screenshot shows the screen before the action, so the next action's screenshot is the next observation.
If the recorder states that it missed actions, it is unknown which, so the next observations are null. No tree is
recorded: a screen's content is null, its picture is attached. Typed characters are not recorded either, except keys
such as Enter, in the recorder's words. An action keeps its own name if it is not an action of the mouse, or if the
language of Windows is not English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from typing import Any, ClassVar, Final

from lxml import etree

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.desktop import action as act
from trajmill.connectors.reading.attached import attachment_of_bytes
from trajmill.connectors.screens.moves import Moves
from trajmill.schemas import Action, Agent, Environment, Observation, ParseError, Reject, Trajectory

_REPORT: Final = b"<UserActionData"
_EACH: Final = re.compile(rb"<EachAction\b[^<>]*>.*?</EachAction>", re.DOTALL)
_MISSED: Final = re.compile(rb'<RecordSession\b[^<>]*\bMissedActionCount="0*[1-9]')
_POINT: Final = re.compile(r"(-?\d{1,6}),(-?\d{1,6})")
_BYTES: Final = 256 << 20
"""Largest recording that is read, in bytes. A recording with a hundred pictures has some twenty megabytes."""
_WORDS: Final = {
    "Mouse Left Click": act.CLICK,
    "Mouse Left Double Click": act.DOUBLE_CLICK,
    "Mouse Right Click": act.RIGHT_CLICK,
    "Mouse Middle Click": act.MIDDLE_CLICK,
    "Mouse Wheel": act.SCROLL,
    "Mouse Drag": act.DRAG,
}


class StepsRecorder(Connector):
    """MHTML of Steps Recorder."""

    name: ClassVar[str] = "steps_recorder"
    version: ClassVar[str] = "1"
    domains: ClassVar[tuple[str, ...]] = ("os",)
    title: ClassVar[str] = "Windows Steps Recorder (Problem Steps Recorder; MHTML)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if b"multipart/related" in head[:4096] and _REPORT in head and b"<RecordSession" in head:
            return Sniff(0.97, "a page with the user's actions, as Steps Recorder saves it")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        with blob.open() as stream:
            data = stream.read(_BYTES + 1)
        if len(data) > _BYTES:
            raise ParseError(blob.uri, 0, "too_large", f"wanted a recording of at most {_BYTES} bytes")
        start = max(data.find(_REPORT), 0)
        end = data.find(b"</UserActionData>", start)
        if end < 0:
            raise ParseError(blob.uri, start, "truncated", "wanted the end of UserActionData")
        parts = {str(part["Content-Location"]): part for part in message_from_bytes(data.lstrip()).walk()}
        missed = _MISSED.search(data, start, end) is not None
        moves = Moves()
        follows = False
        for match in _EACH.finditer(data, start, end):
            try:
                texts = _read_texts(match[0], blob.uri, match.start())
            except ParseError as error:
                follows = False
                yield Reject.of(error, connector=self.name)
                continue
            screen = _screen(parts.get(texts.get("ScreenshotFileName", "")))
            if follows and screen is not None:
                moves.reach(screen)
            follows = not missed
            moves.add(_action(texts), screen, None, match.start())
        if not moves.steps:
            raise ParseError(blob.uri, start, "no_transitions", "the recording holds no action")
        yield Trajectory(
            native_id=blob.uri.rpartition("/")[2],
            domain="os",
            steps=moves.steps,
            environment=Environment(id="Windows"),
            agent=Agent(name="person"),
        )


def _read_texts(xml: bytes, uri: str, offset: int) -> dict[str, str]:
    """Return the texts of an action by the names of their elements, with role and name of the innermost control.

    Raises:
        ParseError: `bad_xml`, or `bad_action` without the name of the action.
    """
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, remove_comments=True)
    try:
        root = etree.fromstring(xml, parser)
    except etree.XMLSyntaxError as error:
        raise ParseError(uri, offset, "bad_xml", str(error.msg)[:200]) from None
    texts = {str(child.tag): (child.text or "").strip() for child in root}
    if not texts.get("Action"):
        raise ParseError(uri, offset, "bad_action", "wanted the name of the action")
    level = root.find("UIAStack/Level")
    if level is not None:
        texts |= {"role": level.get("LocalizedControlType", ""), "name": level.get("Name", "")}
    return texts | {"program": root.get("FileName", "")}


def _screen(part: Message | None) -> Observation | None:
    data = part.get_payload(decode=True) if part is not None and not part.is_multipart() else None
    if part is None or not isinstance(data, bytes) or not data:
        return None
    kind = part.get_content_type()
    return Observation(None, form="screen", attachments=(attachment_of_bytes(data, "screenshot", kind),))


def _action(texts: dict[str, str]) -> Action:
    name, point = _WORDS.get(texts["Action"], texts["Action"]), _POINT.fullmatch(texts.get("CursorCoordsXY", ""))
    arguments: dict[str, Any] = {}
    if point is not None and point[0] != "0,0":
        arguments |= {"x": int(point[1]), "y": int(point[2])}
    target = {key: texts[key] for key in ("role", "name") if texts.get(key)}
    if target:
        arguments["target"] = target
    if texts.get("Description"):
        arguments["description"] = texts["Description"]
    return act.build_action(name, arguments, texts)
