"""`python -m benchmarks.languages`: how well languages are told, and what is said of code and screens.

Sentences of 15 languages as programs and people write them, each alone, by its first five words and in capitals, and
three together, stand as they are and within what surrounds prose in logs: JSON, a tree of a screen, a shell. Code and
screens without prose stand beside them. With `--raw`, the trajectories of real logs by domain. The model
is the one that comes with trajmill, or `--model FILE`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import fasttext
from rich.console import Console
from rich.table import Table

from benchmarks.signals import normalize_logs, size_of
from trajmill.quality.fasttext_model import Model
from trajmill.quality.prose import join_prose, prose_lines
from trajmill.quality.signal import Measured
from trajmill.quality.signals.language import CHARACTERS, MODEL, readable
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import Action, Assembler, Observation, Origin, Step, Trajectory

SENTENCES: Final = Path(__file__).with_name("languages.json")
"""Language → three sentences."""

BARE: Final[dict[str, str]] = {
    "python": "def total(rows):\n    found = {}\n    for row in rows:\n        found[row.key] = row.size\n",
    "c": "static int max(int a, int b) { return a > b ? a : b; }\nfor (i = 0; i < n; i++) s += a[i];",
    "shell": "$ ls -la /srv/data | grep -v '^d' | awk '{print $5, $9}' | sort -rn | head\n4096 notes.txt\n812 run.sh",
    "listing": "total 12\ndrwxr-xr-x 2 dev dev 4096 Mar  3 10:00 src\n-rw-r--r-- 1 dev dev  812 Mar  3 10:01 run.sh",
    "processes": "  PID USER  %CPU %MEM COMMAND\n 4312 dev   12.0  0.4 python3 -m http\n  981 root   0.3  0.1 sshd",
    "diff": "diff --git a/src/io.py b/src/io.py\n@@ -3,7 +3,7 @@\n-    return open(path)\n+    return path.open()",
    "json": '{"id": 7, "state": "done", "tags": ["a", "b"], "size": 812, "next": null, "path": "/srv/data/7.json"}',
    "table": "| name | size | state |\n|---|---:|---|\n| alpha | 12 | done |\n| beta | 9 | open |",
    "tree": '#1 document "Cart" value="http://shop.example/cart"\n  #2 button "Add"\n  #3 link "Help" value="/help"',
    "top": "Tasks: 201 total,   1 running, 200 sleeping\n%Cpu(s):  3.1 us,  0.7 sy, 96.0 id\nMiB Mem :  15902.4 total",
}
"""Texts without a sentence."""


def shapes(sentences: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(what it is, text) of each way in which the sentences are shown."""
    for sentence in sentences:
        yield "a sentence", sentence
        yield "in capitals", sentence.upper()
        yield "within JSON", json.dumps({"id": 7, "message": sentence, "code": 422}, ensure_ascii=False)
        yield "on a screen", f'#1 document value="http://a.example/"\n  #2 alert "{sentence}"\n  #3 button "OK" id=ok'
        yield "in a shell", f"$ make -j4 all\ncc -O2 -c main.c\nmain.c:12: {sentence}\nmake: *** [all] 2\n"
        words = sentence.split()
        if len(words) > 5:
            yield "five words", " ".join(words[:5])
    yield "three sentences", "\n".join(sentences)


def batch_of(texts: Sequence[str]) -> Any:
    """A trajectory of one step for each text."""
    assembler, origin = Assembler(), Origin("made", "benchmark", "made", "1", lambda _: "0" * 64)
    for number, text in enumerate(texts):
        step = Step(Action("run", "run", "{}"), None, Observation(text), 0, 0)
        assembler.add(Trajectory(str(number), "terminal", [step]), origin, {})
    return assembler.take()


def prose(batch: Any) -> list[str]:
    """The prose of each trajectory, as the signal reads it."""
    lines = prose_lines(Measured.of(batch, TokenCounter()), CHARACTERS)
    return [join_prose([some], CHARACTERS) for some in lines]


def likeliest_language(model: Model, text: str) -> tuple[str, float]:
    """The language that the model thinks likeliest, and its probability."""
    labels, shares = _load(model.path).predict([readable(text).replace("\n", " ")], k=1)
    return labels[0][0].removeprefix("__label__"), min(float(shares[0][0]), 1.0)


@cache
def _load(path: str) -> Any:
    return fasttext.load_model(path)


def print_made_tables(model: Model, console: Console) -> None:
    """Prints what the model says of the sentences and of texts without one."""
    known = json.loads(SENTENCES.read_text())
    right: dict[str, Counter[bool]] = {}
    own: dict[str, list[float]] = {}
    english: dict[str, list[float]] = {}
    missed: dict[str, list[str]] = {}
    for language, sentences in known.items():
        cases = list(shapes(sentences))
        proses = prose(batch_of([text for _, text in cases]))
        shares = model.probabilities([readable(text) for text in proses], [language])
        wrong = model.probabilities([readable(text) for text in proses], ["en"])
        for (shape, _), text, share, english_share in zip(cases, proses, shares.tolist(), wrong.tolist(), strict=True):
            label = likeliest_language(model, text)[0] if text else "no prose"
            right.setdefault(shape, Counter())[label == language] += 1
            own.setdefault(shape, []).append(share if text else 0.0)
            if language != "en":
                english.setdefault(shape, []).append(english_share if text else 0.0)
            if label != language:
                missed.setdefault(shape, []).append(f"{language} as {label}")
    table = Table("shown as", "texts", "right", "own < 0.65", "own < 0.3", "others: en >= 0.3", "taken for")
    for shape, counts in right.items():
        of = sum(counts.values())
        cells = [sum(share < bound for share in own[shape]) for bound in (0.65, 0.3)]
        others = sum(share >= 0.3 for share in english[shape])
        taken = ", ".join(
            f"{wrong_label} {number}" for wrong_label, number in Counter(missed.get(shape, [])).most_common(4)
        )
        table.add_row(shape, str(of), f"{counts[True] / of:.1%}", *map(str, cells), str(others), taken)
    console.print(table)
    proses = prose(batch_of(list(BARE.values())))
    outcomes = [
        f"{name}: {'no prose' if not text else likeliest_language(model, text)}"
        for name, text in zip(BARE, proses, strict=True)
    ]
    console.print("texts without a sentence: " + ", ".join(outcomes))


def raw_table(model: Model, raw: str, console: Console) -> None:
    """Prints the languages of the trajectories of real logs, by domain."""
    table = Table("domain", "trajectories", "without prose", "languages", "en below 0.65", "en below 0.3", "MB/CPU-s")
    for domain, batches in normalize_logs([raw]).items():
        begin = time.process_time()
        guesses = [likeliest_language(model, text) if text else ("", 1.0) for batch in batches for text in prose(batch)]
        spent = time.process_time() - begin
        counts = Counter(label for label, _ in guesses if label)
        low = [sum(label == "en" and share < bound for label, share in guesses) for bound in (0.65, 0.3)]
        rate = f"{size_of(batches) / spent:.1f}"
        names = ", ".join(f"{name} {number}" for name, number in counts.most_common())
        table.add_row(
            domain, str(len(guesses)), str(sum(not label for label, _ in guesses)), names, *map(str, low), rate
        )
    console.print(table)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=MODEL, help="a fastText model of languages")
    parser.add_argument("--raw", help="real logs")
    options = parser.parse_args()
    model, console = Model(options.model), Console(width=120)
    print_made_tables(model, console)
    if options.raw:
        raw_table(model, options.raw, console)


if __name__ == "__main__":
    main()
