"""Fresh logs of Android devices: uiautomator dumps with an event log, AppAgent task folders, DroidBot output folders.

Shapes after real ones, content made up; an action does touch a view of the screen before it, but screens do not follow
from actions. Each generator yields the files of one folder, up to about `size` bytes, by whole screens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from benchmarks.logs.text import Text
from samples.writing.android import FLAGS, asked, hierarchy, node
from samples.writing.json_text import lines

WIDTH: Final = 1080
_ROW_CLASSES: Final = ("TextView", "TextView", "TextView", "Button", "ImageView", "CheckBox", "Switch", "EditText")
_APPS: Final = ("notes", "mail", "maps", "clock", "music", "photos", "shop", "bank", "news", "weather")
_BEGIN: Final = datetime(2026, 3, 2, 8, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class View:
    """A view on a screen: what dumps and states write of it."""

    depth: int
    kind: str
    identifier: str
    text: str
    description: str
    box: tuple[int, int, int, int]
    clickable: bool
    scrollable: bool = False


def views(text: Text, package: str, count: int) -> list[View]:
    """The views of one screen in document order: frames, a title bar, and rows of a list, about `count` in all."""
    height = 2220 + 60 * text.below(4)
    whole = (0, 0, WIDTH, height)
    screen = [
        View(0, "widget.FrameLayout", "", "", "", whole, False),
        View(1, "widget.LinearLayout", f"{package}:id/{text.name()}_root", "", "", whole, False),
        View(2, "view.ViewGroup", f"{package}:id/toolbar", "", "", (0, 84, WIDTH, 231), False),
        View(3, "widget.TextView", f"{package}:id/title", text.phrase(1, 4).title(), "", (168, 110, 800, 205), False),
        View(3, "widget.ImageButton", "", "", "More options", (933, 90, 1068, 225), True),
        View(
            2,
            "recyclerview.RecyclerView",
            f"{package}:id/{text.name()}_list",
            "",
            "",
            (0, 231, *whole[2:]),
            False,
            True,
        ),
    ]
    top = 231
    while len(screen) < count and top < height - 120:
        bottom = top + 50 + text.below(70)
        screen.append(View(3, "widget.LinearLayout", f"{package}:id/row", "", "", (0, top, WIDTH, bottom), True))
        parts = 2 + text.below(4)
        for part in range(parts):
            left, right = part * WIDTH // parts, (part + 1) * WIDTH // parts
            kind = text.pick(_ROW_CLASSES)
            label = text.phrase(1, 9) if kind != "ImageView" else ""
            described = text.phrase(1, 4) if kind == "ImageView" else ""
            box = (left + 8, top + 8, right - 8, bottom - 8)
            name = f"{package}:id/{text.name()}_{text.name()}"
            screen.append(View(4, f"widget.{kind}", name, label, described, box, kind not in ("TextView", "ImageView")))
        top = bottom
    return screen


def dump(text: Text, package: str, screen: list[View]) -> str:
    """The screen as `uiautomator dump` writes it, on one line with full attributes."""
    parts: list[str] = []
    index = [0] * 8
    for view, below in zip(screen, [*(view.depth for view in screen[1:]), 0], strict=True):
        click, check = view.clickable, view.kind in ("widget.CheckBox", "widget.Switch")
        states = (check, check and bool(text.below(2)), click, True, click, False, view.scrollable, click)
        label, described = _escape(view.text), _escape(view.description)
        flags = dict(zip(FLAGS, states, strict=True))
        kind = f"android.{view.kind}"
        parts.append(node(index[view.depth], label, view.identifier, kind, package, described, flags, view.box))
        index[view.depth] += 1
        index[view.depth + 1] = 0
        parts.append(">" if below > view.depth else " />")
        parts.extend("</node>" for _ in range(view.depth - below))
    return hierarchy("".join(parts))


def _escape(label: str) -> str:
    """Words hold nothing that XML escapes; a few are joined by what it does."""
    return label.replace(" a", " &amp; ", 1).replace(" so", "&#10;", 1)


def _package(text: Text) -> str:
    """An app of its own, whose screens are all in one script."""
    text.change_script()
    return f"com.{text.name()}.{text.pick(_APPS)}"


def _middle(view: View) -> tuple[int, int]:
    left, top, right, bottom = view.box
    return (left + right) // 2, (top + bottom) // 2


def _draw_size(text: Text, least: int, most: int, per_view: int) -> int:
    return (least + text.below(most - least)) // per_view


def uiautomator(text: Text, size: int) -> Iterator[tuple[str, bytes]]:
    """A folder of 8 to 15 dumps of 15 to 35 KB, fewer if `size` is reached, and `events.jsonl`, which joins them."""
    package, events, clock, written = _package(text), [], 0.0, 0
    screen: list[View] = []
    for number in range(1, 9 + text.below(8)):
        if screen:
            clock += 1 + text.random.random() * 9
            event = {"time": round(clock, 3), **_event(text, screen)}
            event |= {"before": f"window_dump_{number - 1}.xml", "after": f"window_dump_{number}.xml"}
            events.append(orjson.dumps(event))
        screen = views(text, package, _draw_size(text, 15_000, 35_000, 425))
        data = dump(text, package, screen).encode()
        written += len(data)
        yield f"window_dump_{number}.xml", data
        if written >= size and number > 1:
            break
    yield "events.jsonl", b"\n".join(events) + b"\n"


def _event(text: Text, screen: list[View]) -> dict[str, object]:
    """Draw an action on the screen."""
    kind = text.pick(("tap", "tap", "tap", "swipe", "text", "key"))
    if kind == "key":
        return {"action": "key", "key": text.pick(("back", "home", "enter"))}
    if kind == "swipe":
        return {"action": "swipe", "x": 540, "y": 1500, "x2": 540, "y2": 400 + text.below(600)}
    x, y = _middle(text.pick([view for view in screen if view.clickable]))
    return {"action": kind, "x": x, "y": y} | ({"text": text.phrase(1, 5)} if kind == "text" else {})


_PROMPT: Final = """You operate a smartphone. You see a screenshot on which each element that can be used has a number.

