"""Building templates: what an image is made of, a specification of each stage, and the commands that do the rest.

Everything is written to a folder, wherever that is. What an image is made of is the same bytes for the same sources.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import distribution
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from trajmill.app.cli.flex_templates.parameters import STAGES, parameters
from trajmill.pipelines.execution.dataflow.job_options import is_image
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.paths import url_of
from trajmill.schemas import ConfigError, ShardError
from trajmill.schemas.manifest import PROGRAM_VERSION

CONTEXT: Final = "context"
WHEEL: Final = f"trajmill-{PROGRAM_VERSION}-py3-none-any.whl"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_DOES: Final = {
    "normalize": "reads raw logs",
    "judge": "judges what was read",
    "mix": "draws the mixture and writes shards",
    "finish": "seals the shards and says what came of the run",
}


@dataclass(frozen=True, slots=True)
class Built:
    """What was written, and the commands that make an image and templates of it, in order."""

    names: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]


def build(folder: str, image: str, launcher: str, added: Sequence[str] = ()) -> Built:
    """Writes what templates are made of.

    Args:
        folder: that is written, a path or URL.
        image: the name that the image is given, with a tag.
        launcher: the image with Google's launcher of templates.
        added: files and folders that recipes name, which the image then has below `/template/files`.

    Raises:
        ConfigError: an image has no valid name, or a file is not there; nothing was written.
        ShardError: something cannot be written.
    """
    for name in (image, launcher):
        if not is_image(name):
            raise ConfigError(f"'{name}' names no image; wanted one with a tag, such as registry.example/trajmill:1.")
    missing = [one for one in added if not Path(one).exists()]
    if missing:
        raise ConfigError(f"There is no {missing[0]} to add to the image.")
    context = dict(_context(added))
    specifications = {f"{stage}/template.json": specification(stage, image) for stage in STAGES}
    metadata = {f"{stage}/metadata.json": specification(stage, image)["metadata"] for stage in STAGES}
    out = Folder(folder)
    for name, data in context.items():
        out.write(f"{CONTEXT}/{name}", data)
    for name, values in (specifications | metadata).items():
        out.write(name, json.dumps(values, indent=2).encode() + b"\n")
    out.write("workflow.yaml", (deployed() / "workflow.yaml").read_bytes())
    names = (*(f"{CONTEXT}/{name}" for name in context), *specifications, *metadata, "workflow.yaml")
    return Built(names, tuple(_commands(folder.rstrip("/"), image, launcher)))


def specification(stage: str, image: str) -> dict[str, Any]:
    """The specification of a stage's template, which is launched by its URL."""
    return {
        "image": image,
        "sdkInfo": {"language": "PYTHON"},
        "defaultEnvironment": {"sdkContainerImage": image},
        "metadata": {
            "name": f"trajmill {stage}",
            "description": f"Of interaction logs to training shards: {_DOES[stage]}.",
            "parameters": [one.to_json() for one in parameters(stage)],
        },
    }


def deployed() -> Traversable:
    """The folder of what an image and a workflow are made of."""
    packaged = files("pipelines") / "deploy"
    return (packaged if packaged.is_dir() else Path(__file__).parents[3] / "deploy") / "dataflow"


def run_commands(built: Built) -> Iterator[tuple[str, ...]]:
    """Runs the commands, each of which is given before it is run.

    Raises:
        ConfigError: a program is not on PATH; none was run.
        ShardError: a command failed.
    """
    missing = sorted({one[0] for one in built.commands if shutil.which(one[0]) is None})
    if missing:
        raise ConfigError(f"The commands want programs that are not on PATH: {', '.join(missing)}.")
    for command in built.commands:
        yield command
        if subprocess.run(command, check=False).returncode:  # noqa: S603 - words of ours and of the user
            raise ShardError(f"It failed: {shlex.join(command)}")


def _commands(folder: str, image: str, launcher: str) -> Iterator[tuple[str, ...]]:
    context = f"{folder}/{CONTEXT}"
    if url_of(folder) is not None:
        yield "gcloud", "storage", "cp", "--recursive", context, "."
        context = CONTEXT
    yield "docker", "build", "--build-arg", f"LAUNCHER={launcher}", "--tag", image, context
    yield "docker", "push", image


def _context(added: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for name in ("Dockerfile", "main.py"):
        yield name, (deployed() / name).read_bytes()
    yield "requirements.txt", _requirements().read_bytes()
    yield WHEEL, _wheel()
    yield "files/README", b"What recipes name and workers read lies here.\n"
    for one in added:
        path = Path(one)
        for inner in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if inner.is_file():
                yield f"files/{inner.relative_to(path.parent).as_posix()}", inner.read_bytes()


def _requirements() -> Traversable:
    packaged = deployed() / "requirements.txt"
    return packaged if packaged.is_file() else Path(__file__).parents[3] / "requirements" / "dataflow.txt"


def _wheel() -> bytes:
    """The wheel of this very program: built where it is a checkout, else put together again from what is installed."""
    root = Path(__file__).parents[3]
    if (root / "pyproject.toml").is_file():
        from hatchling.builders.wheel import WheelBuilder

        with tempfile.TemporaryDirectory() as made:
            (path,) = WheelBuilder(str(root)).build(directory=made, versions=["standard"])
            return Path(path).read_bytes()
    with tempfile.TemporaryFile() as stream:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in sorted(_installed().items()):
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
        stream.seek(0)
        return stream.read()


def _installed() -> dict[str, bytes]:
    """Name → bytes of what the wheel held that this program was installed from."""
    found = {}
    of_installation = ("INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
    for one in distribution("trajmill").files or ():
        if ".." in one.parts or one.suffix == ".pyc" or (one.name in of_installation):
            continue
        found[one.as_posix()] = Path(str(one.locate())).read_bytes()
    (record,) = (name for name in found if name.endswith(".dist-info/RECORD"))
    kept = (line for line in found[record].decode().splitlines() if line.rsplit(",", 2)[0].strip('"') in found)
    found[record] = "".join(f"{line}\n" for line in kept).encode()
    return found
