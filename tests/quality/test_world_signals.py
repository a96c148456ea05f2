"""What is wrong with the text of a transition, and what it says of its world."""

import json
import math
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.make import batch_of, call
from trajmill.quality.lines import Lines
from trajmill.quality.registry import signal
from trajmill.quality.screens import canonical_hashes
from trajmill.quality.signal import Measured
from trajmill.quality.signals.binary_content import binary_shares
from trajmill.quality.signals.opaque_content import long_words
from trajmill.quality.signals.undeclared_tool import declared_names
from trajmill.quality.texts import Texts
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import (
    COMPLETE,
    KEYSTROKES,
    MESSAGE,
    WAIT,
    Action,
    Context,
    Environment,
    Observation,
    Outcome,
    Step,
    Trajectory,
    keystrokes_text,
)


def measure(name, *trajectories):
    batch = batch_of(*trajectories)
    return [round(number, 6) for number in signal(name).measure(Measured.of(batch, TokenCounter())).tolist()]


def row(action=None, before=None, after="x", *, form="stream", exit_code=None, interleaved=None, **more):
    seen = Observation(after, form=form, **more) if after is not None else None
    first = Observation(before, form=form) if before is not None else None
    return Step(action or call(), first, seen, 0, 0, exit_code=exit_code, interleaved=interleaved)


def one(*steps, domain="terminal", **more):
    return Trajectory("t", domain, [replace(step, turn=number) for number, step in enumerate(steps)], **more)


def calling(space, *names):
    text = space if isinstance(space, str) or space is None else json.dumps(space)
    return one(*(row(call(name)) for name in names), domain="mcp", context=Context(action_space=text))


@pytest.mark.parametrize(
    "space",
    [
        ["add", "divide"],
        [{"name": "add", "inputSchema": {}}, {"name": "divide"}],
        [{"type": "function", "function": {"name": "add"}}, {"type": "function", "function": {"name": "divide"}}],
        [{"functionDeclarations": [{"name": "add"}, {"name": "divide"}]}],
        {"tools": [{"name": "add"}, {"name": "divide"}]},
    ],
)
def test_calls_of_tools_that_the_list_does_not_hold_are_marked(space):
    assert declared_names(json.dumps(space)) == {"add", "divide"}
    assert measure("undeclared_tool", calling(space, "add", "subtract", "subtract")) == [0, 1, 1]
    assert measure("undeclared_tool", calling(space, "add", "divide")) == [0, 0]


