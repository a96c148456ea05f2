"""Every hostile input is refused for its reason, at its place, and the good log beside it is milled like ever."""

import polars as pl
import pytest

from tests.pipelines.hostile import CASES, GOOD
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import scan_transitions

RECIPE = Recipe.model_validate(
    {"name": "t", "source": "t", "normalize": {"max_reject_ratio": 1.0, "max_member_bytes": 256 << 20}}
)
COLUMNS = ("uri", "reason", "member", "offset")


@pytest.fixture(scope="module")
def milled(tmp_path_factory):
    """(rejects, transitions) of one run over all hostile inputs, each in a folder with a good log."""
    base = tmp_path_factory.mktemp("hostile")
    (base / "outside").mkdir()
    (base / "outside" / "log.jsonl").write_bytes(GOOD)
    (base / "outside" / "outside.json").write_bytes(GOOD)
    for name, case in CASES.items():
        folder = base / "raw" / name
        for file, content in {"beside.jsonl": GOOD, **case.files}.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                (folder / file).write_bytes(content)
            else:
                content(folder / file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAJMILL_PICKLED", str(base / "pickled"))
        Run(RECIPE, [str(base / "raw")], str(base / "out")).run("normalize")
    assert not (base / "pickled").exists()
    tables = [pl.read_parquet(path) for path in (base / "out" / "rejects").rglob("*.parquet")]
    columns = ["domain", "action", "next_observation", "provenance", "step"]
    return pl.concat(tables), scan_transitions(base / "out").select(columns).collect()


def rows_of(transitions, uri):
    rows = transitions.filter(pl.col("provenance").struct.field("uri") == uri).sort("step")
    return rows.select("domain", "step", "action", "next_observation")


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_input_is_refused_for_its_reason_at_its_place(milled, name):
    rejects, _ = milled
    rows = rejects.filter(pl.col("uri").str.starts_with(f"{name}/")).select(COLUMNS).rows()
    wanted = [(f"{name}/{uri}", *rest) for uri, *rest in CASES[name].rejects]
    met = sorted((uri, reason, member) for uri, reason, member, _ in rows)
    assert met == sorted((uri, reason, member) for uri, reason, member, _ in wanted)
    for uri, reason, member, offset in wanted:
        offsets = {row[3] for row in rows if row[:3] == (uri, reason, member)}
        assert offsets == ({offset} if offset is not None else offsets)
        assert offset is not None or min(offsets) >= 0


@pytest.mark.parametrize("name", CASES)
def test_the_good_log_beside_it_is_milled(milled, name):
    _, transitions = milled
    good = rows_of(transitions, "empty/beside.jsonl")
    assert good.height > 0
    for uri in ("beside.jsonl", *CASES[name].milled):
        met = rows_of(transitions, f"{name}/{uri}")
        assert met.head(good.height).equals(good)


def test_excerpts_of_hostile_inputs_are_short(milled):
    rejects, _ = milled
    assert rejects["excerpt"].str.len_bytes().max() <= 3 * 4096


@pytest.mark.parametrize("name", ["gzip_bomb", "zstd_bomb", "bzip2_bomb", "xz_bomb"])
def test_a_bomb_is_left_soon_after_what_is_granted(milled, name):
    rejects, _ = milled
    (offset,) = rejects.filter(pl.col("uri").str.starts_with(f"{name}/"))["offset"]
    assert 64 << 20 < offset <= 68 << 20


def test_nothing_of_a_file_outside_the_root_is_milled(milled):
    _, transitions = milled
    uris = transitions["provenance"].struct.field("uri").unique().to_list()
    assert not [uri for uri in uris if "outside" in uri or "folder" in uri or "absolute" in uri]
