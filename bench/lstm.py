"""How should a cohort of LSTMs train? One local SGD step of 8 clients on the Shakespeare model, several ways.

Each contender lives in a process of its own (allocator settings are per process), with one torch thread; the
contenders take turns and the best of several turns counts. ``ratio`` is the CPU time of the plain loop over
``nn.LSTM`` divided by the contender's: above 1 is faster than bare PyTorch.

    python bench/lstm.py --json
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import time
from multiprocessing.connection import Connection

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedloom.models import build

CLIENTS, STEPS, VOCABULARY, RATE = 8, 80, 80, 0.1
Stacks = dict[str, Tensor]


def cohort_logits(p: Stacks, tokens: Tensor) -> Tensor:
    """The Shakespeare model of B clients in one pass (under vmap the model takes its stacked form)."""
    model = build("char-lstm", (STEPS,), VOCABULARY, seed=0)
    return torch.func.vmap(lambda q, x: torch.func.functional_call(model, q, (x,)))(p, tokens)


def cohort_step(p: Stacks, x: Tensor, y: Tensor) -> None:
    """One SGD step of all clients at once."""
    loss = F.cross_entropy(cohort_logits(p, x).flatten(0, 1), y.flatten(), reduction="sum") / y.shape[1]
    with torch.no_grad():
        for tensor, gradient in zip(p.values(), torch.autograd.grad(loss, list(p.values())), strict=True):
            tensor.sub_(gradient, alpha=RATE)


def loop_step(models: list[nn.Module], x: Tensor, y: Tensor) -> None:
    """One SGD step of each client in turn."""
    for model, inputs, targets in zip(models, x, y, strict=True):
        tensors = list(model.parameters())
        gradients = torch.autograd.grad(F.cross_entropy(model(inputs), targets), tensors)
        with torch.no_grad():
            for tensor, gradient in zip(tensors, gradients, strict=True):
                tensor.sub_(gradient, alpha=RATE)


class TimeMajor(nn.Module):
    """The Shakespeare model with time as the first axis and the final state in place of the last step."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.embedding, self.lstm, self.head = model.embedding, model.lstm, model.head
        self.lstm.batch_first = False

    def forward(self, tokens: Tensor) -> Tensor:
        """N × steps tokens to N × classes."""
        return self.head(self.lstm(self.embedding(tokens.t()))[1][0][-1])


def keep_freed_memory() -> None:
    """Tell glibc to reuse freed memory instead of returning it to the system and faulting it in again."""
    libc = ctypes.CDLL(None)
    for option in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
        libc.mallopt(option, 1 << 30)


CONTENDERS = ("loop", "loop kept", "loop kept time-major", "loop kept no-onednn", "stacked", "stacked kept")


def serve(contender: str, batch: int, pipe: Connection) -> None:
    """A contender's process: one timed step for each request, (CPU seconds, wall seconds) as the answer."""
    torch.set_num_threads(1)
    if "kept" in contender:
        keep_freed_memory()
    if "no-onednn" in contender:
        torch.backends.mkldnn.set_flags(False)
    source = torch.Generator().manual_seed(0)
    x = torch.randint(VOCABULARY, (CLIENTS, batch, STEPS), generator=source)
    y = torch.randint(VOCABULARY, (CLIENTS, batch), generator=source)
    models = [build("char-lstm", (STEPS,), VOCABULARY, seed) for seed in range(CLIENTS)]
    if "time-major" in contender:
        models = [TimeMajor(model) for model in models]
    p = {
        n: torch.stack([dict(m.named_parameters())[n].detach() for m in models])
        for n, _ in models[0].named_parameters()
    }
    while pipe.recv():
        for tensor in p.values():
            tensor.requires_grad_()
        cpu, wall = time.process_time(), time.perf_counter()
        if contender.startswith("loop"):
            loop_step(models, x, y)
        else:
            cohort_step(p, x, y)
        pipe.send((time.process_time() - cpu, time.perf_counter() - wall))


def measure(batch: int, turns: int) -> dict[str, tuple[float, float]]:
    """The best of several turns of each contender, taken in alternation; the first turn warms up."""
    context = multiprocessing.get_context("spawn")
    pipes, workers = {}, []
    for contender in CONTENDERS:
        pipes[contender], theirs = context.Pipe()
        workers.append(context.Process(target=serve, args=(contender, batch, theirs), daemon=True))
        workers[-1].start()
        theirs.close()
    seen: dict[str, list[tuple[float, float]]] = {contender: [] for contender in CONTENDERS}
    for _ in range(turns + 1):
        for contender, pipe in pipes.items():
            pipe.send(True)
            seen[contender].append(pipe.recv())
    for pipe, worker in zip(pipes.values(), workers, strict=True):
        pipe.send(False)
        worker.join()
    return {contender: min(times[1:]) for contender, times in seen.items()}


def main() -> None:
    """Print one line per case and contender."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--turns", type=int, default=6, help="how often each contender is timed")
    options = parser.parse_args()
    for batch in (32, 100):
        best = measure(batch, options.turns)
        for contender, (cpu, wall) in best.items():
            line = {
                "case": f"char-lstm step, {CLIENTS} clients, batch {batch}",
                "contender": contender,
                "cpu_seconds": round(cpu, 4),
                "wall_seconds": round(wall, 4),
                "ratio": round(best["loop"][0] / cpu, 3),
            }
            print(json.dumps(line) if options.json else "  ".join(map(str, line.values())), flush=True)


if __name__ == "__main__":
    main()
