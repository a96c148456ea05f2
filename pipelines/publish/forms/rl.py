"""Form `rl`: the shards of RL unchanged, with the reward beside them and the configurations of verl and TRL."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from trajmill.pipelines.mix import reward
from trajmill.pipelines.publish.forms import mixes
from trajmill.pipelines.publish.forms.job import Job

REWARD: Final = "reward.py"
PROMPT_TOKENS: Final = 131_072
"""Largest number of tokens of a prompt. Without it, trainers take 1,024."""

_README: Final = """\
# Rows for RL

`rl/<domain>` holds the shards as they are: `prompt` (messages), `reward_model.ground_truth`, `extra_info`. `reward.py`
scores answers by rules, or with a judge; it needs `google-re2`.

| trainer | rows | reward |
|---|---|---|
| verl | `verl.yaml`: `data.train_files` | its `reward.custom_reward_function`: `compute_score` of `reward.py` |
| TRL | `interleave.rl.json`, by `datasets` | `GRPOTrainer(reward_funcs=reward.reward)` |

`extra_info.max_response_tokens` bounds the answer of a row; verl's `max_response_length` here is the largest of them.
"""


def write(job: Job) -> None:
    """Write `rl`, one file per shard."""
    longest = 0
    for file in job.shards.files("rl"):
        with job.out.writing(file.name) as output, Path(output.path).open("wb") as sink:
            with job.shards.folder.open(file.name) as source:
                shutil.copyfileobj(source, sink)
            sink.flush()
            for row in job.shards.rows(file, ("extra_info",)):
                output.rows += 1
                longest = max(longest, row["extra_info"]["max_response_tokens"] or 0)
        job.out.counts[f"samples.{file.domain}"] += output.rows
    job.out.write(REWARD, Path(reward.__file__).read_bytes())
    job.write_yaml("verl.yaml", _verl(job, longest), "For verl's RL trainers, started in this folder.")
    mixes.interleave(job, "rl")
    job.out.write("README.md", _README)


def _verl(job: Job, longest: int) -> dict[str, object]:
    return {
        "data": {
            "train_files": job.out.names(".parquet"),
            "prompt_key": "prompt",
            "max_prompt_length": PROMPT_TOKENS,
            "max_response_length": longest,
            "filter_overlong_prompts": True,
            "truncation": "error",
        },
        "reward": {"custom_reward_function": {"path": REWARD, "name": "compute_score"}},
    }
