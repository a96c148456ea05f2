import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from trajmill.pipelines.mix import reward
from trajmill.pipelines.mix.checks import (
    checks_of,
    choose_considered,
    draw_key,
    echoes,
    ground_truth,
    keeps_no_change,
    mutate_target,
    resample_volatile,
    rubric_id,
    stands,
    weight,
)
from trajmill.pipelines.render.answered import Answered, Distractors, Known, turn_of


def turn(observation, arguments=None, tool="bash", form="response", previous="before", key="t:0", **more):
    encoded = json.dumps(arguments if arguments is not None else {"command": "run"})
    action = json.dumps({"name": tool, "arguments": json.loads(encoded)})
    return Answered(key, "terminal", form, tool, encoded, action, observation, previous, **more)


OTHERS = tuple(f"other answer {number}\n[exit code 0]" for number in range(6))


def found(answered, others=OTHERS, known=None):
    return checks_of(answered, known or Known(), others)


def types(checks):
    return {check["type"] for check in checks}


def test_an_error_is_checked_by_its_code_and_its_words():
    checks = found(turn("cat: notes.txt: No such file or directory\n[exit code 1]", {"command": "cat notes.txt"}))
    assert {"type": "exit_code", "value": 1} in checks
    assert "No such file or directory" in [check.get("value") for check in checks]


def test_an_exit_code_that_the_text_does_not_show_is_not_checked():
    assert "exit_code" not in types(found(turn("cat: notes.txt: No such file", {"command": "cat notes.txt"})))


def test_what_no_two_other_answers_contradict_is_not_checked():
    answered = turn("done well\n[exit code 0]", {"command": "done well"})
    assert found(answered, ("done well\n[exit code 0]", "x\n[exit code 0]")) == []
    assert found(answered, ("x\n[exit code 1]",)) == []
    assert found(answered, ("x\n[exit code 1]", "y\n[exit code 2]"))


def test_what_only_the_world_knew_is_not_checked():
    assert found(turn("Lisbon, 1932, Pessoa")) == []
    assert found(turn("Lisbon, 1932, Pessoa", {"command": "echo Pessoa, Lisbon, 1932"})) == [{"type": "exact"}]
    known = Known()
    known.saw("Pessoa came to Lisbon in 1932")
    assert found(turn("Lisbon, 1932, Pessoa"), known=known) == [{"type": "exact"}]


def screen(observation, previous, arguments, tool="click", **more):
    encoded = json.dumps(arguments)
    action = json.dumps({"name": tool, "arguments": arguments})
    return Answered("s:0", "android", "screen", tool, encoded, action, observation, previous, **more)


def lines(checks):
    return {check["line"] for check in checks if check["type"] == "contains"}


PHONE = (
    '#1 window "launcher" [0,0][1080,2220]\n  #2 text "Clock" clickable [48,60][800,150]\n  #3 text "12" [12,15][40,60]'
)
SCREENS = tuple(f'#1 window "other{number}" [0,0][1080,2220]\n  #2 text "x{number}" [1,2][3,4]' for number in range(6))


def test_what_was_known_is_told_later_as_it_was_then_in_any_order() -> None:
    known = Known()
    known.saw('first line\n  - button "Old 1"')
    then = known.now()
    known.add(turn('second line\n  - button "New 2"', {"path": "a.py", "content": "text"}, tool="write"))
    now = known.now()
    for _ in range(2):
        assert now.has_line("second line")
        assert now.has_piece("New 2")
        assert now.has_piece_words({"Old", "New"})
        assert now.has_masked_piece("New 7")
        assert now.written == {"a.py": "text"}
        assert [*now.lines_with({"line"})] == [{"first", "line"}, {"second", "line"}]
        assert then.has_line("first line")
        assert not then.has_line("second line")
        assert not then.has_words({"first", "second"})
        assert not then.has_piece("New 2")
        assert not then.has_masked_piece("New 7")
        assert not then.has_piece_words({"New"})
        assert then.written == {}
        assert [*then.lines_with({"line"})] == [{"first", "line"}]


def test_nothing_is_asked_for_where_fewer_than_two_other_answers_differ() -> None:
    truth = "exit\n[exit code 3]"
    others = ["ok\n[exit code 0]", "no\n[exit code 1]"]
    answered = turn(truth, {"command": "x"})
    assert checks_of(answered, Known(), others)
    assert checks_of(answered, Known(), [*others[:1], truth]) == []


