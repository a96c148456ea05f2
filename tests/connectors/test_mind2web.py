"""Mind2Web: pages as they were laid out, targets as lines of them, and nothing that gives the target away."""

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
from trajmill.schemas import Reject, Trajectory

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
    return [step.action.text for record in parsed(value) if isinstance(record, Trajectory) for step in record.steps]


def lines(html: str) -> list[str]:
    return page_of(snapshot(html).document).text.split("\n")[1:]


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


def test_no_entity_of_a_document_is_expanded_and_no_file_read() -> None:
    html = '<!DOCTYPE html [<!ENTITY a "boom"><!ENTITY f SYSTEM "file:///etc/hostname">]><html><p>x&a;&f;</p></html>'
    assert "boom" not in page_of(snapshot(html).document).text


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
    click = action()
    click["pos_candidates"] = pos
    assert texts(task(click)) == ['{"name": "click", "arguments": {"target": "[button] Go"}}']


def test_raw_screens_are_the_cleaned_html_where_it_is_there() -> None:
    (trajectory,) = parsed(task(action(cleaned_html="<html/>")), raw=True)
    assert isinstance(trajectory, Trajectory)
    seen = trajectory.steps[0].observation
    assert seen is not None
    assert (seen.content, seen.media_type, seen.dialect) == ("<html/>", "text/html", None)


def rows(ident: str, *places: int) -> list[dict[str, Any]]:
    """Rows of actions, each of a page that shows its place, as Multimodal-Mind2Web writes them."""
    all_rows = []
    for number in places:
        row = action(page=PAGE.replace("Go", f"Page {number}"))
        row |= {"operation": json.dumps(row["operation"]), "pos_candidates": [json.dumps(candidate("4"))]}
        whole = {"annotation_id": ident, "website": "w", "confirmed_task": "Do it", "action_reprs": ["a"] * 9}
        all_rows.append({**row, **whole, "target_action_index": str(number)})
    return all_rows


def shown(records: list[Trajectory | Reject]) -> list[tuple[str, list[tuple[str | None, str | None]]]]:
    """(task, (page before, page after) of each step) of each trajectory."""
    assert not [record for record in records if isinstance(record, Reject)]
    return [
        (
            record.native_id,
            [(_name(step.observation), _name(step.next_observation)) for step in record.steps],
        )
        for record in records
        if isinstance(record, Trajectory)
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
    lines = MemoryBlob("log", b"".join(json.dumps(row).encode() + b"\n" for row in log))
    assert shown(list(connectors()["mind2web"].parse(lines))) == wanted
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(log), stream)
    records = list(connectors()["table"].parse(MemoryBlob("log", stream.getvalue())))
    assert shown(records) == wanted
    assert [step.offset for record in records if isinstance(record, Trajectory) for step in record.steps] == [
        0,
        1,
        2,
        4,
        3,
    ]
