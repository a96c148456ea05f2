"""The known steps of a shell session: what is typed, what it shows and how it ends.

What a screen shows is told here by lines of text alone, not by a terminal emulator: no step moves the cursor.
"""

from dataclasses import dataclass
from typing import Final

COLUMNS: Final = 80
ROWS: Final = 24
PROMPT: Final = "planted$ "
ERASE: Final = "\x7f"
ENTER: Final = "\r"


@dataclass(frozen=True, slots=True)
class ShellStep:
    """A line that is entered.

    Attributes:
        line: as the shell takes it.
        shown: the lines that it puts out, as a terminal shows them, before they are wrapped.
        exit_code: of the line.
        put_out: its output as it leaves the program; None if that is `shown`.
        keys: what is typed for it, without Enter; None if that is `line`.
        seconds: how long it takes at least.
    """

    line: str
    shown: tuple[str, ...] = ()
    exit_code: int = 0
    put_out: str | None = None
    keys: str | None = None
    seconds: float = 0.0

    @property
    def typed(self) -> str:
        """The keys, with Enter."""
        return (self.line if self.keys is None else self.keys) + ENTER

    @property
    def output(self) -> str:
        """The output as a program that runs the line would get it."""
        return "".join(f"{line}\n" for line in self.shown) if self.put_out is None else self.put_out


STEPS: Final = (
    ShellStep("echo hello", ("hello",)),
    ShellStep("printf 'alpha\\n  beta\\n\\ngamma\\n'", ("alpha", "  beta", "", "gamma")),
    ShellStep("ls no-such-file", ("ls: cannot access 'no-such-file': No such file or directory",), exit_code=2),
    ShellStep('echo "Grüße, 世界 €"', ("Grüße, 世界 €",)),
    ShellStep(
        "printf '\\033[31mred\\033[0m and \\033[1;32mgreen\\033[0m\\n'",
        ("red and green",),
        put_out="\x1b[31mred\x1b[0m and \x1b[1;32mgreen\x1b[0m\n",
    ),
    ShellStep("true"),
    ShellStep("(exit 7)", exit_code=7),
    ShellStep("seq 1 60", tuple(map(str, range(1, 61)))),
    ShellStep("sleep 1.2; echo rested", ("rested",), seconds=1.2),
    ShellStep("echo fixed", ("fixed",), keys=f"ecko{ERASE * 2}ho fixed"),
    ShellStep("printf '=%.0s' {1..100}; echo", ("=" * 100,)),
    ShellStep("cat nothing | wc -l", ("cat: nothing: No such file or directory", "0")),
    ShellStep("exit 3", ("exit",), exit_code=3),
)
"""The last step ends the session."""


def screens() -> list[str]:
    """The screen before the first step, then the one after each: rows without blanks at their ends, cut to the last."""
    rows: list[str] = []
    shown = [PROMPT.rstrip()]
    for number, step in enumerate(STEPS):
        rows += [PROMPT + step.line, *(row for line in step.shown for row in _wrapped(line))]
        last = number == len(STEPS) - 1
        # The cursor stands on a row of its own, be it with a prompt or, when the shell has gone, without.
        visible = [*rows, "" if last else PROMPT][-ROWS:]
        shown.append("\n".join(row.rstrip() for row in visible).rstrip("\n"))
    return shown


def _wrapped(line: str) -> list[str]:
    """The rows of a line of characters that are one column wide, or that fit into a row."""
    return [line[at : at + COLUMNS] for at in range(0, len(line), COLUMNS)] or [""]
