# SPDX-License-Identifier: Apache-2.0
"""Modules of activations, compared with PyTorch's hooks: torch_modules.py MODEL run, torch_modules.py MODEL MEMREEL
TRACE SAID.

`run`, under `memreel record`, prints for each activation its address and the path of the module that made it: hooks on
every module report its output tensors, and the first to report a tensor made it; an input that no hook has reported
was made by the caller. The state at the mark "shown" is compared.

torch_modules.py cost: nanoseconds per allocation and free of a tensor inside modules, five deep in one of twelve
blocks, and inside functions at the same depth.

torch_modules.py changing TURNS MEMREEL_RECORD NAME=AGENT...: the cost of an event to a program whose modules change at
every second pair, from its own measurement, with each of several builds of libmemreel-agent.so. In each turn all
record, in parallel where each can have two cores. Prints the ns of all turns; exit code 1: an event costs the last
agent over 10 ns more than the first, in the minimum or the median.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

MODELS = ("gpt", "convnet", "recurrent")


def model_of(kind):
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            q, k, v = (part.unflatten(-1, (8, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
            mixed = (q @ k.transpose(-1, -2)).softmax(-1) @ v
            return self.out(mixed.transpose(1, 2).flatten(2))

    class Mlp(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

        def forward(self, x):
            return self.down(self.act(self.up(x)))

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(width), Attention(width), nn.LayerNorm(width), Mlp(width)

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class Gpt(nn.Module):
        def __init__(self, width=256, blocks=6):
            super().__init__()
            self.wte, self.h = nn.Embedding(1000, width), nn.ModuleList(Block(width) for _ in range(blocks))
            self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

        def forward(self, tokens):
            x = self.wte(tokens)
            for block in self.h:
                x = block(x)
            return self.head(self.ln_f(x))

    class Residual(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
                                      nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width))

        def forward(self, x):
            return (self.body(x) + x).relu()

    class Recurrent(nn.Module):
        def __init__(self, width=128):
            super().__init__()
            self.cells, self.head = nn.ModuleList([nn.GRUCell(width, width), nn.GRUCell(width, width)]), nn.Linear(width, 10)

        def forward(self, x):
            states = [torch.zeros(x.shape[1], x.shape[2], device=x.device) for _ in self.cells]
            for moment in x.unbind():
                for n, cell in enumerate(self.cells):
                    moment = states[n] = cell(moment, states[n])
            return self.head(moment)

    if kind == "gpt":
        return Gpt().cuda(), torch.randint(0, 1000, (8, 64), device="cuda")
    if kind == "convnet":
        return nn.Sequential(nn.Conv2d(3, 32, 3), *[Residual(32) for _ in range(4)], nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                             nn.Linear(32, 10)).cuda(), torch.randn(16, 3, 40, 40, device="cuda")
    return Recurrent().cuda(), torch.randn(12, 32, 128, device="cuda")


def run(kind):
    import memreel
    import torch
    from torch.utils import _pytree

    model, batch = model_of(kind)
    memreel.name_modules(model)
    paths = {module: path or type(model).__name__ for path, module in model.named_modules()}
    made, kept, calls = {}, [batch], []

    def show(values, path):
        for value in _pytree.tree_leaves(values):
            if isinstance(value, torch.Tensor) and value.is_cuda:
                kept.append(value)  # so that no address repeats
                made.setdefault(value.untyped_storage().data_ptr(), path)

    def before(module, arguments):
        show(arguments, calls[-1] if calls else None)
        calls.append(paths[module])

    def after(module, _, output):
        calls.pop()
        show(output, paths[module])

    for module in model.modules():
        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)
    for parameter in model.parameters():
        made[parameter.untyped_storage().data_ptr()] = None
    model(batch)  # warm: libraries allocate workspaces in their first call
    made = {address: path for address, path in made.items() if path is None}
    made[batch.untyped_storage().data_ptr()] = None
    del kept[1:]
    output = model(batch)
    torch.cuda.synchronize()
    memreel.mark("shown")
    print(json.dumps([[address, path] for address, path in made.items() if path is not None]))
    output.sum().backward()


def compare(memreel, trace, said):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
    import csv
    import subprocess

    table = subprocess.run([memreel, "export", trace, "--format", "csv"], check=True, stdout=subprocess.PIPE, text=True)
    live = {}
    for row in csv.DictReader(table.stdout.splitlines()):
        if row["kind"] == "mark" and "shown" in row.values():
            break
        if row["heap"] == "torch.cuda" and row["kind"] == "alloc":
            live[int(row["address"], 0)] = row["layer"]
    with open(said, encoding="utf-8") as file:
        expected = json.load(file)
    wrong = [(path, live.get(address)) for address, path in expected if live.get(address) != path]
    print(f"{len(expected) - len(wrong)} of {len(expected)} activations have the module that the hooks report"
          + (f"; not: {wrong[:3]}" if wrong else ""))
    return int(bool(wrong) or not expected)


def blocks_of(count):
    import torch
    from torch import nn

    class Inner(nn.Module):
        def forward(self, times):
            for _ in range(times):
                torch.empty(1024, device="cuda")

    class Outer(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, times):
            self.inner(times)

    def nested(depth):
        return Outer(nested(depth - 1)) if depth else Inner()

    return [nested(4) for _ in range(count)]


def installed(record, agent, directory):
    """A memreel-record with that agent: it uses the agent of its own installation."""
    for file, place in (record, "bin/memreel-record"), (agent, "lib/libmemreel-agent.so"):
        os.makedirs(os.path.dirname(os.path.join(directory, place)), exist_ok=True)
        shutil.copy(file, os.path.join(directory, place))
    return os.path.join(directory, "bin/memreel-record")


def cost_of_an_event(said):
    with open(said, encoding="utf-8") as file:
        report = json.load(file)
    trace, = report["traces"]
    assert trace["complete"] and not trace["lost_events"], trace
    return trace["overhead_share"] * report["duration_s"] * 1e9 / trace["events"]


def changing(turns, record, *agents):
    cores = sorted(os.sched_getaffinity(0))
    names = [agent.partition("=")[0] for agent in agents]
    share = max(1, len(cores) // len(names))
    costs = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as directory:
        places = [os.path.join(directory, name) for name in names]
        records = [installed(record, agent.partition("=")[2], place) for agent, place in zip(agents, places)]
        for turn in range(int(turns)):
            running = []
            for i, place in enumerate(places):
                own = cores[(turn + i) % len(names) * share:][:share] if share > 1 else cores
                running.append(subprocess.Popen(
                    [records[i], "-q", "--json", f"{place}/said.json", "-o", f"{place}/run.reel", "--", sys.executable,
                     os.path.abspath(__file__), "changes"], preexec_fn=lambda own=own: os.sched_setaffinity(0, own)))
                if share == 1:
                    running[-1].wait()
            if any([process.wait() for process in running]):
                sys.exit("a recording failed")
            for name, place in zip(names, places):
                costs[name].append(cost_of_an_event(f"{place}/said.json"))
    said = []
    for name in names:
        first, median, third = statistics.quantiles(costs[name], n=4)
        said.append(f"{name} {min(costs[name]):.0f} at least, quartiles {first:.0f}, {median:.0f}, {third:.0f}")
    before, now = costs[names[0]], costs[names[-1]]
    more = [min(now) - min(before), statistics.median(now) - statistics.median(before)]
    print(f"{'; '.join(said)}; {names[-1]} beside {names[0]} {more[0]:+.0f} and {more[1]:+.0f} ns")
    return int(max(more) > 10)


def changes():
    blocks = blocks_of(12)
    for _ in range(6000):
        for block in blocks:
            block(2)


def cost():
    import torch

    blocks = blocks_of(12)

    def function(depth, times):
        if depth:
            return function(depth - 1, times)
        for _ in range(times):
            torch.empty(1024, device="cuda")

    def in_modules(times):
        for block in blocks:
            block(times)

    def in_functions(times):
        for _ in blocks:
            function(14, times)  # a module's call is three frames

    def measured(work, times):
        rounds = []
        for _ in range(300):
            begin = time.perf_counter_ns()
            work(times)
            rounds.append((time.perf_counter_ns() - begin) / (len(blocks) * times))
        return statistics.median(rounds[100:])

    torch.empty(1024, device="cuda")
    print(json.dumps({f"{name}, {times} each": round(measured(work, times)) for times in (2, 20)
                      for name, work in (("modules", in_modules), ("functions", in_functions))}))


if __name__ == "__main__":
    if sys.argv[1] == "cost":
        cost()
    elif sys.argv[1] == "changes":
        changes()
    elif sys.argv[1] == "changing":
        sys.exit(changing(*sys.argv[2:]))
    elif sys.argv[2] == "run":
        run(sys.argv[1])
    else:
        sys.exit(compare(*sys.argv[2:]))
