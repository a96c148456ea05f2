"""Trials: documents, arms, seeds, models of n-grams and of transformers, and significance."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.effect.arms import ALL_TEXT, EVERYTHING, RAW, Arm
from benchmarks.effect.corpus import Shown
from benchmarks.effect.documents import CLASSES, Document, Tokens, train_tokenizer
from benchmarks.effect.ngrams import DISCOUNT, ORDER, Ngrams, Reading, Stream
from benchmarks.effect.significance import difference
from benchmarks.effect.transformers import trials
from benchmarks.effect.trials import LOGGED, Domain, first_tokens
from trajmill.pipelines.recipe.recipe import SpanClass
from trajmill.pipelines.render.loss_spans import Answer
from trajmill.pipelines.render.turns import Turn
from trajmill.schemas import ConfigError


def document(number, length=60):
    """A document in a group that two share."""
    random = np.random.default_rng(number)
    kinds = (np.arange(length) % 3 > 0).astype(np.int8)
    tokens = random.integers(0, 20, length)
    return Document(f"0:{number}", f"{number // 2:016x}", tokens, kinds, kinds.astype(np.int64) * 4, kinds > 0)


def domain(most=100_000):
    documents = [document(number) for number in range(40)]
    return Domain("web", {RAW: documents, EVERYTHING: documents[::2]}, 20, most, 4)


def test_each_group_is_held_out_once_and_never_learnt_there():
    corpus = domain()
    groups = []
    for fold in range(corpus.folds):
        held_out = {document.group for document in corpus.held(LOGGED, 3, fold)}
        assert held_out.isdisjoint(document.group for arm in corpus.arms for document in corpus.learnt(arm, 3, fold))
        groups += sorted(held_out)
    assert sorted(groups) == sorted({document.group for document in corpus.arms[RAW]})


def test_arms_learn_equally_many_tokens_no_document_twice():
    corpus = domain()
    for fold in range(corpus.folds):
        budget = corpus.budget(0, fold)
        for arm in corpus.arms:
            learnt = first_tokens(corpus.learnt(arm, 0, fold), budget)
            assert sum(len(document.tokens) for document in learnt) == budget
            assert len({document.key for document in learnt}) == len(learnt)
    assert domain(most=100).budget(0, 0) == 100


SIZES = np.full((5, 60), 1000.0)


def costs(seed, shift=0.0):
    """Bits by seed and group: groups differ much, seeds little."""
    random = np.random.default_rng(seed)
    return (random.normal(2.0, 0.8, 60)[None, :] + random.normal(shift, 0.05, (5, 60))) * SIZES


def test_a_difference_that_all_groups_show_is_found_though_groups_differ_more():
    base = costs(1)
    result = difference(base - 0.02 * SIZES + np.random.default_rng(2).normal(0, 20, (5, 60)), base, SIZES)
    assert result.high < 0
    assert result.mean == pytest.approx(-0.02, abs=0.003)
    assert result.p < 0.01


def test_one_group_that_outweighs_all_others_proves_nothing():
    base = costs(5)
    ours = base.copy()
    ours[:, 0] -= 40_000
    result = difference(ours, base, SIZES)
    assert result.mean < -0.5
    assert result.high == 0
    assert result.p > 0.05


ANSWER = "größe 12\nMon 09:30\n$ ls\nneu ü\n"
PARTS = (
    ("größe ", None),
    ("12", "history"),
    ("\n", None),
    ("Mon 09:30", "volatile"),
    ("\n", None),
    ("$ ls", "action"),
)


def turn(step=0, loss=True):
    """A turn whose answer has a span of each kind, in bytes."""
    spans, offset = [], 0
    for text, label in PARTS:
        end = offset + len(text.encode())
        spans += [{"begin": offset, "end": end, "label": label}] if label else []
        offset = end
    after = {"content": ANSWER, "origin": "environment", "form": "stream", "dialect": None}
    answer = Answer(ANSWER, key=f"t:{step}", labels=spans, content=ANSWER, shown=ANSWER)
    return Turn(step, "### Turn 1\nls", answer, loss, {"row_id": f"r{step}", "next_observation": after})


@pytest.fixture(scope="module")
def tokens():
    return Tokens(train_tokenizer([]))  # a token a byte


def shown_document(tokens, arm, *turns):
    return tokens.document(Shown(0, 0, "g", turns or (turn(),)), arm, 0, labelled=True)


def spans_arm(weights: dict[SpanClass, float] | None = None) -> Arm:
    return Arm("one", EVERYTHING, "classes", loss="spans", weights=weights or {})


def borne(scored_document):
    """The text of the answer that bears the loss, a byte a token."""
    is_answer = scored_document.sizes > 0
    return bytes(np.frombuffer(ANSWER.encode(), np.uint8)[scored_document.borne[is_answer]]).decode("utf-8", "replace")


def test_bytes_have_the_class_of_their_character(tokens):
    kinds = shown_document(tokens, Arm(EVERYTHING, "", "")).kinds
    classes = [CLASSES[kind] for kind in kinds[kinds > 0]][:-1]
    class_of = {"history": "copied", "volatile": "volatile", "action": "copied"}
    expected = [class_of.get(label or "", "new") for text, label in PARTS for _ in text.encode()]
    assert classes == expected + ["new"] * (len(classes) - len(expected))


def test_a_class_without_loss_is_what_a_mixture_leaves_out(tokens):
    assert borne(shown_document(tokens, spans_arm())) == ANSWER
    assert borne(shown_document(tokens, spans_arm({"copied": 0.0}))) == ANSWER.replace("$ ls", "").replace("12", "")
    assert "09:30" in borne(shown_document(tokens, spans_arm({"volatile": 0.0})))  # the only one of a sample stays


VOCABULARY = 12


def drawn(seed, lengths):
    """Documents of tokens that repeat, and which of them bear the loss."""
    random = np.random.default_rng(seed)
    size = sum(lengths)
    return np.minimum(random.integers(0, 4, size) * random.integers(1, 4, size), 9), random.random(size) < 0.6


def counted(taught, borne, lengths, document):
    """What the last token of a document costs, by dictionaries: the same model, said in another way."""
    follows: Counter[tuple] = Counter()
    kinds: dict[tuple, set] = {}
    begin = 0
    for length in lengths:
        for index in range(begin, begin + length):
            if borne[index]:
                for order in range(ORDER + 1):
                    context = tuple(taught[at] if at >= begin else -1 for at in range(index - order, index))
                    follows[context, taught[index]] += 1
                    kinds.setdefault(context, set()).add(taught[index])
        begin += length
    for index in range(len(document) - 1):
        for order in range(ORDER + 1):
            context = tuple(document[at] if at >= 0 else -1 for at in range(index - order, index))
            follows[context, document[index]] += 1
            kinds.setdefault(context, set()).add(document[index])
    chance, last = 1 / VOCABULARY, len(document) - 1
    for order in range(ORDER + 1):
        context = tuple(document[at] if at >= 0 else -1 for at in range(last - order, last))
        some = kinds.get(context, set())
        total = sum(follows[context, token] for token in some)
        if total:
            chance = (max(follows[context, document[last]] - DISCOUNT, 0) + DISCOUNT * len(some) * chance) / total
    return -np.log2(chance)


def scored(model, document):
    """What each token of a document costs."""
    return model.bits(Reading(Stream.of(document, np.array([len(document)])), np.ones(len(document), np.bool_)))


@pytest.mark.parametrize("seed", range(3))
def test_what_columns_count_is_what_dictionaries_count(seed):
    lengths = [30, 17, 25]
    taught, borne = drawn(seed, lengths)
    model = Ngrams(Stream.of(taught, np.array(lengths)), borne, VOCABULARY)
    document, _ = drawn(seed + 100, [20])
    for end in (1, 2, 7, 20):
        score = scored(model, document[:end])[-1]
        assert score == pytest.approx(counted(taught.tolist(), borne, lengths, document[:end].tolist()))


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
def small_domain():
    documents = [document(number) for number in range(40)]
    arms = {RAW: documents, EVERYTHING: documents[::2], "near, and rule x": documents, ALL_TEXT: documents[::2]}
    return Domain("web", arms, 20, 1_000, 4)


def test_each_seed_asks_about_the_whole_and_the_masks_on_one_fold(small_domain, tmp_path):
    stands_in = interpreter(tmp_path, _STANDS_IN)
    results = trials([small_domain], 2, stands_in, tmp_path / "jobs", workers=2)["web"]
    assert trials([small_domain], 2, stands_in, tmp_path / "alone")["web"] == results
    assert [result.seed for result in results] == [0, 1]
    assert {arm for arm, _ in results[0].found} == {RAW, EVERYTHING, ALL_TEXT}
    first = results[0].found[EVERYTHING, LOGGED]
    assert {group for group, _ in first.size} == {item.group for item in small_domain.held(LOGGED, 0, 0)}
    assert sum(first.bits.values()) == 2.0 * sum(
        int((item.kinds > 0).sum()) for item in small_domain.held(LOGGED, 0, 0)
    )


def test_a_learner_that_fails_ends_it_with_its_last_words(small_domain, tmp_path):
    broken = interpreter(tmp_path, f"#!{sys.executable}\nimport sys\nsys.exit('out of memory on the device')\n")
    with pytest.raises(ConfigError):
        trials([small_domain], 1, broken, tmp_path / "jobs")
