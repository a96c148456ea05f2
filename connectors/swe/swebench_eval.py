r"""Evaluation folders of SWE-bench: a patch is handed in, and the tests answer; each is a trajectory of one step.

>>> show(SwebenchEval(), {
...     "patch.diff": "--- a/lamp.py\n+++ b/lamp.py\n@@ -1 +1 @@\n-off\n+on\n",
...     "test_output.txt": "+ : '>>>>> Start Test Output'\n+ pytest\n1 passed in 0.01s\n+ : '>>>>> End Test Output'\n",
...     "report.json": '''{"acme__lamp-1": {"patch_exists": true, "resolved": true}}'''})
action  | {"name": "submit_patch", "arguments": {"patch": "--- a/lamp.py\n+++ b/lamp.py\n@@ -1 +1 @@\n-off\n+on\n"}}
after   | + pytest
        | 1 passed in 0.01s

A folder `<instance>/` holds `patch.diff`, `test_output.txt`, `report.json`, `eval.sh` and `run_instance.log`
(swebench.harness, `logs/run_evaluation/<run>/<model>/<instance>/`). The action is the patch. The next observation is
what the tests put out: what stands between `>>>>> Start Test Output` and `>>>>> End Test Output` where the file has
these marks, else the whole file. Where the patch could not be applied, it is the reason that the run's log gives. Tests
whose time ran out end with a line of the harness: it is taken off, and the step is `timed_out`, with the seconds that
the line names. The outcome is that of the report. A report without the patch holds no action and is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from connectors.connector import Blob, Connector, Log, Sniff
from connectors.conversation.told import Told, answered
from connectors.conversation.wrapped_output import Output, limit_of
from connectors.reading.documents import json_document
from connectors.swe.actions import submitted
from connectors.swe.evaluation import EVALUATION_FILES, outcomes
from connectors.swe.instance import environment
from schemas import Agent, Observation, Outcome, ParseError, Reject, Task, Trajectory

PATCH: Final = "patch.diff"
REPORT: Final = "report.json"
OUTPUT: Final = "test_output.txt"
RUN: Final = "run_instance.log"
_MEMBERS: Final = (PATCH, REPORT, OUTPUT, RUN, "eval.sh")

_START: Final = re.compile(r"^.*>>>>> Start Test Output.*\n", re.MULTILINE)
_END: Final = re.compile(r"^.*>>>>> End Test Output.*$", re.MULTILINE)
_OUT_OF_TIME: Final = re.compile(r"\n{0,2}(Timeout error: ([0-9]{1,9})(?:\.[0-9]{0,3})? seconds exceeded\.)\n?\Z")
_LONGEST_ENDING: Final = 80
_FAILED: Final = re.compile(r">>>>> Patch Apply Failed:?[ \t]*\n?(.*?)(?=\n[0-9]{4}-[0-9]{2}-[0-9]{2} |\Z)", re.DOTALL)
_REPORTS: Final = (b'"patch_successfully_applied"', b'"patch_is_None"')


class SwebenchEval(Connector):
    """Evaluation folders of SWE-bench."""

    name: ClassVar[str] = "swebench_eval"
    version: ClassVar[str] = "4"
    domains: ClassVar[tuple[str, ...]] = ("swe",)
    title: ClassVar[str] = "SWE-bench evaluation folder (patch, test output, report)"
    companions = EVALUATION_FILES

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if head.lstrip()[:1] == b"{" and any(key in head for key in _REPORTS) and b'"resolved"' in head:
            return Sniff(0.9, "a report of SWE-bench: patch applied, resolved, tests")
        if uri.rpartition("/")[2] == PATCH and (b"diff --git " in head or b"\n+++ " in head):
            return Sniff(0.4, "named as the patch of an evaluation folder")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Each folder with a patch and a report or a test output."""
        folders: dict[str, dict[str, str]] = {}
        for path in paths:
            folder, _, name = path.rpartition("/")
            if name in _MEMBERS:
                folders.setdefault(folder, {})[name] = path
        for folder, members in folders.items():
            if PATCH in members and (REPORT in members or OUTPUT in members):
                yield Log(folder, members, REPORT if REPORT in members else PATCH)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        if PATCH not in blob.members:
            raise ParseError(blob.uri, -1, "no_transitions", "an evaluation without the patch that was evaluated")
        patch = _patch(blob)
        instance, outcome = blob.uri.rpartition("/")[2] or None, None
        if REPORT in blob.members:
            try:
                instance, outcome = _judgement(blob, instance)
            except ParseError as error:
                yield Reject.of(error, "record", self.name)
        seen, told = _answer(blob)
        course = Told()
        made = answered(submitted(patch), seen, 0, member=PATCH)
        made.ends(told)
        course.turn([made])
        yield Trajectory(
            native_id=instance or "",
            domain="swe",
            steps=course.steps(),
            environment=environment(instance),
            agent=Agent(model=_model(blob.uri)),
            task=Task(instance),
            outcome=outcome,
        )


def _patch(blob: Blob) -> str:
    data = blob.read(PATCH)
    try:
        patch = data.decode()
    except UnicodeDecodeError as bad:
        raise ParseError(blob.uri, bad.start, "not_utf8", "a patch is read as UTF-8", PATCH) from None
    if not patch.strip():
        raise ParseError(blob.uri, 0, "empty_patch", "nothing was handed in", PATCH)
    return patch


def _judgement(blob: Blob, instance: str | None) -> tuple[str | None, Outcome | None]:
    """The instance's id and its outcome; a report that is keyed by ids names it."""
    known = outcomes(json_document(blob, REPORT)[0], instance or "")
    if instance in known or len(known) != 1:
        return instance, known.get(instance or "")
    name, outcome = next(iter(known.items()))
    return name or instance, outcome


def _answer(blob: Blob) -> tuple[Observation | None, Output]:
    """(what the tests put out, or why the patch could not be applied; how they ended); None: neither is there."""
    if OUTPUT in blob.members:
        told = _timed(blob.read(OUTPUT).decode("utf-8", "replace"))
        text = told.text or ""
        begin = _START.search(text)
        if begin is not None:
            end = _END.search(text, begin.end())
            text = text[begin.end() : end.start() if end is not None else len(text)]
            told = told if end is None else Output(None)
        return (Observation(text, form="stream") if text or told.killed else None), told
    if RUN in blob.members:
        failed = _FAILED.search(blob.read(RUN).decode("utf-8", "replace"))
        if failed is not None and failed[1].strip():
            return Observation(failed[1], form="stream", is_error=True), Output(None)
    return None, Output(None)


def _timed(text: str) -> Output:
    """A test output without the harness's line about the time limit, if it has one."""
    found = _OUT_OF_TIME.search(text, max(0, len(text) - _LONGEST_ENDING))
    if found is None:
        return Output(text)
    return Output(text[: found.start()], None, True, limit_of(int(found[2])), notes=(found[1],))


def _model(uri: str) -> str | None:
    """The model of `…/run_evaluation/<run>/<model>/<instance>`."""
    parts = uri.split("/")
    return parts[-2] if len(parts) > 3 and parts[-4] == "run_evaluation" else None
