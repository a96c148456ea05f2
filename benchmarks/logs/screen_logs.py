"""Logs of screens of the sizes that real ones have, for formats of which no real logs of a size are at hand.

The content is made up, and an action need not lead to the screen that follows. Screens of one log share most of their
elements, as those of real sessions do. `LOGS` has a generator a format, each for one input: member to bytes.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from benchmarks.logs.android import View, uiautomator, views
from benchmarks.logs.gui_logs import agentnet, aitz, android_world, ufo
from benchmarks.logs.text import Text

BYTES: Final = 1_500_000
"""About how long a log is."""

_ROWS: Final = 150
"""Rows of a web page of some 1,300 nodes."""
_STEPS: Final = 40


def _page(text: Text) -> list[Any]:
    """A page as nested `[tag, attributes, *children]`: a bar, a form, and rows of links, words and buttons."""
    bar = [["A", {"href": f"/{text.name()}", "class": "nav-link"}, text.phrase(1, 2)] for _ in range(12)]
    form = [["INPUT", {"name": text.name(), "type": "text", "class": "field"}] for _ in range(6)]
    rows = [
        [
            *["LI", {"class": f"row row-{number} css-{text.hex(6)}"}],
            ["A", {"href": f"/{text.name()}/{number}", "class": "title"}, text.phrase(3, 8)],
            ["SPAN", {"class": "meta muted", "data-n": str(number)}, text.phrase(2, 5)],
            ["DIV", {"class": "actions", "style": "display: flex"}, ["BUTTON", {"class": "btn"}, text.phrase(1, 2)]],
        ]
        for number in range(_ROWS)
    ]
    body = ["BODY", {}, ["NAV", {}, *bar], ["FORM", {}, *form], ["UL", {"class": "list"}, *rows]]
    return ["HTML", {"lang": "en"}, ["HEAD", {}, ["TITLE", {}, text.phrase(2, 5)]], body]


def rrweb(text: Text, limit: int) -> Mapping[str, bytes]:
    """A recording of `_STEPS` clicks on buttons, each of which changes a text and adds a row."""
    count = 0

    def numbered(source: Any) -> dict[str, Any]:
        nonlocal count
        count += 1
        ident = count
        if isinstance(source, str):
            return {"type": 3, "textContent": source, "id": ident}
        inside = [numbered(child) for child in source[2:]]
        return {"type": 2, "tagName": source[0].lower(), "attributes": source[1], "childNodes": inside, "id": ident}

    def event(kind: int, data: dict[str, Any]) -> None:
        events.append({"type": kind, "data": data, "timestamp": 1_750_000_000_000 + 400 * len(events)})

    events: list[dict[str, Any]] = []
    while True:
        count = 1
        page = numbered(_page(text))
        rows = page["childNodes"][1]["childNodes"][2]
        event(4, {"href": f"https://shop.example/{len(events)}", "width": 1280, "height": 720})
        event(2, {"node": {"type": 0, "childNodes": [page], "id": 1}, "initialOffset": {"left": 0, "top": 0}})
        for _ in range(_STEPS):
            row = text.pick(rows["childNodes"][:_ROWS])
            button, words = row["childNodes"][2]["childNodes"][0], row["childNodes"][1]["childNodes"][0]
            for kind in (1, 0, 2):
                event(3, {"source": 2, "type": kind, "id": button["id"], "x": 40, "y": 40})
            added = numbered(["LI", {"class": "row"}, ["A", {"href": "/new"}, text.phrase(3, 8)]])
            event(
                3,
                {
                    "source": 0,
                    "texts": [{"id": words["id"], "value": text.phrase(2, 5)}],
                    "attributes": [{"id": row["id"], "attributes": {"class": f"row seen-{count}"}}],
                    "removes": [],
                    "adds": [{"parentId": rows["id"], "nextId": None, "node": added}],
                },
            )
        data = json.dumps(events).encode()
        if len(data) >= limit:
            return {"": data}


def playwright_trace(text: Text, limit: int) -> Mapping[str, bytes]:
    """A trace of clicks with three snapshots each, of which most nodes stand in an earlier one."""
    lines: list[dict[str, Any]] = [
        {"version": 8, "type": "context-options", "browserName": "chromium", "options": {}, "title": "shop"}
    ]
    written = call = 0
    index = first = 0
    while written < limit:
        call += 1
        for phase in ("before", "action", "after"):
            if call % 20 == 1 and phase == "before":
                html, first = _page(text), index
            else:
                # The list of the first page, with the body made anew around it.
                size = _places(html)
                status = ["P", {"class": "status"}, text.phrase(4, 12)]
                refer = [[index - first, size["HEAD"]]], [[index - first, size["UL"]]]
                html_now = ["HTML", {"lang": "en"}, refer[0], ["BODY", {}, status, refer[1]]]
            shown = html if index == first else html_now
            snapshot: dict[str, Any] = {
                "callId": f"c{call}",
                "pageId": "page@1",
                "frameId": "frame@1",
                "html": shown,
                "phase": phase,
            }
            snapshot |= {"frameUrl": "https://shop.example/", "isMainFrame": True, "snapshotName": f"{phase}@c{call}"}
            line = {"type": "frame-snapshot", "snapshot": snapshot}
            if phase == "before":
                params = {"selector": f"text={text.phrase(1, 2)}"}
                begun = {"type": "before", "callId": f"c{call}", "startTime": 1000.0 * call, "class": "Frame"}
                lines.append(begun | {"method": "click", "params": params, "beforeSnapshot": f"before@c{call}"})
            elif phase == "after":
                ended = {"type": "after", "callId": f"c{call}", "endTime": 1000.0 * call + 200}
                lines.append(ended | {"afterSnapshot": f"after@c{call}"})
            lines.append(line)
            written += len(json.dumps(line))
            index += 1
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        member = zipfile.ZipInfo("trace.trace", (2026, 3, 2, 8, 0, 0))
        archive.writestr(member, "\n".join(json.dumps(line) for line in lines), zipfile.ZIP_DEFLATED)
    return {"": buffer.getvalue()}


def _places(html: list[Any]) -> dict[str, int]:
    """The number of the last element of each tag in a snapshot, in post-order, as references count them."""
    sizes: dict[str, int] = {}
    count = 0

    def visit(source: Any) -> None:
        nonlocal count
        if not isinstance(source, str):
            for child in source[2:]:
                visit(child)
            sizes[source[0]] = count
        count += 1

    visit(html)
    return sizes


def miniwob(text: Text, limit: int) -> Mapping[str, bytes]:
    """A demonstration on a page of 60 elements, whose DOM is told at each of its states."""
    states: list[dict[str, Any]] = []
    color = {"bgColor": [0, 0, 0, 0], "fgColor": [0, 0, 0, 1]}

    def element(ref: int, tag: str, label: str, top: int, children: Sequence[Any] = ()) -> dict[str, Any]:
        box = {"tag": tag, "left": 2, "top": top, "width": 150, "height": 20, "children": list(children)}
        named = {"id": f"e{ref}", "classes": "", **color, "ref": ref}
        return box | named | ({"text": label} if label else {})

    tags = ("SPAN", "BUTTON", "INPUT_text", "A", "LABEL", "T")
    labels = [text.phrase(1, 4) for _ in range(60)]
    size = 0
    while size < limit:
        labels[text.below(60)] = text.phrase(1, 4)
        rows = [element(number + 3, tags[number % 5], word, number * 20) for number, word in enumerate(labels)]
        dom = element(1, "BODY", "", 0, [element(2, "DIV", "", 0, rows)])
        kind = ("mousedown", "mouseup", "click")[len(states) % 3]
        action = {"type": kind, "timing": 1, "x": 20, "y": 25 + 20 * (len(states) // 3 % 50)} if states else None
        states.append({"time": 40 * len(states), "action": action, "dom": dom})
        size += len(json.dumps(dom))
    return {"": json.dumps({"taskName": "click-many", "utterance": "Click them.", "states": states}).encode()}


def rico(text: Text, limit: int) -> Mapping[str, bytes]:
    """A trace of taps with a hierarchy of some 60 views before each."""
    members: dict[str, bytes] = {}
    gestures: dict[str, Any] = {}
    number = size = 0
    while size < limit:
        number += 1
        screen = views(text, "org.example.news", 60)
        data = json.dumps(
            {
                "activity_name": "org.example.news/org.example.news.Main",
                "activity": {"root": _nest(screen), "added_fragments": [], "active_fragments": []},
                "is_keyboard_deployed": False,
                "request_id": str(number),
            }
        ).encode()
        size += len(data)
        members[f"view_hierarchies/{number}.json"] = data
        gestures[str(number)] = [[0.5, 0.1 + 0.8 * text.random.random()]]
    members["gestures.json"] = json.dumps(gestures).encode()
    return members


def _nest(screen: Sequence[View]) -> dict[str, Any]:
    """The root of the views as Rico writes it, with all its attributes."""
    above: list[dict[str, Any]] = []
    for number, view in enumerate(screen):
        attributes = {
            "scrollable-horizontal": False,
            "draw": True,
            "ancestors": ["android.view.View", "java.lang.Object"],
            "clickable": view.clickable,
            "pressed": "not_pressed",
            "focusable": view.clickable,
            "long-clickable": False,
            "enabled": True,
            "bounds": list(view.box),
            "visibility": "visible",
            "content-desc": [view.description or None],
            "rel-bounds": [0, 0, view.box[2] - view.box[0], view.box[3] - view.box[1]],
            "focused": False,
            "selected": False,
            "scrollable-vertical": view.scrollable,
            "adapter-view": False,
            "abs-pos": True,
            "pointer": f"{0xA000000 + 64 * number:x}",
            "class": f"android.{view.kind}",
            "visible-to-user": True,
            **({"resource-id": view.identifier} if view.identifier else {}),
            **({"text": view.text} if view.text else {}),
        }
        del above[view.depth :]
        if above:
            above[-1].setdefault("children", []).append(attributes)
        above.append(attributes)
    return above[0]


def osworld(text: Text, limit: int) -> Mapping[str, bytes]:
    """A run folder: a tree of 250 elements a step, of which some change."""
    spaces = " ".join(f'xmlns:{name}="https://accessibility.ubuntu.example.org/ns/{long}"' for name, long in _SPACES)
    lines: list[str] = []
    members: dict[str, bytes] = {}
    words = [text.phrase(1, 4) for _ in range(250)]
    size = step = 0
    while size < limit:
        for _ in range(20):
            words[text.below(250)] = text.phrase(1, 4)
        elements = "".join(
            f'<{_KINDS[number % 4]} name="{label}" st:enabled="true" st:sensitive="true" st:showing="true" '
            f'st:visible="true" cp:screencoord="({10 + 300 * (number % 4)}, {30 + 8 * number // 4})" '
            f'cp:size="(280, 20)">{label}</{_KINDS[number % 4]}>'
            for number, label in enumerate(words)
        )
        tree = f'<desktop-frame {spaces}><application name="a"><frame name="b" st:showing="true" st:visible="true" '
        tree += f'cp:screencoord="(0, 0)" cp:size="(1280, 720)">{elements}</frame></application></desktop-frame>'
        stamp = f"20250310@{100000 + step:06}"
        members[f"step_{step}_{stamp}.xml" if step else "step_0.xml"] = tree.encode()
        size += len(tree)
        if step:
            fields = {"step_num": step, "action_timestamp": stamp, "action": f"pyautogui.click({100 + step}, 85)"}
            fields |= {"response": text.phrase(5, 20), "reward": 0, "done": False, "info": {}}
            lines.append(json.dumps(fields | {"screenshot_file": f"step_{step}_{stamp}.png"}))
        step += 1
    return {**members, "traj.jsonl": "\n".join(lines).encode()}


_SPACES: Final = (("st", "state"), ("attr", "attributes"), ("cp", "component"), ("val", "value"), ("act", "action"))
_KINDS: Final = ("label", "push-button", "entry", "menu-item")


def android_control_jsonl(text: Text, limit: int) -> Mapping[str, bytes]:
    """Episodes of eight steps, a line each."""
    lines: list[bytes] = []
    size = 0
    while size < limit:
        steps = [
            {
                "action_content": {"action": "click", "coordinate": [540.0, 100.0 + number], "bbox": [0, 90, 900, 130]},
                "screenshot": f"/images/{len(lines)}_{number}.png",
                "step_instruction": text.phrase(4, 10),
            }
            for number in range(8)
        ]
        lines.append(json.dumps({"goal": text.phrase(6, 20), "is_successful": True, "steps": steps}).encode())
        size += len(lines[-1])
    return {"": b"\n".join(lines)}


def _dumps(text: Text, limit: int) -> Mapping[str, bytes]:
    return dict(uiautomator(text, limit))


LOGS: Final[dict[str, Callable[[Text, int], Mapping[str, bytes]]]] = {
    "agentnet": agentnet,
    "aitz": aitz,
    "android_control_jsonl": android_control_jsonl,
    "android_world": android_world,
    "miniwob": miniwob,
    "osworld": osworld,
    "playwright_trace": playwright_trace,
    "rico": rico,
    "rrweb": rrweb,
    "ufo": ufo,
    "uiautomator": _dumps,
}


def log(name: str, limit: int = BYTES) -> bytes | Mapping[str, bytes]:
    """One generated log of a format of `LOGS`, of about `limit` bytes: its bytes, or its members by name."""
    members = LOGS[name](Text(7, name), limit)
    return members.get("", members)