@pytest.mark.parametrize(
    ("entry", "called"),
    [
        ({"type": "code_execution_20250825", "name": "code_execution"}, "bash_code_execution"),
        ({"type": "code_execution_20250825", "name": "code_execution"}, "text_editor_code_execution"),
        ({"type": "web_search_20260209", "name": "web_search"}, "code_execution"),
        ({"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}, "search_tools"),
        ({"type": "web_search_preview"}, "web_search"),
        ({"type": "tool_search"}, "tool_search"),
        ({"type": "computer_use_preview"}, "computer"),
        ({"codeExecution": {}, "functionDeclarations": [{"name": "add"}]}, "code_execution"),
        ({"toolSpec": {"name": "divide"}}, "divide"),
        ({"type": "namespace", "name": "sums", "tools": [{"name": "divide"}]}, "divide"),
    ],
)
def test_a_tool_that_an_api_defines_is_called_by_the_names_of_its_family(entry, called):
    space = [{"name": "add"}, {"cachePoint": {"type": "default"}}, entry]
    assert measure("undeclared_tool", calling(space, "add", called, "other")) == [0, 0, 1]


def test_a_server_whose_tools_no_list_names_may_have_any():
    space = [{"name": "add"}, {"type": "mcp_toolset", "mcp_server_name": "docs"}]
    assert measure("undeclared_tool", calling(space, "add", "look_up")) == [0, 0]


@pytest.mark.parametrize("space", [None, '"add"', "[]", "[1]", '[{"name": "add"}, {"odd": 1}]', "{}", "[[[[]]]]"])
def test_no_call_is_accused_where_the_list_is_missing_or_of_no_known_form(space):
    assert measure("undeclared_tool", calling(space, "subtract")) == [0]


def test_the_name_in_the_text_counts_and_what_is_no_tool_is_not_asked_for():
    renamed = Action("search", '{"name": "web_search", "arguments": {}}', "{}")
    others = [Action(name, "x") for name in (MESSAGE, COMPLETE, WAIT, KEYSTROKES, "")]
    space = Context(action_space='[{"name": "web_search"}]')
    assert measure("undeclared_tool", one(*map(row, [renamed, *others]), context=space)) == [0] * 6


def test_reading_a_resource_of_mcp_is_no_call_of_a_tool():
    methods = ("resources/read", "prompts/get", "completion/complete")
    assert measure("undeclared_tool", calling(["add"], "add", *methods)) == [0] * 4
    assert measure("undeclared_tool", calling(["add"], "add", "resources/burn")) == [0, 1]


@pytest.mark.parametrize("refusal", [{"is_error": True}, {"after": "error: no such tool"}, {"origin": "harness"}])
def test_a_call_that_is_refused_accuses_nobody(refusal):
    space = Context(action_space='["add"]')
    steps = [row(call("add")), row(call("other"), **refusal)]
    assert measure("undeclared_tool", one(*steps, domain="mcp", context=space)) == [0, 0]
    assert measure("undeclared_tool", one(*steps, row(call("other")), domain="mcp", context=space)) == [0, 0, 1]


def test_binary_content_is_the_share_of_control_and_replacement_characters():
    texts = ["ab\x00\x01", "��中文", "\x1b[1mred\x1b[0m\ttab\r\n\x07", "\x85a", "", "naïve ¿é", None]
    shown = one(*(row(after=text) for text in texts))
    assert measure("binary_content", shown) == [0.5, 0.5, 0, 0.5, 0, 0, 0]


def test_opaque_content_is_the_share_of_long_words_that_are_evenly_spread():
    sealed = b64encode(b"".join(sha256(bytes([n])).digest() for n in range(6))).decode()
    slug = "https://example.org/" + "a-very-long-title-of-a-page-about-nothing-in-particular-" * 3
    texts = [sealed, f"token={sealed}&next=" + " " * 244, slug, sealed[:80], "0123456789abcdef" * 12, "", None]
    assert len(sealed) == 256
    assert measure("opaque_content", one(*(row(after=text) for text in texts))) == [1, 0.5, 0, 0, 0, 0, 0]


def test_long_words_are_those_of_one_text_with_their_padding():
    word = "a" * 94
    texts = pa.array([f"{word[1:]} {word}===", f" {word[:50]}", f"{word[:50]} é{word}a", word, "", f"{word}=b"])
    words = [(1, f"{word}=="), (3, f"{word}a"), (4, word), (6, f"{word}=")]
    for skipped in range(3):
        expected = [(number - 1 - skipped, text.encode()) for number, text in words if number > skipped]
        assert list(long_words(texts[skipped:])) == expected
    far = pa.array([f"{' x' * (1 << 19)} {word}", f"{' ' * ((1 << 20) - 150)}{word}"])
    assert list(long_words(far)) == [(0, word.encode()), (1, word.encode())]


@pytest.mark.parametrize(("code", "silent"), [(None, 1), (0, 1), (1, 0), (127, 0), (-9, 0)])
def test_a_command_that_says_no_by_its_exit_code_has_an_answer(code, silent):
    assert measure("empty_answer", one(replace(row(after=""), exit_code=code))) == [silent]
    assert measure("empty_answer", one(replace(row(after=""), exit_code=code, timed_out=True))) == [0]


@given(st.lists(st.text(alphabet="a\x00\x7f\x85 �ï中\n", max_size=12), max_size=8))
def test_binary_shares_are_those_of_a_count_by_character(texts):
    def share(text):
        return sum(char in "\x00\x7f\x85�" for char in text) / max(len(text), 1)

    assert np.allclose(binary_shares(pa.array(texts, pa.string())), [share(text) for text in texts])


@pytest.mark.parametrize(
    "token", ["<|im_start|>", "[INST]", "[/INST]", "<start_of_turn>", "<|endoftext|>", "<|eot_id|>"]
)
def test_a_chat_template_token_is_noticed_wherever_it_would_be_shown(token):
    text = f"some {token} here"
    note = json.dumps([{"role": "user", "content": text}])
    for transition in (row(before=text), row(after=text), row(Action("", text)), row(interleaved=note)):
        assert measure("control_tokens", one(transition, row())) == [1, 0]
    shown = Context(initial_state=text)
    assert measure("control_tokens", one(row(), row(), context=shown)) == [1, 1]


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("a\nb", "a\nb", 1),
        ("a\nb", "a  \r\nb\t\n\n  \n", 1),
        ("a\nb", "a\n\nb", 0),
        ("a\nb", "b\na", 0),
        ("\ta", "a", 0),
        ("a", "b", 0),
        ("", "\n\n", 1),
        (None, "a", 0),
        ("a", None, 0),
    ],
)
@pytest.mark.parametrize("form", ["screen", "state"])
def test_a_screen_that_is_as_before_is_a_no_op(before, after, same, form):
    assert measure("no_op", one(row(before=before, after=after, form=form), domain="android")) == [same]


