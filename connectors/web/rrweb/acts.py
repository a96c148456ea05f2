"""Actions of a person in one window of an rrweb recording, combined from raw events.

In a recording, mousedown, focus, mouseup, click and each change of a field are separate events. They are combined as
follows:

- A press and the click that follows are one click, whose observation is the page at the beginning of the press. It
  includes clicks that the browser adds (a click on a label clicks its field), the two clicks before a dblclick, and the
  mouse events after a touch.
- Changes of a field by keystrokes are one `fill` with the last text, and so are changes of the text of a focused
  editable element. A choice in a list is one `select_option`, including the click that opened it. A checkbox that
  changes without a click is a `check`.
- A scroll is one action until it rests. A scroll or resize within `EFFECT_MS` of another action is its effect. A scroll
  of an element that is not shown is no action: scripts measure size changes in this way.
- A new page (its nodes are numbered from 1 again) within `PAGE_MS` of an action is its effect, else a `goto` or
  `reload`. A second snapshot of the same nodes without a load event is a checkpoint of the recorder (rrweb 1) and no
  action.
- For a field that was focused without a press, the observation of the next action on it is the page before the focus,
  if that action follows within `BURST_MS`, or if the focus came later than `EFFECT_MS` after an action.
- Changes by scripts (`userTriggered: false`, or a field without the focus) are no action. Neither is a change of
  another field within `BURST_MS` of an action (`EFFECT_MS` of a click, if the field is emptied), unless the field was
  focused for a text: a form may be cleared as it is sent.
- A text that disappears at once, as when a page clears its field after Enter, which the recorder does not report, is a
  `fill` of its own, and not the last text of the one before. It begins with the other changes within `BURST_MS`.

Without time stamps only the order counts: whatever could be an effect of the previous action is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from trajmill.connectors.reading.fields import brief
from trajmill.connectors.screens.dom import DomNode, collapse_space, text_of
from trajmill.connectors.screens.moves import Moves
from trajmill.connectors.screens.page import Page
from trajmill.connectors.web import action as act
from trajmill.connectors.web.markup import html_observation
from trajmill.connectors.web.rrweb.act import (
    BURST_MS,
    EFFECT_MS,
    PAGE_MS,
    REST_MS,
    Act,
    Press,
    Seen,
    action_of,
    point_of,
)
from trajmill.connectors.web.rrweb.dom import Mirror, MissingNodeError, option_value, options_of
from trajmill.connectors.web.site import host_of
from trajmill.schemas import Context, Environment, Trajectory

READY, LOADED, FULL_SNAPSHOT, INCREMENT, META, CUSTOM = range(6)
_MUTATION, _MOVE, _MOUSE, _SCROLL, _RESIZE, _INPUT, _MEDIA, _DRAG = 0, 1, 2, 3, 4, 5, 7, 12
_SHEET, _DECLARATION, _ADOPTION = 8, 13, 15
_UP, _DOWN, _CLICK, _CONTEXT, _DOUBLE, _FOCUS, _BLUR, _TOUCH, _TOUCH_MOVE, _TOUCH_END, _TOUCH_CANCEL = range(11)
_BY_TOUCH: Final = 2
_ADDRESS_TAGS: Final = ("$url_changed", "$pageview")
"""Custom events by which PostHog reports a changed address."""
_TEXTS: Final = frozenset({"", "text", "search", "email", "url", "tel", "password", "textarea"})
"""Types of fields whose value is the typed text; other fields have no value while they are incomplete."""
_PAGES: Final = frozenset({"#document", "html", "body"})
"""Elements that scroll as a page; those in frames have no line of their own."""
_LEADS_ON: Final = frozenset({act.CLICK, act.DBLCLICK, act.FILL, act.SELECT_OPTION, act.CHECK, act.UNCHECK, act.GOTO})
"""Actions that may open a new page."""

Problem = tuple[str, str]
"""Reason and detail of a reject for an event."""

_CLICKS: Final = frozenset({act.CLICK, act.DBLCLICK})


class Acts:
    """The actions in one window, built from its events in order.

    Args:
        raw: whether observations are the HTML of the DOM instead of its compact tree.
    """

    def __init__(self, raw: bool = False) -> None:
        self.mirror = Mirror()
        self._raw = raw
        self._acts: list[Act] = []
        self._press: Press | None = None
        self._presses_told = False
        self._mutations = 0
        self._filling: DomNode | None = None
        self._burst: Press | None = None
        self._left: DomNode | None = None
        self._reached: tuple[DomNode, DomNode | None, int, float | None, bool] | None = None
        self._address: tuple[str, int, float | None] | None = None
        self._shown: tuple[int, Seen] | None = None
        self._page_time: float | None = None
        self._loaded = False
        self._scrolled: tuple[Any, float | None] | None = None
        self._window: tuple[int, int] | None = None
        self._host = ""
        self._session = ""
        self._problems: list[Problem] = []
        self._offset = 0
        self._time: float | None = None

    def take(self, event: Mapping[str, Any], offset: int) -> list[Problem]:
        """Process the next event; return the problems with it."""
        self._problems = []
        self._offset = offset
        time = event.get("timestamp")
        self._time = time if isinstance(time, int | float) and not isinstance(time, bool) and 0 < time < 1e14 else None
        if isinstance(event.get("sessionId"), str):
            self._session = self._session or event["sessionId"]
        data = event.get("data")
        kind = event["type"]
        try:
            if kind == FULL_SNAPSHOT:
                self._snapshot(data)
                self._loaded = False
            elif kind in (READY, LOADED):
                self._loaded = True
            elif not isinstance(data, dict):
                if kind in (INCREMENT, META):
                    self._problems.append(("bad_record", "wanted an object of data"))
            elif kind == META:
                self._meta(data)
            elif kind == INCREMENT:
                self._increment(data)
            elif kind == CUSTOM and data.get("tag") in _ADDRESS_TAGS and isinstance(data.get("payload"), dict):
                href = data["payload"].get("href")
                if isinstance(href, str):
                    self.mirror.visit(href)
            elif not 0 <= kind <= 7:
                self._problems.append(("unknown_event", f"no type of event: {kind}"))
        except MissingNodeError as error:
            self._problems.append(("missing_node", str(error)))
        return self._problems

    def trajectory(self, window: str) -> Trajectory | None:
        """Return all actions as a trajectory; None if there are none."""
        self._close_press()
        if not self._acts:
            return None
        last = self._seen().observation
        after = [later_act.observation for later_act in self._acts[1:]] + [last]
        moves = Moves()
        for person_act, next_one in zip(self._acts, after, strict=True):
            at = None if person_act.started is None or person_act.started < 1e11 else int(person_act.started * 1000)
            moves.add(action_of(person_act), person_act.observation, next_one, person_act.offset, at=at)
        size = f"window of {self._window[0]} by {self._window[1]} pixels" if self._window else None
        return Trajectory(
            native_id=window or self._session,
            domain="web",
            steps=moves.steps,
            environment=Environment(id=self._host or None),
            context=Context(initial_state=size),
        )

    def _seen(self) -> Seen:
        """Return the current screen."""
        if self._shown is None or self._shown[0] != self.mirror.changes:
            page: Page | None = None
            try:
                page = self.mirror.page()
            except ValueError as error:
                self._problems.append(("nested_too_deeply", str(error)))
            seen = Seen(None, None)
            if page is not None and self._raw:
                seen = Seen(html_observation(self.mirror.document, self.mirror.url or None), None)
            elif page is not None:
                seen = Seen(page.observation(self.mirror.url or None), page)
            self._shown = self.mirror.changes, seen
        return self._shown[1]

    def _seen_before(self, node: DomNode | None) -> Seen:
        """Return the current screen, without a focus that the node received only for the action that follows."""
        reached = self._reached
        if reached is None or reached[0] is not node or reached[2] != self._mutations:
            return self._seen()
        if not reached[4] and not self._is_within(reached[3], BURST_MS):
            return self._seen()
        before = reached[1]
        self.mirror.focus_on(before if before is not None and self.mirror.number(before) is not None else None)
        seen = self._seen()
        self.mirror.focus_on(node)
        return seen

    def _follows(self, limit: float, scrolls: bool = False) -> bool:
        """Check if the last action was at most `limit` milliseconds ago; without times, if there was one."""
        last = self._acts[-1] if self._acts else None
        if last is None or (not scrolls and last.kind in (act.SCROLL, act.RESIZE)):
            return False
        return self._is_within(last.time, limit)

    def _is_within(self, since: float | None, limit: float) -> bool:
        return since is None or self._time is None or self._time - since <= limit

    def _begin(
        self,
        kind: str,
        node: DomNode | None,
        data: Mapping[str, Any],
        press: Press | None = None,
        arguments: dict[str, Any] | None = None,
    ) -> Act:
        """Begin an action, with the page at its beginning: the current page, or the page at the press."""
        if press is None:
            self._close_press()
        original = {key: value for key, value in data.items() if key not in ("source", "type")}
        if press is None and node is not None and kind != act.SCROLL:
            self.mirror.aim_at(node)
        seen = press.seen if press else self._seen_before(node)
        self._left = self._reached = None
        if self._acts:
            self._acts[-1].page = None
        begun = Act(
            kind=kind,
            observation=seen.observation,
            page=seen.page,
            line=act.line_of(seen.page, node),
            node=node,
            offset=press.offset if press else self._offset,
            started=press.started if press else self._time,
            time=self._time,
            told=arguments or {},
            original=original,
        )
        self._acts.append(begun)
        self._filling = self._burst = None
        return begun

    def _close_press(self) -> None:
        """Turn a press into a click if it changed the page so that the browser reported no click."""
        press, self._press = self._press, None
        if press is None or press.used or press.is_touch or not press.up or press.node is None:
            return
        if press.mutations != self._mutations:
            self._begin(act.CLICK, press.node, press.original, press).time = press.started

    # Pages

    def _meta(self, data: dict[str, Any]) -> None:
        href = data.get("href")
        width, height = data.get("width"), data.get("height")
        if isinstance(width, int) and isinstance(height, int) and self._window is None:
            self._window = width, height
        self.mirror.resize(width, height)
        if isinstance(href, str):
            if not self.mirror.is_known:
                self.mirror.visit(href)
            self._address = href, self._offset, self._time
            self._host = self._host or host_of(href)

    def _snapshot(self, data: Any) -> None:
        root = data.get("node") if isinstance(data, dict) else None
        address, self._address = self._address, None
        is_same = address is not None and address[0] == self.mirror.url and not self._loaded and self.mirror.holds(root)
        is_new_page = isinstance(root, dict) and root.get("id") == 1 and not is_same
        if self.mirror.is_known and is_new_page and address is not None:
            href, offset, time = address
            press = self._press
            if press is not None and not press.used and press.up and not press.is_touch:
                self._mutations += 1  # The page was left before the click could be told.
            self._close_press()
            self._time, self._offset = time, offset
            if not (self._follows(PAGE_MS) and self._acts[-1].kind in _LEADS_ON):
                if href == self.mirror.url:
                    self._begin(act.RELOAD, None, {"href": href})
                else:
                    self._begin(act.GOTO, None, {"href": href}, arguments={"url": href})
            self._page_time = time
        if address is not None:
            self.mirror.visit(address[0])
        self._mutations += 1
        self._press = self._filling = None
        self.mirror.snapshot(data)

    # Events of a page

    def _increment(self, data: dict[str, Any]) -> None:
        if not self.mirror.is_known:
            self._problems.append(("no_snapshot", "a change of a page that no full snapshot has told"))
            return
        source = data.get("source")
        if source == _MUTATION:
            self._begin_burst()
            self._mutations += 1
            editor = self._edited(data)
            if editor is not None and (self._filling is not editor or self._acts[-1].node is not editor):
                self._begin(act.FILL, editor, {"id": self.mirror.number(editor)})
                self._filling = editor
            self.mirror.mutate(data)
            if editor is not None:
                self._acts[-1].told = {"text": collapse_space(text_of(editor))}
                self._acts[-1].time = self._time
        elif source in (_RESIZE, _DRAG, _MOVE, _SHEET, _DECLARATION, _ADOPTION):
            changes: dict[int, Callable[[dict[str, Any]], None]] = {
                _RESIZE: self._resize,
                _DRAG: self._drag,
                _MOVE: self._move,
                _SHEET: self.mirror.edit_sheet,
                _DECLARATION: self.mirror.declare,
                _ADOPTION: self.mirror.adopt,
            }
            changes[source](data)
        elif source in (_MOUSE, _SCROLL, _INPUT, _MEDIA):
            node = self.mirror.node(data.get("id"))
            if node is None:
                raise MissingNodeError(f"node {brief(data.get('id'))} is not there")
            handlers: dict[int, Callable[[DomNode, dict[str, Any]], None]] = {
                _MOUSE: self._mouse,
                _SCROLL: self._scroll,
                _INPUT: self._input,
                _MEDIA: self._media,
            }
            handlers[source](node, data)

    def _begin_burst(self) -> None:
        """Store the page before a first change outside the field that is being filled, whose text may disappear."""
        node, last = self._filling, self._acts[-1] if self._acts else None
        if node is None or last is None or self._is_within(last.time, BURST_MS):
            return
        if self._burst is None or not self._is_within(self._burst.started, BURST_MS):
            target = {"id": self.mirror.number(node)}
            self._burst = Press(node, self._seen(), self._offset, self._time, self._mutations, target, False)

    def _edited(self, data: Mapping[str, Any]) -> DomNode | None:
        """Return the focused `contenteditable` element if the mutation changes its text.

        A change of its text by a button outside of it is the effect of the click.
        """
        editor = self.mirror.focus
        if editor is None or editor.attributes.get("contenteditable", "false").lower() == "false":
            return None
        texts, adds = data.get("texts"), data.get("adds")
        idents = [change.get("id") for change in texts if isinstance(change, dict)] if isinstance(texts, list) else []
        idents += (
            [change.get("parentId") for change in adds if isinstance(change, dict)] if isinstance(adds, list) else []
        )
        if not any(self.mirror.is_within(ident, editor) for ident in idents):
            return None
        last = self._acts[-1] if self._acts else None
        is_effect = last is not None and last.kind in _CLICKS and self._follows(EFFECT_MS)
        if is_effect and last is not None and not self.mirror.is_within(self.mirror.number(last.node), editor):
            return None
        return editor

    def _move(self, data: Mapping[str, Any]) -> None:
        """Move the pointer to the last of several positions."""
        positions = data.get("positions")
        last = positions[-1] if isinstance(positions, list) and positions else None
        if isinstance(last, dict) and (node := self.mirror.node(last.get("id"))) is not None:
            self.mirror.hover_over(node)

    def _point_at(self, node: DomNode, data: Mapping[str, Any]) -> None:
        """Move the pointer to the node if a mouse or pen acts on it; a finger has no pointer."""
        if data.get("type") in (_UP, _DOWN, _CLICK, _CONTEXT, _DOUBLE) and data.get("pointerType") != _BY_TOUCH:
            self.mirror.hover_over(node)

    def _media(self, node: DomNode, data: dict[str, Any]) -> None:
        if data.get("type") in (0, 1):
            self.mirror.play(node, data["type"] == 0)

    def _mouse(self, node: DomNode, data: dict[str, Any]) -> None:
        kind = data.get("type")
        press = self._press
        self._point_at(node, data)
        if kind in (_DOWN, _TOUCH):
            self._presses_told = self._presses_told or kind == _DOWN
            # After a touch the browser also sends mouse events, which belong to the same press.
            if not (press is not None and press.is_touch and kind == _DOWN):
                self._close_press()
                self.mirror.aim_at(node)
                seen = self._seen()
                original = {key: value for key, value in data.items() if key not in ("source", "type")}
                is_touch = kind == _TOUCH
                self._press = Press(node, seen, self._offset, self._time, self._mutations, original, is_touch)
        elif kind in (_UP, _TOUCH_END):
            if press is not None:
                press.up = True
        elif kind == _CLICK:
            self._click(node, data)
        elif kind == _DOUBLE:
            self._double(node, data)
        elif kind == _CONTEXT:
            self._begin(act.RIGHT_CLICK, node, data, press)
            self._press = None
        elif kind == _FOCUS:
            alone, before = not self._follows(EFFECT_MS), self.mirror.focus or self._left
            self._reached = (node, before, self._mutations, self._time, alone) if press is None else None
            self.mirror.focus_on(node)
        elif kind == _BLUR:
            self._filling = None
            if self.mirror.focus is node:
                self._left = node
                self.mirror.focus_on(None)
        elif kind in (_TOUCH_MOVE, _TOUCH_CANCEL):
            self._press = None

    def _click(self, node: DomNode, data: dict[str, Any]) -> None:
        press, self._press = self._press, None
        if press is not None and press.used:
            return
        last = self._acts[-1] if self._acts else None
        is_echo = last is not None and last.kind == act.CLICK and self._presses_told and self._follows(EFFECT_MS)
        if press is None and is_echo:
            return
        self._begin(act.CLICK, node, data, press)

    def _double(self, node: DomNode, data: dict[str, Any]) -> None:
        clicks = [
            click for click in self._acts[-2:] if click.kind == act.CLICK and self._is_within(click.time, 2 * EFFECT_MS)
        ]
        self._press = None
        if not clicks or self._acts[-1] is not clicks[-1]:
            self._begin(act.DBLCLICK, node, data)
            return
        if len(clicks) == 2:
            self._acts.pop()
        clicks[0].kind, clicks[0].time = act.DBLCLICK, self._time

    def _drag(self, data: dict[str, Any]) -> None:
        self._move(data)
        positions = data.get("positions")
        last = positions[-1] if isinstance(positions, list) and positions else None
        if not isinstance(last, dict):
            return
        press = self._press
        if press is not None and not press.used and press.node is not None:
            press.used = True
            self._begin(act.DRAG, press.node, press.original, press)
        if not self._acts or self._acts[-1].kind != act.DRAG or press is None:
            return
        dragging = self._acts[-1]
        dragging.time = self._time
        dragging.original["to"] = {key: last.get(key) for key in ("x", "y", "id")}
        onto = act.line_of(dragging.page, self.mirror.node(last.get("id")))
        dragging.told = {"onto": act.element_id(onto)} if onto is not None else {"to": point_of(last)}

    def _scroll(self, node: DomNode, data: dict[str, Any]) -> None:
        x, y = data.get("x"), data.get("y")
        if not isinstance(x, int | float) or not isinstance(y, int | float) or not abs(x) + abs(y) < 1e9:
            raise MissingNodeError("wanted x and y of a scroll")
        arguments = {"x": act.whole(x), "y": act.whole(y)}
        scrolled, self._scrolled = self._scrolled, (node, self._time)
        last = self._acts[-1] if self._acts else None
        if scrolled is not None and scrolled[0] is node and self._is_within(scrolled[1], REST_MS):
            if last is not None and last.kind == act.SCROLL and last.node is node:
                last.told, last.time = arguments, self._time
                last.original.update(x=x, y=y)
                return
            if last is None or last.time is None or scrolled[1] is None or last.time <= scrolled[1]:
                return
        is_page = self._page_time is not None and self._is_within(self._page_time, EFFECT_MS)
        if self._time is not None and (self._follows(EFFECT_MS) or is_page):
            return
        page = self._seen().page
        if page is not None and node.tag not in _PAGES and node not in page.ids:
            return
        if self._press is not None and self._press.is_touch:
            self._press = None
        self._begin(act.SCROLL, node, data, arguments=arguments)

    def _resize(self, data: dict[str, Any]) -> None:
        width, height = data.get("width"), data.get("height")
        if not isinstance(width, int) or not isinstance(height, int):
            self._problems.append(("bad_record", "wanted width and height of a window"))
            return
        last = self._acts[-1] if self._acts else None
        if last is not None and last.kind == act.RESIZE and self._is_within(last.time, REST_MS):
            last.told, last.time = {"width": width, "height": height}, self._time
            last.original.update(width=width, height=height)
        elif self._time is None or not self._follows(EFFECT_MS):
            self._begin(act.RESIZE, None, data, arguments={"width": width, "height": height})
        self.mirror.resize(width, height)

    # Fields

    def _input(self, node: DomNode, data: dict[str, Any]) -> None:
        text, checked = data.get("text"), data.get("isChecked") is True
        text = text if isinstance(text, str) else ""
        by_script = data.get("userTriggered") is False
        kind = node.attributes.get("type", "").lower() if node.tag == "input" else node.tag
        if not by_script and not self._is_effect(node, text):
            if kind in ("checkbox", "radio"):
                if data.get("userTriggered") is True or self.mirror.focus is node:
                    self._check(node, data, checked)
            elif kind == "select":
                self._select(node, data, text)
            elif data.get("userTriggered") is True or self.mirror.focus in (None, node):
                self._fill(node, data, text, kind)
        self.mirror.fill(node, text, checked)

    def _is_effect(self, node: DomNode, text: str) -> bool:
        """Check if the previous action on another element changed this field."""
        last = self._acts[-1] if self._acts else None
        is_pressed = self._press is not None and not self._press.used
        if last is None or self._time is None or last.node is node or is_pressed:
            return False
        if text and self._reached is not None and self._reached[0] is node:
            return False
        return self._follows(BURST_MS) or (not text and last.kind in _CLICKS and self._follows(EFFECT_MS))

    def _check(self, node: DomNode, data: dict[str, Any], checked: bool) -> None:
        if self._press is not None or (self._follows(EFFECT_MS) and self._acts[-1].kind in _CLICKS):
            return
        last = self._acts[-1] if self._acts else None
        is_echo = last is not None and last.kind in (act.CHECK, act.UNCHECK) and self._follows(EFFECT_MS)
        if not is_echo:
            self._begin(act.CHECK if checked else act.UNCHECK, node, data)

    def _select(self, node: DomNode, data: dict[str, Any], text: str) -> None:
        shown = [collapse_space(text_of(option)) for option in options_of(node) if option_value(option) == text]
        arguments = {"options": [shown[0] if shown and shown[0] else text]}
        last = self._acts[-1] if self._acts else None
        if last is not None and last.node is node and last.kind in (act.CLICK, act.SELECT_OPTION):
            last.kind, last.told, last.time = act.SELECT_OPTION, arguments, self._time
            last.original.update(text=text)
            return
        press = self._press if self._press is not None and self._press.node is node and not self._press.used else None
        if press is not None:
            press.used = True
        self._begin(act.SELECT_OPTION, node, data, press, arguments)

    def _fill(self, node: DomNode, data: dict[str, Any], text: str, kind: str) -> None:
        arguments = {"files": [text.rpartition("\\")[2]]} if kind == "file" else {"text": text}
        last = self._acts[-1] if self._acts else None
        is_new = last is None or self._filling is not node or last.node is not node
        before = "" if last is None or is_new else last.told.get("text", "")
        is_emptied = not text and kind in _TEXTS and len(before) > 1
        if last is None or is_new or is_emptied:
            press = self._press if self._press is not None and self._press.node is node else None
            if is_emptied and self._burst is not None and self._is_within(self._burst.started, BURST_MS):
                last = self._begin(act.FILL, node, data, self._burst)
            elif press is not None and not press.used:
                press.used = True
                last = self._begin(act.FILL, node, data, press)
            else:
                last = self._begin(act.UPLOAD if kind == "file" else act.FILL, node, data)
            self._filling = None if is_emptied else node
        last.told, last.time = arguments, self._time
        last.original.update(text=text)
