r"""Android in the Zoo (arXiv 2403.02713): episodes of Android in the Wild as JSON, each in a folder with screenshots.

>>> show(AndroidInTheZoo(), {"CLOCK-1.json": r'''
... [{"episode_id": "1", "step_id": 0, "instruction": "Open the clock", "ui_positions": "[[54, 17, 40, 120]]",
...   "ui_text": "[\"Clock\"]", "ui_types": "[\"TEXT\"]", "result_action_type": 4, "result_action_text": "",
...   "result_touch_yx": "[0.09, 0.19]", "result_lift_yx": "[0.09, 0.19]", "image_path": "x/CLOCK-1/CLOCK-1_0.png"},
...  {"episode_id": "1", "step_id": 1, "instruction": "Open the clock", "ui_positions": "[[60, 10, 40, 90]]",
...   "ui_text": "[\"12:04\"]", "ui_types": "[\"TEXT\"]", "result_action_type": 10, "result_action_text": "",
...   "result_touch_yx": "[-1.0, -1.0]", "result_lift_yx": "[-1.0, -1.0]", "image_path": "x/CLOCK-1/CLOCK-1_1.png"}]
... ''', "CLOCK-1_0.png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 400, 800)})
before  | #1 window [0,0][400,800]
        |   #2 text "Clock" [17,54][137,94]
action  | {"name": "click", "arguments": {"element": "#2"}}
after   | #1 window
        |   #2 text "12:04" [10,60][100,100]
action  | {"name": "task_complete", "arguments": {}}
after   | (not in the log)

`<episode>/<episode>.json` is a list of steps `{episode_id, step_id, instruction, ui_positions, ui_text, ui_types,
result_action_type, result_action_text, result_touch_yx, result_lift_yx, image_path, coat_*}`, in which the lists are
JSON within strings; `<episode>_<step>.png` is beside it. Boxes are top, left, height and width in pixels of the
screenshot. The header of the screenshot states the size to which the fractions of a gesture refer; without the picture
they stay fractions. `annotations` describes the conversion of screens and actions.

`coat_*` were written later, by a model that was shown the episode. Its thought before an action is the action's
reasoning. Its descriptions of screens and results are no observations, and are left out.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from trajmill.connectors.android import action as act
from trajmill.connectors.android.annotations import Annotated, box_of_sides, find_touched, screen_text, trajectories
from trajmill.connectors.android.view import sound
from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.reading.attached import attachment_of_member
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import text_of
from trajmill.connectors.reading.values import json_value
from trajmill.connectors.screens.tree import DIALECT, Box
from trajmill.schemas import Attachment, Observation, ParseError, Reject, Trajectory, json_text

_KEYS: Final = (b'"result_action_type"', b'"ui_positions"')
_LISTS: Final = ("ui_positions", "ui_text", "ui_types")
_IDENT: Final = (str, int)
_FAR: Final = 10**6
"""Bound on the size of coordinates."""
_PNG: Final = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


class AndroidInTheZoo(Connector):
    """Episode folders of Android in the Zoo."""

    name: ClassVar[str] = "aitz"
    version: ClassVar[str] = "3"
    domains: ClassVar[tuple[str, ...]] = ("android",)
    title: ClassVar[str] = "Android in the Zoo episodes (JSON, with screenshots beside)"
    companions = re.compile(r"[^/]*\.(?:png|jpe?g)")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[") and all(key in head for key in _KEYS):
            return Sniff(0.95, "a list of steps with ui_positions and result_action_type")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each folder with a JSON file of its own name, and screenshots of that name and a number."""
        folders: dict[str, list[str]] = {}
        for path in paths:
            folders.setdefault(path.rpartition("/")[0], []).append(path)
        for folder, files in folders.items():
            name = folder.rpartition("/")[2]
            anchor = f"{folder}/{name}.json"
            if not folder or anchor not in files:
                continue
            picture = re.compile(re.escape(f"{folder}/{name}_") + r"[0-9]{1,6}\.png")
            pictures = [path for path in files if picture.fullmatch(path)]
            if pictures:
                members = {path[len(folder) + 1 :]: path for path in [anchor, *pictures]}
                yield Log(folder, members, f"{name}.json")

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        member = next((name for name in blob.members if name == "" or name.endswith(".json")), None)
        if member is None:
            raise ParseError(blob.uri, -1, "no_actions", "wanted a JSON file of steps, met none")
        rows, _ = json_document(blob, member)
        if not isinstance(rows, list):
            raise ParseError(blob.uri, 0, "bad_record", "wanted a JSON list of steps", member)
        is_read = False
        for record in trajectories(_steps(rows, blob, member), blob.uri):
            if isinstance(record, ParseError):
                yield Reject.of(record, connector=self.name)
            else:
                is_read = True
                yield sound(record)
        if not is_read:
            raise ParseError(blob.uri, -1, "no_transitions", "the file holds no step with an action", member)


