"""Token ids and their loss are what the spans mean, whatever the texts hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.publish.forms.conftest import TOKENIZER
from trajmill.pipelines.publish.forms.stored_samples import Message, Span
from trajmill.pipelines.publish.forms.tokenizing import Tokenizing
from trajmill.schemas import ConfigError

TEXTS = st.lists(st.sampled_from([*"ab \n\t.7日🙂é", "<think>", "<|im_end|>"]), max_size=40).map("".join)


def user(text="?"):
    return Message("user", text)


def answer(text, *spans):
    return Message("assistant", text, tuple(Span(*span) for span in spans or [(0, len(text))]))


def trained(tokenizing, tokens):
    return tokenizing.decoded(tokens.ids[tokens.loss])


def test_ids_are_those_that_the_template_and_the_tokenizer_give_where_no_text_holds_control_strings(tokenizing):
    texts = ["list the files", "total 4\nnotes\n"]
    tokenized = tokenizing.conversation([user(texts[0]), answer(texts[1])])
    shown = tokenizing.shown([{"role": "user", "content": texts[0]}, {"role": "assistant", "content": texts[1]}])
    assert tokenizing.decoded(tokenized.ids) == shown
    assert tokenized.ids.tolist() == tokenizing._whole(shown, add_special_tokens=False)["input_ids"]


def test_control_strings_in_contents_are_plain_text(tokenizing):
    text = "</think> <|im_end|>\n<|im_start|>user\n<tool_call>"
    tokenized = tokenizing.conversation([user(), answer(text)])
    assert trained(tokenizing, tokenized) == f"{text}<|im_end|>"
    assert tokenized.ids.tolist().count(tokenizing._control["<|im_end|>"]) == 2
    assert tokenizing._control["<tool_call>"] not in tokenized.ids
    assert tokenizing.control_strings(text) == 4


def test_whitespace_of_screens_reaches_the_ids_though_the_template_trims(tmp_path):
    template = tmp_path / "trims.jinja"
    template.write_text(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content|trim }}<|im_end|>\n{% endfor %}", "utf-8"
    )
    trims = Tokenizing(TOKENIZER, str(template))
    screen = "\n\n  prompt> \n\n "
    tokenized = trims.conversation([user(), answer(screen)])
    assert trained(trims, tokenized) == f"{screen}<|im_end|>"
    assert screen not in trims.shown([{"role": "assistant", "content": screen}])


def test_a_token_partly_inside_a_span_bears_no_loss_and_is_counted(tokenizing):
    text = "listing files"
    assert len(tokenizing.plain(text).ids) < len(text)
    begins = tokenizing.plain(text).begins.tolist()
    inner = next(at for at in range(1, len(text)) if at not in begins)
    tokenized = tokenizing.conversation([user(), answer(text, (inner, len(text)))])
    assert tokenized.straddlers == 1
    assert trained(tokenizing, tokenized) == text[next(at for at in begins if at > inner) :] + "<|im_end|>"


def test_the_end_of_a_turn_bears_the_loss_only_if_its_last_character_does(tokenizing):
    tokenized = tokenizing.conversation([user(), answer("one\ntwo", (0, 4)), user(), answer("three")])
    assert trained(tokenizing, tokenized) == "one\nthree<|im_end|>"


def test_a_document_ends_with_a_token_that_bears_the_loss_of_its_last_character(tokenizing):
    text = "state <|endoftext|>\nls\nnotes"
    tokenized = tokenizing.document(text, [Span(23, len(text))])
    assert trained(tokenizing, tokenized) == "notes<|endoftext|>"
    assert not tokenizing.document(text, [Span(0, 5)]).loss[-1]
    assert tokenizing.decoded(tokenized.ids) == f"{text}<|endoftext|>"


def test_a_conversation_is_cut_at_the_end_of_a_turn_that_bears_the_loss(tokenizing):
    messages = [user(), answer("one"), user(), Message("assistant", "two"), user(), answer("three")]
    whole = tokenizing.conversation(messages)
    cut = whole.cut(len(whole.ids) - 2)
    assert tokenizing.decoded(cut.ids).endswith("one<|im_end|>")
    assert whole.cut(len(whole.ids)) is whole
    assert whole.cut(whole.ends[1] - 1) is None


@given(text=TEXTS, edges=st.lists(st.integers(0, 60), min_size=2, max_size=8))
def test_what_bears_the_loss_lies_inside_the_spans(tokenizing, text, edges):
    edges = sorted(min(edge, len(text)) for edge in edges)
    spans = [Span(*pair) for pair in zip(edges[::2], edges[1::2], strict=False) if pair[0] < pair[1]]
    encoded = tokenizing.plain(text)
    inside, straddlers = encoded.inside(spans)
    meant = np.zeros(len(text) + 1, bool)
    for span in spans:
        meant[span.begin : span.end] = True
    by_hand = [bool(meant[b:e].all()) for b, e in zip(encoded.begins, encoded.ends, strict=True)]
    assert inside.tolist() == by_hand
    partly = [bool(meant[b:e].any()) for b, e in zip(encoded.begins, encoded.ends, strict=True)]
    assert straddlers == sum(partly) - sum(by_hand)


def test_a_template_that_hides_or_repeats_contents_is_refused(tmp_path):
    for source in (
        "{{ messages[0].content }}",
        "{{ messages[1].content }}{% for m in messages %}{{ m.content }}{% endfor %}",
    ):
        (tmp_path / "t.jinja").write_text(source, "utf-8")
        with pytest.raises(ConfigError):
            Tokenizing(TOKENIZER, str(tmp_path / "t.jinja")).conversation([user("a"), answer("b")])


def test_a_template_that_refuses_is_told(tmp_path):
    (tmp_path / "t.jinja").write_text("{{ raise_exception('System message must be at the beginning.') }}", "utf-8")
    with pytest.raises(ConfigError):
        Tokenizing(TOKENIZER, str(tmp_path / "t.jinja")).conversation([user("a"), answer("b")])


def test_a_tokenizer_file_needs_a_template_of_its_own(tmp_path):
    alone = Tokenizing(f"{TOKENIZER}/tokenizer.json")
    assert alone.digest == Tokenizing(TOKENIZER).digest
    with pytest.raises(ConfigError, match="--chat-template"):
        alone.conversation([user("a"), answer("b")])
    with pytest.raises(ConfigError, match=r"tokenizer\.json"):
        Tokenizing(str(tmp_path / "nothing"))
