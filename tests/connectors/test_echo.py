"""Lines told from their echo: what was typed, what was put out, and where input was lost."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.recordings.acts import Act
from trajmill.connectors.recordings.echo import EchoReader
from trajmill.connectors.recordings.screen import Screen
from trajmill.connectors.recordings.typed_lines import Line

PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
WAITS = (0.21, 0.09, 0.34, 0.13, 0.18, 0.11, 0.27, 0.16)


class Player:
    """Output in time, as a person and programs make it."""

    def __init__(self, columns: int = 40, rows: int = 10) -> None:
        self.reader = EchoReader(Screen(columns, rows))
        self.now = 0.0
        self.count = 0

    def out(self, data: str, pause: float = 0.001) -> "Player":
        """Puts something out, by default at once."""
        self.now += pause
        self.reader.output(self.count, self.now, data)
        self.count += 1
        return self

    def keys(self, text: str) -> "Player":
        """Types a text key by key, with the pauses of a person."""
        for number, char in enumerate(text):
            self.out(char, WAITS[number % len(WAITS)])
        return self

    def enter(self, rest: str = "") -> "Player":
        return self.out("\r\n" + rest, 0.25)

    def told(self) -> list[str]:
        """The keys of each act, and the reason of each gap in angle brackets."""
        entries, _, _ = self.reader.finish()
        items = [entry for _, entry in entries if not isinstance(entry, Line)]
        return [entry.keys if isinstance(entry, Act) else f"<{entry.reason}>" for entry in items]

    def screens(self) -> list[str | None]:
        entries, last, _ = self.reader.finish()
        return [entry.before for _, entry in entries] + [last]


@pytest.fixture
def player() -> Player:
    return Player()


def at_bash(player: Player, typed: str, answer: str = "") -> Player:
    player.out(PASTE_ON + "$ ").keys(typed)
    return player.enter(PASTE_OFF + "\r" + answer)


def test_a_prompt_on_the_right_is_not_typed(player: Player) -> None:
    player.out(f"$ \x1b[36G12:30\x1b[3G{PASTE_ON}").keys("ls").out(PASTE_OFF + "\r\r\n", 0.2)
    assert player.told() == ["ls\r"]


def test_the_end_of_input_is_told_by_the_farewell_of_the_shell(player: Player) -> None:
    at_bash(player, "ls", "a\r\n").out(PASTE_ON + "$ ").out(PASTE_OFF + "\r\r\nexit\r\n", 0.5)
    assert player.told() == ["ls\r", "\x04"]


def test_the_end_of_input_is_told_by_a_shell_that_ends_without_a_word(player: Player) -> None:
    at_bash(player, "ls", "a\r\n").out(PASTE_ON + "$ ").out(PASTE_OFF + "\r\r\n", 0.5)
    assert player.told() == ["ls\r", "\x04"]
    player.out(PASTE_ON + "$ ")
    assert player.told() == ["ls\r", "\r"]


def test_a_line_typed_ahead_is_told_once(player: Player) -> None:
    at_bash(player, "sleep 5").out("starting?\r\n", 0.3).keys("date").enter()
    player.out(f"{PASTE_ON}$ date\r\n{PASTE_OFF}\r", 3).out("Monday\r\n" + PASTE_ON + "$ ")
    assert player.told() == ["sleep 5\r", "date\r"]


def test_a_line_typed_ahead_unseen_is_a_gap(player: Player) -> None:
    at_bash(player, "ssh box").out(f"{PASTE_ON}$ date\r\n{PASTE_OFF}\r", 3).out("Monday\r\n" + PASTE_ON + "$ ")
    assert player.told() == ["ssh box\r", "<unclear_input>"]


def test_a_line_typed_ahead_in_part_is_a_gap_before_which_the_prompt_stands_alone(player: Player) -> None:
    at_bash(player, "sleep 5").out(f"{PASTE_ON}$ ", 3).out("l")
    player.out("s", 0.4).enter(f"{PASTE_OFF}\ra.txt\r\n{PASTE_ON}$ ")
    assert player.told() == ["sleep 5\r", "<unclear_input>"]
    assert player.screens()[1] == "$ sleep 5\n$"


def test_a_program_that_takes_keys_on_the_shells_screen_is_a_gap(player: Player) -> None:
    at_bash(player, "chat", "").out(PASTE_ON + "> ")
    for _ in range(100):
        player.out("\x1b[2A" + "x" * 700 + "\r\n> ", 0.1)
    player.out(PASTE_OFF + "\r\n").out(PASTE_ON + "$ ").keys("ls").enter(PASTE_OFF)
    assert player.told() == ["chat\r", "<unclear_input>", "ls\r"]


def test_at_a_known_prompt_a_pasted_line_and_an_empty_one_count(player: Player) -> None:
    player.out("$ ").keys("ls").enter("a\r\n$ ").out("make all\r\nok\r\n$ ", 0.6).out("\r\n$ ", 0.6)
    player.out("git push", 0.5).out("\r\n", 0.5).out("done\r\n$ ")
    assert player.told() == ["ls\r", "make all\r", "\r", "git push\r"]


@pytest.mark.parametrize(("pause", "told"), [(0.3, ["go\r", "help\r", "add 1\r"]), (0.001, ["go\r"])])
def test_lines_pasted_at_a_prompt_that_returns_count_if_enter_waits(player: Player, pause: float, told: list[str]):
    player.out("$ ").keys("go").enter("> ")
    for line in ("help", "add 1"):
        player.out(line, 0.8).out("\r\n", pause).out("done\r\n> ")
    assert player.told() == told


def test_a_single_line_that_might_be_pasted_is_output(player: Player) -> None:
    player.out("$ ").keys("go").enter("> ").out("working", 0.8).out("\r\n", 0.3).out("done\r\n$ ").keys("ls").enter()
    assert player.told() == ["go\r", "ls\r"]


@pytest.mark.parametrize(("typed", "told"), [("exit", ["go\r", "add 1\r", "exit\r"]), ("", ["go\r"])])
def test_text_at_a_prompt_that_asks_is_a_line_if_another_was_typed_there(player: Player, typed: str, told: list[str]):
    player.out("$ ").keys("go").enter("Command: ").out("add ", 0.8).out("1").out("\r\n", 0.3).out("done\r\nCommand: ")
    if typed:
        player.keys(typed).enter()
    assert player.told() == told


def test_a_programs_text_behind_a_colon_stays_on_the_last_screen(player: Player) -> None:
    player.out("$ ").keys("go").enter("Status: ").out("running", 0.8)
    assert player.told() == ["go\r"]
    assert player.screens()[-1] == "$ go\nStatus: running"


@pytest.mark.parametrize("events", [["y\r\nfine\r\n"], ["y", "\r\nfine\r\n"]])
def test_a_single_key_may_answer_without_enter(player: Player, events: list[str]) -> None:
    player.out("$ ").keys("go").enter("Sure? [y/N] ").out(events[0], 0.7)
    for event in events[1:]:
        player.out(event)
    assert player.out("$ ").keys("ls").enter().told() == ["go\r", "y", "ls\r"]


def test_typing_without_a_prompt_counts_if_its_rhythm_is_a_persons(player: Player) -> None:
    player.out("$ ").keys("cat > a").enter().keys("first line").enter()
    assert player.told() == ["cat > a\r", "first line\r"]


def test_completions_listed_below_the_line_do_not_enter_it(player: Player) -> None:
    player.out("$ ").keys("id").enter("root\r\n$ ").keys("ls d").out("\r\ndev  doc\r\n$ ls d", 0.4).keys("ev").enter()
    assert player.told() == ["id\r", "ls dev\r"]


def test_an_empty_line_that_leads_to_another_prompt_is_a_gap(player: Player) -> None:
    player.out("$ ").keys("python").enter(">>> ").keys("1").enter("1\r\n>>> ").out("\r\n$ ", 0.6).keys("ls").enter()
    assert player.told() == ["python\r", "1\r", "<unclear_input>", "ls\r"]


def drawn_one_by_one(player: Player, chars: Iterable[str], pause: float) -> Player:
    for char in chars:
        player.out(char, pause)
    return player.out("\r\n", pause)


@pytest.mark.parametrize(
    ("chars", "pause"),
    [
        ("........", 0.1),
        ("typed by a program", 0.05),
        (["|", "\b/", "\b-", "\b\\", "\b|"], 0.1),
        ([f"\x1b[38;5;{n}m{c}" for n, c in enumerate("rainbow")], 0.07),
        ([f"\r{n}%" for n in range(0, 100, 9)], 0.1),
        ("⠋⠙⠹⠸", 0.08),
    ],
)
def test_what_a_program_draws_bit_by_bit_is_output(player: Player, chars: Iterable[str], pause: float) -> None:
    player.out("$ ").keys("run").enter("working\r\n")
    assert drawn_one_by_one(player, chars, pause).out("$ ").keys("ls").enter().told() == ["run\r", "ls\r"]


_marks = [PASTE_ON, PASTE_OFF, "\x1b[?1049h", "\x1b[?1049l", "\x1b[H\x1b[2J", "\x1b", "[?20", "04h"]
_texts = ["a", "l", " ", "$ ", "ls\r\n", "x" * 30, "Password: ", "exit", "⠋", "漢"]
_pieces = st.sampled_from([*_marks, *_texts, "\r\n", "\r", "\b \b", "^C", "\x1b[K", "\x1b[A"])


@given(st.lists(st.tuples(st.sampled_from([0.001, 0.03, 0.2, 1.0]), _pieces), max_size=60))
def test_any_output_is_taken_in_with_acts_in_order(events: list[tuple[float, str]]) -> None:
    player = Player(12, 4)
    for pause, data in events:
        player.out(data, pause)
    entries, _, at = player.reader.finish()
    offsets = [entry.offset for _, entry in entries]
    assert offsets == sorted(offsets)
    starts = [entry.start for _, entry in entries if isinstance(entry, Act)]
    assert starts == sorted(starts)
    assert at <= player.now
