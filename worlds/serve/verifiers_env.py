"""A served world as a `MultiTurnEnv` of `verifiers` to 0.2; without it one of that shape. See `verifiers_world`.

Rows of the data set say under `info` which `scenario` they begin with; `rows_of` makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Final, TypeAlias, TypeVar, cast

from trajmill.schemas import ConfigError
from trajmill.worlds.serve.requests import ServeError
from trajmill.worlds.serve.rollouts import Rollout, opening, world_at
from trajmill.worlds.serve.serve_client import World

try:
    from verifiers import Error, MultiTurnEnv, cleanup
except ImportError:
    Error, MultiTurnEnv, cleanup = Exception, object, None

State: TypeAlias = MutableMapping[str, Any]
Messages: TypeAlias = list[dict[str, Any]]

Method = TypeVar("Method", bound=Callable[..., Any])

_ROLLOUT: Final = "trajmill_rollout"
_DONE: Final = "trajmill_done"


def _at_the_end(method: Method) -> Method:
    """The method, which is called when a rollout is over, where the release can be told so."""
    return method if cleanup is None else cast("Method", cleanup(method))


class WorldFailedError(Error):
    """The endpoint fails, or the budget is spent: which ends a rollout, and not the training that it is of."""


class WorldRollouts(MultiTurnEnv):
    """Answers an agent's messages by a served world.

    Args:
        url: that it is served at.
        world: that is asked in the place of it.
        max_turns: after which a rollout is over; -1 is any number.
        pairs: whether a response is told with the state, as some releases want; by default as the one that is there.
        more: what `MultiTurnEnv` takes, such as `dataset` and `rubric`.
    """

    def __init__(
        self,
        url: str = "",
        *,
        world: World | None = None,
        max_turns: int = -1,
        pairs: bool | None = None,
        **more: Any,
    ) -> None:
        if MultiTurnEnv is not object:
            super().__init__(max_turns=max_turns, **more)
        self.max_turns = max_turns
        self._pairs = wants_pairs(MultiTurnEnv) if pairs is None else pairs
        self._world = world or world_at(url)

    async def setup_state(self, state: State, **_: Any) -> State:
        """Begins the session of a rollout, by `info` of its row.

        Raises:
            WorldFailedError: it cannot be begun.
        """
        info = state.get("info") or {}
        rollout = Rollout(self._world, self.max_turns if self.max_turns > 0 else None)
        try:
            await rollout.begin(info.get("scenario"), seed=info.get("seed"))
        except ServeError as error:
            raise WorldFailedError(error.detail) from error
        state[_ROLLOUT], state[_DONE] = rollout, False
        return state

    async def env_response(
        self, messages: Sequence[dict[str, Any]], state: State, **_: Any
    ) -> Messages | tuple[Messages, State]:
        """What the agent is shown next, and the state where the release wants it.

        Raises:
            WorldFailedError: there is no answer.
        """
        try:
            shown = await state[_ROLLOUT].answered(messages)
        except ServeError as error:
            raise WorldFailedError(error.detail) from error
        state[_DONE] = shown.done
        state["trajmill_info"] = shown.info
        told = [{"role": "user", "content": shown.text}]
        if shown.done:
            state["final_env_response"] = told  # else the agent would be asked once more
            await state[_ROLLOUT].end()
        return (told, state) if self._pairs else told

    @_at_the_end
    async def end_session(self, state: State) -> None:
        """Ends the session of a rollout that is over, by whatever it is over."""
        if _ROLLOUT in state:
            with suppress(ServeError):  # what nobody ends expires
                await state[_ROLLOUT].end()

    async def is_completed(self, *told: Any, **more: Any) -> bool:
        """Whether the rollout is over.

        Args:
            told: the messages and the state, or the state alone, as releases of `verifiers` differ.
            more: `state`, where it is named.
        """
        state = more.get("state", told[-1] if told else {})
        asked = getattr(super(), "is_completed", None)
        is_over = False if asked is None else bool(await asked(*told, **more))  # which notes why
        return is_over or bool(state.get(_DONE))


def wants_pairs(base: type) -> bool:
    """Whether the environments of a release give back their state beside what they show."""
    given = getattr(getattr(base, "env_response", None), "__annotations__", {}).get("return", "")
    return "tuple" in str(given).lower()


def rows_of(world: World, scenarios: Iterable[str], seed: int | None = None) -> Iterable[dict[str, Any]]:
    """A row of a data set for each scenario: `prompt`, and `info` by which its rollouts begin.

    Args:
        world: that is served.
        scenarios: ids.
        seed: of all rollouts' answers; None leaves it to the server.
    """
    for scenario in scenarios:
        begun = world.reset({"scenario": scenario})
        world.close({"session": begun["session"]})
        yield {
            "prompt": opening(begun["observation"], begun["info"]),
            "answer": "",
            "info": {"scenario": scenario, **({} if seed is None else {"seed": seed})},
        }


def load_environment(url: str, **more: Any) -> WorldRollouts:
    """The environment, as `verifiers` asks modules for it.

    Raises:
        ConfigError: the release that is there has no such environments.
    """
    if MultiTurnEnv is object and find_spec("verifiers") is not None:
        raise ConfigError("This release of verifiers has no MultiTurnEnv: see verifiers_world in docs/serving.md.")
    return WorldRollouts(url, **more)
