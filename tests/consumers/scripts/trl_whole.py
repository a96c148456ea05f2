"""Prepares conversations as TRL's SFTTrainer does with the arguments that lie beside them, and reads them back."""

import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

import datasets
import yaml
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import SFTConfig, SFTTrainer

form, tokenizer, written, samples = sys.argv[1:]
os.chdir(form)
opened = AutoTokenizer.from_pretrained(tokenizer)
sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(opened), **sizes))
told = yaml.safe_load(Path("trl.yaml").read_text())
more = {"output_dir": tempfile.mkdtemp(), "max_length": None, "report_to": [], "use_cpu": True, "bf16": False}
seen = Counter()
with open(written, "w") as out:
    for one in told["datasets"]:
        for name in one["data_files"]:
            domain = name.split("/")[1]
            rows = datasets.load_dataset(one["path"], data_files=[name], split=one["split"])
            settings = SFTConfig(assistant_only_loss=told["assistant_only_loss"], **more)
            trainer = SFTTrainer(model=model, args=settings, train_dataset=rows, processing_class=opened)
            for row in trainer.train_dataset:
                seen[domain] += 1
                if seen[domain] <= int(samples):
                    batch = trainer.data_collator([row])
                    trained = [int(label != -100) for label in batch["labels"][0].tolist()]
                    ids = batch["input_ids"][0].tolist()
                    out.write(json.dumps({"domain": domain, "ids": ids, "trained": trained}) + "\n")
