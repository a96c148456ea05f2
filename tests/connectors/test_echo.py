"""Lines told from their echo: what was typed, what was put out, and where input was lost."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajmill.connectors.recordings.acts import Act
from trajmill.connectors.recordings.echo import EchoReader
from trajmill.connectors.recordings.screen import Screen
from trajmill.connectors.recordings.typed_lines import Gap, Line

PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
WAITS = (0.21, 0.09, 0.34, 0.13, 0.18, 0.11, 0.27, 0.16)


class Player:
    """Output in time, as a person and programs make it."""

    def __init__(self, columns: int = 40, rows: int = 10) -> None:
        self.reader = EchoReader(Screen(columns, rows))
        self.now = 0.0
        self.count = 0

    def out(self, data: str, pause: float = 0.001) -> Player:
        """Puts something out, by default at once."""
        self.now += pause
        self.reader.output(self.count, self.now, data)
        self.count += 1
        return self

    def keys(self, text: str) -> Player:
        """Types a text key by key, with the pauses of a person."""
        for number, char in enumerate(text):
            self.out(char, WAITS[number % len(WAITS)])
        return self

    def enter(self, rest: str = "") -> Player:
        return self.out("\r\n" + rest, 0.25)

    def told(self) -> list[str]:
        """The keys of each act, and the reason of each gap in angle brackets."""
        entries, _, _ = self.reader.finish()
        kept = [entry for _, entry in entries if not isinstance(entry, Line)]
        return [entry.keys if isinstance(entry, Act) else f"<{entry.reason}>" for entry in kept]

    def screens(self) -> list[str | None]:
        entries, last, _ = self.reader.finish()
        return [entry.before for _, entry in entries] + [last]


@pytest.fixture
def player() -> Player:
    return Player()


def at_bash(player: Player, typed: str, answer: str = "") -> Player:
    player.out(PASTE_ON + "$ ").keys(typed)
    return player.enter(PASTE_OFF + "\r" + answer)


def test_a_line_between_the_marks_of_bracketed_paste_is_an_act(player: Player) -> None:
    at_bash(at_bash(player, "ls", "a.txt\r\n"), "pwd", "/root\r\n").out(PASTE_ON + "$ ")
    assert player.told() == ["ls\r", "pwd\r"]
    assert player.screens() == ["$", "$ ls\na.txt\n$", "$ ls\na.txt\n$ pwd\n/root\n$"]


@pytest.mark.parametrize("typed", ["ls", "$"])
def test_a_prompt_drawn_after_a_pause_is_not_typed(player: Player, typed: str) -> None:
    player.out(PASTE_ON).out("dev$ ", 0.05).keys(typed).enter(f"{PASTE_OFF}\rok\r\n{PASTE_ON}").out("dev$ ", 0.05)
    assert player.told() == [f"{typed}\r"]
    assert player.screens() == ["dev$", f"dev$ {typed}\nok\ndev$"]


def test_without_a_prompt_the_first_key_is_typed(player: Player) -> None:
    player.out(PASTE_ON).keys("$1").enter(PASTE_OFF)
    assert player.told() == ["$1\r"]


def test_a_line_that_came_at_once_after_a_pause_is_an_act(player: Player) -> None:
    player.out(PASTE_ON + "$ ").out(f"make\r\n{PASTE_OFF}\rok\r\n{PASTE_ON}$ ", 0.5)
    assert player.told() == ["make\r"]


def test_what_the_line_holds_in_the_end_counts_not_how_it_got_there(player: Player) -> None:
    player.out(PASTE_ON + "$ ").keys("sl").out("\b\b\x1b[K", 0.4).keys("ls ").out("doc", 0.3)
    player.out("\r\na.doc  b.doc\r\n$ ls doc", 0.3).keys("s").out("\b\b\b", 0.2).enter(PASTE_OFF)
    assert player.told() == ["ls docs\r"]


def test_a_line_may_wrap(player: Player) -> None:
    text = "echo " + "0123456789" * 9
    at_bash(player, text)
    assert player.told() == [text + "\r"]


def test_a_prompt_on_the_right_is_not_typed(player: Player) -> None:
    player.out(f"$ \x1b[36G12:30\x1b[3G{PASTE_ON}").keys("ls").out(PASTE_OFF + "\r\r\n", 0.2)
    assert player.told() == ["ls\r"]


def test_a_prompt_drawn_anew_with_more_in_it_is_not_typed(player: Player) -> None:
    player.out(f"app $ {PASTE_ON}").out("\r\x1b[Japp (main) $ ", 0.2).keys("ls").out(PASTE_OFF + "\r\r\n", 0.2)
    assert player.told() == ["ls\r"]


def test_a_suggestion_behind_the_cursor_is_not_typed(player: Player) -> None:
    player.out(PASTE_ON + "$ ").out("g\x1b[90mit push\x1b[m\x1b[7D", 0.2).out("o\x1b[K", 0.2)
    player.out("\x1b[90m run\x1b[m\x1b[4D", 0.01).out("\x1b[K\r\n", 0.3).out(PASTE_OFF)
    assert player.told() == ["go\r"]


@pytest.mark.parametrize(("echo", "keys"), [("^C", "ab\x03"), ("\r\n", "ab\r")])
def test_an_interrupted_line_is_told_from_an_entered_one(player: Player, echo: str, keys: str) -> None:
    player.out(PASTE_ON + "$ ").keys("ab").out(echo + PASTE_OFF + "\r" + PASTE_ON + PASTE_OFF + "\r\r\n", 0.3)
    player.out(PASTE_ON + "$ ")
    assert player.told() == [keys]


def test_a_screen_cleared_at_the_prompt_is_an_act_of_its_own(player: Player) -> None:
    at_bash(player, "ls", "a\r\n").out(PASTE_ON + "$ ").out("\x1b[H\x1b[2J$ ", 0.5).keys("id").enter(PASTE_OFF)
    assert player.told() == ["ls\r", "\f", "id\r"]


def test_the_end_of_input_is_told_by_the_farewell_of_the_shell(player: Player) -> None:
    at_bash(player, "ls", "a\r\n").out(PASTE_ON + "$ ").out(PASTE_OFF + "\r\r\nexit\r\n", 0.5)
    assert player.told() == ["ls\r", "\x04"]


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


def test_a_prompt_within_which_another_stands_is_a_prompt(player: Player) -> None:
    at_bash(player, "su", "").out(f"{PASTE_ON}$ (root) # ").keys("id").enter(PASTE_OFF)
    assert player.told() == ["su\r", "id\r"]


def test_a_line_whose_prompt_is_gone_is_a_gap(player: Player) -> None:
    at_bash(player, "ls", "a\r\n").out(PASTE_ON + "$ ").keys("l").out("\r\x1b[K> l", 0.2).enter(PASTE_OFF)
    assert player.told() == ["ls\r", "<unclear_input>"]


def test_a_program_that_takes_keys_on_the_shells_screen_is_a_gap(player: Player) -> None:
    at_bash(player, "chat", "").out(PASTE_ON + "> ")
    for _ in range(100):
        player.out("\x1b[2A" + "x" * 700 + "\r\n> ", 0.1)
    player.out(PASTE_OFF + "\r\n").out(PASTE_ON + "$ ").keys("ls").enter(PASTE_OFF)
    assert player.told() == ["chat\r", "<unclear_input>", "ls\r"]


def test_a_full_screen_program_that_rests_is_a_gap_with_the_screen_it_rested_on(player: Player) -> None:
    at_bash(player, "vi a").out("\x1b[?1049h\x1b[2J\x1b[Htext", 0.1).out("\x1b[Hnext", 2).out("\x1b[Hlast", 2)
    player.out("\x1b[?1049l" + PASTE_ON + "$ ").keys("ls").enter(PASTE_OFF)
    assert player.told() == ["vi a\r", "<unrecorded_input>", "ls\r"]
    assert player.screens()[1] == "text"


def test_a_full_screen_program_that_never_rests_is_output(player: Player) -> None:
    at_bash(player, "flash").out("\x1b[?1049h\x1b[2J").out("a", 0.1).out("b", 0.1).out("\x1b[?1049l", 0.1)
    assert at_bash(player, "ls").told() == ["flash\r", "ls\r"]


def test_bracketed_paste_in_a_full_screen_program_marks_no_prompt(player: Player) -> None:
    at_bash(player, "vi").out("\x1b[?1049h" + PASTE_ON + "text").out("abc", 0.2).out("\r\n" + PASTE_OFF, 0.2)
    player.out("\x1b[?1049l" + PASTE_ON + "$ ")
    assert player.told() == ["vi\r"]


def test_marks_split_over_events_count_as_whole(player: Player) -> None:
    player.out("\x1b[?20").out("04h$ ").keys("ls").out("\r\n\x1b[?2", 0.2).out("004l\ra\r\n")
    assert player.told() == ["ls\r"]


def test_without_marks_a_line_typed_key_by_key_at_a_prompt_is_an_act(player: Player) -> None:
    player.out("me@box:~$ ").keys("ls").enter("a\r\nme@box:~$ ").keys("cd b").enter("me@box:~/b$ ").keys("x").enter()
    assert player.told() == ["ls\r", "cd b\r", "x\r"]


def test_at_a_known_prompt_a_pasted_line_and_an_empty_one_count(player: Player) -> None:
    player.out("$ ").keys("ls").enter("a\r\n$ ").out("make all\r\nok\r\n$ ", 0.6).out("\r\n$ ", 0.6)
    player.out("git push", 0.5).out("\r\n", 0.5).out("done\r\n$ ")
    assert player.told() == ["ls\r", "make all\r", "\r", "git push\r"]


def test_after_output_without_a_line_end_the_prompt_is_known_still(player: Player) -> None:
    player.out("$ ").keys("ls").enter("a\r\n$ ").keys("printf x").enter("x$ ").out("make\r\nok\r\n$ ", 0.5)
    assert player.told() == ["ls\r", "printf x\r", "make\r"]


def test_answers_to_a_program_are_acts(player: Player) -> None:
    player.out("$ ").keys("quiz").enter("Your name? ").keys("Ann").enter("Question: 2+2\r\nYour answer: ")
    player.keys("5").out("\b \b", 0.3).keys("4").enter("Pick one:\r\n").keys("a").enter("Correct!\r\n$ ")
    assert player.told() == ["quiz\r", "Ann\r", "4\r", "a\r"]


@pytest.mark.parametrize("events", [["y\r\nfine\r\n"], ["y", "\r\nfine\r\n"]])
def test_a_single_key_may_answer_without_enter(player: Player, events: list[str]) -> None:
    player.out("$ ").keys("go").enter("Sure? [y/N] ").out(events[0], 0.7)
    for event in events[1:]:
        player.out(event)
    assert player.out("$ ").keys("ls").enter().told() == ["go\r", "y", "ls\r"]


def test_typing_without_a_prompt_counts_if_its_rhythm_is_a_persons(player: Player) -> None:
    player.out("$ ").keys("cat > a").enter().keys("first line").enter()
    assert player.told() == ["cat > a\r", "first line\r"]


def test_few_keys_without_a_prompt_are_a_gap(player: Player) -> None:
    player.out("$ ").keys("cat > a").enter().keys("ab").enter()
    assert player.told() == ["cat > a\r", "<unclear_input>"]


def test_a_hidden_line_is_a_gap(player: Player) -> None:
    player.out("$ ").keys("su").enter("Name: ").keys("ann").enter("Password: ").out("\r\n", 2).out("$ ").keys(
        "id"
    ).enter()
    assert player.told() == ["su\r", "ann\r", "<hidden_input>", "id\r"]


def test_interrupting_keys_are_acts_at_any_time(player: Player) -> None:
    player.out("$ ").keys("make").enter("compiling\r\n").out("^C", 0.7).out("\r\n$ ")
    player.keys("sleep 9").enter().out("^Z\r\n[1]+ Stopped\r\n$ ", 0.6)
    assert player.told() == ["make\r", "\x03", "sleep 9\r", "\x1a"]


def test_completions_listed_below_the_line_do_not_enter_it(player: Player) -> None:
    player.out("$ ").keys("id").enter("root\r\n$ ").keys("ls d").out("\r\ndev  doc\r\n$ ls d", 0.4).keys("ev").enter()
    assert player.told() == ["id\r", "ls dev\r"]


def test_leaving_a_shell_that_writes_exit_at_its_prompt_is_the_end_of_input(player: Player) -> None:
    player.out("$ ").keys("sh").enter("$ ").out("exit\r\n", 0.6).out("$ ").keys("exit").enter("exit\r\n")
    assert player.told() == ["sh\r", "\x04", "exit\r"]


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


def test_a_line_that_was_not_entered_is_no_act_and_on_no_screen(player: Player) -> None:
    at_bash(player, "ls", "a\r\n").out(PASTE_ON + "$ ").keys("rm -r")
    assert player.told() == ["ls\r"]
    assert player.screens()[-1] == "$ ls\na\n$"


def test_statuses_are_handed_out_before_the_act_that_follows_them(player: Player) -> None:
    at_bash(player, "false").out("\x1b]133;D;1\x07")
    at_bash(player, "ls").out("\x1b]133;D;0\x07")
    entries, _, _ = player.reader.finish()
    assert [statuses for statuses, _ in entries] == [[], [1]]


def test_gaps_hold_a_place_and_a_time(player: Player) -> None:
    player.out("$ ").keys("su").enter("Password: ").out("\r\n", 2)
    entries, _, _ = player.reader.finish()
    gap = entries[-1][1]
    assert isinstance(gap, Gap)
    assert (gap.offset, gap.at, gap.before) == (player.count - 1, player.now, "$ su\nPassword:")


_marks = [PASTE_ON, PASTE_OFF, "\x1b[?1049h", "\x1b[?1049l", "\x1b[H\x1b[2J", "\x1b", "[?20", "04h"]
_texts = ["a", "l", " ", "$ ", "ls\r\n", "x" * 30, "Password: ", "exit", "⠋", "漢"]
_pieces = st.sampled_from([*_marks, *_texts, "\r\n", "\r", "\b \b", "^C", "\x1b[K", "\x1b[A"])


@settings(max_examples=80, deadline=None)
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
