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


def test_files_are_joined_by_stem_and_named_by_their_folder_if_they_are_alone_in_it():
    logs = list(CONNECTOR.join(["a/x.in", "a/x.out", "a/x.timing", "b/typescript", "b/timing", "c/typescript"]))
    assert [(log.uri, sorted(log.members), log.anchor) for log in logs] == [
        ("a", ["x.in", "x.out", "x.timing"], "x.out"),
        ("b", ["timing", "typescript"], "typescript"),
    ]


def test_several_recordings_of_a_folder_are_told_apart_by_their_stems():
    paths = [
        "a/y.timing",
        "a/y.typescript",
        "a/x.timing",
        "a/x_io.log",
        "a/x_io.timing",
        "a/x.typescript",
        "z.tm",
        "z.log",
    ]
    logs = list(CONNECTOR.join(paths))
    assert [(log.uri, log.anchor) for log in logs] == [
        ("a/y", "y.typescript"),
        ("a/x", "x.typescript"),
        ("a/x_io", "x_io.log"),
        ("z", "z.log"),
    ]
    assert logs[0].members == {"y.timing": "a/y.timing", "y.typescript": "a/y.typescript"}


def test_a_timing_that_adds_up_to_all_recordings_is_shared_out_among_them():
    block = HEAD + "".join(OUTPUTS) + DONE
    found, rejects = parsed(x_typescript=block + block, x_timing=timing(OUTPUTS + OUTPUTS))
    assert [keys(one) for one in found] == [["pwd\n", "exit\n"]] * 2
    assert rejects == []
    assert all(step.duration_s is not None for one in found for step in one.steps)


def test_two_recordings_of_the_same_second_have_ids_of_their_own():
    block = HEAD + "".join(OUTPUTS) + DONE
    found, _ = parsed(x_typescript=block + block, x_timing=timing(OUTPUTS))
    assert len({one.native_id for one in found}) == 2


def test_a_timing_of_the_last_recording_leaves_the_earlier_ones_without_times():
    block = HEAD + "".join(OUTPUTS) + DONE
    other = HEAD + PROMPT + "ls" + ENTER + PROMPT + DONE
    found, rejects = parsed(x_typescript=other + block, x_timing=timing(OUTPUTS))
    assert [keys(one) for one in found] == [["ls\n"], ["pwd\n", "exit\n"]]
    assert rejects == []
    first, last = found[0].steps[0], found[1].steps[0]
    assert (first.duration_s, first.started_at) == (None, None)
    assert "duration" not in first.action.text
    assert last.duration_s == pytest.approx(1.8)


def test_a_timing_that_fits_nothing_is_refused_and_the_recording_read_without_it():
    found, rejects = parsed(x_typescript=HEAD + "".join(OUTPUTS) + DONE, x_timing="0.5 10\n")
    assert [one.reason for one in rejects] == ["timing_mismatch"]
    assert keys(found[0]) == ["pwd\n", "exit\n"]
    assert found[0].steps[0].duration_s is None


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


def test_a_header_that_was_only_shown_on_the_screen_begins_no_recording():
    shown = [PROMPT, "cat typescript" + ENTER, "Script started on 2020-01-01 00:00:00+00:00 [x]\r\n" + PROMPT]
    found, _ = parsed(x_typescript=HEAD + "".join(shown) + DONE, x_timing=timing(shown))
    assert len(found) == 1
    assert keys(found[0]) == ["cat typescript\n"]


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
