"""Lines that a harness puts around answers are told by what they follow; what programs print is not taken for them."""

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tests.make import batch_of, call, steps_of
from trajmill.quality.answer_edges import (
    PLACES,
    EdgeLines,
    edge_records,
    find_example,
    make_pattern,
    make_skeleton,
)
from trajmill.quality.harness_text import (
    count_framed,
    count_skeletons,
    find_frames,
)
from trajmill.quality.variety import Varying
from trajmill.schemas import Agent, Trajectory

PROGRAMS = ("git status", "ls -l", "pytest -q", "cat notes", "npm test", "make all", "df -h", "ps aux")


Measured = tuple[pa.Table, pa.Table]


def edges_of(answers: list[tuple[str, str]], agent: str | None = "crane") -> Measured:
    """The edges of answers to commands, as of one agent's session, and what they are about."""
    steps = steps_of(*(answer for _, answer in answers), first="$")
    steps = [
        replace(step, action=call("bash", command=command)) for step, (command, _) in zip(steps, answers, strict=True)
    ]
    batch = batch_of(Trajectory("s", "terminal", steps, agent=Agent(agent, "1.0")))
    return pa.Table.from_batches(EdgeLines().add(batch)), pa.Table.from_batches(Varying().add(batch))


def found(answers: list[tuple[str, str]]) -> tuple[list[tuple[str, int]], list[int]]:
    """Place and number of answers of each frame, and the characters of each answer that stand in frames."""
    edges, variety = edges_of(answers)
    ((group, (total, counts)),) = count_skeletons(edges, variety, 0).items()
    listed = find_frames(total, counts)
    return [(PLACES[frame["place"]], int(frame["answers"])) for frame in listed], count_framed(
        edges, {group: listed}
    ).tolist()


def test_a_line_behind_every_answer_is_a_frame_and_all_of_it_is_marked():
    answers = [(command, f"{command[::-1]}\n[done in {n}1 ms]") for n, command in enumerate(PROGRAMS)]
    frames, marked = found(answers)
    assert ("tail", 8) in frames
    assert marked == [len("[done in 11 ms]")] * 8


def test_what_one_program_prints_each_time_is_no_frame():
    answers = [("pytest -q", f"{n} passed in 0.1{n}s") for n in range(20)] + [
        (program, program) for program in PROGRAMS
    ]
    frames, marked = found(answers)
    assert frames == []
    assert sum(marked) == 0


def test_what_one_program_prints_behind_different_programs_is_no_frame():
    tests = [(f"{command} | tail; cargo test", f"{command[::-1]}\ntest result: ok") for command in PROGRAMS]
    others = [(command, f"{command[::-1]} {n}") for n in range(2) for command in PROGRAMS]
    assert found(tests + others)[0] == []
    always = [(f"{command}; cargo test", f"{answer}\ntest result: ok") for command, answer in others]
    assert ("tail", 24) in found([*tests, *always])[0]


def test_prompts_of_a_terminal_are_no_frames_and_what_stands_before_them_is():
    answers = [
        (command, f"Output follows:\nuser@mill:~$ {command}\n{command[::-1]}\nuser@mill:~$ ") for command in PROGRAMS
    ]
    frames, marked = found(answers)
    assert frames == [("head", 8)]
    assert marked == [len("Output follows:")] * 8


def test_only_lines_that_answers_to_several_calls_have_are_looked_past():
    def deepest(text: str) -> int:
        answers = [(command, text.format(command[::-1])) for command in PROGRAMS for _ in range(2)]
        return int(edge_records(edges_of(answers)[0])[1]["depth"].max())

    assert deepest("{0} said\nWords of the program\nmore of them\nsaid {0}") == 0
    assert deepest("Result of the call:\n{0} said\nmore of them\nsaid {0}") == 1
    assert deepest("Result of the call:\n--\n{0} said\nmore of them\nsaid {0}") == 2


def test_tags_that_close_what_a_line_holds_are_no_frames():
    assert found([(command, f"{command[::-1]} <b>mill</b>") for command in PROGRAMS])[0] == []


def test_no_more_answers_have_a_frame_than_its_tools_gave():
    batches = []
    for tool, line in (("bash", "[done]"), ("shell", "[finished]")):
        steps = steps_of(*(f"{command[::-1]}\n{line} now" for command in PROGRAMS), first="$")
        calls = [call(tool, command=command) for command in PROGRAMS]
        steps = [replace(step, action=action) for step, action in zip(steps, calls, strict=True)]
        batches.append(batch_of(Trajectory(tool, "terminal", steps, agent=Agent("crane", "1.0"))))
    edges = pa.Table.from_batches([part for batch in batches for part in EdgeLines().add(batch)])
    variety = pa.Table.from_batches([part for batch in batches for part in Varying().add(batch)])
    ((_, counts),) = count_skeletons(edges, variety, 0).items()
    assert {(int(frame["answers"]), int(frame["among"])) for frame in find_frames(*counts)} == {(8, 8)}


