"""Dataset of verl's SFT trainer over token ids with their loss mask. It is self-contained; `data.custom_cls` names it.

verl trains every turn of the assistant in a conversation; this dataset returns ids and `loss_mask` as stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow.parquet as pq
import torch
from torch.utils.data import Dataset


class TokenIdDataset(Dataset):
    """Rows of Parquet files with `input_ids` and `loss_mask`.

    Args:
        parquet_files: a path or several.
        tokenizer: the trainer's tokenizer, of which only the padding token is used.
        config: `pad_mode` (`right` or `no_padding`), `max_length`, `truncation` (`error`, `left`, `right`).
        processor: not used.
        max_samples: largest number of rows, from the first; -1 for all.
    """

    def __init__(
        self,
        parquet_files: str | Iterable[str],
        tokenizer: Any,
        config: Any = None,
        processor: Any = None,
        max_samples: int = -1,
    ) -> None:
        config = config or {}
        self.pad_mode = config.get("pad_mode", "right")
        self.max_length = config.get("max_length", 1024)
        self.truncation = config.get("truncation", "error")
        self.padding = getattr(tokenizer, "pad_token_id", None) or 0
        files = [parquet_files] if isinstance(parquet_files, str) else list(parquet_files)
        columns = ["input_ids", "loss_mask"]
        rows = [row for file in files for row in pq.read_table(file, columns=columns).to_pylist()]
        self.rows = rows[:max_samples] if max_samples > 0 else rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, item: int) -> dict[str, torch.Tensor]:
        row = self.rows[item]
        ids, mask = row["input_ids"], row["loss_mask"]
        if len(ids) > self.max_length:
            if self.truncation == "error":
                raise ValueError(f"row {item} has {len(ids)} tokens, over max_length={self.max_length}")
            window = slice(-self.max_length, None) if self.truncation == "left" else slice(self.max_length)
            ids, mask = ids[window], mask[window]
        room = self.max_length - len(ids) if self.pad_mode == "right" else 0
        tensors = {
            "input_ids": torch.tensor(ids + [self.padding] * room, dtype=torch.long),
            "position_ids": torch.tensor([*range(len(ids)), *[0] * room], dtype=torch.long),
            "loss_mask": torch.tensor(mask + [0] * room, dtype=torch.long),
        }
        if self.pad_mode == "right":
            tensors["attention_mask"] = torch.tensor([1] * len(ids) + [0] * room, dtype=torch.long)
        return tensors
