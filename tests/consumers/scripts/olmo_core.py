"""Reads raw token files with label masks through OLMo-core's numpy dataset."""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import yaml
from olmo_core.data import NumpyFSLDataset

form, _, written, samples = sys.argv[1:]
SEQUENCE = 64

told = yaml.safe_load(Path(form, "dataset.yaml").read_text())
seen = Counter()
with open(written, "w") as out:
    for path, mask in zip(told["paths"], told["label_mask_paths"], strict=True):
        domain = path.split("/")[1]
        rows = NumpyFSLDataset(
            f"{form}/{path}",
            sequence_length=SEQUENCE,
            pad_token_id=told["pad_token_id"],
            eos_token_id=told["eos_token_id"],
            vocab_size=told["vocab_size"],
            dtype=getattr(np, told["dtype"]),
            label_mask_paths=[f"{form}/{mask}"],
        )
        rows.work_dir = tempfile.mkdtemp()
        rows.prepare()
        ids, trained = [], []
        for number in range(len(rows)):
            ids += rows[number]["input_ids"].tolist()
            trained += [int(one) for one in rows[number]["label_mask"].tolist()]
        begin = 0
        for at, one in enumerate(ids):  # whole documents; the last sequence is dropped if it is not full
            if one == told["eos_token_id"]:
                seen[domain] += 1
                if seen[domain] <= int(samples):
                    row = {"ids": ids[begin : at + 1], "trained": trained[begin : at + 1]}
                    out.write(json.dumps({"domain": domain, **row}) + "\n")
                begin = at + 1
