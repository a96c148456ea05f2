r"""Acts from output alone: typed lines, recognized by their echo, their timing and the prompt before them.

The input is a recording without typed input; the output is acts, and gaps for input that cannot be recognized. There
are two kinds of evidence:

- Bracketed paste. Line editors switch it on at a prompt (`\e[?2004h`) and off when the line is entered (`\e[?2004l`).
  The prompt is the text before the cursor at the first change after a pause. The rest of the line at its entry was
  typed, however it was edited. A shell that pauses before it draws its prompt draws the prompt first. A line entered
  without a pause after its prompt was typed ahead, and so was the beginning of a line that follows an already known
  prompt when typing begins.
- Typing. Elsewhere (shells without bracketed paste, programs that ask), a line that grew one character at a time, each
  after a pause, and was then entered, and that begins with a prompt: one that ends like a prompt (`$ `, `> `, `: `, `?
  ` …), or that occurred twice. At such a known prompt a line pasted at once counts too, and so do lines pasted at a
  prompt that asks where another line was typed, and lines pasted twice at a prompt like a shell's, each entered after
  a pause.

Full-screen programs (the alternate screen) are not searched for lines, since keys are not echoed as lines there. A
`Gap` marks unknown input; the screen after a gap is no answer to the act before it. Gaps are: a line that was entered
but cannot be recognized, a line at a prompt for a password, and a full-screen program that came to rest, waiting for
keys. Dots, spinners and text that a program types in an even rhythm are output.

Limits: ^C at a zsh prompt leaves no trace and counts as Enter; keys that leave nothing on the line (Tab, arrows, ^D
that ends a program's input) are not recovered.
"""

from __future__ import annotations

import re
from typing import Final

from trajmill.connectors.recordings.acts import CONTROL_D, Act
from trajmill.connectors.recordings.screen import Screen, visible
from trajmill.connectors.recordings.typed_lines import (
    KEY_SECONDS,
    STOPS,
    Gap,
    Line,
    Mark,
    ending,
    is_asked,
    is_pasted,
    is_prompt,
    resolve_marks,
    shelf_of_marks,
    takes_key,
)
from trajmill.schemas import Shelf

REST_SECONDS: Final = 0.3
"""A full-screen program that shows nothing new for this many seconds waits for a key."""

_SECRET: Final = re.compile(r"(?i).*(?:password|passphrase|passcode|\bpin)\b[^\n]*[:>?] ?", re.DOTALL)
_ENTERED: Final = re.compile(r"\r*\n")
_ASKS: Final = (":", ">", "?")
_MODES: Final = re.compile(r"(\x1b\[\?(?:2004|1049|1047|47)[hl])")
_SPLIT_ESCAPE: Final = re.compile(r"\x1b(?:\[\??[0-9;]*)?")
_SPLIT_CHARS: Final = 12
_WITHIN_ESCAPE: Final = "\x1b[?;0123456789"
_MOVES: Final = re.compile(r"^\x08|\n|\x1b\[[0-9;]*[ABHJfd]")
_CLEARED: Final = re.compile(r"(?:\r|\x1b\[[0-9;]*m)*\x1b\[H\x1b\[[02]?J")
_FAREWELLS: Final = ("exit", "logout")
_PROMPT_CHARS: Final = 200
_KEY_CHARS: Final = 48
_TYPED_CHARS: Final = 256
_EDIT_CHARS: Final = 1 << 16
_TAIL_CHARS: Final = 2
_KEPT_CHARS: Final = 4096


