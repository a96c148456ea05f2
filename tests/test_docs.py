"""What the documentation names is there: files, headings, modules, commands, formats and their counts."""

import doctest
import json
import re
import shlex
import shutil
import unicodedata
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.app.cli.test_cli import ran
from tests.conftest import FUZZ, ROOT
from tests.connectors.mutations import STRANGERS, damaged, places, replaced, written
from tests.golden.shown import SHOWN_PAGE, shown_page
from tests.golden.tables import DATA_SETS_PAGE, FORMATS_PAGE, SIGNALS_PAGE, data_sets_page, formats_page, signals_page
from tests.make import batch_of, trajectory
from tests.quality.contract import keeps_the_contract
from tests.rows import parsed
from trajmill.app.cli.cli import app
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.example import show
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.quality.signal import Measured
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import ParseError, contract, scan_transitions

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "samples").glob("*.md")])
FOLDERS = "app|connectors|pipelines|quality|schemas|synthesis|worlds"


def named(page):
    return page.relative_to(ROOT).as_posix()


def headings(page):
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    slugs = ("".join(c for c in title.lower() if c in " -_" or unicodedata.category(c)[0] in "LN") for title in titles)
    return {title.replace(" ", "-") for title in slugs}


def blocks(page, language):
    """The fenced blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_within_the_repository_leads_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        assert not anchor or anchor in headings(target), link


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_module_that_is_named_exists_and_holds_what_is_named(page):
    text = page.read_text("utf-8")
    names = re.findall(rf"`((?:trajmill\.(?:{FOLDERS})|benchmarks|samples|tests)(?:\.\w+)+)`", text)
    for name in names + re.findall(r"python -m ([\w.]+)", text):
        parts = name.split(".")
        depth = max(n for n in range(1, len(parts) + 1) if is_module(parts[:n]))
        source = ROOT.joinpath(*parts[:depth])
        source = source / "__init__.py" if source.is_dir() else source.with_suffix(".py")
        more = " ".join(contract.__all__) if parts[:depth] in (["trajmill"], ["trajmill", "schemas"]) else ""
        for rest in parts[depth:]:
            assert re.search(rf"\b{rest}\b", source.read_text("utf-8") + more), name
    for path in re.findall(rf"`((?:{FOLDERS}|benchmarks|samples|tests|docs|configs|trajmill)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"`(makers/[\w./-]+)`", text):
        assert (page.parent / path).exists(), path


def commands():
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    return group.commands


def is_module(parts):
    try:
        return find_spec(".".join(parts)) is not None
    except ModuleNotFoundError:
        return False


def test_the_commands_of_the_readme_run_in_their_order(tmp_path, monkeypatch):
    logs = ROOT / "samples" / "terminal"
    shutil.copytree(logs / "asciicast", tmp_path / "recordings")
    shutil.copytree(logs / "claude_code", tmp_path / "recordings" / "claude_code")
    shown = next(block for block in blocks(ROOT / "README.md", "bash") if block.startswith("trajmill"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)  # which would serve until somebody ends it
    for line in shown.splitlines():
        code, output, complained = ran(*shlex.split(line, comments=True)[1:])
        assert code == 0, complained
        assert output
    assert scan_transitions("recordings-trajmill").collect().height > 0


def test_the_example_of_ids_runs_and_trains_on_answers_alone(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "samples/terminal/asciicast", tmp_path / "recordings")
    shutil.copytree(ROOT / "tests/fixtures/tokenizer", tmp_path / "tokenizers/mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (example,) = (block for block in blocks(ROOT / "docs" / "forms.md", "python") if "out/ids" in block)
    (export,) = (
        line for line in (ROOT / "docs" / "forms.md").read_text().splitlines() if line.startswith("trajmill export")
    )
    assert ran("run", "terminal", "--raw", "recordings", "--out", "out/mine")[0] == 0
    assert ran(*shlex.split(export, comments=True)[1:])[0] == 0
    namespace: dict[str, Any] = {}
    exec(example, namespace)
    assert len(namespace["ids"]) == len(namespace["sft"]["train"]) > 0
    for row in namespace["ids"]:
        assert {label for label, bears in zip(row["labels"], row["loss_mask"], strict=True) if not bears} == {-100}


@pytest.mark.parametrize("page", [ROOT / "docs" / "own-logs.md", ROOT / "docs" / "datasets.md"], ids=named)
def test_whole_recipes_of_the_documentation_are_valid(page):
    recipes = [block for block in blocks(page, "yaml") if block.startswith("name:")]
    assert recipes
    for recipe in recipes:
        parse_recipe(recipe, page.name)


@pytest.mark.parametrize(
    ("page", "made"),
    [
        (SIGNALS_PAGE, signals_page),
        (FORMATS_PAGE, formats_page),
        (DATA_SETS_PAGE, data_sets_page),
        (SHOWN_PAGE, shown_page),
    ],
    ids=["signals", "formats", "data sets", "shown"],
)
def test_the_tables_of_the_documentation_say_what_the_registries_and_the_corpora_say(page, made):
    assert page.read_text("utf-8") == made(), "run python -m tests.golden.make tables"


@settings(max_examples=30 * FUZZ)
@given(data=st.data())
def test_the_example_of_a_connector_keeps_the_contract(data):
    namespace: dict[str, Any] = {}
    exec(blocks(ROOT / "docs" / "connectors.md", "python")[0], namespace)
    example = namespace["ToolLog"]()
    log = b'{"tool": "add", "input": {"a": 1, "b": 2}, "output": "3"}\n{"tool": "look", "input": {}, "output": "4"}\n'
    rows, rejects = parsed(example, MemoryBlob("a.jsonl", log))
    assert [row["action"]["name"] for row in rows] == ["add", "look"]
    assert not rejects
    assert example.sniff(log, "a.jsonl") is not None
    values = [json.loads(line) for line in log.splitlines()]
    number = data.draw(st.integers(0, 1))
    path = data.draw(st.sampled_from([*places(values[number])]))
    values[number] = replaced(values[number], path, data.draw(st.sampled_from(STRANGERS)))
    for broken in (written(values), damaged(log, data, 3, 9)):
        with suppress(ParseError):
            rows, rejects = parsed(example, MemoryBlob("a.jsonl", broken))
            assert rows or rejects


@pytest.mark.parametrize("number", [0, 1])
def test_the_connectors_of_the_documentation_open_with_examples_that_hold(number):
    namespace: dict[str, Any] = {}
    exec(blocks(ROOT / "docs" / "connectors.md", "python")[number], namespace)
    examples = doctest.DocTestParser().get_doctest(
        namespace["__doc__"], {**namespace, "show": show}, "connectors.md", None, 0
    )
    assert examples.examples
    failures: list[str] = []
    doctest.DocTestRunner().run(examples, out=failures.append)
    assert not failures, "".join(failures)


def test_the_example_of_a_dialect_reads_the_log_that_the_page_shows():
    page = (ROOT / "docs" / "connectors.md").read_text("utf-8")
    namespace: dict[str, Any] = {}
    exec(blocks(ROOT / "docs" / "connectors.md", "python")[1], namespace)
    log = "".join(f"{line[4:]}\n" for line in page.splitlines() if line.startswith('    {"type": '))
    rows, rejects = parsed(namespace["Fern"](), MemoryBlob("s.jsonl", log.encode()))
    assert not rejects
    (row,) = rows
    assert row["action"]["message"] == "I look."
    assert row["next_observation"]["content"] == "notes.txt"
    assert row["exit_code"] == 0
    assert row["task"]["instruction"] == "Which files are there?"


def test_the_example_of_a_signal_keeps_the_contract():
    (source,) = blocks(ROOT / "docs" / "signals.md", "python")
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    example = namespace["Digits"]()
    keeps_the_contract(example)
    shown = Measured.of(batch_of(trajectory("a1b2", None, "", "12345 ü")), TokenCounter())
    assert example.measure(shown).tolist() == [0.5, 0, 0, 0.625]
