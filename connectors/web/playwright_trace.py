"""Traces of Playwright (`trace.zip`, versions 3 to 10): each call of its API on a page, and the page as it then was.

Each `.trace` of an archive is the log of one browser context, and a trajectory; that of the test runner only repeats
its calls as steps. A call has snapshots of its page's frames before, at the input and after: which they are is said by
names (`beforeSnapshot`, up to version 8) or by phases (from 9 on). Here

- the observation is the page in the snapshot before the call; iframes stand in it as far as they have a snapshot;
- the next observation is the snapshot before the next call on the same page, which has had all the time until then to
  settle, as with rrweb; where the next call is on another page, or none follows, that after the call itself. A call
  that never ended, in a trace that breaks off, has none;
- assertions (`expect`, `waitFor…`) are actions that wait for a state: they take time, and can fail. What only reads is
  `extract`; what does not act on a page (`playwright_calls`) is left out;
- a call that failed has `is_error` set on what was then shown, and its message, which is Playwright's own and not the
  page's, comes before the next action as the harness's word;
- the target of a call is the node that the snapshot at the input marks (`__playwright_target__`), found again in the
  snapshot before; where there is none, the selector stands for it.

Console messages, network logs and resources are not read (see `har` for HTTP). Traces in a blob report
(`report.jsonl` beside `resources/*.zip`) are read each on its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from typing import Any, BinaryIO, ClassVar, Final
from urllib.parse import urlsplit

from connectors.archive import Archive
from connectors.connector import Blob, Connector, Log, Sniff
from connectors.records import json_value, lines
from connectors.web import action as act
from connectors.web.dom import DomNode
from connectors.web.markup import html_text
from connectors.web.page import Page, page_of
from connectors.web.playwright_calls import action_of
from connectors.web.playwright_dom import Frame, LostNodeError, frame_of, iframes, same_place
from schemas import Context, Environment, Observation, ParseError, Reject, Step, Task, Trajectory, json_text

NEWEST: Final = 10
"""The newest version that is read. A later one may number nodes otherwise."""

_ZIP: Final = b"PK\x03\x04"
_BEGINS: Final = re.compile(rb'\{(?:"version":\d+,)?"type":"context-options"')
_TRACE: Final = re.compile(r"(?:.*[-/])?(?:trace|\d+-trace|test)\.trace|.*\.trace")
_OWN: Final = re.compile(r"(?:.*/)?[\w-]*(?:trace|test)\.(?:trace|network|stacks)")
_PHASES: Final = {"before": "beforeSnapshot", "action": "inputSnapshot", "after": "afterSnapshot"}
_MAX_FRAMES: Final = 8
"""Levels of frames in frames."""


class PlaywrightTrace(Connector):
    """Playwright traces."""

    name: ClassVar[str] = "playwright_trace"
    version: ClassVar[str] = "1"
    domains: ClassVar[tuple[str, ...]] = ("web",)
    title: ClassVar[str] = "Playwright traces (trace.zip), also in blob reports"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if head.startswith(_ZIP):
            names = list(_names(head))
            if any(_OWN.fullmatch(name) for name in names):
                return Sniff(0.95, "a zip archive with a .trace, .network or .stacks file")
            if names[:1] == ["report.jsonl"] or (names and re.fullmatch(r"report(?:-\w+)?\.jsonl", names[0])):
                return Sniff(0.9, "a zip archive that begins with report.jsonl, as a blob report does")
            return None
        if _BEGINS.match(head.removeprefix(b"\xef\xbb\xbf").lstrip()):
            return Sniff(0.95, "its first line is the context-options of a trace")
        if uri.endswith(".trace") and head.startswith(b'{"type":"before","callId"'):
            return Sniff(0.9, "its first line is a call of a trace")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Each folder that holds `.trace` files beside their `.network` files: an archive that was unpacked."""
        folders: dict[str, list[str]] = {}
        for path in paths:
            if _OWN.fullmatch(path):
                folders.setdefault(path.rpartition("/")[0], []).append(path)
        for folder, found in folders.items():
            traces = [path for path in found if path.endswith(".trace")]
            if traces and len(found) > 1:
                cut = len(folder) + 1 if folder else 0
                yield Log(folder, {path[cut:]: path for path in found}, traces[0][cut:])

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        told = False
        failures: list[ParseError] = []
        for part in _parts(blob):
            reader = _Reader(part, blob.choices.screen == "raw")
            try:
                for reject in reader.read():
                    told = True
                    yield reject
            except ParseError as error:
                failures.append(error)
                continue
            for found in reader.trajectories():
                told = True
                yield found
        if failures:
            for failure in failures[1:]:
                yield Reject.of(failure, connector=self.name)
            raise failures[0]
        if not told:
            raise ParseError(blob.uri, -1, "no_transitions", "no call in it acts on a page")


