#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records programs at growing sizes for predict_errors.py: what PyTorch's allocator did, and the peaks it reports.

predict_record.py OUT [--programs gpt_seq,lstm_seq,...] [--jobs N]

Writes OUT/PROGRAM-SIZE.pickle.xz and OUT/truth.jsonl. Each run has four steps and its own process, a fork of this one.
Needs a GPU with 8 GiB for each job, PyTorch, transformers and torchvision.
"""

import argparse
import concurrent.futures
import json
import lzma
import multiprocessing
import os
import pathlib
import pickle
import sys
import time

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # must not initialize CUDA here: forks can't use it then

import torch  # noqa: E402
import torchvision  # noqa: E402
from torch import nn  # noqa: E402
from torch.profiler import record_function  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "gpu"))
from record_histories import shorten_paths  # noqa: E402

STEPS = 4
WORDS = 8192


def train(model, batch, loss_of, optimizer=torch.optim.AdamW, micro_batches=1):
    """`batch` makes the input of a micro batch; loss_of(model, input) computes its loss."""
    model = model.cuda().train()
    steps = optimizer(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        with record_function("step"):
            for _ in range(micro_batches):
                data = batch()
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = loss_of(model, data)
                loss.backward()
            steps.step()
            steps.zero_grad(set_to_none=True)


def words(rows, columns):
    return lambda: torch.randint(0, WORDS, (rows, columns), device="cuda")


def images(count, side):
    return lambda: torch.randn(count, 3, side, side, device="cuda")


def gpt(layers=6, width=384, positions=2048):
    return GPT2LMHeadModel(GPT2Config(
        n_layer=layers, n_embd=width, n_head=width // 64, vocab_size=WORDS, n_positions=positions,
                                      bos_token_id=0, eos_token_id=0))


def language_loss(model, ids):
    return model(ids, labels=ids).loss


def class_loss(model, pictures):
    labels = torch.randint(0, 1000, (len(pictures),), device="cuda")
    return nn.functional.cross_entropy(model(pictures), labels)


def square_loss(model, data):
    return model(data).float().square().mean()


class Lstm(nn.Module):
    def __init__(self, width=512, layers=2):
        super().__init__()
        self.words, self.lstm, self.out = nn.Embedding(WORDS, width), nn.LSTM(width, width, layers, batch_first=True), nn.Linear(width, WORDS)

    def forward(self, ids):
        hidden, _ = self.lstm(self.words(ids))
        return nn.functional.cross_entropy(self.out(hidden).flatten(0, 1).float(), ids.flatten())


class Unet(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256)):
        super().__init__()
        def block(before, after):
            return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(8, after), nn.SiLU(),
                                 nn.Conv2d(after, after, 3, padding=1), nn.GroupNorm(8, after), nn.SiLU())
        self.down = nn.ModuleList(block(a, b) for a, b in zip((3, *widths), widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(block(2 * a, a) for a in widths[:-1])
        self.out = nn.Conv2d(widths[0], 3, 1)

    def forward(self, x):
        kept = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for level in reversed(range(len(self.up))):
            x = self.join[level](torch.cat([self.up[level](x), kept[level]], 1))
        return self.out(x)


class Mixer(nn.Module):
    def __init__(self, side=128, patch=16, width=384, layers=6):
        super().__init__()
        tokens = (side // patch) ** 2
        def mlp(n):
            return nn.Sequential(nn.Linear(n, 4 * n), nn.GELU(), nn.Linear(4 * n, n))
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.over_tokens, self.over_channels = (nn.ModuleList(mlp(n) for _ in range(layers)) for n in (tokens, width))
        self.head = nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        for i, (tokens, channels) in enumerate(zip(self.over_tokens, self.over_channels)):
            x = x + tokens(self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(self.norms[2 * i + 1](x))
        return self.head(x.mean(1))


class Encoder(nn.Module):
    """nn.TransformerEncoderLayer, optionally with checkpointing."""
    def __init__(self, width=384, layers=6, checkpoints=False):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, width // 64, 4 * width, batch_first=True) for _ in range(layers))
        self.out, self.checkpoints = nn.Linear(width, WORDS), checkpoints

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpoints else layer(x)
        return nn.functional.cross_entropy(self.out(x).flatten(0, 1).float(), ids.flatten())


class MathAttention(nn.Module):
    """Attention without a fused kernel."""
    def __init__(self, width=256, heads=4, layers=4):
        super().__init__()
        self.heads, self.words, self.out = heads, nn.Embedding(WORDS, width), nn.Linear(width, WORDS)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.inputs, self.outputs = (nn.ModuleList(nn.Linear(width, n * width) for _ in range(layers)) for n in (3, 1))

    def forward(self, ids):
        x = self.words(ids)
        mask = torch.full((ids.shape[1], ids.shape[1]), float("-inf"), device="cuda").triu(1)
        for norm, inputs, outputs in zip(self.norms, self.inputs, self.outputs):
            q, k, v = inputs(norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            weights = nn.functional.dropout((q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + mask).softmax(-1), 0.1)
            x = x + outputs((weights @ v).transpose(1, 2).flatten(2))
        return nn.functional.cross_entropy(self.out(x).flatten(0, 1).float(), ids.flatten())


class Experts(nn.Module):
    """A router sends each word to two of eight experts."""
    def __init__(self, width=384, experts=8):
        super().__init__()
        self.words, self.router, self.out = nn.Embedding(WORDS, width), nn.Linear(width, experts), nn.Linear(width, WORDS)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(experts))

    def forward(self, ids):
        x = self.words(ids.flatten())
        weights, chosen = self.router(x).softmax(-1).topk(2)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            row, place = (chosen == number).nonzero(as_tuple=True)
            result = result.index_add(0, row, (expert(x[row]) * weights[row, place, None]).to(x.dtype))
        return nn.functional.cross_entropy(self.out(result).float(), ids.flatten())


def own_loss(model, ids):
    return model(ids)


def decode(tokens, batch=4):
    model = gpt(layers=4, width=512).cuda().eval().bfloat16()
    with torch.inference_mode():
        for _ in range(STEPS):
            with record_function("step"):
                ids, cache = words(batch, 16)(), None
                for _ in range(tokens):
                    out = model(ids, past_key_values=cache, use_cache=True)
                    cache, ids = out.past_key_values, out.logits[:, -1:].argmax(-1)


def operators(count):
    """Operators whose libraries choose the algorithm by element count, each on a line of its own."""
    table = nn.Embedding(WORDS, 64, device="cuda")
    for _ in range(STEPS):
        with record_function("step"):
            ids = torch.randint(0, WORDS, (count,), device="cuda")
            values = torch.randn(count, device="cuda", requires_grad=True)
            table(ids).sum().backward()
            table.weight[ids].sum().backward()
            table.weight.index_select(0, ids).sum().backward()
            values.sort()
            ids.sort(stable=True)
            values.detach().cumsum(0)
            values.detach().topk(16)
            values.detach().argmax()
            values.sum()
            values.logsumexp(0).backward()
            (values > 0).nonzero()
            values.detach()[values > 0]
            ids.unique()
            ids.bincount(minlength=WORDS)
            torch.randperm(count, device="cuda")
            torch.zeros(WORDS, device="cuda").index_put((ids,), values.detach(), accumulate=True)
            nn.functional.cross_entropy(table.weight[:count // 256 + 1], ids[:count // 256 + 1] % 64).backward()


def vit(side, width=384, layers=6):
    return torchvision.models.VisionTransformer(side, 16, layers, width // 64, width, 4 * width)


SEQUENCES = (128, 256, 384, 512, 768, 1024, 1536)
SIDES = (64, 96, 128, 160, 192, 224, 320)
BATCHES = (4, 8, 12, 16, 24, 32, 48)
PROGRAMS = {
    "gpt_seq": (lambda n: train(gpt(), words(4, n), language_loss), SEQUENCES),
    "gpt_layers": (lambda n: train(gpt(layers=n), words(4, 256), language_loss), (2, 3, 4, 6, 8, 12, 24)),
    "gpt_width": (lambda n: train(gpt(width=n), words(4, 256), language_loss), (128, 256, 384, 512, 768, 1024, 1536)),
    "gpt_micro_batches": (lambda n: train(gpt(), words(4, 256), language_loss, micro_batches=n), (1, 2, 3, 4, 6, 8)),
    "encoder_seq": (lambda n: train(Encoder(), words(4, n), own_loss), SEQUENCES),
    "checkpoint_layers": (lambda n: train(Encoder(layers=n, checkpoints=True), words(8, 256), own_loss), (2, 3, 4, 6, 8, 12, 24)),
    "attention_seq": (lambda n: train(MathAttention(), words(2, n), own_loss), SEQUENCES),
    "experts_batch": (lambda n: train(Experts(), words(n, 256), own_loss), BATCHES),
    "lstm_seq": (lambda n: train(Lstm(), words(8, n), own_loss), (32, 64, 96, 128, 192, 256, 512)),
    "lstm_width": (lambda n: train(Lstm(width=n), words(8, 64), own_loss), (128, 256, 384, 512, 768, 1024)),
    "mixer_batch": (lambda n: train(Mixer(), images(n, 128), class_loss), BATCHES),
    "mixer_image": (lambda n: train(Mixer(side=n), images(8, n), class_loss), SIDES),
    "vit_image": (lambda n: train(vit(n), images(8, n), class_loss), SIDES),
    "vit_batch": (lambda n: train(vit(128), images(n, 128), class_loss), BATCHES),
    "unet_image": (lambda n: train(Unet(), images(4, n), square_loss), SIDES),
    "unet_batch": (lambda n: train(Unet(), images(n, 96), square_loss), BATCHES),
    "resnet_image": (lambda n: train(torchvision.models.resnet50(), images(8, n), class_loss, torch.optim.SGD), SIDES),
    "mobilenet_batch": (lambda n: train(torchvision.models.mobilenet_v3_large(), images(n, 128), class_loss), BATCHES),
    "operators_count": (operators, (256, 512, 1024, 2048, 3072, 3080, 4096, 8192, 16384, 32768, 65536, 131072, 1048576)),
    "decode_tokens": (decode, (16, 32, 48, 64, 96, 128, 192)),
}


def record(out, program, size):
    """Runs the program in this process. Returns its line of truth.jsonl."""
    torch.manual_seed(1)
    torch.cuda.memory._record_memory_history(context="alloc", stacks="python")
    PROGRAMS[program][0](size)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    snapshot = torch.cuda.memory._snapshot()
    shorten_paths(snapshot)
    name = f"{program}-{size}"
    (out / f"{name}.pickle.xz").write_bytes(lzma.compress(pickle.dumps(snapshot, protocol=4), preset=3))
    return {"name": name, "program": program, "x": size, "limit_gib": None, "fate": "ok", "conf": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""),
            **{f"peak_{what}": stats[f"{what}_bytes.all.peak"] for what in ("allocated", "requested", "reserved")}}


def in_fork(out, program, size):
    while True:
        try:
            process = multiprocessing.get_context("fork").Pool(1)
        except RuntimeError:  # filelock, which libraries depend on, briefly refuses forks
            time.sleep(0.05)
            continue
        with process:
            return process.apply(record, (out, program, size))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--jobs", type=int, default=8)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    begin, failed = time.monotonic(), 0
    runs = [(program, size) for program in args.programs.split(",") for size in PROGRAMS[program][1]]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool, (args.out / "truth.jsonl").open("w") as truth:
        running = {pool.submit(in_fork, args.out, *run): run for run in runs}
        for done in concurrent.futures.as_completed(running):
            try:
                print(json.dumps(done.result()), file=truth, flush=True)
            except Exception as error:  # any failure: the other programs still get recorded
                failed += 1
                print(f"{'-'.join(map(str, running[done]))}: {error}", file=sys.stderr)
    print(f"{len(runs) - failed} of {len(runs)} runs recorded in {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
