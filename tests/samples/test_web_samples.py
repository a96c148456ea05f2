"""Each web sample was recorded in three ways at once; read by three connectors, they tell of the same session.

What a way of recording cannot know, or tells in another word, is written down here as data: nothing else may differ.
"""

import json
import re
from collections.abc import Set
from difflib import SequenceMatcher
from functools import cache
from typing import Final

import pytest

from tests.conftest import ROOT
from trajmill.connectors.screens.tree import Tree
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.schemas import Reject, Step

SAMPLES: Final = ROOT / "samples" / "web"
SESSIONS: Final = sorted(str(path.parent.relative_to(SAMPLES)) for path in SAMPLES.glob("*/*/**/trace.zip"))
WAYS: Final = {"trace.zip": "playwright_trace", "session.har.gz": "har", "events.json.gz": "rrweb"}

ONLY_IN_TRACE: Final = {"wait"}
"""A test's look at a page leaves no mark in it."""

SAME_ACT: Final = {"check": "click", "uncheck": "click", "type": "fill"}
"""Word of the trace → word of rrweb, which sees what the page sees: a checkbox is clicked, a field has another text."""

ONLY_IN_RRWEB: Final = {"focused"}
"""A state that snapshots of Playwright do not hold."""

NO_VALUE: Final = {"iframe"}
"""rrweb leaves out the address of a frame whose document it holds."""

LIVE: Final = {"focused", "selected"}
"""States that a document has only in a browser: the first option of a list is chosen where none is said to be."""

BY_SCRIPT: Final = {"tasks": {"/"}, "manual": {"/settings", "/feedback", "/vote"}}
"""Site → pages whose text is not that of their own document: drawn by a script, or in a frame."""

OTHERWISE: Final[dict[str, list[tuple[list[str], list[str]]]]] = {
    # Enter sends a form: the page sees a click on its button.
    "library/on-loan": [(["press #14 Enter"], ["click #15"])],
    "shop/find-lamp": [(["press #14 Enter"], ["click #23"])],
    "tasks/add-two": [(["press #13 Enter"], ["click #14"])],
    "tasks/type-slowly": [(["press #13 Enter"], ["click #14"])],
    # A key moves a slider: the page sees its value.
    "manual/alarm": [(["press #39 ArrowRight", "press #39 ArrowRight"], ["fill #39 10"])],
    # A click that failed never reached the page.
    "manual/no-such-button": [(["click"], [])],
    # Playwright scrolls what it clicks into view.
    "manual/vote": [([], ["scroll"])],
    # A page that is shown so soon after a click looks like its effect.
    "library/stacks": [(["reload"], [])],
    "shop/back-and-forth": [(["go_back"], []), (["go_back", "go_forward", "reload"], [])],
}
"""Session → what else stands in the trace and, in its place, in rrweb."""


@cache
def read(session: str, name: str) -> list[Step]:
    """The steps of a session in one way of recording; of HARs those of all pages."""
    plan = make_plan(Recipe(name="samples", source="samples"), [str(SAMPLES / session / name)])
    assert [log.connector for log in plan.inputs] == [WAYS[name]]
    records = [result for result, _ in read_input(plan.inputs[0], Recipe(name="samples", source="samples"))]
    assert not [record for record in records if isinstance(record, Reject)]
    return [step for record in records if not isinstance(record, Reject) for step in record.steps]


def told(step: Step) -> str:
    """An action in short: its name, element and text."""
    arguments = json.loads(step.action.text)["arguments"]
    parts = [step.action.name, arguments.get("element"), arguments.get("key"), arguments.get("text")]
    return " ".join([*[part for part in parts if part], *arguments.get("options", [])])


def acts(session: str, name: str) -> list[tuple[str, Step]]:
    """(action in the words of rrweb, step) of what is in both."""
    pairs = []
    for step in read(session, name):
        if step.action.name not in ONLY_IN_TRACE:
            word, _, rest = told(step).partition(" ")
            pairs.append((f"{SAME_ACT.get(word, word)} {rest}".strip() if name == "trace.zip" else told(step), step))
    return pairs


