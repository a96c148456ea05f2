"""rrweb: the DOM is rebuilt as the recorder meant it, and raw events become the acts of a person."""

import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.connector import Choices, MemoryBlob
from trajmill.connectors.registry import connectors
from trajmill.connectors.web.rrweb.dom import Mirror, MissingNodeError
from trajmill.schemas import ParseError, Reject, Step, Trajectory

START = 1_750_000_000_000


def text(ident: int, content: str) -> dict[str, Any]:
    return {"type": 3, "textContent": content, "id": ident}


def element(ident: int, tag: str, *children: dict[str, Any], **more: Any) -> dict[str, Any]:
    attributes = {name.replace("_", "-"): value for name, value in more.pop("attributes", {}).items()}
    return {"type": 2, "tagName": tag, "attributes": attributes, "childNodes": list(children), "id": ident, **more}


def document(*body: dict[str, Any], ident: int = 1) -> dict[str, Any]:
    html = element(2, "html", element(3, "head"), element(4, "body", *body))
    return {"type": 0, "childNodes": [html], "id": ident}


def mutation(**parts: Any) -> dict[str, Any]:
    return {"source": 0, "texts": [], "attributes": [], "removes": [], "adds": [], **parts}


def add(parent: int, node: dict[str, Any], following: int | None = None) -> dict[str, Any]:
    return {"parentId": parent, "nextId": following, "node": node}


class Recording:
    """Events written one after another; `after` is the time in milliseconds since the one before."""

    def __init__(self, *body: dict[str, Any], url: str = "https://a.example/") -> None:
        self.time = START
        self.events: list[dict[str, Any]] = []
        self.page(0, url, *body)

    def event(self, after: int, kind: int, data: Any) -> None:
        self.time += after
        self.events.append({"type": kind, "data": data, "timestamp": self.time})

    def page(self, after: int, url: str, *body: dict[str, Any], ident: int = 1) -> None:
        self.event(after, 4, {"href": url, "width": 800, "height": 600})
        self.event(1, 2, {"node": document(*body, ident=ident), "initialOffset": {"left": 0, "top": 0}})

    def change(self, after: int, **parts: Any) -> None:
        self.event(after, 3, mutation(**parts))

    def mouse(self, after: int, kind: int, ident: int) -> None:
        self.event(after, 3, {"source": 2, "type": kind, "id": ident, "x": 5, "y": 6})

    def click(self, after: int, ident: int) -> None:
        for number, kind in enumerate((1, 0, 2)):
            self.mouse(0 if number else after, kind, ident)

    def input(self, after: int, ident: int, content: str, checked: bool = False, **more: Any) -> None:
        self.event(after, 3, {"source": 5, "id": ident, "text": content, "isChecked": checked, **more})

    def steps(self, raw: bool = False) -> list[Step]:
        return [step for record in self.parsed(raw) if isinstance(record, Trajectory) for step in record.steps]

    def parsed(self, raw: bool = False) -> list[Trajectory | Reject]:
        choices = Choices(screen="raw" if raw else "tree")
        blob = MemoryBlob("log", json.dumps(self.events).encode(), choices)
        return list(connectors()["rrweb"].parse(blob))

    def told(self) -> list[str]:
        """The acts as `name #line other arguments`."""
        lines = []
        for step in self.steps():
            call = json.loads(step.action.text)
            lines.append(" ".join([call["name"], *(str(value) for value in call["arguments"].values())]))
        return lines


def field(ident: int, **attributes: Any) -> dict[str, Any]:
    return element(ident, "input", attributes={"aria-label": "F", **attributes})


def seen(mirror: Mirror) -> str:
    page = mirror.page()
    assert page is not None
    return page.text


def rebuilt(*body: dict[str, Any]) -> Mirror:
    mirror = Mirror()
    mirror.snapshot({"node": document(*body)})
    return mirror


# The rebuilt DOM


