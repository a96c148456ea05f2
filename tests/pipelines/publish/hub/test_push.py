"""A push to a server that answers as the Hub does: what is sent, what is refused, and that it loads back."""

import json
import os
import re
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.conftest import ROOT
from tests.pipelines.publish.hub.hub_server import TOKEN, is_large
from tests.pipelines.publish.hub.pushing import NAME, files_of, pushed, reached, there
from tests.pipelines.publish.test_loading import sealed_anew
from trajmill.app.cli.cli import app
from trajmill.pipelines.publish.hub.secret_scan import second_findings
from trajmill.quality.scrub import scrub_text
from trajmill.schemas import ShardError

SECRET = "hf_" + "QmZtYbXcWdVeUfTgShRiPjOkNlMmLnKoJp"


@pytest.fixture
def hub(monkeypatch):
    with reached(monkeypatch) as hub:
        yield hub


def planted(finished, secret=SECRET):
    """Puts a secret into a shard and seals it, as a run of whatever bug would have."""
    (path,) = (finished / "shards" / "sft").rglob("*.parquet")
    table = pq.read_table(path)
    rows = table["messages"].to_pylist()
    rows[0][1]["content"] += f"\nexport HF={secret}\n"
    index = table.schema.get_field_index("messages")
    pq.write_table(
        table.set_column(index, table.schema.field(index), pa.array(rows, table.schema.field(index).type)), path
    )
    sealed_anew(finished, str(path.relative_to(finished / "shards")))


def test_a_push_holds_exactly_the_bytes_of_the_folder_in_one_commit(hub, made):
    output = pushed(made)
    assert there(hub) == files_of(made)
    assert len(hub.repos[NAME].messages) == 2
    assert hub.repos[NAME].messages[1].startswith("trajmill ")
    assert "made: " in output
    assert f"/tree/{hub.repos[NAME].branches['main']}" in output


def test_a_push_that_broke_off_goes_on_without_sending_anything_twice(hub, made):
    hub.breaks_after = 2
    output = pushed(made, code=1)
    assert "the Hub" in output.replace("The", "the")
    assert set(there(hub)) == set()
    hub.breaks_after = None
    pushed(made)
    assert there(hub) == files_of(made)
    assert len(hub.uploads) == len(set(hub.uploads)) == len(list(filter(is_large, there(hub))))


def test_a_dry_run_tells_what_would_be_sent_and_asks_for_no_change(hub, made):
    output = pushed(made, "--dry-run", "--tag", "v1")
    assert f"would be sent: {len(files_of(made))} files" in output
    assert hub.repos == {}
    assert hub.wrote() == []


def test_a_private_data_set_with_a_branch_and_a_tag(hub, made):
    pushed(made, "--private", "--revision", "nightly", "--tag", "v1")
    repo = hub.repos[NAME]
    assert repo.private
    assert there(hub) == {}
    assert there(hub, "nightly") == files_of(made)
    assert repo.tags == {"v1": repo.branches["nightly"]}


def test_a_tag_of_another_state_is_not_moved(hub, finished):
    pushed(finished, "--tag", "v1")
    before = dict(hub.repos[NAME].tags)
    planted(finished, "nothing secret")
    assert "has a tag 'v1' already" in pushed(finished, "--tag", "v1", code=1)
    assert hub.repos[NAME].tags == before


def test_what_the_dataset_changed_is_sent_and_what_it_has_no_more_is_removed(hub, finished):
    pushed(finished)
    sent = len(hub.uploads)
    planted(finished, "nothing secret")
    (lines,) = (finished / "shards" / "eval").glob("*.jsonl")
    lost = str(lines.relative_to(finished / "shards"))
    manifest = json.loads((finished / "shards" / "manifest.json").read_text())
    manifest["files"] = [file for file in manifest["files"] if file["name"] != lost]
    (finished / "shards" / "manifest.json").write_text(json.dumps(manifest))
    lines.unlink()
    output = pushed(finished)
    assert f"removed: {lost}" in output
    assert there(hub) == files_of(finished)
    assert len(hub.uploads) == sent + 1


def test_a_file_that_is_not_what_the_manifest_says_is_not_sent(hub, finished):
    (path,) = (finished / "shards" / "rl").rglob("*.parquet")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert "is damaged" in pushed(finished, code=1)
    assert hub.repos == {}


