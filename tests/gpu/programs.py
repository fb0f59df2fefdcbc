# SPDX-License-Identifier: Apache-2.0
"""Programs whose GPU memory use is recorded as ground truth. Each takes torch and a random number generator."""

import gc
import random
import threading

MIB = 1 << 20


def limit(torch, size):
    """Limits the process to about `size` bytes with torch.cuda.set_per_process_memory_fraction."""
    torch.cuda.set_per_process_memory_fraction(size / torch.cuda.get_device_properties(0).total_memory)


def buffer(torch, size):
    return torch.empty(int(size), dtype=torch.uint8, device="cuda")


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
    """Four streams, record_stream, and tensors freed on a stream other than their own."""
    streams = [torch.cuda.Stream() for _ in range(4)]
    held = []
    for _ in range(1500):
        stream = rng.choice(streams)
        with torch.cuda.stream(stream):
            tensor = buffer(torch, 2 ** rng.uniform(6, 25))
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
    limit(torch, 2 << 30)
    held = []
    for _ in range(400):
        size = int(2 ** rng.uniform(16, 29))
        try:
            held.append(buffer(torch, size))
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
                held.append(buffer(torch, 2 ** own.uniform(4, 23)))
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
    """Random sizes from 8 B to 16 MiB, about 2,000 live, with occasional empty_cache."""
    held = []
    for step in range(60000):
        held.append(buffer(torch, 2 ** rng.uniform(3, 24)))
        if len(held) > 2000:
            held.pop(rng.randrange(len(held)))
        if step % 20000 == 19999:
            torch.cuda.empty_cache()


