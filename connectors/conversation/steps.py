"""Steps of a conversation: the one module in which turns and words become transitions.

The calls of a turn share the turn and the observation. A turn without a call is a step named `message`, which the
user's next text answers. If nothing is between it and the agent's next turn, its words join that turn. Other words are
in `interleaved` of the step that follows them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from trajmill.connectors.conversation.cut_answers import with_cut
from trajmill.connectors.conversation.references import with_references
from trajmill.connectors.conversation.turns import Call, Gap, Item, Said, Turn, began, seconds_between
from trajmill.connectors.reading.fields import join_paragraphs
from trajmill.schemas import MESSAGE, Action, Observation, Step, Steps, call_text_of, json_text

_Between = Said | Observation | Gap


class Course(NamedTuple):
    """Steps of a conversation, its instruction, and the ends of its turns.

    Attributes:
        steps: Steps in the order of the log; empty if the agent neither called nor said anything.
        instruction: The user's first request.
        ends: Mark of a turn → number of steps up to its end.
    """

    steps: list[Step] | Steps
    instruction: str | None
    ends: dict[int, int]


def course(items: Iterable[Item], instructed: bool = False) -> Course:
    """Build the steps of a conversation from its turns and words, in the order of the log.

    Words of a turn without a call may move to the next turn, so every course needs new items. At most two turns and the
    items between them are held.

    Args:
        items: Turns and words. The steps of a list, which share its texts, are held in memory too.
        instructed: True if the instruction is known already and is none of the items.
    """
    making = _Making([] if isinstance(items, list) else Steps())
    instruction: str | None = None
    now: Turn | None = None
    after: list[_Between] = []
    for item in chain(items, (None,)):
        if not (item is None or isinstance(item, Turn)):
            after.append(item)
            continue
        if now is not None:
            making.act(now, after, item)
        else:
            instruction, after = (None, after) if instructed else _instruction(after)
            making.hear(after)
        now, after = item, []
    return Course(making.steps, instruction, making.ends)


def mark_turns(items: Iterable[Item]) -> None:
    """Set each turn's mark to its position among the items."""
    for position, item in enumerate(items):
        if isinstance(item, Turn):
            item.mark = position


def _instruction(words: list[_Between]) -> tuple[str | None, list[_Between]]:
    """Separate the user's first words before the agent's first turn from the other items."""
    for position, message in enumerate(words):
        if isinstance(message, Said) and message.role == "user" and message.text:
            return message.text, [*words[:position], *words[position + 1 :]]
    return None, words


def mark_dangling(steps: list[Step] | Steps, silent: frozenset[str] = frozenset()) -> None:
    """Mark the last step as truncated if a call of its turn was never answered: the log ends within that turn.

    Args:
        steps: Steps of a trajectory; not empty.
        silent: Tools whose answers the format does not contain.
    """
    end = len(steps) - 1
    last = steps[end]
    for position in range(end, max(-1, end - last.num_calls), -1):
        step = steps[position]
        if step.next_observation is None and step.action.name not in silent and step.action.name != MESSAGE:
            if last.terminated is None and last.truncated is None:
                steps[end] = replace(last, truncated=True)
            return


def is_answered_call(step: Step) -> bool:
    """Check whether the step is a tool call whose answer the log contains."""
    return step.action.name != MESSAGE and step.next_observation is not None


