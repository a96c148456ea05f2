from benchmarks.logs.mixed import SHARES, mixed, write_mixed


def test_a_mixed_corpus_holds_every_format_and_begins_with_the_smaller_one(tmp_path):
    small, large = dict(mixed(3_000_000)), dict(mixed(4_000_000))
    assert {path.split("/")[0] for path in small} == set(SHARES)
    assert small.items() <= large.items()
    assert write_mixed(tmp_path, 3_000_000) == sum(map(len, small.values())) == write_mixed(tmp_path, 3_000_000)
