"""What an RL trainer reads of our rows, and what the reward tells it: the truth is worth 1, an empty answer 0."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trajmill.pipelines.publish.forms.stored_samples import StoredShards


@dataclass(slots=True)
class Rewarded:
    """What a consumer makes of a domain's rows.

    Attributes:
        rows: that it read and that are ours.
        checked: of these, whose turn has checks.
        prompts: of these, whose prompt it gives as it was written.
        truths: of these, whose truth earned 1.
        empties: of these, whose empty answer earned 0, or was the truth and earned 1.
        others: rows that it gave and that are not ours.
        left_out: rows of ours that it did not give.
        longest: tokens of the longest prompt.
        answers: generated in training, each scored by the reward with all that its row holds.
    """

    rows: int = 0
    checked: int = 0
    prompts: int = 0
    truths: int = 0
    empties: int = 0
    others: int = 0
    left_out: int = 0
    longest: int = 0
    answers: int = 0

    @property
    def is_good(self) -> bool:
        """Whether all rows came as they were written and are worth what they should be."""
        same = self.prompts == self.truths == self.empties == self.rows
        return bool(self.rows) and same and not self.others and not self.left_out


def rewarded(path: str, reports: Iterable[Mapping[str, Any]], most: int) -> dict[str, Rewarded]:
    """What a consumer told of its rows, held against the shards.

    Args:
        path: the run's folder.
        told: of each row `domain`, `id`, `prompt`, `tokens` of it, the scores `truth` and `empty`, and of a consumer
            that trains, how many `answers` were scored.
        most: rows that it was to give of a domain at most.
    """
    shards, results, ours = StoredShards(path), dict[str, Rewarded](), dict[str, dict[str, Any]]()
    for file in shards.files("rl"):
        result = results.setdefault(file.domain, Rewarded())
        for row in shards.rows(file, ("prompt", "reward_model", "extra_info")):
            ours[row["extra_info"]["id"]] = row
            result.left_out += result.left_out < most
    for report in reports:
        result, row = results.setdefault(report["domain"], Rewarded()), ours.pop(report["id"], {})
        if not row:
            result.others += 1
            continue
        truth = json.loads(row["reward_model"]["ground_truth"])
        result.rows += 1
        result.left_out -= 1
        result.checked += bool(truth["checks"])
        result.prompts += report["prompt"] == row["prompt"]
        result.truths += report["truth"] == 1
        result.empties += report["empty"] == (0 if truth["observation"].strip() else 1)
        result.longest = max(result.longest, report["tokens"])
        result.answers += report.get("answers", 0)
    return results
