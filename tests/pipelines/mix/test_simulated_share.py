"""What is told of simulated samples in a mixture: by stage, component and world model, over generations, as shares."""

import numpy as np
import pytest

from trajmill.pipelines.mix.coded_names import Coded
from trajmill.pipelines.mix.simulated import check_components, shares, sum_mixtures, sum_simulated
from trajmill.schemas import ConfigError

COMPONENT = Coded.of(["a", "a", "b", "b", "a"])
MODELS = Coded.of(["m@1", "", "n@1", "n@1", "m@1"])


def test_samples_count_as_often_as_they_are_drawn_and_real_ones_not_at_all():
    tokens, copies = np.array([10, 20, 30, 40, 50]), np.array([2, 1, 0, 1, 1])
    assert sum_simulated("sft", COMPONENT, MODELS, tokens, copies) == [
        {"stage": "sft", "component": "a", "world_model": "m@1", "samples": 3, "tokens": 70},
        {"stage": "sft", "component": "b", "world_model": "n@1", "samples": 1, "tokens": 40},
    ]
    assert sum_simulated("sft", COMPONENT, MODELS, tokens, copies * 0) == []


def test_generations_add_up_and_shares_are_of_all_that_their_stage_drew():
    one = sum_simulated("sft", COMPONENT, MODELS, np.full(5, 10), np.ones(5, np.int32))
    mixtures = [{"simulated": one}, {}, {"simulated": one[:1]}]
    added = sum_mixtures(mixtures)
    assert [(row["world_model"], row["samples"], row["tokens"]) for row in added] == [("m@1", 4, 40), ("n@1", 2, 20)]
    assert one[0]["tokens"] == 20
    told = shares({"simulated": added, "stages": {"sft": [{"tokens": 60}, {"tokens": 20}]}})
    assert [row["share"] for row in told] == [0.5, 0.25]
    assert shares({"stages": {}}) == []


@pytest.mark.parametrize(
    ("models", "before", "holds"),
    [
        (["m@1", "", "n@1", "n@1", "m@1"], [], True),
        (["m@1", "", "n@1", "n@1", "m@2"], [], False),
        (["m@1", "m@1", "", "", ""], [("sft", "b", "n@1"), ("rl", "a", "n@1")], True),
        (["m@1", "m@1", "", "", ""], [("sft", "a", "n@1")], False),
        (["", "", "", "", ""], [("sft", "a", "n@1"), ("sft", "a", "n@1")], True),
    ],
)
def test_a_component_holds_one_world_model_over_all_generations_of_its_stage(models, before, holds):
    earlier = [dict(zip(("stage", "component", "world_model"), one, strict=True)) for one in before]
    if holds:
        check_components("sft", COMPONENT, Coded.of(models), earlier)
    else:
        with pytest.raises(ConfigError):
            check_components("sft", COMPONENT, Coded.of(models), earlier)