@pytest.mark.parametrize(
    ("after", "silent"),
    [("", 1), ("\n \r\n", 1), ("\x1b[?2004h\x1b[0m\r\n", 1), ("a", 0), ("\x1b[1mred", 0), (None, 0)],
)
@pytest.mark.parametrize("form", ["stream", "response"])
def test_a_stream_or_response_without_a_character_is_an_empty_answer_and_no_no_op(after, silent, form):
    rows = one(row(before=after, after=after, form=form))
    assert measure("empty_answer", rows) == [silent]
    assert measure("no_op", rows) == [0]


_LINES = st.lists(st.text(alphabet="ab \t", max_size=4), max_size=5).map("\n".join)


@given(st.lists(_LINES, min_size=1, max_size=6))
def test_canonical_hashes_are_equal_exactly_where_the_canonical_texts_are(texts):
    canonical = ["\n".join(line.rstrip(" \t\r") for line in text.split("\n")).rstrip("\n") for text in texts]
    lines = Lines.of(pa.array(texts))
    hashes = canonical_hashes(lines, lines.hashes(trimmed=True)).tolist()
    for a in range(len(texts)):
        for b in range(len(texts)):
            assert (hashes[a] == hashes[b]) == (canonical[a] == canonical[b])


@pytest.mark.parametrize(("origin", "made"), [("environment", 0), ("user", 0), ("agent", 0), ("harness", 1)])
def test_only_what_the_harness_made_is_its_answer(origin, made):
    assert measure("harness_answer", one(row(origin=origin))) == [made]


def doing(*pairs):
    return one(*(row(Action("", action), after=after) for action, after in pairs))


def test_the_same_action_with_the_same_answer_three_times_is_a_loop():
    again = ("make", "failed")
    assert measure("loop", doing(again, ("vi", "x"), again, ("ls", "y"), again)) == [0.6] * 5
    assert measure("loop", doing(again, again, ("make", "done"), ("make", "done"))) == [0] * 4
    assert measure("loop", doing(*[("make", str(n)) for n in range(4)])) == [0] * 4
    assert measure("loop", doing(*[("make", None)] * 4)) == [0] * 4


def test_repetitions_far_apart_or_of_several_trajectories_are_no_loop():
    apart = [("make", "failed"), *((f"vi {n}", "") for n in range(5)), ("make", "failed")]
    far = doing(*apart, *((f"ls {n}", "") for n in range(5)), ("make", "failed"))
    near = doing(*apart, *((f"ls {n}", "") for n in range(4)), ("make", "failed"))
    assert measure("loop", far) == [0] * 13
    assert measure("loop", near) == [0.25] * 12
    short = doing(("make", "failed"), ("make", "failed"))
    assert measure("loop", short, short) == [0] * 4


WAITING = Action(KEYSTROKES, keystrokes_text([("", 2.0)]))


def screens(*pairs):
    return one(*(row(action, before, after, form="screen") for action, before, after in pairs))


@pytest.mark.parametrize("wait", [WAITING, Action(WAIT, "wait 2"), Action(KEYSTROKES, keystrokes_text([("", None)]))])
def test_a_screen_that_changes_while_the_agent_waits_was_not_settled(wait):
    assert measure("unsettled", screens((call(), "a", "b"), (wait, "b", "c"))) == [1, 0]
    assert measure("unsettled", screens((call(), "a", "b"), (wait, "b", "b\n"))) == [0, 0]


