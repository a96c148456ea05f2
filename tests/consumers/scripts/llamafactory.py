"""Reads packs through LLaMA-Factory's own loader, with the arguments that lie beside them."""

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
more |= {"report_to": "none", "use_cpu": True, "bf16": False, "finetuning_type": "full"}
model, data, training, *_ = get_train_args({**told, **more})
opened = AutoTokenizer.from_pretrained(tokenizer)
template = get_template_and_fix_tokenizer(opened, data)
rows = get_dataset(template, model, data, training, stage="sft", tokenizer=opened)["train_dataset"]
with open(written, "w") as out:
    for row in rows:
        for pack in range(1, max(row["attention_mask"]) + 1):
            at = [place for place, one in enumerate(row["attention_mask"]) if one == pack]
            ids, trained = [row["input_ids"][one] for one in at], [int(row["labels"][one] != -100) for one in at]
            out.write(json.dumps({"ids": ids, "trained": trained}) + "\n")
        filled = [label for label, one in zip(row["labels"], row["attention_mask"], strict=True) if one == 0]
        if any(label != -100 for label in filled):
            raise SystemExit("what fills up a pack is trained")
