"""Commands that README and docs show: the command line takes each, and each is run here or has a reason not to be.

`make test` runs those of the guide to one's own logs; `make docs` (TRAJMILL_DOCS=all) runs every page's.
"""

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from tests.test_docs import PAGES, named
from trajmill.app.cli.cli import app

GUIDE = "docs/own-logs.md"
ALL = os.environ.get("TRAJMILL_DOCS") == "all"
_BEGINS = re.compile(r"(?:[A-Z_]+=\S+ )*(trajmill|make|python|uv|pip|git|seq|export|mkdir|\.) ")

REASONS = {
    r"README\.md: trajmill": "tests/test_docs.py runs them in their order",
    r"\S+: trajmill view": "serves until it is ended; tests of the viewer ask for its pages",
    r"\S+: trajmill push": "needs the Hub; tests push to a server that answers as it does",
    r"\S+: trajmill world drift": "needs rows of a world model; tests of drift run it on planted ones",
    r"\S+: trajmill world (replay|patches)": "need a box, bases or a repository; tests of worlds run them",
    r"\S+: trajmill (report|compare)": "tests of the report run them",
    r"\S+: trajmill model (reason|instruct)": "need a model; tests/test_docs.py runs them against a server of its own",
    r"\S+: trajmill world serve": "serves until it is ended, and needs a model; its tests have one of their own",
    r"\S+: trajmill run \S+ --raw hf://": "needs the Hub; tests read a server that answers as it does",
    r"docs/connectors\.md: trajmill sniff garden": "reads a log of the plug-in that the reader has installed",
    r"\S+: trajmill run \S+ --raw downloads/": "reads what the reader has fetched",
    r"\S+: trajmill run world-model --raw YOUR_LOGS": "reads the reader's logs; the samples are run below",
    r"\S+: trajmill (forget|inspect) \S+ --trajectory": "names an id that the reader has",
    r"\S+: seq .*trajmill run": "needs GNU parallel; tests of parts by hand run the shares",
    r"\S+: (.*=\S+ )?make (shards|engines).*": "trajmill run with the paths of a domain; engines have make engines",
    r"\S+: make ": "targets for who develops; each is run by its name",
    r"\S+: python -m benchmarks": "measures for minutes, most of them over real logs",
    r"\S+: python -m (tests\.golden|samples\.makers)": "writes what is compared, or needs recorders",
    r"\S+: (python -c|mkdir|export|uv|pip|git|\. )": "is no command of ours",
}
"""Page and beginning of a command, as a pattern → why no test runs it as it stands."""


@dataclass(frozen=True)
class Shown:
    """A command as a page shows it, continued lines joined, without its comment."""

    page: Path
    block: int
    line: str

    def __str__(self) -> str:
        return f"{named(self.page)}: {self.line}"

    @property
    def reason(self) -> str | None:
        return next((why for pattern, why in REASONS.items() if re.match(pattern, str(self))), None)

    @property
    def words(self) -> list[str]:
        """The words after `trajmill`."""
        return shlex.split(self.line[self.line.index("trajmill ") :], comments=True)[1:]


def blocks_of(page: Path) -> Iterator[list[str]]:
    """The lines of each block of commands: fenced as bash or as nothing, or indented; continued lines are joined."""
    fence, block = None, list[str]()
    for line in [*page.read_text("utf-8").replace("\\\n", " ").splitlines(), ""]:
        opened = re.match(r" *(```+)(\w*)", line)
        if opened and (fence is None or opened[1] == fence[0]):
            fence = (opened[1], opened[2] in ("", "bash")) if fence is None else None
            yield block
            block = []
        elif fence is not None or line.startswith("    "):
            block += [line] if fence is None or fence[1] else []
        else:
            yield block
            block = []


def commands_of(page: Path) -> Iterator[Shown]:
    for number, block in enumerate(filter(None, blocks_of(page))):
        for line in block:
            command = re.sub(r"(^|\s+)#.*$", "", line).strip()
            if _BEGINS.match(f"{command} "):
                yield Shown(page, number, " ".join(command.split()))


@cache
def command_line() -> Any:
    return typer.main.get_command(app)


