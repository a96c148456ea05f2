"""Tokenizes JSON Lines with datatrove, which is told the ranges without loss."""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import yaml
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer

form, tokenizer, written, samples = sys.argv[1:]
told = yaml.safe_load(Path(form, "datatrove.yaml").read_text())
with open(written, "w") as out:
    for folder in sorted(Path(form, "cpt").iterdir()):
        with tempfile.TemporaryDirectory() as made:
            reader = JsonlReader(str(folder), glob_pattern="*.jsonl.zst", limit=int(samples))
            step = DocumentTokenizer(
                made,
                tokenizer_name_or_path=f"{tokenizer}/tokenizer.json",
                shuffle_documents=False,
                **told,
            )
            for _ in step.run(reader.run(rank=0, world_size=1), rank=0, world_size=1) or ():
                pass
            (path,) = Path(made).rglob("*.ds")
            width = Path(f"{path}.metadata").read_text().split("\n")[0].rpartition("|")[2]
            ids, trained = np.fromfile(path, f"<u{width}"), np.fromfile(f"{path}.loss", np.uint8)
            begin = 0
            for end in np.fromfile(f"{path}.index", np.uint64).tolist():
                row = {"ids": ids[begin:end].tolist(), "trained": trained[begin:end].tolist()}
                out.write(json.dumps({"domain": folder.name, **row}) + "\n")
                begin = end
