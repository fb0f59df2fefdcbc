# SPDX-License-Identifier: Apache-2.0
"""Programs that leak, and programs that only appear to, for record_leaks.py.

Each is a function (torch, rng) -> Program. Its `step(i)` is called for i = 0 .. steps - 1, and it puts what it leaks
into `held`: the allocations freed when `held` is emptied are the leak. Clean programs leave it empty, whatever else
they keep.
"""

import collections
import copy
import functools
import gc


class Program:
    def __init__(self, step, held=None, steps=60, marked=True, keep=()):
        self.step, self.steps, self.marked, self.keep = step, steps, marked, keep
        self.held = [] if held is None else held


class Trainer:
    """A small model with AdamW on random batches whose lengths vary from step to step."""

    def __init__(self, torch, rng, width=None, depth=None, lengths=None):
        self.torch, self.rng = torch, rng
        self.width = width or rng.choice([128, 256, 512])
        layers = []
        for _ in range(depth or rng.choice([2, 3, 4])):
            layers += [torch.nn.Linear(self.width, self.width), torch.nn.GELU(), torch.nn.LayerNorm(self.width)]
        self.model = torch.nn.Sequential(*layers).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.lengths = lengths or [16, 24, 32, 48, 64]

    def batch(self, length=None):
        return self.torch.randn(8 * (length or self.rng.choice(self.lengths)), self.width, device="cuda")

    def loss(self, x):
        return self.model(x).square().mean()

    def update(self, loss):
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def train(self, length=None):
        x = self.batch(length)
        self.update(self.loss(x))


def losses_with_graph(torch, rng):
    t, held = Trainer(torch, rng), []

    def step(_):
        loss = t.loss(t.batch())
        held.append(loss * 1.0)
        loss.backward(retain_graph=True)
        t.optimizer.step()
        t.optimizer.zero_grad()

    return Program(step, held, steps=rng.choice([40, 60, 90]))


def running_total(torch, rng):
    """total += loss keeps every step's graph."""
    t, held = Trainer(torch, rng), [0.0]

    def step(_):
        loss = t.loss(t.batch())
        held[0] = held[0] + loss
        loss.backward(retain_graph=True)
        t.optimizer.step()
        t.optimizer.zero_grad()

    return Program(step, held)


def cache_by_step(torch, rng):
    t, held = Trainer(torch, rng), {}

    def step(i):
        t.train()
        with torch.no_grad():
            held[i] = t.model(t.batch(4))

    return Program(step, held)


def backward_hook(torch, rng):
    t, held = Trainer(torch, rng), []
    t.model[0].register_full_backward_hook(lambda module, ins, outs: held.append(outs[0]))
    return Program(lambda i: t.train(), held)


def forward_hook_inputs(torch, rng):
    t, held = Trainer(torch, rng), []
    t.model[-1].register_forward_hook(lambda module, ins, out: held.append(ins[0].detach()))
    return Program(lambda i: t.train(), held)


def closures(torch, rng):
    t, held = Trainer(torch, rng), []

    def step(i):
        t.train()
        scale = torch.rand(rng.choice([1, 7, 300]) * 100, device="cuda")
        held.append(lambda: scale.sum() * i)

    return Program(step, held)


def exceptions(torch, rng):
    """Exceptions kept with their tracebacks, and so with the tensors of their frames."""
    t, held = Trainer(torch, rng), []

    def fails(x):
        h = t.model[:3](x)
        raise ValueError(f"bad batch {tuple(h.shape)}")

    def step(i):
        t.train()
        if i % 3 == 1:
            try:
                fails(t.batch())
            except ValueError as error:
                held.append(error)

    return Program(step, held)


def slow_under_traffic(torch, rng):
    t, held = Trainer(torch, rng), []

    def step(i):
        for _ in range(4):
            t.train()
        if i % 7 == 3:
            held.append(torch.ones(120, device="cuda"))

    return Program(step, held, steps=90)


