"""Errors come through a runner as they were, from this process, from another, and from another's words."""

import apache_beam as beam
import pytest

from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.execution.passed_errors import original, told
from trajmill.pipelines.execution.runner import run_over
from trajmill.schemas import ConfigError, ContractError, ShardError


class UnheardOfError(Exception):
    """A class that another process does not know."""


def fail(error):
    raise error


@pytest.mark.parametrize(
    "error",
    [ConfigError("bad", "good"), ShardError("x cannot be read"), OSError(28, "full", "/x"), MemoryError(), KeyError(5)],
    ids=lambda error: type(error).__name__,
)
def test_an_error_under_the_local_runner_is_raised_as_it_was(error, caplog):
    with pytest.raises(type(error)) as caught:
        run_over([1], beam.Map(lambda _: fail(error)), Execution())
    assert caught.value.args == error.args
    assert str(caught.value) == str(error)
    assert not caplog.records


@pytest.mark.parametrize(
    "error",
    [ConfigError("bad", "good"), ShardError("x cannot be read"), OSError(28, "full", "/x"), MemoryError(), KeyError(5)],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_a_worker_tells_is_made_again_with_its_notes_and_its_traceback(error):
    error.add_note("while it rained")
    try:
        fail(error)
    except type(error) as met:
        made = original(RuntimeError(f"the runner's words\n{told(met)}\nand more of them"))
    assert type(made) is type(error)
    assert made.args == error.args
    assert str(made) == str(error)
    assert made.__notes__[0] == "while it rained"
    assert "in fail" in made.__notes__[1]


def test_an_error_of_a_class_that_is_not_known_here_is_told_with_its_name():
    made = original(RuntimeError(told(UnheardOfError("of old"))))
    assert type(made) is RuntimeError
    assert "UnheardOfError: of old" in str(made)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (
            "Traceback …\nschemas.errors.ShardError: x cannot be read [while running 'Map']",
            ShardError,
            "x cannot be read",
        ),
        ("RuntimeError: trajmill.schemas.errors.ContractError: 5 went in", ContractError, "5 went in"),
        ("RuntimeError: OSError: [Errno 28] No space left [while running 'Map']", OSError, "[Errno 28] No space left"),
        ("Pipeline failed in state FAILED", RuntimeError, "Pipeline failed in state FAILED"),
    ],
)
def test_the_words_of_a_foreign_runner_are_searched_for_our_errors(text, kind, said):
    made = original(RuntimeError(text))
    assert type(made) is kind
    assert str(made) == said
