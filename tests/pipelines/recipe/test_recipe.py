"""Recipes and templates: values, what they extend, their faults, and the built-in ones."""

import json
import re
from itertools import count
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.app.cli.test_cli import trajmill
from tests.conftest import ROOT
from tests.tables import table
from trajmill.connectors.screens.numbers import Numbers
from trajmill.connectors.screens.tree import Tree
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import builtin_recipes, load_recipe, parse_recipe
from trajmill.pipelines.recipe.templates import check_templates, prompt_template
from trajmill.schemas import DOMAINS, ConfigError

MINIMAL = "name: a\nsource: b\n"


def fault(text):
    with pytest.raises(ConfigError) as caught:
        parse_recipe(MINIMAL + text, "r.yaml")
    return str(caught.value)


@pytest.mark.parametrize("name", list(builtin_recipes()))
def test_built_in_recipes_are_valid_and_open_with_the_command_that_runs_them(name):
    assert load_recipe(name).domains == (DOMAINS if name in ("all", "agent", "world-model") else (name,))
    assert builtin_recipes()[name].startswith((f"# make shards DOMAIN={name}", f"# trajmill run {name} --raw"))


@pytest.mark.parametrize(("text", "words"), table(__file__, "recipe_faults"))
def test_a_fault_is_named_by_its_place_and_the_nearest_valid_name(text, words):
    message = fault(text)
    for word in words:
        assert word in message


def test_no_rule_of_the_recipe_for_agents_takes_the_loss_of_a_single_transition():
    asked = load_recipe("agent").judge
    assert {rule.scope for rule in asked.ordered_rules()} == {"trajectory"}
    assert not any((asked.mask_duplicate_transitions, asked.replicates, asked.harness_text, asked.max_share))


