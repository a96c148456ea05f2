"""Contamination: planted items are found however they stand, near misses are not, and boilerplate tells nothing."""

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.make import batch_of, trajectory
from trajmill.quality.contamination import (
    FEWEST,
    RUN,
    SAMPLED,
    Hits,
    Index,
    Keys,
    Runs,
    checkout_name,
    few_words,
    name_hash,
)
from trajmill.quality.contamination_matches import choose_items, find_matches, tasks_showing
from trajmill.quality.fingerprint import text_hashes
from trajmill.schemas import Environment, Task

VOCABULARY = [f"word{number}" for number in range(3000)]
RANDOM = random.Random(5)
LONG = " ".join(RANDOM.choices(VOCABULARY, k=60))
SHORT = "Which harbour did Amaro sail from?"
NOISE = " ".join(RANDOM.choices(VOCABULARY, k=400))


def index_of(
    texts: dict[str, list[list[str]]],
    answers: dict[str, str] | None = None,
    names: tuple[tuple[str, str, str], ...] = (),
) -> Index:
    """An index of items by name: their texts (each of strings), answers, and names as (item, kind, name)."""
    items = sorted({*texts, *(answers or {}), *(item for item, _, _ in names)})
    runs = [(items.index(item), Runs.of(strings)) for item, some in texts.items() for strings in some]
    pairs = [(items.index(item), Runs.of([text], 1)) for item, text in (answers or {}).items()]
    hashed = [name_hash(text_hashes(pa.array([name]))[:, 0], kind)[0] for _, kind, name in names]
    order = np.argsort(np.array(hashed, np.uint64))
    none = np.zeros(0, np.uint64)
    return Index(
        items=tuple(items),
        owner=np.array([item for item, _ in runs], np.int64),
        whole=np.array([entry.whole for _, entry in runs], np.bool_),
        run_text=np.repeat(np.arange(len(runs)), [len(entry.hashes) for _, entry in runs]),
        run_hash=np.concatenate([none, *(entry.hashes for _, entry in runs)]),
        answer_item=np.repeat([item for item, _ in pairs], [len(entry.hashes) for _, entry in pairs]).astype(np.int64),
        answer_hash=np.concatenate([none, *(entry.hashes for _, entry in pairs)]),
        names=np.array(hashed, np.uint64)[order],
        name_item=np.array([items.index(item) for item, _, _ in names], np.int64)[order],
        canaries=(),
    )


def found(index: Index, *texts: str | None, least: float = 0.5, **more: Any) -> list[str]:
    """The items by which one trajectory of these answers is contaminated."""
    batch = batch_of(trajectory(*texts, **more), trajectory("nothing", "at all", native_id="other"))
    return items_of(batch, index, least)


def items_of(batch: pa.RecordBatch, index: Index, least: float = 0.5, common: int = 10) -> list[str]:
    matches = pa.Table.from_batches([find_matches(batch, index)])
    run, tasks = np.unique(tasks_showing(matches, np.arange(batch.num_rows, dtype=np.uint64))[0], return_counts=True)
    _, item, _ = choose_items(matches, index, index.weights(common, run, tasks.astype(np.uint64)), least)
    return [index.items[number] for number in item]


def shaken(text: str) -> str:
    """The text with other case, white space and punctuation."""
    words = text.upper().split()
    return "".join(word + RANDOM.choice((" ", "\n", "  ", ", ", "\t- ")) for word in words)


@pytest.mark.parametrize("text", [LONG, SHORT])
@pytest.mark.parametrize(
    "placed",
    [
        lambda text: text,
        shaken,
        lambda text: f"{NOISE}\n{text}\n{NOISE}",
        lambda text: f'{{"a": "{NOISE}", "question": "{text}", "b": 1}}',
        lambda text: f"{NOISE}\\n{text}\\n{NOISE}",
        lambda text: f"{NOISE}\n{shaken(text)}\n{NOISE}",
        lambda text: f"| 1 | {text} | 2 |",
        lambda text: f"Question: {text}\nThought 1: {NOISE}",
        lambda text: f"{NOISE}\nAction 1: Search[{text}]\n{NOISE}",
        lambda text: f"{NOISE}\nsearch(query='{text}', top=5)\n{NOISE}",
    ],
)
def test_a_planted_item_is_found_however_it_stands(text, placed):
    index = index_of({"b:1": [[text]], "b:2": [["none of this is " * 8 + "anywhere"]]})
    assert found(index, "first", placed(text), "last") == ["b:1"]
    assert found(index, "first", None, "last", task=Task(instruction=placed(text))) == ["b:1"]
    assert found(index, "first", "last") == []


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("What's the café's oldest name?", "What\u2019s the CAF\u00c9\u2019s oldest name\uff1f"),
        ("Which well\u2013known river isn\u2019t Émile\u2019s?", "Which well-known river isn't E\u0301mile's?"),
        ("Welcher Fluss fließt durch Żnin und Łódź?", json.dumps({"q": "welcher Fluss fließt durch Żnin und Łódź?"})),
        ("which 🦊 is it in here?", json.dumps("Which 🦊 is it in here?")),
    ],
)
def test_signs_that_look_alike_are_one_however_they_are_written(asked, shown):
    index = index_of({"a": [[asked]]})
    assert found(index, f"{NOISE}\n{shown}\n{NOISE}") == ["a"]
    assert found(index, f"{NOISE}\n{shown.replace('n', 'm')}\n{NOISE}") == []


