"""System prompts of SFT ask for tags where a model is to think first, and say nothing else that differs."""

import hashlib
from pathlib import Path

import jinja2

from trajmill.pipelines.recipe.templates import configs
from trajmill.synthesis.tagged_prompts import tagged_system

ENDING = "\n{%- if tagged %}\n\nTag it.\n{%- else %}\n\nHead it.\n{%- endif %}\n"
TEMPLATE = "A world{% if forms %} of {{ forms }}{% endif %}.\n\nHead it." + ENDING


def own(folder: Path, text: str = TEMPLATE) -> str:
    file = folder / "terminal" / "sft-1.md.j2"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return f"terminal/sft-1@{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def rendered(text: str, tagged: bool) -> str:
    return (
        jinja2.Environment(keep_trailing_newline=True).from_string(text).render(forms="x", tagged=tagged).rstrip("\n")
    )


def test_the_words_that_ask_are_exchanged_and_nothing_else(tmp_path):
    reference = own(tmp_path)
    assert tagged_system(rendered(TEMPLATE, False), reference, tmp_path) == rendered(TEMPLATE, True)


def test_a_template_that_is_not_at_hand_or_says_no_such_words_changes_nothing(tmp_path):
    plain = rendered(TEMPLATE, False)
    own(tmp_path)
    assert tagged_system(plain, "terminal/sft-1@000000000000", tmp_path) == plain
    assert tagged_system(plain, "../terminal/sft-1@000000000000", tmp_path) == plain
    assert tagged_system(plain, own(tmp_path, "A world."), tmp_path) == plain


def test_built_in_templates_that_ask_for_tags_are_exchanged():
    known = dict.fromkeys(("action_space", "initial_state", "demonstrations", "simulation_instruction", "screen"), "")
    flags = dict.fromkeys(("ends", "shows_diffs", "keeps_messages", "native"), False)
    met = 0
    for file in Path(str(configs() / "templates")).glob("*/sft-*.md.j2"):
        text = file.read_text("utf-8")
        if "if tagged" not in text:
            continue
        made = jinja2.Environment(keep_trailing_newline=True).from_string(text)
        one, other = (
            made.render(**known, **flags, forms=[], dialects=[], tagged=tagged).rstrip("\n") for tagged in (False, True)
        )
        name = f"{file.parent.name}/{file.name.removesuffix('.md.j2')}"
        assert tagged_system(one, f"{name}@{hashlib.sha256(text.encode()).hexdigest()[:12]}") == other, name
        met += 1
    assert met