def shown(content: str | None, left_out: Set[str] = ONLY_IN_RRWEB) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """Role, name, value and states of each line, without some states."""
    return [
        (
            node.role,
            node.name,
            "" if node.role in NO_VALUE else node.value,
            tuple(state for state in node.states if state not in left_out),
        )
        for node in Tree.parse(content or "").nodes
    ]


@pytest.mark.parametrize("session", SESSIONS)
def test_trace_and_rrweb_tell_of_the_same_acts_on_the_same_pages(session):
    trace, rrweb = acts(session, "trace.zip"), acts(session, "events.json.gz")
    words = [word for word, _ in trace], [word for word, _ in rrweb]
    differences = []
    matcher = SequenceMatcher(None, *words, autojunk=False)
    for kind, begin, end, other_begin, other_end in matcher.get_opcodes():
        if kind != "equal":
            left = words[0][begin:end], words[1][other_begin:other_end]
            differences.append(left)
            continue
        for (_, step), (_, rrweb_step) in zip(trace[begin:end], rrweb[other_begin:other_end], strict=True):
            assert step.observation is not None
            assert rrweb_step.observation is not None
            assert shown(step.observation.content) == shown(rrweb_step.observation.content)
            assert step.observation.uri == rrweb_step.observation.uri
    assert differences == OTHERWISE.get(session, [])


def test_no_task_shows_what_another_one_does():
    """Eval and training are of different tasks: what one shows is news after the others."""
    shown_by: dict[str, set[tuple[str, ...]]] = {}
    for session in SESSIONS:
        words = [
            re.findall(r"\w+", re.sub(r"#[0-9]+ ", "", step.next_observation.content))
            for step in read(session, "trace.zip")
            if step.next_observation is not None and step.next_observation.content is not None
        ]
        runs = {tuple(tokens[at : at + 8]) for tokens in words for at in range(len(tokens) - 7)}
        shown_by.setdefault("/".join(session.split("/")[:2]), set()).update(runs)
    known = {
        task: len(runs & set().union(*(shown_runs for name, shown_runs in shown_by.items() if name != task)))
        / len(runs)
        for task, runs in shown_by.items()
    }
    assert max(known.values()) < 0.5, known
    firsts = [read(session, "trace.zip")[0].observation for session in SESSIONS]
    assert len({first.uri for first in firsts if first is not None}) == len(shown_by)


@pytest.mark.parametrize("session", SESSIONS)
def test_every_document_that_the_network_brought_is_shown_in_the_trace(session):
    seen = [
        observation for step in read(session, "trace.zip") for observation in (step.observation, step.next_observation)
    ]
    pages = [observation.content for observation in seen if observation is not None]
    site = session.partition("/")[0]
    index = 0
    for step in read(session, "session.har.gz"):
        answer = step.next_observation
        if answer is None or answer.content is None or answer.dialect != "http+uitree/1":
            continue
        path = (answer.uri or "").partition(".example")[2].partition("?")[0]
        if path in BY_SCRIPT.get(site, ()):
            continue
        tree = shown(answer.content[answer.content.index("#1 document") :], LIVE)
        matches = [
            position for position, content in enumerate(pages) if position >= index and shown(content, LIVE) == tree
        ]
        assert matches, f"{answer.uri} is nowhere shown after observation {index}"
        index = matches[0]


@pytest.mark.parametrize("session", SESSIONS)
def test_every_page_of_the_trace_was_asked_for(session):
    uris = {json.loads(step.action.arguments or "")["url"] for step in read(session, "session.har.gz")}
    uris |= {step.next_observation.uri for step in read(session, "session.har.gz") if step.next_observation}
    seen = {step.observation.uri for step in read(session, "trace.zip") if step.observation}
    assert seen <= uris


@pytest.mark.parametrize("session", SESSIONS)
def test_every_step_of_the_trace_has_both_pages_and_names_its_element(session):
    for step in read(session, "trace.zip"):
        assert step.observation is not None
        assert step.next_observation is not None
        if step.action.name in ("click", "fill", "press", "check", "uncheck", "select_option"):
            failed = step.next_observation.is_error is True
            assert ("element" in json.loads(step.action.text)["arguments"]) is not failed
