"""A served world as an environment of TRL, in the form of OpenEnv's environments: `reset`, and a method for each tool.

`GRPOTrainer(environment_factory=functools.partial(WorldEnvironment, world), …)` takes rows that name a `scenario`. The
reward function receives the environments. It should return None for those whose world has `failed`, because TRL passes
an exception to the agent like an observation.
"""

from __future__ import annotations

from typing import Any

from trajmill.worlds.serve.serve_client import Rollout, ServeError, World


class WorldEnvironment:
    """Served world, one session at a time.

    Attributes:
        rollout: Session; None before the first.
        failed: Code of the error by which the world could not answer; empty if it could.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.rollout: Rollout | None = None
        self.failed = ""
        self._is_over = False

    def reset(self, scenario: Any, **_: Any) -> str:
        """Begin a session with the scenario of a row, and return the first message for the agent."""
        if self.rollout is not None:
            self.rollout.close()
        self.rollout = Rollout(self._world, scenario)
        self.failed, self._is_over = "", False
        return self.rollout.opening

    def act(self, action: str) -> str:
        """Take an action in the world, and see what happens.

        Args:
            action: A call as a JSON object of name and arguments, keystrokes as a JSON list, or text.

        Returns:
            The observation that follows.
        """
        if self.rollout is None or self._is_over:
            raise ValueError("The session is over.")
        try:
            shown = self.rollout.answer(action)
        except ServeError as error:
            self.failed, self._is_over = error.code, True
            raise
        self._is_over = self.rollout.done
        if self._is_over:
            self.rollout.close()
        return shown
