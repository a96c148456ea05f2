"""Templates of prompts: what ours say in every combination of what can be known, and how users' own are read."""

import re
from itertools import count

import pytest

from tests.conftest import ROOT
from trajmill.connectors.screens.numbers import Numbers
from trajmill.connectors.screens.tree import Tree
from trajmill.pipelines.recipe.templates import check_templates, prompt_template
from trajmill.schemas import DOMAINS, ConfigError

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
        found = prompt_template(path.parent.name, pool, str(number), 0)
        if found.name == f"{path.parent.name}/{stem}":
            return found
    raise AssertionError(f"no key draws {path}")


def rendered(path, **known):
    return of_file(path).template.render(values(path.parent.name, **known))


def demonstrations(path, **known):
    return DEMONSTRATION.findall(rendered(path, **known))


def turns(demonstration):
    return re.split(r"\n\n(?=### Turn )", demonstration)


def parsed(turn) -> re.Match[str]:
    told = TURN.fullmatch(turn)
    assert told, turn
    return told


def counted(screen):
    """A screen with its elements counted from 1, as a reader hands it over."""
    places = count(1)
    return NUMBER.sub(lambda found: found[0].replace(found[1], str(next(places))), screen)


def named(path):
    return f"{path.parent.name}/{path.name}"


SHOWS_TREES = [path for path in FILES if path.parent.name in ("web", "os", "android")]


@pytest.mark.parametrize("path", SHOWS_TREES, ids=named)
def test_elements_of_demonstrations_are_numbered_as_connectors_number_them(path):
    for demonstration in demonstrations(path, forms=["screen"], dialects=["uitree/1"]):
        known: dict[str, int] = {}
        numbers, highest = Numbers(), 0
        for turn in turns(demonstration):
            told = parsed(turn)
            for shown in filter(None, (told["state"], told["observation"])):
                assert Tree.parse(shown).text == shown
                stated = [int(number) for number in NUMBER.findall(shown)]
                ours = NUMBER.findall(numbers.shown(counted(shown))[0])
                for here, there in zip(stated, ours, strict=True):
                    assert there in known or shown == told["state"] or here == highest + 1, (turn, here)
                    assert known.setdefault(there, here) == here, (turn, here, known[there])
                    highest = max(highest, here)


# Users' own.


def write(folder, domain="swe", files=("rl", "cpt", "sft-1"), text="A {{ screen }} of {{ forms }}."):
    (folder / domain).mkdir(parents=True, exist_ok=True)
    for name in files:
        (folder / domain / f"{name}.md.j2").write_text(text)
    return folder


def fault(folder):
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
    said = fault(tmp_path)
    assert all(word in said for word in words), said


def test_a_template_that_is_no_text_is_named(tmp_path):
    write(tmp_path)
    (tmp_path / "swe" / "cpt.md.j2").write_bytes(b"\xff\xfe")
    assert "cpt.md.j2 cannot be read" in fault(tmp_path)


def test_folders_that_hold_nothing_or_other_things_are_named(tmp_path):
    assert "cannot be listed" in fault(tmp_path / "nowhere")
    assert "is empty" in fault(tmp_path)
    (tmp_path / "terminl").mkdir()
    assert "'terminal'" in fault(tmp_path)
    (tmp_path / "terminl").rename(tmp_path / "swe")
    assert "holds no rl.md.j2, no cpt.md.j2, no sft-1.md.j2" in fault(tmp_path)
    write(tmp_path, files=("rl", "sft-1"))
    assert "holds no cpt.md.j2." in fault(tmp_path)


def test_a_file_of_another_name_is_named(tmp_path):
    write(tmp_path, files=("rl", "cpt", "sft-1", "sft"))
    assert "sft.md.j2 is none of" in fault(tmp_path)
