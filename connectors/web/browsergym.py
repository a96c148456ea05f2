"""Text logs of BrowserGym and AgentLab runs: JSON with steps, and the summary of a run's folder.

>>> show(BrowserGym(), {
...     "step_0.json": '''{"axtree_txt": "[a4] button 'Tomorrow', clickable", "action": "click('a4')", "reward": 0}''',
...     "step_1.json": '''{"axtree_txt": "[a9] StaticText 'Low at 12:50'", "action": null, "reward": 1}''',
...     "summary_info.json": '''{"n_steps": 1, "cum_reward": 1.0, "err_msg": null}'''})
before  | [a4] button 'Tomorrow', clickable
action  | {"name": "click", "arguments": {"element": "a4"}}
after   | [a9] StaticText 'Low at 12:50'

A run's folder keeps its steps as Python pickles (`step_<n>.pkl.gz`). Loading a pickle runs arbitrary code, so none is
ever opened: each is rejected (`pickle`), and a run that holds nothing else has no transition. Steps that were written
as JSON are read: a document with `steps`, or files `step_<n>.json` in the folder, each with its action and its tree as
text (`axtree_txt`, `axtree`, `axtree_text`). Step n holds the page that the agent saw and its action there. Its next
observation is therefore the page of step n+1, and the last step may hold only a page. The environment states `reward`,
`terminated` and `truncated` of step n together with its page (`StepInfo.from_step` of BrowserGym), so they belong to
the action before it. The parts of a `StepInfo`, `obs` and `agent_info`, may be objects of their own.

The tree is kept in BrowserGym's own text form (`[a46] button 'OK', clickable`). Actions are its Python calls
(`click('a46')`), parsed as constants and never run. They name elements by these ids.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Log, Sniff
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import number_of, object_of, str_of, whole_number_of
from trajmill.connectors.screens.moves import Moves
from trajmill.connectors.web import action as words
from trajmill.connectors.web import agent_action as act
from trajmill.schemas import (
    COMPLETE,
    MESSAGE,
    WAIT,
    Action,
    Agent,
    Environment,
    Observation,
    Outcome,
    ParseError,
    Reject,
    Task,
    Trajectory,
)

DIALECT: Final = "browsergym-axtree"
_SUMMARY: Final = "summary_info.json"
_PICKLE: Final = re.compile(r"(?:.*/)?(?:step_\d{1,6}|exp_args|goal_object)\.pkl(?:\.gz)?")
_OWN: Final = re.compile(
    r"(?:step_\d{1,6}|exp_args|goal_object)\.pkl(?:\.gz)?|step_\d{1,6}\.json|summary_info\.json|package_versions\.txt"
)
_STEP: Final = re.compile(r"step_(\d{1,6})\.json")
_TREES: Final = (b'"axtree', b'"axtree_txt"', b'"axtree_text"')
_TREE_KEYS: Final = ("axtree_txt", "axtree", "axtree_text", "axtree_object", "pruned_axtree")
_THOUGHTS: Final = ("reasoning", "think", "thought")
_CODE_BYTES: Final = 8192
_MAX_WAIT: Final = 86_400_000
_MAX_NUMBER: Final = 1 << 53

_SIGNATURES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "click": (words.CLICK, ("element", "button", "modifiers")),
    "dblclick": (words.DBLCLICK, ("element", "button", "modifiers")),
    "hover": (words.HOVER, ("element",)),
    "focus": (words.FOCUS, ("element",)),
    "fill": (words.FILL, ("element", "text")),
    "clear": ("clear", ("element",)),
    "press": (words.PRESS, ("element", "key")),
    "keyboard_press": (words.PRESS, ("key",)),
    "keyboard_type": (words.TYPE, ("text",)),
    "keyboard_insert_text": (words.TYPE, ("text",)),
    "select_option": (words.SELECT_OPTION, ("element", "options")),
    "check": (words.CHECK, ("element",)),
    "uncheck": (words.UNCHECK, ("element",)),
    "drag_and_drop": (words.DRAG, ("element", "onto")),
    "upload_file": (words.UPLOAD, ("element", "files")),
    "scroll": (words.SCROLL, ("dx", "dy")),
    "mouse_click": (words.CLICK, ("x", "y", "button")),
    "mouse_dblclick": (words.DBLCLICK, ("x", "y", "button")),
    "mouse_move": (words.HOVER, ("x", "y")),
    "goto": (words.GOTO, ("url",)),
    "go_back": (words.GO_BACK, ()),
    "go_forward": (words.GO_FORWARD, ()),
    "new_tab": (words.TAB_NEW, ()),
    "tab_focus": (words.TAB_SELECT, ("tab",)),
    "tab_close": (words.TAB_CLOSE, ()),
    "noop": (WAIT, ("ms",)),
    "send_msg_to_user": (MESSAGE, ("text",)),
    "report_infeasible": (COMPLETE, ("infeasible",)),
}
"""BrowserGym's calls: the name in the vocabulary, and the names of the positional arguments."""

_RENAMED: Final = {
    "bid": "element",
    "value": "text",
    "key_comb": "key",
    "wait_ms": "ms",
    "index": "tab",
    "from_bid": "element",
}


