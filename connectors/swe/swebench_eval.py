r"""Evaluation folders of SWE-bench: a patch is submitted, and the tests answer; each is a trajectory of one step.

>>> show(SwebenchEval(), {
...     "patch.diff": "--- a/lamp.py\n+++ b/lamp.py\n@@ -1 +1 @@\n-off\n+on\n",
...     "test_output.txt": "+ : '>>>>> Start Test Output'\n+ pytest\n1 passed in 0.01s\n+ : '>>>>> End Test Output'\n",
...     "report.json": '''{"acme__lamp-1": {"patch_exists": true, "resolved": true}}'''})
action  | {"name": "submit_patch", "arguments": {"patch": "--- a/lamp.py\n+++ b/lamp.py\n@@ -1 +1 @@\n-off\n+on\n"}}
after   | + pytest
        | 1 passed in 0.01s

A folder `<instance>/` holds `patch.diff`, `test_output.txt`, `report.json`, `eval.sh` and `run_instance.log`
(swebench.harness, `logs/run_evaluation/<run>/<model>/<instance>/`). The action is the patch: `patch.diff`, else that of
the prediction of this instance and model, from any file. The observation before it is the issue, and those files that
the patch touches, if the prediction's prompt holds them (`text`, as SWE-bench's own inference writes it); without a
prompt, it is the issue stated by the nearest trajectory of the instance. The next observation is the output of the
tests: the text between `>>>>> Start Test Output` and `>>>>> End Test Output` if the file has these marks, else the
whole file. If the patch could not be applied, it is the reason in the run's log; if the folder holds only the report,
the report's state of each test. The harness of 2024 left a single log, `<instance>.<model>.eval.log`: the patch is in a
prediction, and the answer is the output of the test script in the log. Tests that ran out of time end with a line of
the harness: it is removed, and the step is `timed_out`, with the seconds that the line states. The outcome is that of
the report. A report without a patch holds no action and is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Answers, Blob, Connector, Log, Sniff
from trajmill.connectors.conversation.harness_text import Source, read_output
from trajmill.connectors.conversation.told import Told, answered
from trajmill.connectors.conversation.wrapped_output import Output, limit_of
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import object_of, text_in
from trajmill.connectors.swe.actions import submission
from trajmill.connectors.swe.evaluation import EVALUATION_FILES, outcomes
from trajmill.connectors.swe.evaluation_folders import (
    OUTPUT,
    PATCH,
    REPORT,
    RUN,
    Folder,
    Prediction,
    evaluation_folders,
    meet,
    model_of,
    nearest,
    trajectories,
)
from trajmill.connectors.swe.instance import environment
from trajmill.connectors.swe.issue import issue_in, issue_of_trajectory, state_in
from trajmill.connectors.swe.predictions import member_of, patch_of, prediction_beside, read_predictions, with_answers
from trajmill.schemas import Agent, Observation, Outcome, ParseError, Reject, Task, Trajectory, json_text

_TRAJECTORY: Final = "trajectory/"
_START: Final = re.compile(r"^.*>>>>> Start Test Output.*\n", re.MULTILINE)
_END: Final = re.compile(r"^.*>>>>> End Test Output.*$", re.MULTILINE)
_EVALUATION: Final = Source("swebench")
_FAILED: Final = re.compile(r">>>>> Patch Apply Failed:?[ \t]*\n?(.*?)(?=\n[0-9]{4}-[0-9]{2}-[0-9]{2} |\Z)", re.DOTALL)
_LOG: Final = re.compile(rb"(?:\[[^\n]{1,200}\] )?Task Metadata:\r?\n\t- Instance ID: ")
_SCRIPT: Final = re.compile(
    r"^Test Script:[^\n]*\n(?:(?:\[[^\n]*\] )?(?:Command|Subprocess args):[^\n]*\n)*"
    r"(?:(?:\[[^\n]*\] )?(?:Std\. )?Output:\n)?",
    re.MULTILINE,
)
_SCRIPT_END: Final = re.compile(
    r" \n\[[^\n]*\] Return Code: (?P<code>-?[0-9]{1,9}) *$"
    r"|\n?^>>>>> (?:(?P<passed>All Tests Passed)|Some Tests Failed|Tests Errored"
    r"|Tests Timed Out(?: after (?P<limit>[0-9]{1,9}) seconds)?)",
    re.MULTILINE,
)
_NOT_APPLIED: Final = re.compile(
    r"^>>>>> Patch Apply Failed; \(pred[a-z_]*\)\nOutput:\n(.*?)(?=\n>>>>> |\n\[[^\n]*\] Command: |\Z)",
    re.DOTALL | re.MULTILINE,
)
_REPORTS: Final = (b'"patch_successfully_applied"', b'"patch_is_None"')


class SwebenchEval(Connector):
    """Evaluation folders of SWE-bench."""

    name: ClassVar[str] = "swebench_eval"
    version: ClassVar[str] = "6"
    domains: ClassVar[tuple[str, ...]] = ("swe",)
    title: ClassVar[str] = "SWE-bench evaluation folder (patch, test output, report), or eval.log of 2024"
    companions = EVALUATION_FILES
    asked_by = "swebench_predictions"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        is_report = b'"resolved"' in head and b'"responses_create_params"' not in head
        if is_report and head.lstrip()[:1] == b"{" and any(key in head for key in _REPORTS):
            return Sniff(0.9, "a report of SWE-bench: patch applied, resolved, tests")
        if _LOG.match(head):
            return Sniff(0.95, "a log of SWE-bench's harness of 2024: the first lines name the instance")
        if uri.rpartition("/")[2] == PATCH and (b"diff --git " in head or b"\n+++ " in head):
            return Sniff(0.4, "named as the patch of an evaluation folder")
        if uri.rpartition("/")[2] == OUTPUT and b">>>>> Start Test Output" in head:
            return Sniff(0.4, "the output of an evaluation's tests, by its name and its mark")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each folder with a patch and a report or a test output."""
        for folder in evaluation_folders(paths):
            if PATCH in folder.files and folder.answer is not None:
                yield _log(folder)

    def answers(self, own: Sequence[str], every: Sequence[str], asking: Iterator[tuple[str, Blob]]) -> Answers:
        """Return each folder with the prediction that it evaluates and a trajectory that states the issue."""
        folders = [answered_folder for answered_folder in evaluation_folders(own) if answered_folder.answer is not None]
        if not folders:
            return Answers()
        counts: dict[str, int] = {}
        for path, blob in asking:
            predictions, counts[path] = read_predictions(path, blob)
            meet(folders, predictions)
        known, logs = trajectories(every), list[Log]()
        answered_by: dict[str, dict[int, str]] = {}
        for folder in folders:
            prediction, trajectory = folder.meant(), nearest(folder, known)
            if prediction is not None and folder.answer is not None:
                answered_by.setdefault(prediction.path, {})[prediction.number] = folder.answer
            if prediction is not None or (trajectory is not None and PATCH in folder.files):
                logs.append(_log(folder, prediction, trajectory))
        asked = {path: with_answers(path, by_number, counts[path]) for path, by_number in answered_by.items()}
        return Answers(tuple(logs), asked)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        prediction, member, offset = prediction_beside(blob)
        if PATCH in blob.members:
            patch, member, offset = _patch(blob), PATCH, 0
        elif (handed := patch_of(prediction)) is not None:
            patch = handed
        else:
            raise ParseError(blob.uri, -1, "no_transitions", "an evaluation without the patch that was evaluated")
        instance, outcome, judged = blob.uri.rpartition("/")[2] or None, None, None
        log = next((member for member in blob.members if member.endswith(".eval.log")), None)
        if REPORT in blob.members:
            try:
                instance, outcome, judged = _judgement(blob, instance)
            except ParseError as error:
                yield Reject.of(error, "record", self.name)
        if log is not None:
            text = blob.read(log).decode("utf-8", "replace")
            instance = text.split("Instance ID: ", 1)[-1].partition("\n")[0].strip() or None
            seen, output = _read_log(text)
        else:
            seen, output = _answer(blob, judged)
        issue, state = _find_issue(blob, prediction, patch)
        course = Told()
        course.show(None if state is None else Observation(state, form="state"))
        submitted_call = answered(submission(patch), seen, offset, member=member)
        submitted_call.ends(output)
        course.turn([submitted_call])
        yield Trajectory(
            native_id=instance or "",
            domain="swe",
            steps=course.steps(),
            environment=environment(instance),
            agent=Agent(model=text_in(prediction, "model_name_or_path") or model_of(blob.uri)),
            task=Task(instance, issue),
            outcome=outcome,
        )