def test_a_screen_that_changes_by_an_action_or_in_another_trajectory_was_settled():
    typed = Action(KEYSTROKES, keystrokes_text([("q", 2.0), ("", 1.0)]))
    assert measure("unsettled", screens((call(), "a", "b"), (typed, "b", "c"))) == [0, 0]
    assert measure("unsettled", screens((call(), "a", "b")), screens((WAITING, "b", "c"))) == [0, 0]


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ('#1 frame\n  #2 text "Loading…" [0,0][9,9]', 1),
        ('#1 progressbar "" busy', 1),
        ('#1 list "a" value="b" focusable busy id=x', 1),
        ("top\nLoading...\n", 1),
        ('#1 text "Loading dock" [0,0][9,9]', 0),
        ('#1 button "Not busy now"', 0),
        ("Loading configuration from x", 0),
    ],
)
def test_a_screen_that_says_that_it_loads_is_not_settled(text, loads):
    assert measure("unsettled", one(row(after=text, form="screen"), domain="android")) == [loads]
    assert measure("unsettled", one(row(after=text))) == [0]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("running\nTraceback (most recent call last):\n  File", 1),
        ("ValueError: bad", 1),
        ("java.lang.IllegalStateException: x\n", 1),
        ("bash: foo: command not found", 1),
        ("bash: line 3: foo: command not found", 1),
        ("ls: x: No such file or directory\n", 1),
        ("    at Object.<anonymous> (/app/x.js:3:7)", 1),
        ("thread 'main' panicked at src/main.rs:2:5", 1),
        ("the word ValueError: in prose", 0),
        ("0 errors, 0 warnings", 0),
        ("def f():\n    raise ValueError(x)", 0),
        ("", 0),
    ],
)
def test_what_programs_print_as_they_die_is_an_error(text, error):
    assert measure("error_observation", one(row(after=text))) == [error]


@pytest.mark.parametrize(
    ("mark", "code", "error"),
    [(True, None, 1), (True, 0, 1), (False, None, 0), (None, 0, 0), (None, 1, 1), (False, 2, 1), (None, None, 1)],
)
def test_what_the_log_says_of_an_error_goes_before_the_text(mark, code, error):
    assert measure("error_observation", one(row(after="ValueError: bad", is_error=mark, exit_code=code))) == [error]


def test_an_error_that_still_stands_on_the_screen_is_no_new_one():
    old, new = "$ foo\nbash: foo: command not found\n$ ls\na", "$ foo\nbash: foo: command not found\n$ "
    assert measure("error_observation", one(row(before=new, after=old, form="screen"))) == [0]
    assert measure("error_observation", one(row(before="$ foo", after=new, form="screen"))) == [1]


@pytest.mark.parametrize("text", ["", " \n", "<returncode>1</returncode>\n<output>\n</output>"])
def test_a_command_that_only_says_no_by_exit_code_1_reports_no_error(text):
    assert measure("error_observation", one(row(after=text, exit_code=1))) == [0]
    assert measure("error_observation", one(row(after=text, exit_code=2))) == [1]
    assert measure("error_observation", one(row(after=f"{text}no such host", exit_code=1))) == [1]
    assert measure("error_observation", one(row(after=text, exit_code=1, is_error=True))) == [1]


def test_an_error_that_a_program_uncovers_as_it_leaves_the_screen_is_no_new_one():
    shell, again = "$ foo\nbash: foo: command not found\n$ less x", "$ foo\nbash: foo: command not found\n$ bar"
    screens = ["$ ", shell, "1\n2\n3", shell, again + "\nbash: bar: command not found\n$ "]
    rows = [row(before=old, after=new, form="screen") for old, new in zip(["$ ", *screens], screens, strict=False)]
    assert measure("error_observation", one(*rows)) == [0, 1, 0, 0, 1]
    repeated = f"{shell}\n{shell}"
    assert measure("error_observation", one(*rows[:3], row(before="1", after=repeated, form="screen"))) == [0, 1, 0, 1]


BAD, GOOD = row(after="x", exit_code=2), row(after="x", exit_code=0)
UNSEEN, USER = row(after=None), row(after="ValueError: mine", origin="user")


@pytest.mark.parametrize(
    ("rows", "streak", "share"),
    [
        ([GOOD, GOOD], 0, 0),
        ([BAD, GOOD, BAD, BAD], 2, 0.75),
        ([BAD, BAD, BAD], 3, 1),
        ([BAD, BAD, UNSEEN, BAD, GOOD, UNSEEN], 3, 0.75),
        ([BAD, USER, BAD, GOOD, GOOD], 2, 0.5),
        ([UNSEEN, USER], 0, 0),
        ([GOOD, row(after="x", exit_code=2, origin="agent")], 1, 0.5),
    ],
)
def test_the_longest_streak_of_errors_and_their_share_are_of_what_the_environment_answered(rows, streak, share):
    assert measure("error_streak", one(*rows)) == [streak] * len(rows)
    assert measure("error_share", one(*rows)) == [share] * len(rows)


