"""Tables of a page are those of runs: each figure stands in what was found."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.effect import measurement
from benchmarks.effect.page import COSTS, fill, write_costs
from benchmarks.effect.significance import Difference

PAGE = """Words before.

<!-- table whole -->
| old | table |
<!-- end -->

Words between.

<!-- table rules -->
<!-- end -->

<!-- table domains -->
<!-- end -->

<!-- table transformers whole -->
<!-- end -->

<!-- table measured -->
<!-- end -->

<!-- table costs -->
<!-- end -->
"""


def found(domain: str, arm: str, family: str, apart: Difference | None) -> dict[str, object]:
    counts = {
        "groups": 40 if apart else 12,
        "alike": 9.5,
        "changed": 20,
        "costs": 1.5,
        "costs_against": 1.75,
        "p": 0.01,
    }
    names = {"domain": domain, "arm": arm, "against": "raw", "family": family, "learner": "n-grams", "of": "answers"}
    sets = [
        measurement.Test(**names, **counts, what=what, parts={}, apart=apart)  # type: ignore[arg-type]
        for what in ("as logged", "as kept")
    ]
    return {"tests": [asdict(one) for one in sets], "unchanged": {}, "tokens": {domain: 1_234}}


@pytest.fixture
def page(tmp_path: Path) -> Path:
    out = tmp_path / "out"
    told = {
        "sites": found("web", "everything", "whole", Difference(-0.25, -0.3, -0.2, 0.01)),
        "shops": found("web", "everything", "whole", Difference(-0.15, -0.2, -0.1, 0.01)),
        "logs": found("mcp", "near, and rule no_op", "rules", None),
    }
    for name, one in told.items():
        (out / name).mkdir(parents=True)
        (out / name / measurement.FOUND).write_text(json.dumps(one))
        write_costs(out / COSTS, name, 2.4, 70.6)
    (tmp_path / "images").mkdir()
    (tmp_path / "page.md").write_text(PAGE)
    fill(tmp_path / "page.md", out)
    return tmp_path / "page.md"


def test_tables_are_written_anew_and_words_stay(page: Path) -> None:
    text = page.read_text()
    cell = "-0.2500 [-0.3000, -0.2000], p 0.010: **better**"
    assert f"| sites | everything | {cell} | {cell} |" in text  # a world by its name, not by its domain
    both = "-0.2000 [-0.2354, -0.1646], p < 0.001: **better**"  # half of each, surer than either
    assert f"| web | shops, sites | {both} | {both} |" in text or f"| web | sites, shops | {both} | {both} |" in text
    few = "-0.2500 (12 groups: not measurable)"
    assert f"| mcp | `no_op` | {few} | {few} |" in text
    assert "old" not in text
    assert "Words before." in text
    assert "Words between." in text
    assert text.count("| domain or world | arm |") == 2  # none where nothing was asked


def test_costs_and_tokens_stand_beside(page: Path) -> None:
    text = page.read_text()
    assert "| sites | 2 | 71 |" in text
    assert "| sites | 1,234 | 40 (9.5) | 40 (9.5) |" in text
    assert text.index("| mcp | 1,234") < text.index("| sites | 1,234")  # logs come first


def test_a_table_that_is_not_known_is_refused(tmp_path: Path, page: Path) -> None:
    page.write_text("<!-- table wholes -->\n<!-- end -->\n")
    with pytest.raises(KeyError):
        fill(page, tmp_path / "out")


def test_the_same_runs_give_the_same_page(tmp_path: Path, page: Path) -> None:
    before = page.read_text()
    fill(page, tmp_path / "out")
    assert page.read_text() == before
