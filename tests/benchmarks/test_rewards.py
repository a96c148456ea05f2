import pytest

from benchmarks.rewards import measured
from trajmill.pipelines.render.answered import Answered


def turn(number, observation, command, previous):
    label = ((0, 0, "target"),)
    action = f'{{"command": "{command}"}}'
    return Answered(f"t:{number}", "terminal", "response", "bash", action, action, observation, previous, spans=label)


def test_echoed_words_are_covered_and_nothing_lazy_earns_anything():
    turns = [turn(n, f"lamp{n} is lit", f"light it: lamp{n} is lit", "nothing") for n in range(40)]
    told = measured([[one] for one in turns], 0)
    assert (told.turns, told.checked, told.accepted) == (40, 40, 0)
    assert told.negatives > 200
    means = {name: sum(scores) / len(scores) for name, scores in told.scores.items()}
    assert means == pytest.approx({"truth": 1.0, "previous": 0.0, "empty": 0.0, "echo": 0.0, "shuffled": 0.0})


def test_answers_that_only_the_world_knew_are_not_covered():
    turns = [turn(n, f"secret{n} revealed{n}", "tell", "nothing") for n in range(40)]
    told = measured([[one] for one in turns], 0)
    assert (told.turns, told.checked) == (40, 0)


def test_context_is_not_measured():
    turns = [turn(n, f"lamp{n} is lit", f"light it: lamp{n} is lit", None) for n in range(20)]
    for one in turns[:15]:
        object.__setattr__(one, "spans", ())
    assert measured([[one] for one in turns], 0).turns == 5
