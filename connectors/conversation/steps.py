"""Steps of a conversation: the one module in which turns and words become transitions.

The calls of a turn share the turn and the observation. A turn without a call is a step named `message`, which the next
text of the user answers; where nothing stands between it and the agent's next turn, what it said goes with that one.
What else was said stands in `interleaved` of the step that follows it. Nothing here reads a log.
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
    """Steps of a conversation, its instruction, and how it ends.

    Attributes:
        steps: in the order of the log; empty if the agent neither called nor said anything.
        instruction: what the user asked first.
        ends: the number of steps up to the end of each turn that has a `mark`, by that mark.
    """

    steps: list[Step] | Steps
    instruction: str | None
    ends: dict[int, int]


def course(items: Iterable[Item], instructed: bool = False) -> Course:
    """Build the steps of a conversation whose turns and words are `items`, in the order of the log.

    What is said in a turn without a call may be moved to the next turn, so items are made anew for each course. No more
    of them is held than two turns and what stands between.

    Args:
        items: what was done and said. Of a list the steps, which share its texts, are held in memory too.
        instructed: whether the instruction is known already and is none of the items.
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
    """Gives each turn its place among the items as its mark."""
    for position, item in enumerate(items):
        if isinstance(item, Turn):
            item.mark = position


def _instruction(words: list[_Between]) -> tuple[str | None, list[_Between]]:
    """Split the user's first words before the agent did anything from all the rest."""
    for position, message in enumerate(words):
        if isinstance(message, Said) and message.role == "user" and message.text:
            return message.text, [*words[:position], *words[position + 1 :]]
    return None, words


def mark_dangling(steps: list[Step] | Steps, silent: frozenset[str] = frozenset()) -> None:
    """Marks the last step as truncated if a call of its turn was never answered: the log ends within that turn.

    Args:
        steps: of a trajectory; not empty.
        silent: tools whose answers the format does not hold.
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
    """Check if the step is a call of a tool whose answer the log holds."""
    return step.action.name != MESSAGE and step.next_observation is not None


class _Making:
    """The steps made so far, what was last shown, and what was said since the last step."""

    def __init__(self, steps: list[Step] | Steps) -> None:
        self.steps = steps
        self.shown: Observation | None = None
        self.waiting: list[dict[str, str]] = []
        self.ends: dict[int, int] = {}
        self._turns = 0
        self._limits: dict[str, float] = {}

    def hear(self, items: Iterable[_Between]) -> None:
        """Takes in what was said and shown between turns."""
        for item in items:
            if isinstance(item, Observation | Gap):
                self.shown = with_references(item) if isinstance(item, Observation) else None
            elif item.text:
                self.waiting.append({"role": item.role, "content": item.text})

    def act(self, turn: Turn, after: list[_Between], later: Turn | None) -> None:
        """Adds the steps of a turn, and what was said `after` it and before the `later` one."""
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
        """The seconds that a call was given; what the harness once named holds for later calls of the tool too."""
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
    """Gives what was said in a turn without a call to the next turn, since nothing stands between the two."""
    texts = [text for text in turn.texts if text]
    later.sampled = None
    if later.calls:
        first = later.calls[0]
        first.message = join_paragraphs([*texts, *([first.message] if first.message else [])])
        first.reasoning = join_paragraphs([*turn.thoughts, *([first.reasoning] if first.reasoning else [])])
    else:
        later.texts[:0], later.thoughts[:0] = texts, turn.thoughts