def _log(folder: Folder, prediction: Prediction | None = None, trajectory: str | None = None) -> Log:
    """Return a folder as a log, with files from elsewhere that it needs."""
    shared: dict[str, str] = {}
    if prediction is not None:
        shared[member_of(prediction)] = prediction.path
    if trajectory is not None:
        shared[f"{_TRAJECTORY}{trajectory.rpartition('/')[2]}"] = trajectory
    files = folder.files
    anchor = next(name for name in (REPORT, PATCH, OUTPUT, folder.log) if name in files)
    return Log(folder.path, {**files, **shared}, anchor, frozenset(shared))


def _find_issue(blob: Blob, prediction: Mapping[str, Any] | None, patch: str) -> tuple[str | None, str | None]:
    """Return the issue, and the known state before the patch: the issue and the touched files."""
    text = text_in(prediction, "text") or ""
    issue = issue_in(text) or text_in(prediction, "problem_statement")
    if issue is None:
        member = next((name for name in blob.members if name.startswith(_TRAJECTORY)), None)
        issue = issue_of_trajectory(blob, member) if member is not None else None
    return issue, state_in(text, patch) or issue


def _patch(blob: Blob) -> str:
    data = blob.read(PATCH)
    try:
        patch = data.decode()
    except UnicodeDecodeError as bad:
        raise ParseError(blob.uri, bad.start, "not_utf8", "a patch is read as UTF-8", PATCH) from None
    if not patch.strip():
        raise ParseError(blob.uri, 0, "empty_patch", "nothing was handed in", PATCH)
    return patch


