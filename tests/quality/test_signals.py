from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tests.make import batch_of, call, steps_of, trajectory
from tests.quality.contract import keeps_the_contract
from trajmill.quality.registry import signal, signals
from trajmill.quality.scrub import scrub
from trajmill.quality.signal import Measured, Signal
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import (
    COMPLETE,
    KEYSTROKES,
    MESSAGE,
    Action,
    ConfigError,
    Context,
    Observation,
    Step,
    Task,
    Trajectory,
    keystrokes_text,
)


def measure(name, *trajectories):
    batch = batch_of(*trajectories)
    return signal(name).measure(Measured.of(batch, TokenCounter())).tolist()


def acting(*actions, shown="screen"):
    return Trajectory(
        "t", "terminal", [Step(action, None, Observation(shown), turn, 0) for turn, action in enumerate(actions)]
    )


@pytest.mark.parametrize("name", list(signals()))
def test_every_signal_keeps_the_contract(name):
    keeps_the_contract(signal(name))


class Kept(Signal):
    """A signal that keeps the contract, for others to break it."""

    name = "kept"
    scope = "trajectory"
    measures = "rows"

    def measure(self, measured):
        return measured.spread(measured.lengths.astype(np.float64))

    def joined(self, values, rows):
        return float(values.sum())


class Nameless(Kept):
    name = "Two words"


class Wide(Kept):
    def measure(self, measured):
        return super().measure(measured).astype(np.float64)


class Nowhere(Kept):
    def measure(self, measured):
        return super().measure(measured) + np.nan


class Neighbours(Kept):
    def measure(self, measured):
        return np.full(measured.batch.num_rows, measured.batch.num_rows, np.float32)


class Rows(Kept):
    def measure(self, measured):
        return np.arange(measured.batch.num_rows, dtype=np.float32)


@pytest.mark.parametrize("broken", [Nameless, Wide, Nowhere, Neighbours, Rows])
def test_a_signal_that_breaks_the_contract_is_told(broken):
    with pytest.raises(AssertionError):
        keeps_the_contract(broken())


def test_an_unknown_signal_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="turns"):
        signal("turn")


def test_turns_count_those_in_which_the_world_answered():
    steps = steps_of("a", None, "b")
    parallel = [replace(steps[0], num_calls=2), replace(steps[0], num_calls=2, call_index=1)]
    assert measure("turns", Trajectory("t", "swe", steps)) == [2, 2, 2]
    assert measure("turns", Trajectory("t", "swe", parallel)) == [1, 1]
    assert measure("turns", acting(Action(MESSAGE, "hello"), call())) == [1, 1]


@pytest.mark.parametrize(
    ("action", "empty"),
    [
        (Action("", "  "), True),
        (Action(MESSAGE, '{"name": "message"}'), True),
        (Action(KEYSTROKES, keystrokes_text([("", None)])), True),
        (Action(KEYSTROKES, keystrokes_text([("", 1.5)])), False),
        (Action(KEYSTROKES, keystrokes_text([("ls\n", None)])), False),
        (Action(COMPLETE, "[]"), False),
        (Action(KEYSTROKES, "[]"), False),
        (Action("", "ls"), False),
        (call(), False),
    ],
)
def test_an_action_is_empty_only_if_it_is_no_call_no_keystroke_and_no_wait(action, empty):
    assert measure("empty_action", acting(action)) == [float(empty)]


def test_a_call_without_a_result_dangles():
    assert measure("dangling_call", trajectory("a", None)) == [0, 1]


@pytest.mark.parametrize(("origin", "foreign"), [("environment", 0), ("user", 1), ("agent", 1), ("harness", 1)])
def test_what_the_environment_did_not_say_is_foreign(origin, foreign):
    step = Step(call(), None, Observation("x", origin=origin), 0, 0)
    assert measure("foreign_answer", Trajectory("t", "swe", [step])) == [foreign]


@pytest.mark.parametrize(
    ("tool", "answer", "is_error", "expected"),
    [
        ("generate_password", "tulip-4-rose", None, 1),
        ("vault__generate_secure_password", "tulip-4-rose", False, 1),
        ("new_uuid", "1f", None, 1),
        ("tools.roll_dice", "4", None, 1),
        ("generate_password", "length must be 8 or more", True, 0),
        ("reset_password", "done", None, 0),
        ("get_pinned_messages", "none", None, 0),
        ("random_forest", "0.93", None, 0),
    ],
)
def test_a_tool_that_draws_its_answers_tells_nothing_of_the_world(tool, answer, is_error, expected):
    step = Step(Action(tool, tool, "{}"), None, Observation(answer, is_error=is_error), 0, 0)
    assert measure("invented_answer", Trajectory("t", "mcp", [step])) == [expected]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('{"password": "aB3#fG7!kLp"}', 1),
        ('{"api_key": "Zk83hsQ0pLm29xWv", "bed": 2}', 1),
        ('{"api_key": "Zk83hsQ0pLm29xWv", "bed": 4711}', 0),
        ("API_TOKEN=Zk83hsQ0pLm29xWv\n", 1),
        ("API_TOKEN=Zk83hsQ0pLm29xWv\nPORT=8080", 0),
        ("2\nAPI_TOKEN=Zk83hsQ0pLm29xWv\nbeds", 1),
        ("API_TOKEN=Zk83hsQ0pLm29xWv\nthe ed", 0),
        ("API_TOKEN=Zk83hsQ0pLm29xWv\nbeds\ned", 0),
        ('{"bed": 2}', 0),
        ("written to: /home/jonathan/beds", 0),
    ],
)
def test_an_answer_of_nothing_but_placeholders_tells_nothing_anew(answer, expected):
    arguments = '{"bed": 2, "path": "/home/jonathan/beds"}'
    action = Action("look", f'{{"name": "look", "arguments": {arguments}}}', arguments)
    batch, counts = scrub(batch_of(Trajectory("t", "mcp", [Step(action, None, Observation(answer), 0, 0)])))
    batch = batch.set_column(batch.schema.get_field_index("scrubbed"), batch.schema.field("scrubbed"), counts)
    assert signal("invented_answer").measure(Measured.of(batch, TokenCounter())).tolist() == [expected]


