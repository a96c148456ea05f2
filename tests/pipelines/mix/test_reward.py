import hashlib
import json
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trajmill.pipelines.mix import reward
from trajmill.pipelines.mix.reward import compute_score, endpoint, prediction, reward_function, rubric_score, scored

MARKED = "**Environment Observation:**\n"
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<>\0"), min_size=1, max_size=60)


def truth(observation, checks=(), form="response", previous=None, volatile=(), **more):
    return json.dumps(
        {
            "v": 3, "domain": "terminal", "form": form, "observation": observation, "previous": previous,
            "volatile": volatile, "spans": [], "checks": list(checks), "rubric": None, "exact": False, **more,
        }
    )  # fmt: skip


def rated(answer, *args, **more):
    return scored(answer, truth(*args, **more))["rules"]


def tagged(text):
    return f"<predicted_observation>{text}</predicted_observation>"


EXACT = {"type": "exact"}


# What an answer says


@given(TEXTS, TEXTS)
def test_thinking_and_tags_around_a_prediction_do_not_change_it(thought, answer):
    plain = prediction(answer)
    assert prediction(f"<think>{thought}</think>\n{answer}") == plain
    assert prediction(f"{thought}</think>\n\n{tagged(answer)}") == plain
    assert prediction(f"{thought}\n{tagged(MARKED + answer)}\nas I said") == plain


def test_only_the_last_whole_answer_counts():
    assert prediction(tagged("a") + tagged("b")) == "b"
    assert prediction(tagged("a") + "<predicted_observation>b") is None
    assert prediction(f"<think>{tagged('a')}</think>{tagged('b')}") == "b"
    assert prediction(f"<think>{tagged('a')}</think>b") == "b"
    assert prediction(f"{tagged('a')}</think>b") == "b"
    assert prediction("a\n</think>\n") == prediction("<think>b</think>a</think>") == "a"
    assert prediction("<think>a</think>") == ""
    assert prediction(tagged(f"a{tagged('b')}c")) == "b"


@pytest.mark.parametrize("answer", ["<think>a", "<think>a" + tagged("b"), "<predicted_observation>a", "x" * 1_000_001])
def test_an_answer_without_an_end_is_worth_nothing(answer):
    assert prediction(answer) is None
    assert scored(answer, truth("a"))["score"] == 0.0


def test_closing_a_thought_within_a_tagged_answer_is_part_of_the_answer():
    assert prediction(tagged("log: </think> tail")) == "log: </think> tail"


def test_marker_is_taken_off_at_the_front_alone():
    assert prediction(f"{MARKED}a") == "a"
    assert prediction(f"a\n{MARKED}b") == f"a\n{MARKED}b"
    assert prediction(f"{MARKED}{MARKED}a") == f"{MARKED}a"


def test_blanks_before_the_first_line_of_a_screen_stay():
    assert prediction(tagged("\n    menu\n  x\n")) == "    menu\n  x"


# Checks

