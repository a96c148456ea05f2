"""Replay of one trajectory in a box: the result of each action, and its agreement with the log."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from trajmill.connectors.recordings.screen import Screen, check_size
from trajmill.quality.scrubbing.placeholders import NUMBERED_USER
from trajmill.schemas.replay import DIFFERS, NOT_RUN, SAME, VOLATILE
from trajmill.worlds.replay.actions import QUIET_S, Asked
from trajmill.worlds.replay.box import Base, Box, BoxEndedError
from trajmill.worlds.replay.compare import (
    Compared,
    compare_answers,
    compare_cut_answer,
    compare_lines,
    differs_as_replays,
    of_whole,
    screen_addition,
)
from trajmill.worlds.replay.engines import Limits, Place, may_be_folder

_SIZE: Final = re.compile(r"terminal of (\d+)x(\d+)")
_TERM: Final = re.compile(r"TERM=([\w.+-]+)")
_PROMPT: Final = re.compile(r"^(?P<user>[a-z_][a-z0-9_-]*)@(?P<host>[A-Za-z0-9-]{1,63}):(?P<folder>[~/][^\s$#]*)[$#]$")
_SHORT: Final = re.compile(r"^(?P<folder>[~/]\S*) (?P<sign>[$#>])$")
_LOOKS: Final = 6
"""Most reads of a screen that does not show the expected text yet."""

_NUMBERED: Final = re.compile(r"(?m)^ *\d+(?:\t|→|\|)")
_FAILED: Final = re.compile(
    r"(?i)\b(?:no replacement|no such|not found|did not|does not|error:|failed|already exists|invalid)\b"
)
_UNORDERED: Final = re.compile(r"\b(?:find|tar|du|rg|zip|unzip|os\.listdir|grep -\w*[rR]\w*|ls -\w*[Uft]\w*)\b")
"""Commands whose lines are in the order in which a file system lists files."""

_BEGUN: Final = 211
"""Processes that start before a second replay, so that process ids differ from those of the first."""

_HOME: Final = re.compile(r"^/(?:(?:home|Users)/([A-Za-z_][\w.-]*)|root)(?:/|$)")


@dataclass(frozen=True, slots=True)
class Replayed:
    """Result of one replayed action.

    Attributes:
        status: One of `schemas.replay.REPLAYED`.
        reason: Reason why it was not run, or why its answer was not compared with the log.
        answer: Answer; None if there was none.
        code: Exit code, if it has one.
        agreement: As of `Compared`.
        texts: Parts of the logged and the replayed answer that were compared; None if none were.
    """

    status: str
    reason: str | None = None
    difference: str | None = None
    answer: str | None = None
    code: int | None = None
    agreement: float | None = None
    texts: tuple[str, str] | None = None


def place_of(
    rows: Sequence[Mapping[str, Any]], default: str, variables: Mapping[str, str], system: str, user: str = ""
) -> Place:
    """Return the view of the machine for the session of a trajectory: the given settings, otherwise those of the log.

    A given user has the name that scrubbing put into the log, if there is one.
    """
    setting = Place(default, user=user or "dev", variables=variables, system=system)
    prompt = _first_prompt(rows)
    match = _PROMPT.match(prompt) or _SHORT.match(prompt)
    if match is not None:
        names = match.groupdict()
        setting = _with_user(setting, names.get("user") or setting.user, user)
        setting = replace(setting, host=names.get("host") or setting.host)
        folder = names["folder"].replace("~", setting.home, 1)
        return replace(setting, folder=folder) if may_be_folder(folder) else setting
    for row in rows:
        for path in ((row["next_observation"] or {}).get("uri"), row["environment"]["instance_id"]):
            if path and may_be_folder(path):
                home = _HOME.match(path)
                name = home[1] or "root" if home else setting.user
                return replace(_with_user(setting, name, user), folder=path)
    return setting


def _with_user(setting: Place, name: str, given: str) -> Place:
    """A place whose user the log calls so; a given user has that name only where it is one of scrubbing."""
    if not given or name == given:
        return replace(setting, user=name)
    is_scrubbed = len(name) == len(given) and NUMBERED_USER.fullmatch(name.encode())
    return replace(setting, user=name, real_user=given) if is_scrubbed else replace(setting, user=given)


def _first_prompt(rows: Sequence[Mapping[str, Any]]) -> str:
    shown = rows[0]["observation"] or {}
    if shown.get("form") != "screen" or not shown.get("content"):
        return ""
    return str(shown["content"]).rstrip().rpartition("\n")[2]


def prompt_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the value of PS1 with which bash shows the prompt at the beginning of the log."""
    prompt = _first_prompt(rows) or "$"
    if _PROMPT.match(prompt):
        return r"\u@\h:\w\$ "
    if match := _SHORT.match(prompt):
        return rf"\w {match['sign']} "
    if re.fullmatch(r"\d\d:\d\d:\d\d \$", prompt):
        return r"\t \$ "
    if re.fullmatch(r"\[\d+\] \$", prompt):
        return r"[$?] \$ "
    return prompt.replace("\\", "\\\\") + " "