def test_a_file_outside_the_folder_is_not_sent_whatever_the_manifest_says(hub, finished):
    path = finished / "shards" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"][0]["name"] = "../run.json"
    path.write_text(json.dumps(manifest))
    assert "outside of it: ../run.json" in pushed(finished, code=1)
    assert hub.asked == []


@pytest.mark.parametrize("place", ["README.md", "sft/more/train-00000-of-00001.parquet"])
def test_what_others_put_in_the_way_is_left_unless_it_may_be_replaced(hub, made, place):
    pushed(made)
    repo = hub.repos[NAME]
    repo.add("main", {**repo.head(), place: b"by hand", "LICENSE": b"theirs"}, "by hand")
    assert place in pushed(made, code=1)
    assert there(hub)[place] == b"by hand"
    pushed(made, "--replace")
    assert there(hub) == {**files_of(made), "LICENSE": b"theirs"}


def test_a_secret_is_refused_told_without_itself_and_allowed_by_its_digest(hub, finished, tmp_path):
    planted(finished)
    listed = tmp_path / "findings.txt"
    output = pushed(finished, "--write-findings", str(listed), code=5)
    assert "token: sft/terminal/train-00000-of-00001.parquet, row 1 (" in output
    assert ", messages[1].content, characters " in output
    assert SECRET not in output + listed.read_text()
    assert SECRET[3:] not in output + listed.read_text()
    assert hub.repos == {}
    (line,) = [line for line in listed.read_text().splitlines() if not line.startswith("#")]
    assert "allowed findings: 1" in pushed(finished, "--allow-findings", str(listed))
    shutil.rmtree(finished / "shards" / "cpt")  # there already: not even looked at
    assert "sent: 0 files" in pushed(finished, "--allow-finding", line.split()[0])


ARTIFACTORY = "AKC" + "pLIix6MEOL" + "w8Zt3vQkRfDn5s"
"""Of a form that detect-secrets knows and scrubbing does not, where no name announces it."""


def test_what_only_another_scanner_knows_is_refused_and_its_line_accepts_it(hub, finished, tmp_path):
    planted(finished, f"x; use {ARTIFACTORY} here")
    output = pushed(finished, code=5)
    assert "Artifactory Credentials: sft/terminal/train-00000-of-00001.parquet, row 1 (" in output
    assert ARTIFACTORY not in output
    assert hub.repos == {}
    accepted = tmp_path / "accepted.txt"
    accepted.write_text(re.findall(r"[0-9a-f]{32}  ?Artifactory.*?characters", output)[0] + "\n")
    assert "allowed findings: 1" in pushed(finished, "--allow-findings", str(accepted))


def test_placeholders_of_tokens_are_no_finding_of_another_scanner():
    tokens = ["ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a", "AKIA" + "2OGYBAH6QZ3RTVNM", ARTIFACTORY]
    cut = "glpat-" + "vN8sR2kQ0xZ4wL6yT1uJ5bH7dFc" + ".01.9x8y7z6w5"  # a rule ends after 20 characters of it
    texts = [scrub_text(token) for token in (*tokens[:2], cut)]
    assert texts[:2] != tokens[:2]
    assert list(second_findings(pa.array(texts, pa.string()))) == []
    kinds = [finding.kind for finding in second_findings(pa.array(tokens, pa.string()))]
    assert kinds == ["GitHub Token", "AWS Access Key", "Artifactory Credentials"]


GITLEAKS = """#!/bin/sh
# As gitleaks 8.30 does: it passes over lines with its remark unless told not to, refuses options that it does not know,
# takes what begins as a PDF for one, and gives a place in lines alone for what it has decoded.
for word; do case $word in
stdin | --no-banner | --exit-code | 0 | --report-format | json | --report-path | - | --ignore-gitleaks-allow) ;;
*) exit 126 ;; esac; done
data=$(cat; echo .)
case $data in %PDF*) echo "[]"; exit 0 ;; esac
line=$(printf %s "$data" | grep -n cXVheS04ODQx | cut -d: -f1)
test -n "$line" || exit {code}
cat <<END
[{{"RuleID": "harbor-key", "StartLine": $line, "EndLine": $line, "Secret": "quay-8841", "Tags": ["decoded:base64"]}},
 {{"RuleID": "tide-key", "StartLine": 2, "EndLine": 2, "Secret": "low-at-noon", "Tags": []}},
 {{"RuleID": "generic-api-key", "StartLine": 1, "EndLine": 1, "Secret": "text", "Tags": []}}]
END
"""