@pytest.mark.parametrize(
    ("instruction", "answers", "expected"),
    [
        ("The answer to turn 2 reports an error.", ["ok", "ok"], [0, 1]),
        ("The answer to turn 2 reports an error.", ["ok", "error: disk full"], [0, 0]),
        ("The answer to turn 1 is a part of the result, and says so.", ["a\nb", "a\nb"], [1, 0]),
        ("The answer to turn 1 is a part of the result, and says so.", ["a\n[7 more lines]", "a"], [0, 0]),
        ("Answers have at most 2 lines, and longer ones come in pages.", ["a\nb", "a\nb\nc"], [0, 1]),
        (
            "Reference answer: Ada Holm\nNo result states the reference answer, and none says that it is one.",
            ["by Ada, Holm", "by ada  HOLM"],
            [1, 1],
        ),
        (
            "Reference answer: Ada Holm\nNo result before turn 2 states the reference answer, and none says so.",
            ["It was Ada Holm.", "It was Ada Holm."],
            [1, 0],
        ),
        ("Reference answer: ls\nNo result states the reference answer.", ["ls: a b", "a"], [0, 0]),
        ("Make the answer to turn 1 report an error.", ["ok", "ok"], [0, 0]),
    ],
)
def test_answers_that_break_what_a_simulator_was_told_are_marked(instruction, answers, expected):
    steps = [
        Step(Action("bash", "ls", '{"command": "ls"}'), None, Observation(answer), turn, 0)
        for turn, answer in enumerate(answers)
    ]
    context = Context(simulation_instruction=instruction)
    assert measure("broken_instruction", Trajectory("t", "terminal", steps, context=context)) == expected


@pytest.mark.parametrize(
    ("before", "killed", "limit", "told"),
    [(None, True, None, 1), (60.0, True, None, 1), (None, True, 60.0, 1), (60.0, True, 60.0, 0), (None, None, None, 0)],
)
def test_a_command_killed_at_a_limit_that_nobody_told_before_is_marked(before, killed, limit, told):
    first = Step(call(), None, Observation("x"), 0, 0, time_limit_s=before)
    step = Step(call(), None, Observation("x"), 1, 0, time_limit_s=limit, timed_out=killed)
    assert measure("unannounced_timeout", Trajectory("t", "swe", [first, step])) == [0, told]


def test_a_limit_that_the_action_itself_states_is_announced():
    action = Action("bash", "make", '{"command": "make", "timeout_ms": 60000}')
    step = Step(action, None, Observation("x"), 0, 0, time_limit_s=60.0, timed_out=True)
    assert measure("unannounced_timeout", Trajectory("t", "swe", [step])) == [0]


@pytest.mark.parametrize(("truncation", "cut"), [("none", 0), ("harness", 0), ("recorder", 1)])
def test_what_the_recorder_lost_is_told_from_what_the_agent_saw_cut(truncation, cut):
    step = Step(call(), None, Observation("x", truncation=truncation), 0, 0)
    assert measure("recorder_cut", Trajectory("t", "swe", [step])) == [cut]


@pytest.mark.parametrize(
    ("domain", "text"),
    [
        ("android", "Unfortunately, Clock has stopped."),
        ("android", "Maps isn't responding\nClose app\nWait"),
        ("web", "Are you a robot?"),
        ("terminal", "[server exited unexpectedly]"),
    ],
)
def test_a_broken_environment_is_noticed(domain, text):
    assert measure("environment_failure", trajectory("fine", f"top\n{text}\nend", domain=domain)) == [0.5, 0.5]


@pytest.mark.parametrize(
    ("domain", "text"),
    [
        ("terminal", "bash: foo: command not found"),
        ("terminal", "make: *** [all] Error 1"),
        ("android", "The download has stopped at 3 %"),
        ("web", "<h1>404 Not Found</h1>"),
    ],
)
def test_an_error_that_answers_the_action_is_no_failure(domain, text):
    assert measure("environment_failure", trajectory("fine", text, domain=domain)) == [0, 0]


def test_length_counts_instruction_first_observation_actions_and_results():
    log = Trajectory("t", "terminal", steps_of("x" * 320, first="y" * 32), task=Task(None, "z" * 64))
    texts = ["x" * 320, "y" * 32, "z" * 64, log.steps[0].action.text]
    assert measure("length", log) == [sum(TokenCounter().count(pa.array(texts)))]


def test_tokens_of_a_turn_are_those_of_all_its_calls():
    steps = steps_of("x" * 40, "y" * 80, "z" * 400)
    first, two, three = (measure("turn_tokens", Trajectory("t", "swe", [replace(step, turn=0)]))[0] for step in steps)
    parallel = [
        replace(steps[0], num_calls=2),
        replace(steps[1], turn=0, num_calls=2, call_index=1, observation=None),
        replace(steps[2], turn=1),
    ]
    single = Trajectory("u", "swe", [replace(steps[0], turn=0)])
    assert measure("turn_tokens", Trajectory("t", "swe", parallel), single) == [first + two, first + two, three, first]
