"""Records one session in four ways at once, with the browser's own word on each target and page.

    python -m samples.makers.record_truth --rrweb rrweb.umd.min.cjs

Drives Chromium through `STEPS` on the pages of `fair/`, which a server on loopback shows as `fair.example`, and writes
a Playwright trace, an HTTP archive, an event log of the DevTools Protocol with bodies, and rrweb events. The truth is
asked of the browser before each step: role and name of the target in the accessibility tree, and the lines of
`innerText` but for transparent ones, those of open shadow roots and shown frames after those of the page. It needs what
`record_web` needs.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import CDPSession, Error, Locator, Page, sync_playwright

from samples.makers.record_web import SETTLE_S, packed, slimmed

HERE: Final = Path(__file__).parent
START: Final = "http://fair.example/"
STEPS: Final = """
click #menu
click #menu
hover #shelf
hover h1
click summary
click #fold
click [data-tab=sunday]
click [popovertarget=hint]
press Escape
click #price
click #ask
click #keep
click #menu
click nav a[href="/order.html"]
click form button:not([type])
fill #who = Ada Marsh
select #tea = Rooibos
fill #cups = 3
check input[value=yes]
check #gift
click #note
type less sugar
fill #word = sesame
click #save
click form button:not([type])
click p a
fill #search = oolong
press Enter
click #strength
press ArrowRight
drag #wash = #done
click #leaf
click #memo
press End
type  five
click tea-clock >> button
fill iframe >> #guest = Tove
click iframe >> button
back
"""
"""Acts with their targets; `press` and `type` go to what has the focus."""
LEAVE_S: Final = 5.0
"""Rest before a page is left by no click: a new page sooner than that looks like the effect of the act before."""
_EVENTS: Final = (
    "requestWillBeSent", "requestWillBeSentExtraInfo", "responseReceived", "responseReceivedExtraInfo",
    "loadingFinished", "loadingFailed",
)  # fmt: skip
_LINES: Final = """
(() => {
  const linesOf = (text) => text.split('\\n').map((line) => line.replace(/\\s+/g, ' ').trim()).filter(Boolean);
  const read = (roots) => {
    const nodes = roots.flatMap((root) => [root, ...root.querySelectorAll('*')]).filter((node) => node.innerText);
    const unseen = nodes.filter((node) => node.checkVisibility() && !node.checkVisibility({opacityProperty: true}));
    const transparent = unseen.flatMap((node) => linesOf(node.innerText));
    const lines = roots.filter((node) => node.tagName !== 'STYLE').flatMap((root) => linesOf(root.innerText));
    const inner = roots.flatMap((root) => [...root.querySelectorAll('*')]).flatMap((node) => [
      ...(node.shadowRoot ? read([...node.shadowRoot.children]) : []),
      ...(node.tagName === 'IFRAME' && node.checkVisibility() ? read([node.contentDocument.body]) : []),
    ]);
    return [...lines.filter((line) => !transparent.includes(line)), ...inner];
  };
  return {url: location.href, lines: read([document.body])};
})()
"""


class _Handler(SimpleHTTPRequestHandler):
    """The files of `fair/`; a form that is sent leads to the page of thanks."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(303)
        self.send_header("location", "/thanks.html")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class _Browser:
    """Record of the DevTools Protocol for a page: its network log, and the truth."""

    def __init__(self, session: CDPSession) -> None:
        self._session = session
        self._unread: list[str] = []
        self.log: list[dict[str, Any]] = []
        for name in _EVENTS:
            session.on(f"Network.{name}", partial(self._note, f"Network.{name}"))
        session.send("Network.enable")

    def _note(self, method: str, params: dict[str, Any]) -> None:
        self.log.append({"method": method, "params": params})
        if method == "Network.loadingFinished":
            self._unread.append(params["requestId"])

    def read_bodies(self) -> None:
        """Add the bodies of the responses that came since the last call."""
        while self._unread:
            params = {"requestId": self._unread.pop(0)}
            with suppress(Error):  # The browser no longer has a body of a page that was left.
                result = self._session.send("Network.getResponseBody", params)
                self.log.append({"method": "Network.getResponseBody", "params": params, "result": result})

    def page(self) -> dict[str, Any]:
        """Address and visible lines."""
        value: dict[str, Any] = self._evaluate(_LINES, returnByValue=True)["value"]
        return value

    def target(self, expression: str) -> dict[str, str]:
        """Role and name of an element, its text where it has no name."""
        ident = self._evaluate(expression)["objectId"]
        tree = self._session.send("Accessibility.getPartialAXTree", {"objectId": ident, "fetchRelatives": False})
        role, name = (tree["nodes"][0].get(key, {}).get("value", "") for key in ("role", "name"))
        return {"role": role, "name": name or self._evaluate(f"{expression}.innerText || ''")["value"].strip()}

    def _evaluate(self, expression: str, **more: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._session.send("Runtime.evaluate", {"expression": expression, **more})["result"]
        return result


def script(selector: str) -> str:
    """The element of a step's target, in the words of a script: `>>` leads into a shadow root or frame."""
    if not selector:
        return "document.activeElement"
    found = "document"
    for part in selector.split(" >> "):
        inner = f"({found}.shadowRoot || {found}.contentDocument)" if found != "document" else found
        found = f"{inner}.querySelector({json.dumps(part)})"
    return found


def located(page: Page, selector: str) -> Locator:
    """The same element for Playwright."""
    outer, _, inner = selector.rpartition(" >> ")
    return page.frame_locator(outer).locator(inner) if outer == "iframe" else page.locator(selector)


def act(page: Page, verb: str, selector: str, value: str) -> None:
    """Do a step, and rest."""
    if verb == "back":
        time.sleep(LEAVE_S)
        page.go_back()
    elif verb == "press":
        page.keyboard.press(value)
    elif verb == "type":
        page.keyboard.type(value, delay=20)
    elif verb == "select":
        located(page, selector).select_option(label=value)
    elif verb == "drag":
        located(page, selector).drag_to(located(page, value))
    else:
        getattr(located(page, selector), verb)(*([value] if value else []))
    time.sleep(SETTLE_S)


def steps() -> Iterator[tuple[str, str, str]]:
    """(verb, selector of the target, value) of each step."""
    for line in STEPS.strip().splitlines():
        verb, _, rest = line.partition(" ")
        selector, _, value = rest.partition(" = ")
        yield (verb, "", rest) if verb in ("press", "type") else (verb, selector, value)


def record(page: Page, rrweb: list[Any], har: Path, trace: Path) -> dict[str, bytes]:
    """The four logs and the truth by their file names."""
    context = page.context
    browser = _Browser(context.new_cdp_session(page))
    page.goto(START)
    time.sleep(SETTLE_S)
    browser.read_bodies()
    context.tracing.start(snapshots=True, screenshots=False, sources=False, title="fair")
    truth: list[dict[str, Any]] = []
    for verb, selector, value in steps():
        shown = browser.page()
        target = browser.target(script(selector)) if verb != "back" else {}
        onto = {"onto": browser.target(script(value))} if verb == "drag" else {}
        truth.append({"verb": verb, "value": value, **target, **onto, **shown})
        act(page, verb, selector, value)
        browser.read_bodies()
    truth.append({"verb": "end", **browser.page()})
    # The last snapshot is of the page at rest, as it would be were there another step.
    page.locator("h1").wait_for()
    context.tracing.stop(path=trace)
    context.close()
    lines = (json.dumps(event, ensure_ascii=False, separators=(",", ":")) for event in browser.log)
    return {
        "trace.zip": slimmed(trace),
        "session.har.gz": packed(json.dumps(json.loads(har.read_text("utf-8")), separators=(",", ":"))),
        "cdp.jsonl.gz": packed("".join(f"{line}\n" for line in lines)),
        "events.json.gz": packed(json.dumps(rrweb, ensure_ascii=False, separators=(",", ":"))),
        "truth.json": ("[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in truth) + "\n]\n").encode(),
    }


def main() -> None:
    """Record the session."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rrweb", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=HERE.parent / "web" / "fair")
    parser.add_argument("--truth", type=Path, default=HERE.parents[1] / "tests" / "samples" / "truth.json")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(HERE / "fair")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as scratch:
        rules = f"--host-resolver-rules=MAP *.example 127.0.0.1:{server.server_port}"
        browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox", rules])
        har = Path(scratch) / "session.har"
        context = browser.new_context(
            viewport={"width": 640, "height": 700}, locale="en-GB", record_har_path=har, record_har_content="embed"
        )
        events: list[Any] = []
        context.expose_binding("__told", lambda _, event: events.append(json.loads(event)))
        begin = "rrweb.record({emit: event => window.__told(JSON.stringify(event)), recordCanvas: false})"
        context.add_init_script(
            f"if (window.top === window) {{ {options.rrweb.read_text('utf-8')};\nwindow.rrweb = window.rrweb || rrweb;"
            f"document.addEventListener('DOMContentLoaded', () => {begin}); }}"
        )
        files = record(context.new_page(), events, har, Path(scratch) / "trace.zip")
        browser.close()
    server.shutdown()
    options.out.mkdir(parents=True, exist_ok=True)
    options.truth.write_bytes(files.pop("truth.json"))
    for name, data in files.items():
        (options.out / name).write_bytes(data)
        print(f"{name} {len(data):,} bytes")


if __name__ == "__main__":
    main()