def test_shadow_roots_and_frames_are_part_of_the_page() -> None:
    host = element(5, "x-a", element(6, "p", text(7, "inside"), isShadow=True), text(8, "light"), isShadowHost=True)
    mirror = rebuilt(host, element(9, "iframe"))
    assert '"inside"' in seen(mirror)
    assert "light" not in seen(mirror)
    inner = {"type": 0, "childNodes": [element(21, "html", element(22, "body", text(23, "framed")))], "id": 20}
    mirror.mutate(mutation(adds=[add(9, inner)], isAttachIframe=True))
    shadow = element(30, "b", text(31, "more"))
    mirror.mutate(mutation(adds=[add(5, {**shadow, "isShadow": True})]))
    assert seen(mirror).split("\n")[1:] == [
        '  #2 text "inside"',
        '  #3 text "more"',
        "  #4 iframe",
        '    #5 text "framed"',
    ]
    mirror.mutate(mutation(removes=[{"parentId": 9, "id": 20}]))
    assert "framed" not in seen(mirror)


def test_a_video_that_plays_says_so() -> None:
    mirror = rebuilt(element(5, "video", attributes={"aria-label": "V", "rr_mediaState": "paused"}))
    assert seen(mirror).endswith('video "V"')
    node = mirror.node(5)
    assert node is not None
    mirror.play(node, True)
    assert seen(mirror).endswith('video "V" playing')


NUMBERS = st.integers(1, 12)
SPECS = st.recursive(
    st.builds(text, NUMBERS, st.sampled_from(["a", "b"])),
    lambda inner: st.builds(
        lambda ident, tag, nodes, shadow: {**element(ident, tag, *nodes), **({"isShadow": True} if shadow else {})},
        NUMBERS,
        st.sampled_from(["p", "div", "iframe", "li"]),
        st.lists(inner, max_size=2),
        st.booleans(),
    ),
    max_leaves=4,
)
CHANGES = st.builds(
    lambda adds, removes, texts: mutation(adds=adds, removes=removes, texts=texts),
    st.lists(st.builds(add, NUMBERS, SPECS, st.none() | NUMBERS), max_size=4),
    st.lists(st.builds(lambda one: {"parentId": 0, "id": one}, NUMBERS), max_size=3),
    st.lists(st.builds(lambda one: {"id": one, "value": "t"}, NUMBERS), max_size=2),
)


@given(st.lists(CHANGES, max_size=6))
def test_whatever_a_mutation_says_the_dom_stays_a_tree(changes: list[dict[str, Any]]) -> None:
    mirror = rebuilt(element(5, "ul"), element(6, "p", text(7, "a")))
    for change in changes:
        try:
            mirror.mutate(change)
        except MissingNodeError:
            continue
    top = mirror.document
    assert top is not None
    met, stack = set(), [top]
    while stack:
        node = stack.pop()
        assert node not in met
        met.add(node)
        stack += [*node.children, *(node.shadow or ()), *([node.frame] if node.frame else ())]
    assert seen(mirror)


# Acts


def test_two_fields_are_two_fills_and_coming_back_is_a_third() -> None:
    recording = Recording(field(5), field(6))
    for ident, content in ((5, "a"), (6, "b"), (5, "c")):
        recording.mouse(100, 5, ident)
        recording.input(80, ident, content)
        recording.mouse(10, 6, ident)
    assert recording.told() == ["fill #2 a", "fill #3 b", "fill #2 c"]


def test_what_a_script_fills_is_no_act() -> None:
    recording = Recording(field(5), field(6))
    recording.click(500, 5)
    recording.mouse(1, 5, 5)
    recording.input(900, 6, "by script", userTriggered=False)
    recording.input(900, 6, "without a flag, and without the focus")
    assert recording.told() == ["click #2"]
    assert "without a flag" in str(recording.steps()[0].next_observation)


def test_a_click_on_a_label_and_the_change_of_its_box_are_one_click() -> None:
    box = element(6, "input", attributes={"type": "checkbox", "aria-label": "Box"})
    recording = Recording(element(5, "label", text(7, "Box"), box))
    recording.click(900, 5)
    recording.mouse(1, 2, 6)
    recording.input(1, 6, "on", True)
    (step,) = recording.steps()
    assert json.loads(step.action.text)["name"] == "click"
    assert "unchecked" in str(step.observation)
    assert " checked" in str(step.next_observation)


