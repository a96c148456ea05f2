"""Placing passages: those of a later generation in the pools that earlier ones gave their groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.generations.ledgers import KINDS
from trajmill.pipelines.mix.candidates import Candidates
from trajmill.pipelines.mix.coded_names import Coded, hex_texts
from trajmill.pipelines.mix.passages.earlier_passages import passage_node
from trajmill.pipelines.mix.passages.preparation import STAGE, label_of, part_names
from trajmill.pipelines.mix.placing import Placed, known_pools
from trajmill.pipelines.recipe.recipe import POOLS
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table


def with_passages(places: Placed, passed: Candidates, pools: Sequence[Folder]) -> Placed:
    """The places of trajectories, and after them those of passages.

    Args:
        places: of trajectories.
        passed: the passages.
        pools: the folders of ledgers that say what nodes have.
    """
    named = zip(passed.domain.tolist(), hex_texts(passed.group).to_pylist(), strict=True)
    nodes = [passage_node(str(component), group) for component, group in named]
    known = known_pools(set(nodes), pools)
    pool = Coded.of([known.get(node, "") for node in nodes])
    return replace(places, group=np.concatenate([places.group, passed.group]), pool=Coded.joined([places.pool, pool]))


def passage_places(stages: Folder) -> Iterator[npt.NDArray[np.void]]:
    """The rows that a generation's passages add to the ledger of groups: each document is a group of its component."""
    for part in part_names(stages / STAGE):
        drawn = read_table(stages / "draws", f"{label_of(part)}.parquet", ["group", "pool"])
        component = part.partition("/")[0]
        told = sorted(set(zip(drawn["group"].to_pylist(), drawn["pool"].to_pylist(), strict=True)))
        rows = np.zeros(len(told), KINDS["groups"])
        rows["node"] = rows["group"] = [passage_node(component, group) for group, _ in told]
        rows["pool"] = [[*POOLS].index(pool) for _, pool in told]
        yield rows
