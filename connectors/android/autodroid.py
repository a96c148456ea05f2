r"""Runs of AutoDroid (github.com/MobileLLM/AutoDroid): a task's YAML, or its knowledge of an app (`utg.yaml`).

>>> show(AutoDroid(), r'''
... records:
... - Choice: 1
...   Input: 'null'
...   State: "<p id=0>Calendar</p>\n<button id=1 text='New Event'></button>\n<button id=2>go back</button>"
...   state_str: a1
... - Choice: 0
...   Input: Dentist
...   State: "<input id=0>Title</input>\n<button id=1>go back</button>"
...   state_str: b2
... step_num: 2
... task_name: Create the event of the dentist
... ''')
before  | <p id=0>Calendar</p>
        | <button id=1 text='New Event'></button>
        | <button id=2>go back</button>
action  | {"name": "click", "arguments": {"element": "1"}}
after   | <input id=0>Title</input>
        | <button id=1>go back</button>
action  | {"name": "input_text", "arguments": {"element": "0", "text": "Dentist"}}
after   | (not in the log)

A record is the screen as the model read it (`State`, kept as it is), the id of the chosen element, and the text that
was entered into it. Records are in chronological order, so the screen of a record is the next observation of the one
before it. A choice of -1 means that the task is done, and ends the run; another run follows. `go back` is no element of
the screen but the key. An unreadable record is rejected, and the next observation of the one before it is null.
`state_str` and `new_state_str` are hashes of the screen. A task's name of one word, as for an exploration, is no
instruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from trajmill.connectors.android import action as act
from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.reading.fields import str_of, whole_number_of
from trajmill.connectors.reading.yaml_values import YamlDocument
from trajmill.connectors.screens.moves import Moves
from trajmill.schemas import (
    COMPLETE,
    Action,
    Agent,
    Observation,
    ParseError,
    Reject,
    Task,
    Trajectory,
    call_text,
    json_text,
)

_DIALECT: Final = "autodroid-html"
_HEAD: Final = re.compile(rb"records:\s*\n- (?=.*?\bChoice: )(?=.*?\bState: )(?=.*?\bstate_str:)", re.DOTALL)
_ELEMENT: Final = r"<(\w{1,20}) id=%d\b[^>]*>(.*?)</\1>"
_BACK: Final = "go back"
_DONE: Final = -1
_NO_TEXT: Final = ("", "null", "None")


class AutoDroid(Connector):
    """YAML of AutoDroid's runs."""

    name: ClassVar[str] = "autodroid"
    version: ClassVar[str] = "1"
    domains: ClassVar[tuple[str, ...]] = ("android",)
    title: ClassVar[str] = "AutoDroid runs and DroidTask (utg.yaml, a task's YAML)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        return Sniff(0.95, "records with a state and a choice, as AutoDroid has them") if _HEAD.match(head) else None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        document = YamlDocument(blob.read(), blob.uri)
        records, offsets = document.value.get("records"), document.places.get("records", ())
        if not isinstance(records, list) or not records:
            raise ParseError(blob.uri, 0, "no_transitions", "wanted a list of records")
        name = str_of(document.value.get("task_name")).strip()
        runs = [_Run()]
        for offset, record in zip(offsets, records, strict=True):
            try:
                ended = runs[-1].add(record, blob.uri, offset)
            except ParseError as error:
                runs[-1].leads_on = False
                yield Reject.of(error, connector=self.name)
                continue
            if ended:
                runs.append(_Run())
        runs = [run for run in runs if run.moves.steps]
        if not runs:
            raise ParseError(blob.uri, -1, "no_transitions", "no record could be read")
        for number, run in enumerate(runs):
            yield Trajectory(
                native_id=f"{blob.uri}/{number}" if number else blob.uri,
                domain="android",
                steps=run.moves.steps,
                agent=Agent(name="autodroid"),
                task=Task(instruction=name if " " in name else None),
            )


class _Run:
    """Steps of one run, up to the completion of the task.

    Attributes:
        leads_on: whether the next record shows the result of the last step.
    """

    def __init__(self) -> None:
        self.moves = Moves()
        self.leads_on = False

    def add(self, record: Any, uri: str, offset: int) -> bool:
        """Add a record; return True if it ends the run.

        Raises:
            ParseError: `bad_record`: the record has no state, or no choice of an element of it.
        """
        state = str_of(record.get("State")) if isinstance(record, dict) else ""
        choice = whole_number_of(record.get("Choice")) if isinstance(record, dict) else None
        if not state or choice is None:
            raise ParseError(uri, offset, "bad_record", "wanted a record with a State and a Choice")
        action = _action(state, choice, record.get("Input"))
        if action is None:
            raise ParseError(uri, offset, "bad_record", f"the state has no element {choice}")
        screen = Observation(state, form="screen", dialect=_DIALECT)
        if self.leads_on:
            self.moves.reach(screen)
        self.leads_on = True
        self.moves.add(action, screen, None, offset, terminated=True if choice == _DONE else None)
        return choice == _DONE


def _action(state: str, choice: int, typed: Any) -> Action | None:
    """Return the action on the chosen element; None if the screen has no element of that id."""
    own = {"Choice": choice, "Input": typed}
    if choice == _DONE:
        return _build_action(COMPLETE, {}, own)
    element = re.search(_ELEMENT % choice, state, re.DOTALL) if choice >= 0 else None
    if element is None:
        return None
    if element[1] == "button" and element[2] == _BACK:
        return _build_action(act.PRESS, {"key": "back"}, own)
    arguments: dict[str, Any] = {"element": str(choice)}
    if isinstance(typed, str) and typed not in _NO_TEXT:
        return _build_action(act.INPUT_TEXT, {**arguments, "text": typed}, own)
    return _build_action(act.CLICK, arguments, own)


def _build_action(name: str, arguments: dict[str, Any], own: dict[str, Any]) -> Action:
    return Action(name, call_text(name, arguments), json_text(own))
