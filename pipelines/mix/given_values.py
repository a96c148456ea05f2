"""Values that a user gives of trajectories, by which a mixture chooses and weighs: columns of a Parquet file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from trajmill.pipelines.recipe.mixture import VALUES
from trajmill.quality.fingerprint import text_hashes
from trajmill.schemas import ConfigError

Floats = npt.NDArray[np.float64]

ID: Final = "trajectory_id"


@dataclass(frozen=True, slots=True)
class GivenValues:
    """Columns of numbers by trajectory.

    Attributes:
        keys: hashes of the ids, ascending.
        columns: one number a key, by name with `VALUES`.
    """

    keys: npt.NDArray[np.uint64]
    columns: dict[str, Floats]

    def of(self, name: str, ids: pa.Array) -> Floats:
        """The numbers of trajectories; NaN of those that the file does not have."""
        keys = text_hashes(ids)[:, 0]
        place = np.searchsorted(self.keys, keys)
        there = np.append(self.keys, 0)[place] == keys if len(self.keys) else np.zeros(len(keys), np.bool_)
        return np.where(there & (place < len(self.keys)), np.append(self.columns[name], np.nan)[place], np.nan)


def read_values(path: str, names: Sequence[str]) -> GivenValues:
    """The columns of these names, each with `VALUES`.

    Raises:
        ConfigError: the file cannot be read, lacks a column, has text where a number is wanted, or two rows of one
            trajectory.
    """
    columns = [name.removeprefix(VALUES) for name in names]
    try:
        schema = pq.read_schema(path)
        lacking = [name for name in (ID, *columns) if name not in schema.names]
        if lacking:
            there = ", ".join(name for name in schema.names if name != ID)
            raise ConfigError(f"mix.values: {path} has no column {', '.join(lacking)}; it has: {there}.")
        table = pq.read_table(path, columns=[ID, *columns]).combine_chunks()
        ids = table[ID].combine_chunks().cast(pa.string())
        found = {name: table[name].combine_chunks().cast(pa.float64()) for name in columns}
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"mix.values: {path} cannot be read: {error}") from error
    if ids.null_count:
        raise ConfigError(f"mix.values: {path} has a row without a trajectory.")
    numbers = {name: of.to_numpy(zero_copy_only=False) for name, of in found.items()}
    keys = text_hashes(ids)[:, 0]
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(np.diff(keys[order].view(np.int64)) == 0)
    if len(again):
        raise ConfigError(f"mix.values: {path} has two rows of trajectory {ids[int(order[again[0]])]}.")
    return GivenValues(keys[order], {VALUES + name: of[order] for name, of in numbers.items()})


def weighed_keys(keys: npt.NDArray[np.uint64], weights: Floats) -> npt.NDArray[np.uint64]:
    """Keys by whose order items come by chance in proportion to their weights, those that weigh nothing last.

    Efraimidis and Spirakis (2006): the order of -log(u) / weight, where u is the key as a share. The bits of numbers
    above 0 have the same order as these.

    Args:
        keys: 64 bits of a hash of each.
        weights: of each; what is no number or below 0 weighs nothing.
    """
    shares = (keys.astype(np.float64) + 0.5) / 2.0**64
    lots = -np.log(np.minimum(shares, 1 - 2.0**-53))
    weights = np.maximum(np.nan_to_num(weights, nan=0.0), 0.0)
    # what weighs nothing keeps the order of its lots, behind all others
    order = np.where(weights > 0, lots / np.maximum(weights, 1e-300), 1e302 + lots * 1e300)
    bits: npt.NDArray[np.uint64] = np.minimum(order, 1.7e308).view(np.uint64)
    return bits


def weights_by(values: dict[str, Floats], powers: dict[str, float]) -> Floats:
    """The product of values to their powers; what is below 0 or no number is 0."""
    found = [np.maximum(np.nan_to_num(values[name], nan=0.0), 0.0) ** power for name, power in powers.items()]
    product: Floats = np.prod(found, axis=0)
    return product
