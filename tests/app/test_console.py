"""Nothing that is printed from data reaches the terminal as a control, whatever command prints it."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
import unicodedata

import pytest
from rich.panel import Panel
from rich.progress import Progress
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from tests.pipelines.hostile import GOOD
from trajmill.app.console import Printer, shown

ATTACK = (
    "\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x1b\\\x1bP1$r\x1b\\\x1b[2J\x1b[H\x1b[8mhidden\x9b31m\x90dcs\x9c\x85 gone\rback"
    "\x08\x0b\x0c\x7f\u202eright\u2066\u2069\u200b\u200d\u2060\u00ad\ufeff\u2028\U000e0041 [bold]markup[/] [link=http://x]y"
)
NAMES = (
    b"\x1b]0;title\x07.jsonl",
    b"caf\xe9 \x9b31m.jsonl",
    b"two\nlines\tand\rback.jsonl",
    b"[bold]markup[link=x].jsonl",
    "\u202elnosj.jsonl".encode(),
    b":smile:.jsonl",
)
OF_RICH = re.compile(rb"\x1b\[(?:[0-79]|[1-9][0-9;]*|0)?m|\x1b\[\d*[ABCDGK]|\x1b\[\?25[lh]|\r+\n|\r(?=\x1b\[2K)")
"""Colours (no 8, which hides), moves of the cursor beside a bar, and ends of lines as a terminal makes them."""


def remaining(output: bytes) -> str:
    """What a terminal got, without what rich itself makes."""
    return OF_RICH.sub(lambda met: b"\n" if met[0].endswith(b"\n") else b"", output).decode("utf-8")


def is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character != "\n"


def written(value):
    """The JSON value with the attack behind every longer text, name of a tool, model and place."""
    if isinstance(value, dict):
        return {
            key: item + ATTACK if key in ("name", "model", "cwd", "gitBranch") and item else written(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [written(item) for item in value]
    return value + ATTACK if isinstance(value, str) and len(value) > 16 and " " in value else value


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A folder of logs with hostile contents and names, and a run's folder made of one, with a hostile name."""
    base = tmp_path_factory.mktemp("door")
    raw = base / "raw"
    raw.mkdir()
    log = b"".join(json.dumps(written(json.loads(line))).encode() + b"\n" for line in GOOD.splitlines())
    (raw / "log.jsonl").write_bytes(log)
    (raw / "cut.jsonl").write_bytes(log[:-30] + b"\x9b2J\xff")
    (raw / "notes.txt").write_bytes(ATTACK.encode() + b"\x9b2J\xff")
    (raw / "shown.cast").write_text(
        '{"version": 2, "width": 80, "height": 24}\n[0.1, "o", ' + json.dumps(ATTACK) + "]\n"
    )
    names = base / "names"
    names.mkdir()
    for name in NAMES:
        (names / os.fsdecode(name)).write_bytes(GOOD)
    out = base / "out\x1b]0;title\x07[bold]"
    assert ran("run", "terminal", "--raw", raw / "log.jsonl", "--out", out, "--stop-after", "judge")[0] == 0
    return base, out


SEVERAL = """
import json, os, sys
from trajmill.app.cli.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    try:
        main()
    except SystemExit:
        pass
    except Exception:
        sys.excepthook(*sys.exc_info())
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(1, b"=====")
"""
"""One process of the program for several command lines, as starting it takes seconds."""


def answers(command, commands, **environment) -> list[bytes]:
    """What `trajmill` writes on stdout and stderr, to what `command` makes of them, for each command line."""
    words = json.dumps([[str(word) for word in words] for words in commands])
    done = subprocess.run(
        command([sys.executable, "-c", SEVERAL, words]),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | environment,
        check=True,
    )
    *outputs, rest = done.stdout.split(b"=====")
    assert not rest
    assert len(outputs) == len(commands)
    return outputs


def trajmill(*commands, **environment) -> list[bytes]:
    return answers(lambda command: command, commands, **environment)


def on_terminal(command: list[str]) -> list[str]:
    return ["script", "-qec", shlex.join(command), "/dev/null"]


WORDS = {
    "sniff": lambda base, out: ("sniff", base / "raw"),
    "sniff_names": lambda base, out: ("sniff", base / "names"),
    "plan": lambda base, out: ("plan", "terminal", "--raw", base / "raw"),
    "plan_names": lambda base, out: ("plan", "terminal", "--raw", base / "names"),
    "inspect": lambda base, out: ("inspect", base / "raw" / "log.jsonl"),
    "inspect_run": lambda base, out: ("inspect", out),
    "inspect_verdicts": lambda base, out: ("inspect", out / "verdicts"),
    "run": lambda base, out: ("run", "terminal", "--raw", base / "raw", "--out", f"{out}-1"),
    "run_names": lambda base, out: ("run", "terminal", "--raw", base / "names", "--out", f"{out}-2"),
    "export": lambda base, out: ("export", out, "--out", f"{out}-atif"),
    "nothing_there": lambda base, out: ("sniff", base / os.fsdecode(b"nowhere" + NAMES[0] + NAMES[1])),
    "no_such_recipe": lambda base, out: ("plan", ATTACK.replace("/", ""), "--raw", base / "raw"),
    "no_such_option": lambda base, out: ("sniff", f"--{ATTACK}"),
}


