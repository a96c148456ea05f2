"""Valid checks of an answer: conditions on a prediction that its text alone decides.

A check is valid if it passes on the truth, and on the truth with other words in its volatile spans, and fails on the
empty answer, the echoed action, other answers of the same tool, the previous observation, and the truth with the
checked part changed. A condition that fewer than two other answers contradict is not used, since nothing shows that it
discriminates. Together, all checks of a turn must reject each available other answer, or the turn has no checks.

`reward` runs checks, and `check_candidates` proposes them. This module tries them and writes the ground truth.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Any, Final

import xxhash

from trajmill.pipelines.mix import reward
from trajmill.pipelines.mix.check_candidates import COUNTED, LAST, candidates
from trajmill.pipelines.recipe.templates import rubric
from trajmill.pipelines.render.answered import Answered, Known
from trajmill.schemas import json_text

MOST: Final = 6
"""Largest number of checks of a turn."""

MOST_OF_A_TYPE: Final = 3
TRIED: Final = 5
"""Number of other answers with a different checked value that a check must reject."""

LEAST: Final = 2
"""Smallest number of such answers."""

NO_CHANGE_SHARE: Final = 0.05
CHECKED_WEIGHT: Final = 4.0
_WHOLE: Final = ("exact", "no_change")
"""Types of checks that ask for the whole answer, so that further checks add nothing."""

_LONGEST: Final = 60_000
"""Largest length of an answer for which checks are sought, in characters."""

_DIGITS, _SMALL, _LARGE = "0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def checks_of(turn: Answered, known: Known, other_answers: Sequence[str]) -> list[dict[str, Any]]:
    """Return the valid checks of a turn; empty if together they would accept another answer of the tool.

    Args:
        known: texts that its trajectory showed before, without this turn.
        other_answers: other answers of the tool (`Distractors.of`), in an order that does not depend on that of the
            rows.
    """
    if not turn.observation.strip() or len(turn.observation) > _LONGEST or len(other_answers) < LEAST:
        return []
    mine = _hash_lines(turn.observation, turn.form)
    different = tuple([answer for answer in other_answers if _hash_lines(answer, turn.form) != mine])
    if len(different) < LEAST:
        return []
    if reward.prediction(f"{reward.MARKER}\n{turn.observation}") != reward.prediction(turn.observation):
        return []
    truth = _truth(turn)
    checks: list[dict[str, Any]] = []
    for check in candidates(turn, known, different):
        if len(checks) == MOST:
            break
        if sum(accepted["type"] == check["type"] for accepted in checks) == MOST_OF_A_TYPE:
            if check["type"] == LAST:
                break
            continue
        if stands(check, turn, truth, different):
            checks.append(check)
        if checks and check["type"] in _WHOLE:
            break
    if all(check.get("pattern") in COUNTED for check in checks):
        return []
    refused = (any(not reward.passes(check, answer, truth) for check in checks) for answer in different)
    return checks if all(refused) else []


@lru_cache(maxsize=1 << 12)
def _hash_lines(text: str, form: str) -> int:
    """Hash the compared lines of a text. Texts with equal hashes are the same (`reward.same`)."""
    return xxhash.xxh3_64_intdigest("\n".join(reward.lines_of(text, form)).encode("utf-8", "replace"))


def stands(check: Mapping[str, Any], turn: Answered, truth: Mapping[str, Any], other_answers: Sequence[str]) -> bool:
    """Return True if a check separates the truth from wrong answers.

    Args:
        other_answers: other answers of the tool, all different from the turn's.
    """
    observation = reward.prediction(turn.observation) or ""
    truths = [observation, *(resample_volatile(turn, number) for number in range(2) if turn.volatile)]
    if not all(reward.passes(check, text, truth) for text in truths):
        return False
    value = reward.value_in(check, observation, truth)
    differing = list(
        islice((answer for answer in other_answers if reward.value_in(check, answer, truth) != value), TRIED)
    )
    if len(differing) < LEAST:
        return False
    false = ["", *echoes(turn), *differing, mutate_target(check, observation, turn.form)]
    if check["type"] != "no_change":
        false.append(turn.previous or "")
    return not any(reward.passes(check, text, truth) for text in false)


def echoes(turn: Answered) -> list[str]:
    """Return the action in the forms of an answer: as shown, its arguments, and each argument."""
    return [turn.action, turn.arguments or "", "\n".join(turn.values), *turn.values[:8]]


def resample_volatile(turn: Answered, number: int) -> str:
    """Return the observation with other letters and digits in its volatile spans.

    `number` selects one of several results.
    """
    letters = list(turn.observation)
    draw = random.Random(xxhash.xxh3_64_intdigest(turn.key.encode(), number))  # noqa: S311
    for begin, end in turn.volatile:
        for position in range(begin, min(end, len(letters))):
            letters[position] = _another(letters[position], draw.randrange(1, 9))
    return "".join(letters)


def _another(letter: str, step: int) -> str:
    for row in (_DIGITS, _SMALL, _LARGE):
        if letter in row:
            return row[(row.index(letter) + step) % len(row)]
    return letter


def mutate_target(check: Mapping[str, Any], text: str, form: str) -> str:
    """Return the text with each letter and digit of the checked part changed, wherever it occurs."""
    kind = check["type"]
    if kind in ("exact", "no_change"):
        targets = [line for line in text.split("\n") if re.search(r"[^\W_]", line)][:1]
    elif kind == "contains":
        targets = [line for line in text.split("\n") if reward.lines_of(line, form) == (check["line"],)]
    elif kind == "read_what_was_written":
        targets = check["lines"][:1]
    elif kind == "exit_code":
        return re.sub(r"-?\d+", lambda match: str(int(match[0][-6:]) + 1), text)
    elif kind in ("json_path", "numeric"):
        return _mutate_value(check, text)
    else:
        value = check["value"]
        targets = [value] if isinstance(value, str) else value[:1]
    for target in targets:
        changed = "".join(_another(letter, 1) for letter in target)
        text = text.replace(target, changed if changed != target else f"{target}x")
    return text


def _mutate_value(check: Mapping[str, Any], text: str) -> str:
    """Return the text with another value at a path, or with every digit changed if the check has no path."""
    value = check["value"]
    if "path" not in check:
        return re.sub(r"\d", lambda match: str((int(match[0]) + 5) % 10), text)
    document = reward.document_in(text)
    steps = [
        step_match[1] if step_match[2] is None else int(step_match[2])
        for step_match in re.finditer(r"\['([^']*)'\]|\[(\d+)\]", check["path"])
    ]
    if check.get("of") == "length" or not steps:
        return "[]"
    holder = document
    for step in steps[:-1]:
        holder = holder[step]
    if isinstance(value, bool):
        holder[steps[-1]] = not value
    else:
        holder[steps[-1]] = value * 2 + 1 if isinstance(value, int | float) else f"{value}x"
    return json.dumps(document, ensure_ascii=False)


# Ground truth


def _truth(turn: Answered) -> dict[str, Any]:
    shows_all = turn.form in reward.STATES
    return {
        "v": reward.VERSION,
        "domain": turn.domain,
        "form": turn.form,
        "observation": turn.observation,
        "previous": turn.previous if shows_all else None,
        "volatile": [list(span) for span in turn.volatile],
        "spans": [list(span) for span in turn.spans],
        "checks": [],
        "rubric": None,
        "exact": False,
    }


def ground_truth(turn: Answered, checks: Sequence[Mapping[str, Any]], judged_by: tuple[str, str] | None = None) -> str:
    """Write the ground truth of a reward as one JSON text (version 3).

    `exact` means that the answer follows exactly from known facts, as a check asks for it. `previous` is set where the
    turn shows a state, since it identifies the changed lines.

    Args:
        judged_by: id and sha256 of the rubric (`rubric_id`).
    """
    truth = _truth(turn) | {
        "checks": [dict(check) for check in checks],
        "rubric": {"id": judged_by[0], "sha256": judged_by[1]} if judged_by else None,
        "exact": any(check["type"] == "exact" for check in checks),
    }
    return json_text(truth)


@cache
def rubric_id() -> tuple[str, str]:
    """Return (id, sha256) of the rubric that comes with trajmill, `configs/rubrics/observation.md`."""
    return "trajmill/observation", hashlib.sha256(rubric("observation").encode()).hexdigest()


# Choice of turns


def keeps_no_change(key: str, seed: int) -> bool:
    """Return True if a turn without change may be asked for: 5 % of them, by hash."""
    return xxhash.xxh3_64_intdigest(f"no_change:{key}".encode(), seed) < NO_CHANGE_SHARE * 2**64


def weight(turn: Answered, checks: Sequence[Mapping[str, Any]], seed: int = 0) -> float:
    """Weigh the chance of a turn to be drawn: 4 with a check, 1 without, 0 where rules cannot recognize a right answer.

    The weight is 0 for an empty answer, and for an unchanged state unless `keeps_no_change` admits it.
    """
    if not turn.observation.strip():
        return 0.0
    if any(check["type"] == "no_change" for check in checks):
        return CHECKED_WEIGHT if keeps_no_change(turn.key, seed) else 0.0
    if checks:
        return CHECKED_WEIGHT
    if turn.form in reward.STATES and reward.same(turn.observation, turn.previous or "", turn.form):
        return 0.0
    return 1.0


def choose_considered(keys: Iterable[str], seed: int, most: int = 8) -> set[str]:
    """Choose the turns of a trajectory from which one is drawn by its checks: all, or those of smallest hashes."""
    return set(sorted(keys, key=lambda key: xxhash.xxh3_64_intdigest(f"looked_at:{key}".encode(), seed))[:most])


def draw_key(keys: Iterable[str], weigh: Callable[[str], float], seed: int) -> str | None:
    """Draw one key with a chance by its weight, independent of the order of keys; None if all weights are 0.

    The result minimizes -log(u) / weight, where u is a hash of the key (Efraimidis and Spirakis 2006). Keys are weighed
    in the order of u, and only as long as one could still be the minimum.

    Args:
        weigh: the weight of a key, `CHECKED_WEIGHT` at most.
    """
    best: tuple[float, str] | None = None
    lots = {key: (xxhash.xxh3_64_intdigest(f"turn:{key}".encode(), seed) + 1) / (2**64 + 1) for key in keys}
    for key, share in sorted(lots.items(), key=lambda lot: (-lot[1], lot[0])):
        if best is not None and best[0] < -math.log(share) / CHECKED_WEIGHT:
            break
        key_weight = weigh(key)
        if key_weight > 0:
            best = min(best or (math.inf, ""), (-math.log(share) / key_weight, key))
    return best[1] if best else None
