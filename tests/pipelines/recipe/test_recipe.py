import re

import pytest

from tests.tables import table
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import builtin_recipes, load_recipe, parse_recipe
from trajmill.schemas import DOMAINS, ConfigError

MINIMAL = "name: a\nsource: b\n"


def fault(text):
    with pytest.raises(ConfigError) as caught:
        parse_recipe(MINIMAL + text, "r.yaml")
    return str(caught.value)


@pytest.mark.parametrize("name", list(builtin_recipes()))
def test_built_in_recipes_are_valid_and_open_with_the_command_that_runs_them(name):
    assert load_recipe(name).domains == (DOMAINS if name in ("all", "world-model") else (name,))
    assert builtin_recipes()[name].startswith(f"# make shards DOMAIN={name}")


@pytest.mark.parametrize(
    ("text", "words"),
    table(__file__, "recipe_faults"),
)
def test_a_fault_is_named_by_its_place_and_the_nearest_valid_name(text, words):
    message = fault(text)
    for word in words:
        assert word in message


def test_a_rule_omits_by_default_and_leaves_context_under_a_cap():
    bound = "signal: no_op, max: 0"
    rules = f"{{a: {{{bound}}}, b: {{{bound}, cap: 0.1}}, c: {{{bound}, use: omit, cap: 0}}}}"
    made = parse_recipe(MINIMAL + f"judge: {{rules: {rules}}}", "r.yaml").judge.ordered_rules()
    assert [(rule.name, rule.use, rule.cap) for rule in made] == [
        ("a", "omit", None),
        ("b", "context", 0.1),
        ("c", "omit", 0.0),
    ]


@pytest.mark.parametrize(
    ("benchmark", "name"),
    [
        ("swe-bench", "django__django-16315"),
        ("swe-bench", f"instance_ansible__ansible-{'0f' * 20}-v{'1a' * 20}"),
        ("tau-bench", "airline/35"),
        ("webvoyager", "taskBBC News--9"),
        ("webarena", "browsergym/webarena.310"),
        ("android-world", "SystemWifiTurnOnVerify"),
        ("terminal-bench", "play-zork"),
        (None, "astropy__astropy.26d14776.func__x1"),
        (None, "acme__lamp-1"),
        (None, "miniwob.click-test"),
        (None, "SystemWifi"),
    ],
)
def test_a_published_task_is_known_by_its_id_and_others_are_not(benchmark, name):
    found = [
        one.name
        for one in load_recipe("all").judge.benchmarks
        if name in one.ids or any(re.fullmatch(pattern, name, re.IGNORECASE) for pattern in one.id_patterns)
    ]
    assert found == [benchmark][: benchmark is not None]


def test_a_recipe_that_extends_another_says_only_what_is_its_own():
    own = """
extends: terminal
judge:
  rules:
    few_turns: {signal: turns, min: 3}
    no_op: null
    loop: {signal: loop, max: 0.5}
  benchmarks:
    - {name: canaries, canary: [our own canary]}
    - {name: ours, ids: [ours-1]}
mix: {pools: {cpt: 1.0}}
"""
    made, base = parse_recipe(MINIMAL + own, "r.yaml"), load_recipe("terminal")
    assert (made.name, made.source, made.card) == ("a", "b", Recipe(name="a", source="b").card)
    assert (made.domains, made.normalize) == (base.domains, base.normalize)
    assert [*made.judge.rules] == [*(name for name in base.judge.rules if name != "no_op"), "loop"]
    assert made.judge.rules["few_turns"].min == 3
    assert [one.name for one in made.judge.benchmarks] == [*(one.name for one in base.judge.benchmarks), "ours"]
    assert made.judge.benchmarks[0].canary == ("our own canary",)
    assert made.mix.pools == {"cpt": 1.0}
    assert made.mix.seed == base.mix.seed


def test_null_takes_all_of_a_kind_away():
    assert parse_recipe(MINIMAL + "extends: all\njudge: {benchmarks: []}", "r").judge == load_recipe("all").judge
    assert not parse_recipe(MINIMAL + "extends: all\njudge: {benchmarks: null}", "r").judge.benchmarks


def test_text_that_is_no_mapping_is_refused():
    with pytest.raises(ConfigError):
        parse_recipe("- a", "r.yaml")
    with pytest.raises(ConfigError):
        parse_recipe("a: [", "r.yaml")


def test_an_unknown_recipe_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="'terminal'"):
        load_recipe("terminall")


def test_the_digest_depends_on_values_and_not_on_how_they_are_written():
    one = parse_recipe("name: a\nsource: b\ndomains: [web, os]\n", "x")
    same = parse_recipe("{source: b, domains: ['web', os], name: a}", "y")
    assert one.digest() == same.digest()
    assert one.digest("mix") == Recipe(name="c", source="d").digest("mix")
    assert one.digest() != parse_recipe(MINIMAL, "x").digest()


def test_a_file_that_is_no_text_is_no_recipe(tmp_path):
    (tmp_path / "recipe.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError):
        load_recipe(str(tmp_path / "recipe.yaml"))


def test_what_is_wrong_of_a_whole_section_is_told_without_the_section():
    with pytest.raises(ConfigError) as caught:
        parse_recipe(
            "name: a\nsource: b\nextends: all\nnormalize: {dataset: {layout: log, columns: {content: c}}}\n", "r"
        )
    assert "dataset" in str(caught.value)
    assert len(str(caught.value)) < 300
