"""datatrove's filters as signals on the prose of trajectories."""

import sys
from itertools import pairwise

import pyarrow as pa
import pytest

from tests.make import batch_of, trajectory
from tests.quality.whole import measured as measured_whole
from trajmill.quality.measure import Measuring
from trajmill.quality.registry import make_signal
from trajmill.quality.signal import Measured
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import ConfigError

PROSE = "It was the best of times and it was the worst of times for the people of that town. "
GOPHER = "datatrove:GopherQualityFilter"


def measured(*trajectories):
    return Measured.of(batch_of(*trajectories), TokenCounter())


def test_a_filter_judges_the_prose_of_a_trajectory_with_the_recipes_arguments_and_tells_its_reason():
    view = measured(
        trajectory(PROSE, "total 0", native_id="long"),
        trajectory("A short line of prose stands here.", "total 0", native_id="short"),
        trajectory("total 0", "x", native_id="none"),
    )
    signal = make_signal(GOPHER, {"min_doc_words": 15})
    assert signal.measure(view).tolist() == [1, 1, 0, 0, 1, 1]
    reasons = signal.reasons(view)
    assert reasons is not None
    assert reasons.to_pylist() == [None, None, "gopher_short_doc", "gopher_short_doc", None, None]
    assert make_signal(GOPHER, {"min_doc_words": 5, "min_stop_words": 0}).measure(view).tolist() == [1] * 6


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("C4ParagraphFilter", {}),
        ("C4QualityFilter", {"filter_no_terminal_punct": False}),
        ("FineWebQualityFilter", {"line_punct_thr": 0.1}),
        ("GopherRepetitionFilter", {"dup_line_frac": 0.5}),
        ("RegexFilter", {"regex_exp": "times"}),
    ],
)
def test_each_filter_that_decides_by_text_alone_can_be_used(name, settings):
    signal = make_signal(f"datatrove:{name}", settings)
    numbers = signal.measure(measured(trajectory(PROSE, "total 0")))
    assert set(numbers.tolist()) <= {0, 1}


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("GopherQualityFiltre", {}, "Did you mean 'datatrove:GopherQualityFilter'?"),
        ("GopherQualityFilter", {"min_doc_word": 3}, "Did you mean 'min_doc_words'?"),
        ("GopherQualityFilter", {"min_doc_words": "many"}, "does not take these settings"),
        ("GopherQualityFilter", {"exclusion_writer": "x"}, "no setting 'exclusion_writer'"),
        ("GopherQualityFilter", {"language": "nowhere"}, "does not take these settings"),
        ("GopherQualityFilter", {"language": "tha"}, "cannot be used here: Please install"),
        ("RegexFilter", {}, "needs: regex_exp"),
        ("RegexFilter", {"regex_exp": "("}, "does not take these settings"),
        ("LambdaFilter", {}, "needs code"),
        ("LanguageFilter", {}, "the signal 'language'"),
        ("UnigramLogProbFilter", {}, "fetches"),
        ("C4BadWordsFilter", {}, "at random"),
    ],
)
def test_what_cannot_be_used_is_refused_with_why(name, settings, words):
    with pytest.raises(ConfigError) as caught:
        make_signal(f"datatrove:{name}", settings)
    assert words in str(caught.value)


def test_without_datatrove_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datatrove.pipeline", None)
    with pytest.raises(ConfigError, match="datatrove"):
        make_signal(GOPHER, {"min_doc_words": 31})


@pytest.mark.parametrize("least", [15, 25, 26])
def test_of_a_trajectory_in_several_batches_the_prose_is_told_as_a_whole(least: int):
    long = trajectory("A short line of prose stands here.", "one", PROSE, "two", "A short line of prose stands here.")
    batch = batch_of(long, trajectory("x", "y", native_id="u"))
    settings = {"g": make_signal(GOPHER, {"min_doc_words": least})}
    whole = pa.Table.from_batches([measured_whole(batch, settings)])
    for cuts in ((1,), (2, 4), (1, 2, 3, 4, 5, 6), (3, 6)):
        measuring = Measuring(settings, TokenCounter())
        pieces = [batch.slice(a, b - a) for a, b in pairwise((0, *cuts, batch.num_rows))]
        table = pa.Table.from_batches([*(done for piece in pieces for done in measuring.add(piece)), *measuring.rest()])
        assert table.to_pydict() == whole.to_pydict()
    words = 7 + len(PROSE.split())
    assert whole["signal.g"].to_pylist() == [float(words >= least)] * 5 + [1, 1]
    assert whole["why.g"].to_pylist() == [None if words >= least else "gopher_short_doc"] * 5 + [None] * 2
