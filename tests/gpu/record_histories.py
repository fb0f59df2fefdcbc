#!/usr/bin/env python3
"""Records ground truth: runs small PyTorch programs and dumps what the real allocator did.

    record_histories.py OUT_DIR [--programs gpt,decode,...] [--seeds 1,2] [--conf "max_split_size_mb:128"]

Every program runs in a process of its own, with history recorded from its first allocation on, and leaves
OUT_DIR/PROGRAM_sSEED[_NAME].pickle.xz and a line of OUT_DIR/truth.jsonl. Needs a GPU and PyTorch; `gpt` and `decode` need
transformers.
"""

import argparse
import json
import lzma
import os
import pathlib
import pickle
import random
import subprocess
import sys
import threading


def gpt_model(torch, layers):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(n_layer=layers, n_embd=512, n_head=8, vocab_size=20000)
    return GPT2LMHeadModel(config).cuda()


def gpt(torch, rng):
    """Training with random batch size and length, bf16 autocast, AdamW."""
    model = gpt_model(torch, 6)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(12):
        batch, length = rng.randint(1, 12), rng.randint(64, 900)
        tokens = torch.randint(0, 20000, (batch, length), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def decode(torch, rng):
    """Autoregressive decoding with a growing KV cache."""
    model = gpt_model(torch, 8).eval()
    with torch.no_grad():
        for _ in range(3):
            tokens = torch.randint(0, 20000, (rng.randint(1, 6), rng.randint(10, 80)), device="cuda")
            cache = None
            for _ in range(rng.randint(40, 90)):
                out = model(tokens, past_key_values=cache, use_cache=True)
                cache = out.past_key_values
                tokens = out.logits[:, -1:].argmax(-1)


def streams(torch, rng):
    """Four streams, record_stream, tensors freed on another stream than they were made on."""
    streams = [torch.cuda.Stream() for _ in range(4)]
    held = []
    for _ in range(1500):
        stream = rng.choice(streams)
        with torch.cuda.stream(stream):
            tensor = torch.empty(int(2 ** rng.uniform(6, 25)), dtype=torch.uint8, device="cuda")
            tensor.zero_()
        if rng.random() < 0.5:
            other = rng.choice(streams)
            with torch.cuda.stream(other):
                tensor.add_(1)
            tensor.record_stream(other)
        held.append(tensor)
        while len(held) > 40:
            held.pop(rng.randrange(len(held)))


def oom(torch, rng):
    """A small memory fraction and dozens of caught out-of-memory errors."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((2 << 30) / total)
    held = []
    for _ in range(400):
        size = int(2 ** rng.uniform(16, 29))
        try:
            held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.cuda.OutOfMemoryError:
            for _ in range(rng.randint(1, 6)):
                if held:
                    held.pop(rng.randrange(len(held)))
        if held and rng.random() < 0.3:
            held.pop(rng.randrange(len(held)))


def threads(torch, rng):
    """Four threads, each on its own stream."""

    def work(seed):
        own = random.Random(seed)
        held = []
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(700):
                held.append(torch.empty(int(2 ** own.uniform(4, 23)), dtype=torch.uint8, device="cuda"))
                if len(held) > 25:
                    held.pop(own.randrange(len(held)))

    workers = [threading.Thread(target=work, args=(rng.random(),)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def leak(torch, rng):
    """A loop that keeps its losses with their graphs."""
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
    losses = []
    for _ in range(40):
        with torch.profiler.record_function("step"):
            losses.append(model(torch.randn(rng.randint(1, 256), 512, device="cuda")).square().mean())
            losses[-1].backward(retain_graph=True)


def churn(torch, rng):
    """Random sizes from 8 B to 16 MiB, about 2,000 live, with empty_cache now and then."""
    held = []
    for step in range(60000):
        held.append(torch.empty(int(2 ** rng.uniform(3, 24)), dtype=torch.uint8, device="cuda"))
        if len(held) > 2000:
            held.pop(rng.randrange(len(held)))
        if step % 20000 == 19999:
            torch.cuda.empty_cache()


PROGRAMS = {f.__name__: f for f in (gpt, decode, streams, oom, threads, leak, churn)}


def record(program, seed, late, path):
    import torch

    rng = random.Random(seed)
    if late:
        held = [torch.empty(int(2 ** rng.uniform(8, 24)), dtype=torch.uint8, device="cuda") for _ in range(200)]
        del held[::3]
    torch.cuda.memory._record_memory_history(stacks="python")
    PROGRAMS[program](torch, rng)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    snapshot = torch.cuda.memory._snapshot()
    for trace in snapshot["device_traces"]:
        for event in trace:
            for frame in event.get("frames", []):
                for marker in ("site-packages/", "dist-packages/", "lib/python3"):
                    if marker in frame["filename"]:
                        frame["filename"] = frame["filename"][frame["filename"].index(marker):]
                frame["filename"] = frame["filename"].replace(os.path.dirname(os.path.abspath(__file__)) + "/", "")
    with lzma.open(path, "wb", preset=6) as out:
        pickle.dump(snapshot, out, protocol=4)
    print(json.dumps({"file": path.name, "events": sum(len(t) for t in snapshot["device_traces"]), "stats": stats}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--conf", default="", help="PYTORCH_CUDA_ALLOC_CONF")
    parser.add_argument("--name", default="", help="added to the file names, to tell settings apart")
    parser.add_argument("--late", action="store_true", help="begin recording when memory is already held")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    jobs = [(p, int(s)) for p in args.programs.split(",") for s in args.seeds.split(",")]
    if args.one:
        (program, seed), = jobs
        record(program, seed, args.late, args.out / f"{program}_s{seed}{args.name}.pickle.xz")
        return
    for program, seed in jobs:
        command = [sys.executable, __file__, str(args.out), "--one", "--programs", program, "--seeds", str(seed),
                   "--name", args.name] + (["--late"] if args.late else [])
        done = subprocess.run(command, env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": args.conf}, stdout=subprocess.PIPE,
                              text=True, check=False)
        print(program, seed, "ok" if done.returncode == 0 else f"failed ({done.returncode})", file=sys.stderr)
        with open(args.out / "truth.jsonl", "a", encoding="utf-8") as truth:
            truth.write(done.stdout)


if __name__ == "__main__":
    main()