@pytest.fixture(scope="module")
def sent(hostile):
    """What a terminal gets of each command."""
    commands = [words(*hostile) for words in WORDS.values()]
    return dict(zip(WORDS, answers(on_terminal, commands, TERM="xterm-256color", COLUMNS="100"), strict=True))


@pytest.mark.parametrize("name", WORDS)
def test_a_terminal_gets_no_control_but_those_of_rich(sent, name):
    assert sent[name]
    assert sorted({repr(character) for character in remaining(sent[name]) if is_control(character)}) == []


def test_what_a_log_holds_is_shown(sent):
    output = remaining(sent["inspect"]).replace("\n", "")
    for part in (
        r"\x1b]52;c;ZXZpbA==\x07",
        r"\x9b31m",
        r"\rback",
        r"\x0b\x0c",
        r"\u202e",
        r"\U000e0041",
        "[bold]markup[/]",
    ):
        assert part in output


def test_names_are_shown_byte_by_byte_in_one_line(sent):
    lines = remaining(sent["sniff_names"]).splitlines()
    wanted = (
        r"\x1b]0;title\x07.jsonl: ",
        r"caf\xe9 \x9b31m.jsonl: ",
        r"two\nlines\tand\rback.jsonl: ",
        "[bold]markup[link=x].jsonl: ",
        r"\u202elnosj.jsonl: ",
        ":smile:.jsonl: ",
    )
    for start in wanted:
        assert any(start[:-2] in line for line in lines), start
    assert len(lines) == len(NAMES) + 1  # the summary


def test_no_encoding_of_the_terminal_ends_the_program(hostile):
    base, out = hostile
    commands = (("sniff", base / "names"), ("inspect", out), ("sniff", base / os.fsdecode(NAMES[1]) / "x"))
    for output in trajmill(*commands, PYTHONIOENCODING="ascii", LC_ALL="C"):
        assert b"Traceback" not in output
        assert output.decode("ascii")


def test_every_control_format_and_surrogate_is_shown():
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert re.fullmatch(r"\\(?:[ntr]|x\w\w|u\w{4}|U\w{8})", shown(chr(code))), hex(code)


def test_whatever_is_printed_passes_the_door():
    out = io.StringIO()
    printer = Printer(out)
    table = Table(ATTACK, title=ATTACK, caption=ATTACK)
    table.add_row(ATTACK)
    table.add_row(Text.from_ansi("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"))
    for item in (
        ATTACK,
        Text(ATTACK),
        table,
        Panel(ATTACK, title=ATTACK),
        Syntax(ATTACK, "python"),
        [ATTACK],
        {1: ATTACK},
    ):
        printer.print(item, markup=True, emoji=True)
    printer.rule(ATTACK)
    printer.log(ATTACK)
    printer.out(ATTACK)
    printer.document(ATTACK)
    with Progress(console=printer) as progress:
        progress.add_task(ATTACK)
    assert [character for character in out.getvalue() if is_control(character)] == []
    assert "http://x]y" in out.getvalue()


def test_a_link_in_a_style_is_not_sent():
    out = io.StringIO()
    printer = Printer(out)
    printer._force_terminal = True
    printer.print(Text("here", "link http://x"))
    assert "http" not in out.getvalue()


def test_what_others_say_on_stderr_passes_the_door():
    code = (
        "import sys, logging; from trajmill.app.console import guard; guard(); guard()\n"
        "attack = '\\x1b]0;t\\x07\\x9b2J\\u202e\\udc9b'\n"
        "print('\\x1b[31mprinted\\x1b[0m' + attack, file=sys.stderr)\n"
        "logging.warning('logged ' + attack)\n"
        "sys.stderr.write('begun '); sys.stderr.flush(); sys.stderr.write('ended\\n')\n"
        "raise ValueError('raised ' + attack)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    errors = done.stderr.decode()
    assert [character for character in errors if is_control(character)] == []
    shown_attack = r"\x1b]0;t\x07\x9b2J\u202e\x9b"
    for line in (
        f"printed{shown_attack}",
        f"logged {shown_attack}",
        "begun ended",
        f"ValueError: raised {shown_attack}",
    ):
        assert line in errors


def test_a_table_is_no_wider_than_the_terminal_and_cuts_no_number():
    stream = io.StringIO()
    rows = [("a" * 60, "1,234,567,890", "x" * 50, "9,876,543,210", "111,222,333,444")]
    heads = ("name", "first", "text", "second", "third")
    Printer(stream).table(heads, rows, texts=(0, 2), dropped=("third", "second"))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    for number, is_shown in zip((1, 3, 4), (True, True, False), strict=True):
        assert any(rows[0][number] in line for line in lines) == is_shown
    assert lines[-1] == "not shown at 80 columns: third (--json has all)"
