"""What all tests share: the real corpora, where they stand beside the repository, and how much of them was read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from hypothesis import settings

os.environ["TRAJMILL_STRICT"] = "1"
"""Runs of tests, in this process or another, stop at an exception of a connector unless a test says otherwise."""

FUZZ = int(os.environ.get("TRAJMILL_FUZZ", "1"))
"""How many times as many random cases as usual are tried; above 1 they differ from run to run."""

settings.register_profile("trajmill", derandomize=FUZZ == 1, deadline=None, print_blob=True)
settings.load_profile("trajmill")

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden" / "corpora.json"


def corpora_folder() -> Path | None:
    """The folder of real corpora: from TRAJMILL_CORPORA, else beside the repository; None if there is none."""
    named = os.environ.get("TRAJMILL_CORPORA")
    folder = Path(named) if named else ROOT.parent / "shared" / "corpora"
    return folder if (folder / "INDEX.tsv").is_file() else None


@pytest.fixture
def corpus(record_property: Callable[[str, object], None]) -> Callable[[str], list[Path]]:
    """Gives the paths of a connector's real files; where there are none the test is skipped and they are counted."""

    def folders(connector: str) -> list[Path]:
        known = orjson.loads(GOLDEN.read_bytes())[connector]
        root = corpora_folder()
        if root is None:
            record_property("corpus_not_read", known["files"])
            pytest.skip(f"the corpora are not here: {known['files']} files of {connector} were not read")
        found = [root / name for name in known["folders"]]
        record_property("corpus_read", sum(path.is_file() for folder in found for path in folder.rglob("*")))
        return found

    return folders


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if getattr(report, "when", "") in ("call", "setup") and name.startswith("corpus_"):
                    counts[name] += value
    line = f"real corpus files: {counts['corpus_read']} read, {counts['corpus_not_read']} not read"
    terminalreporter.write_line(line)