def _names(head: bytes) -> Iterator[str]:
    """The names of the members of a zip archive whose headers stand in its beginning."""
    place = 0
    while (place := head.find(_ZIP, place)) >= 0 and place + 30 <= len(head):
        size = int.from_bytes(head[place + 26 : place + 28], "little")
        yield head[place + 30 : place + 30 + size].decode("utf-8", "replace")
        place += 30


@dataclass(frozen=True, slots=True)
class _Part:
    """One `.trace`: its bytes, and where it is. `base`: where it begins in an archive, None if it is a file itself."""

    uri: str
    member: str
    native: str
    open: Callable[[], BinaryIO]
    base: int | None = None


def _parts(blob: Blob) -> Iterator[_Part]:
    """The traces of an input in the order of their names.

    Raises:
        ParseError: the archive cannot be read, or holds none.
    """
    if blob.members != ("",):
        for name in blob.members:
            if name.endswith(".trace"):
                yield _Part(blob.uri, name, name, partial(blob.open, name))
        return
    with blob.open() as stream:
        packed = stream.read(len(_ZIP)) == _ZIP
    if not packed:
        yield _Part(blob.uri, "", "", blob.open)
        return
    archive = Archive(blob.read(), blob.uri)
    found = list(_packed(blob.uri, archive, "", None))
    for name in archive.members:
        if not found and name.startswith("resources/") and name.endswith(".zip"):
            base = archive.members[name].offset
            inner = Archive(archive.read(name), blob.uri)
            yield from _packed(blob.uri, inner, f"{name}!", base)
    if not found and not archive.whole:
        raise ParseError(blob.uri, 0, "truncated", "the archive was cut off, and no trace is left in it")
    yield from found


def _packed(uri: str, archive: Archive, prefix: str, base: int | None) -> Iterator[_Part]:
    for name in sorted(archive.members):
        if _TRACE.fullmatch(name):
            place = archive.members[name].offset if base is None else base
            yield _Part(uri, "", f"{prefix}{name}", partial(_opened, archive, name), place)


def _opened(archive: Archive, name: str) -> BinaryIO:
    return BytesIO(archive.read(name))


@dataclass(slots=True, eq=False)
class _Call:
    """A call: its record, or what of it was merged from `before`, `input` and `after`."""

    ident: str
    offset: int
    told: dict[str, Any]
    ended: bool = False


@dataclass(slots=True, eq=False)
class _View:
    """A page in one snapshot."""

    observation: Observation
    page: Page | None
    document: DomNode
    targets: list[DomNode] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Shot:
    """Where a frame's snapshot is, and what it says of the frame."""

    frame: str
    place: int
    url: str
    page: str
    is_main: bool


