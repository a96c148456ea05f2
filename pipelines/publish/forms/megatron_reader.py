"""Reader of the loss masks that trajmill writes beside Megatron's indexed datasets. It needs only numpy.

`<prefix>.bin` and `.idx` hold the tokens of whole documents, `<prefix>_loss_mask.bin` and `.idx` a byte per token.

    from megatron.core.datasets.gpt_dataset import GPTDataset
    from megatron_reader import masked

    builder = BlendedMegatronDatasetBuilder(masked(GPTDataset), sizes, is_built_on_rank, config)
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

MASK = "_loss_mask"
_MAGIC = b"MMIDIDX\x00\x00"
_TYPES = {1: np.uint8, 4: np.int32, 8: np.uint16}


def documents(prefix: str) -> list[np.ndarray]:
    """Return the documents of an indexed dataset, or of a mask, as arrays over the mapped file.

    Raises:
        ValueError: it is no indexed dataset of version 1.
    """
    data = Path(f"{prefix}.idx").read_bytes()
    version, code, count, ends = struct.unpack_from("<QBQQ", data, len(_MAGIC))
    if not data.startswith(_MAGIC) or version != 1 or code not in _TYPES or ends != count + 1:
        raise ValueError(f"{prefix}.idx is no index of whole documents")
    if not count:
        return []
    lengths = np.frombuffer(data, np.int32, count, len(_MAGIC) + 25)
    tokens = np.memmap(f"{prefix}.bin", _TYPES[code], "r")
    if len(tokens) != lengths.sum(dtype=np.int64):
        raise ValueError(f"{prefix}.bin does not hold what {prefix}.idx says")
    return np.split(tokens, np.cumsum(lengths, dtype=np.int64)[:-1])


def masked_documents(prefix: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return (tokens, loss mask) of each document.

    Raises:
        ValueError: tokens and mask do not fit each other.
    """
    pairs = list(zip(documents(prefix), documents(prefix + MASK), strict=True))
    if any(len(tokens) != len(mask) for tokens, mask in pairs):
        raise ValueError(f"{prefix}{MASK} is not the mask of {prefix}")
    return [(tokens, mask.astype(bool)) for tokens, mask in pairs]


def masked(dataset: type) -> type:
    """Derive a class from Megatron's `GPTDataset` whose samples have the mask of our files in their `loss_mask`.

    The mask is read like the tokens: the same queries go to the mask's dataset instead of the tokens'.
    """

    base: Any = dataset

    class MaskedDataset(base):
        """The base dataset with the loss mask of our files."""

        dataset: Any

        def __init__(self, indexed: Any, path: str, *arguments: Any, **named: Any) -> None:
            super().__init__(indexed, path, *arguments, **named)
            self._masks = self.build_low_level_dataset(f"{path}{MASK}", self.config)

        def __getitem__(self, idx: int | None) -> dict[str, Any]:
            sample = super().__getitem__(idx)
            tokens, self.dataset = self.dataset, self._masks
            try:
                mask, _ = self._query_document_sample_shuffle_indices(idx or 0)
            finally:
                self.dataset = tokens
            bears = mask[1:] if self.config.add_extra_token_to_sequence else np.append(mask[1:], 0)
            loss_mask = sample["loss_mask"].new_tensor((bears == 1).astype(np.float32))
            return {**sample, "loss_mask": sample["loss_mask"] * loss_mask}

    MaskedDataset.__name__ = f"Masked{dataset.__name__}"
    return MaskedDataset