def pressure(torch, rng):
    """Live memory that varies below a limit of 1.5 GiB: garbage collection runs, and requests rarely fail."""
    limit(torch, 3 << 29)
    held, live = [], 0
    for step in range(1500):
        size = int(2 ** rng.uniform(12, 27))
        while held and live + size > (700 + 300 * (step // 250 % 2)) * MIB:
            live -= held.pop(rng.randrange(len(held))).numel()
        try:
            held.append(buffer(torch, size))
            live += size
        except torch.cuda.OutOfMemoryError:
            while len(held) > 5:
                live -= held.pop(rng.randrange(len(held))).numel()


def settings(torch, rng):
    """Settings that change while the program runs."""
    held = []
    for conf in ("max_split_size_mb:32", "roundup_power2_divisions:[16:4,32:2,>:8]", "expandable_segments:True",
                 "expandable_segments:True,roundup_power2_divisions:4", "expandable_segments:False"):
        for _ in range(150):
            held.append(buffer(torch, 2 ** rng.uniform(8, 27)))
            if len(held) > 20:
                held.pop(rng.randrange(len(held)))
        torch.cuda.memory._set_allocator_settings(conf)
    for _ in range(150):
        held.append(buffer(torch, 2 ** rng.uniform(8, 27)))
        held.pop(rng.randrange(len(held)))
    torch.cuda.empty_cache()


def random_work(torch, rng, steps=60, most=12, low=8, high=25):
    """Leaves its last tensors to the caller."""
    held = []
    for _ in range(steps):
        held.append(buffer(torch, 2 ** rng.uniform(low, high)))
        if len(held) > most:
            held.pop(rng.randrange(len(held)))
    return held


def captures(torch, rng):
    """Several graphs, work outside between them; graphs destroyed in a different order, some before empty_cache."""
    side = torch.cuda.Stream()
    outside, graphs, results = [], [], []
    with torch.cuda.stream(side):
        outside += random_work(torch, rng)
    for i in range(5):
        graph = torch.cuda.CUDAGraph()
        pool = graphs[0].pool() if i == 3 and graphs else None
        with torch.cuda.graph(graph, pool=pool, stream=side):
            held = random_work(torch, rng, steps=40)
            results.append([t.add_(1) for t in rng.sample(held, 3)])
            del held
        graphs.append(graph)
        outside += random_work(torch, rng, steps=20, most=5)
        with torch.cuda.stream(side):
            outside += random_work(torch, rng, steps=30, most=5)
        if i == 2:
            del graphs[rng.randrange(1, 3)], results[rng.randrange(3)]
            if rng.random() < 0.5:
                torch.cuda.empty_cache()
    torch.cuda.synchronize()
    while graphs:
        del graphs[rng.randrange(len(graphs))]
        graph = None
        del results[rng.randrange(len(results))]
        if rng.random() < 0.6:
            torch.cuda.empty_cache()
        with torch.cuda.stream(side):
            outside += random_work(torch, rng, steps=30, most=5)
        del outside[: len(outside) // 2]
    results.clear()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    with torch.cuda.stream(side):
        outside += random_work(torch, rng, steps=60)


def capture_streams(torch, rng):
    """A graph captured on one stream while others work, with tensors used and freed across streams inside it."""
    main, other = torch.cuda.Stream(), torch.cuda.Stream()
    outside = random_work(torch, rng)
    graph = torch.cuda.CUDAGraph()
    before = [buffer(torch, 2 ** rng.uniform(18, 24)) for _ in range(6)]
    with torch.cuda.stream(other):
        for tensor in before:
            tensor.add_(1)
            tensor.record_stream(other)
    with torch.cuda.graph(graph, stream=main):
        kept = []
        for _ in range(25):
            tensor = buffer(torch, 2 ** rng.uniform(10, 24)).zero_()
            other.wait_stream(main)
            with torch.cuda.stream(other):
                tensor.add_(1)
                temporary = buffer(torch, 2 ** rng.uniform(10, 24)).zero_()
                temporary.record_stream(main)
            tensor.record_stream(other)
            main.wait_stream(other)
            if rng.random() < 0.3:
                kept.append(tensor)
            if before:
                before.pop()
            del tensor, temporary
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    outside += random_work(torch, rng)
    if rng.random() < 0.7:
        del graph, kept  # without graph.reset(): PyTorch 2.1 then aborts, as the destructor gives the pool up once more
        torch.cuda.empty_cache()
    outside += random_work(torch, rng)


def emptied_captures(torch, rng):
    """Captures during which the cache is emptied while others work, with tensors that other streams still use."""
    main, other = torch.cuda.Stream(), torch.cuda.Stream()
    outside, graphs = random_work(torch, rng), []
    for _ in range(4):
        graph, held = torch.cuda.CUDAGraph(), []
        with torch.cuda.graph(graph, stream=main, capture_error_mode="relaxed"):
            for step in range(30):
                held.append(buffer(torch, 2 ** rng.uniform(8, 25)))
                if rng.random() < 0.2:
                    held[-1].record_stream(other)
                if len(held) > 5:
                    held.pop(rng.randrange(len(held)))
                if rng.random() < 0.2:
                    with torch.cuda.stream(other):
                        outside += random_work(torch, rng, steps=3, most=2)
                if rng.random() < 0.1:
                    del outside[: rng.randrange(len(outside) + 1)]
                    torch.cuda.empty_cache()
        graphs.append((graph, held))
        graph = held = None
        outside += random_work(torch, rng, steps=20)
        del outside[:4]
        if rng.random() < 0.5:
            graphs.pop(rng.randrange(len(graphs)))
        if rng.random() < 0.5:
            torch.cuda.empty_cache()


def mempools(torch, rng):
    """Three MemPools in turn; some are destroyed before the end and their memory released."""
    pools = [torch.cuda.MemPool() for _ in range(3)]
    held = [[] for _ in range(4)]
    for step in range(50):
        which = rng.randrange(4)
        if which < len(pools):
            with torch.cuda.use_mem_pool(pools[which]):
                held[which] += random_work(torch, rng, steps=12, most=3)
        else:
            held[3] += random_work(torch, rng, steps=12, most=3)
        for tensors in held:
            del tensors[: rng.randint(0, len(tensors))]
        if step in (20, 35):
            held[len(pools) - 1].clear()
            torch.cuda.synchronize()
            pools.pop()
            gc.collect()
            torch.cuda.empty_cache()
    torch.cuda.empty_cache()


def mixed(torch, rng):
    """MemPools and graphs that begin and end, several streams, and empty_cache, in random order."""
    streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    outside, pools, graphs = [], [], []

    def work(held, steps):
        for _ in range(steps):
            held.append(buffer(torch, 2 ** rng.uniform(8, 25)))
            if rng.random() < 0.2:
                held[-1].record_stream(rng.choice(streams))
            while len(held) > 6:
                held.pop(rng.randrange(len(held)))

    def capture():
        graph, held = torch.cuda.CUDAGraph(), []
        shared = rng.choice(graphs)[0].pool() if graphs and rng.random() < 0.3 else None
        with torch.cuda.graph(graph, pool=shared, stream=streams[1]):
            for _ in range(15):
                held.append(buffer(torch, 2 ** rng.uniform(8, 25)).zero_())
                while len(held) > 4:
                    held.pop(rng.randrange(len(held)))
        graphs.append([graph, held])

    for _ in range(70):
        draw = rng.random()
        if draw < 0.08 and len(pools) < 4:
            pools.append([torch.cuda.MemPool(), []])
        elif draw < 0.45 and pools:
            pool, held = rng.choice(pools)
            with torch.cuda.stream(rng.choice(streams)), torch.cuda.use_mem_pool(pool):
                work(held, rng.randint(1, 12))
        elif draw < 0.52 and pools:
            # Its tensors may live on.
            _, held = pools.pop(rng.randrange(len(pools)))
            pool = None
            del _
            if rng.random() < 0.5:
                outside += held
            del held
        elif draw < 0.60 and len(graphs) < 4:
            torch.cuda.synchronize()
            capture()
        elif draw < 0.64 and graphs:
            torch.cuda.synchronize()
            graph, held = graphs.pop(rng.randrange(len(graphs)))
            if rng.random() < 0.5:
                outside += held
            del graph, held
        elif draw < 0.70:
            torch.cuda.empty_cache()
        elif draw < 0.75 and pools:
            rng.choice(pools)[1].clear()
        elif draw < 0.80 and len(outside) > 6:
            del outside[: rng.randrange(len(outside))]
        else:
            with torch.cuda.stream(rng.choice(streams)):
                work(outside, rng.randint(1, 20))
    if rng.random() < 0.5:
        pool = held = None
        graphs.clear()
        while pools:
            pools.pop()
        torch.cuda.empty_cache()


def devices(torch, rng):
    """A thread per device, with its own streams and copies to and from the others; memory of one freed by another."""
    count = torch.cuda.device_count()
    shared, lock = [buffer(torch, MIB).to(f"cuda:{device}") for device in range(count)], threading.Lock()

    def work(device, seed):
        own = random.Random(seed)
        held = []
        torch.cuda.set_device(device)
        streams = [torch.cuda.Stream() for _ in range(2)]
        for step in range(400):
            stream = own.choice(streams)
            with torch.cuda.stream(stream):
                tensor = buffer(torch, 2 ** own.uniform(8, 25)).zero_()
                if own.random() < 0.3:
                    tensor = tensor.to(f"cuda:{own.randrange(count)}", non_blocking=True)
                    stream.synchronize()  # pending copies must not coincide with a cudaFree by the other thread
            held.append(tensor)
            if own.random() < 0.2:
                with lock:
                    shared.append(held.pop(own.randrange(len(held))))
                    if len(shared) > 10:
                        held.append(shared.pop(own.randrange(len(shared))))
            while len(held) > 15:
                held.pop(own.randrange(len(held)))
            if step % 150 == 149:
                with lock:
                    torch.cuda.empty_cache()

    workers = [threading.Thread(target=work, args=(device, rng.random())) for device in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if rng.random() < 0.5:
        shared.clear()


def peers(torch, rng):
    """One thread that uses all devices in turn: a model in parts, and MemPools and limits on each."""
    count = torch.cuda.device_count()
    for device in range(count):
        torch.cuda.set_per_process_memory_fraction((1 << 30) / torch.cuda.get_device_properties(device).total_memory, device)
    pools = []
    for device in range(count):
        with torch.cuda.device(device):
            pools.append([torch.cuda.MemPool() for _ in range(2)])
    held = []
    for step in range(300):
        device = rng.randrange(count)
        with torch.cuda.device(device):
            try:
                if rng.random() < 0.2:
                    with torch.cuda.use_mem_pool(rng.choice(pools[device]), device):
                        held.append(buffer(torch, 2 ** rng.uniform(8, 25)))
                else:
                    held.append(buffer(torch, 2 ** rng.uniform(8, 27)))
                if rng.random() < 0.3:
                    held.append(held[rng.randrange(len(held))].to(f"cuda:{rng.randrange(count)}"))
            except torch.cuda.OutOfMemoryError:
                del held[: len(held) // 2]
        while len(held) > 25:
            held.pop(rng.randrange(len(held)))
        if step in (120, 220):
            torch.cuda.empty_cache()


def borrow(torch, rng):
    """A MemPool that lends its free memory when the default pool runs out."""
    limit(torch, 1 << 30)
    pool = torch.cuda.MemPool(use_on_oom=True)
    with torch.cuda.use_mem_pool(pool):
        inside = [buffer(torch, 2 ** rng.uniform(22, 26)) for _ in range(16)]
    del inside[::2]
    held = []
    for _ in range(300):
        try:
            held.append(buffer(torch, 2 ** rng.uniform(16, 26)))
        except torch.cuda.OutOfMemoryError:
            del held[: len(held) // 2]
        if held and rng.random() < 0.4:
            held.pop(rng.randrange(len(held)))


def pinned(torch, rng):
    """Pinned host memory: copies on several streams, graphs that hold some, emptied caches, and buffers pinned
    directly."""
    import ctypes

    streams = [torch.cuda.Stream() for _ in range(3)]
    device = buffer(torch, 64 * MIB)
    held, graphs, registered = [], [], []

    def host(largest):
        return torch.empty(int(2 ** rng.uniform(4, largest)), dtype=torch.uint8, pin_memory=True)

    for step in range(600):
        held.append(host(26))
        if rng.random() < 0.5:
            with torch.cuda.stream(rng.choice(streams)):
                device[: held[-1].numel()].copy_(held[-1], non_blocking=True)
        while len(held) > 30:
            held.pop(rng.randrange(len(held)))
        if step % 150 == 120:
            torch.cuda.synchronize()
            graph, inside = torch.cuda.CUDAGraph(), []
            with torch.cuda.graph(graph, stream=streams[0]):
                for _ in range(12):
                    inside.append(host(20))
                    del inside[: rng.randint(0, 1)]
            graphs.append((graph, inside))
        if graphs and rng.random() < 0.01:
            del graphs[rng.randrange(len(graphs))]
        if rng.random() < 0.02:
            registered.append(ctypes.create_string_buffer(int(2 ** rng.uniform(8, 20))))
            torch.cuda.cudart().cudaHostRegister(ctypes.addressof(registered[-1]), len(registered[-1]), 0)
        if registered and rng.random() < 0.02:
            torch.cuda.cudart().cudaHostUnregister(ctypes.addressof(registered.pop()))
        if rng.random() < 0.02:
            torch._C._host_emptyCache()
    for memory in registered:
        torch.cuda.cudart().cudaHostUnregister(ctypes.addressof(memory))


def unsplit(torch, rng):
    """MemPools that never split their blocks, next to one that does, on two streams; one of them ends before the
    rest."""
    streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
    pools = [torch.cuda.MemPool(no_split=no_split) for no_split in (True, True, False)]
    held = [[] for _ in range(4)]
    for step in range(60):
        which = rng.randrange(4)
        with torch.cuda.stream(rng.choice(streams)):
            if which < len(pools):
                with torch.cuda.use_mem_pool(pools[which]):
                    held[which] += random_work(torch, rng, steps=8, most=3)
            else:
                held[3] += random_work(torch, rng, steps=8, most=3)
        for tensors in held:
            del tensors[: rng.randint(0, len(tensors))]
        if step == 40:
            held.pop(0), pools.pop(0)
            held.insert(2, [])
            gc.collect()
        if rng.random() < 0.05:
            torch.cuda.empty_cache()


def attention_model(torch, width, layers, causal_length=None):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x, cache=None):
            batch, length, _ = x.shape
            q, k, v = self.joint(self.before(x)).view(batch, length, 3, width // 64, 64).permute(2, 0, 3, 1, 4)
            if cache:
                k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
            scores = (q @ k.transpose(-1, -2) / 8).softmax(-1)
            x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, length, width))
            return x + self.narrow(nn.functional.gelu(self.wide(self.after(x)))), (k, v)

    torch.manual_seed(0)
    return nn.ModuleList([Block() for _ in range(layers)]).cuda()


def transformer(torch, rng):
    """Training of an encoder whose batches vary in size and length."""
    model, head = attention_model(torch, 768, 6), torch.nn.Linear(768, 8192).cuda()
    embedding = torch.nn.Embedding(8192, 768).cuda()
    parameters = [p for m in (model, head, embedding) for p in m.parameters()]
    optimizer = torch.optim.AdamW(parameters)
    for _ in range(30):
        with torch.profiler.record_function("step"):
            tokens = torch.randint(0, 8192, (rng.randint(2, 16), rng.randint(50, 700)), device="cuda")
            x = embedding(tokens)
            for block in model:
                x, _ = block(x)
            loss = torch.nn.functional.cross_entropy(head(x).flatten(0, 1), tokens.flatten())
            del x
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


def convnet(torch, rng):
    """Training of a convolutional network on images of many sizes."""
    nn = torch.nn
    torch.manual_seed(0)
    layers, width = [], 3
    for i in range(9):
        wider = min(64 * 2 ** (i // 2), 512)
        layers += [nn.Conv2d(width, wider, 3, stride=1 + i % 2, padding=1), nn.BatchNorm2d(wider), nn.ReLU()]
        width = wider
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for step in range(40):
        with torch.profiler.record_function("step"):
            images = torch.randn(rng.randint(4, 24), 3, rng.randint(96, 384), rng.randint(96, 384), device="cuda")
            loss = model(images).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if step % 10 == 9:
                with torch.no_grad():
                    model(torch.randn(32, 3, 448, 448, device="cuda"))


def server(torch, rng):
    """A decoder that serves requests of various lengths, each with a growing key-value cache."""
    model = attention_model(torch, 1024, 4).half().eval()
    with torch.no_grad():
        running = []
        for _ in range(220):
            if len(running) < 10 and rng.random() < 0.35:
                x = torch.randn(rng.randint(1, 4), rng.randint(16, 900), 1024, device="cuda", dtype=torch.half)
                running.append([x, [None] * len(model), rng.randint(5, 60)])
            for request in running:
                x, caches, _ = request
                for i, block in enumerate(model):
                    x, caches[i] = block(x, caches[i])
                request[0] = x[:, -1:].clone()
                request[2] -= 1
            running = [request for request in running if request[2] > 0]


PROGRAMS = {f.__name__: f for f in (gpt, decode, streams, oom, threads, leak, churn, pressure, settings, captures,
                                    capture_streams, mempools, mixed, devices, peers, borrow, pinned, unsplit, emptied_captures,
                                    transformer, convnet, server)}
