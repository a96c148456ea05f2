"""`python -m benchmarks.screens`: the viewer in headless Chromium: no log runs or loads anything; and its pictures.

The first part views runs that hold hostile texts wherever a text can stand. Chromium is told to take a listener of ours
for everything beyond the viewer, so that whatever a page asks of anybody else arrives there; every page is read back
after its scripts have run, and none may have done what the texts attempt. That the listener hears, and that Chromium
runs what stands unescaped, is shown first by the same texts without a viewer. The second part takes the pictures of
docs/images from a run of the samples.
"""

from __future__ import annotations

import argparse
import http.server
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import polars as pl
import uvicorn

from benchmarks.small_pictures import shrink_picture
from tests.app.viewer.hostile_texts import LISTENER, TEXTS, hostile_run, pages_of
from tests.conftest import ROOT
from trajmill.app.cli.serving_commands import listening
from trajmill.app.pages.contents import Contents, RunContents
from trajmill.app.viewer.app import ADDRESS, viewer
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run

_TOKEN: Final = "screens"
_IMAGES: Final = ROOT / "docs" / "images"
_DOMAINS: Final = ("mcp", "search", "terminal", "swe", "web", "os", "android")
_OWN: Final = re.compile(r"(?:https?://)?[a-z0-9-]+\.(?:google|googleapis)\.com[:/]")
"""What Chromium asks for on its own account, whatever page it shows; no hostile text names it."""

_FORMS: Final[Mapping[str, tuple[str, bool]]] = {"wide": ("1280,860", False), "narrow-dark": ("390,844", True)}
"""Name of a form of a picture → size of the window, and whether it is dark; `--all` takes both sizes light and dark."""

_ALL_FORMS: Final[Mapping[str, tuple[str, bool]]] = {
    **_FORMS, "wide-dark": ("1280,860", True), "narrow": ("390,844", False)
}  # fmt: skip

_QUIET: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
    "--disable-extensions", "--disable-features=OptimizationHints,MediaRouter,Translate", "--virtual-time-budget=5000",
)  # fmt: skip


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


class Browser:
    """A headless Chromium, for which everything but one address of this machine is the listener.

    Args:
        profile: a folder of its own.
        proxy: port of the listener.
    """

    def __init__(self, profile: str, proxy: int) -> None:
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if program is None:
            sys.exit("There is no Chromium here.")
        self._command = [program, *_QUIET, f"--user-data-dir={profile}"]
        self._proxy = proxy

    def _run(self, url: str, *options: str) -> str:
        host = url.split("/")[2]
        ways = f"--proxy-server=http://{ADDRESS}:{self._proxy}", f"--proxy-bypass-list=<-loopback>;{host}"
        done = subprocess.run([*self._command, *ways, *options, url], capture_output=True, timeout=120, check=True)
        return done.stdout.decode("utf-8", "replace")

    def page(self, url: str) -> str:
        """The page as it is after its scripts have run."""
        return self._run(url, "--dump-dom")

    def picture(self, url: str, file: Path, *, dark: bool, size: str) -> None:
        """Takes a picture of a page."""
        scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
        self._run(url, scheme, f"--window-size={size}", f"--screenshot={file}")
        shrink_picture(file)
        print(f"{file}: {file.stat().st_size / 1000:.0f} kB")


def attack(browser: Browser, listener: int) -> int:
    """Views hostile runs; returns how many faults were found, each told."""
    faults = 0
    own = f"http://{ADDRESS}:{listener}"
    everything = "\n".join(TEXTS)
    for text in (
        everything,
        *(text_of_link for text_of_link in TEXTS if text_of_link.startswith(("javascript:", "data:", "//", LISTENER))),
    ):
        with tempfile.TemporaryDirectory() as folder:
            keys = hostile_run(Path(folder), text.replace(LISTENER, own))
            with serve(RunContents(folder)) as port:
                for path in pages_of(keys) if text is everything else pages_of(keys)[:2]:
                    Heard.lines.clear()
                    dom = browser.page(f"http://{ADDRESS}:{port}{path}?token={_TOKEN}")
                    if "</main>" not in dom or "<title>owned" in dom or "<script>document" in dom:
                        faults += 1
                        print(f"{path}: it ran, or is no page: {dom[:300]!r}")
                    if Heard.lines:
                        faults += 1
                        print(f"{path}: asked {Heard.lines}")
    return faults


def control(browser: Browser, listener: int) -> int:
    """Shows the same texts as they are; returns 1 if nothing happens, since then nothing would be proved."""
    own = f"http://{ADDRESS}:{listener}"
    Heard.page = f"<!doctype html><title>x</title>{TEXTS[0].replace(LISTENER, own)}<img src='{own}/img'>".encode()
    dom = browser.page(f"{own}/control")
    Heard.page = b""
    if "<title>owned" in dom and any("/script" in line for line in Heard.lines):
        return 0
    print(f"The control failed: {dom[:300]!r} {Heard.lines}")
    return 1


def take_pictures(browser: Browser, out: str | None, folder: Path, forms: Mapping[str, tuple[str, bool]]) -> None:
    """Takes pictures of a run of the samples; a run is made if none is given."""
    with tempfile.TemporaryDirectory() as scratch:
        run_folder = out or f"{scratch}/samples"
        if out is None:
            Run(load_recipe("all"), [str(ROOT / "samples" / name) for name in _DOMAINS], run_folder, Execution()).run()
        folder.mkdir(exist_ok=True)
        contents = RunContents(run_folder)
        with serve(contents) as port:
            for name, path in _views(contents).items():
                for form, (size, dark) in forms.items():
                    address = f"http://{ADDRESS}:{port}{path}?token={_TOKEN}"
                    browser.picture(address, folder / f"{name}-{form}.png", dark=dark, size=size)


def _views(contents: Contents) -> Mapping[str, str]:
    """Name of the picture → address."""
    tapped = contents.index.filter((pl.col("connector") == "appagent") & (pl.col("fate") == "kept"))["key"][0]
    return {
        "trajectories": "/",
        "transcript": f"/t/{tapped}",
        "rejects": "/rejects",
        "sample": "/samples/sft/terminal/2",
        "report": "/report",
    }


def main() -> None:
    """Runs both parts; ends with 1 if a hostile text did anything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="a finished run of the samples")
    parser.add_argument("--all", action="store_true", help="take each picture at both sizes, light and dark")
    parser.add_argument("--to", type=Path, default=_IMAGES, help="the folder of the pictures")
    parser.add_argument("--only", choices=("attacks", "pictures"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as profile, Listener((ADDRESS, 0), Heard) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser, faults = Browser(profile, server.server_port), 0
        if arguments.only != "pictures":
            faults = control(browser, server.server_port) or attack(browser, server.server_port)
            print(f"{len(TEXTS)} hostile texts: {faults} faults")
        if arguments.only != "attacks":
            take_pictures(browser, arguments.out, arguments.to, _ALL_FORMS if arguments.all else _FORMS)
        server.shutdown()
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
