"""Rows of other corpora over generations: new files are read, copies of what is there go, documents keep their pool."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from tests.pipelines.generations.test_append import bytes_of
from tests.pipelines.generations.test_append_near_copies import Logs
from tests.pipelines.mix.passages.corpora import prose, written
from trajmill.pipelines.generations.append import Append, Appended, run_with_pools_of
from trajmill.pipelines.generations.generations import chain
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder

LONG = {number: prose(300, number) for number in range(20)}
BUDGET = 4_000


def talk(number: int) -> dict[str, object]:
    turns = [("user", prose(40, 100 + number)), ("assistant", prose(60, 200 + number))]
    return {"id": f"talk-{number}", "messages": [{"role": role, "content": text} for role, text in turns]}


def recipe(folder: Path) -> Recipe:
    """A text for CPT within a budget, and conversations that CPT and SFT share."""
    replay = {"kind": "messages", "name": "talk", "path": str(folder / "talk"), "columns": {"id": "id"}}
    values = {
        "name": "near",
        "source": "tests",
        "domains": ["terminal"],
        "mix": {
            "passages": [
                {"kind": "text", "name": "my_news", "path": str(folder / "news"), "licence": "MIT"},
                {**replay, "licence": "MIT"},
            ],
            "stages": {
                "cpt": {
                    "budget": BUDGET,
                    "components": {
                        "trajectories": {"weight": 0.2},
                        "my_news": {"kind": "text", "weight": 0.6},
                        "talk": {"kind": "messages", "weight": 0.2},
                    },
                },
                "sft": {"components": {"trajectories": {}, "talk": {"kind": "messages"}}},
            },
        },
    }
    return parse_recipe(json.dumps(values), "near")


class Corpora(Logs):
    """Logs, and the files of components beside them."""

    def append(self) -> Appended:
        self.generations += 1
        raws = [str(self.folder / f"logs{number + 1}") for number in range(self.generations)]
        present = [raw for raw in raws if Path(raw).exists()]
        return Append(recipe(self.folder), present, self.out).run()


@pytest.fixture(scope="module")
def grown(tmp_path_factory) -> Path:
    """Three generations: of all, of new passages and logs, and of passages alone."""
    folder = tmp_path_factory.mktemp("passages")
    corpora = Corpora(folder, recipe(folder))
    for number in range(4):
        corpora.put(f"a{number}", f"task {number}", corpora.said(3))
    written(folder / "news/b.jsonl", [LONG[0], LONG[1], LONG[2]])
    written(folder / "talk/b.jsonl", [talk(number) for number in range(6)])
    corpora.add()
    corpora.put("b", "another task", corpora.said(3))
    spaced = "  " + LONG[1].replace(" ", "\n") + "\n"
    written(folder / "news/a.jsonl", [spaced, LONG[3], LONG[4]])
    shutil.copy(folder / "news/b.jsonl", folder / "news/c.jsonl")
    written(folder / "talk/a.jsonl", [talk(3), {**talk(9), "id": "talk-1"}, talk(10), talk(11)])
    result = corpora.append()
    assert result.generation.number == 2
    written(folder / "news/d.jsonl", [LONG[4].replace(" ", "\t"), LONG[5]])
    assert corpora.append().generation.number == 3
    return folder


def stages(folder: Path) -> list[Path]:
    return [folder / "out" / generation.folder for generation in chain(Folder(str(folder / "out")))]


def parts(stage: Path, name: str) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(file) for file in sorted((stage / "passages" / name).glob("*.parquet"))])


def rejected(stage: Path) -> list[tuple[str, str]]:
    rejects = pl.read_parquet(stage / "rejects" / "passages" / "*.parquet").sort("reason")
    return list(zip(rejects["reason"], rejects["detail"], strict=True))


def test_copies_of_what_earlier_generations_keep_go_and_name_it(grown):
    first, second, third = stages(grown)
    assert sorted(parts(second, "my_news")["text"]) == sorted([LONG[3], LONG[4]])
    ids = {text: name for name, text in parts(first, "my_news").select("id", "text").iter_rows()}
    assert rejected(second) == [("duplicate", f"equal to {ids[LONG[1]]}"), ("duplicate", "equal to talk/talk-3")]
    (original,) = parts(second, "my_news").filter(pl.col("text") == LONG[4])["id"]
    assert parts(third, "my_news")["text"].to_list() == [LONG[5]]
    assert rejected(third) == [("duplicate", f"equal to {original}")]


def test_a_further_piece_of_a_document_joins_its_pool_and_none_is_in_two(grown):
    pools: dict[str, set[str]] = {}
    for stage in stages(grown):
        for file in sorted((stage / "draws").glob("talk-*.parquet")):
            for group, pool in pl.read_parquet(file).select("group", "pool").iter_rows():
                pools.setdefault(group, set()).add(pool)
    assert {len(members) for members in pools.values()} == {1}
    assert set.union(*pools.values()) == {"cpt", "sft"}
    first, second, _ = stages(grown)
    (old,) = parts(first, "talk").filter(pl.col("id") == "talk/talk-1")["group"]
    (new,) = parts(second, "talk").filter(pl.col("id") == "talk/talk-1")["group"]
    assert old == new


def test_the_budget_is_of_all_generations(grown):
    card = (grown / "out" / "shards" / "README.md").read_text()
    manifest = json.loads((grown / "out" / "shards" / "manifest.json").read_text())
    drawn = manifest["mixture"]["stages"]["cpt"]
    assert 0 < sum(row["tokens"] for row in drawn) <= BUDGET
    assert next(row for row in drawn if row["component"] == "my_news")["available"] > 0
    assert "| passages of my_news | 8 | 6 |" in card
    assert "| passages of my_news | `duplicate` | 2 |" in card
    assert {file.parent.name for file in (grown / "out" / "shards").glob("cpt/*/train-g000*.parquet")} >= {"talk"}
    assert verify(str(grown / "out")).is_whole


def test_a_rebuild_keeps_the_pools_of_documents(grown, tmp_path):
    raws = [str(grown / "logs1"), str(grown / "logs2")]
    run_with_pools_of(str(grown / "out"), recipe(grown), raws, str(tmp_path / "anew"))
    before: dict[str, str] = {}
    for stage in stages(grown):
        for file in sorted((stage / "draws").glob("talk-*.parquet")):
            before |= dict(pl.read_parquet(file).select("group", "pool").iter_rows())
    after: dict[str, str] = {}
    for file in sorted((tmp_path / "anew" / "draws").glob("talk-*.parquet")):
        after |= dict(pl.read_parquet(file).select("group", "pool").iter_rows())
    assert after == before


def test_the_same_generations_give_the_same_bytes(grown, tmp_path):
    for name in ("logs1", "logs2", "talk", "news"):
        shutil.copytree(grown / name, tmp_path / name)
    for name in ("news/a.jsonl", "news/c.jsonl", "news/d.jsonl", "talk/a.jsonl"):
        (tmp_path / name).rename(tmp_path / name.replace("/", "-"))
    chosen, raws = recipe(tmp_path), [str(tmp_path / "logs1")]
    Run(chosen, raws, str(tmp_path / "out")).run()
    names = [["news/a.jsonl", "news/c.jsonl", "talk/a.jsonl"], ["news/d.jsonl"]]
    for some in names:
        for name in some:
            (tmp_path / name.replace("/", "-")).rename(tmp_path / name)
        Append(chosen, [*raws, str(tmp_path / "logs2")], str(tmp_path / "out")).run()
    ours, theirs = (
        {name: digest for name, digest in bytes_of(folder / "out" / "shards").items() if "/" in name}
        for folder in (tmp_path, grown)
    )
    assert ours == theirs