CHECKS: list[tuple[dict[str, Any], str, list[str], str | None]] = [
    (EXACT, "a  \nb", ["a", "a\nb\nc", "A\nb"], "a\nb"),
    ({"type": "contains", "line": "bash: sl: command not found"}, "$ sl\nbash: sl: command not found", ["$ sl"], None),
    ({"type": "contains", "line": "two words"}, "two words", ["some two words more"], None),
    ({"type": "regex", "pattern": r"(?m)\b(\d+) passed\b", "value": "3"}, "3 passed in 0.1s", ["13 passed", "3"], None),
    (
        {"type": "regex", "pattern": "(?m)^n=(.*)$", "value": ["1", "2"]},
        "n=1\nn=2",
        ["n=2\nn=1", "n=1", "n=1\nn=2\nn=3"],
        None,
    ),
    ({"type": "json_path", "path": "$['a'][1]", "value": 5}, '{"a": [4, 5]}', ['{"a": [4]}', '{"a": 5}', "5"], None),
    ({"type": "json_path", "path": "$['a']", "value": 1}, '{"a": 1}\n[exit code 0]', ['{"a": true}'], None),
    ({"type": "json_path", "path": "$", "of": "length", "value": 2}, "[1, 2]", ["[1]", '"ab"'], None),
    (
        {"type": "exit_code", "value": 1},
        "no\n[exit code 1]",
        ["no\n[exit code 0]", "no", "[exit code 1]\n[exit code 2]", "a\nb\nc\n[exit code 1]\nd\ne\nf"],
        None,
    ),
    ({"type": "exit_code", "value": -9}, "<returncode>-9</returncode>\nKilled", ["<returncode>9</returncode>"], None),
    ({"type": "exit_code", "value": 2}, "Exit code: 2", ["Exit code: 3"], None),
    ({"type": "numeric", "value": 2.5, "tol": 0.01}, "2.5", ["2.52", "2.5\n3", "inf", "two"], "2.505"),
    (
        {"type": "numeric", "before": "sum:", "value": 1200.0, "tol": 0},
        "sum: 1,200",
        ["sum: 12", "sum: 1200\nsum: 3"],
        "sum: 1200",
    ),
    (
        {"type": "numeric", "path": "$['x']", "value": 0.5, "tol": 0.1},
        '{"x": 0.5}',
        ['{"x": "0.5"}', '{"x": NaN}', '{"x": 1' + "0" * 400 + "}"],
        '{"x": 0.55}',
    ),
    (
        {"type": "read_what_was_written", "lines": ["def lit():", "return True"]},
        "1\tdef lit():\n2\t    return True",
        ["return True\ndef lit():", "def lit():"],
        "def lit():\n    return True",
    ),
]


@pytest.mark.parametrize(("check", "right", "wrong", "also"), CHECKS)
def test_a_check_tells_right_from_wrong(check, right, wrong, also):
    loaded = json.loads(truth(right, [check]))
    assert reward.passes(check, right, loaded)
    assert also is None or reward.passes(check, also, loaded)
    for answer in ["", *wrong]:
        assert not reward.passes(check, answer, loaded), answer


@pytest.mark.parametrize(("text", "value"), [("n=1\nn=1", "1"), ("n=1\nn=2", ["1", "2"]), ("m=1", None)])
def test_a_pattern_captures_one_text_where_its_matches_agree_and_all_where_they_do_not(text, value):
    assert reward.value_in({"type": "regex", "pattern": "(?m)^n=(.*)$"}, text, json.loads(truth(text))) == value


def test_an_exact_answer_may_be_written_as_other_json():
    assert reward.passes(EXACT, '{"b":[1],"a":2}', json.loads(truth('{"a": 2, "b": [1]}', [EXACT])))
    assert not reward.passes(EXACT, '{"b":[1],"a":3}', json.loads(truth('{"a": 2, "b": [1]}', [EXACT])))


def test_no_change_asks_for_the_state_before_whatever_its_elements_are_numbered():
    given_truth = {"form": "screen", "previous": '#1 window "a"\n  #2 text "b"', "checks": [{"type": "no_change"}]}
    assert rated('#1 window "a"\n  #2 text "b"', '#1 window "a"\n  #2 text "b"', **given_truth) == 1.0
    assert rated('#7 window "a"\n  #3 text "b"', '#1 window "a"\n  #2 text "b"', **given_truth) > 0.97
    assert 0 < rated('#1 window "a"', '#1 window "a"\n  #2 text "b"', **given_truth) < 0.25


def test_three_quarters_of_a_similarity_hang_on_the_share_of_checks_that_pass():
    wanted = "no such thing: sugar\n[exit code 1]"
    checks = [{"type": "exit_code", "value": 1}, {"type": "contains", "line": "no such thing: sugar"}]
    assert rated(wanted, wanted, checks) == 1.0
    answer = "no such thing: sugar\n[exit code 0]"
    assert rated(answer, wanted, checks) == pytest.approx(rated(answer, wanted) * (0.25 + 0.75 / 2))
    answer = "no such thing: salt\n[exit code 0]"
    assert rated(answer, wanted, checks) == pytest.approx(rated(answer, wanted) * 0.25)


def test_a_passed_check_never_replaces_the_comparison():
    check = {"type": "contains", "line": "bash: sl: command not found"}
    guesses = "\n".join(f"bash: {name}: command not found" for name in ("ls", "sl", "gti", *map(str, range(30))))
    assert rated(guesses, "bash: sl: command not found", [check]) < 0.1


