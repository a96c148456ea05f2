"""Harness text around answers, found in a corpus: lines at the edges of answers that do not depend on the call.

The output of a program depends on the program; the text that a harness adds does not. A line at the beginning or end of
the answers of one version of an agent is a frame under two conditions. It follows about as many different tools and
commands as the same number of answers drawn at random, and no single program occurs in nearly all of these commands but
in few others. Lines are compared by their skeletons (`answer_edges`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajmill.quality.answer_edges import (
    EDGE,
    HEAD,
    HEAD_LABEL,
    TAIL,
    TAIL_LABEL,
    Hashes,
    Numbers,
    Records,
    edge_records,
    unpacked,
)

LEAST: Final = ((5, 5), (4, 8))
"""Fewest kinds of calls and fewest answers of a frame; one of these pairs must hold."""

LEAST_SPREAD: Final = 0.6
"""Smallest number of kinds of calls before a frame, as a share of the number before as many random answers."""

LEAST_OF_PROGRAM: Final = 0.8
"""Smallest share of the answers with a line at which their commands run the program that prints it. Of all answers, at
most half that share may run the program.
"""

COUNT: Final = np.dtype(
    [
        ("skeleton", "<u8"),
        ("kind", "<u8"),
        ("is_program", "?"),
        ("tool", "<u8"),
        ("place", "u1"),
        ("answers", "<u4"),
        ("depth", "<u4"),
        ("unit", "<u4"),
        ("row", "<u4"),
    ]
)
"""Number of answers of a unit to calls of a kind with a skeleton, the sum of its distances from the edge in lines, and
the first of these answers; skeleton 0 stands for any.
"""

FRAME: Final = np.dtype(
    [
        ("skeleton", "<u8"),
        ("tool", "<u8"),
        ("place", "u1"),
        ("answers", "<u4"),
        ("among", "<u4"),
        ("kinds", "<u4"),
        ("expected", "<f4"),
        ("depth", "<f4"),
        ("unit", "<u4"),
        ("row", "<u4"),
    ]
)
"""Skeleton that is a frame: its tool (0: several), the answers with it among the answers of its tools, the kinds of
calls that they follow and the number expected by chance, its average distance from the edge in lines, and the first of
the answers.
"""

_OTHER: Final = {HEAD: TAIL, TAIL: HEAD, HEAD_LABEL: TAIL_LABEL, TAIL_LABEL: HEAD_LABEL}

_BOTH: Final = 0.9
"""Share of the answers with a skeleton at one edge that also have it at the other edge if it belongs to both."""


def count_skeletons(edges: pa.Table, variety: pa.Table, unit: int) -> dict[int, tuple[Records, Records]]:
    """Count, by group, the answers of a unit of each kind, and those that have each skeleton.

    Args:
        edges: Table of `EDGES_SCHEMA`.
        variety: Table of `variety.VARIETY_SCHEMA` with the same rows.
        unit: Number of the unit.
    """
    looked = np.flatnonzero(edges["group"].combine_chunks().to_numpy())
    rows, records = edge_records(edges)
    known = records["skeleton"] != 0
    rows, records = rows[known], records[known]
    order = np.lexsort((records["place"], records["skeleton"], rows))
    keys = [column[order] for column in (rows, records["skeleton"], records["place"])]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    rows, records = rows[order[is_new]], records[order[is_new]]
    answers = _count_distinct(edges, variety, looked, np.zeros(len(looked), EDGE), unit)
    by_skeleton = _count_distinct(edges, variety, rows, records, unit)
    none = np.zeros(0, COUNT)
    return {name: (some, by_skeleton.get(name, none)) for name, some in answers.items()}


def _count_distinct(
    edges: pa.Table, variety: pa.Table, rows: npt.NDArray[np.int64], records: Records, unit: int
) -> dict[int, Records]:
    """Count the distinct (kind, skeleton, place) by group, of dtype `COUNT`, by skeleton, place and kind.

    Args:
        edges: Table of `EDGES_SCHEMA`.
        variety: Table of `variety.VARIETY_SCHEMA` with the same rows.
        rows: Row of each record.
        records: Records of dtype `EDGE`.
        unit: Number of the rows' unit.
    """
    owners, programs = unpacked(edges["programs"], np.uint64)
    begins, ends = np.searchsorted(owners, rows), np.searchsorted(owners, rows, "right")
    again = np.repeat(np.arange(len(rows)), ends - begins)
    position = np.arange(len(again)) + np.repeat(begins - np.cumsum(ends - begins) + ends - begins, ends - begins)
    is_program = np.repeat([False, True], [len(rows), len(again)])
    index = np.append(np.arange(len(rows)), again)
    rows, records = rows[index], records[index]
    group = edges["group"].combine_chunks().to_numpy()[rows]
    tool, head = (variety[name].combine_chunks().to_numpy()[rows] for name in ("action", "command_head"))
    kind = tool + np.append(head[: len(head) - len(again)], programs[position])
    order = np.lexsort((rows, kind, is_program, records["place"], records["skeleton"], group))
    columns = (group, records["skeleton"], records["place"], is_program, kind)
    keys = np.stack([column[order].astype(np.uint64) for column in columns])
    starts = np.flatnonzero(np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))) if len(order) else order
    first = order[starts]
    counts = np.zeros(len(starts), COUNT)
    counts["skeleton"], counts["place"] = records["skeleton"][first], records["place"][first]
    counts["kind"], counts["is_program"], counts["tool"] = kind[first], is_program[first], tool[first]
    counts["row"], counts["unit"] = rows[first], unit
    counts["answers"] = np.diff(np.append(starts, len(order)))
    counts["depth"] = np.add.reduceat(records["depth"][order].astype(np.uint32), starts) if len(order) else 0
    return {int(name): counts[group[first] == name] for name in np.unique(group)}


def find_frames(answers: Records, skeletons: Records) -> Records:
    """Find the frames among skeletons of one group, of dtype `FRAME`, by place and skeleton.

    Args:
        answers: Number of the group's answers of each kind, of dtype `COUNT`, of all units.
        skeletons: Number of these answers with each skeleton.
    """
    if not len(skeletons):
        return np.zeros(0, FRAME)
    _, place_of = np.unique(skeletons["skeleton"] + skeletons["place"], return_inverse=True)
    times = np.bincount(place_of, np.where(skeletons["is_program"], 0, skeletons["answers"]))
    skeletons = skeletons[times[place_of] >= min(answers_of for _, answers_of in LEAST)]  # few are said so often
    if not len(skeletons):
        return np.zeros(0, FRAME)
    names = ("row", "unit", "kind", "is_program", "skeleton", "place")
    skeletons = skeletons[np.lexsort([skeletons[name] for name in names])]
    keys = np.stack([skeletons["place"].astype(np.uint64), skeletons["skeleton"]])
    begins = np.flatnonzero(np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0)))
    is_proper = ~skeletons["is_program"]
    is_new = np.append(True, skeletons["kind"][1:] != skeletons["kind"][:-1])
    is_new[1:] |= is_proper[1:] != is_proper[:-1]
    is_new[begins] = True
    numbers = np.add.reduceat(np.where(is_proper, skeletons["answers"], 0).astype(np.int64), begins)
    kinds_met = np.add.reduceat((is_new & is_proper).astype(np.int64), begins)
    is_enough = np.any([(kinds_met >= fewest) & (numbers >= answers_of) for fewest, answers_of in LEAST], axis=0)
    ends = np.append(begins[1:], len(skeletons))
    _, tools, totals = _by_kind(answers[~answers["is_program"]])
    programs, _, runs = _by_kind(answers[answers["is_program"]])
    frames_found = []
    for place in np.flatnonzero(is_enough).tolist():
        some, number, met = skeletons[begins[place] : ends[place]], int(numbers[place]), int(kinds_met[place])
        printing, _, counts = _by_kind(some[some["is_program"]])
        some = some[~some["is_program"]]
        own = np.unique(some["tool"])
        among = np.isin(tools, own)
        size = totals[among].sum()
        expected = float((1 - (1 - totals[among] / size) ** number).sum())
        is_of_program = counts >= LEAST_OF_PROGRAM * number
        is_of_program &= 2 * runs[np.searchsorted(programs, printing)] * number <= counts * size
        if met < LEAST_SPREAD * expected or is_of_program.any():
            continue
        first = some[np.lexsort((some["row"], some["unit"]))[0]]
        tool = own[0] if len(own) == 1 else 0
        values = (first["skeleton"], tool, first["place"], number, size, met, expected)
        frames_found.append((*values, some["depth"].sum() / number, first["unit"], first["row"]))
    return _keep_own_edge(np.array(frames_found, FRAME))


def _keep_own_edge(frames_found: Records) -> Records:
    """Drop frames that belong to the other edge and reach this one only in short answers: less often, or deeper, than
    there.
    """
    by_place = {(int(frame["place"]), int(frame["skeleton"])): frame for frame in frames_found}
    opposites = [by_place.get((_OTHER[int(frame["place"])], int(frame["skeleton"]))) for frame in frames_found]
    is_kept = [
        opposite is None
        or (
            frame["answers"] >= _BOTH * opposite["answers"]
            and (frame["depth"] <= opposite["depth"] or opposite["answers"] < _BOTH * frame["answers"])
        )
        for frame, opposite in zip(frames_found, opposites, strict=True)
    ]
    return frames_found[np.array(is_kept, np.bool_)]


def _by_kind(answers: Records) -> tuple[Hashes, Hashes, Numbers]:
    """Return the kinds of calls in order, and the tool of each and the number of its answers."""
    kinds, first, inverse = np.unique(answers["kind"], return_index=True, return_inverse=True)
    return kinds, answers["tool"][first], np.bincount(inverse, answers["answers"]).astype(np.int64)


def count_framed(edges: pa.Table, of_group: dict[int, Records]) -> npt.NDArray[np.int64]:
    """Count the characters of each row's answer that belong to frames.

    A frame counts if only frames, and lines that are too short for a skeleton, separate it from its edge.

    Args:
        edges: Table of `EDGES_SCHEMA`.
        of_group: Frames of each group, of dtype `FRAME`.
    """
    group = edges["group"].combine_chunks().to_numpy()
    known = {
        name: set(zip(some["place"].tolist(), some["skeleton"].tolist(), strict=True))
        for name, some in of_group.items()
    }
    framed = np.zeros(edges.num_rows, np.int64)
    rows, records = edge_records(edges)
    begins = np.searchsorted(rows, np.arange(edges.num_rows + 1))
    skeletons = np.array([skeleton for some in known.values() for _, skeleton in some], np.uint64)
    looked = np.isin(records["skeleton"], skeletons) & np.isin(group, np.array([*known], np.uint64))[rows]
    for row in np.unique(rows[looked]).tolist():
        spans = spans_in_frames(records[begins[row] : begins[row + 1]].tolist(), known[int(group[row])])
        framed[row] = sum(end - begin for begin, end in spans)
    return framed


def spans_in_frames(
    edges: Sequence[tuple[int, int, int, int, int]], known: set[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return (begin, end) in characters of the frames of an answer, in order.

    Args:
        edges: Edges of the answer, as tuples of the fields of `EDGE`.
        known: Place and skeleton of each frame.
    """
    spans: list[tuple[int, int]] = []
    for side, label in ((HEAD, HEAD_LABEL), (TAIL, TAIL_LABEL)):
        labels = {
            depth: (begin, begin + size)
            for skeleton, begin, size, edge_place, depth in edges
            if edge_place == label and (edge_place, skeleton) in known
        }
        waiting: list[tuple[int, int]] = []
        for skeleton, begin, size, edge_place, depth in edges:
            if edge_place != side:
                continue
            if (side, skeleton) in known:
                spans += [*waiting, (begin, begin + size)]
                waiting = []
            elif skeleton == 0 or depth in labels:
                spans += [labels[depth]] if depth in labels else []
                waiting.append((begin, begin + size))
            else:
                break
    return _merge_spans(spans)


def _merge_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end > begin:
            merged.append((begin, end))
    return merged