def _judgement(blob: Blob, instance: str | None) -> tuple[str | None, Outcome | None, str | None]:
    """Return the instance's id, its outcome and the state of its tests; a report keyed by ids names the instance."""
    report = object_of(json_document(blob, REPORT)[0])
    known = outcomes(report, instance or "")
    name = instance if instance in known or len(known) != 1 else next(iter(known)) or instance
    own = report if "tests_status" in report else object_of(report.get(name or ""))
    return name, known.get(name or ""), _tests_in(own)


def _tests_in(report: Mapping[str, Any]) -> str | None:
    """Return the results of each test in a report, as JSON text; None if it names none."""
    status = object_of(report.get("tests_status"))
    named = any(object_of(kind).get(key) for kind in status.values() for key in ("success", "failure"))
    return json_text(status) if named else None


def _answer(blob: Blob, judged: str | None) -> tuple[Observation | None, Output]:
    """Return (result of the patch, end of the tests); None if neither output, run log nor report states a result.

    The result is the output of the tests, else why the patch could not be applied, else the report's state of each
    test.
    """
    if OUTPUT in blob.members:
        output = read_output(blob.read(OUTPUT).decode("utf-8", "replace"), _EVALUATION)
        text = output.text or ""
        begin = _START.search(text)
        if begin is not None:
            end = _END.search(text, begin.end())
            text = text[begin.end() : end.start() if end is not None else len(text)]
            output = output if end is None else Output(None)
        return (Observation(text, form="stream") if text or output.killed else None), output
    if RUN in blob.members:
        failed = _FAILED.search(blob.read(RUN).decode("utf-8", "replace"))
        if failed is not None and failed[1].strip():
            return Observation(failed[1], form="stream", is_error=True), Output(None)
    return (Observation(judged, media_type="application/json", form="response") if judged else None), Output(None)


def _read_log(text: str) -> tuple[Observation | None, Output]:
    """Return (result of the patch, end of the tests) from a log of 2024, in the form of `_answer`."""
    begin = _SCRIPT.search(text)
    if begin is None:
        failed = _NOT_APPLIED.search(text)
        return (None if failed is None else Observation(failed[1], form="stream", is_error=True)), Output(None)
    end = _SCRIPT_END.search(text, begin.end())
    if end is None:
        return Observation(text[begin.end() :], form="stream", truncation="recorder"), Output(None)
    seen = Observation(text[begin.end() : end.start()], form="stream")
    if end["limit"] is not None:
        return seen, Output(None, None, True, limit_of(int(end["limit"])), notes=(end[0].strip(),))
    return seen, Output(None, int(end["code"]) if end["code"] else 0 if end["passed"] else None)
