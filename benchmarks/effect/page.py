"""`python -m benchmarks.effect.page OUT PAGE`: writes what `benchmarks.effect` found in OUT into the tables of a page.

A table of the page stands between `<!-- table NAME -->` and `<!-- end -->`, and is replaced; the words around are those
of people. So every figure of a table is one of a run. Pictures are written beside it, into `images/`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.effect.measurement import FOUND, Test
from benchmarks.effect.output import pictures
from benchmarks.effect.significance import LEVEL, Difference, holm, together

COSTS: Final = "costs.json"
LOGS: Final = "logs"
TABLES: Final[Mapping[str, tuple[str, str]]] = {
    "whole": ("whole", "n-grams"),
    "copies": ("steps", "n-grams"),
    "rules": ("rules", "n-grams"),
    "masks": ("masks", "n-grams"),
    "classes": ("classes", "n-grams"),
    "transformers whole": ("whole", "transformer"),
    "transformers masks": ("masks", "transformer"),
    "transformers classes": ("classes", "transformer"),
}
"""By the name of a table the family and the learner that it shows."""

_BLOCK: Final = re.compile(r"(<!-- table ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


class Measured(NamedTuple):
    """What was measured: domains of the logs, then worlds by name.

    Attributes:
        tests: of all.
        tokens: that arms learnt, by domain or world.
        domains: of each domain or world its domain.
    """

    tests: list[Test]
    tokens: dict[str, int]
    domains: dict[str, str]


def found_in(out: Path) -> Measured:
    """All that was measured."""
    tests: list[Test] = []
    tokens: dict[str, int] = {}
    domains: dict[str, str] = {}
    for place in sorted(out.glob(f"*/{FOUND}"), key=lambda path: (path.parent.name != LOGS, path.parent.name)):
        told, name = json.loads(place.read_text("utf-8")), place.parent.name
        tokens |= {domain if name == LOGS else name: size for domain, size in told["tokens"].items()}
        tests += [_test(one, one["domain"] if name == LOGS else name) for one in told["tests"]]
        domains |= {one["domain"] if name == LOGS else name: one["domain"] for one in told["tests"]}
    return Measured(tests, tokens, domains)


def _test(told: Mapping[str, Any], name: str) -> Test:
    values = {one.name: told[one.name] for one in fields(Test)} | {"domain": name}
    values["apart"] = Difference(**told["apart"]) if told["apart"] else None
    return Test(**values)


def table(tests: Sequence[Test], family: str, learner: str) -> Iterator[str]:
    """The lines of a table: a row for each arm of a domain or world, with both sets; none where nothing was asked."""
    some = [one for one in tests if (one.family, one.learner) == (family, learner)]
    if not some:
        return
    sets = list(dict.fromkeys(one.what for one in some))
    yield f"| domain or world | arm | {' | '.join(sets)} |"
    yield "|---|---|" + "---|" * len(sets)
    for domain, arm in dict.fromkeys((one.domain, one.arm) for one in some):
        cells = {one.what: _cell(one) for one in some if (one.domain, one.arm) == (domain, arm)}
        yield f"| {domain} | {_short(arm)} | {' | '.join(cells.get(what, '') for what in sets)} |"


def domains_table(found: Measured) -> Iterator[str]:
    """The lines of the table of domains: the whole recipe over all logs and worlds of each that can be measured."""
    some = [one for one in found.tests if (one.family, one.learner) == ("whole", "n-grams")]
    by_place: dict[tuple[str, str], list[Test]] = {}
    for one in some:
        if one.apart is not None:
            by_place.setdefault((found.domains[one.domain], one.what), []).append(one)
    pooled = {place: together([one.apart for one in tests if one.apart]) for place, tests in by_place.items()}
    chances = dict(zip(pooled, holm([one.p for one in pooled.values()]), strict=True))
    yield "| domain | measured | as logged | as kept |"
    yield "|---|---|---|---|"
    for domain in sorted({domain for domain, _ in pooled}):
        names = dict.fromkeys(one.domain for place, tests in by_place.items() if place[0] == domain for one in tests)
        told = ", ".join("logs" if name == domain else name for name in names)
        cells = [
            _told(pooled[place], chances[place]) if (place := (domain, what)) in pooled else "not measurable"
            for what in ("as logged", "as kept")
        ]
        yield f"| {domain} | {told} | {' | '.join(cells)} |"


def _told(apart: Difference, p: float) -> str:
    word = "within noise" if p > LEVEL else "**better**" if apart.mean < 0 else "**worse**"
    chance = f"p {p:.3f}" if p >= 0.001 else "p < 0.001"
    return f"{apart.mean:+.4f} [{apart.low:+.4f}, {apart.high:+.4f}], {chance}: {word}"


def _short(arm: str) -> str:
    if arm.startswith("near, and rule "):
        return f"`{arm.removeprefix('near, and rule ')}`"
    return arm.removeprefix("everything, ")


def _cell(one: Test) -> str:
    if one.apart is not None:
        mark = "**" if one.word in ("better", "worse") else ""
        span = f"[{one.apart.low:+.4f}, {one.apart.high:+.4f}]"
        return f"{one.apart.mean:+.4f} {span}, p {one.p:.3f}: {mark}{one.word}{mark}"
    few = f"{one.groups} groups" if one.groups < 30 else f"{one.changed} changed"
    return f"{one.costs - one.costs_against:+.4f} ({few}: not measurable)"


def costs_table(out: Path) -> Iterator[str]:
    """The lines of the table of what it cost."""
    yield "| measured | CPU-seconds of recording | of judging and measuring |"
    yield "|---|---:|---:|"
    for name, told in json.loads((out / COSTS).read_text("utf-8")).items():
        yield f"| {name} | {told['recording']} | {told['measuring']} |"


def tokens_table(tokens: Mapping[str, int], tests: Sequence[Test]) -> Iterator[str]:
    """The lines of the table of what was measured: tokens learnt, groups, and as how many they weigh."""
    some = [one for one in tests if (one.family, one.learner) == ("whole", "n-grams")]
    whole = {(one.domain, one.what): f"{one.groups} ({one.alike:.1f})" for one in some}
    yield "| domain or world | tokens learnt by each arm | groups as logged | groups as kept |"
    yield "|---|---:|---:|---:|"
    for name, size in tokens.items():
        yield f"| {name} | {size:,} | {whole.get((name, 'as logged'), 0)} | {whole.get((name, 'as kept'), 0)} |"


def write_costs(path: Path, name: str, recording: float, measuring: float) -> None:
    """Adds what a part cost to those that are known."""
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    known[name] = {"recording": round(recording), "measuring": round(measuring)}
    path.write_text(json.dumps(known, indent=1), "utf-8")


def fill(page: Path, out: Path) -> None:
    """Writes the tables of a page anew, and its pictures.

    Raises:
        KeyError: the page asks for a table that there is none of.
    """
    found = found_in(out)
    tests = found.tests

    def made(block: re.Match[str]) -> str:
        name = block[2]
        if name == "costs":
            lines = costs_table(out)
        elif name == "measured":
            lines = tokens_table(found.tokens, tests)
        elif name == "domains":
            lines = domains_table(found)
        else:
            lines = table(tests, *TABLES[name])
        return block[1] + "\n" + "\n".join(lines) + "\n\n" + block[3]

    page.write_text(_BLOCK.sub(made, page.read_text("utf-8")), "utf-8")
    for name, text in zip(("effect", "losses"), pictures(tests), strict=True):
        (page.parent / "images" / f"{name}.svg").write_text(text, "utf-8")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("page", type=Path)
    given = parser.parse_args()
    fill(given.page, given.out)


if __name__ == "__main__":
    main()
