"""Prepares token ids, or prompts and completions, as TRL's SFTTrainer does, and reads them through its collator."""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import datasets
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import SFTConfig, SFTTrainer

form, tokenizer, written, samples = sys.argv[1:]
opened = AutoTokenizer.from_pretrained(tokenizer)
sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(opened), **sizes))
(mix,) = Path(form).glob("interleave.sft*.json")
told = json.loads(mix.read_text())
seen = Counter()
with open(written, "w") as out:
    for domain, files in told["data_files"].items():
        rows = datasets.load_dataset("parquet", data_files=[f"{form}/{name}" for name in files], split="train")
        settings = SFTConfig(output_dir=tempfile.mkdtemp(), max_length=None, report_to=[], use_cpu=True, bf16=False)
        trainer = SFTTrainer(model=model, args=settings, train_dataset=rows, processing_class=opened)
        for row in trainer.train_dataset:
            seen[domain] += 1
            if seen[domain] <= int(samples):
                batch = trainer.data_collator([row])
                labels = batch["labels"][0].tolist()
                trained = [int(label != -100) for label in labels]
                out.write(
                    json.dumps({"domain": domain, "ids": batch["input_ids"][0].tolist(), "trained": trained}) + "\n"
                )