def now_and_then(torch, rng):
    t, held = Trainer(torch, rng), []

    def step(_):
        t.train()
        if rng.random() < 0.35:
            held.append(torch.empty(int(2 ** rng.uniform(9, 20)), dtype=torch.uint8, device="cuda"))

    return Program(step, held, steps=80)


def one_of_many(torch, rng):
    """One line makes a hundred temporaries per step, and one of them stays."""
    t, held = Trainer(torch, rng), []

    def scratch():
        return torch.empty(rng.choice([4096, 65536]), device="cuda")

    def step(_):
        t.train()
        kept = rng.randrange(100)
        for k in range(100):
            buffer = scratch()
            if k == kept:
                held.append(buffer)

    return Program(step, held)


def state_dicts(torch, rng):
    """Keeps every fifth step's weights forever."""
    t, held = Trainer(torch, rng), []

    def step(i):
        t.train()
        if i % 5 == 0:
            held.append(copy.deepcopy(t.model.state_dict()))

    return Program(step, held)


def hidden_state(torch, rng):
    cell = torch.nn.GRUCell(64, 128).cuda()
    held = [torch.zeros(32, 128, device="cuda")]

    def step(_):
        for _ in range(rng.choice([2, 3])):
            held[0] = cell(torch.randn(32, 64, device="cuda"), held[0])

    return Program(step, held, keep=(cell,))


def sessions(torch, rng):
    """A server without steps: requests live for a while, and one in eight is never closed."""
    weights = torch.randn(512, 512, device="cuda")
    held, open_sessions = [], []

    def step(i):
        x = torch.randn(rng.choice([1, 2, 4]) * 16, 512, device="cuda")
        for _ in range(rng.randrange(1, 4)):
            x = torch.relu(x @ weights)
        state = x.clone()
        if i % 8 == 5:
            held.append(state)
        else:
            open_sessions.append(state)
        while len(open_sessions) > rng.randrange(3, 9):
            open_sessions.pop(rng.randrange(len(open_sessions)))

    return Program(step, held, steps=400, marked=False, keep=(weights, open_sessions))


def losses_without_marks(torch, rng):
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(3)]).cuda()
    held = []

    def step(_):
        out = model(torch.randn(rng.choice([32, 64, 96]), 256, device="cuda"))
        held.append(out.pow(2).mean())
        out.sum().backward(retain_graph=True)
        model.zero_grad()

    return Program(step, held, marked=False, keep=(model,))


# --- clean ---


def whole_training(torch, rng):
    """Accumulated gradients, EMA weights, evaluation, and the best weights so far."""
    t = Trainer(torch, rng)
    ema = copy.deepcopy(t.model)
    kept = {}

    def step(i):
        for _ in range(rng.choice([2, 4])):
            t.loss(t.batch()).backward()
        t.optimizer.step()
        t.optimizer.zero_grad()
        with torch.no_grad():
            for mine, theirs in zip(ema.parameters(), t.model.parameters()):
                mine.lerp_(theirs, 0.01)
        if i % 10 == 9:
            with torch.no_grad():
                kept["outputs"] = [ema(t.batch(16)) for _ in range(5)]
                score = sum(o.square().mean().item() for o in kept["outputs"])
            if score < kept.get("score", 1e9) or rng.random() < 0.5:
                kept["score"], kept["best"] = score, {k: v.clone() for k, v in t.model.state_dict().items()}

    return Program(step, keep=(ema, kept))


def replay_ring(torch, rng):
    t, ring = Trainer(torch, rng), collections.deque(maxlen=rng.choice([16, 24, 32]))

    def step(_):
        t.train()
        for _ in range(2):
            ring.append(torch.empty(int(2 ** rng.uniform(12, 19)), dtype=torch.uint8, device="cuda"))

    return Program(step, keep=(ring,))


def replay_random(torch, rng):
    t, pool = Trainer(torch, rng), []

    def step(_):
        t.train()
        for _ in range(3):
            sample = torch.rand(2048, device="cuda")
            if len(pool) < 30:
                pool.append(sample)
            else:
                pool[rng.randrange(30)] = sample

    return Program(step, keep=(pool,))


