"""Recordings of script(1): how files are joined, what the timing covers, and what must hold where it does not fit."""

import json

import pytest

from tests.rows import split_records
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.recordings.script import Script, prompts, typescripts
from trajmill.connectors.recordings.script import timing as script_timing
from trajmill.schemas import ParseError, Reject, Trajectory

CONNECTOR = Script()
PROMPT = "\x1b[?2004hann@box:~$ "
ENTER = "\r\n\x1b[?2004l\r"
HEAD = 'Script started on 2031-01-01 00:00:00+00:00 [TERM="xterm" COLUMNS="40" LINES="10"]\n'
DONE = '\nScript done on 2031-01-01 00:00:09+00:00 [COMMAND_EXIT_CODE="0"]\n'
OUTPUTS = [PROMPT, "pwd" + ENTER, "/home\r\n" + PROMPT, "exit" + ENTER + "exit\r\n"]


def timing(outputs: list[str]) -> str:
    return "".join(f"0.9 {len(output.encode())}\n" for output in outputs)


def parsed(**members: str | bytes) -> tuple[list[Trajectory], list[Reject]]:
    content = {
        name.replace("_", "."): value.encode() if isinstance(value, str) else value for name, value in members.items()
    }
    return split_records(CONNECTOR.parse(MemoryBlob("log", content)))


def keys(trajectory: Trajectory) -> list[str]:
    return [json.loads(step.action.text)[0]["keystrokes"] for step in trajectory.steps]


def test_a_killed_recording_is_cut_where_its_bytes_end():
    text = HEAD + "".join(OUTPUTS)[:-12]
    trajectories, rejects = parsed(x_typescript=text, x_timing=timing(OUTPUTS))
    assert [(reject.reason, reject.offset) for reject in rejects] == [
        ("truncated", len(HEAD) + len("".join(OUTPUTS[:3])))
    ]
    assert keys(trajectories[0]) == ["pwd\n"]
    assert trajectories[0].steps[-1].truncated
    last = trajectories[0].steps[-1].next_observation
    assert last is not None
    assert last.truncation == "recorder"


@pytest.mark.parametrize("timed", [True, False])
def test_output_that_is_read_in_pieces_is_the_same_session(timed, monkeypatch):
    shown = [OUTPUTS[0], "cat é" + ENTER, "é€ and more words of output " * 9 + "\r\n" + PROMPT, *OUTPUTS[1:]]
    block = HEAD + "".join(shown) + DONE
    members = {"x_typescript": block + block, **({"x_timing": timing(shown + shown)} if timed else {})}
    whole, _ = parsed(**members)
    monkeypatch.setattr(prompts, "PIECE_BYTES", 40)
    monkeypatch.setattr(script_timing, "PIECE_BYTES", 7)
    monkeypatch.setattr(typescripts, "_CHUNK", 100)
    pieces, rejects = parsed(**members)
    assert rejects == []
    assert len(whole) == 2
    for expected, trajectory in zip(whole, pieces, strict=True):
        assert list(expected.steps) == list(trajectory.steps)
        assert expected.native_id == trajectory.native_id


def test_a_file_of_too_many_recordings_is_refused(monkeypatch):
    monkeypatch.setattr(typescripts, "RECORDINGS", 3)
    block = HEAD + "".join(OUTPUTS) + DONE
    assert len(parsed(x_typescript=block * 3)[0]) == 3
    with pytest.raises(ParseError) as caught:
        parsed(x_typescript=block * 4)
    assert (caught.value.reason, caught.value.offset) == ("too_many_recordings", 3 * len(block))


TITLE = "\x1b]0;ann@box: ~\x07"


def untimed(text: str, head: str = HEAD) -> list[tuple[str, str | None]]:
    """(keys, answer) of each row of a typescript alone."""
    trajectories, rejects = parsed(x_typescript=head + text + DONE)
    assert rejects == []
    assert '"source": "inferred"' in (trajectories[0].steps[0].action.arguments or "")
    assert {step.duration_s for step in trajectories[0].steps} == {None}
    shown = [step.next_observation for step in trajectories[0].steps]
    return list(
        zip(
            keys(trajectories[0]),
            [None if observation is None else observation.content for observation in shown],
            strict=True,
        )
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("[ann@box mill]$ ", "[ann@box lamp]$ "),
        (f"{TITLE}\x1b[32mann@box\x1b[0m:~$ ", f"{TITLE}\x1b[32mann@box\x1b[0m:~/lamp$ "),
        ("bash-4.4$ ", "bash-4.4$ "),
        ("(venv) ann@box:~$ ", "(venv) ann@box:~/lamp$ "),
        ("mill% ", "mill% "),
        ("❯ ", "❯ "),
    ],
)
def test_without_timing_a_prompt_that_comes_back_tells_where_a_command_begins(first, second):
    rows = untimed(f"{first}cd lmap\b \b\b \b\b \bamp\r\n{second}ls\r\nwick  oil\r\n{second}exit\r\nexit\r\n")
    assert [typed for typed, _ in rows] == ["cd lamp\n", "ls\n", "exit\n"]
    shown = rows[1][1] or ""
    assert shown.splitlines()[-2] == "wick  oil"


def test_a_prompt_behind_output_without_a_line_end_is_told_by_the_title_before_it():
    prompt = f"{TITLE}ann@box:~$ "
    assert [typed for typed, _ in untimed(f"{prompt}printf lit\r\nlit{prompt}pwd\r\n/home\r\n")] == [
        "printf lit\n",
        "pwd\n",
    ]


@pytest.mark.parametrize("feed", ["\n", "\r\n"])
def test_a_typescript_whose_line_ends_were_converted_is_read(feed):
    text = (HEAD + "$ pwd\n/home\n$ exit\nexit\n" + DONE).replace("\n", feed)
    trajectories, rejects = parsed(x_typescript=text)
    assert rejects == []
    assert keys(trajectories[0]) == ["pwd\n", "exit\n"]
    seen = trajectories[0].steps[0].next_observation
    assert seen is not None
    assert (seen.content or "").splitlines() == ["$ pwd", "/home", "$"]