def test_texts_and_places_of_a_screen_that_nobody_saw_are_not_asked_for():
    known = Known()
    known.saw(PHONE)
    opened = '#4 window "clock" [0,0][9,9]\n  #5 text "12:15" [48,60][800,150]\n  #6 text "Clock" [12,60][48,150]'
    assert not lines(found(screen(opened, PHONE, {"element": "#2"}), SCREENS, known))
    seen = '#4 window "clock" [0,0][1080,2220]\n  #5 text "Clock" [48,60][800,150]'
    assert lines(found(screen(seen, PHONE, {"element": "#2"}), SCREENS, known)) == {'text "Clock" [48,60][800,150]'}


@pytest.mark.parametrize(("before", "pressed", "after"), [("3 of 4", "Tick", "2 of 4"), ("34", "8", "348")])
def test_what_counts_or_joins_texts_that_were_seen_is_asked_for(before, pressed, after):
    previous = (
        f'#1 window "app" [0,0][9,9]\n  #2 text "{before}" id=count [1,1][8,2]\n  #3 button "{pressed}" [1,3][8,4]'
    )
    known = Known()
    known.saw(previous)
    answered = screen(previous.replace(f'"{before}"', f'"{after}"'), previous, {"element": "#3"})
    assert lines(found(answered, SCREENS, known)) == {f'text "{after}" id=count [1,1][8,2]'}


def test_lines_of_words_that_stood_on_different_lines_are_not_asked_for():
    known = Known()
    known.saw("return x\nfine = 1\nname = 2")
    others = tuple(f"Applied edit to file{number}\nreturn {number}\nfine {number}" for number in range(6))
    answered = turn(
        "Applied edit to a.py\nreturn fine(name)\nimport zlib", {"content": "a.py has to change"}, tool="edit"
    )
    assert lines(found(answered, others, known)) == {"Applied edit to a.py"}
    known.saw("    7\treturn fine(name)")
    assert "return fine(name)" in lines(found(answered, others, known))


def test_numbers_that_only_other_answers_hold_are_not_asked_for_letter_by_letter():
    others = (*(f"1 X{number} = 0.92 EUR" for number in range(4)), "no such pair")
    answered = turn("1 USD = 0.92 EUR", {"pair": "USD EUR"}, tool="rate")
    assert found(answered, others) == []
    known = Known()
    known.saw("USD 0.92 = EUR 1")
    assert {"type": "exact"} in found(answered, others, known)


def test_a_sentence_of_a_page_that_was_shown_is_asked_for_and_a_list_of_titles_is_not():
    known = Known()
    known.saw("Jack Binion is a businessman. Binion is the son of Benny Binion. He worked in Las Vegas and Texas.")
    others = tuple(f"(Result 1/{n}) He was the {n}. son of Jack\nSimilar: ['Las Vegas {n}']" for n in range(2, 6))
    answered = turn("(Result 1/2) Binion is the son of Benny Binion.", {"keyword": "son"}, tool="lookup")
    assert found(answered, others, known) == [{"type": "exact"}]
    listed = turn(
        "Could not find [Texas]. Similar: ['Las Vegas', 'Jack Benny', 'son']", {"entity": "Texas"}, tool="search"
    )
    known.saw("Could not find it. Similar: none")
    assert found(listed, others, known) == []


def test_the_focus_is_asked_for_only_where_the_action_moves_it():
    page = '#1 document "D" value="u"\n  #2 combobox "Doctor" value="{}"\n  #3 date "Day"{}'
    before, after = page.format("Choose", ""), page.format("Choose", " focused")
    known = Known()
    known.saw(before)
    others = tuple(f'#1 document "D{n}" value="u"\n  #2 date "Other{n}" focused' for n in range(6))
    chosen = screen(after, before, {"element": "#2", "options": ["Choose"]}, tool="select_option")
    focused = "focused"
    assert not [check for check in found(chosen, others, known) if focused in check.get("pattern", "")]
    clicked = screen(after, before, {"element": "#3"})
    assert [check["value"] for check in found(clicked, others, known) if focused in check.get("pattern", "")] == ["Day"]
    tabbed = screen(after, before, {"element": "#2", "key": "Tab"}, tool="press")
    assert [check["value"] for check in found(tabbed, others, known) if focused in check.get("pattern", "")] == ["Day"]


