"""Boxes hold what is run in them; without one nothing is run."""

import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.worlds.replay.boxes import PROGRAMS, made_by
from trajmill.schemas import ConfigError
from trajmill.worlds.replay import box as boxes
from trajmill.worlds.replay import engines
from trajmill.worlds.replay.box import Base, Box, BoxEndedError
from trajmill.worlds.replay.engines import Limits, Place, engine, may_be_folder

SMALL = Limits(seconds=0.6, session_seconds=5.0, processes=24, disk=4 << 20, file=2 << 20, output=1 << 16)


@pytest.fixture(params=sorted(PROGRAMS))
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    yield made_by(request.param, monkeypatch)
    engine.cache_clear()


@pytest.fixture
def box(tmp_path: Path, system: str) -> Iterator[Box]:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "told.txt").write_text("kept\n")
    with Box(Base.at(tmp_path / "base", 1 << 20), Place("/home/dev/base", system=system), SMALL) as sandbox:
        yield sandbox


def ran(box: Box, command: str) -> dict[str, object]:
    return box.ask({"do": "shell", "command": command})


def test_a_shell_keeps_its_folder_its_variables_and_its_files_and_the_base_stays_as_it_was(
    box: Box, tmp_path: Path
) -> None:
    ran(box, "mkdir deep; cd deep; WHO=me; echo more >> ../told.txt")
    assert ran(box, "echo $WHO; cat ../told.txt; pwd; false") == {
        "output": "me\nkept\nmore\n/home/dev/base/deep\n",
        "code": 1,
        "stopped": "",
    }
    assert (tmp_path / "base" / "told.txt").read_text() == "kept\n"


def test_a_fork_bomb_ends_at_the_bound_of_processes_and_the_machine_stays(box: Box) -> None:
    before = len(os.listdir("/proc"))
    assert ran(box, ":(){ :|:& };:; sleep 0.3")["stopped"] in ("processes", "time")
    assert len(os.listdir("/proc")) < before + 200


def test_the_network_is_not_there(box: Box) -> None:
    result = ran(box, "exec 3<>/dev/tcp/1.1.1.1/80 && echo reached; ls /sys/class/net 2>/dev/null; cat /proc/net/dev")
    assert "reached" not in str(result["output"])
    assert "eth" not in str(result["output"])
    assert "lo:" in str(result["output"])


