"""Benchmarks through a whole run: what shows an item goes with its name, whatever the parts, and nothing else does."""

import json
import random
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.judge.test_near_duplicates import atif
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.judge.evaluation_index import NAME, read_index, write_index
from trajmill.pipelines.recipe.judgement import Benchmark
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ConfigError

VOCABULARY = [f"word{number}" for number in range(3000)]
GUID = "b5d8c8d9-1111-4222-8333-0123456789ab"
RANDOM = random.Random(3)


def said(words: int) -> str:
    return " ".join(RANDOM.choices(VOCABULARY, k=words))


QUESTION, PASSAGE, HEADER = said(40), said(300), said(30)
ROWS = [
    {"key": "q-long", "question": QUESTION, "meta": {"answer": "42"}},
    {"key": "q-short", "question": "Which harbour did Amaro sail from?", "meta": {"answer": "Lisbon"}},
    {"key": "12", "question": f"{HEADER} is written above every task", "meta": {"answer": "no"}},
    {"key": "q-marked", "question": said(30), "meta": {"note": f"canary GUID {GUID}"}},
]
PLANTS = {
    "whole": [QUESTION],
    "inside": [said(100) + "\n" + QUESTION.upper().replace(" ", "  \n") + "\n" + said(100)],
    "asked": ["they ask which harbour did Amaro sail from and say", "that it was Lisbon"],
    "bench": [PASSAGE],
    "guid": [f"# {GUID.upper()} #"],
}
EXPECTED = {
    "asked": "qa:q-short", "bench": "world:terminal/7", "guid": "qa:q-marked", "inside": "qa:q-long",
    "session-of-q-long": None, "q-long": "qa:q-long", "whole": "qa:q-long",
}  # fmt: skip


@pytest.fixture(scope="module")
def benchmarks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of questions, and a file of AgentWorldBench's form."""
    folder = tmp_path_factory.mktemp("benchmarks")
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "qa.parquet")
    turns = {"prompt": ["### Turn 1", "### Turn 2"], "response": ["total 0", PASSAGE]}
    sample = {"task": "terminal", "id": 7, "current_prompt": "### Turn 2", "system_str": HEADER, "turn_idx": 2}
    (folder / "world").mkdir()
    (folder / "world" / "terminal_test.jsonl").write_text(json.dumps({**sample, **turns, "total_turns": 2}) + "\n")
    return folder


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Planted logs, one whose id is an item's, near misses, and 120 tasks under one header."""
    folder = tmp_path_factory.mktemp("raw")
    misses = {
        "session-of-q-long": [said(40)],
        "reversed": [" ".join(reversed(QUESTION.split()))],
        "12": [said(50)],
        "unanswered": ["they ask which harbour did Amaro sail from and say", "nothing"],
    }
    for name, answers in {**PLANTS, **misses, "q-long": [said(40)]}.items():
        (folder / f"{name}.json").write_text(json.dumps(atif(name, f"task {name}", [*answers, said(20)])))
    for number in range(120):
        log = atif(f"t{number}", f"task {number}", [f"{HEADER} is written above every task", said(30)])
        (folder / f"t{number:03}.json").write_text(json.dumps(log))
    return folder


def recipe(benchmarks: Path, **judge: object) -> Recipe:
    named = [
        {
            "name": "qa",
            "path": str(benchmarks / "*.parquet"),
            "id": "key",
            "texts": "question",
            "answer": "meta.answer",
        },
        {"name": "world", "path": str(benchmarks / "world")},
    ]
    values = {"name": "d", "source": "tests", "domains": ["terminal"], "judge": {"benchmarks": named, **judge}}
    return parse_recipe(json.dumps(values), "d")


def gone(out: Path) -> dict[str, str]:
    rejects = pl.read_parquet(out / "rejects" / "judge" / "*.parquet").filter(pl.col("reason") == "contaminated")
    assert (rejects["unit"] == "trajectory").all()
    return {row["uri"].removesuffix(".json"): row["detail"] for row in rejects.iter_rows(named=True)}


