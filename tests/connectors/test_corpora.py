"""The real corpora come to the same transitions, byte for byte, as when they were last read by eye."""

import shutil

import orjson
import pytest

from tests.conftest import GOLDEN, INDEX, corpora_folder, named_files, real_files
from tests.golden.make import taken_by
from tests.rows import summary

KNOWN = orjson.loads(GOLDEN.read_bytes())


def known(name):
    return {key: value for key, value in KNOWN[name].items() if key != "folders"}


@pytest.mark.corpus
@pytest.mark.parametrize("name", sorted(KNOWN))
def test_real_logs_come_to_the_transitions_that_were_committed(name, corpus):
    files, root = corpus(name), corpora_folder()
    assert root is not None
    assert summary(files, root) == known(name)


@pytest.mark.corpus
def test_a_file_that_the_goldens_do_not_name_is_counted_and_breaks_nothing(corpus, tmp_path, monkeypatch):
    files, root = corpus("codex_exec"), corpora_folder()
    assert root is not None
    shutil.copy(root / INDEX, tmp_path)
    for path in files:
        (tmp_path / path.relative_to(root)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / path.relative_to(root))
    more = tmp_path / files[0].relative_to(root).parent / "a-later-log.jsonl"
    shutil.copy(files[0], more)
    monkeypatch.setenv("TRAJMILL_CORPORA", str(tmp_path))
    properties: dict[str, object] = {}
    (folder,) = KNOWN["codex_exec"]["folders"]
    overlaid = real_files([f"{folder}/"], properties.__setitem__)
    assert properties == {
        "corpus_read": [str(path.relative_to(root)) for path in files],
        "corpus_not_read": [str(more.relative_to(tmp_path))],
    }
    assert summary(overlaid, tmp_path) == known("codex_exec")
    assert taken_by(overlaid, tmp_path) == named_files(f"{folder}/")
