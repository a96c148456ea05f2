"""Scenarios: the beginning of served sessions, with everything known of a world before the first action.

A scenario holds the system prompt and the first turn of a trajectory, without its further course. Scenarios come from a
finished run, or are written by hand: one JSON object a line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.generations.generations import stage_folders
from trajmill.pipelines.judge.judging import Unit, measure_file
from trajmill.pipelines.mix.mixture import read_draws
from trajmill.pipelines.mix.simulation_instructions import read_instructions
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.render.costs import COUNTED
from trajmill.pipelines.render.pieces import Flags, Numbers
from trajmill.pipelines.render.prompts import CONTEXT, Shape
from trajmill.pipelines.render.unit_costs import UnitCosts
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table, read_transitions
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import DOMAINS, KEYSTROKES, MESSAGE, WAIT, ConfigError
from trajmill.schemas.trajectory import without_surrogates

_LONGEST: Final = 16 << 20
"""Most bytes of a scenario line."""

ACTIONS: Final = ("call", "keystrokes")
"""Forms of actions on which a world may have been trained."""

_TEXTS: Final = ("shell", "source", "key", "pool", "screen", "task_id", "instruction", "environment_id", "instance_id")


@dataclass(frozen=True, slots=True)
class Scenario:
    """Beginning of a session.

    Attributes:
        id: Id by which a session selects it.
        key: Key by which the prompt's template is drawn; the id by default.
        source: Corpus of the scenario; empty if none.
        pool: Pool of its trajectory; empty if none.
        context: Texts of the system prompt, by `CONTEXT`.
        forms: Forms of the world's observations, as prompts state them.
        dialects: Dialects of the world's observations, as prompts state them.
        ends: True if answers state how commands ended.
        enveloped: True if answers are objects of MCP.
        screen: Size of the screen, such as `1080 x 2400`; empty if not stated.
        actions: Form of the actions on which the world was trained, of `ACTIONS`; empty to accept any.
        shell: Tool whose `command` is a shell command line; empty if none is known.
        observation: Observation before the first action; None if unknown.
        time_limit_s: Seconds after which commands are killed; None if not stated.
        instruction: Instruction of the agent, which the world does not see.
        instance_id: Id of the environment's instance.
    """

    id: str
    domain: str
    key: str = ""
    source: str = ""
    pool: str = ""
    context: Mapping[str, str | None] = field(default_factory=dict)
    forms: tuple[str, ...] = ()
    dialects: tuple[str, ...] = ()
    ends: bool = False
    enveloped: bool = False
    screen: str = ""
    actions: str = ""
    shell: str = ""
    observation: str | None = None
    time_limit_s: float | None = None
    task_id: str = ""
    instruction: str = ""
    environment_id: str = ""
    instance_id: str = ""

    @classmethod
    def of(cls, values: object) -> Self:
        """Build a scenario from JSON values.

        Raises:
            ConfigError: The values are invalid; the message says why.
        """
        if not isinstance(values, dict):
            raise ConfigError("A scenario is a JSON object.")
        known = {field.name for field in fields(cls)}
        if unknown := sorted(values.keys() - known):
            raise ConfigError(f"A scenario has no '{unknown[0]}'; there are: {', '.join(sorted(known))}.")
        known_values = {name: value for name, value in without_surrogates_in(values).items() if value is not None}
        if not isinstance(known_values.get("id"), str) or known_values.get("domain") not in DOMAINS:
            raise ConfigError(f"A scenario needs an id, and a domain, one of {', '.join(DOMAINS)}.")
        context = known_values.get("context", {})
        if not isinstance(context, dict) or not context.keys() <= set(CONTEXT):
            raise ConfigError(f"context of scenario '{known_values['id']}' may hold: {', '.join(CONTEXT)}.")
        for name in ("forms", "dialects"):
            if not isinstance(known_values.get(name, []), list | tuple):
                raise ConfigError(f"{name} of scenario '{known_values['id']}' is a list of words.")
            known_values[name] = tuple(known_values.get(name, ()))
        _check(known_values, context)
        return cls(**known_values)

    @property
    def shape(self) -> Shape:
        """Properties of its prompt besides the texts of its context."""
        has_text = tuple(bool(self.context.get(name)) for name in CONTEXT)
        words = tuple(sorted(self.forms)), tuple(sorted(self.dialects)), self.ends, self.enveloped, self.screen
        return Shape(self.domain, *words, has_text)

    @property
    def whole_context(self) -> dict[str, str | None]:
        """Texts of the prompt, None for absent ones."""
        return {name: self.context.get(name) for name in CONTEXT}

    def line(self) -> str:
        """Return the scenario as a line of JSON, without default values."""
        plain = Scenario(self.id, self.domain)
        values = {name: value for name, value in asdict(self).items() if value != getattr(plain, name)}
        return json.dumps({"id": self.id, "domain": self.domain, **values}, ensure_ascii=False)


def without_surrogates_in(value: Any) -> Any:
    """Return a JSON value without lone surrogates in its texts."""
    if isinstance(value, dict):
        return {without_surrogates(name): without_surrogates_in(item) for name, item in value.items()}
    return [without_surrogates_in(item) for item in value] if isinstance(value, list) else without_surrogates(value)


def _check(scenario: Mapping[str, Any], context: Mapping[str, Any]) -> None:
    texts = {name: scenario[name] for name in (*_TEXTS, "observation") if name in scenario}
    lists = [word for name in ("forms", "dialects") for word in scenario[name]]
    good = all(isinstance(text, str | None) for text in (*texts.values(), *lists, *context.values()))
    flags = all(isinstance(scenario.get(name, False), bool) for name in ("ends", "enveloped"))
    flags = flags and scenario.get("actions", "") in ("", *ACTIONS)
    limit = scenario.get("time_limit_s", 0.0)
    if not good or not flags or isinstance(limit, bool) or not isinstance(limit, int | float):
        raise ConfigError(f"Scenario '{scenario['id']}' holds a value that is of no type that was wanted.")


class Scenarios:
    """Scenarios of a file of any length. Only their offsets are held in memory.

    Args:
        path: Path of JSON lines; None for no scenarios.

    Raises:
        ConfigError: The file cannot be read, a line is not a scenario, or two have the same id.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._places: dict[str, int] = {}
        if path is None:
            return
        try:
            with path.open("rb") as stream:
                self._index(stream)
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error

    def _index(self, stream: Any) -> None:
        offset = 0
        while line := stream.readline(_LONGEST + 1):
            if len(line) > _LONGEST:
                raise ConfigError(f"{self._path}: the line at byte {offset:,} is longer than {_LONGEST:,} bytes.")
            if line.strip():
                key = _scenario(line, f"{self._path}, byte {offset:,}").id
                if self._places.setdefault(key, offset) != offset:
                    raise ConfigError(f"{self._path} has two scenarios of the id '{key}'.")
            offset += len(line)

    def __len__(self) -> int:
        return len(self._places)

    def ids(self) -> Iterator[str]:
        """Return the ids, in the order of the file."""
        return iter(self._places)

    def get(self, key: str) -> Scenario | None:
        """Return the scenario with that id; None if there is none."""
        if key not in self._places or self._path is None:
            return None
        with self._path.open("rb") as stream:
            stream.seek(self._places[key])
            return _scenario(stream.readline(_LONGEST + 1), str(self._path))


