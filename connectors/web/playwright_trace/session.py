"""One context of a Playwright trace: its calls and snapshots combined to transitions.

The docstring of `playwright_trace`, which opens the archives, states the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final, NamedTuple

from trajmill.connectors.reading.fields import brief, object_of, plain_text
from trajmill.connectors.reading.lines import line_values
from trajmill.connectors.reading.times import seconds_of_span
from trajmill.connectors.screens.dom import DomNode, text_of
from trajmill.connectors.screens.moves import Moves
from trajmill.connectors.screens.page import SHAPES, Page, page_of
from trajmill.connectors.screens.stylesheets import Sheet, Viewport
from trajmill.connectors.web import action as act
from trajmill.connectors.web.markup import html_observation, sheet_links
from trajmill.connectors.web.playwright_trace.calls import DRAG, action_of, is_mouse_call
from trajmill.connectors.web.playwright_trace.dom import (
    Frame,
    LostNodeError,
    frame_of,
    iframes,
    nodes_under,
    same_place,
)
from trajmill.connectors.web.playwright_trace.events import (
    UNEXPECTED,
    browser_of,
    failure_of,
    is_call,
    is_mark_of,
    modern,
    parts_of,
    result_of,
    time_of,
    unexpected_of,
    viewport_of,
    window_of,
)
from trajmill.connectors.web.playwright_trace.linked_sheets import LinkedSheets
from trajmill.connectors.web.playwright_trace.screencast import Screencast
from trajmill.connectors.web.site import host_of
from trajmill.schemas import Attachment, Context, Environment, Observation, ParseError, Reject, Task, Trajectory

FORMAT: Final = "playwright_trace"
NEWEST: Final = 10
"""The newest version that is read. A later version may number nodes differently."""

_PHASES: Final = {"before": "beforeSnapshot", "action": "inputSnapshot", "after": "afterSnapshot"}
_MAX_FRAMES: Final = 8
"""Deepest nesting of frames that is read."""


@dataclass(frozen=True, slots=True)
class Part:
    """One `.trace`: its bytes and its location.

    Attributes:
        base: offset in an archive; None if the trace is a file itself.
        picture: returns a frame of its screencast by the name of its file; None if it is missing.
        read: returns the bytes of a file beside the trace by its name; None if it is missing.
    """

    uri: str
    member: str
    native: str
    open: Callable[[], BinaryIO]
    base: int | None = None
    picture: Callable[[str], Attachment | None] = lambda _: None
    read: Callable[[str], bytes | None] = lambda _: None


@dataclass(slots=True, eq=False)
class _Call:
    """A call: its record, or the record merged from `before`, `input` and `after`.

    `began` and `ended` are the numbers of the trace records of its beginning and end; `ended` is None if there is none.
    """

    ident: str
    offset: int
    told: dict[str, Any]
    began: int
    ended: int | None = None


@dataclass(slots=True, eq=False)
class _Dom:
    """A page in one snapshot: its documents by frame id, and the marked nodes as (frame, node, mark).

    `sheets` are the style sheets of its links and `hover` is the node under the pointer. `key` is equal for snapshots
    that show the same.
    """

    url: str
    viewport: Viewport | None
    documents: dict[str, DomNode]
    targets: list[tuple[str, DomNode, str]]
    sheets: list[tuple[DomNode, Sheet | None]]
    hover: DomNode | None
    key: tuple[Any, ...]


_HOVER: Final = ":hover"


class _Pointer(NamedTuple):
    """Mouse position after the last call: a frame, its address and document, and the node in it."""

    frame: str
    url: str
    document: DomNode
    node: DomNode


@dataclass(slots=True, eq=False)
class _View:
    """Contents of a page in one snapshot; `page` is None if the observation is HTML.

    `target` is the node that the call acts on and `onto` the node that it is dragged onto; both are None after the
    call.
    """

    observation: Observation
    page: Page | None
    target: DomNode | None
    onto: DomNode | None


@dataclass(frozen=True, slots=True)
class _Shot:
    """The number of a frame's snapshot, and the snapshot's facts about the frame."""

    frame: str
    place: int
    url: str
    page: str
    is_main: bool
    at: float | None
    viewport: Viewport | None


class Session:
    """One `.trace`. All of it is read before calls and snapshots are combined.

    Args:
        part: the trace.
        raw: whether observations are HTML instead of compact trees.
    """

    def __init__(self, part: Part, raw: bool) -> None:
        self._part = part
        self._raw = raw
        self._calls: dict[str, _Call] = {}
        self._options: dict[str, Any] = {}
        self._frames: dict[str, Frame] = {}
        self._shots: dict[str, list[_Shot]] = {}
        self._doms: dict[str, _Dom | None] = {}
        self._views: dict[str, _View | None] = {}
        self._known: dict[tuple[Any, ...], tuple[Observation, Page | None]] = {}
        self._screencast = Screencast(part.picture)
        self._linked = LinkedSheets(part.read, part.native.rpartition("!")[2].removesuffix(".trace") + ".network")
        self._links: dict[DomNode, list[tuple[DomNode, str]]] = {}
        self._hovers: dict[DomNode, bool] = {}
        self._pointers: dict[str, _Pointer | None] = {}
        self._problems: list[Reject] = []
        self._version = 6
        self._taken = 0

    def read(self) -> Iterator[Reject]:
        """Read the trace and yield a reject for each unreadable line.

        Raises:
            ParseError: the trace cannot be opened, or its version is unknown.
        """
        part = self._part
        with part.open() as stream:
            for line, value in line_values(stream, part.uri, part.member):
                offset = line.offset if part.base is None else part.base
                if isinstance(value, dict) and self._take(value, offset):
                    continue
                for frame in self._frames.values():
                    frame.forget()
                why = "bad_record"
                if isinstance(value, ParseError):
                    why = value.reason if value.reason in ("line_too_long", "truncated") else "bad_json"
                detail = f"wanted a record of a trace, at byte {line.offset} of {part.native or 'it'}"
                excerpt = (line.data or b"")[:400]
                yield Reject.of(ParseError(part.uri, offset, why, detail, part.member, excerpt), FORMAT)

    def _take(self, event: dict[str, Any], offset: int) -> bool:
        """Process a record; return True if it is valid."""
        kind = event.get("type")
        self._taken += 1
        if kind == "context-options":
            self._begin(event)
        elif kind == "frame-snapshot":
            snapshot = event.get("snapshot")
            return isinstance(snapshot, dict) and self._snapshot(snapshot)
        elif kind == "screencast-frame":
            self._screencast.add(event)
        elif kind in ("before", "action"):
            call_event = modern(event) if kind == "action" else event
            ident = call_event.get("callId")
            if not isinstance(ident, str):
                return False
            self._calls[ident] = _Call(
                ident, offset, call_event, self._taken, self._taken if kind == "action" else None
            )
        elif kind == "log" and (unexpected := unexpected_of(event.get("message"))) is not None:
            call = self._calls.get(plain_text(event.get("callId")))
            if call is not None:
                call.told[UNEXPECTED] = unexpected
        elif kind in ("input", "after"):
            call = self._calls.get(plain_text(event.get("callId")))
            if call is not None:
                call.ended = call.ended or (self._taken if kind == "after" else None)
                call.told = {**call.told, **{key: value for key, value in event.items() if key != "type"}}
        return isinstance(kind, str)

    def _begin(self, event: dict[str, Any]) -> None:
        version = event.get("version")
        if not isinstance(version, int) or not 0 <= version <= NEWEST:
            detail = f"the trace is of version {brief(version, 20)}; versions up to {NEWEST} are read"
            raise ParseError(self._part.uri, self._part.base or 0, "unsupported_version", detail, self._part.member)
        self._version = version
        self._options = self._options or event

    def _snapshot(self, snapshot: dict[str, Any]) -> bool:
        frame = snapshot.get("frameId")
        if not isinstance(frame, str) or not isinstance(snapshot.get("html"), list):
            return False
        number = self._frames.setdefault(frame, Frame()).add(snapshot["html"])
        name = snapshot.get("snapshotName")
        if not isinstance(name, str):
            name = f"{plain_text(snapshot.get('phase'))}@{plain_text(snapshot.get('callId'))}"
        url, page = snapshot.get("frameUrl"), snapshot.get("pageId")
        shot = _Shot(
            frame,
            number,
            url if isinstance(url, str) else "",
            page if isinstance(page, str) else "",
            snapshot.get("isMainFrame") is True,
            time_of(snapshot.get("timestamp")),
            viewport_of(snapshot.get("viewport")),
        )
        self._linked.add(frame, number, snapshot)
        self._shots.setdefault(name, []).append(shot)
        return True

    # Views

    def _name(self, call: _Call, phase: str) -> str:
        """Return the name of the call's snapshot of that phase."""
        name = call.told.get(_PHASES[phase])
        return name if isinstance(name, str) else f"{phase}@{call.ident}"

    def _page_of(self, call: _Call) -> str:
        """Return the id of the call's page; empty if unknown."""
        page_id = call.told.get("pageId")
        if isinstance(page_id, str):
            return page_id
        for phase in _PHASES:
            for shot in self._shots.get(self._name(call, phase), ()):
                return shot.page
        return ""

    def _dom(self, call: _Call, phase: str) -> _Dom | None:
        """Return the page in the call's snapshot of that phase; None if there is none, or if it cannot be rebuilt."""
        name = self._name(call, phase)
        if name not in self._doms:
            try:
                self._doms[name] = self._built(self._shots.get(name, []))
            except LostNodeError as error:
                self._problem(call, "missing_node", str(error))
            except ValueError as error:
                self._problem(call, "nested_too_deeply", str(error))
        return self._doms.setdefault(name, None)

    def _view(self, call: _Call, phase: str) -> _View | None:
        """Return the view of the page in the call's snapshot of that phase; None if there is none."""
        name = self._name(call, phase)
        if name not in self._views and (dom := self._dom(call, phase)) is not None:
            try:
                target, onto = self._targets(call, dom) if phase != "after" else (None, None)
                shown, page = self._shown(dom, target if target is not None and target.tag in SHAPES else None)
                pictures = self._shown_then(call, self._shots.get(name, []))
                shown = replace(shown, attachments=pictures) if pictures else shown
                self._views[name] = _View(shown, page, target, onto)
            except ValueError as error:
                self._problem(call, "nested_too_deeply", str(error))
        return self._views.setdefault(name, None)

    def _shown(self, dom: _Dom, shape: DomNode | None = None) -> tuple[Observation, Page | None]:
        """Return the observation of a page, built once for all snapshots that show the same.

        Args:
            shape: the part of a drawing that the call acts on, which is then given a line.

        Raises:
            ValueError: the page nests too deeply.
        """
        key = (*dom.key, shape)
        known = self._known.get(key)
        if known is None:
            document = next(iter(dom.documents.values()))
            if self._raw:
                known = html_observation(document, dom.url or None), None
            else:
                # Snapshots share the nodes of links, and another snapshot may have other sheets at them.
                for link, sheet in dom.sheets:
                    link.sheet = sheet
                targets = [node for _, node, _ in dom.targets] + ([shape] if shape is not None else [])
                page = page_of(document, dom.url, None, targets, dom.viewport, dom.hover)
                known = page.observation(dom.url or None), page
            self._known[key] = known
        return known

    def _shown_then(self, call: _Call, shots: Sequence[_Shot]) -> tuple[Attachment, ...]:
        """Return the last frame of the screencast at the time of a snapshot, if the log holds it."""
        main = next((shot for shot in reversed(shots) if shot.is_main), None)
        try:
            frame = self._screencast.last(main.page, main.at) if main is not None else None
        except ParseError as error:
            self._problem(call, error.reason, error.detail)
            return ()
        return (frame,) if frame is not None else ()

    def _problem(self, call: _Call, reason: str, detail: str) -> None:
        part = self._part
        self._problems.append(Reject("record", reason, detail, part.uri, part.member, call.offset, FORMAT))

    def _built(self, shots: list[_Shot]) -> _Dom | None:
        main = [shot for shot in shots if shot.is_main]
        if not main:
            return None
        # The last of several snapshots with one name counts.
        frames = {shot.frame: shot for shot in shots}
        frame, url = main[-1].frame, main[-1].url
        top = self._frames[frame].dom(main[-1].place)
        documents = {frame: top.document}
        targets = [(frame, *target) for target in top.targets]
        if len(self._frames) > 1:
            self._join(top.document, frames, documents, targets)
        sheets = [linked for ident in documents for linked in self._linked_sheets(documents[ident], frames[ident])]
        viewport = main[-1].viewport or viewport_of(object_of(self._options.get("options")).get("viewport"))
        addresses = [(ident, frames[ident].url) for ident in documents]
        hover = self._find_hovered(main[-1].page, frames, documents, sheets)
        key = (url, viewport, hover, *addresses, *documents.values(), *(sheet for _, sheet in sheets))
        dom = _Dom(url, viewport, documents, targets, sheets, hover, key)
        if len(self._frames) > 1:
            # Snapshots share the nodes of iframes, and rebuilding another snapshot puts other documents into them.
            self._shown(dom)
        return dom

    def _find_hovered(
        self,
        page: str,
        frames: Mapping[str, _Shot],
        documents: Mapping[str, DomNode],
        sheets: Sequence[tuple[DomNode, Sheet | None]],
    ) -> DomNode | None:
        """Return the node under the pointer, if the document in which a call left it still exists."""
        pointer = self._pointers.get(page)
        if pointer is None or pointer.frame not in documents or frames[pointer.frame].url != pointer.url:
            return None
        if not any(sheet is not None and sheet.holds(_HOVER) for _, sheet in sheets) and not any(
            self._has_hover(document) for document in documents.values()
        ):
            return None
        return _in_other(pointer.node, pointer.document, documents[pointer.frame])

    def _has_hover(self, document: DomNode) -> bool:
        """Return True if a style sheet in a document depends on the pointer."""
        if document not in self._hovers:
            self._hovers[document] = any(
                (node.sheet is not None and node.sheet.holds(_HOVER))
                or (node.tag == "style" and _HOVER in text_of(node))
                for node in nodes_under(document)
            )
        return self._hovers[document]

    def _linked_sheets(self, document: DomNode, shot: _Shot) -> list[tuple[DomNode, Sheet | None]]:
        """Return the links of a document with their style sheets in that snapshot."""
        if document not in self._links:
            self._links[document] = sheet_links(document, shot.url)
        return [(node, self._linked.sheet(shot.frame, shot.place, url)) for node, url in self._links[document]]

    def _join(
        self,
        document: DomNode,
        frames: Mapping[str, _Shot],
        documents: dict[str, DomNode],
        targets: list[tuple[str, DomNode, str]],
    ) -> None:
        """Put the documents of the frames' own snapshots into iframes, and add them and their marked nodes."""
        stack = [(document, 0)]
        while stack:
            current, level = stack.pop()
            for node in iframes(current):
                shot = frames.get(frame_of(node))
                node.frame = None
                if shot is None or shot.frame in documents or level >= _MAX_FRAMES:
                    continue
                inner = self._frames[shot.frame].dom(shot.place)
                node.frame = documents[shot.frame] = inner.document
                node.attributes["src"] = shot.url
                targets.extend((shot.frame, *target) for target in inner.targets)
                stack.append((inner.document, level + 1))

    # Steps

    def trajectories(self) -> Iterator[Trajectory | Reject]:
        """Yield a reject for each damaged snapshot, then the trajectory of the context, if a call acted on a page."""
        calls = [call for call in self._calls.values() if is_call(call.told)]
        acted = [(call, action_of(*parts_of(call.told), None, False, call.ident)) for call in calls]
        moves = self._moves([call for call, action in acted if action is not None])
        steps = moves.steps
        yield from self._problems
        if not steps:
            return
        if not any(self._views.values()):
            detail = f"none of the {len(steps)} calls has a snapshot"
            part = self._part
            yield Reject("record", "no_observation", detail, part.uri, part.member, steps[0].offset, FORMAT)
            return
        options = self._options
        title = options.get("title")
        title = title if isinstance(title, str) else None
        host = next((host_of(step.observation.uri or "") for step in steps if step.observation), "")
        host = host or next((host_of(step.next_observation.uri or "") for step in steps if step.next_observation), "")
        yield Trajectory(
            native_id=" ".join(filter(None, (title or self._part.native, self._page_of(calls[-1])))),
            domain="web",
            steps=steps,
            environment=Environment(id=host or None, version=browser_of(options)),
            task=Task(instruction=None, id=title),
            context=Context(initial_state=window_of(options)),
        )

    def _moves(self, calls: list[_Call]) -> Moves:
        """Build the moves of the calls, with the page around them."""
        moves = Moves()
        for number, call in enumerate(calls):
            before, page = self._begun(call), self._page_of(call)
            following = calls[number + 1] if number + 1 < len(calls) else None
            self._move_pointer(call, page)
            after: _View | None = None
            if call.ended is not None:
                # A call without a page opened it, and the first call on that page shows it. A call that began before
                # this one ended shows the page before this one's effect.
                is_later = following is not None and following.began >= call.ended
                if following is not None and is_later and page in ("", self._page_of(following)):
                    after = self._begun(following)
                after = after or self._view(call, "after")
            shows = before.page if before else None
            target, onto = (before.target, before.onto) if before else (None, None)
            secret = target is not None and target.attributes.get("type", "").lower() == "password"
            element, dropped_on = act.line_of(shows, target), act.line_of(shows, onto)
            action = action_of(*parts_of(call.told), element, secret, call.ident, dropped_on)
            if action is None:
                continue
            message = failure_of(call.told)
            shown = _answer(action.name, call, secret, before, after)
            if message is not None and shown is not None:
                shown = replace(shown, is_error=True)
            began, ended = time_of(call.told.get("startTime")), time_of(call.told.get("endTime"))
            moves.add(
                action,
                before.observation if before else None,
                shown,
                call.offset,
                self._part.member,
                at=self._wall_time(call.told, began),
                seconds=seconds_of_span(began, ended) if call.ended is not None else None,
            )
            moves.say(message)
        return moves

    def _begun(self, call: _Call) -> _View | None:
        """Return the page at the beginning of the call; calls on keyboard and mouse have one only at their input."""
        return self._view(call, "before") or self._view(call, "action")

    def _move_pointer(self, call: _Call, page: str) -> None:
        """Record the node under the pointer after a call that moved it."""
        if is_mouse_call(call.told):
            self._pointers[page] = None
        elif isinstance(call.told.get("point"), dict) and (dom := self._dom(call, "action")) is not None:
            urls = {shot.frame: shot.url for shot in self._shots.get(self._name(call, "action"), ())}
            marked = [(frame, node) for frame, node, mark in dom.targets if is_mark_of(mark, call.ident)]
            self._pointers[page] = next(
                (_Pointer(frame, urls[frame], dom.documents[frame], node) for frame, node in marked[-1:]), None
            )

    def _targets(self, call: _Call, before: _Dom) -> tuple[DomNode | None, DomNode | None]:
        """Return the node of the page before that the call acts on, and the node it is dragged onto, from the marks."""
        if self._raw or call.told.get("class") == "Page":
            return None, None
        if call.told.get("method") == DRAG:
            shots = self._shots.get(self._name(call, "action"), [])
            try:
                first = self._marked(call, before, self._built(shots[::-1]))
            except ValueError:
                first = []
            last = [node for node in self._marked(call, before, self._dom(call, "action")) if node not in first]
            return first[0] if len(first) == 1 else None, last[0] if len(last) == 1 else None
        for phase in _PHASES:
            dom = self._dom(call, phase)
            if phase == "after" and dom is not None and dom.url != before.url:
                continue
            marked = self._marked(call, before, dom)
            if len(marked) == 1:
                return marked[0], None
        return None, None

    def _marked(self, call: _Call, before: _Dom, dom: _Dom | None) -> list[DomNode]:
        """Return the nodes of the page before that a snapshot marks as the call's targets."""
        nodes: list[DomNode] = []
        for frame, node, mark in dom.targets if dom is not None else []:
            if dom is not None and frame in before.documents and is_mark_of(mark, call.ident):
                own = _in_other(node, dom.documents[frame], before.documents[frame])
                nodes += [own] if own is not None else []
        return nodes

    def _wall_time(self, event: Mapping[str, Any], began: float | None) -> int | None:
        """Return when the call began, in microseconds since 1970 UTC."""
        wall = time_of(event.get("wallTime"))
        if wall is None and began is not None:
            base, clock = time_of(self._options.get("wallTime")), time_of(self._options.get("monotonicTime"))
            wall = base + began - clock if base is not None and clock is not None else None
        return int(wall * 1000) if wall is not None and 1e11 < wall < 4e12 else None


def _in_other(node: DomNode, document: DomNode, other_document: DomNode) -> DomNode | None:
    """Return the node in another snapshot's document at the position of the node in its own document."""
    return node if document is other_document else same_place(node, other_document, document)


def _answer(name: str, call: _Call, secret: bool, before: _View | None, after: _View | None) -> Observation | None:
    """Return the observation after a call: the result of a call that asks for something, else the page.

    The result of an assertion is its observation if the page did not change.
    """
    shown = after.observation if after else None
    is_still = before is not None and shown is not None and before.observation.content == shown.content
    is_asked = name in (act.EXTRACT, act.EVALUATE) or (call.told.get("method") == "expect" and is_still)
    if is_asked and call.ended is not None:
        text = result_of(call.told)
        if text is not None:
            uri = shown.uri if shown is not None else None
            masked = act.MASK if secret else text
            return Observation(masked, form="response", uri=uri, sensitive=(text,) if secret else ())
    return shown
