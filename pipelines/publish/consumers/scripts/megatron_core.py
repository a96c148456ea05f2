"""Reads indexed datasets with Megatron's own GPTDataset, the mask by the module that lies beside them."""

import importlib.util
import json
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import torch
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.utils import Split

form, tokenizer, written, samples = sys.argv[1:]
SEQUENCE = 1_024

spec = importlib.util.spec_from_file_location("megatron_reader", f"{form}/megatron_reader.py")
reader = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reader)
vocabulary = json.loads(Path(tokenizer, "tokenizer.json").read_text("utf-8"))
eod = next(token["id"] for token in vocabulary["added_tokens"] if token["content"] == "<|endoftext|>")


def opened(prefix):
    config = GPTDatasetConfig(
        random_seed=1,
        sequence_length=SEQUENCE,
        blend=([prefix], None),
        split="1,0,0",
        path_to_cache=tempfile.mkdtemp(),
        tokenizer=SimpleNamespace(
            eod=eod, pad=eod, vocab_size=len(vocabulary["model"]["vocab"]) + 64, unique_identifiers={"class": "test"}
        ),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        mmap_bin_files=True,
    )
    kind = reader.masked(GPTDataset)
    indexed = kind.build_low_level_dataset(prefix, config)
    count = len(indexed.sequence_lengths)
    return kind(indexed, prefix, torch.arange(count).numpy().astype("int32"), None, Split.train, config)


with open(written, "w") as out:
    for path in sorted(Path(form, "cpt").rglob("*.idx")):
        if path.stem.endswith("_loss_mask"):
            continue
        rows, given = opened(str(path)[: -len(".idx")]), 0
        for number in range(len(rows)):
            row = rows[number]
            ids = [*row["tokens"].tolist()[:1], *row["labels"].tolist()]
            trained = [0, *(int(one) for one in row["loss_mask"].tolist())]
            ends = [at + 1 for at, one in enumerate(ids) if one == eod]
            for begin, end in pairwise(ends):  # whole documents of a sequence
                given += 1
                if given <= int(samples):
                    told = {"ids": ids[begin:end], "trained": trained[begin:end]}
                    out.write(json.dumps({"domain": path.parent.name, **told}) + "\n")
