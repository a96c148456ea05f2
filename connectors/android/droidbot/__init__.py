"""Output folders of DroidBot (github.com/honeynet/droidbot): events, states, and the transitions between states.

>>> show(DroidBot(), {"events/event_2024-05-06_080010.json": '''
... {"tag": "2024-05-06_080010", "start_state": "a1", "stop_state": "b2", "event_str": "TouchEvent(state=a1, …)",
...  "event": {"event_type": "touch", "x": null, "y": null, "view": {"view_str": "c3", "bounds": [[0, 0], [90, 40]]}}}
... ''', "states/state_2024-05-06_080009.json": '''
... {"tag": "2024-05-06_080009", "state_str": "a1", "foreground_activity": "org.example/.Main", "views": [{"temp_id": 0,
...  "parent": -1, "children": [], "class": "android.widget.Button", "package": "org.example", "text": "Water",
...  "view_str": "c3", "clickable": true, "enabled": true, "visible": true, "bounds": [[0, 0], [90, 40]]}]}
... ''', "states/state_2024-05-06_080011.json": '''
... {"tag": "2024-05-06_080011", "state_str": "b2", "foreground_activity": "org.example/.Main", "views": [{"temp_id": 0,
...  "parent": -1, "children": [], "class": "android.widget.TextView", "package": "org.example", "text": "Watered",
...  "view_str": "d4", "clickable": false, "enabled": true, "visible": true, "bounds": [[0, 0], [90, 40]]}]}
... '''})
before  | #1 window "org.example" [0,0][90,40]
        |   #2 button "Water" clickable [0,0][90,40]
action  | {"name": "click", "arguments": {"element": "#2"}}
after   | #1 window "org.example" [0,0][90,40]
        |   #3 text "Watered" [0,0][90,40]

`events/event_<tag>.json` holds `{tag, event, start_state, stop_state, event_str}`, `states/state_<tag>.json` the views
of a state with its `state_str`, and `utg.js` the app and the device. A tag is local time with a resolution of one
second. The observation is the state named by `start_state`, the action is the event, and the next observation is the
state named by `stop_state`. DroidBot looks at the screen twice after an event: about a second later (`stop_state`), and
again before the next event (its `start_state`). If the two differ within ten seconds, the screen had not settled at the
first look, which is then marked as cut by the recorder. If the first state was not saved, the second replaces it,
provided that it was seen within ten seconds, in the app in which the event was made or which it opened. A state that
was not saved is null. Events are read in the order of their tags.

A folder may hold several runs, each a trajectory of its own; see `runs`.

DroidBot names a state by a hash of its activity and its views' signatures, and saves it when the name first occurs. Two
files may still have one name. The start is the file with the event's tag, else the nearest before it; the stop is the
first file after it. A file counts only if DroidBot saved it since its last restart and at most ten seconds after the
event. A start must hold the touched view in its box. If no file of the name does, the file with the event's tag may be
the start; otherwise the screen before is null.

If an event could not be read, the event before it has only its own `stop_state` as next observation. The run continues
all the same, since each row states its own observation.

The layout of 2016 has `device_states/` and one `droidbot_event.json`. It is read if its events name their states.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, ClassVar, Final

from trajmill.connectors.android import action as act
from trajmill.connectors.android.droidbot.runs import LONG_GAP, SOON, Run, app_of, is_soon, seconds_between
from trajmill.connectors.android.droidbot.screen_state import State, box_of, read_state
from trajmill.connectors.android.view import Source, environment_of, sound
from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.reading.attached import attachment_of_member
from trajmill.connectors.reading.documents import document_in
from trajmill.connectors.reading.fields import plain_text, text_of
from trajmill.schemas import Action, Agent, Attachment, Environment, Observation, ParseError, Reject, Trajectory

_EVENT: Final = re.compile(r"((?:.*/)?)events/event_([^/]*)\.json")
_STATE: Final = re.compile(r"((?:.*/)?)(?:states/state|device_states/device_state)_([^/]*)\.json")
_PICTURE: Final = re.compile(r"((?:.*/)?)(?:states/screen|device_states/screenshot)_([^/]*)\.(png|jpg)")
_WHOLE: Final = re.compile(r"((?:.*/)?)(utg\.js|droidbot_event\.json|droidbot_env\.json)")
_STATE_KEYS: Final = (b'"view_str"', b'"temp_id"', b'"foreground_activity"', b'"state_str"')
_EVENT_KEYS: Final = (b'"event_type"', b'"start_state"', b'"event_str"')
_VIEW_KEYS: Final = ("view_str", "class", "resource_id", "text", "content_description", "bounds")
_WORDS: Final = {
    "touch": act.CLICK,
    "long_touch": act.LONG_PRESS,
    "scroll": act.SCROLL,
    "set_text": act.INPUT_TEXT,
    "type": act.INPUT_TEXT,
}


class DroidBot(Connector):
    """Output folders of DroidBot."""

    name: ClassVar[str] = "droidbot"
    version: ClassVar[str] = "10"
    domains: ClassVar[tuple[str, ...]] = ("android",)
    title: ClassVar[str] = "DroidBot output folders (events, states, UI transition graph)"
    companions = re.compile(
        r"index\.html|(?:stylesheets|views|temp)/.*|(?:states|device_states)/[^/]*\.(?:png|jpe?g)|events/[^/]*\.trace"
        r"|logcat\.txt|user_input\.txt|(?:dumpsys|process)[^/]*\.txt|static_env\.json|[^/]*\.apk"
    )

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if head.lstrip()[:64].startswith(b"var utg"):
            return Sniff(0.95, "begins with `var utg`, the graph that DroidBot writes")
        if _STATE.fullmatch(uri):
            has_keys = any(key in head for key in _STATE_KEYS)
            return Sniff(0.9 if has_keys else 0.5, "named as a state of DroidBot" + " with views" * has_keys)
        if _EVENT.fullmatch(uri) or uri.rpartition("/")[2] == "droidbot_event.json":
            has_keys = any(key in head for key in _EVENT_KEYS)
            return Sniff(0.9 if has_keys else 0.5, "named as an event of DroidBot" + " with its states" * has_keys)
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each folder with `events/event_*.json`, `states/state_*.json` or names of 2016, and screenshots."""
        folders: dict[str, list[str]] = {}
        extras: dict[str, list[str]] = {}
        for path in paths:
            if match := _EVENT.fullmatch(path) or _STATE.fullmatch(path):
                folders.setdefault(match[1], []).append(path)
            elif match := _PICTURE.fullmatch(path) or _WHOLE.fullmatch(path):
                extras.setdefault(match[1], []).append(path)
        for folder, files in folders.items():
            names = sorted([*files, *extras.get(folder, [])])
            graph = [path for path in names if path.endswith("/utg.js") or path == "utg.js"]
            states = [path for path in names if _STATE.fullmatch(path)]
            anchor = [*graph, *states, *names][0]
            yield Log(folder.rstrip("/"), {path[len(folder) :]: path for path in names}, anchor[len(folder) :])

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        records = _Records(blob)
        output = _Output(blob, records)
        runs: list[Run] = []
        for record, following in pairwise(chain(records.events(), (None,))):
            if record is None or record.value is None:
                continue
            try:
                event = _event(record, output, blob.uri)
            except ParseError as error:
                records.errors.append(error)
                continue
            if not runs or event.kind == "kill_app" or runs[-1].ends_before(event.tag, event.app):
                runs.append(Run())
            _add(runs[-1], event, following, output)
        for refused in records.errors:
            yield Reject.of(refused, connector=self.name)
        if not records.found:
            raise ParseError(blob.uri, -1, "no_actions", "wanted events/event_*.json or droidbot_event.json, met none")
        if not runs:
            raise ParseError(blob.uri, -1, "no_transitions", "no event could be read")
        name = blob.uri.rstrip("/").rpartition("/")[2]
        for number, run in enumerate(runs, 1):
            trajectory = Trajectory(
                native_id=f"{name}/{number}" if len(runs) > 1 else name,
                domain="android",
                steps=run.moves.steps,
                environment=Environment(id=run.app or output.package, instance_id=output.serial),
                agent=Agent(name="droidbot"),
            )
            yield sound(trajectory)