def test_of_the_lines_that_hold_words_the_first_32_are_told() -> None:
    known = Known()
    known.saw("\n".join(f"lamp {number}" for number in range(40)))
    assert [*known.lines_with({"lamp"})] == [{"lamp", str(number)} for number in range(32)]


def test_how_long_an_unseen_file_is_is_not_asked_for():
    others = tuple(f"[File: /a/{number}.py ({number} lines total)]" for number in range(6))
    answered = turn("[File: /a/server.py (76 lines total)]\n1:import zlib", {"command": "open /a/server.py"})
    assert not [check for check in found(answered, others) if "lines total" in check.get("pattern", "")]
    known = Known()
    known.saw("76 lines")
    assert [
        check["value"] for check in found(answered, others, known) if "lines total" in check.get("pattern", "")
    ] == ["76"]


@pytest.mark.parametrize("line", ["Doc 3(Title: alpha) beta", "4. [alpha](beta)", "16\tbeta alpha", "  7→alpha beta"])
def test_where_a_line_stands_among_results_or_in_a_file_is_not_checked(line):
    known = Known()
    known.saw("alpha beta Title Doc 16")
    others = tuple(f"{line[:3]} gamma {number}" for number in range(6))
    assert not any(check.get("line", "").strip() == line.strip() for check in found(turn(line), others, known))


def test_how_much_a_search_finds_is_not_checked():
    answered = turn("A search for 'moss' found 9 results:", {"query": "moss"}, tool="web_search")
    others = tuple(f"A search for 'x{number}' found {number} results:" for number in range(6))
    assert found(answered, others)
    assert found(replace(answered, domain="search"), others) == []


def test_an_answer_that_echoes_the_action_is_not_checked():
    assert found(turn("Lisbon 1932", {"command": "Lisbon 1932"})) == []


def test_an_answer_that_stood_before_is_not_checked():
    answered = turn("Lisbon, 1932, Pessoa", {"command": "echo Pessoa, Lisbon, 1932"})
    assert found(replace(answered, previous=answered.observation)) == []


@pytest.mark.parametrize(("typed", "is_checked"), [("it", True), ("lit", False)])
def test_a_line_that_ends_with_one_of_three_letters_that_were_typed_is_not_checked(typed, is_checked):
    known = Known()
    known.saw("lamp is lit")
    answered = turn("lamp is lit\nat the door", {"command": typed}, scrubbed=True)
    assert (lines(found(answered, known=known)) == {"lamp is lit"}) == is_checked


def test_values_of_json_that_the_arguments_tell_are_checked():
    others = tuple(json.dumps({"id": f"x{number}", "ok": number % 2 == 0, "note": "n"}) for number in range(6))
    text = json.dumps({"id": "book-7", "ok": True, "note": "a surprise"})
    checks = found(turn(text, {"book": "book-7"}, tool="get_book"), others)
    assert {"type": "json_path", "path": "$['id']", "value": "book-7"} in checks
    assert {"type": "json_path", "path": "$['ok']", "value": True} in checks
    assert not any("note" in check.get("path", "") for check in checks)
    checks = found(turn(text, {"id": "book-7"}, tool="get_book"), others)
    assert "$['id']" not in [check.get("path") for check in checks], "the arguments given back would pass"


def test_what_was_written_is_asked_for_when_it_is_read():
    text = "def lit():\n    return True\n"
    known = Known()
    known.add(turn("ok", {"path": "lamp.py", "content": text}, tool="write"))
    shown = "\n".join(f"     {number}\t{line}" for number, line in enumerate(text.split("\n"), 1)) + "surprise"
    checks = found(turn(shown, {"path": "lamp.py"}, tool="read"), known=known)
    assert {"type": "read_what_was_written", "lines": ["def lit():", "return True"]} in checks
    known = Known()
    known.add(turn("", {"command": "cd x && cat > lamp.py <<'EOF'\n" + text + "EOF\n"}))
    checks = found(turn(text + "# surprise", {"command": "cat lamp.py"}), known=known)
    assert "read_what_was_written" in types(checks)


