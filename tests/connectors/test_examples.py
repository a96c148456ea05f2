"""The examples that open the connectors' docstrings: a few lines of a log, and the transitions that they are."""

import doctest
import sys

import pytest

from trajmill.connectors import example
from trajmill.connectors.registry import connectors
from trajmill.connectors.screens import dom, element_ids, moves, numbers, tree


def _failures(module: object) -> str:
    told: list[str] = []
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    names = {**vars(module), "show": example.show}
    for test in finder.find(module, globs=names):
        runner.run(test, out=told.append)
    return "".join(told)


def _doc(name: str) -> str:
    return sys.modules[type(connectors()[name]).__module__].__doc__ or ""


@pytest.mark.parametrize("name", connectors())
def test_a_connector_opens_with_an_example_that_holds(name: str) -> None:
    module = sys.modules[type(connectors()[name]).__module__]
    opening = _doc(name).partition("\n\n")[2].partition("\n\n")[0]
    assert opening.startswith(">>> show("), "the docstring opens with a line, then with an example"
    if "rejected:" in connectors()[name].title:
        assert "\nrefused " in opening, "of a format that holds no transitions it shows why it is refused"
    else:
        assert "\naction " in opening, "it shows an action"
        assert "\nafter " in opening, "it shows what came of the action"
    failures = _failures(module)
    assert not failures, failures


@pytest.mark.parametrize(
    "module", [example, dom, tree, element_ids, moves, numbers], ids=lambda module: module.__name__
)
def test_a_kernel_s_examples_hold(module: object) -> None:
    told: list[str] = []
    tests = doctest.DocTestFinder().find(module)
    assert any(test.examples for test in tests)
    for test in tests:
        doctest.DocTestRunner().run(test, out=told.append)
    assert not told, "".join(told)
