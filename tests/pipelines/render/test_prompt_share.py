"""The share of a system prompt in its sample: bounded, and what the answers depend on stays in it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.render.assembled import samples_of
from tests.pipelines.render.test_turns import row
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.quality.tokens import TokenCounter

NAMES = [f"tool_{number:02}" for number in range(20)]
TOOLS = json.dumps([{"name": name, "description": f"What {name} does. " * 20} for name in NAMES])
COUNTER = TokenCounter()


def trajectory(calls: list[tuple[str, str]], **context: str) -> list[dict[str, Any]]:
    """Calls of tools by name, and their answers."""
    rows = []
    for number, (name, answer) in enumerate(calls):
        text = json.dumps({"name": name, "arguments": {}})
        transition = row(number, text, answer, None, "target", number)
        transition["action"] = {**transition["action"], "name": name, "arguments": "{}"}
        more = {"source": "s", "group": "g", "trajectory_id": "t", "num_segments": 1, "domain": "mcp", "row_id": "r"}
        rows.append({**transition, **more, "context": {**transition["context"], "action_space": TOOLS, **context}})
    return rows


def made(pool: Any, calls: list[tuple[str, str]], share: float, **context: str) -> list[tuple[str, str, str]]:
    """(prompt, what follows it, template) of each sample of a trajectory."""
    parts = []
    for sample in samples_of(pool, trajectory(calls, **context), Mix(prompt_share=share)):
        if pool == "sft":
            texts = [message["content"] for message in sample["messages"]]
            parts.append((texts[0], "".join(texts[1:]), sample["template"]))
        else:
            last = sample["turn_idx"] - 1
            turns = zip(sample["prompt"][:last], sample["response"][:last], strict=True)
            texts = [*(text for turn in turns for text in turn), sample["current_prompt"]]
            parts.append(
                (sample["system_str"], "".join(texts), "mcp/rl-short" if "# Task" not in sample["system_str"] else "")
            )
    return parts


CALLS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["ok", "no " * 300, "a page " * 2000, f"see {NAMES[3]}"])),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("pool", ["sft", "eval"])
@given(calls=CALLS, share=st.sampled_from([0.2, 0.5, 0.9]))
def test_a_prompt_is_within_its_share_unless_it_tells_the_least_that_it_may(pool, calls, share):
    for prompt, rest, template in made(pool, calls, share):
        size = COUNTER.of(prompt)
        assert all(f"`{name}`" in prompt for name in NAMES)
        described = [name for name in NAMES if f"### `{name}`" in prompt]
        named = [name for name in NAMES if name in rest]
        assert set(named) <= set(described)
        if size > share * (size + COUNTER.of(rest)) + 30:  # sums of pieces, rounded
            assert described == named or set(described) - set(named) <= {name for name, _ in calls} | {NAMES[3]}
            assert "-short" in template


def test_a_prompt_that_is_within_its_share_tells_everything():
    calls = [(NAMES[0], "a page " * 4000)]
    (bounded,), (free,) = (made("sft", calls, share) for share in (0.5, 1))
    assert bounded == free
    assert all(f"### `{name}`" in free[0] for name in NAMES)


def test_what_the_log_tells_of_its_world_is_in_the_shortest_prompt():
    context = {"initial_state": "Nine boats lie in the harbor.", "demonstrations": "Once a boat was lent."}
    ((prompt, _, template),) = made("sft", [(NAMES[1], "ok")], 0.01, **context)
    assert template.startswith("mcp/sft-short@")
    assert all(text in prompt for text in context.values())
    assert [name for name in NAMES if f"### `{name}`" in prompt] == [NAMES[1]]


@pytest.mark.parametrize(
    "answer", [f"Unknown tool. There are {', '.join(NAMES[4:7])}.", f"{NAMES[4]} {NAMES[5]} {NAMES[6]}"]
)
def test_a_tool_that_an_answer_names_is_described(answer):
    ((prompt, *_),) = made("sft", [("no_such_tool", answer)], 0.01)
    assert [name for name in NAMES if f"### `{name}`" in prompt] == NAMES[4:7]
