"""Each form, read back as its consumer reads it, bears the loss on what the spans mean and on nothing else."""

import json
import re

import pyarrow.parquet as pq
import pytest

from tests.app.cli.test_cli import ran
from tests.pipelines.publish.forms.conftest import TOKENIZER
from tests.pipelines.publish.forms.written_shards import VOLATILE
from trajmill.pipelines.publish.forms import texts
from trajmill.pipelines.publish.forms.forms import FORMS, export_form
from trajmill.pipelines.publish.forms.job import FormFolder, Job
from trajmill.pipelines.publish.forms.megatron_reader import masked_documents
from trajmill.pipelines.publish.forms.stored_samples import StoredShards
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
        tokenized = {sample.id: tokenizing.document(sample.text, sample.spans) for sample in stored(run, pool)}
    else:
        tokenized = {sample.id: tokenizing.conversation(sample.messages) for sample in stored(run, pool)}
    return {key: (tokens.ids.tolist(), tokens.loss.tolist()) for key, tokens in tokenized.items()}


@pytest.mark.parametrize("name", sorted(FORMS))
def test_a_form_names_every_file_with_its_digest_and_is_the_same_bytes_again(run, tmp_path, name):
    first = exported(run, tmp_path / "a", name)
    second = exported(run, tmp_path / "b", name)
    assert first == second
    on_disk = {str(path.relative_to(tmp_path / "a")) for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert on_disk == {"manifest.json", *(file.name for file in first.files)}
    assert sum(file.rows for file in first.files) > 0
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert manifest["stage"] == "export"
    assert ("models" in manifest) == FORMS[name].tokens


def test_what_is_not_ours_is_never_replaced(run, tmp_path):
    exported(run, tmp_path, "jsonl")
    exported(run, tmp_path, "ids")
    assert not list(tmp_path.rglob("*.zst"))
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"notes\.txt"):
        exported(run, tmp_path, "ids")
    assert (tmp_path / "manifest.json").exists()


def test_megatron_reads_ids_and_the_mask_beside_them(run, tmp_path, tokenizing):
    exported(run, tmp_path, "megatron")
    wanted = list(meant(run, "cpt", tokenizing).values())
    documents = []
    for path in sorted(tmp_path.glob("cpt/*/*_loss_mask.idx")):
        prefix = str(path).removesuffix("_loss_mask.idx")
        documents += [(ids.tolist(), mask.tolist()) for ids, mask in masked_documents(prefix)]
    assert documents == wanted
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


def test_single_targets_are_capped_by_trajectory_and_those_wholly_meant_go_first(run, tmp_path):
    job = Job(StoredShards(str(run)), FormFolder(str(tmp_path)), targets=1)
    texts.sft_last(job)
    manifest = job.out.seal("sft_last", "", {})
    rows = [row for path in tmp_path.glob("sft_last/*/*.parquet") for row in pq.read_table(path).to_pylist()]
    by_id = {sample.id: sample for sample in stored(run, "sft")}
    for row in rows:
        key, _, number = row["id"].partition(":")
        messages = [{"role": message.role, "content": message.content} for message in by_id[key].messages]
        assert row["prompt"] + row["completion"] == messages[: int(number) + 1]
        assert by_id[key].messages[int(number)].spans
    assert len(rows) == sum(count for key, count in manifest.counts.items() if key.startswith("samples."))
    assert len({row["trajectory_id"] for row in rows}) == len(rows)
    assert not [row for row in rows if VOLATILE in row["completion"][0]["content"]]
    assert not [key for key in manifest.counts if key.startswith("unmeant")]
    assert VOLATILE in str([sample.messages for sample in by_id.values()])


def test_the_command_exports_and_tells_what_it_wrote(run, tmp_path):
    _, output, _ = ran("export", run, "--to", "ids", "--tokenizer", TOKENIZER, "--out", tmp_path)
    assert re.search(r"web: .*samples 24", output)
    assert re.search(r"tokenizer: [0-9a-f]{12}", output)


def test_the_command_says_what_an_export_leaves_out(run, tmp_path):
    words = ("--to", "ids", "--tokenizer", TOKENIZER, "--window", "60")
    assert "left out: over window" in ran("export", str(run), *words, "--out", str(tmp_path / "a"))[1]
    assert "left out: none" in ran("export", str(run), "--to", "jsonl", "--out", str(tmp_path / "b"))[1]


def test_what_a_form_cannot_do_is_said(run, tmp_path):
    for name, more, message in (
        ("ids", {}, "--tokenizer"),
        ("megatron", {"tokenizer": TOKENIZER, "window": 100}, "--window"),
        ("llamafactory", {"tokenizer": TOKENIZER}, "--window"),
        ("jsonl", {"chat_template": "x"}, "--chat-template"),
    ):
        with pytest.raises(ConfigError, match=message):
            export_form(str(run), name, str(tmp_path / "out"), **more)
    with pytest.raises(ConfigError):
        export_form(str(tmp_path), "jsonl", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
