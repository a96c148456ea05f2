"""What stands in two pools is found from the shards alone, whatever it is; and what only looks so is not."""

import json
import random
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from tests.pipelines.publish.test_loading import sealed_anew
from tests.pipelines.render.assembled import document, document_spans, message_spans, messages
from trajmill.pipelines.mix.sample_columns import SAMPLE_SCHEMAS
from trajmill.pipelines.publish.disjointness import SHORT_TURN, disjointness, near_pairs, similarity, sketches
from trajmill.pipelines.publish.shown_samples import shown_samples
from trajmill.pipelines.recipe.recipe import POOLS
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.render.fixed_texts import ACTION, ASKING, heading
from trajmill.pipelines.render.loss_spans import Answer
from trajmill.pipelines.render.turns import Turn
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import write_parquet
from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.manifest import FileEntry, Manifest

PAIRS = list(combinations(POOLS, 2))
OWNED = {"group": "group", "trajectory_id": "trajectory", "task_hash": "task", "instance_hash": "instance"}


def words(seed: str, number: int = 400) -> str:
    chosen = random.Random(seed)
    return " ".join(f"w{chosen.randrange(10**6)}" for _ in range(number))


def turn(number: int, act: str, seen: str, *, loss: bool = True) -> Turn:
    return Turn(number - 1, f"{heading(number)}{ACTION}```text\n{act}\n```", Answer(seen), loss, {})


def turns(*seen: str) -> list[Turn]:
    return [turn(number, f"look {number}", text) for number, text in enumerate(seen, 1)]


def sample(pool: str, key: str, shown: list[Turn], **owned: str) -> dict[str, Any]:
    """A sample of a pool; what it owns is its own, unless said otherwise."""
    names = {kind: f"{kind}-{key}" for kind in OWNED} | owned
    system, base = f"You are the {pool} of {key}.", {"domain": "terminal", "source": "s", "num_turns": len(shown)}
    if pool == "cpt":
        return {"id": key, **names, **base, "text": document(system, shown), "spans": document_spans(system, shown)}
    if pool == "sft":
        return {"id": key, **names, **base, "messages": messages(system, shown), "spans": message_spans(shown)}
    if pool == "rl":
        prompt: Any = [
            {name: message[name] for name in ("role", "content")} for message in messages(system, shown)[:-1]
        ]
        prompt[-1]["content"] += ASKING
        truth = json.dumps({"observation": shown[-1].observation})
        info = {"id": f"{key}:0", "domain": "terminal", **names}
        return {"prompt": prompt, "reward_model": {"style": "rule", "ground_truth": truth}, "extra_info": info}
    prompt, answers = [exchange.user for exchange in shown], [exchange.assistant for exchange in shown]
    row = {"current_prompt": prompt[-1] + ASKING, "system_str": system, "sample_id": f"{key}:0"}
    return {"task": "terminal", "prompt": prompt, "response": answers, **row, **names}


def clean() -> dict[str, list[dict[str, Any]]]:
    return {
        pool: [
            sample(pool, f"{pool}{number}", turns(*(words(f"{pool}{number}{n}") for n in range(3))))
            for number in range(4)
        ]
        for pool in POOLS
    }


def written(out: Path, pools: Mapping[Any, list[dict[str, Any]]]) -> str:
    """Shards of these samples; returns the run's folder."""
    folder, entries = Folder(str(out / "shards")), []
    for pool, rows in pools.items():
        if pool == "eval":
            name, data = "eval/terminal_test.jsonl", b"".join(orjson.dumps(row) + b"\n" for row in rows)
            folder.write(name, data)
            entries.append(FileEntry(name, len(rows), len(data), ""))
        else:
            batch = pa.RecordBatch.from_pylist(rows, schema=SAMPLE_SCHEMAS[pool])
            name = f"{pool}/terminal/train-00000-of-00001.parquet"
            entries.append(write_parquet(folder, name, batch.schema, [batch], shard=True))
    counts = {f"samples.{pool}.terminal": len(rows) for pool, rows in pools.items()}
    folder.write("manifest.json", Manifest("mix", "", "0" * 64, SCHEMA_VERSION, tuple(entries), counts).to_json())
    return str(out)


