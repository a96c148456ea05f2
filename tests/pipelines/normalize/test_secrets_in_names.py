"""Secrets where nobody looks for them, in keys of objects, ids and names: no file of a run holds one."""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
from typer.testing import CliRunner

from tests.conftest import FUZZ
from tests.connectors.mutations import places, replaced, written
from tests.connectors.test_contract import entries
from tests.connectors.test_hostile import json_members, of_json, with_member
from tests.failures import every
from tests.rows import blob_at
from trajmill.app.cli.cli import app
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connectors
from trajmill.quality.scrub import scrub, scrub_reject
from trajmill.schemas import Assembler, Origin, ParseError, Reject

USER = "carolj"
HOME = f"/home/{USER}/src"
TOKENS = {
    "ghp": "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a",
    "akia": "AKIA" + "2OGYBAH6QZ3RTVNM",
    "sk": "sk-ant-api03-" + "Zr8kQ2vT" * 11 + "xYz12AA",
}
NAMED = frozenset(
    {
        "agent_name", "call_id", "clientInfo", "episode_id", "filename", "function_name", "id", "instance_id",
        "model", "model_name", "name", "request_id", "sessionId", "session_id", "task_id", "toolUseId",
        "tool_call_id", "tool_use_id", "traj_id", "trajectory_id", "uuid", "parentUuid", "version", "media_type",
    }
)  # fmt: skip
"""Members of objects that hold an id or a name in some format."""

RECIPE = """
name: names
source: names
normalize: {max_reject_ratio: 1.0}
domains: [mcp, search, terminal, swe, web, os, android]
"""
FORMATS = (
    "claude_code/input/session.jsonl", "codex/input", "atif/input/full.json", "mcp_jsonrpc/input/bare.jsonl",
    "mcp_inspector/input", "chat_tools/input/openai.json", "chat_tools/input/anthropic.jsonl", "har/input/chrome.har",
    "android_world/input/notes.json", "uiautomator/input/tasks_named", "swe_rows/input",
    "sweagent/input/tool_calls.traj", "tau2/input",
)  # fmt: skip


EVERY = 50 if FUZZ == 1 else 2
"""Of so many places of a log one is tried, always the same."""


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(column, text) of every text in rows."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, path)
    elif isinstance(value, str):
        yield path, value


def told(name: str, blob: MemoryBlob) -> Iterator[tuple[str, str]]:
    """(column, text) of all that normalize would write of a log."""
    assembler, parents, rejects = Assembler(), dict[str, str](), []
    origin = Origin(blob.uri, "fixture", name, "1", blob.digest)
    try:
        for record in connectors()[name].parse(blob):
            if isinstance(record, Reject):
                rejects.append(record)
            else:
                assembler.add(record, origin, parents)
    except ParseError as error:
        rejects.append(Reject("input", error.reason, error.detail, blob.uri))
    for reject in map(scrub_reject, rejects):
        yield from leaves([reject.uri, reject.member, reject.detail, reject.excerpt], "reject")
    if assembler.num_rows:
        yield from leaves(scrub(assembler.take(), per_trajectory=False)[0].to_pylist())


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def planted_in(value: Any) -> list[Any]:
    """The value with a token in it: as a text, at the end of one, as the name of a member, as one more."""
    token = TOKENS["ghp"]
    match value:
        case str():
            return [f"{value} {token}", token]
        case dict():
            return [{**value, token: {token: "x"}}]
        case list():
            return [[*value, token]]
    return []


@of_json
def test_no_column_and_no_reject_holds_a_token_wherever_it_stands_in_a_log(names: list[str]) -> None:
    """Except as the name of an MCP server, which stands within a word (`mcp__SERVER__tool`)."""
    with every() as case:
        for name in names:
            with case(name):
                holds_no_token(name)


