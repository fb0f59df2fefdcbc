#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that may run out of memory, on this Python's PyTorch: read from standard input, one JSON object a line.

{"program", "seed", "conf", "memory", "fraction", "out"}: runs `program` with PYTORCH_CUDA_ALLOC_CONF=`conf` on a device of `memory` bytes,
of which the process may use the share `fraction` (null: no such limit), in a fork of this process. Answers with a JSON line: "survived",
"reserved" and "live" (the peaks); after a failure, the snapshot is in `out`. "survived" is null where PyTorch refuses the settings.

Kernels do nothing on the fake driver, so no program depends on a value that the device computes. A real one has its own size, so
"memory" means nothing there.
"""

import gzip
import json
import os
import pickle
import random
import sys
import warnings

import forked

warnings.filterwarnings("ignore")
import torch  # noqa: E402
import torch._dynamo  # noqa: E402, F401: an optimizer imports it, which takes each fork seconds
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

MIB = 1 << 20


def linear(n, m, bias=False):
    return nn.utils.skip_init(nn.Linear, n, m, bias=bias, device="cuda")


def norm(d):
    return nn.utils.skip_init(nn.LayerNorm, d, device="cuda")


def embedding(n, d):
    return nn.utils.skip_init(nn.Embedding, n, d, device="cuda")


def tokens(*shape):
    return torch.zeros(shape, dtype=torch.int64, device="cuda")


def buffer(size):
    return torch.empty(int(size), dtype=torch.uint8, device="cuda")


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, linear(d, 3 * d), linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2), -1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.a, self.b, self.attention = norm(d), norm(d), Attention(d, heads)
        self.up, self.down = linear(d, 4 * d), linear(4 * d, d)

    def forward(self, x):
        x = x + self.attention(self.a(x))
        return x + self.down(F.silu(self.up(self.b(x))))


class Transformer(nn.Module):
    def __init__(self, d=256, layers=6, heads=4, words=8000, again=False):
        super().__init__()
        self.embed, self.head, self.again = embedding(words, d), linear(d, words), again
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.again else block(x)
        return self.head(x)


class Perceptron(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.layers = nn.ModuleList(linear(n, m, True) for n, m in zip(widths, widths[1:]))

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return x


def train(model, rng, steps, shape, accumulate=1, autocast=False, evaluate=0):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], foreach=rng.random() < 0.7)
    for step in range(steps):
        for _ in range(accumulate):
            ids = tokens(*shape(rng))
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                out = model(ids)
                loss = F.cross_entropy(out.view(-1, out.shape[-1]).float(), ids.view(-1))
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if evaluate and step % evaluate == evaluate - 1:
            with torch.no_grad():
                for _ in range(2):
                    model(tokens(*shape(rng)))


def lengths(rng):
    # From 3,073 tokens on, the gradient of an embedding needs a number that the device computes.
    return rng.choice([4, 8]), 32 * rng.randint(3, 12)


def batches(rng):
    return rng.randint(2, 16), 128


def gpt_lengths(rng):
    """Training with inputs of varying length."""
    train(Transformer(layers=rng.randint(4, 8)), rng, 10, lengths)


def gpt_batches(rng):
    """Training with batches of varying size."""
    train(Transformer(d=384, layers=4), rng, 10, batches)


def gpt_fixed(rng):
    """Training in which every step is alike."""
    shape = lengths(rng)
    train(Transformer(layers=rng.randint(4, 8)), rng, 8, lambda _: shape)


def gpt_autocast(rng):
    """Training in mixed precision, with evaluations."""
    train(Transformer(layers=5), rng, 8, lengths, autocast=True, evaluate=3)


def accumulated(rng):
    """Several batches per step of the optimizer."""
    train(Transformer(d=384, layers=4), rng, 5, batches, accumulate=3)


def checkpointed(rng):
    """Activations are computed again in the backward pass."""
    train(Transformer(layers=8, again=True), rng, 8, lengths)


class Adapted(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base, self.down, self.up = base, linear(base.in_features, rank), linear(rank, base.out_features)
        base.weight.requires_grad_(False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def lora(rng):
    """Adapters beside frozen weights."""
    model = Transformer(d=512, layers=5)
    model.requires_grad_(False)
    for block in model.blocks:
        block.up, block.down, block.attention.out = Adapted(block.up, 8), Adapted(block.down, 8), Adapted(block.attention.out, 8)
    train(model, rng, 10, lengths)


def perceptron(rng):
    """Layers of unequal width, batches of varying size."""
    model = Perceptron([512, 2048, 777, 3000, 1500, 4096, 1000])
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for _ in range(14):
        model(torch.empty(rng.randint(1000, 6000), 512, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def decode(rng):
    """A cache of keys and values that grows by torch.cat, several requests."""
    model = Transformer(d=512, layers=6).eval()
    with torch.no_grad():
        for _ in range(3):
            batch, cache = rng.randint(2, 8), [None] * 12
            model(tokens(batch, rng.randint(32, 300)))
            for _ in range(rng.randint(60, 160)):
                for i in range(12):
                    new = torch.empty(batch, 8, 16, 64, device="cuda")
                    cache[i] = new if cache[i] is None else torch.cat([cache[i], new], 2)


def serve(rng):
    """Requests of varying length that come and go."""
    model = Transformer(d=512, layers=4).eval()
    running = []
    with torch.no_grad():
        for _ in range(120):
            if len(running) < 12 and rng.random() < 0.4:
                n = rng.randint(50, 900)
                running.append([[buffer(n * 6000) for _ in range(8)], rng.randint(5, 40)])
                model(tokens(1, n))
            for request in running:
                request[1] -= 1
            running = [request for request in running if request[1] > 0]
            model(tokens(max(1, len(running)), 16))


def streams(rng):
    """Batches are prepared on another stream, two ahead."""
    side, model = torch.cuda.Stream(), Perceptron([1024, 2048, 1024, 2048, 1000])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    ahead = []
    for _ in range(16):
        while len(ahead) < 3:
            with torch.cuda.stream(side):
                ahead.append(torch.empty(rng.randint(1000, 7000), 1024, device="cuda"))
        batch = ahead.pop(0)
        batch.record_stream(torch.cuda.current_stream())
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        del batch


def gathered(rng):
    """Parameters gathered layer by layer on a communication stream, as by FSDP."""
    comm, shards = torch.cuda.Stream(), [buffer(8 * MIB) for _ in range(12)]
    for _ in range(8):
        kept, rows = [], rng.randint(8, 48)
        for _ in shards:
            with torch.cuda.stream(comm):
                whole = buffer(48 * MIB + rng.randint(0, 3) * 4096)
            whole.record_stream(torch.cuda.current_stream())
            kept.append(buffer(rows * MIB // 2))
            del whole
        while kept:
            buffer(rows * MIB)
            kept.pop()
        torch.cuda.synchronize()


def graphs(rng):
    """A CUDA graph for each batch size."""
    model = Transformer(d=256, layers=3).eval()
    graphs, outputs = [], []
    with torch.no_grad():
        for batch in range(2, 14, 2):
            ids = tokens(batch, rng.randint(32, 128))
            model(ids)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                outputs.append(model(ids))
            graphs.append(graph)
        for _ in range(20):
            model(tokens(rng.randint(1, 12), rng.randint(64, 300)))


def sweep(rng):
    """Long-lived results between temporaries of growing size."""
    kept = [buffer(40 * MIB)]
    for i in range(30):
        temporary = buffer((20 + 3 * i + rng.randint(0, 2)) * MIB)
        kept.append(buffer(rng.randint(2, 5) * MIB))
        del temporary
    for _ in range(4):
        last = buffer(150 * MIB)  # noqa: F841
        del last


def alternating(rng):
    """Generation and training in turns, in one process."""
    model = Transformer(d=256, layers=5)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(5):
        with torch.no_grad():
            cache = [buffer(rng.randint(6, 14) * MIB) for _ in range(10)]
            for _ in range(6):
                model(tokens(16, rng.randint(16, 80)))
        del cache
        for _ in range(2):
            ids = tokens(*lengths(rng))
            out = model(ids)
            F.cross_entropy(out.view(-1, out.shape[-1]), ids.view(-1)).backward()
            optimizer.step()
            optimizer.zero_grad()


def images(rng):
    """Feature maps of images of varying size, with skip connections."""
    weights = [nn.Parameter(torch.empty(256, 256, device="cuda")) for _ in range(8)]
    for _ in range(12):
        side = rng.randint(20, 60)
        x, skips = torch.empty(4, side * side, 256, device="cuda", requires_grad=True), []
        for weight in weights:
            x = F.gelu(x @ weight)
            skips.append(x)
        sum((skip.sum() for skip in skips), x.sum()).backward()
        for weight in weights:
            weight.grad = None


def loading(rng):
    """Weights are loaded, then a long prompt is read."""
    weights = [torch.empty(1024, 1024 * rng.randint(1, 4), dtype=torch.bfloat16, device="cuda") for _ in range(60)]
    with torch.no_grad():
        x = torch.empty(4096 * rng.randint(1, 4), 1024, dtype=torch.bfloat16, device="cuda")
        for weight in weights:
            y = x @ weight
            x = y[:, :1024] + x


PROGRAMS = {f.__name__: f for f in (gpt_lengths, gpt_batches, gpt_fixed, gpt_autocast, accumulated, checkpointed, lora, perceptron, decode,
                                    serve, streams, gathered, graphs, sweep, alternating, images, loading)}


def run(question):
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = question["conf"]
    os.environ["FAKE_CUDA_MEMORY"] = str(question["memory"])
    os.environ["FAKE_CUDA_EVENT_DELAY"] = "0"
    try:
        torch.empty(0, device="cuda")
    except RuntimeError:
        return {"survived": None}
    if question["fraction"]:
        torch.cuda.set_per_process_memory_fraction(question["fraction"])
    torch.cuda.memory._record_memory_history(max_entries=400_000, context="alloc", stacks="python")
    survived = True
    try:
        PROGRAMS[question["program"]](random.Random(question["seed"]))
    except torch.OutOfMemoryError:
        survived = False
        if question["out"]:
            with gzip.open(question["out"], "wb", compresslevel=1) as file:
                pickle.dump(torch.cuda.memory._snapshot(), file, protocol=4)
    statistics = torch.cuda.memory_stats()
    return {"survived": survived, "reserved": statistics["reserved_bytes.all.peak"], "live": statistics["requested_bytes.all.peak"]}


def main():
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = forked.run(lambda: json.dumps(run(question)), str)
        except forked.Crashed as crash:
            answer = json.dumps({"survived": None, "crashed": str(crash)})
        print(answer or json.dumps({"survived": None, "crashed": "error"}), flush=True)


if __name__ == "__main__":
    main()
