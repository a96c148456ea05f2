"""Reads MDS shards with mosaicml-streaming."""

import json
import sys
from pathlib import Path

from streaming import LocalDataset

form, _, written, samples = sys.argv[1:]
with open(written, "w") as out:
    for folder in sorted(Path(form, "cpt").iterdir()):
        rows = LocalDataset(local=str(folder))
        for number in range(min(len(rows), int(samples))):
            row = rows[number]
            told = {"ids": row["input_ids"].tolist(), "trained": row["loss_mask"].tolist()}
            out.write(json.dumps({"domain": folder.name, **told}) + "\n")