def test_a_box_changed_by_key_is_a_check() -> None:
    recording = Recording(element(6, "input", attributes={"type": "checkbox", "aria-label": "Box"}))
    recording.input(900, 6, "on", True, userTriggered=True)
    recording.input(900, 6, "on", False, userTriggered=True)
    assert recording.told() == ["check #2", "uncheck #2"]


def test_a_scroll_of_what_is_not_shown_is_no_act() -> None:
    hidden = element(5, "div", element(6, "div", text(7, "A")), attributes={"style": "visibility: hidden"})
    recording = Recording(hidden, element(8, "div", text(9, "B")), element(10, "button", text(11, "C")))
    for ident in (6, 8):
        recording.event(3000, 3, {"source": 3, "id": ident, "x": 0, "y": 20})
    recording.click(3000, 10)
    assert recording.told() == ["scroll #2 0 20", "click #3"]


def test_scrolls_are_one_act_until_they_rest_and_an_effect_right_after_a_click() -> None:
    recording = Recording(element(5, "button", text(6, "A")))
    for y in (10, 20, 30):
        recording.event(2000 if y == 10 else 50, 3, {"source": 3, "id": 1, "x": 0, "y": y})
    recording.click(2000, 5)
    for y in (40, 900):
        recording.event(200, 3, {"source": 3, "id": 1, "x": 0, "y": y})
    recording.event(3000, 3, {"source": 3, "id": 1, "x": 0, "y": 0})
    assert recording.told() == ["scroll 0 30", "click #2", "scroll 0 0"]


def test_typing_into_an_editable_element_is_a_fill_of_it() -> None:
    editor = element(5, "div", element(6, "p", text(7, "a")), attributes={"contenteditable": "true", "aria-label": "E"})
    recording = Recording(editor, element(8, "button", text(9, "Bold")))
    recording.click(900, 6)
    recording.mouse(1, 5, 5)
    for content in ("ab", "abc"):
        recording.change(300, texts=[{"id": 7, "value": content}])
    recording.click(2000, 8)
    recording.change(20, adds=[add(6, element(20, "b", text(21, "!")))])
    assert recording.told() == ["click #2", "fill #2 abc", "click #3"]


def test_a_drag_names_what_it_ended_on() -> None:
    recording = Recording(element(5, "button", text(6, "A")), element(7, "button", text(8, "B")))
    recording.mouse(900, 1, 5)
    for ident in (5, 7):
        recording.event(50, 3, {"source": 12, "positions": [{"x": 1, "y": 9, "id": ident, "timeOffset": 0}]})
    assert recording.told() == ["drag #2 #3"]


def test_a_click_on_what_is_not_shown_describes_it() -> None:
    recording = Recording(element(5, "i", attributes={"id": "burger", "hidden": ""}))
    recording.click(900, 5)
    assert recording.told() == ['click i[id="burger"]']


def test_what_is_clicked_is_a_line_from_then_on_be_it_an_icon_or_words_in_a_sentence() -> None:
    words = element(8, "p", text(9, "Go to the "), element(10, "span", text(11, "next")), text(12, " page"))
    recording = Recording(element(5, "i", attributes={"id": "burger"}), words)
    recording.click(900, 5)
    recording.click(9000, 10)
    pages = [(step.observation.content or "").split("\n")[1:] for step in recording.steps() if step.observation]
    assert recording.told() == ["click #2", "click #5"]
    assert pages[0] == ["  #2 group id=burger", '  #3 text "Go to the next page"']
    assert pages[1] == ["  #2 group id=burger", '  #4 text "Go to the"', '  #5 text "next"', '  #6 text "page"']


def test_raw_screens_are_html_and_name_no_lines() -> None:
    recording = Recording(element(5, "button", text(6, "A")))
    recording.click(900, 5)
    (step,) = recording.steps(raw=True)
    assert step.observation is not None
    assert step.observation.media_type == "text/html"
    assert step.observation.content == "<html><head></head><body><button>A</button></body></html>"
    assert json.loads(step.action.text)["arguments"] == {"target": "button 'A'"}


# Files


