"""Reads conversations through LLaMA-Factory's own loader, with the arguments that lie beside them."""

import json
import os
import sys
import tempfile
from pathlib import Path

import yaml
from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
from llamafactory.hparams import get_train_args
from transformers import AutoTokenizer

form, tokenizer, written, _ = sys.argv[1:]
os.chdir(form)
told = yaml.safe_load(Path("llamafactory.yaml").read_text())
more = {"model_name_or_path": tokenizer, "template": "qwen", "output_dir": tempfile.mkdtemp(), "do_train": True}
more |= {"report_to": "none", "use_cpu": True, "bf16": False, "finetuning_type": "full", "cutoff_len": 1 << 18}
more |= {"mix_strategy": "concat", "interleave_probs": None}  # all rows once
model, data, training, *_ = get_train_args({**told, **more})
opened = AutoTokenizer.from_pretrained(tokenizer)
template = get_template_and_fix_tokenizer(opened, data)
rows = get_dataset(template, model, data, training, stage="sft", tokenizer=opened)["train_dataset"]
with open(written, "w") as out:
    for row in rows:
        trained = [int(label != -100) for label in row["labels"]]
        out.write(json.dumps({"ids": row["input_ids"], "trained": trained}) + "\n")
