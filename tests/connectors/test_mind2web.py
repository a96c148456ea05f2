"""Mind2Web: pages as they were laid out, targets as lines of them, and nothing that gives the target away."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trajmill.connectors.connector import Choices, MemoryBlob
from trajmill.connectors.registry import connectors
from trajmill.connectors.screens.page import page_of
from trajmill.connectors.web.mind2web.page_snapshot import snapshot
from trajmill.schemas import ParseError, Reject, Trajectory

PAGE = (
    '<html backend_node_id="1" bounding_box_rect="0,0,9,9"><body><div backend_node_id="2" bounding_box_rect="0,0,9,9">'
    '<a backend_node_id="3" bounding_box_rect="0,0,4,4"/><button backend_node_id="4" bounding_box_rect="4,0,4,4">'
    '<span backend_node_id="5" bounding_box_rect="4,0,4,4"><text backend_node_id="6" bounding_box_rect="4,0,2,2">Go'
    "</text></span></button></div></body></html>"
)


def candidate(number: str, **more: Any) -> dict[str, Any]:
    attributes = json.dumps({"backend_node_id": number, "bounding_box_rect": "4,0,4,4"})
    row = {"tag": "button", "attributes": attributes, "backend_node_id": number}
    return {**row, "is_original_target": False, "is_top_level_target": False, **more}


def action(op: str = "CLICK", value: str = "", page: str = PAGE, pos: Any = None, **more: Any) -> dict[str, Any]:
    operation = {"op": op, "original_op": op, "value": value}
    pos = [candidate("4", is_original_target=True)] if pos is None else pos
    return {"action_uid": "u", "raw_html": page, "operation": operation, "pos_candidates": pos, **more}


def task(*actions: dict[str, Any]) -> dict[str, Any]:
    reprs = ["[button]  Go -> CLICK"] * len(actions)
    whole = {"website": "w", "annotation_id": "a", "confirmed_task": "Do it", "action_reprs": reprs}
    return {**whole, "domain": "d", "subdomain": "s", "actions": list(actions)}


def parsed(value: Any, raw: bool = False) -> list[Trajectory | Reject]:
    blob = MemoryBlob("log", json.dumps(value).encode(), Choices(screen="raw" if raw else "tree"))
    return list(connectors()["mind2web"].parse(blob))


def texts(value: Any) -> list[str]:
    return [step.action.text for one in parsed(value) if isinstance(one, Trajectory) for step in one.steps]


def lines(html: str) -> list[str]:
    return page_of(snapshot(html).document).text.split("\n")[1:]


def test_elements_that_close_themselves_hold_nothing() -> None:
    assert lines(PAGE) == ["  #2 link", '  #3 button "Go"']


def test_what_was_not_laid_out_is_hidden_but_for_the_options_of_a_list() -> None:
    gone = 'bounding_box_rect="-1,-1,-1,-1"'
    html = (
        f'<html bounding_box_rect="0,0,9,9"><body><p {gone}><text {gone}>no</text></p>'
        f'<div {gone}><p bounding_box_rect="0,0,1,1"><text bounding_box_rect="0,0,1,1">yes</text></p></div>'
        f'<select bounding_box_rect="0,0,1,1"><option {gone} option_selected="true"><text {gone}>A</text></option>'
        f"<option {gone}><text {gone}>B</text></option></select></body></html>"
    )
    assert lines(html) == [
        '  #2 text "yes"',
        '  #3 combobox value="A"',
        '    #4 option "A" selected',
        '    #5 option "B"',
    ]


def test_a_page_without_boxes_hides_nothing_and_names_have_their_hyphens_again() -> None:
    html = '<html><body><button aria_label="Open"/><input input_value="x" type="text" value="old"/></body></html>'
    assert lines(html) == ['  #2 button "Open"', '  #3 textbox value="x"']


def test_html_that_is_no_xml_is_read_as_a_browser_does() -> None:
    assert lines("<p>a<p>b<br>c &nbsp; &copy;") == ['  #2 text "a"', '  #3 text "b c ©"']


def test_no_entity_of_a_document_is_expanded_and_no_file_read() -> None:
    html = '<!DOCTYPE html [<!ENTITY a "boom"><!ENTITY f SYSTEM "file:///etc/hostname">]><html><p>x&a;&f;</p></html>'
    assert "boom" not in page_of(snapshot(html).document).text


def test_the_innermost_target_is_named_by_the_line_that_shows_it() -> None:
    span = candidate("5", is_original_target=True)
    assert texts(task(action(pos=[candidate("4", is_top_level_target=True), span]))) == [
        '{"name": "click", "arguments": {"element": "#3"}}'
    ]


@pytest.mark.parametrize(
    "pos",
    [
        [candidate("4", is_original_target=True)],
        repr([candidate("4", is_original_target=True)]),
        json.dumps([candidate("4", is_original_target=True)]),
        [json.dumps(candidate("4", is_original_target=True))],
    ],
)
def test_candidates_are_read_however_they_were_written(pos: Any) -> None:
    assert texts(task(action(pos=pos))) == ['{"name": "click", "arguments": {"element": "#3"}}']


@pytest.mark.parametrize("pos", ["__import__('os').abort()", "[" * 5000, 7, None, [7], [{"backend_node_id": 4}]])
def test_a_target_that_is_not_there_is_described_as_the_data_does(pos: Any) -> None:
    one = action()
    one["pos_candidates"] = pos
    assert texts(task(one)) == ['{"name": "click", "arguments": {"target": "[button] Go"}}']


def test_operations_are_told_in_the_words_of_all_web_logs() -> None:
    enter, hover = action(), action()
    enter["operation"]["original_op"], hover["operation"]["original_op"] = "ENTER", "HOVER"
    told = [json.loads(text) for text in texts(task(action("TYPE", "tea"), enter, hover, action("SELECT", "A")))]
    assert [(one["name"], one["arguments"]) for one in told] == [
        ("type", {"element": "#3", "text": "tea"}),
        ("press", {"element": "#3", "key": "Enter"}),
        ("hover", {"element": "#3"}),
        ("select_option", {"element": "#3", "options": ["A"]}),
    ]


def test_each_next_observation_is_the_page_before_the_next_action_and_the_last_is_null() -> None:
    (found,) = parsed(task(action(), action(page=PAGE.replace("Go", "Gone"))))
    assert isinstance(found, Trajectory)
    first, second = found.steps
    assert first.next_observation is second.observation
    assert '"Gone"' in str(second.observation)
    assert second.next_observation is None
    assert (found.native_id, found.task.instruction, found.environment.id) == ("a", "Do it", "w")


@pytest.mark.parametrize("raw", [False, True])
def test_the_mark_on_the_target_is_in_no_observation(raw: bool) -> None:
    marked = PAGE.replace("<button", '<button data_pw_testid_buckeye="u"').replace(
        "<span", '<span data_pw_testid_buckeye_candidate="1"'
    )
    (found,) = parsed(task(action(page=marked)), raw)
    assert isinstance(found, Trajectory)
    assert "buckeye" not in str(found.steps[0].observation)
    assert '"element": "#3"' in found.steps[0].action.text or raw


def test_raw_screens_are_the_cleaned_html_where_it_is_there() -> None:
    (found,) = parsed(task(action(cleaned_html="<html/>")), raw=True)
    assert isinstance(found, Trajectory)
    seen = found.steps[0].observation
    assert seen is not None
    assert (seen.content, seen.media_type, seen.dialect) == ("<html/>", "text/html", None)


def test_an_action_that_cannot_be_read_leaves_its_row_out() -> None:
    broken = action()
    broken["operation"] = None
    found = parsed(task(action(), broken, action("TYPE", "x")))
    assert [one.reason for one in found if isinstance(one, Reject)] == ["bad_record"]
    (whole,) = [one for one in found if isinstance(one, Trajectory)]
    assert [(step.turn, json.loads(step.action.text)["name"]) for step in whole.steps] == [(0, "click"), (1, "type")]


def test_tasks_without_pages_are_refused_one_by_one_with_their_offsets() -> None:
    bare = {key: value for key, value in task(action()).items() if key != "actions"}
    found = parsed([task(action()), bare])
    (reject,) = [one for one in found if isinstance(one, Reject)]
    assert reject.reason == "no_pages"
    assert json.dumps([task(action()), bare])[reject.offset :].startswith('{"website"')


@pytest.mark.parametrize(
    "write",
    [
        json.dumps,
        lambda value: json.dumps([value]),
        lambda value: json.dumps(value, indent=1),
        lambda value: json.dumps(value) + "\n" + json.dumps(value),
    ],
)
def test_tasks_are_found_in_each_container(write: Any) -> None:
    data = write(task(action())).encode()
    assert connectors()["mind2web"].sniff(data[:65536], "log") is not None
    found = list(connectors()["mind2web"].parse(MemoryBlob("log", data)))
    assert all(isinstance(one, Trajectory) for one in found)
    assert found


def test_a_cut_file_says_so() -> None:
    with pytest.raises(ParseError) as caught:
        list(connectors()["mind2web"].parse(MemoryBlob("log", json.dumps(task(action())).encode()[:-30])))
    assert caught.value.reason == "truncated"


def test_every_node_of_a_page_keeps_its_number() -> None:
    assert list(snapshot(PAGE).nodes) == ["1", "2", "3", "4", "5", "6"]


def rows(ident: str, *places: int) -> list[dict[str, Any]]:
    """Rows of actions, each of a page that shows its place, as Multimodal-Mind2Web writes them."""
    told = []
    for place in places:
        one = action(page=PAGE.replace("Go", f"Page {place}"))
        one |= {"operation": json.dumps(one["operation"]), "pos_candidates": [json.dumps(candidate("4"))]}
        whole = {"annotation_id": ident, "website": "w", "confirmed_task": "Do it", "action_reprs": ["a"] * 9}
        told.append({**one, **whole, "target_action_index": str(place)})
    return told


def shown(found: list[Trajectory | Reject]) -> list[tuple[str, list[tuple[str | None, str | None]]]]:
    """(task, (page before, page after) of each step) of each trajectory."""
    assert not [one for one in found if isinstance(one, Reject)]
    return [
        (
            one.native_id,
            [(_name(step.observation), _name(step.next_observation)) for step in one.steps],
        )
        for one in found
        if isinstance(one, Trajectory)
    ]


def _name(page: Any) -> str | None:
    return page.content.partition('"')[2].rstrip('"') if page else None


def test_rows_of_actions_are_put_together_to_tasks_and_a_missing_row_is_no_page() -> None:
    log = [*rows("a", 0, 1, 3), *rows("b", 2, 1)]
    wanted = [
        ("a", [("Page 0", "Page 1"), ("Page 1", None), ("Page 3", None)]),
        ("b", [("Page 1", "Page 2"), ("Page 2", None)]),
    ]
    assert shown(parsed(log)) == wanted
    lines = MemoryBlob("log", b"".join(json.dumps(one).encode() + b"\n" for one in log))
    assert shown(list(connectors()["mind2web"].parse(lines))) == wanted
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(log), stream)
    found = list(connectors()["table"].parse(MemoryBlob("log", stream.getvalue())))
    assert shown(found) == wanted
    assert [step.offset for one in found if isinstance(one, Trajectory) for step in one.steps] == [0, 1, 2, 4, 3]