def test_numbers_are_checked_with_a_tolerance_and_on_a_line_of_their_own_words():
    others = tuple(f"sum: {number}.5" for number in range(6))
    checks = found(turn("sum: 41.25", {"a": 1, "b": 2}, tool="add"), others)
    assert {"type": "numeric", "before": "sum:", "value": 41.25, "tol": 0.005} in checks


TREE = '#1 window "Settings"\n  #2 switch "Wi-Fi" clickable {}\n  #3 text "Version {}"'
TREES = tuple(f'#1 window "App {number}"\n  #2 text "Page {number}"' for number in range(6))


def test_what_a_click_toggles_is_checked_and_a_number_of_an_element_is_not():
    answered = turn(
        TREE.format("checked", "7").replace("#2", "#9"),
        {"element": "#2"},
        tool="click",
        form="screen",
        previous=TREE.format("unchecked", "7"),
    )
    checks = found(answered, TREES)
    truth = ground_truth(answered, checks)
    assert "checked" in [check.get("value") for check in checks]
    assert reward.scored(answered.observation.replace("#", "#5"), truth)["rules"] == pytest.approx(0.98)
    assert reward.scored(TREE.format("unchecked", "7"), truth)["rules"] == 0.0


def test_a_state_that_stays_is_asked_for_of_5_percent_alone():
    answered = turn(TREE.format("x", 1), form="screen", previous=TREE.format("x", 1))
    checks = found(answered, TREES)
    assert checks == [{"type": "no_change"}]
    keys = [f"t:{number}" for number in range(20_000)]
    weights = [weight(replace(answered, key=key), checks) for key in keys]
    assert 0.04 < sum(map(bool, weights)) / len(keys) < 0.06
    assert [bool(each) for each in weights] == [keeps_no_change(key, 0) for key in keys]
    assert weight(answered, []) == 0.0


def test_volatile_words_are_not_asked_for():
    text = "pid 4711 of lamp\nlamp is lit\n[exit code 0]"
    answered = turn(text, {"command": "light lamp pid 4711 is lit of"}, volatile=((4, 8),))
    checks = found(answered, tuple(f"pid {number} of x{number}\n[exit code 1]" for number in range(6)))
    assert {"type": "contains", "line": "lamp is lit"} in checks
    assert not any("4711" in json.dumps(check) for check in checks)
    assert "exact" not in types(checks)
    for number in range(5):
        assert resample_volatile(answered, number) != text
        assert reward.scored(resample_volatile(answered, number), ground_truth(answered, checks))["rules"] == 1.0


def test_answers_with_placeholders_are_not_asked_for_letter_by_letter():
    answered = turn("hello user9028 there", {"command": "echo there user9028 hello"})
    assert json.loads(ground_truth(answered, found(answered)))["exact"] is True
    scrubbed = replace(answered, scrubbed=True)
    assert json.loads(ground_truth(scrubbed, found(scrubbed)))["exact"] is False


def test_checks_that_let_another_answer_pass_together_are_none():
    answered = turn("lamp is lit\nat the door", {"command": "light the lamp at door is lit"}, scrubbed=True)
    assert types(found(answered)) == {"contains"}
    assert found(answered, (*OTHERS, "lamp is lit\nat the door\nand more")) == []


WORDS = st.lists(st.sampled_from(["lamp", "lit", "7", "door", "\n", ": ", "Error", "[exit code 2]", "{}"]), max_size=12)
TEXT = WORDS.map(" ".join)


@given(TEXT, TEXT, TEXT, st.lists(TEXT, max_size=8), st.sampled_from(["response", "screen"]))
def test_no_check_stands_that_something_false_passes(observation, before, command, others, form):
    answered = turn(observation, {"command": command}, form=form, previous=before)
    others = (*OTHERS, *others)
    checks = found(answered, others)
    truth = json.loads(ground_truth(answered, checks))
    for check in checks:
        assert reward.passes(check, reward.prediction(observation) or "", truth)
        false = ["", *echoes(answered), mutate_target(check, observation, form)]
        false += [] if check["type"] == "no_change" else [before]
        assert not any(reward.passes(check, text, truth) for text in false)
    if checks:
        assert reward.rules(reward.prediction(observation) or "", truth) == 1.0
        different = [answer for answer in others if not reward.same(answer, observation, form)]
        assert all(any(not reward.passes(check, answer, truth) for check in checks) for answer in different)