@dataclass(frozen=True, slots=True)
class _Record:
    """One event as logged.

    `value` is the object around it, None if it could not be read; `offset` is 0 unless events share a file.
    """

    member: str
    tag: str
    value: Any
    offset: int = 0


class _Records:
    """The JSON files of an output folder.

    `errors` collects what could not be read; `found` states whether there were events.
    """

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self.errors: list[ParseError] = []
        self.found = False

    def json(self, member: str, prefix: bytes = b"") -> Any:
        """Return the value of a whole file; None if it cannot be read.

        Args:
            prefix: text before the value and its equals sign, if the file is a script.
        """
        data = self._blob.read(member)
        body = data.partition(b"=")[2] if prefix and data.lstrip().startswith(prefix) else data
        try:
            return document_in(body, self._blob.uri, member, skipped=len(data) - len(body))
        except ParseError as error:
            self.errors.append(error)
            return None

    def events(self) -> Iterator[_Record]:
        """Yield the events in the order of their tags, or of the list that holds them."""
        named = _files_by_tag(self._blob, _EVENT)
        self.found = bool(named)
        for tag, member in named:
            yield _Record(member, tag, self.json(member))
        if not named and "droidbot_event.json" in self._blob.members:
            self.found = True
            yield from self._listed("droidbot_event.json")

    def _listed(self, member: str) -> Iterator[_Record]:
        value = self.json(member)
        rows = value if isinstance(value, list) else []
        if rows and not any(isinstance(row, dict) and ("start_state" in row or "stop_state" in row) for row in rows):
            detail = f"{len(rows)} events name no states, so which state each left and reached is not known"
            raise ParseError(self._blob.uri, 0, "unaligned", detail, member)
        for row in rows:
            yield _Record(member, plain_text(row.get("tag", "")) if isinstance(row, dict) else "", row)