def lines_of(blob: bytes) -> list[str]:
    records = connectors()["rrweb"].parse(MemoryBlob("log", blob))
    return [step.action.text for record in records if isinstance(record, Trajectory) for step in record.steps]


@pytest.mark.parametrize(
    "write",
    [
        json.dumps,
        lambda events: json.dumps(events, indent=2),
        lambda events: "\ufeff" + json.dumps(events),
        lambda events: json.dumps({"events": events, "version": 1}),
        lambda events: json.dumps({"version": "1", "data": {"id": "x", "snapshots": events}}, indent=1),
        lambda events: "\n".join(json.dumps(event) for event in events),
        lambda events: "\n".join(json.dumps(["w", event]) for event in events) + "\n",
        lambda events: json.dumps({"window_id": "w", "data": events}) + "\n",
        lambda events: json.dumps([zlib.compress(json.dumps(event).encode()).decode("latin-1") for event in events]),
    ],
)
def test_events_are_found_in_each_container(write: Any) -> None:
    recording = Recording(element(5, "button", text(6, "A")))
    recording.click(900, 5)
    data = write(recording.events).encode()
    assert connectors()["rrweb"].sniff(data, "log") is not None or b"window_id" in data
    assert lines_of(data) == ['{"name": "click", "arguments": {"element": "#2"}}']


def test_a_packed_event_that_would_fill_the_memory_is_refused() -> None:
    bomb = zlib.compress(b" " * (80 << 20)).decode("latin-1")
    records = connectors()["rrweb"].parse(MemoryBlob("log", json.dumps([bomb]).encode()))
    reject = next(records)
    assert isinstance(reject, Reject)
    assert reject.reason == "bad_packing"


def test_a_page_that_nests_too_deeply_is_null_and_told() -> None:
    deep = element(500, "b", text(501, "x"))
    for number in range(270):
        deep = element(600 + number, "div", deep)
    recording = Recording(deep)
    recording.click(900, 4)
    records = recording.parsed()
    assert "nested_too_deeply" in [entry.reason for entry in records if isinstance(entry, Reject)]
    assert [step.observation for step in recording.steps()] == [None]


def test_a_checkpoint_of_the_recorder_with_the_same_nodes_is_no_reload() -> None:
    body = element(5, "p", text(6, "A")), element(7, "button", text(8, "Go"))
    recording = Recording(*body)
    recording.change(100, texts=[{"id": 6, "value": "B"}])
    recording.click(900, 7)
    recording.page(60_000, "https://a.example/", element(5, "p", text(6, "B")), body[1])
    recording.click(2000, 7)
    assert recording.told() == ["click #3", "click #3"]
    recording.event(60_000, 0, {})
    recording.page(10, "https://a.example/", element(5, "p", text(6, "B")), body[1])
    assert recording.told() == ["click #3", "click #3", "reload"]


def test_packed_events_one_a_line_and_events_in_a_script_are_recognized_and_read() -> None:
    recording = Recording(element(5, "button", text(6, "A")))
    recording.click(900, 5)
    packed = [zlib.compress(json.dumps({**event, "v": "v1"}).encode()).decode("latin-1") for event in recording.events]
    logs = {
        "e.jsonl": "\n".join(json.dumps(line) for line in packed),
        "raw.jsonl": "\n".join(json.dumps(line, ensure_ascii=False) for line in packed),
        "events.js": f"const events = {json.dumps(recording.events, indent=2)};\n",
        "export.js": f"export default {json.dumps(recording.events)}\n",
    }
    for name, log in logs.items():
        reader = connectors()["rrweb"]
        assert reader.sniff(log.encode(), name) is not None, name
        (trajectory,) = reader.parse(MemoryBlob(name, log.encode()))
        assert isinstance(trajectory, Trajectory)
        assert [step.action.name for step in trajectory.steps] == ["click"]


