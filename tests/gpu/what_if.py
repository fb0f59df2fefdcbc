#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether programs need what `memreel tune` says: what_if.py MEMREEL OUT

Each program runs as it is, which is recorded; with a call of empty_cache() after each step; and with each of some
settings, those that tune ranks first among them. None marks its steps. Prints a line for each run, peaks of reserved
bytes in MiB, and keeps the histories in OUT. The last line has the totals. Fails if an answer is off by more than 3 %.
"""

import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys

STEPS = 24
SEEDS = (1, 2)
MIB = 1 << 20
FIRST = 4  # of tune's candidates
ALSO = ("max_split_size_mb:32", "max_split_size_mb:128", "roundup_power2_divisions:4", "roundup_power2_divisions:16", "large_segment_size_mb:64")


def perceptron(torch, rng):
    nn = torch.nn
    model = nn.Sequential(*[nn.Sequential(nn.Linear(2048, 2048), nn.GELU()) for _ in range(8)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    while True:
        batch = torch.randn(rng.choice([512, 1024, 3000, 7000]), 2048, device="cuda")
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def convolutions(torch, rng):
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
                          nn.Conv2d(64, 64, 3, padding=1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    while True:
        side = rng.choice([96, 160, 224, 288])
        model(torch.randn(16, 3, side, side, device="cuda")).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def transformer(torch, width, layers):
    return torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0, batch_first=True, norm_first=True),
                                       layers, enable_nested_tensor=False).cuda()


def training(torch, rng):
    model = transformer(torch, 512, 6)
    optimizer = torch.optim.Adam(model.parameters())
    while True:
        batch = torch.randn(8, rng.choice([128, 300, 700, 1500]), 512, device="cuda")
        model(batch).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def inference(torch, rng):
    model = transformer(torch, 1024, 6).eval()
    while True:
        with torch.no_grad():
            model(torch.randn(rng.choice([1, 4, 16]), rng.choice([100, 900, 2000]), 1024, device="cuda"))
        yield


def gan(torch, rng):
    nn, softplus = torch.nn, torch.nn.functional.softplus
    generator = nn.Sequential(nn.Linear(128, 2048), nn.ReLU(), nn.Linear(2048, 8192)).cuda()
    critic = nn.Sequential(nn.Linear(8192, 2048), nn.ReLU(), nn.Linear(2048, 1)).cuda()
    of_generator, of_critic = (torch.optim.Adam(model.parameters()) for model in (generator, critic))
    while True:
        count = rng.choice([256, 900, 4000])
        real, noise = torch.randn(count, 8192, device="cuda"), torch.randn(count, 128, device="cuda")
        of_critic.zero_grad()
        (softplus(-critic(real)).mean() + softplus(critic(generator(noise).detach())).mean()).backward()
        of_critic.step()
        of_generator.zero_grad()
        softplus(-critic(generator(noise))).mean().backward()
        of_generator.step()
        del real, noise
        yield


PROGRAMS = {program.__name__: program for program in (convolutions, gan, inference, perceptron, training)}


def record(name, seed, calls, snapshot):
    """Runs a program; prints its peak of reserved bytes."""
    import torch
    torch.cuda.memory._record_memory_history(max_entries=1_000_000, context="all", stacks="python")
    steps = PROGRAMS[name](torch, random.Random(seed))
    for _ in range(STEPS):
        next(steps)
        if calls:
            torch.cuda.empty_cache()
    torch.cuda.memory._dump_snapshot(snapshot)
    print(torch.cuda.max_memory_reserved())


def peak_of(name, seed, snapshot, calls=False, setting=""):
    command = [sys.executable, __file__, "--record", name, str(seed), str(int(calls)), snapshot]
    process = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": setting})
    return int(process.stdout.split()[-1])


def compare(memreel, out, name, seed):
    """The peak as it is; of each change, its name and the peaks that tune says and that the program has."""
    history = out / f"{name}-{seed}.pickle"
    as_it_is = peak_of(name, seed, history)
    answer = subprocess.run([memreel, "tune", history, "--what-if", "empty_cache@step", "--json"], check=True, stdout=subprocess.PIPE)
    tune = json.loads(answer.stdout)
    calls = tune["what_if"][0]["peak_reserved_bytes"]
    changes = [("empty_cache@step", calls, peak_of(name, seed, out / f"{name}-{seed}-calls.pickle", calls=True))]
    for rank, candidate in enumerate(tune["candidates"]):
        setting = candidate["setting"]
        if rank < FIRST or setting in ALSO:
            real = peak_of(name, seed, out / f"{name}-{seed}-{rank}.pickle", setting=setting)
            changes.append((setting, candidate["peak_reserved_bytes"], real))
    return as_it_is, changes


def totals(what, peaks):
    apart = [abs(said - real) / real for said, real in peaks]
    return f"{what}: {apart.count(0)} of {len(apart)} to the byte, {100 * max(apart):.1f} % at most", max(apart)


def main(memreel, out):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    runs = [(name, seed) for name in PROGRAMS for seed in SEEDS]
    with concurrent.futures.ThreadPoolExecutor(6) as workers:
        results = list(workers.map(lambda run: compare(memreel, out, *run), runs))
    calls, settings = [], []
    for (name, seed), (as_it_is, changes) in zip(runs, results):
        print(f"{name} {seed}: {as_it_is // MIB} as it is")
        for change, said, real in changes:
            print(f"  {change}: {said // MIB} said, {real // MIB} real{'' if said == real else '  <-'}")
            (calls if change == "empty_cache@step" else settings).append((said, real))
    (of_calls, worst_calls), (of_settings, worst_settings) = totals("calls", calls), totals("settings", settings)
    print(f"{of_calls}; {of_settings}")
    return 1 if max(worst_calls, worst_settings) > 0.03 else 0


if __name__ == "__main__":
    if sys.argv[1] == "--record":
        record(sys.argv[2], int(sys.argv[3]), sys.argv[4] == "1", sys.argv[5])
    else:
        sys.exit(main(*sys.argv[1:]))