@pytest.mark.parametrize(
    ("check", "text"),
    [
        ({"type": "exact"}, "a lamp"),
        ({"type": "contains", "line": "a lamp"}, "x\n  a lamp\ny"),
        ({"type": "regex", "pattern": r"(\d+) passed", "value": "3"}, "3 passed"),
        ({"type": "json_path", "path": "$['a'][0]['b']", "value": True}, '{"a": [{"b": true}]}'),
        ({"type": "numeric", "before": "sum:", "value": 2.0, "tol": 0.1}, "sum: 2"),
        ({"type": "exit_code", "value": 0}, "[exit code 0]"),
        ({"type": "read_what_was_written", "lines": ["a lamp"]}, "1\ta lamp"),
    ],
)
def test_a_mutation_changes_what_a_check_asks_for(check, text):
    truth = json.loads(ground_truth(turn(text), [check]))
    assert reward.passes(check, text, truth)
    assert not reward.passes(check, mutate_target(check, text, "response"), truth)


def test_a_check_whose_mutation_passes_does_not_stand():
    answered = turn("a lamp")
    check = {"type": "regex", "pattern": "(?i)(l)(?:amp)?", "value": "l"}
    assert not stands(check, answered, json.loads(ground_truth(answered, [])), ("x lab", "y lab"))


# Other answers


def hold(answers: Distractors, turns: Iterable[Answered]) -> Distractors:
    for answered in turns:
        answers.add(answered.head, answered.observation)
    return answers


@given(st.permutations(range(40)), st.integers(1, 12))
def test_other_answers_do_not_depend_on_the_order_of_rows(order, limit):
    turns = [turn(f"answer {number % 30}", {"command": f"{'ls' if number % 3 else 'cat'} x"}) for number in range(40)]
    answers = hold(Distractors(limit), turns).of(turns[0])
    assert answers == hold(Distractors(limit), [turns[number] for number in order]).of(turns[0])
    assert limit <= len(answers) <= 2 * limit
    assert len(set(answers)) == len(answers)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30))), st.integers(1, 12))
def test_answers_of_a_batch_are_held_as_those_added_by_themselves(drawn, limit):
    heads = [("terminal", "bash" if command == "a" else "sh", command) for command, _ in drawn]
    texts = [f"answer {number}" for _, number in drawn]
    together, alone = Distractors(limit), Distractors(limit)
    together.add_all(heads, pa.array(texts, pa.string()))
    for head, text in zip(heads, texts, strict=True):
        alone.add(head, text)
    assert together.batch().equals(alone.batch())


def test_other_answers_are_those_of_the_command_first():
    listed = [turn(f"listed {number}", {"command": "cd /x && ls -l"}) for number in range(20)]
    read = [turn(f"read {number}", {"command": "sudo cat y"}) for number in range(20)]
    answers = hold(Distractors(4), listed + read)
    assert [text.split()[0] for text in answers.of(turn("z", {"command": "/bin/ls"}))][:4] == ["listed"] * 4
    assert answers.of(turn("z", tool="unheard of")) == ()


def test_very_long_answers_are_not_held():
    assert hold(Distractors(), [turn("x" * 100_000)]).of(turn("z")) == ()


# The choice of turns


def drawn_of(weights, seed):
    return draw_key(weights, weights.__getitem__, seed)


def test_turns_are_drawn_by_their_weights_whatever_their_order():
    counts = Counter(drawn_of({"checked": 4.0, "not": 1.0, "never": 0.0}, seed) for seed in range(5000))
    assert 0.77 < counts["checked"] / 5000 < 0.83
    assert counts["never"] == 0
    assert all(drawn_of({"a": 1.0, "b": 2.0}, seed) == drawn_of({"b": 2.0, "a": 1.0}, seed) for seed in range(50))
    assert drawn_of({"a": 0.0}, 1) is None


@pytest.mark.parametrize(("weights", "most"), [((4.0,), 1), ((0.0, 1.0, 2.0, 3.0, 4.0), 20)])
def test_no_more_turns_are_weighed_than_could_be_drawn(weights, most):
    weight_of = {f"t:{number}": weights[number % len(weights)] for number in range(40)}
    looked_up = []

    def weighed(key):
        looked_up.append(key)
        return weight_of[key]

    chosen = draw_key(weight_of, weighed, 3)
    lots = {key: -math.log(xxhash.xxh3_64_intdigest(f"turn:{key}".encode(), 3) / 2**64) for key in weight_of}
    assert chosen == min((key for key in weight_of if weight_of[key]), key=lambda key: lots[key] / weight_of[key])
    assert len(looked_up) <= most


