r"""Logs of an Appium server: the commands of a client, and the page sources that it asked for in between.

>>> show(AppiumLog(), r'''
... [HTTP] --> GET /wd/hub/session/4d2e1c5b/source
... [HTTP] {}
... [W3C (4d2e1c5b)] Responding to client with driver.getPageSource() result: "<hierarchy><android.widget.Button '''
... r'''text=\"Show\" package=\"a.b\" clickable=\"true\" enabled=\"true\" bounds=\"[0,0][500,120]\" /></hierarchy>"
... [HTTP] <-- GET /wd/hub/session/4d2e1c5b/source 200 412 ms - 120
... [HTTP] --> POST /wd/hub/session/4d2e1c5b/element
... [HTTP] {"using":"xpath","value":"//android.widget.Button[@text='Show']"}
... [W3C (4d2e1c5b)] Responding to client with driver.findElement() result: {"ELEMENT":"7"}
... [HTTP] <-- POST /wd/hub/session/4d2e1c5b/element 200 50 ms - 20
... [HTTP] --> POST /wd/hub/session/4d2e1c5b/element/7/click
... [HTTP] {"id":"7"}
... [HTTP] <-- POST /wd/hub/session/4d2e1c5b/element/7/click 200 50 ms - 20
... [HTTP] --> GET /wd/hub/session/4d2e1c5b/source
... [HTTP] {}
... [W3C (4d2e1c5b)] Responding to client with driver.getPageSource() result: "<hierarchy><android.widget.TextView '''
... r'''text=\"High at 6\" package=\"a.b\" enabled=\"true\" bounds=\"[0,0][500,120]\" /></hierarchy>"
... [HTTP] <-- GET /wd/hub/session/4d2e1c5b/source 200 412 ms - 120
... ''')
before  | #1 window "a.b" [0,0][500,120]
        |   #2 button "Show" clickable [0,0][500,120]
action  | {"name": "click", "arguments": {"element": "#2"}}
after   | #1 window "a.b" [0,0][500,120]
        |   #3 text "High at 6" [0,0][500,120]

    [HTTP] --> POST /wd/hub/session/4d2e…/element/7/click
    [HTTP] {"id": "7"}
    [W3C (4d2e1c5b)] Responding to client with driver.getPageSource() result: "<?xml version=…"
    [HTTP] <-- GET /wd/hub/session/4d2e…/source 200 412 ms - 9120

A line begins with its time and level if the server was told so. The body of a request stands behind it or on the line
after; its answer behind the response (up to version 1.5), or on a line `Responding to client …` or `Got response …`
between the two. A log may hold several sessions at once: each is a trajectory, and lines belong to the session whose id
they begin with, else to the request that is open.

Commands that act are actions (`commands`). The only screens are page sources: the observation of an action is
the source that was asked for since the action before it, and the next observation the last one asked for before the
action after it (`alignment`); what nobody asked for is null. Servers since 1.6 log the first 1,024 characters of an
answer or a body alone (`LOG_OBJ_LENGTH` in lib/protocol/protocol.js of appium/appium-base-driver): a source that does
not stand whole is null, a command whose body was cut is rejected, and so is a session without a whole source
(`no_observation`). A command that failed keeps its row; the server's message stands before the next action as the
harness's word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from trajmill.connectors.android import action as act
from trajmill.connectors.android.alignment import Aligned, by_capture
from trajmill.connectors.android.appium_log.commands import Elements, performed
from trajmill.connectors.android.dump import read_dump
from trajmill.connectors.android.entry import Captured, Entry, Moment, Performed
from trajmill.connectors.android.view import Screen, environment_of, sound
from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.lines import lines
from trajmill.connectors.reading.values import json_value
from trajmill.connectors.screens.moves import Moves
from trajmill.schemas import Action, Environment, ParseError, Reject, Trajectory

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_TIME: Final = re.compile(r"(?:\d{4}-\d\d-\d\d )?(\d\d):(\d\d):(\d\d)[:.,](\d{3})\b")
_HTTP: Final = r"(?:\[HTTP\]|info:)\s*"
_REQUEST: Final = re.compile(rf"{_HTTP}-->\s+([A-Z]+)\s+(\S+)\s*(.*)")
_RESPONSE: Final = re.compile(
    rf"{_HTTP}<--\s+([A-Z]+)\s+(\S+)\s+(\d{{3}})\s+[\d.]+\s*ms\s*-\s*(?:\d+|undefined)?\s*(.*)"
)
_BODY: Final = re.compile(r"\[HTTP\]\s*([{\[].*)")
_ANSWER: Final = re.compile(
    r"(?:Responding to client with (?:driver\.\w+\(\) result|error|success)"
    r"|[Rr]esponse (?:received )?with status \d+):\s*(.*)"
)
_FAILED: Final = re.compile(r"Encountered internal error running command:\s*(.*)")
_OF: Final = re.compile(r"\(([0-9a-f]{8})\)\]|^\[([0-9a-f]{8})(?:-[0-9a-f-]{27})?\]")
_PATH: Final = re.compile(r"(?:/wd/hub)?/session(?:/([^/]+)(?:/(.*))?)?")
_COLOURED: Final = re.compile(rb"\x1b\[[0-9;]*m")
_SNIFFED: Final = re.compile(rb"(?:\[HTTP\]|info:)\s*-->\s*(?:GET|POST|DELETE)\s+(?:/wd/hub)?/(?:session|status)")
_PACKAGES: Final = ("appPackage", "appium:appPackage")
_DEVICES: Final = ("udid", "appium:udid", "deviceName", "appium:deviceName")


class AppiumLog(Connector):
    """Server logs of Appium."""

    name: ClassVar[str] = "appium_log"
    version: ClassVar[str] = "5"
    domains: ClassVar[tuple[str, ...]] = ("android",)
    title: ClassVar[str] = "Appium server logs (commands, with the page sources that stand whole)"
    companions = re.compile(r"(?:screenshots/)?[^/]*\.(?:png|jpe?g|mp4)")

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        plain = _COLOURED.sub(b"", head) if b"\x1b[" in head else head
        if b"-->" in plain and _SNIFFED.search(plain):
            return Sniff(0.9, "holds requests as Appium's server logs them")
        if b"Welcome to Appium v" in head:
            return Sniff(0.85, "says that an Appium server was started")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        reader = _Reader(blob)
        reader.read()
        for error in reader.errors:
            yield Reject.of(error, connector=self.name)
        acted = False
        for session in reader.sessions.values():
            moves = session.moves(blob)
            for error in session.errors:
                yield Reject.of(error, connector=self.name)
            acted = acted or bool(moves.steps)
            if moves.is_seen:
                yield sound(session.trajectory(moves))
            elif moves.steps:
                detail = (
                    f"none of the {len(moves.steps)} actions of session {session.ident} has a page source beside it"
                )
                yield Reject("record", "no_observation", detail, blob.uri, "", moves.steps[0].offset, self.name)
        if not acted:
            raise ParseError(blob.uri, -1, "no_actions", "no command of the log touches, types or starts anything")


@dataclass(slots=True)
class _Exchange:
    """A command: the request, and what came back as far as the log holds it; `is_cut`: its body was cut."""

    method: str
    path: str
    offset: int
    time: Moment | None
    body: Any = None
    answer: Any = None
    is_answered: bool = False
    is_cut: bool = False
    status: int | None = None
    failure: str | None = None


@dataclass(slots=True)
class _Session:
    """The commands of one session in order; what could not be read stands in `errors`."""

    ident: str
    wanted: Mapping[str, Any]
    exchanges: list[_Exchange] = field(default_factory=list)
    errors: list[ParseError] = field(default_factory=list)
    packages: list[str] = field(default_factory=list)

    def moves(self, blob: Blob) -> Moves:
        """What the session did, and the screens around it."""
        known, sources, files = Elements(), dict[str, str](), list[str | None]()
        entries: list[Entry] = []
        failures: dict[int, str] = {}
        for one in self.exchanges:
            found = _PATH.fullmatch(one.path)
            path = (found[2] if found is not None else None) or ""
            if one.method == "GET" and path == "source":
                text = one.answer if isinstance(one.answer, str) and one.status == 200 else None
                name = str(one.offset) if text is not None else None
                if name is not None and text is not None:
                    sources[name] = text
                files.append(name)
                entries.append(Captured(one.offset, name, one.time))
            elif one.method == "POST":
                known.learn(one.body, one.answer)
                deed = performed(path, one.body, known, one.offset, one.time) if path else None
                if one.is_cut and (deed is not None or path.startswith("execute")):
                    # What it did is not known, and the screen after it is no other action's doing.
                    deed = Performed(one.offset, "")
                    self.errors.append(ParseError(blob.uri, one.offset, "truncated", f"the body of {path} was cut"))
                if deed is not None:
                    entries.append(deed)
                    if one.failure is not None or (one.status is not None and one.status >= 400):
                        failures[one.offset] = one.failure or f"the command failed with status {one.status}"
        screens = {name: self._screen(blob, name, text) for name, text in sources.items()}
        self.packages = [screen.package for screen in screens.values() if screen is not None]
        moves = Moves()
        for pair in by_capture(entries, files):
            if not pair.performed.name:
                continue
            failure = failures.get(pair.performed.offset)
            _add(moves, pair, screens, failure is not None)
            moves.say(failure)
        return moves

    def _screen(self, blob: Blob, name: str, text: str) -> Screen | None:
        try:
            return read_dump(text.encode("utf-8", "replace"), blob.uri, "", blob.choices.screen == "raw")
        except ParseError as error:
            self.errors.append(ParseError(blob.uri, int(name), error.reason, error.detail, "", error.excerpt))
            return None

    def trajectory(self, moves: Moves) -> Trajectory:
        """The session as a trajectory."""
        package, device = (
            next((self.wanted[key] for key in keys if isinstance(self.wanted.get(key), str)), None)
            for keys in (_PACKAGES, _DEVICES)
        )
        environment = Environment(id=package or environment_of(self.packages), instance_id=device)
        return Trajectory(self.ident, "android", moves.steps, environment)


def _add(moves: Moves, pair: Aligned, screens: Mapping[str, Screen | None], failed: bool) -> None:
    before, after = (screens.get(name) if name is not None else None for name in (pair.before, pair.after))
    seen = after.observation() if after is not None else None
    moves.add(
        _action(pair.performed, before),
        before.observation() if before is not None else None,
        replace(seen, is_error=True) if failed and seen is not None else seen,
        pair.performed.offset,
        seconds=pair.duration,
    )


def _action(deed: Performed, screen: Screen | None) -> Action:
    """The action with its target as a node of the screen it was taken on, else as the log found it."""
    if deed.name == act.PRESS:
        return act.press(list(deed.told.get("keys", ())), deed.original)
    if deed.name == act.SWIPE and deed.point is not None and deed.end is not None:
        return act.path(screen, deed.point, deed.end, deed.original)
    node = act.named(screen, deed.target, None, deed.point)
    told = {key: value for key, value in deed.told.items() if value is not None}
    if screen is not None and node is not None:
        met = node if deed.point is not None else act.touched(screen, node, deed.name)
        return act.call(deed.name, told, deed.original, screen.element(met))
    named = {"target": deed.target["target"]} if "target" in deed.target else {}
    return act.touch(deed.name, screen, deed.point, deed.original, {**named, **told})


class _Reader:
    """The sessions of a log by their ids, in the order in which they are first named."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self.sessions: dict[str, _Session] = {}
        self.errors: list[ParseError] = []
        self._open: list[_Exchange] = []
        self._wanted: list[Mapping[str, Any]] = []

    def read(self) -> None:
        """Takes in the whole log."""
        with self._blob.open() as stream:
            for line in lines(stream):
                if line.data is None:
                    detail = "a line that is longer than any page"
                    self.errors.append(ParseError(self._blob.uri, line.offset, "line_too_long", detail))
                else:
                    self._line(_COLOUR.sub("", line.data.decode("utf-8", "replace")), line.offset)

    def _line(self, text: str, offset: int) -> None:
        if found := _REQUEST.search(text):
            one = _Exchange(found[1], found[2].partition("?")[0], offset, _moment(text))
            _give_body(one, found[3])
            self._open.append(one)
            self._file(one)
        elif found := _RESPONSE.search(text):
            self._close(found[1], found[2].partition("?")[0], int(found[3]), found[4])
        elif self._open and (found := _BODY.search(text)) is not None and self._open[-1].body is None:
            _give_body(self._open[-1], found[1])
            self._want(self._open[-1])
        elif (
            self._open
            and ("client with" in text or "with status" in text)
            and (found := _ANSWER.search(text)) is not None
        ):
            one = self._owner(text)
            if not one.is_answered:
                _answer(one, _json(found[1]))
        elif self._open and (found := _FAILED.search(text)) is not None:
            self._owner(text).failure = found[1][:2000] or None

    def _owner(self, text: str) -> _Exchange:
        """The open request that a line is about: of the session that it begins with, else the last."""
        said = _OF.search(text)
        short = (said[1] or said[2]) if said is not None else None
        mine = [one for one in self._open if short is not None and f"/{short}" in one.path]
        return (mine or self._open)[-1]

    def _file(self, one: _Exchange) -> None:
        found = _PATH.fullmatch(one.path)
        if found is None or found[1] is None:
            self._want(one)
            return
        if found[1] not in self.sessions:
            self.sessions[found[1]] = _Session(found[1], self._wanted.pop(0) if self._wanted else {})
        self.sessions[found[1]].exchanges.append(one)

    def _want(self, one: _Exchange) -> None:
        """Remembers the capabilities that a new session was asked for with."""
        found = _PATH.fullmatch(one.path)
        if found is None or found[1] is not None or one.method != "POST" or not isinstance(one.body, dict):
            return
        inner = one.body.get("capabilities")
        always = inner.get("alwaysMatch") if isinstance(inner, dict) else None
        first = inner.get("firstMatch") if isinstance(inner, dict) else None
        parts = [one.body.get("desiredCapabilities"), always, *(first if isinstance(first, list) else [])]
        self._wanted.append({key: value for part in parts if isinstance(part, dict) for key, value in part.items()})

    def _close(self, method: str, path: str, status: int, rest: str) -> None:
        one = next((one for one in self._open if (one.method, one.path) == (method, path)), None)
        if one is None:
            return
        self._open.remove(one)
        one.status = status
        if rest and not one.is_answered:
            _answer(one, _json(rest))


def _give_body(one: _Exchange, text: str) -> None:
    one.body = _json(text)
    one.is_cut = bool(text) and one.body is None


def _answer(one: _Exchange, value: Any) -> None:
    """Gives a command its answer, without the envelope of the protocol; an answer that was cut is left out."""
    if value is None:
        return
    if isinstance(value, dict) and "value" in value and ("sessionId" in value or "status" in value or len(value) == 1):
        value = value["value"]
    if isinstance(value, dict) and isinstance(value.get("message"), str) and "error" in value:
        one.failure = value["message"][:2000]
    one.answer, one.is_answered = value, True


def _json(text: str) -> Any:
    """The value that a text is as JSON; None if it is no JSON, or was cut."""
    try:
        return json_value(text) if text else None
    except ValueError:
        return None


def _moment(text: str) -> Moment | None:
    """The time that a line begins with, in seconds of its day; servers do not say of which zone."""
    found = _TIME.match(text)
    if found is None:
        return None
    hours, minutes, seconds, thousandths = map(int, found.groups())
    return Moment(hours * 3600 + minutes * 60 + seconds + thousandths / 1000, False)