@pytest.mark.parametrize("kind", OWNED)
def test_a_name_that_two_pools_have_is_a_leak(tmp_path, kind):
    for number, (first, second) in enumerate(PAIRS):
        pools = clean()
        for pool in (first, second):
            pools[pool].append(sample(pool, f"x-{pool}", turns(words(f"x-{pool}")), **{kind: "the same"}))
        result = disjointness(written(tmp_path / str(number), pools))
        assert result.leaks == (f"{first} and {second} share 1 {OWNED[kind]}: the same",)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_turn_that_two_pools_teach_or_ask_after_the_same_history_is_a_leak(tmp_path, one, other):
    pools, shared = clean(), words("shared", 300)
    for pool in (one, other):
        more = [words(f"{pool} more", 900)] if pool in ("cpt", "sft") else []
        pools[pool].append(sample(pool, f"x-{pool}", turns(words("before", 20), shared, *more)))
    (line,) = [line for line in disjointness(written(tmp_path, pools)).leaks if "equal" in line]
    asked = {pool: f"turn 2 of x-{pool}" + (":0" if pool in ("rl", "eval") else "") for pool in (one, other)}
    assert line.endswith(f", with all before: {asked[one]} and {asked[other]}")


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_samples_that_are_nearly_the_same_are_a_leak(tmp_path, one, other):
    pools = clean()
    for pool in (one, other):
        tokens = words("near", 1200).split()
        tokens[200] = tokens[700] = pool
        pools[pool].append(sample(pool, f"x-{pool}", turns(" ".join(tokens[:600]), " ".join(tokens[600:]))))
    (line,) = disjointness(written(tmp_path, pools)).leaks
    assert line.startswith(f"{one} and {other} share 1 near pair, samples of which 90% or more is the same: x-{one}")


def test_many_leaks_are_counted_and_the_first_are_named(tmp_path):
    pools = clean()
    for number in range(5):
        for pool in ("sft", "rl"):
            key = f"x-{pool}{number}"
            pools[pool].append(sample(pool, key, turns(words(key)), group=f"g{number}"))
    assert disjointness(written(tmp_path, pools)).leaks == ("sft and rl share 5 groups: g0, g1, g2 and 2 more",)


def test_a_short_turn_that_anybody_takes_is_told_and_no_leak(tmp_path):
    pools = clean()
    for pool in ("cpt", "eval"):
        pools[pool].append(sample(pool, f"x-{pool}", turns("Mon Jan 1")))
    result = disjointness(written(tmp_path, pools))
    assert result.leaks == ()
    assert result.checked[1:] == (
        "pools: 1 equal turn of less than 1,024 characters with all before: too short to tell",
    )


def test_a_turn_that_one_of_the_pools_only_shows_is_no_equal_turn(tmp_path):
    pools, shared = clean(), words("shared", 300)
    assert len(shared) > SHORT_TURN
    shown = [turn(1, "look 1", shared, loss=False), turn(2, "go", words("another", 900))]
    pools["cpt"].append(sample("cpt", "x-cpt", shown))
    for pool in ("sft", "rl"):
        pools[pool].append(sample(pool, f"x-{pool}", turns(shared if pool == "rl" else words("own"))))
    result = disjointness(written(tmp_path, pools))
    assert result.leaks == ()
    assert result.checked[1:] == ("pools: 1 turn of rl and eval also in cpt or sft, there as history without loss",)


def test_only_so_many_samples_are_compared_each_with_each(tmp_path):
    (note,) = disjointness(written(tmp_path, clean()), 8).checked
    compared = int(note.split(" turns and ")[1].split()[0])
    assert 0 < compared < 16