def test_turns_looked_at_do_not_depend_on_their_order_and_differ_by_seed():
    keys = [f"t:{number}" for number in range(50)]
    assert choose_considered(keys, 1) == choose_considered(reversed(keys), 1) != choose_considered(keys, 2)
    assert len(choose_considered(keys, 1)) == 8
    assert choose_considered(keys[:3], 1) == set(keys[:3])


def test_checked_turns_weigh_more_and_empty_answers_nothing():
    assert weight(turn("a"), [{"type": "exact"}]) > weight(turn("a"), []) > weight(turn(" "), []) == 0.0


def test_ground_truth_keeps_the_state_before_where_lines_that_changed_are_told_by_it():
    rubric = ("awb/terminal", "0" * 64)
    truth = json.loads(ground_truth(turn("a", form="screen", spans=((0, 1, "new"),)), [], rubric))
    assert truth == {
        "v": 3, "domain": "terminal", "form": "screen", "observation": "a", "previous": "before", "volatile": [],
        "spans": [[0, 1, "new"]], "checks": [],
        "rubric": {"id": "awb/terminal", "sha256": "0" * 64},
        "exact": False,
    }  # fmt: skip
    assert json.loads(ground_truth(turn("a"), []))["previous"] is None


def test_rows_name_the_rubric_that_comes_with_them():
    name, digest = rubric_id()
    text = (ROOT / "configs" / "rubrics" / "observation.md").read_bytes()
    assert (name, digest) == ("trajmill/observation", hashlib.sha256(text).hexdigest())
    assert all(f"- {dimension}:" in text.decode() for dimension in reward.DIMENSIONS)


def test_a_row_becomes_a_turn():
    row = {
        "row_id": "r:1",
        "domain": "mcp",
        "scrubbed": 1,
        "action": {"name": "find", "arguments": '{"b": ["x", {"c": 2}], "a": true}', "text": "find x"},
        "next_observation": {"form": "response"},
    }
    answered = turn_of(row, "found", None, [(0, 1)])
    assert (answered.key, answered.tool, answered.values, answered.volatile, answered.scrubbed) == (
        "r:1",
        "find",
        ("x", "2"),
        ((0, 1),),
        True,
    )


def test_what_many_hold_together_is_what_one_would_hold():
    turns = [turn(f"answer {number}", {"command": f"tool{number % 7} x"}, key=f"t:{number}") for number in range(300)]
    whole, merged = hold(Distractors(4), turns), Distractors(4)
    for part in (2, 1, 0):
        merged.take(hold(Distractors(4), turns[part::3]).batch())
    assert merged.batch().equals(whole.batch())
    assert merged.batch().num_rows == 7 * 4 + 4


def test_no_more_heads_are_held_than_can_be():
    turns = [turn("answer", {"command": f"tool{number} x"}, key=f"t:{number}") for number in range(3000)]
    batch = hold(Distractors(2), turns).batch()
    assert batch.equals(hold(Distractors(2), reversed(turns)).batch())
    assert batch.num_rows == 1024 + 1


@pytest.mark.parametrize(
    ("told", "is_asked"), [("done", True), ("the plum by the wall was pruned late in March", False)]
)
def test_a_long_text_is_not_asked_for_because_its_member_is_called_result(told, is_asked):
    others = tuple(json.dumps({"structuredContent": {"result": f"other {number}"}}) for number in range(6))
    checks = found(turn(json.dumps({"structuredContent": {"result": told}})), others)
    assert ("json_path" in types(checks)) == is_asked


def test_a_long_text_that_the_action_tells_is_asked_for():
    sentence = "the plum by the wall was pruned late in March"
    others = tuple(json.dumps({"structuredContent": {"result": f"other {number}"}}) for number in range(6))
    envelope = {"structuredContent": {"result": sentence, "receipt": "q7x9"}}
    checks = found(turn(json.dumps(envelope), {"note": sentence}), others)
    assert {"type": "json_path", "path": "$['structuredContent']['result']", "value": sentence} in checks
