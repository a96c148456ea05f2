"""`python -m benchmarks.screens`: check the viewer in headless Chromium, and take the pictures of docs/images.

*attacks* opens runs that hold hostile texts wherever a text can stand. Chromium sends every request that is not for the
viewer to a listener of this program, so whatever a page asks of other servers is counted. Each page is read after its
scripts have run; none may have done what a text attempts. The same texts are first shown without the viewer, to prove
that Chromium runs them and that the listener hears it.

*audit* runs axe-core over every kind of page, at two sizes, light and dark. Findings that are serious or critical fail.

*pictures* takes the pictures of docs/images from a run of the samples.
"""

from __future__ import annotations

import argparse
import http.server
import re
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import polars as pl
import uvicorn

from benchmarks.browser import Browser
from tests.app.viewer.hostile_texts import LISTENER, TEXTS, hostile_run, pages_of
from tests.conftest import ROOT
from trajmill.app.cli.serving_commands import listening
from trajmill.app.pages.contents import Contents, RunContents
from trajmill.app.pages.copies import find_copies
from trajmill.app.viewer.app import ADDRESS, viewer
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run

_TOKEN: Final = "screens"
_IMAGES: Final = ROOT / "docs" / "images"
_AXE: Final = ROOT / ".venv" / "axe" / "package" / "axe.min.js"
_DOMAINS: Final = ("mcp", "search", "terminal", "swe", "web", "os", "android")
_OWN: Final = re.compile(r"(?:https?://)?[a-z0-9-]+\.(?:google|googleapis)\.com[:/]")
"""What Chromium asks for on its own account, whatever page it shows; no hostile text names it."""

_FORMS: Final[Mapping[str, tuple[int, int, bool]]] = {
    "wide": (1280, 860, False),
    "wide-dark": (1280, 860, True),
    "narrow": (390, 844, False),
    "narrow-dark": (390, 844, True),
}
"""Name of a form of a picture → width and height of the window, and whether it is dark."""

_FINDINGS: Final = """axe.run().then(({violations}) => violations
    .filter(({impact}) => impact === "serious" || impact === "critical")
    .map(({id, impact, help, nodes}) => ({id, impact, help, at: nodes.slice(0, 3).map(({html}) => html.slice(0, 99))})))
"""


class Heard(http.server.BaseHTTPRequestHandler):
    """Answers any request, and notes it."""

    lines: Final[list[str]] = []
    page = b""

    def do_GET(self) -> None:
        """Answers with the page that is set, whatever is asked for."""
        if not _OWN.match(self.path):
            self.lines.append(self.requestline)
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(self.page)

    do_POST = do_CONNECT = do_OPTIONS = do_HEAD = do_GET  # noqa: N815 - as the base class calls them

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class has it
        """Says nothing."""


class Listener(http.server.ThreadingHTTPServer):
    """A server that minds nobody who hangs up."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing."""


