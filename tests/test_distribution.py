"""What users install: sdist → wheel → a clean environment, driven by its console script from an empty folder."""

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from pipelines.engine.program import program_digest
from tests.conftest import ROOT

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
            shutil.copytree(cache, target)


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


@pytest.fixture(scope="module")
def made(installed, tmp_path_factory) -> tuple[Path, str]:
    """An empty folder in which the console script has made shards, and what it said."""
    folder = tmp_path_factory.mktemp("empty")
    return folder, call(installed, "run", "terminal", "--raw", SAMPLES / "claude_code", "--out", "made", cwd=folder)


@pytest.mark.slow
def test_the_console_script_makes_shards_from_an_empty_folder(installed, made):
    folder, said = made
    assert "asciicast" in call(installed, "connectors", cwd=folder)
    assert "trajectories" in said
    assert (folder / "made" / "shards" / "README.md").is_file()
    assert "transitions" in call(installed, "inspect", "made", cwd=folder)
    assert call(installed, "schema", cwd=folder).startswith("{")


@pytest.mark.slow
def test_two_workers_find_the_installed_packages(installed, made, tmp_path):
    command = (
        "run",
        "terminal",
        "--raw",
        SAMPLES / "claude_code",
        "--out",
        "two",
        "--stop-after",
        "normalize",
        "--workers",
        "2",
    )
    said = called(installed, *command, cwd=tmp_path).stderr
    assert "INFO" not in said
    assert "WARNING" not in said
    outs = made[0] / "made", tmp_path / "two"
    one, two = (sorted((out / "transitions").rglob("*.parquet")) for out in outs)
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


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
    ask = "from pipelines.engine.program import program_digest; print(program_digest())"
    python = installed.with_name("python")
    assert call(python, "-c", ask, cwd=tmp_path).strip() == program_digest()
