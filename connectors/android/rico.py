"""Traces of Rico (Deka et al., UIST 2017): screens of an app in use by a person, and the gesture made on each.

>>> show(Rico(), {"gestures.json": '''
... {"1": [[0.2, 0.1]], "2": []}
... ''', "view_hierarchies/1.json": '''
... {"activity_name": "org.example/org.example.Main", "activity": {"root": {"class": "android.widget.Button",
...  "text": "Play", "clickable": true, "bounds": [0, 0, 1440, 400], "visible-to-user": true}}}
... ''', "view_hierarchies/2.json": '''
... {"activity_name": "org.example/org.example.Main", "activity": {"root": {"class": "android.widget.Button",
...  "text": "Stop", "clickable": true, "bounds": [0, 0, 1440, 400], "visible-to-user": true}}}
... '''})
before  | #1 window "org.example" [0,0][1440,400]
        |   #2 button "Play" clickable [0,0][1440,400]
action  | {"name": "click", "arguments": {"element": "#2"}}
after   | #1 window "org.example" [0,0][1440,400]
        |   #2 button "Stop" clickable [0,0][1440,400]

`view_hierarchies/<n>.json` is the screen of number n: `{activity_name, activity: {root}}`, a tree of views with
`class`, `text`, `bounds`, `resource-id`, `content-desc` (a list), `visible-to-user` and so on; null if it could not be
captured. `gestures.json` maps the numbers to the points of the finger, in fractions of the screen. One point is a tap.
Several points are a swipe from the first to the last, unless they stay within `TAP_DISTANCE` of each other. No points
mark the end of the trace. `screenshots/<n>.jpg` is the picture of the screen. The observation is screen n, the action
its gesture, and the next observation the screen of the next number in the file (its keys are in no order, and numbers
have gaps).

Boxes are pixels of a screen of 1440 by 2560, on which all of Rico was captured (in landscape, if the root is wider than
that). Gestures include neither keys nor typed text. If a screen follows one without points, its cause is unknown. A
hierarchy of the data set of single screens has no gesture, and is refused (`no_actions`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from trajmill.connectors.android import action as act
from trajmill.connectors.android.view import (
    Screen,
    Source,
    drawn_box,
    environment_of,
    is_outside,
    sound,
    states_of,
    view_node,
    window_node,
)
from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.reading.attached import attachment_of_member
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.screens.moves import Moves
from trajmill.connectors.screens.tree import MAX_DEPTH, Node, Tree
from trajmill.schemas import Action, Attachment, Environment, Observation, ParseError, Reject, Trajectory

TAP_DISTANCE: Final = 0.02
"""Largest distance between the points of a tap, as a fraction of the screen; a finger on glass moves some pixels."""

_SHORT, _LONG = 1440, 2560
_VIEW: Final = re.compile(r"((?:.*/)?)view_hierarchies/([0-9]{1,9})\.json")
_PICTURE: Final = re.compile(r"((?:.*/)?)screenshots/([0-9]{1,9})\.(?:jpg|png)")
_GESTURES: Final = re.compile(r"((?:.*/)?)gestures\.json")
_POINTS: Final = re.compile(rb'\s*\{\s*(?:\}\s*$|"[0-9]{1,9}"\s*:\s*\[\s*(?:\]|\[))')


class Rico(Connector):
    """Trace folders of Rico."""

    name: ClassVar[str] = "rico"
    version: ClassVar[str] = "5"
    domains: ClassVar[tuple[str, ...]] = ("android",)
    title: ClassVar[str] = "Rico traces (view hierarchies and gestures)"
    companions = re.compile(r"screenshots/[^/]*|[^/]*\.gif")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if _GESTURES.fullmatch(uri):
            return Sniff(0.9, "gestures by screen number, as Rico keeps them") if _POINTS.match(head) else None
        if b'"activity_name"' in head and b'"activity"' in head and b'"rel-bounds"' in head:
            return Sniff(0.9, "a view hierarchy as Rico keeps it")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each folder with `gestures.json` and `view_hierarchies/`, and its screenshots."""
        members: dict[str, list[str]] = {}
        for path in paths:
            if match := _VIEW.fullmatch(path) or _PICTURE.fullmatch(path) or _GESTURES.fullmatch(path):
                members.setdefault(match[1], []).append(path)
        for folder, files in members.items():
            anchor = f"{folder}gestures.json"
            if anchor in files and any(_VIEW.fullmatch(path) for path in files):
                named = {path[len(folder) :]: path for path in sorted(files)}
                yield Log(folder.rstrip("/"), named, "gestures.json")

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        if "gestures.json" not in blob.members:
            detail = "a view hierarchy shows a screen; wanted gestures.json beside view_hierarchies/"
            raise ParseError(blob.uri, -1, "no_actions", detail)
        gestures = json_document(blob, "gestures.json")[0]
        if not isinstance(gestures, dict):
            raise ParseError(blob.uri, 0, "bad_record", "wanted an object of points by screen", "gestures.json")
        screens = _Screens(blob)
        moves = Moves()
        errors: list[ParseError] = []
        numbers = sorted(gestures, key=act.natural)
        for index, number in enumerate(numbers):
            if gestures[number] == []:
                continue
            points = _points(gestures[number])
            if points is None:
                detail = f"the gesture on screen {number[:20]} is no list of points"
                errors.append(ParseError(blob.uri, 0, "bad_record", detail, "gestures.json"))
                continue
            after = screens.observation(numbers[index + 1]) if index + 1 < len(numbers) else None
            performed = _action(points, screens.screen(number), screens.size(number))
            moves.add(performed, screens.observation(number), after, 0, "gestures.json")
        for refused in [*errors, *screens.errors]:
            yield Reject.of(refused, connector=self.name)
        if not moves.steps:
            raise ParseError(blob.uri, -1, "no_transitions", "no screen has a gesture", "gestures.json")
        native_id = "/".join(blob.uri.rstrip("/").split("/")[-2:])
        yield sound(Trajectory(native_id, "android", moves.steps, Environment(id=environment_of(screens.packages()))))


