"""Output folders of DroidBot: events join the states that they name, and touch views that those states hold."""

import json
from typing import Any

import pytest

from tests.connectors.android_logs import outcome, read
from trajmill.connectors.android.droidbot import DroidBot
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.screens.tree import Tree
from trajmill.schemas import Observation, Step

CONNECTOR = DroidBot()


def view(key: int, name: str, box: list[list[int]], parent: int = 0, **more: object) -> dict[str, Any]:
    fields = {
        "temp_id": key,
        "parent": parent,
        "children": [],
        "class": "android.widget.Button",
        "package": "org.example",
    }
    return {**fields, "text": name, "bounds": box, "view_str": f"v-{name}", "clickable": True, "enabled": True, **more}


def state(name: str, *views: dict[str, Any]) -> bytes:
    root = view(0, "", [[0, 0], [100, 200]], -1, children=[child["temp_id"] for child in views], clickable=False)
    root["class"] = "android.widget.FrameLayout"
    return json.dumps({"state_str": name, "foreground_activity": "org.example/.Main", "views": [root, *views]}).encode()


def event(start: str, stop: str, **fields: object) -> bytes:
    return json.dumps({"event": {"event_type": "touch", **fields}, "start_state": start, "stop_state": stop}).encode()


def steps(**members: bytes) -> list[Step]:
    """The steps of a folder; `events_7` is `events/event_7.json`, likewise for states."""
    names = {key.replace("events_", "events/event_", 1).replace("states_", "states/state_", 1): key for key in members}
    blob = MemoryBlob("run", {f"{name}.json": members[key] for name, key in names.items()})
    return list(read(CONNECTOR, blob)[0][0].steps)


def seen(*sides: Observation | None) -> list[tuple[str, str] | None]:
    """(what the button says, truncation) of each."""
    results = [side and ((side.content or "").split('button "')[1].split('"')[0], side.truncation) for side in sides]
    return [result or None for result in results]


WAIT = state("l", view(1, "Wait", [[0, 0], [9, 9]]))
DONE = state("d", view(1, "Done", [[0, 0], [9, 9]]))
HERE, SOON, LATE = "2024-05-06_235955", "2024-05-07_000005", "2024-05-07_000006"


def pair(tag: str, stop: str, **states: bytes) -> list[Step]:
    """The steps of two events, the second of which begins with the state `d`."""
    return steps(**{f"events_{HERE}": event("l", stop), f"events_{tag}": event("d", "d"), **states})


def test_without_a_stop_state_the_next_events_start_counts_within_ten_seconds_in_the_same_app() -> None:
    saved = {f"states_{HERE}": WAIT, f"states_{SOON}": DONE}
    assert seen(pair(SOON, "lost", **saved)[0].next_observation) == [("Done", "none")]
    assert seen(pair(LATE, "lost", **saved)[0].next_observation) == [None]
    assert seen(pair("later", "lost", **saved)[0].next_observation) == [None]
    elsewhere = DONE.replace(b"org.example/.Main", b"org.other/.Main")
    all_steps = pair(SOON, "lost", **{f"states_{HERE}": WAIT, f"states_{SOON}": elsewhere})
    assert seen(all_steps[0].next_observation) == [None]


def runs(*events: tuple[str, dict[str, object], str]) -> list[tuple[str, str | None, int]]:
    """(native id, app, steps) of each run of events: their time, what they did and the app that they began in."""
    members = {}
    for time, fields, app in events:
        members[f"events/event_2024-05-06_{time}.json"] = event(app, app, **fields)
        members[f"states/state_{app}.json"] = state(app).replace(b"org.example/.Main", f"{app}/.Main".encode())
    trajectories, _ = read(CONNECTOR, MemoryBlob("out", members))
    return [(trajectory.native_id, trajectory.environment.id, len(trajectory.steps)) for trajectory in trajectories]


def test_a_run_that_kills_its_app_while_another_is_open_is_of_the_killed_app() -> None:
    kill: dict[str, object] = {"event_type": "kill_app", "stop_intent": "am force-stop org.one"}
    start: dict[str, object] = {"event_type": "intent", "intent": "am start org.one/.Main"}
    home = "com.android.launcher3"
    assert runs(("080000", kill, "org.two"), ("080004", start, home)) == [("out", "org.one", 2)]


def test_a_start_of_a_name_that_no_file_bears_is_what_is_tagged_alike_and_holds_the_touched_view() -> None:
    touched = view(1, "b", [[0, 9], [100, 19]])
    saved = {"states_5": state("other", touched), "states_6": state("end")}
    (known,) = steps(events_5=event("lost", "end", view=touched), **saved)
    assert known.observation is not None
    assert json.loads(known.action.text)["arguments"] == {"element": "#2"}
    (earlier,) = steps(events_4=event("lost", "end", view=touched), **saved)
    (without,) = steps(events_5=event("lost", "end", view=view(1, "c", [[0, 9], [100, 19]])), **saved)
    assert [step.observation for step in (earlier, without)] == [None, None]


