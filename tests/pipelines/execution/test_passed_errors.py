"""Errors come through a runner of Beam as they were, from this process or from an engine's words."""

import apache_beam as beam
import pytest

from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.execution.runner import original, run_over
from trajmill.schemas import ConfigError, ContractError, ShardError


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
    ("text", "kind", "said"),
    [
        (
            "Traceback …\ntrajmill.schemas.errors.ShardError: x cannot be read [while running 'Map']",
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