def _points(value: Any) -> list[act.Point] | None:
    if not isinstance(value, list):
        return None
    points = []
    for pair in value:
        x, y = (act.number(pair[0]), act.number(pair[1])) if isinstance(pair, list) and len(pair) == 2 else (None, None)
        if x is None or y is None or not (-0.5 <= x <= 1.5 and -0.5 <= y <= 1.5):
            return None
        points.append((x, y))
    return points or None


def _action(points: list[act.Point], screen: Screen | None, size: tuple[int, int]) -> Action:
    """Convert a gesture to a tap or a swipe; its arguments keep the points."""
    first, last = ((act.whole(x * size[0]), act.whole(y * size[1])) for x, y in (points[0], points[-1]))
    original = {"points": [list(point) for point in points]}
    if all(math.dist(points[0], point) <= TAP_DISTANCE for point in points):
        return act.touch(act.CLICK, screen, first, original)
    return act.path(screen, first, last, original)


class _Screens:
    """The screens of a trace by number, each read once; `errors` collects what could not be read."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._views = {match[2]: member for member in blob.members if (match := _VIEW.fullmatch(member))}
        self._pictures = {match[2]: member for member in blob.members if (match := _PICTURE.fullmatch(member))}
        self._seen: dict[str, tuple[Screen, str | None] | None] = {}
        self.errors: list[ParseError] = []

    def _read(self, number: str) -> tuple[Screen, str | None] | None:
        if number not in self._seen:
            self._seen[number] = None
            member = self._views.get(number)
            try:
                self._seen[number] = _screen(self._blob, member) if member is not None else None
            except ParseError as error:
                self.errors.append(error)
        return self._seen[number]

    def screen(self, number: str) -> Screen | None:
        """Return the screen of that number; None if there is no file, or no screen in it."""
        read = self._read(number)
        return read[0] if read is not None else None

    def size(self, number: str) -> tuple[int, int]:
        """Return the width and height of that screen in pixels."""
        screen = self.screen(number)
        box = screen.tree.nodes[0].bounds if screen is not None else None
        return (_LONG, _SHORT) if box is not None and box[2] > _SHORT else (_SHORT, _LONG)

    def observation(self, number: str) -> Observation | None:
        """Return that screen with its screenshot; None if there is neither."""
        picture = self._pictures.get(number)
        pictures: tuple[Attachment, ...] = ()
        if picture is not None:
            media_type = "image/png" if picture.endswith(".png") else "image/jpeg"
            pictures = (attachment_of_member(self._blob, picture, "screenshot", media_type),)
        read = self._read(number)
        if read is not None:
            return read[0].observation(read[1], pictures)
        return Observation(None, form="screen", attachments=pictures) if pictures else None

    def packages(self) -> list[str]:
        """Return the packages of the screens read, in reading order."""
        return [read[0].package for read in self._seen.values() if read is not None]


def _screen(blob: Blob, member: str) -> tuple[Screen, str | None] | None:
    """Return (screen, activity) of a view hierarchy; None for null, which is a screen that could not be captured.

    Raises:
        ParseError: `bad_record`, `nested_too_deeply`, or an error of `json_document`.
    """
    value = json_document(blob, member)[0]
    if value is None:
        return None
    activity = value.get("activity") if isinstance(value, dict) else None
    root = activity.get("root") if isinstance(activity, dict) else None
    if not isinstance(root, dict):
        raise ParseError(blob.uri, 0, "bad_record", "wanted a view hierarchy with a root", member)
    name = value.get("activity_name")
    name = name if isinstance(name, str) and name else None
    package = (name or "").partition("/")[0]
    box = act.box_of(root.get("bounds"))
    drawn = drawn_box(None, box)
    nodes: list[Node] = [window_node(package, "", box)]
    depths = [0]
    waiting: list[tuple[Any, int]] = [(root, 1)]
    while waiting:
        view, depth = waiting.pop()
        node = _node(view)
        if node is not None and not is_outside(node.bounds, drawn):
            nodes.append(node)
            depths.append(depth)
            depth += 1
        children = view.get("children")
        if children and isinstance(children, list):
            waiting += [(child, depth) for child in reversed(children) if isinstance(child, dict)]
    if max(depths) >= MAX_DEPTH:
        raise ParseError(blob.uri, 0, "nested_too_deeply", f"more than {MAX_DEPTH} levels of nodes", member)
    source = None
    if blob.choices.screen == "raw":
        source = Source(blob.read(member).decode("utf-8", "replace"), "application/json", "rico_hierarchy")
    tree = Tree(nodes, depths)
    return Screen(tree, tree.text, package, source=source), name


def _node(view: Mapping[str, Any]) -> Node | None:
    get = view.get
    visible = get("visible-to-user")
    if visible is not True and visible is not None:
        return None
    enabled = get("enabled")
    states = states_of(
        (
            get("checkable") is True,
            get("checked") is True,
            get("clickable") is True,
            enabled is True or enabled is None,
            get("focusable") is True,
            get("focused") is True,
            get("scrollable-horizontal") is True or get("scrollable-vertical") is True,
            get("long-clickable") is True,
            get("password") is True,
            get("selected") is True,
            get("editable") is True,
        )
    )
    kind, text, description, hint, resource = (
        get("class"),
        get("text"),
        get("content-desc"),
        get("text-hint"),
        get("resource-id"),
    )
    if type(description) is list:
        description = description[0] if description else None
    return view_node(
        kind if type(kind) is str else "",
        text if type(text) is str else "",
        description if type(description) is str else "",
        hint if type(hint) is str else "",
        resource if type(resource) is str else "",
        act.box_of(get("bounds")),
        states,
    )
