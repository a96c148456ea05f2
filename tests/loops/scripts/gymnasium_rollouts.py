"""Has eight agents at a time live through plans, each a scenario, a seed and actions, by Gymnasium's environment."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trajmill.worlds.serve.gymnasium_env import WorldEnv
from trajmill.worlds.serve.serve_client import RemoteWorld, ServeError

url, plans, written = sys.argv[1:]
world = RemoteWorld(url)


def lived(plan):
    """Take the actions of a plan until the session is over; an action that the world refuses takes no step."""
    env = WorldEnv(world, [plan["scenario"]])
    env.reset(seed=plan["seed"])
    ended, refused = "plan", 0
    for action in plan["actions"]:
        try:
            _, _, terminated, truncated, _ = env.step(action)
        except ServeError as error:
            if error.status != 400:
                raise
            refused += 1
            continue
        if terminated or truncated:
            ended = "terminated" if terminated else "truncated"
            break
    env.close()
    return json.dumps({"scenario": plan["scenario"], "ended": ended, "refused": refused}) + "\n"


with open(written, "w") as out, ThreadPoolExecutor(8) as agents:
    out.writelines(agents.map(lived, json.loads(Path(plans).read_text())))