@pytest.mark.parametrize(
    ("name", "hit"),
    [
        ("django__django-16315", ["b:django"]),
        ("DJANGO__django-16315", ["b:django"]),
        ("django__django-16315x", []),
        ("my/django__django-16315", []),
        (None, []),
    ],
)
def test_an_id_is_found_by_a_pattern_that_matches_all_of_it(name, hit):
    index = replace(index_of({"b:django": []}), patterns=(("django__django-[0-9]+", 0),))
    assert found(index, "first", "last", task=Task(id=name)) == hit
    assert found(index, f"about {name}", "last") == []


def test_a_part_of_an_item_is_found_from_the_least_share_on():
    index = index_of({"b:1": [[LONG]]})
    words = LONG.split()
    assert found(index, " ".join(words[:40])) == ["b:1"]  # 28 of 48 runs
    assert found(index, " ".join(words[:32])) == []  # 20 of 48
    assert found(index, " ".join(words[:32]), " ".join(words[25:])) == ["b:1"]  # 20 and 23 over two answers
    assert found(index, " ".join(words[:32]), least=0.4) == ["b:1"]


def test_words_in_another_order_or_with_every_twelfth_changed_are_not_the_item():
    index = index_of({"b:1": [[LONG]], "b:2": [[SHORT]]})
    words = LONG.split()
    assert found(index, " ".join(reversed(words))) == []
    assert found(index, " ".join("x" if position % 12 == 0 else word for position, word in enumerate(words))) == []
    assert found(index, SHORT.replace("Amaro", "Amara"), "sail from which harbour did Amaro") == []


def test_a_short_item_within_a_sentence_is_not_the_item_unless_its_answer_follows():
    inside = f"someone asked me {SHORT.lower()} and I did not know"
    alone = index_of({"b:1": [[SHORT]]})
    assert found(alone, inside) == []
    asked = index_of({"b:1": [[SHORT]]}, {"b:1": "From Lisbon"})
    assert found(asked, inside) == []
    assert found(asked, f"{inside}\nA: from  LISBON.") == ["b:1"]
    assert found(asked, inside, "the answer: from Lisbon") == ["b:1"]
    assert found(asked, inside, "something else", "the answer: from Lisbon") == []
    assert found(asked, "the answer: from Lisbon", inside) == []


def test_a_question_that_the_task_asks_may_be_answered_at_any_step():
    index = index_of({"b:1": [[LONG]]}, {"b:1": "Lisbon"})
    part = Task(instruction=" ".join(LONG.split()[:30]))  # 18 of 48 runs: more than half of the least share
    assert found(index, "one", "two", "three", task=part) == []
    assert found(index, "one", "two", "it is Lisbon", task=part) == ["b:1"]


def test_names_are_found_exactly():
    index = index_of({}, names=(("b:1", "id", "django__django-1"), ("b:2", "checkout", "django/django@0123abc")))
    assert found(index, "a", task=Task(id="django__django-1")) == ["b:1"]
    assert found(index, "a", native_id="django__django-1") == ["b:1"]
    assert found(index, "a", native_id="django__django-12") == []
    assert found(index, "a", environment=Environment(instance_id="django__django-1")) == ["b:1"]
    commit = "0123abc" + "9" * 33
    assert found(index, "a", environment=Environment(instance_id=f"Django/django@{commit}")) == ["b:2"]
    assert found(index, "a", environment=Environment(instance_id="django/django@0123abd9")) == []


