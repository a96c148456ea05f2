"""Sessions of a served world: reset, step and close, many at once in one event loop, bounded in number, age and size.

A session's steps are taken one after the other. A step that is sent again with its number, because its answer was lost,
gets the same answer without another request.

Answers of the world model are parsed as training wrote them: under the heading, or between tags if the model was asked
for tags. An answer without an observation is reported as such, and never passed off as an observation.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from trajmill.pipelines.render.fixed_texts import MARKER
from trajmill.schemas import COMPLETE, ConfigError, ShardError
from trajmill.synthesis.endpoint import DECLINED
from trajmill.synthesis.predictions import observation_in, unthought
from trajmill.synthesis.replies import Reply
from trajmill.worlds.serve.history import History, Manner, Move
from trajmill.worlds.serve.requests import move_of, seed_in
from trajmill.worlds.serve.scenarios import Scenario, Scenarios, without_surrogates_in
from trajmill.worlds.serve.serve_client import ServeError
from trajmill.worlds.serve.serve_log import ServeLog, trajectory_of
from trajmill.worlds.serve.served_model import BudgetError, Call, ServedModel

_FILTERED: Final = "content_filter"


class Fault(StrEnum):
    """Reason why an answer is not an observation.

    `refused`: the endpoint rejects the request. `declined`: the model would not answer, or its answer was filtered.
    `cut`: the answer reached its maximum length. `silent`: the answer is empty. `malformed`: it has no observation in
    the form that the model was trained to write.
    """

    REFUSED = "refused"
    DECLINED = "declined"
    CUT = "cut"
    SILENT = "silent"
    MALFORMED = "malformed"


class Observed(NamedTuple):
    """Observation of a model, with the line on how a command ended; empty if nothing is shown."""

    text: str


def parse_observation(reply: Reply, *, tagged: bool) -> Observed | Fault:
    """Parse the observation in a model's answer.

    Args:
        tagged: True if the model was asked to write the observation between tags.
    """
    if reply.finish == "refused":
        return Fault.REFUSED
    if reply.finish in (DECLINED, _FILTERED):
        return Fault.DECLINED
    if reply.finish == "length":
        return Fault.CUT
    if not reply.content.strip():
        return Fault.SILENT
    if tagged:
        observation = observation_in(reply.content)
        return Fault.MALFORMED if observation is None else Observed(observation)
    text = unthought(reply.content)
    return Observed(text.removeprefix(MARKER)) if text.startswith(MARKER) else _bare(text)


def _bare(text: str) -> Observed | Fault:
    """Parse an answer whose outer blanks a server removed: a heading alone is an empty observation."""
    return Observed("") if text == MARKER.strip() else Fault.MALFORMED


_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_REMEMBERED: Final = 1 << 14
"""Ended sessions whose reason is remembered."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of sessions.

    Attributes:
        sessions: Most open sessions.
        idle_s: Seconds without a step after which a session is closed.
        steps: Most steps of a session.
        characters: Most characters of the texts of a session.
    """

    sessions: int = 1024
    idle_s: float = 1800.0
    steps: int = 512
    characters: int = 32 << 20


@dataclass(slots=True)
class Session:
    """One served session.

    Attributes:
        history: History that the model receives.
        touched: Time of the last request, on the clock of the sessions.
        last: Body and answer of the last step.
        lock: Lock held while a step is taken.
    """

    id: str
    scenario: Scenario
    history: History
    seed: int
    touched: float
    moves: list[Move] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    last: tuple[Mapping[str, Any], dict[str, Any]] | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Sessions:
    """All sessions of a served world.

    Args:
        manner: Form in which the model sees sessions.
        scenarios: Scenarios of sessions, besides those that requests bring.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self,
        model: ServedModel,
        manner: Manner,
        scenarios: Scenarios,
        log: ServeLog,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model, self.manner, self.scenarios, self.log = model, manner, scenarios, log
        self.limits, self._clock = limits or Limits(), clock
        self._open: dict[str, Session] = {}
        self._over: OrderedDict[str, str] = OrderedDict()
        self.counts = {"begun": 0, "steps": 0}

    async def reset(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a session.

        Args:
            body: `scenario` (an id, or a scenario itself), and optionally `seed`, `session`, an id of the caller's
                choice, and `simulation_instruction`, which replaces the scenario's.

        Raises:
            ServeError: The session cannot begin.
        """
        body = without_surrogates_in(dict(body))
        self.sweep()
        scenario = self._scenario(body.get("scenario"))
        if body.get("simulation_instruction") is not None:
            context = {**scenario.context, "simulation_instruction": body["simulation_instruction"]}
            scenario = self._scenario({**asdict(scenario), "context": context})
        own = body.get("session") or secrets.token_hex(8)
        if not isinstance(own, str) or not _ID.fullmatch(own):
            raise ServeError(400, "bad_request", "session is an id of at most 64 letters, digits and _.-")
        if own in self._open or own in self._over or self.log.has(own):
            raise ServeError(409, "session_exists", f"There is, or was, a session '{own}'.")
        if len(self._open) >= self.limits.sessions:
            raise ServeError(503, "too_many_sessions", f"{len(self._open):,} sessions are open. Close some, or wait.")
        seed = seed_in(body, self.model.pinned.seed)
        try:
            history = History(scenario, self.manner)
        except ConfigError as error:
            raise ServeError(400, "bad_scenario", str(error)) from error
        session = Session(own, scenario, history, seed, self._clock())
        self._open[own] = session
        self.counts["begun"] += 1
        return {"session": own, "observation": scenario.observation or "", "info": self._begun(session)}

    def _begun(self, session: Session) -> dict[str, Any]:
        scenario = session.scenario
        return {
            "scenario": scenario.id,
            "domain": scenario.domain,
            "instruction": scenario.instruction,
            "action_space": scenario.context.get("action_space") or "",
            "initial_state": scenario.context.get("initial_state") or "",
            "seed": session.seed,
            "world_model": self.model.pinned.world_model,
            "template": session.history.prompt.template,
        }

    def _scenario(self, named: object) -> Scenario:
        if isinstance(named, str):
            scenario = self.scenarios.get(named)
            if scenario is None:
                raise ServeError(
                    404, "no_scenario", f"There is no scenario '{named}'; there are {len(self.scenarios):,}."
                )
            return scenario
        try:
            return Scenario.of(named)
        except ConfigError as error:
            raise ServeError(400, "bad_scenario", str(error)) from error

    async def step(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Take a step of a session.

        Args:
            body: `session` and `action`, and optionally `step` (its number, from 0), `state`, `said`, `together` and
                `time_limit_s`; see docs/serving.md.

        Raises:
            ServeError: The step cannot be taken. Errors that allow a retry leave the session unchanged.
        """
        body = without_surrogates_in(dict(body))
        session = self._found(body.get("session"))
        async with session.lock:
            self._found(session.id)  # which may have ended meanwhile
            session.touched = self._clock()
            number, asked = len(session.moves), body.get("step")
            if session.last is not None and asked == number - 1 and session.last[0] == body:
                return session.last[1]
            if asked is not None and asked != number:
                raise ServeError(409, "wrong_step", f"Step {number} of this session is next, not {asked}.")
            move = move_of(body, session.scenario)
            answer = await self._taken(session, move)
            session.last = body, answer
            session.touched = self._clock()
            return answer

    async def _taken(self, session: Session, move: Move) -> dict[str, Any]:
        limits = self.limits
        if len(session.moves) >= limits.steps:
            return self._ended(session, "max_steps")
        if session.history.characters + len(move.action.text) + len(move.state or "") > limits.characters:
            return self._ended(session, "too_large")
        asked = session.history.asked(move)
        if asked is None:
            return self._ended(session, "over_window")
        call, parsed = await self._asked(session, asked.messages)
        if isinstance(parsed, Fault):
            return self._ended(session, "no_observation", fault=parsed.value)
        row = session.history.answered(move, parsed.text)
        session.moves.append(move)
        self.counts["steps"] += 1
        done = move.action.name == COMPLETE
        info = {
            "step": row["step"],
            "window_begins": asked.begins,
            "action": move.action.text,
            "answer": "observed" if parsed.text else "empty",
            "exit_code": row["exit_code"],
            "timed_out": row["timed_out"],
            "tries": call.request.index + 1,
        }
        shown = row["next_observation"]["content"]
        return {**_answer(session, shown, info, terminated=done), "usage": _usage_values(call)}

    async def _asked(self, session: Session, messages: list[dict[str, str]]) -> tuple[Call, Observed | Fault]:
        """Return the call whose answer is used: the first with an observation, or the last."""
        step, world_model = len(session.moves), self.model.pinned.world_model
        for number in range(self.model.pinned.tries):
            try:
                call = await self.model.ask(messages, session.seed, step, number)
            except BudgetError as error:
                self._close(session, "budget_spent")
                raise ServeError(402, "budget_spent", str(error), bound=error.bound) from error
            except (ShardError, ConfigError) as error:
                raise ServeError(502, "endpoint_failed", str(error)) from error
            parsed = parse_observation(call.reply, tagged=self.manner.tagged)
            outcome = parsed.value if isinstance(parsed, Fault) else "observed"
            session.calls.append(self.log.call(session.id, step, call, outcome, world_model))
            self.counts[outcome] = self.counts.get(outcome, 0) + 1
            if isinstance(parsed, Observed):
                break
        return call, parsed

    def _ended(self, session: Session, why: str, **more: Any) -> dict[str, Any]:
        """End a session whose step the world could not take, and return the answer."""
        info = {"step": len(session.moves), "answer": "none", "ended": why, **more}
        answer = _answer(session, "", info, truncated=True)
        self._close(session, why)
        return answer

    async def close(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """End a session and write its document.

        Raises:
            ServeError: There is no such session.
        """
        session = self._found(body.get("session"))
        async with session.lock:
            self._close(session, "closed")
        return {"session": session.id, "steps": len(session.moves), "ended": "closed"}

    def close_all(self) -> None:
        """End all sessions."""
        for session in list(self._open.values()):
            self._close(session, "server_ended")

    def sweep(self) -> int:
        """End the sessions that have been idle too long, and return how many are left."""
        past = self._clock() - self.limits.idle_s
        for session in [
            candidate for candidate in self._open.values() if candidate.touched <= past and not candidate.lock.locked()
        ]:
            self._close(session, "expired")
        return len(self._open)

    def _found(self, own: object) -> Session:
        if not isinstance(own, str):
            raise ServeError(400, "bad_request", "wanted is the id of a session, which /reset gave, under 'session'")
        if own not in self._open:
            if own in self._over:
                raise ServeError(410, "session_ended", f"Session '{own}' has ended.", ended=self._over[own])
            raise ServeError(404, "no_session", f"There is no session '{own}'. Begin one by /reset.")
        return self._open[own]

    def _close(self, session: Session, why: str) -> None:
        if self._open.pop(session.id, None) is None:
            return
        self._over[session.id] = why
        if len(self._over) > _REMEMBERED:
            self._over.popitem(last=False)
        self.counts[f"ended.{why}"] = self.counts.get(f"ended.{why}", 0) + 1
        if not session.moves:
            return
        pinned = self.model.pinned
        sampling = {**pinned.sampling, "seed": session.seed, "scenario": session.scenario.id}
        rows = session.history.rows
        trajectory = trajectory_of(session.id, session.scenario, rows, session.moves, pinned.world_model, sampling)
        record = {
            "scenario": session.scenario.id,
            "ended": why,
            "pool": self.manner.pool,
            "tagged": self.manner.tagged,
            "template": session.history.prompt.template,
            "cost": round(sum(recorded["cost"] for recorded in session.calls), 9),
            "calls": [_without_times(recorded) for recorded in session.calls],
        }
        self.log.session(trajectory, record)

    def status(self) -> dict[str, Any]:
        """Return the status and usage of the server."""
        bounds = self.model.bounds
        return {
            "status": "budget_spent" if self.model.spent else "serving",
            "bound": self.model.spent or None,
            "world_model": self.model.pinned.world_model,
            "stated_revisions": dict(self.model.revisions),
            "sessions": self.sweep(),
            "scenarios": len(self.scenarios),
            "counts": dict(sorted(self.counts.items())),
            "used": self.model.usage(),
            "bounds": {"cost": bounds.cost, "tokens": bounds.tokens, "calls": bounds.calls},
        }


def _without_times(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call for the document of a session: the same for the same answers, however long they took."""
    return {name: value for name, value in call.items() if name not in ("session", "seconds", "known", "world_model")}


def _usage_values(call: Call) -> dict[str, Any]:
    """Return the usage of an answer. It is not part of `info`, which is the same for the same seed and actions."""
    usage = call.reply.usage
    return {
        "known": call.known,
        "prompt_tokens": None if usage is None else usage.prompt,
        "completion_tokens": None if usage is None else usage.completion,
        "cost": round(call.cost, 9),
    }


def _answer(
    session: Session, shown: str, info: Mapping[str, Any], *, terminated: bool = False, truncated: bool = False
) -> dict[str, Any]:
    """Build the result of a step in Gymnasium's terms; a world gives no reward."""
    return {
        "session": session.id,
        "observation": shown,
        "reward": 0.0,
        "terminated": terminated,
        "truncated": truncated,
        "info": dict(info),
    }