SHOWN = [one for page in PAGES for one in commands_of(page)]
OURS = [one for one in SHOWN if re.search(r"(^|\s)trajmill [a-z]", one.line)]
TO_RUN = [one for one in SHOWN if one.line.startswith("trajmill ") and one.reason is None]
SERIES = sorted({(one.page, None if named(one.page) == GUIDE else one.block) for one in TO_RUN}, key=str)
"""Pages and numbers of blocks whose commands follow each other; in the guide those of the whole page do."""


@pytest.mark.parametrize("page", sorted({entry.page for entry in OURS}), ids=named)
def test_every_command_of_a_page_is_one_that_the_command_line_takes(page):
    for entry in OURS:
        if entry.page == page:
            group, words = command_line(), entry.words
            while isinstance(group, typer.core.TyperGroup):
                name, *words = words
                assert name in group.commands, entry
                group = group.commands[name]
            group.make_context(name, list(words))


def test_targets_and_variables_of_make_are_there():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = {*re.findall(r"^([a-z]+):", makefile, re.MULTILINE), ".venv/developing"}
    variables = set(re.findall(r"^([A-Z]+) [?:]?=", makefile, re.MULTILINE)) | {"ARGS"}
    for entry in SHOWN:
        if re.match(r"(?:[A-Z_]+=\S+ )*make ", entry.line):
            words = shlex.split(entry.line[entry.line.index("make ") :])[1:]
            assert words[0] in targets, entry
            assert {word.partition("=")[0] for word in words[1:]} <= variables, entry


def test_options_of_programs_are_named_in_them():
    for entry in SHOWN:
        if match := re.match(r"python -m ([\w.]+)", entry.line):
            spec = find_spec(match[1])
            assert spec is not None, entry
            if spec.submodule_search_locations is not None:  # a package is run by its `__main__`
                spec = find_spec(f"{match[1]}.__main__")
                assert spec is not None, entry
            source = Path(str(spec.origin)).read_text("utf-8")
            for option in re.findall(r"--[\w-]+", entry.line):
                assert option in source, entry


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Path:
    """A folder as the pages take for granted: logs, recipes, a tokenizer, labels, and a finished run."""
    folder = tmp_path_factory.mktemp("desk")
    logs = ROOT / "samples" / "terminal" / "asciicast"
    recordings = folder / "recordings"
    (recordings / "anna").mkdir(parents=True)
    for log in sorted(logs.glob("*.cast"))[:6]:
        shutil.copy(log, recordings)
    shutil.copy(logs / "one_command.cast", recordings / "first.cast")
    shutil.copy(logs / "git_first_commit.cast", recordings / "anna")
    shutil.copytree(recordings, folder / "logs")
    for name in ("my-recipe.yaml", "new-recipe.yaml"):
        (folder / name).write_text("extends: terminal\nname: trajmill-terminal\nsource: trajmill-samples\n")
    (folder / "tokenizers").mkdir()
    shutil.copytree(ROOT / "tests" / "fixtures" / "tokenizer", folder / "tokenizers" / "mine")
    kinds = [("good", "listed"), ("bad", "refused")]
    rows = [
        {"text": f"{word} {'a' * n}b", "label": label, "group": f"{label}{n}"}
        for n in range(40)
        for label, word in kinds
    ]
    (folder / "labels.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "out").mkdir()
    pages = [{"page": str(page), "text": page.read_text("utf-8")} for page in sorted((ROOT / "docs").glob("*.md"))]
    (folder / "out" / "manuals.jsonl").write_text("".join(f"{json.dumps(page)}\n" for page in pages))
    for name in ("samples", "docs", "configs"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.mark.parametrize(
    ("page", "block"), SERIES, ids=lambda argument: named(argument) if isinstance(argument, Path) else str(argument)
)
def test_the_commands_of_a_page_run_in_their_order(page, block, desk, tmp_path, monkeypatch):
    if not ALL and named(page) != GUIDE:
        pytest.skip("make docs runs it")
    folder = tmp_path / "desk"
    shutil.copytree(desk, folder, symlinks=True)
    monkeypatch.chdir(folder)
    shown = [entry for entry in TO_RUN if entry.page == page and block in (None, entry.block)]
    if "out/mine" in shown[0].words and shown[0].words[0] != "run":
        assert ran("run", "terminal", "--raw", "recordings", "--out", "out/mine")[0] == 0
    for entry in shown:
        code, output, complained = ran(*("2" if word == "8" else word for word in entry.words))  # workers: two will do
        assert code == 0, f"{entry}: {complained}"
        assert output, entry