class EchoReader:
    """Recovery of the acts of a recording from its output and its timing."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._marks = shelf_of_marks()
        self._line: Line | None = None
        self._entered: Line | None = None
        self._now = 0.0
        self._offset = 0
        self._carry = ""
        self._tail = ""
        self._alternate = False
        self._rested = False
        self._armed = False
        self._unpaused = ""
        self._ready: str | None = None
        self._prompts: set[str] = set()
        self._tails: set[str] = set()
        self._ahead: list[str] = []

    def output(self, offset: int, now: float, data: str) -> None:
        """Process output; `now`, in seconds since the recording began, does not decrease."""
        if self._carry:
            data, self._carry = self._carry + data, ""
        if data[-1:] in _WITHIN_ESCAPE:
            cut = data.rfind("\x1b", -_SPLIT_CHARS)
            if cut >= 0 and _SPLIT_ESCAPE.fullmatch(data, cut):
                data, self._carry = data[:cut], data[cut:]
        if not data:
            return
        pause, before = now - self._now, self._now
        self._now, self._offset = now, offset
        if self._line is None and pause >= KEY_SECONDS:
            if not self._alternate:
                self._look_for_line(data)
            elif pause >= REST_SECONDS and not self._rested:
                self._rested = True
                self._mark_gap("unrecorded_input", "a full-screen program came to rest", before)
        if self._line is None:
            self._plain(data)
        elif self._line.at_prompt:
            self._edit(self._line, data)
        else:
            self._type(self._line, data)
        self._tail = data[-_TAIL_CHARS:]

    def release(self) -> None:
        """Write held output to the screen, so that another reader can continue."""
        self._screen.write(self._carry)
        self._carry = ""

    def finish(self) -> tuple[Shelf[tuple[list[int], Mark]], str | None, float]:
        """Return the recovered marks, and the last screen with its time, at the end of the recording.

        Each act or gap comes with the exit statuses that were reported before it; the statuses after all of them stay
        with the screen. A line that was never entered is no act, and is not on the last screen.
        """
        self.release()
        line = self._line
        entries = resolve_marks(self._marks)
        if line is not None and (line.at_prompt or line.known or is_asked(line)):
            return entries, line.before, line.start
        shown = self._screen.seen()
        last = entries[-1][1] if entries else None
        # Nothing answers the last Enter, not even a prompt: zsh and fish end without a word, bash with `exit`.
        if isinstance(last, Act) and last.keys == "\r":
            row, mark = (shown or "").rpartition("\n")[2], self._marks[-1][1]
            at_prompt = isinstance(mark, Line) and mark.at_prompt and not self._screen.whole_line()
            if row in _FAREWELLS or (at_prompt and row == (last.before or "").rpartition("\n")[2]):
                last.strokes = [(CONTROL_D, last.start, last.end)]
        return entries, shown, self._now

    def _mark(self, mark: Mark) -> None:
        self._marks.append((self._screen.take_statuses(), mark))

    def _mark_gap(self, reason: str, detail: str, at: float, before: str | None = None) -> None:
        screen = before if before is not None else self._screen.seen()
        self._mark(Gap(self._offset, at, screen, reason, detail))

    def _act(self, keys: str) -> None:
        """Add a mark for a control key that acts by itself."""
        strokes = [(keys, self._now, self._now)]
        facts = {"source": "echo"}
        self._mark(Act(self._offset, self._now, self._now, self._screen.seen(), strokes, facts))

    def _look_for_line(self, data: str) -> None:
        """Begin a line if the output after a pause may be its first key, or mark other input."""
        entered, self._entered = self._entered, None
        if (
            entered is not None
            and entered is self._marks[-1][1]
            and entered.typed
            and entered.reached == self._screen.line()
        ):
            # The line is there again: the apparent Enter was a key that lists completions.
            self._marks.pop()
            entered.spelled = None
            del entered.times[-1]
            self._line = entered
        elif self._armed:
            if _CLEARED.match(data) and "\n" not in data:
                self._act("\f")
            elif visible(self._unpaused) or not is_prompt(visible(data)):
                self._begin(at_prompt=True)
        elif data[:2] in STOPS and not visible(data[2:].partition("\n")[0]):
            self._act(STOPS[data[:2]])
        elif (
            _ENTERED.match(data)
            and self._tail.rstrip()[-1:] in _ASKS
            and _SECRET.fullmatch(self._screen.line()[-_PROMPT_CHARS:])
        ):
            self._mark_gap("hidden_input", "a line was entered at a prompt for a password", self._now)
        elif first := _key(data):
            self._begin(at_prompt=False, first=first)
        elif self._tail in self._tails or is_pasted(self._screen.line(), data):
            self._begin(at_prompt=False, pasted=is_pasted(self._screen.line(), data))
        elif (key := _key(data.partition("\n")[0])) and takes_key(self._screen.line()):
            self._act(key)

    def _begin(self, at_prompt: bool, first: str = "", pasted: bool = False) -> None:
        """Begin a line; without bracketed paste, a single first key or pasted text, only at a known prompt."""
        screen = self._screen
        if screen.alternate:
            self._alternate = True
            return
        prompt = screen.line()
        known = ending(prompt) in self._prompts or any(map(prompt.endswith, self._prompts))
        if not (at_prompt or first or pasted or known):
            return
        self._armed = False
        statuses = screen.take_statuses()
        right = screen.whole_line()[len(prompt) :].strip()
        self._line = Line(
            offset=self._offset,
            start=self._now,
            before=screen.seen(),
            prompt=prompt,
            right=right,
            at_prompt=at_prompt,
            known=known,
            statuses=statuses,
            tail=self._tail,
            first=first,
            pasted=pasted,
        )

    def _end(self, line: Line) -> None:
        """End a line that was entered."""
        line.times.append(self._now)
        self._line = None
        self._marks.append((line.statuses, line))
        typed = line.typed
        if typed is None:
            return
        if not line.prompt.strip():
            self._ahead.append(typed)
        elif line.at_prompt or line.credible:
            self._prompts.add(ending(line.prompt))
            if not line.at_prompt:
                self._tails.add(line.tail)
                self._entered = line

    def _edit(self, line: Line, data: str) -> None:
        """Process output while a line is edited under bracketed paste."""
        line.chars += len(data)
        if line.chars > _EDIT_CHARS:
            # This is no line editor, but a program that draws on the shell's screen and takes keys there.
            self._line = None
            gap = Gap(line.offset, line.start, line.before, "unclear_input", "a line that is never entered")
            self._marks.append((line.statuses, gap))
            self._plain(data)
            return
        untouched = line.entered is None and not line.since
        pieces = _MODES.split(data) if "\x1b[?" in data else [data]
        for number, piece in enumerate(pieces):
            if number % 2 == 0:
                self._edit_text(line, piece)
                continue
            entered = piece == "\x1b[?2004l" and not self._alternate
            if entered:
                if line.entered is None or visible(line.since):
                    line.entered = self._screen.whole_line()
                    line.stopped = line.entered.endswith("^C")
                self._end(line)
            elif "2004" not in piece:
                self._alternate = piece.endswith("h")
            self._screen.write(piece)
            if entered:
                self._pieces(pieces[number + 1 :])
                return
        if untouched and line.entered is None and "\r" in data:
            drawn = self._screen.line()
            if not drawn.startswith(line.prompt) or len(drawn) > len(line.prompt) + 2:
                line.redrawn = drawn

    def _edit_text(self, line: Line, text: str) -> None:
        if "\n" in text and not self._alternate:
            body = text[: text.rindex("\n")].rstrip("\r")
            self._screen.write(body)
            line.entered = self._screen.whole_line()
            line.since = text[text.rindex("\n") + 1 :]
            text = text[len(body) :]
        elif len(line.since) < _KEPT_CHARS:
            line.since += text
        self._screen.write(text)

    def _type(self, line: Line, data: str) -> None:
        """Process output while a line is typed without bracketed paste."""
        stop = data[:2]
        head, feed, rest = data.partition("\n")
        if stop in STOPS:
            body = stop
        elif feed and "\x1b[A" in rest:
            # The cursor came back: the editor drew below the line, either completions or another row of the line.
            line.spelled = None
            self._screen.write(data)
            return
        elif feed and (line.known or not visible(head)):
            body = head.rstrip("\r")
        elif feed or _MODES.search(data) or (len(data) > _TYPED_CHARS and not line.known):
            self._line = None
            self._plain(data)
            return
        else:
            line.spell(data, self._now)
            self._screen.write(data)
            return
        self._screen.write(body)
        if visible(head) and stop not in STOPS and (self._screen.wraps or "\x1b[A" in head):
            line.spelled = None
            self._screen.write(data[len(body) :])
            return
        line.reached = self._screen.line()
        line.entered = self._screen.whole_line()
        line.stopped = stop in STOPS
        at_once = not line.times and not line.first
        line.input_ended = at_once and line.typed in _FAREWELLS and not rest.startswith(_FAREWELLS)
        self._end(line)
        self._plain(data[len(body) :])

    def _plain(self, data: str) -> None:
        """Process output while no line is typed."""
        if "\x1b[?" in data:
            self._pieces(_MODES.split(data))
        elif self._armed:
            self._text(data)
        else:
            self._screen.write(data)

    def _pieces(self, pieces: list[str]) -> None:
        """Process text and, at odd indices, mode switches."""
        for number, piece in enumerate(pieces):
            if number % 2 == 0:
                self._text(piece)
            else:
                self._mode(piece)

    def _text(self, text: str) -> None:
        if self._armed and len(self._unpaused) < _KEPT_CHARS:
            self._unpaused += text
        self._screen.write(text)

    def _mode(self, mode: str) -> None:
        """Process a switch of bracketed paste or of the alternate screen."""
        on = mode.endswith("h")
        if "2004" not in mode:
            self._alternate, self._rested, self._armed = on, False, False
        elif not self._alternate:
            if self._armed and not on:
                self._check_unpaused()
            self._armed, self._unpaused = on, ""
            if on:
                self._ready = self._screen.seen()
        self._screen.write(mode)

    def _check_unpaused(self) -> None:
        """Mark a gap if a line was entered without a pause after its prompt, unless its typing was seen before."""
        head, feed, rest = self._unpaused.rpartition("\n")
        shown = visible((rest if not feed or visible(rest) else head).rpartition("\n")[2])
        if not shown.strip():
            return
        for typed in self._ahead:
            if typed and shown.endswith(typed):
                self._ahead.remove(typed)
                return
        self._mark_gap("unclear_input", "a line was entered that was typed ahead", self._now, self._ready)


def _key(data: str) -> str:
    """Return the key that the output may echo: its one visible character, which may be drawn twice; else empty."""
    if len(data) > _KEY_CHARS:
        return ""
    seen = visible(data)
    if not 1 <= len(seen) <= 2 or len(set(seen)) != 1 or _MOVES.search(data):
        return ""
    return seen[0] if seen[0].isalnum() or "!" <= seen[0] <= "~" else ""
