"""The error of estimated token counts, as the table tells it."""

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.tokens import SHORTEST, table, texts_of
from tests.make import batch_of, trajectory
from trajmill.quality.tokens import TokenCounter


class Doubled(TokenCounter):
    """Says twice the estimate."""

    def count(self, column: pa.Array) -> np.ndarray:
        return 2 * super().count(column)


def test_the_estimate_over_the_count_is_told_by_domain_and_of_all():
    texts = {"web": pa.array(["1" * SHORTEST, "1" * 200]), "os": pa.array(["1" * 300, "1" * 9]), "mcp": pa.array(["1"])}
    lines = list(table(texts, Doubled()))
    assert lines[2].startswith("| web | 2 | 0.00 | 0.50 | 0.50 | 0.50 | 0.50 | 0.50 | 1.00 |")
    assert lines[3].startswith("| os | 1 |")
    assert lines[4].strip("| ").split(" | ")[:2] == ["mcp", "0"]
    assert lines[5].startswith("| all | 3 |")


@pytest.mark.parametrize("times", [1, 3])
def test_equal_texts_count_once(times):
    batches = [batch_of(trajectory("a", "b"))] * times
    assert len(texts_of(batches)) == len(set(texts_of(batches).to_pylist()))
    assert len(texts_of(batches)) == len(texts_of(batches[:1]))
