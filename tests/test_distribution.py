"""The package as users install it: sdist → wheel → a clean environment, driven by its console script.

The run has two workers, something for every stage, and a working folder full of modules that bear the names of ours and
raise when they are imported.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.app.cli.test_cli import ran
from tests.conftest import ROOT
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run

SAMPLES = ROOT / "samples" / "terminal"
FOLDERS = ("app", "configs", "connectors", "pipelines", "quality", "schemas", "synthesis", "worlds")
HOSTILE = (
    *("schemas.py", "connectors.py", "worlds.py", "synthesis.py", "app.py"),
    *("quality/__init__.py", "pipelines/__init__.py", "configs/__init__.py", "configs/terminal.yaml"),
)


def call(*command, cwd: Path = ROOT) -> str:
    return called(*command, cwd=cwd).stdout


def called(*command, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=alone, capture_output=True, text=True, check=False)
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
    folder = tmp_path_factory.mktemp("installed") / "env"
    uv = find_uv()
    call(uv, "venv", "--python", sys.executable, folder)
    python = folder / "bin" / "python"
    call(uv, "pip", "install", "--python", python, "--require-hashes", "-r", ROOT / "requirements" / "runtime.txt")
    call(uv, "pip", "install", "--python", python, "--no-deps", wheel)
    compiled(Path(sysconfig.get_path("purelib")), next(folder.glob("lib/python*/site-packages")))
    return folder / "bin" / "trajmill"


def compiled(source: Path, destination: Path) -> None:
    """Takes over what was compiled of the same files, which need not be compiled once more."""
    for cache in source.rglob("__pycache__"):
        target = destination / cache.relative_to(source)
        if target.parent.is_dir() and not target.exists() and target.relative_to(destination).parts[0] != "trajmill":
            shutil.copytree(cache, target, copy_function=linked)


def linked(file: str, target: str) -> None:
    """Puts a file at a place too; where links do not reach it is copied."""
    try:
        os.link(file, target)
    except OSError:
        shutil.copy2(file, target)


def test_the_wheel_holds_trajmill_alone_with_every_file_of_its_folders(wheel):
    with zipfile.ZipFile(wheel) as archive:
        members = [member for member in archive.infolist() if ".dist-info/" not in member.filename]
    names = {member.filename for member in members}
    assert {name.split("/")[0] for name in names} == {"trajmill"}
    assert not any(stat.S_ISLNK(member.external_attr >> 16) for member in members)
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    own = {f"trajmill/{path.relative_to(ROOT).as_posix()}" for path in files if path.suffix not in {".pyc", ".pyo"}}
    assert len(own) > 500
    assert {name for name in names if name.split("/")[1] in FOLDERS} == own
    assert {"trajmill/__init__.py", "trajmill/__main__.py", "trajmill/py.typed"} <= names
    assert {"trajmill/configs/android.yaml", "trajmill/quality/models/lid.176.ftz"} <= own


def test_the_wheel_says_its_licence_and_where_it_is_from(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        header = archive.read(metadata).decode()
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
    assert "License-Expression: Apache-2.0 AND CC-BY-SA-3.0" in header
    assert "Classifier: Typing :: Typed" in header
    assert "Project-URL: Documentation" in header
    links = re.findall(r"\]\(([^)]*)\)", header)
    assert len(links) > 10
    assert all(link.startswith("https://") for link in links)
    assert any(link.startswith("https://raw.") and link.endswith(".svg") for link in links)


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
def hostile(tmp_path_factory) -> Path:
    """A working folder of modules and packages that bear the names of ours and raise when they are imported."""
    folder = tmp_path_factory.mktemp("hostile")
    for name in HOSTILE:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"raise RuntimeError('{name} of the working folder was read')\n")
    return folder


@pytest.fixture(scope="module")
def made(installed, raw, recipe, hostile) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The hostile folder, in which the console script has made shards by two workers, and its output."""
    words = ("run", recipe, "--raw", raw, "--out", "made", "--part-size", "50000", "--workers", "2")
    return hostile, called(installed, *words, cwd=hostile)


@pytest.mark.slow
def test_the_console_script_makes_shards_in_a_folder_that_holds_modules_of_our_names(made):
    folder, done = made
    assert "trajectories" in done.stdout
    assert "INFO" not in done.stderr
    assert "WARNING" not in done.stderr
    assert (folder / "made" / "shards" / "README.md").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("options", [["-P"], []])
def test_the_module_is_the_command(installed, hostile, options):
    output = call(installed.parent / "python", *options, "-m", "trajmill", "formats", cwd=hostile)
    assert output == ran("formats")[1]


def stored(out: Path) -> dict[str, str]:
    """Name → sha256 of all that stages wrote."""
    files = (path for path in out.rglob("*") if path.is_file() and path.parent != out)
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.slow
def test_two_workers_that_find_the_installed_packages_give_the_bytes_of_one_process(raw, recipe, made, tmp_path):
    Run(load_recipe(str(recipe)), [str(raw)], str(tmp_path / "out"), Execution(part_bytes=50_000)).run()
    first, two = stored(tmp_path / "out"), stored(made[0] / "made")
    assert {name: two.get(name) for name in first} == first
    assert two.keys() == first.keys()
    for stage, least in {"transitions": 4, "passages": 3, "blobs": 3, "shards": 5}.items():
        assert sum(name.startswith(f"{stage}/") for name in first) > least, stage
