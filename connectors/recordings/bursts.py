r"""Acts from recorded input: the consecutive keys that form one act.

A burst of keys ends, and the next key begins another, when the terminal has answered it and the typist has looked:

- After a key that submits a line or interrupts (Enter, ^C, ^D, ^Z, ^\): if there was output and the next key comes at
  least `ANSWER_SECONDS` later, or, if there was none, at least `SILENCE_SECONDS` later. Lines sent faster than that, as
  harnesses do, are one act of several entries, since nobody saw the screens in between.
- After any other key (`q` in a pager, `y` at a question): if a prompt appeared, or the screen changed to or from the
  alternate one, and the next key comes at least `ANSWER_SECONDS` later; or if at least `LOOK_SECONDS` passed and the
  output did more than edit the cursor's line: it held a line feed or moved the cursor, or it was any output on the
  alternate screen. A line that is typed, corrected and completed is therefore one burst however long it takes, and a
  full-screen program answers key by key.
- Not within a bracketed paste, which a terminal sends without a pause.

Input that the terminal itself sends, answers to queries and reports of focus, is left out. Keys are kept as typed, both
erased characters and their erasure. Passwords are kept too, marked as not echoed; scrubbing is done elsewhere.
"""

from __future__ import annotations

import re
from typing import Final

from trajmill.connectors.recordings.acts import Act, shelf_of_acts
from trajmill.connectors.recordings.screen import Screen, visible
from trajmill.schemas import Shelf

ANSWER_SECONDS: Final = 0.1
LOOK_SECONDS: Final = 0.5
SILENCE_SECONDS: Final = 1.0

_SUBMIT: Final = "\r\n\x03\x04\x1a\x1c"
_PASTE: Final = re.compile(r"\x1b\[20([01])~")
_ANSWERED: Final = re.compile(r"\n|\x1b\[[0-9;]*[Hf]")
_SWITCHED: Final = re.compile(r"\x1b\[\?(?:2004|1049|1047|47)[hl]")
_NOT_KEYS: Final = re.compile(
    r"\x1b\[[?>=][0-9;]*[cnuySR]"  # device attributes, status, keyboard flags, graphics, extended cursor position
    r"|\x1b\[\??[0-9;]+\$y"  # mode report
    r"|\x1b\[[0-9]+;[0-9]+R"  # cursor position; F3 with a modifier has the same form and is far rarer
    r"|\x1b\[[0-9]+n"  # device status
    r"|\x1b\[[0-9]+(?:;[0-9]+)+t"  # window report
    r"|\x1b\[[IO]"  # focus
    r"|\x1b[]P_^X][^\x07\x1b]*(?:\x07|\x1b\\)"  # colours, clipboard, version, capabilities
)
_EDITS: Final = re.compile(r"[\x00-\x1f\x7f]")
_ECHO_CHARS: Final = 4096


def keys_of(data: str) -> str:
    """Return the keys of an input event, without the terminal's automatic answers."""
    return _NOT_KEYS.sub("", data) if "\x1b" in data else data


def edit_line(keys: str) -> str | None:
    r"""Return the line of keys ended by Enter after erasures (`\x7f`, `\x08`, ^W, ^U); None if other keys edit it.

    The markers of a bracketed paste are left out.
    """
    if not keys.endswith(("\r", "\n")):
        return None
    plain = keys[:-1]
    if _EDITS.search(plain) is None:
        return plain
    plain = _PASTE.sub("", plain)
    if _EDITS.search(plain) is None:
        return plain
    line: list[str] = []
    for char in plain:
        if char in "\x7f\x08":
            del line[-1:]
        elif char == "\x15":
            line.clear()
        elif char == "\x17":
            text = "".join(line).rstrip(" ")
            del line[text.rfind(" ") + 1 :]
        elif char < " ":
            return None
        else:
            line.append(char)
    return "".join(line)


class Bursts:
    """Recovery of the acts of a recording from its input and the output in between.

    Attributes:
        listening: whether output matters to the current burst; if not, it may go straight to the screen.
    """

    def __init__(self, screen: Screen) -> None:
        self.acts = shelf_of_acts()
        self._screen = screen
        self._burst: Act | None = None
        self._keys: list[str] = []
        self._since = 0.0
        self._pasting = False
        self.listening = False
        self._silent = True
        self._answered = False
        self._switched = False
        self._submitted = False
        self._echoing = True
        self._echo = ""
        self._full_screen = False

    @property
    def silent(self) -> bool:
        """True if there was no output since the last key."""
        return self._silent

    def output(self, data: str) -> None:
        """Process output."""
        self._screen.write(data)
        if self.listening:
            self._silent = False
            self._answered = self._answered or _ANSWERED.search(data) is not None
            if "\x1b[?" in data and _SWITCHED.search(data):
                self._switched = True
            if self._echoing:
                self._echo += data
                self._echoing = "\n" not in data and len(self._echo) < _ECHO_CHARS
            self.listening = self._echoing or not (self._submitted or self._switched)

    def input(self, offset: int, now: float, data: str) -> None:
        """Process an input event; `now` does not decrease."""
        keys = keys_of(data)
        if not keys:
            return
        if self._burst is not None and self._is_over(self._burst, now):
            self.close()
        if self._burst is None:
            before, self._full_screen = self._screen.seen(), self._screen.alternate
            self._report_statuses()
            self._burst = Act(offset, now, now, before, [], {"source": "input"})
            self._echo, self._echoing, self._pasting, self._submitted = "", True, False, False
        self._add(self._burst, keys, now)

    def close(self) -> None:
        """End the current burst, if there is one."""
        burst, self._burst = self._burst, None
        if burst is None:
            return
        self._hand_over(burst)
        self.listening = False
        keys = burst.keys
        line = edit_line(keys)
        if line is not None:
            if line != keys[:-1] and line != _PASTE.sub("", keys[:-1]):
                burst.facts["line"] = line
            if line and self._echo and not self._full_screen and not visible(self._echo.partition("\n")[0]).strip("*•"):
                burst.facts["echoed"] = False
        self.acts.append(burst)

    def finish(self) -> Shelf[Act]:
        """Return all acts, at the end of the recording."""
        self.close()
        self._report_statuses()
        return self.acts

    def _report_statuses(self) -> None:
        statuses = self._screen.take_statuses()
        if self.acts:
            self.acts[-1].statuses = statuses

    def _is_over(self, burst: Act, now: float) -> bool:
        """Check if the terminal answered the burst and the typist looked before the key that comes at `now`."""
        pause = now - burst.end
        if self._pasting and pause < SILENCE_SECONDS:
            return False
        if self._submitted:
            return pause >= (SILENCE_SECONDS if self._silent else ANSWER_SECONDS)
        if self._switched and pause >= ANSWER_SECONDS:
            return True
        return pause >= LOOK_SECONDS and not self._silent and (self._answered or self._screen.alternate)

    def _add(self, burst: Act, keys: str, now: float) -> None:
        if self._submitted:
            self._hand_over(burst)
        if not self._keys:
            self._since = now
        self._keys.append(keys)
        burst.end = now
        if "\x1b[20" in keys:
            self._pasting = _PASTE.findall(keys)[-1:] == ["0"]
        self._submitted = keys[-1] in _SUBMIT and not self._pasting
        self.listening = self._silent = True
        self._answered = self._switched = False

    def _hand_over(self, burst: Act) -> None:
        """Turn the keys since the last entry into an entry."""
        if self._keys:
            burst.strokes.append(("".join(self._keys), self._since, burst.end))
            self._keys.clear()
