"""Reasons why a row or its trajectory was kept or dropped: every measured signal, with the rules that bound it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trajmill.pipelines.judge.reasons import (
    BRIDGES_POOLS,
    CONTAMINATED,
    DUPLICATE_TRAJECTORY,
    DUPLICATE_TRANSITION,
    EXCLUDED,
    HARNESS_SHARE,
    HARNESS_TEXT,
    MAX_PER_TASK,
    NEAR_DUPLICATE,
    NO_TARGET,
    NO_TEXT,
    REPLICATE,
    SIMULATED,
)
from trajmill.schemas.verdict import REASON_PREFIX, SIGNAL_PREFIX

COPIED: Final = (NEAR_DUPLICATE, DUPLICATE_TRAJECTORY)
"""Reasons by which a trajectory is dropped in favor of another."""

KEEPER: Final = r"trajectory ([0-9a-f]{16})"
"""Pattern of the kept trajectory in a detail: the beginning of its id."""

_WORDS: Final[Mapping[str, str]] = {
    BRIDGES_POOLS: "it joins groups that already have different pools",
    CONTAMINATED: "it shows an item of a benchmark, which the detail names",
    DUPLICATE_TRAJECTORY: "another trajectory has the same content and is kept",
    NEAR_DUPLICATE: "another trajectory that is kept holds nearly all of it",
    MAX_PER_TASK: "enough better trajectories of its task are kept",
    DUPLICATE_TRANSITION: "the same observation, action and answer are learnt elsewhere",
    REPLICATE: "enough rows with the same history and action bear the loss",
    HARNESS_TEXT: "its answer is text of the harness",
    HARNESS_SHARE: "too many of its answers are text of the harness",
    EXCLUDED: "the recipe includes other trajectories, or excludes it",
    SIMULATED: "a model wrote its answers",
    NO_TARGET: "no transition is left to learn from",
    NO_TEXT: "what followed holds no text",
    "unrecognized": "no connector reads the file",
    "misrecognized": "the file is of no format that it looks like",
    "truncated": "the log ends within a record",
    "other_domain": "the recipe takes other domains",
    "no_observation": "the log holds actions without what followed them",
    "no_transitions": "the log holds no action with an answer",
    "no_question": "the search has no question",
    "not_drawn": "the mixture had enough without it",
    "connector_error": "the connector failed on the log, which is a bug",
    "worker_died": "the process that read the log ended",
    "unsupported_version": "the log is of a version that is not read",
    "encrypted": "the archive is encrypted",
    "own_output": "trajmill wrote the file",
    "forgotten": "it was removed by `trajmill forget`",
    "left_out": "the recipe does not keep attachments",
    "no_input": "the recording holds output alone, without what was typed",
    "no_calls": "the agent called no tool",
    "action_only": "the log holds actions alone",
    "audio_only": "the run was spoken, and the log holds no text",
    "full_duplex": "both sides of the run spoke at once, so no answer has a call",
    "calls_in_text": "its calls are part of the text and are not told apart",
    "duplicate_step": "another step of the log has its number",
    "event_repeated": "another event of the log has its number",
    "harness_error": "the harness failed, not the environment",
    "run_error": "the run failed before its end",
    "lfs_pointer": "the file is a pointer of Git LFS, without the content",
    "not_an_object": "a line is no JSON object",
    "not_android": "the screen is not of Android",
    "not_utf8": "the text is not UTF-8",
    "one_direction": "the capture holds requests or responses alone",
    "rendered_text": "the log holds a rendered conversation instead of messages",
    "response_without_call": "the result answers no call",
    "result_without_call": "the result answers no call",
    "timing_mismatch": "the timing file is of another recording",
    "unreferenced_screen": "no action refers to the screen",
    "unstated_world_model": "the row does not name the world model that wrote it",
}
_PATTERNS: Final[Sequence[tuple[str, str]]] = (
    (r"max_share_(.+)", "enough has the same {}"),
    (r"bad_(.+)", "its {} is damaged, or not as the format has it"),
    (r"(?:no|empty)_(.+)", "it has no {}"),
    (r"(?:unknown|unsupported)_(.+)", "its {} is not known"),
    (r"(.+_)?too_.+", "it is beyond a limit of reading"),
    (r"missing_(.+)|(.+)_missing", "its {} is missing"),
)


def reason_words(reason: str, rules: Mapping[str, Mapping[str, Any]]) -> str:
    """Explain a reason in words. Reasons specific to one format are explained by the details of their rejects."""
    rule = rules.get(reason)
    if rule is not None:
        ends = [
            f"{word} {rule[name]:g}"
            for name, word in (("min", "below"), ("max", "above"))
            if rule.get(name) is not None
        ]
        return f"the signal {rule.get('signal')} is {' or '.join(ends)}"
    for pattern, words in _PATTERNS:
        if reason not in _WORDS and (met := re.fullmatch(pattern, reason)):
            return words.format((met[met.lastindex or 0]).replace("_", " "))
    return _WORDS.get(reason, "the detail of each reject says why")


@dataclass(frozen=True, slots=True)
class Bound:
    """Signal of a row, and a rule on it.

    Attributes:
        rule: Name of the rule; empty if no rule uses the signal.
        least: Smallest value that passes; None: no bound.
        most: Largest value that passes; None: no bound.
        use: Use of a transition that does not pass; empty for the rule's default.
        cap: Largest share of targets for transitions that do not pass; None: no cap.
        passes: True if the value is within the bounds.
        speaks: True if this rule is the row's reason.
        said: The signal's own explanation of its value, if any.
    """

    rule: str
    signal: str
    value: float
    least: float | None = None
    most: float | None = None
    use: str = ""
    cap: float | None = None
    passes: bool = True
    speaks: bool = False
    said: str | None = None


def bounds(verdict: Mapping[str, Any], rules: Mapping[str, Mapping[str, Any]], domain: str) -> list[Bound]:
    """List all signals of a verdict with their rules: the deciding ones first, then those that do not pass, then the
    rest.

    Args:
        verdict: of a row, as `Rows.verdict` gives it.
        rules: name → `signal`, `min`, `max`, `use` and so on, as the record of a run has them in `judge.rules`.
    """
    bounded, signals = [], signals_of(verdict)
    for name, rule in rules.items():
        if rule.get("signal") in signals and domain in (rule.get("domains") or (domain,)):
            value, text = signals[rule["signal"]]
            least, most, number = rule.get("min"), rule.get("max"), round(float(value), 6)
            passes = (least is None or number >= least) and (most is None or number <= most)
            speaks = verdict.get("reason") == name
            use = rule.get("use") or ""
            bounded.append(Bound(name, rule["signal"], value, least, most, use, rule.get("cap"), passes, speaks, text))
    bound = {entry.signal for entry in bounded}
    bounded += [Bound("", name, value, said=text) for name, (value, text) in signals.items() if name not in bound]
    return sorted(bounded, key=lambda entry: (not entry.speaks, entry.passes, not entry.rule, entry.signal))


def rules_of(recipe: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rules of a recorded recipe, without those set to null."""
    rules = recipe.get("judge", {}).get("rules", {})
    return {name: rule for name, rule in rules.items() if isinstance(rule, dict)}


def signals_of(verdict: Mapping[str, Any]) -> dict[str, tuple[float, str | None]]:
    """Map each signal to its number in a verdict, and to its explanation if it has one."""
    return {
        name.removeprefix(SIGNAL_PREFIX): (value, verdict.get(REASON_PREFIX + name.removeprefix(SIGNAL_PREFIX)))
        for name, value in verdict.items()
        if name.startswith(SIGNAL_PREFIX)
    }
