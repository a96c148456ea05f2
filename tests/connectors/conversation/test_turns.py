"""Turns of a conversation: which belong together, what is repeated, cut or declared."""

import json
from base64 import b64encode
from datetime import UTC, datetime
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.conversation.calls import call
from trajmill.connectors.conversation.content import shown
from trajmill.connectors.conversation.cut_answers import is_cut, with_cut
from trajmill.connectors.conversation.declared_tools import declare, iterate_declared
from trajmill.connectors.conversation.exchanges import Chains
from trajmill.connectors.conversation.history import marks, shared
from trajmill.connectors.conversation.items import Items
from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.references import referring
from trajmill.connectors.conversation.turns import (
    Call,
    Gap,
    Part,
    Result,
    Said,
    System,
    Text,
    Thought,
    Turn,
    Unlogged,
    pack,
    seconds_between,
    unpack,
)
from trajmill.schemas import MESSAGE, Attachment, Observation, Spool, Step, spool

TEXTS = st.text(max_size=6)
TIMES = st.none() | st.integers(0, 2**50) | st.datetimes() | st.datetimes(timezones=st.just(UTC))
ATTACHED = st.tuples() | st.tuples(st.builds(Attachment, st.just("0" * 64), st.just("image")))
SEEN = st.builds(Observation, st.none() | TEXTS, attachments=ATTACHED)
CALLS = st.builds(
    Call, TEXTS, st.none() | TEXTS, st.none() | TEXTS, st.integers(0, 9), at=TIMES, shown=st.none() | SEEN,
    seen=st.none() | st.tuples(st.none() | SEEN), notes=st.tuples() | st.tuples(TEXTS),
)  # fmt: skip
TURNS = st.builds(
    Turn,
    st.integers(0, 9),
    at=TIMES,
    calls=st.lists(CALLS, max_size=2),
    texts=st.lists(TEXTS, max_size=2),
    thoughts=st.lists(TEXTS, max_size=2),
    mark=st.none() | st.integers(),
)
SAID = st.builds(Said, st.sampled_from(["user", "harness"]), TEXTS, ATTACHED, at=TIMES)
ITEMS = st.one_of(TURNS, SAID, SEEN, st.just(Gap()))
PARTS = st.one_of(
    CALLS,
    SAID,
    st.builds(Text, TEXTS, st.integers(0, 9), TIMES),
    st.builds(Thought, TEXTS, st.integers(0, 9), TIMES),
    st.builds(Result, st.none() | TEXTS, st.none(), TEXTS, st.integers(0, 9), attachments=ATTACHED, at=TIMES),
    st.builds(System, TEXTS),
    st.builds(Unlogged, st.integers(0, 9)),
)


@given(one=ITEMS | PARTS)
def test_whatever_was_said_comes_back_from_the_file_as_it_went(one):
    file = Spool()
    assert unpack(file.get(file.put(pack(one)))) == one


@given(found=st.lists(ITEMS, max_size=8))
def test_items_are_the_same_whether_they_stand_in_memory_or_in_the_file(found):
    items = Items()
    for item in found:
        items.append(item)
        items.grow(spool.HELD_BYTES)
    assert list(items) == found


def test_a_turn_with_an_open_call_stays_in_memory_and_may_be_answered_later():
    items, call = Items(), Call("slow", None, "1", 0)
    items.append(Turn(0, calls=[call]))
    items.append(Turn(1, texts=["Meanwhile."]))
    items.append(Turn(2, texts=["Still."]))
    items.grow(2 * spool.HELD_BYTES)
    assert items.held == 2  # the open one and the last
    call.shown = Observation("at last")
    first = next(iter(items))
    assert isinstance(first, Turn)
    assert first.calls[0].shown == Observation("at last")


def test_times_of_two_kinds_are_not_compared():
    zoned, bare = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1)
    assert seconds_between(zoned, bare) is None
    assert seconds_between(5, zoned) is None
    assert seconds_between(bare, bare.replace(second=2)) == 2
    assert seconds_between(1_500_000, 1_000_000) is None


SEALED = b"".join(sha256(bytes([number])).digest() for number in range(9))
WORD = b64encode(SEALED).decode()


@pytest.mark.parametrize("text", [f"{WORD} " * 300, "A" * 500_000, '"data:image/png;base64,' * 20_000, "A" * 255])
def test_opaque_values_are_found_in_linear_time(text):
    referring(text * 3)


def test_what_an_api_sealed_is_left_out_at_any_level():
    block = {"type": "web_search_result", "title": "A", "encrypted_content": "x"}
    assert shown({"results": [block]}).text == '{"results": [{"type": "web_search_result", "title": "A"}]}'


ERRORS = '1 validation error:\n```json\n[{"type": "missing"}]\n```\n\nFix the errors and try again.'


def answered(text: str) -> list[Step]:
    parts: list[Part] = [Call("look", "{}", "a", 0), Result("a", None, text, 1), Call("look", "{}", "b", 2)]
    return list(conversation(parts).steps)


