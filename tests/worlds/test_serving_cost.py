import json

import pytest

from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from tests.worlds.conftest import recipe
from tests.worlds.logged_world import rows_of, steps_of
from trajmill.pipelines.render.turns import MARKER, View, answer
from trajmill.pipelines.storage.folders import Folder
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import ConfigError
from trajmill.worlds.serve.history import History, Manner
from trajmill.worlds.serve.price_table import ModelPrice, PriceTable, SandboxPrice, read_price_table
from trajmill.worlds.serve.requests import move_of
from trajmill.worlds.serve.scenarios import scenarios_in
from trajmill.worlds.serve.serving_cost import Measured, cost_page, measured, priced


def test_tokens_of_steps_are_those_of_what_is_sent(drawn):
    mix, counter, out = recipe().mix, TokenCounter(), Folder(str(drawn))
    told = measured(out, recipe(), "sft")["swe"]
    begun = {one.id: one for one in scenarios_in(out, mix, counter)}
    sent = answered = steps = episodes = 0
    for rows in rows_of(drawn, mix, ("sft", "rl"), "swe"):
        episodes += 1
        history = History(begun[rows[0]["trajectory_id"]], Manner(mix, "sft", False, counter))
        visible = [row for row in rows if row["use"] != "omit"]
        for row, step in zip(visible, steps_of(rows, View.of(mix)), strict=True):
            asked = history.asked(move_of(step))
            assert asked is not None
            sent += sum([counter.of(message["content"]) for message in asked.messages])
            shown = answer(row, View.of(mix))
            history.answered(move_of(step), shown)
            answered += counter.of(MARKER + shown)
            steps += 1
    assert (told.steps, told.episodes) == (steps, episodes)
    # costs of pieces are off by what a tokenizer makes of their borders: a token or two a message
    assert told.sent == pytest.approx(sent, rel=0.02)
    assert told.answered == pytest.approx(answered, rel=0.02)
    assert 0 < told.known < told.sent


def test_what_steps_cost_is_reckoned_by_hand():
    told = Measured(steps=10, episodes=2, sent=10_000, known=8_000, answered=1_000, timed=4, seconds=8.0)
    model = ModelPrice(1.0, 4.0, 0.1, prompt_per_s=1000.0, completion_per_s=50.0, latency_s=0.5)
    row = priced("mcp", told, model, SandboxPrice(hour=3.6, start_s=10.0, idle_s=1.0))
    assert row is not None
    # a step sends 1,000 tokens, 800 of them known, and is answered by 100
    assert row.model_cost == pytest.approx(1000 * (200 * 1.0 + 800 * 0.1 + 100 * 4.0) / 1e6)
    assert row.model_seconds == pytest.approx(1000 * (0.5 + 200 / 1000 + 100 / 50))
    # two seconds a step, and a start each five steps
    assert row.sandbox_seconds == pytest.approx(1000 * 2 + 200 * 10)
    assert row.sandbox_cost == pytest.approx((4000 + 1000) / 3600 * 3.6)
    assert row.ratio == pytest.approx(0.68 / 5.0)


def test_what_is_not_given_is_not_told():
    told = Measured(steps=10, episodes=2, sent=10_000, known=8_000, answered=1_000)
    row = priced("mcp", told, ModelPrice(1.0, 4.0), SandboxPrice(hour=1.0))
    assert row is not None
    assert row.model_cost == pytest.approx(1000 * (1000 * 1.0 + 100 * 4.0) / 1e6)
    assert (row.model_seconds, row.sandbox_cost, row.sandbox_seconds, row.ratio) == (None, None, None, None)
    assert priced("mcp", Measured(), None, None) is None
    assert cost_page({"mcp": told}, PriceTable(), "x")["prices"]["model"] is None


def test_the_command_prints_a_table_and_json(drawn):
    prices = str(ROOT / "docs" / "prices.yaml")
    code, said, _ = ran("cost", str(drawn), "--prices", prices)
    assert code == 0
    assert "sandbox, money = (seconds + 1,000 x idle_s) / 3,600 x hour" in " ".join(said.split())
    code, said, _ = ran("cost", str(drawn), "--prices", prices, "--json")
    rows = {row["domain"]: row for row in json.loads(said)["rows"]}
    assert rows["android"]["model_cost"] > 0
    assert len(rows) == 7


def test_prices_go_by_the_name_with_or_without_a_revision(tmp_path):
    path = tmp_path / "prices.json"
    path.write_text('{"models": {"lwm": {"prompt": 1, "completion": 2}, "lwm@r2": {"prompt": 3}}}')
    table = read_price_table(str(path))
    assert [table.model(name) for name in ("lwm", "lwm@r1")] == [ModelPrice(1.0, 2.0)] * 2
    assert table.model("lwm@r2") == ModelPrice(3.0)
    assert table.model("other") is None
    assert table.sandbox("mcp") is None


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "models: [1]",
        "prizes: {}",
        "models: {a: 5}",
        "models: {a: {price: 1}}",
        "models: {a: {prompt: -1}}",
        "models: {a: {prompt: yes}}",
        "models: {a: {prompt_per_s: 0}}",
        "models: {a: {prompt: .inf}}",
        "{",
    ],
)
def test_what_is_no_price_table_is_refused(tmp_path, text):
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        read_price_table(str(path))


def test_a_run_that_is_not_judged_has_no_cost(tmp_path):
    with pytest.raises(ConfigError, match="holds no judged run"):
        measured(Folder(str(tmp_path)), recipe())
