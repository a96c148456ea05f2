import json
from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest

from tests.pipelines.judge.test_near_duplicates import atif
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.recipe.recipe_file import load_recipe, parse_recipe
from trajmill.pipelines.run import Run

RECIPE = """
name: capped
source: tests
domains: [terminal]
judge:
  near_duplicates: null
  rules:
    dangling_call: {signal: dangling_call, max: 0}
    empty_answer: {signal: empty_answer, max: 0, cap: CAP}
"""


def log(number: int) -> str:
    """A session of twelve commands, of which the last seven put out nothing."""
    answers = [f"out {number} {step}" if step < 5 else "" for step in range(12)]
    return json.dumps(atif(f"s{number}", f"task {number}", answers)).replace("step ", f"step {number} ")


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    for number in range(20):
        (folder / f"s{number}.json").write_text(log(number))
    return folder


def verdicts(raw, out, cap, **execution):
    recipe = parse_recipe(RECIPE.replace("CAP", str(cap)), "capped")
    Run(recipe, [str(raw)], str(out), Execution(**execution)).run("judge")
    columns = ["trajectory_id", "step", "use", "reason", "kept"]
    return pl.read_parquet(f"{out}/verdicts/terminal/*.parquet").select(columns).sort("trajectory_id", "step")


def test_a_cap_leaves_its_share_with_loss_and_the_rest_as_context(raw, tmp_path):
    table = verdicts(raw, tmp_path, 0.2)
    assert table.height == 240
    silent = table.filter(pl.col("step") >= 5)
    assert table.filter(pl.col("step") < 5)["use"].unique().to_list() == ["target"]
    assert silent.filter(pl.col("use") == "target").height == 25  # 25 of the 125 targets that are left
    capped = silent.filter(pl.col("use") != "target")
    assert capped.select("use", "reason", "kept").unique().rows() == [("context", "empty_answer", True)]
    assert len(silent.filter(pl.col("use") == "target")["step"].unique()) > 3


def test_a_rule_on_trajectories_spares_its_share_and_copies_have_one_fate(tmp_path):
    (tmp_path / "raw").mkdir()
    for number in range(60):
        for copy in ("a", "b"):
            (tmp_path / "raw" / f"{copy}{number}.json").write_text(log(number))
    rule = "{signal: turns, min: 100, spare: 0.3}"
    text = f"name: s\nsource: tests\ndomains: [terminal]\njudge: {{near_duplicates: null, rules: {{short: {rule}}}}}"
    Run(parse_recipe(text, "s"), [str(tmp_path / "raw")], str(tmp_path / "out")).run("judge")
    table = pl.read_parquet(tmp_path / "out" / "verdicts" / "terminal" / "*.parquet").filter(pl.col("step") == 0)
    spared = table.filter(pl.col("reason").is_null() | (pl.col("reason") != "short"))
    fates = spared.group_by("trajectory_hash").len()
    assert 8 <= fates.height <= 29  # of 60, 18 are looked for
    assert fates["len"].unique().to_list() == [2]
    assert spared["kept"].sum() == fates.height


def test_verdicts_under_a_cap_do_not_depend_on_the_parts(raw, tmp_path):
    whole = verdicts(raw, tmp_path / "one", 0.2)
    many = verdicts(raw, tmp_path / "many", 0.2, part_bytes=15_000)
    assert len(list((tmp_path / "many" / "verdicts" / "terminal").glob("*.parquet"))) > 3
    assert many.equals(whole)


def silent(number: int) -> str:
    """A session whose commands all put out nothing."""
    return json.dumps(atif(f"q{number}", f"still {number}", [""] * 12)).replace("step ", f"still {number} ")


def test_a_cap_of_a_trajectory_s_own_targets_brings_nothing_back_for_the_sake_of_other_logs(raw, tmp_path):
    (tmp_path / "raw").mkdir()
    for path in raw.iterdir():
        (tmp_path / "raw" / path.name).write_text(path.read_text())
    for number in range(5):
        (tmp_path / "raw" / f"q{number}.json").write_text(silent(number))
    own = verdicts(tmp_path / "raw", tmp_path / "own", "0.3, of: trajectory")
    targets = own.filter(pl.col("use") == "target").group_by("trajectory_id").agg(rows="step")
    assert targets.height == 20
    # Two of the seven silent ones beside five others: 2 of 7 are less than 0.3, 3 of 8 are more.
    assert {len(rows) for rows in targets["rows"]} == {7}
    rest = own.filter(pl.col("use") != "target").select("use", "reason", "kept").unique(maintain_order=True)
    assert set(rest.rows()) == {("context", "empty_answer", True), ("omit", "no_target", False)}
    every = verdicts(tmp_path / "raw", tmp_path / "every", 0.3)
    assert every.filter(pl.col("use") == "target")["trajectory_id"].n_unique() > 20
    parts = verdicts(tmp_path / "raw", tmp_path / "parts", "0.3, of: trajectory", part_bytes=15_000)
    assert parts.equals(own)


def page(site: str, answers: Mapping[str, str | None]) -> str:
    """A HAR of one page: each URL with the text that answered it, None where the recorder left it out."""
    entries: list[Any] = [
        {
            "startedDateTime": f"2026-03-02T10:00:{second:02}.000Z",
            "time": 10,
            "pageref": "page",
            "_resourceType": "document" if url == f"https://{site}/" else "fetch",
            "request": {"method": "GET", "url": url, "headers": []},
            "response": {
                "status": 200,
                "statusText": "OK",
                "headers": [],
                "content": {"mimeType": "application/json"} | ({"size": 99} if text is None else {"text": text}),
            },
        }
        for second, (url, text) in enumerate(answers.items())
    ]
    return json.dumps({"log": {"version": "1.2", "creator": {"name": "x"}, "pages": [], "entries": entries}})


def test_what_other_sites_answered_a_page_bears_no_loss_whatever_lies_beside_it(tmp_path):
    (tmp_path / "raw").mkdir()
    own = {f"https://tides.example/api/{number}": f'{{"low": "{number}:50", "day": {number}}}' for number in range(40)}
    (tmp_path / "raw" / "own.har").write_text(page("tides.example", {"https://tides.example/": "<p>Tides</p>"} | own))
    sold = {f"https://sold.example/ad/{number}": f'{{"banner": "Buy {number} pens"}}' for number in range(9)}
    (tmp_path / "raw" / "sold.har").write_text(page("news.example", {"https://news.example/": None, **sold}))
    Run(load_recipe("all"), [str(tmp_path / "raw")], str(tmp_path / "out")).run("judge")
    table = pl.read_parquet(f"{tmp_path}/out/verdicts/web/*.parquet")
    shown = pl.read_parquet(f"{tmp_path}/out/transitions/web/*.parquet").join(table, on="row_id")
    targets = shown.filter(pl.col("use") == "target")["action"].struct.field("text")
    assert len(targets) == 41
    assert not [text for text in targets if "sold" in text or "news" in text]