def test_a_start_that_does_not_hold_the_touched_view_in_its_box_is_unknown_and_the_touch_is_named_by_its_point() -> (
    None
):
    saved = {"states_3": state("s", view(1, "Use now", [[0, 0], [100, 40]]))}
    for touched in (view(1, "In use", [[0, 0], [100, 40]]), view(1, "Use now", [[0, 60], [100, 100]])):
        (step,) = steps(events_5=event("s", "s", view=touched), **saved)
        assert step.observation is None
        assert "element" not in json.loads(step.action.text)["arguments"]
        assert seen(step.next_observation) == [("Use now", "none")]


@pytest.mark.parametrize(("saved", "is_known"), [("19", False), ("20", True), ("40", True), ("41", False)])
def test_a_state_saved_more_than_ten_seconds_before_the_app_was_killed_or_after_the_event_is_not_taken(
    saved: str, is_known: bool
) -> None:
    kill = event("d", "lost", event_type="kill_app", stop_intent="am force-stop org.example")
    touch = event("lost", "other", view=view(1, "b", [[0, 9], [100, 19]]))
    other_state = state("other", view(1, "b", [[0, 9], [100, 19]]))
    members = {
        "events_2024-05-06_080030": kill,
        "events_2024-05-06_080031": touch,
        "states_2024-05-06_080031": other_state,
    }
    first, _ = steps(**members, **{f"states_2024-05-06_0800{saved}": DONE})
    assert (first.observation is not None) is is_known


@pytest.mark.parametrize(
    "told", [{"event_type": "key", "name": "BACK"}, {"view": view(1, "Done", [[0, 0], [9, 9]])}], ids=["key", "touch"]
)
def test_a_state_from_before_a_pause_of_over_a_minute_is_not_taken(told: dict[str, object]) -> None:
    for time, is_known in (("080100", True), ("080101", False)):
        members = {f"events/event_2024-05-06_{tag}.json": event("d", "e", **told) for tag in ("080000", time)}
        members |= {"states/state_2024-05-06_080000.json": DONE, f"states/state_2024-05-06_{time}.json": state("e")}
        all_steps = [step for run in read(CONNECTOR, MemoryBlob("out", members))[0] for step in run.steps]
        assert [step.observation is not None for step in all_steps] == [True, is_known]


def test_a_touch_is_named_by_the_view_that_takes_it_in_the_middle_of_the_chosen_one() -> None:
    row = view(1, "row", [[0, 0], [100, 40]], children=[2, 3])
    switch, label = view(2, "on", [[40, 10], [60, 30]], 1), view(3, "label", [[0, 0], [100, 40]], 1, clickable=False)
    screen = json.loads(state("a", row))
    screen["views"] += [switch, label]
    (step,) = steps(events_5=event("a", "a", view=row), states_3=json.dumps(screen).encode())
    assert step.observation is not None
    node = Tree.parse(step.observation.content or "").node(
        int(json.loads(step.action.text)["arguments"]["element"][1:])
    )
    assert node is not None
    assert node.name == "on"


def test_views_in_a_circle_or_without_a_root_are_read_once_or_refused() -> None:
    round_trip = view(1, "b", [[0, 0], [9, 9]], children=[0, 1])
    (step,) = steps(events_1=event("a", "a", x=1, y=1), states_1=state("a", round_trip))
    assert step.observation is not None
    assert (step.observation.content or "").count("\n") == 1
    lost = json.dumps({"state_str": "a", "views": [view(3, "b", [[0, 0], [9, 9]], parent=3)]}).encode()
    _, reasons = outcome(
        CONNECTOR, MemoryBlob("x", {"events/event_1.json": event("a", "a"), "states/state_1.json": lost})
    )
    assert reasons == ["no_nodes"]


@pytest.mark.parametrize(
    ("uri", "head", "score"),
    [
        ("a/utg.js", b"var utg = \n{", 0.95),
        ("a/states/state_1.json", b'{"views": [{"temp_id": 0', 0.9),
        ("a/states/state_1.json", b"", 0.5),
        ("a/events/event_1.json", b'{"event": {"event_type": "key"}}', 0.9),
        ("a/state_1.json", b'{"temp_id": 0}', None),
        ("b.js", b"var other = 1", None),
    ],
)
def test_the_format_is_recognized_by_name_and_first_bytes(uri: str, head: bytes, score: float | None) -> None:
    guess = CONNECTOR.sniff(head, uri)
    assert (guess.score if guess else None) == score
