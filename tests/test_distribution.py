"""What users install: sdist → wheel → a clean environment, driven by its console script from an empty folder.

Its run has several workers and something for every stage, so that it also shows that workers change no byte.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.app.test_console import SEVERAL
from tests.conftest import ROOT
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.execution.program import program_digest
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run

SAMPLES = ROOT / "samples" / "terminal"
PACKAGES = ("schemas", "connectors", "quality", "pipelines")


def call(*command, cwd: Path = ROOT) -> str:
    return called(*command, cwd=cwd).stdout


def called(*command, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def find_uv() -> str:
    local = ROOT / ".venv" / "uv" / "bin" / "uv"
    return shutil.which("uv") or str(local)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel built from the sdist, as an index would have it."""
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The console script in an environment that holds the locked dependencies and the wheel."""
    place = tmp_path_factory.mktemp("installed") / "env"
    uv = find_uv()
    call(uv, "venv", "--python", sys.executable, place)
    python = place / "bin" / "python"
    call(uv, "pip", "install", "--python", python, "--require-hashes", "-r", ROOT / "requirements" / "runtime.txt")
    call(uv, "pip", "install", "--python", python, "--no-deps", wheel)
    compiled(Path(sysconfig.get_path("purelib")), next(place.glob("lib/python*/site-packages")))
    return place / "bin" / "trajmill"


def compiled(there: Path, here: Path) -> None:
    """Takes over what was compiled of the same files, which need not be compiled once more."""
    for cache in there.rglob("__pycache__"):
        target = here / cache.relative_to(there)
        if target.parent.is_dir() and not target.exists() and target.relative_to(here).parts[0] not in PACKAGES:
            shutil.copytree(cache, target, copy_function=linked)


def linked(file: str, place: str) -> None:
    """Puts a file at a place too; where links do not reach it is copied."""
    try:
        os.link(file, place)
    except OSError:
        shutil.copy2(file, place)


def test_the_wheel_holds_exactly_the_four_packages(wheel):
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
        names = set(archive.namelist())
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    modules = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert {path.relative_to(ROOT).as_posix() for path in modules} <= names
    assert "pipelines/configs/android.yaml" in names
    templates = [path.relative_to(ROOT).as_posix() for path in (ROOT / "configs" / "templates").rglob("*.j2")]
    assert len(templates) > 42
    assert {f"pipelines/{template}" for template in templates} <= names
    assert {"quality/models/lid.176.ftz", "quality/models/NOTICE.md"} <= names
    assert {f"{top}/py.typed" for top in ("schemas", "connectors", "quality", "pipelines")} <= names


def test_the_wheel_says_its_licence_and_where_it_is_from(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        told = archive.read(metadata).decode()
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
    assert "License-Expression: Apache-2.0 AND CC-BY-SA-3.0" in told
    assert "Classifier: Typing :: Typed" in told
    assert "Project-URL: Documentation" in told
    links = re.findall(r"\]\(([^)]*)\)", told)
    assert len(links) > 10
    assert all(one.startswith("https://") for one in links)
    assert any(one.startswith("https://raw.") and one.endswith(".svg") for one in links)


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    """Logs of which there is something for every stage: copies, messages of the harness, pictures twice."""
    folder = tmp_path_factory.mktemp("raw")
    logs = (
        sorted((SAMPLES / "claude_code").rglob("*.jsonl"))[8:17] + sorted((SAMPLES / "asciicast").rglob("*.cast"))[:4]
    )
    for log in logs:
        shutil.copy(log, folder)
    for name in ("taskTides--0", "taskTides--1"):
        shutil.copytree(ROOT / "tests" / "fixtures" / "webvoyager" / "input" / "taskTides--0", folder / name)
    return folder


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Path:
    """A recipe that keeps what logs attach, and draws rows of another corpus beside them."""
    folder = tmp_path_factory.mktemp("recipe")
    rows = [*(f"Document {number}. " + " ".join(f"w{number}x{n}" for n in range(60)) for number in range(40)), "short"]
    for number in range(3):
        text = "".join(f"{json.dumps({'text': row})}\n" for row in [*rows[number::3], rows[0]])
        (folder / f"rows-{number}.jsonl").write_text(text)
    rows_of = {"name": "replay", "kind": "text", "path": str(folder / "rows-*.jsonl"), "licence": "CC0-1.0"}
    drawn = {"trajectories": {"weight": 0.6}, "replay": {"kind": "text", "weight": 0.4}}
    values = {
        "extends": "all",
        "name": "several",
        "source": "tests",
        "domains": ["terminal", "web"],
        "normalize": {"attachments": "keep"},
        "mix": {"passages": [rows_of], "stages": {"cpt": {"budget": 20_000, "components": drawn}}},
    }
    (folder / "several.yaml").write_text(json.dumps(values))
    return folder / "several.yaml"


@pytest.fixture(scope="module")
def made(installed, raw, recipe, tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """An empty folder in which the console script has made shards by two workers, and what it said."""
    folder = tmp_path_factory.mktemp("empty")
    words = ("run", recipe, "--raw", raw, "--out", "made", "--part-size", "50000", "--workers", "2")
    return folder, called(installed, *words, cwd=folder)


@pytest.mark.slow
def test_the_console_script_makes_shards_from_an_empty_folder(installed, made):
    folder, done = made
    assert "trajectories" in done.stdout
    assert "INFO" not in done.stderr
    assert "WARNING" not in done.stderr
    assert (folder / "made" / "shards" / "README.md").is_file()
    assert "transitions" in call(installed, "inspect", "made", cwd=folder)
    several = json.dumps([["connectors"], ["schema"]])
    known, schema, _ = call(installed.parent / "python", "-c", SEVERAL, several, cwd=folder).split("=====")
    assert "asciicast" in known
    assert schema.startswith("{")


def stored(out: Path) -> dict[str, str]:
    """Name → sha256 of all that stages wrote."""
    files = (path for path in out.rglob("*") if path.is_file() and path.parent != out)
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.slow
def test_two_workers_that_find_the_installed_packages_give_the_bytes_of_one_process(raw, recipe, made, tmp_path):
    Run(load_recipe(str(recipe)), [str(raw)], str(tmp_path / "out"), Execution(part_bytes=50_000)).run()
    one, two = stored(tmp_path / "out"), stored(made[0] / "made")
    assert {name: two.get(name) for name in one} == one
    assert two.keys() == one.keys()
    for stage, least in {"transitions": 4, "passages": 3, "blobs": 3, "shards": 5}.items():
        assert sum(name.startswith(f"{stage}/") for name in one) > least, stage


@pytest.mark.slow
def test_what_is_installed_can_be_put_into_an_image_and_is_the_same_program(installed, wheel, tmp_path):
    words = ("template", "build", "made", "--image", "example/trajmill:1", "--launcher", "example/launcher:1")
    call(installed, *words, cwd=tmp_path)
    context = tmp_path / "made" / "context"
    assert (context / "requirements.txt").read_bytes() == (ROOT / "requirements" / "dataflow.txt").read_bytes()
    (again,) = context.glob("*.whl")
    with zipfile.ZipFile(again) as one, zipfile.ZipFile(wheel) as other:
        assert set(one.namelist()) == set(other.namelist())
        assert {name: one.read(name) for name in one.namelist() if not name.endswith("/RECORD")} == {
            name: other.read(name) for name in other.namelist() if not name.endswith("/RECORD")
        }
    ask = "from trajmill.pipelines.execution.program import program_digest; print(program_digest())"
    python = installed.with_name("python")
    assert call(python, "-c", ask, cwd=tmp_path).strip() == program_digest()