def test_a_rule_omits_by_default_and_leaves_context_under_a_cap():
    bound = "signal: no_op, max: 0"
    rules = f"{{a: {{{bound}}}, b: {{{bound}, cap: 0.1}}, c: {{{bound}, use: omit, cap: 0}}}}"
    ordered = parse_recipe(MINIMAL + f"judge: {{rules: {rules}}}", "r.yaml").judge.ordered_rules()
    assert [(rule.name, rule.use, rule.cap) for rule in ordered] == [
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
    names = [
        entry.name
        for entry in load_recipe("all").judge.benchmarks
        if name in entry.ids or any(re.fullmatch(pattern, name, re.IGNORECASE) for pattern in entry.id_patterns)
    ]
    assert names == [benchmark][: benchmark is not None]


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
    recipe, base = parse_recipe(MINIMAL + own, "r.yaml"), load_recipe("terminal")
    assert (recipe.name, recipe.source, recipe.card) == ("a", "b", Recipe(name="a", source="b").card)
    assert (recipe.domains, recipe.normalize) == (base.domains, base.normalize)
    assert [*recipe.judge.rules] == [*(name for name in base.judge.rules if name != "no_op"), "loop"]
    assert recipe.judge.rules["few_turns"].min == 3
    assert [benchmark.name for benchmark in recipe.judge.benchmarks] == [
        *(benchmark.name for benchmark in base.judge.benchmarks),
        "ours",
    ]
    assert recipe.judge.benchmarks[0].canary == ("our own canary",)
    assert recipe.mix.pools == {"cpt": 1.0}
    assert recipe.mix.seed == base.mix.seed


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
    recipe = parse_recipe("name: a\nsource: b\ndomains: [web, os]\n", "x")
    same = parse_recipe("{source: b, domains: ['web', os], name: a}", "y")
    assert recipe.digest() == same.digest()
    assert recipe.digest("mix") == Recipe(name="c", source="d").digest("mix")
    assert recipe.digest() != parse_recipe(MINIMAL, "x").digest()


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


def test_the_recipe_runs_and_draws_a_turn_a_trajectory_and_few_of_a_group(tmp_path: Path):
    assert load_recipe("world-model").domains == DOMAINS
    raw = [word for folder in ("mcp", "terminal/asciicast") for word in ("--raw", ROOT / "samples" / folder)]
    trajmill("run", "world-model", *raw, "--out", tmp_path / "out")
    mixture = json.loads((tmp_path / "out/shards/manifest.json").read_text("utf-8"))["mixture"]
    assert all(mixture["stages"][pool] for pool in ("cpt", "sft", "rl", "eval"))
    rows = [info for path in (tmp_path / "out/shards/rl").rglob("*.parquet") for info in infos(path)]
    assert len({row["trajectory_id"] for row in rows}) == len(rows) > 0
    groups = [row["group"] for row in rows]
    assert max(map(groups.count, groups)) <= 8


def infos(path):
    return pq.read_table(path)["extra_info"].to_pylist()


FOLDER = ROOT / "configs" / "templates"
FILES = sorted(path for domain in DOMAINS for path in (FOLDER / domain).glob("*") if "-short" not in path.name)
FORMS = {
    "mcp": ["response"],
    "search": ["response"],
    "terminal": ["screen", "response"],
    "swe": ["response", "stream"],
    "web": ["screen", "response"],
    "os": ["screen"],
    "android": ["screen"],
}
TEXTS = {
    "action_space": "- `polish`: Polishes the brass.",
    "initial_state": "The brass is dull.",
    "demonstrations": "The log showed how brass is polished.",
    "simulation_instruction": "Let the polish run out.",
}
FLAGS = ("ends", "enveloped", "shows_diffs", "keeps_messages", "native", "tagged")
TURN = re.compile(
    r"### Turn [1-9][0-9]*\n"
    r"(?:\*\*Current State:\*\*\n(?P<state>.+?)\n\n)?"
    r"(?:\*\*Time Limit:\*\*\n[0-9.]+ s\n)?"
    r"\*\*Action:\*\*\n(?P<fence>`{3,})(?P<language>json|text|python)\n(?P<action>.*?)\n(?P=fence)\n"
    r"(?:```diff\n.*?\n```\n)?(?P<between>\n?)"
    r"\*\*Environment Observation:\*\*\n(?P<observation>.*)",
    re.DOTALL,
)
NUMBER = re.compile(r"(?m)^ *#([0-9]+)(?= )")
DEMONSTRATION = re.compile(r"^(?:````text|<example>)\n(.*?)\n(?:````|</example>)$", re.DOTALL | re.MULTILINE)


def values(domain, **known):
    """The variables of a prompt of which nothing is known but what is given."""
    texts = dict.fromkeys([*TEXTS, "screen"], "")
    return {**texts, "forms": FORMS[domain], "dialects": [], **dict.fromkeys(FLAGS, False), **known}


def of_file(path):
    stem = path.name.removesuffix(".md.j2")
    pool = stem.partition("-")[0]
    for number in range(200):
        template = prompt_template(path.parent.name, pool, str(number), 0)
        if template.name == f"{path.parent.name}/{stem}":
            return template
    raise AssertionError(f"no key draws {path}")


def rendered(path, **known):
    return of_file(path).template.render(values(path.parent.name, **known))


def demonstrations(path, **known):
    return DEMONSTRATION.findall(rendered(path, **known))


def turns(demonstration):
    return re.split(r"\n\n(?=### Turn )", demonstration)


def parsed(turn) -> re.Match[str]:
    match = TURN.fullmatch(turn)
    assert match, turn
    return match


def counted(screen):
    """A screen with its elements counted from 1, as a reader hands it over."""
    places = count(1)
    return NUMBER.sub(lambda match: match[0].replace(match[1], str(next(places))), screen)


def named(path):
    return f"{path.parent.name}/{path.name}"


SHOWS_TREES = [path for path in FILES if path.parent.name in ("web", "os", "android")]


@pytest.mark.parametrize("path", SHOWS_TREES, ids=named)
def test_elements_of_demonstrations_are_numbered_as_connectors_number_them(path):
    for demonstration in demonstrations(path, forms=["screen"], dialects=["uitree/1"]):
        known: dict[str, int] = {}
        numbers, highest = Numbers(), 0
        for turn in turns(demonstration):
            match = parsed(turn)
            for shown in filter(None, (match["state"], match["observation"])):
                assert Tree.parse(shown).text == shown
                stated = [int(number) for number in NUMBER.findall(shown)]
                ours = NUMBER.findall(numbers.shown(counted(shown))[0])
                for here, there in zip(stated, ours, strict=True):
                    assert there in known or shown == match["state"] or here == highest + 1, (turn, here)
                    assert known.setdefault(there, here) == here, (turn, here, known[there])
                    highest = max(highest, here)


# Users' own.


def write(folder, domain="swe", files=("rl", "cpt", "sft-1"), text="A {{ screen }} of {{ forms }}."):
    (folder / domain).mkdir(parents=True, exist_ok=True)
    for name in files:
        (folder / domain / f"{name}.md.j2").write_text(text)
    return folder


def template_fault(folder):
    with pytest.raises(ConfigError) as caught:
        check_templates(folder)
    return str(caught.value)


def test_a_users_folder_takes_the_place_of_ours_domain_by_domain(tmp_path):
    write(tmp_path, files=("rl", "cpt", "sft-1", "sft-2"))
    check_templates(tmp_path)
    own = prompt_template("swe", "eval", "k", 0, tmp_path)
    assert own.name == "swe/rl"
    assert own.template.render(values("swe")) == "A  of ['response', 'stream']."
    assert own.digest != prompt_template("swe", "rl", "k", 0).digest
    assert {prompt_template("swe", "sft", str(n), 0, tmp_path).name for n in range(50)} == {"swe/sft-1", "swe/sft-2"}
    assert prompt_template("os", "rl", "k", 0, tmp_path) == prompt_template("os", "rl", "k", 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{% if ends %}", ["rl.md.j2", "line 1", "endif"]),
        ("{{ screem }}", ["rl.md.j2", "'screem'", "'screen'"]),
        ("a\n{% if native %}{{ world }}{% endif %}", ["rl.md.j2", "'world'"]),
        ("{{ screen|upside_down }}", ["rl.md.j2", "upside_down"]),
        ("{% include 'a.md.j2' %}", ["rl.md.j2", "another file"]),
        ("{{ screen.width }}", ["rl.md.j2", "cannot be rendered", "width"]),
        ("{{ forms[0] }}", ["rl.md.j2", "cannot be rendered"]),
        ("{{ 1 / 0 }}", ["rl.md.j2", "cannot be rendered"]),
        ("{{ ''.__class__.__mro__ }}", ["rl.md.j2", "cannot be rendered", "unsafe"]),
        ("{% if ends %}text{% endif %}", ["rl.md.j2", "says nothing"]),
    ],
)
def test_a_template_that_would_fail_stops_the_run_at_launch(tmp_path, text, words):
    write(tmp_path)
    (tmp_path / "swe" / "rl.md.j2").write_text(text)
    message = template_fault(tmp_path)
    assert all(word in message for word in words), message


def test_a_template_that_is_no_text_is_named(tmp_path):
    write(tmp_path)
    (tmp_path / "swe" / "cpt.md.j2").write_bytes(b"\xff\xfe")
    assert "cpt.md.j2 cannot be read" in template_fault(tmp_path)


def test_folders_that_hold_nothing_or_other_things_are_named(tmp_path):
    assert "cannot be listed" in template_fault(tmp_path / "nowhere")
    assert "is empty" in template_fault(tmp_path)
    (tmp_path / "terminl").mkdir()
    assert "'terminal'" in template_fault(tmp_path)
    (tmp_path / "terminl").rename(tmp_path / "swe")
    assert "holds no rl.md.j2, no cpt.md.j2, no sft-1.md.j2" in template_fault(tmp_path)
    write(tmp_path, files=("rl", "sft-1"))
    assert "holds no cpt.md.j2." in template_fault(tmp_path)


def test_a_file_of_another_name_is_named(tmp_path):
    write(tmp_path, files=("rl", "cpt", "sft-1", "sft"))
    assert "sft.md.j2 is none of" in template_fault(tmp_path)
