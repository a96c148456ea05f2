"""Prepares agents' conversations as TRL's SFTTrainer does with `assistant_only_loss`."""

import json
import sys
import tempfile

import datasets
from datasets import Features, Json, List, Value
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import SFTConfig, SFTTrainer

form, tokenizer, written = sys.argv[1:]
opened = AutoTokenizer.from_pretrained(tokenizer)
sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(opened), **sizes))
TEXTS = ("role", "content", "reasoning_content", "tool_call_id", "name")


def decode(row):
    messages = []
    for message in row["messages"]:
        calls = json.loads(message["tool_calls"] or "null")
        for call in calls or []:
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        messages.append({**{name: message[name] for name in TEXTS}, "tool_calls": calls})
    return {"messages": messages, "tools": json.loads(row["tools"] or "null")}


features = Features(
    {"messages": List({**dict.fromkeys(TEXTS, Value("string")), "tool_calls": Json()}), "tools": Json()}
)
stored = datasets.load_dataset("parquet", data_files=f"{form}/train.parquet", split="train")
rows = stored.map(decode, features=features, remove_columns=stored.column_names)
settings = {"max_length": None, "assistant_only_loss": True, "report_to": [], "use_cpu": True, "bf16": False}
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(output_dir=tempfile.mkdtemp(), **settings),
    train_dataset=rows,
    processing_class=opened,
)
with open(written, "w") as out:
    for name, row in zip(stored["id"], trainer.train_dataset, strict=True):
        batch = trainer.data_collator([row])
        trained = [int(label != -100) for label in batch["labels"][0].tolist()]
        out.write(json.dumps({"id": name, "ids": batch["input_ids"][0].tolist(), "trained": trained}) + "\n")
