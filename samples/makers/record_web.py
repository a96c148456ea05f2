"""Records the web samples: drives Chromium through the steps of `web_tasks.txt` on the sites of `web_pages.py`.

    python -m samples.makers.record_web --rrweb rrweb.umd.min.cjs [--only TASK] [--out samples/web]

Each session is written down in three ways at once: `trace.zip` (Playwright's trace), `session.har.gz` and, of rrweb,
`events.json.gz`. Of a trace what is no text of a session is left out: screencast frames, resources, sources.

Steps: `goto URL`, `back`, `forward`, `reload`, and `VERB ROLE: NAME [= VALUE]`, where VERB is click, fill, type, press,
select, check, uncheck, popup (a click that opens a tab, where the session goes on), frame (a click within the only
iframe), expect (a look whether it is there) or fail (a click on what is not there). ROLE is a role of ARIA, `text` or
`label`.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Error, Locator, Page, sync_playwright

from samples.makers.web_pages import Handler, Site, server

HERE = Path(__file__).parent
SETTLE_S = 0.7
"""Rest after each step: longer than what readers of rrweb take for the effect of an act."""


def tasks() -> Iterator[tuple[str, list[str]]]:
    """(name, steps) of each session."""
    name, steps = "", list[str]()
    for line in [*(HERE / "web_tasks.txt").read_text("utf-8").splitlines(), "= "]:
        if line.startswith("= "):
            if name:
                yield name, steps
            name, steps = line[2:], []
        elif line and not line.startswith("#"):
            steps.append(line)


def found(page: Page, role: str, name: str, frame: bool) -> Locator:
    """The element that a step names."""
    scope: Any = page.frame_locator("iframe") if frame else page
    if role == "text":
        return scope.get_by_text(name, exact=True)  # type: ignore[no-any-return]
    if role == "label":
        return scope.get_by_label(name)  # type: ignore[no-any-return]
    return scope.get_by_role(role, name=name, exact=True)  # type: ignore[no-any-return]


_MOVES: dict[str, Callable[[Page, str], object]] = {
    "goto": lambda page, url: page.goto(url),
    "back": lambda page, _: page.go_back(),
    "forward": lambda page, _: page.go_forward(),
    "reload": lambda page, _: page.reload(),
}


def act(page: Page, context: BrowserContext, step: str) -> Page:
    """Does a step; the page in which the session goes on."""
    verb, _, rest = step.partition(" ")
    if verb in _MOVES:
        _MOVES[verb](page, rest)
    else:
        what, _, value = rest.partition(" = ")
        role, _, name = what.partition(": ")
        one = found(page, role, name, verb == "frame")
        if verb == "popup":
            with context.expect_page() as opened:
                one.click()
            page = opened.value
            page.wait_for_load_state()
        elif verb == "expect":
            one.wait_for()
        elif verb == "fail":
            with suppress(Error):
                one.click(timeout=1500)
        elif verb == "select":
            one.select_option(label=value)
        elif verb in ("fill", "press"):
            getattr(one, verb)(value)
        elif verb == "type":
            one.press_sequentially(value, delay=20)
        else:
            getattr(one, "click" if verb == "frame" else verb)()
    # Slept here and not in the browser, where it would be a step of its own.
    time.sleep(SETTLE_S)
    return page


def slimmed(path: Path) -> bytes:
    """The trace without frames, sources and resources but style sheets, packed anew with fixed times."""
    target = io.BytesIO()
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as slim:
        for info in source.infolist():
            data = source.read(info)
            if info.filename.endswith((".trace", ".network")):
                lines = [line for line in data.splitlines() if b'"type":"screencast-frame"' not in line]
                data = b"\n".join(lines) + b"\n"
            elif not info.filename.endswith(".css"):
                continue
            slim.writestr(zipfile.ZipInfo(info.filename, (2024, 1, 1, 0, 0, 0)), data, 8)
    return target.getvalue()


def packed(value: str) -> bytes:
    """gzip of a text, without a time in it."""
    return gzip.compress(value.encode(), 9, mtime=0)


def record(browser: Browser, name: str, steps: list[str], rrweb: str, folder: Path, scratch: Path) -> None:
    """Records one session into its folder."""
    task = "/".join(name.split("/")[:2])
    told = (line for other, lines in tasks() if f"{other}/".startswith(f"{task}/") for line in lines)
    site = Handler.site = Site(task, "\n".join(told))
    har = scratch / "session.har"
    context = browser.new_context(
        viewport={"width": 900, "height": 700}, locale="en-GB", record_har_path=har, record_har_content="embed"
    )
    events: list[Any] = []
    context.expose_binding("__told", lambda _, event: events.append(json.loads(event)))
    if rrweb:
        begin = (
            "if (window.top === window) rrweb.record({emit: e => window.__told(JSON.stringify(e)), "
            "inlineStylesheet: false, sampling: {mousemove: false}});"
        )
        context.add_init_script(
            f"{rrweb};\nwindow.rrweb = window.rrweb || rrweb;"
            f"document.addEventListener('DOMContentLoaded', () => {{ {begin} }});"
        )
    page = context.new_page()
    page.goto(f"http://{site.host}/")
    time.sleep(SETTLE_S)
    context.tracing.start(snapshots=True, screenshots=False, sources=False, title=task)
    for step in steps:
        page = act(page, context, step.replace(f"//{site.kind}.example/", f"//{site.host}/"))
    # The last snapshot is of the page at rest, as it would be were there another step.
    page.get_by_role("heading", level=1).first.wait_for()
    context.tracing.stop(path=scratch / "trace.zip")
    context.close()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trace.zip").write_bytes(slimmed(scratch / "trace.zip"))
    log = json.loads(har.read_text("utf-8"))
    (folder / "session.har.gz").write_bytes(packed(json.dumps(log, ensure_ascii=False, separators=(",", ":"))))
    if events:
        (folder / "events.json.gz").write_bytes(packed(json.dumps(events, ensure_ascii=False, separators=(",", ":"))))


@contextmanager
def browsing(chromium: str) -> Iterator[Browser]:
    """A browser in which the sites of `web_pages` are open until the block ends."""
    sites = server()
    threading.Thread(target=sites.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        rules = f"--host-resolver-rules=MAP *.example 127.0.0.1:{sites.server_address[1]}"
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", rules])
        yield browser
        browser.close()
    sites.shutdown()


def main() -> None:
    """Records all sessions, or those whose name begins with `--only`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rrweb", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, default=HERE.parent / "web")
    parser.add_argument("--scratch", type=Path, default=Path("out/recording"))
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    rrweb = options.rrweb.read_text("utf-8") if options.rrweb else ""
    with browsing(options.chromium) as browser:
        for name, steps in tasks():
            if name.startswith(options.only):
                record(browser, name, steps, rrweb, options.out / name, options.scratch)
                print(name, len(steps))


if __name__ == "__main__":
    main()
