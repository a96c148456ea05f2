"""Each form, read back as its consumer reads it, bears the loss on what the spans mean and on nothing else."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from itertools import pairwise

import numpy as np
import orjson
import pyarrow.parquet as pq
import pytest
import yaml
import zstandard

from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from tests.pipelines.publish.forms.conftest import TOKENIZER
from tests.pipelines.publish.forms.written_shards import VOLATILE
from trajmill.pipelines.publish.forms import texts
from trajmill.pipelines.publish.forms.form_folder import FormFolder
from trajmill.pipelines.publish.forms.forms import FORMS, export_form
from trajmill.pipelines.publish.forms.job import Job
from trajmill.pipelines.publish.forms.megatron_reader import masked_documents
from trajmill.pipelines.publish.forms.stored_samples import StoredShards
from trajmill.pipelines.publish.forms.tokenizing import IGNORED
from trajmill.schemas import ConfigError

WINDOW = 600


def exported(run, out, name, **more):
    if FORMS[name].packed:
        more.setdefault("window", WINDOW)
    tokenizer = TOKENIZER if FORMS[name].tokens else None
    return export_form(str(run), name, str(out), tokenizer, **more)


def stored(run, pool):
    shards = StoredShards(str(run))
    read = shards.documents if pool == "cpt" else shards.conversations
    return [sample for file in shards.files(pool) for sample in read(file)]


def meant(run, pool, tokenizing):
    """Id → (ids, mask) of each sample."""
    if pool == "cpt":
        made = {one.id: tokenizing.document(one.text, one.spans) for one in stored(run, pool)}
    else:
        made = {one.id: tokenizing.conversation(one.messages) for one in stored(run, pool)}
    return {key: (one.ids.tolist(), one.loss.tolist()) for key, one in made.items()}


@pytest.mark.parametrize("name", sorted(FORMS))
def test_a_form_names_every_file_with_its_digest_and_is_the_same_bytes_again(run, tmp_path, name):
    first = exported(run, tmp_path / "a", name)
    second = exported(run, tmp_path / "b", name)
    assert first == second
    on_disk = {str(path.relative_to(tmp_path / "a")) for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert on_disk == {"manifest.json", *(file.name for file in first.files)}
    assert sum(file.rows for file in first.files) > 0
    told = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert told["stage"] == "export"
    assert ("models" in told) == FORMS[name].tokens


def test_what_is_not_ours_is_never_replaced(run, tmp_path):
    exported(run, tmp_path, "jsonl")
    exported(run, tmp_path, "ids")
    assert not list(tmp_path.rglob("*.zst"))
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"notes\.txt"):
        exported(run, tmp_path, "ids")
    assert (tmp_path / "manifest.json").exists()


@pytest.mark.parametrize("pool", ["sft", "cpt"])
def test_ids_and_labels_are_those_that_were_meant(run, tmp_path, tokenizing, pool):
    exported(run, tmp_path, "ids")
    rows = [row for path in sorted(tmp_path.glob(f"{pool}/*/*.parquet")) for row in pq.read_table(path).to_pylist()]
    assert {row["id"]: (row["input_ids"], [bool(one) for one in row["loss_mask"]]) for row in rows} == meant(
        run, pool, tokenizing
    )
    for row in rows:
        kept = zip(row["input_ids"], row["loss_mask"], strict=True)
        assert row["labels"] == [one if mask else IGNORED for one, mask in kept]
        assert set(row["attention_mask"]) == {1}


def test_ids_are_cut_to_the_window_and_what_is_lost_is_counted(run, tmp_path, tokenizing):
    window = sorted(len(ids) for ids, _ in meant(run, "sft", tokenizing).values())[3]
    made = exported(run, tmp_path, "ids", window=window)
    rows = [row for path in tmp_path.glob("sft/*/*.parquet") for row in pq.read_table(path).to_pylist()]
    assert max(len(row["input_ids"]) for row in rows) <= window
    counts = made.counts
    assert sum(count for key, count in counts.items() if key.startswith("cut_to_window")) > 0
    lost = sum(count for key, count in counts.items() if key.startswith("left_out_over_window"))
    assert len(rows) + lost == len(stored(run, "sft"))


def test_megatron_reads_ids_and_the_mask_beside_them(run, tmp_path, tokenizing):
    exported(run, tmp_path, "megatron")
    wanted = list(meant(run, "cpt", tokenizing).values())
    found = []
    for path in sorted(tmp_path.glob("cpt/*/*_loss_mask.idx")):
        prefix = str(path).removesuffix("_loss_mask.idx")
        found += [(ids.tolist(), mask.tolist()) for ids, mask in masked_documents(prefix)]
    assert found == wanted
    words = (tmp_path / "data_args.txt").read_text().split()
    assert [float(word) for word in words[::2]] == [0.333333, 0.666667]
    assert all((tmp_path / f"{prefix}.bin").exists() for prefix in words[1::2])
    assert "**Unmasked**" in (tmp_path / "README.md").read_text()


def test_megatron_reader_tells_a_mask_that_does_not_fit(run, tmp_path):
    exported(run, tmp_path, "megatron")
    mask = next(tmp_path.glob("cpt/terminal/*_loss_mask.bin"))
    mask.write_bytes(mask.read_bytes()[:-1])
    with pytest.raises(ValueError):
        masked_documents(str(mask).removesuffix("_loss_mask.bin"))


def test_olmo_files_are_of_the_smallest_type_with_a_mask_each(run, tmp_path, tokenizing):
    exported(run, tmp_path, "olmo")
    told = yaml.safe_load((tmp_path / "dataset.yaml").read_text())
    assert told["dtype"] == "uint16"
    found = []
    for path, mask in zip(told["paths"], told["label_mask_paths"], strict=True):
        ids, bears = np.fromfile(tmp_path / path, told["dtype"]), np.fromfile(tmp_path / mask, bool)
        found += list(zip(ids.tolist(), bears.tolist(), strict=True))
    wanted = [pair for ids, mask in meant(run, "cpt", tokenizing).values() for pair in zip(ids, mask, strict=True)]
    assert found == wanted
    mixture = yaml.safe_load((tmp_path / "source_mixture.yaml").read_text())
    assert [one["target_ratio"] for one in mixture["sources"]] == [0.333333, 0.666667]
    assert mixture["requested_tokens"] == len(wanted)


def test_mds_shards_hold_ids_and_mask_of_each_document(run, tmp_path, tokenizing):
    exported(run, tmp_path, "mds")
    found: dict[str, object] = {}
    for index in sorted(tmp_path.glob("cpt/*/index.json")):
        for told in json.loads(index.read_text())["shards"]:
            data = (index.parent / told["raw_data"]["basename"]).read_bytes()
            assert len(data) == told["raw_data"]["bytes"]
            found |= dict(mds_samples(data, told["samples"]))
    assert found == meant(run, "cpt", tokenizing)
    assert [one["proportion"] for one in json.loads((tmp_path / "streams.json").read_text())] == [0.333333, 0.666667]


def mds_samples(data, count):
    assert struct.unpack_from("<I", data)[0] == count
    offsets = struct.unpack_from(f"<{count + 1}I", data, 4)
    for begin, end in pairwise(offsets):
        sizes = struct.unpack_from("<3I", data, begin)
        assert begin + 12 + sum(sizes) == end
        key, ids, mask = np.split(np.frombuffer(data, np.uint8, sum(sizes), begin + 12), np.cumsum(sizes)[:2])
        yield key.tobytes().decode(), (mds_array(ids.tobytes(), np.int32), mds_array(mask.tobytes(), bool))


def mds_array(data, dtype):
    width = 1 << (data[0] & 3)
    assert data[0] >> 2 == 1
    values = np.frombuffer(data, dtype, offset=1 + width)
    assert len(values) == int.from_bytes(data[1 : 1 + width], "little")
    return values.tolist()


def test_jsonl_says_what_bears_no_loss(run, tmp_path):
    exported(run, tmp_path, "jsonl")
    for path in tmp_path.glob("cpt/*/*.jsonl.zst"):
        with zstandard.open(path, "rb") as stream:
            rows = [orjson.loads(line) for line in stream.read().splitlines()]
        for row in rows:
            told = row["metadata"]
            masked = {at for begin, end in told["no_loss_ranges"] for at in range(begin, end)}
            spans = {at for span in told["spans"] for at in range(span["begin"], span["end"])}
            assert masked | spans == set(range(len(row["text"])))
            assert not masked & spans


def test_llamafactory_loads_packs_that_hold_every_sample_once(run, tmp_path, tokenizing):
    import datasets

    made = exported(run, tmp_path, "llamafactory")
    loaded = datasets.load_from_disk(str(tmp_path / "tokenized"))["train"]
    found = []
    for row in loaded:
        assert len(row["input_ids"]) == WINDOW + 1
        numbers = np.array(row["attention_mask"])
        for number in range(1, numbers.max() + 1):
            at = np.flatnonzero(numbers == number)
            assert np.array(row["position_ids"])[at].tolist() == list(range(len(at)))
            labels = np.array(row["labels"])[at]
            found.append((np.array(row["input_ids"])[at].tolist(), (labels != IGNORED).tolist()))
        assert set(np.array(row["labels"])[numbers == 0]) == {IGNORED}
    wanted = [one for one in meant(run, "sft", tokenizing).values() if any(one[1]) and len(one[0]) <= WINDOW]
    assert sorted(found) == sorted(wanted)
    assert made.counts["packs"] == len(loaded)
    assert len(loaded) < len(found)


def test_rows_for_swift_are_a_saved_dataset_of_ids_that_its_template_hands_on(run, tmp_path, tokenizing):
    import datasets

    exported(run, tmp_path, "swift")
    told = yaml.safe_load((tmp_path / "swift.yaml").read_text())
    assert told["cached_dataset"] == ["sft/terminal", "sft/web"]
    wanted, rows = meant(run, "sft", tokenizing), []
    for folder in told["cached_dataset"]:
        rows += datasets.load_from_disk(str(tmp_path / folder)).to_list()
    assert sorted(row["id"] for row in rows) == sorted(wanted)
    for row in rows:
        ids, bears = wanted[row["id"]]
        assert row["input_ids"] == ids
        assert row["labels"] == [one if mask else IGNORED for one, mask in zip(ids, bears, strict=True)]
        assert row["lengths"] == [len(ids)]
        assert [one["role"] for one in row["messages"]] == ["user", "assistant"]
    plugin = (tmp_path / told["external_plugins"][0]).read_text()
    assert f'"{told["template"]}"' in plugin


def test_what_axolotl_is_told_names_the_files_of_conversations(run, tmp_path):
    exported(run, tmp_path, "ids")
    (told,) = yaml.safe_load((tmp_path / "axolotl.yaml").read_text())["datasets"]
    assert (told["path"], told["ds_type"]) == (".", "parquet")
    assert all(name.startswith("sft/") for name in told["data_files"])
    assert all((tmp_path / name).is_file() for name in told["data_files"])


@pytest.mark.parametrize("name", sorted(set(FORMS) - {"rl", "sft_last"}))
def test_every_sample_of_the_shards_is_in_a_form_or_counted_as_left_out(run, tmp_path, name):
    more = {"window": 60} if FORMS[name].windowed else {}
    counts = exported(run, tmp_path, name, **more).counts
    told = {key: count for key, count in counts.items() if key.startswith(("samples.", "left_out_"))}
    pools = {"ids": ("sft", "cpt"), **dict.fromkeys(("llamafactory", "swift", "trainers"), ("sft",))}
    assert sum(told.values()) == sum(len(stored(run, pool)) for pool in pools.get(name, ("cpt",)))
    assert any(key.startswith("left_out_") for key in told) == (name in {"ids", "llamafactory", "swift"})


def test_single_targets_are_capped_by_trajectory_and_those_wholly_meant_go_first(run, tmp_path):
    job = Job(StoredShards(str(run)), FormFolder(str(tmp_path)), targets=1)
    texts.sft_last(job)
    made = job.out.seal("sft_last", "", {})
    rows = [row for path in tmp_path.glob("sft_last/*/*.parquet") for row in pq.read_table(path).to_pylist()]
    by_id = {one.id: one for one in stored(run, "sft")}
    for row in rows:
        key, _, number = row["id"].partition(":")
        messages = [{"role": one.role, "content": one.content} for one in by_id[key].messages]
        assert row["prompt"] + row["completion"] == messages[: int(number) + 1]
        assert by_id[key].messages[int(number)].spans
    assert len(rows) == sum(count for key, count in made.counts.items() if key.startswith("samples."))
    assert len({row["trajectory_id"] for row in rows}) == len(rows)
    assert not [row for row in rows if VOLATILE in row["completion"][0]["content"]]
    assert not [key for key in made.counts if key.startswith("unmeant")]
    assert VOLATILE in str([one.messages for one in by_id.values()])


def test_the_shards_for_trainers_are_the_shards(run, tmp_path):
    exported(run, tmp_path, "trainers")
    for path in (run / "shards" / "sft").rglob("*.parquet"):
        assert (tmp_path / path.relative_to(run / "shards")).read_bytes() == path.read_bytes()
    info = json.loads((tmp_path / "dataset_info.json").read_text())
    assert info["trajmill_web"]["tags"]["system_tag"] == "system"
    told = json.loads((tmp_path / "interleave.sft.json").read_text())
    assert told["probabilities"] == {"terminal": 0.333333, "web": 0.666667}


def test_the_command_exports_and_tells_what_it_wrote(run, tmp_path):
    command = [sys.executable, "-m", "trajmill", "export", str(run), "--to", "ids", "--tokenizer", TOKENIZER]
    done = subprocess.run([*command, "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(r"web: .*samples 24", done.stdout)
    assert re.search(r"tokenizer: [0-9a-f]{12}", done.stdout)


def test_the_command_says_what_an_export_leaves_out(run, tmp_path):
    words = ("--to", "ids", "--tokenizer", TOKENIZER, "--window", "60")
    assert "left out: over window" in ran("export", str(run), *words, "--out", str(tmp_path / "a"))[1]
    assert "left out: none" in ran("export", str(run), "--to", "jsonl", "--out", str(tmp_path / "b"))[1]


def test_a_missing_package_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=re.escape("trajmill[tokens]")):
        exported(run, tmp_path, "ids")


def test_what_a_form_cannot_do_is_said(run, tmp_path):
    for name, more, said in (
        ("ids", {}, "--tokenizer"),
        ("megatron", {"tokenizer": TOKENIZER, "window": 100}, "--window"),
        ("llamafactory", {"tokenizer": TOKENIZER}, "--window"),
        ("jsonl", {"chat_template": "x"}, "--chat-template"),
    ):
        with pytest.raises(ConfigError, match=said):
            export_form(str(run), name, str(tmp_path / "out"), **more)
    with pytest.raises(ConfigError):
        export_form(str(tmp_path), "jsonl", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_rows_of_rl_stand_as_they_are_beside_the_reward_and_bounds_that_hold_every_answer(run, tmp_path):
    exported(run, tmp_path, "rl")
    for file in StoredShards(str(run)).files("rl"):
        assert (tmp_path / file.name).read_bytes() == (run / "shards" / file.name).read_bytes()
    assert "def compute_score" in (tmp_path / "reward.py").read_text()
    told = yaml.safe_load((tmp_path / "verl.yaml").read_text())
    assert told["data"]["max_response_length"] == 64 + 11
    assert all((tmp_path / name).is_file() for name in told["data"]["train_files"])