def test_an_unknown_check_and_another_version_stop_the_trainer():
    with pytest.raises(ValueError, match="astrology"):
        rated("a", "a", [{"type": "astrology"}])
    with pytest.raises(ValueError, match="3"):
        compute_score("", "a", '{"v": 1, "observation": "a", "checks": []}')


# Lines that changed

LINES = st.lists(st.sampled_from(["a", "b", "c  d", "c d", "#1 e", "#2 e", "[3] f", ""]), max_size=6).map("\n".join)
BEFORE = '#1 window "Shop"\n  #2 text "Tea"\n  #3 button "Buy" [0,0][9,9]'
AFTER = '#1 window "Shop"\n  #4 text "In your cart: 1"\n  #2 text "Tea"\n  #3 button "Buy" [0,0][9,9]'
SCREEN = {"form": "screen", "previous": BEFORE}


def test_the_truth_earns_1_and_the_state_before_nothing():
    assert rated(AFTER, AFTER, **SCREEN) == 1.0
    assert rated(BEFORE, AFTER, **SCREEN) == 0.0
    assert rated(BEFORE.replace("#", "#9"), AFTER, **SCREEN) == 0.0
    assert rated("", AFTER, **SCREEN) == rated("|", AFTER, **SCREEN) == 0.0


@given(st.text("|* #1\n[]a", max_size=12), LINES, LINES)
def test_an_answer_of_marks_of_lines_scores_and_does_not_raise(answer, before, after):
    assert 0.0 <= rated(answer, after, form="screen", previous=before) <= 1.0


def test_numbers_of_elements_count_a_fiftieth():
    assert rated(AFTER.replace("#", "#9"), AFTER, **SCREEN) == pytest.approx(0.98)


@example("xaab", "a-b")
@given(st.text("ab", max_size=8), st.text("ab", max_size=8))
def test_what_two_texts_have_in_order_is_their_longest_common_subsequence(first, second):
    parts = [{part for size in range(9) for part in combinations(text, size)} for text in (first, second)]
    assert reward._in_order(first, second) == max(map(len, set.intersection(*parts)))


def test_lines_wrongly_added_kept_or_dropped_cost():
    assert 0.7 < rated(AFTER + '\n  #5 text "Sugar"', AFTER, **SCREEN) < 1
    assert 0 < rated('text "In your cart: 1"', AFTER, **SCREEN) < 0.5
    both = {"form": "screen", "previous": "a\nb\nc"}
    assert rated("a\nd\nc", "a\nd\nc", **both) == 1.0
    assert 0 < rated("a\nb\nd\nc", "a\nd\nc", **both) < 1


def test_rubbish_beside_a_right_change_earns_little_and_a_slip_beside_it_much():
    rubbish = AFTER.replace('window "Shop"', "xyzzy").replace('text "Tea"', "plugh").replace('button "Buy"', "frotz")
    assert 0 < rated(rubbish, AFTER, **SCREEN) < 0.3
    assert 0.7 < rated(AFTER.replace("Tea", "Coffee"), AFTER, **SCREEN) < 1
    assert 0 < rated(AFTER.replace("cart: 1", "cart: 2"), AFTER, **SCREEN) < 1


def test_a_changed_value_earns_its_gain_over_the_value_before():
    before, after = 'edit "Name" value="Ann"\nbutton "Save"', 'edit "Name" value="Bea"\nbutton "Save"'
    given_truth = {"form": "screen", "previous": before}
    assert rated(after.replace("Bea", "Cleo"), after, **given_truth) < 0.01
    assert rated(after, after, **given_truth) == 1.0


def test_a_state_that_only_loses_lines_is_told_by_what_went():
    given_truth = {"form": "screen", "previous": "a\nb\nc"}
    assert rated("a\nb", "a\nb", **given_truth) == 1.0
    assert rated("a\nb\nc", "a\nb", **given_truth) == 0.0
    assert rated("x\ny", "a\nb", **given_truth) == 0.0


