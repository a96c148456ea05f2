"""A served world as an agent loop of verl: the agent writes an action, and the world's answer is the next user turn.

verl finds it by a file that `actor_rollout_ref.rollout.agent.agent_loop_config_path` names (docs/serving.md). A row
holds `scenario` and `prompt`; the first message for the agent is appended to the prompt's last message.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.utils.profiler import simple_timer

from trajmill.worlds.serve.serve_client import RemoteWorld, Rollout, ServeError


class WorldAgentLoop(AgentLoopBase):
    """Rollouts in a served world, until the session is over or the answer reaches its maximum length.

    Tokens of the agent are under loss, those of the world are not. The trainer's reward function scores a rollout;
    `extra_fields` give it the `session`, the observations `shown`, and the error code `failed`, if any.

    Args:
        url: Address of the served world.
    """

    def __init__(self, *args: Any, url: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._world = RemoteWorld(url)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Play the scenario of a row."""
        rollout = await asyncio.to_thread(Rollout, self._world, row["scenario"])
        try:
            return await self._live(rollout, sampling_params, list(row["raw_prompt"]))
        finally:
            await asyncio.to_thread(rollout.close)

    async def _live(
        self, rollout: Rollout, sampling_params: dict[str, Any], messages: list[dict[str, Any]]
    ) -> AgentLoopOutput:
        messages[-1] = {**messages[-1], "content": messages[-1]["content"] + rollout.opening}
        ids = await self.ct_build_initial_tokens(messages)
        request, failed, metrics = uuid4().hex, "", dict[str, Any]()
        mask: list[int] = []
        logprobs: list[float] | None = None
        longest = self.rollout_config.response_length
        turns = self.rollout_config.multi_turn.max_assistant_turns or longest
        for turn in range(turns):
            with simple_timer("generate_sequences", metrics):
                generated = await self.server_manager.generate(
                    request_id=request, prompt_ids=ids, sampling_params=sampling_params
                )
            if turn == 0 and generated.log_probs:
                logprobs = []
            merged, mask, logprobs = await self.ct_merge_assistant_token(
                ids, generated.token_ids, mask, logprobs, assistant_logprobs=generated.log_probs or None
            )
            ids = merged.token_ids
            if len(mask) >= longest or turn + 1 == turns:
                break
            text = self.tokenizer.decode(generated.token_ids, skip_special_tokens=True)
            try:
                with simple_timer("tool_calls", metrics):
                    shown = await asyncio.to_thread(rollout.answer, text)
            except ServeError as error:
                failed = error.code
                break
            before = [*messages, {"role": "assistant", "content": text}]
            messages = [*before, {"role": "user", "content": shown}]
            if rollout.done:
                break
            merged, longer_mask, longer_logprobs = await self.ct_merge_context_msg(
                before, messages, ids, mask, logprobs
            )
            if len(longer_mask) >= longest:
                break
            ids, mask, logprobs = merged.token_ids, longer_mask, longer_logprobs
        begin = len(ids) - len(mask)
        return AgentLoopOutput(
            prompt_ids=ids[:begin],
            response_ids=ids[begin:][:longest],
            response_mask=mask[:longest],
            response_logprobs=None if logprobs is None else logprobs[:longest],
            num_turns=len(messages),
            metrics=metrics,
            extra_fields={"session": rollout.begun["session"], "shown": rollout.shown, "failed": failed},
        )
