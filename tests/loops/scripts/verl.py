"""Has verl's AgentLoopWorker make rollouts; in place of a server of its own, what is to be said is generated."""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import verl
import yaml
from hydra import compose, initialize_config_dir
from transformers import AutoTokenizer, Qwen2Config
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.workers.rollout.replica import TokenOutput

from trajmill.worlds.serve.serve_client import RemoteWorld

url, tokenizer, said, written = sys.argv[1:]
messages = json.loads(said)
folder = tempfile.mkdtemp()
opened = AutoTokenizer.from_pretrained(tokenizer)
opened.save_pretrained(folder)
Qwen2Config(vocab_size=len(opened), hidden_size=8, architectures=["Qwen2ForCausalLM"]).save_pretrained(folder)
loop = {"name": "world", "_target_": "trajmill.worlds.serve.verl_agent_loop.WorldAgentLoop", "url": url}
loops = Path(folder, "loops.yaml")
loops.write_text(yaml.safe_dump([loop]))


class Scripted:
    """Generates what is to be said next, by the number of turns that a prompt holds."""

    async def generate(self, request_id, prompt_ids, sampling_params):
        turn = opened.decode(prompt_ids).count("<|im_start|>assistant") - 1
        ids = opened.encode(messages[turn] + "<|im_end|>", add_special_tokens=False)
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids))


async def lived(config):
    worker = AgentLoopWorker(config, Scripted())
    scenarios = RemoteWorld(url).scenarios()
    prompts = np.empty(len(scenarios), object)
    prompts[:] = [[{"role": "user", "content": ""}] for _ in scenarios]
    names = {"agent_name": np.array(["world"] * len(scenarios), object), "scenario": np.array(scenarios, object)}
    return await worker.generate_sequences(DataProto.from_dict(non_tensors={"raw_prompt": prompts, **names}))


with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
    overrides = [
        f"actor_rollout_ref.model.path={folder}",
        f"actor_rollout_ref.rollout.agent.agent_loop_config_path={loops}",
    ]
    config = compose(
        "ppo_trainer", [*overrides, "actor_rollout_ref.rollout.name=vllm", "data.max_response_length=4096"]
    )
batch = asyncio.run(lived(config))
with open(written, "w") as out:
    for number in range(len(batch)):
        ids, mask = batch.batch["responses"][number], batch.batch["response_mask"][number].bool()
        trained = opened.decode(ids[mask]).split("<|im_end|>")[:-1]
        if trained != messages:
            sys.exit(f"{trained} bear loss, wanted were {messages}.")
        row = batch.non_tensor_batch
        text = opened.decode(ids)
        if not all(shown in text for shown in row["shown"][number][:-1]):
            sys.exit(f"{row['shown'][number]} is not in {text}")
        out.write(json.dumps({"session": row["session"][number], "shown": row["shown"][number]}) + "\n")
