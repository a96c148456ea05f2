"""Prepare a training set as axolotl does, of token ids, with the arguments that lie beside it."""

import json
import os
import sys
import tempfile
from pathlib import Path

import yaml
from axolotl.utils.config import validate_config
from axolotl.utils.data.sft import _load_raw_datasets
from axolotl.utils.dict import DictDefault
from transformers import AutoTokenizer


def main(form, tokenizer, written, _):
    os.chdir(form)
    values = {"sequence_len": 1 << 18} | yaml.safe_load(Path("axolotl.yaml").read_text())
    more = {"base_model": tokenizer, "base_model_config": tokenizer, "dataset_prepared_path": tempfile.mkdtemp()}
    more |= {"micro_batch_size": 1, "gradient_accumulation_steps": 1, "num_epochs": 1, "learning_rate": 1e-5}
    settings = validate_config(DictDefault({**values, **more, "seed": 1, "dataset_num_proc": 1}))
    rows, _ = _load_raw_datasets(settings, settings.datasets, AutoTokenizer.from_pretrained(tokenizer), "train")
    with open(written, "w") as out:
        for row in rows:
            trained = [int(label != -100) for label in row["labels"]]
            out.write(json.dumps({"domain": row.get("domain"), "ids": row["input_ids"], "trained": trained}) + "\n")


if __name__ == "__main__":  # axolotl starts processes that import this again
    main(*sys.argv[1:])