def test_streaks_are_counted_in_each_of_many_trajectories():
    sessions = [
        replace(one(*rows), native_id=str(number)) for number, rows in enumerate([[UNSEEN], [BAD], [GOOD, BAD]])
    ]
    assert measure("error_streak", *sessions, one(BAD, BAD, GOOD)) == [0, 1, 1, 1, 2, 2, 2]
    assert measure("error_share", *sessions, one(BAD, GOOD, GOOD, GOOD)) == [0, 1, 0.5, 0.5, *[0.25] * 4]


def test_a_streak_of_errors_ends_with_its_trajectory():
    assert measure("error_streak", one(GOOD, BAD, BAD), replace(one(BAD, BAD, GOOD), native_id="u")) == [2] * 6


@pytest.mark.parametrize(
    ("outcome", "number"),
    [
        (None, 0),
        (Outcome(), 0),
        (Outcome(True), 1),
        (Outcome(False), -1),
        (Outcome(False, 1.0), -1),
        (Outcome(None, 1.0), 0),
        (Outcome(None, math.nan), 0),
        (Outcome(True, -3e38), 1),
    ],
)
def test_an_outcome_is_what_the_log_says_whatever_the_score(outcome, number):
    assert measure("outcome", one(GOOD, BAD, outcome=outcome)) == [number] * 2


def failing(domain, text, form="screen"):
    return measure("environment_failure", one(row(after=text, form=form), domain=domain)) == [1]


@pytest.mark.parametrize(
    ("domain", "text"),
    [
        ("web", "Attention Required! | Cloudflare"),
        ("web", "502 Bad Gateway\nnginx"),
        ("web", "This site can’t be reached\nERR_NAME_NOT_RESOLVED"),
        ("os", "  \n"),
        ("android", ""),
        ("android", "ERROR: null root node returned by UiTestAutomationBridge."),
        ("terminal", "client_loop: send disconnect: Broken pipe"),
        ("search", "Our systems have detected unusual traffic from your computer network."),
    ],
)
def test_captchas_error_pages_lost_shells_and_missing_screens_are_failures(domain, text):
    assert failing(domain, text)


@pytest.mark.parametrize(
    ("domain", "text", "form"),
    [
        ("web", "How to fix 502 Bad Gateway\n" + "a long article " * 300, "screen"),
        ("web", "", "response"),
        ("terminal", "", "screen"),
        ("terminal", "Verify you are human", "screen"),
        ("swe", "502 Bad Gateway", "stream"),
    ],
)
def test_pages_about_failures_and_silent_commands_are_none(domain, text, form):
    assert not failing(domain, text, form)


def test_texts_are_spread_over_rows_and_null_is_absent():
    column = pa.array(["b", None, "a", "b"]).dictionary_encode()
    texts = Texts.of(column)
    assert texts.matching("^b$").tolist() == [True, False, False, True]
    chosen = texts.at(np.array([False, True, True, False]))
    assert chosen.texts.to_pylist() == ["a"]
    assert chosen.index.tolist() == [-1, -1, 0, -1]
    assert chosen.sizes().tolist() == [0, 0, 1, 0]


def test_columns_share_their_texts_and_what_is_known_of_them():
    words = pa.array(["a", "b", "c"])
    columns = [pa.DictionaryArray.from_arrays(pa.array(rows), words) for rows in ([0, 1, None], [2, 1, 1])]
    before, after = Texts.shared(columns)
    assert before.texts is after.texts
    assert before.known is after.known
    assert before.matching("[ab]").tolist() == [True, True, False]
    assert after.matching("[ab]").tolist() == [False, True, True]
    left, right = Texts.shared([columns[0], pa.array(["b", None, "d"])])
    assert left.texts is right.texts
    assert [left.texts[number].as_py() for number in left.index[:2]] == ["a", "b"]
    assert [right.texts[number].as_py() for number in right.index[::2]] == ["b", "d"]
    assert left.index[1] == right.index[0]
    assert left.index[2] == right.index[1] == -1


def test_a_few_rows_of_a_large_batch_keep_only_their_texts():
    column = pa.array([str(number) for number in range(9)]).dictionary_encode()
    assert Texts.of(column[4:7]).texts.to_pylist() == ["4", "5", "6"]