X86_64 = {
    "add_key": 248, "bpf": 321, "io_uring_setup": 425, "keyctl": 250, "perf_event_open": 298, "process_vm_readv": 310,
    "ptrace": 101, "request_key": 249,
}  # fmt: skip
CALLS = f"""
import ctypes, errno
system = ctypes.CDLL(None, use_errno=True)
each = {X86_64}
for name, number, first in [*((name, number, 0) for name, number in each.items()), ("vsock", 41, 40), ("inet", 41, 2)]:
    done = system.syscall(number, first, 1, 0, 0, 0, 0)
    print(name, errno.errorcode[ctypes.get_errno()] if done < 0 else "done")
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are those of x86_64")
def test_a_box_has_no_system_calls_through_which_others_were_left(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyseccomp", exc_type=ImportError)
    system = made_by("bubblewrap", monkeypatch)
    with Box(Base(), Place(system=system), replace(SMALL, seconds=5.0)) as sandbox:
        words = str(ran(sandbox, f"python3 - <<'EOF'\n{CALLS}\nEOF")["output"]).split()
    engine.cache_clear()
    assert dict(zip(words[::2], words[1::2], strict=True)) == {
        **dict.fromkeys([*X86_64, "vsock"], "EPERM"),
        "inet": "done",
    }


def test_nothing_is_written_or_read_outside_the_folder(box: Box, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("secret")
    result = ran(
        box,
        f"for one in /x /usr/x /etc/x /bin/x /home/x/y /dev/x {tmp_path}/x; do echo no > $one && echo wrote; done; "
        f"cat {outside}; cat /etc/shadow; ls /root /work; echo $HOME",
    )
    assert "wrote" not in str(result["output"])
    assert "secret" not in str(result["output"])
    assert str(result["output"]).endswith("/home/dev\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "outside.txt"]


def test_a_file_of_ten_gigabytes_ends_at_the_bound_of_files_and_many_small_ones_at_that_of_the_folder(box: Box) -> None:
    assert ran(box, "head -c 10G /dev/zero > big")["stopped"] == "disk"
    assert int(str(ran(box, "stat -c %s big; rm big")["output"])) == SMALL.file
    result = ran(box, "for one in 1 2 3 4 5; do head -c 1M /dev/zero > part$one; done")
    assert result["stopped"] == "disk"


def test_what_takes_too_long_or_says_too_much_is_stopped(box: Box) -> None:
    assert ran(box, "sleep 60")["stopped"] == "time"
    assert ran(box, "yes")["stopped"] == "output"


def test_memory_is_bounded_over_all_processes(system: str) -> None:
    limits = Limits(seconds=60, memory=100 << 20)
    with Box(Base(), Place("/work", system=system), limits) as sandbox, pytest.raises(BoxEndedError, match="memory"):
        ran(sandbox, "python3 -c 'held = bytearray(b\"x\" * (1 << 28)); import time; time.sleep(60)'")


def test_who_kills_all_processes_kills_those_of_the_box_and_no_more(box: Box) -> None:
    ran(box, "sleep 50 & echo $!")
    with subprocess.Popen(["sleep", "50"]) as process:
        with suppress(BoxEndedError):  # but for the first process of a container, the session ends too
            output = ran(box, "kill -9 -1; wait; echo left: $(cat /proc/[0-9]*/comm | grep -c sleep)")["output"]
            assert "left: 0" in str(output)
        assert process.poll() is None
        process.kill()


def test_a_session_that_is_stopped_from_reading_stops_nobody(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boxes, "_PATIENCE_S", 0.2)
    ran(box, "(sleep 0.1; kill -STOP $PPID) &")
    with pytest.raises(BoxEndedError, match="time"):
        [ran(box, "#" * 1_000_000) for _ in count()]


def test_nothing_of_who_asks_is_in_the_environment(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "TOKEN" not in os.environ
    monkeypatch.setenv("TOKEN", "secret")
    with Box(Base(), Place("/work", system=system), SMALL) as sandbox:
        assert "secret" not in str(ran(sandbox, "env; cat /proc/1/environ /proc/self/environ 2>&1")["output"])


def test_without_a_box_nothing_is_run_and_the_words_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    engine.cache_clear()
    monkeypatch.setattr("shutil.which", lambda _: None)
    try:
        with pytest.raises(ConfigError, match="bubblewrap"):
            engine()
        with pytest.raises(ConfigError):
            Box(Base(), Place("/work"), SMALL)
    finally:
        engine.cache_clear()


def test_a_box_that_cannot_be_made_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    engine.cache_clear()
    monkeypatch.setattr("shutil.which", lambda name: "/bin/false" if name == "bwrap" else None)
    monkeypatch.setattr(engines, "_known_options", str)
    monkeypatch.setattr(engines, "_try_box", lambda *_: "No permissions to create new namespace")
    try:
        with pytest.raises(ConfigError, match="bwrap"):
            engine()
    finally:
        engine.cache_clear()


def test_podman_gets_no_network_no_rights_and_bounds() -> None:
    command = engines._podman(Place("/work", system="/srv/root"), SMALL, ["true"], "", ())
    text = " ".join(command)
    for option in ("--network none", "--read-only", "--cap-drop all", "no-new-privileges", "--pids-limit 24"):
        assert option in text
    assert command[-2:] == ["/srv/root:O", "true"]


@pytest.mark.parametrize(
    ("path", "may"),
    [
        ("/home/dev/x", True), ("/testbed", True), ("/tmp/x", True), ("/", False), ("/tmp", False), ("/usr/x", False),
        ("/etc", False), ("/home/../etc", False), ("work", False), ("/testbed//x", False), ("/a\0b", False),
    ],
)  # fmt: skip
def test_a_log_may_name_no_folder_of_the_system(path: str, may: bool) -> None:
    assert may_be_folder(path) is may


def test_a_base_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 1000)
    with pytest.raises(ConfigError, match="999"):
        Base.at(tmp_path, 999)