def holds_no_token(name: str) -> None:
    shapes: set[object] = set()
    hits: dict[str, object] = {}
    for path, member, values in json_members(name):
        for number, value in enumerate(values):
            for keys in places(value):
                shape = member, tuple(key if isinstance(key, str) else 0 for key in keys)
                if shape in shapes or (shapes and zlib.crc32(repr(shape).encode()) % EVERY):
                    continue
                shapes.add(shape)
                for fresh in planted_in(at(value, keys)):
                    changed = [*values[:number], replaced(value, keys, fresh), *values[number + 1 :]]
                    for column, text in told(name, with_member(path, member, written(changed))):
                        if TOKENS["ghp"][4:] in text and f"{TOKENS['ghp']}__" not in text:
                            hits[column] = keys, text[:200]
    assert shapes
    assert hits == {}


def renamed(value: Any, number: int) -> Any:
    """The value with a token in each id and name, and in one more name of each object; what was equal stays equal."""
    token = list(TOKENS.values())[number % len(TOKENS)]
    if isinstance(value, list):
        return [renamed(item, number) for item in value]
    if not isinstance(value, dict):
        return value
    fresh = {key: renamed(item, number) for key, item in value.items()}
    for key in NAMED & fresh.keys():
        if isinstance(fresh[key], str):
            fresh[key] += f" {token} {HOME}"
    return {**fresh, token: {f"{HOME}/{token}": token}}


def attacked(raw: Path) -> int:
    """Writes the fixtures with secrets in every id, name, key and path; how many files they are."""
    count = 0
    for number, form in enumerate(FORMATS):
        fixture = Path(form)
        for path in entries(fixture.parts[0], "input"):
            if fixture.name not in ("input", path.name):
                continue
            blob = blob_at(path)
            folder = raw / f"-Users-{USER}-work" / f"{number}-{TOKENS['ghp']}"
            for member in blob.members:
                data = blob.read(member)
                try:
                    lines = [json.dumps(renamed(json.loads(data), number)).encode()]
                except ValueError:
                    lines = [_line(line, number) for line in data.splitlines()]
                file = folder / path.name / member if path.is_dir() else folder / path.name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(b"\n".join(lines) + b"\n")
                count += 1
    return count


def _line(line: bytes, number: int) -> bytes:
    try:
        return json.dumps(renamed(json.loads(line), number)).encode()
    except ValueError:
        return line


def texts_of(out: Path) -> Iterator[tuple[Path, str]]:
    """(file, text) of everything in a folder; of Parquet what its columns hold."""
    for path in sorted(out.rglob("*")):
        if path.is_file():
            yield path, path.name
            yield path, path.read_bytes().decode("utf-8", "replace")
            if path.suffix == ".parquet":
                yield path, json.dumps(pl.read_parquet(path).to_dicts(), default=str, ensure_ascii=False)


def test_no_file_of_a_run_holds_a_secret_of_a_key_an_id_or_a_name(tmp_path: Path) -> None:
    raw, out, recipe = tmp_path / "raw", tmp_path / "out", tmp_path / "names.yaml"
    assert attacked(raw) > 20
    (raw / f"{TOKENS['akia']}.xyz").write_text(f"unknown {TOKENS['sk']} at {HOME}")
    recipe.write_text(RECIPE)
    done = CliRunner().invoke(app, ["run", str(recipe), "--raw", str(raw), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert pl.read_parquet(out / "transitions" / "*" / "*.parquet").height > 20
    secrets = {name: token[-16:] for name, token in TOKENS.items()}
    kept_whole = out / "plan.json"
    assert kept_whole.stat().st_mode & 0o777 == 0o600
    leaks = [
        (str(path.relative_to(out)), name, text[max(0, text.index(secret) - 60) : text.index(secret) + 40])
        for path, text in texts_of(out)
        for name, secret in {**secrets, "user": USER}.items()
        if secret in text and path != kept_whole
    ]
    assert leaks == []
    plan = json.loads(kept_whole.read_bytes())
    excerpts = [text for _, text in leaves([reject.get("excerpt") for reject in plan["unrecognized"]])]
    assert excerpts
    assert not [text for text in excerpts for secret in secrets.values() if secret in text]
