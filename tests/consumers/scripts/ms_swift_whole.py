"""Encodes conversations as `swift sft` does with the arguments that lie beside them."""

import json
import sys
from collections import Counter
from pathlib import Path

import yaml
from swift.dataset import EncodePreprocessor, load_dataset
from swift.model import get_processor
from swift.template import get_template

form, tokenizer, written, samples = sys.argv[1:]
told = yaml.safe_load(Path(form, "swift.yaml").read_text())
model = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
Path(tokenizer, "config.json").write_text(json.dumps(model))
processor = get_processor(tokenizer, model_type="qwen2", use_hf=True, download_model=False)
template = get_template(processor, template_type="qwen", loss_scale=told["loss_scale"], max_length=None)
template.set_mode("train")
seen = Counter()
with open(written, "w") as out:
    for name in told["dataset"]:
        domain = name.split("/")[1]
        rows, _ = load_dataset([f"{form}/{name}"], num_proc=1, remove_unused_columns=False)
        for row in EncodePreprocessor(template)(rows, num_proc=1):
            seen[domain] += 1
            if seen[domain] <= int(samples):
                trained = [int(label != -100) for label in row["labels"]]
                out.write(json.dumps({"domain": domain, "ids": list(row["input_ids"]), "trained": trained}) + "\n")
