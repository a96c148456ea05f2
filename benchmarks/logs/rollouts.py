"""Rollouts of tasks in five domains, as trajectories: fresh, varied, and with the repetition that real corpora have.

A task has rollouts that begin alike and go on by themselves. Of the rollouts 5 % are also there once more as they are,
and 5 % with a few words of their tail replaced. Where two rollouts did the same in the same place the environment may
answer in other words (a time, a number), so replicates differ. The same seed gives the same trajectories; the content
means nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from benchmarks.logs.text import Text, code, prose, record
from trajmill.schemas import Action, Environment, Observation, Outcome, Step, Task, Trajectory, call_text, json_text

ROLLOUTS: Final = (1, 1, 2, 4, 8)
"""Rollouts of a task, one of these."""

STEPS: Final = (4, 30)
"""Fewest and most steps of a rollout."""

SHARED: Final = 0.6
"""Most of a rollout's steps that it has in common with the others of its task."""

EQUAL: Final = 0.05
EDITED: Final = 0.05
"""Shares of the rollouts that are there once more: as they are, and with words of their tail replaced."""

Turn = tuple[Action, Observation]
Show = Callable[[Text, "Observation | None"], Turn]


def _call(name: str, **arguments: object) -> Action:
    return Action(name, call_text(name, arguments), json_text(arguments))


def _shell(text: Text, _: Observation | None) -> Turn:
    failed = text.below(20) == 0
    output = f"bash: {text.name()}: command not found" if failed else text.block(300 + text.below(4000))
    return _call("bash", command=f"{text.name()} --{text.name()} {text.path()}"), Observation(output, is_error=failed)


def _edit(text: Text, _: Observation | None) -> Turn:
    lines = [code(text) for _ in range(20 + text.below(120))]
    return _call("view", path=text.path(), line=text.below(900)), Observation("\n".join(lines))


def _tool(text: Text, _: Observation | None) -> Turn:
    items = ", ".join(record(text) for _ in range(2 + text.below(40)))
    answer = Observation(f'{{"items": [{items}], "total": {text.below(999)}}}', "application/json")
    return _call(f"list_{text.name()}", query=text.phrase(2, 5), limit=text.below(50)), answer


def _page(text: Text, _: Observation | None) -> Turn:
    content = " ".join(prose(text) for _ in range(8 + text.below(60)))
    return _call("search", query=text.phrase(3, 8)), Observation(content)


def _screen(text: Text, before: Observation | None) -> Turn:
    """A screen that mostly shows what was there."""
    lines = (before.content or "").split("\n") if before is not None else []
    if not lines or text.below(6) == 0:
        lines = [_view(text) for _ in range(20 + text.below(60))]
    for _ in range(1 + text.below(5)):
        lines[text.below(len(lines))] = _view(text)
    shown = Observation("\n".join(lines), form="screen", dialect="uitree/1")
    return _call("tap", x=text.below(1080), y=text.below(2400)), shown


def _view(text: Text) -> str:
    x, y = text.below(900), text.below(2200)
    return f'  - button "{text.phrase(1, 5)}" id={text.name()}_{text.name()} [{x},{y}][{x + 140},{y + 60}] clickable'


DOMAINS: Final[dict[str, Show]] = {
    "terminal": _shell,
    "swe": _edit,
    "mcp": _tool,
    "search": _page,
    "android": _screen,
}


def _steps(turns: Sequence[Turn]) -> list[Step]:
    before: Observation | None = None
    steps = []
    for number, (action, after) in enumerate(turns):
        steps.append(Step(action, before, after, number, 100 * number))
        before = after
    return steps


def _vary_answer(turn: Turn, text: Text) -> Turn:
    """The same action, whose answer begins with another number one time in eight."""
    action, after = turn
    if text.below(8):
        return turn
    return action, replace(after, content=f"{text.below(10_000)} ms\n{after.content}")


def _edit_turn(turn: Turn, text: Text) -> Turn:
    action, after = turn
    words = (after.content or "").split(" ")
    words[text.below(len(words))] = text.name()
    return action, replace(after, content=" ".join(words))


def task(domain: str, number_of_task: int, seed: int) -> Iterator[Trajectory]:
    """The rollouts of a task, one after the other.

    Args:
        domain: a key of `DOMAINS`.
        number_of_task: of the task among all of its domain.
        seed: the same gives the same rollouts.
    """
    text = Text(seed, f"{domain}/{number_of_task}")
    instruction = " ".join(prose(text) for _ in range(3))

    def turns(count: int, begun: Sequence[Turn]) -> list[Turn]:
        drawn = list(begun)
        while len(drawn) < count:
            drawn.append(DOMAINS[domain](text, drawn[-1][1] if drawn else None))
        return drawn

    def told(name: str, of: Sequence[Turn]) -> Trajectory:
        about = Task(f"{domain}-{number_of_task}", instruction)
        where = Environment(f"{domain}-{number_of_task % 50}", f"{domain}-{number_of_task}")
        outcome = Outcome(text.below(2) == 0, None, "tests")
        return Trajectory(f"{domain}-{number_of_task}-{name}", domain, _steps(of), where, task=about, outcome=outcome)

    longest = STEPS[0] + text.below(STEPS[1] - STEPS[0])
    prefix = turns(max(1, int(longest * SHARED * text.random.random())), ())
    for number in range(text.pick(ROLLOUTS)):
        tail = turns(longest, [_vary_answer(turn, text) for turn in prefix])
        yield told(str(number), tail)
        if text.random.random() < EQUAL:
            yield told(f"{number}-again", tail)
        if text.random.random() < EDITED:
            rest = [_edit_turn(turn, text) if text.below(2) else turn for turn in tail[len(prefix) :]]
            yield told(f"{number}-edited", [*tail[: len(prefix)], *rest])
