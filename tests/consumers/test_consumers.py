"""What a consumer trains is held against the spans, and each has all that trying it takes."""

import sys
from contextlib import contextmanager

import pytest

from tests.conftest import ROOT
from tests.consumers import consumers
from tests.consumers.consumers import tried
from tests.consumers.meaning import Compared, Meaning
from tests.pipelines.publish.forms.written_shards import written
from trajmill.pipelines.publish.forms.stored_samples import Conversation, Document, Message, Span
from trajmill.pipelines.publish.forms.tokenizing import Tokenizing
from trajmill.schemas import ConfigError

TOKENIZER = str(ROOT / "tests" / "fixtures" / "tokenizer")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return written(tmp_path_factory.mktemp("consumers") / "out")


@pytest.fixture(scope="module")
def tokenizing():
    return Tokenizing(TOKENIZER)


@pytest.fixture
def here(monkeypatch):
    """Consumers that the tests' own environment has are tried in it."""

    @contextmanager
    def same(*_):
        yield sys.executable

    monkeypatch.setattr(consumers, "environment", same)


def conversation(*texts, spans=()):
    messages = (Message("user", "?"), *(Message("assistant", text, tuple(spans)) for text in texts))
    return Conversation("a", "web", "s", "t", "", messages)


def test_what_the_kernel_makes_is_what_was_meant_by_the_bytes(tokenizing):
    for text in ("**Env**\nnotes 日本🙂", "cafe\u0301 e\u0301\n", "</think><|im_end|>", " \n\n"):
        sample = conversation(text, spans=[Span(0, len(text))])
        meaning = Meaning(tokenizing)
        meaning.add_conversations([sample])
        tokenized, counts = tokenizing.conversation(sample.messages), Compared()
        meaning.compare(tokenized.ids.tolist(), tokenized.loss.tolist(), counts)
        assert (counts.samples, counts.turns, counts.not_meant, counts.not_trained, counts.others) == (1, 1, 0, 0, 0)
        assert counts.meant == counts.trained > 1


def test_what_is_trained_and_was_not_meant_is_counted(tokenizing):
    sample = conversation("one\ntwo", spans=[Span(0, 4)])
    meaning = Meaning(tokenizing)
    meaning.add_conversations([sample])
    tokenized, counts = tokenizing.conversation(sample.messages), Compared()
    meaning.compare(tokenized.ids.tolist(), [1] * len(tokenized.ids), counts)
    assert counts.not_meant == len(tokenized.ids) - int(tokenized.loss.sum())
    meaning.compare(tokenized.ids.tolist(), [0] * len(tokenized.ids), counts)
    assert counts.not_trained == int(tokenized.loss.sum())
    meaning.compare(tokenized.ids.tolist()[1:], [0] * (len(tokenized.ids) - 1), counts)
    assert (counts.samples, counts.others) == (2, 1)


def test_a_document_may_lack_an_end_without_loss_and_no_other(tokenizing):
    document = Document("a", "web", "s", "t", "", "act\nsee\nact", (Span(4, 8),))
    meaning = Meaning(tokenizing)
    meaning.add_documents([document])
    tokenized = tokenizing.document(document.text, document.spans)
    last = int(tokenized.loss.nonzero()[0][-1])
    for length, others in ((last + 1, 0), (last, 1)):
        counts = Compared()
        meaning.compare(tokenized.ids[:length].tolist(), tokenized.loss[:length].tolist(), counts)
        assert (counts.others, counts.not_meant, counts.not_trained) == (others, 0, 0)


@pytest.mark.parametrize("name", ["datasets", "datatrove"])
def test_consumers_that_are_here_train_what_was_meant(run, here, name):
    ((consumer, results),) = tried(str(run), [name], Tokenizing(TOKENIZER))
    assert consumer == name
    assert not isinstance(results, ConfigError)
    assert sorted(results) == ["terminal", "web"]
    for result in results.values():
        assert isinstance(result, Compared)
        assert result.samples == 12
        assert (result.not_meant, result.not_trained, result.others) == (0, 0, 0)