You may call one of these functions:

tap(element: int) touches the element with that number, as in tap(4).
text(text_input: str) types into the field that has the keyboard, as in text("good morning").
long_press(element: int) keeps a finger on the element with that number, as in long_press(4).
swipe(element: int, direction: str, dist: str) moves a finger over the element; direction is one of up, down, left and \
right, dist one of short, medium and long, as in swipe(9, "up", "long").

The task you need to complete is to {task}. Your past actions to proceed with this task are summarized as \
follows: {past}
Now, given the documentation and the following labeled screenshot, say what you see, what you think, what you do and \
what you have done so far, in this form:

Observation: <what the screenshot shows>
Thought: <what should be done next for the task>
Action: <one call of a function, or FINISH if the task is done>
Summary: <all that was done, this action included, without the numbers of elements>
"""


def appagent(text: Text, size: int) -> Iterator[tuple[str, bytes]]:
    """A task folder: numbered dumps, and a log with a line for each but the last."""
    package, steps, written = _package(text), list[dict[str, Any]](), 0
    begun = _BEGIN + timedelta(seconds=text.below(20_000_000))
    name = f"task_{text.pick(_APPS)}_{begun:%Y-%m-%d_%H-%M-%S}"
    task, past = text.phrase(5, 12), "None"
    last = 5 + text.below(8)
    for number in range(1, last + 1):
        screen = views(text, package, _draw_size(text, 12_000, 35_000, 425))
        data = dump(text, package, screen).encode()
        written += len(data)
        yield f"{name}_{number}.xml", data
        done = number == last or written >= size
        tagged = sum(view.clickable for view in screen)
        call = "FINISH" if done else _call(text, tagged)
        summary = text.phrase(8, 30).capitalize() + "."
        response = f" Observation: {text.block(200)}\nThought: {text.block(150)}\nAction: {call}\nSummary: {summary}"
        prompt = _PROMPT.format(task=task, past=past)
        steps.append(asked(name, number, prompt, response))
        past = summary
        if done:
            break
    yield f"log_{text.pick(_APPS)}_{name}.txt", lines(steps)


def _call(text: Text, tagged: int) -> str:
    number, shape = 1 + text.below(min(tagged, 9)), text.below(8)
    if shape == 0:
        return f'text("{text.phrase(1, 5)}")'
    if shape == 1:
        return f"long_press({number})"
    if shape == 2:
        return f'swipe({number}, "{text.pick(("up", "down", "left"))}", "{text.pick(("short", "medium", "long"))}")'
    return f"tap({number})"


class Numbered:
    """The views of a screen as DroidBot numbers them, with their parents and children."""

    def __init__(self, text: Text, package: str, screen: list[View]) -> None:
        self._package = package
        self.screen = screen
        self.parents: list[int] = []
        self.children: list[list[int]] = [[] for _ in screen]
        self.hashes = [text.hex(32) for _ in screen]
        open_views: list[int] = []
        for number, view in enumerate(screen):
            del open_views[view.depth :]
            self.parents.append(open_views[-1] if open_views else -1)
            if open_views:
                self.children[open_views[-1]].append(number)
            open_views.append(number)

    def told(self, number: int) -> dict[str, Any]:
        """One view as DroidBot saves it."""
        view = self.screen[number]
        left, top, right, bottom = view.box
        plain = f"[class]android.{view.kind}[resource_id]{view.identifier or None}"
        return {
            "content_description": view.description or None,
            "resource_id": view.identifier or None,
            "text": view.text or None,
            "visible": True,
            "checkable": False,
            "children": self.children[number],
            "size": f"{right - left}*{bottom - top}",
            "checked": False,
            "temp_id": number,
            "selected": False,
            "child_count": len(self.children[number]),
            "content_free_signature": plain,
            "is_password": False,
            "parent": self.parents[number],
            "focusable": view.clickable,
            "editable": view.kind.endswith("EditText"),
            "focused": False,
            "clickable": view.clickable,
            "class": f"android.{view.kind}",
            "scrollable": view.scrollable,
            "package": self._package,
            "long_clickable": view.clickable,
            "view_str": self.hashes[number],
            "enabled": True,
            "bounds": [[left, top], [right, bottom]],
            "signature": f"{plain}[text]{view.text or 'null'}",
        }


def _indent(value: Any) -> bytes:
    """JSON as Python 2 indents it, which DroidBot was written for: with a blank before each line end."""
    return json.dumps(value, indent=2, separators=(", ", ": ")).encode()


def droidbot(text: Text, size: int) -> Iterator[tuple[str, bytes]]:
    """An output folder: 6 to 18 states of 40 to 100 KB, an event between each two, and the graph."""
    package, written = _package(text), 0
    now = _BEGIN + timedelta(seconds=text.below(20_000_000))
    activity = f".ui.{text.name().capitalize()}Activity"
    nodes, edges = [], []
    before: Numbered | None = None
    start = ""
    for number in range(6 + text.below(13)):
        stop, tag = text.hex(32), f"{now:%Y-%m-%d_%H%M%S}"
        if before is not None:
            yield f"events/event_{tag}.json", _droidbot_event(text, before, tag, start, stop)
            edges.append({"from": start, "to": stop, "id": f"{start}-->{stop}", "label": str(number)})
            now += timedelta(seconds=1 + text.below(4))
            tag = f"{now:%Y-%m-%d_%H%M%S}"
        before = Numbered(text, package, views(text, package, _draw_size(text, 40_000, 100_000, 1180)))
        state = {
            "views": [before.told(view_number) for view_number in range(len(before.screen))],
            "activity_stack": [f"{package}/{activity}"],
            "background_services": [],
            "state_str": stop,
            "tag": tag,
            "foreground_activity": f"{package}/{activity}",
        }
        data = _indent(state)
        written += len(data)
        yield f"states/state_{tag}.json", data
        nodes.append({"id": stop, "state_str": stop, "package": package, "activity": activity, "label": activity})
        start, now = stop, now + timedelta(seconds=2 + text.below(5))
        if written >= size and number:
            break
    graph = {"app_package": package, "device_sdk_version": 34, "num_nodes": len(nodes), "edges": edges, "nodes": nodes}
    yield "utg.js", b"var utg = \n" + orjson.dumps(graph, option=orjson.OPT_INDENT_2)


def _droidbot_event(text: Text, before: Numbered, tag: str, start: str, stop: str) -> bytes:
    places = [number for number, view in enumerate(before.screen) if view.clickable]
    number = text.pick(places)
    kind = text.pick(("touch", "touch", "touch", "long_touch", "scroll", "set_text", "key"))
    if kind == "key":
        event: dict[str, Any] = {"event_type": "key", "name": "BACK"}
        description = f"KeyEvent(state={start}, name=BACK)"
    else:
        more = {"scroll": {"direction": "DOWN"}, "set_text": {"text": text.phrase(1, 4)}}
        event = {"y": None, "x": None, "event_type": kind, **more.get(kind, {}), "view": before.told(number)}
        description = f"{kind.title().replace('_', '')}Event(view={before.hashes[number]})"
    return _indent({"stop_state": stop, "event_str": description, "tag": tag, "event": event, "start_state": start})