def test_a_domain_that_goes_whole_is_a_warning_that_names_the_rule_and_the_benchmark(benchmarks, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    for name, answers in PLANTS.items():
        (logs / f"{name}.json").write_text(json.dumps(atif(name, f"task {name}", [*answers, said(20)])))
    summary = Run(recipe(benchmarks), [str(logs)], str(tmp_path / "out")).run()
    nothing, domain = summary.warnings
    assert "5 trajectories, contaminated 5" in nothing
    assert domain.startswith("nothing of terminal is kept: of 5 trajectories, contaminated 5")
    assert domain.endswith("qa 4, world 1")


@pytest.fixture(scope="module")
def judged(raw, benchmarks, tmp_path_factory) -> list[Path]:
    """The same logs judged as one part and as many."""
    outs = [tmp_path_factory.mktemp("judged") for _ in range(2)]
    for out, part_bytes in zip(outs, (1 << 28, 40_000), strict=True):
        summary = Run(recipe(benchmarks), [str(raw)], str(out), Execution(part_bytes=part_bytes)).run("judge")
        assert [line.checked() for line in summary.lines] == list(summary.lines)
    return outs


def test_planted_items_go_by_name_and_nothing_else_does_whatever_the_parts(judged):
    tables = []
    for out in judged:
        assert gone(out) == {name: item for name, item in EXPECTED.items() if item is not None}
        table = pl.read_parquet(out / "verdicts" / "*" / "*.parquet").sort("trajectory_id", "step")
        assert set(table.filter(pl.col("reason") == "contaminated")["use"]) == {"omit"}
        tables.append(table.drop("group"))
    assert tables[0].equals(tables[1])


def test_another_bound_measures_nothing_again(raw, benchmarks, judged):
    before = {path: path.stat().st_mtime_ns for path in (judged[1] / "measures").glob("*.benchmarks.parquet")}
    assert len(before) > 1
    looser = recipe(benchmarks, contamination={"min_score": 0.9})
    Run(looser, [str(raw)], str(judged[1]), Execution(part_bytes=40_000)).run("judge")
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_numbers_of_an_item_are_texts_and_what_is_not_known_is_none(tmp_path):
    indexed = []
    for number, answer in enumerate(([None, True, 7], "7")):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(json.dumps({"question": QUESTION, "answer": answer}) + "\n")
        benchmark = Benchmark(name="b", path=str(path), texts=("question",), answer="answer")
        write_index([benchmark], Folder(str(tmp_path / f"{number}")))
        indexed.append(pl.read_parquet(tmp_path / f"{number}" / NAME).drop("item"))
    assert indexed[0].equals(indexed[1])


def test_the_index_holds_no_text_and_hangs_on_no_order(benchmarks, tmp_path):
    named = recipe(benchmarks).judge.benchmarks
    first = write_index(named, Folder(str(tmp_path / "a")))
    assert first == write_index(named[::-1], Folder(str(tmp_path / "b")))
    data = pl.read_parquet(tmp_path / "a" / NAME)
    assert set(data["canary"].drop_nulls()) == {GUID}
    assert not any(word in " ".join(data["item"].unique()) for word in QUESTION.split())
    assert "qa:q-long" in read_index(Folder(str(tmp_path / "a")), first).items
    assert write_index((), Folder(str(tmp_path / "c"))) == ""


def test_checkouts_of_a_benchmark_are_names(tmp_path):
    row = {"instance_id": "o__r-1", "repo": "o/r", "base_commit": "0123456789" * 4, "problem_statement": said(20)}
    (tmp_path / "swe.jsonl").write_text(json.dumps(row) + "\n")
    texts, path = ("problem_statement",), str(tmp_path / "swe.jsonl")
    benchmark = Benchmark(name="swe", path=path, id="instance_id", texts=texts, repo="repo", base_commit="base_commit")
    write_index([benchmark], Folder(str(tmp_path)))
    kinds = pl.read_parquet(tmp_path / NAME)["kind"].to_list()
    assert kinds.count("id") == kinds.count("checkout") == 1
    assert kinds.count("text") == 8


def test_a_question_of_few_words_is_a_name(tmp_path):
    rows = [{"question": "Open settings"}, {"question": "open the settings page"}, {"question": "?"}]
    (tmp_path / "short.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    benchmark = Benchmark(name="short", path=str(tmp_path / "short.jsonl"), texts=("question",))
    write_index([benchmark], Folder(str(tmp_path)))
    assert pl.read_parquet(tmp_path / NAME)["kind"].sort().to_list() == ["task", "text"]


def test_a_benchmark_is_known_by_ids_and_patterns_of_ids_alone(raw, tmp_path):
    named = [{"name": "ours", "ids": ["q-long"], "id_patterns": ["t11[0-9]", "no-such-[0-9]+"]}]
    values = {"name": "d", "source": "tests", "domains": ["terminal"], "judge": {"benchmarks": named}}
    Run(parse_recipe(json.dumps(values), "d"), [str(raw)], str(tmp_path)).run("judge")
    assert gone(tmp_path) == {"q-long": "ours:q-long"} | {f"t{n}": "ours:t11[0-9]" for n in range(110, 120)}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"texts": ("questoin",)}, ["no column 'questoin'", "'question'"]),
        ({"texts": ("question",), "answer": "meta.answr"}, ["meta.answr", "'meta.answer'"]),
        ({}, ["names no column"]),
        ({"path": "nowhere.jsonl", "id": "key"}, ["nowhere.jsonl"]),
    ],
)
def test_a_benchmark_that_cannot_be_read_as_told_stops_the_run_at_launch(benchmarks, tmp_path, values, words):
    benchmark = Benchmark(**{"name": "qa", "path": str(benchmarks / "qa.parquet"), **values})
    with pytest.raises(ConfigError) as caught:
        write_index([benchmark], Folder(str(tmp_path)))
    for word in words:
        assert word in str(caught.value)


def test_a_damaged_benchmark_stops_the_run_at_launch_by_its_name(benchmarks, tmp_path):
    (tmp_path / "qa.parquet").write_bytes((benchmarks / "qa.parquet").read_bytes()[:-20] + b"PAR1")
    with pytest.raises(ConfigError, match="'qa' cannot be read"):
        write_index([Benchmark(name="qa", path=str(tmp_path / "qa.parquet"), id="key")], Folder(str(tmp_path)))
