"""Trains a random model by TRL's GRPOTrainer in an environment; what it generates is replaced by what is to be said."""

import functools
import json
import sys
import tempfile

import datasets
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import GRPOConfig, GRPOTrainer

from trajmill.worlds.serve.serve_client import RemoteWorld, action_in
from trajmill.worlds.serve.trl_environment import WorldEnvironment

url, tokenizer, said, written = sys.argv[1:]
messages = [
    f"<tool_call>\n{json.dumps({'name': 'act', 'arguments': {'action': action_in(message)}})}\n</tool_call><|im_end|>"
    for message in json.loads(said)
]
opened = AutoTokenizer.from_pretrained(tokenizer)
sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(opened), max_position_embeddings=32768, **sizes))
world = RemoteWorld(url)
rows = [{"prompt": [{"role": "user", "content": ""}], "scenario": one} for one in world.scenarios()]


class Scripted(GRPOTrainer):
    def _generate_single_turn(self, prompt_ids, *_, **__):
        turns = [opened.decode(ids).count("<tool_response>") for ids in prompt_ids]
        texts = [messages[turn] if turn < len(messages) else "Done.<|im_end|>" for turn in turns]
        return [opened.encode(text, add_special_tokens=False) for text in texts], None


def reward(environments, completions, **_):
    for environment, completion in zip(environments, completions, strict=True):
        shown = [message["content"] for message in completion if message["role"] == "tool"]
        out.write(json.dumps({"session": environment.rollout.begun["session"], "shown": shown}) + "\n")
    return [float(number) for number, _ in enumerate(environments)]


settings = GRPOConfig(
    output_dir=tempfile.mkdtemp(), report_to=[], save_strategy="no", use_cpu=True, bf16=False, num_generations=2,
    per_device_train_batch_size=2, num_train_epochs=1, max_completion_length=4096,
)  # fmt: skip
with open(written, "w") as out:
    Scripted(
        model=model,
        args=settings,
        train_dataset=datasets.Dataset.from_list(rows),
        reward_funcs=reward,
        processing_class=opened,
        environment_factory=functools.partial(WorldEnvironment, world),
    ).train()
