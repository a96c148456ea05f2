"""Many cases in one test: each is tried, and what fails is told at once, by its name."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

LONGEST = 3000
"""Characters of a failure that are told."""

Case = Callable[[str], AbstractContextManager[None]]


@contextmanager
def every() -> Iterator[Case]:
    """Gives a context for each case, by its name; a failure in it is kept until all cases were tried.

        with every() as case:
            for name in names:
                with case(name):
                    assert name.islower()

    Raises:
        pytest.fail.Exception: at the end of the block, with the name of every case that failed, and how.
    """
    failed: dict[str, str] = {}

    @contextmanager
    def case(name: str) -> Iterator[None]:
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - whatever it is, it is told
            failed[name] = "".join(traceback.format_exception(error, limit=-4))[-LONGEST:]

    yield case
    if failed:
        details = "\n".join(f"--- {name}\n{error}" for name, error in failed.items())
        pytest.fail(f"{details}\n{len(failed)} failed: {', '.join(failed)}", pytrace=False)
