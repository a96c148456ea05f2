"""Reads the token ids of agents' conversations as verl's SFT trainer does, by the dataset class of the form `ids`."""

import json
import sys

import pyarrow.parquet as pq
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl.utils.import_utils import load_extern_object

form, tokenizer, written, module = sys.argv[1:]
path = f"{form}/train.parquet"
kind = load_extern_object(module, "TokenIdDataset")
config = OmegaConf.create({"pad_mode": "no_padding", "truncation": "error", "max_length": 1 << 20})
rows = kind(parquet_files=[path], tokenizer=AutoTokenizer.from_pretrained(tokenizer), config=config)
with open(written, "w") as out:
    for number, name in enumerate(pq.read_table(path, columns=["id"])["id"].to_pylist()):
        row = rows[number]
        encoded = {"ids": row["input_ids"].tolist(), "trained": row["loss_mask"].tolist()}
        out.write(json.dumps({"id": name, **encoded}) + "\n")
