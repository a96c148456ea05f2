"""Rows of AgentWorldBench's form become turns, and come back byte for byte through our own renderer."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.render.assembled import samples_of
from tests.pipelines.render.benchmark_rows import benchmark_row
from tests.pipelines.render.test_turns import row as transition
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.render.fixed_texts import ASKING
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import turns

MARKER = "**Environment Observation:**\n"
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    ["**Action:**\n```json\n{}\n```", "\n\n", "```", "**Current State:**\nx\n\n", " trailing \n", "### Turn 2\n"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.fixed_dictionaries({"name": st.sampled_from(["read", "click"]), "arguments": st.dictionaries(TEXTS, VALUES)})
KEYSTROKES = st.lists(
    st.fixed_dictionaries({"keystrokes": TEXTS, "duration": st.sampled_from([0.1, 1.0, 15])}), max_size=3
)
CODE = st.lists(st.sampled_from(["import pyautogui", "pyautogui.click(5, 6)", "", "CalcTools.save()"]), min_size=1)


def fence(text: str, language: str) -> str:
    return f"```{language}\n{text}\n```"


def written(value: Any) -> str:
    return fence(json.dumps(value, indent=2, ensure_ascii=False), "json")


ACTIONS = {
    "mcp": CALLS.map(written),
    "search": CALLS.map(written),
    "swe": CALLS.map(written),
    "terminal": KEYSTROKES.map(written),
    "android": CALLS.map(written),
    "web": st.sampled_from(['click("a51")', "go_back()"]).map(lambda text: fence(text, "text")),
    "os": CODE.map(lambda lines: fence("\n".join(lines), "python")),
}


@st.composite
def benchmark_rows(draw: st.DrawFn) -> dict[str, Any]:
    domain = draw(st.sampled_from(sorted(ACTIONS)))
    prompts, responses = [], []
    before: str | None = None
    for number in range(1, draw(st.integers(1, 4)) + 1):
        state = draw(st.none() | TEXTS)
        # the renderer shows a state once: as what the turn before ended with it is known
        shown = "" if state is None or state == before else f"**Current State:**\n{state}\n\n"
        task = f"**Task Instruction:**\n{draw(st.sampled_from(['Buy tea.', 'Two lines.', 'Open']))}\n\n"
        opening = task if number == 1 and domain in ("web", "os", "android") else ""
        prompts.append(f"### Turn {number}\n{opening}{shown}**Action:**\n{draw(ACTIONS[domain])}")
        before = draw(TEXTS)
        responses.append(MARKER + before)
    turn = draw(st.integers(1, len(prompts)))
    return {
        "task": draw(st.sampled_from([domain, f"agentworldbench/{domain}"])),
        "id": draw(st.integers(0, 2**40)),
        "prompt": prompts,
        "response": responses,
        "current_prompt": prompts[turn - 1] + draw(st.sampled_from(["", ASKING])),
        "system_str": draw(TEXTS),
        "turn_idx": turn,
        "total_turns": len(prompts),
    }


@given(benchmark_rows())
def test_a_row_of_the_benchmarks_form_comes_back_byte_for_byte(row):
    assert benchmark_row(row).row == row
    assert list(benchmark_row(row).row) == list(row)


def test_our_own_rows_for_evaluation_come_back_byte_for_byte():
    call = '{"name":"bash","arguments":{"command":"ls","rate":1.50,"big":123456789012345678901}}'
    rows = [
        transition(0, call, "a.txt", before="$ ", exit_code=0, time_limit_s=60.0),
        transition(1, "GET http://a.example/", "", time_limit_s=0.5, timed_out=True),
        transition(2, "say ```x```", "```\nfenced\n```", before="other"),
        transition(3, '["x"]', "**Action:**\n```text\nls\n```"),
    ]
    known = {**dict.fromkeys(("source", "group"), "s"), "num_segments": 1, "number": 1}
    whole = [{**row, **known, "row_id": f"t{row['step']}"} for row in rows]
    seen = set()
    for count in range(1, 5):
        for sample in samples_of("eval", whole[:count], Mix()):
            row = {name: sample[name] for name in NAMES}
            assert benchmark_row(row).row == row
            seen.add(row["turn_idx"])
    assert seen == {1, 2, 3, 4}


NAMES = ("task", "id", "prompt", "response", "current_prompt", "system_str", "turn_idx", "total_turns")


def test_code_of_an_os_action_stands_in_a_fence_of_python():
    call = json.dumps({"name": "code", "arguments": {"code": "import os\nos.listdir()"}})
    shown = turns([transition(0, call, "", domain="os")], View(actions="native"))[0].user
    assert shown.endswith("```python\nimport os\nos.listdir()\n```")
    plain = turns([transition(0, "import os", "", domain="os")])[0].user
    assert plain.endswith("```python\nimport os\n```")
