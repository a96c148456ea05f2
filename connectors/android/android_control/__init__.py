"""AndroidControl (arXiv 2406.03679): human demonstrations in TFRecord files, one episode per record.

>>> show(AndroidControl(), tfrecord.frame_record(protos.example_of({
...     "episode_id": [7], "goal": ["Stop the music"], "step_instructions": ["Tap on Stop"],
...     "actions": ['{"action_type": "click", "x": 50, "y": 30}'],
...     "accessibility_trees": [protos.messages().Forest(windows=[{"tree": {"nodes": [
...         {"class_name": "android.widget.Button", "package_name": "org.example", "text": text, "is_clickable": True,
...          "is_enabled": True, "is_visible_to_user": True, "bounds_in_screen": {"right": 100, "bottom": 60}}]}}]
...         ).SerializeToString() for text in ("Stop", "Play")]})))
before  | #1 window "org.example" [0,0][100,60]
        |   #2 button "Stop" clickable [0,0][100,60]
action  | {"name": "click", "arguments": {"element": "#2"}}
after   | #1 window "org.example" [0,0][100,60]
        |   #2 button "Play" clickable [0,0][100,60]

A record is a `tf.train.Example` with `episode_id`, `goal`, lists of `screenshots` (PNG), `accessibility_trees`
(serialized forests), `screenshot_widths` and `screenshot_heights`, and, one fewer, `actions` (JSON) and
`step_instructions` (github.com/google-research/google-research, android_control/README.md). The observation of step i
is screen i, the action is action i, and the next observation is screen i + 1. The text of a screen is its tree; its
screenshot is an attachment by digest.

The goal is the task. A step instruction is an annotator's text for the step (`Turn on the alarm`), not output of the
device, so it is never an observation. It describes its action as an agent's own words would, so it is the action's
message; the data do not state when it was written. An instruction that took several actions is repeated at each of
them.

Coordinates are pixels of the screenshot, as are the boxes of the tree. A point is named by the node that takes the
touch. The data do not state how an episode ended: there is no action for it, and no outcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from trajmill.connectors.android import action as act
from trajmill.connectors.android import protos
from trajmill.connectors.android.android_control.forest import read_forest
from trajmill.connectors.android.protos import text_of, whole_of
from trajmill.connectors.android.view import Screen, environment_of, sound
from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading import tfrecord
from trajmill.connectors.reading.attached import attachment_of_bytes
from trajmill.connectors.reading.values import json_value
from trajmill.connectors.screens.moves import Moves
from trajmill.schemas import WAIT, Action, Attachment, Environment, Observation, ParseError, Reject, Task, Trajectory

_KEYS: Final = frozenset(
    ("accessibility_trees", "actions", "goal", "screenshot_heights", "screenshot_widths", "screenshots")
)
_KEYS_PRESSED: Final = {"navigate_back": "back", "navigate_home": "home", "keyboard_enter": "enter"}
_PNG: Final = b"\x89PNG\r\n\x1a\n"


class AndroidControl(Connector):
    """TFRecord files of AndroidControl."""

    name: ClassVar[str] = "android_control"
    version: ClassVar[str] = "4"
    domains: ClassVar[tuple[str, ...]] = ("android",)
    title: ClassVar[str] = "AndroidControl episodes (TFRecord with accessibility trees)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        keys = tfrecord.feature_keys(head)
        own_keys = sorted(_KEYS & keys.keys())
        if own_keys:
            return Sniff(0.95, f"TFRecord whose first example has {own_keys[0]}")
        if keys.get("episode_id") == 3 or "step_instructions" in keys:
            return Sniff(0.7, "TFRecord whose first example has an episode_id that is a number, or step_instructions")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        is_read = False
        for frame in tfrecord.frames(blob):
            rejected: list[ParseError] = []
            try:
                if isinstance(frame.data, ParseError):
                    raise frame.data
                features = protos.read_example(frame.data, blob.uri, frame.offset)
                trajectory = _trajectory(_Episode(features, blob, frame.offset, rejected))
            except ParseError as error:
                rejected.append(error)
                trajectory = None
            for refused in rejected:
                yield Reject.of(refused, connector=self.name)
            if trajectory is not None:
                is_read = True
                yield sound(trajectory)
        if not is_read:
            raise ParseError(blob.uri, -1, "no_transitions", "no record holds an episode with an action")


class _Episode:
    """The lists of one record, and its screens, each read once; errors are added to `errors`."""

    def __init__(
        self, features: Mapping[str, Sequence[Any]], blob: Blob, offset: int, errors: list[ParseError]
    ) -> None:
        self._blob, self._errors = blob, errors
        self.uri, self.offset = blob.uri, offset
        self.features = features
        self._pictures = features.get("screenshots", ())
        self._trees = features.get("accessibility_trees", ())
        self.actions = features.get("actions", ())
        self.instructions = features.get("step_instructions", ())
        self._check()
        self.screens = [self._screen(index) for index in range(len(self._trees))]

    def _check(self) -> None:
        """Raise a `ParseError`, `no_actions` or `unaligned`, unless the lists determine which screen is which."""
        wanted = (len(self.actions), len(self.actions) + 1)
        counts = {"screenshots": len(self._pictures), "accessibility_trees": len(self._trees)}
        if not self.actions:
            raise ParseError(self.uri, self.offset, "no_actions", "the episode has no action")
        for name, count in counts.items():
            if count and count not in wanted:
                detail = f"{count} {name} and {wanted[0]} actions; wanted one more, or as many"
                raise ParseError(self.uri, self.offset, "unaligned", detail)
        if all(counts.values()) and len(set(counts.values())) > 1:
            detail = f"{counts['accessibility_trees']} trees and {counts['screenshots']} screenshots; wanted as many"
            raise ParseError(self.uri, self.offset, "unaligned", detail)

    def _screen(self, index: int) -> Screen | None:
        tree = self._trees[index]
        if not isinstance(tree, bytes) or not tree:
            return None
        try:
            return read_forest(tree, self.uri, self.offset, is_raw=self._blob.choices.screen == "raw")
        except ParseError as error:
            self._errors.append(error)
            return None

    def screen(self, index: int) -> Screen | None:
        """Return the tree of the screen at the index; None if it is missing or unreadable."""
        return self.screens[index] if index < len(self.screens) else None

    def observation(self, index: int) -> Observation | None:
        """Return the screen at the index with its screenshot; None if there is neither."""
        pictures: tuple[Attachment, ...] = ()
        if index < len(self._pictures) and isinstance(self._pictures[index], bytes) and self._pictures[index]:
            picture = self._pictures[index]
            media_type = "image/png" if picture.startswith(_PNG) else None
            pictures = (attachment_of_bytes(picture, "screenshot", media_type),)
        screen = self.screen(index)
        if screen is not None:
            return screen.observation(attachments=pictures)
        return Observation(None, "image/png", "screen", attachments=pictures) if pictures else None


def _trajectory(episode: _Episode) -> Trajectory:
    """Build the trajectory of an episode.

    Raises:
        ParseError: `bad_record`: an action is no JSON object, so that the order of screens is undefined.
    """
    seen = [episode.observation(index) for index in range(len(episode.actions) + 1)]
    instructions = episode.instructions if len(episode.instructions) == len(episode.actions) else ()
    moves = Moves()
    for index, data in enumerate(episode.actions):
        message = text_of(instructions[index : index + 1])
        performed = _action(_object(data, episode.uri, episode.offset), episode.screen(index), message)
        moves.add(performed, seen[index], seen[index + 1], episode.offset)
    packages = [screen.package for screen in episode.screens if screen is not None]
    number = whole_of(episode.features.get("episode_id"))
    name = str(number) if number is not None else text_of(episode.features.get("episode_id"))
    return Trajectory(
        native_id=name or "",
        domain="android",
        steps=moves.steps,
        environment=Environment(id=environment_of(packages)),
        task=Task(instruction=text_of(episode.features.get("goal"))),
    )


def _object(data: Any, uri: str, offset: int) -> dict[str, Any]:
    try:
        value = json_value(data) if isinstance(data, bytes) else None
    except ValueError:
        value = None
    if not isinstance(value, dict) or not isinstance(value.get("action_type"), str) or not value["action_type"]:
        detail = "wanted an action as a JSON object with an action_type"
        excerpt = data[:512] if isinstance(data, bytes) else b""
        raise ParseError(uri, offset, "bad_record", detail, "", excerpt)
    return value


def _action(value: dict[str, Any], screen: Screen | None, message: str | None) -> Action:
    """Convert an action of the data to the Android vocabulary; the word `type` is a click, the text and enter."""
    word = value["action_type"]
    original = {key: item for key, item in value.items() if key != "action_type" and item is not None}
    x, y = act.number(value.get("x")), act.number(value.get("y"))
    point = (x, y) if x is not None and y is not None else None
    text = value.get("text") if isinstance(value.get("text"), str) else None
    if word in (act.CLICK, act.LONG_PRESS):
        return act.touch(word, screen, point, original, message=message)
    if word in (act.INPUT_TEXT, "type"):
        arguments: dict[str, Any] = {"text": text or "", "enter": True if word == "type" else None}
        return act.touch(act.INPUT_TEXT, screen, point, original, arguments, message=message)
    if word == act.SCROLL:
        return act.call(act.SCROLL, {"direction": _word(value, "direction")}, original, message=message)
    if word == act.OPEN_APP:
        return act.call(act.OPEN_APP, {"app": _word(value, "app_name")}, original, message=message)
    if word in _KEYS_PRESSED:
        return act.call(act.PRESS, {"key": _KEYS_PRESSED[word]}, original, message=message)
    if word == WAIT:
        return act.call(WAIT, {"seconds": act.number(value.get("seconds"))}, original, message=message)
    return act.call(
        word, {k: v for k, v in original.items() if isinstance(v, str | int | float)}, original, message=message
    )


def _word(value: Mapping[str, Any], key: str) -> str | None:
    entry = value.get(key)
    return entry if isinstance(entry, str) and entry else None
