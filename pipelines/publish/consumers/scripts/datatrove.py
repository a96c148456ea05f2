"""Tokenizes JSON Lines with datatrove, which is told the ranges without loss."""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer

form, tokenizer, written, samples = sys.argv[1:]
with open(written, "w") as out:
    for folder in sorted(Path(form, "cpt").iterdir()):
        with tempfile.TemporaryDirectory() as made:
            reader = JsonlReader(str(folder), glob_pattern="*.jsonl.zst", limit=int(samples))
            step = DocumentTokenizer(
                made,
                tokenizer_name_or_path=f"{tokenizer}/tokenizer.json",
                eos_token="<|endoftext|>",  # noqa: S106 - no password
                shuffle_documents=False,
                save_loss_metadata=True,
            )
            for _ in step.run(reader.run(rank=0, world_size=1), rank=0, world_size=1) or ():
                pass
            (path,) = Path(made).rglob("*.ds")
            ids, trained = np.fromfile(path, np.uint16), np.fromfile(f"{path}.loss", np.uint8)
            begin = 0
            for end in np.fromfile(f"{path}.index", np.uint64).tolist():
                row = {"ids": ids[begin:end].tolist(), "trained": trained[begin:end].tolist()}
                out.write(json.dumps({"domain": folder.name, **row}) + "\n")
                begin = end
