"""Draws docs/pictures: of each screen domain one transition, its two screens beside the text that is made of them.

    python -m samples.makers.draw_pictures web
    python3 -m samples.makers.record_os --only louder --out out/pictures --screenshots
    python -m samples.makers.draw_pictures os --recording out/pictures/pyautogui/a11y_tree/scripted-a/settings/louder
    python -m samples.makers.draw_pictures android

The screens of web and desktop are photographs, taken of the real programs while the transition was recorded. Behind the
Android samples stands no phone: their screens are drawn here from boxes, classes and texts of the dumps, plainly and
without any look that the dumps do not hold. The text is what the connectors yield, not a word of it written here. It
needs Chromium, Playwright and DejaVu's fonts, as `record_web` does.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import html
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lxml import etree
from playwright.sync_api import Browser

from samples.makers.record_web import SETTLE_S, act, browsing, slimmed
from samples.makers.web_pages import Handler, Site
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector
from trajmill.schemas import Step, Trajectory

HERE: Final = Path(__file__).parent
DUMPS: Final = HERE.parent / "android" / "appagent" / "task_deskclock_2024-05-19_16-01-00"
WEB_STEP: Final = "click button: Delete Return the ladder"
WEB_SIZE: Final = (500, 720)
STYLE: Final = """
body { margin: 16px; font: 14px 'DejaVu Sans' } td { vertical-align: top; padding: 4px 12px }
pre { font: 12px/1.25 'DejaVu Sans Mono'; margin: 0; background: #f6f6f6; padding: 8px } h3 { margin: 8px 0 }
.screen { border: 1px solid #888; overflow: hidden; position: relative; background: #fff }
.phone div { position: absolute; box-sizing: border-box; overflow: hidden; white-space: pre }
.Button, .ImageButton { background: #e4e4e4; border-radius: 14px; border: 3px solid #888; text-align: center }
.EditText { border-bottom: 4px solid #666 } .ViewGroup { background: #eef1f6 } .LinearLayout { border: 2px dashed #bbb }
.Switch, .CheckBox { text-align: center; border: 3px solid #888; border-radius: 40px } .on { background: #bcd2f4 }
"""
_BOUNDS: Final = re.compile(r"\[(-?\d+),(-?\d+)\]\[(-?\d+),(-?\d+)\]")


@dataclass(frozen=True, slots=True)
class Shown:
    """A transition and its screens: each the inner HTML of a box, and the box's width and height in pixels."""

    step: Step
    before: str
    after: str
    size: tuple[int, int]


def steps_of(name: str, blob: MemoryBlob) -> list[Step]:
    """The steps of the first trajectory of a log."""
    return list(next(one for one in connector(name).parse(blob) if isinstance(one, Trajectory)).steps)


def image(png: bytes, style: str = "") -> str:
    """A picture as HTML that holds it."""
    return f'<img style="{style}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def of_web(browser: Browser) -> Shown:
    """A click in the task list of the web samples, recorded here and now."""
    site = Handler.site = Site("tasks/picture", WEB_STEP)
    context = browser.new_context(viewport={"width": WEB_SIZE[0], "height": WEB_SIZE[1]}, locale="en-GB")
    page = context.new_page()
    page.goto(f"http://{site.host}/")
    time.sleep(SETTLE_S)
    before = page.screenshot()
    context.tracing.start(snapshots=True, screenshots=False, sources=False)
    act(page, context, WEB_STEP)
    page.get_by_role("heading", level=1).first.wait_for()
    with tempfile.TemporaryDirectory() as scratch:
        context.tracing.stop(path=Path(scratch) / "trace.zip")
        trace = slimmed(Path(scratch) / "trace.zip")
    after = page.screenshot()
    context.close()
    step = steps_of("playwright_trace", MemoryBlob("trace.zip", trace))[0]
    return Shown(step, image(before), image(after), WEB_SIZE)


def of_desktop(folder: Path, place: int = 1) -> Shown:
    """A step of a recording with screenshots, which are cut to the active window."""
    members = {path.name.removesuffix(".gz"): _plain(path) for path in sorted(folder.iterdir())}
    step = steps_of("osworld", MemoryBlob(folder.name, members))[place]
    files = [one.attachments[0].name for one in (step.observation, step.next_observation) if one is not None]
    found = _BOUNDS.search((step.observation and step.observation.content) or "")
    assert found is not None, "the first line of a screen has bounds"
    left, top, right, bottom = map(int, found.groups())
    margin, title = 8, 30
    place_css = f"position: absolute; left: {margin - left}px; top: {title - top}px"
    screens = [image(members[name or ""], place_css) for name in files]
    return Shown(step, screens[0], screens[1], (right - left + 2 * margin, bottom - top + title + margin))


def _plain(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def of_android(folder: Path, place: int = 1) -> Shown:
    """A step of an AppAgent task of the samples; its screens are drawn from the dumps before and after it."""
    members = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    step = steps_of("appagent", MemoryBlob(folder.name, members))[place]
    dumps = sorted((name for name in members if name.endswith(".xml")), key=lambda name: int(name.split("_")[-1][:-4]))
    screens = [drawn(members[name]) for name in dumps[place : place + 2]]
    return Shown(step, screens[0], screens[1], (324, 666))


def drawn(dump: bytes) -> str:
    """A dump of uiautomator as boxes with their texts, at 0.3 of a phone's pixels."""
    boxes = []
    for node in etree.fromstring(dump).iter("node"):
        left, top, right, bottom = map(int, _BOUNDS.fullmatch(node.get("bounds")).groups())  # type: ignore[union-attr]
        kind = node.get("class", "").rpartition(".")[2]
        ticked = " on" if node.get("checked") == "true" else ""
        text = node.get("text") or (node.get("content-desc") if kind.startswith("Image") else "") or ""
        wide, high = right - left, bottom - top
        place = f"left: {left}px; top: {top}px; width: {wide}px; height: {high}px; line-height: {high - 6}px"
        font = min(46.0, 0.7 * high, 1.5 * wide / max(1, len(text)))
        boxes.append(f'<div class="{kind}{ticked}" style="{place}; font-size: {font:.0f}px">{html.escape(text)}</div>')
    return f'<div class="phone" style="transform: scale(0.3); transform-origin: 0 0">{"".join(boxes)}</div>'


def page_of(shown: Shown) -> str:
    """The picture as a page of HTML: screens to the left, their text to the right."""
    step = shown.step
    assert step.observation is not None
    assert step.next_observation is not None
    told = [step.observation.content or "", step.action.text, step.next_observation.content or ""]
    before, call, after = (f"<td><pre>{html.escape(text)}</pre></td>" for text in told)
    box = f'style="width: {shown.size[0]}px; height: {shown.size[1]}px"'
    screens = [f'<div class="screen" {box}>{one}</div>' for one in (shown.before, shown.after)]
    return (
        f"<meta charset=utf-8><style>{STYLE}</style><table><tr><td><h3>observation</h3>{screens[0]}</td>{before}</tr>"
        f"<tr><td><h3>action</h3></td>{call}</tr>"
        f"<tr><td><h3>next observation</h3>{screens[1]}</td>{after}</tr></table>"
    )


def main() -> None:
    """Draws the picture of the domain that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("domain", choices=["web", "os", "android"])
    parser.add_argument("--recording", type=Path, help="os: the folder of a run recorded with --screenshots")
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "docs" / "pictures")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    given = parser.parse_args()
    if given.domain == "os" and given.recording is None:
        parser.error("os needs --recording: the folder of a run recorded with --screenshots")
    with browsing(given.chromium) as browser:
        makers: dict[str, Any] = {
            "web": lambda: of_web(browser),
            "os": lambda: of_desktop(given.recording),
            "android": lambda: of_android(DUMPS),
        }
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_content(page_of(makers[given.domain]()))
        page.locator("table").screenshot(path=given.out / f"{given.domain}.png")


if __name__ == "__main__":
    main()