@contextmanager
def serve(contents: Contents) -> Iterator[int]:
    """The port on which something is viewed while it lasts."""
    with listening(ADDRESS, 0) as listener:
        port = listener.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(viewer(contents, _TOKEN, port), log_level="warning", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def visit(contents: Contents, listener: int) -> Iterator[tuple[Browser, str]]:
    """Serve contents while the block runs; yield a browser with access to them, and their address."""
    with serve(contents) as port, _profile() as profile:
        address = f"http://{ADDRESS}:{port}"
        with Browser(profile, *_proxy(listener, f"{ADDRESS}:{port}")) as browser:
            browser.set_cookie(address, f"trajmill_{port}", _TOKEN)
            yield browser, address


def _profile() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(ignore_cleanup_errors=True)


def _proxy(listener: int, direct: str) -> tuple[str, str]:
    return f"--proxy-server=http://{ADDRESS}:{listener}", f"--proxy-bypass-list=<-loopback>;{direct}"


def attack(listener: int) -> int:
    """View hostile runs, print what the texts achieved, and return the number of faults."""
    faults = 0
    own = f"http://{ADDRESS}:{listener}"
    everything = "\n".join(TEXTS)
    links = (text for text in TEXTS if text.startswith(("javascript:", "data:", "//", LISTENER)))
    for text in (everything, *links):
        with tempfile.TemporaryDirectory() as folder:
            keys = hostile_run(Path(folder), text.replace(LISTENER, own))
            with visit(RunContents(folder), listener) as (browser, address):
                for path in pages_of(keys) if text is everything else pages_of(keys)[:2]:
                    Heard.lines.clear()
                    browser.open(address + path)
                    dom = browser.dom()
                    if "</main>" not in dom or "<title>owned" in dom or "<script>document" in dom:
                        faults += 1
                        print(f"{path}: it ran, or is no page: {dom[:300]!r}")
                    if Heard.lines:
                        faults += 1
                        print(f"{path}: asked {Heard.lines}")
    return faults


def control(listener: int) -> int:
    """Show the same texts without the viewer; return 1 if nothing happens, since attacks would then prove nothing."""
    own = f"http://{ADDRESS}:{listener}"
    Heard.page = f"<!doctype html><title>x</title>{TEXTS[0].replace(LISTENER, own)}<img src='{own}/img'>".encode()
    with _profile() as profile, Browser(profile, *_proxy(listener, "")) as browser:
        browser.open(f"{own}/control")
        dom = browser.dom()
    Heard.page = b""
    if "<title>owned" in dom and any("/script" in line for line in Heard.lines):
        return 0
    print(f"The control failed: {dom[:300]!r} {Heard.lines}")
    return 1


def audit(contents: Contents, listener: int, axe: Path) -> int:
    """Run axe-core over the pages of a run, print serious and critical findings, and return their number."""
    script, found = axe.read_text("utf-8"), 0
    with visit(contents, listener) as (browser, address):
        for path in _audited(contents):
            for form, (width, height, dark) in _FORMS.items():
                browser.show(width=width, height=height, dark=dark)
                browser.open(address + path)
                browser.evaluate(script)
                findings: list[Mapping[str, Any]] = browser.evaluate(_FINDINGS)
                found += len(findings)
                for finding in findings:
                    print(f"{path} {form}: {finding['impact']} {finding['id']}: {finding['help']} {finding['at']}")
                overflow = browser.evaluate("document.documentElement.scrollWidth") - width
                if overflow > 0:
                    found += 1
                    print(f"{path} {form}: {overflow} pixels wider than the window")
    return found


def _audited(contents: Contents) -> list[str]:
    """List an address of every kind of page."""
    tapped = _tapped(contents)
    keeper = find_copies(contents.index, contents.rejects)["keeper"][0]
    lists = ["/", "/?q=calendar&fate=kept", "/search?q=calendar", "/rejects", "/rejects/0", "/copies", "/samples"]
    trajectory = [f"/t/{tapped}", f"/t/{tapped}/1", f"/t/{tapped}/1/raw", f"/t/{tapped}/sample", f"/copies/{keeper}"]
    return [*lists, *trajectory, "/samples/sft/terminal/2", "/samples/rl/web/0", "/report", "/t/missing"]


def take_pictures(contents: Contents, listener: int, folder: Path) -> None:
    """Take pictures of pages of a run of the samples."""
    folder.mkdir(exist_ok=True)
    with visit(contents, listener) as (browser, address):
        for name, path in _views(contents).items():
            for form, (width, height, dark) in _FORMS.items():
                browser.show(width=width, height=height, dark=dark)
                browser.open(address + path)
                file = folder / f"{name}-{form}.png"
                browser.picture(file)
                print(f"{file}: {file.stat().st_size / 1000:.0f} kB")


def _views(contents: Contents) -> Mapping[str, str]:
    """Name of the picture → address."""
    return {
        "trajectories": "/",
        "transcript": f"/t/{_tapped(contents)}",
        "rejects": "/rejects",
        "sample": "/samples/sft/terminal/2",
        "report": "/report",
    }


def _tapped(contents: Contents) -> str:
    """The key of a trajectory with screens of a phone."""
    key: str = contents.index.filter((pl.col("connector") == "appagent") & (pl.col("fate") == "kept"))["key"][0]
    return key


@contextmanager
def samples(out: str | None) -> Iterator[Contents]:
    """Open a finished run of the samples; a run is made if none is given."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = out or f"{scratch}/samples"
        if out is None:
            Run(load_recipe("all"), [str(ROOT / "samples" / name) for name in _DOMAINS], folder, Execution()).run()
        yield RunContents(folder)


def main() -> None:
    """Run the parts; exit with 1 if a hostile text did anything or axe-core found something serious."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="a finished run of the samples")
    parser.add_argument("--axe", type=Path, default=_AXE, help="axe.min.js of the npm package axe-core")
    parser.add_argument("--to", type=Path, default=_IMAGES, help="the folder of the pictures")
    parser.add_argument("--only", choices=("attacks", "audit", "pictures"))
    arguments = parser.parse_args()
    faults = 0
    with Listener((ADDRESS, 0), Heard) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        if arguments.only in (None, "attacks"):
            faults = control(server.server_port) or attack(server.server_port)
            print(f"{len(TEXTS)} hostile texts: {faults} faults")
        if arguments.only != "attacks":
            with samples(arguments.out) as contents:
                if arguments.only != "pictures":
                    findings = audit(contents, server.server_port, arguments.axe)
                    print(f"axe-core: {findings} serious findings")
                    faults += findings
                if arguments.only != "audit":
                    take_pictures(contents, server.server_port, arguments.to)
        server.shutdown()
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