class _Reader:
    """One `.trace`: everything is read, then calls and snapshots are put together.

    Args:
        part: the trace.
        raw: whether observations are HTML, not compact trees.
    """

    def __init__(self, part: _Part, raw: bool) -> None:
        self._part = part
        self._raw = raw
        self._calls: dict[str, _Call] = {}
        self._options: dict[str, Any] = {}
        self._frames: dict[str, Frame] = {}
        self._shots: dict[str, list[_Shot]] = {}
        self._views: dict[str, _View | None] = {}
        self._documents: dict[tuple[Any, ...], _View] = {}
        self._problems: list[Reject] = []
        self._version = 6

    def read(self) -> Iterator[Reject]:
        """A reject for each line that is not read.

        Raises:
            ParseError: the trace cannot be opened, or is of a version that is not known.
        """
        part = self._part
        with part.open() as stream:
            for line in lines(stream):
                offset = line.offset if part.base is None else part.base
                if line.data is not None and not line.data.strip():
                    continue
                value: Any = None
                why = "line_too_long"
                if line.data is not None:
                    try:
                        value = json_value(line.data)
                        why = "bad_record"
                    except ValueError:
                        why = "bad_json" if line.ended else "truncated"
                if isinstance(value, dict) and self._take(value, offset):
                    continue
                for frame in self._frames.values():
                    frame.forget()
                detail = f"wanted a record of a trace, at byte {line.offset} of {part.native or 'it'}"
                excerpt = (line.data or b"")[:400]
                yield Reject.of(ParseError(part.uri, offset, why, detail, part.member, excerpt), PlaywrightTrace.name)

    def _take(self, event: dict[str, Any], offset: int) -> bool:
        """Takes a record in; whether it is one."""
        kind = event.get("type")
        if kind == "context-options":
            self._begin(event)
        elif kind == "frame-snapshot":
            snapshot = event.get("snapshot")
            return isinstance(snapshot, dict) and self._snapshot(snapshot)
        elif kind in ("before", "action"):
            told = _modern(event) if kind == "action" else event
            ident = told.get("callId")
            if not isinstance(ident, str):
                return False
            self._calls[ident] = _Call(ident, offset, told, kind == "action")
        elif kind in ("input", "after"):
            call = self._calls.get(str(event.get("callId")))
            if call is not None:
                call.ended = call.ended or kind == "after"
                call.told = {**call.told, **{key: value for key, value in event.items() if key != "type"}}
        return isinstance(kind, str)

    def _begin(self, event: dict[str, Any]) -> None:
        version = event.get("version")
        if not isinstance(version, int) or not 0 <= version <= NEWEST:
            detail = f"the trace is of version {version!r:.20}; versions up to {NEWEST} are read"
            raise ParseError(self._part.uri, self._part.base or 0, "unsupported_version", detail, self._part.member)
        self._version = version
        self._options = self._options or event

    def _snapshot(self, snapshot: dict[str, Any]) -> bool:
        frame = snapshot.get("frameId")
        if not isinstance(frame, str) or not isinstance(snapshot.get("html"), list):
            return False
        place = self._frames.setdefault(frame, Frame()).add(snapshot["html"])
        name = snapshot.get("snapshotName")
        if not isinstance(name, str):
            name = f"{snapshot.get('phase')}@{snapshot.get('callId')}"
        url, page = snapshot.get("frameUrl"), snapshot.get("pageId")
        shot = _Shot(
            frame,
            place,
            url if isinstance(url, str) else "",
            page if isinstance(page, str) else "",
            snapshot.get("isMainFrame") is True,
        )
        self._shots.setdefault(name, []).append(shot)
        return True

    # Views

    def _name(self, call: _Call, phase: str) -> str:
        """The name of the call's snapshot of that phase."""
        told = call.told.get(_PHASES[phase])
        return told if isinstance(told, str) else f"{phase}@{call.ident}"

    def _page_of(self, call: _Call) -> str:
        """The id of the page that the call is on; empty if it is not known."""
        told = call.told.get("pageId")
        if isinstance(told, str):
            return told
        for phase in _PHASES:
            for shot in self._shots.get(self._name(call, phase), ()):
                return shot.page
        return ""

    def _view(self, call: _Call, phase: str) -> _View | None:
        """The page in the call's snapshot of that phase; None if there is none, or it cannot be rebuilt."""
        name = self._name(call, phase)
        if name not in self._views:
            try:
                self._views[name] = self._built(self._shots.get(name, []))
            except LostNodeError as error:
                self._problem(call, "missing_node", str(error))
            except ValueError as error:
                self._problem(call, "too_deep", str(error))
        return self._views.setdefault(name, None)

    def _problem(self, call: _Call, reason: str, detail: str) -> None:
        part = self._part
        self._problems.append(
            Reject("record", reason, detail, part.uri, part.member, call.offset, PlaywrightTrace.name)
        )

    def _built(self, shots: list[_Shot]) -> _View | None:
        main = [shot for shot in shots if shot.is_main]
        if not main:
            return None
        # Of several snapshots of one name the last counts.
        frames = {shot.frame: shot for shot in shots}
        top = self._frames[main[-1].frame].dom(main[-1].place)
        key: tuple[Any, ...] = (top.document, main[-1].url)
        targets = list(top.targets)
        if len(frames) > 1:
            inner = list(self._joined(top.document, frames, targets))
            key += tuple(inner)
        view = self._documents.get(key)
        if view is None:
            url = main[-1].url
            if self._raw:
                seen = Observation(html_text(top.document), "text/html", form="screen", uri=url or None)
                view = _View(seen, None, top.document)
            else:
                page = page_of(top.document, url)
                view = _View(page.observation(url or None), page, top.document)
            self._documents[key] = view
        return _View(view.observation, view.page, view.document, targets)

    def _joined(self, document: DomNode, frames: Mapping[str, _Shot], targets: list[DomNode]) -> Iterator[Any]:
        """Puts into iframes the documents of their own snapshots; each with its address."""
        stack = [(document, 0)]
        while stack:
            one, level = stack.pop()
            for node in iframes(one):
                shot = frames.get(frame_of(node) or "")
                node.frame = None
                if shot is None or shot.is_main or level >= _MAX_FRAMES:
                    continue
                inner = self._frames[shot.frame].dom(shot.place)
                node.frame = inner.document
                targets.extend(inner.targets)
                yield inner.document, shot.url
                stack.append((inner.document, level + 1))

    # Steps

    def trajectories(self) -> Iterator[Trajectory | Reject]:
        """The trajectory of the context, if a call acted on a page, after a reject for each snapshot that is damaged."""
        calls = [call for call in self._calls.values() if _is_call(call.told)]
        acted = [(call, action_of(*_parts_of(call), None, False, call.ident)) for call in calls]
        steps = self._steps([call for call, action in acted if action is not None])
        yield from self._problems
        if not steps:
            return
        if all(step.observation is None and step.next_observation is None for step in steps):
            detail = f"none of the {len(steps)} calls has a snapshot"
            part = self._part
            yield Reject("record", "no_observation", detail, part.uri, part.member, steps[0].offset, "playwright_trace")
            return
        options = self._options
        title = options.get("title")
        title = title if isinstance(title, str) else None
        host = next((_host(step.observation.uri or "") for step in steps if step.observation), "")
        host = host or next((_host(step.next_observation.uri or "") for step in steps if step.next_observation), "")
        yield Trajectory(
            native_id=self._part.native or title or "",
            domain="web",
            steps=steps,
            environment=Environment(id=host or None, version=_browser(options)),
            task=Task(instruction=None, id=title),
            context=Context(initial_state=_window(options)),
        )

    def _steps(self, calls: list[_Call]) -> list[Step]:
        steps: list[Step] = []
        said: str | None = None
        for turn, call in enumerate(calls):
            before, page = self._view(call, "before"), self._page_of(call)
            following = calls[turn + 1] if turn + 1 < len(calls) else None
            after: _View | None = None
            if call.ended:
                if following is not None and self._page_of(following) == page:
                    after = self._view(following, "before")
                after = after or self._view(call, "after")
            target = self._target(call, before)
            element = act.line_of(before.page if before else None, target)
            secret = target is not None and target.attributes.get("type", "").lower() == "password"
            action = action_of(*_parts_of(call), element, secret, call.ident)
            if action is None:
                continue
            message = _failure(call.told)
            shown = after.observation if after else None
            if message is not None and shown is not None:
                shown = Observation(
                    shown.content, shown.media_type, shown.form, shown.dialect, is_error=True, uri=shown.uri
                )
            began, ended = _number(call.told.get("startTime")), _number(call.told.get("endTime"))
            steps.append(
                Step(
                    action,
                    before.observation if before else None,
                    shown,
                    turn,
                    call.offset,
                    self._part.member,
                    interleaved=json_text([{"role": "harness", "content": said}]) if said else None,
                    started_at=self._wall_time(call.told, began),
                    duration_s=(ended - began) / 1000
                    if call.ended and began is not None and ended is not None and ended >= began
                    else None,
                )
            )
            said = message
        return steps

    def _target(self, call: _Call, before: _View | None) -> DomNode | None:
        """The node of the page before that the call acts on, as far as a snapshot marks it."""
        if before is None or before.page is None:
            return None
        for phase in ("before", "action", "after"):
            view = self._view(call, phase)
            if view is None or len(view.targets) != 1:
                continue
            if phase == "after" and view.observation.uri != before.observation.uri:
                continue
            node = view.targets[0]
            if before.page.ids.get(node) is not None:
                return node
            found = same_place(node, before.document, view.document)
            if found is not None:
                return found
        return None

    def _wall_time(self, told: Mapping[str, Any], began: float | None) -> int | None:
        """When the call began, in microseconds since 1970 UTC."""
        wall = _number(told.get("wallTime"))
        if wall is None and began is not None:
            base, clock = _number(self._options.get("wallTime")), _number(self._options.get("monotonicTime"))
            wall = base + began - clock if base is not None and clock is not None else None
        return int(wall * 1000) if wall is not None and 1e11 < wall < 4e12 else None


