"""Recipes drafted from what a folder holds: that they are valid, run, and take in what is there."""

import json
import re
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.app.cli.test_cli import trajmill
from tests.conftest import ROOT
from trajmill.app.cli.recipe_draft import recipe_draft
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe_file import load_recipe, parse_recipe
from trajmill.schemas import ConfigError

CASTS = ROOT / "samples" / "terminal" / "asciicast"


def test_a_mixed_folder_extends_all_and_names_its_formats_and_what_is_not_read(tmp_path):
    shutil.copytree(CASTS, tmp_path / "My logs" / "casts")
    shutil.copytree(ROOT / "samples" / "android" / "uiautomator", tmp_path / "My logs" / "phone")
    (tmp_path / "My logs" / "notes.txt").write_text("nothing")
    text = recipe_draft([str(tmp_path / "My logs")], "r.yaml")
    made = parse_recipe(text, "r.yaml")
    assert {"terminal", "android"} <= set(made.domains)
    assert made.judge == load_recipe("all").judge
    assert made.name == "my-logs"
    comments = [line for line in text.splitlines() if line.startswith("# ")]
    assert "extends: all\n" in text
    assert "asciicast" in comments[1]
    assert "uiautomator" in comments[1]
    assert "unrecognized 1" in comments[2]


def test_a_table_of_conversations_is_drafted_as_one(tmp_path):
    table = tmp_path / "talks.jsonl"
    table.write_text('{"conv_id": "a", "dialogue": [{"role": "user", "content": "x"}]}\n' * 2)
    said = trajmill("init", table, "--out", tmp_path / "r.yaml")
    assert "fill in there what the columns of the table hold: normalize.dataset" in said
    draft = (tmp_path / "r.yaml").read_text("utf-8")
    assert "#     layout: messages " in draft
    assert "#     columns: {id: conv_id, messages: dialogue}" in draft


def test_a_path_cannot_write_into_the_recipe(tmp_path):
    folder = tmp_path / "a\ndomains: [web]\n'#"
    shutil.copytree(CASTS, folder)
    made = parse_recipe(recipe_draft([str(folder)], "r.yaml"), "r.yaml")
    assert made.domains == ("terminal",)


def test_nothing_that_is_read_is_no_recipe(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(ConfigError):
        recipe_draft([str(tmp_path)], "r.yaml")


def test_the_command_writes_a_recipe_that_plan_takes_and_replaces_nothing(tmp_path):
    out = tmp_path / "mine.yaml"
    said = trajmill("init", CASTS, "--out", out)
    assert said == f"written: {out}\nnext: trajmill run {out} --raw {CASTS} --out out/asciicast\n"
    assert "asciicast" in trajmill("plan", out, "--raw", CASTS)
    before = out.read_text("utf-8")
    assert "is not replaced" in trajmill("init", CASTS, "--out", out, code=1)
    assert out.read_text("utf-8") == before


def test_what_a_draft_says_of_stages_in_comments_is_valid_once_it_counts():
    head, mix, lines = recipe_draft([str(CASTS)], "r.yaml").partition("\nmix:\n")
    told = "\n".join(line.replace("  # ", "  ", 1) for line in lines.splitlines())
    made = parse_recipe(head + mix + told, "r.yaml").mix
    assert made.group_by == {"repository": 1.0}
    assert made.stages["cpt"].components["manuals"].kind == made.passages[0].kind == "text"
    assert made.stages["rl"].max_per_group == 8


ROWS = [
    {"episode": f"e{n // 3}", "goal": "look", "cmd": f"ls {n}", "output": f"file {n}", "reward": 0.5} for n in range(9)
]


def made_table(folder, form):
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), folder / "rows.parquet")
    else:
        (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_table_of_unknown_columns_gets_a_section_to_fill_in_that_reads_it_without_its_marks(form, tmp_path):
    made_table(tmp_path, form)
    text = recipe_draft([str(tmp_path)], "r.yaml")
    assert f"rows.{form} has columns that no known layout has: episode, goal, cmd, output, reward." in text
    head, section, rest = re.split(r"(# normalize:\n(?:# .*\n)+)", text)
    uncommented = "".join(line.removeprefix("# ") + "\n" for line in section.splitlines())
    recipe = parse_recipe(head + rest.replace("extends", f"{uncommented}extends"), "r.yaml")
    assert recipe.normalize.dataset.columns.model_dump(exclude_none=True) == {
        "id": "episode",
        "instruction": "goal",
        "action": "cmd",
        "next_observation": "output",
        "reward": "reward",
    }
    assert [one.connector for one in make_plan(recipe, [str(tmp_path)]).inputs] == ["table"]


def test_a_table_of_known_columns_needs_no_section(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"messages": [{"role": "user", "content": "a"}]}\n')
    pq.write_table(pa.Table.from_pylist([{"messages": [{"role": "user", "content": "a"}]}]), tmp_path / "a.parquet")
    assert "# normalize:" not in recipe_draft([str(tmp_path)], "r.yaml")
