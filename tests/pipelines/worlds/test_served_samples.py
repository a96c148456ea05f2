"""A served trajectory is shown to its model as its training sample was: the same bytes, at every step."""

import asyncio
import json
from collections import Counter

import pytest

from schemas import DOMAINS
from tests.pipelines.synthesis.chat_server import chat_server
from tests.pipelines.worlds.conftest import recipe
from tests.pipelines.worlds.logged_world import FromLogs, logged


async def lived(sessions, number, one):
    """The answers to all steps of a trajectory, as far as its sample goes."""
    begun = await sessions.reset({"scenario": json.loads(one.scenario.line()), "seed": number})
    assert begun["observation"] == (one.scenario.observation or "")
    steps = one.steps[: (len(one.messages) - 1) // 2]
    found = [await sessions.step({"session": begun["session"], **step}) for step in steps]
    await sessions.close({"session": begun["session"]})
    return found


async def all_lived(sessions, known):
    return await asyncio.gather(*(lived(sessions, *one) for one in enumerate(known)))


@pytest.mark.parametrize("pool", ["sft", "rl"])
def test_what_is_sent_at_each_step_is_the_training_sample_up_to_that_turn(drawn, serve, pool):
    mix = recipe().mix
    known = logged(drawn, mix, pool)
    assert {one.scenario.domain for one in known} == set(DOMAINS)
    with chat_server(FromLogs([one.messages for one in known], pool == "rl")) as chat:
        sessions = serve(chat.url, pool, mix)
        found = asyncio.run(all_lived(sessions, known))
    # an endpoint that knows only the messages of samples has answered each step
    assert all(answer["info"]["answer"] in ("observed", "empty") for answers in found for answer in answers)
    assert chat.met == len(chat.asked) == sum(map(len, found))
    shown = Counter(one.scenario.domain for one, answers in zip(known, found, strict=True) for _ in answers)
    assert min(shown.values()) > 0
    assert sum(shown.values()) > 20
