"""Cases over many formats are found by the name of each: `-k NAME`."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        callspec = getattr(item, "callspec", None)
        names = callspec.params.get("names") if callspec else None
        item.extra_keyword_matches.update(names if isinstance(names, list) else ())  # no list: a case of no format