def lru(torch, rng):
    t = Trainer(torch, rng)

    @functools.lru_cache(maxsize=12)
    def table(key):
        return torch.full((key * 64,), 1.0, device="cuda")

    def step(_):
        t.train()
        for _ in range(3):
            table(min(int(rng.paretovariate(0.7)), 500))

    return Program(step, keep=(table,))


def masks_by_length(torch, rng):
    lengths = [rng.randrange(8, 96) for _ in range(10)]
    t, masks = Trainer(torch, rng, lengths=lengths), {}

    def step(_):
        length = rng.choice(lengths)
        if length not in masks:
            masks[length] = torch.ones(length, length, device="cuda").tril()
        t.train(length)

    return Program(step, keep=(masks,))


def curriculum(torch, rng):
    t = Trainer(torch, rng)
    last = {}

    def step(i):
        x = t.batch(8 + i)
        last["loss"] = t.loss(x)
        t.update(last["loss"])
        last["x"] = x

    return Program(step, keep=(last,))


def cycles(torch, rng):
    t, period = Trainer(torch, rng), rng.choice([9, 17, 23])
    gc.disable()

    def step(i):
        t.train()
        node = {"tensor": torch.empty(50000, device="cuda")}
        node["self"] = node
        if i % period == period - 1:
            gc.collect()

    return Program(step, steps=61)


def decode(torch, rng):
    """Requests of random length; the keys and values of every token are kept until the request is done."""
    weights = torch.randn(256, 256, device="cuda")
    cache, left = [], [0]

    def step(_):
        if left[0] == 0:
            cache.clear()
            left[0] = rng.randrange(6, 30)
        left[0] -= 1
        x = torch.randn(4, 256, device="cuda")
        cache.append((x @ weights, x @ weights.t()))
        keys = torch.cat([k for k, _ in cache])
        (x @ keys.t()).softmax(-1) @ torch.cat([v for _, v in cache])

    return Program(step, steps=240, marked=rng.random() < 0.5, keep=(weights, cache))


def growing_experts(torch, rng):
    """A model that gains a layer every second step for a third of the run."""
    t, experts = Trainer(torch, rng), []

    def step(i):
        if i < 20 and i % 2 == 0:
            experts.append(torch.nn.Linear(t.width, t.width).cuda())
        x = t.batch()
        for expert in experts:
            x = expert(x).relu()
        t.update(t.loss(x))

    return Program(step, keep=(experts,))


def prefetch(torch, rng):
    """A loader that runs two batches ahead on its own stream."""
    t, side, queue = Trainer(torch, rng), torch.cuda.Stream(), collections.deque()

    def load():
        with torch.cuda.stream(side):
            x = t.batch()
        queue.append(x)

    load()
    load()

    def step(_):
        load()
        x = queue.popleft()
        torch.cuda.current_stream().wait_stream(side)
        x.record_stream(torch.cuda.current_stream())
        t.update(t.loss(x))

    return Program(step, keep=(queue,))


def checkpointed(torch, rng):
    from torch.utils.checkpoint import checkpoint
    t = Trainer(torch, rng)

    def step(_):
        x = t.batch().requires_grad_()
        t.update(checkpoint(t.model, x, use_reentrant=False).square().mean())

    return Program(step)


def epochs(torch, rng):
    """An epoch's losses are kept until its end."""
    t, losses = Trainer(torch, rng), []

    def step(i):
        x = t.batch()
        loss = t.loss(x)
        losses.append(loss.detach())
        t.update(loss)
        if i % 13 == 12:
            torch.stack(losses).mean().item()
            losses.clear()

    return Program(step, keep=(losses,))


PROGRAMS = {f.__name__: f for f in (
    losses_with_graph, running_total, cache_by_step, backward_hook, forward_hook_inputs, closures, exceptions,
    slow_under_traffic, now_and_then, one_of_many, state_dicts, hidden_state, sessions, losses_without_marks,
    whole_training, replay_ring, replay_random, lru, masks_by_length, curriculum, cycles, decode, growing_experts,
    prefetch, checkpointed, epochs)}