def _scenario(line: bytes, where: str) -> Scenario:
    try:
        return Scenario.of(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: this is no line of JSON.") from error


def scenarios_in(out: Folder, mix: Mix, counter: TokenCounter, pools: tuple[str, ...] = ()) -> Iterator[Scenario]:
    """Yield the scenarios of the trajectories that a finished run drew, in the order of its files.

    Args:
        out: The run's folder.
        mix: The recipe's `mix` section, by which prompts are made.
        counter: Token counter with the recipe's tokenizer.
        pools: Pools of the trajectories; empty for all pools except eval, which is held out.

    Raises:
        ConfigError: The run is not finished.
    """
    wanted = pools or ("cpt", "sft", "rl")
    instructions = {} if mix.instructions is None else read_instructions(mix.instructions)
    for stages in stage_folders(out):
        manifest = read_manifest(stages / "transitions", MANIFEST)
        if manifest is None or read_manifest(stages / "draws", MANIFEST) is None:
            raise ConfigError(f"'{out.url}' holds no finished run; wanted is the output folder of `trajmill run`.")
        for number, file in enumerate(manifest.files):
            unit = Unit(number, file.name, file.sha256)
            yield from _of_unit(stages, unit, mix, counter, wanted, instructions)


def _of_unit(
    stages: Folder, unit: Unit, mix: Mix, counter: TokenCounter, pools: tuple[str, ...], instructions: Mapping[str, str]
) -> Iterator[Scenario]:
    """Yield the scenario of each drawn trajectory of a unit, or of its first segment."""
    verdicts = read_table(stages / "verdicts", unit.name, ["step", "kept", "use"])
    costs = read_table(stages / "measures", measure_file(unit.label, "costs"), COUNTED)
    is_kept, step = verdicts["kept"].to_numpy(), verdicts["step"].to_numpy()
    draws = list(read_draws(stages / "draws", unit.label))
    taken = np.array([draw["pool"] in pools and draw["copies"] > 0 for draw in draws], np.bool_)
    ordinal = (is_kept & (step == 0)).cumsum() - 1
    places = np.flatnonzero(is_kept & (costs["segment"].to_numpy() == 0))
    places = places[taken[ordinal[places]]]
    if not len(places):
        return
    use = np.array(verdicts["use"].take(pa.array(places)).to_pylist(), object)
    costs = costs.take(pa.array(places)).combine_chunks()
    column = costs.schema.get_field_index("has_envelope")
    shown = _read_enveloped(stages / "transitions", unit.name)[places] & (mix.mcp == "envelope")
    own = UnitCosts(costs.set_column(column, "has_envelope", pa.array(shown)), use, unit.domain, counter)
    firsts = np.minimum.reduceat(np.where(own.visible, np.arange(len(places)), len(places)), own.begins)
    firsts = np.where(firsts < len(places), firsts, own.begins)
    known = own.known[firsts].tolist()
    rows = _rows_at(stages / "transitions", unit.name, places[firsts])
    entries = zip(rows, own.shapes, own.keys, known, strict=True)
    for number, (row, shape, key, is_known) in enumerate(entries):
        pool = draws[ordinal[places[firsts[number]]]]["pool"]
        context = {name: row["context"][name] for name in CONTEXT if row["context"][name]}
        if pool != "eval" and row["trajectory_id"] in instructions:
            context.setdefault("simulation_instruction", instructions[row["trajectory_id"]])
        before, task, environment = row["observation"], row["task"], row["environment"]
        yield Scenario(
            row["trajectory_id"],
            unit.domain,
            key,
            row["source"],
            pool,
            {name: context[name] for name in CONTEXT if name in context},
            shape.forms,
            shape.dialects,
            shape.ends,
            shape.enveloped,
            shape.screen,
            *_form(row["action"]),
            (before["envelope"] if mix.mcp == "envelope" else None) or before["content"] if is_known else None,
            row["time_limit_s"],
            *(text or "" for text in (task["id"], task["instruction"], environment["id"], environment["instance_id"])),
        )


def _form(action: Mapping[str, Any]) -> tuple[str, str]:
    """Return the form of a log's actions, judged by the first, and its tool for shell commands if the first is one."""
    if action["name"] in (KEYSTROKES, WAIT) and action["text"].startswith("["):
        return "keystrokes", ""
    if action["name"] == MESSAGE or action["arguments"] is None:
        return "", ""
    arguments = json.loads(action["arguments"])
    is_line = set(arguments) <= {"command", "description", "timeout"} and isinstance(arguments.get("command"), str)
    return "call", action["name"] if is_line else ""


def _read_enveloped(transitions: Folder, name: str) -> Flags:
    """Flag the rows of a file whose answers were in an object of MCP, which the run's own recipe may not show."""
    read = read_table(transitions, name, ["next_observation.envelope"])["next_observation"].combine_chunks()
    flags: Flags = pc.struct_field(read, "envelope").is_valid().to_numpy(zero_copy_only=False)
    return flags


def _rows_at(transitions: Folder, name: str, rows: Numbers) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file with these ascending numbers."""
    first = 0
    for batch in read_transitions(transitions, name):
        begin, end = np.searchsorted(rows, (first, first + batch.num_rows))
        yield from batch.take(pa.array(rows[begin:end] - first)).to_pylist()
        first += batch.num_rows
