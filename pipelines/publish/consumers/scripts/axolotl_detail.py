"""Tokenizes conversations with axolotl's own chat_template strategy, with the arguments that lie beside them."""

import json
import sys
from collections import Counter
from pathlib import Path

import datasets
import yaml
from axolotl.prompt_strategies.chat_template import load
from axolotl.utils.dict import DictDefault
from transformers import AutoTokenizer

form, tokenizer, written, samples = sys.argv[1:]
told = yaml.safe_load(Path(form, "axolotl.yaml").read_text())
opened = AutoTokenizer.from_pretrained(tokenizer)
settings = DictDefault({"train_on_inputs": told["train_on_inputs"], "sequence_len": 1 << 18, "chat_template": None})
(data,) = told["datasets"]
strategy = load(opened, settings, DictDefault(data))
seen = Counter()
with open(written, "w") as out:
    for name in data["data_files"]:
        domain = name.split("/")[1]
        for row in datasets.load_dataset("parquet", data_files=[f"{form}/{name}"], split="train"):
            seen[domain] += 1
            if seen[domain] <= int(samples):
                made = strategy.tokenize_prompt(row)
                trained = [int(label != -100) for label in made["labels"]]
                out.write(json.dumps({"domain": domain, "ids": list(made["input_ids"]), "trained": trained}) + "\n")
