"""What a framework says in the place of a tool or a user is its own, and what a tool says is the tool's."""

from trajmill.connectors.conversation.pairing import conversation
from trajmill.connectors.conversation.turns import Call, Part, Result, Said, Text
from trajmill.schemas import MESSAGE, Step

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
