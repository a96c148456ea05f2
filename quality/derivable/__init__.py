"""Parts of a next observation that follow from the action and from what the trajectory did and saw before.

A closed list of verifiers, each of which works out what is shown; a part is derivable only where just that was shown,
so it is a lower bound. They know a shell's own commands on words and on files whose whole text is known (`shell`),
tools of files (`tools`), records of a service (`records`), sums, and the echo of a command that is typed behind a
prompt. Files are forgotten as soon as anything is done that might have changed them.

It runs nothing, and of no trajectory more than a megabyte is remembered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from trajmill.quality.derivable import shell, tools
from trajmill.quality.derivable.arithmetic import decimals
from trajmill.quality.derivable.records import Records
from trajmill.quality.derivable.shell_commands import ALLOWANCE, PAID, Place
from trajmill.quality.derivable.shell_syntax import pipelines
from trajmill.quality.derivable.turns import SHELLS, SUMS, Turn
from trajmill.schemas import KEYSTROKES

Told: TypeAlias = list[tuple[int, int, str]]

_LASTING: Final = frozenset({"Bash", "execute_bash", "run_shell_command", KEYSTROKES})
"""Shells that stay in the folder that a command went to; others are taken to begin where they began before."""

_TRAILER: Final = re.compile(
    r"(?:\s*\[(?:The command completed with exit code|Current working directory:|Python [Ii]nterpreter:"
    r"|Command finished with exit code|exit code)[^\n\]]*\])+\s*$"
)
_BROKEN: Final = re.compile(
    r"No such file or directory|Permission denied|Read-only file system|No space left|cannot create|Is a directory"
    r"|Not a directory|command not found|(?m:^(?:/bin/)?(?:ba)?sh: )"
)
_NARROWEST: Final = 20
"""Columns of a terminal in which a line wraps."""

_TYPED: Final = re.compile(r"[^\x00-\x1f\x7f]+[\r\n]")
_PROMPT: Final = re.compile(r"(?:^|.*[^>])[$#%>❯]")


class Facts(NamedTuple):
    """What of an answer could be checked.

    Attributes:
        checked: facts that the answer had to hold, or holds in its own way.
        wrong: those of them that it holds otherwise.
    """

    checked: int = 0
    wrong: int = 0


class Deriving:
    """Follows a trajectory row by row.

    Attributes:
        facts: of the last row, what its answer says of what was known: a sum, the text of a known file, what known
            commands put out, the members of a known record. What was known may have been changed by others, so an
            answer that is held wrong need not be: what counts is how often, beside answers of the world.
    """

    def __init__(self) -> None:
        self._place, self._records = Place(), Records()
        self.facts = Facts()

    def told(self, turn: Turn) -> Told:
        """(begin, end, label) in characters of what was shown, in order; the next row must follow.

        The label is `derivable`, or `action` where the answer repeats an argument under its own name, or `frame` of the
        keys that the tool's answers have.
        """
        self.facts = Facts()
        if turn.name == KEYSTROKES:
            return self._typed(turn)
        command = _command(turn)
        if command is not None:
            return self._ran(turn, command)
        after = turn.after
        if turn.name == "message" or (after is None and not tools.only_looks(turn.name)):
            self._place.files.forget()
        if turn.name == "message" or after is None:
            return []
        if turn.name in SUMS:
            sums = decimals(str(turn.given.get("expression", "")))
            self._check(bool(sums) and _is_number(after), after.strip() in sums)
            return [(0, len(after), "derivable")] if after.strip() in sums else []
        predicted = tools.answered(self._place, turn.name, turn.given)
        tools.followed(self._place, turn.name, turn.given, None if turn.cut else after, failed=turn.failed)
        if predicted is not None and predicted.strip("\n"):
            is_right = after.rstrip("\n") == predicted.rstrip("\n")
            self._check(is_right or not (turn.cut or turn.failed), is_right)
            return [(0, len(after), "derivable")] if is_right else []
        if not turn.is_service:
            return []
        found = self._records.told(turn.name, after, turn.given)
        self.facts = Facts(*self._records.checked)
        return found

    def _check(self, can: bool, is_right: bool) -> None:
        """Notes one fact, if it can be checked."""
        self.facts = Facts(int(can), int(can and not is_right))

    def _ran(self, turn: Turn, command: str) -> Told:
        place, folder = self._place, self._place.folder
        place.allowance = min(place.allowance + PAID * len(turn.after or ""), ALLOWANCE)
        workdir = turn.given.get("workdir") or turn.given.get("cwd")
        if isinstance(workdir, str) and workdir:
            place.folder = workdir if workdir != "." else ""
        outputs = shell.outputs(place, command)
        found = _matched(outputs, turn.after or "")
        is_whole = all(one is not None for one in outputs)
        shown = (turn.after or "").rstrip("\n")
        is_right = not is_whole or bool(found) or shown == "".join(one or "" for one in outputs).rstrip("\n")
        whole = is_whole and "".join(one or "" for one in outputs).strip()
        fails = turn.after is None or turn.exit_code or turn.failed or turn.cut or _BROKEN.search(shown)
        self._check(bool(whole) and not fails, bool(found))
        lasts = turn.name in _LASTING
        if turn.after is None or turn.exit_code or turn.failed or _BROKEN.search(shown) or not is_right:
            place.files.forget()
            place.folder = folder if turn.exit_code in (0, None) and lasts else None if lasts else folder
        elif not turn.cut:
            self._learn(command, shown)
        if not lasts:
            # Whoever does nothing but go to a folder takes it for granted that the shell stays there.
            place.folder = None if re.fullmatch(r"\s*cd\s[^&;|\n]*", command) else folder
        return found

    def _learn(self, command: str, shown: str) -> None:
        """Remembers a file that was shown whole."""
        line = pipelines(command) or ()
        if not line or not shown or any(one.commands[0].words[:1] != ("cd",) for one in line[:-1]):
            return
        last = line[-1]
        words = last.commands[0].words
        if len(last.commands) > 1 or last.commands[0].redirects or len(words) < 2 or words[-1] is None:
            return
        window = re.fullmatch(r"1,(\d+)p", words[2] or "") if len(words) == 4 and words[:2] == ("sed", "-n") else None
        is_whole = words[0] == "cat" and len(words) == 2 and not words[1].startswith("-")  # type: ignore[union-attr]
        if is_whole or (window and shown.count("\n") + 1 < int(window.group(1))):
            path = self._place.path(words[-1])
            if path is not None and self._place.files.get(path) is None:
                self._place.files.put(path, shown + "\n", exact=False)

    def _typed(self, turn: Turn) -> Told:
        """Of a terminal: the line that is typed behind the prompt, what it puts out, and the prompt behind that."""
        keys = _keys(turn.text)
        line = keys.rstrip("\r\n")
        outputs = shell.outputs(self._place, keys.replace("\r", "\n")) if line else []
        after = turn.after
        if not _TYPED.fullmatch(keys) or after is None or turn.before is None:
            if after is None or not line or "\x03" in keys or "\x1b" in keys or not keys.endswith(("\n", "\r")):
                self._place.files.forget()
            return []
        rows = after.split("\n")
        prompt = next((row.rstrip() for row in reversed(turn.before.split("\n")) if row.strip()), "")
        echo = _echo(rows, (prompt + line.rstrip(), f"{prompt} {line}".rstrip())) if _PROMPT.fullmatch(prompt) else None
        if echo is None:
            self._place.files.forget()
            return []
        first, last = echo
        whole = "".join(one or "" for one in outputs).removesuffix("\n")
        if None not in outputs:
            shown = whole.split("\n") if whole else []
            is_right = [row.rstrip() for row in rows[last : last + len(shown)]] == [row.rstrip() for row in shown]
            fails = _BROKEN.search("\n".join(rows[last:]))
            self._check(bool(whole.strip()) and not (turn.cut or fails), is_right)
            if is_right:
                last += len(shown)
                last += last < len(rows) and rows[last].rstrip() == prompt and not "".join(rows[last + 1 :]).strip()
            else:
                self._place.files.forget()
        elif _BROKEN.search("\n".join(rows[last:])):
            self._place.files.forget()
        begin = sum(len(row) + 1 for row in rows[:first])
        return [(begin, begin + len("\n".join(rows[first:last])), "derivable")]


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*[-+]?\d[\d_,]*(?:\.\d+)?\s*", text) is not None


def _echo(rows: Sequence[str], lines: Sequence[str]) -> tuple[int, int] | None:
    """The rows, from the first to the one after the last, that show one of the lines, the last that do; it may wrap."""
    for at in range(len(rows) - 1, -1, -1):
        row = rows[at].rstrip()
        for line in lines:
            if row == line:
                return at, at + 1
            if len(row) < _NARROWEST or not line.startswith(row):
                continue
            # A blank at the end of a row is not told.
            for width in (len(row), len(row) + 1):
                pieces = [line[place : place + width].rstrip() for place in range(0, len(line), width)]
                if [one.rstrip() for one in rows[at : at + len(pieces)]] == pieces:
                    return at, at + len(pieces)
    return None


def _keys(text: str) -> str:
    try:
        strokes = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(strokes, list):
        return ""
    return "".join(str(one.get("keystrokes", "")) for one in strokes if isinstance(one, dict))


def _command(turn: Turn) -> str | None:
    """The command line that a call gives to a shell; None if it gives none."""
    if turn.name not in SHELLS:
        return None
    command = turn.given.get("command", turn.given.get("cmd"))
    if isinstance(command, list) and len(command) == 3 and command[1] in ("-lc", "-c"):
        command = command[2]
    return command if isinstance(command, str) else "unread &"


def _matched(outputs: Sequence[str | None], after: str) -> Told:
    """Where what is put out stands: all of it, or what stands before and behind what is not known."""
    trailer = _TRAILER.search(after)
    shown = after[: trailer.start()] if trailer else after
    if None not in outputs:
        told = "".join(one or "" for one in outputs)
        if not told.strip() or shown.rstrip("\n") != told.rstrip("\n"):
            return []
        return [(0, len(shown), "derivable")]
    first = outputs.index(None)
    last = len(outputs) - 1 - list(reversed(outputs)).index(None)
    head = "".join(one or "" for one in outputs[:first])
    tail = "".join(one or "" for one in outputs[last + 1 :]).rstrip("\n")
    found: Told = []
    if head.strip() and head.endswith("\n") and (shown + "\n").startswith(head):
        found.append((0, min(len(head), len(shown)), "derivable"))
    end = len(shown.rstrip("\n"))
    begin = end - len(tail)
    is_apart = begin == 0 or (begin > (found[0][1] if found else 0) - 1 and shown[begin - 1] == "\n")
    if tail.strip() and is_apart and shown.endswith(tail, 0, end) and begin >= (found[0][1] if found else 0):
        found.append((begin, end, "derivable"))
    return found