def replay_trajectory(
    rows: Sequence[Mapping[str, Any]],
    questions: Sequence[Asked],
    base: Base,
    setting: Place,
    limits: Limits,
    scrubbed: Callable[[str], str] = lambda text: text,
    begin: str = "",
) -> list[Replayed]:
    """Run the actions of a trajectory in one session of one box, and compare each answer with the log.

    If an answer differs from the log, the trajectory is run once more in another box: the values in which the two
    replays differ are volatile.

    Args:
        base: Initial content of the working folder.
        setting: View of the machine that the session has.
        limits: Bounds of the box.
        scrubbed: Function that scrubs a text as the logs were scrubbed.
        begin: Command that is run before the first action; its output is ignored.
    """

    rows = [_as_told(row, setting) for row in rows]

    def run(begun: int) -> tuple[list[Replayed], datetime | None]:
        try:
            with Box(base, setting, limits, begun) as box:
                if begin:
                    box.ask({"do": "run", "command": begin, "keeps_folder": False, "apart": False})
                return list(_Session(box, rows, scrubbed).answers(questions)), box.now()
        except BoxEndedError as error:
            return [Replayed(NOT_RUN, str(error))] * len(rows), None

    answers, _ = run(0)
    if not any(answer.status == DIFFERS and answer.texts for answer in answers):
        return answers
    again, now = run(_BEGUN)
    return [_mark_volatile(*both, now) for both in zip(answers, again, strict=True)]


def _as_told(row: Mapping[str, Any], setting: Place) -> Mapping[str, Any]:
    """Return a row whose texts name the user as its box does, even where scrubbing left the real name."""
    if not setting.real_user:
        return row
    name = re.compile(rf"\b{re.escape(setting.real_user)}\b")
    changed = {
        side: {**row[side], "content": name.sub(setting.user, row[side]["content"])}
        for side in ("observation", "next_observation")
        if row[side] is not None and row[side]["content"] is not None
    }
    return {**row, **changed}


def _mark_volatile(answer: Replayed, again: Replayed, now: datetime | None) -> Replayed:
    """Mark an answer that differs from the log as volatile if it differs only where two replays differ."""
    if answer.status != DIFFERS or answer.texts is None or again.texts is None:
        return answer
    logged, first = answer.texts
    return replace(answer, status=VOLATILE) if differs_as_replays(logged, first, again.texts[1], now) else answer


def _shows_prompt(row: Mapping[str, Any]) -> bool:
    """Return True if the result of an action ends with a prompt, for which the terminal must be read."""
    shown = (row["next_observation"] or {}).get("content") or ""
    return shown.rstrip().endswith(("$", "#", ">"))


def _is_unordered(row: Mapping[str, Any]) -> bool:
    text = str(row["action"]["arguments"])
    return bool(_UNORDERED.search(text)) and "sort" not in text


def _parts(row: Mapping[str, Any], asked: Asked, text: str, before: str) -> tuple[str, str] | None:
    """Return the parts of both answers that are compared as texts; for screens, the additions of the action."""
    logged = row["next_observation"]["content"]
    if asked.kind in ("view", "edit"):
        return None
    if asked.kind == "screen":
        shown = screen_addition((row["observation"] or {}).get("content") or "", logged), screen_addition(before, text)
        if shown[0] is not None and shown[1] is not None:
            return shown[0], shown[1]
    return logged, text


