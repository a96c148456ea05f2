"""The examples in docstrings of connectors and screens: a few lines of a log, and the transitions that they are."""

import doctest
import sys
from types import ModuleType

import pytest

from trajmill.connectors import example
from trajmill.connectors.registry import connectors
from trajmill.connectors.screens import dom, element_ids, moves, numbers, tree

CONNECTORS = [sys.modules[type(one).__module__] for one in connectors().values()]


@pytest.mark.parametrize(
    "module", [*CONNECTORS, example, dom, tree, element_ids, moves, numbers], ids=lambda module: module.__name__
)
def test_the_examples_of_a_module_hold(module: ModuleType) -> None:
    failures: list[str] = []
    tests = doctest.DocTestFinder().find(module, globs={**vars(module), "show": example.show})
    assert any(test.examples for test in tests)
    for test in tests:
        doctest.DocTestRunner().run(test, out=failures.append)
    assert not failures, "".join(failures)
