"""Rows that a world model answered: refused before all else, allowed by the recipe's word, and told in the card."""

import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from tests.pipelines.judge.test_near_duplicates import atif, verdicts
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.judge import world_models
from trajmill.pipelines.judge.judging import Judging, Unit
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ConfigError

WORLDS = ("dream@1", "dream@2")


def simulated(log, world):
    environment = {"kind": "model", "world_model": world, "sampling": {"temperature": 0}}
    return log | {"extra": {"trajmill": {"environment": environment}}}


@pytest.mark.parametrize(("word", "refused"), [("refuse", [(2, 1), (4, 2)]), ("allow", [(4, 2)])])
def test_what_one_world_model_answered_may_be_allowed_and_what_several_answered_not(monkeypatch, word, refused):
    models = [None, None, None, "dream@1", "dream@1", "dream@2"]
    environment = [{"kind": "model" if model else "real", "world_model": model} for model in models]
    table = pa.table({"step": [0, 1, 0, 1, 0, 1], "environment": environment})
    monkeypatch.setattr(world_models, "read_table", lambda *_: table)
    folder = Folder("nowhere")
    judging = Judging(recipe(simulated=word), folder, folder, folder, folder, folder, "")
    trajectories = world_models.refused_trajectories(Unit(0, "terminal/part-0.parquet", word), judging)
    assert [(int(lost["row"]), int(lost["kept"])) for lost in trajectories] == refused


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six tasks; beside three real trajectories stands one of a world model, the last of them an exact copy."""
    folder = tmp_path_factory.mktemp("raw")
    for task in range(6):
        answers = [f"answer {task} {step} {'word ' * step}" for step in range(6)]
        (folder / f"{task}-real.json").write_text(json.dumps(atif(f"{task}", f"task {task}", answers)))
        if task < 2:
            made_up = [f"made up {task} {step} at length" for step in range(6)]
            log = simulated(atif(f"{task}-a", f"task {task}", made_up), WORLDS[task])
            (folder / f"{task}-dream.json").write_text(json.dumps(log))
        if task == 2:
            log = simulated(atif("copy", "task 2", answers), WORLDS[0])
            (folder / "0-copy.json").write_text(json.dumps(log))
    return folder


def recipe(mix=None, **judge):
    values = {"name": "n", "source": "tests", "domains": ["terminal"], "judge": judge}
    return parse_recipe(json.dumps(values | {"mix": {"pools": {"sft": 1}} | (mix or {})}), "n")


ALONE = {
    "stages": {"sft": {"components": {"a": {"world_model": "dream@1"}, "b": {"world_model": "dream@2"}, "rest": {}}}}
}


def ends(out):
    return {Path(row["uri"]).stem: row["reason"] for row in verdicts(out).to_dicts()}


@pytest.mark.parametrize("part_bytes", [1 << 28, 2_000])
def test_what_a_world_model_answered_is_dropped_by_its_reason_and_nothing_else_is(raw, tmp_path, part_bytes):
    summary = Run(recipe(), [str(raw)], str(tmp_path), Execution(part_bytes=part_bytes)).run("mix")
    gone = {name: reason for name, reason in ends(tmp_path).items() if reason is not None}
    assert gone == dict.fromkeys(("0-dream", "1-dream", "0-copy"), "simulated")
    line = summary.line("trajectories")
    assert (line.lost["simulated"], line.entered) == (3, 9)
    assert line.entered == line.kept + sum(line.lost.values()) + sum(line.merged.values())
    rejects = pl.read_parquet(tmp_path / "rejects" / "judge" / "*.parquet").filter(pl.col("reason") == "simulated")
    assert set(rejects["detail"]) == {"a world model answered it, and the recipe does not say judge.simulated: allow"}
    assert "imulated answers" not in (tmp_path / "shards" / "README.md").read_text()


def test_what_a_world_model_says_is_no_replicate_of_what_the_world_did(raw, tmp_path):
    for name, policy in (("refused", "refuse"), ("allowed", "allow")):
        Run(recipe(simulated=policy), [str(raw)], str(tmp_path / name), Execution()).run("judge")
        assert json.loads((tmp_path / name / "measures" / "replicates.json").read_text()) == {}


def test_allowed_rows_are_samples_and_the_card_states_their_share_by_world_model(raw, tmp_path):
    Run(recipe(ALONE, simulated="allow"), [str(raw)], str(tmp_path), Execution()).run("mix")
    reasons = ends(tmp_path)
    assert reasons["0-copy"] == "duplicate_trajectory"
    assert (reasons["0-dream"], reasons["1-dream"], reasons["2-real"]) == (None, None, None)
    rows = json.loads((tmp_path / "shards" / "manifest.json").read_text())["mixture"]["simulated"]
    assert [(row["component"], row["world_model"], row["samples"]) for row in rows] == [
        ("a", "dream@1", 1), ("b", "dream@2", 1),
    ]  # fmt: skip
    card = (tmp_path / "shards" / "README.md").read_text()
    whole = sum(pl.read_parquet(tmp_path / "shards" / "sft" / "*" / "*.parquet")["num_tokens"])
    share = sum(row["tokens"] for row in rows) / whole
    assert 0 < share < 1
    assert f"`sft` {share:.1%} of its tokens." in card
    assert "| sft | a | dream@1 | 1 |" in card


def test_two_world_models_of_one_component_end_the_run_with_a_word_on_what_to_do(raw, tmp_path):
    with pytest.raises(ConfigError, match="dream@2"):
        Run(recipe(simulated="allow"), [str(raw)], str(tmp_path), Execution()).run("mix")


def test_a_component_of_a_world_model_needs_its_revision_and_that_the_recipe_allows_any():
    with pytest.raises(ConfigError, match=r"name@revision"):
        recipe({"stages": {"sft": {"components": {"a": {"world_model": "dream"}}}}}, simulated="allow")
    with pytest.raises(ConfigError, match=r"judge\.simulated"):
        recipe(ALONE)


def test_a_later_generation_adds_no_second_world_model_to_a_component(raw, tmp_path):
    first = tmp_path / "first"
    first.mkdir()
    for name in ("0-real", "1-real", "0-dream"):
        (first / f"{name}.json").write_bytes((raw / f"{name}.json").read_bytes())
    out = tmp_path / "out"
    Run(recipe(simulated="allow"), [str(first)], str(out), Execution()).run("mix")
    (first / "1-dream.json").write_bytes((raw / "1-dream.json").read_bytes())
    from trajmill.pipelines.generations.append import Append

    with pytest.raises(ConfigError):
        Append(recipe(simulated="allow"), [str(first)], str(out), Execution()).run()


def with_passages(tmp_path, *worlds):
    """A recipe that passes rows of these world models through, and a row that nobody made up."""
    texts = [f"What the harbour master wrote in his log on day {number}, at some length." for number in range(8)]
    dreamt = [{"text": f"Dreamt: {text}", "environment": {"kind": "model", "world_model": world, "sampling": "{}"}}
            for text, world in zip(texts, worlds, strict=False)]  # fmt: skip
    rows = [*dreamt, *({"text": text} for text in texts[:4])]
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    passed = {"name": "texts", "kind": "text", "path": str(path), "licence": "CC0-1.0", "min_chars": 1}
    components = {"texts": {"kind": "text"}, "rest": {}}
    mix = {"pools": {"cpt": 1}, "passages": [passed], "stages": {"cpt": {"components": components}}}
    return recipe(mix, simulated="allow")


def test_passages_that_a_world_model_answered_are_in_the_share_that_the_card_states(raw, tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    (real / "0-real.json").write_bytes((raw / "0-real.json").read_bytes())
    Run(with_passages(tmp_path, "dream@1", "dream@1"), [str(real)], str(tmp_path / "out"), Execution()).run()
    (row,) = json.loads((tmp_path / "out/shards/manifest.json").read_text())["mixture"]["simulated"]
    assert (row["component"], row["world_model"], row["samples"]) == ("texts", "dream@1", 2)
    drawn = pl.read_parquet(tmp_path / "out/shards/cpt/*/*.parquet")
    dreamt = drawn.filter(pl.col("text").str.starts_with("Dreamt"))
    assert (len(dreamt), row["tokens"]) == (2, sum(dreamt["num_tokens"]))
    share = row["tokens"] / sum(drawn["num_tokens"])
    assert f"`cpt` {share:.1%} of its tokens." in (tmp_path / "out/shards/README.md").read_text()