def test_nothing_is_told_of_shards_that_are_not_finished(tmp_path):
    out = written(tmp_path, clean())
    (tmp_path / "shards" / "manifest.json").unlink()
    assert disjointness(out).checked == ()


def test_every_pool_shows_the_same_exchanges_of_the_same_turns(tmp_path):
    shown = turns("one", "two\n\n### Turn 1\nas a text", "three")
    rows = {pool: [sample(pool, "x", shown)] for pool in POOLS}
    folder = Folder(written(tmp_path, rows)) / "shards"
    files = [
        path.relative_to(folder.path()) for path in Path(folder.path()).rglob("*.*") if path.parent.name != "shards"
    ]
    for file in files:
        pool = file.parts[0]
        (example,) = shown_samples(folder, pool, str(file))
        assert [(exchange.before, exchange.answer) for exchange in example.exchanges] == [
            (shown_turn.user, shown_turn.observation) for shown_turn in shown
        ]
        assert [exchange.taught for exchange in example.exchanges] == [pool in ("cpt", "sft")] * 2 + [True]
    assert len(files) == len(POOLS)


TEXTS = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.integers(0, 5), max_size=3), st.sampled_from([300, 2000])), max_size=12
)


@given(TEXTS, st.sampled_from([0.5, 0.8, 0.9]))
def test_near_pairs_are_those_that_comparing_each_with_each_in_full_finds(made, least):
    texts = []
    for seed, changed, size in made:
        tokens = words(str(seed), size).split()
        for number in changed:
            tokens[10 + 40 * number] = f"other{number}"
        texts.append(" ".join(tokens))
    pools = [number % 3 for number in range(len(texts))]
    sketched = sketches(texts)
    want = {
        (left, right)
        for left in range(len(sketched))
        for right in range(len(sketched))
        if pools[left] < pools[right] and similarity(sketched[left], sketched[right]) >= least
    }
    assert {(pair.one, pair.other) for pair in near_pairs(sketched, pools, least, 1)} == want


def test_texts_that_share_nothing_agree_on_half_of_their_bits():
    sketched = sketches([words(f"of its own {number}", 1500) for number in range(20)])
    unlike = [int(np.bitwise_count(left.bits ^ right.bits).sum()) for left, right in combinations(sketched, 2)]
    assert 90 < min(unlike) <= max(unlike) < 166  # of 256, within five deviations


def test_the_similarity_of_long_texts_is_that_of_their_shingles():
    tokens = words("long", 8000).split()
    changed = list(tokens)
    changed[::50] = ["x"] * len(changed[::50])  # 5 of each 50 runs of five words
    first, two = sketches([" ".join(tokens), " ".join(changed)])
    assert similarity(first, two) == pytest.approx(0.9 / 1.1, abs=0.04)
    assert similarity(first, first) == 1.0
    assert similarity(first, sketches([""])[0]) == 0.0


def test_the_command_ends_with_5_where_pools_share_a_group(finished):
    (path,) = (finished / "shards" / "cpt").rglob("*.parquet")
    (sft_file,) = (finished / "shards" / "sft").rglob("*.parquet")
    table, group = pq.read_table(path), pq.read_table(sft_file)["group"][0].as_py()
    groups = pa.array(np.repeat(group, table.num_rows).tolist(), pa.string())
    pq.write_table(table.set_column(table.schema.get_field_index("group"), "group", groups), path)
    sealed_anew(finished, str(path.relative_to(finished / "shards")))
    code, output, complained = ran("verify", finished)
    assert code == 5, complained
    assert f"cpt and sft share 1 group: {group}\n" in output


def test_a_run_over_sessions_that_were_logged_in_several_formats_leaks_nothing(tmp_path):
    """Formats tell one act in words of their own, which samples do not show."""
    Run(load_recipe("all"), [str(ROOT / "samples" / "web" / site) for site in ("shop", "tasks")], str(tmp_path)).run()
    result = disjointness(str(tmp_path))
    assert result.leaks == ()
    assert all(f"{pool} " in result.checked[0] for pool in POOLS)