class _Making:
    """Steps built so far, the last observation, and the words since the last step."""

    def __init__(self, steps: list[Step] | Steps) -> None:
        self.steps = steps
        self.shown: Observation | None = None
        self.waiting: list[dict[str, str]] = []
        self.ends: dict[int, int] = {}
        self._turns = 0
        self._limits: dict[str, float] = {}

    def hear(self, items: Iterable[_Between]) -> None:
        """Record the words and observations between turns."""
        for item in items:
            if isinstance(item, Observation | Gap):
                self.shown = with_references(item) if isinstance(item, Observation) else None
            elif item.text:
                self.waiting.append({"role": item.role, "content": item.text})

    def act(self, turn: Turn, after: list[_Between], later: Turn | None) -> None:
        """Add the steps of a turn, and the words `after` it and before the `later` turn."""
        turn.close()
        if not turn.calls and not after and later is not None:
            _pass_on(turn, later)
            return
        if turn.calls:
            self._calls(turn)
        elif turn.texts:
            position = next(
                (n for n, message in enumerate(after) if isinstance(message, Said) and _answers(message)), None
            )
            reply = None if position is None else after.pop(position)
            self._message(turn, reply if isinstance(reply, Said) else None)
        if turn.mark is not None:
            self.ends[turn.mark] = len(self.steps)
        self.hear(after)

    def _take_waiting(self) -> str | None:
        waiting, self.waiting = self.waiting, []
        return json_text(waiting) if waiting else None

    def _calls(self, turn: Turn) -> None:
        before = self.shown
        for index, call in enumerate(turn.calls):
            reward, terminated, truncated = call.ending
            call.shown = with_references(with_cut(call.shown))
            self.steps.append(
                Step(
                    action=Action(
                        call.name,
                        call.written,
                        call.arguments,
                        call.call_id,
                        call.message,
                        call.reasoning,
                        turn.sampled if index == 0 else None,
                    ),
                    observation=before if call.seen is None else with_references(call.seen[0]),
                    next_observation=call.shown,
                    turn=self._turns,
                    offset=call.offset,
                    member=call.member,
                    call_index=index,
                    num_calls=len(turn.calls),
                    interleaved=self._take_waiting() if index == 0 else None,
                    reward=reward,
                    terminated=terminated,
                    truncated=truncated,
                    exit_code=call.exit_code,
                    started_at=began(call.at),
                    duration_s=call.seconds,
                    time_limit_s=self._limit(call),
                    timed_out=call.killed,
                )
            )
        shown = [call.shown for call in turn.calls if call.shown is not None and not call.late]
        if shown or not any(call.late for call in turn.calls):
            self.shown = shown[-1] if shown else None
        for call in turn.calls:
            self.waiting += [{"role": "harness", "content": note} for note in call.notes]
        self._turns += 1

    def _limit(self, call: Call) -> float | None:
        """Return the time limit of a call in seconds; one that the harness named holds for later calls of the tool."""
        if call.limit is not None:
            return call.limit
        if call.named is not None:
            self._limits[call.name] = call.named
        return self._limits.get(call.name)

    def _message(self, turn: Turn, reply: Said | None) -> None:
        arguments = json_text({"content": join_paragraphs(turn.texts)})
        answer = None
        if reply is not None:
            origin = "user" if reply.role == "user" else "harness"
            reply_observation = Observation(
                reply.text or None, origin=origin, uri=reply.uri, attachments=reply.attachments
            )
            answer = with_references(reply_observation)
        self.steps.append(
            Step(
                action=Action(
                    MESSAGE,
                    call_text_of(MESSAGE, arguments),
                    arguments,
                    reasoning=join_paragraphs(turn.thoughts),
                    sampled=turn.sampled,
                ),
                observation=self.shown,
                next_observation=answer,
                turn=self._turns,
                offset=turn.offset,
                member=turn.member,
                interleaved=self._take_waiting(),
                started_at=began(turn.at),
                duration_s=None if reply is None else seconds_between(turn.at, reply.at),
            )
        )
        self._turns += 1
        self.shown = answer or self.shown


def _answers(message: Said) -> bool:
    return message.role == "user" if message.answers is None else message.answers


def _pass_on(turn: Turn, later: Turn) -> None:
    """Move the words of a turn without a call to the next turn, since nothing is between the two."""
    texts = [text for text in turn.texts if text]
    later.sampled = None
    if later.calls:
        first = later.calls[0]
        first.message = join_paragraphs([*texts, *([first.message] if first.message else [])])
        first.reasoning = join_paragraphs([*turn.thoughts, *([first.reasoning] if first.reasoning else [])])
    else:
        later.texts[:0], later.thoughts[:0] = texts, turn.thoughts