def _files_by_tag(blob: Blob, pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    """Return (tag, member) of the files with a matching name, in the order of their tags."""
    named = [(match[2], member) for member in blob.members if (match := pattern.fullmatch(member))]
    return sorted(named, key=lambda pair: (act.natural(pair[0]), pair[1]))


class _Output:
    """The states of an output folder, and facts about the app and the device."""

    def __init__(self, blob: Blob, records: _Records) -> None:
        self._blob = blob
        self._pictures = {match[2]: member for member in blob.members if (match := _PICTURE.fullmatch(member))}
        self._by_name: dict[str, list[State]] = {}
        self._observations: dict[str, Observation] = {}
        self._begin = self._last = ""
        self.serial: str | None = None
        self.package: str | None = None
        packages: list[str] = []
        for tag, member in _files_by_tag(blob, _STATE):
            value = records.json(member)
            if value is None:
                continue
            try:
                state = read_state(value, tag, blob.uri, member, _source(blob, member))
            except ParseError as error:
                records.errors.append(error)
                continue
            packages.append(state.package)
            for name in dict.fromkeys((state.name or tag, tag)):
                self._by_name.setdefault(name, []).append(state)
        graph = records.json("utg.js", b"var") if "utg.js" in blob.members else None
        if isinstance(graph, dict):
            self.serial = text_of(graph.get("device_serial"))
            self.package = text_of(graph.get("app_package"))
        self.package = self.package or environment_of(packages)

    def note(self, tag: str, kind: str) -> None:
        """Record the next event: DroidBot starts afresh when it kills the app, and after a long gap."""
        gap = seconds_between(self._last, tag)
        if kind == "kill_app" or (gap is not None and gap > LONG_GAP):
            self._begin = tag
        self._last = tag

    def state(self, name: Any, tag: str, starts: bool, view: Mapping[str, Any] | None = None) -> State | None:
        """Return the file of the named state from which the event of that tag started, or at which it stopped.

        Args:
            name: the state's name (or tag), as given in the event.
            tag: the event's tag.
            starts: whether the event started from the state.
            view: the touched view, which the file must hold.
        """
        named = self._by_name.get(name, []) if isinstance(name, str) else []
        files = [file for file in named if self._is_near(file.tag, tag)]
        if view is not None and isinstance(view.get("view_str"), str):
            tagged = self._by_name.get(tag, [])  # What is tagged alike was saved in the same second.
            files = _holding(files, view) or _holding(tagged, view)
        if not files:
            return None
        after = bisect_right(files, act.natural(tag), key=lambda file: act.natural(file.tag))
        before = files[:after][::-1]
        return [*before, *files[after:]][0] if starts else [*files[after:], *before][0]

    def _is_near(self, saved: str, tag: str) -> bool:
        """Return True if a state was saved since DroidBot's last restart and no later than shortly after an event."""
        spans = seconds_between(self._begin, saved), seconds_between(saved, tag)
        return all(span is None or span >= -SOON for span in spans)

    def observation(self, state: State | None) -> Observation | None:
        """Return the state as an observation, with its screenshot if the folder holds it."""
        if state is None:
            return None
        if state.member not in self._observations:
            picture = self._pictures.get(state.tag)
            attachments: tuple[Attachment, ...] = ()
            if picture is not None:
                media_type = "image/png" if picture.endswith(".png") else "image/jpeg"
                attachments = (attachment_of_member(self._blob, picture, "screenshot", media_type),)
            self._observations[state.member] = state.screen.observation(state.activity, attachments)
        return self._observations[state.member]


def _holding(files: Sequence[State], view: Mapping[str, Any]) -> list[State]:
    """Return the files that hold a view in its box."""
    return [file for file in files if file.node(view) is not None]


def _source(blob: Blob, member: str) -> Source | None:
    """Return the file of a state as the text of its screen if the recipe keeps the log's own text; else None."""
    if blob.choices.screen != "raw":
        return None
    return Source(blob.read(member).decode("utf-8", "replace"), "application/json", "droidbot_state")


@dataclass(frozen=True, slots=True)
class _Event:
    """One event: its action, the state before it, and the stated state after it.

    `place` is the package in which it was made, or which it opened; `app` is the app that it opened or closed, else the
    app in which it was made.
    """

    record: _Record
    tag: str
    kind: str
    action: Action
    start: State | None
    stop: Any
    place: str | None
    app: str | None


def _event(record: _Record, output: _Output, uri: str) -> _Event:
    """Read the event of a record.

    Raises:
        ParseError: `bad_record`: the record is no event.
    """
    value = record.value
    event = value.get("event") if isinstance(value, dict) else None
    if not isinstance(event, dict) or not isinstance(event.get("event_type"), str) or not event["event_type"]:
        detail = "wanted an object with an event of some event_type"
        raise ParseError(uri, record.offset, "bad_record", detail, record.member)
    view = event.get("view") if isinstance(event.get("view"), dict) else None
    tag = text_of(value.get("tag")) or record.tag
    output.note(tag, event["event_type"])
    start = output.state(value.get("start_state"), tag, True, view)
    action = _action(event, view, start)
    is_named = action.name in (act.OPEN_APP, act.CLOSE_APP)
    named = json.loads(action.text)["arguments"].get("package") if is_named else None
    seen = start.package if start is not None else None
    package = named or seen if action.name == act.OPEN_APP else seen
    return _Event(
        record, tag, event["event_type"], action, start, value.get("stop_state"), package, app_of(named or seen)
    )


def _add(run: Run, event: _Event, following: _Record | None, output: _Output) -> None:
    """Add an event to its run; `following` is the event after it, None if there is none."""
    run.app, run.tag = run.app or event.app, event.tag
    before, after = output.observation(event.start), _after(event, following, output, run.app)
    run.moves.add(event.action, before, after, event.record.offset, event.record.member)


def _after(event: _Event, following: _Record | None, output: _Output, app: str | None) -> Observation | None:
    """Return the observation after an event: the state it stopped at, else the first of an event soon after it.

    Args:
        following: the event after it, None if there is none.
        output: the states.
        app: app of the run, for an event whose own app is unknown.
    """
    stop = output.state(event.stop, event.tag, False)
    next_event = following.value if following is not None and isinstance(following.value, dict) else {}
    rested = text_of(next_event.get("start_state"))
    tag = text_of(next_event.get("tag")) or (following.tag if following is not None else "")
    if rested is None or rested == event.stop or not is_soon(event.tag, tag):
        return output.observation(stop)
    if stop is not None:
        seen = output.observation(stop)
        # Two names imply two screens only if names are digests, as they are since 2017.
        return replace(seen, truncation="recorder") if seen is not None and stop.name is not None else seen
    cause = next_event.get("event")
    view = cause.get("view") if isinstance(cause, dict) and isinstance(cause.get("view"), dict) else None
    later = output.state(rested, tag, True, view)
    package = event.place or app or output.package
    return output.observation(later) if later is not None and later.package == package else None


def _action(event: dict[str, Any], view: dict[str, Any] | None, start: State | None) -> Action:
    """Convert the event to an action; a touched view is named by its node if the observation shows it."""
    kind = event["event_type"]
    original = {key: _shorten_argument(item) for key, item in event.items() if key != "event_type" and item is not None}
    if kind == "key" and isinstance(event.get("name"), str):
        return act.press([event["name"]], original)
    command = event.get({"intent": "intent", "kill_app": "stop_intent"}.get(kind, ""))
    if isinstance(command, str):
        return act.intent(command, original)
    if kind in ("swipe", "drag"):
        first, last = _point(event, "start_"), _point(event, "end_")
        if first and last:
            return act.path(start.screen if start else None, first, last, original)
    word = _WORDS.get(kind, kind)
    arguments: dict[str, Any] = {}
    if word == act.INPUT_TEXT:
        arguments["text"] = text_of(event.get("text")) or ""
    if isinstance(event.get("direction"), str):
        arguments["direction"] = event["direction"].lower()
    node = start.node(view) if start is not None and view is not None else None
    if node and start is not None:
        met = act.touched_within(start.screen, node, word) if word in (act.CLICK, act.LONG_PRESS) else node
        return act.call(word, arguments, original, start.screen.element(met))
    screen = start.screen if start is not None and view is None else None
    return act.touch(word, screen, _point(event), original, arguments)


def _shorten_argument(value: Any) -> Any:
    """Shorten an argument; a view keeps only the keys that identify it."""
    if isinstance(value, dict) and "view_str" in value:
        return {name: value[name] for name in _VIEW_KEYS if name in value}
    return value


def _point(event: Mapping[str, Any], side: str = "") -> act.Point | None:
    """Return the point that the event touched: its own coordinates, else the center of its view."""
    x, y = act.number(event.get(f"{side}x")), act.number(event.get(f"{side}y"))
    if x and y:
        return x, y
    view = event.get(f"{side}view")
    box = box_of(view.get("bounds")) if isinstance(view, dict) else None
    if box is None:
        return (x, y) if x is not None and y is not None else None
    return (box[0] + box[2]) // 2, (box[1] + box[3]) // 2
