"""Reads RL rows with verl's RLHFDataset and scores answers by the reward function that its configuration names."""

import json
import os
import sys
from collections import Counter
from pathlib import Path

import yaml
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.utils.dataset.rl_dataset import RLHFDataset

form, tokenizer, written, samples = sys.argv[1:]
os.chdir(form)
config = OmegaConf.create(yaml.safe_load(Path("verl.yaml").read_text()))
config.data.cache_dir = f"{os.environ['HF_HOME']}/rlhf"
opened = AutoTokenizer.from_pretrained(tokenizer)
score = get_custom_reward_fn(config)


def scored(row, answer):
    values = {"data_source": row["data_source"], "ground_truth": row["reward_model"]["ground_truth"]}
    more = {**row["extra_info"], "num_turns": None, "rollout_reward_scores": {}}
    return score(solution_str=answer, extra_info=more, **values)["score"]


seen = Counter()
with open(written, "w") as out:
    rows = RLHFDataset(list(config.data.train_files), opened, config.data)
    for number in range(len(rows)):
        row = rows[number]
        domain = row["extra_info"]["domain"]
        seen[domain] += 1
        if seen[domain] > int(samples):
            continue
        truth = json.loads(row["reward_model"]["ground_truth"])["observation"]
        ids = opened.apply_chat_template(row["raw_prompt"], add_generation_prompt=True, return_dict=False)
        made = {"domain": domain, "id": row["extra_info"]["id"], "prompt": row["raw_prompt"], "tokens": len(ids)}
        made |= {"truth": scored(row, truth), "empty": scored(row, "")}
        out.write(json.dumps(made) + "\n")
