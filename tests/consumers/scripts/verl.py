"""Reads token ids as verl's SFT trainer does, by the dataset class that its configuration names."""

import json
import sys
from collections import Counter
from pathlib import Path

import yaml
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl.utils.import_utils import load_extern_object

form, tokenizer, written, samples = sys.argv[1:]
config = OmegaConf.create(yaml.safe_load(Path(form, "verl.yaml").read_text())).data
opened = AutoTokenizer.from_pretrained(tokenizer)
kind = load_extern_object(f"{form}/{config.custom_cls.path}", config.custom_cls.name)
seen = Counter()
with open(written, "w") as out:
    for name in config.train_files:
        domain = name.split("/")[1]
        rows = kind(parquet_files=[f"{form}/{name}"], tokenizer=opened, config=config, processor=None, max_samples=-1)
        for number in range(len(rows)):
            seen[domain] += 1
            if seen[domain] <= int(samples):
                row = rows[number]
                told = {"ids": row["input_ids"].tolist(), "trained": row["loss_mask"].tolist()}
                out.write(json.dumps({"domain": domain, **told}) + "\n")