def installed(monkeypatch, folder, code=0):
    program = folder / "gitleaks"
    program.write_text(GITLEAKS.format(code=code))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_gitleaks_is_asked_where_it_is_installed(monkeypatch, tmp_path):
    installed(monkeypatch, tmp_path)
    texts = ["%PDF text", None, "a\né cXVheS04ODQx # gitleaks:allow\nb"]
    findings = second_findings(pa.array([*texts, "é low-at-noon"], pa.string()))
    assert [(finding.text, finding.start, finding.end, finding.kind) for finding in findings] == [
        (2, 2, 34, "gitleaks harbor-key"),
        (3, 3, 14, "gitleaks tide-key"),
    ]


def test_a_gitleaks_that_fails_is_no_gitleaks_that_finds_nothing(monkeypatch, tmp_path):
    installed(monkeypatch, tmp_path, code=1)
    with pytest.raises(ShardError):
        list(second_findings(pa.array(["a text"], pa.string())))


def test_a_dry_run_looks_for_secrets_where_no_hub_can_be_reached(hub, finished, monkeypatch):
    planted(finished)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    output = pushed(finished, "--dry-run", code=5)
    assert "token: sft/terminal/train-00000-of-00001.parquet" in output


def test_a_digest_that_is_none_and_one_of_something_else_allow_nothing(hub, finished):
    planted(finished)
    assert "is no digest" in pushed(finished, "--allow-finding", "token", code=1)
    assert "Nothing was sent" in pushed(finished, "--allow-finding", "0" * 32, code=5)


def test_rows_whose_licence_the_recipe_does_not_name_are_refused(hub, made):
    assert "'unknown' (" in pushed(made, code=1, licences=None)
    assert "it names 'CC-BY-4.0'" in pushed(made, code=1, licences="CC-BY-4.0")
    assert hub.asked == []


@pytest.mark.parametrize("token", ["", "hf_other"])
def test_without_a_token_that_may_write_nothing_is_made(hub, made, monkeypatch, token):
    monkeypatch.setenv("HF_TOKEN", token)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/nowhere")
    assert "does not let you" in pushed(made, code=1)
    assert hub.repos == {}


def test_a_folder_that_is_no_dataset_and_a_name_that_is_none_are_told(hub, made, tmp_path):
    done = CliRunner().invoke(app, ["push", str(tmp_path), NAME, "--recipe", "terminal"])
    assert "holds no finished dataset" in str(done.exception)
    done = CliRunner().invoke(app, ["push", str(made), "worlds"])
    assert "wanted owner/name" in str(done.exception)


LOADING = """
import sys
import datasets, pyarrow.parquet
name, folder = sys.argv[1:]
for config in datasets.get_dataset_config_names(name):
    ((split, there),) = datasets.load_dataset(name, config).items()
    here = pyarrow.parquet.read_table(f"{folder}/{config}")
    assert there.features == datasets.Features.from_arrow_schema(here.schema), config
    assert there.to_list() == here.to_pylist(), config
    print(config, split, there.num_rows)
"""


def test_what_was_pushed_loads_back_row_by_row(hub, made, tmp_path):
    pushed(made)
    env = {key: value for key, value in os.environ.items() if not key.endswith("_OFFLINE")}
    env |= {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": TOKEN}
    env |= {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    only = shutil.copytree(made / "shards", tmp_path / "rows", ignore=shutil.ignore_patterns("*.jsonl", "*.md"))
    words = [sys.executable, "-c", LOADING, NAME, str(only)]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads((made / "shards" / "manifest.json").read_text())["counts"]
    numbers = {pool: counts[f"samples.{pool}.terminal"] for pool in ("sft", "cpt", "rl", "eval")}
    split = {pool: "test" if pool == "eval" else "train" for pool in numbers}
    assert done.stdout.split() == [word for pool, count in numbers.items() for word in (pool, split[pool], str(count))]