def _modern(event: dict[str, Any]) -> dict[str, Any]:
    """A whole call as version 3 and older log it, in the terms of later ones."""
    told = event.get("metadata")
    if not isinstance(told, dict):
        return event
    shots = told.get("snapshots")
    names = {
        str(one.get("title")): one.get("snapshotName")
        for one in (shots if isinstance(shots, list) else [])
        if isinstance(one, dict)
    }
    error = told.get("error")
    return {
        **told,
        "callId": told.get("id"),
        "class": told.get("type"),
        "beforeSnapshot": names.get("before"),
        "inputSnapshot": names.get("action") or names.get("input"),
        "afterSnapshot": names.get("after"),
        "error": error.get("error") if isinstance(error, dict) and isinstance(error.get("error"), dict) else error,
    }


def _is_call(told: Mapping[str, Any]) -> bool:
    return isinstance(told.get("class"), str) and isinstance(told.get("method"), str) and not told.get("internal")


def _parts_of(call: _Call) -> tuple[str, str, Mapping[str, Any]]:
    params = call.told.get("params")
    return str(call.told["class"]), str(call.told["method"]), params if isinstance(params, dict) else {}


def _failure(told: Mapping[str, Any]) -> str | None:
    """Playwright's message if the call failed; None if it did not."""
    error = told.get("error")
    if isinstance(error, str) and error:
        return error
    if isinstance(error, dict):
        inner = error.get("error")
        found = (inner if isinstance(inner, dict) else error).get("message")
        return found if isinstance(found, str) and found else "the call failed"
    result, params = told.get("result"), told.get("params")
    if told.get("method") == "expect" and isinstance(result, dict) and isinstance(result.get("matches"), bool):
        wanted = not (isinstance(params, dict) and params.get("isNot") is True)
        if result["matches"] is not wanted:
            shown = result.get("errorMessage")
            return shown if isinstance(shown, str) and shown else "the expectation was not met"
    return None


def _browser(options: Mapping[str, Any]) -> str | None:
    name = options.get("browserName")
    return name if isinstance(name, str) and name else None


def _window(options: Mapping[str, Any]) -> str | None:
    told = options.get("options")
    view = told.get("viewport") if isinstance(told, dict) else None
    if not isinstance(view, dict) or not isinstance(view.get("width"), int) or not isinstance(view.get("height"), int):
        return None
    return f"window of {view['width']} by {view['height']} pixels"


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e16:
        return None
    return float(value)


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
