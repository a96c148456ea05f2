"""Signals that ask a model: probabilities, and what is said of a file that is none."""

from pathlib import Path

import fasttext
import pytest

from benchmarks.train_classifier import train
from tests.make import batch_of, trajectory
from tests.quality.contract import cuts_change_nothing, keeps_the_contract
from trajmill.quality.prose import join_prose, prose_lines, runs
from trajmill.quality.registry import make_signal
from trajmill.quality.signal import Measured
from trajmill.quality.signals.classifier import lines_of, with_pairs, words
from trajmill.quality.signals.language import READ, readable
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import ConfigError, Task

ENGLISH = "there are three files in this folder and the test of the module has passed"
GERMAN = "es gibt drei Dateien in diesem Ordner und der Test des Moduls ist bestanden"


@pytest.fixture(scope="module")
def languages(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of two languages, which here are called good and bad."""
    labels = {"good": ENGLISH, "bad": GERMAN}
    lines = [f"__label__{label} {' '.join(text.split()[at:])}" for at in range(10) for label, text in labels.items()]
    path = str(tmp_path_factory.mktemp("model") / "lid.bin")
    train(lines, path, epochs=40)
    return path


def measured(*trajectories):
    return Measured.of(batch_of(*trajectories), TokenCounter())


def test_the_language_of_a_trajectory_is_that_of_its_prose(languages: str):
    signal = make_signal("language", {"model": languages, "languages": ["good"]})
    view = measured(
        trajectory(f'{{"text": "{ENGLISH}, and {ENGLISH}"}}', "drwxr-xr-x 2 root", native_id="a"),
        trajectory("total 2", f"{GERMAN}, {GERMAN}", native_id="b"),
        trajectory("total 2", "x = {1: 2}", native_id="c"),
        trajectory("total 2", task=Task(None, f"{GERMAN}, {GERMAN}"), native_id="d"),
    )
    english, _, german, _, none, _, asked = signal.measure(view).tolist()
    assert english > 0.9
    assert german < 0.1
    assert none == 1
    assert asked < 0.1
    both = make_signal("language", {"model": languages, "languages": ["good", "bad"]})
    assert both.measure(view).tolist() == pytest.approx([1] * 7, abs=1e-4)


def test_the_language_of_a_trajectory_that_is_cut_is_that_of_its_whole_prose(languages: str):
    signal = make_signal("language", {"model": languages, "languages": ["good"]})
    asked = Task(None, "es gibt drei Dateien in diesem Ordner")
    keeps_the_contract(signal)
    for shown in ([ENGLISH, "total 2", GERMAN, ENGLISH], ["x", ENGLISH, GERMAN], ["x", "y"]):
        cuts_change_nothing(
            {signal.name: signal}, batch_of(trajectory(*shown), trajectory(*shown, native_id="u", task=asked))
        )


def test_what_is_no_model_or_no_label_is_told_with_what_there_is(languages: str, tmp_path: Path):
    def fault(**settings: object) -> str:
        with pytest.raises(ConfigError) as caught:
            make_signal("language", settings)
        return str(caught.value)

    (tmp_path / "noise.bin").write_bytes(b"\x00\x01" * 5000)
    (tmp_path / "words.txt").write_text("some words of a text\n" * 40)
    vectors = fasttext.train_unsupervised(  # each of ten threads sets a tenth of the numbers that it starts from
        str(tmp_path / "words.txt"), dim=2, bucket=10, minCount=1, thread=10, verbose=0, lr=0.001
    )
    vectors.save_model(str(tmp_path / "vectors.bin"))
    assert "no file" in fault(languages="en", model="nowhere.ftz")
    assert "no file" in fault(languages="en", model=5)
    assert "no fastText model" in fault(languages="en", model=str(tmp_path / "noise.bin"))
    assert "word vectors" in fault(languages="en", model=str(tmp_path / "vectors.bin"))
    assert "Did you mean 'good'?" in fault(model=languages, languages="goood")
    assert "needs settings under judge.signals.language: languages" in fault()
    assert "Did you mean 'model'?" in fault(modell=languages)


def test_prose_is_runs_of_words_out_of_whatever_stands_around_them():
    assert runs('{"msg": "The file could not be found, sorry.", "n": [1, 2]}') == [
        "The file could not be found, sorry."
    ]
    assert runs("drwxr-xr-x 2 root root 4096 Jan 1 10:00 src") == []
    assert runs("for (int i = 0; i < n; i++) { sum += a[i]; }") == []
    assert runs("one two three four") == []
    assert runs("copied 3 of 12 files to disk") == ["copied 3 of 12 files to disk"]
    assert runs("[4] label こんにちは世界、今日はいい天気です") == ["こんにちは世界、今日はいい天気です"]
    assert runs("Das schöne Mädchen läßt grüßen") == ["Das schöne Mädchen läßt grüßen"]


def test_a_word_that_is_a_part_of_what_stands_there_is_none_of_a_run():
    assert runs("0f3ad fix the reading of empty files") == ["fix the reading of empty files"]
    assert runs("I set the model to gpt-4o and") == ["I set the model to"]
    assert runs("x9 a b c d_e f") == []
    assert runs("row2另一个进程正在使用该文件") == ["另一个进程正在使用该文件"]


def test_the_model_reads_lines_from_one_end_of_the_prose_to_the_other():
    lines = [f"line {number:03}" for number in range(200)]
    read = readable("\n".join(lines)).split("\n")
    assert read == lines[::4][: len(read)]
    assert int(read[-1].split()[1]) > 190
    assert len(readable("x" * 3000)) == READ


def test_a_run_counts_once_and_prose_ends_at_its_bound():
    line = "this is shown on every single screen"
    view = measured(trajectory(line, line, f"{line}\nand here is something that is new"))
    (lines,) = prose_lines(view, 1000)
    assert join_prose([lines, [line]], 1000) == f"{line}\nand here is something that is new"
    assert [join_prose([lines], 10) for lines in prose_lines(view, 10)] == [line[:10]]


def test_words_are_told_apart_by_signs_and_numbers_are_alike():
    import pyarrow as pa

    assert words(pa.array(['{"Exit": 12}\t__label__x\x00\n'])).to_pylist() == ['{ " exit " : 0 } _ _ label _ _ x']
    assert with_pairs("a b c") == "a b c a_b b_c"


def test_rows_of_equal_texts_share_a_line_and_a_row_without_an_answer_has_none():
    lines = lines_of(measured(trajectory("x", None, "x", native_id="a"), trajectory("x", native_id="b")))
    assert lines.index.tolist()[1] == -1
    assert lines.index[0] == lines.index[3]
    assert lines.texts[int(lines.index[0])].as_py().startswith('{ " name " : " do "')