def exchange(role, content, *, url="https://tides.example/low", third_party=None, method="GET", **more):
    arguments = {"method": method, "url": url, "resource_type": role} | (
        {} if third_party is None else {"third_party": third_party}
    )
    action = Action("http_request", f"{method} {url}", json.dumps(arguments))
    return row(action, after=content, form="response", media_type="message/http", **more)


ANSWER = 'HTTP 200 OK\ncontent-type: application/json\n\n{"low": 3}'
BODILESS = "HTTP 200 OK\ncontent-type: application/json"


def why(step):
    side_request = signal("side_request")
    measured = Measured.of(batch_of(one(step, domain="web")), TokenCounter())
    reasons = side_request.reasons(measured)
    assert reasons is not None
    (reason,) = reasons.to_pylist()
    assert side_request.measure(measured).tolist() == [float(reason is not None)]
    return reason


@pytest.mark.parametrize(
    "step",
    [
        exchange("call", ANSWER),
        exchange("call", ANSWER, third_party=False),
        exchange("frame", ANSWER, third_party=False),
        exchange("document", ANSWER, url="https://ads.example/track"),
        exchange("call", ANSWER, url="https://tides.example/api/track?ad=1", third_party=False),
        exchange("call", ANSWER, url="https://tides.example/data/github-stats.json", third_party=False),
        exchange("call", ANSWER, url="https://sentry.example/issues", third_party=False),
        exchange("call", ANSWER, url="https://sentry.io/api/issues", third_party=False),
        exchange("call", "HTTP 404\n\nno such day", third_party=False),
        exchange("call", BODILESS, third_party=False, truncation="recorder"),
        exchange("call", "HTTP 302\nlocation: /b\n\nHTTP 200\n\nhigh", third_party=False),
        row(Action("http_request", "GET x", '{"url": "https://count.example/hit"}'), after=BODILESS),
        row(call("search"), after=""),
    ],
)
def test_what_the_visited_site_answered_is_on_no_side(step):
    assert why(step) is None


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (exchange("call", ANSWER, third_party=True), "other_site"),
        (exchange("frame", ANSWER, third_party=True), "other_site"),
        (exchange("beacon", ANSWER, third_party=False), "beacon"),
        (exchange("asset", ANSWER, third_party=False), "asset"),
        (exchange("call", ANSWER, url="https://metrics.tides.example/id?a=b", third_party=False), "telemetry"),
        (exchange("call", ANSWER, url="https://tides.example/v1/collect?v=1", third_party=False), "telemetry"),
        (exchange("call", ANSWER, url="https://tides.example/pixel.gif", third_party=False), "telemetry"),
        (
            exchange("call", ANSWER, url="https://tides.example/browser/stats", method="POST", third_party=False),
            "telemetry",
        ),
        (exchange("call", ANSWER, url="https://api.sentry.io/1"), "telemetry"),
        (exchange("call", BODILESS, third_party=False), "empty"),
        (exchange("document", "HTTP 204"), "empty"),
        (exchange("call", "HTTP 302\nlocation: /b\n\nHTTP 204", third_party=False), "empty"),
        (exchange("call", "net::ERR_ABORTED", third_party=False), "no_response"),
    ],
)
def test_why_a_request_is_on_the_side(step, reason):
    assert why(step) == reason


def test_a_page_whose_own_host_counts_by_its_name_is_visited_all_the_same():
    step = exchange("call", ANSWER, url="https://stats.tides.example/low", third_party=False)
    for host, wanted in (("stats.tides.example", 0), ("tides.example", 1)):
        assert measure("side_request", one(step, domain="web", environment=Environment(id=host))) == [wanted]


def test_one_failed_request_of_a_recording_is_no_broken_environment_but_a_page_that_does_not_load_is():
    page = exchange("document", "HTTP 200\n\n#1 document")
    failed = exchange("call", "net::ERR_CONNECTION_REFUSED")
    assert measure("environment_failure", one(page, failed, page, domain="web")) == [0, 0, 0]
    assert measure("environment_failure", one(failed, page, domain="web")) == [0, 0]
    unloaded = exchange("document", "net::ERR_CONNECTION_REFUSED")
    assert measure("environment_failure", one(unloaded, failed, domain="web")) == [1, 1]
    seen = row(after="This site can't be reached", form="screen")
    assert measure("environment_failure", one(row(after="fine", form="screen"), seen, domain="web")) == [0.5, 0.5]