class BrowserGym(Connector):
    """Runs of BrowserGym and AgentLab."""

    name: ClassVar[str] = "browsergym"
    version: ClassVar[str] = "3"
    domains: ClassVar[tuple[str, ...]] = ("web",)
    title: ClassVar[str] = "BrowserGym and AgentLab runs (steps as JSON; pickles are refused)"
    companions = re.compile(
        r"experiment\.log|(?:screenshot_)[^/]*\.(?:png|jpe?g)|[^/]*\.(?:webm|mp4)|(?:step_\d{1,6}|exp_args|goal_object)\.pkl(?:\.gz)?"
        r"|package_versions\.txt"
    )

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if _PICKLE.fullmatch(uri) and head.startswith((b"\x80", b"\x1f\x8b")):
            return Sniff(0.9, "named as a pickle of a BrowserGym run, which is refused")
        if not head.lstrip().startswith(b"{"):
            return None
        if b'"cum_reward"' in head and b'"n_steps"' in head and b'"steps"' not in head:
            return Sniff(0.9, "the summary of a BrowserGym run: n_steps and cum_reward")
        if b'"steps"' in head and any(key in head for key in _TREES) and b'"action"' in head:
            return Sniff(0.8, "steps with an action and an accessibility tree")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        """Yield each folder with a `summary_info.json` and other files of the run."""
        folders: dict[str, list[str]] = {}
        for path in paths:
            folder, _, name = path.rpartition("/")
            if _OWN.fullmatch(name):
                folders.setdefault(folder, []).append(path)
        for folder, files in folders.items():
            prefix = len(folder) + 1 if folder else 0
            names = {path[prefix:]: path for path in sorted(files)}
            if _SUMMARY in names and len(names) > 1:
                yield Log(folder, names, _SUMMARY)

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        if blob.members == ("",):
            with blob.open() as stream:
                if stream.read(1) in (b"\x80", b"\x1f"):
                    raise ParseError(blob.uri, 0, "pickle", "Python pickles are never loaded")
        pickles = [name for name in blob.members if _PICKLE.fullmatch(name)]
        for name in pickles:
            yield Reject("record", "pickle", "Python pickles are never loaded", blob.uri, name, 0, self.name)
        document, steps = _steps_of(blob)
        moves, unread = _moves(steps, _numbers(steps))
        for number in unread:
            step, offset, member = steps[number]
            detail = f"the action of step {number} is not calls of names with constants"
            excerpt = str_of(step.get("action")).encode("utf-8", "replace")
            yield Reject.of(ParseError(blob.uri, offset, "no_action", detail, member, excerpt), connector=self.name)
        if not moves.steps:
            why = f"; {len(pickles)} pickles are not loaded" if pickles else ""
            raise ParseError(blob.uri, -1, "no_transitions", f"no step is written out as text{why}")
        if not moves.is_seen:
            detail = f"none of the {len(moves.steps)} actions has a page as text"
            raise ParseError(blob.uri, moves.steps[0].offset, "no_observation", detail, moves.steps[0].member)
        summary = {**document, **object_of(document.get("summary_info"))}
        first = steps[0][0]
        goal = next(
            (
                text
                for key in ("goal", "goal_text")
                for holder in (document, first)
                if (text := str_of(holder.get(key)))
            ),
            None,
        )
        yield Trajectory(
            native_id=str_of(document.get("trajectory_id")) or blob.uri.rstrip("/").rpartition("/")[2],
            domain="web",
            steps=moves.steps,
            environment=Environment(id=str_of(document.get("benchmark")) or None),
            agent=Agent(name=str_of(document.get("agent")) or None, model=str_of(document.get("model")) or None),
            task=Task(str_of(document.get("task_name")) or str_of(document.get("task_id")) or None, goal),
            outcome=_outcome(summary),
        )


