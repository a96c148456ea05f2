"""Examples in docstrings, those of connectors above all: a few lines of a log, and its transitions."""

import doctest
import sys
from types import ModuleType

import pytest

from trajmill.connectors import example
from trajmill.connectors.registry import connectors
from trajmill.connectors.screens import dom, element_ids, moves, numbers, tree
from trajmill.quality import control_strings

CONNECTORS = [sys.modules[type(connector).__module__] for connector in connectors().values()]
OTHERS = [example, dom, tree, element_ids, moves, numbers, control_strings]


@pytest.mark.parametrize("module", [*CONNECTORS, *OTHERS], ids=lambda module: module.__name__)
def test_the_examples_of_a_module_hold(module: ModuleType) -> None:
    failures: list[str] = []
    tests = doctest.DocTestFinder().find(module, globs={**vars(module), "show": example.show})
    assert any(test.examples for test in tests)
    for test in tests:
        doctest.DocTestRunner().run(test, out=failures.append)
    assert not failures, "".join(failures)
