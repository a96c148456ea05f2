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
from megatron.core.datasets.indexed_dataset import IndexedDataset
from megatron.core.datasets.utils import Split

form, _, written, samples = sys.argv[1:]
SEQUENCE = 64

spec = importlib.util.spec_from_file_location("megatron_reader", f"{form}/megatron_reader.py")
reader = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reader)


def opened(prefix):
    dataset = IndexedDataset(prefix)  # its arrays are of memory that goes with it
    eod = int(dataset[0][-1])
    config = GPTDatasetConfig(
        random_seed=1,
        sequence_length=SEQUENCE,
        blend=([prefix], None),
        split="1,0,0",
        path_to_cache=tempfile.mkdtemp(),
        tokenizer=SimpleNamespace(eod=eod, pad=eod, vocab_size=1 << 20, unique_identifiers={"class": "test"}),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        mmap_bin_files=True,
    )
    kind = reader.masked(GPTDataset)
    indexed = kind.build_low_level_dataset(prefix, config)
    count = len(indexed.sequence_lengths)
    return kind(indexed, prefix, torch.arange(count).numpy().astype("int32"), None, Split.train, config), eod


with open(written, "w") as out:
    for path in sorted(Path(form, "cpt").rglob("*.idx")):
        if path.stem.endswith("_loss_mask"):
            continue
        rows, eod = opened(str(path)[: -len(".idx")])
        order = sorted(range(len(rows)), key=lambda number: rows.shuffle_index[number])
        ids, trained = rows[order[0]]["tokens"].tolist()[:1], [0]
        for number in order:  # sequences follow each other as they were cut; the last is dropped if it is not full
            ids += rows[number]["labels"].tolist()
            trained += [int(one) for one in rows[number]["loss_mask"].tolist()]
        ends = [at + 1 for at, one in enumerate(ids) if one == eod]
        for begin, end in list(pairwise([0, *ends]))[: int(samples)]:
            row = {"ids": ids[begin:end], "trained": trained[begin:end]}
            out.write(json.dumps({"domain": path.parent.name, **row}) + "\n")
