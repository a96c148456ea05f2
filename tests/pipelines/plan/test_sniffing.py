import os

import pytest

from trajmill.pipelines.plan import sniffing
from trajmill.schemas import ConfigError, ShardError


def tried(number: int) -> int:
    if number == 200:
        raise ConfigError("no", "such")
    if number == 300:
        os._exit(1)
    return number + 1


def test_files_are_sniffed_in_processes_in_their_order_and_errors_are_raised_as_they_were(monkeypatch):
    monkeypatch.setattr(sniffing, "LEAST", 1)
    assert sniffing.sniff_all(tried, range(150), 2) == list(range(1, 151))
    with pytest.raises(ConfigError, match="'such'"):
        sniffing.sniff_all(tried, range(201), 2)
    with pytest.raises(ShardError):
        sniffing.sniff_all(tried, range(300, 301), 2)


def test_few_files_are_sniffed_here():
    assert sniffing.sniff_all(lambda number: number + 1, [1, 2], 2) == [2, 3]
