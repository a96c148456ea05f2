"""Headless Chromium, driven over the pipe of its DevTools Protocol."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from PIL import Image

_OPTIONS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
    "--disable-extensions", "--disable-features=OptimizationHints,MediaRouter,Translate", "--remote-debugging-pipe",
)  # fmt: skip
_SETTLING_MS: Final = 400
"""Time after the load event in which scripts and redirections of a page may run."""


class Browser:
    """A Chromium process with one page.

    Args:
        profile: a folder for the browser alone.
        options: further options of the command.
    """

    def __init__(self, profile: str, *options: str) -> None:
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if program is None:
            sys.exit("Chromium is not installed.")
        (answers, output), (input_, commands) = os.pipe(), os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to descriptor 4. Both are in use here.
        their_input, their_output = (fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10) for descriptor in (input_, output))
        moves = f"os.dup2({their_input}, 3); os.dup2({their_output}, 4)"
        start = f"import os, sys; {moves}; os.execv(sys.argv[1], sys.argv[1:])"
        command = [
            sys.executable,
            "-c",
            start,
            program,
            *_OPTIONS,
            f"--user-data-dir={profile}",
            *options,
            "about:blank",
        ]
        descriptors = their_input, their_output
        self._process = subprocess.Popen(command, pass_fds=descriptors, stderr=subprocess.DEVNULL)
        for descriptor in (*descriptors, input_, output):
            os.close(descriptor)
        self._answers, self._commands = os.fdopen(answers, "rb", 0), os.fdopen(commands, "wb", 0)
        self._buffer, self._number, self._session = b"", 0, {}
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        self._call("Page.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait()

    def show(self, *, width: int, height: int, dark: bool = False) -> None:
        """Set the size of the window in CSS pixels, and the color scheme."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def set_cookie(self, url: str, name: str, value: str) -> None:
        """Set a cookie of the site of an address."""
        self._call("Network.setCookie", url=url, name=name, value=value)

    def open(self, url: str) -> None:
        """Open an address, and wait until it is loaded and its scripts have run."""
        self._call("Page.navigate", url=url)
        while self._receive().get("method") != "Page.loadEventFired":
            pass
        self.evaluate(f"new Promise(done => setTimeout(done, {_SETTLING_MS}))")

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page, after a promise is fulfilled."""
        answer = self._call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def dom(self) -> str:
        """Serialize the page as it is now."""
        return str(self.evaluate("document.documentElement.outerHTML"))

    def picture(self, file: Path) -> None:
        """Save a picture of the window as a PNG file of 256 colors."""
        file.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))
        with Image.open(file) as picture:
            picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)

    def _call(self, method: str, **values: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": values, **self._session}
        self._commands.write(json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = self._answers.read(1 << 16)
            if not data:
                raise RuntimeError("Chromium ended.")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        received: dict[str, Any] = json.loads(message)
        return received
