"""Recordings of script(1): how files are joined, what the timing covers, and what must hold where it does not fit."""

import json

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.recordings import script
from trajmill.connectors.recordings.script import Script, typescripts
from trajmill.connectors.recordings.script import timing as script_timing
from trajmill.schemas import ParseError, Reject, Trajectory

CONNECTOR = Script()
PROMPT = "\x1b[?2004hann@box:~$ "
ENTER = "\r\n\x1b[?2004l\r"
HEAD = 'Script started on 2031-01-01 00:00:00+00:00 [TERM="xterm" COLUMNS="40" LINES="10"]\n'
DONE = '\nScript done on 2031-01-01 00:00:09+00:00 [COMMAND_EXIT_CODE="0"]\n'
OUTPUTS = [PROMPT, "pwd" + ENTER, "/home\r\n" + PROMPT, "exit" + ENTER + "exit\r\n"]


def timing(outputs: list[str]) -> str:
    return "".join(f"0.9 {len(one.encode())}\n" for one in outputs)


def parsed(**members: str | bytes) -> tuple[list[Trajectory], list[Reject]]:
    content = {name.replace("_", "."): one.encode() if isinstance(one, str) else one for name, one in members.items()}
    found = list(CONNECTOR.parse(MemoryBlob("log", content)))
    return [one for one in found if isinstance(one, Trajectory)], [one for one in found if isinstance(one, Reject)]


def keys(trajectory: Trajectory) -> list[str]:
    return [json.loads(step.action.text)[0]["keystrokes"] for step in trajectory.steps]


def test_a_killed_recording_is_cut_where_its_bytes_end():
    text = HEAD + "".join(OUTPUTS)[:-12]
    found, rejects = parsed(x_typescript=text, x_timing=timing(OUTPUTS))
    assert [(one.reason, one.offset) for one in rejects] == [("truncated", len(HEAD) + len("".join(OUTPUTS[:3])))]
    assert keys(found[0]) == ["pwd\n"]
    assert found[0].steps[-1].truncated
    last = found[0].steps[-1].next_observation
    assert last is not None
    assert last.truncation == "recorder"


def test_input_of_which_there_is_no_log_is_not_made_up():
    rows = [f"O 0.9 {len(OUTPUTS[0])}", "I 0.5 4", *(f"O 0.9 {len(one.encode())}" for one in OUTPUTS[1:])]
    found, _ = parsed(x_out=HEAD + "".join(OUTPUTS) + DONE, x_timing="\n".join(rows) + "\n")
    assert keys(found[0]) == ["pwd\n", "exit\n"]
    assert '"source": "echo"' in (found[0].steps[0].action.arguments or "")


def test_a_prompt_of_unknown_form_is_not_taken_for_typed_text():
    text = HEAD + "\x1b[?2004h➜  mill git:(main) ls" + ENTER + "a\r\n" + DONE
    with pytest.raises(ParseError) as caught:
        parsed(x_typescript=text, x_timing="nothing")
    assert caught.value.reason == "bad_timing"
    with pytest.raises(ParseError) as caught:
        list(CONNECTOR.parse(MemoryBlob("log", text.encode())))
    assert caught.value.reason == "no_input"


@pytest.mark.parametrize("timed", [True, False])
def test_output_that_is_read_in_pieces_is_the_same_session(timed, monkeypatch):
    shown = [OUTPUTS[0], "cat é" + ENTER, "é€ and more words of output " * 9 + "\r\n" + PROMPT, *OUTPUTS[1:]]
    block = HEAD + "".join(shown) + DONE
    members = {"x_typescript": block + block, **({"x_timing": timing(shown + shown)} if timed else {})}
    whole, _ = parsed(**members)
    monkeypatch.setattr(script, "PIECE_BYTES", 40)
    monkeypatch.setattr(script_timing, "PIECE_BYTES", 7)
    monkeypatch.setattr(typescripts, "_CHUNK", 100)
    pieces, rejects = parsed(**members)
    assert rejects == []
    assert len(whole) == 2
    for one, other in zip(whole, pieces, strict=True):
        assert list(one.steps) == list(other.steps)
        assert one.native_id == other.native_id


def test_a_file_of_too_many_recordings_is_refused(monkeypatch):
    monkeypatch.setattr(typescripts, "RECORDINGS", 3)
    block = HEAD + "".join(OUTPUTS) + DONE
    assert len(parsed(x_typescript=block * 3)[0]) == 3
    with pytest.raises(ParseError) as caught:
        parsed(x_typescript=block * 4)
    assert (caught.value.reason, caught.value.offset) == ("too_many_recordings", 3 * len(block))
