"""Drawing by budget, weight and bound, and the coded names that it counts by."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from trajmill.pipelines.mix import draw
from trajmill.pipelines.mix.coded_names import Coded, hex_texts, numbers_of
from trajmill.pipelines.mix.draw import NOTHING, Drawing, Items, PriorDraws, draw_stage, weights_of
from trajmill.pipelines.recipe.mixture import Component, Stage
from trajmill.schemas import ConfigError


def items_of(rows: list[dict[str, Any]]) -> Items:
    def column(name: str, default: Any, kind: Any) -> Any:
        return np.array([row.get(name, default) for row in rows], kind)

    values = {
        "component": column("component", "all", object),
        "domain": column("domain", "web", object),
        "source": column("source", "s", object),
        "kind": column("kind", "real", object),
        "task": column("task", 0, np.uint64),
        "environment": column("environment", 0, np.uint64),
    }
    tokens = column("tokens", 100, np.int64)
    return Items(
        key=np.array([(number * 2654435761) % (1 << 32) for number in range(len(rows))], np.uint64),
        tokens=tokens,
        loss_tokens=tokens // 2,
        group=column("group", 0, np.uint64),
        component=values["component"],
        domain=values["domain"],
        values=values,
    )


def stage(**values: Any) -> Stage:
    return Stage.model_validate({"components": {"all": {}}, **values})


def share(drawing: Drawing, domain: str) -> float:
    return next(category.tokens for category in drawing.categories if category.domain == domain) / sum(
        category.tokens for category in drawing.categories
    )


DOMAINS = st.sampled_from(["web", "swe", "mcp"])
ITEMS = st.lists(
    st.fixed_dictionaries(
        {
            "tokens": st.integers(1, 400),
            "domain": DOMAINS,
            "source": st.sampled_from("ab"),
            "task": st.integers(0, 4),
            "group": st.integers(0, 6),
        }
    ),
    min_size=1,
    max_size=60,
)
STAGES = st.fixed_dictionaries(
    {},
    optional={
        "on_shortfall": st.sampled_from(["redistribute", "repeat"]),
        "max_per_group": st.integers(1, 5),
        "components": st.sampled_from(
            [
                {"all": {"temperature": 3}},
                {"all": {"unimax": 2}},
                {"all": {"weights": {"web": 0.5, "swe": 0.3, "mcp": 0.2}}},
            ]
        ),
        "bounds": st.lists(
            st.sampled_from(
                [
                    {"by": "domain", "value": "web", "max_share": 0.4},
                    {"by": "task", "max_share": 0.3},
                    {"by": "source", "value": "a", "min_share": 0.6},
                    {"by": "domain", "max_tokens": 900},
                ]
            ),
            max_size=2,
        ),
    },
)


def may_be_drawn(items: Items, asked: Stage, copies: Any, number: int) -> bool:
    """Whether an item could have been drawn once more, by the rules as the guide states them."""
    drawn, size = copies * items.tokens, items.tokens[number]
    if drawn.sum() + size > asked.budget:
        return False
    for bound in asked.bounds:
        own = items.values[bound.by][number]
        if own in (0, "") or (bound.value is not None and own != bound.value):
            continue
        taken = drawn[items.values[bound.by] == own].sum()
        if bound.max_tokens is not None and taken + size > bound.max_tokens:
            return False
        if bound.max_share is not None and taken and taken + size > bound.max_share * (drawn.sum() + size):
            return False
    return True


@given(ITEMS, STAGES, st.integers(1, 8000))
def test_a_budget_is_never_passed_and_nothing_that_would_fit_is_left(rows, values, budget):
    items, asked = items_of(rows), stage(**values, budget=budget)
    drawing = draw_stage(items, asked)
    assert (
        int((drawing.copies * items.tokens).sum()) == sum(category.tokens for category in drawing.categories) <= budget
    )
    by_key = np.argsort(items.key, kind="stable")
    groups = {group: [index for index in by_key if items.group[index] == group] for group in set(items.group.tolist())}
    allowed = [index for own in groups.values() for index in own[: asked.max_per_group]]
    left = [index for index in allowed if not drawing.copies[index]]
    assert [index for index in left if may_be_drawn(items, asked, drawing.copies, index)] == []


@given(ITEMS, STAGES, st.integers(1, 8000))
def test_a_budget_that_passes_nothing_over_draws_what_a_larger_one_does(rows, values, budget):
    items = items_of(rows)
    less = draw_stage(items, stage(**values, budget=budget))
    first_of_all = int(items.tokens[(less.copies == 0) | (values.get("on_shortfall") == "repeat")].max(initial=0))
    more = draw_stage(items, stage(**values, budget=budget + first_of_all))
    if int((less.copies * items.tokens).sum()) + first_of_all <= budget:
        assert (less.copies <= more.copies).all()


def test_where_the_next_sample_does_not_fit_the_largest_that_does_is_drawn_instead():
    rows = [{"tokens": tokens} for tokens in (30_000, 40_000, 9_000, 18_500, 22_157, 12_000)]
    items = replace(items_of(rows), key=np.arange(len(rows), dtype=np.uint64))
    # 30,000 are drawn, 40,000 do not fit, then 22,157, of the rest nothing but 12,000 does not pass 65,000
    assert draw_stage(items, stage(budget=65_000)).copies.tolist() == [1, 0, 0, 0, 1, 1]


@pytest.mark.parametrize("there", [20, 19])
def test_what_a_domain_lacks_is_told_exactly_where_nothing_of_it_is_left(there):
    rows = [{"domain": "web"} for _ in range(50)] + [{"domain": "swe"} for _ in range(there)]
    asked = stage(budget=4_000, components={"all": {"weights": {"web": 0.5, "swe": 0.5}}})
    short = {category.domain: category.shortfall for category in draw_stage(items_of(rows), asked).categories}
    assert short == {"swe": 2_000 - 100 * there, "web": 0}


@given(ITEMS, STAGES, st.integers(1, 8000))
def test_columns_of_numbers_and_of_objects_are_drawn_alike(rows, values, budget):
    items = items_of(rows)
    named = {by: Coded.of(column.tolist()) for by, column in items.values.items() if by not in ("task", "environment")}
    small = replace(
        items,
        tokens=items.tokens.astype(np.uint32),
        component=named["component"],
        domain=named["domain"],
        values={**items.values, **named},
    )
    chosen = stage(**values, budget=budget)
    assert (draw_stage(items, chosen).copies == draw_stage(small, chosen).copies).all()
    assert draw_stage(items, chosen).categories == draw_stage(small, chosen).categories


@given(ITEMS, STAGES, st.integers(1, 8000), st.randoms(use_true_random=False))
def test_the_order_of_items_changes_nothing(rows, values, budget, random):
    items = items_of(rows)
    order = np.array(random.sample(range(len(rows)), len(rows)))
    permuted = Items(
        items.key[order],
        items.tokens[order],
        items.loss_tokens[order],
        items.group[order],
        items.component[order],
        items.domain[order],
        {name: values[order] for name, values in items.values.items()},
    )
    chosen = stage(**values, budget=budget)
    assert (draw_stage(items, chosen).copies[order] == draw_stage(permuted, chosen).copies).all()
    assert draw_stage(items, chosen).categories == draw_stage(permuted, chosen).categories


def test_without_a_budget_all_is_drawn_once():
    drawing = draw_stage(items_of([{}, {"domain": "swe"}, {}]), stage())
    assert drawing.copies.tolist() == [1, 1, 1]
    assert [
        (category.domain, category.samples, category.tokens, category.loss_tokens, category.share)
        for category in drawing.categories
    ] == [("swe", 1, 100, 50, None), ("web", 2, 200, 100, None)]


def test_components_have_their_weights_and_domains_theirs_within():
    rows = [{"component": name, "domain": domain} for name in "ab" for domain in ("web", "swe") for _ in range(500)]
    components = {
        "a": {"weight": 0.7, "weights": {"web": 0.5, "swe": 0.5}},
        "b": {"weight": 0.3, "weights": {"web": 1}},
    }
    drawing = draw_stage(items_of(rows), stage(budget=40_000, components=components))
    assert [(category.component, category.domain, category.tokens) for category in drawing.categories] == [
        ("a", "swe", 14_000),
        ("a", "web", 14_000),
        ("b", "web", 12_000),
    ]


def test_temperature_evens_out_and_unimax_draws_alike_up_to_its_epochs():
    sizes = {"web": 1_000_000, "swe": 10_000}
    assert weights_of(Component(), sizes)["swe"] == pytest.approx(0.0099, abs=1e-4)
    assert weights_of(Component(temperature=2), sizes)["swe"] == pytest.approx(1 / 11)
    rows = [*({"domain": "web"} for _ in range(500)), *({"domain": "swe"} for _ in range(20))]
    drawing = draw_stage(items_of(rows), stage(budget=30_000, components={"all": {"unimax": 3}}))
    assert {category.domain: (category.tokens, category.epochs) for category in drawing.categories} == {
        "swe": (6000, 3.0),
        "web": (24_000, 0.48),
    }


def test_what_falls_short_of_a_number_of_samples_is_told_of_what_was_drawn():
    rows = [*({"domain": "web"} for _ in range(500)), *({"domain": "swe"} for _ in range(20))]
    values = {"samples": 100, "components": {"all": {"weights": {"web": 0.5, "swe": 0.5}}}}
    drawing = draw_stage(items_of(rows), stage(**values))
    assert [
        (category.domain, category.samples, category.tokens, category.share, category.shortfall)
        for category in drawing.categories
    ] == [("swe", 20, 2000, 0.5, 3000), ("web", 80, 8000, 0.5, 0)]
    with pytest.raises(ConfigError, match="swe"):
        draw_stage(items_of(rows), stage(**values, on_shortfall="stop"))


def test_what_falls_short_is_given_to_others_repeated_or_an_error():
    rows = [*({"domain": "web"} for _ in range(500)), *({"domain": "swe"} for _ in range(20))]
    values = {"budget": 20_000, "components": {"all": {"weights": {"web": 0.5, "swe": 0.5}, "epochs": 4}}}
    given_away, repeated = (
        draw_stage(items_of(rows), stage(**values, on_shortfall=policy)) for policy in ("redistribute", "repeat")
    )
    assert [(category.domain, category.tokens, category.shortfall) for category in given_away.categories] == [
        ("swe", 2000, 8000),
        ("web", 18_000, 0),
    ]
    assert [(category.domain, category.tokens, category.epochs) for category in repeated.categories] == [
        ("swe", 8000, 4.0),
        ("web", 12_000, 0.24),
    ]
    with pytest.raises(ConfigError, match="swe"):
        draw_stage(items_of(rows), stage(**values, on_shortfall="stop"), "mix.stages.sft")


def test_a_stage_that_stops_at_a_shortfall_tells_all_that_falls_short():
    components = {
        "a": {"weight": 0.7, "weights": {"web": 0.5, "mcp": 0.5}},
        "b": {"weight": 0.2},
        "c": {"weight": 0.1, "unimax": 4},
    }
    rows = [{"component": "a", "domain": "web"} for _ in range(50)]
    rows += [{"component": "c", "domain": "swe"} for _ in range(10)]
    with pytest.raises(ConfigError) as met:
        draw_stage(items_of(rows), stage(budget=20_000, components=components, on_shortfall="stop"))
    assert [line.split(",")[0] for line in met.value.message.split("; ")] == [
        "mix.stages: web of component 'a' falls short: 5",  # 7,000 are asked for, 5,000 are there
        "mcp of component 'a' falls short: 0 tokens are there",
        "component 'b' falls short: 0 tokens are there",
    ]


def test_a_stage_that_stops_at_a_shortfall_goes_on_where_there_is_none():
    rows = [{"domain": domain} for domain in ("web", "swe") for _ in range(50)]
    asked = {"components": {"all": {"weights": {"web": 0.5, "swe": 0.5}}}, "on_shortfall": "stop"}
    whole = draw_stage(items_of(rows), stage(budget=10_000, **asked))
    assert whole.copies.tolist() == [1] * 100
    with pytest.raises(ConfigError, match="101"):
        draw_stage(items_of(rows), stage(samples=101, **asked))
    assert draw_stage(items_of(rows), stage(samples=10, budget=10_000, **asked)).copies.sum() == 10


def test_samples_that_were_drawn_before_count_in_the_number_that_is_asked_for():
    asked = stage(samples=10, on_shortfall="stop")
    before = PriorDraws(samples=3)
    assert draw_stage(items_of([{} for _ in range(7)]), asked, carried=before).copies.sum() == 7
    with pytest.raises(ConfigError):
        draw_stage(items_of([{} for _ in range(6)]), asked, carried=before)


def test_what_a_bound_keeps_out_is_a_shortfall_too():
    rows = [{"domain": domain} for domain in ("web", "swe") for _ in range(100)]
    values = {
        "budget": 16_000,
        "components": {"all": {"weights": {"web": 0.5, "swe": 0.5}}},
        "bounds": [{"by": "domain", "value": "web", "max_tokens": 2000}],
    }
    short = {category.domain: category.shortfall for category in draw_stage(items_of(rows), stage(**values)).categories}
    assert short == {"swe": 0, "web": 6000}
    with pytest.raises(ConfigError, match="web"):
        draw_stage(items_of(rows), stage(**values, on_shortfall="stop"))


def test_what_has_a_share_and_is_not_there_at_all_is_told():
    asked = {"components": {"all": {"weights": {"web": 0.5, "swe": 0.5}}}}
    drawing = draw_stage(items_of([{"domain": "web"} for _ in range(500)]), stage(budget=20_000, **asked))
    assert [
        (category.domain, category.tokens, category.share, category.shortfall) for category in drawing.categories
    ] == [("web", 20_000, 0.5, 0), ("swe", 0, 0.5, 10_000)]
    swe = drawing.categories[1]
    assert (swe.samples, swe.loss_tokens, swe.available) == (0, 0, 0)


def test_bounds_hold_by_share_and_by_tokens():
    rows = [{"domain": domain, "task": task} for domain in ("web", "swe") for task in range(1, 11) for _ in range(100)]
    items = items_of(rows)
    drawing = draw_stage(items, stage(budget=50_000, bounds=[{"by": "domain", "value": "web", "max_share": 0.1}]))
    assert share(drawing, "web") == pytest.approx(0.1, abs=0.003)
    most = draw_stage(items, stage(budget=50_000, bounds=[{"by": "task", "max_tokens": 700}])).copies * items.tokens
    assert np.bincount(np.tile(np.repeat(np.arange(1, 11), 100), 2), weights=most)[1:].tolist() == [700.0] * 10
    least = draw_stage(items, stage(budget=50_000, bounds=[{"by": "domain", "value": "swe", "min_share": 0.9}]))
    assert share(least, "swe") == pytest.approx(0.9, abs=0.003)


def test_a_group_gives_no_more_samples_than_the_stage_allows():
    items = items_of([{"group": number % 3} for number in range(30)])
    copies = draw_stage(items, stage(max_per_group=4)).copies
    assert np.bincount(items.group.astype(np.int64), weights=copies).tolist() == [4.0, 4.0, 4.0]


@pytest.mark.parametrize(
    "values",
    [
        {"components": {"a": {"weight": 0.5}, "b": {"weight": 0.4}}, "budget": 9},
        {"components": {"a": {"weight": 0.5}, "b": {}}, "budget": 9},
        {"components": {"a": {"weight": 1}}},
        {"components": {"a": {"weights": {"web": 0.5}}}, "budget": 9},
        {"components": {"a": {"temperature": 2, "unimax": 2}}},
        {"components": {}},
        {"bounds": [{"by": "domain"}]},
        {"bounds": [{"by": "task", "min_share": 0.1}]},
        {"bounds": [{"by": "domain", "min_share": 0.1}]},
    ],
)
def test_a_stage_that_cannot_be_meant_is_refused(values):
    with pytest.raises(ValidationError):
        Stage.model_validate(values)


def carried_from(items: Items, drawing: Drawing, asked: Stage, before: PriorDraws = NOTHING) -> PriorDraws:
    """What a stage drew of items, and what it had drawn before, as the next drawing is told it."""

    def summed(old: Mapping[Any, int], values: Any, amounts: Any) -> dict[Any, int]:
        total = Counter(old)
        for value, amount in zip(values.tolist(), amounts.tolist(), strict=True):
            total[value] += amount
        return dict(total)

    def told(name: str, old: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
        total = Counter(old)
        for category in drawing.categories:
            total[category.component, category.domain] += getattr(category, name)
        return dict(total)

    tokens = items.tokens * drawing.copies
    olds: Sequence[Mapping[Any, int]] = before.bounds or [{}] * len(asked.bounds)
    bounds = [summed(old, items.values[bound.by], tokens) for bound, old in zip(asked.bounds, olds, strict=True)]
    groups = summed(before.groups, items.group, (drawing.copies > 0).astype(np.int64))
    samples = before.samples + int(drawing.copies.sum())
    drawn, available = told("tokens", before.drawn), told("available", before.available)
    return PriorDraws(samples, drawn, available, tuple(bounds), groups)


@given(st.lists(ITEMS, min_size=2, max_size=3), STAGES, st.integers(100, 5000), st.integers(1, 40))
def test_generations_together_hold_to_budget_samples_groups_and_bounds(arrivals, values, budget, samples):
    asked = stage(**values, budget=budget, samples=samples)
    carried, tokens, count = NOTHING, 0, 0
    by_group: Counter[int] = Counter()
    by_domain: Counter[str] = Counter()
    for rows in arrivals:
        items = items_of(rows)
        drawing = draw_stage(items, asked, carried=carried)
        tokens, count = tokens + int((items.tokens * drawing.copies).sum()), count + int(drawing.copies.sum())
        for number in np.flatnonzero(drawing.copies).tolist():
            by_group[int(items.group[number])] += 1
            by_domain[str(items.domain[number])] += int(items.tokens[number] * drawing.copies[number])
        carried = carried_from(items, drawing, asked, carried)
    assert tokens <= budget
    assert count <= samples
    assert max(by_group.values(), default=0) <= (asked.max_per_group or count)
    for bound in asked.bounds:
        assert bound.max_tokens is None or max(by_domain.values(), default=0) <= bound.max_tokens


def test_a_domain_that_earlier_generations_lacked_catches_up():
    weights = {"all": {"weights": {"web": 0.5, "swe": 0.5}}}
    first = items_of([{"domain": "web"}] * 40 + [{"domain": "swe"}] * 10)
    asked = stage(components=weights, budget=4_000)
    before = draw_stage(first, asked)
    assert share(before, "swe") == 0.25
    second = items_of([{"domain": "web"}] * 40 + [{"domain": "swe"}] * 40)
    more = stage(components=weights, budget=6_000)
    after = draw_stage(second, more, carried=carried_from(first, before, asked))
    assert share(after, "swe") == 1.0


def test_items_that_wait_are_looked_at_a_few_times_each(monkeypatch):
    looked = 0
    needed = draw._Draw._needed

    def counted(self, item):
        nonlocal looked
        looked += 1
        return needed(self, item)

    monkeypatch.setattr(draw._Draw, "_needed", counted)
    rows = [{"task": 1 + (number % 7 if number % 3 else 0), "tokens": 1 + number % 50} for number in range(3000)]
    drawing = draw_stage(items_of(rows), stage(bounds=[{"by": "task", "max_share": 0.2}]))
    assert drawing.copies.sum() > 1000
    assert looked < 5 * len(rows)


TEXTS = st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "b", "long"])), max_size=12)


@given(st.lists(TEXTS, max_size=4), st.sets(st.sampled_from(["", "a", "z"])))
def test_columns_that_are_joined_hold_their_names(parts, asked):
    whole = Coded.joined([Coded.of(part) for part in parts])
    texts = [text for part in parts for text in part]
    assert whole.tolist() == whole.texts().to_pylist() == texts
    assert set(whole.held()) == set(texts)
    assert whole.is_in(asked).tolist() == [text in asked for text in texts]
    assert whole[1:].tolist() == texts[1:]


def test_more_names_than_a_byte_tells_apart_are_held():
    names = [f"source {number}" for number in range(300)]
    whole = Coded.joined([Coded.alike(name, 2) for name in names])
    assert whole.codes.dtype == np.uint16
    assert whole.tolist() == [name for name in names for _ in range(2)]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_numbers_are_16_digits_and_are_read_again(numbers):
    texts = hex_texts(np.array(numbers, np.uint64))
    assert texts.to_pylist() == [f"{number:016x}" for number in numbers]
    assert numbers_of(texts).tolist() == numbers
