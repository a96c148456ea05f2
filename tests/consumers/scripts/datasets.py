"""Reads token ids with `datasets`."""

import json
import sys
from collections import Counter
from pathlib import Path

import datasets

form, _, written, samples = sys.argv[1:]
told = json.loads(Path(form, "interleave.sft.json").read_text())
seen = Counter()
with open(written, "w") as out:
    for domain, files in told["data_files"].items():
        rows = datasets.load_dataset(told["format"], data_files=[f"{form}/{name}" for name in files], split="train")
        for row in rows:
            seen[domain] += 1
            if seen[domain] <= int(samples):
                trained = [int(label != -100) for label in row["labels"]]
                out.write(json.dumps({"domain": domain, "ids": row["input_ids"], "trained": trained}) + "\n")
