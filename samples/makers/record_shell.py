"""Records the known steps in a real bash at a real terminal, in every form at once, and writes the recordings.

    python -m samples.makers.record_shell FOLDER [--reporting]

One session is typed, and recorders run inside each other: asciinema with input, asciinema without, script(1) with
classic timing, script(1) with advanced timing, bash. So all recordings are of the very same session. It needs Linux,
bash, script(1) of util-linux 2.35 or later, and asciinema 2.4, which is among the development dependencies; where one
is missing it says so and ends. asciicast v3 and v1 are converted from v2 after their specification, since asciinema 2
writes neither: `converted_*`.
"""

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from samples.makers.record_terminal import READY, Terminal, version_1
from samples.makers.shell_truth import COLUMNS, ENTER, PROMPT, ROWS, STEPS

GONE: Final = re.compile(r"exit\s*$")
QUIET_S: Final = 0.15


class MissingToolError(Exception):
    """A program that the recording needs is not on this machine."""


def asciinema() -> str:
    """The path of asciinema 2.

    Raises:
        MissingToolError: there is none.
    """
    beside = Path(sys.executable).with_name("asciinema")
    program = str(beside) if beside.exists() else shutil.which("asciinema")
    if program is None or "asciinema 2." not in _told(program, "--version"):
        raise MissingToolError("asciinema 2 is not installed: it is in the dependency group dev (requirements/dev.txt)")
    return program


def script() -> str:
    """The path of script(1) of util-linux.

    Raises:
        MissingToolError: there is none, or it is another or an older one.
    """
    program = shutil.which("script")
    if program is None or "--logging-format" not in _told(program, "--help"):
        raise MissingToolError("script(1) of util-linux 2.35 or later is not on this machine (Debian: bsdutils)")
    return program


def _told(*command: str) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def command(folder: Path, reporting: bool) -> list[str]:
    """The command that runs the shell within all recorders; the files go into `folder`."""
    home = folder / "home"
    home.mkdir(parents=True)
    mark = r"\[\e]133;D;$?\a\]" if reporting else ""
    (home / ".bashrc").write_text(f"PS1='{mark}{PROMPT}'\nunset HISTFILE\nunset PROMPT_COMMAND\n")
    (home / ".inputrc").write_text(f"set enable-bracketed-paste {'off' if reporting else 'on'}\n")
    inner = "bash --noprofile -i"
    for name, extra in (("advanced", ["--log-in"]), ("classic", [])):
        target = folder / f"script_{name}"
        target.mkdir()
        logs = ["--log-out", str(target / "session.typescript"), "--log-timing", str(target / "session.timing")]
        logs += [*extra, str(target / "session.in")] if extra else []
        inner = shlex.join([script(), "-q", "-e", "-f", "--logging-format", name, *logs, "-c", inner])
    for name, options in (("output", []), ("input", ["--stdin"])):
        inner = shlex.join([asciinema(), "rec", "-q", *options, "-c", inner, str(folder / f"{name}.cast")])
    clean = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "xterm-256color", "SHELL": "/bin/bash"}
    clean |= {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    words = [f"{name}={value}" for name, value in clean.items()]
    return ["env", "-i", "-C", str(home), *words, "sh", "-c", f"exec {inner}"]


def record(folder: Path, reporting: bool = False) -> None:
    """Types the steps and leaves the recordings in `folder`.

    Args:
        folder: where to; made if it is not there.
        reporting: whether the shell reports exit codes by itself (OSC 133) and leaves bracketed paste off.

    Raises:
        MissingToolError: a program is not on this machine.
        RuntimeError: the shell does not answer.
    """
    terminal = Terminal(command(folder, reporting), (COLUMNS, ROWS), "planted")
    _await(terminal, "the first prompt")
    for step in STEPS:
        terminal.type(step.typed.removesuffix(ENTER))
        terminal.send(ENTER)
        if step is not STEPS[-1]:
            _await(terminal, step.line)
    terminal.finish()
    data = (folder / "input.cast").read_bytes()
    (folder / "converted_v1.cast").write_bytes(version_1(data))
    (folder / "converted_v3.cast").write_bytes(version_3(data, STEPS[-1].exit_code))
    shutil.rmtree(folder / "home")


def _await(terminal: Terminal, step: str) -> None:
    if not terminal.wait(READY, QUIET_S):
        raise RuntimeError(f"the shell did not come back after {step!r}")


def version_3(recording: bytes, status: int) -> bytes:
    """An asciicast v2 recording as v3: sizes under `term`, times since the event before, the exit status at the end."""
    head, *events = [json.loads(line) for line in recording.splitlines()]
    term = {"cols": head["width"], "rows": head["height"], "type": head["env"]["TERM"]}
    rows: list[Any] = [{"version": 3, "term": term, "timestamp": head["timestamp"], "env": {"SHELL": "/bin/bash"}}]
    last = 0.0
    for moment, kind, data in events:
        rows.append([round(moment - last, 6), kind, data])
        last = moment
    rows.append([0.0, "x", str(status)])
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def main() -> None:
    """Records what the command line asks for."""
    parser = argparse.ArgumentParser(description="Records the known steps of a shell in every form.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--reporting", action="store_true", help="the shell reports exit codes (OSC 133)")
    options = parser.parse_args()
    try:
        record(options.folder, options.reporting)
    except MissingToolError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
