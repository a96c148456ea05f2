"""What all tests share: the real corpora, where they stand beside the repository, and how much of them was read."""

import gc
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import orjson
import pytest
from hypothesis import settings

from tests.coverage_by_package import LineCoverage

os.environ["TRAJMILL_STRICT"] = "1"
"""Runs of tests, in this process or another, stop at an exception of a connector unless a test says otherwise."""

FUZZ = int(os.environ.get("TRAJMILL_FUZZ", "1"))
"""How many times as many random cases as usual are tried; above 1 they differ from run to run."""

settings.register_profile(
    "trajmill", derandomize=FUZZ == 1, deadline=None, print_blob=True, max_examples=24 if FUZZ == 1 else 100
)
settings.load_profile("trajmill")

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden" / "corpora.json"
INDEX = "INDEX.tsv"
NAMED = ROOT / "tests" / "golden" / "corpora.tsv"
"""Files of the corpora that the golden files were made of, each with the connector that takes it."""

COVERAGE = LineCoverage(ROOT) if os.environ.get("TRAJMILL_COVERAGE") else None
"""Begins before any of our packages is imported: what was imported before is not counted."""


def pytest_configure(config: pytest.Config) -> None:
    if COVERAGE is not None:
        config.pluginmanager.register(COVERAGE)


def pytest_collection() -> None:
    """Garbage is not looked for among modules and cases: while they are gathered nothing is ever thrown away."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


_COLLECTING = gc.get_threshold()


def pytest_runtest_setup() -> None:
    """A command that an earlier test ran in this process has the collector run rarely; memory is measured without."""
    gc.set_threshold(*_COLLECTING)


def corpora_folder() -> Path | None:
    """The folder of real corpora: from TRAJMILL_CORPORA, else beside the repository; None if there is none."""
    named = os.environ.get("TRAJMILL_CORPORA")
    folder = Path(named) if named else ROOT.parent / "shared" / "corpora"
    return folder if (folder / INDEX).is_file() else None


def named_files(*folders: str) -> dict[str, str | None]:
    """The files of the corpora that golden files name, by name below the corpora: the connector that takes each.

    With `folders`, only those in them. What else lies in the corpora is counted and not read.
    """
    rows = (line.split("\t") for line in NAMED.read_text("utf-8").splitlines())
    return {name: taker or None for name, taker in rows if not folders or name.startswith(tuple(folders))}


def real_files(folders: Iterable[str], record: Callable[[str, object], None]) -> list[Path]:
    """The named files in folders of the corpora (each ends in /); where they are absent the test is skipped."""
    wanted = tuple(folders)
    named, root = named_files(*wanted), corpora_folder()
    if root is None:
        record("corpus_not_read", list(named))
        pytest.skip(f"the corpora are not here: {len(named)} files of {', '.join(wanted)} were not read")
    paths = (path for folder in wanted for path in (root / folder).rglob("*") if path.is_file())
    present = {str(path.relative_to(root)) for path in paths} - {INDEX}
    record("corpus_read", sorted(present & named.keys()))
    record("corpus_not_read", sorted(present - named.keys()))
    return [root / name for name in named]


@pytest.fixture
def corpus(record_property: Callable[[str, object], None]) -> Callable[[str], list[Path]]:
    """Gives a connector's real files; see `real_files`."""

    def files(connector: str) -> list[Path]:
        known = orjson.loads(GOLDEN.read_bytes())[connector]
        return real_files([f"{folder}/" for folder in known["folders"]], record_property)

    return files


@pytest.fixture(scope="session")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Raw logs; not to be changed."""
    folder = tmp_path_factory.mktemp("raw")
    for log in sorted((ROOT / "samples" / "terminal" / "asciicast").rglob("*.cast"))[:6]:
        shutil.copy(log, folder)
    return folder


@pytest.fixture(scope="session")
def made(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of the recipe `terminal` over `raw`; not to be changed."""
    out = tmp_path_factory.mktemp("made") / "out"
    from trajmill.pipelines.recipe.recipe_file import load_recipe
    from trajmill.pipelines.run import Run

    Run(load_recipe("terminal"), [str(raw)], str(out)).run()
    return out


@pytest.fixture
def finished(made: Path, tmp_path: Path) -> Path:
    """A copy of `made`, for tests that change it."""
    return shutil.copytree(made, tmp_path / "out")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    names: dict[str, set[str]] = {"corpus_read": set(), "corpus_not_read": set()}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name in names:
                    names[name].update(value)
    terminalreporter.write_line("real corpus files: {} read, {} not read".format(*map(len, names.values())))
