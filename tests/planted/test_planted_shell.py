"""A real shell's known steps come out of every recording of it as they were, but for what a form cannot hold."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from samples.makers.shell_truth import PROMPT, STEPS, screens
from tests.planted import planted_atif
from tests.rows import blob_at, parsed
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector

RECORDINGS: Final = Path(__file__).with_name("recordings")
"""By shell and form; `samples.makers.record_shell` made them."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form of recording, and what of the truth it holds.

    Attributes:
        connector: that reads it.
        keys: whether it holds the keys; if not, it shows the lines as they came to be entered, by their echo.
        status: whether it holds the exit code of the session.
    """

    connector: str
    keys: bool
    status: bool


FORMS: Final = {
    "input.cast": Form("asciicast", keys=True, status=False),
    "output.cast": Form("asciicast", keys=False, status=False),
    "converted_v1.cast": Form("asciicast", keys=False, status=False),
    "converted_v3.cast": Form("asciicast", keys=True, status=True),
    "script_advanced": Form("script", keys=True, status=True),
    "script_classic": Form("script", keys=False, status=True),
}
"""No recording holds the exit code of a command, unless the shell itself reports it; and none tells that somebody
waited, which is a part of how long the act before it took."""

SHELLS: Final = ("plain", "reporting")
"""A prompt with bracketed paste and nothing else; one without, that reports exit codes (OSC 133)."""

CASES: Final = [(shell, form) for shell in SHELLS for form in FORMS]


@cache
def rows_of(shell: str, form: str) -> list[dict[str, Any]]:
    """The rows of a recording, which has to be read without a reject."""
    transitions, rejects = parsed(connector(FORMS[form].connector), blob_at(RECORDINGS / shell / form))
    assert not rejects
    return transitions


def keys_of(row: dict[str, Any]) -> str:
    return "".join(keystroke["keystrokes"] for keystroke in json.loads(row["action"]["arguments"])["keystrokes"])


@pytest.mark.parametrize(("shell", "form"), CASES)
def test_each_step_is_an_action_with_the_keys_or_the_line_that_was_typed(shell, form):
    wanted = [step.typed if FORMS[form].keys else f"{step.line}\r" for step in STEPS]
    rows = rows_of(shell, form)
    assert [keys_of(row) for row in rows] == wanted
    assert [row["step"] for row in rows] == list(range(len(STEPS)))
    if FORMS[form].keys:
        edited = [json.loads(row["action"]["arguments"]).get("line") for row in rows]
        assert edited == [step.line if step.keys else None for step in STEPS]
    else:
        assert {json.loads(row["action"]["arguments"])["prompt"] for row in rows} == {PROMPT}


@pytest.mark.parametrize(("shell", "form"), CASES)
def test_each_step_is_seen_as_the_screen_before_and_after_it(shell, form):
    rows, truth = rows_of(shell, form), screens()
    assert [row["observation"]["content"] for row in rows] == truth[:-1]
    assert [row["next_observation"]["content"] for row in rows] == truth[1:]
    assert {row["next_observation"]["form"] for row in rows} == {"screen"}
    assert {row["next_observation"]["truncation"] for row in rows} == {"none"}


@pytest.mark.parametrize(("shell", "form"), CASES)
def test_exit_codes_are_told_where_the_form_holds_them_and_nowhere_else(shell, form):
    reported: list[int | None] = [step.exit_code if shell == "reporting" else None for step in STEPS[:-1]]
    ended = STEPS[-1].exit_code if FORMS[form].status else None
    rows = rows_of(shell, form)
    assert [row["exit_code"] for row in rows] == [*reported, ended]
    assert [row["terminated"] for row in rows] == [*[None] * (len(STEPS) - 1), True]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_same_session_is_word_for_word_the_same_in_every_form(shell):
    """What a later merge of the forms can lean on: observations are equal texts, and so are the lines entered."""
    by_form = {
        form: [
            (row["next_observation"]["content"], json.loads(row["action"]["arguments"]).get("line") or keys_of(row))
            for row in rows_of(shell, form)
        ]
        for form in FORMS
    }
    lines = {form: [(text, line.removesuffix("\r")) for text, line in rows] for form, rows in by_form.items()}
    assert all(rows == lines["input.cast"] for rows in lines.values())


def test_an_agent_that_looks_at_the_screen_tells_the_same_steps_as_the_recordings():
    rows, rejects = parsed(connector("atif"), MemoryBlob("planted", planted_atif.shell_by_terminal()))
    assert not rejects
    strokes = [json.loads(row["action"]["arguments"])["commands"] for row in rows]
    assert [[stroke["keystrokes"] for stroke in group] for group in strokes] == [
        [step.typed.replace("\r", "\n")] for step in STEPS
    ]
    assert [row["observation"]["content"] for row in rows] == screens()[:-1]
    assert [row["next_observation"]["content"] for row in rows] == screens()[1:]
    assert {row["task"]["instruction"] for row in rows} == {planted_atif.TASK}
    assert {row["next_observation"]["form"] for row in rows} == {"screen"}
    assert {row["exit_code"] for row in rows} == {None}


def test_an_agent_whose_tool_runs_lines_tells_their_output_and_exit_codes():
    rows, rejects = parsed(connector("atif"), MemoryBlob("planted", planted_atif.shell_by_tool()))
    assert not rejects
    results = [
        (json.loads(row["action"]["arguments"])["command"], row["next_observation"]["content"], row["exit_code"])
        for row in rows
    ]
    assert results == [(step.line, step.output, step.exit_code) for step in STEPS[:-1]]
    assert {row["domain"] for row in rows} == {"terminal"}


def test_what_a_tool_returns_is_what_the_screen_shows_below_the_line():
    """The two forms of one step differ by prompt, line, colours, wrapping and what has scrolled out, and by no more."""
    rows, _ = parsed(connector("atif"), MemoryBlob("planted", planted_atif.shell_by_tool()))
    for row, step, screen in zip(rows, STEPS, screens()[1:], strict=False):
        text = row["next_observation"]["content"]
        if step.put_out is None and max(map(len, step.shown), default=0) <= 80 and len(step.shown) < 20:
            assert screen.endswith(f"{PROMPT}{step.line}\n{text}{PROMPT.rstrip()}")
