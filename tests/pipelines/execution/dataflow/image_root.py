"""An image without the program that makes images: the steps of a Dockerfile, done in a root folder of their own.

What an image is made from is stood in for: by this machine's programs, which can only be read, an environment of Python
that has nothing in it, and Beam's boot, built from its module. Whatever else a step wants has to come from a step.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from tests.conftest import ROOT
from trajmill.pipelines.execution.server_process import cache_folder, call

_SHOWN = ("/usr", "/dev", "/proc", "/sys", "/etc/ssl")
_COPIED = ("/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/pip.conf")
_OF_PACKAGES = ("PIP_", "SSL_", "REQUESTS_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy")
"""Variables by which packages are found: whoever builds an image tells them, not the image."""


@dataclass
class Instruction:
    """A line of a Dockerfile: its word, and the rest as it stands."""

    word: str
    rest: str


def read_dockerfile(text: str) -> list[Instruction]:
    """The instructions, in order."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n", " ", "\n".join(lines))
    instructions = []
    for line in filter(str.strip, whole.splitlines()):
        word, _, rest = line.strip().partition(" ")
        instructions.append(Instruction(word, rest.strip()))
    return instructions


def launched(folder: Path, words: Sequence[str]) -> list[str]:
    """Run the launcher script with programs in place of docker and trajmill.

    Returns:
        The commands that it called; the context of the image lies in `folder/context` then.
    """
    programs = folder / "programs"
    programs.mkdir()
    noted = f'echo "$(basename "$0") $*" >> {shlex.quote(str(folder / "calls"))}\n'
    copying = f'[ "$1" != build ] || cp -R "${{@: -1}}" {shlex.quote(str(folder / "context"))}\n'
    for name, commands in (("docker", noted + copying), ("trajmill", noted)):
        (programs / name).write_text(f"#!/bin/bash\n{commands}")
        (programs / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TRAJMILL_DATAFLOW_IMAGE": "registry.example/trajmill:1",
    }
    subprocess.run([ROOT / "deploy" / "dataflow" / "launch.sh", *words], env=environment, check=True)
    return re.sub(r"/\S*/tmp\.\w+|/tmp/tmp\.\w+", "CONTEXT", (folder / "calls").read_text("utf-8")).splitlines()


@dataclass
class ImageRoot:
    """The root folder that the steps of a Dockerfile make, as far as it goes without images.

    Attributes:
        root: the folder that is `/` for its steps.
        variables: of its environment.
        folder: where steps run.
        entry: what it starts with.
        base: name of the image that it is made from.
        shared: folders of this machine that it sees at the same place.
    """

    root: Path
    shared: tuple[Path, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    entry: list[str] = field(default_factory=list)
    base: str = ""

    def make(self, context: Path) -> None:
        """Does the steps of the context's Dockerfile."""
        self._prepare()
        known: dict[str, str] = {}
        for instruction in read_dockerfile((context / "Dockerfile").read_text("utf-8")):
            rest = re.sub(r"\$\{(\w+)\}", lambda name: {**known, **self.variables}[name[1]], instruction.rest)
            if instruction.word == "ARG":
                name, _, value = rest.partition("=")
                known[name] = value
            elif instruction.word == "FROM":
                self.base = rest
            elif instruction.word == "COPY":
                self._copy(context, *rest.split())
            elif instruction.word == "RUN":
                self.run(["/bin/sh", "-c", rest], environment=_of_packages())
            elif instruction.word == "ENV":
                name, _, value = rest.partition("=")
                self.variables[name] = value
            elif instruction.word == "WORKDIR":
                self.folder = rest
                self._place(rest).mkdir(parents=True, exist_ok=True)
            elif instruction.word == "ENTRYPOINT":
                self.entry = json.loads(rest)
            else:
                raise AssertionError(f"{instruction.word} is not known here")

    def command(self, words: Sequence[str], environment: Mapping[str, str] | None = None) -> list[str]:
        """The command of this machine that runs a command there, with nothing of this process' environment."""
        mounts = "".join(
            f"mount --rbind {shlex.quote(path)} {shlex.quote(str(self._place(path)))} && "
            for path in (*_SHOWN, sys.base_prefix, *map(str, self.shared), *_wheels())
        )
        variables = [f"{name}={value}" for name, value in ({**self.variables, **(environment or {})}).items()]
        inner = shlex.join(["env", "-i", *variables, "/bin/sh", "-c", f'cd {self.folder} && exec "$@"', "sh", *words])
        return [
            "unshare",
            "--mount",
            "sh",
            "-c",
            f'{mounts}exec chroot {shlex.quote(str(self.root))} {inner} "$@"',
            "sh",
        ]

    def run(
        self, words: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command there, which has to succeed."""
        done = subprocess.run(self.command(words, environment), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done

    def _place(self, path: str) -> Path:
        return self.root / os.path.join(self.folder, path).lstrip("/")

    def _copy(self, context: Path, source: str, target: str) -> None:
        to = self._place(target)
        if (context / source).is_dir():
            shutil.copytree(context / source, to, dirs_exist_ok=True)
            return
        to.mkdir(parents=True, exist_ok=True)
        shutil.copy(context / source, to / source)

    def _prepare(self) -> None:
        for name in ("bin", "sbin", "lib", "lib64"):
            (self.root / name).symlink_to(f"usr/{name}")
        for name in (*_SHOWN, sys.base_prefix, "/tmp", "/root", *map(str, self.shared), *_wheels()):
            (self.root / name.lstrip("/")).mkdir(parents=True, exist_ok=True)
        for name in filter(os.path.exists, _COPIED):
            shutil.copy(name, self.root / name.lstrip("/"))
        boot = self.root / "opt/apache/beam/boot"
        boot.parent.mkdir(parents=True)
        shutil.copy(built_boot(), boot)
        self.variables |= {"PATH": "/opt/python/bin:/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
        python = f"{sys.base_prefix}/bin/python{sysconfig.get_python_version()}"
        self.run([python, "-m", "venv", "/opt/python"])


def built_boot() -> Path:
    """Beam's boot of workers in Python, of the SDK's version, built once."""
    release = version("apache-beam")
    path = cache_folder() / f"boot-{release}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        download = call(["go", "mod", "download", "-json", f"github.com/apache/beam/sdks/v2@v{release}"], "Beam's boot")
        unfinished = f"{path}.unfinished"
        call(["go", "build", "-C", json.loads(download)["Dir"], "-o", unfinished, "./python/container"], "Beam's boot")
        Path(unfinished).rename(path)
    return path


def _wheels() -> list[str]:
    return [
        folder
        for folder in os.environ.get("PIP_FIND_LINKS", "").split()
        if folder.startswith("/") and Path(folder).is_dir()
    ]


def _of_packages() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_OF_PACKAGES)}
