"""Steps through each scenario by an environment that Gymnasium's own checker has passed."""

import json
import sys

from gymnasium.utils.env_checker import check_env

from trajmill.worlds.serve.gymnasium_env import WorldEnv
from trajmill.worlds.serve.serve_client import RemoteWorld, action_in

url, _, said, written = sys.argv[1:]
world = RemoteWorld(url)
env = WorldEnv(world, world.scenarios())
check_env(env, skip_render_check=True)
with open(written, "w") as out:
    for scenario in world.scenarios():
        _, info = env.reset(seed=1, options={"scenario": scenario})
        shown = [env.step(action_in(message))[0] for message in json.loads(said)]
        out.write(json.dumps({"session": info["session"], "shown": shown}) + "\n")
env.close()
