"""Traces of Playwright: pages rebuilt from snapshots that refer to earlier ones, calls as actions, versions, damage."""

import hashlib
import io
import json
import re
import zipfile
from dataclasses import replace

import pytest

from tests.rows import split_records
from trajmill.connectors.connector import Choices, MemoryBlob
from trajmill.connectors.web.playwright_trace import PlaywrightTrace
from trajmill.connectors.web.playwright_trace.dom import Frame, LostNodeError
from trajmill.connectors.web.playwright_trace.session import NEWEST

URL = "http://tea.example/"
READER = PlaywrightTrace()


def options(version=NEWEST, **more):
    return {
        "version": version,
        "type": "context-options",
        "browserName": "chromium",
        "options": {"viewport": {"width": 640, "height": 480}},
        "wallTime": 1_700_000_000_000,
        "monotonicTime": 1000.0,
        "title": "tea",
        **more,
    }


def before(ident, method, params=None, kind="Frame", start=2000.0, **more):
    return {
        "type": "before",
        "callId": ident,
        "startTime": start,
        "class": kind,
        "method": method,
        "params": params or {},
        **more,
    }


def after(ident, end=2500.0, **more):
    return {"type": "after", "callId": ident, "endTime": end, **more}


def shot(ident, phase, html, frame="frame@1", page="page@1", url=URL, main=True, named=False, at=None):
    name = {"snapshotName": f"{phase}@{ident}"} if named else {"phase": phase}
    name |= {} if at is None else {"timestamp": at}
    fields = {"callId": ident, "pageId": page, "frameId": frame, "frameUrl": url, "html": html, "isMainFrame": main}
    return {"type": "frame-snapshot", "snapshot": {**fields, **name}}


def document(*body):
    return ["HTML", {}, ["HEAD", {}, ["TITLE", {}, "Tea"]], ["BODY", {}, *body]]


