"""LoRA against fine-tuning of all weights: peak memory and rows/s, with random weights of the true size.

python benchmarks/lora.py
python benchmarks/lora.py --rows 8 --length 384   # as the policy ultra
python benchmarks/lora.py --backbone distilroberta --rank 16 --rows 16 --length 128 --steps 4

Activations are recomputed in the backward pass, as in the policy `ultra`. Without this (`--no-gradient-checkpointing`)
they need more memory than all else, and LoRA needs nearly as many of them.

Each of the two trains in a process of its own, first one and then the other, `--repeats` times. The peak is that of the
whole process (`ru_maxrss`), or on a GPU that of torch's allocator. The libraries, measured before the model is built,
are shown separately.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import torch

from pricekit.config import HeadConfig, TrainingConfig
from pricekit.core.loader import registry
from pricekit.nets.losses import smape
from pricekit.nets.network import PriceModel
from pricekit.testing.data import FEATURES, ordinary_texts
from pricekit.training.optimizers import adamw

MIB = 2**20


def peak() -> float:
    """Return the largest memory so far, in MiB."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / MIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def model_of(backbone: str, rank: int) -> PriceModel:
    """Return a model with random weights."""
    plugin = registry().create("backbone", backbone, {"random_weights": True, "lora": rank})
    tokenizer = plugin.tokenizer(ordinary_texts())
    encoder = plugin.encoder(plugin.architecture(tokenizer), tokenizer, None)
    return PriceModel(encoder, HeadConfig(), smape(), FEATURES)


def train(given: argparse.Namespace, rank: int) -> dict[str, Any]:
    """Train for a few steps; return memory in MiB, rows/s and the number of parameters that learn."""
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    libraries = peak()
    model = model_of(given.backbone, rank).to(device).train()
    if given.gradient_checkpointing:
        model.encoder.gradient_checkpointing_enable()
    optimizer = adamw(model, TrainingConfig(learning_rate=1e-4))
    ids = torch.randint(5, 500, (given.rows, given.length), device=device)
    features, price = torch.randn(given.rows, FEATURES, device=device), torch.ones(given.rows, device=device)
    seconds = []
    for _ in range(given.steps):
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        model.training_loss(ids, torch.ones_like(ids), features, price).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    learned = sum(p.numel() for p in model.parameters() if p.requires_grad)
    rate = given.rows / statistics.median(seconds[1:])  # the first step allocates
    return {"libraries": libraries, "peak": peak(), "rows_per_second": rate, "parameters": learned}


def measured(rank: int) -> dict[str, Any]:
    """Train in a new process with the arguments of this one."""
    command = [sys.executable, __file__, *sys.argv[1:], "--only", str(rank)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return result


def show(kinds: dict[str, list[dict[str, Any]]]) -> None:
    """Print the medians, and LoRA as a share of fine-tuning."""
    medians = {
        kind: {key: statistics.median(one[key] for one in runs) for key in runs[0]}
        for kind, runs in kinds.items()
    }
    print("| | parameters that learn | peak MiB | of which libraries | rows/s |\n|---|---|---|---|---|")
    for kind, found in medians.items():
        print(
            f"| {kind} | {found['parameters']:,.0f} | {found['peak']:,.0f} | {found['libraries']:,.0f} | "
            f"{found['rows_per_second']:.2f} |"
        )
    full, small = medians.values()
    own = (small["peak"] - small["libraries"]) / (full["peak"] - full["libraries"])
    print(
        f"LoRA / all weights: memory {small['peak'] / full['peak']:.2f}, without libraries {own:.2f}, "
        f"rows/s {small['rows_per_second'] / full['rows_per_second']:.2f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--backbone", default="deberta-v3-base")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--rows", type=int, default=8, help="rows of a step")
    parser.add_argument("--length", type=int, default=128, help="tokens of a row")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--gradient-checkpointing", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only is not None:
        print(json.dumps(train(given, given.only)))
        return
    kinds: dict[str, list[dict[str, Any]]] = {"all weights": [], f"LoRA, rank {given.rank}": []}
    for _ in range(given.repeats):
        for kind, rank in zip(kinds, (0, given.rank), strict=True):
            kinds[kind].append(measured(rank))
    show(kinds)


if __name__ == "__main__":
    main()