def test_windows_of_one_object_are_trajectories_of_their_own() -> None:
    first, second = (Recording(element(5, "button", text(6, name))) for name in "AB")
    for recording in (first, second):
        recording.click(900, 5)
    whole = {"next": None, "snapshot_data_by_window_id": {"w1": first.events, "w2": second.events}}
    reader = connectors()["rrweb"]
    for log in (whole, {"result": whole}):
        data = json.dumps(log).encode()
        assert reader.sniff(data, "recording_snapshots.json") is not None
        trajectories = [record for record in reader.parse(MemoryBlob("x", data)) if isinstance(record, Trajectory)]
        assert [(trajectory.native_id, trajectory.steps[0].action.name) for trajectory in trajectories] == [
            ("w1", "click"),
            ("w2", "click"),
        ]
    with pytest.raises(ParseError) as caught:
        list(reader.parse(MemoryBlob("x", json.dumps(whole).encode()[:-30])))
    assert caught.value.reason == "truncated"


def sheet(ident: int, css: str) -> dict[str, Any]:
    return {**element(ident, "style"), "attributes": {"_cssText": css}}


def contents(recording: Recording) -> list[str]:
    """What is shown before the first act and after each."""
    steps = recording.steps()
    seen = [steps[0].observation, *(step.next_observation for step in steps)]
    return [observation.content or "" for observation in seen if observation is not None]


def test_a_class_that_a_sheet_hides_is_not_shown_until_it_is_taken_away() -> None:
    button, tip = element(5, "button", text(6, "Tip")), element(7, "p", text(8, "Early"), attributes={"class": "no"})
    recording = Recording(sheet(9, ".no { display: none }"), button, tip)
    recording.click(1000, 5)
    recording.change(10, attributes=[{"id": 7, "attributes": {"class": ""}}])
    assert ['"Early"' in content for content in contents(recording)] == [False, True]


def test_edits_of_sheets_and_adopted_sheets_show_and_hide() -> None:
    texts = [element(10 + number, f"x-{name}", text(20 + number, f"now {name}")) for number, name in enumerate("abc")]
    recording = Recording(sheet(9, "x-a { display: none }"), element(5, "button", text(6, "Next")), *texts)

    def edit(data: dict[str, Any]) -> None:
        recording.click(2000, 5)
        recording.event(10, 3, data)

    edit({"source": 8, "id": 9, "adds": [{"rule": "x-b { visibility: hidden }", "index": 1}]})
    edit({"source": 8, "id": 9, "removes": [{"index": 0}]})
    edit({"source": 13, "id": 9, "index": [0], "set": {"property": "visibility", "value": "visible"}})
    edit({"source": 15, "id": 1, "styleIds": [3], "styles": [{"styleId": 3, "rules": [{"rule": "x-c{display:none}"}]}]})
    edit({"source": 8, "styleId": 3, "replaceSync": "x-a { display: none }"})
    edit({"source": 15, "id": 1, "styleIds": []})
    letters = ["".join(name for name in "abc" if f"now {name}" in content) for content in contents(recording)]
    assert letters == ["bc", "c", "ac", "abc", "ab", "bc", "abc"]


def test_an_edit_of_a_sheet_that_is_not_there_is_rejected() -> None:
    recording = Recording(element(5, "button", text(6, "Next")))
    recording.event(10, 3, {"source": 8, "styleId": 7, "adds": []})
    recording.click(1000, 5)
    assert [record.reason for record in recording.parsed() if isinstance(record, Reject)] == ["missing_node"]


def test_what_the_pointer_reveals_is_shown_while_it_is_over_it() -> None:
    menu = element(10, "nav", element(11, "b", text(12, "Tools")), element(13, "ul", text(14, "Export")))
    css = "ul { display: none } nav:hover ul { display: block }"
    recording = Recording(sheet(9, css), element(5, "button", text(6, "Next")), menu)
    recording.click(1000, 5)
    recording.event(1000, 3, {"source": 1, "positions": [{"x": 1, "y": 1, "id": 11, "timeOffset": 0}]})
    recording.click(1000, 11)
    assert ["Export" in content for content in contents(recording)] == [False, True, True]


def test_a_narrower_window_is_asked_by_media_queries() -> None:
    css = "@media (max-width: 500px) { p { display: none } }"
    recording = Recording(sheet(9, css), element(5, "p", text(6, "Wide")))
    recording.event(1000, 3, {"source": 4, "width": 400, "height": 600})
    assert ["Wide" in content for content in contents(recording)] == [True, False]


