"""When the history of a request is the conversation of before, and whose ids its results then have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.conversation.calls import call
from trajmill.connectors.conversation.exchanges import Chains
from trajmill.connectors.conversation.history import marks, shared
from trajmill.connectors.conversation.turns import Call, Part, Result, Said, Text, Thought, Unlogged

ASKED = Said("user", "How is bed 2?")


def acted(name: str = "look", arguments: object = None, call_id: str | None = None, *, hosted: bool = False) -> Call:
    made = call(name, arguments, call_id, 0)
    made.hosted = hosted
    return made


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
    known, told = marks(before), marks([*before, *more])
    alike = shared(known, told)
    assert alike.known == len(known)
    assert alike.told >= 0
    assert shared(known, known)[:2] == (len(known), len(known))


def test_what_two_responses_say_is_not_one_turn():
    chains = Chains()
    first = acted("find", call_id="a", hosted=True)
    chains.add(0, [ASKED], [first])
    chain = chains.add(1, [ASKED, first], [acted("find", {"again": 1}, "b", hosted=True)])
    assert [type(one) for one in chain.parts] == [Said, Call, Unlogged, Call]


def test_a_branch_takes_what_it_shares_from_the_longest_and_knows_its_parent():
    chains = Chains()
    chains.add(0, [ASKED], [Thought("Hm.", 0), acted(call_id="a")])
    first = chains.add(1, [ASKED, acted(call_id="a"), gave("dry", "a")], [Text("Dry.", 1)])
    other = chains.add(2, [ASKED, acted(call_id="x"), gave("wet", "x")], [Text("Wet.", 2)])
    assert (other.parent, other.shared) == (first, 3)
    assert other.parts[:3] == first.parts[:3]
    assert other.parts[3] == gave("wet", "a")
