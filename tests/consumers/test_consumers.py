"""What a consumer trains is held against the spans, and each has all that trying it takes."""

import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.conftest import ROOT
from tests.consumers import consumers
from tests.consumers.agents import compare
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


def test_a_document_may_lack_an_end_that_shares_its_only_token_with_what_was_meant(tokenizing):
    text = "act\n[0,2392]\n"
    assert tokenizing.decoded(tokenizing.plain(text).ids[-1:]) == "]\n"
    document = Document("a", "web", "s", "t", "", text, (Span(4, len(text) - 1),))
    meaning = Meaning(tokenizing)
    meaning.add_documents([document])
    tokenized, counts = tokenizing.document(document.text, document.spans), Compared()
    meaning.compare(tokenized.ids[:-2].tolist(), tokenized.loss[:-2].tolist(), counts)
    assert (counts.samples, counts.others, counts.not_meant, counts.not_trained) == (1, 0, 0, 0)
    meaning.compare(tokenized.ids[:-3].tolist(), tokenized.loss[:-3].tolist(), counts)
    assert (counts.samples, counts.others) == (1, 1)


def test_a_cut_document_is_told_from_a_longer_one_that_begins_with_it(tokenizing):
    texts = ["act\nsee\n###", "act\nsee\n## more to see"]
    meaning = Meaning(tokenizing)
    for text in texts:
        meaning.add_documents([Document("a", "web", "s", "t", "", text, (Span(4, 7), Span(15, len(text))))])
    ids = tokenizing.plain("act\nsee").ids.tolist()
    assert tokenizing.decoded(ids) == "act\nsee"
    bears = tokenizing.document(texts[0], [Span(4, 7)]).loss[: len(ids)].tolist()
    counts = Compared()
    meaning.compare(ids, bears, counts)
    assert (counts.samples, counts.others, counts.not_meant, counts.not_trained) == (1, 0, 0, 0)


def test_packs_hold_conversations_as_they_were_cut(run, tmp_path, tokenizing):
    import datasets

    consumer = Consumer("llamafactory", "sft", (), window=200)
    export_form(str(run), consumer.form, str(tmp_path), TOKENIZER, window=consumer.window)
    meaning, counts = consumers._meaning(str(run), consumer, tokenizing), Compared()
    cut = 0
    for row in datasets.load_from_disk(str(tmp_path / "tokenized"))["train"]:
        for pack in range(1, max(row["attention_mask"]) + 1):
            indices = [position for position, mark in enumerate(row["attention_mask"]) if mark == pack]
            bears = [int(row["labels"][index] != -100) for index in indices]
            meaning.compare([row["input_ids"][index] for index in indices], bears, counts)
            cut += 1
    assert (counts.samples, counts.others, counts.not_meant, counts.not_trained) == (cut, 0, 0, 0)
    whole = [len(tokenizing.conversation(sample.messages).ids) for sample in stored(run, "sft")]
    assert max(whole) > 200 > min(whole)


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
    for mode, turns in (("all", 3), ("targets", 2), ("last", 1)):
        sample = conversation("one", "two", "three", spans=[Span(0, 1)])
        messages = (*sample.messages[:2], Message("assistant", "two"), *sample.messages[3:])
        conversations = list(consumers._whole(replace(sample, messages=messages), mode))
        for talk in conversations:
            bearing = [message for message in talk.messages if message.spans]
            assert len(bearing) == turns
            assert all(message.spans == (Span(0, len(message.content)),) for message in bearing)
        assert len(conversations) == (2 if mode == "last" else 1)


def test_rows_without_a_domain_are_told_by_their_text_and_samples_that_were_not_given_are_counted(tokenizing):
    samples = [conversation("one", spans=[Span(0, 3)]), replace(conversation("two"), domain="terminal")]
    meaning = Meaning(tokenizing)
    meaning.add_conversations([*samples, conversation("three")])
    tokenized = [tokenizing.conversation(sample.messages) for sample in samples]
    rows = [{"ids": item.ids.tolist(), "trained": item.loss.tolist()} for item in tokenized]
    results = consumers._compared(meaning, [*rows, {"domain": "web", "ids": [0], "trained": [0]}])
    assert {domain: (result.samples, result.others, result.left_out) for domain, result in results.items()} == {
        "terminal": (1, 0, 0),
        "web": (1, 1, 0),
    }
    assert consumers._compared(meaning, rows[:1])["terminal"].left_out == 1


def test_a_trainer_that_trains_other_text_of_an_agent_or_other_ids_is_counted():
    tokenizing = Tokenizing(TOKENIZER)
    asked, answered = (list(tokenizing.plain(text).ids) for text in ("How is it?", " Dry.\n"))
    ids, mask = asked + answered, [0] * len(asked) + [1] * len(answered)
    expected = {"a": {"input_ids": ids, "loss_mask": mask}}
    row = {"id": "a", "ids": ids, "trained": mask}
    later = {"id": "a", "ids": [*ids, *asked], "trained": [*mask, *[0] * len(asked)]}
    for same in (row, later):
        counts = compare([same], expected, tokenizing)
        assert (counts["messages"], counts["other ids"], counts["other text"]) == (1, 0, 0)
    everything = compare([row | {"trained": [1] * len(ids)}], expected, tokenizing)
    assert (everything["other ids"], everything["other text"]) == (0, 1)
    assert compare([row | {"ids": ids[::-1]}], expected, tokenizing)["other ids"] == 1
    assert compare([row | {"id": "b"}], expected, tokenizing)["not in agent_ids"] == 1
