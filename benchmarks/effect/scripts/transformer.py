"""Teaches small transformers and scores what they were not taught; stands alone, in an environment that has PyTorch.

    python transformer.py JOBS

JOBS is a folder of `<name>.npz` with, for each arm, tokens and which of them bear the loss, and for each set that is
scored its tokens, where their documents begin, and which of them are scored. Beside each comes `<name>.bits.npz`.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

WIDTH, LAYERS, HEADS, WINDOW, BATCH = 64, 1, 4, 512, 1
RATE = 2e-3
SHARP, GATE, FAR = 8.0, -1.0, -30.0
"""What copying begins with: how much likeness counts, how far it is trusted (a logit), and a likeness that is none."""


class Block(nn.Module):
    """Attention to what stood before, and a layer of its own for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.asked, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same tokens, one layer further."""
        rows, length, _ = x.shape
        parts = self.asked(self.first(x)).view(rows, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.wide(self.second(x))


class Copying(nn.Module):
    """Pointer into the window: what followed similar contexts before, and how far it is trusted.

    A context is the last two tokens. After the pointer sentinel mixtures of Merity et al. 2016, which ask the state.
    """

    def __init__(self) -> None:
        super().__init__()
        self.context, self.trust = nn.Linear(2 * WIDTH, WIDTH, bias=False), nn.Linear(WIDTH + 1, 1)
        self.sharp = nn.Parameter(torch.tensor(SHARP))
        nn.init.zeros_(self.trust.weight)
        nn.init.constant_(self.trust.bias, GATE)

    def forward(
        self, ids: torch.Tensor, words: torch.Tensor, state: torch.Tensor, asked: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Of each position that is asked for the chance (log) that the pointer gives `told`, and the trust (logit)."""
        shown = functional.normalize(words, dim=-1)
        before = functional.pad(shown, (0, 0, 1, 0))[:, :-1]
        contexts = functional.normalize(self.context(torch.cat([shown, before], -1)), dim=-1)
        likeness = self.sharp * (contexts @ contexts.transpose(1, 2))
        earlier = torch.ones(likeness.shape[1:], dtype=torch.bool, device=ids.device).tril(-1)
        likeness = likeness.masked_fill(~earlier, FAR)[asked]
        behind = functional.pad(ids[:, 1:], (0, 1), value=-1)[:, None].expand(-1, ids.shape[1], -1)[asked]
        every = torch.logsumexp(likeness, -1)
        right = torch.logsumexp(likeness.masked_fill(behind != targets[:, None], FAR), -1)
        trust = self.trust(torch.cat([state, every[:, None] / SHARP], -1))
        return right - every, trust[:, 0]


class Model(nn.Module):
    """A decoder whose embedding is its output too, mixed with what copying tells."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, WIDTH), nn.Embedding(WINDOW, WIDTH)
        self.blocks, self.last = nn.Sequential(*(Block() for _ in range(LAYERS))), nn.LayerNorm(WIDTH)
        self.often = nn.Parameter(torch.zeros(vocabulary))
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        self.copying = Copying()

    def forward(self, ids: torch.Tensor, asked: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The chance (log) of `told`, the token behind each that is asked for; the rest cost no look at all words."""
        words = self.tokens(ids)
        x = self.blocks(words + self.places(torch.arange(ids.shape[1], device=ids.device)))
        state = self.last(x[asked])
        plain = functional.log_softmax(state @ self.tokens.weight.T + self.often, -1).gather(1, targets[:, None])[:, 0]
        copied, trust = self.copying(ids, words, state, asked, targets)
        return torch.logaddexp(functional.logsigmoid(-trust) + plain, functional.logsigmoid(trust) + copied)


def taught(tokens: np.ndarray, borne: np.ndarray, vocabulary: int, seed: int, device: str) -> Model:
    """A model that has read the tokens once, and learnt what bears the loss."""
    torch.manual_seed(seed)
    model = Model(vocabulary)
    counts = torch.bincount(torch.from_numpy(tokens[borne]), minlength=vocabulary)
    model.often.data = torch.log((counts + 0.1) / (counts + 0.1).sum())
    model = model.to(device)
    windows = [(at, min(at + WINDOW + 1, len(tokens))) for at in range(0, max(len(tokens) - 1, 1), WINDOW)]
    windows = [
        window for window in windows if window[1] - window[0] == WINDOW + 1 and borne[window[0] + 1 : window[1]].any()
    ]
    order = np.random.default_rng(seed).permutation(len(windows))
    steps = [order[at : at + BATCH] for at in range(0, len(order), BATCH)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.1)
    warm = max(1, len(steps) // 10)
    for number, step in enumerate(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (number + 1) / warm) * (1 - number / len(steps))
        ids = torch.tensor(np.stack([tokens[slice(*windows[at])] for at in step]), device=device)
        bears = torch.tensor(np.stack([borne[slice(*windows[at])] for at in step])[:, 1:], device=device)
        loss = -model(ids[:, :-1], bears, ids[:, 1:][bears]).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


@torch.no_grad()
def bits(model: Model, tokens: np.ndarray, first: np.ndarray, scored: np.ndarray, device: str) -> np.ndarray:
    """The bits of each scored token, given at least half a window of its document, or all of it before."""
    half, costs = WINDOW // 2, np.zeros(len(tokens))
    begins = np.unique(first)
    ends = np.append(begins[1:], len(tokens))
    parts = []
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        places = range(begin, max(end - half, begin + 1), half)
        parts += [(at, min(at + WINDOW, end), at + half if at > begin else begin) for at in places]
    for begin in range(0, len(parts), 16):
        some = parts[begin : begin + 16]
        longest = max(high - low for low, high, _ in some)
        ids = torch.zeros((len(some), longest), dtype=torch.int64)
        wanted = torch.zeros((len(some), longest - 1), dtype=torch.bool)
        at = []
        for row, (low, high, fresh) in enumerate(some):
            ids[row, : high - low] = torch.from_numpy(tokens[low:high])
            places = np.flatnonzero(scored[max(fresh, low + 1) : high]) + max(fresh, low + 1)
            wanted[row, places - low - 1] = True
            at.append(places)
        ids, wanted = ids.to(device), wanted.to(device)
        chances = model(ids[:, :-1], wanted, ids[:, 1:][wanted])
        costs[np.concatenate(at)] = -chances.cpu().numpy() / np.log(2)
    return costs[scored]


def main() -> None:
    """Does every job of the folder."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    torch.set_num_threads(1)  # sums in one order, so the same seeds give the same numbers; processes share the cores
    for path in sorted(Path(sys.argv[1]).glob("*.job.npz")):
        job = np.load(path)
        costs = {}
        for arm in range(int(job["arms"])):
            tokens, borne = job[f"tokens{arm}"], job[f"borne{arm}"]
            model = taught(tokens, borne, int(job["vocabulary"]), int(job["seed"]), device)
            for number in range(int(job["sets"])):
                asked = (job[f"{name}{number}"] for name in ("asked", "first", "scored"))
                costs[f"{arm}-{number}"] = bits(model, *asked, device)
        np.savez(path.with_name(path.name.replace(".job.", ".bits.")), **costs)


if __name__ == "__main__":
    main()
