"""Hands RL rows to TRL's GRPOTrainer, which scores answers by the reward function that lies beside them."""

import importlib.util
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import datasets
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import GRPOConfig, GRPOTrainer

form, tokenizer, written, samples = sys.argv[1:]
spec = importlib.util.spec_from_file_location("reward", f"{form}/reward.py")
reward = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reward)
opened = AutoTokenizer.from_pretrained(tokenizer)
sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(opened), **sizes))
files = json.loads(Path(form, "interleave.rl.json").read_text())["data_files"]
names = [f"{form}/{name}" for domain in files.values() for name in domain]
rows = datasets.load_dataset("parquet", data_files=names, split="train")
settings = GRPOConfig(
    output_dir=tempfile.mkdtemp(),
    report_to=[],
    use_cpu=True,
    bf16=False,
    num_generations=2,
    per_device_train_batch_size=2,
    shuffle_dataset=False,
)
trainer = GRPOTrainer(
    model=model, args=settings, train_dataset=rows, reward_funcs=reward.reward, processing_class=opened
)


def scored(inputs, answer):
    said = [[{"role": "assistant", "content": answer}]] * len(inputs)
    prompts = [one["prompt"] for one in inputs]
    return trainer._calculate_rewards(inputs, prompts, said, [[0]] * len(inputs)).flatten().tolist()


# Each prompt comes as often as answers are generated of it.
seen, of_row = Counter(), {}
with open(written, "w") as out:
    for batch in trainer.get_train_dataloader():
        for row in batch:
            key, domain = row["extra_info"]["id"], row["extra_info"]["domain"]
            of_row.setdefault(key, []).append(row)
            if len(of_row[key]) < settings.num_generations:
                continue
            inputs = of_row.pop(key)
            seen[domain] += 1
            if seen[domain] > int(samples):
                continue
            truth = json.loads(row["reward_model"]["ground_truth"])["observation"]
            ids = opened.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=False)
            made = {"domain": domain, "id": key, "prompt": row["prompt"], "tokens": len(ids)}
            made |= {"truth": min(scored(inputs, truth)), "empty": max(scored(inputs, ""))}
            out.write(json.dumps(made) + "\n")
