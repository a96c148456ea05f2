"""Passages in the draw of a mixture: what can be drawn of them, and what was drawn as samples."""

import numpy as np
import pyarrow.parquet as pq

from tests.pipelines.mix.passages.corpora import RECIPE, component, prepared, prose, written
from trajmill.pipelines.mix.candidates import Wanted, gather_candidates
from trajmill.pipelines.mix.draw import Items, draw_stage
from trajmill.pipelines.mix.keyed import keyed_hash
from trajmill.pipelines.mix.passages.drawing import passage_candidates, passage_identities, render_passages
from trajmill.pipelines.mix.passages.preparation import Preparation
from trajmill.pipelines.recipe.mixture import Stage
from trajmill.pipelines.storage.folders import Folder


def made(tmp_path):
    law = component(written(tmp_path / "law.jsonl", [prose(40, seed) for seed in range(20)]), name="law")
    chats = [
        {
            "messages": [
                {"role": "user", "content": prose(20, 100 + seed)},
                {"role": "assistant", "content": prose(30, seed)},
            ]
        }
        for seed in range(30, 40)
    ]
    talk = component(written(tmp_path / "talk.jsonl", chats), name="talk", kind="messages")
    prepared(tmp_path / "out", law, talk)
    preparing = Preparation(RECIPE, (law, talk), Folder(str(tmp_path / "out")))
    return preparing, preparing.units()


def test_passages_are_candidates_with_the_sizes_that_their_part_tells(tmp_path):
    preparing, units = made(tmp_path)
    wanted = Wanted(3, ["length"])
    candidates = gather_candidates((passage_candidates(unit, preparing, wanted) for unit in units), wanted.signals)
    rows = [row for unit in units for row in pq.read_table(preparing.parts.path(unit.part)).to_pylist()]
    for name in ("tokens", "loss_tokens", "text_bytes"):
        assert getattr(candidates, name).tolist() == [row[name] for row in rows]
    assert [f"{group:016x}" for group in candidates.group.tolist()] == [row["group"] for row in rows]
    assert candidates.draw_key.tolist() == [keyed_hash(f"draw:{row['id']}", 3) for row in rows]
    assert [key for unit in units for key in passage_identities(unit, preparing).ids.to_pylist()] == [
        row["id"] for row in rows
    ]
    assert candidates.domain.tolist() == ["law"] * 20 + ["talk"] * 10
    assert np.isnan(candidates.signals["length"]).all()


def test_a_stage_draws_components_of_passages_by_their_weights(tmp_path):
    preparing, units = made(tmp_path)
    candidates = gather_candidates(passage_candidates(unit, preparing) for unit in units)
    items = Items(
        key=np.arange(len(candidates), dtype=np.uint64),
        tokens=candidates.tokens,
        loss_tokens=candidates.loss_tokens,
        group=candidates.group,
        component=candidates.domain,
        domain=candidates.domain,
    )
    budget = int(candidates.tokens[:20].sum())
    stage = Stage.model_validate({"budget": budget, "components": {"law": {"weight": 0.75}, "talk": {"weight": 0.25}}})
    by_name = {category.component: category for category in draw_stage(items, stage).categories}
    assert abs(by_name["law"].tokens - 0.75 * budget) <= 2 * int(candidates.tokens.max())
    assert sum(category.tokens for category in by_name.values()) <= budget


def test_what_is_drawn_is_a_sample_of_its_pool_as_often_as_it_is_drawn(tmp_path):
    preparing, (law, talk) = made(tmp_path)
    draws = [
        {"pool": "sft" if number % 2 else "cpt", "copies": number % 3, "group": f"{number:016x}"}
        for number in range(20)
    ]
    drawn = render_passages(law, preparing, draws)
    samples = [(pool, component, row) for pool, component, batch in drawn for row in batch.to_pylist()]
    assert len(samples) == sum(number % 3 for number in range(20))
    assert all(("text" in sample) == (pool == "cpt") for pool, _, sample in samples)
    groups = {(pool, sample["group"]) for pool, _, sample in samples}
    assert groups == {(row["pool"], row["group"]) for row in draws if row["copies"]}
    assert {component for _, component, _ in samples} == {"law"}
    ((_, _, talks),) = render_passages(talk, preparing, [{"pool": "sft", "copies": 1, "group": "0" * 16}] * 10)
    first = talks.to_pylist()[0]
    assert [message["role"] for message in first["messages"]] == ["user", "assistant"]
    assert first["_row"] == first["id"]
