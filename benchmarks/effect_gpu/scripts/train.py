"""Teaches a language model each arm and scores it; stands alone, in an environment that has PyTorch.

    python train.py JOB [--model FOLDER] [--tokens N] [--seeds N] [--minutes N]

JOB holds `<number>.jsonl` for each arm and `held.jsonl`: a document a line, `parts` of (text, class), where an empty
class is context. Without a model a small one is taught from scratch, by bytes. With one, the `transformers` model of a
folder is taught further, from the same weights for each arm. Each arm is read in a drawn order, again and again, up to
as many tokens. What comes of it stands in `found.jsonl`, a line for each arm and seed. No seed is begun that would not
end in time.
"""

import argparse
import json
import math
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

END = "<|end|>"
"""End mark of an answer, in documents and in what a model says."""


class Bytes(nn.Module):
    """A decoder of bytes."""

    def __init__(self, width: int, layers: int, window: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, width), nn.Embedding(window, width)
        layer = nn.TransformerEncoderLayer(
            width, max(1, width // 64), 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The logits of the token behind each."""
        length = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=ids.device)
        states = self.blocks(
            self.tokens(ids) + self.places(torch.arange(length, device=ids.device)), mask, is_causal=True
        )
        return states @ self.tokens.weight.T


class Further(nn.Module):
    """A model of `transformers`."""

    def __init__(self, folder: str) -> None:
        from transformers import AutoModelForCausalLM

        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The logits of the token behind each."""
        return self.model(ids).logits


class Texts:
    """Texts as tokens: bytes, or those of a model's tokenizer."""

    def __init__(self, folder: str) -> None:
        self._tokenizer = None
        if folder:
            from transformers import AutoTokenizer

            self._tokenizer = AutoTokenizer.from_pretrained(folder)

    def ids(self, text: str) -> list[int]:
        """The tokens of a text."""
        if self._tokenizer is None:
            return list(text.encode())
        return self._tokenizer.encode(text, add_special_tokens=False)

    def text(self, ids: list[int]) -> str:
        """The text of tokens."""
        return bytes(ids).decode("utf-8", "replace") if self._tokenizer is None else self._tokenizer.decode(ids)

    def document(self, parts: list[list[str]]) -> tuple[np.ndarray, list[str], np.ndarray]:
        """(tokens, class of each, share of bytes that each is) of a document."""
        ids, kinds, sizes = [], [], []
        for text, kind in parts:
            encoded = self.ids(text)
            ids += encoded
            kinds += [kind] * len(encoded)
            sizes += [len(text.encode()) / max(1, len(encoded))] * len(encoded)
        return np.array(ids, np.int64), kinds, np.array(sizes)


class Trainer:
    """A model that is made anew for each arm and seed."""

    def __init__(self, words: argparse.Namespace) -> None:
        self.words, self.texts = words, Texts(words.model)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model: nn.Module
        if self.device == "cpu":
            torch.set_num_threads(1)

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        """The logits behind each token, in half precision on a GPU."""
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            return self.model(ids).float()

    def teach(self, documents: list[list[list[str]]], seed: int) -> None:
        """Teach a new model an arm."""
        words, window = self.words, self.words.window
        torch.manual_seed(seed)
        self.model = Further(words.model) if words.model else Bytes(words.width, words.layers, window)
        self.model = self.model.to(self.device).train()
        order = np.random.default_rng(seed)
        ids: list[np.ndarray] = []
        borne: list[np.ndarray] = []
        read = [self.texts.document(parts) for parts in documents]
        while sum(len(document_ids) for document_ids in ids) < words.tokens + 1:
            for at in order.permutation(len(read)):
                ids.append(read[at][0])
                borne.append(np.array([kind != "" for kind in read[at][1]], np.bool_))
        tokens, bears = np.concatenate(ids)[: words.tokens + 1], np.concatenate(borne)[: words.tokens + 1]
        begins = order.permutation(np.arange(0, len(tokens) - window, window))
        steps = [begins[at : at + words.batch] for at in range(0, len(begins), words.batch)]
        optimizer = torch.optim.AdamW(self.model.parameters(), words.rate, (0.9, 0.95), weight_decay=0.1)
        for number, step in enumerate(steps):
            warm = min(1.0, (number + 1) / max(1, len(steps) // 20))
            for group in optimizer.param_groups:
                group["lr"] = words.rate * warm * 0.5 * (1 + math.cos(math.pi * number / len(steps)))
            part = torch.tensor(np.stack([tokens[at : at + window + 1] for at in step]), device=self.device)
            mask = torch.tensor(np.stack([bears[at + 1 : at + window + 1] for at in step]), device=self.device)
            costs = functional.cross_entropy(self.logits(part[:, :-1]).transpose(1, 2), part[:, 1:], reduction="none")
            optimizer.zero_grad()
            ((costs * mask).sum() / mask.sum().clamp(min=1)).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
        self.model.eval()

    @torch.no_grad()  # type: ignore[untyped-decorator, unused-ignore]
    def scored(self, held_out: list[dict[str, Any]]) -> list[list[Any]]:
        """(domain, group, class, bits, bytes) of all that is held out, each token given half a window at least."""
        window, half = self.words.window, self.words.window // 2
        sums: dict[tuple[str, str, str], np.ndarray] = defaultdict(lambda: np.zeros(2))
        for document in held_out:
            ids, kinds, sizes = self.texts.document(document["parts"])
            for begin in range(0, max(1, len(ids) - half), half):
                part = torch.tensor(ids[begin : begin + window + 1], device=self.device)[None]
                if part.shape[1] < 2:
                    continue
                costs = functional.cross_entropy(self.logits(part[:, :-1])[0], part[0, 1:], reduction="none").cpu()
                for index, cost in enumerate(costs.tolist()):
                    kind = kinds[begin + index + 1]
                    if kind and (index >= half or not begin):
                        sums[document["domain"], document["group"], kind] += (
                            cost / math.log(2),
                            sizes[begin + index + 1],
                        )
        return [[*key, *map(float, values)] for key, values in sorted(sums.items())]

    @torch.no_grad()  # type: ignore[untyped-decorator, unused-ignore]
    def said(self, questions: list[dict[str, Any]]) -> list[str]:
        """Answer each question with the likeliest token each time."""
        longest, most = self.words.longest, self.words.window - self.words.longest
        blank = self.texts.ids("\n")[-1:]
        asked = [self.texts.ids(question["before"])[-most:] for question in questions]
        ids = torch.tensor([blank * (most - len(prompt)) + prompt for prompt in asked], device=self.device)
        for _ in range(longest):
            behind = torch.cat([self.logits(some)[:, -1:].argmax(-1) for some in ids.split(self.words.batch)])
            ids = torch.cat([ids, behind], 1)
        return [self.texts.text(row).partition(END)[0] for row in ids[:, most:].tolist()]


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def main() -> None:
    """Do a job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=Path)
    parser.add_argument("--model", default="")
    for name, value in (("tokens", 16_000_000), ("seeds", 3), ("window", 1024), ("batch", 32), ("longest", 256)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--minutes", type=float, default=14)
    words = parser.parse_args()
    trainer, began, longest = Trainer(words), time.monotonic(), 0.0
    arms = {
        path.stem: [document["parts"] for document in read(path)] for path in sorted(words.job.glob("[0-9]*.jsonl"))
    }
    held_out, questions = read(words.job / "held.jsonl"), read(words.job / "questions.jsonl")
    lines: list[dict[str, Any]] = []
    for seed in range(words.seeds):
        start = time.monotonic()
        if seed and start - began + longest > 60 * words.minutes:
            break
        for arm, documents in arms.items():
            trainer.teach(documents, seed)
            lines.append(
                {"arm": arm, "seed": seed, "scored": trainer.scored(held_out), "said": trainer.said(questions)}
            )
        longest = max(longest, time.monotonic() - start)
        # whole seeds alone, so that each arm has as many
        (words.job / "found.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


if __name__ == "__main__":
    main()
