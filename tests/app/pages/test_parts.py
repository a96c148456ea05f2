"""How texts are cut into what a page shows: trees, JSON, patches, differences, drawings, raw bytes; always bounded."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.app.pages.made_runs import there
from trajmill.app.pages.copies import pair_lines
from trajmill.app.pages.differences import difference
from trajmill.app.pages.observations import SHOWN_CHARACTERS, shown, shown_text
from trajmill.app.pages.raw_bytes import AFTER, BEFORE, RawPlaces
from trajmill.pipelines.storage.paths import Place
from trajmill.quality.scrub import scrub_name

TREE = """#1 window "Main \\"one\\"" [0,0][100,50]
  #2 textbox "Name" value="Ada" focused [10,10][90,20]
    #3 text "x" [10,10][12,12]
  #4 button "Go" [10,30][50,45]"""


def observed(content, dialect=None, media_type="text/plain"):
    return {"content": content, "dialect": dialect, "media_type": media_type}


def balanced(events):
    depth = 0
    for event in events:
        depth += {"open": 1, "close": -1}.get(event.kind, 0)
        assert depth >= 0
    return depth == 0


def test_a_tree_nests_as_it_is_indented_and_draws_its_boxes():
    part = shown(observed(f"HTTP 200 OK\n\n{TREE}", "http+uitree/1"), "#4")
    assert (part.kind, part.text) == ("tree", "HTTP 200 OK")
    assert [(event.kind, event.mark) for event in part.events if event.kind != "close"] == [
        ("open", "#1"), ("open", "#2"), ("leaf", "#3"), ("leaf", "#4")
    ]  # fmt: skip
    assert balanced(part.events)
    assert part.events[0].text == 'Main "one"'
    assert (there(part.frame).width, there(part.frame).height) == (100, 50)
    assert [(area.mark, area.label, area.is_target) for area in there(part.frame).areas] == [
        ("#1", "", False), ("#2", "", False), ("#3", "x", False), ("#4", "Go", True)
    ]  # fmt: skip
    assert shown(observed("no tree", "uitree/1")).kind == "text"


DEEP = '{"a":' * 300 + "1" + "}" * 300


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 90_000 + "]" * 9_000, DEEP, "[1, 2", "7"])
def test_json_that_is_too_deep_or_none_is_text(text):
    assert shown_text(text, is_json=True).kind == "text"


WORDS = st.sampled_from(["", "a", '"', "<b>"])  # what `st.text` knows of Unicode takes it a second to load
LEAVES = st.none() | st.booleans() | WORDS
NESTED = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner), max_leaves=9)


@given(NESTED)
def test_any_json_opens_and_closes_as_often(value):
    assert balanced(shown_text(json.dumps(value), is_json=True).events)


def test_a_patch_is_told_by_its_lines():
    part = shown_text("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same")
    assert [kind for kind, _ in part.lines] == ["file", "file", "file", "place", "gone", "new", "same"]


def test_a_text_that_is_too_long_is_cut_and_says_by_how_much():
    part = shown_text("x" * (SHOWN_CHARACTERS + 5))
    assert (len(part.text), part.left) == (SHOWN_CHARACTERS, 5)


def test_a_difference_tells_lines_and_the_words_in_them():
    lines = difference("a\nb\nthe red fox runs\nc\nd\ne\nf", "a\nb\nthe blue fox runs\nc\nd\ne\nf")
    assert [line.kind for line in lines] == ["same", "same", "gone", "new", "same", "same", "skipped"]
    assert [part.text for part in lines[3].parts if part.changed] == ["blue"]
    assert lines[-1].parts[0].text == "2"
    assert difference("a\n", "a") == []


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_a_difference_loses_no_changed_line(before, after):
    lines = difference("\n".join(before), "\n".join(after))
    count = {kind: sum(line.kind == kind for line in lines) for kind in ("same", "gone", "new")}
    skipped = sum(int(line.parts[0].text) for line in lines if line.kind == "skipped")
    old, new = (
        "\n".join(lines).removesuffix("\n").split("\n") if "\n".join(lines) else [] for lines in (before, after)
    )
    if lines:
        assert count["same"] + count["gone"] + skipped == len(old)
        assert count["same"] + count["new"] + skipped == len(new)
    else:
        assert old == new


def test_a_difference_of_many_lines_takes_no_square_of_them():
    before, after = ("\n".join(f"{word} {number}" for number in range(30_000)) for word in ("old", "new"))
    assert len(difference(before, after)) < 3000


def test_lines_that_differ_stand_beside_each_other():
    assert [(left and left.kind, right and right.kind) for left, right in pair_lines("a\nb\nc", "a\nx")] == [
        ("same", "same"), ("gone", "new"), ("gone", None)
    ]  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_raw_bytes_are_those_at_the_place_in_the_decompressed_file(tmp_path, packed):
    data = b"x" * 1000 + b'{"a": {\n"b": 1}} and more\n' + b"y" * 10_000
    file = tmp_path / "log"
    file.write_bytes(gzip.compress(data) if packed else data)
    places = RawPlaces.of({"log": {"": Place(str(file))}})
    excerpt = there(places.at("log", "", 1000))
    assert (excerpt.before, excerpt.at) == (b"x" * BEFORE, b'{"a": {\n"b": 1}}')
    assert len(excerpt.at + excerpt.after) == AFTER
    assert excerpt.hex_lines()[0][0] == "000003e8"
    assert there(places.at("log", "", 10**6)).fault
    assert places.at("other", "", 0) is None
    file.unlink()
    assert "No such file" in there(places.at("log", "", 0)).fault


@pytest.mark.parametrize(
    ("inner", "tail"),
    [('"a": 1,\n    "b": oops', "]"), (",\n".join(f'    "k{n}": "{"x" * 90}"' for n in range(40)), "]")],
)
def test_a_record_of_indented_json_is_shown_whole_even_if_it_is_damaged(tmp_path, inner, tail):
    record = "{\n    " + inner + "\n  }"
    file = tmp_path / "log.json"
    file.write_text(f'[\n  {{"before": 0}},\n  {record},\n  {{"after": 0}}\n{tail}\n')
    places = RawPlaces.of({"log": {"": Place(str(file))}})
    assert there(places.at("log", "", file.read_text().index(record))).at.decode() == record


def test_raw_bytes_are_found_by_the_name_that_scrubbing_left(tmp_path):
    file = tmp_path / "log"
    file.write_bytes(b"here")
    uri = "home/lovelace/runs/log"
    assert scrub_name(uri) != uri
    places = RawPlaces.of({uri: {"": Place(str(file))}})
    assert there(places.at(scrub_name(uri), "", 0)).at == b"here"
