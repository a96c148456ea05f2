"""The adversarial answers of a turn, and the agreement of the reward with answers ranked by hand."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.reward_ranking import tau_b
from tests.conftest import ROOT
from trajmill.pipelines.mix import reward
from trajmill.pipelines.mix.adversaries import adversaries, reward_quality
from trajmill.pipelines.mix.answerable import Context, is_unknowable, mark_random_values
from trajmill.pipelines.mix.checks import ground_truth
from trajmill.pipelines.render.answered import Answered, Known, words

RANKED = Path(ROOT) / "benchmarks" / "reward_ranking.jsonl"
BEFORE = 'window "Shop"\n  text "Tea"\n  text "5 left"\n  button "Buy"'


def turn(observation, arguments='{"item": "tea"}', form="response", previous=None, **more):
    return Answered(
        "k:1", "mcp", form, "buy", arguments, f'{{"name": "buy", "arguments": {arguments}}}', observation, previous,
        **more,
    )  # fmt: skip


def answers(answered, others=()):
    return {adversary.name: adversary for adversary in adversaries(answered, others)}


def test_each_adversarial_answer_differs_from_the_truth_as_its_name_says():
    by_name = answers(turn('{"item": "tea", "left": 4}\n[exit code 0]'), ['{"item": "salt", "left": 9}'])
    assert by_name["fenced"].answer.endswith('```\n{"item": "tea", "left": 4}\n[exit code 0]\n```')
    assert json.loads(by_name["other JSON"].answer.split("\n")[0]) == {"item": "tea", "left": 4}
    assert json.loads(by_name["number"].answer.split("\n")[0].replace("[exit", ""))["item"] == "tea"
    assert by_name["number"].answer != '{"item": "tea", "left": 4}\n[exit code 0]'
    assert by_name["other answer"].answer == '{"item": "salt", "left": 9}'
    assert by_name["half"].answer == '{"item": "tea", "lef'


def test_a_state_is_spoiled_where_it_stays_and_kept_where_it_changes():
    by_name = answers(turn(BEFORE.replace("5 left", "4 left"), form="screen", previous=BEFORE))
    assert by_name["previous"].answer == BEFORE
    lines = by_name["rubbish"].answer.split("\n")
    assert lines[2] == '  text "4 left"'
    assert not {*lines} & {*BEFORE.split("\n")}
    assert sorted(by_name["shuffled"].answer.split("\n")) == sorted(BEFORE.replace("5 left", "4 left").split("\n"))


def test_a_half_that_is_the_state_before_is_none():
    assert "half" not in answers(turn("ab\ncd", form="screen", previous="ab"))
    assert answers(turn("ab\ncd", form="screen", previous="cd"))["half"].answer == "ab"


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("truth", 0.99),
        ("fenced", 0.99),
        ("empty", 0.1),
        ("previous", 0.01),
        ("rubbish", 0.7),
        ("echo", 0.7),
        ("shuffled", 0.9),
        ("number", 1.0),
        ("other answer", 1.0),
        ("half", 0.0),
        ("half", 1.0),
    ],
)
def test_a_turn_has_no_quality_where_an_answer_earns_what_it_may_not(name, score, monkeypatch):
    answered = turn(BEFORE.replace("5 left", "4 left"), form="screen", previous=BEFORE)
    scores = {adversary.answer: max(adversary.low, 0.0) for adversary in adversaries(answered, ["none"])}
    monkeypatch.setattr(reward, "scored", lambda answer, _: {"score": scores[answer]})
    assert reward_quality(answered, "", ["none"]) == 1.0
    scores[answers(answered, ["none"])[name].answer] = score
    assert reward_quality(answered, "", ["none"]) is None


def test_an_answer_told_by_volatile_parts_alone_has_no_half_and_no_changed_number():
    by_name = answers(turn("id 4711", volatile=((3, 7),)))
    assert "half" not in by_name
    assert "number" not in by_name


def test_quality_tells_the_best_of_the_wholly_wrong_answers():
    answered = turn("bought 1 tea, 4 left")
    truth = ground_truth(answered, [])
    far, near = "no such item", "bought 1 salt, 4 left"
    assert reward_quality(answered, truth, [far]) == round(1 - max(_scores(answered, truth, far)), 4)
    assert reward_quality(answered, truth, [near]) == round(1 - max(_scores(answered, truth, near)), 4)
    assert (reward_quality(answered, truth, [near]) or 0) < (reward_quality(answered, truth, [far]) or 0)


def _scores(answered, truth, distractor):
    return [reward.scored(answer, truth)["score"] for answer in (distractor, answered.action)]


def test_random_values_are_volatile_until_they_were_shown():
    text = "[main 3f2a91c] Add the mill\n at 2026-01-05T10:11:12Z in 0.42s, 17 lines"
    marked = mark_random_values(turn(text), Known())
    assert [text[begin:end] for begin, end in marked.volatile] == ["3f2a91c", "2026-01-05T10:11:12Z", "0.42s"]
    known = Known()
    known.add(turn("commit 3f2a91c"))
    marked = mark_random_values(turn(text), known.now())
    assert "3f2a91c" not in [text[begin:end] for begin, end in marked.volatile]


def test_an_answer_is_unknowable_where_nothing_tells_it():
    assert is_unknowable(turn("Utopia, capital Amaurot", arguments="{}"), Known(), [])
    assert not is_unknowable(turn("Utopia, capital Amaurot", arguments='{"of": "Utopia"}'), Known(), [])
    assert not is_unknowable(turn("Utopia, capital Amaurot", arguments='{"buy": "name"}'), Known(), [])
    known = Known()
    known.add(turn("You are in Utopia, in its capital Amaurot"))
    assert not is_unknowable(turn("Utopia, capital Amaurot", arguments="{}"), known.now(), [])
    assert is_unknowable(turn("3f2a91c8", volatile=((0, 8),)), Known(), [])
    assert not is_unknowable(turn("Utopia, capital Amaurot", arguments='{"whole": false}'), Known(), [])


VALUES = ("3f2a91c8", "2026-01-05T10:11:12Z", "Jan  5 10:11:12", "/tmp/tmpab.x", "0.42s", "0x7f3a2b", "1767607872")
OTHERS = ("Utopia", "17", "tmp", "/tmp", "decade", "2026-01-05", "_", ".")


@given(st.lists(st.sampled_from([*VALUES, *OTHERS, " ", "\n", "/", "-"]), max_size=8).map("".join))
@example("")
@example("a/tmp/tmpx")
@example("2026-01-05T10:11x")
def test_an_answer_is_unknowable_if_all_its_words_are_random(text):
    marked = mark_random_values(turn(text), Known())
    plain = list(text)
    for begin, end in marked.volatile:
        plain[begin:end] = " " * (end - begin)
    assert is_unknowable(turn(text), Known(), []) == bool(marked.volatile and not words("".join(plain)))


def test_a_random_value_that_was_shown_makes_an_answer_knowable():
    known = Known()
    known.add(turn("commit 3f2a91c8"))
    assert not is_unknowable(turn("3f2a91c8"), known.now(), [])
    assert is_unknowable(turn("3f2a91c9"), known.now(), [])


@pytest.mark.parametrize(
    ("line", "is_knowable"),
    [
        ("total 42", True),
        ("total 43", False),
        ('text "8"', True),
        ('text "three left"', False),
        ('text "ABuy"', True),
        ('text "BuyA"', True),
        ('text "Sell"', False),
        ('button "[0,0][9,8]"', False),
    ],
)
def test_an_element_is_knowable_where_what_it_says_was_shown_or_is_said_anyway(line, is_knowable):
    known = Known()
    known.saw(BEFORE + '\n  text "A" [0,0][9,9]\n  text "7"')
    context = Context(turn("", form="screen"), known.now(), ["total 42"] * 2)
    knowable = context.knowable_element if '"' in line else context.knowable_line
    assert knowable(line) is is_knowable


def test_the_reward_agrees_with_answers_ranked_by_hand():
    agreement = []
    for line in RANKED.read_text("utf-8").splitlines():
        ranked = json.loads(line)
        ranks = [answer["first"] + answer["second"] for answer in ranked["answers"]]
        scores = [
            round(reward.scored(answer["text"], ranked["ground_truth"])["score"], 2) for answer in ranked["answers"]
        ]
        agreement.append(tau_b(ranks, scores) or 0.0)
    assert len(agreement) == 200
    assert sum(agreement) / len(agreement) > 0.8
