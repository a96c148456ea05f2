"""Android in the Wild as published: TFRecord files, one step per record (github.com/google-research/google-research).

>>> show(AndroidInTheWild(), b"".join(tfrecord.frame_record(protos.example_of(step)) for step in [
...     {"episode_id": ["1"], "step_id": [0], "goal_info": ["Open clock"], "image/width": [400], "image/height": [800],
...      "image/ui_annotations_positions": [0.5, 0.1, 0.05, 0.3], "image/ui_annotations_text": ["Clock"],
...      "image/ui_annotations_ui_types": ["TEXT"], "results/action_type": [4],
...      "results/yx_touch": [0.52, 0.2], "results/yx_lift": [0.52, 0.2]},
...     {"episode_id": ["1"], "step_id": [1], "goal_info": ["Open clock"], "image/width": [400], "image/height": [800],
...      "image/ui_annotations_positions": [0.1, 0.1, 0.05, 0.3], "image/ui_annotations_text": ["12:04"],
...      "image/ui_annotations_ui_types": ["TEXT"], "results/action_type": [10],
...      "results/yx_touch": [-1.0, -1.0], "results/yx_lift": [-1.0, -1.0]}]))
before  | #1 window [0,0][400,800]
        |   #2 text "Clock" [40,400][160,440]
action  | {"name": "click", "arguments": {"element": "#2"}}
after   | #1 window [0,0][400,800]
        |   #2 text "12:04" [40,80][160,120]
action  | {"name": "task_complete", "arguments": {}}
after   | (not in the log)

A record is a `tf.train.Example`: `episode_id`, `step_id`, `goal_info`, the screenshot (`image/encoded`: its pixels,
`image/height` rows of `image/width`), annotations (`image/ui_annotations_positions`: top, left, height and width of
each in fractions of the screen; `…_text`, `…_ui_types`), and the action taken on it (`results/action_type`,
`results/type_action`, `results/yx_touch`, `results/yx_lift`). The next observation is the screen of the next step. The
last step of an episode states that the episode has ended, and has no next observation. `annotations` describes the
conversion of screens and actions.

The screenshot is an attachment with the digest of its stored pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from trajmill.connectors.android import protos
from trajmill.connectors.android.action import Point
from trajmill.connectors.android.annotations import Annotated, box_of_sides, find_touched, screen_text, trajectories
from trajmill.connectors.android.protos import text_of, whole_of
from trajmill.connectors.android.view import sound
from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading import tfrecord
from trajmill.connectors.reading.attached import attachment_of_bytes
from trajmill.connectors.screens.tree import DIALECT
from trajmill.schemas import Attachment, Observation, ParseError, Reject, Trajectory, json_text

_OWN: Final = ("image/ui_annotations_", "results/action_type", "results/yx_", "results/type_action")
_COMMON: Final = frozenset(
    (
        *("goal_info", "device_type", "android_api_level", "current_activity", "step_id", "episode_length"),
        *("image/encoded", "image/height", "image/width", "image/channels"),
    )
)
_NAMES: Final = ("positions", "text", "ui_types")


class AndroidInTheWild(Connector):
    """TFRecord files of Android in the Wild."""

    name: ClassVar[str] = "aitw"
    version: ClassVar[str] = "2"
    domains: ClassVar[tuple[str, ...]] = ("android",)
    title: ClassVar[str] = "Android in the Wild (TFRecord, a step a record)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        keys = tfrecord.feature_keys(head)
        own = next((key for key in keys if key.startswith(_OWN)), None)
        if own is not None:
            return Sniff(0.95, f"TFRecord whose first example has {own}")
        common = sorted(_COMMON & keys.keys())
        if len(common) > 1 or "goal_info" in keys or (common and keys.get("episode_id") == 1):
            return Sniff(0.7, f"TFRecord whose first example has {', '.join(common)}")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        is_read = False
        for record in trajectories(_steps(blob), blob.uri):
            if isinstance(record, ParseError):
                yield Reject.of(record, connector=self.name)
            else:
                is_read = True
                yield sound(record)
        if not is_read:
            raise ParseError(blob.uri, -1, "no_transitions", "no record holds a step with an action")


def _steps(blob: Blob) -> Iterator[Annotated | ParseError]:
    for frame in tfrecord.frames(blob):
        try:
            if isinstance(frame.data, ParseError):
                raise frame.data
            features = protos.read_example(frame.data, blob.uri, frame.offset)
            step = _step(features, blob, frame.offset)
        except ParseError as error:
            yield error
        else:
            yield step


def _step(features: Mapping[str, Sequence[Any]], blob: Blob, offset: int) -> Annotated:
    """Read the step of a record.

    Raises:
        ParseError: `bad_record`: episode, step or action is missing, or the lists of annotations differ in length.
    """
    number, kind = whole_of(features.get("step_id")), whole_of(features.get("results/action_type"))
    width, height = whole_of(features.get("image/width")), whole_of(features.get("image/height"))
    episode = text_of(features.get("episode_id"))
    if episode is None or number is None or kind is None:
        raise ParseError(blob.uri, offset, "bad_record", "wanted episode_id, step_id and results/action_type")
    if width is None or height is None or not (0 < width < 1 << 16 and 0 < height < 1 << 16):
        raise ParseError(blob.uri, offset, "bad_record", "wanted image/width and image/height of a screen")
    positions, texts, types = (features.get(f"image/ui_annotations_{name}", ()) for name in _NAMES)
    if not (len(positions) == 4 * len(texts) == 4 * len(types)) or not all(
        abs(coordinate) < 1e3 for coordinate in positions
    ):
        detail = f"{len(positions)} coordinates, {len(texts)} texts and {len(types)} types of annotations"
        raise ParseError(blob.uri, offset, "bad_record", detail)
    scale = (height, width, height, width)
    sides = [
        [positions[first_side + side] * scale[side] for side in range(4)] for first_side in range(0, len(positions), 4)
    ]
    activity = text_of(features.get("current_activity"))
    package = (activity or "").partition("/")[0]
    words, kinds = [text_of([word]) or "" for word in texts], [text_of([kind_value]) or "" for kind_value in types]
    touch = _point(features.get("results/yx_touch"))
    touched = None
    if blob.choices.screen == "raw":
        annotations = dict(zip(_NAMES, (list(positions), words, kinds), strict=True))
        text = json_text({f"image/ui_annotations_{name}": value for name, value in annotations.items()})
        media_type, dialect = "application/json", "aitw_annotations"
    else:
        boxes = [box_of_sides(*box_sides) for box_sides in sides]
        text = screen_text(boxes, words, kinds, (width, height), package)
        media_type, dialect = "text/plain", DIALECT
        touched = find_touched(boxes, touch, (width, height))
    version = whole_of(features.get("android_api_level"))
    return Annotated(
        episode=episode,
        number=number,
        goal=text_of(features.get("goal_info")),
        observation=Observation(text, media_type, "screen", dialect, uri=activity, attachments=_picture(features)),
        touched=touched,
        size=(width, height),
        kind=kind,
        text=text_of(features.get("results/type_action")) or "",
        touch=touch,
        lift=_point(features.get("results/yx_lift")),
        offset=offset,
        package=package,
        version=f"API {version}" if version is not None else text_of(features.get("android_api_level")),
    )


def _picture(features: Mapping[str, Sequence[Any]]) -> tuple[Attachment, ...]:
    pixels = features.get("image/encoded", ())
    if not pixels or not isinstance(pixels[0], bytes) or not pixels[0]:
        return ()
    media_type = "image/png" if pixels[0].startswith(b"\x89PNG\r\n\x1a\n") else "application/octet-stream"
    return (attachment_of_bytes(pixels[0], "screenshot", media_type),)


def _point(values: Sequence[Any] | None) -> Point | None:
    """Return a point as x and y; None if there is none, which is written as -1, or if it is malformed."""
    if (
        values is None
        or len(values) != 2
        or not all(isinstance(value, float) and 0 <= value <= 1.5 for value in values)
    ):
        return None
    return values[1], values[0]