def test_errors_of_arguments_are_the_framework_s_answer():
    seen = answered(ERRORS)[0].next_observation
    assert seen is not None
    assert (seen.content, seen.origin) == (ERRORS, "harness")


def test_a_tool_that_asks_for_another_try_answers_without_the_framework_s_sentence():
    first, second = answered("No such city.\n\nFix the errors and try again.")
    assert first.next_observation is not None
    assert (first.next_observation.content, first.next_observation.origin) == ("No such city.", "environment")
    assert second.interleaved == '[{"role": "harness", "content": "Fix the errors and try again."}]'


def test_feedback_on_a_last_answer_is_the_framework_s_though_it_stands_as_the_user_s():
    asked = "Validation feedback:\nA number, please.\n\nFix the errors and try again."
    parts: list[Part] = [Said("user", "How many?"), Text("Many.", 0), Said("user", asked), Text("Three.", 1)]
    first, _ = conversation(parts).steps
    assert first.action.name == MESSAGE
    assert first.next_observation is not None
    assert (first.next_observation.content, first.next_observation.origin) == (asked, "harness")


ADD, DIVIDE = {"name": "add", "inputSchema": {}}, {"type": "function", "function": {"name": "divide"}}


@pytest.mark.parametrize(
    ("first", "more", "all_of_them"),
    [
        ([ADD], [DIVIDE], [ADD, DIVIDE]),
        ([ADD], [{"type": "function", "name": "add", "strict": True}], [ADD]),
        ([{"type": "web_search"}], [{"type": "web_search"}], [{"type": "web_search"}]),
        (
            [{"functionDeclarations": [ADD]}],
            [{"functionDeclarations": [ADD, {"name": "divide"}]}],
            [{"functionDeclarations": [ADD]}, {"functionDeclarations": [{"name": "divide"}]}],
        ),
        ([{"toolSpec": {"name": "add"}}], [ADD], [{"toolSpec": {"name": "add"}}]),
        ([ADD], [{"type": "namespace", "name": "add", "tools": [ADD]}], [ADD]),
        ([], ["add", "add", 7], ["add", 7]),
    ],
)
def test_a_tool_that_is_declared_again_counts_once(first, more, all_of_them):
    tools = list(first)
    declare(tools, more)
    assert tools == all_of_them


def test_tools_stand_in_requests_listings_and_answers_to_searches():
    request = {
        "tools": [{"type": "tool_search"}],
        "mcp_servers": [{"type": "url", "url": "https://s.example/mcp", "name": "docs", "authorization_token": "t"}],
        "input": [{"type": "tool_search_output", "tools": [ADD]}, {"type": "function_call_output", "tools": [1]}],
    }
    response = {"tools": [{"name": "echo"}], "output": [{"type": "mcp_list_tools", "tools": [DIVIDE]}]}
    toolset = {"type": "mcp_toolset", "mcp_server_name": "docs"}
    assert list(iterate_declared(request, response)) == [{"type": "tool_search"}, toolset, ADD, DIVIDE]
    assert list(iterate_declared({}, response)) == [{"name": "echo"}, DIVIDE]
    assert list(iterate_declared({"toolConfig": {"tools": [{"toolSpec": {"name": "add"}}]}}, {})) == [
        {"toolSpec": {"name": "add"}}
    ]


ROWS = json.dumps([{"id": number, "name": f"bed {number}"} for number in range(400)])
PAGE = "<html>\n<body>\n" + "<p>Water the tulips.</p>\n" * 300 + "</body>\n</html>"


@pytest.mark.parametrize(
    "text",
    [
        '{"beds": [{"id": 1, "soil": "dry and sandy...',
        '{"beds": [{"id": 1}, {"id": 2...\n',
        '[{"id": 1}, {"id"…',
        "{'beds': ['one', 'two...",
        "[12, 13, 14...",
        '{"soil": "dry and sa...[truncated]", "id": 1}',
        '{"soil": "dry and sandy… (120 chars omitted)"}',
        '[{"id": 1}, "... 12 more items"]',
        ROWS[:1000],
        ROWS[:4096],
        ROWS[:997] + "...",
        ROWS[:2000] + "...",
        PAGE[:3000],
        "<!DOCTYPE html>" + PAGE[:985],
        '<?xml version="1.0"?>\n<beds><bed>1</bed><be...',
        ("The tulips need water. " * 50)[:500] + "...",
    ],
)
def test_what_stops_within_its_form_or_in_dots_at_a_round_size_was_cut(text):
    assert is_cut(text)


@pytest.mark.parametrize(
    "text",
    [
        "Loading...", "[INFO] Building the garden...", "[1/3] Fetching packages...",
        "[ 50%] Building CXX object lamp.o...", "[=====>      ] 12 of 40...", "Well, I do not know…", "...", "",
        '{"status": "Loading..."}',
        '{"status": "... 12 more items are loaded soon. Please wait until the gardener has watered all of the beds."}',
        'He said "...[truncated]", and went.', "{...", ROWS, ROWS[:1001], ROWS[:1100],
        ("The tulips need water. " * 50)[:700] + "...", "a" * 1000, PAGE, "<br>Loading...", "<p>Loading</p>...",
        json.dumps({"text": "x" * (1000 - len('{"text": ""}'))}),
    ],
)  # fmt: skip
def test_what_is_whole_or_ends_in_dots_of_its_own_was_not(text):
    assert not is_cut(text)