def _steps_of(blob: Blob) -> tuple[dict[str, Any], list[tuple[dict[str, Any], int, str]]]:
    """Return the log's facts about the whole run and its steps, each with its offset and its file."""
    if blob.members == ("",):
        document, data = json_document(blob)
        steps = object_of(document).get("steps")
        listed = [_flat(step) for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
        hits = [hit.start() for hit in re.finditer(rb'\{\s*"(?:num|step|action)"\s*:', data)]
        offsets = hits if len(hits) == len(listed) else [0] * len(listed)
        return object_of(document), [(flat_step, offset, "") for flat_step, offset in zip(listed, offsets, strict=True)]
    summary = object_of(json_document(blob, _SUMMARY)[0]) if _SUMMARY in blob.members else {}
    named = sorted((int(hit[1]), name) for name in blob.members if (hit := _STEP.fullmatch(name)))
    return summary, [(_flat(object_of(json_document(blob, name)[0])), 0, name) for _, name in named]


def _flat(step: dict[str, Any]) -> dict[str, Any]:
    """Merge the fields of a step's parts (`obs`, `agent_info`) into the step; its own fields take precedence."""
    return {**object_of(step.get("obs")), **object_of(step.get("agent_info")), **step}


def _numbers(steps: Sequence[tuple[dict[str, Any], int, str]]) -> list[int]:
    """Return the number of each step: of its file, or as stated if all steps state one; else its position."""
    files = [_STEP.fullmatch(member) for _, _, member in steps]
    if all(files):
        return [int(match[1]) for match in files if match is not None]
    for key in ("num", "step", "step_num"):
        stated = [step.get(key) for step, _, _ in steps]
        numbers = [number for number in map(whole_number_of, stated) if number is not None]
        if len(numbers) == len(steps):
            return numbers
    return list(range(len(steps)))


def _moves(steps: Sequence[tuple[dict[str, Any], int, str]], numbers: Sequence[int]) -> tuple[Moves, list[int]]:
    """Return the calls, those of one step as one turn, and the indices of steps with an unreadable action.

    The page after a step is that of the step with the next number; null if the log does not hold it.
    """
    pages = [_page(step) for step, _, _ in steps]
    moves, unread = Moves(), list[int]()
    for number, (step, offset, member) in enumerate(steps):
        code = str_of(step.get("action"))
        calls = read_calls(code)
        if not calls:
            if code.strip():
                unread.append(number)
            continue
        thought = next((str_of(step.get(key)) for key in _THOUGHTS if str_of(step.get(key))), None)
        followed = number + 1 < len(steps) and numbers[number + 1] == numbers[number] + 1
        after = pages[number + 1] if followed else None
        for index, (name, arguments, original) in enumerate(calls):
            last = index == len(calls) - 1
            following_step = steps[number + 1][0] if last and followed else {}
            moves.add(
                _action(name, arguments, original, thought if index == 0 else None),
                pages[number],
                after if last else None,
                offset,
                member,
                calls=len(calls),
                reward=number_of(following_step.get("reward"), 1e9),
                terminated=_flag(following_step.get("terminated")),
                truncated=_flag(following_step.get("truncated")),
            )
    return moves, unread


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _page(step: dict[str, Any]) -> Observation | None:
    """Return the page of a step, with the error of the action before it; None if its tree is not there as text."""
    tree = next((str_of(step.get(key)) for key in _TREE_KEYS if str_of(step.get(key)).strip()), None)
    if tree is None:
        return None
    error = str_of(step.get("last_action_error"))
    content = f"{tree}\n\nError from previous action: {error}" if error else tree
    url = str_of(step.get("url")) or None
    return Observation(content, form="screen", dialect=DIALECT, is_error=bool(error), uri=url)


def _action(name: str, common: dict[str, Any], original: dict[str, Any], reasoning: str | None) -> Action:
    if name == MESSAGE:
        text = str_of(common.get("text"))
        return Action(MESSAGE, text, message=text, reasoning=reasoning)
    return act.call(name, common, original, reasoning)


def read_calls(code: str) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return (name, arguments of its text, original arguments) of each call in an action's code; empty if invalid.

    Only calls of a name with constant arguments are read. The code is parsed, never run.
    """
    if not code.strip() or len(code) > _CODE_BYTES:
        return []
    try:
        body = ast.parse(code.strip()).body
        calls = [(statement.value.func.id, _constants(statement.value)) for statement in body if _is_call(statement)]  # type: ignore[attr-defined]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [_name_arguments(word, *values) for word, values in calls] if len(calls) == len(body) else []


def _is_call(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
    )


def _constants(call: ast.Call) -> tuple[list[Any], dict[str, Any]]:
    keywords = {keyword.arg: _plain(ast.literal_eval(keyword.value)) for keyword in call.keywords if keyword.arg}
    return [_plain(ast.literal_eval(argument)) for argument in call.args], keywords


def _plain(value: Any) -> Any:
    """Convert a constant to a JSON value."""
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value if abs(value) < _MAX_NUMBER else repr(value)
    return value if value is None or isinstance(value, bool | str) else repr(value)


def _name_arguments(
    word: str, values: list[Any], keywords: dict[str, Any]
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    name, names = _SIGNATURES.get(word, (word, ()))
    common: dict[str, Any] = {}
    for number, value in enumerate(values):
        common[names[number] if number < len(names) else f"argument_{number}"] = value
    common |= {_RENAMED.get(key, key): value for key, value in keywords.items()}
    if name == WAIT:
        milliseconds = common.pop("ms", 1000)
        known = isinstance(milliseconds, int | float) and 0 <= milliseconds <= _MAX_WAIT
        common = {"seconds": milliseconds / 1000 if known else None}
    if name == words.SELECT_OPTION and not isinstance(common.get("options", []), list):
        common["options"] = [common["options"]]
    return name, common, {"call": word, "arguments": values, **keywords}


def _outcome(summary: dict[str, Any]) -> Outcome | None:
    """Return the reward of the benchmark, 1 for a solved task; None if there is none."""
    reward = summary.get("cum_reward")
    if not isinstance(reward, int | float) or isinstance(reward, bool) or abs(reward) > 1e9:
        return None
    resolved = True if reward >= 1 else False if reward <= 0 else None
    return Outcome(resolved=resolved, score=float(reward), verifier="benchmark")
