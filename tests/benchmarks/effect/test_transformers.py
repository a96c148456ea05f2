"""What transformers are handed and what comes back; PyTorch itself is none of this environment's."""

import sys
from pathlib import Path

import pytest

from benchmarks.effect.arms import ALL_TEXT, EVERYTHING, RAW
from benchmarks.effect.transformers import SEEDS, trials
from benchmarks.effect.trials import LOGGED, Domain
from tests.benchmarks.effect.test_trials import document
from trajmill.schemas import ConfigError

_STANDS_IN = f"""#!{sys.executable}
import sys
from pathlib import Path
import numpy as np
for path in Path(sys.argv[2]).glob("*.job.npz"):
    job = np.load(path)
    found = {{}}
    for arm in range(int(job["arms"])):
        assert len(job[f"tokens{{arm}}"]) == len(job[f"borne{{arm}}"]) == len(job["tokens0"])
        for number in range(int(job["sets"])):
            assert len(job[f"asked{{number}}"]) == len(job[f"first{{number}}"])
            found[f"{{arm}}-{{number}}"] = np.full(int(job[f"scored{{number}}"].sum()), 1.0 + arm)
    np.savez(str(path).replace(".job.", ".bits."), **found)
"""


def interpreter(folder, text):
    path = Path(folder) / "python"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def domain():
    documents = [document(number) for number in range(40)]
    arms = {RAW: documents, EVERYTHING: documents[::2], "near, and rule x": documents, ALL_TEXT: documents[::2]}
    return Domain("web", arms, 20, 1_000, 4)


def test_each_seed_asks_about_the_whole_and_the_masks_on_one_fold(domain, tmp_path):
    stands_in = interpreter(tmp_path, _STANDS_IN)
    found = trials([domain], 2, stands_in, tmp_path / "jobs", workers=2)["web"]
    assert trials([domain], 2, stands_in, tmp_path / "alone")["web"] == found
    assert [one.seed for one in found] == [0, 1]
    assert {arm for arm, _ in found[0].found} == {RAW, EVERYTHING, ALL_TEXT}
    first = found[0].found[EVERYTHING, LOGGED]
    assert {group for group, _ in first.size} == {one.group for one in domain.held(LOGGED, 0, 0)}
    assert sum(first.bits.values()) == 2.0 * sum(int((one.kinds > 0).sum()) for one in domain.held(LOGGED, 0, 0))


def test_of_many_seeds_the_first_are_asked_about(domain, tmp_path):
    found = trials([domain], SEEDS + 3, interpreter(tmp_path, _STANDS_IN), tmp_path / "jobs")["web"]
    assert [one.seed for one in found] == list(range(SEEDS))


def test_a_learner_that_fails_ends_it_with_its_last_words(domain, tmp_path):
    broken = interpreter(tmp_path, f"#!{sys.executable}\nimport sys\nsys.exit('out of memory on the device')\n")
    with pytest.raises(ConfigError):
        trials([domain], 1, broken, tmp_path / "jobs")