@pytest.mark.parametrize("asked", ["Open Settings", "open  settings!", '"Open\\tSettings"'])
def test_a_text_of_few_words_is_found_where_it_is_the_whole_task(asked):
    index = replace(
        index_of({"b:1": []}),
        names=name_hash(few_words(pa.array(["Open settings."])), "task"),
        name_item=np.zeros(1, np.int64),
    )
    assert found(index, "a", task=Task(instruction=asked)) == ["b:1"]
    assert found(index, "Open settings", asked, task=Task(instruction="Open settings, then leave")) == []
    assert found(index, "Open settings", task=Task(instruction="settings open")) == []
    assert found(index, "Open settings") == []


def test_words_are_few_from_one_to_three():
    texts = ["", None, "...", "one", "one two", "one two three", "one two three four", "one", "Two words"]
    hashes = few_words(pa.array(texts, pa.string()))
    assert [bool(hash_) for hash_ in hashes] == [False, False, False, True, True, True, False, True, True]
    assert hashes[3] == hashes[7]
    assert len(set(hashes.tolist())) == 5


def test_checkouts_have_one_name():
    assert checkout_name("https://github.com/Owner/Name.git", "0123ABCDEF") == "owner/name@0123abc"
    assert checkout_name("owner/name", "0123ab") is None
    assert checkout_name("name", "0123abc") is None


def test_canaries_are_found_in_any_text_and_any_case():
    guid = "26b5c67b-86ed-4ffc-9c42-0b1b1d3e9aa7"
    index = replace(index_of({"b:canary": []}), canaries=((guid, 0), ("a.b+c canary", 0)))
    assert found(index, f"x canary GUID {guid}y") == ["b:canary"]
    assert found(index, guid.upper()) == ["b:canary"]
    assert found(index, "say A.B+C CANARY") == ["b:canary"]
    assert found(index, guid[:-1], "aXb+c canary") == []


def test_a_run_counts_less_the_more_tasks_show_it():
    index = index_of({"b:1": [[LONG]]})
    hashes = index.runs.hashes
    for tasks, expected in ((1, 1.0), (10, 1.0), (32, 0.495), (100, 0.0), (10**6, 0.0)):
        weights = index.weights(10, hashes, np.full(len(hashes), tasks, np.uint64))
        assert weights == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(("tasks", "least", "expected"), [(10, 0.5, 10), (99, 0.9, 0), (101, 0.5, 0)])
def test_boilerplate_of_many_tasks_contaminates_nothing(tasks, least, expected):
    index = index_of({"b:1": [["only these thirteen words that stand in every log there is of it"]]})
    batch = batch_of(*(trajectory(index_text(), f"more {n}", native_id=str(n)) for n in range(tasks)))
    assert len(items_of(batch, index, least)) == expected


def index_text() -> str:
    return "only these thirteen words that stand in every log there is of it"


def test_what_many_items_share_does_not_tell_one_of_them():
    header = " ".join(f"header{number}" for number in range(60))
    index = index_of({f"b:{n}": [[f"{header} " + " ".join(f"own{n}x{k}" for k in range(20))]] for n in range(100)})
    assert found(index, header) == []
    assert found(index, f"{header} " + " ".join(f"own7x{k}" for k in range(20))) == ["b:7"]


def test_a_long_item_is_sampled_and_its_share_still_known():
    words = RANDOM.choices(VOCABULARY, k=6000)
    index = index_of({"b:1": [[" ".join(words)]]})
    assert len(index.run_hash) == SAMPLED
    assert found(index, " ".join(words[:3600])) == ["b:1"]
    assert found(index, " ".join(words[:2400])) == []


@given(
    st.lists(st.lists(st.sampled_from("abcd"), max_size=30), min_size=1, max_size=4),
    st.lists(st.sampled_from("abcd"), min_size=FEWEST, max_size=16),
)
def test_runs_are_found_exactly_where_the_words_stand(texts, item):
    runs = Runs.of([" ".join(item)])
    hits = Hits.of(pa.array([" ".join(text) for text in texts]), Keys(runs.hashes))
    size = min(len(item), RUN)
    wanted = {tuple(item[start : start + size]) for start in range(len(item) - size + 1)}
    expected = [
        number
        for number, text in enumerate(texts)
        for start in range(len(text) - size + 1)
        if tuple(text[start : start + size]) in wanted
    ]
    assert sorted(hits.text.tolist()) == expected
    for number, text in enumerate(texts):
        alone = bool(hits.alone[hits.text == number].any())
        assert alone == (len(text) == size < RUN and tuple(text) in wanted)
