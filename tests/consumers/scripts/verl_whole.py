"""Reads conversations as verl's SFT trainer does, by its own dataset class."""

import json
import os
import sys
from collections import Counter
from pathlib import Path

import yaml
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

form, tokenizer, written, samples = sys.argv[1:]
os.chdir(form)
config = OmegaConf.create(yaml.safe_load(Path("verl.yaml").read_text())).data
config.pad_mode = "no_padding"
opened = AutoTokenizer.from_pretrained(tokenizer)
seen = Counter()
with open(written, "w") as out:
    for name in config.train_files:
        domain = name.split("/")[1]
        rows = MultiTurnSFTDataset(parquet_files=[name], tokenizer=opened, config=config)
        for number in range(len(rows)):
            seen[domain] += 1
            if seen[domain] <= int(samples):
                row = rows[number]
                told = {"ids": row["input_ids"].tolist(), "trained": row["loss_mask"].tolist()}
                out.write(json.dumps({"domain": domain, **told}) + "\n")