class _Session:
    """Replay of one trajectory in an open box."""

    def __init__(self, box: Box, rows: Sequence[Mapping[str, Any]], scrubbed: Callable[[str], str]) -> None:
        self._box, self._rows, self._scrubbed = box, rows, scrubbed
        self._screen: Screen | None = None
        self._stopped = ""
        self._lost = False
        self._before = ""

    def answers(self, questions: Sequence[Asked]) -> list[Replayed]:
        return [self._answer(row, question) for row, question in zip(self._rows, questions, strict=True)]

    def _answer(self, row: Mapping[str, Any], asked: Asked) -> Replayed:
        if self._stopped:
            return Replayed(NOT_RUN, "stopped")
        if asked.request is None:
            self._lost = self._lost or asked.may_change
            return Replayed(NOT_RUN, asked.reason)
        try:
            if asked.kind == "screen" and self._screen is None:
                self._open()
            reply = self._box.ask({**asked.request, "prompted": _shows_prompt(row)})
        except BoxEndedError as error:
            self._stopped = str(error)
            return Replayed(NOT_RUN, self._stopped)
        if reply["stopped"]:
            why = str(reply["stopped"]).partition(":")[0][:32]
            if why == "time" and asked.request["do"] == "run":  # a shell of its own ends alone
                self._lost = True
            else:
                self._stopped = why
            return Replayed(NOT_RUN, why)
        return self._compare_reply(row, asked, reply)

    def _open(self) -> None:
        initial_state = self._rows[0]["context"]["initial_state"] or ""
        size, term = _SIZE.search(initial_state), _TERM.search(initial_state)
        columns, rows = (check_size(int(size[1]), int(size[2])) if size else None) or (80, 24)
        self._screen = Screen(columns, rows)
        reply = self._box.ask(
            {
                "do": "open",
                "columns": columns,
                "rows": rows,
                "prompt": prompt_of(self._rows),
                "term": term[1] if term else "xterm-256color",
                "quiet": QUIET_S,
                "prompted": _shows_prompt({"next_observation": self._rows[0]["observation"]}),
            }
        )
        self._screen.write(str(reply.get("output", "")))
        self._before = self._scrubbed(self._screen.text())

    def _screen_after(self, row: Mapping[str, Any], output: str) -> str:
        """Return the screen after some output. A program without a prompt may be slow to print the rest."""
        assert self._screen is not None
        self._screen.write(output)
        logged = (row["next_observation"] or {}).get("content")
        for _ in range(_LOOKS):
            text = self._screen.text()
            if logged is None or _shows_prompt(row) or compare_answers(logged, text).replayed != DIFFERS:
                break
            more = self._box.ask({"do": "keys", "keys": "", "quiet": QUIET_S, "most": 4 * QUIET_S})
            self._screen.write(str(more.get("output", "")))
        return self._screen.text()

    def _compare_reply(self, row: Mapping[str, Any], asked: Asked, reply: Mapping[str, Any]) -> Replayed:
        code = reply.get("code")
        text = str(reply.get("output", ""))
        if asked.kind == "screen":
            try:
                text = self._screen_after(row, text)
            except BoxEndedError as error:
                self._stopped = str(error)
                return Replayed(NOT_RUN, self._stopped)
        text, code = self._scrubbed(text), code if isinstance(code, int) and abs(code) < 1 << 16 else None
        logged = row["next_observation"]
        if logged is None or logged["content"] is None:
            return Replayed(NOT_RUN, "no_answer", answer=text, code=code)
        before, self._before = self._before, text
        parts = None
        if logged["truncation"] == "none":
            parts = _parts(row, asked, text, before)
            comparison = self._compared(row, asked, reply, text, parts)
        else:
            shown = compare_cut_answer(logged["content"], text) if logged["truncation"] == "harness" else None
            if shown is None:
                return Replayed(NOT_RUN, "cut", answer=text, code=code)
            comparison = shown
        if comparison.replayed == SAME and None not in (code, row["exit_code"]) and code != row["exit_code"]:
            comparison, parts = Compared(DIFFERS, f"exit code {row['exit_code']} in the log, {code} now"), None
        if comparison.replayed == DIFFERS and self._lost:
            return Replayed(NOT_RUN, "state_unknown", answer=text, code=code)
        return Replayed(comparison.replayed, None, comparison.difference, text, code, comparison.agreement, parts)

    def _compared(
        self, row: Mapping[str, Any], asked: Asked, reply: Mapping[str, Any], text: str, parts: tuple[str, str] | None
    ) -> Compared:
        logged = row["next_observation"]["content"]
        if parts is not None:
            comparison = compare_answers(*parts, unordered=_is_unordered(row), now=self._box.now())
            return of_whole(comparison, parts, (logged, text))
        assert asked.request is not None
        failed = bool(reply.get("failed"))
        lines = reply.get("lines")
        if failed or not isinstance(lines, list):
            wrong = row["next_observation"]["is_error"] or not _NUMBERED.search(logged)
            if reply.get("folder"):
                return compare_answers(logged, text) if wrong else Compared(DIFFERS, "it is a folder")
            return Compared(SAME, agreement=1.0) if wrong else Compared(DIFFERS, f"the tool fails: {text[:200]}")
        if row["next_observation"]["is_error"] or (asked.kind == "edit" and _FAILED.search(logged[:120])):
            return Compared(DIFFERS, "the tool fails in the log, and does not now")
        if asked.kind == "view" and not _NUMBERED.search(logged):
            return compare_answers(logged, self._scrubbed("\n".join(map(str, lines))))
        present = (
            [self._scrubbed(str(line)) for line in lines]
            if len(lines) < 1 << 14
            else [str(file_line) for file_line in lines]
        )
        is_view = asked.kind == "view"
        return compare_lines(logged, present, is_view and bool(asked.request.get("whole")), is_view)
