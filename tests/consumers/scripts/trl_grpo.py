"""Trains a random model on RL rows by TRL's GRPOTrainer, with the reward function that lies beside them.

Trained are 50 rows, those of the shortest prompts, of all domains alike; two answers are generated for each, with a
small vocabulary that is made of these rows. What a truth and an empty answer earn is asked of all rows.
"""

import importlib.util
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import datasets
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import GRPOConfig, GRPOTrainer

TRAINED = 50

form, tokenizer, written, samples = sys.argv[1:]
spec = importlib.util.spec_from_file_location("reward", f"{form}/reward.py")
reward = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reward)
opened = AutoTokenizer.from_pretrained(tokenizer)
sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
files = json.loads(Path(form, "interleave.rl.json").read_text())["data_files"]
names = [f"{form}/{name}" for domain in files.values() for name in domain]
rows = datasets.load_dataset("parquet", data_files=names, split="train")
settings = GRPOConfig(
    output_dir=tempfile.mkdtemp(), report_to=[], save_strategy="no", use_cpu=True, bf16=False, num_generations=2,
    per_device_train_batch_size=2, num_train_epochs=1, max_completion_length=16, shuffle_dataset=False,
)  # fmt: skip


def trainer_of(rows, reward_function, tokenizer):
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=131_072, **sizes))
    return GRPOTrainer(
        model=model, args=settings, train_dataset=rows, reward_funcs=reward_function, processing_class=tokenizer
    )


def shortest(rows):
    ranks, order = Counter(), []
    sizes = [sum(len(message["content"]) for message in prompt) for prompt in rows["prompt"]]
    for number in sorted(range(len(rows)), key=sizes.__getitem__):
        domain = rows[number]["extra_info"]["domain"]
        order.append((ranks[domain], domain, number))
        ranks[domain] += 1
    return rows.select([number for _, _, number in sorted(order)[:TRAINED]])


answered = Counter()


def recorded(prompts, completions, **columns):
    scores = reward.reward(prompts=prompts, completions=completions, **columns)
    for number, score in enumerate(scores):
        row = written_rows[columns["extra_info"][number]["id"]]
        actual = {"prompt": prompts[number], **{name: columns[name][number] for name in row if name != "prompt"}}
        if actual != row or not 0 <= score <= 1:
            sys.exit(f"The reward was asked for {actual}, which is not {row}, and gave {score}.")
        answered[row["extra_info"]["id"]] += 1
    return scores


chosen = shortest(rows)
written_rows = {row["extra_info"]["id"]: row for row in chosen}
texts = [message["content"] for prompt in chosen["prompt"] for message in prompt]
training = trainer_of(chosen, recorded, opened.train_new_from_iterator(texts, 2048))
training.train()
if training.state.global_step != len(chosen) or set(answered.values()) != {settings.num_generations}:
    sys.exit(f"{training.state.global_step} of {len(chosen)} rows were trained, with answers {answered}.")
trainer = trainer_of(rows, reward.reward, opened)


def scored(inputs, answer):
    completions = [[{"role": "assistant", "content": answer}]] * len(inputs)
    prompts = [item["prompt"] for item in inputs]
    return trainer._calculate_rewards(inputs, prompts, completions, [[0]] * len(inputs)).flatten().tolist()


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
            made |= {"truth": min(scored(inputs, truth)), "empty": max(scored(inputs, "")), "answers": answered[key]}
            out.write(json.dumps(made) + "\n")