def _steps(rows: list[Any], blob: Blob, member: str) -> Iterator[Annotated | ParseError]:
    for row in rows:
        try:
            step = _step(row, blob, member)
        except ParseError as error:
            yield error
        else:
            yield step


def _step(row: Any, blob: Blob, member: str) -> Annotated:
    """Read the step of a parsed record.

    Raises:
        ParseError: `bad_record`: episode, step or action is missing, or the lists of annotations differ in length.
    """
    if not isinstance(row, dict):
        raise ParseError(blob.uri, 0, "bad_record", "wanted a step as an object", member)
    episode, number, kind = row.get("episode_id"), row.get("step_id"), row.get("result_action_type")
    if not isinstance(episode, _IDENT) or not isinstance(number, int) or not isinstance(kind, int):
        detail = "wanted episode_id, step_id and result_action_type"
        raise ParseError(blob.uri, 0, "bad_record", detail, member)
    rows, texts, types = [_parse_list(row.get(name)) for name in _LISTS]
    boxes = _boxes(rows)
    if (
        boxes is None
        or not len(rows) == len(texts) == len(types)
        or not all(isinstance(value, str) for value in (*texts, *types))
    ):
        detail = f"step {number}: annotations that do not fit each other"
        raise ParseError(blob.uri, 0, "bad_record", detail, member)
    size, pictures = _picture(blob, member, number)
    touch = _point(row.get("result_touch_yx"))
    touched = None
    if blob.choices.screen == "raw":
        text = json_text({name: row.get(name) for name in _LISTS})
        observation = Observation(text, "application/json", "screen", "aitz_annotations", attachments=pictures)
    else:
        text = screen_text(boxes, texts, types, size, "")
        observation = Observation(text, form="screen", dialect=DIALECT, attachments=pictures)
        touched = find_touched(boxes, touch, size)
    return Annotated(
        episode=str(episode),
        number=number,
        goal=text_of(row.get("instruction")),
        observation=observation,
        touched=touched,
        size=size,
        kind=kind,
        text=text_of(row.get("result_action_text")) or "",
        touch=touch,
        lift=_point(row.get("result_lift_yx")),
        offset=0,
        member=member,
        reasoning=text_of(row.get("coat_action_think")),
    )


def _parse_list(value: Any) -> list[Any]:
    """Return a list, or the list in a JSON text; empty if the value is neither."""
    if isinstance(value, str):
        try:
            value = json_value(value)
        except ValueError:
            return []
    return value if isinstance(value, list) else []


def _boxes(rows: list[Any]) -> list[Box] | None:
    """Convert lists of top, left, height and width to boxes; None if one is malformed."""
    boxes = [box for row in rows if (box := _box(row)) is not None]
    return boxes if len(boxes) == len(rows) else None


def _box(row: Any) -> Box | None:
    numbers = [act.number(number) for number in row] if isinstance(row, list) else []
    known = [number for number in numbers if number is not None and abs(number) < _FAR]
    return box_of_sides(*known) if len(known) == len(numbers) == 4 else None


def _point(value: Any) -> act.Point | None:
    """Return a point as x and y; None if there is none, which is written as -1, or if it is malformed."""
    values = [act.number(entry) for entry in _parse_list(value)]
    if len(values) != 2 or values[0] is None or values[1] is None:
        return None
    return (values[1], values[0]) if 0 <= values[0] <= 1.5 and 0 <= values[1] <= 1.5 else None


def _picture(blob: Blob, member: str, number: int) -> tuple[tuple[int, int] | None, tuple[Attachment, ...]]:
    """Return (width, height) of a step's screenshot from its PNG header, and its attachment; None, () if absent."""
    name = f"{member.removesuffix('.json')}_{number}.png"
    if not member or name not in blob.members:
        return None, ()
    with blob.open(name) as stream:
        head = stream.read(24)
    attachments = (attachment_of_member(blob, name, "screenshot", "image/png"),)
    if len(head) < 24 or not head.startswith(_PNG):
        return None, attachments
    width, height = struct.unpack(">II", head[16:])
    return ((width, height) if 0 < width < 1 << 16 and 0 < height < 1 << 16 else None), attachments