def test_a_line_that_a_few_of_many_programs_print_is_no_frame():
    words = [f"{first}{second}{first}" for first in "abcdefgh" for second in "stuvwxyz"]
    others = [(f"{word} run", f"{word * 2} said") for word in words]
    shared = [(command, f"import os\n{command[::-1]}") for command in PROGRAMS[:5] for _ in range(8)]
    assert found(others + shared)[0] == []


def test_a_line_of_the_program_between_it_and_the_edge_keeps_a_frame_from_counting():
    answers = [(command, f"Result of the call:\n{command[::-1]}") for command in PROGRAMS]
    _, marked = found([*answers, ("uname -a", "kernel words here\nResult of the call:\nmore")])
    assert marked[:8] == [len("Result of the call:")] * 8
    assert marked[8] == 0


def test_words_of_the_call_times_and_paths_do_not_tell_frames_apart():
    answers = [
        (command, f"[/home/u{n}/work] $ {command}\n2026-01-0{n + 1}T10:00:00Z call {n}f3a finished\n{command[::-1]}")
        for n, command in enumerate(PROGRAMS)
    ]
    frames, marked = found(answers)
    assert ("head", 8) in frames
    assert all(size == answer.rindex("\n") - 1 for size, (_, answer) in zip(marked, answers, strict=True))


def test_each_edge_has_the_skeleton_and_the_place_of_its_line_whatever_digits_the_lines_hold():
    lines = [
        "Sun-12 was said",
        "Sun-13 was said",
        "第3行 of the text",
        "第4行 of the text",
        "call 1 ran",
        "call 22 ran",
    ]
    answers = [(f"run {line}", f"Result: {line}\n{line} [took 5 s]\nuser@mill:~$") for line in lines]
    steps = steps_of(*(answer for _, answer in answers), first="$")
    batch = batch_of(Trajectory("s", "terminal", steps, agent=Agent("crane", "1.0")))
    transitions = batch.to_pylist()
    numbers = {}
    for row, edge in zip(*edge_records(pa.Table.from_batches(EdgeLines().add(batch))), strict=True):
        _, line = find_example(transitions[row], int(edge["place"]), int(edge["skeleton"]))
        assert line == answers[row][1][edge["begin"] : edge["begin"] + edge["size"]]
        numbers[line] = int(edge["skeleton"])
    of_first_lines = [numbers[f"Result: {line}"] for line in lines]
    assert len(set(of_first_lines)) == 5
    assert of_first_lines[4] == of_first_lines[5]


@pytest.mark.parametrize("answer", ['{"status": "ok", "of": 1}', "[1, 2]"])
def test_members_of_json_answers_are_no_lines_of_a_harness(answer):
    assert not edges_of([(command, answer) for command in PROGRAMS])[0]["group"].to_numpy().any()


def test_recordings_of_people_are_not_looked_at():
    answers = [(command, f"{command[::-1]}\nuser@host says hello") for command in PROGRAMS]
    assert not edges_of(answers, agent=None)[0]["group"].to_numpy().any()


def test_the_frames_of_one_corpus_are_the_same_in_one_unit_and_in_several():
    answers = [(command, f"{command[::-1]}\n[done in {n}1 ms]") for n, command in enumerate(PROGRAMS)] * 2
    ((_, whole),) = count_skeletons(*edges_of(answers), 0).items()
    halves = [
        next(iter(count_skeletons(*edges_of(half), n).values())) for n, half in enumerate((answers[:8], answers[8:]))
    ]
    joined = [np.concatenate(half) for half in zip(*halves, strict=True)]
    names = ["skeleton", "place", "answers", "among", "kinds"]
    assert find_frames(*whole)[names].tolist() == find_frames(*joined)[names].tolist() != []


@pytest.mark.parametrize(
    "line",
    ["[done x7f2 after 31 ms]", "Session saved at /tmp/a1/b.log (Mon)", "  tokens left: 12,345", "call \x01 (3.5 s)"],
)
def test_the_pattern_of_a_skeleton_matches_the_line_it_was_made_of(line):
    skeleton = make_skeleton(line)
    assert skeleton is not None
    assert re.search(make_pattern(skeleton), line)
    assert not re.search(make_pattern(skeleton), "another line altogether")


def test_an_example_is_the_line_as_it_stands():
    answers = [(command, f"{command[::-1]}\n[done in {n}1 ms]") for n, command in enumerate(PROGRAMS)]
    steps = steps_of(answers[0][1], first="$")
    batch = batch_of(Trajectory("s", "terminal", steps, agent=Agent("crane", "1.0")))
    frame = find_frames(*next(iter(count_skeletons(*edges_of(answers), 0).values())))[0]
    assert find_example(batch.to_pylist()[0], int(frame["place"]), int(frame["skeleton"]))[1] == "[done in 01 ms]"