def log(*events):
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def archive(members):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in members.items():
            packed.writestr(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def parsed(data, **choices):
    return split_records(READER.parse(MemoryBlob("trace.zip", data, replace(Choices(), **choices))))


def steps(*events, **choices):
    trajectories, rejects = parsed(archive({"trace.trace": log(*events)}), **choices)
    assert rejects == []
    return trajectories[0].steps


CLICKED = (
    options(),
    before("c1", "click", {"selector": "text=More", "strict": True, "timeout": 30000}),
    shot("c1", "before", document(["P", {}, "Two teas"], ["BUTTON", {}, "More"])),
    {"type": "input", "callId": "c1", "point": {"x": 5, "y": 6}},
    # Post-order of the first: Tea 0, TITLE 1, HEAD 2, Two teas 3, P 4, More 5, BUTTON 6, BODY 7, HTML 8.
    shot(
        "c1",
        "action",
        ["HTML", {}, [[1, 2]], ["BODY", {}, [[1, 4]], ["BUTTON", {"__playwright_target__": ""}, "More"]]],
    ),
    after("c1"),
    shot("c1", "after", ["HTML", {}, [[2, 2]], ["BODY", {}, ["P", {}, "Three teas"], [[2, 6]]]]),
)


def test_a_call_that_another_began_during_is_followed_by_what_was_there_when_it_ended():
    all_steps = steps(
        options(),
        before("c1", "waitForSelector", {"selector": "text=Two"}),
        shot("c1", "before", document("One")),
        before("c2", "click", {"selector": "text=Go"}),
        shot("c2", "before", document("One")),
        after("c2"),
        shot("c2", "after", document("Two")),
        after("c1"),
        shot("c1", "after", document("Two")),
        before("c3", "click", {"selector": "text=Go"}),
        shot("c3", "before", document("Three")),
    )
    seen = [step.next_observation and step.next_observation.content.splitlines()[1] for step in all_steps]
    assert seen == ['  #2 text "Two"', '  #2 text "Three"', None]


MENU = ["DIV", {}, "Tools", ["UL", {}, "Export"]]
MARKED = ["DIV", {"__playwright_target__": ""}, "Tools", ["UL", {}, "Export"]]


def hovering(*following, url=URL):
    """A page whose menu a call hovers over, then what follows."""
    sheet = ["STYLE", {}, "ul { display: none } div:hover ul { display: block }"]
    return steps(
        options(),
        before("c1", "hover", {"selector": "div"}),
        shot("c1", "before", document(sheet, MENU)),
        {"type": "input", "callId": "c1", "point": {"x": 5, "y": 6}},
        shot("c1", "action", document(sheet, MARKED)),
        after("c1"),
        *following,
        before("c9", "click", {"selector": "b"}, start=9000.0),
        shot("c9", "before", document(sheet, MENU, "Later"), url=url),
    )


def test_what_the_pointer_reveals_is_shown_until_it_is_moved_or_the_page_is_left():
    moved = (before("c3", "mouseMove", {"x": 4, "y": 5}, kind="Page", pageId="page@1"), after("c3"))
    typed = (before("c3", "keyboardType", {"text": "a"}, kind="Page", pageId="page@1"), after("c3"))

    def is_shown(all_steps):
        return '"Export"' in all_steps[-1].observation.content

    assert [is_shown(hovering()), is_shown(hovering(*typed))] == [True, True]
    assert [is_shown(hovering(*moved)), is_shown(hovering(url=f"{URL}next"))] == [False, False]
    assert '"Export"' not in hovering()[0].observation.content


def test_a_part_of_a_drawing_that_a_call_acts_on_has_a_line():
    drawing = ["svg", {}, ["circle", {}], ["rect", {}]]
    (step,) = steps(
        options(),
        before("c1", "click", {"selector": "circle"}),
        shot("c1", "before", document(drawing)),
        shot("c1", "action", document(["svg", {}, ["circle", {"__playwright_target__": ""}], ["rect", {}]])),
        after("c1"),
        shot("c1", "after", document(drawing)),
    )
    assert [line.split()[1] for line in step.observation.content.splitlines()] == ["document", "image", "circle"]
    assert json.loads(step.action.text)["arguments"] == {"element": "#3"}


def test_two_clicks_of_one_call_are_a_double_click():
    (step,) = steps(
        options(), before("c1", "click", {"selector": "a", "clickCount": 2}), shot("c1", "before", document("One"))
    )
    assert step.action.text == '{"name": "dblclick", "arguments": {"target": "a"}}'


def test_a_failed_call_marks_what_was_shown_and_its_message_comes_before_the_next_action():
    failed = [*CLICKED[:-2], after("c1", error={"message": "Timeout 1500ms exceeded."}), CLICKED[-1]]
    all_steps = steps(*failed, before("c2", "reload", kind="Page", pageId="page@1"), after("c2"))
    assert all_steps[0].next_observation.is_error is True
    assert json.loads(all_steps[1].interleaved) == [{"role": "harness", "content": "Timeout 1500ms exceeded."}]
    assert "Timeout" not in all_steps[0].next_observation.content


def test_an_expectation_is_a_wait_that_fails_where_it_is_not_met():
    params = {"selector": ":root", "expression": "to.have.title", "expectedText": [{"string": "Coffee"}]}
    all_steps = steps(
        options(),
        before("c1", "expect", params),
        shot("c1", "before", document("x")),
        after("c1", result={"matches": False}),
        shot("c1", "after", [[1, 5]]),
        before("c2", "expect", {**params, "isNot": True}),
        shot("c2", "before", [[2, 5]]),
        after("c2", result={"matches": False}),
        shot("c2", "after", [[3, 5]]),
    )
    assert [step.action.name for step in all_steps] == ["wait", "wait"]
    assert json.loads(all_steps[0].action.text)["arguments"]["until"] == 'to.have.title "Coffee"'
    assert all_steps[0].next_observation.is_error is True
    assert json.loads(all_steps[1].action.text)["arguments"]["until"] == 'not to.have.title "Coffee"'
    assert all_steps[1].next_observation.is_error is None


def asked(method, result, params=None, *, kind="Frame", changed=False, **more):
    """The step of one call in a page of one paragraph, which changes meanwhile or not."""
    (step,) = steps(
        options(),
        before("c1", method, params or {"selector": "p"}, kind=kind),
        shot("c1", "before", document(["P", {}, "Two teas"])),
        after("c1", result=result, **more),
        shot("c1", "after", document(["P", {}, "Three teas" if changed else "Two teas"])),
    )
    return step


@pytest.mark.parametrize(
    ("method", "result", "answer"),
    [
        ("innerText", {"value": "Two teas"}, "Two teas"),
        ("textContent", {}, "null"),
        ("isVisible", {"value": True}, "true"),
        ("queryCount", {"value": 0}, "0"),
        ("ariaSnapshot", {"snapshot": "- paragraph: Two teas"}, "- paragraph: Two teas"),
        (
            "boundingBox",
            {"value": {"x": 8, "y": 9, "width": 60, "height": 18}},
            '{"x": 8, "y": 9, "width": 60, "height": 18}',
        ),
        ("evaluateExpression", {"value": {"s": "Tea"}}, "Tea"),
        ("evaluateExpression", {"value": {"n": 0.5}}, "0.5"),
        ("evalOnSelectorAll", {"value": {"a": [{"s": "a"}, {"v": "null"}, {"b": True}], "id": 1}}, '["a", null, true]'),
        (
            "evaluateExpression",
            {"value": {"o": [{"k": "at", "v": {"d": "2026-03-01"}}], "id": 1}},
            '{"at": "2026-03-01"}',
        ),
        ("expect", {"matches": True, "received": {"s": "Two teas"}}, '{"passed": true, "received": "Two teas"}'),
        ("expect", None, '{"passed": true}'),
    ],
)
def test_what_a_call_returned_is_its_answer(method, result, answer):
    observation = asked(method, result).next_observation
    assert (observation.content, observation.form, observation.is_error) == (answer, "response", None)


@pytest.mark.parametrize(
    ("method", "result", "kind"),
    [
        ("evaluateExpression", {"value": {"v": "undefined"}}, "Frame"),
        ("evaluateExpressionHandle", {"handle": "<JSHandle>"}, "Frame"),
        ("waitForSelector", {"element": "<ElementHandle>"}, "Frame"),
        ("content", {"value": "<html></html>"}, "Frame"),
        ("click", {"value": "x"}, "Frame"),
        ("evaluateExpression", "x", "Frame"),
        ("evaluateExpression", {"value": {}}, "Frame"),
    ],
)
def test_a_call_that_returned_nothing_is_answered_by_the_page(method, result, kind):
    assert "Two teas" in asked(method, result, kind=kind).next_observation.content


def test_a_failed_assertion_is_answered_by_what_it_met():
    (step,) = steps(
        options(),
        before("c1", "expect", {"selector": "p", "expression": "to.have.text"}),
        shot("c1", "before", document(["P", {}, "Two teas"])),
        {"type": "log", "callId": "c1", "message": "waiting for locator('p')"},
        {"type": "log", "callId": "c1", "message": '  unexpected value "Two teas"'},
        after("c1", error={"message": "Expect failed"}),
        shot("c1", "after", document(["P", {}, "Two teas"])),
    )
    assert step.next_observation.content == '{"passed": false, "received": "Two teas"}'
    assert step.next_observation.is_error is True


def test_an_assertion_during_which_the_page_changed_is_answered_by_the_page():
    observation = asked("expect", {"matches": True, "received": {"s": "Three teas"}}, changed=True).next_observation
    assert "Three teas" in observation.content
    assert observation.form == "screen"


def test_what_a_password_field_holds_is_masked_in_the_answer_too():
    field = document(["INPUT", {"type": "password", "__playwright_target__": "c1", "__playwright_value_": "s3same"}])
    (step,) = steps(
        options(),
        before("c1", "inputValue", {"selector": "input"}),
        shot("c1", "before", field),
        after("c1", result={"value": "s3same"}),
        shot("c1", "after", field),
    )
    assert "s3same" not in step.next_observation.content
    assert step.next_observation.sensitive == ("s3same",)


def test_a_key_finds_the_page_as_it_was_at_its_input():
    all_steps = steps(
        *CLICKED,
        before("c2", "keyboardPress", {"key": "Enter"}, kind="Page", pageId="page@1"),
        shot("c2", "action", ["HTML", {}, [[3, 2]], ["BODY", {}, ["P", {}, "Four teas"], [[3, 6]]]]),
        after("c2"),
        shot("c2", "after", ["HTML", {}, [[4, 2]], ["BODY", {}, ["P", {}, "Five teas"], [[4, 6]]]]),
        before("c3", "mouseClick", {"x": 4, "y": 5}, kind="Page", pageId="page@1"),
        shot("c3", "action", ["HTML", {}, [[5, 2]], ["BODY", {}, ["P", {}, "Six teas"], [[5, 6]]]]),
        after("c3"),
    )
    pages = [*(step.observation for step in all_steps), *(step.next_observation for step in all_steps[:2])]
    assert [re.findall(r'"(\w+) teas"', page.content) for page in pages] == [
        ["Two"],
        ["Four"],
        ["Six"],
        ["Four"],
        ["Six"],
    ]
    assert all_steps[1].action.text == '{"name": "press", "arguments": {"key": "Enter"}}'


def dragged(first, last):
    """The action of a drag, by the attributes of its source and its target at its first and its last input."""
    call = {"source": "#cup", "target": "#tray"}
    body = [[["DIV", mark, name] for mark, name in zip(marks, ("Cup", "Tray"), strict=True)] for marks in (first, last)]
    (step,) = steps(
        options(),
        before("c1", "dragAndDrop", call),
        shot("c1", "before", document(["DIV", {}, "Cup"], ["DIV", {}, "Tray"])),
        *(shot("c1", "action", document(*divs)) for divs in body),
        after("c1"),
        shot("c1", "after", document(["DIV", {}, "Tray"])),
    )
    return json.loads(step.action.text)["arguments"]


def test_a_drag_names_what_was_dragged_and_what_it_was_dropped_on():
    mark = {"__playwright_target__": "c1"}
    assert dragged((mark, {}), ({}, mark)) == {"element": "#2", "onto": "#3"}
    assert dragged((mark, {}), (mark, mark)) == {"element": "#2", "onto": "#3"}
    assert dragged(({}, {}), ({}, {})) == {"target": "#cup", "onto": "#tray"}


def test_set_up_and_steps_of_the_test_runner_are_no_actions():
    all_steps = steps(
        options(),
        before("r1", "setNetworkInterceptionPatterns", {"patterns": []}, kind="Page"),
        after("r1"),
        before("h1", "step", kind="Test"),
        after("h1"),
        before("k1", "cookies", kind="BrowserContext"),
        after("k1"),
        *CLICKED[1:],
    )
    assert [step.action.call_id for step in all_steps] == ["c1"]


def test_what_a_field_holds_goes_before_its_attribute():
    body = (
        ["INPUT", {"__playwright_value_": "new", "value": "old"}],
        ["INPUT", {"type": "checkbox", "__playwright_checked_": "false", "checked": ""}],
        ["SELECT", {}, ["OPTION", {"__playwright_selected_": "false", "selected": ""}, "A"],
         ["OPTION", {"__playwright_selected_": "true"}, "B"]],
    )  # fmt: skip
    (step,) = steps(options(), before("c1", "title"), shot("c1", "before", document(*body)), after("c1"))
    text = step.observation.content
    assert 'textbox value="new"' in text
    assert "checkbox unchecked" in text
    assert 'combobox value="B"' in text


def test_frames_and_shadow_roots_are_shown_where_they_stand():
    body = (
        ["X-SAVER", {}, ["template", {"__playwright_shadow_root_": "open"}, ["BUTTON", {}, "Save"]]],
        ["IFRAME", {"src": "/snapshot/frame@2", "title": "Vote"}],
    )
    marked = document(["BUTTON", {"__playwright_target__": ""}, "Yes"])
    (step,) = steps(
        options(),
        before("c1", "click", {"selector": "iframe >> internal:control=enter-frame >> button"}),
        shot("c1", "before", document(*body)),
        shot("c1", "before", document(["BUTTON", {}, "Yes"]), frame="frame@2", main=False, url=URL + "vote"),
        shot("c1", "action", [[1, 9]]),
        shot("c1", "action", marked, frame="frame@2", main=False, url=URL + "vote"),
        after("c1"),
    )
    rows = step.observation.content.splitlines()
    save, yes = (next(row.strip() for row in rows if row.endswith(word)) for word in ('button "Save"', 'button "Yes"'))
    assert save.startswith("#2 ")
    assert json.loads(step.action.text)["arguments"]["element"] == yes.split()[0]


def test_a_password_is_masked_where_only_the_selector_tells_of_it():
    (step,) = steps(
        options(),
        before("c1", "fill", {"selector": 'internal:label="Password"i', "value": "hunter2"}),
        shot("c1", "before", document("x")),
        after("c1"),
    )
    assert "hunter2" not in step.action.text + step.action.arguments


def test_raw_screens_are_the_html_of_the_page():
    (step,) = steps(*CLICKED, screen="raw")
    assert step.observation.media_type == "text/html"
    assert "<button>More</button>" in step.observation.content


def test_a_reference_to_itself_or_beyond_the_beginning_is_refused():
    frame = Frame()
    frame.add(["HTML", {}, [[0, 0]]])
    frame.add(["HTML", {}, [[5, 0]]])
    frame.add(["HTML", {}, [[1, 99]]])
    with pytest.raises(ValueError):
        frame.dom(0)
    for index in (1, 2):
        with pytest.raises(LostNodeError):
            frame.dom(index)


def test_references_that_double_with_each_snapshot_are_refused_in_no_time():
    frame = Frame()
    frame.add(["P", {}, "x"])
    frame.add(["P", {}, [[1, 1]], [[1, 1]]])
    for _ in range(99):
        frame.add(["P", {}, [[1, 0]], [[1, 0]]])
    with pytest.raises(ValueError):
        frame.dom(100)


def test_the_marks_that_earlier_calls_left_on_their_targets_are_not_taken_for_this_call():
    first, second = {"__playwright_target__": "call@1"}, {"__playwright_target__": "call@2"}
    all_steps = steps(
        options(8),
        before("call@1", "click", {"selector": "text=One"}, beforeSnapshot="before@call@1"),
        {"type": "input", "callId": "call@1", "inputSnapshot": "input@call@1"},
        shot("call@1", "before", document(["BUTTON", {}, "One"], ["BUTTON", {}, "Two"]), named=True),
        shot("call@1", "input", document(["BUTTON", first, "One"], ["BUTTON", {}, "Two"]), named=True),
        after("call@1"),
        before("call@2", "click", {"selector": "text=Two"}, beforeSnapshot="before@call@2"),
        {"type": "input", "callId": "call@2", "inputSnapshot": "input@call@2"},
        shot("call@2", "before", document(["BUTTON", first, "One"], ["BUTTON", {}, "Two"]), named=True),
        shot("call@2", "input", document(["BUTTON", first, "One"], ["BUTTON", second, "Two"]), named=True),
        after("call@2"),
        before("call@3", "keyboardPress", {"key": "Tab"}, "Page", beforeSnapshot="before@call@3", pageId="page@1"),
        shot("call@3", "before", document(["BUTTON", first, "One"], ["BUTTON", second, "Two"]), named=True),
        after("call@3"),
    )
    assert [json.loads(step.action.arguments).get("element") for step in all_steps] == ["#2", "#3", None]


def painted(name, at, page="page@1"):
    return {"type": "screencast-frame", "pageId": page, "sha1": name, "width": 640, "height": 480, "timestamp": at}


CAST = log(
    options(),
    painted("page@1-1.jpeg", 1990.0),
    painted("page@2-1.jpeg", 1995.0, "page@2"),
    before("c1", "click", {"selector": "button"}),
    shot("c1", "before", document(["BUTTON", {}, "Brew"]), at=2000.0),
    painted("page@1-2.jpeg", 2100.0),
    after("c1", error={"message": "slow"}),
    shot("c1", "after", document(["P", {}, "Brewing"]), at=2200.0),
    painted("page@1-3.jpeg", 2300.0),
)
PICTURES = {f"resources/page@{name}.jpeg": f"JPEG {name}".encode() for name in ("1-1", "1-2", "1-3", "2-1")}


def attached(data):
    (trajectory,), _ = parsed(data)
    (step,) = trajectory.steps
    assert step.next_observation.is_error
    sides = (step.observation, step.next_observation)
    return [
        [
            (attachment.sha256, attachment.role, attachment.media_type, attachment.name)
            for attachment in side.attachments
        ]
        for side in sides
    ]


@pytest.mark.parametrize("packed", [True, False])
def test_the_last_frame_of_the_pages_screencast_up_to_a_snapshot_is_attached_to_it(packed):
    members = {"trace.trace": CAST, "trace.network": b"", **PICTURES}
    assert attached(archive(members) if packed else members) == [
        [(hashlib.sha256(f"JPEG 1-{n}".encode()).hexdigest(), "screencast", "image/jpeg", f"page@1-{n}.jpeg")]
        for n in (1, 2)
    ]


def test_a_frame_that_the_log_does_not_hold_is_not_attached():
    assert attached(archive({"trace.trace": CAST})) == [[], []]


def test_frames_of_an_unpacked_trace_are_files_of_its_log():
    names = sorted(f"run/{name}" for name in ("trace.trace", "trace.network", "other/resources/x.jpeg", *PICTURES))
    (joined,) = READER.join(names)
    assert sorted(joined.members) == sorted(["trace.trace", "trace.network", *PICTURES])


def test_sheets_of_links_of_scripts_and_of_shadow_roots_hide_what_they_say():
    request = {"request": {"url": f"{URL}a.css"}, "response": {"content": {"mimeType": "text/css", "_sha1": "1.css"}}}
    page = [
        "HTML",
        {},
        ["HEAD", {}, ["BASE", {"href": URL}], ["LINK", {"rel": "stylesheet", "href": "a.css"}]],
        [
            "BODY",
            {},
            ["I", {"class": "a"}, "linked"],
            ["P", {"class": "b"}, "adopted"],
            ["P", {"class": "c"}, "changed"],
        ],
        ["template", {"__playwright_style_sheet_": ".b { display: none }"}],
    ]
    again = shot("call@3", "after", [[1, 0]])
    again["snapshot"]["html"] = page
    again["snapshot"]["resourceOverrides"] = [{"url": f"{URL}a.css", "sha1": "2.css"}]
    events = [options(), before("call@3", "click"), shot("call@3", "before", page), after("call@3"), again]
    members = {
        "trace.trace": log(*events),
        "trace.network": log({"type": "resource-snapshot", "snapshot": request}),
        "resources/1.css": b".a { display: none }",
        "resources/2.css": b".c { display: none } @media (max-width: 640px) { .a { color: red } }",
    }
    trajectories, _ = parsed(archive(members))
    (step,) = trajectories[0].steps
    assert [word in step.observation.content for word in ("linked", "adopted", "changed")] == [False, False, True]
    assert [word in step.next_observation.content for word in ("linked", "adopted", "changed")] == [True, False, False]


def test_an_open_popover_is_shown_and_a_closed_one_is_not():
    page = document(
        ["P", {"popover": "auto"}, "shut"], ["P", {"__playwright_popover_open_": "true", "popover": ""}, "open"]
    )
    (step,) = steps(options(), before("call@3", "click"), shot("call@3", "before", page), after("call@3"))
    assert ["shut" in step.observation.content, "open" in step.observation.content] == [False, True]