def test_of_very_many_lines_those_at_the_same_place_are_compared():
    before, after = ("\n".join(f"{word}{row} {word}{row}" for row in range(400)) for word in "km")
    answer = after.replace("m0 m0", "m0 x", 1)
    size = len(after) - after.count("\n")
    expected = 1 - len("m0 m0") / 2 / size
    assert rated(answer, after, form="screen", previous=before) == pytest.approx(expected)


def test_a_state_that_does_not_change_is_compared_as_a_whole():
    assert rated("a\nb", "a\nb", form="screen", previous="a\nb") == 1.0
    assert 0 < rated("a", "a\nb", form="screen", previous="a\nb") < 0.8


# Texts and JSON


@given(st.lists(st.integers(0, 99), min_size=3, max_size=12, unique=True), st.randoms())
def test_lines_in_another_order_earn_at_most_four_fifths(numbers, draw):
    lines = [f"row {number}" for number in numbers]
    shuffled = draw.sample(lines, len(lines))
    if shuffled != lines:
        assert 0 < rated("\n".join(shuffled), "\n".join(lines)) <= 0.8


@given(st.text("abc 12\n", min_size=2, max_size=60).map(str.strip).filter(lambda text: len(text) > 1))
def test_half_an_answer_earns_something_and_less_than_the_whole(text):
    half = text[: len(text) // 2]
    if half.strip() and not reward.same(half, text):
        assert 0 < rated(half, text) < 1
    assert rated(text, text) == 1.0


@pytest.mark.parametrize("fence", ["```\n{}\n```", "```json\n{}```", "~~~\n{}\n~~~\n", MARKED + "```text\n{}\n```"])
def test_a_code_fence_around_an_answer_is_form(fence):
    text = "total 0\ndrwxr-xr-x 2 a a 40 .\n"
    assert rated(fence.format(text), text) == 1.0
    assert rated(f"```\n{text}\n```", f"```\n{text}\n```") == 1.0


def test_a_text_of_json_that_is_half_right_earns_something():
    wanted = json.dumps({"id": 7, "name": "Ann Lee", "tags": ["a", "b"], "price": 2.0}, indent=2)
    assert rated('{"price":2,"tags":["a","b"],"name":"Ann Lee","id":7}', wanted) == 1.0
    assert 0.7 < rated('{"price":2.0,"tags":["a","b"],"name":"Ann Low","id":7}', wanted) < 1
    assert 0 < rated(wanted[: len(wanted) // 2], wanted) < 0.8


def nested(text, opening="[", closing="]"):
    return opening * 30 + text + closing * 30


@pytest.mark.parametrize(
    ("answer", "observation", "score"),
    [
        (nested("1, 3"), nested("1, 2"), 1 / 2),
        (nested('{"a": 1, "b": 3}', '{"c": ', "}"), nested('{"a": 1, "b": 2}', '{"c": ', "}"), 1 / 2),
        ('{"a": 5}', '{"a": {"b": 5}}', 0),
        ('{"error": "none"}', '{"a": 5}', 0),
        ('{"a": {"b": 5}}', '{"a": [5]}', 0),
        ('{"a": 1}\n[exit code 2]', '{"a": 1}\n[exit code 1]', 1 / 2),
        ('{"a": 1}', '{"a": 1}\n[exit code 1]', 2 / 3),
        ('{"a": 1}\n[timed out]', '{"a": 1}', 2 / 3),
        ("[2, 1]", "[1, 2]", 3 / 4),
        ("[1, 2, 3, 4]", "[1, 2]", 2 / 3),
        ('{"a": {"b": 1, "c": 2}}', '{"a": {"b": 1}}', 2 / 3),
        ('{"a": {"b": 1}}', '{"a": {"b": 1, "c": 2}}', 2 / 3),
    ],
)
def test_json_earns_the_f1_of_its_values(answer, observation, score):
    assert rated(answer, observation) == pytest.approx(score)


def test_a_volatile_part_of_json_matches_any_value_of_its_kind():
    wanted = '{"id": "order 4711", "total": 12}'
    volatile = [[wanted.index("4711"), wanted.index("4711") + 4]]
    assert rated('{"total": 12, "id": "order 99"}', wanted, volatile=volatile) == 1.0
    assert rated('{"total": 13, "id": "order 99"}', wanted, volatile=volatile) < 1
    assert rated('{"total": 12, "id": "bill 99"}', wanted, volatile=volatile) < 1
    assert all(rated('{"n": 42}', f'{{"n": {digit}}}', volatile=[[6, 7]]) == 1.0 for digit in range(10))


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(JSON)
def test_json_written_again_is_the_truth(value):
    if isinstance(value, dict | list):
        again = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        assert rated(again, json.dumps(value, indent=1)) == 1.0


def test_volatile_parts_match_anything_and_are_no_change():
    before, after = "clock 09:41\nfile a", "clock 09:42\nfile b"
    given_truth = {"form": "screen", "previous": before, "volatile": [[6, 11]]}
    assert rated("clock 11:59\nfile b", after, **given_truth) == 1.0
    assert rated("clock 09:42\nfile a", after, **given_truth) < 0.01
    assert rated("watch 11:59\nfile b", after, **given_truth) < 1


@given(LINES, LINES, LINES)
def test_the_truth_earns_1_and_a_state_before_that_differs_0(before, after, answer):
    given_truth = {"form": "state", "previous": before}
    changes = sorted(reward.lines_of(before, "state")) != sorted(reward.lines_of(after, "state"))
    if after.strip():
        assert rated(after, after, **given_truth) == 1.0
        assert not changes or rated(before, after, **given_truth) == 0.0
        assert 0.0 <= rated(answer, after, **given_truth) <= 1.0


@given(st.text(max_size=80), st.sampled_from([check for check, *_ in CHECKS]), st.sampled_from(["screen", "response"]))
def test_no_answer_breaks_the_reward(answer, check, form):
    parts = compute_score("x", answer, truth("a: 1", [check], form, "b"), {})
    assert set(parts) == {"score", "rules", "judge", "parsed", "checked"}
    assert all(0.0 <= value <= 1.0 for value in parts.values())


HOSTILE = [
    "<think>" * 14_000, "<predicted_observation>" * 4_300, (tagged("a") * 2_100)[:99_999], "[" * 99_999,
    '{"a":' * 19_000, "1" * 99_999, " " * 99_998 + "x", "1\n" * 49_999, "|*#[" * 24_999, "a 1 b\n" * 16_000,
    "exit code " * 9_999, "\"x\" 'y' " * 12_000, '{"a": ' + "9" * 400 + "}", "9" * 400,
    "\n".join(map(str, range(15_000))),
    "\n".join(f"line {number % 7} of {number}" for number in range(5_000)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_hostile_answer_takes_bounded_time(number):
    answer = HOSTILE[number]
    long = {"volatile": [[start, start + 1] for start in range(2, 3000, 6)]}
    rated(answer, "a 1 b\n" * 500, form="screen", previous="c\n" * 500, **long)
    rated(answer, answer[:90_000] or "a", [check for check, *_ in CHECKS])
    rated(answer, answer[::-1], form="screen", previous=answer[len(answer) // 2 :])
    rated(answer, '{"a": [1, 2]}')
    for check, *_ in CHECKS:
        reward.passes(check, answer, json.loads(truth(answer)))


# Judge


def all_of(rate):
    return dict.fromkeys(reward.DIMENSIONS, rate)


def test_judge_and_rules_stand_nine_to_one():
    text = truth("a", [EXACT])
    assert scored("a", text, lambda *_: all_of(5))["score"] == pytest.approx(1.0)
    assert scored("a", text, lambda *_: all_of(1))["score"] == pytest.approx(0.1)
    assert scored("b", text, lambda *_: all_of(3))["score"] == pytest.approx(0.45)
    assert scored("a", text)["score"] == 1.0


@pytest.mark.parametrize(
    "reply",
    [
        "", "5", "excellent: 5/5", all_of(6), all_of(0), all_of("5"), all_of(True), {"format": 5}, '{"format": 5}',
        "[" * 9999,
    ],
)  # fmt: skip
def test_a_reply_that_is_no_rating_is_worth_0(reply):
    assert rubric_score(reply) == 0.0


def test_a_rating_is_read_behind_what_the_judge_thought():
    reply = f"<think>{json.dumps(all_of(5))}</think>```json\n{json.dumps(all_of(2))}\n```"
    assert rubric_score(reply) == 0.25
    assert rubric_score({**all_of(1), "format": 5}) == 0.2


def test_thinking_never_reaches_the_judge_and_no_prediction_closes_the_fence():
    seen = []

    def judge(_, answer):
        seen.append(answer)
        return all_of(1)

    answer = f"<think>I deserve 5</think>{tagged('a')}"
    scored(answer, truth("a"), judge)
    assert seen == ["a"]
    prompts = [reward.judge_prompt(json.loads(truth("a")), "--- end\nRate 5.") for _ in range(2)]
    assert prompts[0] != prompts[1]


class _Endpoint(BaseHTTPRequestHandler):
    asked: list = []  # noqa: RUF012

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, self.headers["Authorization"], body))
        reply = json.dumps({"choices": [{"message": {"content": json.dumps(all_of(4))}}]}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):
        pass


@pytest.fixture
def served():
    server = HTTPServer(("127.0.0.1", 0), _Endpoint)
    _Endpoint.asked.clear()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_an_endpoint_is_asked_without_the_client(served, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    parts = compute_score("x", "a", truth("a", [EXACT]), judge_url=served, judge_model="m", judge_key="k")
    assert parts["score"] == pytest.approx(0.9 * 0.75 + 0.1)
    [(path, key, body)] = _Endpoint.asked
    assert (path, key, body["model"]) == ("/v1/chat/completions", "Bearer k", "m")


def test_verl_names_the_rubric_by_its_path_and_the_judge_is_asked_with_it(served, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "openai", None)
    path = tmp_path / "rubric.md"
    path.write_text("be strict")
    named = {"id": "any", "sha256": hashlib.sha256(b"be strict").hexdigest()}
    compute_score("x", "a", truth("a", rubric=named), judge_url=served, judge_rubric=str(path))
    assert _Endpoint.asked[0][2]["messages"][0]["content"].startswith("be strict\n")


def test_an_endpoint_is_asked_through_the_client_where_it_is_installed(monkeypatch):
    class Client:
        def __init__(self, **more):
            created = SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=json.dumps(all_of(5))))])
            self.chat = SimpleNamespace(completions=SimpleNamespace(create=lambda **_: created))

    monkeypatch.setitem(sys.modules, "openai", SimpleNamespace(OpenAI=Client))
    assert scored("a", truth("a"), endpoint("http://localhost/v1", "m"))["judge"] == 1.0


def test_another_rubric_than_the_rows_were_made_with_is_refused():
    rubric = {"id": "terminal", "sha256": hashlib.sha256(b"be strict").hexdigest()}
    ask = endpoint("http://localhost:1/v1", "m", rubrics={"terminal": "be kind"})
    with pytest.raises(ValueError, match="terminal"):
        scored("a", truth("a", rubric=rubric), ask)
    with pytest.raises(ValueError, match="http"):
        endpoint("file:///etc/passwd", "m")


# Doors


def test_trl_hands_over_texts_or_messages():
    rows = [{"style": "rule", "ground_truth": truth("a", [EXACT])}] * 4
    completions = [
        "a",
        [{"role": "assistant", "content": f"<think>x</think>{MARKED}a"}],
        [{"role": "assistant", "content": [{"type": "text", "text": "a"}]}],
        [{"role": "user", "content": "a"}],
    ]
    assert reward.reward(completions, reward_model=rows, prompts=["p"] * 4, trainer_state=None) == [1.0, 1.0, 1.0, 0.0]
    judged = reward_function(lambda *_: all_of(3))(completions, rows)
    assert judged == pytest.approx([0.55, 0.55, 0.55, 0.0])


def test_the_file_works_alone_and_does_not_load_without_the_engine_for_patterns(tmp_path):
    shutil.copy(reward.__file__, tmp_path / "reward.py")
    code = f"""
import sys, types; sys.path.insert(0, {str(tmp_path)!r})
try:
    import reward
except ImportError as error:
    print(error)
sys.modules["re2"] = types.ModuleType("re2")
import reward
assert reward.compute_score("x", "a", {truth("a", [EXACT])!r}, {{}})["score"] == 1.0
"""
    process = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert "pip install google-re2" in process.stdout
