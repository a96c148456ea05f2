"""Encodes a cached dataset of token ids as `swift sft` does, with the template that the form brings."""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import yaml
from swift.dataset import LazyLLMDataset
from swift.model import get_processor
from swift.pipelines.utils import get_cached_dataset
from swift.template import get_template
from swift.utils import import_external_file

form, tokenizer, written, samples = sys.argv[1:]
os.chdir(form)
told = yaml.safe_load(Path("swift.yaml").read_text())
for plugin in told["external_plugins"]:
    import_external_file(plugin)
model = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
Path(tokenizer, "config.json").write_text(json.dumps(model))
processor = get_processor(tokenizer, model_type="qwen2", use_hf=True, download_model=False)
template = get_template(processor, template_type=told["template"], max_length=told["max_length"])
template.set_mode("train")
settings = {"cached_dataset": told["cached_dataset"], "cached_val_dataset": [], "data_seed": 0}
settings |= {"max_length": told["max_length"], "truncation_strategy": "delete", "dataset_shuffle": False}
found, _ = get_cached_dataset(SimpleNamespace(**settings))
seen = Counter()
with open(written, "w") as out:
    for name, held in zip(told["cached_dataset"], found, strict=True):
        domain = name.split("/")[-1]
        for row in LazyLLMDataset(held, template.encode, strict=True):
            seen[domain] += 1
            if seen[domain] <= int(samples):
                batch = template.data_collator([row])
                length = len(row["input_ids"])
                trained = [int(label != -100) for label in batch["labels"][0].tolist()[:length]]
                ids = batch["input_ids"][0].tolist()[:length]
                out.write(json.dumps({"domain": domain, "ids": ids, "trained": trained}) + "\n")
