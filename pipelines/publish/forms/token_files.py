"""Forms of `cpt` as files of raw tokens, for Megatron and OLMo-core, each with its mask.

The little-endian layouts follow the readers of megatron-core 0.16.1 and ai2-olmo-core 3.0.0. Documents are whole, each
with its end token; the trainer packs them.
"""

from __future__ import annotations

import struct
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.publish.forms import mixes
from trajmill.pipelines.publish.forms.job import Job
from trajmill.pipelines.publish.forms.stored_samples import ShardFile

MASK: Final = "_loss_mask"
"""Suffix of a mask's name, after the name of its tokens."""

MEGATRON_MODULE: Final = "megatron_reader.py"
_MAGIC: Final = b"MMIDIDX\x00\x00"
_CODES: Final = {np.dtype(np.uint8): 1, np.dtype(np.int32): 4, np.dtype(np.uint16): 8}
_OF_16_BITS: Final = 65_500
"""Size of a vocabulary from which ids have 32 bits, as in Megatron's own writer."""

_CARD: Final = """\
# Tokens for Megatron

`cpt/<domain>/<shard>.bin` and `.idx` are indexed datasets of whole documents; `data_args.txt` is for
`--data-args-path`.

**Unmasked** for whoever reads them with Megatron alone: its format holds no loss mask, so every token would be trained.
The mask lies beside, as an indexed dataset of bytes under `<shard>_loss_mask`. `megatron_reader.py` reads both:
`masked(GPTDataset)` is Megatron's own dataset with the mask in its `loss_mask`, to be given to the dataset builder.
"""


def megatron(job: Job) -> None:
    """Write `.bin` and `.idx` of the ids, and the same of the mask."""
    ids, byte = np.dtype(np.uint16 if job.tokenizing.size < _OF_16_BITS else np.int32), np.dtype(np.uint8)
    for file in job.shards.files("cpt"):
        prefix = f"cpt/{file.domain}/{file.stem}"
        lengths = _raw_files(job, file, {f"{prefix}.bin": ids, f"{prefix}{MASK}.bin": byte})
        job.out.write(f"{prefix}.idx", megatron_index(lengths, ids), len(lengths))
        job.out.write(f"{prefix}{MASK}.idx", megatron_index(lengths, byte), len(lengths))
    mixes.megatron(job, MASK)
    job.copy_module(MEGATRON_MODULE)
    job.out.write("README.md", _CARD)


def megatron_index(lengths: list[int], dtype: np.dtype[np.generic]) -> bytes:
    """Build the `.idx` of documents with these numbers of tokens, each a sequence of its own."""
    sizes = np.array(lengths, np.int32)
    pointers = np.concatenate([[0], np.cumsum(sizes.astype(np.int64))[:-1]])[: len(lengths)] * dtype.itemsize
    documents = np.arange(len(lengths) + 1, dtype=np.int64)
    head = _MAGIC + struct.pack("<QBQQ", 1, _CODES[dtype], len(lengths), len(documents))
    return head + sizes.tobytes() + pointers.astype(np.int64).tobytes() + documents.tobytes()


def olmo(job: Job) -> None:
    """Write headerless `.npy` files of the ids, in the smallest type for the vocabulary, and of the mask as bools."""
    dtype = next(np.dtype(f"<u{size}") for size in (1, 2, 4) if job.tokenizing.size - 1 < 1 << 8 * size)
    for file in job.shards.files("cpt"):
        prefix = f"cpt/{file.domain}/{file.stem}"
        _raw_files(job, file, {f"{prefix}.npy": dtype, f"{prefix}{MASK}.npy": np.dtype(np.bool_)})
    names = job.out.names(".npy")
    masks = [name for name in names if name.endswith(f"{MASK}.npy")]
    paths = [name for name in names if not name.endswith(f"{MASK}.npy")]
    dataset = {
        "paths": paths,
        "label_mask_paths": masks,
        "dtype": dtype.name,
        "vocab_size": job.tokenizing.size,
        "eos_token_id": job.tokenizing.end_of_document,
        "pad_token_id": job.tokenizing.padding,
    }
    job.write_yaml("dataset.yaml", dataset, "Arguments of OLMo-core's numpy datasets; masks are in the order of paths.")
    mixes.olmo(job, MASK)


def _raw_files(job: Job, file: ShardFile, files: dict[str, np.dtype[np.generic]]) -> list[int]:
    """Write the ids of a shard's documents to the first file and their mask to the second; return their lengths."""
    lengths: list[int] = []
    with ExitStack() as stack:
        entries = [stack.enter_context(job.out.writing(name)) for name in files]
        streams = [stack.enter_context(Path(entry.path).open("wb")) for entry in entries]
        for _, tokens in job.documents(file):
            values: tuple[npt.NDArray[np.generic], ...] = (tokens.ids, tokens.loss)
            for stream, column, dtype in zip(streams, values, files.values(), strict=True):
                stream.write(column.astype(dtype).tobytes())
            lengths.append(len(tokens.ids))
        for stream, entry in zip(streams, entries, strict=True):
            stream.flush()
            entry.rows = len(lengths)
    return lengths
