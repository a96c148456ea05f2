"""What a consumer trains is held against the spans, and each has all that trying it takes."""

import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.conftest import ROOT
from tests.consumers import consumers
from tests.consumers.consumers import Consumer, tried
from tests.consumers.meaning import Compared, Meaning, trimmed, trimmed_sides
from tests.pipelines.publish.forms.test_forms import stored
from tests.pipelines.publish.forms.written_shards import written
from trajmill.pipelines.publish.forms.forms import export_form
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
        made, found = tokenizing.conversation(sample.messages), Compared()
        meaning.compare(made.ids.tolist(), made.loss.tolist(), found)
        assert (found.samples, found.turns, found.not_meant, found.not_trained, found.others) == (1, 1, 0, 0, 0)
        assert found.meant == found.trained > 1


def test_what_is_trained_and_was_not_meant_is_counted(tokenizing):
    sample = conversation("one\ntwo", spans=[Span(0, 4)])
    meaning = Meaning(tokenizing)
    meaning.add_conversations([sample])
    made, found = tokenizing.conversation(sample.messages), Compared()
    meaning.compare(made.ids.tolist(), [1] * len(made.ids), found)
    assert found.not_meant == len(made.ids) - int(made.loss.sum())
    meaning.compare(made.ids.tolist(), [0] * len(made.ids), found)
    assert found.not_trained == int(made.loss.sum())
    meaning.compare(made.ids.tolist()[1:], [0] * (len(made.ids) - 1), found)
    assert (found.samples, found.others) == (2, 1)


def test_a_document_may_lack_an_end_without_loss_and_no_other(tokenizing):
    document = Document("a", "web", "s", "t", "", "act\nsee\nact", (Span(4, 8),))
    meaning = Meaning(tokenizing)
    meaning.add_documents([document])
    made = tokenizing.document(document.text, document.spans)
    last = int(made.loss.nonzero()[0][-1])
    for kept, others in ((last + 1, 0), (last, 1)):
        found = Compared()
        meaning.compare(made.ids[:kept].tolist(), made.loss[:kept].tolist(), found)
        assert (found.others, found.not_meant, found.not_trained) == (others, 0, 0)


def test_a_document_may_lack_an_end_that_shares_its_only_token_with_what_was_meant(tokenizing):
    text = "act\n[0,2392]\n"
    assert tokenizing.decoded(tokenizing.plain(text).ids[-1:]) == "]\n"
    document = Document("a", "web", "s", "t", "", text, (Span(4, len(text) - 1),))
    meaning = Meaning(tokenizing)
    meaning.add_documents([document])
    made, found = tokenizing.document(document.text, document.spans), Compared()
    meaning.compare(made.ids[:-2].tolist(), made.loss[:-2].tolist(), found)
    assert (found.samples, found.others, found.not_meant, found.not_trained) == (1, 0, 0, 0)
    meaning.compare(made.ids[:-3].tolist(), made.loss[:-3].tolist(), found)
    assert (found.samples, found.others) == (1, 1)


def test_a_cut_document_is_told_from_a_longer_one_that_begins_with_it(tokenizing):
    texts = ["act\nsee\n###", "act\nsee\n## more to see"]
    meaning = Meaning(tokenizing)
    for text in texts:
        meaning.add_documents([Document("a", "web", "s", "t", "", text, (Span(4, 7), Span(15, len(text))))])
    ids = tokenizing.plain("act\nsee").ids.tolist()
    assert tokenizing.decoded(ids) == "act\nsee"
    bears = tokenizing.document(texts[0], [Span(4, 7)]).loss[: len(ids)].tolist()
    found = Compared()
    meaning.compare(ids, bears, found)
    assert (found.samples, found.others, found.not_meant, found.not_trained) == (1, 0, 0, 0)


def test_packs_hold_conversations_as_they_were_cut(run, tmp_path, tokenizing):
    import datasets

    consumer = Consumer("llamafactory", "sft", (), window=200)
    export_form(str(run), consumer.form, str(tmp_path), TOKENIZER, window=consumer.window)
    meaning, found = consumers._meaning(str(run), consumer, tokenizing), Compared()
    cut = 0
    for row in datasets.load_from_disk(str(tmp_path / "tokenized"))["train"]:
        for pack in range(1, max(row["attention_mask"]) + 1):
            at = [place for place, one in enumerate(row["attention_mask"]) if one == pack]
            bears = [int(row["labels"][one] != -100) for one in at]
            meaning.compare([row["input_ids"][one] for one in at], bears, found)
            cut += 1
    assert (found.samples, found.others, found.not_meant, found.not_trained) == (cut, 0, 0, 0)
    whole = [len(tokenizing.conversation(one.messages).ids) for one in stored(run, "sft")]
    assert max(whole) > 200 > min(whole)


@pytest.mark.parametrize("name", ["datasets", "datatrove"])
def test_consumers_that_are_here_train_what_was_meant(run, here, name):
    ((told, found),) = tried(str(run), [name], Tokenizing(TOKENIZER))
    assert told == name
    assert not isinstance(found, ConfigError)
    assert sorted(found) == ["terminal", "web"]
    for one in found.values():
        assert isinstance(one, Compared)
        assert one.samples == 12
        assert (one.not_meant, one.not_trained, one.others) == (0, 0, 0)


def test_texts_are_trimmed_where_the_template_trims_them(tmp_path, tokenizing):
    assert trimmed_sides(tokenizing) == (False, False)
    template = tmp_path / "trims.jinja"
    template.write_text(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content|trim }}<|im_end|>\n{% endfor %}", "utf-8"
    )
    assert trimmed_sides(Tokenizing(TOKENIZER, str(template))) == (True, True)
    shown = trimmed(Message("assistant", "  ab \n", (Span(0, 3), Span(4, 6))), (True, True))
    assert shown == Message("assistant", "ab", (Span(0, 1),))


def test_of_forms_that_know_no_spans_whole_answers_are_meant(run, tokenizing):
    for which, turns in (("all", 3), ("targets", 2), ("last", 1)):
        sample = conversation("one", "two", "three", spans=[Span(0, 1)])
        messages = (*sample.messages[:2], Message("assistant", "two"), *sample.messages[3:])
        made = list(consumers._whole(replace(sample, messages=messages), which))
        for one in made:
            bearing = [message for message in one.messages if message.spans]
            assert len(bearing) == turns
            assert all(message.spans == (Span(0, len(message.content)),) for message in bearing)
        assert len(made) == (2 if which == "last" else 1)


def test_rows_without_a_domain_are_told_by_their_text_and_samples_that_were_not_given_are_counted(tokenizing):
    samples = [conversation("one", spans=[Span(0, 3)]), replace(conversation("two"), domain="terminal")]
    meaning = Meaning(tokenizing)
    meaning.add_conversations([*samples, conversation("three")])
    made = [tokenizing.conversation(sample.messages) for sample in samples]
    rows = [{"ids": one.ids.tolist(), "trained": one.loss.tolist()} for one in made]
    found = consumers._compared(meaning, [*rows, {"domain": "web", "ids": [0], "trained": [0]}])
    assert {domain: (one.samples, one.others, one.left_out) for domain, one in found.items()} == {
        "terminal": (1, 0, 0),
        "web": (1, 1, 0),
    }
    assert consumers._compared(meaning, rows[:1])["terminal"].left_out == 1
