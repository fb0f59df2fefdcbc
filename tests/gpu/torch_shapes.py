# SPDX-License-Identifier: Apache-2.0
"""Uses PyTorch in many ways while PyTorch records its own history: torch_shapes.py DIRECTORY.

Run under `memreel record`; compare_torch.py then compares the trace with the history, event by event. Writes
snapshot.pickle.gz (torch.cuda.memory._snapshot()) and stats.json into DIRECTORY.
"""
import gc
import gzip
import json
import pickle
import random
import sys
import threading

import torch

torch.cuda.memory._record_memory_history(context="all", stacks="python", max_entries=10_000_000)
DEVICE = "cuda"


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.attention = torch.nn.MultiheadAttention(width, 8, batch_first=True)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
                                       torch.nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(x)


def train(steps):
    model = torch.nn.Sequential(*[Block(256) for _ in range(4)]).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        x = torch.randn(random.choice([2, 4, 8]), random.choice([64, 100, 128]), 256, device=DEVICE)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=bool(step % 2))


@torch.no_grad()
def infer(requests):
    model = torch.nn.Sequential(*[Block(128) for _ in range(2)]).to(DEVICE).eval()
    caches = []
    for request in range(requests):
        out = model(torch.randn(1, 1 + request % 50, 128, device=DEVICE))
        caches.append(out)
        if len(caches) > 10:
            del caches[random.randrange(len(caches))]


def streams(rounds):
    side = torch.cuda.Stream()
    for n in range(rounds):
        with torch.cuda.stream(side):
            a = torch.empty(1000 * (n + 1), device=DEVICE)
        b = torch.empty(500 * (n + 1), device=DEVICE)
        a.record_stream(torch.cuda.current_stream())
        b.add_(1)
        del a, b
    torch.cuda.synchronize()


def threads(count, rounds):
    def work(seed):
        sizes = random.Random(seed)
        kept = []
        for _ in range(rounds):
            kept.append(torch.empty(sizes.randrange(1, 1 << 20), dtype=torch.uint8, device=DEVICE))
            if len(kept) > 20:
                kept.pop(sizes.randrange(len(kept)))
    workers = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def python_shapes():
    def dive(depth):
        return torch.empty(depth + 1, device=DEVICE) if depth == 0 else (dive(depth - 1), torch.empty(64, device=DEVICE))

    def generate(n):
        for i in range(n):
            yield torch.empty(i + 1, device=DEVICE)

    class Holder:
        def __init__(self):
            self.tensor = torch.empty(3000, device=DEVICE)
            self.cycle = self

        def __del__(self):
            torch.empty(7, device=DEVICE)

    for depth in 1, 20, 60, 300:
        dive(depth)
    list(generate(5))
    [torch.empty(n + 1, device=DEVICE) for n in range(5)]
    sorted([3, 1, 2], key=lambda n: torch.empty(n, device=DEVICE).numel())
    for n in range(20):
        exec(compile("\n" * (n % 5) + "keep = torch.empty(n + 1, device=DEVICE)", f"<cell {n % 3}>", "exec"),
             {"torch": torch, "DEVICE": DEVICE, "n": n})
        Holder()
    gc.collect()


def fail():
    for size in 1 << 46, 1 << 45:
        try:
            torch.empty(size, dtype=torch.uint8, device=DEVICE)
        except torch.OutOfMemoryError:
            pass


def main(directory):
    random.seed(1)
    torch.manual_seed(1)
    train(15)
    python_shapes()
    infer(100)
    streams(100)
    threads(4, 500)
    fail()
    torch.cuda.empty_cache()
    train(5)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    with open(f"{directory}/stats.json", "w") as file:
        json.dump({"torch": torch.__version__, "python": sys.version, "gpu": torch.cuda.get_device_name(), **stats}, file)
    with gzip.open(f"{directory}/snapshot.pickle.gz", "wb", compresslevel=3) as file:
        pickle.dump(snapshot, file)


main(sys.argv[1])