def test_only_what_the_environment_said_is_marked_and_a_mark_of_the_log_stays():
    cut = '{"beds": [1, 2...'
    assert with_cut(Observation(cut)) == Observation(cut, truncation="harness")
    for seen in (Observation(cut, truncation="recorder"), Observation(cut, origin="user"), Observation(None)):
        assert with_cut(seen) is seen


ASKED = Said("user", "How is bed 2?")


def acted(name: str = "look", arguments: object = None, call_id: str | None = None, *, hosted: bool = False) -> Call:
    part = call(name, arguments, call_id, 0)
    part.hosted = hosted
    return part


def gave(content: str, call_id: str | None = None, *, hosted: bool = False) -> Result:
    return Result(call_id, None, content, 0, hosted=hosted)


def goes_on(before: list[Part], history: list[Part]) -> bool:
    known = marks(before)
    return shared(known, marks(history)).known == len(known)


@pytest.mark.parametrize(
    ("before", "history"),
    [
        ([ASKED, acted(arguments={"bed": 2, "at": 1})], [ASKED, acted(arguments='{"at": 1.0, "bed": 2}', call_id="k")]),
        ([ASKED, Text("Dry, ", 0), Text("I fear.", 0)], [ASKED, Text("Dry, I fear.", 0)]),
        ([ASKED, Text("Dry,\n\nI fear.", 0), acted()], [ASKED, Text("Dry, ", 0), Text("I fear.", 0), acted()]),
        ([ASKED, Thought("Hm.", 0), acted()], [ASKED, acted()]),
        ([acted(), gave('{"a": 1, "b": [2]}', "k")], [acted(), gave('{"b":[2],"a":1}', "j")]),
        ([ASKED, acted("find", hosted=True), gave("x", hosted=True), Text("So.", 0)], [ASKED, Text("So.", 0)]),
        ([ASKED, Text("So.", 0)], [ASKED, acted("find", hosted=True), gave("x", hosted=True), Text("So.", 0)]),
        ([acted("find", {"q": 1}, hosted=True), gave("x", hosted=True)], [acted("find", hosted=True), gave("y")]),
        ([acted("tool_search_tool_bm25", {"q": 1}), gave("x")], [acted("tool_search", call_id="k"), gave("y", "k")]),
        ([ASKED, Text("Let me see.", 0), acted(call_id="k")], [ASKED, acted(call_id="k"), gave("dry", "k")]),
        ([ASKED, Text("<b>See</b>", 0), acted(call_id="k")], [ASKED, Text("See", 0), acted(call_id="k")]),
        ([ASKED, acted(arguments={"bed": 2}, call_id="k")], [ASKED, acted(arguments={"bed": "2"}, call_id="k")]),
    ],
)
def test_a_history_that_says_the_same_otherwise_goes_on_with_the_conversation(before, history):
    assert goes_on(before, history)


_PARTS = st.lists(
    st.one_of(
        st.builds(Said, st.just("user"), st.sampled_from(["a", "b c", ""])),
        st.builds(Text, st.sampled_from(["a", "b c", "b", "c"]), st.just(0)),
        st.builds(acted, st.sampled_from("ab"), st.sampled_from([None, {"x": 1}]), hosted=st.booleans()),
        st.builds(gave, st.sampled_from(["a", "{}", '{"x": 1}']), hosted=st.booleans()),
    ),
    max_size=6,
)


@given(_PARTS, _PARTS)
def test_every_history_goes_on_with_what_it_repeats(before, more):
    known, longer = marks(before), marks([*before, *more])
    alike = shared(known, longer)
    assert alike.known == len(known)
    assert alike.told >= 0
    assert shared(known, known)[:2] == (len(known), len(known))


def test_what_two_responses_say_is_not_one_turn():
    chains = Chains()
    first = acted("find", call_id="a", hosted=True)
    chains.add(0, [ASKED], [first])
    chain = chains.add(1, [ASKED, first], [acted("find", {"again": 1}, "b", hosted=True)])
    assert [type(part) for part in chain.parts] == [Said, Call, Unlogged, Call]


def test_a_branch_takes_what_it_shares_from_the_longest_and_knows_its_parent():
    chains = Chains()
    chains.add(0, [ASKED], [Thought("Hm.", 0), acted(call_id="a")])
    first = chains.add(1, [ASKED, acted(call_id="a"), gave("dry", "a")], [Text("Dry.", 1)])
    branch = chains.add(2, [ASKED, acted(call_id="x"), gave("wet", "x")], [Text("Wet.", 2)])
    assert (branch.parent, branch.shared) == (first, 3)
    assert branch.parts[:3] == first.parts[:3]
    assert branch.parts[3] == gave("wet", "a")