def form() -> Recording:
    """A page of two fields, a list and a button."""
    options = [element(20 + ident, "option", text(30 + ident, name)) for ident, name in enumerate(("Green", "Black"))]
    return Recording(field(5), field(6), element(7, "button", text(8, "Send")), element(9, "select", *options))


def test_what_a_click_does_to_fields_is_its_effect() -> None:
    recording = form()
    recording.mouse(900, 5, 5)
    recording.input(5, 5, "mint")
    recording.mouse(900, 2, 7)  # Enter in the field: the page sees a click on its button alone.
    recording.input(3, 5, "")
    recording.input(4, 9, "Black")
    recording.change(4, attributes=[{"id": 7, "attributes": {"disabled": ""}}])
    assert recording.told() == ["fill #2 mint", "click #4"]
    (_, click) = recording.steps()
    assert click.next_observation is not None
    assert 'textbox "F"' in str(click.next_observation.content)
    assert "mint" not in str(click.next_observation.content)
    assert 'value="Black"' in str(click.next_observation.content)


def test_a_field_that_is_emptied_once_the_server_has_answered_a_click_is_its_effect() -> None:
    recording = form()
    recording.mouse(900, 5, 5)
    recording.input(5, 5, "mint")
    recording.mouse(900, 2, 7)
    recording.input(300, 5, "")
    recording.input(900, 5, "sage")
    assert recording.told() == ["fill #2 mint", "click #4", "fill #2 sage"]
    assert "mint" not in str(recording.steps()[2].observation)


def test_a_field_that_is_filled_soon_after_a_click_is_filled_by_hand_if_the_focus_came_there() -> None:
    recording = form()
    recording.click(900, 7)
    recording.mouse(8, 5, 6)
    recording.input(9, 6, "two")
    recording.mouse(3, 5, 5)
    recording.input(2, 5, "one")
    assert recording.told() == ["click #4", "fill #3 two", "fill #2 one"]
    focused = [
        [line.split()[0] for line in str(page.content).split("\n") if " focused" in line]
        for step in recording.steps()
        if (page := step.next_observation) is not None
    ]
    # The focus came to each field with its filling, and did not stand there before.
    assert focused == [[], ["#3"], ["#2"]]


def test_a_focus_that_a_click_moved_is_its_effect_when_somebody_types_there_later() -> None:
    recording = form()
    recording.click(900, 7)
    recording.mouse(8, 5, 6)
    recording.input(700, 6, "two")
    click, _ = recording.steps()
    assert click.next_observation is not None
    assert '#3 textbox "F" focused' in str(click.next_observation.content)


def test_a_click_that_empties_a_field_and_puts_the_focus_back_is_one_act() -> None:
    recording = form()
    recording.mouse(900, 5, 5)
    recording.input(5, 5, "mint")
    recording.click(900, 7)
    recording.mouse(1, 5, 5)
    recording.input(5, 5, "")
    recording.input(900, 5, "sage")
    assert recording.told() == ["fill #2 mint", "click #4", "fill #2 sage"]
    click = recording.steps()[1].next_observation
    assert click is not None
    assert '#2 textbox "F" focused' in str(click.content)


def test_a_text_that_goes_at_once_is_not_the_end_of_what_was_typed() -> None:
    recording = form()
    recording.mouse(900, 5, 5)
    for typed in ("s", "sa", "sag", "sage"):
        recording.input(90, 5, typed)
    recording.change(200, attributes=[{"id": 6, "attributes": {"disabled": ""}}])  # Enter: the page takes the text.
    recording.input(1, 5, "")
    recording.change(1, adds=[add(4, element(40, "p", text(41, "sage")))])
    for typed in ("r", "ro", "r", "", "m"):
        recording.input(90, 5, typed)
    assert recording.told() == ["fill #2 sage", "fill #2 ", "fill #2 m"]
    filled, taken, _ = recording.steps()
    assert filled.next_observation == taken.observation
    assert "disabled" not in str(taken.observation)
    assert '#3 textbox "F" disabled' in str(taken.next_observation)
    assert 'text "sage"' in str(taken.next_observation)
